// Numbers, ticks and scales for axes that a reader chooses: as svg.rs and numbers.rs have them, which tests.rs compares.

const short = (value) => {
  const size = Math.abs(value);
  if (size >= 1e7) return value.toExponential(2).replace("+", "").replace(/\.?0+e/, "e");
  const decimals = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : Math.min(9, 2 - Math.floor(Math.log10(size)));
  const text = value.toFixed(decimals);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
};
const decade = (value) => +`1e${Math.floor(Math.log10(value))}`;
const nice = (value) => {
  const ten = decade(Math.max(value, 1e-12));
  return [1, 2, 5, 10].map((m) => m * ten).find((v) => v >= value * (1 - 1e-9)) ?? ten * 10;
};

// An axis is { low, high, log, fit, reversed }; at() gives the place of a value between `from` and `to`.
const at = (axis, value, from, to) => {
  const share = axis.log
    ? Math.log(Math.max(value, axis.low) / axis.low) / Math.log(axis.high / axis.low)
    : (value - axis.low) / (axis.high - axis.low);
  const bounded = Math.min(1, Math.max(0, share));
  return axis.reversed ? to + bounded * (from - to) : from + bounded * (to - from);
};
const valueAt = (axis, place, from, to) => {
  let share = (place - from) / (to - from);
  if (axis.reversed) share = 1 - share;
  return axis.log ? axis.low * (axis.high / axis.low) ** share : axis.low + share * (axis.high - axis.low);
};

// Values on the axis as they are drawn: in equal steps, or in equal factors.
const drawn = (axis, value) => (axis.log ? Math.log(value) : value);
const undrawn = (axis, value) => (axis.log ? Math.exp(value) : value);

const ticks = (axis, want) => {
  const within = (v) => v >= axis.low * (1 - 1e-9) && v <= axis.high * (1 + 1e-9);
  if (axis.log && axis.high / axis.low > 4) {
    const pick = (multiples) => {
      const all = [];
      for (let ten = decade(axis.low); ten <= axis.high; ten *= 10) all.push(...multiples.map((m) => m * ten).filter(within));
      return all;
    };
    const fine = pick([1, 2, 5]);
    const middle = pick([1, 3]);
    return fine.length <= want ? fine : middle.length <= want && middle.length > 1 ? middle : pick([1]);
  }
  const step = nice((axis.high - axis.low) / Math.max(1, want));
  const all = [];
  for (let i = Math.ceil(axis.low / step - 1e-9); i * step <= axis.high * (1 + 1e-9) && all.length < 50; i++) all.push(i * step);
  return all;
};

// A tick's number, with as many digits as tell it from the next one.
const label = (axis, tick, want) => {
  const step = nice((axis.high - axis.low) / Math.max(1, want));
  if ((axis.log && axis.high / axis.low > 4) || step >= 1 || Math.abs(tick) < step / 1e3) return short(tick);
  const text = tick.toFixed(Math.min(9, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9))));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
};

// From where to where an axis goes for values from `low` to `high`.
const fitted = (fit, log, low, high) => {
  if (!(high > 0)) return [0, 1];
  if (log && fit === "near") {
    const margin = Math.max(1.05, (high / low) ** 0.03);
    return [low / margin, high * margin];
  }
  if (log) {
    const least = Math.max(low, high / 1e4, 1e-3);
    const below = [5, 2, 1].map((m) => m * decade(least)).find((v) => v <= least * 1.0001) ?? least / 2;
    const above = [1, 2, 5, 10, 20].map((m) => m * decade(high)).find((v) => v >= high * 0.9999) ?? high * 2;
    return above > below ? [below, above] : [below, below * 10];
  }
  if (fit === "near" && low >= high / 2) {
    const spread = Math.max(high - low, high * 0.1);
    const step = nice(spread / 4);
    const middle = (low + high) / 2;
    return [Math.max(0, Math.floor((middle - 0.65 * spread) / step)) * step, middle + 0.65 * spread];
  }
  return [Math.min(0, low * 1.05), high * (fit === "near" ? 1.1 : 1.05)];
};
