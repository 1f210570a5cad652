"""Brady et al. 2024, exactly: orders of known generators, their conditions, and attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import numpy as np
import torch
from torch import Tensor

from recombine.core.claim import Verdict, claim, exact, scores
from recombine.core.experiment import Result, experiment
from recombine.diagnostics.independence import inseparable, sufficient_independence
from recombine.diagnostics.interaction import interaction_order
from recombine.maps.derivatives import energies, jacobian, second
from recombine.runs.record import Record
from recombine.tasks.interactions import BLOCKS, ORDERS, SIZE, Kind, generator, network, space

TINY = 1e-9  # tolerance for generators that are known exactly
MORE = 3  # stands for "3 or more, or entangled"


def drawn(points: int) -> Tensor:
    """Draw latents, always the same."""
    return torch.as_tensor(space().draw(points, rng=np.random.default_rng(1)))


@dataclass(frozen=True)
class Generator:
    """A generator of known order: three blocks of four latents, one color image."""

    kind: Kind = "bilinear"
    side: int = 16
    """Pixels along a side."""
    points: int = 4
    """Latents at which it is differentiated."""


@experiment(smoke={"side": 3, "points": 2}, stochastic=False, selection="no training")
def orders(cfg: Generator, seeds: Sequence[int]) -> list[Result]:
    """Interaction order of generators by exact derivatives, and what differences say beside it."""
    f, z = generator(cfg.kind, cfg.side), drawn(cfg.points)
    found = interaction_order(f, z, space(), tolerance=TINY, method="exact")
    apart = interaction_order(f, z, space(), method="differences", up_to=1)
    held = {"order": float(MORE if found.order is None else found.order)}
    for n, share in enumerate(found.shares):
        held |= {f"r{n}": share.value, f"ratio{n}": share.ratio}
    arrays = {
        "second": energies(f, z, 2).mean(dim=0).sqrt().numpy(),
        "third": energies(f, z, 3).mean(dim=0).sum(dim=2).sqrt().numpy(),
    }
    result = Result(held | {"defect": apart.shares[1].value}, arrays)
    return [result for _ in seeds]


def kinds(*names: Kind) -> list[dict[str, str]]:
    """List the runs of some generators."""
    return [{"kind": name} for name in names]


def cell(records: Sequence[Record], kind: str, score: str) -> float:
    """Give one score of one generator."""
    return float(scores(records, score, kind=kind)[0])


EVERY = kinds(*ORDERS)
TANGLED: tuple[Kind, ...] = ("entangled", "rotated")


def cells(zero: bool) -> list[tuple[Kind, str]]:
    """List the shares that order theory says are zero, or are not."""
    return [
        (kind, f"r{n}")
        for kind, order in ORDERS.items()
        for n in range(3)
        if zero == (order is not None and n >= order)
    ]


@claim("brady2024.orders", runs=EVERY, seeds=1, paper="9 of 9 generators")
def orders_are_recovered(records: Sequence[Record]) -> Verdict:
    """The order of every generator is recovered: 0, 1, 2, or more."""
    wanted = {kind: MORE if order is None else order for kind, order in ORDERS.items()}
    wrong = sum(cell(records, kind, "order") != order for kind, order in wanted.items())
    return exact(wrong, below=0.5, what="generators whose order is not recovered, of 9")


@claim("brady2024.orders", runs=EVERY, seeds=1, paper="0")
def structural_zeros_are_zero(records: Sequence[Record]) -> Verdict:
    """Derivatives that a generator's order forbids come out as exactly zero."""
    worst = max(cell(records, kind, score) for kind, score in cells(zero=True))
    return exact(worst, below=1e-20, what="largest share that must be 0")


@claim("brady2024.orders", runs=EVERY, seeds=1, paper="≥ 9.5e-3")
def other_shares_are_far_from_zero(records: Sequence[Record]) -> Verdict:
    """Derivatives across blocks that a generator's order allows are far from zero."""
    least = min(cell(records, kind, score) for kind, score in cells(zero=False))
    return exact(least, above=5e-3, what="smallest share that is not 0")


@claim("brady2024.orders", runs=kinds(*TANGLED), seeds=1, paper="0.99 and 0.98")
def wrong_blocks_are_as_good_as_random(records: Sequence[Record]) -> Verdict:
    """For entangled and rotated latents, the blocks are no better than random ones."""
    least = min(cell(records, kind, "ratio1") for kind in TANGLED)
    return exact(least, above=0.9, what="smallest ratio of r1 to that of random blocks")


@claim("brady2024.orders", runs=EVERY, seeds=1, paper="≤ 3e-31, else ≥ 1.6e-2")
def differences_tell_sums_from_the_rest(records: Sequence[Record]) -> Verdict:
    """Finite differences across blocks are zero for sums over blocks and for nothing else."""
    sums = [kind for kind, order in ORDERS.items() if order is not None and order < 2]
    high = max(cell(records, kind, "defect") for kind in sums)
    low = min(cell(records, kind, "defect") for kind in ORDERS if kind not in sums)
    return exact(high / low, below=1e-12, what="largest defect of a sum / smallest of another")


@dataclass(frozen=True)
class Kinks:
    """An entangled network with kinks."""

    outputs: int = 768
    points: int = 16


@experiment(
    smoke={"outputs": 24, "points": 4},
    stochastic=False,
    selection="no training",
)
def kinks(cfg: Kinks, seeds: Sequence[int]) -> list[Result]:
    """A ReLU network that mixes all blocks, looked at by derivatives and by differences."""
    f, z = (
        network(np.random.default_rng(0), BLOCKS * SIZE, cfg.outputs, torch.relu),
        drawn(cfg.points),
    )
    blind = interaction_order(f, z, space(), method="exact", up_to=1)
    seeing = interaction_order(f, z, space())
    near = drawn(cfg.points).mul(0.01) + z[:1]  # the same steps, a hundred times smaller
    close = interaction_order(f, near, space(), method="differences", up_to=1)
    held = {
        "derivatives": blind.shares[1].value,
        "differences": seeing.shares[1].value,
        "close": close.shares[1].value,
        "chosen": float(seeing.method == "differences"),
        "order": float(MORE if seeing.order is None else seeing.order),
    }
    return [Result(held) for _ in seeds]


@claim("brady2024.kinks", seeds=1, paper="0")
def derivatives_are_blind_to_kinks(records: Sequence[Record]) -> Verdict:
    """Second derivatives certify a ReLU network as a sum over blocks, which it is not."""
    return exact(scores(records, "derivatives")[0], below=1e-20, what="share r1 by derivatives")


@claim("brady2024.kinks", seeds=1, paper="0.135")
def differences_see_kinks(records: Sequence[Record]) -> Verdict:
    """Finite differences as large as the data show that it is not."""
    return exact(scores(records, "differences")[0], above=0.05, what="share r1 by differences")


@claim("brady2024.kinks", seeds=1, paper="2e-27 at a step of 0.01")
def small_differences_are_as_blind(records: Sequence[Record]) -> Verdict:
    """Steps a hundred times smaller hardly see kinks."""
    close, far = (scores(records, name)[0] for name in ("close", "differences"))
    return exact(close / far, below=0.05, what="share r1 with small steps / with large ones")


@claim("brady2024.kinks", seeds=1)
def the_trap_is_noticed(records: Sequence[Record]) -> Verdict:
    """Without being told, the measurement changes to differences and finds no order below 3."""
    found = min(scores(records, "chosen")[0], scores(records, "order")[0] / MORE)
    return exact(found, above=0.5, what="1 if differences were chosen and no order was found")


@dataclass(frozen=True)
class Reparametrized:
    """A generator whose latents go through z + s sin 2z, one by one."""

    kind: Kind = "bilinear"
    strength: float = 0.1
    """Of the change, s; below 0.5 it is invertible."""
    side: int = 16
    points: int = 4


@experiment(smoke={"side": 3, "points": 2}, stochastic=False, selection="no training")
def reparametrized(cfg: Reparametrized, seeds: Sequence[int]) -> list[Result]:
    """Shares across blocks after a change of coordinates within blocks."""
    f, z = generator(cfg.kind, cfg.side), drawn(cfg.points)

    def changed(z: Tensor) -> Tensor:
        return f(z + cfg.strength * torch.sin(2 * z))

    found = interaction_order(changed, z, space(), tolerance=TINY, method="exact")
    held = {f"r{n}": share.value for n, share in enumerate(found.shares)}
    return [Result(held) for _ in seeds]


STRENGTHS = {0.1: 5.8e-4, 0.3: 1.5e-3}  # and r2 of another bilinear generator so changed
UP_TO_ONE = [{"kind": k, "strength": s} for k in ("disjoint", "additive") for s in STRENGTHS]
BILINEAR = [{"kind": "bilinear", "strength": s} for s in STRENGTHS]


@claim("brady2024.reparametrized", runs=UP_TO_ONE, seeds=1, paper="0")
def orders_0_and_1_survive_new_coordinates(records: Sequence[Record]) -> Verdict:
    """Orders 0 and 1 do not depend on the coordinates within blocks."""
    worst = max(max(scores(records, n, kind="disjoint")) for n in ("r0", "r1", "r2"))
    worst = max(worst, *(max(scores(records, n, kind="additive")) for n in ("r1", "r2")))
    return exact(worst, below=1e-20, what="largest share that must be 0")


@claim("brady2024.reparametrized", runs=BILINEAR, seeds=1, paper="5.8e-4 and 1.5e-3")
def order_2_does_not(records: Sequence[Record]) -> Verdict:
    """Products of latents are no longer of order 2 in other coordinates of the blocks."""
    gaps = [
        abs(log10(max(scores(records, "r2", strength=s)[0], 1e-300) / r))
        for s, r in STRENGTHS.items()
    ]
    return exact(max(gaps), below=1, what="powers of ten between r2 and its reference")


@dataclass(frozen=True)
class Conditions:
    """A generator and the order for which the theorem's conditions are tested."""

    n: int = 1
    side: int = 8
    """Pixels along a side; three channels make 192 outputs, of which n = 2 needs 150."""
    points: int = 3


OF_ORDER: dict[int, Kind] = {0: "disjoint", 1: "additive", 2: "bilinear"}
MERGED = [list(range(2 * SIZE)), list(range(2 * SIZE, BLOCKS * SIZE))]


@experiment(smoke={"side": 9, "points": 1}, stochastic=False, selection="no training")
def conditions(cfg: Conditions, seeds: Sequence[int]) -> list[Result]:
    """Whether random generators meet the theorem's conditions, and whether merged blocks do."""
    f, z = generator(OF_ORDER[cfg.n], cfg.side), drawn(cfg.points)
    free = sufficient_independence(f, z, space(), cfg.n)
    one = inseparable(f, z, space(), cfg.n)
    mixed = np.eye(BLOCKS * SIZE)
    size = 2 * SIZE
    mixed[:size, :size] += np.random.default_rng(2).normal(size=(size, size)) / 2
    turn = torch.as_tensor(mixed)
    two = inseparable(lambda z: f(z @ turn), z @ torch.linalg.inv(turn), MERGED, cfg.n)
    held = {
        "missing": float(free.wanted - free.together),
        "independence": free.margin,
        "parts": float(max(p.parts for p in one.values())),
        "unity": min(p.margin for p in one.values()),
        "merged": float(two["0"].parts),
        "merged_size": float(two["0"].sizes[0]),
    }
    return [Result(held) for _ in seeds]


ORDER_RUNS = [{"n": n} for n in OF_ORDER]


@claim("brady2024.conditions", runs=ORDER_RUNS, seeds=1)
def random_generators_are_sufficiently_independent(records: Sequence[Record]) -> Verdict:
    """Derivatives of random generators determine the block they come from, for n = 0, 1 and 2."""
    return exact(max(scores(records, "missing")), below=0.5, what="rank that is missing")


@claim("brady2024.conditions", runs=ORDER_RUNS, seeds=1)
def random_blocks_do_not_split(records: Sequence[Record]) -> Verdict:
    """Blocks of random generators do not split in any coordinates, for n = 0, 1 and 2."""
    return exact(max(scores(records, "parts")), below=1.5, what="most parts of a block")


@claim("brady2024.conditions", runs=ORDER_RUNS, seeds=1)
def merged_blocks_are_found_out(records: Sequence[Record]) -> Verdict:
    """Two blocks taken for one split into the two, however their latents are mixed."""
    wrong = sum(
        abs(parts - 2) + abs(size - SIZE)
        for parts, size in zip(
            scores(records, "merged"), scores(records, "merged_size"), strict=True
        )
    )
    return exact(wrong, below=0.5, what="parts and latents that differ from 2 parts of 4")


@dataclass(frozen=True)
class Attention:
    """One reading of slots by pixels: softmax over slots of products with the pixel's query."""

    slots: int = 5
    dim: int = 4
    width: int = 8
    """Numbers of a query and of a value."""
    pixels: int = 48
    points: int = 4


@experiment(smoke={"pixels": 4, "points": 1}, stochastic=False, selection="no training")
def attention(cfg: Attention, seeds: Sequence[int]) -> list[Result]:
    """Derivatives of attention by slots against their closed form, and against its weights."""
    rng = np.random.default_rng(0)
    key, value = (torch.as_tensor(rng.normal(size=(cfg.width, cfg.dim))) for _ in range(2))
    query = torch.as_tensor(rng.normal(size=(cfg.pixels, cfg.width)))
    z = torch.as_tensor(rng.normal(size=(cfg.points, cfg.slots * cfg.dim)))
    scale = cfg.width**-0.5

    def weights(slots: Tensor) -> Tensor:
        return torch.softmax(torch.einsum("pw,wd,nkd->npk", query, key, slots) * scale, dim=2)

    def read(z: Tensor) -> Tensor:
        slots = z.view(len(z), cfg.slots, cfg.dim)
        return weights(slots) @ (slots @ value.T)

    slots = z.unflatten(1, (cfg.slots, cfg.dim))
    a, got = weights(slots), read(z)  # (n, pixels, slots), (n, pixels, width)
    away = (slots @ value.T)[:, None] - got[:, :, None]  # (n, pixels, slots, width)
    slope = value + away[..., None] * (query @ key)[:, None, None] * scale
    formula = a[..., None, None] * slope  # (n, pixels, slots, width, dim)
    shape = (cfg.points, cfg.pixels, cfg.width, cfg.slots, cfg.dim)
    found = jacobian(read, z).reshape(shape).transpose(2, 3)
    bent = second(read, z).reshape(*shape, cfg.slots, cfg.dim).permute(0, 1, 3, 5, 2, 4, 6)
    # by slots j and k: -a_j a_k (s_k by z_k times κ by z_j, and the other way round)
    turn = torch.einsum("npkvd,pe->npkved", slope, (query @ key) * scale)
    both = turn[:, :, None] + turn.mT[:, :, :, None]
    curved = -(a[..., :, None] * a[..., None, :])[..., None, None, None] * both
    i, j = torch.triu_indices(cfg.slots, cfg.slots, 1)
    curve = bent.square().sum(dim=(4, 5, 6)).sqrt()
    product = (a[..., i] * a[..., j]).flatten().log()
    norms = found.square().sum(dim=(3, 4)).sqrt()
    bound = torch.linalg.matrix_norm(slope)
    over = norms[..., i] * norms[..., j] / (a[..., i] * a[..., j] * bound[..., i] * bound[..., j])
    held = {
        "error": float((found - formula).abs().max()),
        "error_second": float((bent - curved)[:, :, i, j].abs().max()),
        "over": float(over.max()),
        "correlation": float(
            torch.corrcoef(torch.stack([product, curve[..., i, j].flatten().log()]))[0, 1]
        ),
    }
    return [Result(held) for _ in seeds]


@claim("brady2024.attention", seeds=1, paper="5e-15")
def attention_has_the_derivative_derived(records: Sequence[Record]) -> Verdict:
    """The derivative of attention by a slot is its weight times a known matrix."""
    return exact(scores(records, "error")[0], below=1e-12, what="largest error of the closed form")


@claim("brady2024.attention", seeds=1)
def attention_has_the_second_derivative_derived(records: Sequence[Record]) -> Verdict:
    """The second derivative by two slots is the product of their weights times a known matrix."""
    error = scores(records, "error_second")[0]
    return exact(error, below=1e-12, what="largest error of the closed form")


@claim("brady2024.attention", seeds=1)
def products_of_weights_bound_order_0(records: Sequence[Record]) -> Verdict:
    """Products of two slots' derivatives at a pixel are products of their weights, times norms."""
    off = abs(scores(records, "over")[0] - 1)
    return exact(
        off, below=1e-12, what="|product of derivatives / product of weights and norms - 1|"
    )


@claim("brady2024.attention", seeds=1, paper="0.996")
def products_of_weights_follow_order_1(records: Sequence[Record]) -> Verdict:
    """Second derivatives by two slots follow the product of their weights."""
    return exact(
        scores(records, "correlation")[0], above=0.95, what="correlation of the logarithms"
    )
