"""Every likelihood against its definition: derivatives by differences, averages by dense integration."""

import copy
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from skspectral.likelihoods import (
    Bernoulli,
    Categorical,
    Derivatives,
    Gaussian,
    Huber,
    Laplace,
    Likelihood,
    Poisson,
    StudentT,
    make_likelihood,
    quadrature,
)
from skspectral.likelihoods.location_scale import LocationScale
from skspectral.likelihoods.student_t import _digamma_gap

LEARN_DOF = {"dof_bounds": (0.5, 100.0)}
NOISES = {
    "gaussian": Gaussian(noise_var=0.49),
    "student_t": StudentT(scale=0.7, dof=4.0, **LEARN_DOF),
    "cauchy": StudentT(scale=1.3, dof=1.0),
    "student_t30": StudentT(scale=0.2, dof=30.0, **LEARN_DOF),
    "laplace": Laplace(scale=0.7),
    "laplace_sharp": Laplace(scale=1.3, smoothing=0.05),
    "huber": Huber(scale=0.7),
    "huber_loss": Huber(scale=1.3, corner=0.0),
    "huber_low": Huber(scale=0.7, threshold=0.3, corner=1.0),
}
CLASSES = {"logistic": Bernoulli(), "probit": Bernoulli(link="probit")}
SCALAR = {**NOISES, **CLASSES, "poisson": Poisson()}
ALL = {**SCALAR, "categorical": Categorical()}

each_noise = pytest.mark.parametrize("name", NOISES)
each_scalar = pytest.mark.parametrize("name", SCALAR)
each = pytest.mark.parametrize("name", ALL)


def targets(name, rng, n=40):
    """Return targets that the likelihood can produce, and latent values around them."""
    if name in CLASSES:
        return rng.integers(0, 2, n).astype(float), 3.0 * rng.normal(size=n)
    if name == "poisson":
        return rng.integers(0, 30, n).astype(float), 2.0 + rng.normal(size=n)
    return 5.0 + 2.0 * rng.normal(size=n), 5.0 + rng.normal(size=n)


def slope(function, x, h=1e-3):
    """Central difference of fourth order."""
    near, far = function(x + h) - function(x - h), function(x + 2 * h) - function(x - 2 * h)
    return (8 * near - far) / (12 * h)


def smooth_points(likelihood, y, f):
    """Drop the points of Huber's loss within a difference of its corners, where H'' or H''' jumps."""
    if not isinstance(likelihood, Huber):
        return y, f
    distance = np.abs(np.abs(y - f) / likelihood.scale - np.array(likelihood._arc)[:, None]).min(axis=0)
    keep = (distance > 0.01) & (np.abs(y - f) > 0.01)
    return y[keep], f[keep]


def dense(function, mean, sd, breaks=()):
    """Return the integral of function(f) N(f; mean, sd^2) by Gauss-Legendre on many panels."""
    points, weights = np.polynomial.legendre.leggauss(30)
    edges = np.linspace(mean - 40 * sd, mean + 40 * sd, 120)
    edges = np.unique(np.concatenate([edges, np.clip(breaks, edges[0], edges[-1])]))
    middle, half = 0.5 * (edges[1:] + edges[:-1])[:, None], 0.5 * np.diff(edges)[:, None]
    f = middle + half * points
    return np.sum(half * weights * function(f) * stats.norm.pdf(f, mean, sd))


def breaks_around(y, scale):
    """Panels that resolve a noise of the given scale around y, its tip and Huber's corners included."""
    unit = np.concatenate([np.linspace(-40, 40, 161), np.linspace(-2, 2, 161), [0.255, 0.345, 0.6]])
    unit = np.concatenate([unit, 1.345 * np.array([0.85, 1.0, 1.15]), -1.345 * np.array([0.85, 1.0, 1.15])])
    return y + scale * unit


# ---------------------------------------------------------------------- the density


def test_log_densities_are_those_of_scipy(rng):
    y, f = rng.normal(size=30), rng.normal(size=30)
    expected = {
        Gaussian(0.3): stats.norm.logpdf(y, f, np.sqrt(0.3)),
        StudentT(0.3, dof=3.5): stats.t.logpdf(y, 3.5, f, 0.3),
        Laplace(0.3, smoothing=1e-9): stats.laplace.logpdf(y, f, 0.3),
        Laplace(0.3, smoothing=1.0): stats.hypsecant.logpdf(y, f, 0.3),
        Laplace(0.3, smoothing=2.0): stats.logistic.logpdf(y, f, 0.3),
    }
    for likelihood, values in expected.items():
        assert np.allclose(likelihood.log_density(y, f), values, rtol=1e-10, atol=1e-8), likelihood
    counts = rng.integers(0, 200, 30)
    assert np.allclose(Poisson().log_density(counts, 5 * f), stats.poisson.logpmf(counts, np.exp(5 * f)))
    classes = rng.integers(0, 2, 30)
    assert np.allclose(Bernoulli().log_density(classes, f), stats.bernoulli.logpmf(classes, special.expit(f)))
    probit = Bernoulli(link="probit").log_density(classes, f)
    assert np.allclose(probit, stats.bernoulli.logpmf(classes, special.ndtr(f)))


@pytest.mark.parametrize("threshold", [0.2, 1.345, 5.0])
def test_without_a_rounded_corner_the_loss_is_hubers(threshold):
    y, scale = np.linspace(-20, 20, 401), 1.7
    log_p = Huber(scale, threshold, corner=0.0).log_density(y, 0.5)
    loss = special.huber(threshold, (y - 0.5) / scale)
    assert np.allclose(log_p[0] - log_p, loss - loss[0], atol=1e-12)


@pytest.mark.parametrize("corner", [0.15, 0.6, 1.0])
def test_a_rounded_corner_moves_the_loss_by_no_more_than_stated(corner):
    r, k = np.linspace(0, 6, 2001), 1.345
    gap = Huber(1.0, k, corner).loss(r) - special.huber(k, r)
    assert np.allclose(gap[r < k * (1 - corner)], 0, atol=1e-15)
    assert gap[-1] == pytest.approx(-(0.5 - 4 / np.pi**2) * (corner * k) ** 2, rel=1e-9)
    assert np.all(np.diff(gap) <= 1e-14)
    assert corner > 0.15 or abs(gap[-1]) < 0.004


@each_noise
@pytest.mark.parametrize("f", [0.0, -3.0])
def test_densities_of_numbers_integrate_to_one(name, f):
    likelihood = NOISES[name]
    points, weights = np.polynomial.legendre.leggauss(30)
    edges = np.sort(
        np.concatenate([breaks_around(f, likelihood.noise_scale), f + np.geomspace(60, 1e9, 300)])
    )
    edges = np.concatenate([2 * f - edges[:0:-1], edges])
    edges = np.unique(np.concatenate([edges, f + f - edges]))
    middle, half = 0.5 * (edges[1:] + edges[:-1])[:, None], 0.5 * np.diff(edges)[:, None]
    total = np.sum(half * weights * np.exp(likelihood.log_density(middle + half * points, f)))
    assert total == pytest.approx(1.0, abs=2e-9 if name == "cauchy" else 1e-11)


@pytest.mark.parametrize("f", [-5.0, 0.0, 3.0, 7.0])
def test_probabilities_of_counts_and_classes_sum_to_one(f):
    counts = np.arange(3000.0)
    assert np.exp(Poisson().log_density(counts, f)).sum() == pytest.approx(1.0, rel=1e-12)
    for bernoulli in CLASSES.values():
        assert np.exp(bernoulli.log_density(np.array([0, 1]), f)).sum() == pytest.approx(1.0, rel=1e-14)
    latent = np.tile([f, 1.0, -2.0], (3, 1))
    assert np.exp(Categorical().log_density([0, 1, 2], latent)).sum() == pytest.approx(1.0, rel=1e-14)


@each_scalar
def test_shapes_broadcast(name, rng):
    y, f = targets(name, rng, 12)
    likelihood = SCALAR[name]
    table = likelihood.log_density(y[:, None], f[:5])
    assert table.shape == (12, 5)
    assert table.dtype == np.float64
    assert np.allclose(table[:, 2], likelihood.log_density(y, np.full(12, f[2])), rtol=1e-14)
    parts = likelihood.derivatives(y[:, None], f[:5])
    alone = likelihood.derivatives(y, np.full(12, f[2]))
    for field in ("first", "second", "third", "curvature"):
        assert getattr(parts, field).shape == (12, 5)
        assert np.allclose(getattr(parts, field)[:, 2], getattr(alone, field), rtol=1e-13, atol=1e-300)
    by_theta = likelihood.parameter_derivatives(y[:, None], f[:5])
    for field in ("value", "first", "second"):
        assert getattr(by_theta, field).shape == (len(likelihood.names), 12, 5)


# ---------------------------------------------------------------------- derivatives


@each_scalar
@given(seed=st.integers(0, 10**6))
def test_derivatives_by_f_are_differences(name, seed):
    likelihood = SCALAR[name]
    y, f = smooth_points(likelihood, *targets(name, np.random.default_rng(seed)))
    parts = likelihood.derivatives(y, f)
    h = 2e-4 if name == "laplace_sharp" else 1e-3
    below = [
        lambda f: likelihood.log_density(y, f),
        lambda f: likelihood.derivatives(y, f).first,
        lambda f: likelihood.derivatives(y, f).second,
    ]
    for value, function in zip((parts.first, parts.second, parts.third), below, strict=True):
        size = 1.0 + np.abs(value).max() + np.abs(function(f)).max()
        assert np.allclose(value, slope(function, f, h), rtol=1e-7, atol=1e-8 * size)
    assert np.array_equal(parts.curvature, -parts.second)


@each_scalar
@given(seed=st.integers(0, 10**6), shift=st.floats(-1.0, 1.0))
def test_derivatives_by_parameters_are_differences(name, seed, shift):
    likelihood = SCALAR[name].with_theta(SCALAR[name].theta + shift)
    y, f = smooth_points(likelihood, *targets(name, np.random.default_rng(seed)))
    parts = likelihood.parameter_derivatives(y, f)
    h = 2e-4 if name == "laplace_sharp" else 1e-3
    functions = {
        "value": lambda l: l.log_density(y, f),
        "first": lambda l: l.derivatives(y, f).first,
        "second": lambda l: l.derivatives(y, f).second,
    }
    for i, unit in enumerate(np.eye(len(likelihood.names))):
        for field, function in functions.items():

            def along(t, unit=unit, function=function):
                return function(likelihood.with_theta(likelihood.theta + t * unit))

            expected = slope(along, 0.0, h)
            size = 1.0 + np.abs(expected).max()
            assert np.allclose(getattr(parts, field)[i], expected, rtol=1e-7, atol=1e-8 * size), field


def test_many_degrees_of_freedom_are_not_lost_in_rounding():
    """Below and above the change to the series; the derivative by log dof falls like 1/dof."""
    y = np.array([0.3, 2.0])
    values = []
    for dof in (999.0, 1001.0, 1e7):
        t = StudentT(scale=1.0, dof=dof, dof_bounds=(1.0, 1e9))
        values.append(t.parameter_derivatives(y, 0.0).value[1] * dof)
    limit = (1 + 2 * y**2 - y**4) / 4  # the first correction of the normal is minus this, divided by dof
    assert np.allclose(values[2], limit, rtol=1e-5)
    assert np.allclose(values[0], values[1], rtol=2e-5)


def test_the_series_of_many_degrees_of_freedom_continues_the_formula():
    gap = special.digamma(501.0) - special.digamma(500.5) - 1 / 1001.0
    assert _digamma_gap(1001.0) == pytest.approx(gap, rel=1e-7)
    assert _digamma_gap(4.0) == pytest.approx(special.digamma(2.5) - special.digamma(2.0) - 0.25, rel=1e-14)


@each_scalar
def test_curvature_is_positive_exactly_where_log_concave(name):
    likelihood = SCALAR[name]
    f = np.linspace(-30, 30, 601)
    for y in (0.0, 1.0):
        curvature = likelihood.derivatives(y, f).curvature
        assert likelihood.is_log_concave == bool(np.all(curvature >= 0))
        assert np.all(likelihood.step_curvature(y, f) >= 0)


@each_noise
@given(seed=st.integers(0, 10**6))
def test_the_quadratic_of_a_step_lies_below_the_log_density(name, seed):
    likelihood, rng = NOISES[name], np.random.default_rng(seed)
    f0, f = 3 * rng.standard_cauchy(200), 3 * rng.standard_cauchy(200)
    f0[:3] = [1.0, 1.0 + 1e-12, 1.0 - 1e-6]
    first, weight = likelihood.derivatives(1.0, f0).first, likelihood.step_curvature(1.0, f0)
    linear, square = first * (f - f0), 0.5 * weight * (f - f0) ** 2
    start, end = likelihood.log_density(1.0, f0), likelihood.log_density(1.0, f)
    rounding = 1e-12 * (1 + np.abs(start) + np.abs(linear) + square)
    assert np.all(end >= start + linear - square - rounding)
    assert np.allclose(weight * (1.0 - f0), first, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [*CLASSES, "poisson"])
def test_without_a_better_bound_steps_use_the_curvature(name, rng):
    y, f = targets(name, rng)
    likelihood = SCALAR[name]
    assert np.array_equal(likelihood.step_curvature(y, f), likelihood.derivatives(y, f).curvature)


def test_steps_of_a_likelihood_of_ones_own_never_use_negative_curvature():
    class Wavy(Likelihood):
        def derivatives(self, y, f):
            return Derivatives(np.cos(f), -np.sin(f), -np.cos(f))

    f = np.linspace(-5, 5, 11)
    assert np.array_equal(Wavy().step_curvature(0.0, f), np.maximum(np.sin(f), 0.0))


def laplace_evidence(likelihood, y, K):
    """Return the mode of p(y|f) N(f; 0, K), its covariance and Laplace's log evidence, by dense algebra."""
    f, n = np.zeros(len(y)), len(y)
    for step in range(400):
        parts = likelihood.derivatives(y, f)
        W = likelihood.step_curvature(y, f) if step < 200 else parts.curvature
        previous, f = f, K @ np.linalg.solve(np.eye(n) + W[:, None] * K, W * f + parts.first)
        if step > 200 and np.abs(f - previous).max() < 1e-14:
            break
    W = likelihood.derivatives(y, f).curvature
    B = np.eye(n) + W[:, None] * K
    psi = likelihood.log_density(y, f).sum() - 0.5 * f @ np.linalg.solve(K, f)
    return f, K @ np.linalg.inv(B), psi - 0.5 * np.linalg.slogdet(B)[1]


@pytest.mark.parametrize("name", ["gaussian", "student_t", "laplace", "huber"])
def test_derivatives_by_parameters_give_the_gradient_of_laplaces_evidence(name):
    """dL/de = sum d log p/de + 1/2 sum V_ii d^3 log p/(df^2 de) + t'V d^2 log p/(df de)."""
    rng = np.random.default_rng(8)
    x = np.linspace(0, 3, 10)
    K = 2.0 * np.exp(-0.5 * (x[:, None] - x) ** 2) + 1e-4 * np.eye(10)
    y = np.sin(2 * x) + 0.4 * rng.standard_t(3, size=10)
    likelihood = NOISES[name]
    f, V, _ = laplace_evidence(likelihood, y, K)
    by_theta, third = likelihood.parameter_derivatives(y, f), likelihood.derivatives(y, f).third
    t = 0.5 * np.diag(V) * third
    gradient = by_theta.value.sum(1) + 0.5 * by_theta.second @ np.diag(V) + by_theta.first @ (V @ t)
    for i, unit in enumerate(np.eye(len(likelihood.names))):

        def evidence(step, unit=unit):
            return laplace_evidence(likelihood.with_theta(likelihood.theta + step * unit), y, K)[2]

        assert gradient[i] == pytest.approx(slope(evidence, 0.0), rel=1e-7, abs=1e-8)


# ---------------------------------------------------------------------- y given a normal f

SDS = (0.0, 0.02, 0.2, 0.5, 0.9, 1.1, 3.0, 20.0)
AWAY = (0.0, 0.4, 1.0, 2.5, 6.0, 12.0, 40.0, 150.0)


@pytest.mark.slow
@each_noise
def test_noise_added_to_a_normal_against_dense_integration(name):
    likelihood = NOISES[name]
    scale, tolerance = likelihood.noise_scale, 2e-5 if name == "huber_loss" else 1e-6
    for sd in scale * np.array(SDS[1:]):
        for y in scale * np.array(AWAY):
            breaks = breaks_around(y, scale)
            density = dense(lambda f, y=y: np.exp(likelihood.log_density(y, f)), 0.0, sd, breaks)
            below = dense(lambda f, y=y: likelihood.cdf(-y, f), 0.0, sd, -breaks)
            if density > 1e-150:
                got = likelihood.predictive_log_density(y, 0.0, sd**2)
                assert got == pytest.approx(np.log(density), abs=tolerance)
                assert likelihood.predictive_cdf(-y, 0.0, sd**2) == pytest.approx(below, rel=tolerance)
            assert likelihood.predictive_cdf(y, 0.0, sd**2) == pytest.approx(1 - below, rel=tolerance)


@pytest.mark.parametrize("sd", SDS)
def test_the_general_sum_of_noise_and_normal_agrees_with_the_exact_one_for_normal_noise(sd):
    likelihood, y = Gaussian(1.0), np.linspace(-7, 7, 15)
    density = LocationScale.predictive_log_density(likelihood, y, 0.5, sd**2)
    assert np.allclose(density, likelihood.predictive_log_density(y, 0.5, sd**2), atol=1e-8)
    cdf = LocationScale.predictive_cdf(likelihood, y, 0.5, sd**2)
    assert np.allclose(cdf, likelihood.predictive_cdf(y, 0.5, sd**2), rtol=1e-8)
    quantile = LocationScale.predictive_quantile(likelihood, 0.1, y, sd**2)
    assert np.allclose(quantile, likelihood.predictive_quantile(0.1, y, sd**2), rtol=1e-8)


@each_noise
def test_distribution_functions_are_integrals_of_densities(name):
    likelihood = NOISES[name]
    points, weights = np.polynomial.legendre.leggauss(30)
    grid = np.unique(breaks_around(0.0, likelihood.noise_scale))
    middle, half = 0.5 * (grid[1:] + grid[:-1])[:, None], 0.5 * np.diff(grid)[:, None]
    mass = (half * weights * np.exp(likelihood.log_density(middle + half * points, 0.0))).sum(axis=1)
    assert np.allclose(np.diff(likelihood.cdf(grid, 0.0)), mass, rtol=1e-9, atol=1e-13)
    assert np.allclose(likelihood.cdf(grid, 0.0) + likelihood.cdf(-grid, 0.0), 1.0, atol=1e-14)
    far = -30.0 * likelihood.noise_scale  # the tail keeps its digits; here the log has the slope of a tail
    assert 0 < likelihood.cdf(far, 0.0) < 0.02


@pytest.mark.slow
@each_scalar
@given(
    mean=st.floats(-3.0, 3.0),
    sd=st.floats(0.01, 2.0),
    shift=st.floats(-1.0, 1.0),
)
def test_predictive_moments_against_dense_integration(name, mean, sd, shift):
    likelihood = SCALAR[name].with_theta(SCALAR[name].theta + shift)
    expected = dense(likelihood.conditional_mean, mean, sd)
    centre = float(likelihood.predictive_mean(mean, sd**2))
    assert centre == pytest.approx(expected, rel=1e-9, abs=1e-12)
    spread = likelihood.predictive_variance(mean, sd**2)
    within = likelihood.conditional_variance(mean + np.zeros(1))[0]
    if np.isinf(within):
        assert np.isinf(spread)
        return
    total = dense(
        lambda f: likelihood.conditional_variance(f) + (likelihood.conditional_mean(f) - centre) ** 2,
        mean,
        sd,
    )
    assert spread == pytest.approx(total, rel=1e-8)


@each_noise
def test_conditional_variance_is_the_integral_of_the_squared_residual(name):
    likelihood = NOISES[name]
    if name == "cauchy":
        assert np.all(np.isinf(likelihood.conditional_variance(np.zeros(3))))
        assert np.isinf(StudentT(1.0, dof=2.0).noise_variance())
        assert StudentT(1.0, dof=2.5).noise_variance() == pytest.approx(5.0)
        return
    points, weights = np.polynomial.legendre.leggauss(30)
    edges = np.concatenate(
        [np.unique(breaks_around(0.0, likelihood.noise_scale)), np.geomspace(60, 1e8, 400)]
    )
    edges = np.unique(np.abs(edges))
    middle, half = 0.5 * (edges[1:] + edges[:-1])[:, None], 0.5 * np.diff(edges)[:, None]
    y = middle + half * points
    variance = 2 * np.sum(half * weights * y**2 * np.exp(likelihood.log_density(y, 0.0)))
    assert np.allclose(likelihood.conditional_variance(np.zeros(2)), variance, rtol=1e-8)
    assert likelihood.conditional_variance(np.zeros(2)).shape == (2,)


@each_scalar
def test_quantiles_invert_the_distribution_function(name, rng):
    likelihood = SCALAR[name]
    level = np.array([0.01, 0.3, 0.5, 0.9, 0.999])[:, None]
    mean, var = rng.normal(size=6), np.array([0.0, 1e-4, 0.1, 0.5, 2.0, 100.0])
    y = likelihood.predictive_quantile(level, mean, var)
    assert y.shape == (5, 6)
    reached = likelihood.predictive_cdf(y, mean, var)
    if likelihood.is_discrete:
        assert np.all(reached >= level)
        assert np.all(likelihood.predictive_cdf(y - 1, mean, var) < level)
        assert np.array_equal(y, np.round(y))
    else:
        assert np.allclose(reached, np.broadcast_to(level, y.shape), rtol=1e-9)


def test_quantiles_without_uncertainty_are_those_of_scipy():
    level = np.array([0.001, 0.05, 0.5, 0.975, 0.9999])
    for likelihood, expected in {
        Gaussian(0.25): stats.norm.ppf(level, 3.0, 0.5),
        StudentT(0.5, dof=3.0): stats.t.ppf(level, 3.0, 3.0, 0.5),
        StudentT(0.5, dof=1.0): stats.cauchy.ppf(level, 3.0, 0.5),
        Laplace(0.5, smoothing=1.0): stats.hypsecant.ppf(level, 3.0, 0.5),
        Poisson(): stats.poisson.ppf(level, np.exp(3.0)),
        Bernoulli(): stats.bernoulli.ppf(level, special.expit(3.0)),
    }.items():
        assert np.allclose(likelihood.predictive_quantile(level, 3.0, 0.0), expected, rtol=1e-9), likelihood


@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60])
def test_quantiles_keep_their_digits_in_any_unit_even_without_a_variance(size):
    level, var = np.array([0.2, 0.6, 0.999]), 0.7
    for name in ("cauchy", "student_t", "huber"):
        unit, here = NOISES[name].in_units(1 / size), NOISES[name].predictive_quantile(level, 0.0, var)
        moved = unit.predictive_quantile(level, 0.0, var * size**2)
        assert np.allclose(moved / size, here, rtol=1e-11)


def test_an_outlier_far_in_a_light_tail_has_a_finite_log_density():
    y = np.array([1e3, -1e3])
    for likelihood in (Laplace(0.5), Huber(0.5), Gaussian(0.25), StudentT(0.5)):
        density = likelihood.predictive_log_density(y, np.zeros(2), np.full(2, 0.04))
        assert np.all(np.isfinite(density))
        assert density[0] == pytest.approx(density[1], rel=1e-12)
    exact = -1e3 / 0.5 + 0.5 * 0.04 / 0.25 + Laplace(0.5).log_density(1e3, 0.0) + 1e3 / 0.5
    assert Laplace(0.5).predictive_log_density(1e3, 0.0, 0.04) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("sd", [0.05, 0.5, 0.99, 1.01, 4.0, 30.0])
@pytest.mark.parametrize("mean", [0.0, -1.0, 4.0, -12.0, 40.0])
def test_class_probabilities_against_dense_integration(mean, sd):
    breaks = np.linspace(-30, 30, 301)
    P = Bernoulli().probabilities(np.array([mean]), np.array([sd**2]))
    assert P.shape == (1, 2)
    for c, q in enumerate((-1.0, 1.0)):
        expected = dense(lambda f, q=q: special.expit(q * f), mean, sd, breaks)
        assert P[0, c] == pytest.approx(expected, rel=1e-6, abs=0.0)
        assert Bernoulli().predictive_log_density(c, mean, sd**2) == pytest.approx(np.log(expected), abs=1e-6)
    probit = Bernoulli(link="probit")
    expected = dense(special.ndtr, mean, sd, breaks)
    assert probit.predictive_mean(mean, sd**2) == pytest.approx(expected, rel=1e-9, abs=0.0)
    other = dense(lambda f: special.ndtr(-f), mean, sd, breaks)
    assert np.exp(probit.predictive_log_density(0, mean, sd**2)) == pytest.approx(other, rel=1e-9, abs=0.0)


def test_distribution_functions_of_counts_and_classes_are_steps():
    y = np.array([-2.0, -0.5, 0.0, 0.7, 1.0, 5.3])
    p = special.ndtr(-0.4)
    assert np.allclose(Bernoulli(link="probit").cdf(y, 0.4), [0, 0, p, p, 1, 1])
    average = Bernoulli().probabilities(0.4, 2.0)[0]
    assert np.allclose(Bernoulli().predictive_cdf(y, 0.4, 2.0), [0, 0, average, average, 1, 1])
    assert np.allclose(Poisson().cdf(y, 0.4), stats.poisson.cdf(y, np.exp(0.4)))
    for var in (0.0, 4.0):
        steps = Poisson().predictive_cdf(y, 0.4, var)
        mass = np.exp(Poisson().predictive_log_density(np.arange(6.0), 0.4, var)).cumsum()
        assert np.allclose(steps, [0, 0, mass[0], mass[0], mass[1], mass[5]], rtol=2e-5)


@pytest.mark.parametrize("mean", [-2.0, 1.0, 6.0, 12.0])
@pytest.mark.parametrize("sd", [0.003, 0.1, 0.5, 2.0])
def test_counts_with_an_uncertain_rate_against_dense_integration(mean, sd):
    rate = np.exp(mean)
    for y in np.unique(np.round([0, 1, rate, rate * np.exp(sd), rate * np.exp(-1.5 * sd) + 3])):
        breaks = np.log(y + 1) + np.linspace(-20, 20, 401) / np.sqrt(y + 1)
        density = dense(lambda f, y=y: np.exp(Poisson().log_density(y, f)), mean, sd, breaks)
        below = dense(lambda f, y=y: Poisson().cdf(y, f), mean, sd, breaks)
        assert Poisson().predictive_cdf(y, mean, sd**2) == pytest.approx(below, abs=2e-9)
        if density > 1e-100:
            got = Poisson().predictive_log_density(y, mean, sd**2)
            assert got == pytest.approx(np.log(density), abs=1e-5)


@pytest.mark.slow
@each_scalar
def test_draws_follow_the_distribution(name):
    likelihood, n = SCALAR[name], 20000
    f = np.full(n, 0.3)
    draws = likelihood.sample(f, np.random.default_rng(5))
    assert draws.shape == (n,)
    assert draws.dtype == np.float64
    grid = likelihood.predictive_quantile(np.linspace(0.01, 0.99, 99), 0.3, 0.0)
    share = (draws[:, None] <= grid).mean(axis=0)
    assert np.abs(share - likelihood.cdf(grid, 0.3)).max() < 0.012  # Kolmogorov-Smirnov at about 0.6 %
    assert np.array_equal(draws, likelihood.sample(f, np.random.default_rng(5)))
    assert likelihood.sample(np.zeros((3, 2)), np.random.default_rng(0)).shape == (3, 2)


@pytest.mark.parametrize("smoothing", [0.5, 2.0, 6.0])
def test_draws_of_a_round_tip_have_the_variance(smoothing):
    likelihood = Laplace(1.0, smoothing=smoothing)
    draws = likelihood.sample(np.zeros(100_000), np.random.default_rng(4))
    assert np.var(draws) == pytest.approx(likelihood.noise_variance(), rel=0.02)


def test_draws_of_a_sharp_tip_do_not_underflow():
    r = Laplace(1.0, smoothing=1e-3).sample(np.zeros(20000), np.random.default_rng(1))
    assert np.all(np.isfinite(r))
    assert np.mean(np.abs(r)) == pytest.approx(1.0, abs=0.03)
    assert np.var(r) == pytest.approx(2.0, abs=0.15)


def test_draws_at_rates_beyond_what_generators_take():
    f = np.full(4000, 50.0)
    draws = Poisson().sample(f, np.random.default_rng(2))
    z = (draws / np.exp(50.0) - 1.0) * np.exp(25.0)
    assert np.std(z) == pytest.approx(1.0, abs=0.05)
    assert np.mean(z) == pytest.approx(0.0, abs=0.06)
    assert np.all(np.isfinite(Poisson().sample(np.array([1e3]), np.random.default_rng(2))))


# ---------------------------------------------------------------------- limits


def test_many_degrees_of_freedom_and_a_high_threshold_are_normal_noise(rng):
    y, f = rng.normal(size=20), rng.normal(size=20)
    normal = Gaussian(0.64)
    for likelihood in (StudentT(0.8, dof=1e9), Huber(0.8, threshold=30.0)):
        assert np.allclose(likelihood.log_density(y, f), normal.log_density(y, f), atol=1e-7)
        for field in ("first", "second", "third"):
            mine, exact = (getattr(l.derivatives(y, f), field) for l in (likelihood, normal))
            assert np.allclose(mine, exact, atol=1e-6)
        assert likelihood.noise_variance() == pytest.approx(1.0, rel=1e-6)
        for var in (0.1, 5.0):
            quantile = likelihood.predictive_quantile(0.9, f, var)
            assert np.allclose(quantile, normal.predictive_quantile(0.9, f, var), rtol=1e-6)


def test_a_low_threshold_and_a_sharp_tip_are_double_exponential_noise():
    y = np.linspace(-30, 30, 200)
    huber = Huber(0.01, threshold=0.01)  # decays over scale/threshold = 1
    laplace = Laplace(1.0, smoothing=1e-4)
    for likelihood in (huber, laplace):
        assert np.allclose(likelihood.log_density(y, 0.0), stats.laplace.logpdf(y), atol=2e-4)
        assert np.allclose(likelihood.cdf(y, 0.0), stats.laplace.cdf(y), rtol=3e-4)
        assert likelihood.conditional_variance(np.zeros(1))[0] == pytest.approx(2.0, rel=1e-3)
        assert likelihood.predictive_quantile(0.975, 0.0, 0.0) == pytest.approx(
            stats.laplace.ppf(0.975), rel=1e-3
        )


def test_two_classes_of_the_softmax_are_the_logistic_curve(rng):
    mean, var = rng.normal(size=(7, 2)) * 3, rng.uniform(0, 9, (7, 2))
    var[0] = 0.0
    binary = Bernoulli().probabilities(mean[:, 1] - mean[:, 0], var.sum(axis=1))
    assert np.allclose(Categorical().probabilities(mean, var), binary, atol=1e-7)
    y = np.array([0, 1, 1, 0, 1, 0, 0])
    assert np.allclose(
        Categorical().predictive_log_density(y, mean, var),
        Bernoulli().predictive_log_density(y, mean[:, 1] - mean[:, 0], var.sum(axis=1)),
        atol=1e-7,
    )


# ---------------------------------------------------------------------- extremes


@each_scalar
def test_extreme_latent_values_stay_finite(name):
    likelihood = SCALAR[name]
    f = np.array([-1e3, -800.0, -50.0, 0.0, 50.0, 699.0, 800.0, 1e3])
    for y in (0.0, 1.0):
        values = [likelihood.log_density(y, f), likelihood.step_curvature(y, f), likelihood.cdf(y, f)]
        parts = likelihood.derivatives(y, f)
        values += [parts.first, parts.second, parts.third]
        values += list(vars(likelihood.parameter_derivatives(y, f)).values())
        values += [likelihood.predictive_mean(f, 4.0), likelihood.predictive_log_density(y, f, 0.5)]
        assert all(np.all(np.isfinite(v)) for v in values)


def test_certain_classes_keep_their_digits():
    z = np.array([40.0, 300.0])
    for bernoulli in (Bernoulli(), Bernoulli(link="probit")):
        parts = bernoulli.derivatives(1.0, np.array([30.0]))
        assert parts.first > 0
        assert parts.curvature > 0
    parts = Bernoulli().derivatives(1.0, z)
    assert np.allclose(parts.first, np.exp(-z), rtol=1e-15)
    assert np.allclose(parts.curvature, np.exp(-z), rtol=1e-15)
    assert np.allclose(Bernoulli().log_density(0, z), -z)
    latent = np.array([[40.0, 0.0, 1.0], [0.0, 1e3, -1e3]])
    soft = Categorical().derivatives([0, 0], latent)
    assert soft.first[0, 0] == pytest.approx(np.exp(-40) + np.exp(-39), rel=1e-14, abs=0.0)
    assert soft.curvature()[0, 0, 0] == pytest.approx(np.exp(-40) + np.exp(-39), rel=1e-14, abs=0.0)
    assert np.allclose(
        Categorical().log_density([0, 2], latent), [-np.exp(-40) - np.exp(-39), -2e3], rtol=1e-14
    )
    assert np.allclose(soft.first[1], [1.0, -1.0, 0.0])


@pytest.mark.parametrize("x", [20.0, 100.0, 1e3])
def test_the_normal_curve_far_out_follows_its_series(x):
    """log Phi(-x) has derivatives x + 1/x - ..., -(1 - 1/x^2 + ...), 2/x^3 - ... of its argument."""
    parts = Bernoulli(link="probit").derivatives(1.0, np.array([-x]))
    assert parts.first[0] == pytest.approx(x + 1 / x - 2 / x**3 + 10 / x**5 - 74 / x**7, rel=1e-10)
    assert parts.second[0] == pytest.approx(-(1 - 1 / x**2 + 6 / x**4 - 50 / x**6 + 518 / x**8), rel=1e-8)
    third = 2 / x**3 - 24 / x**5 + 300 / x**7 - 4144 / x**9 + 63540 / x**11
    assert parts.third[0] == pytest.approx(third, rel=1e-5 if x < 50 else 1e-9)


def test_the_normal_curve_is_continuous_where_its_formula_changes():
    z = -5.0 + 1e-9 * np.array([-1.0, 1.0])
    parts = Bernoulli(link="probit").derivatives(np.ones(2), z)
    for field in ("first", "second", "third"):
        below, above = getattr(parts, field)
        assert below == pytest.approx(above, rel=1e-8)


@pytest.mark.parametrize("y", [1.0, 63.0, 64.0, 65.0, 1e6, 1e12])
def test_large_counts_keep_their_digits(y):
    """At f = log y it is minus the rest of Stirling's formula, without any cancellation."""
    rest = (
        0.5 * np.log(2 * np.pi * y) + 1 / (12 * y) - 1 / (360 * y**3) + 1 / (1260 * y**5) - 1 / (1680 * y**7)
    )
    expected = -1.0 if y == 1.0 else -rest
    assert Poisson().log_density(y, np.log(y)) == pytest.approx(expected, rel=1e-12)
    sd = 1 / np.sqrt(y)
    if y > 1e5:
        shifted = Poisson().log_density(y, np.log(y) + sd)
        assert shifted + rest == pytest.approx(-0.5, abs=2 * sd)


def test_wide_predictions_of_counts_are_finite_and_ordered():
    mean, var = np.array([-700.0, 0.0, 30.0, 600.0]), np.array([400.0, 100.0, 9.0, 1.0])
    low, high = (Poisson().predictive_quantile(level, mean, var) for level in (0.05, 0.95))
    assert np.all(np.isfinite(high))
    assert np.all(low <= high)
    assert low[0] == high[0] == 0.0
    assert np.allclose(np.log(high[2:]), mean[2:] + special.ndtri(0.95) * np.sqrt(var[2:]), rtol=1e-6)
    assert np.all(np.isfinite(Poisson().predictive_mean(np.array([1e3]), 1e3)))
    assert np.all(np.isfinite(Poisson().predictive_variance(np.array([1e3]), 1e3)))


# ---------------------------------------------------------------------- several classes


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_derivatives_of_the_softmax_are_differences(seed, C):
    rng = np.random.default_rng(seed)
    y, f = rng.integers(0, C, 8), 2 * rng.normal(size=(8, C))
    S = rng.normal(size=(8, C, C))
    S = S + S.transpose(0, 2, 1)
    parts, likelihood = Categorical().derivatives(y, f), Categorical()
    W = parts.curvature()
    third = parts.third_contracted(S)
    for c, unit in enumerate(np.eye(C)):
        value = slope(lambda t, u=unit: likelihood.log_density(y, f + t * u), 0.0)
        assert np.allclose(parts.first[:, c], value, atol=1e-9)
        bend = slope(lambda t, u=unit: likelihood.derivatives(y, f + t * u).first, 0.0)
        assert np.allclose(-W[:, c], bend, atol=1e-9)
        change = slope(
            lambda t, u=unit: -(S * likelihood.derivatives(y, f + t * u).curvature()).sum((1, 2)), 0.0
        )
        assert np.allclose(third[:, c], change, atol=1e-8)
    V = rng.normal(size=(8, C))
    assert np.allclose(parts.curvature_times(V), np.einsum("njk,nk->nj", W, V), atol=1e-14)
    assert np.allclose(likelihood.step_curvature(y, f), W)
    diagonal = S * np.eye(C)
    only = np.einsum("ncc->nc", S)
    assert np.allclose(parts.third_contracted(only), parts.third_contracted(diagonal), atol=1e-14)


def grid_average(mean, sd):
    """Return E softmax(f) of three independent normal values by trapezoidal rules, finer for wider ones."""
    z = [np.linspace(-8.0, 8.0, 33 + int(30 * s)) for s in sd]
    w = [np.exp(-0.5 * x**2) / np.exp(-0.5 * x**2).sum() for x in z]
    f = np.meshgrid(*(m + s * x for m, s, x in zip(mean, sd, z, strict=True)), indexing="ij")
    P = special.softmax(np.stack(f), axis=0)
    return np.einsum("cijk,i,j,k->c", P, *w, optimize=True)


@pytest.mark.parametrize("sd", [[0, 0, 0], [0.3, 0.5, 1], [0.1, 2, 0.1], [2, 2, 2], [8, 0.1, 1]])
@pytest.mark.parametrize("mean", [[0, 0, 0], [2, 0, -1], [0, 30, 28]])
def test_class_probabilities_against_a_dense_grid(mean, sd):
    expected = grid_average(mean, sd)
    mean, sd = np.array([mean], float), np.array([sd], float)
    assert np.allclose(Categorical().probabilities(mean, sd**2), expected, rtol=1e-6, atol=1e-8)
    sampled = Categorical().probabilities_of_correlated(mean, sd[..., None] * np.eye(3))
    assert np.allclose(sampled, expected, atol=1e-3)


def test_a_common_random_shift_changes_no_class_probability(rng):
    mean, var = 2 * rng.normal(size=(5, 4)), 3.0
    independent = Categorical().probabilities(mean, np.full((5, 1), var))
    assert np.allclose(independent, Categorical().probabilities(mean + 7.0, np.full((5, 4), var)), atol=1e-12)
    contrast = np.sqrt(var) * (np.eye(4) - 0.25)
    assert np.allclose(
        Categorical().probabilities_of_correlated(mean, np.tile(contrast, (5, 1, 1))), independent, atol=1e-3
    )


def test_correlated_latent_values_are_not_independent_ones():
    """Two classes that move together: their share of the third follows from one normal variable."""
    mean, sd = np.array([[1.0, 0.0, 0.5]]), 2.0
    root = sd * np.array([[[1.0], [1.0], [0.0]]])
    expected = [
        dense(lambda f, m=m: np.exp(m + f) / (np.exp(1.0 + f) + np.exp(f) + np.exp(0.5)), 0.0, sd)
        for m in (1.0, 0.0)
    ]
    got = Categorical().probabilities_of_correlated(mean, root)
    assert np.allclose(got[0], [*expected, 1 - sum(expected)], atol=1e-4)


def test_predictions_of_classes(rng):
    mean, var, y = rng.normal(size=(6, 3)), rng.uniform(0, 2, (6, 3)), np.array([0, 1, 2, 0, 1, 2])
    likelihood = Categorical()
    P = likelihood.probabilities(mean, var)
    assert np.allclose(P.sum(axis=1), 1.0)
    assert np.array_equal(likelihood.predictive_mean(mean, var), P)
    assert np.allclose(likelihood.predictive_variance(mean, var), P * (1 - P))
    assert np.allclose(
        likelihood.conditional_variance(mean), special.softmax(mean, 1) * (1 - special.softmax(mean, 1))
    )
    assert np.allclose(likelihood.predictive_log_density(y, mean, var), np.log(P[np.arange(6), y]))
    certain = likelihood.predictive_log_density(y, 500.0 * mean, np.zeros((6, 1)))
    assert np.allclose(certain, likelihood.log_density(y, 500.0 * mean), rtol=1e-8)
    far = likelihood.probabilities(np.array([[0.0, 1e3, -1e3]]), np.array([[1e4, 1e4, 0.0]]))
    assert np.allclose(far, [[0.0, 1.0, 0.0]], atol=1e-11)
    for refused in (likelihood.cdf, likelihood.predictive_quantile, likelihood.predictive_cdf):
        with pytest.raises(NotImplementedError, match="no order"):
            refused(0.5, *(mean, var)[: refused.__code__.co_argcount - 2])
    assert likelihood.probabilities(np.empty((0, 3)), np.empty((0, 3))).shape == (0, 3)
    assert likelihood.probabilities_of_correlated(np.empty((0, 3)), np.empty((0, 3, 2))).shape == (0, 3)


def test_draws_of_classes():
    f = np.tile([1.0, 0.0, -1.0], (20000, 1))
    draws = Categorical().sample(f, np.random.default_rng(3))
    assert np.allclose(np.bincount(draws) / 20000, special.softmax(f[0]), atol=0.01)


# ---------------------------------------------------------------------- parameters and targets


def test_theta_names_and_bounds():
    t = StudentT(scale=2.0, dof=5.0, scale_bounds=(0.1, 10.0), dof_bounds=(1, 50))
    assert t.names == ("scale", "dof")
    assert np.allclose(t.theta, np.log([2.0, 5.0]))
    assert np.allclose(t.bounds, np.log([[0.1, 10.0], [1.0, 50.0]]))
    other = t.with_theta(np.log([3.0, 7.0]))
    assert np.allclose([other.scale, other.dof], [3.0, 7.0])
    assert (other.scale_bounds, other.dof_bounds) == ((0.1, 10.0), (1.0, 50.0))
    assert (t.scale, t.dof) == (2.0, 5.0)
    fixed = StudentT(scale=2.0, scale_bounds="fixed")
    assert fixed.names == ()
    assert fixed.theta.shape == (0,)
    assert fixed.bounds.shape == (0, 2)
    assert fixed.with_theta([]) == fixed
    assert np.allclose(Gaussian(4.0).bounds, np.log([[4e-5, 4e5]]))
    assert Gaussian(4.0).names == ("noise_var",)
    assert Poisson().with_theta(np.empty(0)) == Poisson()


def test_default_bounds_stay_where_the_parameter_started():
    moved = Laplace(2.0).with_theta([np.log(50.0)])
    assert moved.scale == pytest.approx(50.0)
    assert np.allclose(moved.bounds, np.log([[2e-5, 2e5]]))


@each_noise
@given(seed=st.integers(0, 10**6), log_size=st.floats(-100, 100), location=st.floats(-5, 5))
def test_the_starting_scale_moves_with_the_targets(name, seed, log_size, location):
    y = np.random.default_rng(seed).standard_t(3, size=60)
    family = type(NOISES[name])
    base, size = family().starting(y), 10.0**log_size
    moved = family().starting(size * (y + location))
    assert moved.noise_scale == pytest.approx(size * base.noise_scale, rel=1e-6, abs=0.0)
    assert base.noise_scale == pytest.approx(1.4826 * np.median(np.abs(y - np.median(y))) / 3, rel=1e-9)
    assert np.allclose(np.diff(moved.bounds), np.diff(base.bounds))
    assert np.allclose(moved.bounds.mean(), moved.theta[0])


def test_a_starting_scale_exists_for_all_targets():
    assert Laplace().starting(np.array([1.0, 1.0, 1.0, 1.0, 5.0])).scale == pytest.approx(0.8 / 3)
    assert Huber().starting(np.full(4, -6.0)).scale == pytest.approx(2.0)
    assert Gaussian().starting(np.zeros(3)).noise_var == pytest.approx(1 / 9)
    two = np.column_stack([np.arange(9.0), 100.0 + np.arange(9.0)])
    assert StudentT().starting(two).scale == StudentT().starting(two[:, 0]).scale


def test_given_parameters_and_bounds_are_kept_at_the_start(rng):
    y = rng.normal(size=30)
    assert StudentT(scale=7.0).starting(y) == StudentT(scale=7.0)
    bounded = Laplace(scale_bounds=(5.0, 9.0)).starting(y)
    assert (bounded.scale, bounded.scale_bounds) == (5.0, (5.0, 9.0))
    assert StudentT(dof=9.0).starting(y).dof == 9.0
    for name in ("poisson", "bernoulli", "categorical"):
        assert make_likelihood(name).starting(y) == make_likelihood(name)


@pytest.mark.parametrize("name", [*CLASSES, "poisson", "gaussian"])
def test_the_starting_latent_value_balances_the_targets(name, rng):
    y = np.column_stack([targets(name, rng, 4000)[0], targets(name, rng, 4000)[0]])
    f = SCALAR[name].starting_latent(y)
    assert f.shape == (2,)
    pull = SCALAR[name].derivatives(y, f)
    assert np.allclose(pull.first.sum(axis=0) / pull.curvature.sum(axis=0), 0.0, atol=1e-3)


def test_starting_latent_values_at_the_edge():
    assert Poisson().starting_latent(np.zeros(10)) == pytest.approx(np.log(0.05))
    assert Bernoulli().starting_latent(np.ones(9)) == pytest.approx(np.log(9.5 / 0.5))
    assert StudentT(1.0).starting_latent(np.array([1.0, 2.0, 90.0])) == 2.0
    f = Categorical().starting_latent(np.array([0, 0, 0, 2]))
    assert f.sum() == pytest.approx(0.0)
    assert np.allclose(f - f[1], np.log([7.0, 1.0, 3.0]))
    assert Likelihood().starting_latent(np.zeros((4, 2))).shape == (2,)


@each_noise
def test_other_units_change_the_density_by_the_unit(name, rng):
    y, f = targets(name, rng)
    likelihood, unit = NOISES[name], 1e-3
    scaled = likelihood.in_units(unit)
    assert np.allclose(scaled.log_density(y / unit, f / unit), likelihood.log_density(y, f) + np.log(unit))
    power = 2 if name == "gaussian" else 1
    assert np.allclose(scaled.bounds[0], likelihood.bounds[0] - power * np.log(unit))
    assert likelihood.has_units
    assert not Poisson().has_units
    assert type(likelihood)().in_units(unit) == type(likelihood)()


@each
def test_likelihoods_are_values(name):
    likelihood = ALL[name]
    for twin in (pickle.loads(pickle.dumps(likelihood)), copy.deepcopy(likelihood), eval(repr(likelihood))):
        assert twin == likelihood
        assert hash(twin) == hash(likelihood)
    with pytest.raises(FrozenInstanceError):
        likelihood.scale = 3.0
    assert likelihood != (Poisson() if name != "poisson" else Bernoulli())


def test_parameters_are_part_of_the_value():
    assert Laplace(1.0) != Laplace(2.0)
    assert Laplace(1.0) == Laplace(np.float64(1.0))
    assert (
        repr(Laplace(np.float64(1.0), scale_bounds="fixed"))
        == "Laplace(scale=1.0, smoothing=0.5, scale_bounds='fixed')"
    )


def test_defaults():
    assert StudentT() == StudentT(None, 4.0, None, "fixed")
    assert Laplace() == Laplace(None, 0.5, None)
    assert Huber() == Huber(None, 1.345, 0.15, None)
    assert Bernoulli() == Bernoulli("logistic")


def test_likelihoods_by_name():
    names = ["student_t", "laplace", "huber", "poisson", "bernoulli", "categorical", "gaussian"]
    classes = [StudentT, Laplace, Huber, Poisson, Bernoulli, Categorical, Gaussian]
    for name, kind in zip(names, classes, strict=True):
        assert make_likelihood(name) == kind()
    mine = StudentT(dof=7.0)
    assert make_likelihood(mine) is mine
    for wrong in ("cauchy", StudentT, None):
        with pytest.raises(ValueError, match=r"one of \['bernoulli', .*got"):
            make_likelihood(wrong)


def test_what_a_likelihood_says_about_itself():
    assert [l for l, x in ALL.items() if not x.is_log_concave] == ["student_t", "cauchy", "student_t30"]
    assert {l for l, x in ALL.items() if x.is_discrete} == {"logistic", "probit", "poisson", "categorical"}
    assert {l for l, x in ALL.items() if x.is_joint} == {"categorical"}


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (Poisson(), [0.0, -2.0, 1.0], "negative target -2"),
        (Poisson(), [[0.0, 1.5]], "counts 0, 1, 2, ...; got 1.5"),
        (Bernoulli(), [0.0, 1.0, 2.0], "targets 0 and 1, got 2"),
        (Bernoulli(), [-1.0, 1.0], "targets 0 and 1, got -1"),
        (Categorical(), [0, 1, -1], "class numbers 0, 1, 2, ...; got -1"),
        (Categorical(), [0.0, 0.5], "class numbers 0, 1, 2, ...; got 0.5"),
    ],
)
def test_targets_that_cannot_be(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        likelihood.check_targets(y)


def test_targets_that_can_be():
    for likelihood in (Poisson(), Bernoulli(), StudentT(), Likelihood()):
        checked = likelihood.check_targets([0, 1])
        assert checked.dtype == np.float64
        assert checked.tolist() == [0.0, 1.0]
    assert StudentT().check_targets([-1.5]).tolist() == [-1.5]
    assert Categorical().check_targets([0.0, 2.0]).dtype == np.intp


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StudentT(scale=0.0), "scale must be a positive finite number, got 0.0"),
        (lambda: StudentT(scale="wide"), "scale must be a positive finite number, got 'wide'"),
        (lambda: StudentT(dof=np.inf), "dof must be a positive finite number, got inf"),
        (lambda: Gaussian(noise_var=-1.0), "noise_var must be a positive finite number"),
        (lambda: Laplace(smoothing=0.0), "smoothing must be a positive finite number"),
        (lambda: Huber(threshold=np.nan), "threshold must be a positive finite number"),
        (lambda: Huber(corner=1.5), "corner is a fraction of the threshold between 0 and 1, got 1.5"),
        (lambda: Huber(corner=-0.1), "corner is a fraction"),
        (lambda: Bernoulli(link="cauchit"), "link must be 'logistic' or 'probit', got 'cauchit'"),
        (
            lambda: Laplace(scale_bounds=(2.0, 1.0)),
            r"scale_bounds must be a pair 0 < low <= high.*\(2.0, 1.0\)",
        ),
        (lambda: Laplace(scale_bounds=(0.0, 1.0)), "scale_bounds must be a pair"),
        (lambda: Laplace(scale_bounds=3.0), "scale_bounds must be a pair"),
        (lambda: Laplace(scale_bounds="free"), "scale_bounds must be a pair"),
        (lambda: Laplace(scale_bounds="fixed"), "pass scale= too"),
        (lambda: StudentT(1.0).with_theta([0.0, 0.0]), r"shape \(2,\), but StudentT learns 1 parameter"),
        (lambda: Poisson().with_theta([0.0]), "Poisson learns 0"),
        (lambda: Laplace().log_density(0.0, 0.0), r"no scale yet. Pass scale=, or use starting\(y\)"),
        (lambda: Gaussian().theta, "no noise_var yet"),
        (lambda: Laplace(1.0).predictive_quantile(1.0, 0.0, 1.0), "strictly between 0 and 1"),
        (lambda: Gaussian(1.0).predictive_quantile(0.0, 0.0, 1.0), "strictly between 0 and 1"),
        (lambda: Bernoulli().predictive_quantile(-0.5, 0.0, 1.0), "strictly between 0 and 1"),
    ],
)
def test_parameters_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ---------------------------------------------------------------------- one's own


class Plain(Likelihood):
    """Normal noise of variance 1/4 that defines only what the base class asks for."""

    exact = Gaussian(0.25)

    def log_density(self, y, f):
        return self.exact.log_density(y, f)

    def derivatives(self, y, f):
        return self.exact.derivatives(y, f)

    def conditional_mean(self, f):
        return 2.0 * f + 1.0

    def conditional_variance(self, f):
        return np.full(np.shape(f), 0.25)

    def cdf(self, y, f):
        return self.exact.cdf(y, f)


def test_a_likelihood_of_ones_own_predicts():
    mean, var = np.array([[0.3, -2.0], [5.0, 1.0]]), np.array([[0.04, 0.01], [0.0, 0.09]])
    mine, exact = Plain(), Plain.exact
    assert np.allclose(mine.predictive_mean(mean, var), 2 * mean + 1)
    assert np.allclose(mine.predictive_variance(mean, var), 0.25 + 4 * var)
    assert np.allclose(
        mine.predictive_log_density(0.5, mean, var), exact.predictive_log_density(0.5, mean, var)
    )
    assert np.allclose(mine.predictive_cdf(0.5, mean, var), exact.predictive_cdf(0.5, mean, var))
    quantile = mine.predictive_quantile(0.2, mean, var)
    assert np.allclose(quantile, exact.predictive_quantile(0.2, mean, var), rtol=1e-9)
    assert mine.names == ()
    assert mine.parameter_derivatives(mean, mean).value.shape == (0, 2, 2)
    assert mine.starting(mean) is mine


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("log_density", (0.0, 0.0)),
        ("derivatives", (0.0, 0.0)),
        ("conditional_mean", (0.0,)),
        ("conditional_variance", (0.0,)),
        ("cdf", (0.0, 0.0)),
        ("sample", (0.0, None)),
        ("slopes_by", ("scale", 0.0, 0.0)),
    ],
)
def test_what_is_missing_is_named(method, arguments):
    with pytest.raises(NotImplementedError, match=rf"Likelihood must define {method}\("):
        getattr(Likelihood(), method)(*arguments)


# ---------------------------------------------------------------------- quadrature


def test_averages_in_blocks_change_nothing(monkeypatch, rng):
    mean, var, y = rng.normal(size=(9, 3)), rng.uniform(0, 9, (9, 3)), rng.normal(size=(9, 3))
    whole = [Laplace(1.0).predictive_log_density(y, mean, var), Categorical().probabilities(mean, var)]
    whole.append(Categorical().probabilities_of_correlated(mean, var[:, :, None]))
    monkeypatch.setattr(quadrature, "_BLOCK_ENTRIES", 100)
    monkeypatch.setattr("skspectral.likelihoods.softmax._BLOCK_ENTRIES", 100)
    parts = [Laplace(1.0).predictive_log_density(y, mean, var), Categorical().probabilities(mean, var)]
    parts.append(Categorical().probabilities_of_correlated(mean, var[:, :, None]))
    for a, b in zip(whole, parts, strict=True):
        assert np.allclose(a, b, rtol=1e-12)


def test_no_rows_give_no_predictions():
    none = np.empty(0)
    for likelihood in SCALAR.values():
        assert likelihood.predictive_quantile(0.5, none, none).shape == (0,)
        assert likelihood.predictive_log_density(none, none, none).shape == (0,)


def test_the_rule_of_the_normal_has_its_moments():
    rule = quadrature.normal_rule()
    assert rule.weights.sum() == pytest.approx(1.0, rel=1e-15)
    for power, moment in ((2, 1.0), (4, 3.0), (6, 15.0), (3, 0.0)):
        assert rule.weights @ rule.points**power == pytest.approx(moment, abs=1e-12)


def test_quantiles_are_found_however_far_they_lie():
    start = np.array([0.0, 1.0]), np.array([1e-3, 1e-3])
    found = quadrature.invert(lambda y: stats.norm.cdf(y, 1e6, 10.0), np.array([0.2, 0.9]), *start)
    assert np.allclose(found, stats.norm.ppf([0.2, 0.9], 1e6, 10.0), rtol=1e-12)
    below = quadrature.invert(lambda y: stats.norm.cdf(y, -1e6, 10.0), np.array([0.2, 0.9]), *start)
    assert np.allclose(below, stats.norm.ppf([0.2, 0.9], -1e6, 10.0), rtol=1e-12)


@pytest.mark.parametrize("limit", [0.0, 1.0, 7.0, 1000.0, 2.0**60])
@pytest.mark.parametrize("start", [0.3, 5.0, 1e5])
def test_whole_quantiles_are_the_smallest_that_reach_the_level(limit, start):
    found = quadrature.count_quantile(lambda k: (k >= limit) * 1.0, np.array([0.5]), np.array([start]))
    assert found[0] == (limit if limit < 2.0**53 else pytest.approx(limit, rel=2e-15))
