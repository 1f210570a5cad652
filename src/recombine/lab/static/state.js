// The state of the page lives in its address: reload, share, back and forward restore it.

export const DEFAULT = {
  world: "bumps", size: 14, shown: "", kernel_depth: 1, salience: null,
  net: { model: "mlp", width: 128, depth: 3, steps: 2000, batch: 32, lr: 0.001, stripes: 0, penalty: "none", strength: 0.001, noise: 0, power: 1, seeds: 1 },
};

/** Write a mask (mask[i][j]) as hexadecimal digits, row by row. */
export function pack(mask) {
  const bits = mask.flat();
  while (bits.length % 8) bits.push(false);
  let text = "";
  for (let i = 0; i < bits.length; i += 4)
    text += (8 * bits[i] + 4 * bits[i + 1] + 2 * bits[i + 2] + 1 * bits[i + 3]).toString(16);
  return text;
}

/** Read a mask; an empty text shows every cell. */
export function unpack(text, [n, m]) {
  const bits = [...text].flatMap((d) => { const v = parseInt(d, 16); return [v & 8, v & 4, v & 2, v & 1].map(Boolean); });
  return Array.from({ length: n }, (_, i) => Array.from({ length: m }, (_, j) => (text ? Boolean(bits[i * m + j]) : true)));
}

/** Put everything that differs from the defaults into a fragment. */
export function write(state, { view = "error", scene = "", step = 0 } = {}) {
  const query = new URLSearchParams();
  for (const [k, v] of Object.entries(state)) if (k !== "net" && v !== DEFAULT[k] && v !== null) query.set(k, v);
  for (const [k, v] of Object.entries(state.net)) if (v !== DEFAULT.net[k]) query.set(`net.${k}`, v);
  if (view !== "error") query.set("view", view);
  if (scene) { query.set("scene", scene); query.set("step", step); }
  return `#${query}`;
}

/** Read a fragment; whatever it does not name is the default. */
export function read(fragment) {
  const query = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = structuredClone(DEFAULT);
  const typed = (text, like) => (typeof like === "number" || like === null ? (isFinite(Number(text)) ? Number(text) : like) : text);
  for (const [k, v] of query) {
    if (k in DEFAULT && k !== "net") state[k] = typed(v, DEFAULT[k]);
    if (k.startsWith("net.") && k.slice(4) in DEFAULT.net) state.net[k.slice(4)] = typed(v, DEFAULT.net[k.slice(4)]);
  }
  return { state, view: query.get("view") === "pieces" ? "pieces" : "error", scene: query.get("scene") || "", step: Number(query.get("step") || 0) };
}

/** A number from 0 to 99 for every cell that looks random and is the same on every page. */
function chance(i, j) {
  let h = (i * 73856093) ^ (j * 19349663) ^ 0x9e3779b9;
  h = Math.imul(h ^ (h >>> 16), 0x45d9f3b);
  return ((h ^ (h >>> 16)) >>> 0) % 100;
}

/** Masks that people start from; `n` × `m` cells. */
export const PRESETS = {
  "everything": () => true,
  "cross": (i, j, n, m) => i === Math.floor(n / 2) || j === Math.floor(m / 2),
  "two rows and columns": (i, j, n, m) => [Math.floor(n / 3), Math.floor((2 * n) / 3)].includes(i) || [Math.floor(m / 3), Math.floor((2 * m) / 3)].includes(j),
  "hidden square": (i, j, n, m) => !(i >= Math.floor((6 * n) / 28) && i < Math.floor((23 * n) / 28) && j >= Math.floor((6 * m) / 28) && j < Math.floor((23 * m) / 28)),
  "hidden corner": (i, j, n, m) => !(i >= n / 2 && j >= m / 2),
  "band": (i, j, n, m) => Math.abs(i / n - j / m) < 0.2,
  "checkerboard": (i, j) => (i + j) % 2 === 0,
  "half at random": (i, j) => chance(i, j) < 50,
  "a quarter at random": (i, j) => chance(i, j) < 25,
  "one factor at a time": (i, j) => i === 0 || j === 0,
  "two blocks": (i, j, n, m) => i < n / 2 === j < m / 2,
  "nothing": () => false,
};

export function preset(name, [n, m]) {
  return Array.from({ length: n }, (_, i) => Array.from({ length: m }, (_, j) => PRESETS[name](i, j, n, m)));
}
