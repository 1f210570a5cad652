// Five guided scenes, one per paper. Every step is a state that is really computed; `train` trains it.
// A step's `headline(page)` returns the number that the scene is about, which tests assert.

const painted = (preset, extra = {}, net = {}) => ({ preset, ...extra, net });

const CNN = { model: "cnn", width: 128, depth: 4, steps: 800, batch: 16, lr: 0.003 };
const PARTS = { world: "twins", size: 20, net: { model: "mlp", width: 32, depth: 3, steps: 8000, batch: 200, lr: 0.003 } };

export const SCENES = [
  {
    name: "rendering", title: "Forced rendering", paper: "Liang et al. 2025",
    steps: [
      { text: "A decoder is told the column and the row of a bump, perfectly disentangled. Positions inside the square are held out. Theory already expects trouble there: the map is bright.",
        set: painted("hidden square", { world: "bumps", size: 14 }), hover: [7, 7] },
      { text: "Train an MLP. It fits what it was shown, and fails in the square.", set: painted("hidden square", { world: "bumps", size: 14 }), train: true, hover: [7, 7],
        headline: (page) => page.heldOut },
      { text: "Look at one held-out position: the network draws a superposition of what it saw in the same row and column, as the kernel foretold.", hover: [7, 7],
        headline: (page) => page.agreement },
      { text: "A CNN fails as well, although it has the right geometry built in.", set: painted("hidden square", { world: "bumps", size: 14 }, CNN), train: true, hover: [7, 7],
        headline: (page) => page.heldOut },
      { text: "The cure is in the data: stripes, images of one factor alone. The same CNN now composes.", set: painted("hidden square", { world: "bumps", size: 14 }, { ...CNN, stripes: 0.5 }), train: true, hover: [7, 7],
        headline: (page) => page.heldOut },
    ],
  },
  {
    name: "kernels", title: "Kernel theory", paper: "Lippl and Stachenfeld 2025",
    steps: [
      { text: "The sum of two numbers, shown for one row and one column only. Hover a dark cell: three shown cells, with signs, determine it.", set: painted("cross", { world: "sum", size: 9 }), hover: [7, 1] },
      { text: "Yet a wide network is not exact. It also remembers single combinations, and that memory leaks: new answers shrink towards the mean.", hover: [8, 8], headline: (page) => page.theoryError },
      { text: "Show a second row and column, and the leak shrinks.", set: painted("two rows and columns", { world: "sum", size: 9 }), hover: [8, 8], headline: (page) => page.theoryError },
      { text: "A real network behaves alike. Train it and compare the two maps.", set: painted("two rows and columns", { world: "sum", size: 9 }, { model: "mlp", width: 256, depth: 1, steps: 1500, lr: 0.003, seeds: 2 }), train: true, headline: (page) => page.heldOut },
      { text: "No number of shown cells helps with XOR: neither factor alone says anything, so nothing can be recombined.", set: painted("hidden corner", { world: "xor", size: 9 }), headline: (page) => page.theoryError },
    ],
  },
  {
    name: "support", title: "Sufficient support", paper: "Wiedemer et al. 2023",
    steps: [
      { text: "Two sprites on one image. Shown: two blocks of combinations that share no row and no column. Within each block all is known, across them nothing.", set: painted("two blocks", { world: "sprites", size: 12 }), view: "pieces", headline: (page) => page.determined },
      { text: "One more shown cell connects the two blocks, and every combination is determined.", set: painted("two blocks", { world: "sprites", size: 12, add: [0, 11] }), view: "pieces", headline: (page) => page.determined },
      { text: "Determined for a model that composes: a network that draws both sprites at once still fails on new pairs.", set: painted("cross", { world: "sprites", size: 12 }, { model: "mlp", width: 128, depth: 2, steps: 1500 }), view: "error", train: true, headline: (page) => page.heldOut },
      { text: "A factored model draws each sprite alone and puts the drawings together. From the same cross it draws all pairs.", set: painted("cross", { world: "sprites", size: 12 }, { model: "factored", width: 128, depth: 2, steps: 1500 }), train: true, headline: (page) => page.heldOut },
    ],
  },
  {
    name: "interaction", title: "Interaction", paper: "Brady et al. 2024",
    steps: [
      { text: "How do factors meet in the output? In a sum they do not interact: order 1. A model that only adds is right everywhere once rows and columns are connected.", set: painted("cross", { world: "sum", size: 10 }, { model: "factored", width: 64, steps: 1200, lr: 0.01 }), train: true, headline: (page) => page.heldOut },
      { text: "A product interacts: order 2. The same additive model fits the cross and fails elsewhere.", set: painted("cross", { world: "product", size: 10 }, { model: "factored", width: 64, steps: 1200, lr: 0.01 }), train: true, headline: (page) => page.heldOut },
      { text: "An entangled MLP may express any interaction, and so nothing tells it which one to choose.", set: painted("cross", { world: "product", size: 10 }, { model: "mlp", width: 128, depth: 2, steps: 1200 }), train: true, headline: (page) => page.heldOut },
      { text: "This is the asymmetry: parts within an object may interact freely, objects with each other hardly. A model that knows this can recombine.", set: painted("cross", { world: "sum", size: 10 }, { model: "mlp", width: 128, depth: 2, steps: 1200 }), train: true, headline: (page) => page.heldOut },
    ],
  },
  {
    name: "modules", title: "Modules from noise", paper: "Qian et al. 2025",
    steps: [
      { text: "One network learns two independent functions of two numbers. Watch the weights between its hidden layers: with a small L2 penalty alone they stay mixed.", set: { preset: "everything", ...PARTS, net: { ...PARTS.net, penalty: "weights", strength: 0.0001 } }, train: true, headline: (page) => page.purity },
      { text: "Now every hidden unit pays for its activity times its outgoing weights, the cost that noise in the activity would have. The weights sort themselves into one module per function.", set: { preset: "everything", ...PARTS, net: { ...PARTS.net, penalty: "weight_activity", strength: 0.003 } }, train: true, headline: (page) => page.purity },
      { text: "Noise itself does the same, more slowly: multiplicative noise in the activity.", set: { preset: "everything", ...PARTS, net: { ...PARTS.net, noise: 0.3, power: 2 } }, train: true, headline: (page) => page.purity },
      { text: "Modules keep functions apart: what disturbs one leaves the other alone. Change the noise and the penalty below, and train again.", headline: (page) => page.purity },
    ],
  },
];
