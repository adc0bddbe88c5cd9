// One instance of the module in a worker: it answers one request after the other. It is started from a blob, so that the page's
// content security policy holds here as well: a controller of a visitor reaches no network. So it imports nothing but that controller.
//
// In: { module }, then { id, ask, own? } with the request of paceline-web, and the address of the controllers' text.
// Out: { id, told } for each message of the module, { id, alive } now and then while a controller of the page is asked, { id, over }.

let wasm;
let current;
let classes = {};
let beat = 0;
const now = performance.now.bind(performance);
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const text = (start, bytes) => decoder.decode(new Uint8Array(wasm.memory.buffer, start, bytes));
const tell = (told) => postMessage({ id: current, told });

// Two runs of one seed have to be equal.
const unsteady = (name) => () => { throw new Error(`${name} would make two runs differ; use what the events say, or env.seed`); };
Math.random = unsteady("Math.random");
Date.now = unsteady("Date.now");
performance.now = unsteady("performance.now");

// Where a fault is in the text of the controllers.
let own = "";
const lineOf = (thrown) => {
  const behind = own && String(thrown?.stack).split(own)[1];
  return Number(/^:(\d+)/.exec(behind ?? "")?.[1]) || null;
};
const fault = (thrown, controller) => ({
  told: "fault", controller, line: lineOf(thrown),
  message: thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : `it threw ${String(thrown)}`,
});

// What a controller says after each event; the module judges it. JSON has neither NaN nor infinities, so they come as text.
const plain = (value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : value ?? null);
const ANSWERS = ["window", "pacing_mbps", "gap", "next_tick", "ssthresh"];
const instances = new Map();
const answer = ({ id, call, controller, env, params, window, now: at, event }) => {
  if (call === "drop") return { answered: instances.delete(id) ? null : undefined };
  if (call === "new") {
    const made = new classes[controller](env, params);
    instances.set(id, made);
    return { ...said(made), calls: CALLS.filter((name) => typeof made[name] === "function") };
  }
  const made = instances.get(id);
  // A start-up is over, and this is what it found.
  if (call === "take_over") return said(Object.assign(made, { window, ssthresh: window }));
  const answered = made[call](event ?? at, at);
  return { ...said(made), answered: answered instanceof Promise ? "a Promise" : plain(answered) };
};
const said = (made) => Object.fromEntries(ANSWERS.map((name) => [name, plain(made[name])]));
const CALLS = ["on_ack", "on_sent", "on_loss", "on_timeout", "on_spurious", "on_cause", "on_restart", "on_app_limited", "on_telemetry", "on_mss", "on_tick", "on_start_end"];

const page = {
  tell: (start, bytes) => tell(JSON.parse(text(start, bytes))),
  event: (start, bytes, room, size) => {
    if (now() - beat > 500) {
      beat = now();
      postMessage({ id: current, alive: true });
    }
    let put;
    let status = 0;
    try {
      put = JSON.stringify(answer(JSON.parse(text(start, bytes))));
    } catch (thrown) {
      const { message, line } = fault(thrown);
      put = JSON.stringify({ message: message.slice(0, size / 4), line });
      status = -1;
    }
    const { written } = encoder.encodeInto(put, new Uint8Array(wasm.memory.buffer, room, size));
    return status || written;
  },
};

const load = async (address) => {
  own = address;
  classes = {};
  instances.clear();
  for (const [name, value] of Object.entries(await import(address))) {
    if (typeof value === "function") classes[name.toLowerCase()] = value;
  }
};
// Each exported class is a controller, by its name in small letters; `static params` has [default, least, most] of each.
const described = () => Object.entries(classes).map(([name, { params = {}, recovery = null, ecn = null }]) => ({ name, params, recovery, ecn }));

onmessage = async ({ data }) => {
  if (data.module) {
    wasm = (await WebAssembly.instantiate(data.module, { page })).exports;
    return;
  }
  current = data.id;
  beat = now();
  try {
    if (data.own) await load(data.own);
    if (data.ask.ask === "own") tell({ told: "own", controllers: described() });
    else {
      const request = encoder.encode(JSON.stringify(data.ask));
      const start = wasm.room(request.length);
      new Uint8Array(wasm.memory.buffer, start, request.length).set(request);
      wasm.ask(request.length);
    }
  } catch (thrown) {
    // A trap leaves the instance in no state to go on: the page ends the worker.
    tell({ ...fault(thrown), trap: thrown instanceof WebAssembly.RuntimeError });
  }
  postMessage({ id: data.id, over: true });
};
