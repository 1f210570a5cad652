"""Real data from start to end: audit a model, follow the advice, audit again."""
