"""Lippl & Stachenfeld 2025: what kernels on compositional structure can and cannot do, exactly."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recombine.core.claim import Verdict, claim, decide, exact, scores
from recombine.core.error import Refused
from recombine.core.experiment import Result, experiment
from recombine.core.space import Points
from recombine.core.support import Support
from recombine.core.task import Task
from recombine.runs.record import Record
from recombine.tasks import symbolic
from recombine.theory import leak
from recombine.theory.conjunction import solvable, values
from recombine.theory.kernel import Kernel, by_overlap, by_salience, random_network
from recombine.theory.solve import margin, regress

Targets = NDArray[np.float64]

# S(1;2) of one to five ReLU layers in the authors' figure, and (S1, S2) of three layers on three
# components in their notebook.
RELU_PAIRS = (0.4264, 0.3756, 0.3373, 0.3070, 0.2822)
RELU_TRIPLE = (0.20350064, 0.09423825)


def cut(
    task: Task, shown: Support, asked: Support | None = None
) -> tuple[Points, Targets, Points, Targets]:
    """List what is shown and what is held out of a symbolic task, with targets in float64."""
    split = task.split(shown, query=asked)
    seen, hidden = split.train, split.held_out
    return seen.z, seen.y[:, 0].double().numpy(), hidden.z, hidden.y[:, 0].double().numpy()


@dataclass(frozen=True)
class Network:
    """An infinitely wide random network on one-hot components."""

    activation: Literal["relu", "leaky", "step", "quadratic", "gaussian"] = "relu"
    depth: int = 3
    """Hidden layers."""
    factors: int = 2
    """Components of the input."""


@experiment(smoke={"depth": 1}, stochastic=False, selection="no training")
def salience(cfg: Network, seeds: Sequence[int]) -> list[Result]:
    """Salience of conjunctions of each order in a random network's representation."""
    found = random_network(cfg.activation, cfg.depth, cfg.factors).salience()
    return [Result({f"salience_{k + 1}": float(v) for k, v in enumerate(found)}) for _ in seeds]


@claim(
    "lippl2025.salience",
    runs=[{"depth": d} for d in (1, 2, 3, 4, 5)],
    seeds=1,
    paper="0.4264, 0.3756, 0.3373, 0.3070, 0.2822",
)
def relu_salience_by_depth(records: Sequence[Record]) -> Verdict:
    """S(1;2) of one to five random ReLU layers is as published."""
    found = [float(scores(records, "salience_1", depth=d)[0]) for d in (1, 2, 3, 4, 5)]
    worst = np.abs(np.subtract(found, RELU_PAIRS)).max()
    return exact(worst, below=1e-4, what="largest difference")


@claim(
    "lippl2025.salience",
    runs=[{"depth": 3, "factors": 3}],
    seeds=1,
    paper="0.20350064, 0.09423825",
)
def relu_salience_of_three_components(records: Sequence[Record]) -> Verdict:
    """Three random ReLU layers on three components have the salience of the authors' notebook."""
    found = [float(scores(records, f"salience_{k}")[0]) for k in (1, 2)]
    worst = np.abs(np.subtract(found, RELU_TRIPLE)).max()
    return exact(worst, below=1e-7, what="largest difference")


@claim("lippl2025.salience", runs=[{"depth": 100}, {"depth": 400}], seeds=1)
def depth_makes_a_lookup_table(records: Sequence[Record]) -> Verdict:
    """With depth, salience in a ReLU network moves to the full conjunction, at a rate 8/depth."""
    rates = [d * (1 - scores(records, "salience_2", depth=d)[0]) for d in (100, 400)]
    worst = max(abs(r - 8) / 8 for r in rates[1:])
    return exact(worst, below=0.1, what="relative difference of the rate from 8 at 400 layers")


@dataclass(frozen=True)
class Random:
    """A random task for a kernel model: random targets on a random training set."""

    levels: int = 4
    """Values of each component."""
    factors: int = 4
    """Components."""
    share: float = 0.5
    """Share of combinations shown."""
    ridge: float = 0.0


@experiment(smoke={"levels": 3, "factors": 2}, selection="no training")
def additivity(cfg: Random, seeds: Sequence[int]) -> list[Result]:
    """A kernel model's prediction against the sum of values of the conjunctions it has seen."""
    grid = np.indices((cfg.levels,) * cfg.factors).reshape(cfg.factors, -1).T.astype(np.float64)
    results = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        kernel = random_network("relu", 3, cfg.factors)
        shown = grid[rng.permutation(len(grid))[: max(2, round(cfg.share * len(grid)))]]
        solution = regress(kernel, shown, rng.normal(size=len(shown)), ridge=cfg.ridge)
        parts = values(kernel, shown, solution.dual, grid)
        gap = np.abs(kernel.gram(grid, shown) @ solution.dual - sum(parts.values())).max()
        results.append(Result({"gap": float(gap)}))
    return results


@claim("lippl2025.additivity", runs=[{}, {"factors": 2, "levels": 9}, {"ridge": 1.0}])
def predictions_are_conjunction_wise_additive(records: Sequence[Record]) -> Verdict:
    """A kernel model's prediction is a sum over the conjunctions that it has seen (Theorem 4.2)."""
    by_seed = [
        max(r.scores["gap"] for r in records if r.seed == s) for s in {r.seed for r in records}
    ]
    return decide(by_seed, below=1e-9, what="largest difference")


@dataclass(frozen=True)
class Sum:
    """Symbolic addition for a kernel of given salience."""

    salience: float = 0.4264
    """S(1;2): 0.4264 is one ReLU layer, 0.5 a linear model."""
    anchors: str = "4"
    """Rows and columns that are shown, as positions 0 to 8 with commas."""
    ridge: float = 0.0


@experiment(smoke={"salience": 0.3}, stochastic=False, selection="no training")
def addition(cfg: Sum, seeds: Sequence[int]) -> list[Result]:
    """A kernel model adds two numbers after seeing some rows and columns of the table."""
    anchors = [int(a) for a in cfg.anchors.split(",")]
    shown, y, asked, truth = cut(symbolic.addition(), symbolic.addition_cross(anchors))
    solution = regress(by_salience([cfg.salience]), shown, y, ridge=cfg.ridge)
    outputs = solution.predict(asked)
    slope, offset = np.polyfit(truth, outputs, 1)
    theory = leak.slope(len(anchors), cfg.salience, cfg.ridge)
    gap = np.abs(outputs - theory * truth - offset).max()
    found = {"slope": slope, "offset": offset, "theory": theory, "gap": gap}
    return [Result({name: float(v) for name, v in found.items()}) for _ in seeds]


EXTRAPOLATION, INTERPOLATION, BOTH = "4", "0,8", "2,6"
CROSSES = [{"anchors": a} for a in ("4", "0,8", "1,4,7", "0,3,5,8", "0,2,4,6,8")]


@claim("lippl2025.addition", runs=CROSSES, seeds=1, paper="pS / (1 + (p - 2) S)")
def memorization_leaks(records: Sequence[Record]) -> Verdict:
    """New sums are shrunk to the slope pS/(1 + (p-2)S) when p rows and columns are shown."""
    worst = max(scores(records, "gap"))
    return exact(worst, below=1e-8, what="largest deviation from that line for p = 1 to 5")


@claim("lippl2025.addition", runs=[{"ridge": 0.1}, {"ridge": 1.0}], seeds=1)
def ridge_is_extra_memorization(records: Sequence[Record]) -> Verdict:
    """Ridge acts on new combinations as additional salience of the full conjunction."""
    worst = max(scores(records, "gap"))
    return exact(worst, below=1e-8, what="largest deviation from the line with ridge")


@claim("lippl2025.addition", runs=[{"anchors": INTERPOLATION}, {"anchors": BOTH}], seeds=1)
def kernels_do_not_tell_interpolation_from_extrapolation(records: Sequence[Record]) -> Verdict:
    """For a kernel, new sums inside and outside the range of the shown rows have the same slope."""
    slopes = [r.scores["slope"] for r in records]
    return exact(abs(slopes[0] - slopes[1]), below=1e-8, what="difference of the slopes")


@dataclass(frozen=True)
class Dispersed:
    """Addition after a training set in which every value occurs equally often."""

    solver: Literal["regress", "svr"] = "svr"
    """The authors' support-vector regression (epsilon 0.1), or true minimum norm."""
    tables: int = 50
    """Random training sets to average over."""


SALIENCES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.45)
PUBLISHED = (13.23, 9.636, 7.165, 5.207, 3.271, 2.023)


@experiment(smoke={"tables": 2}, stochastic=False, selection="no training")
def dispersed(cfg: Dispersed, seeds: Sequence[int]) -> list[Result]:
    """Test error of addition by salience when two sums of every row and column are shown."""
    found = {
        f"mse_{s:g}": float(leak.dispersed_error(s, range(1, cfg.tables + 1), method=cfg.solver))
        for s in SALIENCES
    }
    return [Result(found) for _ in seeds]


@claim("lippl2025.dispersed", runs=[{}], seeds=1, paper="13.23 (S = 0) to 2.02 (S = 0.45)")
def dispersed_errors_are_as_published(records: Sequence[Record]) -> Verdict:
    """With the authors' regression, errors on dispersed sums are those of their figure."""
    found = [records[0].scores[f"mse_{s:g}"] for s in SALIENCES]
    worst = np.abs(np.subtract(found, PUBLISHED)).max()
    return exact(worst, below=0.01, what="largest difference at six saliences")


@claim("lippl2025.dispersed", runs=[{}, {"solver": "regress"}], seeds=1)
def their_regression_is_not_minimum_norm(records: Sequence[Record]) -> Verdict:
    """True minimum norm errs less on dispersed sums than the authors' tolerance of 0.1 does."""
    theirs, true = (scores(records, "mse_0.45", solver=solver)[0] for solver in ("svr", "regress"))
    return exact(
        theirs - true, above=0.1, what="error of theirs minus that of minimum norm, S = 0.45"
    )


@dataclass(frozen=True)
class Tiles:
    """Kernels on three components, one a tile of the phase diagram."""

    step: int = 1
    """Take every so many-th tile in each direction."""


@experiment(smoke={"step": 12}, stochastic=False, selection="no training")
def phases(cfg: Tiles, seeds: Sequence[int]) -> list[Result]:
    """Which kernels solve context dependence when 1, 2 or 3 values of each feature are hidden."""
    s1, s2, solved = [], [], []
    wrong = 0
    cuts = {k: cut(symbolic.context(), symbolic.context_support(k)) for k in (1, 2, 3)}
    for kernel, a, b in tiles(cfg.step):
        right = []
        for k in (1, 2, 3):
            shown, y, asked, truth = cuts[k]
            try:
                found = margin(kernel, shown, y).predict(asked)
            except Refused:  # the linear kernel, a corner of the diagram, cannot fit the task
                found = np.zeros(len(truth))
            right.append(bool((np.sign(found) == truth).all()))
        s1.append(a)
        s2.append(b)
        solved.append(right)
        wrong += right[2] != leak.cd3_margin_succeeds(3, kernel.salience())
    done = np.array(solved)
    all_, two = done.all(axis=1), done[:, 0] & done[:, 1] & ~done[:, 2]
    one = done[:, 0] & ~done[:, 1] & ~done[:, 2]
    counts = {"all": all_, "two": two, "one": one, "none": ~done.any(axis=1)}
    result = Result(
        {f"tiles_{k}": float(v.sum()) for k, v in counts.items()} | {"mismatches": float(wrong)},
        {"s1": np.array(s1), "s2": np.array(s2), "solved": done.sum(axis=1)},
    )
    return [result for _ in seeds]


def tiles(step: int = 1) -> list[tuple[Kernel, float, float]]:
    """List the kernels of the published diagram: S1 = i/147, S2 = 2j/147, positive semidefinite."""
    found = []
    for i in range(0, 50, step):
        for j in range(0, 50, step):
            s1, s2 = i / 147, 2 * j / 147
            if 3 * s1 + 3 * s2 <= 1 + 1e-12:
                found.append((by_overlap([0, s1, 2 * s1 + s2, 1]), s1, s2))
    return found


@claim("lippl2025.phases", runs=[{}], seeds=1, paper="327 / 239 / 34 / 50 of 650")
def phase_diagram_is_as_published(records: Sequence[Record]) -> Verdict:
    """Of 650 kernels 327 solve all context tasks, 239 all but the hardest, 34 only the easiest."""
    (r,) = records
    found = [r.scores[f"tiles_{k}"] for k in ("all", "two", "one", "none")]
    worst = np.abs(np.subtract(found, (327, 239, 34, 50))).max()
    return exact(worst, below=0.5, what="largest difference of a count")


@claim("lippl2025.phases", runs=[{}], seeds=1)
def shortcuts_have_a_closed_form(records: Sequence[Record]) -> Verdict:
    """A closed form says which kernels take the shortcut in the hardest context task."""
    return exact(records[0].scores["mismatches"], below=0.5, what="kernels that it gets wrong")


@dataclass(frozen=True)
class Puzzle:
    """A task for the solvability test and for a kernel."""

    task: Literal["addition", "context", "equivalence", "ordering", "substitution"] = "equivalence"
    salience: float = 0.4264
    """S(1;2) of the kernel, for tasks of two components."""


PUZZLES: dict[str, Callable[[], tuple[Task, Support, Support | None]]] = {
    "addition": lambda: (symbolic.addition(), symbolic.addition_cross((4,)), None),
    "context": lambda: (symbolic.context(), symbolic.context_support(3), None),
    "equivalence": lambda: (symbolic.equivalence(), symbolic.equivalence_support(), None),
    "ordering": lambda: (
        symbolic.ordering(),
        symbolic.ordering_support(7),
        symbolic.ordering_query(7),
    ),
    "substitution": lambda: (
        symbolic.context_substitution(),
        symbolic.context_substitution_support(),
        None,
    ),
}


@experiment(smoke={"task": "ordering"}, stochastic=False, selection="no training")
def puzzles(cfg: Puzzle, seeds: Sequence[int]) -> list[Result]:
    """Whether seen conjunctions can express the answer at all, and whether a kernel finds it."""
    task, shown_by, asked_by = PUZZLES[cfg.task]()
    shown, y, asked, truth = cut(task, shown_by, asked_by)
    certificate = solvable(
        shown, asked, truth, "regression" if cfg.task == "addition" else "labels"
    )
    found = {"solvable": float(certificate.solvable)}
    if shown.shape[1] == 2:
        outputs = regress(by_salience([cfg.salience]), shown, y).predict(asked)
        found["largest_output"] = float(np.abs(outputs).max())
        found["accuracy"] = float((np.sign(outputs) == np.sign(truth)).mean())
    return [Result(found) for _ in seeds]


@claim("lippl2025.puzzles", runs=[{}], seeds=1, paper="impossible")
def equivalence_is_impossible(records: Sequence[Record]) -> Verdict:
    """No sum over seen conjunctions tells new pairs of one class from pairs of two."""
    return exact(
        records[0].scores["solvable"], below=0.5, what="whether the linear program is feasible"
    )


@claim("lippl2025.puzzles", runs=[{"salience": s} for s in (0.2, 0.4264, 0.49)], seeds=1)
def kernels_say_nothing_about_equivalence(records: Sequence[Record]) -> Verdict:
    """On transitive equivalence every kernel answers exactly zero for new pairs."""
    worst = max(r.scores["largest_output"] for r in records)
    return exact(worst, below=1e-7, what="largest output")


@claim(
    "lippl2025.puzzles",
    runs=[{"task": "ordering", "salience": s} for s in (0.3, 0.4264, 0.5)],
    seeds=1,
)
def kernels_order_transitively(records: Sequence[Record]) -> Verdict:
    """After neighbors alone, a kernel orders all pairs of seven items."""
    return exact(min(scores(records, "accuracy")), above=0.999, what="smallest accuracy")


@claim(
    "lippl2025.puzzles",
    runs=[{"task": t} for t in ("addition", "context", "ordering")],
    seeds=1,
)
def other_puzzles_are_solvable(records: Sequence[Record]) -> Verdict:
    """Addition, context dependence and ordering can be expressed by seen conjunctions."""
    return exact(min(scores(records, "solvable")), above=0.5, what="whether all three are solvable")


@claim("lippl2025.puzzles", runs=[{"task": "substitution"}], seeds=1)
def context_substitution_is_impossible(records: Sequence[Record]) -> Verdict:
    """Knowing that two contexts follow one rule is not expressible by seen conjunctions."""
    return exact(
        records[0].scores["solvable"], below=0.5, what="whether the linear program is feasible"
    )


@dataclass(frozen=True)
class Exposure:
    """Two binary items, the first of which decides."""

    overlap: float = 0.4264
    """Similarity of inputs that share one item, between 0 and 1/2."""
    partial: bool = False
    """Whether one combination with the other second item is shown, too."""


@experiment(smoke={"overlap": 0.2}, stochastic=False, selection="no training")
def exposure(cfg: Exposure, seeds: Sequence[int]) -> list[Result]:
    """How well a kernel carries an item over to a new partner, with and without more data."""
    shown, y, asked, truth = cut(symbolic.invariance(), symbolic.invariance_support(cfg.partial))
    found = margin_of(by_overlap([0, cfg.overlap, 1]), shown, y, asked, truth)
    theory = leak.partial_exposure(cfg.overlap) if cfg.partial else leak.invariance(cfg.overlap)
    gap = abs(found - theory)
    return [Result({"margin": found, "theory": float(theory), "gap": gap}) for _ in seeds]


def margin_of(kernel: Kernel, shown: Points, y: Targets, asked: Points, truth: Targets) -> float:
    """Mean of truth times output over what was asked."""
    return float((truth * regress(kernel, shown, y).predict(asked)).mean())


@claim(
    "lippl2025.exposure",
    runs=[{"overlap": k, "partial": p} for k in (0.2, 0.4264) for p in (False, True)],
    seeds=1,
    paper="k/(1-k), 2k²/(1-2k²)",
)
def more_data_can_help_less(records: Sequence[Record]) -> Verdict:
    """Margins are k/(1-k) without and 2k²/(1-2k²) with a further example: more data helps less."""
    worst = max(scores(records, "gap"))
    return exact(worst, below=1e-9, what="largest difference from the closed forms")
