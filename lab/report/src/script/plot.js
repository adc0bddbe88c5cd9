// Plots: what an SVG group says of itself, and how it is drawn again.

const SVG = "http://www.w3.org/2000/svg";
const make = (name, attributes, text) => {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  return element;
};
const numbers = (text) => (text ? text.split(" ").map((word) => (word === "-" ? null : +word)) : []);
const shown = (element) => !element.closest(".off, [hidden]");
const places = (path) => {
  const x = numbers(path.dataset.x);
  return "points" in path.dataset ? (i) => x[i] : (i) => x[0] + x[1] * i;
};

// A curve: its path and its numbers, which are read when they are needed first.
class Curve {
  constructor(path) {
    this.path = path;
    this.name = path.dataset.name;
    this.owner = path.closest(".k");
  }
  get y() { return (this.values ??= numbers(this.path.dataset.y)); }
  get x() { return (this.where ??= places(this.path)); }
  get shown() { return shown(this.path); }
  // The index of the point nearest to a value of x.
  nearest(value) {
    const count = this.y.length;
    if (!("points" in this.path.dataset)) {
      const [first, step] = numbers(this.path.dataset.x);
      return Math.min(count - 1, Math.max(0, Math.round((value - first) / step)));
    }
    let best = 0;
    for (let i = 1; i < count; i++) if (Math.abs(this.x(i) - value) < Math.abs(this.x(best) - value)) best = i;
    return best;
  }
}

class Plot {
  constructor(group) {
    this.group = group;
    this.svg = group.ownerSVGElement;
    this.figure = group.closest("figure");
    const [x, y, w, h] = numbers(group.dataset.rect);
    this.rect = { x, y, w, h, right: x + w, bottom: y + h };
    const axis = (text) => {
      const [low, high, kind, fit, reversed] = text.split(" ");
      return { low: +low, high: +high, log: kind === "log", fit, reversed: reversed === "rev" };
    };
    this.first = { x: axis(group.dataset.x), y: axis(group.dataset.y) };
    this.axes = { x: { ...this.first.x }, y: { ...this.first.y } };
    this.columns = group.dataset.columns.split(" ");
    this.link = group.dataset.link || "";
    this.want = numbers(group.dataset.ticks);
    this.labels = numbers(group.dataset.labels);
    this.curves = [...group.querySelectorAll("[data-y]")].map((path) => new Curve(path));
    this.bands = [...group.querySelectorAll("[data-spans]")].map((path) => ({ path, name: path.dataset.name, spans: numbers(path.dataset.spans), place: numbers(path.dataset.band) }));
    this.points = [...group.querySelectorAll("[data-at]")].map((mark) => ({ mark, name: mark.dataset.name, at: numbers(mark.dataset.at), span: numbers(mark.dataset.span), tag: [...group.querySelectorAll(".tag")].find((tag) => tag.dataset.name === mark.dataset.name) }));
  }
  get shown() { return shown(this.group); }
  px(value) { return at(this.axes.x, value, this.rect.x, this.rect.right); }
  py(value) { return at(this.axes.y, value, this.rect.bottom, this.rect.y); }

  // The smallest and the largest value that is shown between two values of x; one spike in two hundred does not count.
  extent(from, to) {
    const all = [];
    for (const curve of this.curves) {
      if (!curve.shown || curve.path.classList.contains("cross-edge")) continue;
      curve.y.forEach((y, i) => { const x = curve.x(i); if (y !== null && x >= from && x <= to) all.push(y); });
    }
    return all;
  }

  draw() {
    this.drawAxes();
    for (const curve of this.curves) this.drawCurve(curve);
    for (const band of this.bands) {
      let d = "";
      for (let i = 0; i < band.spans.length; i += 2) {
        if (band.spans[i + 1] < this.axes.x.low || band.spans[i] > this.axes.x.high) continue;
        const from = this.px(band.spans[i]);
        const to = Math.max(this.px(band.spans[i + 1]), from + 1.2);
        d += `M${from.toFixed(1)} ${band.place[0]}H${to.toFixed(1)}V${band.place[1]}H${from.toFixed(1)}Z`;
      }
      band.path.setAttribute("d", d);
    }
    if (this.points.length) drawPoints(this);
    else if (this.link) standTags(this);
  }

  drawAxes() {
    const group = this.group.querySelector(".axes");
    const { rect, axes } = this;
    const parts = [];
    for (const tick of ticks(axes.x, this.want[0])) {
      const x = this.px(tick);
      parts.push(make("path", { class: "grid", d: `M${x} ${rect.y}L${x} ${rect.bottom}` }));
      if (this.labels[0]) parts.push(make("text", { x, y: rect.bottom + 15, "text-anchor": x > rect.right - 8 ? "end" : "middle", class: "tick" }, label(axes.x, tick, this.want[0])));
    }
    for (const tick of ticks(axes.y, this.want[1])) {
      const y = this.py(tick);
      parts.push(make("path", { class: "grid", d: `M${rect.x} ${y}L${rect.right} ${y}` }));
      const least = axes.y.log && tick <= axes.y.low ? "\u2264" : "";
      if (this.labels[1]) parts.push(make("text", { x: rect.x - 6, y: y + 4, "text-anchor": "end", class: "tick" }, least + label(axes.y, tick, this.want[1])));
    }
    parts.push(make("rect", { x: rect.x, y: rect.y, width: rect.w, height: rect.h, class: "frame" }));
    group.replaceChildren(...parts);
  }

  // The places of a curve inside the horizontal axis, and where it meets the ends of that.
  placesOf(curve) {
    const { low, high } = this.axes.x;
    const places = [];
    let before = null;
    curve.y.forEach((y, i) => {
      const point = { x: curve.x(i), y: y === null ? null : this.py(y) };
      for (const end of [low, high]) {
        if (!before || before.y === null || point.y === null || !(before.x < end && end < point.x)) continue;
        const [from, to, here] = [before.x, point.x, end].map((value) => drawn(this.axes.x, value));
        places.push([this.px(end), before.y + ((here - from) / (to - from)) * (point.y - before.y)]);
      }
      if (point.x >= low && point.x <= high) places.push([this.px(point.x), point.y]);
      before = point;
    });
    return places;
  }

  // A line through them: of each pixel column the smallest and the largest.
  drawCurve(curve) {
    const { low, high } = this.axes.x;
    const points = this.placesOf(curve);
    const thin = points.length > 2 * this.rect.w;
    let d = "", down = false, column = null;
    const flush = () => {
      if (!column) return;
      const { x, first, last, a, b } = column;
      const ys = thin ? (first <= last ? [a, b] : [b, a]) : [a];
      for (const y of thin && a === b ? [a] : ys) { d += `${down ? " " : "M"}${x.toFixed(1)} ${y.toFixed(1)}`; down = true; }
      column = null;
    };
    points.forEach(([x, y], i) => {
      if (y === null) { flush(); down = false; return; }
      if (!thin || !column || Math.floor(column.x) !== Math.floor(x)) { flush(); column = { x, a: y, b: y, first: i, last: i }; return; }
      if (y < column.a) { column.a = y; column.first = i; }
      if (y > column.b) { column.b = y; column.last = i; }
    });
    flush();
    curve.path.setAttribute("d", d);
    const dots = curve.path.parentNode.querySelectorAll(":scope > .dot");
    if (dots.length) {
      const known = curve.y.map((y, i) => [curve.x(i), y]).filter(([, y]) => y !== null);
      dots.forEach((dot, i) => {
        const [x, y] = known[i] ?? [Infinity, 0];
        dot.setAttribute("cx", this.px(x));
        dot.setAttribute("cy", this.py(y));
        dot.style.display = x >= low && x <= high ? "" : "none";
      });
    }
    const fill = curve.path.nextElementSibling;
    if (!fill) return;
    const base = this.rect.bottom;
    const round = (value) => value.toFixed(1);
    const along = (list) => list.map(([x, y]) => `${round(x)} ${round(y ?? base)}`).join(" ");
    if ("area" in fill.dataset) fill.setAttribute("d", points.length ? `M${along(points)} ${round(points.at(-1)[0])} ${base} ${round(points[0][0])} ${base}Z` : "");
    if ("between" in fill.dataset) {
      const limit = this.curves.find((other) => other.path.classList.contains("limit"));
      const upper = limit ? this.placesOf(limit) : [];
      fill.setAttribute("d", points.length ? `M${along(points)} ${along(upper.reverse())}Z` : "");
    }
  }
}
