// What the theme adds while a page loads, for keyboards and screen readers: wide tables can be scrolled by keys, and
// the row of buttons above a block of code is no landmark.
const mend = () => {
  for (const region of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) region.tabIndex = 0;
  for (const row of document.querySelectorAll("nav.md-code__nav:not([role])")) row.setAttribute("role", "none");
};
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
mend();
