// Theory on the page: asked while one paints, drawn as a map, said in a sentence, and shown for one cell.

import { $, app, cellName, complain, heldOut, missing, page, painted, shape } from "./app.js";
import { post, visitor } from "./api.js";
import { drawCells, drawErrors, drawImage, format, ink, outline, spearman } from "./maps.js";

let asking = false, again = false, since = 0;

/** Ask what theory says of the painted cells; one question at a time, and always the newest last. */
export async function ask() {
  since = performance.now();
  again = asking;
  if (asking) return;
  asking = page.asking = true;
  $("theory").classList.add("stale");
  do {
    again = false;
    const start = since, world = app.world;
    try {
      const answer = await post("look", painted());
      if (world === app.world && String(answer.shape) === String(shape())) show(answer, start);
      if (!again) complain();
    } catch (problem) { if (!again) complain(problem); }
  } while (again);
  asking = page.asking = false;
  $("theory").classList.remove("stale");
}

function show(answer, start) {
  app.theory = answer;
  page.theoryError = answer.mean_error;
  page.determined = answer.held_out ? answer.determined / answer.held_out : 1;
  $("verdict").textContent = answer.verdict;
  $("reason").textContent = answer.reason;
  $("sentence").dataset.state = "ready";
  $("shown-count").textContent = `${answer.shown} shown, ${answer.held_out} held out`;
  if (app.state.salience === null) $("salience").value = answer.salience[1];
  $("salience-value").textContent = answer.salience[1].toFixed(2);
  drawTheory();
  agree();
  page.theoryMs = performance.now() - start;
  $("theory-time").textContent = `${Math.round(page.theoryMs)} ms`;
}

export function drawTheory() {
  const { theory, painter } = app;
  if (!theory) return;
  if ($("view").value === "pieces") {
    const place = drawCells($("theory"), theory.shape, (i, j) => (theory.pieces[i][j] < 0 ? ink("hidden") : hue(theory.pieces[i][j])));
    outline(place, theory.shape, heldOut, ink("ink"));
    $("theory-caption").replaceChildren(bold(theory.determined), ` of ${theory.held_out} held out determined`);
    return;
  }
  drawErrors($("theory"), theory.shape, theory.error, { heldOut, missing, cursor: painter.cursor });
  if (theory.mean_error === null) $("theory-caption").textContent = "error of an infinitely wide network";
  else $("theory-caption").replaceChildren("held-out error ", bold(format(theory.mean_error)), ", infinite width");
}

export const bold = (text) => Object.assign(document.createElement("b"), { textContent: text });

function hue(piece) {
  return piece < 2 ? ink(["seen", "held"][piece]) : `hsl(${(piece * 137.5) % 360} 45% 55%)`;
}

/** Say how well theory ranked the held-out cells by the error that the network has there. */
export function agree() {
  const { theory, frame } = app;
  page.agreement = null;
  $("agreement").textContent = "";
  if (!theory || !frame) return;
  const [n, m] = theory.shape, forecast = [], actual = [];
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) if (heldOut(i, j)) { forecast.push(theory.error[i][j]); actual.push(frame.error[i][j]); }
  page.agreement = spearman(forecast, actual);
  if (page.agreement === null) return;
  $("agreement").replaceChildren(bold(page.agreement.toFixed(2)), ` How well theory foretold where this network fails: rank correlation of expected and actual error over ${forecast.length} held-out cells.`);
}

// ---------------------------------------------------------------- one cell

let cellAsked = null;

/** Show the truth and the kernel's answer at a cell, and the witness on the grid. */
export async function hover(cell) {
  const { painter, state } = app;
  if (!cell) { painter.witness = []; return; }
  $("cursor").textContent = `${cellName(cell)}, ${painter.mask[cell[0]][cell[1]] ? "shown" : "held out"}`;
  if (page.connected) post("control", { visitor, action: "hover", cell }).catch(() => {});
  const mine = (cellAsked = {});
  try {
    const answer = await post("cell", { state: { ...state, shown: painted().shown }, cell });
    if (cellAsked !== mine) return;
    $("cell-name").textContent = cellName(cell);
    for (const kind of ["truth", "kernel"]) drawAnswer(kind, answer[kind]);
    painter.witness = painter.cursor ? answer.witness : [];
    painter.draw();
    $("cell-why").textContent = answer.shown ? "This combination is shown in training."
      : answer.witness.length ? `For a sum over factors, ${answer.witness.length} shown combinations determine it: add those with +, subtract those with −.`
        : "No path of shown combinations connects its row and its column: even for a sum over factors it is not determined.";
  } catch (problem) { complain(problem); }
}

/** Draw what one of truth, kernel and network answers at the cell; null clears it. */
export function drawAnswer(kind, answer) {
  drawImage($(`cell-${kind}`), answer);
  $(`value-${kind}`).textContent = answer && answer.length === 1 ? answer[0].map((v) => v.toFixed(2)).join(", ") : "";
}

export function clearCell() {
  cellAsked = null;
  $("cell-name").textContent = "point at a cell of a map";
  $("cell-why").textContent = "";
  for (const kind of ["truth", "kernel", "network"]) drawAnswer(kind, null);
}
