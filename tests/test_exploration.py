"""Which valley learning ends in: hops, looks, the user's own path, bounds that are crept to."""

import numpy as np
import pytest
from problems import smooth
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skspectral import SpectralGPRegressor
from skspectral.criteria import CRITERIA
from skspectral.decomposition.data import Data
from skspectral.inference.variances import VarianceBounds
from skspectral.kernels.parts import split_kernel
from skspectral.learning import objectives, user_path
from skspectral.learning.descent import minimize_in_box
from skspectral.learning.evaluation import Evaluation
from skspectral.learning.exploration import Explorer
from skspectral.learning.objectives import ROUGHLY, ResolventObjective
from skspectral.learning.task import Task


class Counted:
    """A function of x with its gradient, counted."""

    def __init__(self, function, slope):
        self.function, self.slope, self.n_calls = function, slope, 0

    def __call__(self, x):
        self.n_calls += 1
        return Evaluation(float(self.function(x)), np.asarray(self.slope(x), dtype=float))


def two_valleys():
    """A function of two variables with a valley at 0 and a deeper one at (2.3, 0)."""

    def function(x):
        return -10.0 * np.exp(-2.0 * x[0] ** 2) - 13.0 * np.exp(-2.0 * (x[0] - 2.3) ** 2) + x[1] ** 2

    def slope(x):
        at_0, at_2 = np.exp(-2.0 * x[0] ** 2), np.exp(-2.0 * (x[0] - 2.3) ** 2)
        return [40.0 * x[0] * at_0 + 52.0 * (x[0] - 2.3) * at_2, 2.0 * x[1]]

    return Counted(function, slope)


def test_a_hop_finds_the_next_valley():
    box, start = (np.full(2, -6.0), np.full(2, 6.0)), np.array([0.3, 1.0])
    alone = minimize_in_box(two_valleys(), start, *box)
    assert alone.x == pytest.approx([0.0, 0.0], abs=1e-2)
    best, *_ = Explorer(two_valleys(), *box).explore([start], 1e-6)
    assert best.x == pytest.approx([2.3, 0.0], abs=1e-2)


def test_the_runner_up_is_kept_where_it_is_close_and_elsewhere():
    box = np.full(2, -6.0), np.full(2, 6.0)
    starts = [np.array([0.3, 1.0]), np.array([2.0, 1.0]), np.array([2.1, -1.0])]
    best, second = Explorer(two_valleys(), *box).explore(starts, 1e-6)
    assert best.x[0] == pytest.approx(2.3, abs=1e-2)
    assert second.x[0] == pytest.approx(0.0, abs=1e-2)


def test_a_look_gives_up_when_it_is_behind():
    objective = Counted(lambda x: 100.0 + x @ x, lambda x: 2.0 * x)
    explorer = Explorer(objective, np.full(3, -50.0), np.full(3, 50.0))
    end = explorer.look(np.full(3, 40.0), to_beat=0.0)
    hopeless = objective.n_calls
    objective.n_calls = 0
    full = explorer.descend(np.full(3, 40.0), tolerance=1e-9)
    assert hopeless < objective.n_calls
    assert end.value > full.value


def test_a_descent_that_goes_on_does_not_evaluate_its_start_again():
    """It makes the steps of a descent from the same point with the same curvature, with one call less."""
    objective = two_valleys()
    explorer = Explorer(objective, np.full(2, -6.0), np.full(2, 6.0))
    first, n_first = explorer.descend(np.array([0.3, 1.0]), tolerance=1e-2), objective.n_calls
    on, n_on = explorer.go_on(first, tolerance=1e-9), objective.n_calls - n_first
    again = explorer.descend(first.x, curvature=first.curvature, tolerance=1e-9)
    assert n_on == objective.n_calls - n_first - n_on - 1
    np.testing.assert_array_equal(on.x, again.x)
    assert on.value == again.value < first.value


def test_a_creeping_variable_is_taken_to_its_bound():
    """exp(-x) falls for ever, for less and less: an input that does not matter."""
    objective = Counted(
        lambda x: 0.1 * np.exp(-x[0]) + (x[1] - 0.5) ** 2,
        lambda x: [-0.1 * np.exp(-x[0]), 2.0 * (x[1] - 0.5)],
    )
    end = minimize_in_box(objective, np.zeros(2), np.full(2, -11.5), np.full(2, 11.5), tolerance=1e-9)
    assert end.x == pytest.approx([11.5, 0.5], abs=1e-4)
    assert objective.n_calls < 25


def test_a_bound_is_not_taken_where_it_is_worse():
    """A long way in one direction that ends in the interior."""
    objective = Counted(lambda x: 1e-3 * (x[0] - 6.0) ** 2, lambda x: 2e-3 * (x - 6.0))
    end = minimize_in_box(objective, np.zeros(1), np.array([-20.0]), np.array([20.0]), tolerance=1e-12)
    assert end.x == pytest.approx([6.0], abs=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel() * RBF([1.0, 1.0]) + WhiteKernel(),
        RBF([0.3, 3.0]) + WhiteKernel(0.01),
        ConstantKernel(2.0) * RBF(3.0) + ConstantKernel(0.5) * Matern(0.2, nu=1.5) + WhiteKernel(0.1),
        RationalQuadratic(0.2, 5.0) * RBF([4.0, 0.4]) + WhiteKernel(0.5),
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", range(3))
def test_the_end_is_no_worse_than_that_of_scikit_learn(kernel, seed):
    X, y = smooth(seed, n=50)
    peer = GaussianProcessRegressor(kernel).fit(X, y)
    gp = SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y)
    assert gp.log_marginal_likelihood_value_ >= peer.log_marginal_likelihood_value_ - 0.01


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_users_path_is_that_of_scikit_learn():
    """From the same start, by the same steps: the same end."""
    X, y = smooth(4, n=40)
    kernel = ConstantKernel(1.5) * RBF([0.7, 2.0]) + ConstantKernel(0.3) * ExpSineSquared(
        1.0, 4.0, periodicity_bounds="fixed"
    )
    kernel = kernel + WhiteKernel(0.2)
    parts = split_kernel(kernel)
    task = Task(
        Data.with_intercept(X, y[:, None], None, False), parts.core, CRITERIA["evidence"], given=kernel
    )
    path = user_path.follow_user_path(task)
    fitted = GaussianProcessRegressor(kernel).fit(X, y)
    peer = split_kernel(fitted.kernel_)
    assert not path.is_known
    assert path.x[:-1] == pytest.approx(peer.core.theta, abs=1e-3)
    assert path.x[-1] == pytest.approx(np.log(peer.noise_start / peer.signal_start), abs=1e-3)
    ours = ResolventObjective(task)(path.x).value
    assert ours == pytest.approx(path.value, abs=1e-3)
    assert -0.5 * (ours + 40 * (1 + np.log(2 * np.pi * (y @ y) / 40))) == pytest.approx(
        fitted.log_marginal_likelihood_value_, abs=1e-3
    )
    near = user_path.follow_user_path(task, lambda x: np.abs(x - path.x).max() < 0.1)
    assert near.is_known  # it stops on the way to an end that is known
    assert 1 < near.n_calls < path.n_calls
    assert not user_path.follow_user_path(task, lambda x: True, below=path.value - 1.0).is_known
    level = user_path.follow_user_path(task, level=path.value)  # it is flat there
    assert path.value - 1e-9 <= level.value < path.value + 0.1
    assert level.n_calls < path.n_calls
    assert user_path.follow_user_path(task, level=path.value - 1.0).n_calls == path.n_calls


def test_the_curvature_of_the_users_path_has_the_signal_variance_at_its_best(rng):
    """H by (log constant, log lengths, log noise): in other variables, and less the one that is free."""
    kernel = ConstantKernel(1.5) * RBF([0.7, 2.0]) + WhiteKernel(0.2)
    task = Task(Data(np.zeros((3, 2)), np.zeros((3, 1))), split_kernel(kernel).core, None, given=kernel)
    H = np.cov(rng.normal(size=(4, 9)))
    A = np.array(
        [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]]
    )  # theta of (lengths, ratio, constant)
    in_ours = A.T @ (2.0 * H) @ A
    expected = in_ours[:3, :3] - np.outer(in_ours[:3, 3], in_ours[3, :3]) / in_ours[3, 3]
    view = user_path._CoreView(task)
    assert np.allclose(view.curvature(kernel.theta, np.linalg.inv(H)), expected, rtol=1e-8)
    assert view.at(kernel.theta + 1.0) == pytest.approx([*np.log([0.7, 2.0]) + 1.0, np.log(0.2 / 1.5)])


@pytest.mark.parametrize(
    "change",
    [
        {"weight": np.full(40, 2.0)},
        {"outputs": 2},
        {"kernel": ConstantKernel() * RBF()},
        {"rows": user_path.MAX_ROWS + 1},
    ],
)
def test_the_users_path_is_not_followed_where_it_means_nothing(change):
    X, y = smooth(4, n=change.get("rows", 40))
    kernel = change.get("kernel", ConstantKernel() * RBF([1.0, 1.0]) + WhiteKernel())
    Y = np.column_stack([y] * change.get("outputs", 1))
    data = Data.with_intercept(X, Y, change.get("weight"), True)
    task = Task(data, split_kernel(kernel).core, CRITERIA["evidence"], given=kernel)
    assert not user_path.is_followed(task)


def test_a_length_is_learned_where_hops_find_nothing_but_noise():
    """A wave so short that a length of 5, and others around it, explain nothing of it."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (80, 1))
    y = 30.0 * (np.sin(25.0 * X[:, 0]) + 0.2 * rng.normal(size=80))
    kernel = ConstantKernel() * RBF(5.0) + WhiteKernel()
    gp = SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y)
    peer = GaussianProcessRegressor(kernel).fit(X, y)
    assert gp.log_marginal_likelihood_value_ >= peer.log_marginal_likelihood_value_ - 0.01


def test_a_look_ends_where_it_comes_back_to_a_known_end():
    bowl = Counted(lambda x: 50.0 * (np.cosh(x) - 1.0).sum(), lambda x: 50.0 * np.sinh(x))
    explorer = Explorer(bowl, np.full(2, -9.0), np.full(2, 9.0))
    known, start = explorer.descend(np.zeros(2)), np.array([3.0, 0.1])
    bowl.n_calls = 0
    explorer.look(start, -1.0)
    n_without, bowl.n_calls = bowl.n_calls, 0
    end = explorer.look(start, -1.0, home=known.x)
    assert 1e-3 < np.abs(end.x - known.x).max() <= 0.5
    assert bowl.n_calls < n_without


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
def test_the_same_targets_once_and_twice_give_the_same_lengths():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=60)  # two inputs do not matter
    once = SpectralGPRegressor(RBF(np.ones(3))).fit(X, y)
    twice = SpectralGPRegressor(RBF(np.ones(3))).fit(X, np.column_stack([y, y]))
    assert once.kernel_.theta == pytest.approx(twice.kernel_.theta, abs=1e-3)
    value = twice.log_marginal_likelihood_value_ / 2.0
    assert once.log_marginal_likelihood_value_ == pytest.approx(value, abs=1e-5)


def test_learning_is_deterministic():
    X, y = smooth(2, n=80)
    kernel = RBF([1.0, 1.0]) + WhiteKernel()
    one, other = (SpectralGPRegressor(kernel).fit(X, y) for _ in range(2))
    assert np.array_equal(one.kernel_.theta, other.kernel_.theta)
    assert one.n_decompositions_ == other.n_decompositions_


@pytest.mark.parametrize("kernel", [ConstantKernel() * RBF(0.3) + WhiteKernel(), RBF(0.3)], ids=str)
def test_the_users_start_is_a_candidate_on_all_rows(kernel):
    """A wave under heavy tails, of which half of the rows see too little: they lead away from it."""
    rng = np.random.default_rng(7)
    X = rng.uniform(-2, 2, (310, 1))
    y = 0.7 * np.sin(8 * X[:, 0]) + rng.standard_t(2, size=310)
    gp = SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y)
    peer = GaussianProcessRegressor(ConstantKernel() * RBF(0.3) + WhiteKernel()).fit(X, y)
    assert gp.log_marginal_likelihood_value_ >= peer.log_marginal_likelihood_value_ - 1e-3
    assert gp.kernel_.length_scale < 0.5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
def test_lengths_are_learned_where_bounds_hold_both_variances():
    """The noise ratio is at an edge then, where a descent in it has no slope to follow."""
    X, y = smooth(0, n=60)
    y = 1e-3 * y / y.std()
    kernel = ConstantKernel() * RBF(1.0) + WhiteKernel()
    gp = SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y)
    peer = GaussianProcessRegressor(kernel).fit(X, y)
    assert gp.log_marginal_likelihood_value_ >= peer.log_marginal_likelihood_value_ - 1e-4
    assert [t.status for t in gp.tuning_] == ["bound"]


@pytest.mark.parametrize(
    ("noise", "signal", "size", "expected"),
    [
        ((1e-5, 1e5), (1e-5, 1e5), 7e-3, True),  # its square is less than twice 2e-5 + 1e-5
        ((1e-5, 1e5), (1e-5, 1e5), 8e-3, False),
        ((1e-5, 1e5), (1e-5, 1e5), 4.0e2, True),  # more than half of 2e5 + 1e5
        ((1e-5, 1e5), (1e-5, 1e5), 3.8e2, False),
        ((0.0, np.inf), (1e-5, np.inf), 1e-9, False),  # noise may vanish
        ((1e-5, 1e-5), (1e-5, 1e5), 1e-9, False),  # noise is given
        ((1e-5, 1e5), (2.0, 2.0), 1e9, False),  # the signal is given
    ],
)
def test_bounds_hold_both_variances_where_targets_are_beyond_their_sum(noise, signal, size, expected):
    bounds = VarianceBounds(noise, signal)
    assert bounds.hold_both(size, 2.0) is expected
    X = np.linspace(0.0, 1.0, 20)[:, None]
    y = size * np.where(np.arange(20) % 2, 1.0, -1.0)[:, None]
    task = Task(Data(X, y), ConstantKernel(2.0, "fixed") * RBF(), CRITERIA["evidence"], bounds)
    assert task.is_single is not expected


def test_a_step_is_shortened_until_the_function_is_defined():
    """From 1/2 to less than a thousandth: five times."""
    objective = Counted(lambda x: np.inf if x[0] > 1e-3 else -x[0], lambda x: [-1.0])
    end = minimize_in_box(objective, np.zeros(1), np.full(1, -9.0), np.full(1, 9.0), max_steps=1)
    assert 0.0 < end.x[0] < 1e-3


@pytest.mark.parametrize("n_flat", [1, 2])
def test_variables_that_do_not_matter_go_to_their_bounds_in_one_evaluation(n_flat):
    """From afar, if that costs nothing; else they are tried one by one, a single one not again."""
    lower, upper = np.full(3, -9.0), np.full(3, 9.0)
    for loss, n_tried in ((0.0, 1), (1.0, 1 if n_flat == 1 else 3)):
        objective = Counted(lambda x, loss=loss: loss * (x[:n_flat] == 9.0).any(), np.zeros_like)
        start = np.array([8.0] * n_flat + [0.0] * (3 - n_flat))
        end = minimize_in_box(objective, start, lower, upper, way_from=np.zeros(3), here=objective(start))
        assert objective.n_calls == 1 + n_tried
        assert (end.x[:n_flat] == (8.0 if loss else 9.0)).all()


def test_a_kernel_beyond_all_numbers_has_no_evidence_on_the_users_path(rng):
    kernel = (
        ConstantKernel(1.0, (1e-5, 1e300)) * ConstantKernel(1.0, (1e-5, 1e300)) * RBF(1.0) + WhiteKernel()
    )
    data = Data.with_intercept(rng.normal(size=(8, 1)), rng.normal(size=(8, 1)), None, False)
    task = Task(data, split_kernel(kernel).core, CRITERIA["evidence"], given=kernel)
    objective = user_path._GivenObjective(task)
    value, slope = objective(np.log([1e200, 1e200, 1.0, 1.0]))  # warnings are errors here
    assert value == np.inf
    assert not slope.any()
    assert np.isfinite(objective(kernel.theta)[0])


class WithRough(Counted):
    """A parabola around 3 whose rough twin is off by 0.4, and rough only above `rough_from`."""

    def __init__(self, rough_from=-np.inf):
        super().__init__(lambda x: 5.0 * float((x - 3.0) @ (x - 3.0)), lambda x: 10.0 * (x - 3.0))
        self.rough_from, self.rough_calls = rough_from, []

    def roughly(self):
        """Return the rough twin."""
        twin = Counted(self.function, self.slope)

        def rough(x):
            twin.n_calls += 1
            rough.n_calls = twin.n_calls
            self.rough_calls.append(float(x[0]))
            exact = x[0] <= self.rough_from
            shift, off_by = (0.0, 1e-3) if exact else (0.4, ROUGHLY)
            return Evaluation(self.function(x) + shift, self.slope(x), off_by=off_by)

        rough.n_calls = 0
        return rough


BOX = np.array([-10.0]), np.array([10.0])


def test_a_descent_with_a_curvature_is_rough_from_afar_and_exact_in_the_end():
    objective = WithRough()
    (end,) = Explorer(objective, *BOX).compare([(np.array([-6.0]), np.array([[9.0]]))], 1e-6)
    assert end.x == pytest.approx([3.0], abs=1e-3)
    assert end.value == pytest.approx(0.0, abs=1e-5)  # not off by what is rough
    n_rough = len(objective.rough_calls)
    assert n_rough > objective.n_calls - n_rough > 0
    assert abs(objective.rough_calls[-1] - 3.0) < 1.0  # left where little more was promised


def test_the_end_of_a_rough_descent_is_not_evaluated_again_where_it_is_exact():
    objective = WithRough(rough_from=10.0)
    Explorer(objective, *BOX).compare([(np.array([2.9]), np.array([[10.0]]))], 1.0)
    assert objective.rough_calls == [2.9]
    assert objective.n_calls == 1


def test_a_descent_without_a_curvature_is_exact_from_its_start():
    objective = WithRough()
    Explorer(objective, *BOX).compare([(np.array([-6.0]), None)], 1e-6)
    assert objective.rough_calls == []


def test_a_look_that_gives_up_is_rough_and_one_that_goes_on_is_exact():
    objective = WithRough()
    behind = Explorer(objective, *BOX).look(np.array([-9.0]), -1e6)
    assert objective.n_calls == len(objective.rough_calls) > 0
    assert behind.evaluation.gradient is None
    ahead = Explorer(objective, *BOX).look(np.array([0.0]), 0.5)
    assert objective.n_calls > len(objective.rough_calls)
    assert ahead.value == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("intercept", [False, True])
def test_what_is_learned_does_not_depend_on_rough_steps(monkeypatch, intercept):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (640, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=640)
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(1.0)
    rough = SpectralGPRegressor(kernel, fit_intercept=intercept).fit(X, y)
    monkeypatch.setattr(objectives, "_MANY", np.inf)
    exact = SpectralGPRegressor(kernel, fit_intercept=intercept).fit(X, y)
    assert rough.log_marginal_likelihood_value_ == pytest.approx(
        exact.log_marginal_likelihood_value_, abs=1e-5
    )
    assert rough.kernel_.theta == pytest.approx(exact.kernel_.theta, abs=1e-4)
