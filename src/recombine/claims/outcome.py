"""The four outcomes of a claim; apart from `verdict`, because `list` must not load NumPy."""

HOLDS, FAILS = "holds", "does not hold"
OPEN = "inconclusive"  # the interval crosses the bound
MISSING = "not enough data"  # fewer seeds finished than the claim needs
