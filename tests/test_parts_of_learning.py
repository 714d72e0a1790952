"""Small parts of `learning` beside naive definitions: rules and counts that the end of a fit hardly shows."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import close, smooth
from sklearn.gaussian_process.kernels import RBF, Matern

from skspectral.criteria import CRITERIA
from skspectral.decomposition.data import Data
from skspectral.decomposition.plan import Plan
from skspectral.inference.approximate import laplace
from skspectral.inference.variances import VarianceBounds
from skspectral.learning import design, levels
from skspectral.learning.descent import (
    _bfgs,
    _damped,
    _initial_curvature,
    _line_search,
    _newton_direction,
    _updated,
    minimize_in_box,
)
from skspectral.learning.exploration import Explorer
from skspectral.learning.landmarks import LandmarkObjective, RowsInMemory
from skspectral.learning.latent import LatentObjective, _optimise, learn_latent
from skspectral.learning.latent_task import LatentTask
from skspectral.learning.moving import _Adam
from skspectral.learning.noise_task import MeanProcess
from skspectral.learning.objectives import Evaluation, profiled_evidence
from skspectral.learning.task import Task
from skspectral.likelihoods import Poisson

# -- the curvature around learned parameters


def make_task(theta_prior=None, plan=None):
    X, y = smooth(n=25)
    data = Data.with_intercept(X, y[:, None], None, True)
    plan = Plan() if plan is None else plan
    kernel = RBF([1.0, 0.7])
    return Task(data, kernel, CRITERIA["evidence"], VarianceBounds(), theta_prior=theta_prior, plan=plan)


def bowl(theta):
    """-2 log density of a normal prior, with its gradient."""
    centre, precision = np.array([0.3, -0.2]), np.array([2.0, 5.0])
    return float(precision @ (theta - centre) ** 2), 2.0 * precision * (theta - centre)


@pytest.mark.parametrize("prior", [None, bowl])
def test_slopes_and_axes_are_those_of_the_log_posterior_density(prior):
    task, theta = make_task(prior), np.array([0.1, -0.3])

    def density(theta):
        return profiled_evidence(task, theta, eval_gradient=False) - (prior(theta)[0] / 2 if prior else 0.0)

    h = 1e-4 * np.eye(2)
    differences = [(density(theta - e) - density(theta + e)) / 2e-4 for e in h]
    assert close(design._slope(task, theta), differences, 1e-5)
    steps = 0.05 * np.eye(2)
    H = [(design._slope(task, theta + e) - design._slope(task, theta - e)) / 0.1 for e in steps]
    axes = design._axes(task, theta)
    assert close(np.linalg.inv(axes @ axes.T), (H + np.transpose(H)) / 2, 1e-8)


def test_axes_are_no_longer_than_flat_and_no_shorter_than_narrow_densities_need(monkeypatch):
    curvature = np.array([0.01, 1e12, 25.0])
    monkeypatch.setattr(design, "_slope", lambda task, theta: curvature * theta)
    task = SimpleNamespace(kernel=RBF([1.0, 1.0, 1.0], (np.exp(-1.0), np.exp(1.0))))
    # in the middle, and at a bound, where the difference is one-sided
    for theta in (np.zeros(3), np.array([0.0, 0.0, 1.0])):
        axes = design._axes(task, theta)
        lengths = np.sort(np.sqrt((axes**2).sum(axis=0)))
        assert lengths == pytest.approx([1e-4, 0.2, 1.0])


# -- descents


@pytest.mark.filterwarnings("error")
def test_an_update_of_no_curvature_by_no_change_is_none():
    np.testing.assert_array_equal(
        _updated(np.zeros((2, 2)), np.ones(2), np.zeros(2), False), np.zeros((2, 2))
    )


@pytest.mark.parametrize("size", [1.0, 1e200, 1e-200])
def test_updates_are_those_of_bfgs_in_any_unit(size):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 3))
    B, step = A @ A.T + np.eye(3), rng.normal(size=3)
    change = B @ step + 0.1 * rng.normal(size=3)
    assert step @ change > 0.2 * step @ B @ step
    Bs = B @ step
    expected = B - np.outer(Bs, Bs) / (step @ Bs) + np.outer(change, change) / (step @ change)
    assert close(_updated(size * B, step, size * change, False) / size, expected, 1e-12)
    assert _updated(size * B, step, size * change, False) @ step / size == pytest.approx(change)


@pytest.mark.parametrize("agreement", [-3.0, 0.0, 0.19])
def test_changes_that_show_no_curvature_are_mixed_with_what_was_known(agreement):
    """Powell's damping: a fifth of the curvature that was known is left along the step."""
    B, step = np.diag([2.0, 3.0]), np.array([1.0, 0.0])
    new = _bfgs(B, step, agreement * B @ step, fresh=False)
    assert step @ new @ step == pytest.approx(0.2 * 2.0)
    assert new[1, 1] == 3.0
    assert _bfgs(B, step, 0.3 * B @ step, fresh=False)[0, 0] == pytest.approx(0.6)


def test_the_first_change_gives_the_curvature_its_scale():
    step, change = np.array([0.5, 0.0]), np.array([2.0, 1.0])
    new = _bfgs(77.0 * np.eye(2), step, change, fresh=True)
    scale = 5.0 / 1.0  # change'change / step'change
    B = scale * np.eye(2)
    expected = B - np.outer(B @ step, B @ step) / (step @ B @ step) + np.outer(change, change) / 1.0
    assert close(new, expected, 1e-12)


def test_first_steps_are_half_a_unit_long():
    gradient = np.array([3.0, -4.0])
    B = _initial_curvature(gradient)
    np.testing.assert_array_equal(B, 10.0 * np.eye(2))
    assert np.linalg.norm(np.linalg.solve(B, gradient)) == pytest.approx(0.5)
    np.testing.assert_array_equal(_initial_curvature(np.zeros(2)), 1e-8 * np.eye(2))
    np.testing.assert_array_equal(_damped(B, gradient), np.diag([10.75, 11.0]))


def test_directions_are_newtons_in_the_free_variables_and_no_longer_than_allowed():
    A = np.random.default_rng(0).normal(size=(3, 3))
    B, gradient, free = A @ A.T + np.eye(3), np.array([0.3, -0.2, 0.5]), np.array([True, False, True])
    whole = _newton_direction(B, gradient, free, 10.0)
    part = np.ix_(free, free)
    assert whole[free] == pytest.approx(-np.linalg.solve(B[part], gradient[free]))
    assert whole[1] == 0.0
    longest = 0.5 * np.abs(whole).max()
    assert close(_newton_direction(B, gradient, free, longest), 0.5 * whole, 1e-12)
    flat = _newton_direction(np.diag([1.0, -1e-16, 1.0]), 1e-14 * np.ones(3), np.ones(3, dtype=bool), 10.0)
    assert flat == pytest.approx([-1e-14, -1e-2, -1e-14])  # no flatter than 1e-12 of the largest


def test_steps_are_cut_to_the_minimum_of_a_parabola_or_to_a_quarter_where_nothing_is_defined():
    tried = []

    def objective(x):
        tried.append(float(x[0]))
        return Evaluation(np.inf if x[0] > 0.5 else (x[0] - 0.1) ** 2, 2.0 * (x - 0.1))

    box = (np.array([-9.0]), np.array([9.0]))
    x, there = _line_search(objective, np.zeros(1), 0.01, np.array([-0.2]), np.ones(1), box, 12)
    assert tried == pytest.approx([1.0, 0.25, 0.1])  # a parabola has its minimum where it is
    assert x == pytest.approx([0.1])
    assert there.value == pytest.approx(0.0, abs=1e-15)
    x, there = _line_search(objective, np.zeros(1), 0.01, np.array([-0.2]), np.ones(1), box, 1)
    assert there is None
    assert x == 0.0


def test_a_descent_ends_after_two_steps_that_bring_nothing():
    seen = []

    def flat(x):
        return Evaluation(1.0 - 1e-9 * len(seen), np.array([1e-3]))

    box = np.array([-9.0]), np.array([9.0])
    minimize_in_box(flat, np.zeros(1), *box, tolerance=1e-7, report=lambda *step: seen.append(step))
    assert [step for step, *_ in seen] == [1, 2]
    limited = []
    minimize_in_box(
        lambda x: Evaluation(float(x[0]), np.ones(1)),
        np.zeros(1),
        *box,
        max_steps=3,
        report=lambda *step: limited.append(step),
    )
    assert [step for step, *_ in limited] == [1, 2, 3]


@pytest.mark.parametrize(("gain", "n_kept"), [(0.09, 1), (0.11, 2)])
def test_a_hop_must_gain_a_tenth(gain, n_kept):
    looks = []

    class Looking(Explorer):
        def look(self, start, to_beat, curvature=None):
            looks.append((float(start[0]), to_beat))
            return SimpleNamespace(x=start, value=5.0 - gain, curvature=None)

        def go_on(self, descent, **settings):
            return descent

    explorer = Looking(SimpleNamespace(n_calls=0), np.array([-9.0]), np.array([9.0]))
    ends = explorer.hop([SimpleNamespace(x=np.zeros(1), value=5.0, curvature=None)], 1e-3)
    assert len(ends) == n_kept
    assert ends[0].value == pytest.approx(5.0 - gain * (n_kept - 1))
    assert [to_beat for _, to_beat in looks[:1]] == pytest.approx([4.9])
    hop = float(np.log(5.0))
    places = [hop, -hop] if n_kept == 1 else [hop, 0.0, 2.0 * hop]  # from the end that was found
    assert [place for place, _ in looks] == pytest.approx(places)


# -- objectives


def test_passes_over_the_rows_are_counted(monkeypatch):
    passes = []
    sums = RowsInMemory.sums

    def counted(self, kernel, feature_map):
        passes.append(kernel)
        return sums(self, kernel, feature_map)

    monkeypatch.setattr(RowsInMemory, "sums", counted)
    task = make_task(plan=Plan("low_rank", 6))
    objective, theta = LandmarkObjective(task), task.kernel.theta
    first = objective(theta)
    assert objective.n_calls == len(passes) == 1
    objective.jointly(theta, objective.landmarks + 0.1)
    assert objective.n_calls == len(passes) == 2
    objective.refreshed(theta, first.value)
    assert objective.n_calls == len(passes) == 3


def test_an_end_of_learning_counts_its_matrices_and_looks_for_factors_unless_told():
    asked = []

    class Asked:
        n_matrices = 3

        def solve(self, theta, *, without_factor):
            asked.append(without_factor)
            return "decomposition", "solution"

        def objective(self, theta, solution):
            return 7.0

    objective = SimpleNamespace(task=Asked(), n_calls=10)
    end = levels._learned(objective, np.zeros(1))
    assert (end.value, end.decomposition, end.solution, end.n_decompositions) == (
        7.0,
        "decomposition",
        "solution",
        13,
    )
    levels._learned(objective, np.zeros(1), True)
    assert asked == [False, True]
    assert objective.n_calls == 16


def test_the_matrix_of_a_mean_is_raised_on_its_diagonal_alone():
    X, kernel = np.array([[0.0], [0.0], [1.0]]), Matern(1.0, nu=0.5)
    K = kernel(X)
    mean = MeanProcess(kernel, 4.0, (1e-5, 1e5), True, X)
    added = mean.prior().K / 4.0 - K
    assert added == pytest.approx(3.0 * np.finfo(np.float64).eps * np.eye(3), abs=1e-17)


def test_steps_of_adam_are_those_of_the_paper():
    adam, mean, square = _Adam(0.3), 0.0, 0.0
    for n, slope in enumerate(np.random.default_rng(0).normal(size=(4, 3)), 1):
        mean, square = 0.8 * mean + 0.2 * slope, 0.99 * square + 0.01 * slope**2
        size = np.sqrt(square / (1.0 - 0.99**n))
        expected = -0.3 * mean / (1.0 - 0.8**n) / (size + 1e-6 * size.max())
        assert close(adam.step(slope), expected, 1e-12)
    np.testing.assert_array_equal(_Adam(0.3).step(np.zeros(3)), np.zeros(3))
    tiny = _Adam(0.3).step(np.array([1.0, 1e-6]))
    assert tiny == pytest.approx([-0.3, -0.15], rel=1e-5)  # slopes that may be rounding move less


# -- latent tasks


def poisson_task():
    X, y = smooth(n=20)
    counts = np.round(np.exp(y / 2.0))[:, None]
    return LatentTask(Data.with_intercept(X, counts, None, True), RBF(1.0), Poisson(), laplace)


def test_the_end_of_an_optimizer_has_the_value_of_the_objective():
    task = poisson_task()
    end = _optimise(task, task.start, lambda f, x, bounds: (x, f(x)[0]))
    expected = LatentObjective(task)(task.start).value
    assert end.value == pytest.approx(expected)
    assert end.n_evaluations == 1


@pytest.mark.parametrize("bad", [(0.0, np.inf), (-np.inf, 0.0)])
def test_starts_are_not_drawn_where_any_bound_is_infinite(bad):
    task = SimpleNamespace(start=np.zeros(2), bounds=np.array([[-1.0, 1.0], bad]))
    with pytest.raises(ValueError, match="which must be finite"):
        learn_latent(task, n_restarts=1)
    kernel = RBF([1.0, 1.0], [(0.1, 10.0), np.exp(bad)])
    with pytest.raises(ValueError, match="which must be finite"), np.errstate(divide="ignore"):
        levels.learn_from_starts(SimpleNamespace(kernel=kernel, report=None), n_restarts=1)
