"""Tables bundled with the package, with their sources and licenses."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np

from recombine.base.error import nearest
from recombine.tables.table import Table, space_of

DATASETS = {
    "gb1": "Fitness of 149,361 variants of protein GB1, sites 39, 40, 41 and 54; the wild type "
    "VDGV has fitness 1. Wu et al., eLife 2016;5:e16965, doi 10.7554/eLife.16965, CC BY 4.0.",
    "buchwald_hartwig": "Yields of 3,955 Buchwald–Hartwig reactions: ligand, additive, base and "
    "halide as SMILES strings. Ahneman et al., Science 2018, doi 10.1126/science.aar5169; "
    "collected in rxn_yields, MIT license.",
    "direct_arylation": "Yields of 1,728 direct arylations: ligand, base, solvent, concentration, "
    "temperature. Shields et al., Nature 2021, doi 10.1038/s41586-021-03213-y; from BayBE, Apache "
    "2.0.",
    "french_fries": "Ratings of french fries: attribute, week, frying oil and subject, mostly "
    "rated twice. A sensory experiment at Iowa State University, 2004; from the R package "
    "reshape2, MIT license.",
}


def dataset(name: str) -> Table:
    """Load a bundled table: `dataset("gb1")`; `DATASETS` describes them.

    A file holds the values of a full grid: whole numbers, -1 where nothing was measured. If its
    last factor numbers repeats, it is dropped: repeats become rows of one combination.
    """
    import lzma

    if name not in DATASETS:
        raise nearest("dataset", name, DATASETS)
    packed = files("recombine.tables").joinpath(f"data/{name}.xz").read_bytes()
    head, _, body = lzma.decompress(packed).partition(b"\n")
    facts = json.loads(head)
    labels = facts["levels"]
    values = np.frombuffer(body, dtype="<i4").reshape([len(v) for v in labels.values()])
    columns = tuple(name for name in labels if name != facts.get("repeats"))
    z = np.argwhere(values >= 0)[:, : len(columns)]
    y = values[values >= 0][:, None] / facts["scale"]
    space = space_of(columns, [labels[name] for name in columns])
    return Table(space, z, y, None, columns, (facts["target"],))
