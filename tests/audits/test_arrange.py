"""Audits of a table and of its renamed, permuted, rescaled copy have the same numbers."""

import numpy as np
import pytest
import torch

from recombine import audit
from recombine.audits.arrange import arranged
from recombine.audits.models import from_model

SHAPE = (5, 4, 3)
NAMES = ("a", "b", "c")


def case():
    rng = np.random.default_rng(3)
    z = np.stack([a.ravel() for a in np.meshgrid(*map(np.arange, SHAPE))], axis=1)
    z = np.repeat(z[rng.random(len(z)) < 0.9], 2, axis=0)
    y = sum(rng.standard_normal(m)[z[:, f]] for f, m in enumerate(SHAPE))
    cell = np.unique(z, axis=0, return_inverse=True)[1].ravel()
    train = (rng.random(cell.max() + 1) < 0.7)[cell]
    outputs = np.where(train, y, 0.5 * y + 0.3 * rng.standard_normal(len(y)))
    return z, y, train, outputs + 0.05 * rng.standard_normal(len(y))


Z, Y, TRAIN, OUTPUTS = case()
CLASS, GUESS = (np.digitize(v, [-1, 1]) for v in (Y, OUTPUTS))
BATCH = np.concatenate([np.eye(m)[Z[:, f]] for f, m in enumerate(SHAPE)], axis=1)


def network(inputs):
    torch.manual_seed(0)
    hidden = torch.nn.Sequential(torch.nn.Linear(inputs, 8), torch.nn.Tanh())
    return torch.nn.Sequential(hidden, torch.nn.Linear(8, 1)).double()


def audited(kind, rows, names, order, unit=1.0):
    """Audit a copy: some rows, names of levels, factors in some order, a unit of the target."""
    data = {NAMES[f]: names[f][Z[rows, f]] for f in order}
    options = {"train": TRAIN[rows], "budget": 0}
    if kind == "numbers":
        return audit(unit * OUTPUTS[rows], data, targets=unit * Y[rows], **options)
    if kind == "vectors":
        outputs, targets = (unit * np.stack([v, np.sin(3 * v)], axis=1) for v in (OUTPUTS, Y))
        return audit(outputs[rows], data, targets=targets[rows], **options)
    if kind == "classes":
        labels = np.array(["p", "q", "r"] if unit == 1 else ["s", "r", "q"])
        return audit(labels[GUESS[rows]], data, targets=labels[CLASS[rows]], **options)
    return audit(network(12), data, inputs=BATCH[rows], targets=Y[rows], **options)


def numbers(answer, names, unit):
    """Every number of an audit, by what it is about; errors in the unit of the target."""
    back = {str(n): (f, k) for f in range(3) for k, n in enumerate(names[f])}

    def place(cell):
        return tuple(sorted(back[cell[n]] for n in NAMES))

    d = answer.to_dict()
    table = {f"reason {r['name']}": r["value"] for r in d["reasons"]}
    table |= {f"error {k}": [x and x / unit for x in v] for k, v in d["errors"].items()}
    for cell in d["cells"]:
        error = [cell[k] and cell[k] / unit for k in ("error", "low", "train_error")]
        table[place(cell)] = [*error, cell["margin"], cell["determined"], cell["rows"]]
    for group in d["groups"]:
        at = tuple(sorted(back[n] for n in group["levels"].values()))
        table[at] = [group[k] for k in ("ratio", "low", "high", "rows", "worse")]
    return {k: np.array(v, dtype=float) for k, v in table.items()}


@pytest.mark.parametrize("kind", ["numbers", "vectors", "classes", "module"])
def test_no_number_of_an_audit_depends_on_names_order_or_unit(kind):
    rng = np.random.default_rng(5)
    plain = [np.array([f"{NAMES[f]}{k}" for k in range(m)]) for f, m in enumerate(SHAPE)]
    names = [rng.permutation(n) for n in plain]
    one = audited(kind, np.arange(len(Z)), plain, (0, 1, 2))
    unit = 1.0 if kind == "module" else 3e-9
    other = audited(kind, rng.permutation(len(Z)), names, (2, 0, 1), unit)
    scale = unit if kind in ("numbers", "vectors") else 1.0
    expected, actual = numbers(one, plain, 1.0), numbers(other, names, scale)
    assert set(actual) == set(expected)
    for what, value in expected.items():
        np.testing.assert_allclose(actual[what], value, rtol=1e-6, atol=1e-9, err_msg=str(what))
    assert (one.diagnosis, one.counts) == (other.diagnosis, other.counts)


def test_a_module_of_factor_codes_gets_them_in_its_own_order():
    """The papers' diagnostics evaluate it on a task whose levels are in another order."""
    data = dict(zip(NAMES, Z.T, strict=True))
    by_code, by_input = (
        audit(network(12), data, inputs=x, targets=Y, train=TRAIN, budget=0) for x in (None, BATCH)
    )
    names = {r.name: r.value for r in by_input.reasons}
    assert "interaction_1" in {r.name for r in by_code.reasons}
    for reason in by_code.reasons:
        if reason.name in names and reason.name != "interaction_1":  # more combinations have codes
            assert reason.value == pytest.approx(names[reason.name], abs=1e-6)


def test_results_go_back_to_their_combinations():
    data = dict(zip(NAMES, Z.T, strict=True))
    sample = from_model(OUTPUTS, data, targets=Y, train=TRAIN)
    other = arranged(sample)
    names = other.sample.table.decode(other.sample.cells)
    back = [other.named(names[k]) for k in other.cells]
    assert back == sample.table.decode(sample.cells)
    code = np.concatenate(
        [
            np.eye(len(k))[c]
            for k, c in zip(other.order.levels, other.sample.table.codes[0], strict=True)
        ]
    )
    source = BATCH[other.order.rows[0]]
    np.testing.assert_array_equal(code[other.codes], source)
