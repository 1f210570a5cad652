// Plays recorded frames from one file, without a server.
import { drawCells, drawCurves, drawErrors, format, ink, mean } from "./maps.js";

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const size = data.theory.shape, last = data.frames.length - 1;
const missing = (i, j) => Boolean(data.world.measured && !data.world.measured[i][j]);
const heldOut = (i, j) => !data.mask[i][j] && !missing(i, j);
let at = 0, timer = null;

function render() {
  byId("verdict").textContent = data.theory.verdict;
  byId("sentence").dataset.fate = data.theory.fate;
  byId("reason").textContent = data.theory.reason;
  byId("world").textContent = data.world.title;
  byId("shown-count").textContent = `${data.theory.shown} shown, ${data.theory.held_out} held out`;
  byId("theory-caption").textContent = `held-out error ${format(data.theory.mean_error)}, infinite width`;
  drawCells(byId("paint"), size, (i, j) => (missing(i, j) ? "transparent" : ink(data.mask[i][j] ? "shown" : "hidden")));
  drawErrors(byId("theory"), size, data.theory.error, { heldOut, missing });
  const frame = data.frames[at];
  drawErrors(byId("network"), size, frame && frame.error, { heldOut, missing });
  if (!frame) { byId("net-caption").textContent = "no training was recorded"; return; }
  byId("net-caption").textContent = `held-out error ${format(mean(frame.held_out))}, shown ${format(mean(frame.shown))}`;
  byId("step-count").textContent = `step ${frame.step} of ${frame.steps}`;
  const points = (key) => data.frames.map((f) => [f.step, mean(f[key])]);
  drawCurves(byId("chart"), [
    { name: "shown", color: ink("seen"), points: points("shown") },
    { name: "held out", color: ink("held"), points: points("held_out") },
  ], frame.steps, frame.step);
}

function go(index) { at = Math.max(0, Math.min(last, index)); byId("scrub").value = at; render(); }

function stop() { clearInterval(timer); timer = null; byId("play").textContent = "Play"; }

byId("scrub").max = Math.max(0, last);
byId("scrub").oninput = (e) => { stop(); go(Number(e.target.value)); };
byId("play").onclick = () => {
  if (timer) return stop();
  if (at >= last) go(0);
  byId("play").textContent = "Pause";
  timer = setInterval(() => { if (at >= last) stop(); else go(at + 1); }, 60);
};
addEventListener("resize", render);
go(last);
