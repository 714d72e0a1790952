"""The smallest noise that can be found: where rounding ends the search, and what is said there."""

import numpy as np
import pytest
import reference
from problems import smooth
from sklearn.gaussian_process.kernels import RBF

from skspectral import (
    NoiseResolutionWarning,
    SpectralGPRegressor,
    SpectralKernelRidge,
    Spectrum,
    StreamingSpectralRegressor,
)
from skspectral.criteria import CRITERIA
from skspectral.inference.solution import solve
from skspectral.inference.tuned import ratio_range
from skspectral.inference.variances import VarianceBounds
from skspectral.kernels.gram import make_gram
from skspectral.linalg.factor_terms import FactorTerms, _cholesky_with_jitter
from skspectral.linalg.factors import pivoted_cholesky
from skspectral.linalg.resolvent import Resolvent
from skspectral.linalg.rows import Rows
from skspectral.support.exceptions import IndefiniteKernelError

EPS = np.finfo(float).eps


def nearly_exact(n, noise, seed=0):
    """Return a smooth function of one input with very little noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, 0.55 * np.sin(2 * X[:, 0]) + noise * rng.normal(size=n)


def in_span(n, noise):
    """Return landmarks and values of a function that their kernel functions span, with a little noise."""
    rng = np.random.default_rng(0)
    Z, X, kernel = np.linspace(-3, 3, 12)[:, None], rng.uniform(-3, 3, (n, 1)), RBF(1.5)
    f = kernel(X, Z) @ np.linalg.solve(kernel(Z) + 1e-10 * np.eye(12), np.sin(2 * Z[:, 0]))
    return Z, X, f + noise * rng.normal(size=n)


def stream(n, noise):
    Z, X, y = in_span(n, noise)
    return StreamingSpectralRegressor(RBF(1.5), landmarks=Z, optimizer=None).fit(X, y)


def process(n, noise, **parameters):
    return SpectralGPRegressor(RBF(1.0), optimizer=None, **parameters).fit(*nearly_exact(n, noise))


@pytest.mark.parametrize(
    ("model", "noise", "n"),
    [
        (stream, 1e-5, 10_000),
        (stream, 1e-6, 10_000),
        (lambda n, noise: process(n, noise, method="low_rank", rank=25), 1e-5, 3000),
        (lambda n, noise: process(n, noise, method="exact"), 1e-6, 400),
    ],
    ids=["stream", "stream, less", "low rank", "exact"],
)
def test_little_noise_is_found(model, noise, n):
    fitted = model(n, noise)
    assert fitted.tuning_[0].status == "interior"
    assert np.sqrt(fitted.noise_variance_) == pytest.approx(noise, rel=0.1)


def test_no_fixed_variances_are_better_than_the_tuned_ones():
    gp = process(400, 1e-6, method="exact")
    signal = np.geomspace(1e-3, 1e3, 61) * gp.signal_variance_
    assert gp.log_evidence_at(1e-12, signal).max() <= gp.log_marginal_likelihood_value_
    assert np.sqrt(gp.signal_variance_) > 0.3


@pytest.mark.parametrize(
    ("model", "noise"),
    [
        (lambda n, noise: process(n, noise, method="exact"), 5e-8),
        (lambda n, noise: stream(25 * n, noise), 1e-7),
    ],
    ids=["exact", "stream"],
)
def test_less_noise_than_rounding_resolves_is_told(model, noise):
    with pytest.warns(NoiseResolutionWarning, match="method='low_rank' with a rank"):
        fitted = model(400, noise)
    assert fitted.tuning_[0].status == "resolution"


def test_a_ridge_warns_too():
    X, y = nearly_exact(400, 5e-8)
    with pytest.warns(NoiseResolutionWarning):
        ridge = SpectralKernelRidge(gamma=0.5).fit(X, y)
    assert ridge.tuning_[0].status == "resolution"


def test_values_that_a_stream_explains_to_rounding_are_free_of_noise():
    for n in (300, 1000, 10_000):
        fitted = stream(n, 0.0)
        assert fitted.tuning_[0].status == "noise_free"
        assert np.sqrt(fitted.noise_variance_) < 2e-7


def test_repeated_values_are_free_of_noise():
    X, y = smooth(0, n=15)
    ridge = SpectralKernelRidge(gamma=0.5).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    assert ridge.tuning_[0].status == "noise_free"


def test_eigenvalues_are_exact_to_the_resolution():
    """Against the same matrix in more digits, by singular values of its exact factor."""
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(60, 20)) * np.geomspace(1.0, 1e-9, 20)
    exact, squared = Spectrum.from_factor(Phi), Spectrum.from_gram(Phi @ Phi.T)
    expected = np.append(np.zeros(40), exact.s)
    assert len(exact.s) == 20
    assert np.abs(squared.s - expected).max() <= squared.resolution
    assert squared.resolution < 20 * EPS * squared.s[-1]
    assert exact.resolution < 1e-10 * squared.resolution


def test_noise_is_resolved_by_the_share_that_a_factor_spans():
    X, _ = smooth(0, n=200)
    K = reference.rbf(X)
    L = np.linalg.cholesky(K[:10, :10])
    Phi = np.linalg.solve(L, K[:10]).T
    low, dense = Spectrum.from_factor(Phi, is_exact=False), Spectrum.from_gram(Phi @ Phi.T)
    assert low.noise_resolution == pytest.approx(10 / 200 * low.resolution, rel=1e-6, abs=0.0)
    assert dense.noise_resolution == dense.resolution


def test_eigenvectors_of_a_constant_kernel_are_orthogonal_to_the_mean():
    K = 1.0 + 1e-15 * np.random.default_rng(0).normal(size=(50, 50))
    spectrum = Spectrum.from_gram(0.5 * (K + K.T), np.ones((50, 1)))
    assert np.abs(spectrum.U.sum(axis=0)).max() < 1e-12


def test_a_kernel_matrix_of_rounding_alone_has_a_range_of_ratios():
    X = 1e6 + 1e-9 * np.random.default_rng(0).normal(size=(30, 2))
    y = np.arange(30.0)
    ridge = SpectralKernelRidge(kernel="poly", degree=4, method="exact").fit(X, y)
    assert np.allclose(ridge.predict(X), y.mean())


def test_coefficients_beyond_the_largest_number_are_refused():
    X, y = smooth(0, n=30)
    with pytest.raises(ValueError, match="beyond the largest number"):
        SpectralKernelRidge(kernel="linear").fit(1e-150 * X, 1e30 * y)


def test_a_residual_that_rounding_takes_to_nothing_stays_positive():
    """A = sum e v of values that the features explain to the last digit, from Gram matrices."""
    X, _ = smooth(0, n=40)
    gram = make_gram(RBF(1.0))
    factor = pivoted_cholesky(gram, X, rank=5)
    for seed in range(20):
        Z = factor.Phi @ np.random.default_rng(seed).normal(size=(5, 1))
        rows = Rows.make(40)
        terms = FactorTerms(factor, rows, rows.standardise(Z)[0])
        assert terms.at(1e-250)[0] > 0


def test_the_slope_of_the_evidence_is_a_number_at_noise_ratios_of_any_size():
    X, y = smooth(0, n=12)
    rows = Rows.make(12, np.ones((12, 1)))
    Z = rows.standardise(y[:, None])[0][:, 0]
    small, large = (
        _evidence_with_slopes(Resolvent.from_gram(unit * reference.rbf(X), rows, 0.1 * unit), Z)
        for unit in (1.0, 1e200)
    )
    assert large == pytest.approx(small, rel=1e-10)


def _evidence_with_slopes(resolvent, z):
    """Return A, A', H and H'."""
    A, H, dual = resolvent.evidence(z)
    A1, H1 = resolvent.inverse().evidence_slopes(A, dual)
    return A, A1, H, H1


@pytest.mark.parametrize("n", [1, 64, 65, 131, 200])
@pytest.mark.parametrize("n_mean", [0, 1])
def test_the_resolvent_of_any_number_of_rows_is_an_inverse(n, n_mean, rng):
    X, z = rng.normal(size=(n, 2)), rng.normal(size=n)
    K, rows = reference.rbf(X), Rows.make(n, np.ones((n, 1)) if n_mean else None)
    P = np.eye(n) - rows.Q @ rows.Q.T
    expected = P @ np.linalg.inv(P @ K @ P + 0.1 * np.eye(n)) @ P
    resolvent = Resolvent.from_gram(K, rows, 0.1)
    assert np.allclose(resolvent.apply(P @ z), expected @ z, rtol=1e-8, atol=1e-10)
    G = np.triu(resolvent.inverse().sensitivity(P @ z, 0.3))
    assert np.allclose(G, np.triu(expected - 0.3 * np.outer(P @ z, P @ z)), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("multiple", [0.0, 1.0, 10.0, 100.0])
def test_no_more_is_added_to_moments_than_rounding_took_away(multiple):
    jitter = 6 * np.finfo(np.float64).eps * 15.0
    g = 3.0 * jitter
    S = np.diag([-g - (0.5 * multiple if multiple else -0.5) * jitter, 1.0, 2.0, 3.0, 4.0, 5.0])
    L = _cholesky_with_jitter(S, g)
    assert np.abs(L @ L.T - S - (g + multiple * jitter) * np.eye(6)).max() <= 0.2 * jitter


def test_moments_that_are_not_positive_are_refused():
    jitter = 2 * np.finfo(np.float64).eps * 4.0
    with pytest.raises(IndefiniteKernelError) as told:
        _cholesky_with_jitter(np.diag([-1.0, 5.0]), 0.25)
    assert told.value.smallest_eigenvalue == -0.25
    assert told.value.tolerance == pytest.approx(jitter, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_smallest_noise_that_rounding_resolves_moves_with_the_kernel(fit_intercept, monkeypatch):
    """Of three outputs two end there; a coarse resolution, so that rounding has no part in differences."""
    monkeypatch.setattr("skspectral.linalg.spectrum._ROUNDING", 1e10)
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 6, (20, 1)), axis=0)
    K, F = reference.matern12(X, length=3.0), np.ones((20, 1)) if fit_intercept else None
    Y = np.column_stack([K @ rng.normal(size=20), rng.normal(size=20), K @ K @ rng.normal(size=20)])
    change, evidence, h = K * reference.rbf(X, length=2.0), CRITERIA["evidence"], 1e-4

    def at(step, bounds=None):
        return solve(Spectrum.from_gram(K + step * change, F).rotate(Y), evidence, bounds)

    bounds = VarianceBounds((0.3, 0.3), (1.0, 1.0))  # where the slope is not 0, and the resolution no reason
    held = at(0.0, bounds)
    slope = (at(h, bounds).objective(evidence) - at(-h, bounds).objective(evidence)) / (2 * h)
    assert (held.objective_and_sensitivity(evidence)[1] * change).sum() == pytest.approx(slope, rel=1e-5)
    here = at(0.0)
    assert (here.noise_ratio <= 1.001 * ratio_range(here.rotated)[0]).tolist() == [True, False, True]
    value, G = here.objective_and_sensitivity(evidence)
    assert value == pytest.approx(here.objective(evidence))
    slope = (at(h).objective(evidence) - at(-h).objective(evidence)) / (2 * h)
    assert (G * change).sum() == pytest.approx(slope, rel=1e-5)


def test_targets_without_variation_have_no_slope():
    K = reference.rbf(np.linspace(0.0, 3.0, 6)[:, None])
    still = solve(Spectrum.from_gram(K, np.ones((6, 1))).rotate(np.full((6, 2), 4.0)), CRITERIA["evidence"])
    value, G = still.objective_and_sensitivity(CRITERIA["evidence"])
    assert value == 0.0
    np.testing.assert_array_equal(G, np.zeros((6, 6)))
