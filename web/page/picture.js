// The picture that moves while it computes: rate, queueing delay and window over time, and throughput against delay as runs end.
// What the race before this one drew stays as a grey shadow.

import { Cursor } from "./cursor.js";
import { draw, make, swatch } from "./dom.js";

const LEFT = 48;
const RIGHT = 10;
const TOP = 24;
const BOTTOM = 22;
/** More contestants than these draw no shadow. */
const MOST_SHADOWS = 4;

const PANELS = [
  { id: "rate", title: "Throughput, Mbit/s", key: "throughput_mbps", height: 170 },
  { id: "queue", title: "Queueing delay, ms", key: "queue_ms", height: 190 },
  { id: "window", title: "Window, packets", key: "window_packets", height: 140 },
];

const niceStep = (span, count) => {
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((nice) => nice * power >= rough);
};
const ticks = (top, count) => {
  const step = niceStep(top, count);
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
};
const short = (value) => String(Number(value.toPrecision(3)));
const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length % 2 ? sorted[(sorted.length - 1) / 2] : (sorted[sorted.length / 2 - 1] + sorted[sorted.length / 2]) / 2;
};

/** One diagram: its frame, and where a value stands. */
class Plot {
  constructor(title, height) {
    this.height = height;
    this.axes = draw("g", { class: "axes" });
    this.marks = draw("g");
    this.svg = draw("svg", { role: "img", "aria-label": title, height }, this.axes, this.marks);
    this.title = title;
    this.asked = "";
  }

  /** Draws the axes anew when they have changed; `xs` and `ys` are pairs of a place (0 to 1) and its words. */
  frame(width, xs, ys) {
    const asked = JSON.stringify([width, xs, ys]);
    if (asked === this.asked) return;
    this.asked = asked;
    this.width = width;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    const bottom = this.height - BOTTOM;
    const parts = [draw("text", { x: 0, y: 12, class: "head" }, this.title)];
    for (const [at, words] of ys) {
      const y = this.y(at);
      parts.push(draw("path", { class: "grid", d: `M${LEFT} ${y}H${width - RIGHT}` }), draw("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, words));
    }
    for (const [at, words] of xs) {
      const x = this.x(at);
      parts.push(draw("path", { class: "frame", d: `M${x} ${bottom}v4` }), draw("text", { x, y: bottom + 17, "text-anchor": at > 0.97 ? "end" : "middle" }, words));
    }
    parts.push(draw("path", { class: "frame", d: `M${LEFT} ${TOP}V${bottom}H${width - RIGHT}` }));
    this.axes.replaceChildren(...parts);
  }

  /** The share of the width that a place is at, and the line there. */
  share(x) { return (x - LEFT) / (this.width - LEFT - RIGHT); }

  upright(share) { return `M${this.x(share)} ${TOP}V${this.height - BOTTOM}`; }

  x(share) { return Number((LEFT + share * (this.width - LEFT - RIGHT)).toFixed(1)); }

  y(share) { return Number((TOP + (1 - share) * (this.height - BOTTOM - TOP)).toFixed(1)); }
}

/** The look of a contestant's own flow, by its number. */
const looks = (number) => `line fine${number > 0 ? ` f${Math.min(number + 1, 4)}` : ""}`;

/** A line's path through [seconds, value] pairs; nothing where a value is unknown. */
const line = (plot, points, seconds, top) => {
  let text = "";
  let pen = false;
  for (const [at, value] of points) {
    if (value === null || value === undefined) pen = false;
    else {
      text += `${pen ? "L" : "M"}${plot.x(at / seconds)} ${plot.y(Math.min(value / top, 1))}`;
      pen = true;
    }
  }
  return text;
};

export class Picture {
  #dirty = false;

  constructor(element, legend) {
    this.element = element;
    this.legend = legend;
    this.plots = PANELS.map((panel) => ({ ...panel, plot: new Plot(panel.title, panel.height) }));
    this.trade = new Plot("Throughput, Mbit/s, against delay (95 %), ms", 210);
    element.replaceChildren(...[...this.plots.map(({ plot }) => plot), this.trade].map((plot) => make("div", { class: "plot" }, plot.svg)));
    this.now = null;
    this.hidden = new Set();
    this.cursor = new Cursor(element, {
      plots: this.plots,
      seconds: () => this.now.seconds,
      curves: () => [...(this.now?.curves.values() ?? [])].filter(({ contestant }) => !this.hidden.has(contestant)).sort((a, b) => a.index - b.index).map(({ contestant, index, number, points, name }) => ({
        name: number < 0 ? `${name} beside ${contestant}` : number > 0 ? `${contestant}, flow ${number + 1}` : contestant, look: number < 0 ? "" : this.now.classes[index], points,
      })),
    });
    new ResizeObserver(() => this.#soon()).observe(element);
  }

  /** A new race of these contestants; `classes` are their looks. What was seen of the last one becomes its shadow. */
  begin({ contestants, classes, seconds }) {
    const last = this.now;
    const shows = contestants.length <= MOST_SHADOWS && last?.seconds === seconds;
    this.shadow = shows && last.curves.size ? last : shows ? this.shadow : null;
    if (this.shadow && !this.shadow.contestants.some((name) => contestants.includes(name))) this.shadow = null;
    this.now = { contestants, classes, seconds, curves: new Map(), capacity: new Map(), records: contestants.map(() => []), tops: {} };
    for (const { plot } of [...this.plots, { plot: this.trade }]) plot.marks.replaceChildren();
    this.#names();
    this.#soon();
  }

  /** Points of a contestant's first run. */
  points(index, told) {
    const own = told.flows.filter((flow) => flow.own !== false);
    const rivals = told.flows.filter((flow) => flow.own === false);
    own.forEach((flow, i) => this.#add(index, `own ${flow.name ?? ""}${i}`, i, told.at_s, flow));
    rivals.forEach((flow, i) => this.#add(index, `rival ${flow.name ?? ""}${i}`, -1, told.at_s, flow));
    const narrow = Math.min(...told.links.map((link) => link.capacity_mbps ?? Infinity));
    if (index === 0 && Number.isFinite(narrow)) this.now.capacity.set(told.at_s, narrow);
    this.#soon();
  }

  #add(index, name, number, at, values) {
    const key = `${index} ${name}`;
    let curve = this.now.curves.get(key);
    if (!curve) this.now.curves.set(key, (curve = { index, number, points: [], name: values.name, contestant: this.now.contestants[index] }));
    curve.points.push([at, values]);
  }

  /** A run is over. */
  record(index, record) {
    const throughput = record.own_throughput_mbps ?? record.throughput_mbps;
    const own = record.flows.filter((flow) => flow.controller === record.controller && flow.via === record.via && flow.delay_ms);
    const delay = own.length ? Math.max(...own.map((flow) => flow.delay_ms.p95)) : record.delay_ms?.p95;
    if (delay > 0) this.now.records[index].push([delay, throughput]);
    this.#soon();
  }

  #names() {
    const { contestants, classes } = this.now;
    this.hidden = new Set([...this.hidden].filter((name) => contestants.includes(name)));
    const chips = contestants.map((name, i) => make("button", {
      type: "button", class: `chip ${classes[i]}`, "aria-pressed": String(!this.hidden.has(name)),
      onclick: ({ currentTarget }) => {
        const away = this.hidden.delete(name) ? false : this.hidden.add(name) && true;
        currentTarget.setAttribute("aria-pressed", String(!away));
        this.#soon();
      },
    }, swatch(), name));
    this.legend.replaceChildren(...chips);
    if (this.shadow) this.legend.append(make("span", { class: "hint" }, swatch("before"), "before the change"));
    this.hints = new Set();
  }

  /** A word in the legend, once. */
  #hint(look, words) {
    if (this.hints.has(words)) return;
    this.hints.add(words);
    this.legend.append(make("span", { class: "hint" }, draw("svg", { class: "swatch", viewBox: "0 0 22 10", "aria-hidden": "true" }, draw("path", { class: `${look} ink`, d: "M0 5h22" })), words));
  }

  #soon() {
    if (this.#dirty || !this.now) return;
    this.#dirty = true;
    requestAnimationFrame(() => { this.#dirty = false; this.#draw(); });
  }

  #draw() {
    const { now, shadow } = this;
    const width = Math.max(280, Math.floor(this.element.clientWidth));
    const shown = (curve) => !this.hidden.has(curve.contestant);
    const curves = [...now.curves.values()].filter(shown);
    const shadows = shadow ? [...shadow.curves.values()].filter((curve) => curve.number >= 0 && now.contestants.includes(curve.contestant) && shown(curve)) : [];
    const capacity = [...now.capacity];
    if (curves.some(({ number }) => number < 0)) this.#hint("rival", "flows beside");
    if (curves.some(({ number }) => number > 0)) ["first flow", "second flow"].forEach((words, i) => this.#hint(looks(i), words));
    const xs = ticks(now.seconds, width < 400 ? 4 : 8).map((at) => [at / now.seconds, `${at}${at === 0 ? " s" : ""}`]);
    for (const { id, key, plot } of this.plots) {
      const most = [...curves, ...shadows].reduce((top, curve) => curve.points.reduce((top, [, values]) => Math.max(top, values[key] ?? 0), top), id === "rate" ? Math.max(0, ...capacity.map(([, rate]) => (rate < 5000 ? rate : 0))) : 0);
      // The axis grows by steps, and does not tremble.
      const step = niceStep(Math.max(most, 1e-3) * 1.02, 4);
      const top = Math.ceil((most * 1.02) / step || 1) * step;
      plot.frame(width, xs, ticks(top, 4).map((value) => [value / top, short(value)]));
      const of = (curve, look) => draw("path", { class: look, d: line(plot, curve.points.map(([at, values]) => [at, values[key]]), now.seconds, top) });
      const marks = [];
      if (id === "rate" && capacity.length) {
        const d = line(plot, capacity, now.seconds, top);
        const last = capacity.at(-1)[0];
        if (d) marks.push(draw("path", { class: "capacity", d: `${d}L${plot.x(last / now.seconds)} ${plot.y(0)}L${plot.x(capacity[0][0] / now.seconds)} ${plot.y(0)}Z` }));
      }
      marks.push(...shadows.map((curve) => of(curve, "before")));
      marks.push(...curves.filter(({ number }) => number < 0).map((curve) => of(curve, "rival")));
      marks.push(...curves.filter(({ number }) => number >= 0).map((curve) => draw("g", { class: now.classes[curve.index] }, of(curve, looks(curve.number)))));
      plot.marks.replaceChildren(...marks);
    }
    this.#drawTrade(width, shown);
  }

  #drawTrade(width, shown) {
    const { now, shadow, trade } = this;
    const sets = now.records.map((runs, index) => ({ runs, look: now.classes[index], contestant: now.contestants[index] })).filter((set) => set.runs.length && shown(set));
    const old = (shadow?.records ?? []).map((runs, index) => ({ runs, contestant: shadow.contestants[index] })).filter((set) => set.runs.length && now.contestants.includes(set.contestant) && shown(set));
    const all = [...sets, ...old].flatMap(({ runs }) => runs);
    if (!all.length) {
      trade.frame(width, [], []);
      trade.marks.replaceChildren(draw("text", { class: "hint", x: LEFT + 12, y: 60 }, "as soon as the first run is over"));
      return;
    }
    const low = Math.log10(Math.min(...all.map(([delay]) => delay)) / 1.25);
    const high = Math.log10(Math.max(...all.map(([delay]) => delay)) * 1.25);
    const x = (delay) => (high - Math.log10(delay)) / (high - low);
    const most = Math.max(...all.map(([, rate]) => rate)) * 1.1 || 1;
    const digits = high - low < 0.8 ? [1, 1.5, 2, 3, 4, 5, 6, 8] : [1, 2, 5];
    const marks = digits.flatMap((digit) => Array.from({ length: 9 }, (_, i) => digit * 10 ** (i - 3))).filter((at) => Math.log10(at) >= low && Math.log10(at) <= high);
    const step = niceStep(most, 5);
    const top = Math.ceil(most / step) * step;
    trade.frame(width, marks.map((at) => [x(at), short(at)]), ticks(top, 5).map((value) => [value / top, short(value)]));
    const at = ([delay, rate]) => [trade.x(x(delay)), trade.y(rate / top)];
    const middle = (runs) => at([median(runs.map(([delay]) => delay)), median(runs.map(([, rate]) => rate))]);
    const cross = (runs, look) => { const [px, py] = middle(runs); return draw("path", { class: look, d: `M${px - 6} ${py}h12M${px} ${py - 6}v12` }); };
    const names = [];
    trade.marks.replaceChildren(draw("text", { class: "hint", x: width - RIGHT - 6, y: TOP + 14, "text-anchor": "end" }, "better ↗"), ...old.map(({ runs }) => cross(runs, "before")), ...sets.map(({ runs, look, contestant }) => {
      const [px, py] = middle(runs);
      let y = py - 8;
      while (names.some(([ox, oy]) => Math.abs(ox - px) < 130 && Math.abs(oy - y) < 13)) y += 13;
      names.push([px, y]);
      const end = px > width / 2;
      return draw("g", { class: look }, ...runs.map((run) => { const [cx, cy] = at(run); return draw("circle", { class: "dot", cx, cy, r: 2.5 }); }),
        cross(runs, "cross"), draw("text", { class: "name", x: px + (end ? -9 : 9), y, "text-anchor": end ? "end" : "start" }, contestant));
    }));
  }

  /** All as one picture that stands alone: { text, width, height }. */
  file(title) {
    const plots = [...this.plots.map(({ plot }) => plot), this.trade];
    const { width } = plots[0];
    const style = [...document.styleSheets, ...document.adoptedStyleSheets].map((sheet) => [...sheet.cssRules].map((rule) => rule.cssText).join("\n")).join("\n");
    const whole = draw("svg", { xmlns: "http://www.w3.org/2000/svg", width: width + 20 });
    whole.append(draw("style", {}, style), draw("rect", { class: "paper", width: "100%", height: "100%" }), draw("text", { x: 10, y: 20, class: "head" }, title));
    let [x, y] = [10, 40];
    this.now.contestants.forEach((name, i) => {
      if (this.hidden.has(name)) return;
      const length = 48 + 7 * name.length;
      if (x + length > width) [x, y] = [10, y + 18];
      whole.append(draw("g", { class: this.now.classes[i] }, draw("path", { class: "line", d: `M${x} ${y - 4}h22` }), draw("text", { x: x + 28, y, class: "name" }, name)));
      x += length;
    });
    y += 14;
    this.cursor.hide();
    for (const plot of plots) {
      const copy = plot.svg.cloneNode(true);
      for (const [key, value] of Object.entries({ x: 10, y, width, height: plot.height })) copy.setAttribute(key, value);
      whole.append(copy);
      y += plot.height + 8;
    }
    whole.setAttribute("height", y);
    whole.setAttribute("viewBox", `0 0 ${width + 20} ${y}`);
    return { text: new XMLSerializer().serializeToString(whole), width: width + 20, height: y };
  }
}
