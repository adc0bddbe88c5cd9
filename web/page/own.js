// A controller in JavaScript, and traces dropped onto the page. Neither leaves the browser.

/** The start of one's own: AIMD in 15 lines. */
export const AIMD = `// Window in bytes, times in nanoseconds, as in paceline's Python. Race it as aimd@tcp.
export class Aimd {
  static params = { beta: [0.5, 0.1, 0.9] };   // default, least, most
  constructor(env, { beta }) {
    this.mss = env.mss;
    this.beta = beta;
    this.window = 10 * env.mss;
  }
  on_ack(ack) {
    this.window += this.mss * ack.bytes / this.window;
  }
  on_loss(loss) {
    if (loss.new_episode) this.window *= this.beta;
  }
}
`;

/** The address under which workers import this text. It stays: a run may still ask for it. */
export const publish = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));

const MOST_BYTES = 32e6;
/** The traces among dropped files, by name, and what was refused, with the reason. */
export const readTraces = async (files) => {
  const traces = {};
  const refused = [];
  for (const file of files) {
    if (file.size > MOST_BYTES) refused.push(`${file.name}: ${file.size} bytes; at most ${MOST_BYTES} are read`);
    else {
      const text = await file.text();
      if (/^\s*\d+\s*$/m.test(text.slice(0, 200).split("\n")[0])) traces[file.name.replaceAll(/[^\w.-]+/g, "-")] = text;
      else refused.push(`${file.name}: line 1 should be a whole number of milliseconds (Mahimahi's format)`);
    }
  }
  return { traces, refused };
};

/**
 * Where a text has a syntax error, which a module that is imported does not say: a classic worker does, before anything of the text
 * runs. { message, line }, or undefined.
 */
export const syntaxFault = (text) => new Promise((done) => {
  const script = text.replaceAll(/^(\s*)export(\s+default)?(?=\s)/gm, (all, space) => space + " ".repeat(all.length - space.length));
  const address = URL.createObjectURL(new Blob([`throw 0;${script}`], { type: "text/javascript" }));
  const worker = new Worker(address);
  worker.onerror = (event) => {
    event.preventDefault();
    worker.terminate();
    URL.revokeObjectURL(address);
    done(/SyntaxError/.test(event.message) ? { message: event.message.replace(/^Uncaught /, ""), line: event.lineno } : undefined);
  };
});
