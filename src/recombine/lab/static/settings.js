// Controls: the state fills them, and they change the state.

import { $, app, shape } from "./app.js";
import { DEFAULT, PRESETS, preset } from "./state.js";
import { ask, drawTheory } from "./theory.js";

const GRAY = ["cnn", "transformer"]; // models that draw gray images only

/** Show the state in the controls. */
export function fill() {
  const { state, world } = app;
  $("world").value = state.world;
  const sizes = world.labels ? [] : [...new Set([...world.sizes, state.size])].sort((a, b) => a - b);
  const label = world.labels ? `${world.labels[0].length} × ${world.labels[1].length}` : "";
  $("size").replaceChildren(...sizes.map((s) => new Option(`${s} × ${s}`, s, false, s === state.size)), ...(label ? [new Option(label, state.size)] : []));
  $("size").disabled = Boolean(world.labels);
  $("about").textContent = world.about;
  reserve();
  $("axes").textContent = `${world.factors[0]} →  ${world.factors[1]} ↓`;
  $("kernel_depth").value = state.kernel_depth;
  $("kernel_depth-value").textContent = state.kernel_depth;
  $("own-salience").checked = state.salience !== null;
  $("salience").disabled = state.salience === null;
  $("kernel_depth").disabled = state.salience !== null;
  if (state.salience !== null) $("salience").value = state.salience;
  for (const [key, value] of Object.entries(state.net)) $(key).value = value;
  for (const option of $("model").options) option.disabled = (world.kind !== "image" && GRAY.includes(option.value)) || (state.world !== "bumps" && option.value === "low_rank");
  $("stripes").disabled = state.world !== "bumps";
  $("weights-card").hidden = state.world !== "twins";
}

/** Tell places of texts that arrive later how long these may be in this world: `room` in lab.css keeps the space. */
function reserve() {
  const { state, world } = app, longest = (list) => list.reduce((a, b) => (b.length > a.length ? b : a));
  const [i, j] = shape().map((levels, k) => (world.labels ? longest(world.labels[k].map(String)) : levels));
  const value = world.kind !== "number" ? "" : state.world === "twins" ? "−0.00, −0.00" : "−0.00"; // images have none
  const words = { a: world.factors[0], b: world.factors[1], i, j, value };
  for (const place of document.querySelectorAll("[data-template]")) place.dataset.longest = place.dataset.template.replace(/{(\w+)}/g, (_, key) => words[key]);
}

/** List the worlds, those without their images disabled, and say how to get them. */
export function listWorlds() {
  const here = [...app.catalog.values()].map((w) => new Option(w.title, w.name));
  const away = app.absent.map((w) => Object.assign(new Option(w.title, w.name), { disabled: true }));
  $("world").replaceChildren(...here, ...away);
  $("absent").textContent = app.absent.map((w) => `${w.title}: ${w.about}`).join(" ");
  $("absent").hidden = !app.absent.length;
}

/** `adopt(state)` shows a state, `remember()` writes it into the address, `repaint(mask)` is a stroke. */
export function wireSettings({ adopt, remember, repaint }) {
  const take = (change) => { adopt({ ...app.state, ...change }); remember(); };
  $("preset").replaceChildren(new Option("Presets …", ""), ...Object.keys(PRESETS).map((n) => new Option(n, n)));
  $("preset").onchange = (e) => { if (e.target.value) repaint((shape) => preset(e.target.value, shape)); e.target.value = ""; };
  $("world").onchange = (e) => {
    const { kind, name } = app.catalog.get(e.target.value), { model } = app.state.net;
    const fits = model === "mlp" || model === "factored" || (kind === "image" && GRAY.includes(model));
    take({ world: name, shown: "", net: { ...app.state.net, model: fits ? model : "mlp", stripes: 0 } });
  };
  $("size").onchange = (e) => take({ size: Number(e.target.value), shown: "" });
  $("view").onchange = () => { drawTheory(); remember(); };
  const slide = (key) => (e) => { app.state[key] = Number(e.target.value); $(`${key}-value`).textContent = e.target.value; ask(); };
  for (const key of ["kernel_depth", "salience"]) Object.assign($(key), { oninput: slide(key), onchange: () => remember() });
  $("own-salience").onchange = (e) => { app.state.salience = e.target.checked ? Number($("salience").value) : null; fill(); ask(); remember(); };
  for (const [key, like] of Object.entries(DEFAULT.net)) $(key).onchange = (e) => {
    const value = typeof like === "number" ? Number(e.target.value) : e.target.value;
    app.state = { ...app.state, net: { ...app.state.net, [key]: value } };
    remember();
  };
}
