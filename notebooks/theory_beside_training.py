"""What a lazy network will do on unseen sums, before and after training it.

A notebook in percent format: run it, or open it in VS Code or Spyder. `make notebooks` executes it
into the .ipynb beside it, for Jupyter.
"""

# %% [markdown]
# # Theory beside training
# A network learns to add two numbers from one row and one column of the addition table. Its kernel
# predicts the slope with which it extrapolates: 1 would be right.

# %%
import numpy as np

import recombine as rc

LEVELS = 7
space = rc.grid(a=LEVELS, b=LEVELS)
shown = rc.cross(a=[LEVELS // 2], b=[LEVELS // 2])
train, test = shown.points(space), (~shown).points(space)
middle = LEVELS - 1

# %% [markdown]
# Theory, in closed form: the kernel of an infinitely wide ReLU network, and its minimum-norm
# solution.

# %%
kernel = rc.random_network("relu", depth=1, factors=2)
solution = rc.regress(kernel, train, train.sum(axis=1) - middle)
predicted = np.polyfit(test.sum(axis=1) - middle, solution.predict(test), 1)[0]
print(f"the kernel extrapolates with slope {predicted:.3f}")

# %% [markdown]
# Training: five ReLU networks on the same pairs.

# %%
code = rc.join(rc.one_hot(LEVELS), rc.one_hot(LEVELS))
task = rc.Task(space, inputs=code, targets=lambda z: (z.sum() - middle)[None])
split = task.split(shown)
models = [rc.mlp(split.train, depth=1, seed=s) for s in range(5)]
rc.fit(models, split.train, steps=400)
slopes = [
    np.polyfit(
        test.sum(axis=1) - middle,
        rc.predict(model, task.data(test).x).squeeze(1).numpy(),
        1,
    )[0]
    for model in models
]
print(f"trained networks extrapolate with slope {np.mean(slopes):.3f}")
