"""A decoder that fails on unseen combinations, and one that does not.

A notebook in percent format: run it, or open it in VS Code or Spyder. `make notebooks` executes it
into the .ipynb beside it, for Jupyter.
"""

# %% [markdown]
# # A failing decoder and a cure
# A decoder gets the two coordinates of a bump, perfectly disentangled, and renders it. No training
# image has its bump inside a square. Does it generalize?

# %%
import recombine as rc

task = rc.find("task", "bumps")(8)
shown = ~rc.box(x=(1, 6), y=(1, 6))
split = task.split(shown)
print(split)

# %% [markdown]
# Train an MLP, and a decoder that renders each factor by itself, on the positions outside the
# square. `risk` is the error, where a constant answer has 1.

# %%
results = {}
for name in ("mlp", "outer"):
    model = rc.find("model", name)(split.train, seed=0)
    rc.fit(model, split.train, steps=300, lr=3e-3, progress=False)
    scores, arrays = rc.measure(rc.observe(model, task, split), ["risk", "error_map"])
    results[name] = (scores, arrays)
    print(f"{name}: held-in {scores['risk_id']:.3f}, held-out {scores['risk_ood']:.3f}")

# %% [markdown]
# The error at every position. Only the decoder that renders each factor by itself generalizes to
# the square.

# %%
maps = {
    name: (arrays["error_map"] / scores["blank_ood"], arrays["support"])
    for name, (scores, arrays) in results.items()
}
rc.heat_maps(maps, names=("x", "y"))
