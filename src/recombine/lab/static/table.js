// Your own table: dropped or chosen; two factor columns and a target become a world.

import { $, complain } from "./app.js";
import { post } from "./api.js";

const LARGEST = 8 * 1024 * 1024; // bytes

const make = (tag, values) => Object.assign(document.createElement(tag), values);

/** `use(row)` is called with the description of the new world. */
export function wireTable(use) {
  const zone = $("drop");
  const take = async (file) => {
    if (!file) return;
    $("columns").hidden = true;
    if (file.size > LARGEST) return complain(new Error("The lab takes tables of up to 8 MB."));
    const text = await file.text();
    try { choose(text, await post("table", text), file.name, use); } catch (problem) { complain(problem); }
  };
  $("file").onchange = (e) => { take(e.target.files[0]); e.target.value = ""; };
  zone.ondragleave = () => zone.classList.remove("over");
  addEventListener("dragover", (e) => { e.preventDefault(); zone.classList.add("over"); }); // a file can be dropped anywhere
  addEventListener("drop", (e) => { e.preventDefault(); zone.classList.remove("over"); take(e.dataTransfer.files[0]); });
}

function choose(text, about, source, use) {
  const factors = about.columns.filter((c) => c.levels >= 2 && c.levels <= 64), numbers = about.columns.filter((c) => c.numeric);
  if (factors.length < 2 || !numbers.length) return complain(new Error("The table needs two columns with 2 to 64 levels and a column of numbers."));
  const select = (words, list, at) => {
    const label = make("label", { textContent: `${words} ` }), box = make("select", {});
    box.append(...list.map((c) => new Option(`${c.name} (${c.levels} levels)`, c.name)));
    box.selectedIndex = Math.min(at, list.length - 1);
    label.append(box);
    return [label, box];
  };
  const [first, a] = select("First factor", factors, 0), [second, b] = select("Second factor", factors, 1), [third, y] = select("Target", numbers, numbers.length - 1);
  const others = make("div", {}), button = make("button", { type: "button", textContent: "Use this table", className: "primary" });
  const fixed = () => Object.fromEntries([...others.querySelectorAll("select")].filter((box) => box.value).map((box) => [`fixed_${box.name}`, box.value.slice(1)]));
  const list = () => others.replaceChildren(...about.columns.filter((c) => c.values && c.levels > 1 && ![a.value, b.value, y.value].includes(c.name)).map((c) => {
    const label = make("label", { textContent: `${c.name} ` }), box = make("select", { name: c.name });
    box.append(new Option("averaged", ""), ...c.values.map((v) => new Option(`fixed at ${v}`, `=${v}`)));
    label.append(box);
    return label;
  }));
  for (const box of [a, b, y]) box.onchange = list;
  list();
  button.onclick = async () => {
    try { use(await post("table", text, { a: a.value, b: b.value, target: y.value, source, ...fixed() })); } catch (problem) { complain(problem); }
  };
  $("columns").replaceChildren(make("p", { className: "small", textContent: source }), first, second, third, others, button);
  $("columns").hidden = false;
  complain();
  $("columns").scrollIntoView({ block: "nearest" });
}
