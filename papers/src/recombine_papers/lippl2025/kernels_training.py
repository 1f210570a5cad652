"""Lippl & Stachenfeld 2025: salience, conjunction-wise additivity and the memorization leak."""

from __future__ import annotations

import numpy as np

from recombine.claims.experiment import Result
from recombine.theory.kernel import by_salience
from recombine.theory.solve import regress
from recombine_papers.lippl2025 import leak, symbolic
from recombine_papers.lippl2025.kernels import Sum


def addition(cfg: Sum) -> Result:
    """A kernel model adds two numbers after training on some rows and columns of the table."""
    anchors = [int(a) for a in cfg.anchors.split(",")]
    support = symbolic.addition_cross(anchors)
    train, y, held_out, truth = symbolic.tables(symbolic.addition(), support)
    outputs = regress(by_salience([cfg.salience]), train, y, ridge=cfg.ridge).predict(held_out)
    slope, offset = np.polyfit(truth, outputs, 1)
    theory = leak.slope(len(anchors), cfg.salience, cfg.ridge)
    gap = np.abs(outputs - theory * truth - offset).max()
    numbers = {"slope": slope, "offset": offset, "theory": theory, "gap": gap}
    return Result({name: float(v) for name, v in numbers.items()})
