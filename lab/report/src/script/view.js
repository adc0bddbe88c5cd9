// What is shown: which contestants, which part of an axis, on which kind of axis, which run. It stands in the address after #.

const view = { off: new Set(), zoom: new Map(), kinds: new Map(), run: null, anchor: "" };
const plots = [...document.querySelectorAll("g.plot")].map((group) => new Plot(group));
const bars = [...document.querySelectorAll("g.bars")];
const figures = [...document.querySelectorAll("figure")].filter((figure) => figure.querySelector("g.plot, g.bars") || figure.dataset.csv);
const chips = [...document.querySelectorAll("#chips .chip")];

const idOf = (figure) => figure.dataset.figure || "";
const keyOf = (plot) => plot.link || `figure ${figures.indexOf(plot.figure)}`;
const rendered = (plot) => plot.svg.getClientRects().length > 0;
const kindOf = (figure) => view.kinds.get(idOf(figure)) ?? figure.dataset.switch;

// One spike in two hundred does not flatten the rest.
const ceiling = (values) => {
  const sorted = Float64Array.from(values).sort();
  const most = sorted.at(-1);
  const usual = sorted[Math.max(0, sorted.length - 1 - Math.floor(sorted.length / 200))];
  return most > 1.5 * usual && usual > 0 ? usual * 1.2 : most;
};
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

// The horizontal axis: what was chosen, or what fits the contestants that are left.
const fitX = (group) => {
  const [plot] = group;
  const zoom = view.zoom.get(keyOf(plot));
  const first = plot.first.x;
  if (zoom) return { ...first, low: zoom[0], high: zoom[1] };
  if (!view.off.size || first.fit === "fixed") return { ...first };
  const values = group.flatMap((plot) => plot.points.length
    ? plot.points.filter(({ mark }) => shown(mark)).flatMap(({ span }) => [span[0], span[1]])
    : plot.curves.filter((curve) => curve.shown).flatMap((curve) => [curve.x(0), curve.x(curve.y.length - 1)]));
  if (!values.length) return { ...first };
  const [low, high] = [least(values), greatest(values)];
  const log = first.log && (!plot.points.length || high > 6 * low);
  const [from, to] = fitted(first.fit, log, low, high);
  return { ...first, log, low: from, high: to };
};

const fitY = (group, x) => {
  const [plot] = group;
  const first = plot.first.y;
  const log = first.fit !== "fixed" && plot.figure.dataset.switch ? kindOf(plot.figure) === "log" : first.log;
  const as_drawn = !view.off.size && !view.zoom.has(keyOf(plot)) && log === first.log;
  if (first.fit === "fixed" || as_drawn) return { ...first };
  const values = group.flatMap((plot) => plot.points.length
    ? plot.points.filter(({ mark, at }) => shown(mark) && at[0] >= x.low && at[0] <= x.high).flatMap(({ span }) => [span[2], span[3]])
    : plot.extent(x.low, x.high));
  const positive = log ? values.filter((value) => value > 0) : values;
  if (!positive.length) return { ...first };
  const [low, high] = fitted(first.fit, log, log ? Math.max(1, least(positive)) : least(positive), plot.points.length ? greatest(positive) : ceiling(positive));
  return { ...first, log, low, high };
};

// Draws what can be seen.
const apply = () => {
  for (const figure of figures) {
    const own = plots.filter((plot) => plot.figure === figure && rendered(plot) && plot.shown);
    // Plots of one figure share their vertical axis, those of a sheet do so row by row, and variables have their own.
    const row = (plot) => ("ownAxes" in figure.dataset ? own.indexOf(plot) : "figure" in figure.dataset ? 0 : `${all.indexOf(plot.svg)} ${plot.rect.y}`);
    const all = own.map((plot) => plot.svg);
    const groups = new Map();
    for (const plot of own) groups.set(row(plot), [...(groups.get(row(plot)) ?? []), plot]);
    for (const group of groups.values()) {
      const x = fitX(group);
      const y = fitY(group, x);
      for (const plot of group) {
        plot.axes = { x: { ...x }, y: { ...y } };
        plot.draw();
      }
    }
  }
  for (const group of bars) if (group.getClientRects().length) drawBars(group);
};

const showOff = () => {
  for (const chip of chips) {
    const off = view.off.has(chip.dataset.name);
    chip.classList.toggle("struck", off);
    chip.querySelector("button").setAttribute("aria-pressed", String(!off));
    document.querySelectorAll(`main .k${chip.dataset.k}`).forEach((mark) => mark.classList.toggle("off", off));
  }
};
const showRun = () => {
  // Each section has its own runs: one that has not the chosen one shows its first.
  document.querySelectorAll(".runs select").forEach((select) => {
    const has = (run) => [...select.options].some((option) => option.value === run);
    const run = has(view.run) ? view.run : select.options[0].value;
    select.value = run;
    select.closest("section").querySelectorAll(".panel[data-run]").forEach((panel) => { panel.hidden = panel.dataset.run !== run; });
  });
};

// After a change: everything again, and the address says it.
const update = () => {
  showOff();
  showRun();
  apply();
  const parts = [view.anchor];
  const list = (values) => [...values].map(encodeURIComponent).join(",");
  if (view.off.size) parts.push(`off=${list(view.off)}`);
  for (const [key, range] of view.zoom) parts.push(`zoom=${list([key, ...range.map((value) => +value.toPrecision(4))])}`);
  for (const [id, kind] of view.kinds) parts.push(`${kind}=${encodeURIComponent(id)}`);
  if (view.run !== null) parts.push(`run=${view.run}`);
  const hash = parts.join("&");
  try { history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search); } catch { /* some browsers refuse for files */ }
};

const readAddress = () => {
  Object.assign(view, { off: new Set(), zoom: new Map(), kinds: new Map(), run: null, anchor: "" });
  for (const part of location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=");
    const list = () => value.split(",").map((word) => { try { return decodeURIComponent(word); } catch { return word; } });
    if (value === undefined) view.anchor = key;
    else if (key === "off") list().filter((name) => chips.some((chip) => chip.dataset.name === name)).forEach((name) => view.off.add(name));
    else if (key === "zoom" && +list()[1] < +list()[2]) view.zoom.set(list()[0], [+list()[1], +list()[2]]);
    else if (key === "log" || key === "lin") view.kinds.set(list()[0], key);
    else if (key === "run") view.run = value;
  }
  const target = document.getElementById(view.anchor);
  target?.scrollIntoView();
};

const zoomTo = (plot, low, high) => {
  const first = plot.first.x;
  const bounded = first.fit === "fixed";
  if (bounded) [low, high] = [Math.max(low, first.low), Math.min(high, first.high)];
  if (!(high > low)) return;
  const whole = bounded && low <= first.low && high >= first.high;
  if (whole) view.zoom.delete(keyOf(plot)); else view.zoom.set(keyOf(plot), [low, high]);
  update();
};
// Around a place (0 to 1 along the axis), by a factor.
const zoomBy = (plot, factor, share) => {
  const { rect, axes } = plot;
  const middle = rect.x + share * rect.w;
  const ends = [rect.x, rect.right].map((end) => valueAt(axes.x, middle + (end - middle) * factor, rect.x, rect.right));
  zoomTo(plot, Math.min(...ends), Math.max(...ends));
};
