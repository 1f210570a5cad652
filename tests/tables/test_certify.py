from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from recombine.base.error import Refused
from recombine.tables import certify as certificates
from recombine.tables import foresight
from recombine.tables.certify import certify
from recombine.tables.conjunctions import Conjunctions, conjunctions
from recombine.tables.exact import (
    echelon,
    inverse_residues,
    proven_factor,
    random_prime,
    rational,
    whole_null_space,
)
from recombine.tables.read import read
from recombine.tables.solve import CHOLESKY, MODULAR, WHOLE, solve
from recombine.tables.table import Table, space_of


def table_of(z, shape, weights=None, y=None):
    labels = [[f"{name}{a}" for a in range(m)] for name, m in zip("abcdef", shape, strict=False)]
    columns = tuple("abcdef"[: len(shape)])
    return Table(space_of(columns, labels), np.asarray(z), y, weights, columns)


def random_table(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, size=rng.integers(2, 4)).tolist())
    if rng.random() < 0.3:
        shape = tuple(rng.integers(2, 4, size=4).tolist())
    grid = np.indices(shape).reshape(len(shape), -1).T
    if rng.random() < 0.4:  # structured: a corner of the grid is hidden
        corner = [rng.integers(1, m) for m in shape]
        grid = grid[~(grid >= corner).all(axis=1)]
    z = grid[rng.permutation(len(grid))[: int(rng.integers(2, len(grid) + 1))]]
    return shape, z[rng.integers(len(z), size=len(z) + 3)], int(rng.integers(1, len(shape) + 1))


def conjunctions_of(row, order):
    """The conjunctions of a combination: the definition, not our columns."""
    sets = (c for size in range(order + 1) for c in combinations(range(len(row)), size))
    return {(c, tuple(int(row[i]) for i in c)): Fraction(1) for c in sets}


def remainder(row, basis):
    """Subtract what the rows of a basis, by pivot in the order they were added, explain."""
    for pivot, other in basis.items():
        if scale := row.get(pivot, 0):
            for key, value in other.items():
                row[key] = row.get(key, 0) - scale * value
    return {key: value for key, value in row.items() if value}


def determined(z, queries, order):
    """Which queried rows lie in the row space of the measured ones, by exact elimination."""
    basis = {}
    for row in z:
        if rest := remainder(conjunctions_of(row, order), basis):
            pivot, scale = next(iter(rest.items()))
            basis[pivot] = {key: value / scale for key, value in rest.items()}
    inside = [not remainder(conjunctions_of(row, order), basis) for row in queries]
    return np.array(inside, dtype=bool), len(basis)


@pytest.mark.parametrize("block", range(4))
def test_320_random_tables_agree_with_rational_arithmetic(block):
    proofs = set()
    for seed in range(80 * block, 80 * (block + 1)):
        shape, z, order = random_table(seed)
        t = table_of(z, shape)
        c = certify(t, order)
        truth, rank = determined(t.cells.z, c.queries, order)
        assert c.system.rank == rank, seed
        assert (c.determined == truth).all(), seed
        some = certify(t, order, c.queries[:3])
        assert (some.determined == truth[:3]).all(), seed
        np.testing.assert_allclose(some.margin, c.margin[:3], rtol=1e-8)
        proofs.add(c.proof)
    assert proofs <= {CHOLESKY, WHOLE, MODULAR}
    assert len(proofs) > 1


@pytest.mark.parametrize("seed", range(6))
def test_margin_is_the_variance_of_least_squares(seed):
    shape, z, order = random_table(seed)
    rng = np.random.default_rng(seed)
    weights = [None, rng.integers(1, 6, len(z)).astype(float), rng.uniform(0.1, 3, len(z))][
        seed % 3
    ]
    c = certify(table_of(z, shape, weights), order)
    phi = Conjunctions(shape, order).matrix(z).toarray()
    queries = Conjunctions(shape, order).matrix(c.queries).toarray()
    gram = phi.T @ phi if weights is None else phi.T @ (weights[:, None] * phi)
    expected = np.einsum("ij,jk,ik->i", queries, np.linalg.pinv(gram, rcond=1e-11), queries)
    at = c.determined
    np.testing.assert_allclose(c.margin[at], expected[at], rtol=1e-6)
    assert np.isnan(c.margin[~at]).all()


def test_weights_count_as_measurements():
    z = np.array([[0, 0], [0, 1], [1, 0]])
    once = certify(table_of(z, (2, 2)), 1)
    weighted = certify(table_of(z, (2, 2), np.array([2.0, 2.0, 2.0])), 1)
    fractions = certify(table_of(z, (2, 2), np.array([0.5, 0.5, 0.5])), 1)
    assert once.margin.tolist() == pytest.approx([3.0])
    assert weighted.margin.tolist() == pytest.approx([1.5])
    assert fractions.margin.tolist() == pytest.approx([6.0])


def test_gram_is_the_same_from_counts_and_from_rows(rng):
    z = rng.integers(3, size=(4000, 4))
    counts = rng.integers(1, 5, size=4000).astype(float)
    for c in (conjunctions((3,) * 4, 2, z), Conjunctions((3,) * 4, 2)):
        phi = c.matrix(z).toarray()
        np.testing.assert_array_equal(c.gram(z, counts), phi.T @ (counts[:, None] * phi))
        np.testing.assert_array_equal(
            c.gram(z[:9], counts[:9]), c.matrix(z[:9]).T @ (counts[:9, None] * phi[:9])
        )
        np.testing.assert_allclose(c.product(z, counts), phi.T @ counts)
        vector, m = rng.integers(9, size=c.width), rng.normal(size=(c.width, c.width))
        np.testing.assert_array_equal(c.sums(vector)[tuple(z.T)], phi @ vector)
        np.testing.assert_array_equal(c.sums_at(z, vector), phi @ vector)
        forms = np.einsum("ij,jk,ik->i", phi[:50], m, phi[:50])
        np.testing.assert_allclose(c.quadratic(m)[tuple(z[:50].T)], forms)
        np.testing.assert_allclose(c.quadratic_at(z[:50], m), forms)


def test_a_singular_matrix_is_never_proven_to_have_full_rank(rng):
    for n in (2, 5, 20, 60):
        a = rng.integers(-3, 4, size=(n, n - 1)).astype(float)
        assert proven_factor(a @ a.T) is None  # rank n - 1 at most
    assert proven_factor(np.eye(4)) is not None


def test_elimination_modulo_a_prime_finds_rank_and_null_vectors(rng):
    a = rng.integers(0, 3, size=(90, 40)) @ rng.integers(0, 3, size=(40, 120))
    p = random_prime(rng)
    e = echelon(a, p)
    assert e.rank == np.linalg.matrix_rank(a) == 40
    null = e.null(rng.integers(p, size=(len(e.free), 5)))
    assert null.any(axis=0).all()
    assert not (a.astype(object) @ null.astype(object) % p).any()


def test_fractions_are_rebuilt_from_residues():
    p = random_prime(np.random.default_rng(0))
    halves = np.array([[pow(2, -1, p)], [p - 1], [(3 * pow(4, -1, p)) % p], [0]])
    assert rational(halves, p).tolist() == [[2], [-4], [3], [0]]


def test_witness_is_a_signed_sum_of_measured_combinations(rng):
    z = [[0, 0], [0, 1], [1, 1], [1, 2]]
    t = table_of(z, (2, 3))
    c = certify(t, 1)
    assert c.components == [(("a0", "a1"), ("b0", "b1", "b2"))]
    assert str(c.witness(["a1", "b0"])) == "(a1, b0) = (a1, b1) + (a0, b0) - (a0, b1)"
    for seed in range(12):
        shape, rows, order = random_table(seed)
        t = table_of(rows, shape)
        c = certify(t, order)
        phi = Conjunctions(shape, order)
        for cell, good in zip(c.queries, c.determined, strict=True):
            w = c.witness(t.decode(cell[None])[0])
            assert (w is not None) == good
            if w is not None:
                parts = t.encode([cells for _, cells in w.terms])
                assert t.seen(parts).all()
                weights = np.array([weight for weight, _ in w.terms], dtype=object)
                total = weights @ phi.matrix(parts).toarray().astype(int).astype(object)
                assert (total == phi.matrix(cell[None]).toarray()[0].astype(int)).all()
                assert all(isinstance(weight, Fraction) for weight, _ in w.terms)


def test_components_and_levels_never_measured():
    t = read(
        {"a": ["x", "x", "y", "z"], "b": ["1", "2", "3", "3"], "y": [1.0, 2.0, 3.0, np.nan]},
        target="y",
    )
    c = certify(t, 1)
    assert c.never == {"a": ("z",)}
    assert c.components == [(("x",), ("1", "2")), (("y",), ("3",)), (("z",), ())]
    assert not c.determined.any()
    assert [(k.strength, k.covered, k.possible, k.thin) for k in c.coverage] == [
        (1, 5, 6, 4),
        (2, 3, 9, 3),
    ]


def test_orders_and_sizes_that_cannot_be_served():
    t = table_of([[0, 0], [0, 1], [1, 0]], (2, 2))
    with pytest.raises(Refused, match="order must be 1 to 2"):
        certify(t, 3)
    z = np.stack([np.arange(500)] * 4, axis=1)
    wide = table_of(z, (500,) * 4)
    with pytest.raises(Refused, match="62,500,000,000 combinations"):
        certify(wide, 1)
    assert not certify(wide, 1, np.array([[0, 1, 0, 0]])).determined.any()
    with pytest.raises(Refused, match="Use order 1"):
        solve(wide.shape, 2, z, np.ones(500))


def test_the_search_for_a_witness_ends(monkeypatch):
    """A sparse table of many levels, whose shortest witness takes a solver minutes."""
    rng = np.random.default_rng(0)
    shape = (64,) * 6
    t = table_of(rng.integers(64, size=(900, 6)), shape, y=rng.normal(size=(900, 1)))
    monkeypatch.setattr(certificates, "SECONDS", 0.02)
    f = foresight.certify(t, 1, wanted=rng.integers(64, size=(3, 6)))
    assert f.certificate.determined.all()
    assert f.certificate.witness(f.source.decode(f.queries[:1])[0]) is None
    assert f.summary["witnesses"] == []
    assert str(f).endswith("No short witness was found in 0.02 s.")


@pytest.mark.parametrize(("order", "strengths"), [(1, [1, 2]), (2, [1, 2, 3]), (3, [1, 2, 3])])
def test_coverage_is_counted_to_one_strength_beyond_the_order(order, strengths):
    z = np.indices((2, 2, 2)).reshape(3, -1).T[:7]
    labels = [["0", "1"]] * 3
    table = Table(space_of("abc", labels), z, None, None, tuple("abc"), ())
    assert [c.strength for c in certify(table, order).coverage] == strengths


def test_inverses_of_residues_multiply_to_one():
    x = np.arange(97.0)
    found = inverse_residues(x, 97)
    assert found[0] == 0
    assert set((x * found % 97)[1:]) == {1}


def test_a_null_space_is_checked_against_every_row(rng):
    """The null vector (-1, 1) of the first row leaves 1 in the second one."""
    prime = random_prime(rng)
    form = echelon(np.array([[1, 1]]), prime)
    assert whole_null_space(np.array([[1, 1], [2, 2]]), form).ravel().tolist() in ([-1, 1], [1, -1])
    assert whole_null_space(np.array([[1, 1], [0, 1]]), form) is None


def test_witnesses_of_sixteen_terms_are_listed_and_longer_ones_are_not():
    """At order 3 the missing corner of 2 x 2 x 2 x 2 is a signed sum of the other 15."""
    for factors, listed in ((4, 1), (5, 0)):
        grid = np.indices((2,) * factors).reshape(factors, -1).T
        f = foresight.certify(table_of(grid[1:], (2,) * factors), factors - 1)
        assert [len(w.terms) for w in f.witnesses] == [2**factors - 1]
        assert len(f.witness_texts(20)) == listed
