// Controllers in JavaScript, and what the page does between them and the module.

/** AIMD. */
export class AIMD {
  static params = { beta: [0.5, 0.1, 0.9] };
  constructor(env, { beta }) {
    this.mss = env.mss;
    this.beta = beta;
    this.window = 10 * env.mss;
  }
  on_ack(ack) {
    this.window += (this.mss * ack.bytes) / this.window;
  }
  on_loss(loss) {
    if (loss.new_episode) this.window *= this.beta;
  }
}

const CALLS = ["on_sent", "on_ack", "on_loss", "on_timeout", "on_spurious", "on_cause", "on_restart", "on_app_limited", "on_telemetry", "on_mss", "on_tick", "on_start_end"];
const plain = (value) => (typeof value === "number" && !Number.isFinite(value) ? String(value) : (value ?? null));

/** What answers the module's events for these classes, by name. */
export const classes = (known) => {
  const objects = new Map();
  const answer = ({ id, call, controller, env, params, now, event, window }) => {
    if (call === "drop") return objects.delete(id) && {};
    if (call === "new") objects.set(id, new known[controller](env, params));
    const made = objects.get(id);
    if (call === "take_over") [made.window, made.ssthresh] = [window, window];
    const answered = CALLS.includes(call) ? made[call](event ?? now) : null;
    const said = Object.fromEntries(["window", "pacing_mbps", "gap", "next_tick", "ssthresh"].map((name) => [name, plain(made[name])]));
    return { ...said, answered: answered instanceof Promise ? "a Promise" : plain(answered), calls: CALLS.filter((name) => made[name]) };
  };
  return answer;
};

const after = (name, method) => class extends AIMD {
  constructor(env) {
    super(env, { beta: 0.5 });
  }
  static { this.prototype[name] = method; }
};

/** What goes wrong, in which class, and what is said of it. */
export const wrong = [
  ["NaN", after("on_ack", function () { this.window = NaN; }), /^on_ack: window is NaN; keep it finite$/],
  ["infinity", after("on_ack", function () { this.pacing_mbps = 1 / 0; }), /^on_ack: pacing_mbps is inf; keep it finite$/],
  ["negative", after("on_ack", function () { this.window = -1; }), /^on_ack: window is -1; make it bytes from 0 on$/],
  ["nothing", after("on_loss", function () { this.window = undefined; }), /^on_loss: window is null; make it a number of bytes$/],
  ["a text", after("on_ack", function () { this.window = "12"; }), /^on_ack: window is "12"; make it a number$/],
  ["no rate", after("on_ack", function () { this.pacing_mbps = 1e-12; }), /^on_ack: pacing_mbps is 1e-12, less than a byte per second/],
  ["an exception", after("on_ack", function () { this.nothing.at; }), /^on_ack: TypeError: Cannot read/],
  ["an exception as it is made", class { constructor() { throw new Error("no"); } }, /^new: Error: no$/],
  ["a Promise", after("on_loss", async function () {}), /^on_loss: answered a Promise/],
  ["a tick without a method", after("on_ack", function (ack) { this.next_tick = ack.now + 1e6; }), /^on_ack: next_tick is set, and the class has no on_tick/],
  ["a tick that never ends", class extends after("on_tick", function () {}) { on_ack(ack) { this.next_tick = ack.now + 1e6; } }, /^on_tick: asks for its next tick at \d+ ns, which is not after \d+; set next_tick/],
];
