"""One package per paper, with its tasks, measures, experiments, claims and figures."""

__version__ = "0.3.0.dev0"
