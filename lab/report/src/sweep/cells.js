// Cells and dots of a sweep's figures say under the cursor, or when they are touched, what they are.
(() => {
"use strict";
const tip = document.getElementById("tip");
const show = (event) => {
  const mark = event.target.closest?.("[data-tip]");
  if (!mark) return;
  const [name, ...lines] = mark.dataset.tip.split("\n");
  const head = document.createElement("b");
  head.textContent = name;
  tip.replaceChildren(head, lines.join("\n"));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const x = event.clientX + 16 + width > innerWidth ? event.clientX - width - 16 : event.clientX + 16;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.min(Math.max(4, event.clientY - height / 2), innerHeight - height - 4)}px`;
};
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
})();
