"""Small parts of `linalg` beside dense definitions, both branches of every switch of sizes among them."""

import math

import numpy as np
import pytest
from problems import close
from sklearn.gaussian_process.kernels import RBF

from skspectral.kernels.gram import make_gram
from skspectral.linalg import factors
from skspectral.linalg.active import Active, FunctionValues, _span_of_few
from skspectral.linalg.coupled import CoupledCurvature, LumpedCurvature, SquaredProducts
from skspectral.linalg.curved import DensePrior, FactorPrior
from skspectral.linalg.factors import (
    Columns,
    _drawn,
    _independent,
    _is_hopeless,
    _largest,
    _nonnegative,
    _nothing,
    _pool,
    missed_trace,
    pivoted_cholesky,
    spanned_by_rows,
)
from skspectral.linalg.greedy import SparseGreedy, _GrowingSolve, greedy_landmarks
from skspectral.linalg.moments import FeatureSpectrum
from skspectral.linalg.quadratic import inverse_quadratic, inverse_root
from skspectral.linalg.reflectors import left_singular, symmetric_eigen
from skspectral.linalg.rows import RowCounts, Rows, _rounding, span
from skspectral.linalg.sensitivity import (
    TriangularSensitivity,
    add_products,
    dense_sensitivity,
    upper_between,
)
from skspectral.linalg.spectrum import Spectrum, _repaired, resolution_of
from skspectral.support.exceptions import (
    IndefiniteKernelError,
    IndefiniteKernelWarning,
    RankDeficientBasisWarning,
)

EPS = np.finfo(np.float64).eps


@pytest.mark.parametrize("m", [1, 3, 4, 7])
def test_moments_and_their_spread_for_few_and_many_columns(m):
    rng = np.random.default_rng(0)
    E, V, M = rng.normal(size=(9, 5)), rng.normal(size=(9, m)), rng.normal(size=(m, 2))
    squares = SquaredProducts(E)
    S = np.einsum("ia,ib,ik->abk", E, E, V)
    assert close(squares.moments(V), S, 1e-12)
    assert close(squares.spread(S), (E @ E.T) ** 2 @ V, 1e-12)
    assert close(squares.span(V, M)[0], S @ M, 1e-12)
    assert close(squares.span(V, M)[1], (E @ E.T) ** 2 @ V @ M, 1e-12)
    assert close(squares.row_sums, ((E @ E.T) ** 2).sum(axis=1), 1e-12)


def test_moments_are_kept_for_the_same_columns_only():
    rng = np.random.default_rng(0)
    squares, V, W = SquaredProducts(rng.normal(size=(9, 3))), rng.normal(size=(9, 5)), rng.normal(size=(9, 5))
    M, N = rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
    assert squares.moments(V) is squares.moments(V)
    assert squares.span(V, M) is squares.span(V, M)
    for columns, mixing in ((V, N), (W, N), (W, M), (V, M)):
        expected = (squares.E @ squares.E.T) ** 2 @ columns @ mixing
        assert close(squares.span(columns, mixing)[1], expected, 1e-12)


@pytest.mark.parametrize("with_B", [True, False])
def test_the_lumped_curvature_multiplies_like_its_matrix(with_B):
    rng = np.random.default_rng(1)
    d, V, M = rng.normal(size=6), rng.normal(size=(6, 3)), rng.normal(size=(3, 2))
    B = rng.normal(size=(6, 2)) if with_B else None
    W = np.diag(d) - (B @ B.T if with_B else 0.0)
    lumped = LumpedCurvature(d, B)
    assert close(lumped @ V, W @ V, 1e-12)
    assert close(lumped.quadratic(V), V.T @ W @ V, 1e-12)
    assert close(lumped.times_span(V, M), W @ V @ M, 1e-12)
    coupled = CoupledCurvature(d, SquaredProducts(V), 0.5, B)
    assert close(coupled.times_span(V, M), (W + 0.5 * (V @ V.T) ** 2) @ V @ M, 1e-12)


@pytest.mark.parametrize(("n", "rank", "m"), [(6, 6, 1), (6, 3, 1), (6, 3, 2), (1, 0, 2), (1, 0, 1)])
@pytest.mark.parametrize("make", ["from_gram", "from_factor"])
def test_mixed_outputs_are_those_of_mixed_targets(n, rank, m, make):
    """A factor leaves the rest of the targets outside of its vectors, those of a matrix span all."""
    rng = np.random.default_rng(n + m)
    Phi = rng.normal(size=(n, max(rank, 1))) * (rank > 0)
    Y, M = rng.normal(size=(n, m)), rng.normal(size=(3, m))
    spectrum = Spectrum.from_factor(Phi) if make == "from_factor" else Spectrum.from_gram(Phi @ Phi.T)
    assert spectrum.n_null == (n - rank if make == "from_factor" else 0)
    rotated = spectrum.rotate(Y).mixed(M)
    assert rotated.targets() == pytest.approx(Y @ M.T)
    assert rotated.energy.sum(axis=0) == pytest.approx(((Y @ M.T) ** 2).sum(axis=0))


def test_eigenvalues_of_a_repair_are_0_where_rounding_explains_them():
    s = np.array([-1.0, -12.0 * EPS, -8.0 * EPS, 0.0, 0.0, 0.0, 8.0 * EPS, 12.0 * EPS, 0.5, 0.5])
    repaired, repair = _repaired(s, 0.0, EPS, 1.0, "flip")  # -1 is the largest: n eps of it is 10 eps
    kept = np.array([-1.0, -12.0 * EPS, 0.0, 0.0, 0.0, 0.0, 0.0, 12.0 * EPS, 0.5, 0.5])
    np.testing.assert_array_equal(repair.eigenvalues, kept)
    np.testing.assert_array_equal(repaired, np.abs(kept))
    wide = s.copy()
    wide[-1] = 2.0  # with a mean of size 2 beside it, n eps of 4 is 40 eps
    assert (_repaired(wide, 2.0, EPS, 1.0, "clip")[1].eigenvalues != 0).sum() == 3


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("s", [[-1.0, 12.0 * EPS, 0.5], [-3.0, -1e-9, -12.0 * EPS, -2.0 * EPS]])
def test_the_unit_of_a_kernel_does_not_decide_what_is_repaired(s, unit):
    s = np.sort(s)
    one, other = (_repaired(c * s, 0.25 * c, EPS, c, "flip") for c in (1.0, unit))
    np.testing.assert_array_equal(other[0], unit * one[0])
    np.testing.assert_array_equal(other[1].eigenvalues, unit * one[1].eigenvalues)
    assert (one[0] > 0).sum() == (3 if len(s) == 3 else 2)  # at the limit it is rounding


@pytest.mark.parametrize("indefinite", ["refuse", "flip"])
def test_nothing_is_repaired_that_rounding_explains(indefinite):
    s = np.array([-0.9 * np.sqrt(EPS), 0.25, 0.75])
    found, repair = _repaired(s, 0.25, EPS, 0.0, indefinite)
    assert found is s
    assert repair is None
    limit = np.array([-np.sqrt(EPS), 0.25, 0.75])
    assert _repaired(limit, 0.25, EPS, 0.0, indefinite)[1] is None
    assert (_repaired(s * [1.2, 1.0, 1.0], 0.25, EPS, 0.0, indefinite)[1] is None) == (indefinite == "refuse")


def test_the_resolution_of_eigenvalues():
    s = np.array([0.0, 1.0])
    assert resolution_of(s, 2.0, EPS, 5.0) == 16.0 * EPS
    assert resolution_of(s, 2.0, 1e-7, 5.0) == 5e-7  # what entries of few digits may be off
    assert resolution_of(np.array([-1e-9, 1.0]), 2.0, EPS, 0.0) == 1e-9  # what rounding shows of itself
    single = 0.5 * float(np.finfo(np.float32).eps)
    with pytest.warns(IndefiniteKernelWarning, match="down to -5.7e-08 where the largest is 2"):
        assert resolution_of(np.array([-5.7e-8, 1.0]), 2.0, EPS, 1.0) == 5.7e-8
    with pytest.raises(IndefiniteKernelError) as caught:
        resolution_of(np.array([-1.1 * single, 1.0]), 0.5, EPS, 1.0)
    assert caught.value.args == IndefiniteKernelError(-1.1 * single, single).args


class Given:
    """A kernel that is a matrix of float64."""

    def __init__(self, K):
        self.K = K

    def diagonal(self, X):
        return np.diag(self.K)

    def precision(self, X):
        return EPS

    def fingerprint(self, X):
        return np.linspace(0.0, 1.0, len(self.K), endpoint=False)

    def columns(self, X, j):
        return self.K[:, j]

    def block(self, X, j):
        return self.K[np.ix_(j, j)]

    def rows(self, X, j):
        return X[j]


def test_what_is_told_of_a_matrix_that_is_not_positive():
    with pytest.raises(IndefiniteKernelError) as caught:
        _nonnegative(np.array([1.0, -0.3]), 4.0, 1e-4)
    assert caught.value.args == IndefiniteKernelError(-0.3, 0.04).args
    X = np.zeros((2, 1))
    with pytest.raises(IndefiniteKernelError) as caught:
        _nothing(Given(np.array([[0.0, -0.25], [-0.25, 0.0]])), X, 2)
    assert caught.value.args == IndefiniteKernelError(-0.25, 0.0).args
    none = _nothing(Given(np.zeros((2, 2))), X, 2)
    assert (none.rank, none.tau) == (1, 0.0)
    np.testing.assert_array_equal(none.Phi, np.zeros((2, 1)))
    np.testing.assert_array_equal(none.L, np.ones((1, 1)))


def test_what_is_told_of_landmarks_whose_matrix_has_no_root(monkeypatch):
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    monkeypatch.setattr("skspectral.linalg.factors.dpstrf", lambda K, **_: (K, np.array([1, 2]), 2, 0))
    with pytest.raises(IndefiniteKernelError) as caught:
        _independent(K, 1e-3)
    jitter = 2e-3
    assert caught.value.smallest_eigenvalue == pytest.approx(-1.0 + jitter)
    assert caught.value.tolerance == pytest.approx(jitter)


@pytest.mark.parametrize("weighted", [True, False])
def test_a_factor_has_no_more_columns_than_its_trace_needs(weighted):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 40)) * 0.8 ** np.arange(40)
    K, weight = A @ A.T, rng.uniform(0.5, 2.0, 40) if weighted else np.ones(40)
    gram, X = Given(K), np.zeros((40, 1))
    whole = pivoted_cholesky(gram, X, weight=weight)
    left = weight @ np.diag(K) - np.cumsum(weight @ whole.Phi**2)
    assert close(whole.Phi @ whole.Phi.T, K, 1e-10)
    for r in (1, 5, 12):
        some = pivoted_cholesky(gram, X, weight=weight, tau=1.0001 * left[r - 1])
        assert some.rank == r
        assert some.tau == pytest.approx(left[r - 1])
        np.testing.assert_array_equal(some.pivots, whole.pivots[:r])
        assert close(some.L @ some.L.T, K[np.ix_(some.pivots, some.pivots)], 1e-10)


def decaying(n=40, rate=0.8, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n)) * rate ** np.arange(n)
    return A @ A.T


def test_what_is_told_of_the_blocks_of_a_factor():
    K, told = decaying(), []
    some = pivoted_cholesky(Given(K), np.zeros((40, 1)), rank=12, report=lambda **line: told.append(line))
    assert len(told) == 2  # blocks, not columns
    for line in told:
        missed = pivoted_cholesky(Given(K), np.zeros((40, 1)), rank=line["rank"]).tau
        assert line == {"n_rows": 40, "rank": line["rank"], "left": pytest.approx(missed / np.trace(K))}
    assert told[-1]["rank"] == some.rank == 12


def test_half_of_the_rows_in_sight_are_taken_at_most():
    told = []
    pivoted_cholesky(
        Given(np.eye(400)), np.zeros((400, 1)), rank=300, report=lambda **line: told.append(line["rank"])
    )
    assert told == [128, 256, 300]
    assert len(_largest(np.ones(400), np.linspace(0.0, 1.0, 400))[0]) == 256


def test_a_factor_asks_for_hope_after_each_block(monkeypatch):
    asked = []
    monkeypatch.setattr(factors, "_is_hopeless", lambda *question: asked.append(question) or len(asked) == 2)
    monkeypatch.setattr(factors, "_BLOCK", 5)
    K, X = decaying(), np.zeros((40, 1))
    some = pivoted_cholesky(Given(K), X, tau=1e-6, rank=30, unless_hopeless=True)
    five, ten = (pivoted_cholesky(Given(K), X, rank=rank).tau for rank in (5, 10))
    assert some.rank == 10
    assert asked[0] == (np.trace(K), pytest.approx(five), 5, 1e-6, 25)
    assert asked[1] == (pytest.approx(five), pytest.approx(ten), 5, 1e-6, 20)
    asked.clear()
    pivoted_cholesky(Given(K), X, tau=1e-6, rank=30)
    assert not asked


def test_nothing_is_hopeless_where_all_is_reached_or_nothing_is_asked_for():
    assert not _is_hopeless(1.0, 0.5, 1, 0.5, 10)
    assert not _is_hopeless(1.0, 0.5, 1, 0.0, 10)
    assert not _is_hopeless(1.0, 0.5, 1, 0.1, 0)
    assert _is_hopeless(1.0, 0.9999, 1, 0.1, 10)


def test_a_factor_stops_at_its_rank_and_at_rounding():
    K, X = decaying(rate=1.0), np.zeros((40, 1))
    assert pivoted_cholesky(Given(K), X).rank == 40
    low = decaying(n=40)[:, :3] @ np.eye(3) @ decaying(n=40)[:, :3].T
    found = pivoted_cholesky(Given(low), X)
    assert found.rank == 3  # what is left is rounding
    assert found.tau < 1e-10 * np.trace(low)
    assert pivoted_cholesky(Given(K), X, tau=1e9).rank == 1  # there is always one
    doubled = pivoted_cholesky(Given(K), X, weight=np.full(40, 1e-3), tau=1e-3 * np.trace(K[5:, 5:]))
    assert doubled.rank < 40


def test_rows_of_the_largest_residuals_come_first_and_ties_by_their_content():
    residual, ties = np.array([1.0, 3.0, 3.0 * (1.0 + 1e-12), 2.0]), np.array([0.1, 0.4, 0.6, 0.2])
    order, largest = _largest(residual, ties)
    assert order.tolist() == [1, 2, 3, 0]
    assert largest == residual.max()
    scaled, _ = _largest(1e-200 * residual, ties)
    assert scaled.tolist() == [1, 2, 3, 0]
    pool, least = _pool(residual, ties, 1.5, 0.1, None)
    assert pool.tolist() == [1, 2, 3]
    assert least == 1.5
    assert _pool(residual, ties, 0.1, 0.1, None)[1] == pytest.approx(0.3)


def test_rows_are_drawn_by_their_residuals():
    n = 4000
    ties = np.random.default_rng(0).uniform(size=n)
    residual = np.where(np.arange(n) % 2, 9.0, 1.0)
    draws = [_drawn(residual, ties, 0.0, 1600, before)[0] for before in range(8)]
    assert [len(draw) for draw in draws] == [100] * 8
    share = np.mean([residual[draw] == 9.0 for draw in draws])
    assert share == pytest.approx(0.9, abs=0.04)  # two standard errors of 800 draws are 0.02
    assert len(np.unique(np.concatenate(draws))) > 600  # others each time
    again, typical = _drawn(residual, ties, 0.0, 1600, 0)
    np.testing.assert_array_equal(again, draws[0])
    assert typical == 9.0
    order = np.random.default_rng(1).permutation(n)
    moved, _ = _drawn(residual[order], ties[order], 0.0, 1600, 0)
    np.testing.assert_array_equal(order[moved], draws[0])
    assert len(_drawn(residual, ties, 0.0, 10, 0)[0]) == 8
    assert len(_drawn(residual, ties, 0.0, 10**6, 0)[0]) == 128
    rare = np.where(np.arange(n) < 50, 1.0, 0.0)
    assert (_drawn(rare, ties, 0.5, 800, 0)[0] < 50).all()


def test_landmarks_that_others_span_are_left_out():
    A = np.random.default_rng(0).normal(size=(5, 3))
    K = A @ A.T
    kept, L = _independent(K)
    assert len(kept) == 3
    assert (np.diff(kept) > 0).all()
    assert close(L @ L.T, K[np.ix_(kept, kept)], 1e-12)
    assert close(L, np.linalg.cholesky(K[np.ix_(kept, kept)]), 1e-10)
    none, one = _independent(np.zeros((4, 4)))
    assert (none.tolist(), one.tolist()) == ([0], [[1.0]])
    nearly = np.diag([1.0, 6e-15, 5e-15])
    assert _independent(nearly)[0].tolist() == [0, 1]  # 24 eps of the largest is rounding
    assert _independent(nearly, 1e-12)[0].tolist() == [0]


def test_columns_grow_up_to_their_limit():
    columns, parts = Columns(3, 200), [np.full((3, k), float(k)) for k in (50, 10, 4, 1, 70, 65)]
    for k in range(len(parts)):
        np.testing.assert_array_equal(columns.append(parts[k]), np.hstack(parts[: k + 1]))
    assert columns.array.shape == (3, 200)
    small = Columns(3, 5)
    assert small.array.shape == (3, 5)
    assert small.array.flags.f_contiguous


@pytest.mark.parametrize("n", [255, 256, 257, 300])
def test_eigenvectors_of_few_and_many_rows(n):
    K = decaying(n, 0.99)
    s, V = symmetric_eigen(np.asfortranarray(K))
    U = np.asarray(V)
    assert (np.diff(s) >= 0).all()
    assert close((U * s) @ U.T, K, 1e-12)
    assert close(U.T @ U, np.eye(n), 1e-12)
    Z = np.random.default_rng(1).normal(size=(n, 2))
    assert close(V.T @ Z, U.T @ Z, 1e-12)
    assert close(V @ Z, U @ Z, 1e-12)


@pytest.mark.parametrize(("n", "q", "r"), [(30, 2, 5), (30, 0, 5), (7, 2, 6), (100, 3, 70)])
@pytest.mark.parametrize("by_squares", [True, False])
def test_left_singular_vectors_outside_of_a_mean(n, q, r, by_squares):
    rng = np.random.default_rng(0)
    Q, Phi = np.linalg.qr(rng.normal(size=(n, q)))[0], rng.normal(size=(n, r))
    outside = Phi - Q @ (Q.T @ Phi)
    U, root_s, loadings = left_singular(np.asfortranarray(np.hstack([Q, Phi])), q, by_squares=by_squares)
    U, k = np.asarray(U), min(n - q, r)
    assert close(root_s[:k], np.linalg.svd(outside)[1][:k], 1e-7 if by_squares else 1e-12)
    assert (np.diff(root_s) <= 1e-12).all()
    assert np.abs(Q.T @ U[:, :k]).max(initial=0.0) < 1e-12
    assert close(loadings[:k], U[:, :k].T @ Phi, 1e-8)
    assert close(U[:, :k] @ loadings[:k], outside, 1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_spectrum_of_sums_is_that_of_rows(intercept):
    rng = np.random.default_rng(0)
    Phi, Y = rng.normal(size=(20, 4)), rng.normal(size=(20, 2))
    Phi[:, 3] = Phi[:, 0]  # an eigenvalue of 0
    P = np.eye(20) - (1.0 / 20 if intercept else 0.0)
    counts = RowCounts(20, int(intercept), 0.0, 1.0)
    mean_part = 20.0 * float((Phi.mean(axis=0) ** 2).sum()) * intercept
    spectrum = FeatureSpectrum.from_moments(Phi.T @ P @ Phi, counts, mean_part, 1e-12)
    s, U = np.linalg.eigh(P @ Phi @ Phi.T @ P)
    assert close(spectrum.s, s[-3:], 1e-10)
    assert spectrum.resolution == pytest.approx(1e-12 * (s[-1] + mean_part), rel=1e-6, abs=0.0)
    assert spectrum.noise_resolution == pytest.approx(
        spectrum.resolution * 4.0 / (20 - intercept), rel=1e-6, abs=0.0
    )
    rotated = spectrum.rotate(Phi.T @ P @ Y, np.diag(Y.T @ P @ Y), np.array([1.0, 3.0]))
    assert close(np.abs(rotated.y_tilde), np.abs(U[:, -3:].T @ Y), 1e-8)
    left = np.diag(Y.T @ P @ Y) - ((U[:, -3:].T @ Y) ** 2).sum(axis=0)
    assert rotated.energy[-1] == pytest.approx(left)
    assert rotated.rounding == pytest.approx(4e-12 * np.diag(Y.T @ P @ Y), rel=1e-6, abs=0.0)
    assert close(spectrum.loadings.T @ spectrum.loadings, Phi.T @ P @ Phi, 1e-8)
    g = 0.7
    ridge = Phi.T @ np.linalg.solve(P @ Phi @ Phi.T @ P + g * np.eye(20), P @ Y) * [1.0, 3.0]
    if not intercept:
        assert close(spectrum.coefficients(rotated, g), ridge, 1e-8)


def test_a_spectrum_of_sums_has_no_more_directions_than_rows():
    Phi = np.random.default_rng(0).normal(size=(3, 5))
    spectrum = FeatureSpectrum.from_moments(Phi.T @ Phi, RowCounts(3, 0, 0.0, 1.0), 0.0, 1e-17)
    assert len(spectrum.s) == 3
    rotated = spectrum.rotate(Phi.T @ np.ones((3, 1)), np.array([3.0]), np.ones(1))
    assert rotated.energy[-1] == 0.0  # nothing is outside of as many directions as rows
    assert spectrum.noise_resolution == spectrum.resolution


def test_columns_of_few_dimensions_are_told_by_few_coordinates():
    rng = np.random.default_rng(0)
    few = rng.normal(size=(300, 40)) @ rng.normal(size=(40, 280))
    Q = _span_of_few(few)
    assert Q.shape == (300, 40)  # of 64 that are tried
    assert close(Q @ (Q.T @ few), few, 1e-12)
    assert _span_of_few(rng.normal(size=(300, 280))) is None
    assert _span_of_few(few[:250]) is None  # 64 are more than a quarter of the rows
    decaying = (rng.normal(size=(520, 100)) * 10.0 ** (-np.arange(100) / 7.0)) @ rng.normal(size=(100, 520))
    Q = _span_of_few(decaying)  # 64 leave so little that twice as many are tried
    assert 64 < Q.shape[1] < 110
    assert close(Q @ (Q.T @ decaying), decaying, 1e-12)
    assert _span_of_few(decaying[:500]) is None
    Y = rng.normal(size=(300, 2))
    for values, y in zip(FunctionValues.on_rows(few, Y), Y.T, strict=True):
        assert close(values.Phi.T @ values.Phi, few.T @ few, 1e-10)
        assert close(values.Phi.T @ values.y, few.T @ y, 1e-10)
        assert values.yy == pytest.approx(y @ y)


@pytest.mark.parametrize(("n", "k"), [(20, 5), (10, 5), (11, 5), (5, 8)])
def test_functions_on_fewer_coordinates_have_the_same_products(n, k):
    rng = np.random.default_rng(0)
    Phi, Y = rng.normal(size=(n, k)), rng.normal(size=(n, 2))
    for values, y in zip(FunctionValues.on_rows(Phi, Y), Y.T, strict=True):
        assert len(values.y) == (k if n > 2 * k else n)
        assert close([values.products_with(j) for j in range(k)], Phi.T @ Phi, 1e-10)
        assert close(values.products_with_target, Phi.T @ y, 1e-10)
        assert values.yy == pytest.approx(y @ y)
    alike = FunctionValues(np.array([[1.0, 0.6, -0.9], [0.0, 0.8, 0.1]]), np.ones(2))
    assert Active(alike, np.array([0.0, 2.0, 1.0])).most_alike(0) == 1
    assert Active(alike, np.array([2.0, 0.0, 1.0])).most_alike(1) == 0


# -- greedy choices


def test_a_growing_system_takes_the_candidate_that_explains_most():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(90, 90))
    A, b = A @ A.T + np.eye(90), rng.normal(size=(90, 2))
    system, chosen = _GrowingSolve(2), []

    def explained(rows):
        return float((b[rows] * np.linalg.solve(A[np.ix_(rows, rows)], b[rows])).sum())

    for k in range(70):
        among = np.setdiff1d(np.arange(90), chosen)[:4]
        best = system.append_best(A[np.ix_(chosen, among)], np.diag(A)[among], b[among])
        if k < 3:
            assert best == np.argmax([explained([*chosen, j]) for j in among])
        chosen.append(int(among[best]))
    assert system.explained == pytest.approx(explained(chosen))
    assert close(system.solution(), np.linalg.solve(A[np.ix_(chosen, chosen)], b[chosen]), 1e-8)


def test_a_growing_system_takes_no_candidate_that_others_span():
    system = _GrowingSolve(1)
    assert system.append_best(np.empty((0, 1)), np.array([4.0]), np.array([[2.0]])) == 0
    assert system.explained == 1.0
    same, free = 4.0 * (1.0 + 500.0 * EPS), 4.0 * (1.0 + 2000.0 * EPS)
    assert system.append_best(np.array([[4.0]]), np.array([same]), np.array([[9.0]])) is None
    assert system.append_best(np.array([[4.0, 4.0]]), np.array([same, free]), np.array([[9.0], [2.0]])) == 1


@pytest.mark.parametrize(("dense_dual", "gap"), [(False, 0.025), (True, 0.005)])
def test_greedy_choices_end_at_their_gap(dense_dual, gap):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 6.0, 80))[:, None]
    gram, gaps = make_gram(RBF(1.0)), []
    y = np.sin(x[:, 0]) + 0.05 * rng.normal(size=80)
    greedy_landmarks(gram, x, y, 0.01, dense_dual=dense_dual, report=lambda **line: gaps.append(line["gap"]))
    assert gaps[-1] <= gap < gaps[-2]


def test_bounds_of_greedy_choices_hold_the_minimum():
    rng = np.random.default_rng(0)
    x, weight = np.linspace(0.0, 6.0, 40)[:, None], rng.uniform(0.2, 3.0, 40)
    y, g = np.sin(x[:, 0]) + 0.1 * rng.normal(size=40), 0.05
    search = SparseGreedy(make_gram(RBF(1.0)), x, y, g, weight=weight)
    root = np.sqrt(weight)
    K, z = root[:, None] * RBF(1.0)(x) * root, root * y
    least = -0.5 * z @ K @ np.linalg.solve(K + g * np.eye(40), z)
    assert search.gap == 2.0  # nothing is explained yet
    for k in range(12):
        search.step(dual=True)
        if k % 4 == 3:
            search.tighten()
        assert search.lower <= least + 1e-9
        assert search.upper >= least - 1e-9
        assert search.gap == pytest.approx(
            2.0 * (search.upper - search.lower) / -(search.upper + search.lower)
        )
    assert search.upper == pytest.approx(least, rel=1e-2)
    C = K[:, search.chosen]
    a = np.linalg.solve(g * K[np.ix_(search.chosen, search.chosen)] + C.T @ C, C.T @ z)
    assert search.upper == pytest.approx(-0.5 * z @ C @ a)
    assert search.lower == pytest.approx(least, rel=1e-2)
    zero = SparseGreedy(make_gram(RBF(1.0)), x, 0.0 * y, g)
    assert zero.gap == 0.0


def test_passes_over_the_kernel_are_made_for_every_fifth_more_of_landmarks(monkeypatch):
    looks = []
    monkeypatch.setattr(SparseGreedy, "tighten", lambda self: looks.append(len(self.chosen)))
    x = np.linspace(0.0, 60.0, 60)[:, None]
    greedy_landmarks(make_gram(RBF(1.0)), x, np.cos(x[:, 0]), 0.1, dense_dual=True, max_rank=25)
    assert looks == [8, 10, 12, 15, 18, 22]


# -- curvatures beside a prior


@pytest.mark.parametrize("form", ["matrix", "factor"])
@pytest.mark.parametrize("curvatures", ["positive", "some are 0", "some are negative"])
def test_what_follows_from_curvatures_is_that_of_dense_matrices(form, curvatures):
    rng = np.random.default_rng(0)
    n, scale = 8, 1.7
    Phi = np.linalg.cholesky(
        np.exp(-0.5 * (np.arange(n)[:, None] / 2 - np.arange(n) / 2) ** 2) + 0.1 * np.eye(n)
    )
    W = rng.uniform(0.5, 2.0, n)
    W[2:4] *= {"positive": 1.0, "some are 0": 0.0, "some are negative": -0.1}[curvatures]
    K = scale * Phi @ Phi.T
    prior = DensePrior(Phi @ Phi.T, scale) if form == "matrix" else FactorPrior(Phi, scale, Phi)
    curved = prior.curved(W)
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
    R = np.diag(W) - W[:, None] * V * W
    cross, Z = rng.normal(size=(3, n)), rng.normal(size=(n, 2))
    between = scale * (cross if form == "matrix" else cross @ Phi.T)  # of kernel values, or of features
    assert len(prior) == n
    assert close(prior.diagonal, np.diag(K), 1e-12)
    assert close(prior.times(Z), K @ Z, 1e-12)
    assert curved.log_det == pytest.approx(np.linalg.slogdet(np.eye(n) + K @ np.diag(W))[1])
    for _ in range(2):  # the second time after the inverse was made
        assert close(curved.times(Z), R @ Z, 1e-10)
        assert close(curved.variances(), np.diag(V), 1e-10)
    joint = between @ R @ between.T
    assert close(curved.explained(cross), np.diag(joint), 1e-10)
    assert close(curved.explained_jointly(cross), joint, 1e-10)
    left, right = rng.normal(size=(2, n, 2))
    G = 0.5 * (left @ right.T + right @ left.T - R)
    found = curved.sensitivity(left, right)
    assert found.by_log_scale == pytest.approx(np.vdot(G, K))
    if form == "matrix":
        assert close(found.weights, scale * G, 1e-10)
        assert close(curved.matrix(), R, 1e-10)


def test_a_prior_variance_is_kept_where_curvature_says_nothing():
    K = np.array([[1e6, 2.0], [2.0, 3.0]])
    for W in ([1e-20, 1.0], [0.0, 1.0], [1e-3, 1.0]):
        V = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
        assert close(DensePrior(K.copy()).curved(np.array(W)).variances(), np.diag(V), 1e-7)


def test_what_a_factor_misses_is_taken_off_its_sensitivity():
    rng = np.random.default_rng(0)
    Phi, G_Phi, missed = rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), rng.normal(size=6)
    found = FactorPrior(Phi, 4.0).pulled_back(G_Phi, missed)
    assert found.by_log_scale == pytest.approx(np.vdot(2.0 * Phi, G_Phi - missed[:, None] * 2.0 * Phi))
    assert found.by_diagonal == pytest.approx(4.0 * missed)
    assert found.weights is None
    assert FactorPrior(Phi, 4.0).pulled_back(G_Phi).by_diagonal is None


# -- rows and what their rounding leaves


@pytest.mark.parametrize("weighted", [True, False])
def test_rows_project_and_weigh_like_their_matrices(weighted):
    rng = np.random.default_rng(0)
    weight, F = rng.uniform(0.2, 3.0, 7) if weighted else None, rng.normal(size=(7, 2))
    root = np.ones(7) if weight is None else np.sqrt(weight)
    rows = Rows.make(7, F, weight)
    A = rng.normal(size=(7, 7))
    K, WF = A @ A.T, root[:, None] * F
    WKW = root[:, None] * K * root
    P = np.eye(7) - WF @ np.linalg.solve(WF.T @ WF, WF.T)
    mine = K.copy()
    assert close(rows.project(mine), WKW @ rows.Q, 1e-12)
    assert close(mine, P @ WKW @ P, 1e-12)
    assert close(rows.unweighted_sensitivity(K.copy()), WKW, 1e-12)
    assert close(WF @ rows.R_inv, rows.Q, 1e-12)
    columns = rng.normal(size=(7, 3))
    assert close(rows.levels(columns), np.linalg.lstsq(WF, root[:, None] * columns)[0], 1e-10)
    counts = rows.counts
    assert (counts.n_rows, counts.n_mean, counts.n_free) == (7, 2, 5)
    assert counts.half_log_weight == pytest.approx(np.log(root).sum())
    assert counts.mean_weight == pytest.approx((root**2).mean())


def test_targets_far_from_zero_are_standardised_to_rounding():
    rng = np.random.default_rng(0)
    rows, Y = Rows.make(2000, np.ones((2000, 1))), 1e9 + rng.normal(size=(2000, 2)) * [1.0, 3.0]
    Z, scale, basis_part = rows.standardise(Y)
    assert np.abs(Z.mean(axis=0)).max() < 1e-15  # in units of the targets, whatever their mean
    assert (Z**2).sum(axis=0) == pytest.approx([1999.0] * 2)
    assert scale == pytest.approx(Y.std(axis=0, ddof=1))
    exact = [math.fsum(column) / np.sqrt(2000.0) for column in Y.T]
    assert np.abs(np.abs(basis_part[0]) - exact).max() < 1e-5
    constant = rows.standardise(np.full((2000, 1), 7.0))
    assert (constant[0] == 0).all()
    assert constant[1] == 1.0


def test_what_rounding_leaves_of_targets():
    rows = Rows.make(4, None, np.array([1.0, 4.0, 1.0, 0.0]))
    Y = np.array([[1.0, 0.0], [-2.0, 0.0], [3.0, 0.0], [99.0, 0.0]])
    assert rows.rounding(Y) == pytest.approx([4.0 * 32.0 * EPS, 0.0], rel=1e-6, abs=0.0)
    assert Rows.make(4096).rounding(np.ones((4096, 1))) == pytest.approx([64.0 * EPS], rel=1e-6, abs=0.0)


@pytest.mark.parametrize("large", [1.0, 1e-160, 1e160])
def test_columns_outside_of_a_mean_have_length_one(large):
    rng = np.random.default_rng(0)
    K, rows = rng.normal(size=(9, 4)), Rows.make(9, np.ones((9, 1)))
    K[:, 1] += 1e6
    K[:, 2], K[:, 3] = 5.0, 0.0  # nothing is left of a constant, and of nothing
    columns, lengths = rows.unit_columns(large * K)
    outside = K - K.mean(axis=0)
    expected = np.linalg.norm(outside, axis=0) * [1.0, 1.0, 0.0, 0.0]
    assert close(lengths / large, expected, 1e-8)
    assert np.linalg.norm(columns, axis=0) == pytest.approx([1.0, 1.0, 0.0, 0.0])
    assert np.abs(columns.sum(axis=0)).max() < 1e-14
    assert close(columns[:, :2], outside[:, :2] / expected[:2], 1e-8)


def test_dependent_functions_span_no_more_than_independent_ones():
    F = np.column_stack([np.ones(6), np.arange(6.0), 1e8 * (2.0 + np.arange(6.0))])
    Q = span(F)
    assert Q.shape == (6, 2)
    assert close(Q @ (Q.T @ F), F, 1e-12)
    assert span(F[:, :1]) is not None
    np.testing.assert_array_equal(span(F[:, :1]), F[:, :1])
    with pytest.warns(
        RankDeficientBasisWarning, match="Only 2 of 3 mean functions can be told apart on 6 rows"
    ):
        rows = Rows.make(6, F)
    assert close(F @ rows.R_inv, rows.Q, 1e-8)


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_resolution_of_a_factor(is_exact, intercept):
    rng = np.random.default_rng(0)
    n, Phi = 20, rng.normal(size=(20, 3)) + 2.0
    F = np.ones((n, 1)) if intercept else None
    spectrum = Spectrum.from_factor(Phi, F, is_exact=is_exact)
    mean = np.sqrt(n) * np.linalg.norm(Phi.mean(axis=0)) if intercept else 0.0
    outside = Phi - Phi.mean(axis=0) if intercept else Phi
    largest = np.linalg.norm(outside, 2)
    share = (n * EPS) ** 2 if is_exact else 8.0 * EPS
    assert spectrum.resolution == pytest.approx(share * (largest**2 + mean**2), rel=1e-6, abs=0.0)
    assert spectrum.noise_resolution == pytest.approx(
        spectrum.resolution * 3.0 / (n - intercept), rel=1e-6, abs=0.0
    )
    assert spectrum.n_null == n - intercept - 3
    assert spectrum.s == pytest.approx(np.sort(np.linalg.svd(outside)[1] ** 2))


@pytest.mark.parametrize(("is_exact", "sizes"), [(True, (1e-14, 1e-15)), (False, (1e-7, 2.5e-8))])
def test_directions_of_a_factor_that_are_rounding_are_left_out(is_exact, sizes):
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 3)))[0]
    spectrum = Spectrum.from_factor(Q * [1.0, *sizes], is_exact=is_exact)
    assert len(spectrum.s) == 2
    assert np.sqrt(spectrum.s) == pytest.approx([sizes[0], 1.0], rel=0.1, abs=0.0)
    # its rounding lives in the span of all columns, also of those that are nothing else
    assert spectrum.noise_resolution == pytest.approx(spectrum.resolution * 3.0 / 10.0, rel=1e-6, abs=0.0)


@pytest.mark.parametrize("ratio", [1.0, 1e-2])
def test_rounding_of_targets_in_the_eigenbasis(ratio):
    """Of the targets, or of the vectors of small eigenvalues."""
    rng = np.random.default_rng(0)
    A = np.linalg.qr(rng.normal(size=(9, 9)))[0] * ratio ** np.arange(9.0)
    K, Y, weight = A @ A.T, rng.normal(size=(9, 2)) * [1.0, 50.0], rng.uniform(0.5, 2.0, 9)
    spectrum = Spectrum.from_gram(K, np.ones((9, 1)), weight)
    rotated = spectrum.rotate(Y)
    angle = np.where(spectrum.s > 0, spectrum.resolution / np.where(spectrum.s > 0, spectrum.s, 1.0), 0.0)
    leak = (angle[:, None] ** 2 * rotated.y_tilde**2).sum(axis=0)
    targets = np.abs(np.sqrt(weight)[:, None] * Y).max(axis=0) * 32.0 * EPS / rotated.scale
    assert rotated.rounding == pytest.approx(8.0 * targets**2, rel=1e-6, abs=0.0)
    assert rotated.all_rounding == pytest.approx(8.0 * targets**2 + leak, rel=1e-6, abs=0.0)
    assert (leak > 0).all()
    assert ((leak > 8.0 * targets**2) == (ratio < 1.0)).all()
    assert spectrum.noise_resolution == spectrum.resolution


def test_outputs_of_a_full_spectrum_are_mixed_without_a_null_part():
    rng = np.random.default_rng(0)
    A, Y, M = rng.normal(size=(2, 2)), rng.normal(size=(2, 2)), rng.normal(size=(3, 2))
    rotated = Spectrum.from_gram(A @ A.T).rotate(Y).mixed(M)
    assert rotated.null_residual.shape == (1, 1)
    assert rotated.select([0, 2]).targets() == pytest.approx((Y @ M.T)[:, [0, 2]])


def test_rounding_of_mixed_outputs_is_no_less_than_that_of_their_parts():
    rng = np.random.default_rng(0)
    Phi, Y, M = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)) * [1.0, 1e3], rng.normal(size=(3, 2))
    alone = Spectrum.from_gram(Phi @ Phi.T).rotate(Y)
    mixed = alone.mixed(M)
    lengths = np.abs(M * alone.scale) @ np.sqrt(alone.rounding)
    assert mixed.rounding == pytest.approx(lengths**2, rel=1e-6, abs=0.0)
    assert mixed.shows_noise.all()
    same = alone.mixed(np.diag(1.0 / alone.scale))
    assert same.rounding == pytest.approx(alone.rounding, rel=1e-6, abs=0.0)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rank", [3, None])
def test_rows_that_are_absent_have_no_freedom(intercept, rank):
    rng = np.random.default_rng(0)
    Phi, weight = rng.normal(size=(9, 3)), np.array([1.0, 0.0, 2.0, 0.5, 0.0, 1.0, 3.0, 1.0, 1.0])
    F = np.ones((9, 1)) if intercept else None
    K = Phi @ Phi.T + np.eye(9)
    spectrum = Spectrum.from_factor(Phi, F, weight) if rank else Spectrum.from_gram(K, F, weight)
    present = np.diag((weight > 0).astype(float))
    Q = np.sqrt(weight / weight.sum())[:, None] if intercept else np.zeros((9, 0))
    outside = np.diag(present - Q @ Q.T)
    assert spectrum.freedom[:, 0] == pytest.approx(outside, abs=1e-12)
    U = np.asarray(spectrum.U)
    null = outside - (U**2).sum(axis=1) if rank else np.zeros(1)
    assert spectrum.null_leverage[:, 0] == pytest.approx(null, abs=1e-12)
    assert np.abs(U[weight == 0]).max() < 1e-14


class Diagonal:
    """A kernel of which only the variances at the rows are known."""

    def __init__(self, *variances):
        self.variances = np.array(variances)

    def diagonal(self, X):
        return self.variances.copy()

    def precision(self, X):
        return 1e-16


@pytest.mark.parametrize("weight", [None, np.array([2.0, 5.0, 7.0])])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_the_trace_that_features_miss(weight, size):
    Phi = np.sqrt(size) * np.array([[1.0, 2.0], [0.0, 1.0], [2.0, 0.0]])
    gram = Diagonal(*size * np.array([6.0, 4.0, 4.0 - 1e-9]))  # rounding, of the last one
    expected = size * (np.array([1.0, 3.0, 0.0]) @ (np.ones(3) if weight is None else weight))
    assert missed_trace(gram, None, Phi, weight) == pytest.approx(expected)
    too_small = Diagonal(*size * np.array([6.0, 4.0, 4.0 - 1e-7]))
    with pytest.raises(IndefiniteKernelError):
        missed_trace(too_small, None, Phi, weight)


def test_rounding_is_measured_by_the_largest_variance_of_either_sign():
    small = Diagonal(1.0, 1e-12)
    assert missed_trace(small, None, np.array([[0.5], [2e-5]]), None) == pytest.approx(0.75)


def test_factors_of_given_rows_leave_out_those_that_others_span():
    X = np.array([[0.0], [1.0], [1.0], [3.0]])
    gram = make_gram(RBF(1.0))
    factor = spanned_by_rows(gram, X, np.array([1, 2, 3]), weight=np.array([1.0, 2.0, 3.0, 4.0]))
    assert set(factor.pivots) in ({1, 3}, {2, 3})
    K = RBF(1.0)(X)
    chosen = factor.pivots
    projected = K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
    assert close(factor.Phi @ factor.Phi.T, projected, 1e-9)
    assert factor.tau == pytest.approx(np.diag(K - projected) @ [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(("n", "ulps"), [(4, 32.0), (1024, 32.0), (128**2, 128.0)])
def test_a_constant_leaves_a_few_ulp_of_its_size(n, ulps):
    Y = np.column_stack([np.full(n, -3.0), np.zeros(n)])
    assert _rounding(Y) == pytest.approx([ulps * 3.0 * EPS, 0.0], rel=1e-12, abs=0.0)


# -- small symmetric matrices


@pytest.mark.parametrize("units", [np.ones(4), 10.0 ** np.array([-100.0, -3.0, 5.0, 90.0])])
def test_quadratic_forms_with_an_inverse_do_not_depend_on_units(units):
    rng = np.random.default_rng(0)
    A, v = rng.normal(size=(4, 4)), rng.normal(size=4)
    value, rank = inverse_quadratic((A @ A.T) * np.outer(units, units), v * units)
    assert rank == 4
    assert value == pytest.approx(v @ np.linalg.solve(A @ A.T, v))


def test_quadratic_forms_leave_out_directions_without_room():
    B, c = np.random.default_rng(0).normal(size=(4, 2)), np.array([3.0, -1.0])
    C = B @ B.T
    value, rank = inverse_quadratic(C, B @ c)
    assert rank == 2
    assert value == pytest.approx((B @ c) @ np.linalg.pinv(C, hermitian=True) @ (B @ c))
    assert inverse_quadratic(np.diag([4.0, 0.0]), np.array([2.0, 0.0])) == (1.0, 1)  # one is known exactly
    assert inverse_quadratic(np.zeros((2, 2)), np.ones(2)) == (0.0, 0)
    assert inverse_quadratic(np.zeros((0, 0)), np.zeros(0)) == (0.0, 0)


@pytest.mark.parametrize(("left", "rank"), [(12.0, 1), (18.5, 2)])
def test_correlations_of_nearly_1_leave_one_direction(left, rank):
    """Their eigenvalues are 2 and what is left: rounding up to 4 q eps of the largest, 16 eps."""
    r = 1.0 - left * EPS
    assert inverse_quadratic(np.array([[1.0, r], [r, 1.0]]), np.ones(2))[1] == rank


@pytest.mark.parametrize("infinite", [np.full((2, 2), np.inf), np.diag([1.0, np.inf])])
def test_an_infinite_covariance_says_nothing(infinite):
    assert inverse_quadratic(infinite, np.ones(2)) == (0.0, 0)


def test_inverse_roots_have_limited_eigenvalues():
    V = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    H = (V * [-3.0, 0.5, 2.0, 100.0]) @ V.T
    skew = np.triu(np.ones((4, 4)), 1)
    root = inverse_root(H + skew - skew.T, 0.1, 8.0)
    assert close(root @ root.T, (V / [0.1, 0.5, 2.0, 8.0]) @ V.T, 1e-10)


# -- derivatives by a matrix


@pytest.mark.parametrize("block", [2, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_triangles_are_made_block_by_block(monkeypatch, block, dtype):
    monkeypatch.setattr("skspectral.linalg.sensitivity._BLOCK", block)
    rng, tolerance = np.random.default_rng(0), 1e-6 if dtype == np.float32 else 1e-14
    M, root, left, right = rng.normal(size=(5, 5)), rng.uniform(0.5, 2.0, 5), *rng.normal(size=(2, 5, 3))
    M = M + M.T
    upper = upper_between(M.astype(dtype), root, 3.0)
    expected = 3.0 * np.outer(root, root) * M
    assert upper.dtype == dtype
    assert close(np.triu(upper), np.triu(expected), tolerance)
    assert close(np.triu(upper_between(M, root)), np.triu(np.outer(root, root) * M), 1e-14)
    add_products(upper, left, right, -0.5)
    assert upper.dtype == dtype
    expected = expected - 0.5 * (left @ right.T + right @ left.T)
    assert close(np.triu(upper), np.triu(expected), tolerance)
    upper[np.tril_indices(5, -1)] = np.nan
    assert close(TriangularSensitivity(upper, 0.0).weights, expected, tolerance)


def test_the_derivative_by_a_matrix_and_by_its_scale():
    rng = np.random.default_rng(0)
    A, B, left, right = *rng.normal(size=(2, 5, 5)), *rng.normal(size=(2, 5, 3))
    K, R = A @ A.T, B @ B.T
    G = 0.5 * (left @ right.T + right @ left.T) - 0.5 * R
    found = dense_sensitivity(DensePrior(K.copy(), 4.0), left, right, R.copy())
    assert close(found.weights, 4.0 * G, 1e-13)
    assert found.upper is found.weights
    assert found.by_log_scale == pytest.approx(np.trace(G @ (4.0 * K)))
    assert found.by_diagonal is None
