"""Outcomes: the four verdicts that a claim can have."""

HOLDS, FAILS = "holds", "does not hold"
OPEN = "inconclusive"  # the interval crosses the bound
MISSING = "not enough data"  # fewer seeds finished than the claim needs
