// The lab as a notebook widget: maps.js and grid.js come before this text in one module.

const COLORS = { // those of lab.css
  light: { bg: "#fcfcfa", ink: "#1b1c20", quiet: "#5d616b", line: "#e3e2dc", accent: "#1a5796", held: "#b24a1a", plus: "#1f66ad", minus: "#b24a1a", shown: "#39404d", hidden: "#efede6" },
  dark: { bg: "#111216", ink: "#e9e8e4", quiet: "#a2a6b0", line: "#2e3138", accent: "#94c3f3", held: "#f2986a", plus: "#7db5ee", minus: "#f2986a", shown: "#c3c9d4", hidden: "#262a32" },
};

function render({ model, el }) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  for (const [name, value] of Object.entries(COLORS[dark ? "dark" : "light"])) el.style.setProperty(`--${name}`, value);
  theme(el);
  el.style.cssText += ";font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--bg);padding:12px;border-radius:8px";
  const make = (tag, text = "", style = "") => Object.assign(document.createElement(tag), { textContent: text, style });
  const sentence = make("p", "", "margin:0 0 8px;min-height:4em"), row = make("div", "", "display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:12px");
  const panel = (title) => {
    const box = make("figure", "", "margin:0;min-width:0"), canvas = make("canvas", "", "display:block;width:100%;aspect-ratio:1"), caption = make("figcaption", title);
    box.append(caption, canvas);
    row.append(box);
    return { canvas, say: (words) => { caption.textContent = `${title}: ${words}`; } };
  };
  const shown = panel("shown in training"), theory = panel("theory"), network = panel("network");
  shown.canvas.tabIndex = 0;
  shown.canvas.setAttribute("role", "application");
  shown.canvas.setAttribute("aria-label", "Grid of combinations. Arrow keys move, space toggles a cell.");
  const train = make("button", "Train"), stop = make("button", "Stop");
  train.onclick = () => model.send({ action: "train" });
  stop.onclick = () => model.send({ action: "stop" });
  el.append(sentence, row, train, stop);

  const painter = new Painter(shown.canvas, {
    changed: (done) => { if (done) { model.set("shown", painter.mask.map((line) => line.map(Number))); model.save_changes(); } painter.draw(); },
    hovered: () => {},
  });
  const heldOut = (i, j) => !painter.mask[i][j];
  const map = (canvas, error) => drawErrors(canvas, painter.shape, error, { heldOut });
  const draw = () => {
    const answer = model.get("theory"), frame = model.get("frame");
    painter.mask = model.get("shown").map((line) => line.map(Boolean));
    painter.draw();
    sentence.textContent = answer.sentence;
    shown.say(`${answer.shown} of ${answer.shown + answer.held_out}`);
    theory.say(answer.mean_error === null ? "" : `expected error ${format(answer.mean_error)}`);
    map(theory.canvas, answer.error);
    map(network.canvas, frame.error);
    const error = frame.held_out && frame.held_out[0] !== null ? `, held-out error ${format(mean(frame.held_out))}` : "";
    network.say(frame.step === undefined ? model.get("training") : `step ${frame.step} of ${frame.steps}${error}`);
  };
  for (const name of ["shown", "theory", "frame", "training"]) model.on(`change:${name}`, draw);
  new ResizeObserver(draw).observe(el);
  draw();
}

export default { render };
