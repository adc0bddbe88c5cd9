// Finds and changes values in the text of a TOML file, and leaves everything else as it is: comments, order, spaces.
// A place is a path such as `down.rate` or `flows.0.count`. Text that is not TOML gives what was found before the mistake; the
// module says what is wrong with it.

const BARE = /[^,\]}\s#]*/y;
const SPACE = /[ \t]*/y;
const GAP = /(?:\s|#[^\n]*)*/y;
const KEY = /"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+/y;

const match = (pattern, text, at) => {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? "";
};

class Stop extends Error {}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.values = new Map(); // path: { start, end, value, inline }
    this.tables = new Map([["", { at: 0, start: 0, end: 0 }]]); // path: where its next key goes
    this.lists = new Map(); // path of [[...]]: how many
  }

  skip(pattern) {
    this.at += match(pattern, this.text, this.at).length;
  }

  key() {
    const names = [];
    for (;;) {
      this.skip(SPACE);
      const name = match(KEY, this.text, this.at);
      if (!name) throw new Stop();
      this.at += name.length;
      names.push(/^["']/.test(name) ? name.slice(1, -1) : name);
      this.skip(SPACE);
      if (this.text[this.at] !== ".") return names;
      this.at += 1;
    }
  }

  string() {
    const { text, at } = this;
    const quote = text[at];
    const long = quote.repeat(3);
    const three = text.startsWith(long, at);
    const ends = three ? long : quote;
    let end = at + ends.length;
    while (!text.startsWith(ends, end)) {
      if (end >= text.length || (!three && text[end] === "\n")) throw new Stop();
      end += quote === '"' && text[end] === "\\" ? 2 : 1;
    }
    this.at = end + ends.length;
    const raw = text.slice(at + ends.length, end);
    return quote === '"' ? raw.replace(/\\(["\\])/g, "$1") : raw;
  }

  value(path, inline = false) {
    const start = this.at;
    const first = this.text[start];
    let value;
    if (first === '"' || first === "'") value = this.string();
    else if (first === "[") value = this.array(path);
    else if (first === "{") value = this.table(path);
    else {
      const word = match(BARE, this.text, start);
      if (!word) throw new Stop();
      this.at += word.length;
      const number = Number(word.replaceAll("_", ""));
      value = word === "true" || (word === "false" ? false : Number.isNaN(number) ? word : number);
    }
    this.values.set(path, { start, end: this.at, value, inline });
    return value;
  }

  array(path) {
    const all = [];
    this.at += 1;
    for (;;) {
      this.skip(GAP);
      if (this.text[this.at] === "]") break;
      all.push(this.value(`${path}.${all.length}`, true));
      this.skip(GAP);
      if (this.text[this.at] === ",") this.at += 1;
      else if (this.text[this.at] !== "]") throw new Stop();
    }
    this.at += 1;
    return all;
  }

  table(path) {
    const all = {};
    this.at += 1;
    for (;;) {
      this.skip(GAP);
      if (this.text[this.at] === "}") break;
      const names = this.key();
      if (this.text[this.at] !== "=") throw new Stop();
      this.at += 1;
      this.skip(GAP);
      all[names.join(".")] = this.value([path, ...names].join("."), true);
      this.skip(GAP);
      if (this.text[this.at] === ",") this.at += 1;
      else if (this.text[this.at] !== "}") throw new Stop();
    }
    this.tables.set(path, { at: this.at, inline: true, empty: !Object.keys(all).length });
    this.at += 1;
    return all;
  }

  // A header's path, with the number of the newest of each list on the way.
  header(list, names) {
    let path = "";
    names.forEach((name, i) => {
      path = path ? `${path}.${name}` : name;
      const last = i === names.length - 1;
      if (list && last) this.lists.set(path, (this.lists.get(path) ?? 0) + 1);
      if (this.lists.has(path)) path = `${path}.${this.lists.get(path) - 1}`;
    });
    return path;
  }

  read() {
    let table = "";
    for (;;) {
      this.skip(GAP);
      if (this.at >= this.text.length) return this;
      const start = this.at;
      if (this.text[start] === "[") {
        const list = this.text[start + 1] === "[";
        this.at += list ? 2 : 1;
        const names = this.key();
        this.at = this.lineEnd(this.at);
        table = this.header(list, names);
        this.tables.set(table, { at: this.at, start, end: this.at });
        continue;
      }
      const names = this.key();
      if (this.text[this.at] !== "=") throw new Stop();
      this.at += 1;
      this.skip(SPACE);
      const path = [table, ...names].filter((part) => part !== "").join(".");
      this.value(path);
      Object.assign(this.values.get(path), { from: start });
      this.at = this.lineEnd(this.at);
      const here = this.tables.get(table);
      here.at = here.end = this.at;
    }
  }

  // Behind the end of this line.
  lineEnd(at) {
    const end = this.text.indexOf("\n", at);
    return end < 0 ? this.text.length : end + 1;
  }
}

const reader = (text) => {
  const found = new Reader(text);
  try {
    return found.read();
  } catch (error) {
    if (error instanceof Stop) return found;
    throw error;
  }
};

const splice = (text, start, end, put) => text.slice(0, start) + put + text.slice(end);
const split = (path) => {
  const dot = path.lastIndexOf(".");
  return [path.slice(0, Math.max(dot, 0)), path.slice(dot + 1)];
};

/** A scenario's text as read: `get(path)`, `has(path)`, `names(path)` of the tables below it, `count(path)` of a list. */
export const read = (text) => {
  const { values, tables } = reader(text);
  const has = (path) => values.has(path) || tables.has(path);
  return {
    get: (path) => values.get(path)?.value,
    has,
    names: (path) => [...new Set([...tables.keys(), ...values.keys()]
      .filter((name) => name.startsWith(`${path}.`)).map((name) => name.slice(path.length + 1).split(".")[0]))],
    count: (path) => {
      let number = 0;
      while (has(`${path}.${number}`)) number += 1;
      return number;
    },
    line: (path) => {
      const found = values.get(path) ?? tables.get(path);
      return found ? text.slice(0, found.start ?? found.at).split("\n").length : undefined;
    },
  };
};

/** A value as TOML writes it. */
export const literal = (value) => {
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") return `{ ${Object.entries(value).map(([key, one]) => `${key} = ${literal(one)}`).join(", ")} }`;
  return String(value);
};

/** The text with this value at this place; the table is made where it is missing. */
export const set = (text, path, value) => {
  const { values, tables } = reader(text);
  const put = literal(value);
  const old = values.get(path);
  if (old) return splice(text, old.start, old.end, put);
  const [parent, key] = split(path);
  const table = tables.get(parent);
  if (table?.inline) return splice(text, text.slice(0, table.at).trimEnd().length, table.at, `${table.empty ? " " : ", "}${key} = ${put} `);
  if (table) {
    const newline = table.at > 0 && text[table.at - 1] !== "\n" ? "\n" : "";
    return splice(text, table.at, table.at, `${newline}${key} = ${put}\n`);
  }
  const [above, name] = split(parent);
  if (above !== "" && tables.has(above)) return set(text, parent, { [key]: value });
  const header = /^\d+$/.test(name) ? `[[${above}]]` : `[${parent}]`;
  return `${text.replace(/\n*$/, "\n")}\n${header}\n${key} = ${put}\n`;
};

/** The text without the key or the table at this place. */
export const remove = (text, path) => {
  const { values, tables } = reader(text);
  const old = values.get(path);
  if (old && !old.inline) {
    const end = text.indexOf("\n", old.end);
    return splice(text, old.from, end < 0 ? text.length : end + 1, "");
  }
  if (old) {
    // With the comma behind it, or else the one in front of it.
    const from = text.slice(0, old.start).search(/[\w."'-]+\s*=\s*$/);
    const start = from < 0 ? old.start : from;
    const behind = /^\s*,\s*/.exec(text.slice(old.end));
    if (behind) return splice(text, start, old.end + behind[0].length, "");
    return splice(text, text.slice(0, start).search(/\s*,?\s*$/), old.end, "");
  }
  const table = tables.get(path);
  if (!table || table.inline) return text;
  return splice(text, table.start, table.end + (text[table.end] === "\n" ? 1 : 0), "");
};

/** The text with another `[[path]]` of these keys at its end. */
export const append = (text, path, keys) => {
  const rows = Object.entries(keys).map(([key, value]) => `${key} = ${literal(value)}\n`).join("");
  return `${text.replace(/\n*$/, "\n")}\n[[${path}]]\n${rows}`;
};
