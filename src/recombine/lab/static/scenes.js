// Five guided scenes, one per paper. Every step is a state, computed live; `train` also trains it.
// A step's `headline(page)` returns the number that the scene is about, which tests assert.

const painted = (preset, extra = {}, net = {}) => ({ preset, ...extra, net });

const CNN = { model: "cnn", width: 128, depth: 4, steps: 800, batch: 16, lr: 0.003 };
const PARTS = { world: "twins", size: 20, net: { model: "mlp", width: 32, depth: 3, steps: 4000, batch: 50, lr: 0.003 } };

export const SCENES = [
  {
    name: "rendering", title: "Forced rendering", paper: "Liang et al. 2025",
    steps: [
      { text: "A decoder receives the column and the row of a bump, perfectly disentangled, and must draw it. Positions inside the square are held out. Theory already predicts large errors there: the map is bright.",
        set: painted("hidden square", { world: "bumps", size: 14 }), hover: [7, 7] },
      { text: "Train an MLP. Its error falls on the training positions; inside the square it ends worse than a constant answer.", set: painted("hidden square", { world: "bumps", size: 14 }), train: true, hover: [7, 7],
        headline: (page) => page.heldOut },
      { text: "Look at one held-out position: the network draws a superposition of training images from the same row and column, as theory predicted.", hover: [7, 7],
        headline: (page) => page.agreement },
      { text: "A CNN fits the training positions ten times better and still fails inside the square, although it has the right geometry built in.", set: painted("hidden square", { world: "bumps", size: 14 }, CNN), train: true, hover: [7, 7],
        headline: (page) => page.heldOut },
      { text: "The cure is in the data: stripes, images of one factor alone. With them, the same CNN generalizes to the square.", set: painted("hidden square", { world: "bumps", size: 14 }, { ...CNN, stripes: 0.5 }), train: true, hover: [7, 7],
        headline: (page) => page.heldOut },
    ],
  },
  {
    name: "kernels", title: "Kernel theory", paper: "Lippl and Stachenfeld 2025",
    steps: [
      { text: "The sum of two numbers, with one row and one column as the training set. Point at a held-out cell: three training cells, added and subtracted, determine it.", set: painted("cross", { world: "sum", size: 9 }), hover: [7, 1] },
      { text: "Yet a wide network is not exact. It also memorizes single combinations, and this memory leaks: predictions for new ones shrink towards the mean.", hover: [8, 8], headline: (page) => page.theoryError },
      { text: "With a second row and column in the training set, the leak shrinks.", set: painted("two rows and columns", { world: "sum", size: 9 }), hover: [8, 8], headline: (page) => page.theoryError },
      { text: "A trained network behaves the same way: exact on its training set, with a small error on the rest. Compare the two maps.", set: painted("two rows and columns", { world: "sum", size: 9 }, { model: "mlp", width: 256, depth: 1, steps: 1500, lr: 0.003, seeds: 2 }), train: true, hover: [8, 8], headline: (page) => page.heldOut },
      { text: "Three quarters of an XOR do not help: neither factor alone carries information, and predictions for the rest are far worse than a constant answer.", set: painted("hidden corner", { world: "xor", size: 9 }), headline: (page) => page.theoryError },
    ],
  },
  {
    name: "support", title: "Sufficient support", paper: "Wiedemer et al. 2023",
    steps: [
      { text: "Two sprites in one image. The training set is two blocks of combinations that share no row and no column. Within a block every combination is determined, across blocks none.", set: painted("two blocks", { world: "sprites", size: 12 }), view: "pieces", headline: (page) => page.determined },
      { text: "One more training cell connects the two blocks, and every combination is determined.", set: painted("two blocks", { world: "sprites", size: 12, add: [0, 11] }), view: "pieces", headline: (page) => page.determined },
      { text: "But only for a model that composes. This MLP draws both sprites at once: trained on two rows and two columns, it fits every training pair and fails on new ones.", set: painted("two rows and columns", { world: "sprites", size: 12 }, { model: "mlp", width: 128, depth: 2, steps: 1000 }), view: "error", train: true, hover: [10, 1], headline: (page) => page.heldOut },
      { text: "A factored model draws each sprite separately and overlays the two images. Trained on the same pairs, its error on new ones is about a third of the MLP's.", set: painted("two rows and columns", { world: "sprites", size: 12 }, { model: "factored", width: 128, depth: 2, steps: 1000 }), train: true, hover: [10, 1], headline: (page) => page.heldOut },
    ],
  },
  {
    name: "interaction", title: "Interaction", paper: "Brady et al. 2024",
    steps: [
      { text: "How do factors interact in the output? In a sum they do not: order 1. A model that only adds is right everywhere once rows and columns are connected.", set: painted("cross", { world: "sum", size: 10 }, { model: "factored", width: 64, steps: 1200, lr: 0.01 }), train: true, hover: [9, 9], headline: (page) => page.heldOut },
      { text: "A product interacts: order 2. The same additive model fits the cross and fails elsewhere.", set: painted("cross", { world: "product", size: 10 }, { model: "factored", width: 64, steps: 1200, lr: 0.01 }), train: true, hover: [9, 9], headline: (page) => page.heldOut },
      { text: "An MLP can express any interaction, and the training set does not tell it which one to choose.", set: painted("cross", { world: "product", size: 10 }, { model: "mlp", width: 128, depth: 2, steps: 1200 }), train: true, hover: [9, 9], headline: (page) => page.heldOut },
      { text: "Even on the sum, where nothing interacts, the same MLP fails: nothing forces it to add. The additive model generalizes because of what it cannot express.", set: painted("cross", { world: "sum", size: 10 }, { model: "mlp", width: 128, depth: 2, steps: 1200 }), train: true, hover: [9, 9], headline: (page) => page.heldOut },
    ],
  },
  {
    name: "modules", title: "Modules from noise", paper: "Qian et al. 2025", weights: true,
    steps: [
      { text: "One network learns two independent functions of two numbers. Watch the weights between its hidden layers, sorted by the function that each unit serves: plain training leaves units mixed, and many weights run between the two groups.", set: { preset: "everything", ...PARTS }, train: true, headline: (page) => page.purity },
      { text: "Now the hidden units are noisy, the more so the more active they are. Weights between the groups fade: units specialize and spend about three quarters of their signal on one function, compared with little more than half after plain training.", set: { preset: "everything", ...PARTS, net: { ...PARTS.net, noise: 0.5, power: 2 } }, train: true, headline: (page) => page.purity },
      { text: "Noise can be replaced by its average cost: every hidden unit pays for its squared activity times its squared outgoing weights. Modules appear here too, and without noise the error is far smaller.", set: { preset: "everything", ...PARTS, net: { ...PARTS.net, penalty: "weight_activity", strength: 0.003 } }, train: true, headline: (page) => page.purity },
    ],
  },
];
