// Figures and their numbers as files.

const save = (name, type, content) => {
  const link = document.createElement("a");
  link.download = name;
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
const nameOf = (figure) => (idOf(figure) || `figure-${figures.indexOf(figure) + 1}`).replace(/[^\w-]+/g, "-");
const titleOf = (figure) => {
  let before = figure;
  while (before && !/^H[1-3]$/.test(before.tagName)) before = before.previousElementSibling ?? before.parentElement;
  return before ? before.textContent.replace(/\s*#\s*$/, "").trim() : "";
};

// One picture of the panels that are shown, as they stand on the page.
const picture = (figure) => {
  const all = [...figure.querySelectorAll(".panels svg, :scope > svg")].filter((svg) => svg.getClientRects().length);
  const boxes = all.map((svg) => svg.getBoundingClientRect());
  const left = least(boxes.map((box) => box.left));
  const top = least(boxes.map((box) => box.top)) - 34;
  const width = Math.ceil(greatest(boxes.map((box) => box.right)) - left) + 16;
  const keys = [...figure.querySelectorAll(".key span")].filter((entry) => entry.getClientRects().length);
  const height = Math.ceil(greatest(boxes.map((box) => box.bottom)) - top) + 12 + (keys.length ? 22 : 0);
  const svg = make("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` });
  svg.append(make("style", {}, [...document.querySelectorAll("style")].map((style) => style.textContent).join("\n")));
  svg.append(make("rect", { class: "paper", width, height }));
  svg.append(document.querySelector(".defs defs")?.cloneNode(true) ?? "");
  svg.append(make("text", { x: 8, y: 20, class: "head" }, titleOf(figure)));
  all.forEach((panel, i) => {
    const copy = panel.cloneNode(true);
    const place = { x: boxes[i].left - left + 8, y: boxes[i].top - top, width: boxes[i].width, height: boxes[i].height };
    for (const key in place) copy.setAttribute(key, place[key].toFixed(1));
    copy.querySelectorAll(".cursor, .brush, .off").forEach((mark) => mark.remove());
    copy.querySelectorAll("*").forEach((mark) => [...mark.attributes].forEach((a) => a.name.startsWith("data-") && mark.removeAttribute(a.name)));
    svg.append(copy);
  });
  let x = 8;
  for (const entry of keys) {
    const mark = entry.querySelector("svg")?.cloneNode(true);
    if (mark) { mark.setAttribute("x", x); mark.setAttribute("y", height - 20); mark.setAttribute("width", 26); mark.setAttribute("height", 12); svg.append(mark); }
    svg.append(make("text", { x: x + 32, y: height - 10, class: "tick" }, entry.textContent));
    x += 48 + 6.2 * entry.textContent.length;
  }
  return { svg, width, height };
};
const asText = (figure) => `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(picture(figure).svg)}\n`;

const savePng = async (figure) => {
  const { svg, width, height } = picture(figure);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  const scale = 2;
  [canvas.width, canvas.height] = [width * scale, height * scale];
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.drawImage(image, 0, 0);
  canvas.toBlob((blob) => save(`${nameOf(figure)}.png`, "image/png", blob), "image/png");
};

const quoted = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
// One row for each point that the figure has, with the names that `--series` uses where it has them.
const asCsv = (figure) => {
  if (figure.dataset.csv) return figure.dataset.csv;
  const rows = [];
  const group = figure.querySelector("g.bars");
  if (group) {
    // One row for each bar; panels with other parts leave theirs empty.
    const groups = [...figure.querySelectorAll("g.bars")].filter((all) => all.getClientRects().length);
    const columns = [...new Set(groups.flatMap((all) => partsOf(all)))];
    rows.push(["contestant", group.dataset.columns.split(" ")[0], ...columns]);
    for (const all of groups) {
      const own = partsOf(all);
      all.querySelectorAll(".bar").forEach((bar) => {
        const sizes = numbers(bar.dataset.parts);
        if (shown(bar)) rows.push([bar.dataset.name, all.dataset.of, ...columns.map((column) => sizes[own.indexOf(column)] ?? "")]);
      });
    }
    return rows.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
  }
  const own = plots.filter((plot) => plot.figure === figure && rendered(plot) && plot.shown);
  for (const plot of own) {
    const run = plot.svg.closest(".panel")?.dataset.run;
    const name = (curve) => curve.name ?? "";
    if (!rows.length) rows.push(["contestant", "run", plot.columns[0], "curve", "column", "value"]);
    const owner = (element) => chips.find((chip) => element.closest(`.k${chip.dataset.k}`))?.dataset.name ?? "";
    for (const curve of plot.curves) {
      if (!curve.shown) continue;
      curve.y.forEach((y, i) => rows.push([owner(curve.path), run ?? "", +curve.x(i).toPrecision(8), name(curve), plot.columns[1], y ?? ""]));
    }
    for (const { mark, name, at } of plot.points) if (shown(mark)) rows.push([name, "", at[0], "median", plot.columns[1], at[1]]);
    for (const band of plot.bands) for (let i = 0; i < band.spans.length; i += 2) rows.push([owner(band.path), run ?? "", band.spans[i], band.name, "until_s", band.spans[i + 1]]);
  }
  return rows.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
};
