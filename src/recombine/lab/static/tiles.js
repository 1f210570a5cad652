// Small pictures of every combination, drawn in the training cells.

import { app } from "./app.js";
import { post } from "./api.js";
import { ink } from "./maps.js";

const known = new Map(); // responses by world and size; that of a table is requested again
let current = null;

/** Fetch the pictures of the present world, then draw them. */
export async function loadTiles() {
  const { world, size } = app.state, key = `${world} ${size}`, painter = app.painter;
  current = painter.tiles = null;
  if (world === "table") known.delete(key);
  try {
    if (!known.has(key)) known.set(key, await post("pictures", { world, size }));
  } catch { return; } // the grid works without them
  if (app.state.world !== world || app.state.size !== size) return;
  current = known.get(key);
  tint();
}

/** Lay the pictures out as one image, gray ones in the color of the design. */
export function tint() {
  if (!current) return;
  const { width, height, channels } = current, [n, m] = current.shape;
  const bytes = Uint8Array.from(atob(current.pixels), (c) => c.charCodeAt(0));
  const canvas = Object.assign(document.createElement("canvas"), { width: n * width, height: m * height });
  const context = canvas.getContext("2d"), image = new ImageData(canvas.width, canvas.height);
  let at = 0;
  for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) for (let r = 0; r < height; r++) for (let c = 0; c < width; c++, at += channels) {
    const to = 4 * ((j * height + r) * canvas.width + i * width + c);
    if (channels === 1) image.data[to + 3] = bytes[at];
    else image.data.set([bytes[at], bytes[at + 1], bytes[at + 2], 255], to);
  }
  context.putImageData(image, 0, 0);
  if (channels === 1) {
    context.globalCompositeOperation = "source-in";
    context.fillStyle = ink("figure");
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  app.painter.tiles = { canvas, width, height };
  app.painter.draw();
}
