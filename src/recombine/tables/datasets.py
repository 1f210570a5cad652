"""Tables bundled with the package, with their sources and licenses."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files

import numpy as np

from recombine.core.error import nearest
from recombine.tables.table import Table, space_of


def gb1() -> Table:
    """Fitness of 149,361 variants of protein GB1, sites 39, 40, 41 and 54 (Wu et al. 2016).

    CC BY 4.0, eLife 2016;5:e16965, doi 10.7554/eLife.16965. The wild type VDGV has fitness 1.
    """
    return _stored("gb1")


def buchwald_hartwig() -> Table:
    """Yields of 3,955 Buchwald–Hartwig reactions: ligand, additive, base, halide (Ahneman 2018).

    Science 2018, doi 10.1126/science.aar5169; collected in rxn_yields, MIT license. Levels are
    SMILES strings.
    """
    return _stored("buchwald_hartwig")


def direct_arylation() -> Table:
    """Yields of 1,728 direct arylations: ligand, base, solvent, concentration, temperature.

    Shields et al., Nature 2021, doi 10.1038/s41586-021-03213-y; from BayBE, Apache 2.0.
    """
    return _stored("direct_arylation")


def french_fries() -> Table:
    """Ratings of french fries: attribute, week, frying oil and subject, mostly rated twice.

    A sensory experiment at Iowa State University, 2004; from the R package reshape2, MIT license.
    """
    return _stored("french_fries")


DATASETS: dict[str, Callable[[], Table]] = {
    load.__name__: load for load in (gb1, buchwald_hartwig, direct_arylation, french_fries)
}


def dataset(name: str) -> Table:
    """Load a bundled table: `dataset("gb1")`."""
    if name not in DATASETS:
        raise nearest("dataset", name, DATASETS)
    return DATASETS[name]()


def _stored(name: str) -> Table:
    """Read the values of a full grid: whole numbers, -1 where nothing was measured.

    If the last factor numbers repeats, it is dropped: repeats become rows of one combination.
    """
    import lzma

    packed = files("recombine.tables").joinpath(f"data/{name}.xz").read_bytes()
    content = lzma.decompress(packed)
    head, _, body = content.partition(b"\n")
    facts = json.loads(head)
    labels = facts["levels"]
    shape = tuple(len(v) for v in labels.values())
    values = np.frombuffer(body, dtype="<i4").reshape(shape)
    z = np.argwhere(values >= 0)
    y = values[values >= 0][:, None] / facts["scale"]
    columns = tuple(name for name in labels if name != facts.get("repeats"))
    z = z[:, : len(columns)]
    space = space_of(columns, [labels[name] for name in columns])
    return Table(space, z, y, None, columns, (facts["target"],))
