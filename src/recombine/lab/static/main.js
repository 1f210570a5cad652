// The page: its address is the state, and every change of the state passes through here.

import { $, app, complain, page, shape } from "./app.js";
import { worlds } from "./api.js";
import { Painter } from "./grid.js";
import { choose, wireGuide } from "./guide.js";
import { color } from "./maps.js";
import { fill, listWorlds, wireSettings } from "./settings.js";
import { DEFAULT, pack, preset, read, unpack, write } from "./state.js";
import { wireTable } from "./table.js";
import { wireTaking } from "./taking.js";
import { loadTiles, tint } from "./tiles.js";
import { ask, clearCell, drawTheory, hover } from "./theory.js";
import { drawNetwork, forget, retry, wireTraining } from "./training.js";

const past = [], future = []; // masks, for undo and redo

/** Show a state; a training for another state is discarded. */
function adopt(next) {
  const data = (s) => JSON.stringify([s.world, s.size, s.shown, s.net]), fresh = data(next) !== data(app.state);
  const other = next.world !== app.state.world || next.size !== app.state.size || !app.world;
  if (other) { past.length = future.length = 0; app.theory = null; }
  app.state = next;
  app.world = app.catalog.get(next.world);
  const [n, m] = shape();
  if (next.shown && next.shown.length !== Math.ceil((n * m) / 8) * 2) next.shown = "";
  Object.assign(app.painter, { mask: unpack(next.shown, [n, m]), paintable: app.world.measured, cursor: null, witness: [] });
  clearCell();
  if (fresh) forget();
  fill();
  if (other || next.world === "table") loadTiles();
  undoable();
  redraw();
  ask();
}

function remember(push = true) {
  const address = write(app.state, { view: $("view").value, scene: app.scene ? app.scene.name : "", step: app.sceneStep });
  if (address === location.hash) return;
  if (push) history.pushState(null, "", address); else history.replaceState(null, "", address);
}

function restore() {
  const { state, view, scene, step } = read(location.hash);
  $("view").value = view;
  const away = app.absent.find((w) => w.name === state.world), known = app.catalog.has(state.world);
  choose(known ? scene : "", step);
  adopt(known ? state : start());
  if (!known) { remember(false); complain(new Error(away ? `${away.title}: ${away.about}` : `This lab has no world “${state.world}”. If it was your table, drop it again.`)); }
}

/** The state of a first visit. */
function start() {
  if (app.catalog.has("table")) return { ...structuredClone(DEFAULT), world: "table" };
  return { ...structuredClone(DEFAULT), shown: pack(preset("hidden square", [14, 14])) };
}

// ---------------------------------------------------------------- painting

function changed(done) {
  if (done) {
    const shown = pack(app.painter.mask), before = pack(unpack(app.state.shown, shape()));
    if (shown === before) return;
    past.push(before);
    if (past.length > 200) past.shift();
    future.length = 0;
    app.state.shown = shown;
    remember();
    undoable();
  } else if (app.frame || page.training !== "idle") forget();
  redraw();
  ask();
}

function repaint(paint) {
  app.painter.mask = paint(shape());
  forget();
  changed(true);
}

function back(from, to) {
  if (!from.length) return;
  to.push(app.state.shown);
  const cursor = app.painter.cursor;
  adopt({ ...app.state, shown: from.pop() });
  remember();
  if (cursor) app.painter.point(cursor);
}

function undoable() {
  $("undo").disabled = !past.length;
  $("redo").disabled = !future.length;
}

function redraw() { app.painter.draw(); drawTheory(); drawNetwork(); }

function legend() {
  const context = $("legend").getContext("2d");
  for (let x = 0; x < 240; x++) { context.fillStyle = color(2 * (x / 239) ** 2); context.fillRect(x, 0, 1, 12); }
}

// ---------------------------------------------------------------- start

function wire() {
  $("undo").onclick = () => back(past, future);
  $("redo").onclick = () => back(future, past);
  addEventListener("keydown", (e) => {
    if (!(e.ctrlKey || e.metaKey) || e.target.matches("input,select")) return;
    const key = e.key.toLowerCase(), again = key === "y" || (key === "z" && e.shiftKey);
    if (key !== "z" && key !== "y") return;
    e.preventDefault();
    back(...(again ? [future, past] : [past, future]));
  });
  wireGuide({ adopt, remember });
  wireSettings({ adopt, remember, repaint });
  wireTraining();
  wireTaking();
  wireTable((row) => {
    app.catalog.set("table", row);
    listWorlds();
    choose("");
    app.theory = null;
    adopt({ ...structuredClone(DEFAULT), world: "table" });
    remember();
    scrollTo({ top: 0 });
  });
  addEventListener("popstate", restore);
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { tint(); redraw(); });
}

async function open() {
  try {
    const answer = await worlds();
    app.catalog = new Map(answer.worlds.map((w) => [w.name, w]));
    app.absent = answer.absent;
    app.painter = new Painter($("paint"), { changed, hovered: (cell) => { hover(cell); drawTheory(); drawNetwork(); } });
    for (const name of ["theory", "network"]) app.painter.follow($(name));
    listWorlds();
    wire();
    legend();
    if (location.hash) restore(); else { choose(""); adopt(start()); remember(false); }
    document.body.classList.remove("loading");
    page.ready = true;
  } catch (problem) {
    $("verdict").textContent = "The lab could not start.";
    if (problem.offline) retry(open); else complain(problem);
  }
}

open();
