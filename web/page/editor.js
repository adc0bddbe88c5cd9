// A text with numbered lines, in which a problem is shown at its line.

import { make } from "./dom.js";

export class Editor {
  /** Around a <textarea> of the page; `changed(text)` is called as a person types. */
  constructor(area, { changed }) {
    this.area = area;
    this.numbers = make("pre", { class: "numbers", "aria-hidden": "true" });
    this.band = make("div", { class: "band", hidden: true });
    this.problem = make("p", { class: "problem", id: `${area.id}-problem`, role: "status" });
    const sheet = make("div", { class: "sheet" }, this.band);
    area.before(make("div", { class: "editor" }, this.numbers, sheet), this.problem);
    sheet.append(area);
    area.setAttribute("aria-describedby", this.problem.id);
    for (const [name, value] of Object.entries({ spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off" })) area.setAttribute(name, value);
    area.addEventListener("input", () => { this.#count(); changed(area.value); });
    area.addEventListener("scroll", () => this.#follow());
    new ResizeObserver(() => this.#follow()).observe(area);
    this.#count();
  }

  get text() { return this.area.value; }

  set text(text) {
    if (this.area.value === text) return;
    // Where it was, the reader stays.
    const { scrollTop, selectionStart, selectionEnd } = this.area;
    this.area.value = text;
    this.area.scrollTop = scrollTop;
    if (document.activeElement === this.area) this.area.setSelectionRange(selectionStart, selectionEnd);
    this.#count();
  }

  /** Shows a problem, at its line if it has one; without a message all is well. */
  say(message = "", line = null) {
    this.line = message ? line : null;
    this.area.setAttribute("aria-invalid", String(Boolean(message)));
    this.problem.replaceChildren();
    if (message && line) this.problem.append(make("button", { type: "button", onclick: () => this.#go() }, `line ${line}`), ` ${message}`);
    else this.problem.append(message);
    this.#follow();
    if (this.line) this.#reveal();
  }

  #height() { return parseFloat(getComputedStyle(this.area).lineHeight); }

  #reveal() {
    const at = (this.line - 1) * this.#height();
    if (at < this.area.scrollTop || at > this.area.scrollTop + this.area.clientHeight - 40) this.area.scrollTop = Math.max(0, at - 60);
  }

  #go() {
    const lines = this.area.value.split("\n");
    const start = lines.slice(0, this.line - 1).reduce((sum, line) => sum + line.length + 1, 0);
    this.area.focus();
    this.area.setSelectionRange(start, start + (lines[this.line - 1] ?? "").length);
    this.#reveal();
  }

  #count() {
    const lines = this.area.value.split("\n").length;
    if (lines !== this.lines) this.numbers.textContent = Array.from({ length: lines }, (_, i) => i + 1).join("\n");
    this.lines = lines;
    this.#follow();
  }

  #follow() {
    this.numbers.scrollTop = this.area.scrollTop;
    this.band.hidden = !this.line;
    if (this.line) {
      const height = this.#height();
      this.band.style.height = `${height}px`;
      this.band.style.top = `${(this.line - 1) * height + parseFloat(getComputedStyle(this.area).paddingTop) - this.area.scrollTop}px`;
    }
  }
}
