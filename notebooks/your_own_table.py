"""Which combinations does a table determine, and what should be measured next?

A notebook in percent format: run it, or open it in VS Code or Spyder. `make notebooks` executes it
into the .ipynb beside it, for Jupyter.
"""

# %% [markdown]
# # Your own table
# One row per measurement, one column per factor, one target. Here: yields of a reaction by catalyst
# and solvent.

# %%
import pandas as pd

import recombine as rc

data = pd.DataFrame(
    {
        "catalyst": ["A", "A", "A", "B", "B", "C"],
        "solvent": ["x", "y", "z", "x", "y", "x"],
        "yield": [10.0, 14.0, 20.0, 13.0, 17.0, 19.0],
    }
)
table = rc.read(data, target="yield")
print(table)

# %% [markdown]
# If the effects of catalyst and solvent add up (order 1), which missing yields are determined?

# %%
certificate = rc.certify(table, order=1)
print(certificate)

# %% [markdown]
# If catalyst and solvent may interact (order 2), none is determined; the plan says what to measure.

# %%
print(rc.certify(table, order=2))
print(rc.plan(table, budget=1, order=2))
