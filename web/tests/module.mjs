// The module in node, as a worker of the page has it.
import { readFile } from "node:fs/promises";

export const load = async (path) => WebAssembly.compile(await readFile(path));

/** An instance; `answer` is given the events of controllers. */
export const instance = async (module, answer = () => ({})) => {
  let told;
  const text = (pointer, bytes) => new TextDecoder().decode(new Uint8Array(exports.memory.buffer, pointer, bytes));
  const page = {
    tell: (pointer, bytes) => told(JSON.parse(text(pointer, bytes))),
    event: (pointer, bytes, room, roomBytes) => {
      const event = JSON.parse(text(pointer, bytes));
      const put = (value) => new TextEncoder().encodeInto(JSON.stringify(value), new Uint8Array(exports.memory.buffer, room, roomBytes)).written;
      try {
        return put(answer(event) || {});
      } catch (error) {
        put({ message: String(error) });
        return -1;
      }
    },
  };
  const { exports } = await WebAssembly.instantiate(module, { page });
  /** The messages that answer a request, of which `heard` is told each at once. */
  const raw = (bytes, heard = () => {}) => {
    const messages = [];
    told = (message) => (messages.push(message), heard(message));
    // The room may make the memory grow.
    const room = exports.room(bytes.length);
    new Uint8Array(exports.memory.buffer, room, bytes.length).set(bytes);
    const status = exports.ask(bytes.length);
    return { status, messages };
  };
  const ask = (request, heard) => raw(new TextEncoder().encode(JSON.stringify(request)), heard);
  return { ask, raw, exports };
};
