// Filter and sort claims, copy commands, and open the fold that an address leads into.
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const form = document.querySelector(".filters");
  const claims = all(".claim");
  const groups = all(".group");

  function filter() {
    const { words, paper, verdict, role } = Object.fromEntries(new FormData(form));
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    const active = Boolean(wanted.length || paper || verdict || role);
    let count = 0;
    for (const claim of claims) {
      const { text, paper: p, verdict: v, role: r } = claim.dataset;
      const show = wanted.every((w) => text.includes(w)) && (!paper || p === paper) && (!verdict || v === verdict) && (!role || r === role);
      claim.hidden = !show;
      count += show;
    }
    for (const group of groups) {
      group.hidden = !group.querySelector(".claim:not([hidden])");
      if (active) group.open = true;
    }
    form.querySelector("[role=status]").textContent = active ? `${count} of ${claims.length} claims` : `${claims.length} claims`;
  }

  const orders = {
    listed: (a, b) => a.dataset.n - b.dataset.n,
    verdict: (a, b) => a.dataset.rank - b.dataset.rank || a.dataset.n - b.dataset.n,
    role: (a, b) => a.dataset.weight - b.dataset.weight || a.dataset.n - b.dataset.n,
    name: (a, b) => a.dataset.text.localeCompare(b.dataset.text),
  };
  function sort() {
    const order = orders[form.elements.order.value];
    for (const group of groups) group.append(...all(".claim", group).sort(order));
  }

  async function copy(button) {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const before = button.textContent;
    button.textContent = "copied";
    setTimeout(() => (button.textContent = before), 1200);
  }

  function open() {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!place) return;
    for (let fold = place.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (place.hidden) { form.reset(); filter(); }
    place.scrollIntoView();
  }

  // On narrow screens wide drawings scroll, so that the keyboard must reach them.
  const narrow = matchMedia("(max-width: 1180px)");
  function reach() {
    for (const drawing of all(".drawing")) narrow.matches ? (drawing.tabIndex = 0) : drawing.removeAttribute("tabindex");
  }
  narrow.addEventListener("change", reach);
  reach();

  if (form) {
    form.hidden = false;
    for (const kind of ["input", "change"]) form.addEventListener(kind, () => { filter(); sort(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    filter();
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });
  addEventListener("hashchange", open);
  open();
})();
