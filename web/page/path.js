// The path and the flows by sliders and words. Each control shows a key of the scenario's text and changes it there; what a control
// cannot say stays in the text, and the control says so.

import { $, make } from "./dom.js";
import { append, read, remove, set } from "./toml.js";
import { kilobytes, mbps, milliseconds, queue, queueText, rate, size, time } from "./units.js";

const RATES = [0.5, 1, 2, 3, 5, 8, 10, 12, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500, 1000];
const DELAYS = [0, 1, 2, 5, 7.5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300];
const TARGETS = [0.5, 1, 2, 5, 10, 15, 20, 30, 50, 100];
const LOSSES = [0, 0.01, 0.03, 0.1, 0.3, 0.5, 1, 2, 3, 5, 10, 20];
const JITTERS = [0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50];
const STARTS = [0, 100, 500, 1000, 2000, 3000, 5000, 10_000, 15_000, 20_000, 30_000];
const SECONDS = [1, 2, 3, 4, 5, 8, 10, 15, 20, 30, 45, 60, 90, 120, 300];
const RUNS = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30];
const COUNTS = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20];
const ms = { from: milliseconds, to: time, says: (number) => `${number} ms` };
const number = (unit) => ({ from: (value) => (Number.isFinite(value) ? value : undefined), to: (value) => value, says: (value) => `${value}${unit}` });

// The length of a drop-tail queue in the units that scenarios know, and of the others what sets their delay.
const LENGTHS = {
  bdp: { name: "bandwidth-delay products", steps: [0.1, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24], from: Number, to: String, says: (value) => `${value} BDP` },
  packets: { name: "packets", steps: [1, 5, 10, 20, 40, 60, 100, 200, 300, 500, 1000, 2000], from: Number, to: String, says: (value) => `${value} packets` },
  bytes: { name: "bytes", steps: [10, 30, 60, 100, 200, 500, 1000, 2000, 5000], from: kilobytes, to: size, says: (value) => (value >= 1000 ? `${value / 1000} MB` : `${value} kB`) },
  time: { name: "time", steps: [1, 5, 10, 20, 40, 80, 150, 200, 300, 500, 1000], ...ms },
};
const QUEUES = {
  droptail: { says: "Drop-tail", length: true },
  drophead: { says: "Drop-head", length: true },
  codel: { says: "CoDel", key: "target", usual: 5 },
  fq_codel: { says: "FQ-CoDel", key: "target", usual: 5 },
  fq: { says: "Fair queue (no AQM)" },
  pie: { says: "PIE", key: "target", usual: 15 },
  red: { says: "RED" },
  step: { says: "Step marking (DCTCP)", key: "threshold", usual: 1, first: "threshold=1ms" },
  dualpi2: { says: "DualPI2 (L4S)", key: "target", usual: 15 },
  infinite: { says: "Without a limit" },
};
const PHYS = ["ht20-1ss-mcs7", "ht40-2ss-mcs7", "vht40-1ss-mcs7", "vht80-1ss-mcs9", "vht80-2ss-mcs9", "vht160-2ss-mcs9"];
const CAPACITIES = ["rate", "trace", "wifi", "schedule", "bucket"];

/** Draws the path's controls into `element`, those of flows and runs into `below`; `changed(text)` gets the text after each change. `traces()` are paths to choose from. */
export class Path {
  #link = "";
  #flow = 0;

  constructor(element, below, { traces, changed }) {
    Object.assign(this, { element, below, traces, changed });
    // While a slider moves it stays; then all is drawn anew, since one key may decide about others.
    for (const part of [element, below]) part.addEventListener("change", () => this.show(this.text));
  }

  show(text) {
    this.text = text;
    this.scenario = read(text);
    const links = this.scenario.names("links");
    this.links = links.length ? links.map((name) => `links.${name}`) : ["down"];
    if (!this.links.includes(this.#link)) this.#link = this.#narrowest();
    this.#flow = Math.min(this.#flow, Math.max(0, this.scenario.count("flows") - 1));
    const open = document.activeElement?.id;
    this.element.replaceChildren(this.#path());
    this.below.replaceChildren(this.#flows(), this.#runs());
    // A control that is being moved was drawn anew: it keeps the focus.
    if (open && document.activeElement?.id !== open) $(open)?.focus();
  }

  /** Takes this trace for the capacity of the link that is shown. */
  use(trace) {
    this.#setCapacity(this.#link, `trace ${trace}`);
    this.#put(this.text);
  }

  #narrowest() {
    const rates = this.links.map((link) => mbps(this.scenario.get(`${link}.rate`)) ?? Infinity);
    return this.links[rates.indexOf(Math.min(...rates))];
  }

  #edit(...steps) {
    let { text } = this;
    for (const [path, value] of steps) text = value === undefined ? remove(text, path) : set(text, path, value);
    this.text = text;
    this.changed(text);
  }

  #put(text) {
    this.show(text);
    this.changed(text);
  }

  // A slider over some values of a key; the value of the text is one of them, whatever it is.
  #slider(id, label, steps, { from, to, says }, path, usual, write = (value) => this.#edit([path, to(value)])) {
    const raw = this.scenario.get(path);
    return this.#range(id, label, steps, raw === undefined ? usual : from(raw), raw, says, write);
  }

  #range(id, label, steps, value, raw, says, write) {
    const known = value !== undefined && !Number.isNaN(value);
    const all = known && !steps.includes(value) ? [...steps, value].sort((a, b) => a - b) : steps;
    const words = known ? says(value) : `${typeof raw === "object" ? "as" : raw} in the text`;
    const output = make("output", { for: id }, words);
    const input = make("input", {
      type: "range", id, min: 0, max: all.length - 1, step: 1, value: known ? all.indexOf(value) : 0, "aria-valuetext": words,
      oninput: () => {
        output.textContent = says(all[input.value]);
        input.setAttribute("aria-valuetext", output.textContent);
        write(all[input.value]);
      },
    });
    return make("div", { class: known ? "control" : "control unsaid" }, make("label", { for: id }, label), output, input);
  }

  #select(id, label, options, value, write) {
    const select = make("select", { id, onchange: () => write(select.value) }, ...options.map(([key, words]) => make("option", { value: key, selected: key === value }, words)));
    return make("div", { class: "control choice" }, make("label", { for: id }, label), select);
  }

  #path() {
    const link = this.#link;
    const parts = [make("h2", {}, "Path")];
    if (this.links.length > 1) {
      parts.push(this.#select("link", "Link", this.links.map((name) => [name, name.slice(6)]), link, (name) => { this.#link = name; }));
    }
    parts.push(...this.#capacity(link));
    const back = this.scenario.has("up.delay") ? ["up"] : this.scenario.has(`${link}.back.delay`) ? [`${link}.back`] : [];
    parts.push(
      this.#slider("delay", "Delay, each way", DELAYS, ms, `${link}.delay`, 0, (value) => this.#edit(...[link, ...back].map((way) => [`${way}.delay`, time(value)]))),
      ...this.#queue(link),
      this.#slider("loss", "Random loss", LOSSES, { from: (share) => (typeof share === "number" ? Number((share * 100).toPrecision(6)) : undefined), to: (percent) => Number((percent / 100).toPrecision(6)), says: (percent) => `${percent} %` }, `${link}.loss`, 0),
      this.#jitter(link),
      this.#select("marks", "ECN marks", [["keep", "kept"], ["bleach", "ECN is cleared"], ["forget", "marks are lost"]], this.scenario.get(`${link}.marks`) ?? "keep",
        (value) => this.#edit([`${link}.marks`, value === "keep" ? undefined : value])),
    );
    return make("fieldset", {}, ...parts);
  }

  #capacity(link) {
    const { scenario } = this;
    const kind = CAPACITIES.find((key) => scenario.has(`${link}.${key}`)) ?? "none";
    const trace = scenario.get(`${link}.trace`);
    const traces = [...new Set([...this.traces(), ...(trace ? [trace] : [])])];
    const options = [["rate", "constant rate"], ...traces.map((path) => [`trace ${path}`, `trace ${path.split("/").at(-1)}`]), ["wifi", "Wi-Fi"]];
    if (!["rate", "trace", "wifi"].includes(kind)) options.push([kind, kind === "none" ? "without a limit" : "as in the text"]);
    const parts = [this.#select("capacity", "Capacity", options, kind === "trace" ? `trace ${trace}` : kind, (chosen) => this.#setCapacity(link, chosen))];
    if (kind === "rate") parts.push(this.#slider("rate", "Rate", RATES, { from: mbps, to: rate, says: rate }, `${link}.rate`));
    if (kind === "wifi") {
      const phy = scenario.get(`${link}.wifi.phy`);
      const ways = this.#wifiWays(link);
      parts.push(
        this.#select("phy", "Wi-Fi", [...new Set([...PHYS, phy])].map((name) => [name, name]), phy, (name) => this.#edit(...ways.map((way) => [`${way}.wifi.phy`, name]))),
        this.#slider("competitors", "Stations that always send", [0, 1, 2, 3, 5, 10, 20], number(""), `${link}.wifi.competitors`, 0, (count) => this.#edit(...ways.map((way) => [`${way}.wifi.competitors`, count]))),
      );
    }
    return parts;
  }

  // In the short form both directions share the medium.
  #wifiWays(link) {
    return link === "down" ? ["down", "up"] : [link];
  }

  #setCapacity(link, chosen) {
    const [kind, path] = chosen.split(/ (.*)/s);
    const ways = kind === "wifi" || this.scenario.has(`${link}.wifi`) ? this.#wifiWays(link) : [link];
    const steps = [];
    for (const way of ways) {
      const mine = way === link;
      if (kind === "wifi") steps.push([`${way}.wifi`, { phy: "vht80-2ss-mcs9" }]);
      else if (mine) steps.push(kind === "rate" ? [`${way}.rate`, "20 Mbit/s"] : [`${way}.trace`, path]);
      for (const key of [...CAPACITIES, "trace_start", "light_trace", "light_below", "light_after"]) {
        if (key !== kind && this.scenario.has(`${way}.${key}`) && (mine || key === "wifi" || kind === "wifi")) steps.push([`${way}.${key}`, undefined]);
      }
    }
    this.#edit(...steps);
  }

  #queue(link) {
    const path = `${link}.queue`;
    const raw = this.scenario.get(path);
    const wifi = this.scenario.has(`${link}.wifi`);
    const now = queue(raw ?? (wifi ? "droptail:packets=1000" : "infinite"));
    const known = QUEUES[now.name];
    const write = (name, keys) => this.#edit([path, queueText({ name, keys })]);
    const options = Object.entries(QUEUES).map(([name, { says }]) => [name, says]);
    const parts = [this.#select("queue", "Queue", known ? options : [...options, [now.name, "as in the text"]], now.name, (name) => {
      const next = QUEUES[name];
      if (next?.length) write(name, known?.length ? now.keys : new Map([["bdp", "2"]]));
      else this.#edit([path, next?.first ? `${name}:${next.first}` : name]);
    })];
    if (known?.length) {
      const unit = Object.keys(LENGTHS).find((key) => now.keys.has(key)) ?? "bdp";
      const { steps, from, to, says } = LENGTHS[unit];
      const units = Object.entries(LENGTHS).filter(([key]) => now.name === "droptail" || key !== "time").map(([key, { name }]) => [key, name]);
      parts.push(
        this.#range("length", "Length", steps, from(now.keys.get(unit) ?? ""), raw, says, (value) => write(now.name, new Map([[unit, to(value)]]))),
        this.#select("unit", "Counted in", units, unit, (key) => write(now.name, new Map([[key, LENGTHS[key].to(LENGTHS[key].steps[3])]]))),
      );
    } else if (known?.key) {
      const value = now.keys.has(known.key) ? milliseconds(now.keys.get(known.key)) : known.usual;
      parts.push(this.#range("length", known.key === "target" ? "Target of its delay" : "Threshold", TARGETS, value, now.keys.get(known.key), ms.says, (value) => write(now.name, new Map([...now.keys, [known.key, time(value)]]))));
    }
    return parts;
  }

  #jitter(link) {
    const path = `${link}.jitter`;
    const raw = this.scenario.get(path);
    const value = raw === undefined ? 0 : milliseconds(raw?.max);
    return this.#range("jitter", "Jitter, up to", JITTERS, value, raw, ms.says, (value) => {
      if (value === 0) this.#edit([path, undefined]);
      else this.#edit(value !== undefined && raw?.max ? [`${path}.max`, time(value)] : [path, { max: time(value) }]);
    });
  }

  #flows() {
    const { scenario } = this;
    const count = scenario.count("flows");
    const at = `flows.${this.#flow}`;
    const who = (index) => {
      const one = scenario.get(`flows.${index}.contestant`) ?? "each";
      return one === "each" ? "the contestant" : one;
    };
    const several = scenario.get(`${at}.count`) ?? 1;
    const add = () => {
      const first = Object.fromEntries(["from", "to"].map((key) => [key, scenario.get(`flows.0.${key}`)]).filter(([, node]) => node));
      this.#flow = Math.max(count, 1);
      const text = count ? this.text : append(this.text, "flows", {});
      this.#put(append(text, "flows", { ...first, start: "5s" }));
    };
    const fixed = scenario.get(`${at}.contestant`);
    return make("fieldset", {}, make("h2", {}, "Flows"),
      count > 1 ? this.#select("flow", "Flow", Array.from({ length: count }, (_, i) => [String(i), `${i + 1}: ${who(i)}`]), String(this.#flow), (index) => { this.#flow = Number(index); }) : null,
      count > 1 || fixed ? this.#select("who", "Whose", [...new Set(["each", "cubic@tcp", "reno@tcp", "bbr@tcp", "prague@tcp", ...(fixed ? [fixed] : [])])].map((name) => [name, name === "each" ? "the contestant's" : `always ${name}`]), fixed ?? "each",
        (name) => this.#edit([`${at}.contestant`, name === "each" ? undefined : name])) : null,
      this.#slider("count", "How many", COUNTS, number(""), `${at}.count`, 1),
      several > 1 ? this.#slider("stagger", "One starts after the other", STARTS, ms, `${at}.stagger`, 0) : null,
      this.#slider("start", "Start", STARTS, { ...ms, says: (value) => `${value / 1000} s` }, `${at}.start`, 0),
      this.#slider("extra", "Its way is longer by", DELAYS, { ...ms, says: (value) => `${value} ms each way` }, `${at}.extra_delay`, 0),
      make("p", { class: "buttons" }, make("button", { type: "button", id: "add-flow", onclick: add }, "Add a flow"),
        count > 1 ? make("button", { type: "button", id: "remove-flow", onclick: () => this.#put(remove(this.text, at)) }, "Remove this one") : null));
  }

  #runs() {
    const seed = make("input", { type: "number", id: "seed", min: 0, max: Number.MAX_SAFE_INTEGER, value: this.scenario.get("seed") ?? 1, onchange: () => this.#edit(["seed", Math.max(0, Math.trunc(Number(seed.value) || 0))]) });
    return make("fieldset", {}, make("h2", {}, "Runs"),
      this.#slider("seconds", "Simulated time", SECONDS, number(" s"), "seconds", 60),
      this.#slider("runs", "Runs of each", RUNS, number(""), "runs", 10),
      make("div", { class: "control choice" }, make("label", { for: "seed" }, "Seed"), seed));
  }
}
