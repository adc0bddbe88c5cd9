// Chips above the figures: a click hides a contestant everywhere, pointing at one dims the others.
const chips = document.getElementById("chips");
const all = (number) => document.querySelectorAll("main .k" + number);
for (const chip of chips.children) {
  const number = chip.dataset.k;
  chip.onclick = () => {
    const on = chip.getAttribute("aria-pressed") !== "true";
    chip.setAttribute("aria-pressed", on);
    all(number).forEach((mark) => mark.classList.toggle("off", !on));
  };
  const point = (on) => () => {
    document.body.classList.toggle("dim", on);
    all(number).forEach((mark) => mark.classList.toggle("lit", on));
  };
  chip.onmouseenter = point(true);
  chip.onmouseleave = point(false);
}
chips.hidden = chips.children.length < 2;
