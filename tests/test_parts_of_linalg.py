"""Small parts of `linalg` beside dense definitions, both branches of every switch of sizes among them."""

import numpy as np
import pytest
from problems import close

from skspectral.linalg.coupled import CoupledCurvature, LumpedCurvature, SquaredProducts
from skspectral.linalg.factors import _independent, _nonnegative, _nothing, pivoted_cholesky
from skspectral.linalg.spectrum import Spectrum, _repaired, resolution_of
from skspectral.support.exceptions import IndefiniteKernelError, IndefiniteKernelWarning

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
def test_mixed_outputs_are_those_of_mixed_targets(n, rank, m):
    rng = np.random.default_rng(n + m)
    Phi = rng.normal(size=(n, rank))
    Y, M = rng.normal(size=(n, m)), rng.normal(size=(3, m))
    rotated = Spectrum.from_gram(Phi @ Phi.T).rotate(Y).mixed(M)
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


@pytest.mark.parametrize("indefinite", ["refuse", "flip"])
def test_nothing_is_repaired_that_rounding_explains(indefinite):
    s = np.array([-0.9 * np.sqrt(EPS), 0.25, 0.75])
    found, repair = _repaired(s, 0.25, EPS, 0.0, indefinite)
    assert found is s
    assert repair is None
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
