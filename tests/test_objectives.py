"""What objectives of learning ask of factors and of tasks, and their faces beside dense definitions."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from problems import close, smooth
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from skspectral.criteria import CRITERIA
from skspectral.decomposition.data import Data
from skspectral.inference.variances import VarianceBounds, resolvable_ratios
from skspectral.kernels.gram import make_gram
from skspectral.learning import objectives
from skspectral.learning.objectives import ResolventObjective, SpectralObjective
from skspectral.learning.step_factors import StepFactors
from skspectral.learning.task import Task
from skspectral.linalg.factors import pivoted_cholesky
from skspectral.linalg.resolvent import OFF_BY_OF_SINGLE
from skspectral.support.exceptions import IndefiniteKernelError

KERNEL = RBF([0.8, 1.5])
NAMES = ("noise_min", "noise_max", "signal_min", "signal_max")


def make_task(m=2, bounds=None, **settings):
    X, Y = smooth(n=20, m=m)
    Y = Y + np.outer(np.random.default_rng(1).normal(size=20), np.linspace(0.0, 2.0, m))  # other noise ratios
    data = Data.with_intercept(X, Y, None, settings.pop("intercept", True))
    bounds = VarianceBounds() if bounds is None else bounds
    return Task(data, KERNEL, CRITERIA["evidence"], bounds, **settings)


# -- several outputs


@pytest.fixture
def factors(monkeypatch):
    """Let steps have factors of a rank, or none; return the noise ratios for which they were asked."""

    def let_them_be(by_force=False, rank=None):
        asked = []

        class Factors(StepFactors):
            def __init__(self, task, largest_share):
                super().__init__(task, largest_share)
                self.by_force = by_force

            def at(self, theta, noise_ratio):
                asked.append(noise_ratio)
                if rank is None:
                    return None
                kernel = self.task.kernel_at(theta)
                return pivoted_cholesky(make_gram(kernel), self.task.data.X, rank=rank)

        monkeypatch.setattr(objectives, "StepFactors", Factors)
        return asked

    return let_them_be


@pytest.mark.parametrize("by_force", [True, False])
@pytest.mark.parametrize("known", [None, 0.7])
def test_factors_are_as_exact_as_the_smallest_noise_ratio_asks_for(factors, by_force, known):
    asked, task = factors(by_force), make_task()
    solved = []
    solve = task.solve
    object.__setattr__(task, "solve", lambda theta: solved.append(theta) or solve(theta))
    objective = SpectralObjective(task, known)
    objective(KERNEL.theta)
    ratios = task.solve_matrix(KERNEL.theta).noise_ratio
    assert ratios.max() > 1.1 * ratios.min()
    has_looked = by_force and known is None
    assert len(solved) == has_looked
    first = pytest.approx(ratios.min(), rel=1e-3) if has_looked else known
    assert asked == [first]
    assert objective.n_calls == 1 + has_looked
    objective(KERNEL.theta)
    assert asked == [first, pytest.approx(ratios.min())]
    assert objective.n_calls == 2 + has_looked
    assert len(solved) == has_looked


def test_factors_tell_the_next_step_how_exact_it_must_be(factors):
    asked, task = factors(rank=20), make_task()
    objective = SpectralObjective(task, 1e-6)
    at = objective(KERNEL.theta)
    objective(KERNEL.theta)
    ratios = task.solve_matrix(KERNEL.theta).noise_ratio
    assert asked == [1e-6, pytest.approx(ratios.min(), rel=1e-3)]
    assert at.rank == 20
    assert at.off_by == pytest.approx(0.2)  # a tenth for each output
    noise, signal = at.variances
    assert noise / signal == pytest.approx(ratios, rel=1e-3)
    factors()
    whole = SpectralObjective(task)(KERNEL.theta)
    assert (whole.rank, whole.off_by) == (None, 1e-3)
    assert at.value == pytest.approx(whole.value, abs=1e-4)
    assert close(at.gradient, whole.gradient, 1e-3)


def test_ranks_pay_up_to_a_share_of_the_rows_beside_what_they_replace(monkeypatch):
    shares = []

    class Factors(StepFactors):
        def __init__(self, task, largest_share):
            shares.append(largest_share)
            super().__init__(task, largest_share)

    monkeypatch.setattr(objectives, "StepFactors", Factors)
    SpectralObjective(make_task())
    ResolventObjective(make_task(1))
    assert shares == [0.6, 0.3]  # a spectrum costs more than a Cholesky factorisation


def test_indefinite_kernels_are_undefined(factors):
    factors()
    for make, p in ((SpectralObjective, 2), (ResolventObjective, 3)):
        task = make_task(1)
        objective = make(task)

        def refused(*_):
            raise IndefiniteKernelError(-1.0, 0.0)

        objective._factors.at = refused
        at = objective(np.zeros(p))
        assert at.value == np.inf
        assert at.gradient.tolist() == [0.0] * p
        assert objective.n_calls == 1


def test_a_spectrum_has_no_variable_beside_theta():
    objective, theta = SpectralObjective(make_task()), KERNEL.theta
    assert objective.starts(theta) == [theta]
    assert objective.at(theta, None) is objective.with_ratio(theta, 0.1) is objective.theta(theta) is theta
    lower, upper = objective.box(KERNEL.bounds)
    assert np.array_equal(np.column_stack([lower, upper]), KERNEL.bounds)


# -- one output


def dense(task, variables, noise_var=None, signal_var=None):
    """-2 log density of standardised targets with one variance given, or with the best, up to a constant."""
    theta, g = variables[:-1], np.exp(variables[-1])
    y = task.data.Y[:, 0]
    y = y / np.sqrt((y**2).mean())
    n, V = len(y), RBF(np.exp(theta))(task.data.X) / g + np.eye(len(y))
    if noise_var is None:
        noise_var = y @ np.linalg.solve(V, y) / n if signal_var is None else g * signal_var
    return n * np.log(noise_var) + np.linalg.slogdet(V)[1] + y @ np.linalg.solve(V, y) / noise_var - n


@pytest.mark.parametrize("name", [None, *NAMES])
def test_a_face_holds_one_variance_whatever_the_bounds(name):
    ends = dict(zip(NAMES, (0.05, 0.06, 0.9, 1.1), strict=True))
    bounds = VarianceBounds(noise=(0.05, 0.06), signal=(0.9, 1.1))
    task = make_task(1, bounds, intercept=False)
    size = (task.data.Y**2).mean()
    whole = ResolventObjective(task)
    whole.n_calls = 7
    face = whole.on_face(name)
    assert (whole.n_calls, face.n_calls) == (7, 0)
    held = {} if name is None else {f"{name.partition('_')[0]}_var": ends[name] / size}
    for x in (-4.0, 0.0, 2.0):
        variables = np.append(KERNEL.theta, x)
        at = face(variables)
        assert at.value == pytest.approx(dense(task, variables, **held))
        assert at.face is None
        h = 1e-5
        steps = h * np.eye(3)
        slopes = [
            (dense(task, variables + s, **held) - dense(task, variables - s, **held)) / (2 * h) for s in steps
        ]
        assert close(at.gradient, np.array(slopes), 1e-5)
    assert face.n_calls == 3
    assert whole.n_calls == 7


@pytest.mark.parametrize(
    ("noise", "signal", "x", "expected"),
    [
        ((0.0, np.inf), (0.0, np.inf), 0.0, None),
        ((50.0, np.inf), (0.0, np.inf), 0.0, "noise_min"),
        ((0.0, 1e-3), (0.0, np.inf), 0.0, "noise_max"),
        ((0.0, np.inf), (50.0, np.inf), 0.0, "signal_min"),
        ((0.0, np.inf), (0.0, 1e-3), 0.0, "signal_max"),
        ((50.0, np.inf), (60.0, np.inf), -1.0, "noise_min"),  # a signal of 136
        ((50.0, np.inf), (60.0, np.inf), 1.0, "signal_min"),
    ],
)
def test_evaluations_name_the_bound_that_holds_a_variance(noise, signal, x, expected):
    task = make_task(1, VarianceBounds(noise=noise, signal=signal))
    at = ResolventObjective(task)(np.append(KERNEL.theta, x))
    assert at.face == expected
    if expected is not None:
        variances = dict(zip(("noise", "signal"), at.variances, strict=True))
        variance, end = expected.split("_")
        limits = {"noise": noise, "signal": signal}[variance]
        assert variances[variance] == pytest.approx(limits[end == "max"])


def test_a_rough_ratio_is_brought_to_where_there_is_a_slope():
    objective = ResolventObjective(make_task(1))
    low, high = objective.sloped
    assert (low, high) == pytest.approx(np.log([1e-5, 1e3]))  # the mean variance of K is 1
    for ratio, x in ((0.0, low), (1e-9, low), (0.5, np.log(0.5)), (np.inf, high)):
        at = objective.at(KERNEL.theta, SimpleNamespace(noise_ratio=[ratio]))
        assert at == pytest.approx([*KERNEL.theta, x])
    assert objective.with_ratio(KERNEL.theta, 1e-9)[-1] == pytest.approx(np.log(1e-9))
    assert objective.theta(np.arange(3.0)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 3.0, 20)])
def test_noise_ratios_are_in_units_of_the_mean_variance(weight):
    X, y = smooth(n=20)

    def objective(size):
        kernel = DotProduct(2.0 * size)
        data = Data.with_intercept(size * X, y[:, None], weight, True)
        return ResolventObjective(Task(data, kernel, CRITERIA["evidence"])), kernel.bounds, data

    one, bounds, data = objective(1.0)
    weights = np.ones(20) if data.weight is None else data.weight
    variance = (weights * (4.0 + (X**2).sum(axis=1))).mean()
    assert one.sloped == pytest.approx(np.log(variance * np.array([1e-5, 1e3])))
    lower, upper = one.box(bounds)
    assert (lower[0], upper[0]) == pytest.approx(bounds[0])
    # rounding of a factorisation of 20 rows, beside eigenvalues of at most 20 times that
    expected = resolvable_ratios(20 * variance, 20 * np.finfo(np.float64).eps * 20 * variance)
    assert (lower[1], upper[1]) == pytest.approx(np.log(expected))
    times_100, _, _ = objective(10.0)
    for end, moved in zip(one.box(bounds), times_100.box(bounds), strict=True):
        assert moved[1] - end[1] == pytest.approx(np.log(100.0))


@pytest.mark.parametrize(("n", "rounding"), [(30, 30.0), (150, 100.0)])
def test_noise_ratios_stay_above_the_rounding_of_a_factorisation(factors, n, rounding):
    X, y = smooth(n=n)
    task = Task(Data(X, y[:, None]), KERNEL, CRITERIA["evidence"])
    least = np.log(rounding * np.finfo(np.float64).eps * n)
    factors()
    assert ResolventObjective(task).box(KERNEL.bounds)[0][-1] == pytest.approx(least)
    factors(by_force=True)  # by Gram matrices of features
    assert ResolventObjective(task).box(KERNEL.bounds)[0][-1] == pytest.approx(least + np.log(100.0))


def test_kernels_without_a_variance_have_a_unit_all_the_same():
    task = replace(
        make_task(1), kernel=DotProduct(1e-170), data=Data(np.zeros((5, 1)), np.arange(5.0)[:, None])
    )
    assert ResolventObjective(task).sloped == pytest.approx(np.log([1e-5, 1e3]))


def test_only_the_first_of_several_steps_has_a_curvature():
    objective, variables = ResolventObjective(make_task(1)), np.append(KERNEL.theta, 0.0)
    assert objective(variables).curvature is None
    assert objective.with_curvature(variables).curvature.shape == (3, 3)


def test_a_factor_of_all_rows_stands_for_the_matrix(factors):
    asked, task, variables = factors(rank=20), make_task(1), np.append(KERNEL.theta, np.log(0.3))
    by_factor = ResolventObjective(task)(variables)
    assert asked == [pytest.approx(0.3)]
    assert (by_factor.rank, by_factor.off_by) == (20, 0.1)
    factors()
    by_matrix = ResolventObjective(task)(variables)
    assert (by_matrix.rank, by_matrix.off_by) == (None, 1e-3)
    assert by_factor.value == pytest.approx(by_matrix.value, abs=1e-6)
    assert close(by_factor.gradient, by_matrix.gradient, 1e-5)
    assert np.ravel(by_factor.variances) == pytest.approx(np.ravel(by_matrix.variances), rel=1e-6)
    noise, signal = by_matrix.variances
    assert noise / signal == pytest.approx(0.3)


def many_rows(kernel=None, n=objectives._MANY, intercept=True, weight=None):
    """Return a task of so many rows that single precision pays."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)
    data = Data.with_intercept(X, y[:, None], weight, intercept)
    return Task(data, RBF(1.0) if kernel is None else kernel, CRITERIA["evidence"])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(1.0, nu=1.5)], ids=str)
def test_a_rough_objective_is_nearly_the_objective(kernel, intercept, weighted):
    weight = np.random.default_rng(1).uniform(0.5, 2.0, objectives._MANY) if weighted else None
    objective = ResolventObjective(many_rows(kernel, intercept=intercept, weight=weight))
    rough = objective.roughly()
    for variables in ([0.5, -3.0], [-0.5, 0.0], [1.5, -6.0]):
        exact, here = objective(np.array(variables)), rough(np.array(variables))
        assert here.off_by == objectives.ROUGHLY > exact.off_by
        assert 0 < abs(here.value - exact.value) < 0.1 * objectives.ROUGHLY
        assert here.gradient == pytest.approx(exact.gradient, rel=1e-3, abs=0.1)
        assert here.gradient.dtype == np.float64
    assert rough.n_calls == objective.n_calls == 3


def test_a_rough_objective_is_exact_where_single_precision_is_too_rough():
    objective = ResolventObjective(many_rows())
    rough = objective.roughly()
    limit = OFF_BY_OF_SINGLE * objectives._MANY / objectives.ROUGHLY  # of noise ratios, for unit variances
    for factor, is_rough in ((1.01, True), (0.99, False)):
        variables = np.array([0.5, np.log(factor * limit)])
        here, exact = rough(variables), objective(variables)
        assert (here.value != exact.value) == is_rough
        assert (here.off_by == objectives.ROUGHLY) == is_rough


def test_single_precision_is_for_many_rows_and_one_parameter():
    assert ResolventObjective(many_rows(n=objectives._MANY - 1)).roughly() is None
    assert ResolventObjective(many_rows(RBF([1.0, 1.0]))).roughly() is None
    for kernel in (DotProduct(1.0), Matern(1.0, nu=1.7), ConstantKernel(1.0)):
        assert ResolventObjective(many_rows(kernel)).roughly() is None


@pytest.mark.parametrize("size", [1e-60, 1e-11, 1e-9, 1.0, 1e9, 1e11, 1e60])
def test_weights_of_extreme_size_have_double_precision(size):
    rough = ResolventObjective(many_rows(weight=np.full(objectives._MANY, size))).roughly()
    assert (rough is not None) == (1e-10 < size < 1e10)
    if rough is not None:
        assert np.isfinite(rough(np.array([0.5, np.log(size)])).value)


def test_curvatures_of_a_rough_objective_are_nearly_those_of_the_objective():
    objective, variables = ResolventObjective(many_rows()), np.array([0.5, -3.0])
    rough, exact = (each.with_curvature(variables).curvature for each in (objective.roughly(), objective))
    assert rough == pytest.approx(exact, rel=1e-3)
