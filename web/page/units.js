// Quantities as scenarios write them: "48 Mbit/s", "7500us", "2MB".

const TIMES = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, min: 6e4, h: 3.6e6 };
const POWERS = { "": 1e-6, k: 1e-3, M: 1, G: 1e3 };
const tidy = (number) => Number(number.toPrecision(6));

/** Milliseconds of a time; undefined if it is not one, or a range. */
export const milliseconds = (text) => {
  const parts = /^([\d.]+) ?(ns|us|ms|s|min|h)$/.exec(text ?? "");
  return parts ? tidy(Number(parts[1]) * TIMES[parts[2]]) : undefined;
};
/** A time as written: whole milliseconds, or microseconds. */
export const time = (ms) => (ms >= 1000 && ms % 1000 === 0 ? `${ms / 1000}s` : Number.isInteger(ms) ? `${ms}ms` : `${Math.round(ms * 1000)}us`);

/** Mbit/s of a rate; undefined if it is not one, or a range. */
export const mbps = (text) => {
  const parts = /^([\d.]+) ?([kMG]?)(?:bit\/s|bps)$/.exec(text ?? "");
  return parts ? tidy(Number(parts[1]) * POWERS[parts[2]]) : undefined;
};
export const rate = (number) => `${number} Mbit/s`;

const SIZES = { B: 1e-3, kB: 1, MB: 1e3, GB: 1e6, KiB: 1.024, MiB: 1048.576, GiB: 1073741.824 };
/** kB of a size. */
export const kilobytes = (text) => {
  const parts = /^([\d.]+) ?([kMG]i?B|B)$/.exec(text ?? "");
  return parts ? tidy(Number(parts[1]) * SIZES[parts[2]]) : undefined;
};
export const size = (kb) => (kb >= 1000 ? `${tidy(kb / 1000)}MB` : `${kb}kB`);

/** A queue as written, `name:key=value,key=value`, taken apart: a value without a key is its `limit`. */
export const queue = (text) => {
  const [name, rest] = String(text ?? "").split(/:(.*)/s);
  const keys = new Map();
  for (const part of rest ? rest.split(",") : []) {
    const [key, value] = part.includes("=") ? part.split(/=(.*)/s) : ["", part];
    keys.set(key, value);
  }
  return { name, keys };
};
export const queueText = ({ name, keys }) => {
  const parts = [...keys].map(([key, value]) => (key ? `${key}=${value}` : value));
  return parts.length ? `${name}:${parts.join(",")}` : name;
};
