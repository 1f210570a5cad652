// Reach what scrolls by keyboard, and name the buttons of each code block.
(() => {
  function mend() {
    document.querySelectorAll("nav.md-code__nav").forEach((nav, i) => (nav.ariaLabel = `Code block ${i + 1}`));
    for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .md-typeset p:has(> img)"))
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
  addEventListener("DOMContentLoaded", () => {
    mend();
    new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
  });
  addEventListener("resize", mend);
})();
