// Values under the pointer, or under a cursor that arrow keys move.

import { draw, make } from "./dom.js";

const said = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(3))));

/** Of a picture's plots over time: `plots` are { key, plot }, `curves()` what is drawn, `seconds()` the length of a run. */
export class Cursor {
  constructor(element, { plots, curves, seconds }) {
    Object.assign(this, { element, plots, curves, seconds });
    this.tip = make("div", { id: "tip", role: "status", hidden: true });
    document.body.append(this.tip);
    plots.forEach((one) => { one.line = draw("path", { class: "cursor-line" }); one.plot.svg.append(one.line); });
    element.addEventListener("pointermove", (event) => this.#point(event));
    element.addEventListener("pointerdown", (event) => this.#point(event));
    element.addEventListener("pointerleave", () => this.hide());
    element.addEventListener("blur", () => this.hide());
    element.addEventListener("keydown", (event) => this.#key(event));
    addEventListener("scroll", () => this.hide(), { passive: true });
  }

  hide() {
    this.tip.hidden = true;
    for (const { line } of this.plots) line.setAttribute("d", "");
  }

  #point(event) {
    const over = this.plots.find(({ plot }) => plot.svg.contains(event.target));
    if (!over) return this.hide();
    const box = over.plot.svg.getBoundingClientRect();
    const share = over.plot.share(((event.clientX - box.left) / box.width) * over.plot.width);
    return this.#show(over, share, event.clientX, event.clientY);
  }

  #key(event) {
    const step = { ArrowLeft: -0.01, ArrowRight: 0.01 }[event.key];
    if (event.key === "Escape") this.hide();
    if (!step) return;
    event.preventDefault();
    const over = this.plots[1];
    const box = over.plot.svg.getBoundingClientRect();
    this.#show(over, Math.min(1, Math.max(0, (this.at ?? 0) + step)), box.left + box.width / 3, box.top);
  }

  #show({ key, plot }, share, left, top) {
    if (share < 0 || share > 1) return this.hide();
    this.at = share;
    const seconds = share * this.seconds();
    const rows = this.curves().map(({ name, look, points }) => {
      const [, values] = points.reduce((best, point) => (Math.abs(point[0] - seconds) < Math.abs(best[0] - seconds) ? point : best), points[0]);
      return make("div", { class: look }, make("i"), make("span", {}, name), make("span", {}, said(values[key])));
    });
    this.tip.replaceChildren(make("b", {}, `${said(seconds)} s, ${plot.title.toLowerCase()}`), ...rows);
    this.tip.hidden = !rows.length;
    const box = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.max(4, left + 16 + box.width > innerWidth ? left - 16 - box.width : left + 16)}px`;
    this.tip.style.top = `${Math.min(top + 16, innerHeight - box.height - 4)}px`;
    for (const one of this.plots) one.line.setAttribute("d", one.plot.upright(share));
  }
}
