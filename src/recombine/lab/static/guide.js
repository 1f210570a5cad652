// Guided scenes: shows a step's text, sets its state, and trains if it has `train`.

import { $, app, page } from "./app.js";
import { SCENES } from "./scenes.js";
import { DEFAULT, pack, preset } from "./state.js";
import { train } from "./training.js";

const now = () => app.scene && app.scene.steps[app.sceneStep];

page.trains = () => Boolean(now() && now().train);
page.headline = () => (now() && now().headline ? now().headline(page) : null);

/** Choose a scene by its name, or none. */
export function choose(name, step = 0) {
  app.scene = SCENES.find((s) => s.name === name) || null;
  app.sceneStep = app.scene ? Math.max(0, Math.min(step, app.scene.steps.length - 1)) : 0;
  tell();
}

function tell() {
  const { scene, sceneStep } = app;
  for (const button of $("scenes").children) button.setAttribute("aria-current", String(button.dataset.scene === (scene ? scene.name : "")));
  document.body.classList.toggle("guided", Boolean(scene));
  document.body.classList.toggle("modules", Boolean(scene && scene.weights)); // where weights matter, they take the place of theory
  if (scene && scene.weights) $("theory-panel").after($("weights-card")); else $("lower").append($("weights-card"));
  $("story").hidden = !scene;
  if (!scene) return;
  $("story-text").textContent = now().text;
  $("story-paper").textContent = scene.paper;
  $("story-count").textContent = `${sceneStep + 1} of ${scene.steps.length}`;
  $("story-back").disabled = sceneStep === 0;
  $("story-next").textContent = sceneStep + 1 < scene.steps.length ? "Next" : "Done: play freely";
}

function play({ adopt, remember }, name, index) {
  choose(name, index);
  const step = now();
  if (step && step.set) {
    const { world, size, net } = step.set, mask = preset(step.set.preset, [size, size]);
    if (step.set.add) mask[step.set.add[0]][step.set.add[1]] = true;
    $("view").value = step.view || "error";
    adopt({ ...structuredClone(DEFAULT), world, size, net: { ...DEFAULT.net, ...net }, shown: pack(mask) });
  }
  remember();
  if (step && step.hover) app.painter.point(step.hover);
  if (step && step.train) train();
}

/** `adopt(state)` shows a state, `remember()` writes it into the address. */
export function wireGuide(address) {
  $("scenes").replaceChildren(...[{ name: "", title: "Free play" }, ...SCENES].map((s) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: s.title });
    button.dataset.scene = s.name;
    button.onclick = () => play(address, s.name, 0);
    return button;
  }));
  $("story-next").onclick = () => (app.sceneStep + 1 < app.scene.steps.length ? play(address, app.scene.name, app.sceneStep + 1) : play(address, "", 0));
  $("story-back").onclick = () => play(address, app.scene.name, app.sceneStep - 1);
}
