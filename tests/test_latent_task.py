"""The numbers of tasks with other likelihoods beside their definitions, and when factors stand in."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from problems import close
from sklearn.gaussian_process.kernels import RBF

from skspectral.decomposition.data import Data
from skspectral.decomposition.plan import Plan, Route
from skspectral.inference.approximate import bound, laplace
from skspectral.inference.modes import Mode
from skspectral.learning import latent, latent_task
from skspectral.learning.latent_objective import LatentObjective, approximate_evidence
from skspectral.learning.latent_task import LatentFit, LatentTask, Point
from skspectral.likelihoods import Bernoulli, Categorical, StudentT
from skspectral.support.exceptions import IndefiniteKernelError


def classes(n=12, weight=None, likelihood=None, n_classes=2, fit_intercept=True, **settings):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 1))
    y = np.arange(n) % (n_classes or 2)
    data = Data.with_intercept(X, y[:, None].astype(float), weight, fit_intercept)
    likelihood = Bernoulli() if likelihood is None else likelihood
    return LatentTask(data, RBF(1.0), likelihood, n_classes=n_classes, **settings)


# -- points and fits


@pytest.mark.parametrize(
    ("theta", "signal", "expected"),
    [
        ([0.0, 0.0], 1.0, True),
        ([0.49, -0.49], np.exp(0.49), True),
        ([0.51, 0.0], 1.0, False),
        ([0.0, -0.51], 1.0, False),
        ([0.0, 0.0], np.exp(0.51), False),
        ([0.0, 0.0], np.exp(-0.51), False),
    ],
)
def test_kernels_are_beside_each_other_within_half_a_unit_of_all_logs(theta, signal, expected):
    here = Point(3.0, np.array([1.0, -2.0]), None)
    there = Point(3.0 * signal, here.theta + theta, None)
    assert here.is_beside(there) == there.is_beside(here) == expected
    assert not here.is_beside(None)


@pytest.mark.parametrize("is_single", [True, False])
def test_single_precision_is_off_by_a_ten_millionth_of_curvatures_times_variances(is_single):
    prior = SimpleNamespace(diagonal=np.array([2.0, 3.0]), is_single=is_single)
    approximation = SimpleNamespace(prior=prior, curved=SimpleNamespace(W=np.array([5.0, 7.0])))
    assert LatentFit(None, approximation, None).off_by == pytest.approx(
        31e-7 if is_single else 0.0, abs=1e-20
    )


# -- tasks


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("integrated", [True, False])
def test_the_unit_of_a_density_has_a_power_for_each_target_and_constant(fit_intercept, integrated):
    for weight in (None, np.linspace(0.5, 2.0, 12)):
        task = classes(weight=weight, fit_intercept=fit_intercept, integrated=integrated, unit=3.0)
        n = 12 if weight is None else task.data.weight.sum()
        assert task.log_unit == pytest.approx((n - (fit_intercept and integrated)) * np.log(3.0))
        assert replace(task, unit=1.0).log_unit == 0.0


@pytest.mark.parametrize("is_rough", [True, False])
def test_modes_are_found_as_exactly_as_they_are_needed(is_rough):
    asked = {}

    def approximate(prior, observations, **settings):
        asked.update(settings, n=len(prior), m=len(observations))
        return "approximation"

    task = classes(approximate=approximate, is_rough=is_rough, max_iter=33, integrated=False)
    here = Point(2.0, np.zeros(1), Bernoulli())
    fit = task.fit(here, SimpleNamespace(approximation="before", vain=here))
    assert (fit.point, fit.approximation, fit.factor, fit.vain) == (here, "approximation", None, here)
    expected = {
        "has_constant": True,
        "integrated": False,
        "start": "before",
        "max_iter": 33,
        "n": 12,
        "m": 12,
    }
    assert asked == expected | {"found": 1e-10 if is_rough else 1e-20}


@pytest.mark.parametrize("learns_signal", [True, False])
@pytest.mark.parametrize("is_precomputed", [True, False])
def test_variables_are_those_of_signal_kernel_and_likelihood(learns_signal, is_precomputed):
    bounds = (1e-2, 1e3) if learns_signal else (2.0, 2.0)
    noise = StudentT(0.5, 4.0, scale_bounds=(0.1, 9.0))
    task = classes(likelihood=noise, n_classes=None, signal_bounds=bounds, signal_start=2.0)
    task = replace(task, kernel="precomputed" if is_precomputed else RBF(1.5, (0.3, 7.0)))
    expected = [[2.0, *bounds]] * learns_signal + [[1.5, 0.3, 7.0]] * (not is_precomputed) + [[0.5, 0.1, 9.0]]
    assert np.allclose(np.column_stack([task.start, task.bounds]), np.log(expected))
    point = task.point(task.start + 0.1)
    assert point.signal_var == pytest.approx(2.0 * np.exp(0.1) if learns_signal else 2.0)
    assert point.theta == pytest.approx([] if is_precomputed else [np.log(1.5) + 0.1])
    assert point.likelihood.scale == pytest.approx(0.5 * np.exp(0.1))


def test_kernels_without_parameters_have_no_part_in_the_gradient():
    task = replace(classes(), kernel=RBF(1.0, "fixed"))
    value, slope = approximate_evidence(task, np.array([0.2]), eval_gradient=True)
    h = 1e-4
    values = [approximate_evidence(task, np.array([0.2 + way]), eval_gradient=False) for way in (h, -h)]
    assert slope == pytest.approx([(values[0] - values[1]) / (2.0 * h)], rel=1e-5)
    assert np.isfinite(value)


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 12)])
def test_the_value_of_nothing_of_several_classes(weight):
    task = classes(likelihood=Categorical(), n_classes=3, weight=weight)
    F = task.observations(task.likelihood).starting_constants()
    log_p = F - np.log(np.exp(F).sum())
    each = log_p[task.data.Y[:, 0].astype(int)]
    weights = np.ones(12) if weight is None else task.data.weight
    assert task.value_of_nothing == pytest.approx(-2.0 * weights @ each)


@pytest.mark.parametrize("unit", [2.0, 3.0])
def test_units_of_variables_are_those_of_variances_and_scales(unit):
    """In units of u a variance counts u^2 times as much, a scale u times, and a length once."""
    noise = StudentT(0.5, 4.0, dof_bounds=(1.0, 100.0))
    assert noise.names == ("scale", "dof")
    expected = [2.0 * np.log(unit), 0.0, np.log(unit), 0.0]
    task = classes(likelihood=noise, unit=unit)
    assert task.log_units == pytest.approx(expected)
    assert replace(task, signal_bounds=(1.0, 1.0)).log_units == pytest.approx(expected[1:])
    assert not replace(task, unit=1.0).log_units.any()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"is_rough": False}, False),
        ({"n": 199}, False),
        ({"approximate": bound}, False),
        ({"likelihood": StudentT()}, False),
        ({"likelihood": Categorical(), "n_classes": 3}, False),
    ],
)
def test_single_precision_is_for_rough_steps_of_one_function_on_many_rows(change, expected):
    settings = {"n": 200, "is_rough": True} | change
    assert classes(**settings).may_be_single == expected


def test_single_precision_is_enough_up_to_a_trace_in_units_of_the_curvature():
    task = classes(n=200, is_rough=True, fit_intercept=False)
    point = Point(5.0, np.zeros(1), Bernoulli())
    # a quarter is the largest curvature, where a fit begins
    assert task.largest_trace(point, None) == pytest.approx(8e4 / (5.0 * 0.25))
    p = 1.0 / (1.0 + np.exp(-3.0))
    start = SimpleNamespace(approximation=SimpleNamespace(F=np.full((200, 1), 3.0)))  # a mode
    assert task.largest_trace(point, start) == pytest.approx(8e4 / (5.0 * p * (1.0 - p)))


@pytest.mark.parametrize(("signal_var", "expected"), [(1599.0, True), (1601.0, False)])
def test_matrices_are_factorised_in_single_precision_up_to_that_trace(signal_var, expected):
    task = classes(n=200, is_rough=True, fit_intercept=False)  # a trace of 200 up to 8e4 / (signal / 4)
    point = Point(signal_var, np.zeros(1), Bernoulli())
    assert task.is_of_matrix(point) == expected
    assert not replace(task, is_rough=False).is_of_matrix(point)


def test_where_a_factor_is_small_no_matrix_is_factorised(monkeypatch):
    task, here = classes(n=200, is_rough=True), Point(1.0, np.zeros(1), Bernoulli())

    def factor(task, point, observations, start):
        assert (point, len(observations), start) == (here, 200, None)
        return "factor"

    monkeypatch.setattr(LatentTask, "_factor", factor)
    assert not task.is_of_matrix(here)


def factor_of(monkeypatch, route, tau, n=100, rank=17):
    """Return the factor that a task has on a route, and what was asked for."""
    asked = []

    def factorised(gram, X, **options):
        asked.append(options)
        return SimpleNamespace(tau=tau)

    monkeypatch.setattr(latent_task, "pivoted_cholesky", factorised)
    monkeypatch.setattr(latent_task, "warn_of_cost", lambda *what: asked.append(what))
    plan = SimpleNamespace(
        route=lambda n: route,
        factor_rank=lambda n: rank,
        forces_factors=route is Route.CERTIFIED,
    )
    task = classes(n=n, fit_intercept=False, plan=plan)
    point = Point(5.0, np.zeros(1), Bernoulli())
    return task._factor(point, task.observations(point.likelihood), None), asked


def test_factors_of_given_and_of_affordable_rank(monkeypatch):
    assert factor_of(monkeypatch, Route.EXACT, 0.0) == (None, [])
    factor, asked = factor_of(monkeypatch, Route.OF_RANK, 9.0)
    assert (factor.tau, asked) == (9.0, [{"rank": 17}])
    factor, asked = factor_of(monkeypatch, Route.AFFORDABLE, 9.0)
    assert (factor.tau, asked) == (9.0, [(100, 17), {"rank": 17}])


TAU = 1e-3 / (5.0 * 0.25)  # times signal variance and largest curvature: a thousandth


@pytest.mark.parametrize(("share", "is_used"), [(0.9, True), (1.1, False)])
@pytest.mark.parametrize(("n", "rank"), [(100, 30), (2, 1)])
def test_a_factor_stands_in_where_it_is_small_and_misses_little(monkeypatch, share, is_used, n, rank):
    factor, asked = factor_of(monkeypatch, Route.CERTIFIED_OR_EXACT, share * TAU, n)
    assert asked == [{"tau": pytest.approx(TAU), "rank": rank, "unless_hopeless": True}]
    assert (factor is not None) == is_used


def test_a_factor_that_must_be_may_have_all_rows(monkeypatch):
    factor, asked = factor_of(monkeypatch, Route.CERTIFIED, 9.0 * TAU)
    assert asked == [{"tau": pytest.approx(TAU), "rank": 100, "unless_hopeless": False}]
    assert factor.tau == 9.0 * TAU


@pytest.mark.parametrize("is_found", [True, False])
def test_where_a_factor_was_looked_for_in_vain_is_remembered(monkeypatch, is_found):
    looked = []
    factor = SimpleNamespace(Phi=np.ones((12, 1)), L=np.full((1, 1), 5.0)) if is_found else None
    monkeypatch.setattr(LatentTask, "_factor", lambda task, *what: looked.append(what) or factor)
    task = classes()
    vain, beside, away = (Point(4.0, np.array([way]), None) for way in (0.0, 0.3, 2.0))
    known = SimpleNamespace(vain=vain)

    def prior(point, start):
        return task._prior(point, "observations", start, lambda theta: np.eye(12) * theta[0])

    dense, *others = prior(beside, known)
    assert others == [None, vain]
    assert np.array_equal(dense.K, 4.0 * 0.3 * np.eye(12))
    assert looked == []
    for start in (known, None):
        found, *others = prior(away, start)
        assert others == ([factor, None] if is_found else [None, away])
    assert looked == [(away, "observations", known), (away, "observations", None)]
    if is_found:
        assert (found.scale, found.L[0, 0]) == (4.0, 5.0)
        assert np.array_equal(found.Phi, np.full((12, 1), 2.0))
    else:
        assert np.array_equal(found.K, 4.0 * 2.0 * np.eye(12))


def test_a_start_from_fewer_rows_has_their_duals():
    task, rows, few = classes(), np.array([1, 3, 4, 7, 9]), np.array([3, 9])
    A = np.array([[2.0, 3.0], [5.0, 7.0]])
    fit = LatentFit("point", Mode(A, None, "constants", 0.0), None)
    start = task.start_from_fewer(fit, few, rows, "vain")
    expected = np.zeros((5, 2))
    expected[[1, 4]] = A
    assert (start.point, start.factor, start.vain) == ("point", None, "vain")
    mode = start.approximation
    np.testing.assert_array_equal(mode.A, expected)
    assert (mode.constants, mode.KA.any(), mode.psi) == ("constants", False, -np.inf)
    assert (mode.n_iter, mode.n_factorisations, mode.is_found) == (0, 0, False)  # no step was made
    assert task.start_from_fewer(None, few, rows) is None
    assert replace(task, likelihood=StudentT()).start_from_fewer(fit, few, rows) is None


@pytest.mark.parametrize("unit", [1.0, 3.0])
def test_the_evidence_of_users_is_that_of_targets_in_their_unit(unit):
    """A task in units of 3 is that of targets, scales and deviations that are three times as large."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(12, 1)), rng.normal(size=12)

    def task(size, unit):
        data = Data.with_intercept(X, size * y[:, None], None, True)
        noise = StudentT(0.5 * size, 4.0)
        return LatentTask(data, RBF(1.0), noise, signal_start=size**2, unit=unit)

    theta = np.array([0.4, 0.2, 0.3]) + np.log([unit**2, 1.0, 0.5 * unit])
    inside, outside = task(1.0, unit), task(unit, 1.0)
    value, slope = approximate_evidence(inside, theta, eval_gradient=True)
    expected, slopes = approximate_evidence(outside, theta, eval_gradient=True)
    assert value == pytest.approx(expected, abs=1e-8)
    assert approximate_evidence(inside, theta, eval_gradient=False) == value
    assert close(slope, slopes, 1e-6)


@pytest.mark.parametrize("fails", ["kernel", "evidence"])
def test_points_without_an_evidence_are_undefined_and_fitted_afresh(monkeypatch, fails):
    task, asked = classes(), []
    objective = LatentObjective(task, "start")

    def fit(task, point, start=None, square=None):
        asked.append(start)
        if start is None:
            return "fitted"
        if fails == "kernel":
            raise IndefiniteKernelError(-1.0, 0.0)
        return SimpleNamespace(approximation=SimpleNamespace(log_evidence=np.nan))

    monkeypatch.setattr(LatentTask, "fit", fit)
    at = objective(task.start)
    assert at.value == np.inf
    assert at.gradient.tolist() == [0.0, 0.0]
    assert objective.last == "start"  # from which the next point is tried
    assert objective.fit(task.start) == "fitted"
    assert asked == ["start", None]
    assert objective.n_calls == 1


def test_drawn_starts_are_not_those_of_a_path():
    task = classes()
    assert task.approximate is laplace
    assert latent._is_followed(task, task.start.copy())
    assert not latent._is_followed(task, task.start + 1e-9)
    assert not latent._is_followed(replace(task, plan=Plan(), n_classes=3), task.start)
