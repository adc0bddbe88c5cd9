// What mdBook leaves out for those who use a keyboard or hear the page: what scrolls can be reached, and the menu's button is one.
document.getElementById("mdbook-sidebar-toggle")?.setAttribute("role", "button");
const reach = () => {
  for (const box of document.querySelectorAll("pre > code, pre, .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
};
reach();
addEventListener("resize", reach);
