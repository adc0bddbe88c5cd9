// Elements, and files to keep.

const SVG = "http://www.w3.org/2000/svg";

const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
};
/** An element with attributes (`onclick` and the like are listeners) and children. */
export const make = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
/** Likewise of a picture. */
export const draw = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
export const $ = (id) => document.getElementById(id);

/** The line that stands for a contestant beside its name. */
export const swatch = (classes = "") =>
  draw("svg", { class: `swatch ${classes}`, viewBox: "0 0 22 10", "aria-hidden": "true" }, draw("path", { class: "line", d: "M0 5h22" }));

/** Gives a file to the person. */
export const save = (name, content, type = "text/plain") => {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const link = make("a", { download: name, href: URL.createObjectURL(blob) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};
