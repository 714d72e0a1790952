"""Relevance vectors and Laplacian processes, beside dense definitions."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import reference
from scipy import sparse
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import sigmoid_kernel

from skspectral import (
    LaplacianProcessRegressor,
    PredictionBandDisplay,
    RelevanceVectorClassifier,
    RelevanceVectorRegressor,
)
from skspectral.inference.absolute import least_absolute
from skspectral.inference.candidates import expand
from skspectral.inference.sparse import Ascent, maximise
from skspectral.inference.sparse_newton import Settling
from skspectral.inference.sparse_noise import KnownNoise, ProfiledNoise, TooLittleNoise
from skspectral.kernels.gram import PrecomputedGram
from skspectral.linalg import active as linalg_active
from skspectral.linalg.active import Active, FunctionValues
from skspectral.linalg.dictionary import Dictionary
from skspectral.linalg.directions import descent_direction, scoring_direction
from skspectral.linalg.growth import Growth
from skspectral.linalg.members import Members
from skspectral.linalg.rows import Rows
from skspectral.linalg.unpenalised import inverse_root

GAMMA = 1 / 9
STEPS = {"tol": 1e-6, "max_iter": 10_000}


def sinc(n, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-10, 10, (n, 1))
    return X, np.sinc(X[:, 0] / np.pi) + noise * rng.normal(size=n)


def kernel(X, Z=None):
    return np.exp(-GAMMA * (X - (X if Z is None else Z).T) ** 2)


X, y = sinc(80)
K = kernel(X)
ONES = np.ones((80, 1))


def restricted_inverse(C):
    """C^-1 outside of a constant."""
    C_inv = np.linalg.inv(C)
    h = C_inv.sum(axis=0)
    return C_inv - np.outer(h, h) / h.sum()


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 80)], ids=["plain", "weighted"])
def test_every_function_is_where_it_belongs(weight):
    model = RelevanceVectorRegressor(gamma=GAMMA).fit(X, y, weight)
    a, v = model.relevance_, model.prior_variance_
    prior = (K[:, a] * v) @ K[:, a].T
    evidence = reference.reml(prior, y, ONES, model.noise_variance_, 1.0, weight)
    assert model.log_marginal_likelihood_value_ == pytest.approx(evidence, abs=1e-8)
    P = restricted_inverse(reference.covariance(prior, model.noise_variance_, 1.0, weight))
    S, Q = np.einsum("ij,ij->j", K, P @ K), K.T @ P @ y
    np.testing.assert_allclose(Q[a] ** 2, S[a], rtol=1e-6)
    assert np.all(np.delete(Q**2 / S, a) < 1.0 + 1e-6)
    noise = np.diag(np.ones(80) if weight is None else 1 / weight)
    assert np.trace(P @ noise) == pytest.approx((P @ y) @ noise @ (P @ y), rel=1e-6)


def test_predictions_are_those_of_the_dense_model():
    model = RelevanceVectorRegressor(gamma=GAMMA).fit(X, y)
    a, new = model.relevance_, np.array([[0.3], [9.0]])
    prior, cross = (K[:, a] * model.prior_variance_) @ K[:, a].T, kernel(new, X[a]) * model.prior_variance_
    P = restricted_inverse(prior + model.noise_variance_ * np.eye(80))
    C_inv = np.linalg.inv(prior + model.noise_variance_ * np.eye(80))
    k = cross @ K[:, a].T
    constant = C_inv.sum(axis=0) @ y / C_inv.sum()
    mean, std = model.predict(new, return_std=True, include_noise=False)
    np.testing.assert_allclose(mean, constant + k @ P @ y, rtol=1e-8)
    u = 1.0 - k @ C_inv.sum(axis=0)
    variance = np.sum(cross * kernel(new, X[a]), axis=1) - np.sum(k @ C_inv * k, axis=1) + u**2 / C_inv.sum()
    np.testing.assert_allclose(std**2, variance, rtol=1e-8)
    observed = model.predict(new, return_std=True)[1]
    np.testing.assert_allclose(observed**2, variance + model.noise_variance_, rtol=1e-8)


def test_the_evidence_never_falls():
    Phi = K / np.linalg.norm(K, axis=0)
    trace = []
    fit = maximise(FunctionValues(Phi, y), ProfiledNoise(80), **STEPS, trace=trace)
    assert fit.converged
    assert len(trace) > 10
    assert np.diff(trace).max() < 1e-9 * abs(trace[-1])


@pytest.mark.parametrize("seed", [3, 5, 13, 16, 18, 33])
@pytest.mark.parametrize("noise", [1e-3, 1e-4])
def test_the_evidence_does_not_fall_where_there_is_next_to_no_noise(seed, noise):
    grid = np.linspace(0, 10, 100)
    Phi = np.exp(-0.3 * (grid[:, None] - grid) ** 2)
    target = grid * np.sin(grid) + noise * np.random.default_rng(seed).normal(size=100)
    values, trace = FunctionValues(Phi / np.linalg.norm(Phi, axis=0), target / target.std()), []
    assert maximise(values, ProfiledNoise(100), **STEPS, trace=trace).converged
    # Functions that the others nearly span once seemed to explain all that is left, and models that carried
    # on by products of the functions knew their evidence to 1e-5, or to a third for a noise of 1e-4.
    assert np.diff(trace).max() < 1e-8 * abs(trace[-1])


def test_rows_that_are_alike_do_not_take_turns():
    rng = np.random.default_rng(10)
    rows = rng.normal(size=(40, 3))
    rows = np.vstack([rows, rows[:20] + 1e-7 * rng.normal(size=(20, 3))])
    targets = np.sin(2 * rows[:, 0]) + 10 ** rng.uniform(-5, -1) * rng.normal(size=60)
    # each relevant by rounding alone where the other is in the model: more than 3000 steps
    model = RelevanceVectorRegressor(gamma=10 ** rng.uniform(-2, 0), fit_intercept=False).fit(rows, targets)
    assert model.n_iter_ < 1000


@pytest.mark.parametrize(("sine", "is_missing"), [(1.0, True), (1e-4, False)])
def test_no_function_is_missing_by_rounding_alone(sine, is_missing):
    Phi = np.array([[1.0, np.sqrt(1.0 - sine**2)], [0.0, sine]])
    values = FunctionValues(Phi, np.array([0.0, np.sqrt(1.0 + 5e-7)]))
    ascent = Ascent(Active(values, np.array([1e18, 0.0])), KnownNoise(1.0), 1e-8, 10)
    # relevant by 5e-7: of phi'C^-1 phi = 1e-8 rounding may be as much
    assert (ascent._most_missing() is not None) == is_missing


def test_a_narrow_valley_is_followed_to_its_end():
    rng = np.random.default_rng(90)
    n, p = int(rng.integers(10, 140)), int(rng.integers(1, 6))
    rows = rng.normal(size=(n, p))
    noise = 10 ** rng.uniform(-1.5, 0.5)
    targets = np.sin(2 * rows[:, 0]) + (rows[:, -1] > 0) + noise * rng.normal(size=n)
    gamma = 10 ** rng.uniform(-1.5, 0.7) / p
    model = RelevanceVectorRegressor("sigmoid", gamma=gamma, fit_intercept=False).fit(rows, targets)
    Phi = sigmoid_kernel(rows, model.relevance_vectors_, gamma=gamma)
    C_inv = np.linalg.inv((Phi * model.prior_variance_) @ Phi.T + model.noise_variance_ * np.eye(n))
    # a Newton step of 68 in one entry, and cut to 3 it led up
    np.testing.assert_allclose((Phi.T @ C_inv @ targets) ** 2, np.diag(Phi.T @ C_inv @ Phi), rtol=1e-6)


@pytest.mark.parametrize("noise", [ProfiledNoise(80), KnownNoise(0.02)], ids=["profiled", "known"])
def test_derivatives_by_log_prior_variances(noise):
    rng = np.random.default_rng(1)
    values = FunctionValues((K / np.linalg.norm(K, axis=0))[:, ::9], y)
    x = rng.normal(size=len(values))

    def at(x):
        return Settling(Active(values, np.exp(x)).alone(), noise, 1e-6)

    h, eye = 1e-5, np.eye(len(x))
    value = [(noise.value(at(x + h * e).members), noise.value(at(x - h * e).members)) for e in eye]
    slopes = [(at(x + h * e).gradient(), at(x - h * e).gradient()) for e in eye]
    here = at(x)
    V = here.members.among()
    np.testing.assert_allclose(here.gradient(), [(p - m) / (2 * h) for p, m in value], rtol=1e-5, atol=1e-6)
    H = [(p - m) / (2 * h) for p, m in slopes]
    np.testing.assert_allclose(here.curvature(here.gradient(), V, V**2), H, rtol=1e-5, atol=1e-6)


def outlook_of_others(active, noise):
    outside = np.where(active.d > 0, 0.0, active.S)
    return noise.outlook(active, outside, active.Q, active.rest, None)


@pytest.mark.parametrize("noise", [ProfiledNoise(80), KnownNoise(0.02)], ids=["profiled", "known"])
def test_what_one_function_would_do_is_what_all_would(noise):
    values = FunctionValues(K / np.linalg.norm(K, axis=0), y)
    active = Active(values, np.where(np.arange(80) == 40, 20.0, 0.0))
    S, Q = np.append(active.S, [0.0, -1e-14, np.inf, 1.0]), np.append(active.Q, [1.0, 1.0, 1.0, 50.0])
    outlook = noise.outlook(active, S, Q, active.rest, None)
    ones = [noise.prospect(active, float(s), float(q)) for s, q in zip(S, Q, strict=True)]
    assert {gain > 0.0 for _, gain, _ in ones} == {True, False}
    np.testing.assert_allclose(
        ones, np.column_stack([outlook.d, outlook.gain, outlook.relevance]), 1e-12, 1e-14
    )


@pytest.mark.parametrize("noise", [ProfiledNoise(80), KnownNoise(0.02)], ids=["profiled", "known"])
def test_the_best_prior_variance_of_one_function(noise):
    values = FunctionValues(K / np.linalg.norm(K, axis=0), y)
    d = np.zeros(80)
    d[[3, 40]] = 5.0, 20.0
    ascent = Ascent(Active(values, d), noise, 1e-6, 10)
    alone, start = ascent.active.alone(), noise.value(ascent.active)
    others = outlook_of_others(ascent.active, noise)
    members = noise.outlook(alone, *alone.left_out(), alone.d)
    np.testing.assert_array_equal(noise.belong(alone), members.relevance > 1.0)
    for j, best, gain in [(20, others.d[20], others.gain[20]), (3, members.d[0], members.gain[0])]:

        def value(d_j, j=j):
            return noise.value(Active(values, np.where(np.arange(80) == j, d_j, d)))

        assert value(best) == pytest.approx(start - gain, abs=1e-8)
        assert all(value(best) <= value(best * f) + 1e-10 for f in (0.5, 0.99, 1.01, 2.0))


@pytest.mark.parametrize("cached", [0, 2**17], ids=["all products", "one column at a time"])
def test_functions_that_enter_are_as_if_computed_afresh(monkeypatch, cached):
    monkeypatch.setattr("skspectral.linalg.active._CACHED", cached)
    values = FunctionValues(K / np.linalg.norm(K, axis=0), y)
    active = Active(values, np.where(np.arange(80) == 33, 20.0, 0.0))
    growth = Growth(active)
    for j in (5, 60, 6):
        growth.enter(j, 100.0)
    fresh = Active(values, growth.d)
    np.testing.assert_array_equal(fresh.members, [5, 6, 33, 60])
    others = np.delete(np.arange(80), fresh.members)
    np.testing.assert_allclose(growth.S[others], fresh.S[others], atol=1e-13)
    np.testing.assert_allclose(growth.Q[others], fresh.Q[others], atol=1e-12)
    assert np.isinf(growth.S[fresh.members]).all()
    assert growth.log_det == pytest.approx(fresh.log_det, rel=1e-12)
    assert growth.rest == pytest.approx(fresh.rest, rel=1e-12)
    assert growth.best() == others[np.argmax(fresh.Q[others] ** 2 / fresh.S[others])]
    assert len(active.members) == 1  # as it was, until
    growth.finish()
    np.testing.assert_array_equal(active.d, fresh.d)
    assert active.log_det == pytest.approx(fresh.log_det, rel=1e-12)


@pytest.mark.parametrize(
    ("known", "is_fresh"),
    [([], False), ([33], False), ([70, 12, 33], False), (np.arange(10, 80, 5), True)],
    ids=["none", "one", "some", "faint for the others"],
)
def test_the_model_afterwards_is_that_of_all_that_entered(known, is_fresh):
    values, d = FunctionValues(K / np.linalg.norm(K, axis=0), y), np.zeros(80)
    d[known] = 1e12 if is_fresh else 300.0
    active = Active(values, d)
    growth = Growth(active)
    growth.finish()
    assert active.is_fresh  # for nothing entered
    for j, d_j in zip((5, 60, 6), (100.0, 3.0, 1e3), strict=True):
        growth.enter(j, d_j)
    growth.finish()
    assert active.is_fresh == is_fresh
    np.testing.assert_array_equal(active.d, growth.d)
    fresh = Active(values, growth.d)
    order = np.searchsorted(fresh.members, active.members)
    assert active.rest == pytest.approx(fresh.rest, rel=1e-12)
    assert active.log_det == pytest.approx(fresh.log_det, rel=1e-12)
    np.testing.assert_allclose(active.alone().pull, fresh.alone().pull[order], rtol=1e-9)
    np.testing.assert_allclose(
        active.alone().among(), fresh.alone().among()[np.ix_(order, order)], atol=1e-11
    )
    np.testing.assert_allclose(active.S, fresh.S, atol=1e-13)
    np.testing.assert_allclose(active.Q, fresh.Q, atol=1e-12)


def test_functions_that_the_model_spans_do_not_enter():
    Phi = np.column_stack([np.eye(4)[:, :2], np.full(4, 0.5)])
    active = Active(FunctionValues(Phi, np.array([1e9, 3.0, 1.0, 1.0])), np.array([1e14, 0.0, 0.0]))
    twin = Active(FunctionValues(Phi[:, [0, 0, 1]], active.values.y), np.array([1e14, 0.0, 0.0]))
    assert Growth(active).best() == 1
    assert Growth(twin).best() == 2


def test_smooth_functions_have_few_coordinates():
    rows, targets = sinc(500)
    Phi = kernel(rows)
    Phi /= np.linalg.norm(Phi, axis=0)
    Y, d = np.column_stack([targets, rows]), np.zeros(500)
    d[[3, 40, 77]] = 5.0, 20.0, 1e4
    for values, target in zip(FunctionValues.on_rows(Phi, Y), Y.T, strict=True):
        assert len(values.y) < 50  # of 64 that are tried the last ones are of rounding
        few, plain = Active(values, d), Active(FunctionValues(Phi, target), d)
        np.testing.assert_allclose(few.S, plain.S, atol=1e-12)
        np.testing.assert_allclose(few.Q, plain.Q, atol=1e-11 * np.linalg.norm(target))
        assert few.rest == pytest.approx(plain.rest, rel=1e-11)


def test_some_rows_tell_that_functions_have_many_coordinates(monkeypatch):
    rows, targets = sinc(500)
    rough, shapes = np.exp(-np.abs(rows - rows.T)), []
    left = linalg_active._left

    def noted(Phi, size):
        shapes.append(Phi.shape)
        return left(Phi, size)

    monkeypatch.setattr(linalg_active, "_left", noted)
    (values,) = FunctionValues.on_rows(rough, targets[:, None])
    assert values.Phi is rough
    assert shapes == [(167, 500)]  # every third row
    FunctionValues.on_rows(kernel(rows), targets[:, None])
    assert shapes[1:] == [(167, 500), (500, 500)]


@pytest.mark.parametrize("n", [80, 20], ids=["more rows", "fewer rows than functions"])
def test_what_is_known_of_functions_is_that_of_the_dense_model(n):
    Phi, d = K[:n, ::4] / np.linalg.norm(K[:n, ::4], axis=0), np.zeros(20)
    d[[1, 7, 15]] = 3.0, 100.0, 0.5
    C_inv = np.linalg.inv(np.eye(n) + (Phi * d) @ Phi.T)
    for values in (FunctionValues(Phi, y[:n]), *FunctionValues.on_rows(Phi, y[:n, None])):
        active = Active(values, d)
        np.testing.assert_allclose(active.S, np.einsum("ij,ij->j", Phi, C_inv @ Phi), rtol=1e-9)
        np.testing.assert_allclose(active.Q, Phi.T @ C_inv @ y[:n], rtol=1e-9, atol=1e-12)
        assert active.rest == pytest.approx(y[:n] @ C_inv @ y[:n], rel=1e-12)
        assert active.log_det == pytest.approx(-np.linalg.slogdet(C_inv)[1], rel=1e-12)


def members_of(a, d):
    Phi = (K / np.linalg.norm(K, axis=0))[:, a]
    return Active(FunctionValues(Phi, y), np.asarray(d, dtype=float)).alone()


def assert_same_model(found, expected, rtol):
    for name in ("d", "undetermined", "pull", "log_det", "rest", "yy"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=rtol, err_msg=name)
    np.testing.assert_allclose(found.among(), expected.among(), atol=10 * rtol)
    np.testing.assert_allclose(found.left_out(), expected.left_out(), rtol=10 * rtol)


@pytest.mark.parametrize("size", [1.0, 1e9], ids=["plain", "functions alike and little noise"])
def test_a_step_in_prior_variances_leads_to_the_model_of_these(size):
    a, d, x = [1, 20, 44, 70], size * np.array([3.0, 1e4, 0.5, 100.0]), np.array([-3.0, 0.4, 3.0, 0.0])
    there = members_of(a, d).scaled(x)
    assert_same_model(there, members_of(a, d * np.exp(x)), 1e-11 * size**0.5)
    back = there.scaled(-x)  # whatever its root is by now
    assert_same_model(back, members_of(a, d), 1e-11 * size**0.5)


def test_functions_leave_for_the_model_of_the_others():
    a, d = np.array([1, 20, 44, 70]), np.array([3.0, 1e4, 0.5, 100.0])
    start = members_of(a, d).scaled(np.zeros(4))
    for leave in ([True, False, False, False], [False, True, True, False], [True, False, True, True]):
        stay = ~np.array(leave)
        assert_same_model(start.without(~stay), members_of(a[stay], d[stay]), 1e-11)
    nothing = start.without(np.ones(4, dtype=bool))
    assert (nothing.rest, nothing.log_det, nothing.root.shape) == (start.yy, 0.0, (0, 0))


def test_coordinates_turn_with_the_root():
    a, d, x = np.array([1, 20, 44, 70]), np.array([3.0, 1e4, 0.5, 100.0]), np.array([-3.0, 0.4, 3.0, 0.0])
    Phi = K / np.linalg.norm(K, axis=0)
    start = members_of(a, d)
    T = (np.sqrt(d) * (Phi.T @ Phi[:, a])) @ start.root
    gone = np.array([False, True, False, True])
    for there, stay in ((start.scaled(x), a >= 0), (start.without(gone), ~gone)):
        expected = (np.sqrt(there.d) * (Phi.T @ Phi[:, a[stay]])) @ there.root
        np.testing.assert_allclose(there.turn(T), expected, atol=1e-12)
    assert start.without(a >= 0).turn(T).shape == (80, 0)


@pytest.mark.parametrize("kept", [[0, 1, 2, 3, 4], [0, 2, 3], [1, 4]], ids=["all", "some", "few"])
@pytest.mark.parametrize("is_watched", [True, False])
def test_functions_that_are_kept_are_as_if_computed_afresh(kept, is_watched):
    values, d = FunctionValues(K / np.linalg.norm(K, axis=0), y, 0.3), np.zeros(80)
    a, new = np.array([3, 20, 40, 61, 77]), np.array([0.2, 3e3, 50.0, 7e4, 1e3])[kept]
    d[a] = 5.0, 2000.0, 1e5, 1e4, 300.0
    active = Active(values, d)
    if is_watched:
        active.watch()
    active.keep(np.array(kept), new)
    assert active.is_fresh == (not is_watched)
    fresh = Active(values, np.bincount(a[kept], new, 80))
    np.testing.assert_array_equal(active.members, fresh.members)
    np.testing.assert_allclose(active.d, fresh.d, rtol=1e-14)
    assert_same_model(active.alone(), fresh.alone(), 1e-10)
    np.testing.assert_allclose(active.S, fresh.S, atol=1e-13)
    np.testing.assert_allclose(active.Q, fresh.Q, atol=1e-12)


@pytest.mark.parametrize(("n", "is_fresh"), [(80, False), (20, True)], ids=["many rows", "few rows"])
def test_a_model_is_computed_afresh_where_that_takes_less(n, is_fresh):
    Phi, d = K[:n] / np.linalg.norm(K[:n], axis=0), np.zeros(80)
    d[::8] = 30.0
    active = Active(FunctionValues(Phi, y[:n]), d)
    active.watch()
    # 8 reflectors of 10 functions, or 2 columns of n numbers
    active.keep(np.array([2, 7]), np.array([5.0, 7.0]))
    assert active.is_fresh == is_fresh


@pytest.mark.parametrize("n_steps", [1, 2, 3])
def test_a_model_follows_the_steps_of_its_members(n_steps):
    values, d = FunctionValues(K / np.linalg.norm(K, axis=0), y, 0.3), np.zeros(80)
    d[[3, 20, 40, 61, 77]] = 5.0, 2000.0, 1e5, 1e4, 300.0
    active = Active(values, d)
    active.watch()
    there, gone = active.alone().scaled(np.linspace(-1.0, 1.0, 5)), np.arange(5) == 2
    path = [there, there.without(gone), there.without(gone).scaled(np.full(4, 0.5))][:n_steps]
    kept = np.arange(5) if n_steps == 1 else np.flatnonzero(~gone)
    active.follow(kept, path[-1], [step.turn for step in path])
    assert (active.alone() is path[-1]) == (n_steps < 3)  # more steps than that are taken in one
    fresh = Active(values, active.d)
    assert not active.is_fresh
    np.testing.assert_array_equal(active.members, fresh.members)
    np.testing.assert_allclose(active.d[fresh.members], path[-1].d, rtol=1e-12)
    np.testing.assert_allclose(active.S, fresh.S, atol=1e-13)
    np.testing.assert_allclose(active.Q, fresh.Q, atol=1e-12)


def test_a_model_from_which_all_functions_left_takes_in_others():
    values, d = FunctionValues(K / np.linalg.norm(K, axis=0), y, 0.3), np.zeros(80)
    d[[3, 20]] = 5.0, 2000.0
    active = Active(values, d)
    active.watch()
    nothing = active.alone().without(np.ones(2, dtype=bool))
    active.follow(np.zeros(0, dtype=int), nothing, [nothing.turn])
    assert (active.rest, active.log_det) == (values.yy, 0.0)
    j, S, _ = active.foremost()
    assert pytest.approx(1.0) == S
    active.admit(j, 7.0)
    fresh = Active(values, np.where(np.arange(80) == j, 7.0, 0.0))
    assert_same_model(active.alone(), fresh.alone(), 1e-12)
    np.testing.assert_allclose(active.S, fresh.S, atol=1e-14)


def test_functions_are_kept_where_rounding_leaves_no_model_of_them(monkeypatch):
    values = FunctionValues(K / np.linalg.norm(K, axis=0), y)
    active = Active(values, np.where(np.arange(80) % 30 == 3, 20.0, 0.0))
    active.watch()
    monkeypatch.setattr(Members, "scaled", lambda self, x: None)
    active.keep(np.array([0, 2]), np.array([5.0, 7.0]))
    assert active.is_fresh
    np.testing.assert_array_equal(active.members, [3, 63])
    np.testing.assert_array_equal(active.d[[3, 63]], [5.0, 7.0])


@pytest.mark.parametrize("cached", [0, 2**17], ids=["all products", "some products"])
def test_a_model_carries_on_as_if_afresh(monkeypatch, cached):
    monkeypatch.setattr("skspectral.linalg.active._CACHED", cached)
    values, d = FunctionValues(K / np.linalg.norm(K, axis=0), y, 0.3), np.zeros(80)
    d[[3, 40, 77]] = 5.0, 2000.0, 1e5
    active = Active(values, d)
    assert active.is_fresh
    active.admit(61, 7.0)
    np.testing.assert_array_equal(active.members, [3, 40, 77, 61])
    active.exchange(1, 20, 50.0, *active.in_place_of(1, 20)[1:])
    assert not active.is_fresh
    np.testing.assert_array_equal(active.members, [3, 77, 61, 20])
    d[[20, 40, 61]] = 50.0, 0.0, 7.0
    fresh, order = Active(values, d), [0, 3, 2, 1]
    np.testing.assert_array_equal(active.d, d)
    for name in ("rest", "log_det"):
        assert getattr(active, name) == pytest.approx(getattr(fresh, name), rel=1e-11)
    for name in ("undetermined", "S_members", "Q_members"):
        np.testing.assert_allclose(getattr(active, name), getattr(fresh, name)[order], rtol=1e-9)
    np.testing.assert_allclose(active.coefficients(), fresh.coefficients()[order], rtol=1e-9)
    others = np.delete(np.arange(80), active.members)
    np.testing.assert_allclose(active.S[others], fresh.S[others], atol=1e-12)
    np.testing.assert_allclose(active.Q[others], fresh.Q[others], atol=1e-11)
    for found, expected in zip(active.of_others(values.Phi), fresh.of_others(values.Phi), strict=True):
        np.testing.assert_allclose(found[others], expected[others], atol=1e-11)
    active.refresh()
    assert active.is_fresh
    np.testing.assert_array_equal(active.members, fresh.members)


def test_a_step_that_rounding_leaves_no_model_for_is_told():
    broken = Members(np.ones(1), np.array([[1.0 + 1e-3]]), np.ones(1), np.ones(1), 1.0, 0.0, 1.0)
    assert broken.scaled(np.array([700.0])) is None


def test_a_faint_function_enters_by_the_columns():
    Phi = np.array([[1.0, np.sqrt(1.0 - 1e-10)], [0.0, 1e-5], [0.0, 0.0]])
    active = Active(FunctionValues(Phi, np.array([1.0, 2.0, 1.0])), np.array([1e14, 0.0]))
    active.admit(1, 1e3)  # of phi'C^-1 phi = 1e-10 hardly 6 digits are left
    assert active.is_fresh
    np.testing.assert_array_equal(active.d, [1e14, 1e3])


def test_the_foremost_function_is_not_active():
    values, d = FunctionValues(K / np.linalg.norm(K, axis=0), y), np.zeros(80)
    d[[3, 40, 77]] = 5.0, 2000.0, 1e5
    active = Active(values, d)
    others = np.delete(np.arange(80), [3, 40, 77])
    j = others[np.argmax(active.Q[others] ** 2 / active.S[others])]
    assert active.foremost() == (j, active.S[j], active.Q[j])
    everything = Active(FunctionValues(values.Phi[:, :2], y), np.ones(2))
    assert everything.foremost()[1] == np.inf


def test_one_function_in_the_place_of_another():
    values = FunctionValues(K / np.linalg.norm(K, axis=0), y)
    d = np.zeros(80)
    d[[3, 40, 77]] = 5.0, 2000.0, 1e5
    active = Active(values, d)
    for place, i in enumerate([3, 40, 77]):
        fewer = Active(values, np.where(np.arange(80) == i, 0.0, d))
        without, S, Q = active.in_place_of(place, 20)
        assert without.rest == pytest.approx(fewer.rest, rel=1e-12)
        assert without.log_det == pytest.approx(fewer.log_det, rel=1e-12)
        assert without.yy == fewer.yy
        assert pytest.approx(fewer.S[[20]], rel=1e-9) == S
        assert pytest.approx(fewer.Q[[20]], rel=1e-9) == Q


def test_too_little_noise_is_a_share_of_the_best():
    active = Active(
        FunctionValues(K / np.linalg.norm(K, axis=0), y), np.where(np.arange(80) == 40, 20.0, 0.0)
    )
    best = ProfiledNoise(80).variance(active)
    for share in (0.1, 1.0):
        noises = TooLittleNoise(80, share), KnownNoise(share * best)
        for s, q in zip(active.S, active.Q, strict=True):
            assert noises[0].prospect(active, s, q) == pytest.approx(noises[1].prospect(active, s, q))


@pytest.mark.parametrize("noise", [ProfiledNoise(80), KnownNoise(0.01)], ids=["profiled", "known"])
def test_nothing_is_missing_at_the_end(noise):
    values, trace = FunctionValues(K / np.linalg.norm(K, axis=0), y), []
    fit = maximise(values, noise, **STEPS, trace=trace)
    assert fit.converged
    assert np.diff(trace).max() < 1e-9 * abs(trace[-1])
    ascent = Ascent(Active(values, fit.active.d), noise, 1e-6, 10)
    assert outlook_of_others(ascent.active, noise).relevance.max() < 1.0 + 1e-6
    assert np.abs(Settling(ascent.active.alone(), noise, 1e-6).gradient()).max() < 1e-6


def test_few_steps_lead_away_from_a_saddle():
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, (40, 3))
    Phi = np.exp(-20.0 * ((rows[:, None] - rows) ** 2).sum(axis=2))
    values = FunctionValues(Phi / np.linalg.norm(Phi, axis=0), rng.normal(size=40))
    # functions that hardly overlap: the evidence is nearly flat
    fit = maximise(values, ProfiledNoise(40), **STEPS)
    assert fit.converged
    assert fit.n_steps < 200  # more than 1000 with the expected curvature alone


def test_a_newcomer_takes_the_place_of_its_neighbour():
    grid = np.linspace(-10, 10, 80)[:, None]
    Phi = np.exp(-GAMMA * (grid - [[-6.0, 0.0, 0.4]]) ** 2)
    Phi /= np.linalg.norm(Phi, axis=0)
    target = Phi @ [2.0, 0.0, 2.0] + 0.05 * np.random.default_rng(0).normal(size=80)
    noise, values = ProfiledNoise(80), FunctionValues(Phi, target)
    start = Ascent(Active(values, np.array([1.0, 1.0, 0.0])), noise, 1e-6, 100)
    start.settle(1e-10)
    least, steps = noise.value(start.active), start.n_steps
    start._let_in(2, outlook_of_others(start.active, noise).d[2])
    np.testing.assert_array_equal(start.active.members, [0, 2])
    assert noise.value(start.active) < least
    assert start.n_steps == steps + 1
    start.settle(1e-10)
    assert start.n_steps - steps < 10
    least = noise.value(start.active)
    start._let_in(1, 1e-3)
    np.testing.assert_array_equal(start.active.members, [0, 2, 1])  # back is no better
    assert start.active.d[1] == 1e-3
    first = Ascent(Active(values, np.zeros(3)), noise, 1e-6, 100)
    first._let_in(1, 0.5)
    np.testing.assert_array_equal(first.active.d, [0.0, 0.5, 0.0])


def test_directions_lead_down():
    rng = np.random.default_rng(0)
    A, g = rng.normal(size=(6, 6)), rng.normal(size=6)
    bowl = A @ A.T + np.eye(6)
    np.testing.assert_allclose(descent_direction(g, bowl, np.eye(6)), -np.linalg.solve(bowl, g))
    flat = np.ones((6, 6))
    for expected in (bowl, flat, np.zeros((6, 6))):
        assert g @ descent_direction(g, A + A.T, expected) < 0


def test_far_from_the_maximum_the_expected_curvature_replaces_the_curvature():
    gradient, expected = np.array([0.01, 0.9]), 2.0 * np.eye(2)
    far = scoring_direction(gradient, expected)
    np.testing.assert_allclose(far, -gradient / (2.0 + gradient))
    near = descent_direction(gradient / 2, -np.eye(2), expected)
    assert np.all(np.abs(near) > 1.5 * np.abs(far))  # away from the saddle
    np.testing.assert_array_equal(expected, 2.0 * np.eye(2))


@pytest.mark.parametrize(("largest", "is_far"), [(0.51, True), (0.49, False)])
def test_newtons_direction_is_that_of_the_curvature_near_the_maximum(largest, is_far):
    settling = Settling(members_of([1, 40], [3.0, 20.0]), ProfiledNoise(80), 1e-6)
    gradient, V = settling.gradient(), settling.members.among()
    expected = V**2 + np.diag(np.abs(gradient)) if is_far else settling.curvature(gradient, V, V**2)
    np.testing.assert_allclose(
        settling.direction(gradient, largest), -np.linalg.solve(expected, gradient), rtol=1e-7
    )


@pytest.mark.parametrize(("size", "leaves"), [(8, True), (9, False)], ids=["an eighth", "fewer"])
def test_forgotten_functions_leave_where_they_are_many(size, leaves):
    d = np.full(size, 1e-6)
    d[1:] = 300.0
    settling = Settling(members_of(np.arange(0, 8 * size, 8), d), ProfiledNoise(80), 1e-6)
    forgotten = settling._forgotten(np.ones(size, dtype=bool))
    np.testing.assert_array_equal(np.flatnonzero(forgotten), [0] if leaves else [])


def test_a_step_that_promises_little_is_the_last_one():
    def settled(enough):
        settling = Settling(members_of([1, 20, 40, 70], [3.0, 30.0, 300.0, 30.0]), noise, 1e-10, enough)
        values = [settling.value]
        while settling.step():
            values.append(settling.value)
        return np.array(values)

    noise = ProfiledNoise(80)
    far, near = settled(0.0), settled(0.01)
    np.testing.assert_array_equal(near, far[: len(near)])  # the same steps,
    assert len(near) < len(far)  # less the last ones,
    assert near[-2] - near[-1] < 0.01 < near[-3] - near[-2]  # after the first one of a gain below that
    assert near[-1] - far[-1] < 1e-4


def test_without_an_intercept_kernel_functions_are_made_once(monkeypatch):
    calls, raw = [], Dictionary.raw
    monkeypatch.setattr(
        Dictionary, "raw", lambda self, chosen: calls.append(len(chosen)) or raw(self, chosen)
    )
    RelevanceVectorRegressor(gamma=GAMMA, fit_intercept=False).fit(X, y)
    assert calls == [80]
    model = RelevanceVectorRegressor(gamma=GAMMA).fit(X, y)
    assert calls[1:] == [80, len(model.relevance_)]  # for the part of the constant in them


def test_the_last_steps_start_from_the_columns_and_end_there():
    values, noise, d = FunctionValues(K / np.linalg.norm(K, axis=0), y), ProfiledNoise(80), np.zeros(80)
    d[[12, 40, 66]] = 20.0, 300.0, 20.0
    active = Active(values, d)
    other = Active(FunctionValues(values.Phi, np.roll(y, 7)), d)
    active.carry_on(active.members, other.alone(), other.watch()[2])  # the last steps must not believe this
    Ascent(active, noise, 1e-6, 100)._polish()
    assert active.is_fresh
    gradient = Settling(Active(values, active.d).alone(), noise, 1e-6).gradient()
    assert len(gradient) > 0
    assert np.abs(gradient).max() < 1e-9


def test_more_functions_than_are_kept(monkeypatch):
    monkeypatch.setattr("skspectral.inference.candidates._ALL", 20)
    monkeypatch.setattr("skspectral.inference.candidates._FIRST", 15)
    monkeypatch.setattr("skspectral.inference.candidates._BLOCK", 30)
    rows, lines = Rows.make(80, ONES), []
    Z = rows.standardise(y[:, None])[0]
    dictionary = Dictionary(PrecomputedGram(), K, rows, np.arange(80))
    (few,) = expand(dictionary, Z, ProfiledNoise(79), **STEPS, report=lines.append)
    assert few.fit.converged
    assert few.functions.max() >= 15
    assert lines[-1].endswith("0 to join")
    assert " at 80 functions" in lines[-1]  # all of them, however few the looks before were at
    outlook = ProfiledNoise(79).outlook(
        few.active, *few.active.of_others(dictionary.columns(np.arange(80))[0]), few.active.rest, None
    )
    assert np.delete(outlook.gain, few.functions).max() < 0.31


def test_scale_shift_and_order():
    model = RelevanceVectorRegressor(gamma=GAMMA).fit(X, y)
    moved = RelevanceVectorRegressor(gamma=GAMMA).fit(X, 1e6 * y - 7e6)
    np.testing.assert_allclose(moved.predict(X), 1e6 * model.predict(X) - 7e6, rtol=1e-6)
    twice = RelevanceVectorRegressor(gamma=GAMMA).fit(X, y, np.full(80, 2.0))
    np.testing.assert_allclose(twice.predict(X), model.predict(X), atol=1e-7)
    assert twice.noise_variance_ == pytest.approx(2 * model.noise_variance_)
    order = np.random.default_rng(0).permutation(80)
    shuffled = RelevanceVectorRegressor(gamma=GAMMA).fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.predict(X), model.predict(X), atol=1e-6)


def test_kinds_of_kernels_agree():
    model = RelevanceVectorRegressor(gamma=GAMMA).fit(X, y)
    given = RelevanceVectorRegressor("precomputed").fit(K, y)
    np.testing.assert_allclose(given.predict(K), model.predict(X), atol=1e-5)
    process = RelevanceVectorRegressor(RBF(np.sqrt(0.5 / GAMMA))).fit(X, y)
    np.testing.assert_allclose(process.predict(X), model.predict(X), atol=1e-5)
    thin = RelevanceVectorRegressor(gamma=GAMMA).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict(sparse.csr_array(X)), model.predict(X), atol=1e-5)
    skewed = K.copy()
    skewed[0, 1] = 0.2  # column 1 is a function like any other
    assert RelevanceVectorRegressor("precomputed").fit(skewed, y).score(skewed, y) > 0.8


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 80)], ids=["plain", "weighted"])
def test_a_given_matrix_is_left_as_it_is(weight):
    given = K.copy()
    dictionary = Dictionary(PrecomputedGram(), given, Rows.make(80, None, weight), np.arange(80))
    columns, lengths = dictionary.columns(np.arange(80))
    RelevanceVectorRegressor("precomputed", fit_intercept=False).fit(given, y, weight)
    np.testing.assert_array_equal(given, K)
    root = np.ones(80) if weight is None else dictionary.rows.sqrt_weight[:, 0]
    np.testing.assert_allclose(columns * lengths, root[:, None] * K, rtol=1e-12)


def test_rows_of_weight_0_are_absent():
    weight = np.ones(80)
    weight[::3] = 0.0
    kept = weight > 0
    alone = RelevanceVectorRegressor("precomputed").fit(K[np.ix_(kept, kept)], y[kept])
    model = RelevanceVectorRegressor("precomputed").fit(K, y, weight)
    np.testing.assert_array_equal(model.relevance_, np.flatnonzero(kept)[alone.relevance_])
    np.testing.assert_allclose(model.predict(K), alone.predict(K[:, kept]))


def test_outputs_have_their_own_functions():
    Y = np.column_stack([y, np.cos(X[:, 0] / 3)])
    model = RelevanceVectorRegressor(gamma=GAMMA).fit(X, Y)
    alone = RelevanceVectorRegressor(gamma=GAMMA).fit(X, y)
    assert model.dual_coef_.shape == (len(model.relevance_), 2)
    np.testing.assert_allclose(model.predict(X)[:, 0], alone.predict(X), atol=1e-5)
    assert model.predict(X, return_std=True)[1].shape == (80, 2)


def test_far_from_the_data_the_std_shrinks_unless_the_prior_is_included():
    model = RelevanceVectorRegressor(gamma=GAMMA).fit(X, y)
    far = np.array([[1000.0]])
    bare = model.predict(far, return_std=True, include_noise=False)[1]
    honest = model.predict(far, return_std=True, include_noise=False, include_prior=True)[1]
    assert bare < 0.5 * np.sqrt(model.signal_variance_)
    assert honest == pytest.approx(np.hypot(bare, np.sqrt(model.signal_variance_)))
    near = np.array([[0.0]])
    with_prior = model.predict(near, return_std=True, include_noise=False, include_prior=True)[1]
    assert with_prior == pytest.approx(model.predict(near, return_std=True, include_noise=False)[1], rel=0.05)


@pytest.mark.slow
def test_intervals_hold_what_they_promise():
    inside = []
    for seed in range(20):
        rows, targets = sinc(100, seed)
        new, observed = sinc(500, 1000 + seed)
        lower, upper = RelevanceVectorRegressor(gamma=GAMMA).fit(rows, targets).predict_interval(new)
        inside.append(np.mean((lower < observed) & (observed < upper)))
    assert 0.93 < np.mean(inside) < 0.97


def test_gamma_of_the_largest_evidence_for_its_functions():
    def criterion(model):
        return model.log_marginal_likelihood_value_ - len(model.relevance_)

    model = RelevanceVectorRegressor(gamma="auto").fit(X, y)
    for gamma in (model.gamma_ / 4, model.gamma_ / 2, model.gamma_ * 2, model.gamma_ * 4):
        assert criterion(model) > criterion(RelevanceVectorRegressor(gamma=gamma).fit(X, y))
    with pytest.raises(ValueError, match=r"gamma='auto' is known for .*got kernel='sigmoid'"):
        RelevanceVectorRegressor("sigmoid", gamma="auto").fit(X, y)


def test_a_function_for_each_row_is_not_the_best_gamma():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 6))
    targets = rows[:, 0] + rng.normal(size=60)
    narrow = RelevanceVectorRegressor(gamma=5.0).fit(rows, targets)
    model = RelevanceVectorRegressor(gamma="auto").fit(rows, targets)
    # the larger evidence, of hardly any noise
    assert narrow.log_marginal_likelihood_value_ > model.log_marginal_likelihood_value_
    assert narrow.noise_variance_ < 0.1 < 0.5 < model.noise_variance_
    assert len(model.relevance_) < 15


@pytest.mark.parametrize("make", [RelevanceVectorRegressor, LaplacianProcessRegressor])
def test_extremes(make):
    constant = make().fit(X, np.full(80, 3.0))
    np.testing.assert_allclose(constant.predict(X[:3], return_std=True)[0], 3.0)
    assert make().fit(X[:1], [2.0]).predict(X[:1]) == pytest.approx(2.0)
    for factor in (1e-150, 1e150):
        mean, std = make(gamma=GAMMA).fit(X, factor * y).predict(X, return_std=True)
        assert np.isfinite(mean).all()
        assert np.isfinite(std).all()
    smooth = make(gamma=GAMMA).fit(X, K[:, 3])
    assert smooth.score(X, K[:, 3]) > 0.999
    twins = make(gamma=GAMMA).fit(np.vstack([X, X]), np.concatenate([y, y]))
    assert np.isfinite(twins.predict(X)).all()


@pytest.mark.parametrize(
    "make", [RelevanceVectorRegressor, RelevanceVectorClassifier, LaplacianProcessRegressor]
)
def test_a_given_matrix_must_be_square(make):
    with pytest.raises(ValueError, match=r"square matrix.*got shape \(80, 5\)"):
        make("precomputed").fit(K[:, :5], y > 0)


def test_what_cannot_be_done_is_said():
    with pytest.warns(ConvergenceWarning, match="Increase max_iter or tol"):
        RelevanceVectorRegressor(gamma=GAMMA, max_iter=3).fit(X, y)
    with pytest.raises(ValueError, match="include_prior=True needs the kernel"):
        RelevanceVectorRegressor("precomputed").fit(K, y).predict(K, True, include_prior=True)
    with pytest.raises(ValueError, match="values that are not finite"):
        RelevanceVectorRegressor("polynomial", degree=400).fit(1e3 * X, y)
    with pytest.raises(ValueError, match="at least two classes, got one class"):
        RelevanceVectorClassifier().fit(X, np.zeros(80))


# -- Laplacian processes


def test_the_lasso_is_optimal_and_its_error_bars_are_those_of_least_squares():
    model = LaplacianProcessRegressor(gamma=GAMMA).fit(X, y)
    centred = K - K.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    a = model.support_
    residual = y - model.predict(X)
    slope = centred.T @ residual / lengths
    penalty = model.noise_variance_ / model.prior_scale_
    np.testing.assert_allclose(slope[a], penalty * np.sign(model.dual_coef_), rtol=0.02)
    assert np.abs(slope).max() < 1.02 * penalty
    std = model.predict(X, return_std=True)[1]
    leverage = np.einsum("ij,ji->i", centred[:, a], np.linalg.pinv(centred[:, a])) + 1 / 80
    np.testing.assert_allclose(std**2, model.noise_variance_ * (1 + leverage), rtol=1e-6)


def test_the_bound_is_below_the_evidence_of_one_function():
    from scipy.integrate import quad

    from skspectral.models.laplacian import _judged

    phi, target = K[:, :1] / np.linalg.norm(K[:, 0]), 3.0 * K[:, 0] + y
    penalty = 0.3
    theta = np.array([phi[:, 0] @ target - penalty])
    choice = _judged(phi, target, penalty, theta, 80)
    v = choice.noise_var

    def joint(t):
        r = target - phi[:, 0] * t
        return np.exp(-0.5 * r @ r / v - penalty * abs(t) / v) / np.exp(-0.5 * best @ best / v)

    best = target - phi[:, 0] * theta[0]
    width = np.sqrt(v)
    area = quad(joint, theta[0] - 12 * width, theta[0] + 12 * width)[0]
    exact = np.log(area * penalty / (2 * v)) - 40 * np.log(2 * np.pi * v) - 0.5 * best @ best / v
    assert choice.log_evidence <= exact + 1e-9
    assert choice.log_evidence == pytest.approx(exact, abs=0.5)


def test_the_choice_is_the_best_of_the_whole_path():
    from sklearn.linear_model import lasso_path

    from skspectral.models.laplacian import _judged

    Phi, target = K / np.linalg.norm(K, axis=0), y / np.sqrt(np.mean(y**2))
    penalties = np.abs(Phi.T @ target).max() * np.geomspace(1.0, 1e-4, 60)
    with pytest.warns(ConvergenceWarning):
        path = lasso_path(np.asfortranarray(Phi), target, alphas=penalties / 80, tol=1e-5, max_iter=1000)[1]
    choices = [_judged(Phi, target, p, theta, 80) for p, theta in zip(penalties, path.T, strict=True)]
    best = max(choices, key=lambda choice: choice.log_evidence)
    model = LaplacianProcessRegressor(gamma=GAMMA, fit_intercept=False, max_iter=1000).fit(X, y)
    np.testing.assert_array_equal(model.support_, best.support)
    # coordinate descent ends at a gap of 1e-5, which the two kinds of sweeps reach on different sides
    assert model.noise_variance_ / np.mean(y**2) == pytest.approx(best.noise_var, rel=1e-3)


@pytest.mark.parametrize("settings", [{"tuning": "cv"}, {"noise": "laplace"}, {"kernel": "sigmoid"}])
def test_other_laplacian_processes_fit(settings):
    rows, targets = sinc(60)
    model = LaplacianProcessRegressor(**{"gamma": GAMMA, **settings}).fit(rows, targets)
    assert model.score(rows, targets) > 0.7
    assert len(model.support_) < 50


def test_absolute_deviations_do_not_follow_outliers():
    rows, targets = sinc(60)
    targets[::10] += 5.0
    truth = np.sinc(rows[:, 0] / np.pi)
    errors = [
        np.mean(
            (LaplacianProcessRegressor(gamma=GAMMA, noise=noise).fit(rows, targets).predict(rows) - truth)
            ** 2
        )
        for noise in ("laplace", "normal")
    ]
    assert errors[0] < 0.2 * errors[1]


def test_the_linear_program_is_optimal():
    rng = np.random.default_rng(0)
    Phi, target, basis = rng.normal(size=(30, 5)), rng.normal(size=30), np.ones((30, 1))

    def cost(theta, beta):
        return np.abs(target - Phi @ theta - basis @ beta).sum() + 2.0 * np.abs(theta).sum()

    theta, beta = least_absolute(Phi, target, 2.0, basis)
    least = cost(theta, beta)
    moves = rng.normal(size=(200, 6)) * 0.1
    assert all(cost(theta + m[:5], beta + m[5:]) >= least - 1e-9 for m in moves)


# -- classes


def test_two_classes_are_those_of_the_mode():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(120, 2))
    labels = np.where(rng.uniform(size=120) < expit(3 * rows[:, 0] * rows[:, 1]), "b", "a")
    model = RelevanceVectorClassifier(gamma=0.5).fit(rows, labels)
    Phi = np.exp(-0.5 * ((rows[:, None] - model.relevance_vectors_) ** 2).sum(axis=2))
    f = Phi @ model.dual_coef_[:, 0] + model.intercept_
    np.testing.assert_allclose(model.decision_function(rows), f, atol=1e-10)
    slope = (labels == "b") - expit(f)
    assert abs(slope.sum()) < 1e-6  # the constant has no prior
    variance = model.dual_coef_[:, 0] / (Phi.T @ slope)  # theta = v phi'(y - p) at the mode
    assert np.all(variance > 0)
    W = expit(f) * expit(-f)
    P = restricted_inverse(np.diag(1 / W) + (Phi * variance) @ Phi.T)
    S, Q = np.einsum("ij,ij->j", Phi, P @ Phi), Phi.T @ P @ (f + slope / W)
    np.testing.assert_allclose(Q**2, S, rtol=1e-4)
    np.testing.assert_array_equal(model.predict(rows) == "b", f > 0)
    assert model.score(rows, labels) > 0.7


def test_three_classes():
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1, 2], 40)
    rows = rng.normal(size=(120, 2)) + 3.0 * np.column_stack([labels == 1, labels == 2])
    model = RelevanceVectorClassifier().fit(rows, labels)
    P = model.predict_proba(rows)
    assert P.shape == (120, 3)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert model.score(rows, labels) > 0.9
    assert len(model.relevance_) < 30


def test_the_band_marks_relevance_vectors():
    for model in (RelevanceVectorRegressor(gamma=GAMMA), LaplacianProcessRegressor(gamma=GAMMA)):
        display = PredictionBandDisplay.from_estimator(model.fit(X, y), X, y)
        used = model.relevance_ if hasattr(model, "relevance_") else model.support_
        np.testing.assert_array_equal(np.sort(display.used), np.sort(X[used, 0]))
        plt.close(display.figure_)


def test_a_classifier_tells_of_every_round(capsys):
    rows, targets = sinc(60)
    model = RelevanceVectorClassifier(gamma=GAMMA, verbose=1).fit(rows, np.where(targets > 0.2, "b", "a"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert lines[0].startswith("[RelevanceVectorClassifier, class b] round 1: 0 active, log evidence -")
    assert RelevanceVectorClassifier(gamma=GAMMA).fit(rows, targets > 0.2)
    assert not capsys.readouterr().out


def test_a_laplacian_process_tells_of_every_fold_and_output(capsys):
    rows, targets = sinc(60)
    model = LaplacianProcessRegressor(gamma=GAMMA, tuning="cv", n_folds=3, verbose=1).fit(rows, targets)
    *folds, last = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in folds] == [
        f"[LaplacianProcessRegressor] fold {k} of 3" for k in (1, 2, 3)
    ]
    assert last.endswith(f"{len(model.support_)} of 60 functions")
    LaplacianProcessRegressor(gamma=GAMMA).fit(rows, targets)
    assert not capsys.readouterr().out


def test_directions_of_rounding_are_left_out_of_a_root():
    Phi = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0], [2.0, 4.0, 3.0], [0.0, 0.0, 2.0]])
    A = inverse_root(Phi)
    assert A.shape == (3, 2)
    np.testing.assert_allclose(A @ A.T, np.linalg.pinv(Phi.T @ Phi), atol=1e-12)
