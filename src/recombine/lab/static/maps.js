// Drawing on canvas: maps over the grid, small images, curves. No imports: the exported page shares it.

const STOPS = ["#00204d", "#1f386b", "#44536f", "#666970", "#868379", "#a89d75", "#cbba69", "#e5d05e", "#ffea46"]; // cividis
const LUT = Array.from({ length: 256 }, (_, i) => {
  const at = (i / 255) * (STOPS.length - 1), k = Math.min(STOPS.length - 2, Math.floor(at)), t = at - k;
  const rgb = (hex) => [1, 3, 5].map((j) => parseInt(hex.slice(j, j + 2), 16));
  const [a, b] = [rgb(STOPS[k]), rgb(STOPS[k + 1])];
  return a.map((v, j) => Math.round(v + t * (b[j] - v)));
});

/** Color of a value between 0 and `top`, dark for small ones; null (not finite) is the brightest. */
export function color(value, top = 2) {
  const i = value === null ? 255 : Math.max(0, Math.min(255, Math.round((value / top) * 255)));
  return `rgb(${LUT[i].join(",")})`;
}

let themed = document.documentElement;

/** Take colors from another element than the page; a widget has its own. */
export function theme(element) { themed = element; }

/** Read a color of the design. */
export function ink(name) {
  return getComputedStyle(themed).getPropertyValue(`--${name}`).trim();
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
  return { context, width, height };
}

/** Where cells lie: the first factor runs to the right, the second downwards. */
export function layout(width, height, shape) {
  const cell = Math.min(width / shape[0], height / shape[1]);
  return { cell, left: (width - cell * shape[0]) / 2, top: (height - cell * shape[1]) / 2 };
}

/** Draw one rectangle per cell; `paint(i, j)` returns its color. */
export function drawCells(canvas, shape, paint) {
  const { context, width, height } = fit(canvas);
  const place = layout(width, height, shape);
  const gap = place.cell > 9 ? 1 : 0;
  for (let i = 0; i < shape[0]; i++)
    for (let j = 0; j < shape[1]; j++) {
      context.fillStyle = paint(i, j);
      context.fillRect(place.left + i * place.cell, place.top + j * place.cell, place.cell - gap, place.cell - gap);
    }
  return { context, ...place };
}

/** Outline the cells where `inside(i, j)` is true. */
export function outline({ context, cell, left, top }, shape, inside, stroke, width = 2) {
  const has = (i, j) => i >= 0 && j >= 0 && i < shape[0] && j < shape[1] && inside(i, j);
  const lines = () => {
    context.beginPath();
    for (let i = 0; i < shape[0]; i++)
      for (let j = 0; j < shape[1]; j++) {
        if (!has(i, j)) continue;
        const x = left + i * cell, y = top + j * cell;
        if (!has(i - 1, j)) { context.moveTo(x, y); context.lineTo(x, y + cell); }
        if (!has(i + 1, j)) { context.moveTo(x + cell, y); context.lineTo(x + cell, y + cell); }
        if (!has(i, j - 1)) { context.moveTo(x, y); context.lineTo(x + cell, y); }
        if (!has(i, j + 1)) { context.moveTo(x, y + cell); context.lineTo(x + cell, y + cell); }
      }
    context.stroke();
  };
  context.lineCap = "square";
  context.strokeStyle = ink("bg"); context.lineWidth = width + 2; lines();
  context.strokeStyle = stroke; context.lineWidth = width; lines();
}

/** Draw an error map: held-out cells are outlined, cells without a value gray, the cursor framed. */
export function drawErrors(canvas, shape, error, { heldOut, missing = () => false, cursor = null, empty = "" }) {
  const place = drawCells(canvas, shape, (i, j) => (missing(i, j) ? ink("line") : error ? color(error[i][j]) : ink("hidden")));
  outline(place, shape, heldOut, ink("held"));
  frameCell(place, cursor);
  if (error || !empty) return;
  const { context, cell, left, top } = place;
  context.fillStyle = ink("quiet"); context.font = "15px system-ui, sans-serif"; context.textAlign = "center"; context.textBaseline = "middle";
  context.fillText(empty, left + (cell * shape[0]) / 2, top + (cell * shape[1]) / 2);
}

/** Frame one cell. */
export function frameCell({ context, cell, left, top }, at) {
  if (!at) return;
  context.strokeStyle = ink("bg"); context.lineWidth = 4.5;
  context.strokeRect(left + at[0] * cell, top + at[1] * cell, cell, cell);
  context.strokeStyle = ink("accent"); context.lineWidth = 2.5;
  context.strokeRect(left + at[0] * cell, top + at[1] * cell, cell, cell);
}

/** Draw a small image, or one number as a bar, on a canvas of fixed size. */
export function drawImage(canvas, image) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (!image) return;
  if (image.length === 1 && image[0].length <= 2) {
    const values = image[0];
    values.forEach((value, k) => {
      const height = Math.max(0, Math.min(1, value)) * canvas.height, width = canvas.width / values.length;
      context.fillStyle = ink("accent");
      context.fillRect(k * width + width * 0.2, canvas.height - height, width * 0.6, height);
    });
    return;
  }
  const side = image.length, pixel = canvas.width / side;
  for (let r = 0; r < side; r++)
    for (let c = 0; c < side; c++) {
      const [red, green, blue] = [image[r][c]].flat().map((v) => Math.round(255 * Math.max(0, Math.min(1, v))));
      context.fillStyle = `rgb(${red},${green ?? red},${blue ?? red})`;
      context.fillRect(Math.floor(c * pixel), Math.floor(r * pixel), Math.ceil(pixel), Math.ceil(pixel));
    }
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
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.lineWidth = 1;
  for (let p = Math.ceil(Math.log10(low)); p <= Math.floor(Math.log10(high)); p++) {
    const at = y(10 ** p);
    context.strokeStyle = ink("line");
    context.beginPath(); context.moveTo(left, at); context.lineTo(width - right, at); context.stroke();
    context.fillStyle = ink("quiet"); context.textAlign = "right";
    context.fillText(p >= -2 ? String(10 ** p) : `1e${p}`, left - 6, at);
  }
  context.textAlign = "center"; context.fillStyle = ink("quiet");
  context.fillText("0", x(0), height - 10); context.fillText(`${steps} steps`, x(steps), height - 10);
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
