// What the modules of the page share: elements, the state and its world, and numbers that tests read.

import { DEFAULT, pack } from "./state.js";

export const $ = (id) => document.getElementById(id);

/** The state of the page and what was last computed for it; `lost` is called when the server is gone. */
export const app = { catalog: new Map(), absent: [], state: structuredClone(DEFAULT), world: null, painter: null, theory: null, frame: null, scene: null, sceneStep: 0, lost: () => {} };

export const page = { heldOut: null, shown: null, theoryError: null, agreement: null, determined: null, purity: null, step: 0, training: "idle", theoryMs: null };
window.lab = page;

export const shape = () => (!app.world || !app.world.labels ? [app.state.size, app.state.size] : app.world.labels.map((l) => l.length));

/** The state with the cells as they are painted now, also in the middle of a stroke. */
export const painted = () => ({ ...app.state, shown: pack(app.painter.mask) });

export const missing = (i, j) => Boolean(app.world.measured && !app.world.measured[i][j]);

export const heldOut = (i, j) => !app.painter.mask[i][j] && !missing(i, j);

/** Name a cell by the values of its factors. */
export function cellName([i, j]) {
  const { labels, factors } = app.world, at = labels ? [labels[0][i], labels[1][j]] : [i, j];
  return `${factors[0]} = ${at[0]}, ${factors[1]} = ${at[1]}`;
}

/** Show a problem, or clear it; an unreachable server has a separate notice. */
export function complain(problem = null) {
  if (problem && problem.offline) return app.lost();
  $("problem").hidden = !problem;
  $("problem").textContent = problem ? problem.message : "";
}
