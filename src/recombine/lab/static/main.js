// The page: state in, pictures out. Theory is asked after every stroke; training streams in.

import { listen, post, visitor, worlds as fetchWorlds } from "./api.js";
import { Painter } from "./grid.js";
import { color, drawCells, drawCurves, drawImage, format, ink, outline, spearman } from "./maps.js";
import { DEFAULT, PRESETS, pack, preset, read, unpack, write } from "./state.js";
import { SCENES } from "./scenes.js";

const $ = (id) => document.getElementById(id);
const page = { heldOut: null, shown: null, theoryError: null, agreement: null, determined: null, purity: null, step: 0, training: "idle", theoryMs: null };
window.lab = page; // what tests and curious people read

let catalog = new Map(), state = structuredClone(DEFAULT), world = null;
let theory = null, frame = null, curves = [], running = null, scene = null, sceneStep = 0;
const past = [], future = [];
const painter = new Painter($("paint"), { changed, hovered });

// ---------------------------------------------------------------- state and address

const shape = () => (world.labels ? world.labels.map((l) => l.length) : [state.size, state.size]);

function remember(push = true) {
  const address = write(state, scene ? scene.name : "", sceneStep);
  if (address === location.hash) return;
  if (push) history.pushState(null, "", address); else history.replaceState(null, "", address);
}

function restore() {
  const found = read(location.hash);
  if (!catalog.has(found.state.world)) found.state.world = "bumps";
  scene = SCENES.find((s) => s.name === found.scene) || null;
  sceneStep = scene ? Math.min(found.step, scene.steps.length - 1) : 0;
  adopt(found.state);
  tell();
}

function adopt(next) {
  const fresh = JSON.stringify([next.world, next.size, next.shown, next.net]) !== JSON.stringify([state.world, state.size, state.shown, state.net]);
  state = next;
  world = catalog.get(state.world);
  if (!world.labels && !world.sizes.includes(state.size)) world.sizes = [...world.sizes, state.size].sort((a, b) => a - b);
  const [n, m] = shape();
  if (state.shown && state.shown.length !== Math.ceil((n * m) / 8) * 2) state.shown = "";
  painter.mask = unpack(state.shown, [n, m]);
  painter.blocked = world.measured;
  painter.cursor = null;
  painter.witness = [];
  clearCell();
  if (fresh) forget();
  fill();
  painter.draw();
  ask();
}

function fill() {
  $("world").value = state.world;
  $("size").replaceChildren(...world.sizes.map((s) => new Option(`${s} × ${s}`, s, false, s === state.size)));
  $("size").disabled = Boolean(world.labels);
  $("about").textContent = world.about;
  $("kernel_depth").value = state.kernel_depth;
  $("kernel_depth-value").textContent = state.kernel_depth;
  $("own-salience").checked = state.salience !== null;
  $("salience").disabled = state.salience === null;
  if (state.salience !== null) $("salience").value = state.salience;
  for (const [k, v] of Object.entries(state.net)) $(k).value = v;
  const image = world.kind === "image";
  for (const option of $("model").options) option.disabled = (!image && ["cnn", "transformer"].includes(option.value)) || (state.world !== "bumps" && option.value === "low_rank");
  $("stripes").disabled = state.world !== "bumps";
  $("weights-card").hidden = state.world !== "twins";
  $("undo").disabled = !past.length;
  $("redo").disabled = !future.length;
}

function keep() {
  past.push(state.shown);
  if (past.length > 200) past.shift();
  future.length = 0;
}

// ---------------------------------------------------------------- painting and theory

function changed(done) {
  if (done) {
    keep();
    state.shown = pack(painter.mask);
    forget();
    remember();
    fill();
    ask();
    if (painter.cursor) hovered(painter.cursor);
  }
  painter.draw();
}

let asking = null;
async function ask() {
  const mine = (asking = {});
  page.asking = true;
  const start = performance.now();
  try {
    const answer = await post("look", { ...state, shown: pack(painter.mask) });
    if (asking !== mine) return;
    theory = answer;
    complain();
    page.theoryMs = performance.now() - start;
    page.theoryError = answer.mean_error;
    page.determined = answer.held_out ? answer.determined / answer.held_out : 1;
    $("sentence").textContent = answer.sentence;
    $("sentence").dataset.state = "ready";
    $("shown-count").textContent = `${answer.shown} shown, ${answer.held_out} held out`;
    $("theory-time").textContent = `${Math.round(page.theoryMs)} ms`;
    if (state.salience === null) $("salience").value = answer.salience[1];
    $("salience-value").textContent = answer.salience[1].toFixed(2);
    drawTheory();
    agree();
  } catch (problem) { if (asking === mine) complain(problem); }
  page.asking = false;
}

function heldOut(i, j) { return !painter.mask[i][j] && (!world.measured || world.measured[i][j]); }

function drawTheory() {
  if (!theory) return;
  const pieces = $("view").value === "pieces", palette = ["--seen", "--held"].map((n) => ink(n.slice(2)));
  const paint = pieces
    ? (i, j) => (theory.pieces[i][j] < 0 ? ink("hidden") : hue(theory.pieces[i][j], palette))
    : (i, j) => (world.measured && !world.measured[i][j] ? ink("line") : color(theory.error[i][j]));
  const place = drawCells($("theory"), theory.shape, paint);
  outline(place, theory.shape, heldOut, ink("held"));
  $("theory-caption").textContent = pieces ? "one color per connected piece; gray is not determined" : `error of an infinitely wide network: ${format(theory.mean_error)} where held out`;
}

function hue(piece, palette) {
  return piece < 2 ? palette[piece % 2] : `hsl(${(piece * 137.5) % 360} 45% 55%)`;
}

function clearCell() {
  cellAsked = null;
  $("cell-name").textContent = "hover or move over the grid";
  $("cell-why").textContent = "";
  for (const kind of ["truth", "kernel", "network"]) { drawImage($(`cell-${kind}`), null); $(`value-${kind}`).textContent = ""; }
}

let cellAsked = null;
async function hovered(cell) {
  $("cursor").textContent = cell ? `${name(cell)}, ${painter.mask[cell[0]][cell[1]] ? "shown" : "held out"}` : "";
  if (!cell) return;
  if (running) post("control", { visitor, action: "hover", cell }).catch(() => {});
  const mine = (cellAsked = {});
  try {
    const answer = await post("cell", { state: { ...state, shown: pack(painter.mask) }, cell });
    if (cellAsked !== mine) return;
    $("cell-name").textContent = name(cell);
    drawImage($("cell-truth"), answer.truth);
    drawImage($("cell-kernel"), answer.kernel);
    for (const kind of ["truth", "kernel"]) $(`value-${kind}`).textContent = values(answer[kind]);
    painter.witness = answer.witness;
    painter.draw();
    $("cell-why").textContent = answer.shown ? "This combination is shown in training."
      : answer.witness.length ? `For a sum over factors, ${answer.witness.length} shown combinations determine it: add those with +, subtract those with −.`
        : "No path of shown combinations connects its row and its column: even for a sum over factors it is not determined.";
  } catch (problem) { complain(problem); }
}

function name([i, j]) {
  const at = world.labels ? [world.labels[0][i], world.labels[1][j]] : [i, j];
  return `${world.factors[0]} = ${at[0]}, ${world.factors[1]} = ${at[1]}`;
}

function values(image) { return image.length === 1 ? image[0].map((v) => v.toFixed(2)).join(", ") : ""; }

// ---------------------------------------------------------------- training

function forget() {
  if (running) { running.close(); running = null; post("control", { visitor, action: "stop" }).catch(() => {}); }
  frame = null;
  curves = [];
  Object.assign(page, { heldOut: null, shown: null, agreement: null, purity: null, step: 0, training: "idle" });
  $("net-caption").textContent = "not trained yet";
  $("step-count").textContent = "";
  $("pause").textContent = "Pause";
  $("pause").disabled = $("step").disabled = true;
  $("purity").textContent = "Train to see them: a row per unit that sends, a column per unit that receives.";
  drawImage($("cell-network"), null);
  $("value-network").textContent = "";
  drawNetwork();
}

async function train() {
  forget();
  page.training = "starting";
  $("net-caption").textContent = "starting …";
  try {
    await post("train", { visitor, state: { ...state, shown: pack(painter.mask) } });
  } catch (problem) { page.training = "refused"; $("net-caption").textContent = "not trained"; return complain(problem); }
  complain();
  running = listen(hear, lost);
  if ($("slow").checked) control("slow", { on: true });
  if (painter.cursor) control("hover", { cell: painter.cursor });
  $("pause").disabled = $("step").disabled = false;
}

function hear(message) {
  if (message.type === "started") {
    page.training = "running";
    $("net-caption").textContent = `${message.parameters.toLocaleString("en")} parameters${message.seeds > 1 ? `, ${message.seeds} seeds` : ""}`;
  }
  if (message.type === "frame") show(message);
  if (message.type === "drawing" && String(message.cell) === String(painter.cursor)) drawing(message);
  if (message.type === "done") finish("done", `trained in ${message.seconds} s`);
  if (message.type === "diverged") finish("diverged", `diverged at step ${message.step}: lower the learning rate`);
  if (message.type === "refused") { finish("refused", "not trained"); complain(new Error(message.error)); }
  if (message.type === "lost") { finish("lost", "training stopped"); complain(new Error(message.error)); }
}

function finish(how, words) {
  page.training = how;
  if (how === "refused" || how === "lost") { running.close(); running = null; } // after the others, hovered cells are still drawn
  $("net-caption").textContent = words;
  $("pause").disabled = $("step").disabled = true;
}

function show(message) {
  frame = message;
  const mean = (list) => { const some = list.filter((v) => v !== null); return some.length ? some.reduce((a, b) => a + b, 0) / some.length : null; };
  page.shown = mean(message.shown);
  page.heldOut = mean(message.held_out);
  page.step = message.step;
  if (!curves.length || curves[curves.length - 1].step !== message.step) curves.push({ step: message.step, shown: page.shown, heldOut: page.heldOut });
  $("step-count").textContent = `step ${message.step.toLocaleString("en")} of ${message.steps.toLocaleString("en")}`;
  drawNetwork();
  if (message.drawing && String(message.cell) === String(painter.cursor)) drawing(message);
  if (message.weights) {
    const most = Math.max(...message.weights.flat()) || 1, rows = message.weights.length;
    drawCells($("weights"), [message.weights[0].length, rows], (i, j) => color(message.weights[j][i], most));
    page.purity = message.purity;
    $("purity").textContent = `Hidden units spend ${(100 * message.purity).toFixed(0)} % of their signal on one function; 25 % would be no preference.`;
  }
  agree();
}

function drawing(message) {
  drawImage($("cell-network"), message.drawing);
  $("value-network").textContent = values(message.drawing);
}

function drawNetwork() {
  const size = world ? shape() : [state.size, state.size];
  const place = drawCells($("network"), size, (i, j) => (frame && !(world.measured && !world.measured[i][j]) ? color(frame.error[i][j]) : ink("hidden")));
  if (world) outline(place, size, heldOut, ink("held"));
  const series = [
    { name: "shown", color: ink("seen"), points: curves.map((c) => [c.step, c.shown]) },
    { name: "held out", color: ink("held"), points: curves.filter((c) => c.heldOut !== null).map((c) => [c.step, c.heldOut]) },
  ];
  drawCurves($("chart"), series, frame ? frame.steps : state.net.steps);
}

function agree() {
  if (!theory || !frame) { $("agreement").textContent = ""; return; }
  const [n, m] = theory.shape, a = [], b = [];
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) if (heldOut(i, j)) { a.push(theory.error[i][j]); b.push(frame.error[i][j]); }
  page.agreement = spearman(a, b);
  $("agreement").textContent = page.agreement === null ? "" : `How well theory foretold where this network fails: rank correlation ${page.agreement.toFixed(2)} over ${a.length} held-out combinations.`;
}

function control(action, more = {}) { return post("control", { visitor, action, ...more }).catch(complain); }

let retry = null;
function lost() {
  if (running) running.close();
  running = null;
  page.training = "lost";
  $("pause").disabled = $("step").disabled = true;
  $("net-caption").textContent = "connection lost";
  $("offline-command").textContent = `recombine lab --address "${location.href}"`;
  $("offline").hidden = false;
  clearInterval(retry);
  retry = setInterval(async () => {
    try { await fetchWorlds(); } catch { return; }
    clearInterval(retry);
    $("offline").hidden = true;
    forget();
    ask();
  }, 1000);
}

// ---------------------------------------------------------------- scenes

function tell() {
  for (const button of $("scenes").children) button.setAttribute("aria-current", String(button.dataset.scene === (scene ? scene.name : "")));
  $("story").hidden = !scene;
  if (!scene) return;
  const step = scene.steps[sceneStep];
  $("story-text").textContent = step.text;
  $("story-count").textContent = `${scene.paper} · ${sceneStep + 1} of ${scene.steps.length}`;
  $("story-back").disabled = sceneStep === 0;
  $("story-next").textContent = sceneStep + 1 < scene.steps.length ? "Next" : "Done: play freely";
}

function play(next, index) {
  scene = next;
  sceneStep = index;
  const step = scene && scene.steps[index];
  if (step && step.set) {
    const wanted = structuredClone(DEFAULT);
    Object.assign(wanted, { world: step.set.world, size: step.set.size, net: { ...wanted.net, ...step.set.net } });
    const mask = preset(step.set.preset, [wanted.size, wanted.size]);
    if (step.set.add) mask[step.set.add[0]][step.set.add[1]] = true;
    wanted.shown = pack(mask);
    $("view").value = step.view || "error";
    adopt(wanted);
  }
  remember();
  tell();
  if (step && step.hover) painter.point(step.hover);
  if (step && step.train) train();
}

page.trains = () => Boolean(scene && scene.steps[sceneStep].train);
page.headline = () => { const step = scene && scene.steps[sceneStep]; return step && step.headline ? step.headline(page) : null; };

// ---------------------------------------------------------------- errors and taking it away

function complain(problem = null) {
  if (problem && problem.offline) { if (page.training !== "lost") lost(); return; }
  $("problem").hidden = !problem;
  $("problem").textContent = problem ? problem.message : "";
}

async function copy(text, words) {
  try { await navigator.clipboard.writeText(text); } catch { window.prompt("Copy this:", text); }
  page.copied = text;
  $("taken").textContent = words;
}

// ---------------------------------------------------------------- wiring

function wire() {
  $("preset").replaceChildren(new Option("choose …", ""), ...Object.keys(PRESETS).map((n) => new Option(n, n)));
  $("preset").onchange = (e) => { if (e.target.value) { painter.mask = preset(e.target.value, shape()); e.target.value = ""; changed(true); } };
  const back = (from, to) => { if (!from.length) return; to.push(state.shown); const next = { ...state, shown: from.pop() }; adopt(next); remember(); };
  $("undo").onclick = () => back(past, future);
  $("redo").onclick = () => back(future, past);
  addEventListener("keydown", (e) => {
    if (!(e.ctrlKey || e.metaKey) || e.target.matches("input,select")) return;
    if (e.key.toLowerCase() === "z" && !e.shiftKey) { e.preventDefault(); $("undo").click(); }
    if (e.key.toLowerCase() === "y" || (e.key.toLowerCase() === "z" && e.shiftKey)) { e.preventDefault(); $("redo").click(); }
  });
  $("world").onchange = (e) => { const w = catalog.get(e.target.value); past.length = future.length = 0; adopt({ ...state, world: w.name, shown: "", net: { ...state.net, model: w.kind === "image" && state.net.model !== "low_rank" ? state.net.model : "mlp", stripes: 0 } }); remember(); };
  $("size").onchange = (e) => { past.length = future.length = 0; adopt({ ...state, size: Number(e.target.value), shown: "" }); remember(); };
  $("view").onchange = drawTheory;
  $("kernel_depth").oninput = (e) => { state.kernel_depth = Number(e.target.value); $("kernel_depth-value").textContent = e.target.value; ask(); };
  $("kernel_depth").onchange = () => remember();
  $("own-salience").onchange = (e) => { state.salience = e.target.checked ? Number($("salience").value) : null; fill(); ask(); remember(); };
  $("salience").oninput = (e) => { state.salience = Number(e.target.value); ask(); };
  $("salience").onchange = () => remember();
  for (const key of Object.keys(DEFAULT.net)) $(key).onchange = (e) => {
    const like = DEFAULT.net[key], value = typeof like === "number" ? Number(e.target.value) : e.target.value;
    state = { ...state, net: { ...state.net, [key]: value } };
    remember();
  };
  $("train").onclick = train;
  $("reset").onclick = forget;
  $("pause").onclick = () => {
    const pausing = page.training === "running";
    control(pausing ? "pause" : "resume");
    page.training = pausing ? "paused" : "running";
    $("pause").textContent = pausing ? "Resume" : "Pause";
  };
  $("step").onclick = () => { control("step"); page.training = "paused"; $("pause").textContent = "Resume"; };
  $("slow").onchange = (e) => control("slow", { on: e.target.checked });
  $("copy-link").onclick = () => { const link = new URL(location.href); link.searchParams.delete("token"); copy(link.href, 'Link copied, without your token. Open it anywhere with: recombine lab --address "LINK"'); };
  $("copy-python").onclick = async () => copy((await post("code", state)).python, "Python copied.");
  $("copy-command").onclick = async () => copy((await post("code", state)).command, "Command copied.");
  $("export").onclick = async () => {
    try {
      const blob = await post("export", { visitor, state });
      const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: "recombine-lab.html" });
      link.click();
      page.exported = await blob.text();
      $("taken").textContent = "Saved as recombine-lab.html.";
    } catch (problem) { complain(problem); }
  };
  $("scenes").replaceChildren(...[{ name: "", title: "Free play" }, ...SCENES].map((s) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: s.title });
    button.dataset.scene = s.name;
    button.onclick = () => (s.name ? play(SCENES.find((x) => x.name === s.name), 0) : (scene = null, tell(), remember()));
    return button;
  }));
  $("story-next").onclick = () => (sceneStep + 1 < scene.steps.length ? play(scene, sceneStep + 1) : (scene = null, tell(), remember()));
  $("story-back").onclick = () => play(scene, sceneStep - 1);
  addEventListener("popstate", restore);
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  tableDrop();
}

function redraw() { painter.draw(); drawTheory(); drawNetwork(); legend(); }

function legend() {
  const context = $("legend").getContext("2d");
  for (let x = 0; x < 240; x++) { context.fillStyle = color((2 * x) / 239); context.fillRect(x, 0, 1, 12); }
}

function tableDrop() {
  const zone = $("drop");
  const take = async (file) => {
    if (!file) return;
    if (file.size > 8 * 1024 * 1024) return complain(new Error("The lab takes tables of up to 8 MB."));
    const text = await file.text();
    try { choose(text, await post("table", text), file.name); complain(); } catch (problem) { complain(problem); }
  };
  $("file").onchange = (e) => take(e.target.files[0]);
  zone.ondragover = (e) => { e.preventDefault(); zone.classList.add("over"); };
  zone.ondragleave = () => zone.classList.remove("over");
  zone.ondrop = (e) => { e.preventDefault(); zone.classList.remove("over"); take(e.dataTransfer.files[0]); };
}

function choose(text, about, source) {
  const factors = about.columns.filter((c) => c.levels >= 2 && c.levels <= 64), numbers = about.columns.filter((c) => c.numeric);
  if (factors.length < 2 || !numbers.length) return complain(new Error("The table needs two columns with 2 to 64 levels and a column of numbers."));
  const select = (words, list, at) => {
    const label = Object.assign(document.createElement("label"), { textContent: `${words} ` });
    const box = document.createElement("select");
    box.append(...list.map((c) => new Option(`${c.name} (${c.levels} levels)`, c.name)));
    box.selectedIndex = Math.min(at, list.length - 1);
    label.append(box);
    return [label, box];
  };
  const [first, a] = select("First factor", factors, 0), [second, b] = select("Second factor", factors, 1), [third, y] = select("Target", numbers, numbers.length - 1);
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Use this table", className: "primary" });
  const others = document.createElement("div");
  const fixed = () => Object.fromEntries([...others.querySelectorAll("select")].filter((box) => box.value).map((box) => [`fixed_${box.name}`, box.value.slice(1)]));
  const list = () => others.replaceChildren(...about.columns.filter((c) => c.values && c.levels > 1 && ![a.value, b.value, y.value].includes(c.name)).map((c) => {
    const label = Object.assign(document.createElement("label"), { textContent: `${c.name} ` }), box = Object.assign(document.createElement("select"), { name: c.name });
    box.append(new Option("averaged", ""), ...c.values.map((v) => new Option(`fixed at ${v}`, `=${v}`)));
    label.append(box);
    return label;
  }));
  for (const box of [a, b, y]) box.onchange = list;
  list();
  button.onclick = async () => {
    try {
      const row = await post("table", text, { a: a.value, b: b.value, target: y.value, source, ...fixed() });
      catalog.set("table", row);
      for (const old of [...$("world").options].filter((o) => o.value === "table")) old.remove();
      $("world").add(new Option(row.title, "table"));
      adopt({ ...structuredClone(DEFAULT), world: "table" });
      remember();
      complain();
    } catch (problem) { complain(problem); }
  };
  $("columns").replaceChildren(first, second, third, others, button);
  $("columns").hidden = false;
}

async function start() {
  try {
    const answer = await fetchWorlds();
    catalog = new Map(answer.worlds.map((w) => [w.name, w]));
    $("world").replaceChildren(...answer.worlds.map((w) => new Option(w.title, w.name)));
    wire();
    legend();
    if (!location.hash) { const first = structuredClone(DEFAULT); first.world = catalog.has("table") ? "table" : "bumps"; if (first.world === "bumps") first.shown = pack(preset("hidden square", [14, 14])); adopt(first); remember(false); tell(); } else restore();
    page.ready = true;
  } catch (problem) {
    $("sentence").textContent = "";
    complain(problem.message ? problem : new Error("The lab could not start."));
  }
}

start();
