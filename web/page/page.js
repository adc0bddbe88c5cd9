// The page: its state is the scenario's text and the text of one's own controllers; everything else is made from them.

import { Contestants } from "./contestants.js";
import { $, make } from "./dom.js";
import { Editor } from "./editor.js";
import { AIMD, publish, readTraces, syntaxFault } from "./own.js";
import { Path } from "./path.js";
import { Picture } from "./picture.js";
import { presets } from "./presets.js";
import { Desk, Race, forget, warm } from "./race.js";
import { address, fromAddress } from "./share.js";
import { takeAlong } from "./along.js";
import { read, set } from "./toml.js";

const state = {
  text: "",
  /** The shipped scenario that the text began as: traces are found from there. */
  file: undefined,
  own: "",
  /** Controllers in the text of one's own: [{ name, params }]. */
  controllers: [],
  /** Dropped traces: { name: text }. */
  traces: {},
  about: null,
  plan: null,
  looks: new Map(),
  race: null,
  /** A controller came with a link: it runs when the person says so. */
  held: false,
  preset: null,
};

/** Answers everything but runs. */
let front;
const picture = new Picture($("picture"), $("legend"));
const say = (text) => { $("state").textContent = text; };

const scenario = new Editor($("scenario"), { changed: (text) => change(text, "text") });
const own = new Editor($("own-text"), { changed: () => ownChanged() });
const path = new Path($("path"), $("flows"), {
  traces: () => [...(state.about?.traces ?? []).map(beside), ...Object.keys(state.traces)],
  changed: (text) => change(text, "path"),
});
const contestants = new Contestants($("contestants"), {
  registry: () => registry(),
  looks: (list) => list.map((name) => state.looks.get(name) ?? ""),
  changed: (text) => change(text, "contestants"),
});

/** A shipped trace's path as the scenario's text names it, which may stand in a folder of `scenarios`. */
const beside = (path) => ((state.file?.split("/").length ?? 2) > 2 ? `../${path}` : path);

/** What every request has in common. */
const scenarioNow = () => ({ scenario: state.text, file: state.file, traces: state.traces, controllers: state.controllers });

/** The registry, and before it the page's own controllers. */
const registry = () => {
  const { controllers = [], datapaths = [], start_ups = [] } = state.about ?? {};
  const mine = state.controllers.map(({ name, params }) => ({
    name, summary: "yours, in JavaScript", vias: ["tcp", "udp", "alcc", "icn"],
    params: Object.entries(params).map(([key, [usual, min, max]]) => ({ name: key, unit: "", default: String(usual), min, max })),
  }));
  return { controllers: [...mine, ...controllers], datapaths, start_ups };
};

// Changes. The part of the page that made one is not drawn again.

let soon;
const change = (text, from = "") => {
  state.text = text;
  if (from !== "text") scenario.text = text;
  if (from !== "path") path.show(text);
  if (from !== "contestants") contestants.show(text);
  showSwitches();
  clearTimeout(soon);
  soon = setTimeout(settle, 120);
};

let round = 0;
/** The text has settled: is it a scenario, and may it run? */
const settle = async ({ run = $("auto").checked, keep = true } = {}) => {
  const now = (round += 1);
  // The module is not there yet; the start settles what there is then.
  if (!front) return;
  if (keep) address({ scenario: state.text, own: usesOwn() ? state.own : "" }).then((hash) => now === round && history.replaceState(null, "", `#${hash}`));
  if (state.held) {
    // Its text is not even read by the browser before.
    $("go").disabled = false;
    return say("This link brought a controller in JavaScript. Read it below, then press Race.");
  }
  const told = await front.all({ ask: "plan", ...scenarioNow() });
  if (now !== round) return;
  const error = told.find((one) => one.told === "error" || one.told === "fault");
  const plan = told.find((one) => one.told === "plan");
  state.plan = plan ?? null;
  scenario.say(error?.message, error?.line);
  $("go").disabled = !plan;
  if (!plan) return stop(`The scenario has a mistake${error?.line ? ` in line ${error.line}` : ""}: ${error?.message ?? ""}`);
  // The plan leaves out parameters that are as usual.
  const written = read(state.text).get("contestants") ?? [];
  plan.contestants.forEach((name, i) => [name, written[i]].forEach((one) => state.looks.set(one, plan.classes[i])));
  contestants.show(state.text);
  along.scenario(state.text);
  if (run) await race();
};

const usesOwn = () => state.held || state.controllers.some(({ name }) => (read(state.text).get("contestants") ?? []).some((one) => String(one).startsWith(`${name}@`) || String(one).startsWith(`${name}:`)));

// The race.

const stop = (words) => {
  state.race?.cancel();
  state.race = null;
  $("cancel").disabled = true;
  if (words) say(words);
};

const race = async () => {
  stop();
  const { plan } = state;
  const started = performance.now();
  const faults = [];
  picture.begin(plan);
  along.begin();
  own.say();
  const request = { ...scenarioNow(), own: usesOwn() ? state.address : undefined };
  const now = (state.race = new Race(request, plan.contestants, plan.runs, {
    points: (index, told) => picture.points(index, told),
    record: (index, run, line) => { picture.record(index, JSON.parse(line)); },
    fault: (contestant, run, told) => { faults.push({ contestant, run, ...told }); showFault(contestant, run, told); },
    progress: (over, total) => {
      $("progress").value = over / total;
      if (now === state.race) say(`${over} of ${total} runs`);
    },
  }));
  $("progress").value = 0;
  $("cancel").disabled = false;
  say(`0 of ${now.total} runs`);
  const whole = await now.go();
  if (now !== state.race) return;
  $("cancel").disabled = true;
  if (!whole) return;
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const [fault] = faults;
  say(fault ? `${faults.length} of ${now.total} runs failed: ${fault.contestant}, run ${fault.run}: ${fault.message}` : `${now.total} runs of ${plan.seconds} s in ${seconds} s.`);
  await along.over(now.records.flat().filter(Boolean), request);
};

const showFault = (contestant, run, told) => {
  const mine = state.controllers.some(({ name }) => contestant.startsWith(`${name}@`) || contestant.startsWith(`${name}:`));
  if (mine) own.say(`${contestant}, run ${run}${told.call ? `, ${told.call}` : ""}: ${told.message}`, told.line);
};

// One's own.

const ownChanged = () => {
  clearTimeout(soon);
  soon = setTimeout(async () => { if (await readOwn()) await settle(); }, 400);
};

/** Reads the controllers of the text; false if it has a fault, which is shown, or has changed meanwhile. */
const readOwn = async () => {
  clearTimeout(soon);
  const text = (state.own = own.text);
  state.held = false;
  state.address = publish(text);
  const desk = await new Desk().start();
  const told = await desk.all({ ask: "own" }, { own: state.address });
  desk.end();
  const found = told.find((one) => one.told === "own");
  let fault = told.find((one) => one.told === "fault");
  if (fault && !fault.line) fault = (await syntaxFault(text)) ?? fault;
  if (text !== own.text) return false;
  const controllers = found?.controllers ?? [];
  if (JSON.stringify(controllers) !== JSON.stringify(state.controllers)) {
    // An instance keeps what was registered with it.
    stop();
    forget();
    round += 1;
    front.end();
    front = await new Desk().start();
  }
  state.controllers = controllers;
  own.say(fault?.message, fault?.line);
  if (!fault && !state.controllers.length) own.say("it exports no class: a controller begins with `export class`");
  contestants.show(state.text);
  return !fault && state.controllers.length > 0;
};

const raceOwn = async () => {
  if (!(await readOwn())) return;
  const list = read(state.text).get("contestants") ?? [];
  const names = state.controllers.map(({ name }) => `${name}@tcp`).filter((name) => !list.includes(name));
  change(names.length ? set(state.text, "contestants", [...names, ...list]) : state.text);
  clearTimeout(soon);
  await settle({ run: true });
};

const takeTraces = async (files) => {
  const { traces, refused } = await readTraces(files);
  Object.assign(state.traces, traces);
  const names = Object.keys(traces);
  $("dropped").textContent = [...(names.length ? [`${names.join(", ")}: read, and kept in this page alone`] : []), ...refused].join("; ");
  if (names.length) path.use(names[0]);
};

// Lessons.

const showSwitches = () => {
  const { preset } = state;
  $("lesson").textContent = preset?.lesson ?? "";
  const found = read(state.text);
  const on = (edits) => edits.every(([place, value]) => found.get(place) === value);
  $("switches").replaceChildren(...(preset?.switches ?? []).map(([name, edits]) => make("button", {
    type: "button", "aria-pressed": String(on(edits)),
    onclick: () => {
      change(edits.reduce((text, [place, value]) => set(text, place, value), state.text));
      [...$("switches").children].find((button) => button.textContent === name)?.focus();
    },
  }, name)));
  [...$("presets").children].forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.id === preset?.id)));
};
const open = (preset) => {
  state.preset = preset;
  state.file = undefined;
  change(preset.scenario);
};

const along = takeAlong({ state, picture, ask: async (request) => (await front.all(request)).at(-1), say });

const start = async () => {
  const given = await fromAddress(location.hash);
  $("presets").replaceChildren(...presets.map((preset) => make("button", { type: "button", "data-id": preset.id, onclick: () => open(preset) }, preset.name)));
  own.text = AIMD;
  state.preset = presets.find(({ id }) => id === given?.preset) ?? (given?.scenario === undefined ? presets[0] : null);
  if (given?.own) {
    own.text = state.own = given.own;
    state.held = true;
  }
  state.text = scenario.text = given?.scenario ?? state.preset.scenario;
  state.preset ??= presets.find(({ scenario }) => read(scenario).get("name") === read(state.text).get("name")) ?? null;
  path.show(state.text);
  showSwitches();
  if (location.hash.length > 1 && !given) say("The address holds no race that can be read; this is the first lesson.");
  front = await new Desk().start();
  warm();
  const [about] = await front.all({ ask: "about" });
  if (about?.told !== "about") throw new Error(`The module does not answer: ${about?.message ?? "nothing was told"}`);
  state.about = about;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(state.about.style ?? "");
  document.adoptedStyleSheets = [sheet];
  $("shipped").replaceChildren(make("option", { value: "" }, "shipped scenarios"), ...state.about.scenarios.map(({ path }, i) => make("option", { value: i }, path.replace(/^scenarios\//, ""))));
  path.show(state.text);
  contestants.show(state.text);
  await settle({ run: true, keep: false });
  navigator.serviceWorker?.register("sw.js").catch(() => {});
};

$("go").addEventListener("click", async () => {
  if (state.held && !(await readOwn())) return;
  await settle({ run: true });
});
$("cancel").addEventListener("click", () => stop("Cancelled."));
$("controls").addEventListener("submit", (event) => event.preventDefault());
$("own-race").addEventListener("click", raceOwn);
$("shipped").addEventListener("change", ({ target }) => {
  if (target.value === "") return;
  state.preset = null;
  const { path, text } = state.about.scenarios[target.value];
  state.file = path;
  change(text);
});
$("trace-file").addEventListener("change", ({ target }) => takeTraces(target.files));
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  takeTraces(event.dataTransfer.files);
});
addEventListener("hashchange", () => location.reload());

start().catch((error) => say(error.message));
