// Theory on the page: requested while painting, shown as a map, a sentence, and the details of one cell.

import { $, app, cellName, complain, heldOut, missing, page, painted, shape } from "./app.js";
import { post, visitor } from "./api.js";
import { drawCells, drawErrors, drawImage, format, frameCell, ink, outline, soon, spearman } from "./maps.js";

let asking = false, answered = "", since = 0;

/** Request the theory of the painted cells; one request at a time, and the newest always last. */
export async function ask() {
  since = window.event ? window.event.timeStamp : performance.now();
  if (asking) return;
  asking = page.asking = true;
  $("theory").classList.add("stale");
  for (let question = JSON.stringify(painted()); question !== answered || !app.theory; question = JSON.stringify(painted())) {
    const start = since, world = app.world;
    page.theoryMs = null;
    try {
      const answer = await post("look", question);
      answered = question;
      if (world === app.world && String(answer.shape) === String(shape())) { show(answer, start); complain(); }
    } catch (problem) {
      answered = "";
      if (question === JSON.stringify(painted())) { complain(problem); break; }
    }
  }
  asking = page.asking = false;
  $("theory").classList.remove("stale");
  if (answered) hover(app.painter.cursor);
}

function show(answer, start) {
  app.theory = answer;
  page.theoryError = answer.mean_error;
  page.determined = answer.held_out ? answer.determined / answer.held_out : 1;
  $("verdict").textContent = answer.verdict;
  $("reason").textContent = answer.reason;
  Object.assign($("sentence").dataset, { state: "ready", fate: answer.fate });
  $("shown-count").textContent = `${answer.shown} shown, ${answer.held_out} held out`;
  if (app.state.salience === null) $("salience").value = answer.salience[1];
  $("salience-value").textContent = answer.salience[1].toFixed(2);
  if (!app.painter.cursor) app.painter.point(worst(answer));
  drawTheory();
  agree();
  requestAnimationFrame(() => setTimeout(() => { // after the frame with the new map
    page.theoryMs = performance.now() - start;
    $("theory-time").textContent = `${Math.round(page.theoryMs)} ms`;
  }));
}

/** The held-out cell with the largest expected error, or the middle: shown before the first hover. */
function worst({ shape: [n, m], error }) {
  let best = [n >> 1, m >> 1], most = -1;
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) if (heldOut(i, j) && error[i][j] > most + 1e-3) { best = [i, j]; most = error[i][j]; }
  return best;
}

export const drawTheory = () => soon(render);

function render() {
  const { theory, painter } = app;
  if (!theory) return;
  if ($("view").value === "pieces") {
    const place = drawCells($("theory"), theory.shape, (i, j) => (theory.pieces[i][j] < 0 ? ink("hidden") : hue(theory.pieces[i][j])));
    outline(place, theory.shape, heldOut, ink("ink"));
    frameCell(place, painter.cursor);
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

/** Show the rank correlation of expected and actual error over held-out cells. */
export function agree() {
  const { theory, frame } = app;
  page.agreement = null;
  $("agreement").textContent = theory && theory.held_out ? "Train a network to see how well theory predicts where it fails." : "";
  if (!theory || !frame) return;
  const [n, m] = theory.shape, forecast = [], actual = [];
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) if (heldOut(i, j)) { forecast.push(theory.error[i][j]); actual.push(frame.error[i][j]); }
  page.agreement = spearman(forecast, actual);
  if (page.agreement === null) return void ($("agreement").textContent = "");
  $("agreement").replaceChildren(bold(page.agreement.toFixed(2)), ` How well theory predicted where this network fails: rank correlation of expected and actual error over ${forecast.length} held-out cells.`);
}

// ---------------------------------------------------------------- one cell

let next = false, pointing = false, described = ""; // whether to request again, whether a request is under way, the cell named on the page

/** What the server is asked about the cell under the cursor. */
const question = () => JSON.stringify({ state: { ...painted(), net: undefined }, cell: app.painter.cursor });

/** Show the truth and the kernel's answer at a cell, and the witness on the grid; the newest cell wins. */
export async function hover(cell) {
  if (!cell) return;
  $("cursor").textContent = `${cellName(cell)}, ${app.painter.mask[cell[0]][cell[1]] ? "shown" : "held out"}`;
  if (String(cell) !== described) clearCell(cell);
  if (app.painter.stroke || asking) return; // requested when both are over
  if (page.connected) post("control", { visitor, action: "hover", cell }).catch(() => {});
  next = true;
  if (pointing) return;
  pointing = true;
  while (next && app.painter.cursor) {
    const asked = question();
    next = false;
    try {
      const answer = await post("cell", asked);
      if (asked === question()) tell(answer);
    } catch (problem) { if (!asking) complain(problem); }
  }
  pointing = false;
}

function tell(answer) {
  for (const kind of ["truth", "kernel"]) drawAnswer(kind, answer[kind]);
  app.painter.witness = answer.witness;
  app.painter.draw();
  $("cell-why").textContent = answer.shown ? "This combination is in the training set."
    : answer.witness.length ? `For a sum over factors, ${answer.witness.length} shown combinations determine it: add those with +, subtract those with −.`
      : "No path of shown combinations connects its row and its column: even for a sum over factors it is not determined.";
}

/** Draw the output of truth, kernel or network at the cell; null clears it. */
export function drawAnswer(kind, answer) {
  drawImage($(`cell-${kind}`), answer);
  $(`value-${kind}`).textContent = answer && answer.length === 1 ? answer[0].map((v) => v.toFixed(2)).join(", ") : "";
}

/** Name a cell, or none, and clear what was said of another one: its values never stand beside the new name. */
export function clearCell(cell = null) {
  described = String(cell);
  $("cell-name").textContent = cell ? cellName(cell) : "point at a cell of a map";
  $("cell-why").textContent = "";
  app.painter.witness = [];
  for (const kind of ["truth", "kernel", "network"]) drawAnswer(kind, null);
}
