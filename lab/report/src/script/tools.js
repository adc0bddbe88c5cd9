// Buttons above a figure, and the contestants above all of them.

const button = (text, label, action) => {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = text;
  element.setAttribute("aria-label", label);
  element.title = label;
  element.onclick = action;
  return element;
};

const addTools = (figure) => {
  const title = titleOf(figure);
  const tools = document.createElement("div");
  tools.className = "tools";
  const first = () => plots.find((plot) => plot.figure === figure && plot.shown && rendered(plot));
  const zoom = (factor) => () => first() && zoomBy(first(), factor, 0.5);
  if (figure.querySelector("g.plot")) {
    tools.append(
      button("+", `Zoom in: ${title}`, zoom(0.5)),
      button("\u2212", `Zoom out: ${title}`, zoom(2)),
      button("reset", `Show all of the axis: ${title}`, () => { if (first() && view.zoom.delete(keyOf(first()))) update(); }),
    );
  }
  if (figure.dataset.switch) {
    const other = () => (kindOf(figure) === "log" ? "linear" : "logarithmic");
    const change = button(other(), `Change the vertical axis: ${title}`, () => {
      view.kinds.set(idOf(figure), kindOf(figure) === "log" ? "lin" : "log");
      update();
    });
    tools.append(change);
    relabel.push(() => { change.textContent = other(); });
  }
  tools.append(
    button("SVG", `Download as SVG: ${title}`, () => save(`${nameOf(figure)}.svg`, "image/svg+xml", asText(figure))),
    button("PNG", `Download as PNG: ${title}`, () => savePng(figure)),
    button("CSV", `Download the numbers: ${title}`, () => save(`${nameOf(figure)}.csv`, "text/csv", asCsv(figure))),
  );
  figure.prepend(tools);
};
const relabel = [];

const setUpChips = () => {
  const bar = document.getElementById("chips");
  if (!bar) return;
  const names = chips.map((chip) => chip.dataset.name);
  const change = (off) => {
    view.off = new Set(off);
    clear();
    update();
  };
  bar.querySelector("[data-all]").onclick = () => change([]);
  for (const chip of chips) {
    const { name, k } = chip.dataset;
    const [toggle, only] = chip.querySelectorAll("button");
    toggle.onclick = () => change(view.off.has(name) ? [...view.off].filter((other) => other !== name) : [...view.off, name]);
    only.onclick = () => change(names.filter((other) => other !== name));
    const point = (on) => () => {
      document.body.classList.toggle("dim", on && !view.off.has(name));
      document.querySelectorAll(`main .k${k}`).forEach((mark) => mark.classList.toggle("lit", on));
    };
    chip.onmouseenter = point(true);
    chip.onmouseleave = point(false);
  }
  bar.hidden = chips.length < 2;
};
