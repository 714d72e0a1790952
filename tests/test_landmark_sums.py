"""Terms of factors, from rows and from sums over rows, beside dense matrices and differences."""

import numpy as np
import pytest
import reference
from problems import close

from skspectral.linalg import landmark_sums
from skspectral.linalg.factor_terms import FactorTerms
from skspectral.linalg.factors import nystroem
from skspectral.linalg.landmark_sums import (
    LandmarkSums,
    RowBlock,
    Sensitivity,
    joined_features,
    smooth_feature_map,
)
from skspectral.linalg.rows import RowCounts, Rows
from skspectral.support.exceptions import IndefiniteKernelError

EPS = np.finfo(np.float64).eps


class Given:
    """A kernel given by its matrix among landmarks, whatever the inputs."""

    def __init__(self, *rows):
        self.A = np.array(rows)

    def cross(self, X, Z):
        return self.A


class Rbf:
    """A kernel that is known to all digits, with variances that differ."""

    def diagonal(self, X):
        return 2.0 * (1.0 + X[:, 0] ** 2) ** 2

    def precision(self, X):
        return EPS

    def cross(self, X, Z):
        size = np.outer(1.0 + X[:, 0] ** 2, 1.0 + Z[:, 0] ** 2)
        return 2.0 * size * reference.rbf(X, Z)


def block_of(n, q, m=2, seed=0):
    """Rows with weights, orthonormal mean functions and targets without a part along them."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, q)))[0]
    Y = rng.normal(size=(n, m))
    return RowBlock(rng.normal(size=(n, 2)), rng.uniform(0.5, 2.0, (n, 1)), Q, Y - Q @ (Q.T @ Y))


LANDMARKS = np.array([[0.0, 0.0], [1.0, -1.0], [-1.0, 0.5]])


# -- features


def test_jitter_is_a_share_of_the_mean_of_the_diagonal():
    L = smooth_feature_map(Given([1.0, 0.0], [0.0, 3.0]), np.zeros((2, 1))).L
    assert L[0, 0] ** 2 - 1.0 == pytest.approx(64.0 * 2.0 * EPS * 2.0, rel=0.006)  # an ulp or so
    assert L[1, 1] ** 2 - 3.0 == pytest.approx(64.0 * 2.0 * EPS * 2.0, rel=0.02)


def test_landmarks_without_variance_have_features_of_0():
    L = smooth_feature_map(Given([0.0, 0.0], [0.0, 0.0]), np.zeros((2, 1))).L
    np.testing.assert_array_equal(L, np.eye(2))


@pytest.mark.parametrize("factor", [1.0, 1e2, 1e4])
def test_more_jitter_is_added_where_rounding_asks_for_it(factor):
    jitter = 64.0 * 2.0 * EPS
    below = 0.3 * factor * jitter
    L = smooth_feature_map(Given([1.0, 1.0 + below], [1.0 + below, 1.0]), np.zeros((2, 1))).L
    assert L[1, 0] == pytest.approx(1.0)
    assert L[0, 0] ** 2 - 1.0 == pytest.approx(factor * jitter, rel=2.0 * EPS / (factor * jitter))


def test_landmarks_that_no_jitter_helps_are_refused():
    jitter = 64.0 * 2.0 * EPS * 1.5
    with pytest.raises(IndefiniteKernelError) as told:
        smooth_feature_map(Given([1.0, 2.0], [2.0, 2.0]), np.zeros((2, 1)))
    assert told.value.smallest_eigenvalue == pytest.approx(-1e4 * jitter, rel=1e-9)
    assert told.value.tolerance == pytest.approx(jitter, rel=1e-9)


# -- sums


@pytest.mark.parametrize("q", [0, 2])
def test_sums_are_those_of_dense_matrices_and_add_up(q):
    gram, block = Rbf(), block_of(9, q)
    features = smooth_feature_map(gram, LANDMARKS)
    J = joined_features(features, gram, block)
    Phi = block.root * np.linalg.solve(features.L, gram.cross(LANDMARKS, block.X)).T
    assert close(J, np.hstack([Phi, block.Q, block.Y]), 1e-12)
    parts = [RowBlock(*(part[rows] for part in (block.X, block.root, block.Q, block.Y))) for rows in HALVES]
    first, second = (LandmarkSums.of(joined_features(features, gram, part), gram, part) for part in parts)
    sums = first + second
    assert (sums.n_features, sums.n_mean) == (3, q)
    assert close(sums.gram, Phi.T @ Phi, 1e-12)
    assert close(sums.QPhi, block.Q.T @ Phi, 1e-12)
    assert close(sums.PhiY, Phi.T @ block.Y, 1e-12)
    assert close(sums.energy, (block.Y**2).sum(axis=0), 1e-12)
    missed = block.root[:, 0] ** 2 * gram.diagonal(block.X) - (Phi**2).sum(axis=1)
    assert sums.tau == pytest.approx(missed.sum(), rel=1e-10)


HALVES = (slice(0, 4), slice(4, None))


def test_rows_whose_variance_is_rounding_miss_nothing():
    block = RowBlock(np.zeros((2, 1)), np.array([[1.0], [2.0]]), np.zeros((2, 0)), np.zeros((2, 1)))

    class Variances:
        def diagonal(self, X):
            return np.array([1.0, 1.0])

    J = np.array([[1.0 + 1e-3, 0.0], [1.5, 0.0]])
    assert LandmarkSums.of(J, Variances(), block).tau == pytest.approx(4.0 - 2.25)


@pytest.mark.parametrize(("n_rows", "terms"), [(20, 5), (400, 20)])
def test_the_rounding_of_sums_grows_with_the_mean_part(n_rows, terms):
    rng = np.random.default_rng(0)
    r, q = 5, 2
    half = np.hstack([rng.normal(size=(n_rows, r)), np.linalg.qr(rng.normal(size=(n_rows, q)))[0]])
    half[:, :r] += 30.0 * half[:, [r]]
    sums = LandmarkSums(half.T @ half, 0.0, r, q)
    spectrum = sums.spectrum(RowCounts(n_rows, q, 0.0, 1.0))
    Phi, Q = half[:, :r], half[:, r:]
    outside = Phi - Q @ (Q.T @ Phi)
    assert close(spectrum.s, np.linalg.eigvalsh(outside.T @ outside), 1e-10)
    error = 8.0 * EPS * terms
    assert spectrum.error == pytest.approx(error, rel=1e-12)
    assert spectrum.resolution == pytest.approx(error * (spectrum.s[-1] + ((Q.T @ Phi) ** 2).sum()), rel=1e-9)


# -- derivatives


def bound_of(block, C, A, diagonal, g, b):
    """The lower bound by its definition: dense, the sum over outputs, at given variances."""
    n, Q = len(C), block.Q
    P = np.eye(n) - Q @ Q.T
    jitter = landmark_sums._JITTER * EPS * np.trace(A)
    K = block.root * (C @ np.linalg.solve(A + jitter * np.eye(len(A)), C.T)) * block.root.T
    tau, total = block.root[:, 0] ** 2 @ diagonal - np.trace(K), 0.0
    n_free = n - Q.shape[1]
    for k in range(len(g)):
        M = P @ K @ P + g[k] * np.eye(n)
        fit = block.Y[:, k] @ np.linalg.solve(M, block.Y[:, k])
        total += np.linalg.slogdet(M)[1] + g[k] / b[k] * fit + n_free * np.log1p(tau / (n_free * g[k]))
    return total


def slope_by(value, M, h=1e-5):
    """Derivatives of value(M) by the entries of M, by differences."""
    slope = np.empty_like(M)
    for place in np.ndindex(M.shape):
        step = np.zeros_like(M)
        step[place] = h
        slope[place] = (value(M + step) - value(M - step)) / (2.0 * h)
    return slope


@pytest.mark.parametrize("q", [0, 2, 7])
@pytest.mark.parametrize("jitter", [64.0, 1e14])
def test_derivatives_of_the_bound_are_those_of_differences(monkeypatch, q, jitter):
    monkeypatch.setattr(landmark_sums, "_JITTER", jitter)
    gram, block, g, b = Rbf(), block_of(8, q), np.array([0.4, 1.5]), np.array([0.7, 2.0])
    features = smooth_feature_map(gram, LANDMARKS)
    J = joined_features(features, gram, block)
    sums = LandmarkSums.of(J, gram, block)
    spectrum = sums.spectrum(RowCounts(8, q, 0.0, 1.0))
    found = Sensitivity.at(sums, spectrum, features.L, g, b)
    at = gram.cross(block.X, LANDMARKS), gram.cross(LANDMARKS, LANDMARKS), gram.diagonal(block.X)
    by_cross, among, by_diagonal = (
        slope_by(lambda M, k=k: bound_of(block, *at[:k], M, *at[k + 1 :], g, b), at[k]) for k in range(3)
    )
    assert close(block.root * (J @ found.by_cross), by_cross, 1e-6)
    assert close(found.among, among, 1e-6)
    assert close(found.by_diagonal * block.root[:, 0] ** 2, by_diagonal, 1e-6)


def test_without_a_free_row_nothing_is_missed():
    gram, block = Rbf(), block_of(2, 2)
    features = smooth_feature_map(gram, LANDMARKS)
    sums = LandmarkSums.of(joined_features(features, gram, block), gram, block)
    found = Sensitivity.at(sums, sums.spectrum(RowCounts(2, 2, 0.0, 1.0)), features.L, np.ones(2), np.ones(2))
    assert found.by_diagonal == 0.0


# -- terms of a factor whose rows are at hand


class Terms:
    """Rows of which one is absent, q mean functions, targets, and a factor of three landmarks."""

    def __init__(self, q, m=2, n=9, weight=None):
        rng = np.random.default_rng(1)
        self.X = rng.normal(size=(n, 2))
        if weight is None:
            weight = np.concatenate([rng.uniform(0.5, 2.0, n - 2), [1.0, 0.0]])
        self.rows = Rows.make(n, rng.normal(size=(n, q)) if q else None, weight)
        self.Z = self.rows.standardise(rng.normal(size=(n, m)))[0]
        self.factor = nystroem(Rbf(), self.X, landmarks=LANDMARKS)
        self.terms = FactorTerms(self.factor, self.rows, self.Z)
        self.P = np.diag(self.rows.present.astype(float)) - self.rows.Q @ self.rows.Q.T

    def kernel(self, C, A):
        """P K~ P in weighted rows, K~ = C A^-1 C'."""
        root = self.rows.sqrt_weight
        return self.P @ (root * (C @ np.linalg.solve(A, C.T)) * root.T) @ self.P

    @property
    def inputs(self):
        """K(X, Z) and K(Z, Z)."""
        return Rbf().cross(self.X, self.factor.landmarks), Rbf().cross(*(self.factor.landmarks,) * 2)

    def system(self, g):
        return self.kernel(*self.inputs) + g * np.eye(len(self.X))


@pytest.mark.parametrize("q", [0, 2])
@pytest.mark.parametrize("g", [0.01, 3.0])
@pytest.mark.parametrize("weight", [None, np.full(9, 4.0), np.ones(9)], ids=["weights", "4", "1"])
def test_terms_of_a_factor_are_those_of_dense_matrices(q, g, weight):
    one = Terms(q, m=1, weight=weight)

    def values(g):
        M = one.system(g)
        fit = g * float(one.Z[:, 0] @ np.linalg.solve(M, one.Z[:, 0]))
        return np.array([fit, np.linalg.slogdet(M / g)[1]])

    A, A1, H, H1, B_inv, residual = one.terms.at(g)
    assert close([A, H], values(g), 1e-9)
    h = 1e-4
    slopes = (values(g * np.exp(h)) - values(g * np.exp(-h))) / (2.0 * h)
    np.testing.assert_allclose([A1, H1], slopes, rtol=1e-6)
    assert close(residual, g * np.linalg.solve(one.system(g), one.Z), 1e-9)
    outside = one.P @ (one.rows.sqrt_weight * one.factor.Phi)
    assert close(B_inv, np.linalg.inv(outside.T @ outside + g * np.eye(3)), 1e-8)


@pytest.mark.parametrize("q", [0, 2])
def test_terms_of_several_outputs_and_their_sensitivity(q):
    two, g, scale = Terms(q), np.array([0.05, 2.0]), np.array([0.7, 3.0])
    B_inv, residual = two.terms.several(g)
    each = [FactorTerms(two.factor, two.rows, two.Z[:, [k]]).at(g[k]) for k in range(2)]
    assert close(B_inv, sum(terms[4] for terms in each), 1e-8)
    assert close(residual, np.hstack([terms[5] for terms in each]), 1e-9)

    def value(C, A):
        total = 0.0
        for k in range(2):
            M = two.kernel(C, A) + g[k] * np.eye(len(C))
            fit = two.Z[:, k] @ np.linalg.solve(M, two.Z[:, k])
            total += np.linalg.slogdet(M)[1] + scale[k] * g[k] ** 2 * fit
        return total

    C, A = two.inputs
    to_landmarks, among = two.terms.sensitivity(B_inv, residual, scale)
    assert close(to_landmarks, slope_by(lambda M: value(M, A), C), 1e-6)
    assert close(among, slope_by(lambda M: value(C, M), A), 1e-6)


@pytest.mark.parametrize("q", [0, 2])
def test_targets_of_a_factor_inside_and_outside_of_its_span(q):
    two = Terms(q)
    U = np.linalg.svd(two.P @ (two.rows.sqrt_weight * two.factor.Phi), full_matrices=False)[0]
    spectrum, size = two.terms.spectrum, (two.terms.QPhi**2).sum()
    assert spectrum.resolution == pytest.approx(8.0 * EPS * (spectrum.s[-1] + size), rel=1e-9, abs=0.0)
    rotated = two.terms.rotated(np.array([2.0, 5.0]))
    inside = (U.T @ two.Z) ** 2
    assert close(rotated.energy[:-1], inside[::-1], 1e-7)
    left = (two.Z**2).sum(axis=0) - inside.sum(axis=0)
    assert close(rotated.energy[-1], left, 1e-9)
    assert rotated.scale.tolist() == [2.0, 5.0]
    assert rotated.rounding == pytest.approx(4.0 * 8.0 * EPS * (two.Z**2).sum(axis=0), rel=1e-9, abs=0.0)
    outside = two.Z - U @ (U.T @ two.Z)
    root = two.terms.null_root()
    assert close(root.T @ root, outside.T @ outside, 1e-9)
    before = two.terms.PhiZ.copy()
    others = two.terms.with_targets(2.0 * two.Z[:, ::-1])
    assert close(others.PhiZ, 2.0 * before[:, ::-1], 1e-14)
    assert close(others.several(np.ones(2))[1], 2.0 * two.terms.several(np.ones(2))[1][:, ::-1], 1e-12)
    assert np.array_equal(two.terms.PhiZ, before)


def test_targets_that_a_factor_spans_leave_nothing_outside():
    two = Terms(0)
    two.terms = two.terms.with_targets(two.rows.sqrt_weight * two.factor.Phi[:, :2])
    assert np.isfinite(two.terms.null_root()).all()
    assert np.abs(two.terms.null_root()).max() < 1e-6


def test_what_is_left_of_a_target_is_no_less_than_its_rounding(monkeypatch):
    one = Terms(0, m=1)
    one.terms.Z = 3.0 * one.Z
    monkeypatch.setattr(one.terms, "_residual", lambda weights: -one.Z)
    size = 9.0 * (one.Z**2).sum()
    left, slope, *_ = one.terms.at(0.1)
    assert left == pytest.approx((8.0 * EPS) ** 2 * size, rel=1e-9, abs=0.0)
    assert slope == pytest.approx(-(one.Z**2).sum())
