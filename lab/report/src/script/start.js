// Begins, unless the browser is too old for what stands above: then the page is as it was drawn.

document.body.classList.add("script");
figures.forEach(addTools);
setUpChips();
document.querySelectorAll(".panels").forEach((panels) => {
  const figure = panels.closest("figure");
  if (!figure.querySelector("g.plot")) return;
  panels.tabIndex = 0;
  panels.setAttribute("role", "group");
  panels.setAttribute("aria-label", `${titleOf(figure)}: arrow keys move the cursor`);
});
document.querySelectorAll(".runs").forEach((line) => {
  line.hidden = false;
  line.querySelector("select").onchange = (event) => { view.run = event.target.value; update(); };
});
// A heading that is jumped to stands below the switches, in however many rows these are.
const makeRoom = () => document.documentElement.style.setProperty("--chips", `${document.getElementById("chips")?.offsetHeight ?? 0}px`);
const refresh = () => { makeRoom(); showOff(); showRun(); relabel.forEach((change) => change()); if (view.off.size || view.zoom.size || view.kinds.size) apply(); };
const fromAddress = () => { makeRoom(); readAddress(); refresh(); };
addEventListener("hashchange", () => { fromAddress(); apply(); });
addEventListener("resize", () => { clear(); refresh(); });
document.addEventListener("toggle", (event) => { if (event.target.matches?.("details")) refresh(); }, true);
document.addEventListener("click", () => relabel.forEach((change) => change()));
addEventListener("beforeprint", () => { clear(); apply(); });
fromAddress();
