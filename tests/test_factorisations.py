"""Resolvents, spectra of sums and factors of few columns beside dense matrices, in any unit."""

import numpy as np
import pytest
import reference
from problems import close
from sklearn.gaussian_process.kernels import RBF, DotProduct

from skspectral import StreamingSpectralRegressor
from skspectral.linalg.factors import _drawn, _is_hopeless, nystroem, pivoted_cholesky, spanned_by_rows
from skspectral.linalg.moments import FeatureSpectrum, _no_longer
from skspectral.linalg.resolvent import Resolvent
from skspectral.linalg.rows import RowCounts, Rows
from skspectral.support.exceptions import IndefiniteKernelError

EPS = np.finfo(np.float64).eps


class Rbf:
    """A kernel that is known to all digits."""

    def __init__(self, unit=1.0):
        self.unit = unit

    def diagonal(self, X):
        return np.full(len(X), self.unit)

    def precision(self, X):
        return EPS

    def fingerprint(self, X):
        return np.mod(np.arange(len(X)) * 0.618, 1.0)

    def columns(self, X, j):
        return self.cross(X, X[j])

    def block(self, X, j):
        return self.cross(X[j], X[j])

    def square(self, X):
        return self.cross(X, X)

    def cross(self, X, Z):
        return self.unit * reference.rbf(X, Z)

    def rows(self, X, j):
        return X[j]


def inputs(n, p=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


# -- resolvents


@pytest.mark.parametrize("n", [3, 70])
@pytest.mark.parametrize("q", [0, 1, 2])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_terms_of_the_evidence_are_those_of_dense_matrices(n, q, unit):
    """In the basis A of the complement of the mean: g z'Mz, its slope, log |A'KA/g + I| and its slope."""
    rng = np.random.default_rng(0)
    F, weight, g = rng.normal(size=(n, q)), rng.uniform(0.5, 2.0, n), 0.3 * unit
    rows = Rows.make(n, F if q else None, weight)
    root = np.sqrt(weight)
    A = np.linalg.qr(np.hstack([root[:, None] * F, np.eye(n)]))[0][:, q:n]
    K = unit * reference.rbf(inputs(n))
    inner = A.T @ (root[:, None] * K * root) @ A
    s, V = np.linalg.eigh(inner)
    z = A @ rng.normal(size=n - q)
    v, e = g / (s + g), (V.T @ A.T @ z) ** 2
    resolvent = Resolvent.from_gram(K.copy(), rows, g)
    *found, dual = resolvent.evidence(z)
    assert found == pytest.approx([e @ v, -np.log(v).sum()], rel=1e-9, abs=0.0)
    M = A @ np.linalg.inv(inner + g * np.eye(n - q)) @ A.T
    assert close(dual, M @ z, 1e-9)
    Z = A @ rng.normal(size=(n - q, 3))
    assert close(resolvent.apply(Z), M @ Z, 1e-9)
    slopes = resolvent.inverse().evidence_slopes(e @ v, dual)
    assert slopes == pytest.approx([e @ v - e @ v**2, (v - 1.0).sum()], rel=1e-9, abs=0.0)
    assert resolvent.log_det == pytest.approx(np.log(s + g).sum(), rel=1e-9)


@pytest.mark.parametrize("n", [2, 70, 1001])
def test_a_resolvent_says_by_how_much_a_matrix_is_not_positive(n):
    with pytest.raises(IndefiniteKernelError) as refusal:
        Resolvent.from_gram(-np.eye(n), Rows.make(n), 0.25)
    assert refusal.value.smallest_eigenvalue == -0.25
    assert refusal.value.tolerance == 0.0


# -- spectra of sums


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**40])
def test_sums_are_decomposed_in_any_unit(unit):
    Phi = inputs(20, 4)
    S, counts = Phi.T @ Phi, RowCounts(20, 0, 0.0, 1.0)
    one, other = (FeatureSpectrum.from_moments(c * S, counts, 3.0 * c, 1e-12) for c in (1.0, unit))
    assert other.resolution == pytest.approx(unit * one.resolution, rel=1e-9, abs=0.0)
    assert close(other.s, unit * one.s, 1e-9)
    assert one.resolution == pytest.approx(1e-12 * (np.linalg.eigvalsh(S)[-1] + 3.0), rel=1e-9, abs=0.0)


def test_negative_eigenvalues_of_sums_show_their_rounding():
    S = np.diag([-1e-9, -1e-10, 5e-10, 2e-9, 1.0])
    spectrum = FeatureSpectrum.from_moments(S, RowCounts(20, 0, 0.0, 1.0), 0.0, 1e-14)
    assert spectrum.resolution == pytest.approx(1e-9, rel=1e-6, abs=0.0)
    assert spectrum.s == pytest.approx([2e-9, 1.0], rel=1e-6, abs=0.0)


@pytest.mark.parametrize(("n_rows", "n_kept"), [(0, 0), (1, 0), (2, 1), (3, 2), (9, 2)])
def test_sums_have_no_more_directions_than_rows_outside_of_the_mean(n_rows, n_kept):
    spectrum = FeatureSpectrum.from_moments(np.diag([1.0, 2.0]), RowCounts(n_rows, 1, 0.0, 1.0), 0.0, 1e-14)
    assert len(spectrum.s) == n_kept
    share = min(1.0, 2.0 / max(n_rows - 1, 1))
    assert spectrum.noise_resolution == pytest.approx(share * spectrum.resolution, rel=1e-9, abs=0.0)


def test_one_feature_of_one_row_spans_all_there_is():
    spectrum = FeatureSpectrum.from_moments(np.ones((1, 1)), RowCounts(1, 0, 0.0, 1.0), 0.0, 1e-14)
    assert spectrum.noise_resolution == spectrum.resolution > 0


def test_new_points_of_sums_are_those_of_rows():
    Phi, new, F = inputs(20, 4), inputs(3, 4, seed=1), np.column_stack([np.ones(20), inputs(20, 1, seed=2)])
    F_new, rows = np.column_stack([np.ones(3), inputs(3, 1, seed=3)]), Rows.make(20, F)
    P = np.eye(20) - rows.Q @ rows.Q.T
    spectrum = FeatureSpectrum.from_moments(Phi.T @ P @ Phi, rows.counts, 1.0, 1e-14)
    prior = new @ new.T + np.eye(3)
    cross, variance, leverage = spectrum.of_features(rows.Q.T @ Phi, rows.R_inv).project(new, prior, F_new)
    h = F_new @ np.linalg.pinv(F)
    outside = Phi @ (new - h @ Phi).T
    U = P @ Phi @ spectrum.V / np.sqrt(spectrum.s)
    assert close(U @ cross, P @ outside, 1e-9)
    K = Phi @ Phi.T
    assert close(variance, prior - h @ Phi @ new.T - new @ Phi.T @ h.T + h @ K @ h.T, 1e-9)
    assert close(leverage, h @ h.T, 1e-12)


# -- factors


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_factors_are_found_in_any_unit(unit):
    X = inputs(40)
    factor, plain = (pivoted_cholesky(Rbf(c), X, tau=1e-3 * c) for c in (unit, 1.0))
    np.testing.assert_array_equal(factor.pivots, plain.pivots)
    assert factor.tau == pytest.approx(unit * plain.tau, rel=1e-6, abs=0.0)
    assert close(factor.Phi, np.sqrt(unit) * plain.Phi, 1e-9)
    assert close(factor.L @ factor.L.T, Rbf(unit).square(X[factor.pivots]), 1e-9)
    new = inputs(3, seed=4)
    expected = np.linalg.solve(factor.L, Rbf(unit).cross(new, factor.landmarks).T).T
    assert close(factor.feature_map(Rbf(unit), new), expected, 1e-9)


@pytest.mark.parametrize("rank", [1, 7, 12])
def test_factors_of_every_rank_up_to_the_rows(rank):
    X = inputs(12)
    factor = pivoted_cholesky(Rbf(), X, rank=rank)
    assert factor.rank == rank
    chosen = factor.pivots
    K = Rbf().square(X)
    projected = K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen])
    assert close(factor.Phi @ factor.Phi.T, projected, 1e-9)
    assert factor.tau == pytest.approx(np.trace(K - projected), abs=1e-12)


@pytest.mark.parametrize("n_landmarks", [1, 5, 9])
def test_landmarks_are_drawn_among_rows_of_positive_weight(n_landmarks):
    X, weight = inputs(12), np.ones(12)
    weight[[0, 4, 7]] = 0.0
    factor = nystroem(Rbf(), X, n_landmarks, weight=weight)
    assert factor.rank == len(set(factor.pivots)) == n_landmarks
    assert (weight[factor.pivots] > 0).all()
    again = spanned_by_rows(Rbf(), X, np.sort(factor.pivots), weight=weight)
    assert close(factor.Phi, again.Phi, 1e-12)
    assert factor.tau == pytest.approx(again.tau)
    for bad in (0, 10):
        with pytest.raises(ValueError, match=f"number of rows, 9; got {bad}"):
            nystroem(Rbf(), X, bad, weight=weight)


def test_landmarks_need_not_be_rows():
    X, Z = inputs(12), inputs(5, seed=1)
    factor = nystroem(Rbf(), X, Z)
    K = Rbf().cross(X, Z)
    projected = K @ np.linalg.solve(Rbf().square(Z), K.T)
    assert close(factor.Phi @ factor.Phi.T, projected, 1e-9)
    assert factor.tau == pytest.approx(np.trace(Rbf().square(X) - projected))
    assert factor.pivots is None
    assert factor.landmarks.shape == Z.shape
    assert close(factor.L @ factor.L.T, Rbf().square(factor.landmarks), 1e-12)
    with pytest.raises(ValueError, match="landmarks"):
        nystroem(Rbf(), X, inputs(5, 3))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize(("n_open", "expected"), [(40, True), (50, False)])
def test_a_trace_is_hopeless_that_would_have_to_fall_faster_by_a_fifth(unit, n_open, expected):
    """It fell by e in 10 steps and must fall by e^5.4: in 54 steps, or 45 at 1.2 times the rate."""
    left = unit * np.exp(5.4)
    assert _is_hopeless(left * np.e, left, 10, unit, n_open) == expected
    assert _is_hopeless(left * np.e**2, left, 20, unit, n_open) == expected


def test_rows_whose_residual_is_rounding_are_not_drawn():
    residual, ties = np.array([0.0, 1e-3, 5.0, 7.0, 1e-3, 6.0]), np.linspace(0.05, 0.9, 6)
    pool, typical = _drawn(residual, ties, 1e-3, 3, 0)
    assert set(pool[:3]) == {2, 3, 5}
    assert typical == pytest.approx(np.median(residual))  # of as many as there are


def test_targets_have_no_more_energy_in_features_than_they_have():
    y_tilde = np.array([[3.0, 3.0, -2.0], [2.0, -2.0, 1.0], [-1.0, 1.0, 1.0]])  # ascending eigenvalues
    shorter = _no_longer(y_tilde, np.array([14.0, 9.0, 1.5]))
    expected = [[3.0, 2.0, 0.0], [2.0, -2.0, np.sqrt(0.5)], [-1.0, 1.0, 1.0]]
    np.testing.assert_allclose(np.abs(shorter), np.abs(expected), atol=1e-15)
    np.testing.assert_array_equal(shorter[2], y_tilde[2])
    assert shorter[1, 1] == -2.0


def test_a_stream_of_rows_that_are_all_noise_has_their_variance():
    X, y = np.array([[5.5368132], [3.76477086], [5.04948982]]), np.array([-14.4, 0.5, 16.3])
    model = StreamingSpectralRegressor(RBF(4.88) + DotProduct(1.0), landmarks=5, criterion="gcv").fit(X, y)
    assert model.tuning_[0].status == "pure_noise"
    assert model.noise_variance_ == pytest.approx(y.var(ddof=1), rel=1e-9)
