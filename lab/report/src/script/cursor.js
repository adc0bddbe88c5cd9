// The cursor: values of every curve that is shown, and a line through all plots with the same horizontal axis.

const tip = document.getElementById("tip") ?? document.body.appendChild(Object.assign(document.createElement("div"), { id: "tip", hidden: true }));
tip.setAttribute("role", "status");
const UNITS = { _s: "s", _ms: "ms", _mbps: "Mbit/s", _kb: "kB", _percent: "%", _packets: "packets", _us: "\u00b5s" };
const unitOf = (column) => Object.entries(UNITS).filter(([end]) => column.endsWith(end)).sort((a, b) => b[0].length - a[0].length)[0]?.[1] ?? "";
const withUnit = (value, column) => `${short(value)} ${unitOf(column)}`.trim();
// So many values are shown at once (our choice: a third of a screen), or all of one plot.
const MOST_ROWS = 16;
let marks = [];
let pointed = null;

const clear = () => {
  marks.forEach((mark) => mark.remove());
  marks = [];
  tip.hidden = true;
  pointed = null;
};

const row = (owner, name, value, here) => {
  const line = document.createElement("div");
  if (here) line.className = "here";
  const colour = document.createElement("i");
  const hue = [...(owner?.classList ?? [])].find((word) => /^c(-|\d)/.test(word));
  if (hue) colour.className = hue;
  const [left, right] = [document.createElement("span"), document.createElement("span")];
  [left.textContent, right.textContent] = [name, value];
  line.append(colour, left, right);
  return line;
};
const showTip = (title, rows, clientX, clientY) => {
  const head = document.createElement("b");
  head.textContent = title;
  tip.replaceChildren(head, ...rows);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const x = clientX + 16 + width > innerWidth ? clientX - width - 16 : clientX + 16;
  const y = Math.min(Math.max(4, clientY - height / 2), innerHeight - height - 4);
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
};

const inside = (plot, event) => {
  const matrix = plot.svg.getScreenCTM();
  if (!matrix) return null;
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
  const { x, y, right, bottom } = plot.rect;
  return place.x >= x - 2 && place.x <= right + 2 && place.y >= y - 2 && place.y <= bottom + 2 ? place : null;
};
const plotAt = (event) => {
  const svg = event.target.closest?.("svg");
  if (!svg) return null;
  for (const plot of plots) {
    if (plot.svg !== svg || !plot.shown) continue;
    const place = inside(plot, event);
    if (place) return { plot, place };
  }
  return null;
};

const nearPoint = (plot, place, event) => {
  let best = null;
  for (const point of plot.points.filter(({ mark }) => shown(mark))) {
    const far = Math.hypot(plot.px(point.at[0]) - place.x, plot.py(point.at[1]) - place.y);
    if (far < 40 && (!best || far < best.far)) best = { far, point };
  }
  if (!best) return clear();
  const { mark, name, at } = best.point;
  const rows = [1, 0].map((i) => row(mark, plot.columns[i].replaceAll("_", " ").replace(/ (ms|mbps|percent)$/, ""), withUnit(at[i], plot.columns[i]), false));
  showTip(name, rows, event.clientX, event.clientY);
};

// The values at a place of the horizontal axis, in the plots of the figure; the line goes through all plots with this axis.
const pointAt = (plot, value, event) => {
  clear();
  pointed = { plot, value };
  const rows = [];
  const linked = plots.filter((other) => other === plot || (plot.link && other.link === plot.link));
  for (const other of linked) {
    if (!other.shown || !rendered(other)) continue;
    const box = other.svg.getBoundingClientRect();
    const same = other.figure === plot.figure;
    if (!same && (box.bottom < 0 || box.top > innerHeight)) continue;
    const mark = make("g", { class: "cursor" });
    const x = other.px(value);
    mark.append(make("line", { x1: x, x2: x, y1: other.rect.y, y2: other.rect.bottom }));
    for (const curve of other.curves) {
      if (!curve.shown) continue;
      const y = curve.y[curve.nearest(value)];
      if (y !== null && y !== undefined && !curve.path.matches(".limit, .cross-edge")) {
        const dot = make("g", { class: curve.path.matches(".rival") ? "" : (curve.owner?.getAttribute("class") ?? curve.path.parentNode.getAttribute("class") ?? "") });
        dot.append(make("circle", { cx: x, cy: other.py(y), r: 3 }));
        mark.append(dot);
      }
      const named = curve.path.matches(".limit") && rows.some((line) => line.dataset.limit);
      if (same && !named && !("ownAxes" in plot.figure.dataset && other !== plot)) {
        const line = row(curve.path.matches(".rival, .limit, .cross-edge") ? null : (curve.owner ?? curve.path.parentNode), curve.name, y === null || y === undefined ? "\u2013" : withUnit(y, other.columns[1]), other === plot && linked.length > 1);
        if (curve.path.matches(".limit")) line.dataset.limit = "yes";
        rows.push(line);
      }
    }
    if (other === plot) for (const band of other.bands) {
      for (let i = 0; i < band.spans.length; i += 2) if (value >= band.spans[i] && value < band.spans[i + 1]) rows.push(row(band.path.parentNode, band.name, "", false));
    }
    other.group.append(mark);
    marks.push(mark);
  }
  // More than can be read at once: those of this plot.
  const own = rows.filter((line) => line.className === "here");
  showTip(withUnit(value, plot.columns[0]), rows.length > MOST_ROWS && own.length ? own : rows, event.clientX, event.clientY);
};

const hover = (event) => {
  const found = plotAt(event);
  if (!found) {
    const bar = event.target.closest?.(".bar");
    if (!bar) return clear();
    const group = bar.closest("g.bars");
    const parts = partsOf(group);
    const word = (column) => column.replace(/_[a-z]+$/, "");
    return showTip(`${bar.dataset.name}, ${group.dataset.of}`, numbers(bar.dataset.parts).map((size, i) => row(null, word(parts[i]), withUnit(size, parts[i]), false)), event.clientX, event.clientY);
  }
  const { plot, place } = found;
  if (plot.points.length) return nearPoint(plot, place, event);
  const { rect, axes } = plot;
  pointAt(plot, valueAt(axes.x, Math.min(rect.right, Math.max(rect.x, place.x)), rect.x, rect.right), event);
};

// Dragging with a mouse chooses a part of the horizontal axis; a finger moves the cursor, two fingers zoom.
let brush = null;
const fingers = new Map();
let pinch = null;
// What was below both fingers stays there.
const pinched = () => {
  const { plot, values } = pinch;
  const [a, b] = [...fingers.values()];
  if (!a || !b || Math.abs(a - b) < 8) return;
  const axis = plot.axes.x;
  const slope = (values[1] - values[0]) / (b - a);
  const ends = [plot.rect.x, plot.rect.right].map((x) => undrawn(axis, values[0] + slope * (x - a)));
  zoomTo(plot, Math.min(...ends), Math.max(...ends));
};
const lift = (event) => {
  fingers.delete(event.pointerId);
  pinch = null;
};
document.addEventListener("pointercancel", lift);
const xIn = (plot, event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.svg.getScreenCTM().inverse()).x;
document.addEventListener("pointerdown", (event) => {
  const found = plotAt(event);
  if (found && event.pointerType === "touch" && !found.plot.points.length) {
    if (fingers.size && [...fingers.keys()][0] !== event.pointerId && fingers.plot !== found.plot) fingers.clear();
    fingers.plot = found.plot;
    fingers.set(event.pointerId, found.place.x);
    if (fingers.size === 2) {
      const { axes, rect } = found.plot;
      clear();
      pinch = { plot: found.plot, values: [...fingers.values()].map((x) => drawn(axes.x, valueAt(axes.x, x, rect.x, rect.right))) };
      return;
    }
  }
  if (!found) return event.pointerType === "mouse" || clear();
  if (event.pointerType !== "mouse") return hover(event);
  if (event.button !== 0) return;
  event.preventDefault();
  const { plot, place } = found;
  brush = { plot, from: place.x, to: place.x, mark: make("rect", { class: "brush", y: plot.rect.y, height: plot.rect.h }) };
  plot.group.append(brush.mark);
});
document.addEventListener("pointermove", (event) => {
  if (pinch && fingers.has(event.pointerId)) {
    fingers.set(event.pointerId, xIn(pinch.plot, event));
    // Once for each frame.
    pinch.frame ??= requestAnimationFrame(() => { if (pinch) { pinch.frame = undefined; pinched(); } });
    return;
  }
  if (!brush) return hover(event);
  const { rect, svg } = brush.plot;
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  brush.to = Math.min(rect.right, Math.max(rect.x, place.x));
  brush.mark.setAttribute("x", Math.min(brush.from, brush.to));
  brush.mark.setAttribute("width", Math.abs(brush.to - brush.from));
});
document.addEventListener("pointerup", (event) => {
  if (pinch) pinched();
  lift(event);
  if (!brush) return;
  const { plot, from, to, mark } = brush;
  mark.remove();
  brush = null;
  if (Math.abs(to - from) < 6) return;
  const ends = [from, to].map((x) => valueAt(plot.axes.x, x, plot.rect.x, plot.rect.right));
  clear();
  zoomTo(plot, Math.min(...ends), Math.max(...ends));
});
document.addEventListener("dblclick", (event) => {
  const found = plotAt(event);
  if (found && view.zoom.delete(keyOf(found.plot))) update();
});
// With Ctrl, as a touchpad's pinch has it: the wheel alone scrolls the page.
document.addEventListener("wheel", (event) => {
  const found = event.ctrlKey && plotAt(event);
  if (!found) return;
  event.preventDefault();
  zoomBy(found.plot, event.deltaY > 0 ? 1.25 : 0.8, (found.place.x - found.plot.rect.x) / found.plot.rect.w);
}, { passive: false });
// Values go with the page, but the place stays: a focus from the keyboard scrolls after the first arrow key.
document.addEventListener("scroll", () => {
  const place = pointed;
  clear();
  pointed = place;
}, { passive: true });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return clear();
  const panels = document.activeElement?.closest?.(".panels");
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const plot = panels && step && (pointed && panels.contains(pointed.plot.group) ? pointed.plot : plots.find((plot) => panels.contains(plot.group) && plot.shown && rendered(plot) && !plot.points.length));
  if (!plot) return;
  event.preventDefault();
  const { low, high } = plot.axes.x;
  const value = pointed ? Math.min(high, Math.max(low, pointed.value + (step * (high - low)) / 60)) : (low + high) / 2;
  const box = plot.svg.getBoundingClientRect();
  pointAt(plot, value, { clientX: box.left + box.width * (plot.px(value) / plot.svg.viewBox.baseVal.width), clientY: box.top + box.height / 2 });
});
