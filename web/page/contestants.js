// Who races: the list of the scenario, and a form for the one that is chosen, made from the registry.

import { $, make, swatch } from "./dom.js";
import { read, set } from "./toml.js";

/** `copa:delta=0.1,mode=default@udp` taken apart, and together again. */
const parse = (text) => {
  const [front, via = "tcp"] = text.split(/@(.*)/s);
  const [name, rest] = front.split(/:(.*)/s);
  const params = new Map((rest ? rest.split(",") : []).map((part) => part.split(/=(.*)/s).slice(0, 2)));
  return { name, params, via };
};
const format = ({ name, params, via }) => {
  const parts = [...params].map(([key, value]) => `${key}=${value}`);
  return `${name}${parts.length ? `:${parts.join(",")}` : ""}@${via}`;
};

export class Contestants {
  #chosen = 0;

  /** `registry()` is what the module knows, with the page's own controllers; `looks()` are the classes of the list. */
  constructor(element, { registry, looks, changed }) {
    Object.assign(this, { element, registry, looks, changed });
  }

  show(text) {
    this.text = text;
    const list = read(text).get("contestants");
    this.list = Array.isArray(list) ? list.map(String) : [];
    this.#chosen = Math.min(this.#chosen, Math.max(0, this.list.length - 1));
    const looks = this.looks(this.list);
    const open = document.activeElement?.id;
    const rows = this.list.map((name, index) => make("span", { class: `one ${looks[index] ?? ""}` },
      make("button", { type: "button", id: `contestant-${index}`, "aria-pressed": String(index === this.#chosen), onclick: () => { this.#chosen = index; this.show(this.text); } }, swatch(), name),
      this.list.length > 1 ? make("button", { type: "button", class: "only", "aria-label": `remove ${name}`, title: "remove", onclick: () => this.#put(this.list.filter((_, i) => i !== index)) }, "×") : null));
    this.element.replaceChildren(make("h2", {}, "Contestants"), make("div", { class: "list" }, ...rows,
      make("button", { type: "button", id: "add-contestant", onclick: () => this.#add() }, "Add")),
    this.list.length ? this.#form() : "");
    if (open && document.activeElement?.id !== open) $(open)?.focus();
  }

  #put(list) {
    const text = set(this.text, "contestants", list);
    this.show(text);
    this.changed(text);
  }

  #add() {
    const unused = this.registry().controllers.find(({ name }) => !this.list.some((one) => parse(one).name === name));
    const via = unused?.vias.includes("tcp") ? "tcp" : (unused?.vias[0] ?? "tcp");
    this.#chosen = this.list.length;
    this.#put([...this.list, `${unused?.name ?? "cubic"}@${via}`]);
    this.element.querySelector("#controller")?.focus();
  }

  #replace(contestant) {
    this.#put(this.list.map((old, index) => (index === this.#chosen ? format(contestant) : old)));
  }

  #form() {
    const { controllers, datapaths, start_ups: startUps = [] } = this.registry();
    const now = parse(this.list[this.#chosen]);
    const known = controllers.find(({ name }) => name === now.name);
    const simulated = new Set(datapaths.filter(({ simulated = true }) => simulated).map(({ name }) => name));
    const vias = [...new Set([...(known?.vias ?? []).filter((via) => simulated.has(via)), now.via])];
    const choice = (id, label, options, value, write) => {
      const select = make("select", { id, onchange: () => write(select.value) }, ...options.map((option) => make("option", { value: option, selected: option === value }, option)));
      return make("div", { class: "control choice" }, make("label", { for: id }, label), select);
    };
    const names = controllers.map(({ name }) => name);
    const start = known?.params.find(({ name }) => name === "start");
    const put = (name, value, usual) => {
      const params = new Map(now.params);
      if (value === "" || value === usual) params.delete(name);
      else params.set(name, value);
      this.#replace({ ...now, params });
    };
    const startNow = now.params.get("start") ?? start?.default;
    const rest = (known?.params ?? []).filter(({ name }) => name !== "start");
    const open = this.element.querySelector("details")?.open;
    return make("div", { class: "form" },
      choice("controller", "Controller", names.includes(now.name) ? names : [now.name, ...names], now.name, (name) => {
        const next = controllers.find((one) => one.name === name);
        this.#replace({ name, params: new Map(), via: next.vias.includes(now.via) ? now.via : next.vias.find((via) => simulated.has(via)) });
      }),
      make("p", { class: "note" }, known ? known.summary : `the registry has no ${now.name}`),
      choice("via", "Datapath", vias, now.via, (via) => this.#replace({ ...now, via })),
      start ? choice("start-up", "Start-up", start.choices, startNow, (value) => put("start", value, start.default)) : null,
      start ? make("p", { class: "note" }, startUps.find(({ name }) => name === startNow)?.summary ?? "") : null,
      rest.length ? make("details", { open }, make("summary", {}, `${rest.length} parameters`), ...rest.map((param) => this.#param(param, now.params.get(param.name), put))) : null);
  }

  #param({ name, unit, min, max, choices, default: usual }, value, put) {
    const id = `param-${name}`;
    const field = choices
      ? make("select", { id, onchange: () => put(name, field.value, usual) }, ...choices.map((one) => make("option", { value: one, selected: one === (value ?? usual) }, one)))
      : make("input", { id, type: "text", inputmode: "decimal", placeholder: usual, value: value ?? "", title: min === undefined ? undefined : `${min} to ${max}`, onchange: () => put(name, field.value.trim(), usual) });
    return make("div", { class: "control choice" }, make("label", { for: id }, name, make("small", {}, unit ?? "")), field);
  }
}
