// Workers, and a race over them.

/** How long a controller of the page may stay silent before its worker is ended. */
const PATIENCE_MS = 4000;

let started;
/** The module, compiled once, and the worker's text as a blob: the page's policy then holds in it. */
const ready = () => {
  started ??= Promise.all([
    compile(fetch("paceline.wasm")),
    fetch("worker.js").then((file) => file.text()).then((text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }))),
  ]);
  return started;
};
const compile = async (file) => {
  const answer = await file;
  if (!answer.ok) throw new Error(`paceline.wasm: ${answer.status} ${answer.statusText}; build it (make web)`);
  // A server may not know the type of the file.
  if (answer.headers.get("content-type") === "application/wasm") return WebAssembly.compileStreaming(answer);
  return WebAssembly.compile(await answer.arrayBuffer());
};

/** A worker with an instance of the module. */
export class Desk {
  #worker;
  #next = 0;
  #open = new Map();

  async start() {
    const [module, address] = await ready();
    this.#worker = new Worker(address, { type: "module" });
    this.#worker.onmessage = ({ data }) => {
      const request = this.#open.get(data.id);
      if (!request) return;
      request.beat();
      if (data.told) request.told(data.told);
      if (data.over) this.#close(data.id)?.done();
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail({ told: "fault", message: event.message, line: event.lineno || null });
    };
    this.#worker.postMessage({ module });
    return this;
  }

  /** Asks; `told` gets each message. With `own`, the address of a controller's text, silence ends the worker. */
  ask(request, { own, told = () => {} } = {}) {
    const id = (this.#next += 1);
    if (this.over) return Promise.resolve();
    return new Promise((done) => {
      let timer;
      const beat = () => {
        clearTimeout(timer);
        if (own) timer = setTimeout(() => this.#fail({ told: "fault", silent: true, line: null, message: `nothing came from it for ${PATIENCE_MS / 1000} s: a loop without end? It was stopped` }), PATIENCE_MS);
      };
      const end = () => { clearTimeout(timer); done(); };
      this.#open.set(id, { told, done: end, beat });
      beat();
      this.#worker.postMessage({ id, ask: request, own });
    });
  }

  /** The messages of a request. */
  async all(request, options) {
    const all = [];
    await this.ask(request, { ...options, told: (told) => all.push(told) });
    return all;
  }

  #close(id) {
    const request = this.#open.get(id);
    this.#open.delete(id);
    return request;
  }

  // What is open fails with this, and the worker is over.
  #fail(fault) {
    this.over = true;
    this.#worker.terminate();
    for (const [id, request] of this.#open) {
      request.told(fault);
      this.#close(id).done();
    }
  }

  end() {
    this.over = true;
    this.#worker.terminate();
    for (const id of [...this.#open.keys()]) this.#close(id).done();
  }
}

/** Desks without work, as promises. */
let idle = [];
/** Gives up the instances that wait: they know other controllers. */
export const forget = () => {
  for (const desk of idle) desk.then((one) => one.end());
  idle = [];
};
const cores = () => Math.max(1, Math.min(navigator.hardwareConcurrency || 2, 16));
/** A desk for each core, before a race asks. */
export const warm = () => { idle.push(...Array.from({ length: cores() }, () => new Desk().start())); };

/** Runs every contestant: the first run of each first, with its points; on `cancel()` nothing more is told. */
export class Race {
  #busy = new Set();
  #tasks = [];
  #on;

  constructor(request, contestants, runs, on) {
    this.#on = on;
    this.total = contestants.length * runs;
    this.over = 0;
    for (let run = 1; run <= runs; run += 1) {
      contestants.forEach((contestant, index) => this.#tasks.push({ contestant, index, run, request }));
    }
    /** What is told of each run, by contestant. */
    this.records = contestants.map(() => Array(runs).fill(null));
  }

  async go() {
    await Promise.all(Array.from({ length: Math.min(cores(), this.total) }, () => this.#work()));
    return !this.cancelled;
  }

  async #work() {
    let desk;
    while (this.#tasks.length && !this.cancelled) {
      if (!desk || desk.over) {
        desk = await (idle.pop() ?? new Desk().start());
        this.#busy.add(desk);
        if (this.cancelled) return desk.end();
      }
      const task = this.#tasks.shift();
      if (task) await this.#run(desk, task);
    }
    this.#busy.delete(desk);
    if (desk && !desk.over) idle.push(Promise.resolve(desk));
    return undefined;
  }

  async #run(desk, { contestant, index, run, request }) {
    const { own, ...rest } = request;
    const ask = { ...rest, ask: "run", contestant, run, moving: run === 1, report: true };
    await desk.ask(ask, {
      own,
      told: (told) => {
        if (this.cancelled) return;
        if (told.told === "points") this.#on.points?.(index, told);
        else if (told.told === "record") {
          this.records[index][run - 1] = told;
          this.#on.record?.(index, run, told.line);
        } else if (told.told === "fault" || told.told === "error") {
          if (told.trap) desk.end();
          this.#on.fault?.(contestant, run, told);
        }
      },
    });
    if (this.cancelled) return;
    this.over += 1;
    this.#on.progress?.(this.over, this.total);
  }

  cancel() {
    this.cancelled = true;
    for (const desk of this.#busy) desk.end();
  }
}
