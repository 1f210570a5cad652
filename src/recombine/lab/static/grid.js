// Painting the grid by mouse, touch and keyboard.

import { drawCells, face, frameCell, ink, label, layout, soon } from "./maps.js";

export class Painter {
  /** `changed(done)` is called after every cell and, with done = true, after every stroke. */
  constructor(canvas, { changed, hovered }) {
    Object.assign(this, { canvas, changed, hovered, mask: [[true]], paintable: null, cursor: null, witness: [], stroke: null, tiles: null, drawn: () => this.render() });
    canvas.addEventListener("pointerdown", (e) => this.begin(e));
    canvas.addEventListener("pointermove", (e) => this.move(e));
    canvas.addEventListener("pointerup", () => this.end());
    canvas.addEventListener("pointercancel", () => this.end());
    canvas.addEventListener("keydown", (e) => this.key(e));
    canvas.addEventListener("focus", () => { if (!this.cursor) this.point([0, 0]); });
  }
  get shape() { return [this.mask.length, this.mask[0].length]; }
  /** Let another map of the same grid move the cursor too. */
  follow(canvas) {
    canvas.addEventListener("pointermove", (e) => { const cell = this.at(e, canvas); if (cell && String(cell) !== String(this.cursor)) this.point(cell); });
  }
  at(event, canvas = this.canvas) {
    const box = canvas.getBoundingClientRect(), place = layout(box.width, box.height, this.shape);
    const i = Math.floor((event.clientX - box.left - place.left) / place.cell), j = Math.floor((event.clientY - box.top - place.top) / place.cell);
    return i >= 0 && j >= 0 && i < this.shape[0] && j < this.shape[1] ? [i, j] : null;
  }
  allowed([i, j]) { return !this.paintable || Boolean(this.paintable[i][j]); }
  begin(event) {
    const cell = this.at(event);
    if (!cell || !this.allowed(cell)) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.stroke = { value: !this.mask[cell[0]][cell[1]], last: cell };
    this.point(cell);
    this.set(cell, this.stroke.value);
  }
  move(event) {
    const cell = this.at(event);
    if (this.stroke && cell) {
      const [a, b] = this.stroke.last, steps = Math.max(Math.abs(cell[0] - a), Math.abs(cell[1] - b));
      for (let k = 1; k <= steps; k++) this.set([Math.round(a + ((cell[0] - a) * k) / steps), Math.round(b + ((cell[1] - b) * k) / steps)], this.stroke.value);
      this.stroke.last = cell;
    }
    if (cell && String(cell) !== String(this.cursor)) this.point(cell);
  }
  end() { if (this.stroke) { this.stroke = null; this.changed(true); } }
  set(cell, value) {
    if (!this.allowed(cell) || this.mask[cell[0]][cell[1]] === value) return;
    this.mask[cell[0]][cell[1]] = value;
    this.changed(false);
  }
  point(cell) { this.cursor = cell; this.hovered(cell); this.draw(); }
  key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-64, -64], End: [64, 64] }, way = ways[event.key];
    const cell = this.cursor || [0, 0];
    if (way) {
      event.preventDefault();
      const next = [0, 1].map((k) => Math.max(0, Math.min(this.shape[k] - 1, cell[k] + way[k])));
      if (event.shiftKey && event.key.startsWith("Arrow")) { const value = this.mask[cell[0]][cell[1]]; this.set(next, value); this.changed(true); }
      this.point(next);
    }
    if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      this.set(cell, !this.mask[cell[0]][cell[1]]);
      this.changed(true);
      this.point(cell);
    }
  }
  draw() { soon(this.drawn); }
  render() {
    const { tiles, mask, shape } = this, image = (i, j) => tiles && mask[i][j] && this.allowed([i, j]);
    const place = drawCells(this.canvas, shape, (i, j) => (!this.allowed([i, j]) ? "transparent" : ink(mask[i][j] ? "shown" : "hidden")));
    const { context, cell, gap, x, y } = place;
    context.imageSmoothingEnabled = Boolean(tiles && tiles.height > 1);
    for (let i = 0; i < shape[0]; i++)
      for (let j = 0; j < shape[1]; j++)
        if (image(i, j)) context.drawImage(tiles.canvas, i * tiles.width, j * tiles.height, tiles.width, tiles.height, x(i), y(j), x(i + 1) - x(i) - gap, y(j + 1) - y(j) - gap);
    context.textAlign = "center"; context.textBaseline = "middle";
    context.font = `bold ${face(Math.max(10, cell * 0.7))}`;
    for (const [i, j, sign] of this.witness) {
      context.fillStyle = sign > 0 ? ink("plus") : ink("minus");
      context.fillRect(x(i), y(j), x(i + 1) - x(i) - gap, y(j + 1) - y(j) - gap);
      context.fillStyle = ink("bg");
      context.fillText(sign > 0 ? "+" : "−", x(i + 0.5), y(j + 0.5) + 1);
    }
    frameCell(place, this.cursor);
    if (!mask.flat().some(Boolean)) label(place, shape, "drag to paint");
  }
}
