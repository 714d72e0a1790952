"""The normal nearest to a posterior, beside a search over all normals and beside its own conditions."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import close
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skspectral import SpectralGPClassifier
from skspectral.inference import nearest
from skspectral.inference.approximate import WithLargestCurvature, laplace
from skspectral.inference.nearest import NearestNormal, nearest_normal
from skspectral.inference.observations import observe
from skspectral.likelihoods import Bernoulli
from skspectral.linalg.curved import DensePrior, FactorPrior
from skspectral.models import classifier

POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def problem(n=30, scale=20.0, seed=0, weight=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    y = (np.sin(2.0 * X[:, 0]) + 0.3 * rng.logistic(size=n) > 0).astype(float)
    return RBF(1.0)(X) + 1e-3 * np.eye(n), scale, observe(Bernoulli(), y, weight)


def fitted(K, scale, observations, **settings):
    return laplace(DensePrior(K.copy(), scale), observations, integrated=False, **settings)


def lower_bound(mean, V, K, y, constant):
    """Return E_q log p(y|f) - KL(q || N(0, K)), naively."""
    f = constant + mean[:, None] + np.sqrt(np.diag(V))[:, None] * POINTS
    expected = (log_expit((2.0 * y[:, None] - 1.0) * f) @ WEIGHTS).sum()
    trace, quadratic = np.trace(np.linalg.solve(K, V)), mean @ np.linalg.solve(K, mean)
    log_dets = np.linalg.slogdet(K)[1] - np.linalg.slogdet(V)[1]
    return expected - 0.5 * (trace + quadratic - len(y) + log_dets)


def test_no_other_normal_is_nearer():
    K, scale, observations = problem(n=4)
    found = nearest_normal(fitted(K, scale, observations, has_constant=False))
    y, upper, n = observations.y, np.tril_indices(4), 4

    def negative(x):
        L = np.zeros((n, n))
        L[upper] = x[n:]
        return -lower_bound(x[:n], L @ L.T + 1e-12 * np.eye(n), scale * K, y, 0.0)

    best = min(
        (minimize(negative, np.concatenate([np.zeros(n), start * np.eye(n)[upper]])) for start in (1.0, 3.0)),
        key=lambda result: result.fun,
    )
    assert found.mode.psi == pytest.approx(-best.fun, abs=2e-3)
    assert close(found.mode.KA[:, 0], best.x[:n], 0.05)


@pytest.mark.parametrize("has_constant", [True, False])
@pytest.mark.parametrize(
    ("scale", "tolerance"),
    [
        (1.0, 1e-3),
        (20.0, 1e-3),
        (1000.0, 0.05),
    ],  # 32 nodes resolve little of a normal twenty times as wide as p
)
def test_duals_and_curvatures_are_averages_over_the_normal_itself(
    scale, tolerance, has_constant, monkeypatch
):
    monkeypatch.setattr(nearest, "_GAIN", 1e-9)
    monkeypatch.setattr(nearest, "_MAX_STEPS", 2000)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 30)
    K, scale, observations = problem(scale=scale, weight=weight)
    mode = fitted(K, scale, observations, has_constant=has_constant)
    found = nearest_normal(mode)
    assert close(found.mode.constants, mode.mode.constants, 1e-14)
    V = np.linalg.inv(np.linalg.inv(scale * K) + np.diag(found.curved.W))
    p = expit(found.mode.F + np.sqrt(np.diag(V))[:, None] * POINTS)
    assert close(found.mode.A[:, 0], weight * (observations.y - p @ WEIGHTS), tolerance)
    assert close(found.curved.W, weight * ((p * (1.0 - p)) @ WEIGHTS), tolerance)
    assert close(found.mode.KA, scale * K @ found.mode.A, 1e-10)


@pytest.mark.parametrize("scale", [1.0, 20.0, 1000.0])
def test_its_bound_is_that_of_the_definition_and_above_that_of_other_curvatures(scale):
    K, scale, observations = problem(scale=scale)
    mode = fitted(K, scale, observations)
    found, constant = nearest_normal(mode), mode.mode.constants[0]

    def bound(of, W):
        V = np.linalg.inv(np.linalg.inv(scale * K) + np.diag(W))
        return lower_bound(of.mode.KA[:, 0], V, scale * K, observations.y, constant)

    assert found.mode.psi == pytest.approx(bound(found, found.curved.W), abs=1e-6)
    for W in (mode.curved.W, np.full(30, 0.25), found.curved.W):
        assert found.mode.psi >= bound(mode, W)


def test_little_prior_variance_leaves_the_normal_of_laplace():
    K, scale, observations = problem(scale=1e-4)
    mode = fitted(K, scale, observations)
    found = nearest_normal(mode)
    assert close(found.mode.F, mode.mode.F, 1e-3)
    assert close(found.curved.W, mode.curved.W, 1e-3)


def test_matrix_and_factor_have_the_same_nearest_normal():
    K, scale, observations = problem()
    dense = NearestNormal(fitted(K, scale, observations))
    Phi = np.linalg.cholesky(K)
    factor = NearestNormal(laplace(FactorPrior(Phi, scale), observations, integrated=False))
    assert close(dense.mean(K[:5]), factor.mean(Phi[:5]), 1e-6)
    diagonal = K.diagonal()[:5]
    assert close(dense.variance(K[:5], diagonal), factor.variance(Phi[:5], diagonal), 1e-6)


def test_labels_are_the_most_probable_ones_and_decisions_those_of_the_mode():
    X, y = make_moons(120, noise=0.3, random_state=0)
    model = SpectralGPClassifier(ConstantKernel(30.0) * RBF(0.6), optimizer=None).fit(X, y)
    new = np.random.default_rng(0).uniform(-2.0, 3.0, (300, 2))
    assert np.array_equal(model.predict(new), model.predict_proba(new).argmax(axis=1))
    mean, _ = model.latent_mean_and_variance(new)
    decision = model.decision_function(new)
    assert close(decision, model._latent.fit.approximation.mean(model._latent._cross(new))[:, 0], 1e-12)
    assert np.abs(mean).mean() > np.abs(decision).mean()  # the mean of a skewed posterior is beyond its mode


def test_where_the_nearest_normal_costs_too_much_the_mode_stays(monkeypatch):
    X, y = make_moons(60, noise=0.3, random_state=0)
    model = SpectralGPClassifier(RBF(1.0), optimizer=None)
    assert isinstance(model.fit(X, y)._latent.spread, NearestNormal)
    monkeypatch.setattr(classifier, "_MANY", 59)
    assert isinstance(model.fit(X, y)._latent.spread, WithLargestCurvature)
    model.set_params(method="low_rank", rank=20)
    assert isinstance(model.fit(X, y)._latent.spread, NearestNormal)


# -- the steps towards it


def steps_for(monkeypatch, *bounds):
    """Return the lengths of steps whose bounds are given, the first that of the start, and the end."""
    bounds, lengths, starts = iter(bounds), [], []

    class Scripted:
        observations = SimpleNamespace(largest_curvature=0.25, weight=np.array([1.0, 2.0]))

        def __init__(self, prior, observations, constants):
            assert (prior, observations, constants) == ("prior", "observations", "constants")

        def at(self, b, W):
            starts.append((b, W))
            here = SimpleNamespace(bound=next(bounds), curved=f"curved {len(starts)}")
            here.A, here.KA = np.zeros(2), np.full(2, here.bound)
            here.towards_averages = lambda length: lengths.append(length) or ("b", "W")
            return here

    monkeypatch.setattr(nearest, "_Problem", Scripted)
    monkeypatch.setattr(nearest, "replace", lambda approximation, mode: (approximation, mode))
    mode = SimpleNamespace(
        KA=np.array([[3.0], [5.0]]), A=np.array([[0.1], [0.2]]), constants="constants", n_iter=9
    )
    approximation = SimpleNamespace(
        prior="prior", observations="observations", mode=mode, with_curvature=lambda curved: curved
    )
    curved, end = nearest_normal(approximation)
    b, W = starts[0]
    np.testing.assert_array_equal(W, [0.25, 0.5])  # as curved as it may be anywhere
    assert b == pytest.approx([0.25 * 3.0 + 0.1, 0.5 * 5.0 + 0.2])
    assert (end.constants, end.n_iter, end.psi) == ("constants", 9, end.KA[0, 0])
    return lengths, end.psi, curved


def test_whole_steps_are_made_until_they_gain_next_to_nothing(monkeypatch):
    lengths, bound, curved = steps_for(monkeypatch, 0.0, 1.0, 1.002, 1.0029)
    assert (lengths, bound, curved) == ([1.0] * 3, 1.0029, "curved 4")
    assert steps_for(monkeypatch, 0.0, 1.0, 1.0011, 1.0011 + 1e-9)[0] == [1.0] * 3


def test_steps_that_gain_nothing_are_halved_and_those_after_them_doubled(monkeypatch):
    ups_and_downs = (0.0, -1.0, 0.2, 0.2, 0.1, 0.3, 0.4, 0.5, 0.5 + 1e-9)
    lengths, bound, _ = steps_for(monkeypatch, *ups_and_downs)
    assert lengths == [1.0, 0.5, 1.0, 0.5, 0.25, 0.5, 1.0, 1.0]
    assert bound == 0.5 + 1e-9


@pytest.mark.parametrize(("gain", "n_steps"), [(0.6e-3, 3), (0.4e-3, 2)])
def test_what_a_short_step_must_gain_is_less(monkeypatch, gain, n_steps):
    lengths, *_ = steps_for(monkeypatch, 0.0, -1.0, gain, gain + 1e-9)
    assert len(lengths) == n_steps


def test_steps_are_halved_down_to_a_thousandth(monkeypatch):
    lengths, bound, curved = steps_for(monkeypatch, *[0.0] * 20)
    assert lengths == [0.5**k for k in range(10)]
    assert (bound, curved) == (0.0, "curved 1")


def test_no_more_than_eighty_steps_are_made(monkeypatch):
    assert len(steps_for(monkeypatch, *np.arange(200.0))[0]) == 80


def test_steps_lead_a_part_of_the_way_to_the_averages():
    b, W, first, curvature, KA = np.random.default_rng(0).normal(size=(5, 4))
    normal = nearest._Normal(b, W, None, None, KA, first, curvature, 0.0)
    for length in (0.0, 0.3, 1.0):
        new_b, new_W = normal.towards_averages(length)
        assert close(new_W, (1.0 - length) * W + length * curvature, 1e-12)
        assert close(new_b, (1.0 - length) * b + length * (curvature * KA + first), 1e-12)
