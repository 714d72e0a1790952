"""Uncertainty of the variances, and predictions averaged over them, against brute force."""

from dataclasses import astuple

import numpy as np
import pytest
import reference
from problems import close, smooth
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import chi2, norm, t
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skspectral import (
    NoiseResolutionWarning,
    SpectralGPRegressor,
    SpectralKernelRidge,
    UndeterminedVarianceWarning,
)
from skspectral.inference import averaging
from skspectral.inference.averaging import _quadrature
from skspectral.inference.student_mixture import StudentMixture
from skspectral.inference.tuned import ratio_range
from skspectral.inference.uncertainty import _invert

GP = SpectralGPRegressor(RBF(1.0), optimizer=None)
AVERAGED = SpectralGPRegressor(RBF(1.0), optimizer=None, inference="integrate")
INTERVALS = ("noise_interval", "signal_interval", "ratio_interval")
X_NEW = np.array([[0.0, 0.0], [1.5, -1.0], [9.0, 9.0]])


def noise_only(n=40, seed=5):
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, (n, 2)), rng.normal(size=n)


def fine_line(n=25):
    """Return a function without noise that the kernel can represent."""
    X = np.linspace(-2, 2, n)[:, None]
    return X, np.sin(2 * X[:, 0])


def intervals(found):
    return np.array([getattr(found, name) for name in INTERVALS])


def dense_neg_two_log(X, y, fit_intercept):
    """Return -2 log evidence as a function of the logs of both variances, from dense matrices."""
    K, F = reference.rbf(X), np.ones((len(X), 1))

    def value(log_noise, log_signal):
        if fit_intercept:
            return -2 * reference.reml(K, y, F, np.exp(log_noise), np.exp(log_signal))
        return -2 * reference.log_evidence(K, y, np.exp(log_noise), np.exp(log_signal))

    return value


# The evidence at other variances


@pytest.mark.parametrize("model", [GP, SpectralKernelRidge(gamma=0.5)], ids=["process", "ridge"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_evidence_at_other_variances_is_the_dense_one(model, fit_intercept):
    X, y = smooth(n=25)
    value = dense_neg_two_log(X, y, fit_intercept)
    fitted = clone(model).set_params(fit_intercept=fit_intercept).fit(X, y)
    noise, signal = np.array([[0.01], [0.2], [3.0]]), np.array([0.5, 1e3])
    found = fitted.log_evidence_at(noise, signal)
    expected = [[-0.5 * value(np.log(b), np.log(a)) for a in signal] for b in noise[:, 0]]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.ndim(fitted.log_evidence_at(0.1, 1.0)) == 0


def test_the_evidence_at_other_variances_is_one_for_each_output():
    X, Y = smooth(n=25, m=2)
    found = clone(GP).fit(X, Y).log_evidence_at([[0.1, 0.2, 0.3]], 1.0)
    assert found.shape == (1, 3, 2)
    alone = clone(GP).fit(X, Y[:, 1]).log_evidence_at([[0.1, 0.2, 0.3]], 1.0)
    np.testing.assert_allclose(found[..., 1], alone)


@pytest.mark.parametrize(
    ("noise", "signal", "named"),
    [(0.0, 1.0, "noise"), (1.0, -2.0, "signal"), ([1.0, np.nan], 1.0, "noise"), (1.0, np.inf, "signal")],
)
def test_variances_that_are_none_are_refused(noise, signal, named):
    X, y = smooth(n=10)
    with pytest.raises(ValueError, match=f"{named}_variance must be positive and finite"):
        clone(GP).fit(X, y).log_evidence_at(noise, signal)


@pytest.mark.parametrize("criterion", ["evidence", "gcv", "loo"])
def test_the_curve_of_a_process_is_that_of_the_ridge(criterion):
    X, Y = smooth(n=25, m=2)
    alphas = np.array([1e-3, 0.5, 20.0, np.inf])
    of_process = clone(GP).set_params(criterion=criterion).fit(X, Y).criterion_curve(alphas)
    of_ridge = SpectralKernelRidge(gamma=0.5, criterion=criterion).fit(X, Y).criterion_curve(alphas)
    assert of_process.shape == (4, 2)
    np.testing.assert_allclose(of_process, of_ridge, rtol=1e-9)


# Standard errors and profile intervals


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_standard_errors_come_from_the_hessian_of_the_dense_evidence(fit_intercept):
    X, y = smooth(n=25)
    gp = clone(GP).set_params(fit_intercept=fit_intercept).fit(X, y)
    (found,) = gp.variance_uncertainty()
    value, at, h = (
        dense_neg_two_log(X, y, fit_intercept),
        np.log([found.noise_variance, found.signal_variance]),
        1e-3,
    )
    hessian = np.empty((2, 2))
    for i, a in enumerate(np.eye(2) * h):
        for j, b in enumerate(np.eye(2) * h):
            corners = (
                value(*(at + a + b)) - value(*(at + a - b)) - value(*(at - a + b)) + value(*(at - a - b))
            )
            hessian[i, j] = corners / (4 * h * h)
    covariance = np.linalg.inv(hessian / 2)
    se = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose([found.noise_se, found.signal_se], se, rtol=1e-4)
    np.testing.assert_allclose(found.correlation, covariance[0, 1] / se.prod(), rtol=1e-3, atol=1e-5)


def dense_profile_interval(value, best, which, coverage):
    """Return the profile interval of coordinate 0, 1 or their difference 2, by nested scalar searches."""

    def pair(at, other):
        return {0: (at, other), 1: (other, at), 2: (other, other - at)}[which]

    def profiled(at):
        centre = best[1] if which == 0 else best[0]
        search = minimize_scalar(
            lambda other: value(*pair(at, other)),
            bounds=(centre - 6, centre + 6),
            method="bounded",
            options={"xatol": 1e-9},
        )
        return search.fun

    start = best[0] - best[1] if which == 2 else best[which]
    threshold = value(*best) + chi2(1).ppf(coverage)
    return [brentq(lambda at: profiled(at) - threshold, start, start + side, xtol=1e-10) for side in (-4, 4)]


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("coverage", [0.5, 0.95])
def test_intervals_are_those_of_the_dense_profile_likelihood(fit_intercept, coverage):
    X, y = smooth(n=25)
    (found,) = clone(GP).set_params(fit_intercept=fit_intercept).fit(X, y).variance_uncertainty(coverage)
    value = dense_neg_two_log(X, y, fit_intercept)
    best = np.log([found.noise_variance, found.signal_variance])
    expected = [dense_profile_interval(value, best, which, coverage) for which in range(3)]
    np.testing.assert_allclose(np.log(intervals(found)), expected, atol=2e-6)


def test_the_evidence_along_alpha_falls_by_the_threshold_at_both_ends_of_the_ratio_interval():
    X, Y = smooth(n=40, m=3)
    ridge = SpectralKernelRidge(gamma=0.5).fit(X, Y)
    for j, found in enumerate(ridge.variance_uncertainty(0.8)):
        curve = ridge.criterion_curve(found.ratio_interval)[:, j]
        np.testing.assert_allclose(ridge.criterion_value_[j] - curve, 0.5 * chi2(1).ppf(0.8), rtol=1e-8)


def test_both_estimators_agree_and_report_their_own_variances():
    X, Y = smooth(n=30, m=2)
    gp, ridge = clone(GP).fit(X, Y), SpectralKernelRidge(gamma=0.5).fit(X, Y)
    of_gp, of_ridge = gp.variance_uncertainty(), ridge.variance_uncertainty()
    for j in range(2):
        np.testing.assert_allclose(intervals(of_gp[j]), intervals(of_ridge[j]), rtol=1e-6)
        np.testing.assert_allclose(of_gp[j].noise_variance, gp.noise_variance_[j], rtol=1e-8)
        np.testing.assert_allclose(of_gp[j].signal_variance, gp.signal_variance_[j], rtol=1e-8)
        assert of_gp[j].status == gp.tuning_[j].status == "interior"


def test_each_output_has_the_uncertainty_it_has_alone():
    X, Y = smooth(n=30, m=3)
    Y[:, 1] = noise_only(30)[1]
    for j, found in enumerate(clone(GP).fit(X, Y).variance_uncertainty()):
        (alone,) = clone(GP).fit(X, Y[:, j]).variance_uncertainty()
        np.testing.assert_allclose(astuple(found)[4:7], astuple(alone)[4:7], rtol=1e-6)
        np.testing.assert_allclose(intervals(found), intervals(alone), rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e150])
def test_variances_and_their_intervals_move_with_the_square_of_the_units(scale):
    X, y = smooth(n=30)
    (plain,), (scaled,) = (clone(GP).fit(X, a * y).variance_uncertainty() for a in (1.0, scale))
    factor = np.array([scale**2, scale**2, 1.0])[:, None]
    np.testing.assert_allclose(intervals(scaled), intervals(plain) * factor, rtol=1e-7)
    np.testing.assert_allclose(astuple(scaled)[4:7], astuple(plain)[4:7], rtol=1e-7)


def test_wider_coverage_gives_wider_intervals_around_the_estimates():
    X, y = smooth(n=20)
    gp = clone(GP).fit(X, y)
    narrow, wide = (gp.variance_uncertainty(c)[0] for c in (0.5, 0.99))
    estimates = np.array([narrow.noise_variance, narrow.signal_variance, narrow.noise_ratio])
    assert (intervals(wide)[:, 0] < intervals(narrow)[:, 0]).all()
    assert (intervals(narrow)[:, 0] < estimates).all()
    assert (estimates < intervals(narrow)[:, 1]).all()
    assert (intervals(narrow)[:, 1] < intervals(wide)[:, 1]).all()


def test_with_many_rows_the_intervals_become_those_of_the_standard_errors():
    X, y = smooth(n=600, noise=0.5)
    (found,) = clone(GP).fit(X, y).variance_uncertainty()
    half = 0.5 * np.diff(np.log(found.noise_interval))[0]
    np.testing.assert_allclose(half, norm.ppf(0.975) * found.noise_se, rtol=0.01)


def test_pure_noise_leaves_the_signal_without_lower_and_the_ratio_without_upper_end():
    X, y = noise_only()
    (found,) = clone(GP).fit(X, y).variance_uncertainty()
    assert found.status == "pure_noise"
    assert found.signal_interval[0] == 0.0
    assert np.isfinite(found.signal_interval[1])
    assert found.ratio_interval[0] > 0.0
    assert found.ratio_interval[1] == np.inf
    assert (found.signal_se, found.correlation) == (np.inf, 0.0)
    np.testing.assert_allclose(found.noise_se, np.sqrt(2 / 39), rtol=1e-8)
    low, high = found.noise_interval
    assert 0 < low < found.noise_variance < high


def test_the_noise_interval_in_the_limit_of_pure_noise_includes_smaller_noise_with_some_signal():
    X, y = noise_only()
    (found,) = clone(GP).fit(X, y).variance_uncertainty()
    value, threshold = dense_neg_two_log(X, y, True), chi2(1).ppf(0.95)
    least = value(np.log(found.noise_variance), -40.0)
    grid = np.linspace(-12, 4, 100)
    for end, side in zip(found.noise_interval, (-1e-3, 1e-3), strict=True):
        inner, outer = (min(value(np.log(end) + s, v) for v in grid) - least for s in (-side, side))
        assert inner < threshold < outer


def test_a_weak_signal_may_be_absent_within_its_interval():
    X, y = smooth(n=12, noise=2.0, seed=4)
    (found,) = clone(GP).fit(X, y).variance_uncertainty()
    assert found.status == "interior"
    assert found.signal_interval[0] == 0.0
    assert found.ratio_interval[1] == np.inf
    assert np.isfinite([found.noise_se, found.signal_se]).all()


def test_data_without_noise_leave_the_noise_without_lower_end():
    X, y = fine_line()
    with pytest.warns(NoiseResolutionWarning):
        (found,) = clone(GP).fit(X, y).variance_uncertainty()
    assert found.status == "resolution"
    assert found.noise_interval[0] == found.ratio_interval[0] == 0.0
    assert 0 < found.noise_interval[1] < 1e-6
    assert found.noise_se == np.inf
    low, high = found.signal_interval
    assert 0 < low < found.signal_variance < high < np.inf


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_constant_targets_have_no_variance_and_any_ratio():
    X, _ = smooth(n=10)
    (found,) = clone(GP).fit(X, np.full(10, 3.0)).variance_uncertainty()
    assert found.noise_interval == found.signal_interval == (0.0, 0.0)
    assert found.ratio_interval == (0.0, np.inf)
    assert (found.noise_se, found.signal_se, found.correlation) == (np.inf, np.inf, 0.0)


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_a_single_row_says_nothing():
    (found,) = clone(GP).fit([[0.0]], [1.0]).variance_uncertainty()
    assert found.noise_interval == found.signal_interval == found.ratio_interval == (0.0, np.inf)


def test_a_kernel_of_zeros_says_nothing_about_the_signal():
    y = noise_only(20)[1]
    gp = SpectralGPRegressor("precomputed").fit(np.zeros((20, 20)), y)
    (found,) = gp.variance_uncertainty()
    assert found.signal_interval == found.ratio_interval == (0.0, np.inf)
    low, high = found.noise_interval
    assert 0 < low < found.noise_variance < high < np.inf


def test_a_kernel_of_white_noise_determines_only_the_sum_of_the_variances():
    y = noise_only(20)[1]
    gp = SpectralGPRegressor("precomputed", fit_intercept=False).fit(np.eye(20), y)
    (found,) = gp.variance_uncertainty()
    assert found.ratio_interval == (0.0, np.inf)
    assert found.noise_interval[0] == found.signal_interval[0] == 0.0
    np.testing.assert_allclose(found.noise_interval[1], found.signal_interval[1], rtol=1e-8)


def test_a_fixed_variance_has_no_uncertainty_and_the_other_is_conditional_on_it():
    X, y = smooth(n=25)
    gp = SpectralGPRegressor(RBF(1.0, "fixed") + WhiteKernel(0.2, "fixed"), fit_intercept=False).fit(X, y)
    (found,) = gp.variance_uncertainty()
    assert found.noise_interval == (0.2, 0.2)
    assert (found.noise_se, found.correlation) == (0.0, 0.0)
    value = dense_neg_two_log(X, y, False)
    excess = [value(np.log(0.2), np.log(end)) for end in found.signal_interval]
    excess -= value(np.log(0.2), np.log(found.signal_variance))
    np.testing.assert_allclose(excess, chi2(1).ppf(0.95), rtol=1e-6)
    assert found.signal_se > 0
    np.testing.assert_allclose(found.ratio_interval, 0.2 / np.array(found.signal_interval)[::-1], rtol=1e-8)


def test_both_variances_fixed_leave_points():
    X, y = smooth(n=25)
    kernel = ConstantKernel(2.0, "fixed") * RBF(1.0, "fixed") + WhiteKernel(0.2, "fixed")
    (found,) = SpectralGPRegressor(kernel).fit(X, y).variance_uncertainty()
    assert found.status == "fixed"
    np.testing.assert_allclose(intervals(found), [[0.2, 0.2], [2.0, 2.0], [0.1, 0.1]], rtol=1e-12)
    assert (found.noise_se, found.signal_se, found.correlation) == (0.0, 0.0, 0.0)


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")  # as they should
def test_bounds_cut_the_intervals_where_they_bind():
    X, y = smooth(n=25)
    (free,) = clone(GP).fit(X, y).variance_uncertainty()
    low, high = 0.9 * free.noise_variance, 1.1 * free.noise_variance
    kernel = RBF(1.0, "fixed") + WhiteKernel(1.0, (low, high))
    (cut,) = SpectralGPRegressor(kernel, optimizer=None).fit(X, y).variance_uncertainty()
    np.testing.assert_allclose(cut.noise_interval, (low, high), rtol=1e-12)
    assert cut.status == "interior"
    kernel = RBF(1.0, "fixed") + WhiteKernel(1.0, (2 * high, 3 * high))
    (held,) = SpectralGPRegressor(kernel, optimizer=None).fit(X, y).variance_uncertainty()
    assert held.status == "bound"
    np.testing.assert_allclose(held.noise_interval[0], 2 * high, rtol=1e-12)
    assert held.noise_se == 0.0
    assert 0 < held.signal_se < np.inf


def test_the_uncertainty_is_that_of_the_evidence_whatever_chose_alpha():
    X, y = smooth(n=30)
    (expected,) = SpectralKernelRidge().fit(X, y).variance_uncertainty()
    for other in (SpectralKernelRidge(criterion="gcv"), SpectralKernelRidge(alpha=7.0)):
        assert other.fit(X, y).variance_uncertainty() == (expected,)


def test_an_estimator_must_be_fitted_before_it_is_asked():
    for model in (clone(GP), SpectralKernelRidge()):
        with pytest.raises(NotFittedError):
            model.variance_uncertainty()
    with pytest.raises(NotFittedError):
        clone(GP).predict_interval(X_NEW)
    with pytest.raises(NotFittedError):
        clone(AVERAGED).loo_predict()


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 95, np.nan, "0.95", [0.5], None])
def test_a_coverage_that_is_no_probability_is_refused(coverage):
    X, y = smooth(n=10)
    gp, message = clone(GP).fit(X, y), "coverage must be a number strictly between 0 and 1"
    with pytest.raises(ValueError, match=message):
        gp.predict_interval(X, coverage)
    with pytest.raises(ValueError, match=message):
        gp.variance_uncertainty(coverage)
    with pytest.raises(ValueError, match=message):
        SpectralKernelRidge().fit(X, y).variance_uncertainty(coverage)


# Averaging


class BruteForce:
    """Predictions at X_new by a dense two-dimensional quadrature over x = log g and v = log signal_var.

    The prior is flat in both. Components of the mixture are normal: `weight` (k,), `mean` (k, n_new) and
    `covariance` (k, n_new, n_new) of the latent function, `noise` (k,).
    """

    def __init__(self, X, y, X_new, x_range, fit_intercept, weight=None):
        K, K_new, prior = reference.rbf(X), reference.rbf(X_new, X), reference.rbf(X_new)
        F, F_new = (np.ones((len(Z), 1)) if fit_intercept else None for Z in (X, X_new))
        n = len(y) - fit_intercept
        edges = np.linspace(*x_range, 61)
        nodes, weights = np.polynomial.legendre.leggauss(7)
        half = 0.5 * np.diff(edges)[:, None]
        x = (0.5 * (edges[:-1] + edges[1:])[:, None] + half * nodes).ravel()
        step = np.linspace(-6, 14, 401)
        log_weight, self.mean, self.covariance, self.noise = [], [], [], []
        for node, w in zip(x, (half * weights).ravel(), strict=True):
            g = np.exp(node)
            one, two = (dense_log_density(K, y, F, g, signal_var, weight) for signal_var in (1.0, 2.0))
            energy = 4 * (two - one) + 2 * n * np.log(2.0)  # log p = const - n v/2 - energy exp(-v)/2
            v = np.log(energy / n) + step  # around the best signal_var at this g
            log_weight.append(np.log(w) + one - 0.5 * n * v + 0.5 * energy * (1 - np.exp(-v)))
            self.mean.append(reference.ridge(K, y, g, K_new, F, F_new, weight))
            latent = reference.kriging_variance(K, K_new, prior, g, 1.0, F, F_new, weight)
            self.covariance.append(np.exp(v)[:, None, None] * latent)
            self.noise.append(g * np.exp(v))
        self.log_weight = np.array(log_weight)
        weight = np.exp(self.log_weight - self.log_weight.max())
        self.weight = weight / weight.sum()
        self.mean, self.covariance, self.noise = map(np.array, (self.mean, self.covariance, self.noise))

    def moments(self, include_noise):
        by_x = self.weight.sum(axis=1)
        mean = by_x @ self.mean
        gap = self.mean - mean
        covariance = np.einsum("xv,xvij->ij", self.weight, self.covariance) + (gap.T * by_x) @ gap
        return mean, covariance + include_noise * np.eye(len(mean)) * (self.weight * self.noise).sum()

    def distribution(self, values, include_noise):
        variance = np.einsum("xvii->xvi", self.covariance) + include_noise * self.noise[..., None]
        z = (values - self.mean[:, None]) / np.sqrt(variance)
        return np.einsum("xv,xvi->i", self.weight, norm.cdf(z))


def dense_log_density(K, y, F, g, signal_var, weight):
    if F is None:
        return reference.log_evidence(K, y, g * signal_var, signal_var, weight)
    return reference.reml(K, y, F, g * signal_var, signal_var, weight)


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("noise", [0.1, 1.0, 5.0])
def test_averaged_predictions_equal_a_dense_quadrature_over_both_variances(fit_intercept, noise):
    X, y = smooth(n=10, noise=noise, seed=2)
    gp = clone(AVERAGED).set_params(fit_intercept=fit_intercept).fit(X, y)
    x_range = np.log(ratio_range(gp._fitted.solution.rotated))
    brute = BruteForce(X, y, X_NEW, x_range, fit_intercept)
    for include_noise in (True, False):
        mean, covariance = brute.moments(include_noise)
        assert close(gp.predict(X_NEW), mean, 1e-6)
        assert close(gp.predict(X_NEW, return_cov=True, include_noise=include_noise)[1], covariance, 1e-6)
        std = gp.predict(X_NEW, return_std=True, include_noise=include_noise)[1]
        assert close(std**2, np.diag(covariance), 1e-6)
        for coverage in (0.5, 0.95, 0.999):
            ends = gp.predict_interval(X_NEW, coverage, include_noise)
            for end, tail in zip(ends, (0.5 - coverage / 2, 0.5 + coverage / 2), strict=True):
                np.testing.assert_allclose(brute.distribution(end, include_noise), tail, atol=1e-6)


def test_the_posterior_of_the_variances_equals_a_dense_quadrature():
    X, y = smooth(n=10, seed=2)
    gp = clone(AVERAGED).fit(X, y)
    brute = BruteForce(X, y, X_NEW, np.log(ratio_range(gp._fitted.solution.rotated)), True)
    (p,) = gp.variance_posterior_
    nu = p.degrees_of_freedom
    assert nu == 9.0
    np.testing.assert_allclose(p.weight.sum(), 1.0)
    # E[nu/chi2] is nu/(nu-2)
    np.testing.assert_allclose(
        p.weight @ p.noise_variance * nu / (nu - 2), (brute.weight * brute.noise).sum(), rtol=1e-6
    )


def test_nodes_are_few_and_none_is_negligible():
    X, Y = smooth(n=60, m=3)
    for p in clone(AVERAGED).fit(X, Y).variance_posterior_:
        assert len(p.weight) < 150
        assert p.weight.min() > 1e-10
        assert (np.diff(p.noise_ratio) > 0).all()
        np.testing.assert_allclose(p.noise_variance, p.noise_ratio * p.signal_variance)


def test_averaging_needs_no_further_decomposition_and_keeps_the_maximised_variances():
    X, y = smooth(n=30)
    maximised, averaged = (
        SpectralGPRegressor(RBF(1.0), optimizer=None, inference=i).fit(X, y)
        for i in ("maximize", "integrate")
    )
    assert averaged.n_decompositions_ == maximised.n_decompositions_
    assert averaged.kernel_ == maximised.kernel_
    assert averaged.noise_variance_ == maximised.noise_variance_
    assert averaged.tuning_ == maximised.tuning_
    assert maximised.variance_posterior_ is None
    assert averaged.variance_uncertainty() == maximised.variance_uncertainty()


def test_the_averaged_mean_is_that_of_its_coefficients():
    X, y = smooth(n=30)
    gp = clone(AVERAGED).fit(X, y)
    expected = reference.rbf(X_NEW, X) @ gp.alpha_ + gp.beta_[0]
    np.testing.assert_allclose(gp.predict(X_NEW), expected)
    (p,) = gp.variance_posterior_
    at_nodes = [
        reference.ridge(reference.rbf(X), y, g, reference.rbf(X_NEW, X), np.ones((30, 1)), np.ones((3, 1)))
        for g in p.noise_ratio
    ]
    assert close(gp.predict(X_NEW), p.weight @ at_nodes)


def test_averaged_intervals_are_wider_for_few_rows_and_the_same_for_many():
    wider = []
    for n in (8, 600):
        X, y = smooth(n=n, noise=0.5)
        width = [
            np.ptp(clone(model).fit(X, y).predict_interval(X), axis=0).mean() for model in (GP, AVERAGED)
        ]
        wider.append(width[1] / width[0])
    assert wider[0] > 1.1
    assert abs(wider[1] - 1.0) < 0.01


def test_maximised_intervals_are_normal():
    X, Y = smooth(n=30, m=2)
    gp = clone(GP).fit(X, Y)
    for include_noise in (True, False):
        mean, std = gp.predict(X_NEW, return_std=True, include_noise=include_noise)
        ends = gp.predict_interval(X_NEW, 0.8, include_noise)
        np.testing.assert_allclose(ends, norm(mean, std).interval(0.8), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_each_output_is_averaged_as_it_is_alone():
    X, Y = smooth(n=25, m=3)
    Y[:, 1] = 4.0
    gp = clone(AVERAGED).fit(X, Y)
    std, cov = (gp.predict(X_NEW, **{kind: True})[1] for kind in ("return_std", "return_cov"))
    ends = np.array(gp.predict_interval(X_NEW))
    assert (std.shape, cov.shape, ends.shape) == ((3, 3), (3, 3, 3), (2, 3, 3))
    np.testing.assert_allclose(std**2, np.einsum("iim->im", cov), rtol=1e-10)
    for j in range(3):
        alone = clone(AVERAGED).fit(X, Y[:, j])
        mean_alone, std_alone = alone.predict(X_NEW, return_std=True)
        np.testing.assert_allclose(gp.predict(X_NEW)[:, j], mean_alone, rtol=1e-8)
        np.testing.assert_allclose(std[:, j], std_alone, rtol=1e-8)
        np.testing.assert_allclose(ends[..., j], alone.predict_interval(X_NEW), rtol=1e-8)


def test_averaged_predictions_move_with_location_and_units_of_the_targets():
    X, y = smooth(n=20)
    plain, moved = clone(AVERAGED).fit(X, y), clone(AVERAGED).fit(X, 100.0 * y - 7.0)
    np.testing.assert_allclose(moved.predict(X_NEW), 100.0 * plain.predict(X_NEW) - 7.0, rtol=1e-8)
    ends = np.array(plain.predict_interval(X_NEW))
    np.testing.assert_allclose(moved.predict_interval(X_NEW), 100.0 * ends - 7.0, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_averaging_does_not_mind_extreme_units(scale):
    X, y = smooth(n=20)
    plain, scaled = (np.array(clone(AVERAGED).fit(X, a * y).predict_interval(X_NEW)) for a in (1.0, scale))
    assert close(scaled / scale, plain)


def test_averaged_predictions_with_weights_equal_a_dense_quadrature():
    X, y = smooth(n=10, seed=2)
    weight = np.random.default_rng(0).uniform(0.3, 1.0, 10)
    gp = clone(AVERAGED).fit(X, y, sample_weight=weight)
    brute = BruteForce(X, y, X_NEW, np.log(ratio_range(gp._fitted.solution.rotated)), True, weight)
    mean, covariance = brute.moments(True)
    assert close(gp.predict(X_NEW), mean, 1e-6)
    assert close(gp.predict(X_NEW, return_cov=True)[1], covariance, 1e-6)
    np.testing.assert_allclose(brute.distribution(gp.predict_interval(X_NEW)[0], True), 0.025, atol=1e-6)


def test_rows_of_weight_zero_have_no_part_in_the_average():
    X, y = smooth(n=20)
    weight = np.ones(20)
    weight[::4] = 0
    weighted, without = clone(AVERAGED).fit(X, y, weight), clone(AVERAGED).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(weighted.predict_interval(X_NEW), without.predict_interval(X_NEW), rtol=1e-8)


def test_a_precomputed_kernel_gives_the_averages_of_the_kernel():
    X, y = smooth(n=20)
    plain = clone(AVERAGED).fit(X, y)
    given = clone(AVERAGED).set_params(kernel="precomputed").fit(reference.rbf(X), y)
    K_new, diagonal = reference.rbf(X_NEW, X), np.ones(3)
    ends = given.predict_interval(K_new, K_test_diag=diagonal)
    np.testing.assert_allclose(ends, plain.predict_interval(X_NEW), rtol=1e-6)


def test_a_factor_of_the_kernel_gives_the_averages_and_the_uncertainty_of_the_kernel():
    X, y = smooth(n=60, p=1, noise=0.5)
    dense, factor = (clone(AVERAGED).set_params(method=method).fit(X, y) for method in ("exact", "low_rank"))
    new = X_NEW[:, :1]
    ends = np.array([model.predict_interval(new) for model in (dense, factor)])
    # certified is the log evidence, to 0.01: intervals follow to a few thousandths
    np.testing.assert_allclose(ends[1], ends[0], rtol=5e-3)
    (exact,), (approximate,) = (model.variance_uncertainty() for model in (dense, factor))
    np.testing.assert_allclose(intervals(approximate), intervals(exact), rtol=0.01)


def test_samples_have_the_moments_and_the_quantiles_of_the_mixture():
    X, y = smooth(n=12)
    gp = clone(AVERAGED).fit(X, y)
    draws = gp.sample_y(X_NEW, 40_000, random_state=0)
    assert draws.shape == (3, 40_000)
    mean, cov = gp.predict(X_NEW, return_cov=True)
    size = np.sqrt(np.diag(cov))
    assert (np.abs(draws.mean(axis=1) - mean) < 0.03 * size).all()
    assert (np.abs(np.cov(draws) - cov) < 0.06 * np.outer(size, size)).all()
    lower, upper = gp.predict_interval(X_NEW, 0.9)
    inside = (lower[:, None] < draws) & (draws < upper[:, None])
    np.testing.assert_allclose(inside.mean(axis=1), 0.9, atol=0.01)


def test_samples_of_several_outputs_come_in_scikit_learns_shape_and_repeat_with_the_seed():
    X, Y = smooth(n=12, m=2)
    gp = clone(AVERAGED).fit(X, Y)
    draws = gp.sample_y(X_NEW, 5, random_state=3)
    assert draws.shape == (3, 2, 5)
    np.testing.assert_array_equal(draws, gp.sample_y(X_NEW, 5, random_state=3))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows_give_finite_intervals_even_where_the_variance_is_infinite(n):
    X, y = smooth(n=n)
    with pytest.warns(UndeterminedVarianceWarning, match="finite" if n > 1 else "infinite"):
        gp = clone(AVERAGED).fit(X, y)
    mean, std = gp.predict(X_NEW, return_std=True)
    cov = gp.predict(X_NEW, return_cov=True)[1]
    assert np.isfinite(mean).all()
    assert np.isfinite(gp.predict_interval(X_NEW)).all() == (n > 1)
    assert not np.isnan(cov).any()
    assert (std == np.inf).all()
    if n > 1:
        assert np.isfinite(gp.sample_y(X_NEW, 4)).all()


def test_constant_targets_are_predicted_with_unknown_spread():
    X, _ = smooth(n=10)
    with pytest.warns(UndeterminedVarianceWarning, match="bound the variances"):
        gp = clone(AVERAGED).fit(X, np.full(10, 3.0))
    mean, std = gp.predict(X_NEW, return_std=True)
    np.testing.assert_allclose(mean, 3.0)
    np.testing.assert_array_equal(std, np.inf)
    np.testing.assert_array_equal(gp.predict_interval(X_NEW), np.array([[-np.inf], [np.inf]]) * np.ones(3))


@pytest.mark.parametrize(
    "K", [np.zeros((15, 15)), np.eye(15), np.ones((15, 15))], ids=["zero", "white", "ones"]
)
def test_kernels_without_information_are_averaged_without_complaint(K):
    y = noise_only(15)[1]
    gp = SpectralGPRegressor("precomputed", inference="integrate").fit(K, y)
    lower, upper = gp.predict_interval(K[:3], K_test_diag=np.diag(K)[:3])
    assert np.isfinite([lower, upper]).all()
    assert (lower < upper).all()


def test_data_without_noise_are_averaged_close_to_interpolation():
    X, y = fine_line()
    with pytest.warns(NoiseResolutionWarning):
        gp = clone(AVERAGED).fit(X, y)
    lower, upper = gp.predict_interval(X, include_noise=False)
    np.testing.assert_allclose(gp.predict(X), y, atol=1e-5)
    assert np.isfinite([lower, upper]).all()
    assert (upper - lower < 1e-4).all()


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")  # as they should
@pytest.mark.parametrize("noise", [(0.5, 5.0), (0.02, 0.05), (0.01, 1e3)])
@pytest.mark.parametrize("signal", [(0.1, 10.0), (1e-4, 1e4)])
def test_bounds_of_the_variances_are_part_of_the_prior(noise, signal):
    X, y = smooth(n=20)
    kernel = ConstantKernel(1.0, signal) * RBF(1.0) + WhiteKernel(0.1, noise)
    gp = SpectralGPRegressor(kernel, optimizer=None, inference="integrate").fit(X, y)
    (p,) = gp.variance_posterior_
    for values, (low, high) in ((p.noise_variance, noise), (p.signal_variance, signal)):
        assert values.min() >= low * (1 - 1e-9)
        assert values.max() <= high * (1 + 1e-9)
    # brute force: a grid in both logarithms, the prior 1/signal_var flat in log g is flat in both of them
    edges = (np.linspace(*np.log(bounds), 401) for bounds in (noise, signal))
    log_noise, log_signal = (0.5 * (edge[1:] + edge[:-1]) for edge in edges)
    b, l = (np.exp(v).ravel() for v in np.meshgrid(log_noise, log_signal))
    log_density = gp.log_evidence_at(b, l)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    assert p.weight @ np.log(p.noise_variance) == pytest.approx(weight @ np.log(b), abs=5e-3)
    assert p.weight @ np.log(p.signal_variance) == pytest.approx(weight @ np.log(l), abs=2e-2)
    assert p.weight @ p.noise_variance == pytest.approx(weight @ b, rel=5e-3)


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
def test_a_wide_range_where_nothing_changes_takes_few_nodes(monkeypatch):
    X, y = smooth(n=30)
    kernel = ConstantKernel(1.0, (1e-200, 1e5)) * RBF(1.0, "fixed") + WhiteKernel(1.0, (1e-5, 1e250))
    gp = SpectralGPRegressor(kernel, inference="integrate").fit(X, 1e100 * y)  # ratios of 1e195 and more
    (narrow,) = gp.variance_posterior_
    monkeypatch.setattr(averaging, "_FLAT_PANEL_WIDTH", 2.0)
    again = clone(gp).fit(X, 1e100 * y)
    (wide,) = again.variance_posterior_
    assert len(narrow.weight) < 0.4 * len(wide.weight)
    for name in ("noise_ratio", "noise_variance", "signal_variance"):
        means = [p.weight @ np.log(getattr(p, name)) for p in (narrow, wide)]
        assert means[0] == pytest.approx(means[1], rel=1e-9)
    assert gp._fitted.averaged.log_evidence == pytest.approx(again._fitted.averaged.log_evidence, rel=1e-12)


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")  # one row is all
def test_the_quadrature_is_capped_whatever_the_weights():
    X, y = smooth(n=9)
    weight = 10.0 ** np.array([-150, 150, 0, 0, -300, 100, -50, 0, 0])
    gp = clone(AVERAGED).fit(X, y, weight)
    assert len(gp.variance_posterior_[0].weight) <= 2 * 4096
    rough = _quadrature(lambda x: np.sin(1e9 * x)[:, None], np.linspace(0.0, 50.0, 26), 1e12)
    assert len(rough[0]) <= 3 * 4096


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"criterion": "gcv"}, "needs criterion='evidence', got 'gcv'"),
        ({"priors": {"noise_variance": t(3)}}, "cannot be combined with others"),
        ({"kernel": RBF(1.0) + WhiteKernel(0.1, "fixed")}, "fixes the noise variance at 0.1"),
        ({"kernel": ConstantKernel(2.0, "fixed") * RBF(1.0)}, "fixes the signal variance at 2"),
        ({"inference": "average"}, "'inference' parameter"),
    ],
)
def test_what_cannot_be_averaged_over_is_refused(change, message):
    X, y = smooth(n=10)
    with pytest.raises(ValueError, match=message):
        clone(AVERAGED).set_params(**change).fit(X, y)


def test_empty_priors_do_not_hinder_averaging():
    X, y = smooth(n=10)
    clone(AVERAGED).set_params(priors={}).fit(X, y)


def test_a_mixture_cannot_be_converted_to_scikit_learn():
    X, y = smooth(n=10)
    with pytest.raises(ValueError, match="Fit with inference='maximize'"):
        clone(AVERAGED).fit(X, y).to_sklearn()


def test_refitting_with_the_other_inference_forgets_the_average():
    X, y = smooth(n=20)
    gp = clone(AVERAGED).fit(X, y).set_params(inference="maximize").fit(X, y)
    np.testing.assert_array_equal(gp.predict_interval(X_NEW), clone(GP).fit(X, y).predict_interval(X_NEW))


def test_a_single_component_has_the_quantiles_of_student_t():
    mixture = StudentMixture(np.array([[1.0], [-2.0]]), np.array([[2.0], [0.5]]), np.ones(1), 4.0)
    for probability in (1e-6, 0.2, 0.999):
        np.testing.assert_allclose(
            mixture.quantile(probability), t(4.0, [1.0, -2.0], [2.0, 0.5]).ppf(probability)
        )


def test_quantiles_solve_the_distribution_function_of_components_far_apart():
    location, scale = np.array([[-100.0, 0.0, 5.0]]), np.array([[0.01, 3.0, 1e-6]])
    weight, nu = np.array([0.3, 0.5, 0.2]), 3.0
    mixture = StudentMixture(location, scale, weight, nu)
    for probability in (0.01, 0.29999, 0.3001, 0.6, 0.95, 0.9999):
        (y,) = mixture.quantile(probability)
        reached = weight @ t(nu, location[0], scale[0]).cdf(y)
        np.testing.assert_allclose(reached, probability, atol=1e-8)


@pytest.mark.slow
def test_averaged_intervals_cover_what_they_promise_and_maximised_ones_less():
    rng, n, n_new = np.random.default_rng(0), 15, 60
    covered = {"maximize": [], "integrate": []}
    for _ in range(120):
        X = rng.uniform(0, 5, (n + n_new, 1))
        f = rng.multivariate_normal(
            np.zeros(n + n_new), reference.rbf(X), method="eigh", check_valid="ignore"
        )
        y = f + rng.normal(0, 0.5, n + n_new)
        for inference, inside in covered.items():
            gp = clone(GP).set_params(inference=inference).fit(X[:n], y[:n])
            lower, upper = gp.predict_interval(X[n:])
            inside.append(np.mean((lower < y[n:]) & (y[n:] < upper)))
    rate = {inference: np.mean(inside) for inference, inside in covered.items()}
    assert 0.93 < rate["integrate"] < 0.97
    assert rate["maximize"] < rate["integrate"] - 0.01


@pytest.mark.parametrize("dof", [3.0, 8.0, np.inf])
def test_the_density_of_a_mixture_is_the_slope_of_its_distribution(dof):
    mixture = StudentMixture(np.array([[1.0, -2.0]]), np.array([[2.0, 0.5]]), np.array([0.3, 0.7]), dof)
    h = 1e-5
    for y in (-2.5, 0.0, 1.7):
        ahead, behind = (mixture._distribution(np.array([y + step]))[0] for step in (h, -h))
        assert mixture._density(np.array([y]))[0] == pytest.approx((ahead - behind) / (2 * h), rel=1e-8)


def test_bounds_that_hold_nothing_change_nothing():
    X, y = smooth(n=25)
    kernel = ConstantKernel(1.0, (1e-6, 1e6)) * RBF(1.0) + WhiteKernel(0.1, (1e-6, 1e6))
    (bounded,) = SpectralGPRegressor(kernel, optimizer=None).fit(X, y).variance_uncertainty()
    (free,) = clone(GP).fit(X, y).variance_uncertainty()
    assert 0 < free.noise_se < np.inf
    names = "noise_se", "signal_se", "correlation"
    assert [getattr(bounded, name) for name in names] == pytest.approx([getattr(free, n) for n in names])


@pytest.mark.filterwarnings("error")
def test_an_information_is_inverted_where_products_of_its_entries_are_beyond_all_numbers():
    noise, signal, correlation = _invert(np.array([[14.0, 1.4e-299], [1.4e-299, 2.3e-315]]))
    assert noise == pytest.approx(14.0**-0.5)
    assert signal == pytest.approx(2.3e-315**-0.5, rel=1e-3)  # a number of few digits
    assert correlation == pytest.approx(0.0, abs=1e-100)
    assert _invert(np.array([[1.0, 2.0], [2.0, 3.0]])) == (np.inf, np.inf, 0.0)
    assert _invert(np.array([[-1.0, 0.0], [0.0, 3.0]])) == (np.inf, np.inf, 0.0)
    A = np.array([[2.0, -0.7], [-0.7, 0.5]])
    covariance = np.linalg.inv(A)
    std = np.sqrt(np.diag(covariance))
    assert _invert(A) == pytest.approx([*std, covariance[0, 1] / std.prod()])
