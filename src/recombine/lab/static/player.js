// Plays recorded frames from one file, without a server.
import { color, drawCells, drawCurves, format, ink, outline } from "./maps.js";

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const size = data.theory.shape, last = data.frames.length - 1;
const hiddenCell = (i, j) => !data.mask[i][j];
let at = 0, timer = null;

function mean(list) { const some = list.filter((v) => v !== null); return some.length ? some.reduce((a, b) => a + b, 0) / some.length : null; }

function render() {
  byId("sentence").textContent = data.theory.sentence;
  byId("shown-count").textContent = `${data.theory.shown} shown, ${data.theory.held_out} held out`;
  byId("theory-caption").textContent = `expected error ${format(data.theory.mean_error)} where held out`;
  drawCells(byId("paint"), size, (i, j) => ink(data.mask[i][j] ? "shown" : "hidden"));
  outline(drawCells(byId("theory"), size, (i, j) => color(data.theory.error[i][j])), size, hiddenCell, ink("held"));
  const frame = data.frames[at];
  outline(drawCells(byId("network"), size, (i, j) => (frame ? color(frame.error[i][j]) : ink("hidden"))), size, hiddenCell, ink("held"));
  if (!frame) { byId("net-caption").textContent = "no training was recorded"; return; }
  byId("net-caption").textContent = `shown ${format(mean(frame.shown))}, held out ${format(mean(frame.held_out))}`;
  byId("step-count").textContent = `step ${frame.step} of ${frame.steps}`;
  const points = (key) => data.frames.filter((f) => mean(f[key]) !== null).map((f) => [f.step, mean(f[key])]);
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
