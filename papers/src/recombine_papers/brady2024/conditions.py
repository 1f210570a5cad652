"""Brady et al. 2024: the conditions of the identifiability theorem, tested on random generators."""

from __future__ import annotations

from dataclasses import dataclass

from recombine.claims.claim import Evidence, claims, scores
from recombine.claims.experiment import Result, closed_form
from recombine.claims.record import Record
from recombine.claims.score import Score
from recombine_papers.brady2024.generators import BLOCKS, SIZE, Kind
from recombine_papers.brady2024.orders import SCALED


@dataclass(frozen=True)
class Conditions:
    """A random generator of order n, and where the conditions for n are tested."""

    n: int = 1
    """Order: 0 disjoint, 1 additive, 2 bilinear."""
    side: int = 8
    """Pixels per side; three channels make 192 outputs, of which n = 2 needs 150."""
    points: int = 3
    """Latents at which the conditions are tested."""


OF_ORDER: dict[int, Kind] = {0: "disjoint", 1: "additive", 2: "bilinear"}


MERGED = [list(range(2 * SIZE)), list(range(2 * SIZE, BLOCKS * SIZE))]


@closed_form(
    smoke={"side": 9, "points": 1},
    scores=[
        Score("missing", "rank missing for sufficient independence", better="lower", summary=True),
        Score("independence", "smallest singular value of the independence test"),
        Score("parts", "largest number of parts into which a block splits", summary=True),
        Score("unity", "smallest margin by which a block does not split"),
        Score("merged", "parts into which two merged blocks split", summary=True),
        Score("merged_size", "latents of the first of these parts"),
    ],
)
def conditions(cfg: Conditions) -> Result:
    """Whether random generators meet the theorem's conditions, and whether merged blocks do."""
    from recombine_papers.brady2024.conditions_training import conditions as run

    return run(cfg)


RUNS = {f"n={n}": {"n": n} for n in OF_ORDER}


add = claims("brady2024.conditions", runs=RUNS, oracle=SCALED, role="beyond")


add(
    name="random_generators_are_sufficiently_independent",
    sentence="Random generators of order 0, 1 and 2 are sufficiently independent.",
    score="missing",
    below=0.5,
    what="missing rank",
    source="ours: the theorem assumes it",
)


add(
    name="random_blocks_do_not_split",
    sentence="Blocks of random generators of order 0, 1 and 2 do not split in any coordinates.",
    score="parts",
    below=1.5,
    what="most parts of a block",
    source="ours: the theorem assumes it",
)


@add(below=0.5, what="deviation from 2 parts of 4 latents", source="ours")
def merged_blocks_are_found_out(records: Evidence[Record]) -> float:
    """Two blocks that are declared as one split into these two, however their latents are mixed."""
    parts, sizes = scores(records, "merged"), scores(records, "merged_size")
    return float((abs(parts - 2) + abs(sizes - SIZE)).sum())
