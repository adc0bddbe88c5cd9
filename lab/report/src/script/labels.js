// Points with names, names beside curves, and bars.

// Crosses and ellipses move with the axes; names look for a place near their cross that no other name has.
const drawPoints = (plot) => {
  const { rect } = plot;
  const taken = [];
  const overlap = (a, b) => Math.max(0, Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x)) * Math.max(0, Math.min(a.y + a.h, b.y + b.h) - Math.max(a.y, b.y));
  const visible = plot.points.filter(({ mark }) => shown(mark));
  for (const { mark, at, span } of visible) {
    taken.push({ x: plot.px(at[0]) - 6, y: plot.py(at[1]) - 6, w: 12, h: 12 });
    const [left, top] = [plot.px(span[1]), plot.py(span[3])];
    if (mark.querySelector("ellipse")) taken.push({ x: left, y: top, w: plot.px(span[0]) - left, h: plot.py(span[2]) - top });
  }
  for (const { mark, at, span, tag } of visible) {
    const [x, y] = [plot.px(at[0]), plot.py(at[1])];
    mark.querySelector(".cross").setAttribute("d", `M${x - 6} ${y}h12m-6 -6v12`);
    const [left, right, low, high] = [plot.px(span[1]), plot.px(span[0]), plot.py(span[2]), plot.py(span[3])];
    const ellipse = mark.querySelector("ellipse");
    if (ellipse) {
      const set = { cx: (left + right) / 2, cy: (low + high) / 2, rx: Math.max(1, Math.abs(right - left) / 2), ry: Math.max(1, Math.abs(low - high) / 2) };
      for (const key in set) ellipse.setAttribute(key, set[key]);
    }
    if (!tag) continue;
    const text = tag.querySelector("text");
    const width = text.getComputedTextLength() + 4;
    let best = null;
    for (const distance of [9, 20, 34, 50, 68, 90]) {
      for (const [dx, dy, anchor] of [[1, 0.3, "start"], [-1, 0.3, "end"], [0, -1, "middle"], [0, 1.6, "middle"], [0.7, -0.7, "start"], [0.7, 1.2, "start"], [-0.7, -0.7, "end"], [-0.7, 1.2, "end"]]) {
        const place = { x: x + dx * distance, y: y + dy * distance, anchor };
        const left = anchor === "start" ? place.x : anchor === "end" ? place.x - width : place.x - width / 2;
        const box = { x: left, y: place.y - 11, w: width, h: 14 };
        const outside = width * 14 - overlap(box, { x: rect.x, y: rect.y, w: rect.w, h: rect.h });
        const cost = distance + 20 * outside + 10 * taken.reduce((sum, other) => sum + overlap(box, other), 0);
        if (!best || cost < best.cost) best = { ...place, cost, box };
      }
    }
    taken.push(best.box);
    for (const [key, value] of [["x", best.x], ["y", best.y], ["text-anchor", best.anchor]]) text.setAttribute(key, value);
    tag.querySelector(".leader")?.remove();
    if (Math.hypot(best.x - x, best.y - 4 - y) > 16) tag.prepend(make("path", { class: "leader", d: `M${x} ${y}L${best.x} ${best.y - 4}` }));
  }
};

// A name beside a curve stays with the point that it stands at, or goes where the point is out of sight.
const standTags = (plot) => {
  for (const tag of plot.group.querySelectorAll("[data-stands]")) {
    const curve = plot.curves.find((curve) => curve.name === tag.dataset.name);
    const index = +tag.dataset.stands;
    const text = tag.querySelector("text");
    const x = curve.x(index);
    tag.style.visibility = x < plot.axes.x.low || x > plot.axes.x.high ? "hidden" : "";
    const side = text.getAttribute("text-anchor") === "end" ? -7 : 7;
    text.setAttribute("x", plot.px(x) + side);
    text.setAttribute("y", plot.py(curve.y[index]) + 4);
  }
};

// The columns of a bar's parts.
const partsOf = (group) => group.dataset.columns.split(" ").slice(1);

// Rows of bars close up, and their axis follows the longest.
const drawBars = (group) => {
  const [left, top, width, row] = numbers(group.dataset.rect);
  const bars = [...group.querySelectorAll(".bar")];
  const visible = bars.filter(shown);
  const total = (bar) => numbers(bar.dataset.parts).reduce((sum, ms) => sum + ms, 0);
  const most = Math.max(1e-3, ...visible.map(total));
  const want = +group.dataset.ticks;
  const step = nice(most / want);
  const axis = { low: 0, high: Math.ceil(most / step - 1e-9) * step, log: false };
  const px = (ms) => at(axis, ms, left, left + width);
  const bottom = top + visible.length * row;
  visible.forEach((bar, index) => {
    bar.setAttribute("transform", `translate(0 ${top + index * row})`);
    let sum = 0;
    const parts = numbers(bar.dataset.parts);
    bar.querySelectorAll("rect").forEach((rect, part) => {
      rect.setAttribute("x", px(sum));
      sum += parts[part];
      rect.setAttribute("width", Math.max(0, px(sum) - +rect.getAttribute("x")));
    });
    if (parts.length) bar.querySelector(".tick").setAttribute("x", px(sum) + 6);
  });
  const marks = ticks(axis, want).flatMap((tick) => [
    make("path", { class: "grid", d: `M${px(tick)} ${top}L${px(tick)} ${bottom}` }),
    make("text", { x: px(tick), y: bottom + 15, "text-anchor": "middle", class: "tick" }, short(tick)),
  ]);
  group.querySelector(".axes").replaceChildren(...marks);
  const svg = group.ownerSVGElement;
  svg.querySelector(".foot").setAttribute("transform", `translate(0 ${(visible.length - bars.length) * row})`);
  const [, , w] = numbers(svg.getAttribute("viewBox"));
  svg.setAttribute("viewBox", `0 0 ${w} ${bottom + 44}`);
};
