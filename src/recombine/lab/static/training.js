// Training on the page: started and steered by requests, drawn from a stream of frames.

import { $, app, complain, heldOut, missing, page, painted, shape } from "./app.js";
import { listen, post, visitor, worlds } from "./api.js";
import { drawCells, drawCurves, drawErrors, format, ink, mean, soon } from "./maps.js";
import { agree, ask, bold, drawAnswer } from "./theory.js";

let stream = null, curves = [];

const control = (action, more = {}) => post("control", { visitor, action, ...more }).catch(complain);

function connect(next) {
  if (stream) stream.close();
  stream = next;
  page.connected = Boolean(next);
}

function steerable(yes) {
  $("pause").disabled = $("step").disabled = !yes;
  $("pause").textContent = "Pause";
}

function say(words, state) {
  page.training = state;
  $("net-caption").textContent = words;
  $("net-caption").dataset.state = state;
}

/** Discard the training and stop it if it is under way; a new one stops it anyway. */
export function forget(end = true) {
  if (stream) connect(null);
  if (end && ["starting", "running", "paused"].includes(page.training)) post("control", { visitor, action: "stop" }).catch(() => {});
  app.frame = null;
  curves = [];
  Object.assign(page, { heldOut: null, shown: null, purity: null, step: 0 });
  say("not trained yet", "idle");
  $("step-count").textContent = "";
  steerable(false);
  $("purity").textContent = "train to see them";
  drawAnswer("network", null);
  agree();
  drawNetwork();
}

export async function train() {
  forget(false);
  say("starting …", "starting");
  try {
    await post("train", { visitor, state: painted() });
  } catch (problem) { say("not trained", "refused"); return complain(problem); }
  complain();
  connect(listen(hear, lost));
  if ($("slow").checked) control("slow", { on: true });
  if (app.painter.cursor) control("hover", { cell: app.painter.cursor });
  steerable(true);
}

function hear(message) {
  if (message.type === "started") say(`${message.parameters.toLocaleString("en")} parameters${message.seeds > 1 ? `, ${message.seeds} seeds` : ""}`, "running");
  if (message.type === "frame") show(message);
  if (message.type === "drawing") drawHovered(message);
  if (message.type === "done") { // the stream stays: hovered cells are still drawn
    steerable(false);
    $("step-count").textContent += ` in ${message.seconds.toFixed(1)} s`;
    page.training = "done";
    if (page.shown > 1) { say("did not learn: lower the learning rate", "done"); $("net-caption").dataset.state = "diverged"; }
  }
  if (message.type === "diverged") { say("diverged: lower the learning rate", "diverged"); $("step-count").textContent = `diverged at step ${message.step.toLocaleString("en")}`; steerable(false); }
  if (message.type === "refused" || message.type === "lost") {
    say(message.type === "refused" ? "not trained" : "training stopped", message.type);
    steerable(false);
    connect(null);
    complain(new Error(message.error));
  }
}

function caption() {
  const errors = page.heldOut === null ? ["error ", bold(format(page.shown))] : ["held-out error ", bold(format(page.heldOut)), `, shown ${format(page.shown)}`];
  $("net-caption").replaceChildren(...errors);
}

function show(message) {
  app.frame = message;
  page.shown = mean(message.shown);
  page.heldOut = mean(message.held_out);
  page.step = message.step;
  if (!curves.length || curves[curves.length - 1].step !== message.step) curves.push({ step: message.step, shown: page.shown, heldOut: page.heldOut });
  $("step-count").textContent = `step ${message.step.toLocaleString("en")} of ${message.steps.toLocaleString("en")}`;
  caption();
  drawNetwork();
  drawHovered(message);
  agree();
}

function drawHovered(message) {
  if (message.drawing && String(message.cell) === String(app.painter.cursor)) drawAnswer("network", message.drawing);
}

/** Draw the error map, the curves and, in the world that has them, the weights. */
export const drawNetwork = () => soon(render);

function render() {
  const { frame, painter, world, state } = app;
  if (!world) return;
  drawErrors($("network"), shape(), frame && frame.error, { heldOut, missing, cursor: painter.cursor, empty: "press Train" });
  const series = [
    { name: "shown", color: ink("seen"), points: curves.map((c) => [c.step, c.shown]) },
    { name: "held out", color: ink("held"), points: curves.map((c) => [c.step, c.heldOut]) },
  ];
  drawCurves($("chart"), series, frame ? frame.steps : state.net.steps);
  drawWeights(frame && frame.weights ? frame : null);
}

/** Draw weights between hidden layers: in a function's color within its module, gray across modules. */
function drawWeights(frame) {
  const shape = frame ? [frame.weights[0].length, frame.weights.length] : [1, 1];
  const { context, gap, x, y } = drawCells($("weights"), shape, () => ink("hidden"));
  if (!frame) return;
  const [senders, receivers] = frame.modules;
  frame.weights.forEach((row, j) => row.forEach((weight, i) => {
    context.fillStyle = ink(senders[j] !== receivers[i] ? "across" : ["seen", "held"][senders[j]] || "across");
    context.globalAlpha = Math.sqrt(weight);
    context.fillRect(x(i), y(j), x(i + 1) - x(i) - gap, y(j + 1) - y(j) - gap);
  }));
  context.globalAlpha = 1;
  page.purity = frame.purity;
  $("purity").replaceChildren(bold(`${(100 * frame.purity).toFixed(0)} %`), " of a unit's signal serves one function");
}

/** Report that the server is unreachable, and retry until it is back. */
function lost() {
  if (page.training === "lost") return;
  connect(null);
  say("connection lost", "lost");
  steerable(false);
  retry(() => { forget(); ask(); });
}

/** Show how to restart the server, and continue once it responds. */
export function retry(then) {
  $("offline-command").textContent = `recombine lab --address "${location.href}"`;
  $("offline").hidden = false;
  const timer = setInterval(async () => {
    try { await worlds(); } catch { return; }
    clearInterval(timer);
    $("offline").hidden = true;
    then();
  }, 1000);
}

export function wireTraining() {
  app.lost = lost;
  $("train").onclick = train;
  $("reset").onclick = () => forget();
  $("pause").onclick = () => {
    const pausing = page.training === "running";
    control(pausing ? "pause" : "resume");
    page.training = pausing ? "paused" : "running";
    $("pause").textContent = pausing ? "Resume" : "Pause";
  };
  $("step").onclick = () => { control("step"); page.training = "paused"; $("pause").textContent = "Resume"; };
  $("slow").onchange = (e) => control("slow", { on: e.target.checked });
}
