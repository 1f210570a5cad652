// Drawing on canvas: maps over the grid, small images, curves. No imports: the exported page shares it.

const STOPS = ["#00204d", "#1f386b", "#44536f", "#666970", "#868379", "#a89d75", "#cbba69", "#e5d05e", "#ffea46"]; // cividis
const LUT = Array.from({ length: 256 }, (_, i) => {
  const at = (i / 255) * (STOPS.length - 1), k = Math.min(STOPS.length - 2, Math.floor(at)), t = at - k;
  const rgb = (hex) => [1, 3, 5].map((j) => parseInt(hex.slice(j, j + 2), 16));
  const [a, b] = [rgb(STOPS[k]), rgb(STOPS[k + 1])];
  return a.map((v, j) => Math.round(v + t * (b[j] - v)));
});

const SHADES = LUT.map((rgb) => `rgb(${rgb.join(",")})`);

/** Color of an error, dark for small ones; null (not finite) is the brightest. The square root separates small errors. */
export function color(value) {
  return SHADES[value === null ? 255 : Math.max(0, Math.min(255, Math.round(255 * Math.sqrt(Math.max(0, value) / 2))))];
}

let themed = document.documentElement;
const inks = new Map(); // colors of the design, cached because computed styles are slow
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => inks.clear());

/** Take colors from another element than the page; a widget has its own. */
export function theme(element) { themed = element; inks.clear(); }

/** Read a color of the design. */
export function ink(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(themed).getPropertyValue(`--${name}`).trim());
  return inks.get(name);
}

/** The design's type at some size. */
export const face = (size) => `${size}px ${ink("text") || "system-ui, sans-serif"}`;

const due = new Set();

/** Draw in the next frame, once, however often it is requested before. */
export function soon(draw) {
  if (!due.size) requestAnimationFrame(() => { const list = [...due]; due.clear(); for (const each of list) each(); });
  due.add(draw);
}

/** Fit a canvas to its size on screen and return its context in CSS pixels. */
export function fit(canvas) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = canvas.clientWidth || 300, height = canvas.clientHeight || 300;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height, ratio };
}

/** Where cells lie: the first factor runs to the right, the second downwards. */
export function layout(width, height, shape) {
  const cell = Math.min(width / shape[0], height / shape[1]);
  return { cell, left: (width - cell * shape[0]) / 2, top: (height - cell * shape[1]) / 2 };
}

/** Draw one rectangle per cell, on whole pixels; `paint(i, j)` returns its color. */
export function drawCells(canvas, shape, paint) {
  const { context, width, height, ratio } = fit(canvas);
  const { cell, left, top } = layout(width, height, shape);
  const gap = cell > 9 ? 1 : 0, x = (i) => Math.round((left + i * cell) * ratio) / ratio, y = (j) => Math.round((top + j * cell) * ratio) / ratio;
  for (let i = 0; i < shape[0]; i++)
    for (let j = 0; j < shape[1]; j++) {
      context.fillStyle = paint(i, j);
      context.fillRect(x(i), y(j), x(i + 1) - x(i) - gap, y(j + 1) - y(j) - gap);
    }
  return { context, cell, gap, x, y };
}

/** Outline the cells where `inside(i, j)` is true. */
export function outline({ context, x, y, gap }, shape, inside, stroke, width = 2) {
  const has = (i, j) => i >= 0 && j >= 0 && i < shape[0] && j < shape[1] && inside(i, j);
  const lines = () => {
    context.beginPath();
    for (let i = 0; i < shape[0]; i++)
      for (let j = 0; j < shape[1]; j++) {
        if (!has(i, j)) continue;
        const [west, east, north, south] = [x(i) - gap / 2, x(i + 1) - gap / 2, y(j) - gap / 2, y(j + 1) - gap / 2];
        if (!has(i - 1, j)) { context.moveTo(west, north); context.lineTo(west, south); }
        if (!has(i + 1, j)) { context.moveTo(east, north); context.lineTo(east, south); }
        if (!has(i, j - 1)) { context.moveTo(west, north); context.lineTo(east, north); }
        if (!has(i, j + 1)) { context.moveTo(west, south); context.lineTo(east, south); }
      }
    context.stroke();
  };
  context.lineCap = "square";
  context.strokeStyle = ink("bg"); context.lineWidth = width + 2; lines();
  context.strokeStyle = stroke; context.lineWidth = width; lines();
}

/** Draw an error map: held-out cells are outlined, cells without a value left out, the cursor framed. */
export function drawErrors(canvas, shape, error, { heldOut, missing = () => false, cursor = null, empty = "" }) {
  const place = drawCells(canvas, shape, (i, j) => (missing(i, j) ? "transparent" : error ? color(error[i][j]) : ink("hidden")));
  outline(place, shape, heldOut, ink("held"));
  if (error || !empty) return frameCell(place, cursor);
  label(place, shape, empty);
}

/** Write a few words in the middle of a map. */
export function label({ context, x, y }, shape, words) {
  context.font = face(15); context.textAlign = "center"; context.textBaseline = "middle";
  const [left, top, wide] = [x(shape[0] / 2), y(shape[1] / 2), context.measureText(words).width + 16];
  context.fillStyle = ink("hidden"); context.fillRect(left - wide / 2, top - 14, wide, 28);
  context.fillStyle = ink("quiet"); context.fillText(words, left, top);
}

/** Frame one cell. */
export function frameCell({ context, gap, x, y }, at) {
  if (!at) return;
  for (const [stroke, width] of [["bg", 4.5], ["accent", 2.5]]) {
    context.strokeStyle = ink(stroke); context.lineWidth = width;
    context.strokeRect(x(at[0]) - gap / 2, y(at[1]) - gap / 2, x(at[0] + 1) - x(at[0]), y(at[1] + 1) - y(at[1]));
  }
}

/** Put pixels, rows of numbers or colors from 0 to 1, on a canvas of their own. */
function pixels(image) {
  const tile = Object.assign(document.createElement("canvas"), { width: image[0].length, height: image.length });
  const data = new ImageData(tile.width, tile.height);
  image.flat().forEach((pixel, k) => {
    const [red, green = red, blue = red] = [pixel].flat();
    data.data.set([255 * red, 255 * green, 255 * blue, 255], 4 * k);
  });
  tile.getContext("2d").putImageData(data, 0, 0);
  return tile;
}

/** Draw a small image, or one or two numbers as bars, on a canvas of fixed size. */
export function drawImage(canvas, image) {
  const context = canvas.getContext("2d"), { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  if (!image) return;
  if (image.length > 1) {
    context.imageSmoothingEnabled = false;
    context.drawImage(pixels(image), 0, 0, width, height);
    return;
  }
  context.fillStyle = ink("accent");
  image[0].forEach((value, k) => {
    const high = Math.max(0, Math.min(1, value)) * height, wide = width / image[0].length;
    context.fillRect(wide * (k + 0.2), height - high, wide * 0.6, high);
  });
}

/** Draw curves on a logarithmic axis: [{name, color, points: [[x, y], …]}], labelled directly. */
export function drawCurves(canvas, series, steps, mark = null) {
  const { context, width, height } = fit(canvas);
  series = series.map((s) => ({ ...s, points: s.points.filter((p) => p[1] !== null) }));
  const all = series.flatMap((s) => s.points.map((p) => p[1])).filter((v) => v > 0);
  const floor = 1e-5, low = Math.max(floor, Math.min(...all, 0.1) / 2), high = Math.max(...all, 1.2) * 1.3;
  const left = 44, right = 86, top = 10, bottom = 24;
  const x = (v) => left + (v / Math.max(1, steps)) * (width - left - right);
  const y = (v) => top + (1 - (Math.log(Math.max(v, low)) - Math.log(low)) / (Math.log(high) - Math.log(low))) * (height - top - bottom);
  context.font = face(12);
  context.textBaseline = "middle";
  context.lineWidth = 1;
  const every = Math.ceil((Math.log10(high) - Math.log10(low)) / 6);
  for (let p = Math.ceil(Math.log10(low) / every) * every; p <= Math.floor(Math.log10(high)); p += every) {
    const at = y(10 ** p);
    context.strokeStyle = ink("line");
    context.beginPath(); context.moveTo(left, at); context.lineTo(width - right, at); context.stroke();
    context.fillStyle = ink("quiet"); context.textAlign = "right";
    context.fillText(Math.abs(p) < 3 ? String(10 ** p) : `1e${p}`, left - 6, at);
  }
  context.textAlign = "center"; context.fillStyle = ink("quiet");
  context.fillText("0", x(0), height - 10); context.fillText(`${steps} steps`, x(steps), height - 10);
  if (!all.length) { context.font = face(15); context.fillText("train to see curves", (left + width - right) / 2, (top + height - bottom) / 2); return; }
  const ends = [];
  for (const s of series) {
    if (!s.points.length) continue;
    context.strokeStyle = s.color; context.lineWidth = 2;
    context.beginPath();
    s.points.forEach(([a, b], k) => (k ? context.lineTo(x(a), y(b)) : context.moveTo(x(a), y(b))));
    context.stroke();
    const last = s.points[s.points.length - 1];
    ends.push({ at: y(last[1]), text: `${s.name} ${format(last[1])}`, color: s.color, x: x(last[0]) });
  }
  ends.sort((a, b) => a.at - b.at);
  ends.forEach((e, k) => { if (k && e.at - ends[k - 1].at < 15) e.at = ends[k - 1].at + 15; });
  context.textAlign = "left";
  for (const e of ends) { context.fillStyle = e.color; context.fillText(e.text, Math.min(e.x + 6, width - right + 4), e.at); }
  if (mark !== null) {
    context.strokeStyle = ink("quiet"); context.lineWidth = 1;
    context.beginPath(); context.moveTo(x(mark), top); context.lineTo(x(mark), height - bottom); context.stroke();
  }
}

/** Mean of the numbers in a list, null without any. */
export function mean(list) {
  const some = list.filter((v) => v !== null);
  return some.length ? some.reduce((a, b) => a + b, 0) / some.length : null;
}

/** Write a number with two digits. */
export function format(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  if (value === 0) return "0";
  return Math.abs(value) >= 9.95 ? value.toFixed(0) : Math.abs(value) >= 0.995 ? value.toFixed(1) : Math.abs(value) >= 0.0095 ? value.toFixed(2) : value.toExponential(0);
}

/** Rank correlation of two lists; null when one of them does not vary. */
export function spearman(a, b) {
  const rank = (list) => {
    const order = list.map((v, i) => [v, i]).sort((p, q) => p[0] - q[0]), result = new Array(list.length);
    for (let i = 0; i < order.length; ) {
      let j = i;
      while (j + 1 < order.length && order[j + 1][0] === order[i][0]) j++;
      for (let k = i; k <= j; k++) result[order[k][1]] = (i + j) / 2;
      i = j + 1;
    }
    return result;
  };
  if (a.length < 3) return null;
  const [p, q] = [rank(a), rank(b)], mean = (a.length - 1) / 2;
  let [pq, pp, qq] = [0, 0, 0];
  p.forEach((v, i) => { pq += (v - mean) * (q[i] - mean); pp += (v - mean) ** 2; qq += (q[i] - mean) ** 2; });
  return pp && qq ? pq / Math.sqrt(pp * qq) : null;
}
