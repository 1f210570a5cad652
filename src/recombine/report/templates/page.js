// Filter and sort claims, copy commands, and open the folds around the target of a link.
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const form = document.querySelector(".filters");
  const claims = all(".claim");
  const groups = all(".group");
  const total = new Set(claims.map((claim) => claim.dataset.name)).size;

  function filter() {
    const { words, paper, verdict, role } = Object.fromEntries(new FormData(form));
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    const active = Boolean(wanted.length || paper || verdict || role);
    const matches = new Set();  // a claim may have one entry per size
    for (const claim of claims) {
      const { name, text, paper: p, verdict: v, role: r } = claim.dataset;
      const show = wanted.every((w) => text.includes(w)) && (!paper || p === paper) && (!verdict || v === verdict) && (!role || r === role);
      claim.hidden = !show;
      if (show) matches.add(name);
    }
    for (const group of groups) {
      group.hidden = !group.querySelector(".claim:not([hidden])");
      if (active) group.open = true;
    }
    form.querySelector("[role=status]").textContent = active ? `${matches.size} of ${total} claims` : `${total} claims`;
  }

  const orders = {
    listed: (a, b) => a.dataset.n - b.dataset.n,
    verdict: (a, b) => a.dataset.rank - b.dataset.rank || a.dataset.n - b.dataset.n,
    role: (a, b) => a.dataset.weight - b.dataset.weight || a.dataset.n - b.dataset.n,
    sentence: (a, b) => a.dataset.text.localeCompare(b.dataset.text),
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
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (target.hidden) { form.reset(); filter(); }
    target.scrollIntoView();
  }

  // On narrow screens wide drawings scroll, so they must be reachable by keyboard.
  const narrow = matchMedia("(max-width: 1180px)");
  function makeFocusable() {
    for (const drawing of all(".drawing")) narrow.matches ? (drawing.tabIndex = 0) : drawing.removeAttribute("tabindex");
  }
  narrow.addEventListener("change", makeFocusable);
  makeFocusable();

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
