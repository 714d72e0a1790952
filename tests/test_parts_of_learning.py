"""Small parts of `learning` beside naive definitions: rules and counts that the end of a fit hardly shows."""

import itertools
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from problems import close, smooth
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from skspectral.criteria import CRITERIA
from skspectral.decomposition.data import Data
from skspectral.decomposition.plan import Plan, Route
from skspectral.inference.approximate import laplace
from skspectral.inference.variances import VarianceBounds, VariancePrior
from skspectral.learning import design, latent, levels, moving, noise_task, step_factors
from skspectral.learning.descent import (
    _bfgs,
    _damped,
    _initial_curvature,
    _line_search,
    _newton_direction,
    _solved,
    _updated,
    _Walk,
    minimize_in_box,
)
from skspectral.learning.evaluation import Evaluation
from skspectral.learning.exploration import Explorer
from skspectral.learning.landmarks import LandmarkObjective, RowsInMemory
from skspectral.learning.latent import LatentObjective, _optimise, learn_latent
from skspectral.learning.latent_task import LatentTask
from skspectral.learning.moving import _Adam
from skspectral.learning.noise_task import MeanProcess
from skspectral.learning.objectives import ResolventObjective, profiled_evidence
from skspectral.learning.priors import read_priors
from skspectral.learning.task import Task
from skspectral.likelihoods import Poisson
from skspectral.support.exceptions import IndefiniteKernelError

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


def test_axes_are_short_where_waves_pass_by(monkeypatch):
    waves, plain = 0.04, 25.0  # a slope with many roots beside one with a single root

    def slope(task, theta):
        return np.array([np.sin(theta[0] / waves * 2 * np.pi) * 1e3, plain * theta[1]])

    monkeypatch.setattr(design, "_slope", slope)
    task = SimpleNamespace(kernel=RBF([1.0, 1.0], (np.exp(-1.0), np.exp(1.0))))
    lengths = np.sort(np.abs(design._axes(task, np.zeros(2))).max(axis=0))
    narrow = 1e3 * np.sin(5e-4 / waves * 2 * np.pi) / 5e-4
    assert lengths == pytest.approx([narrow**-0.5, 0.2], rel=1e-6)
    # so many of them that neither step sees the maximum: there is nothing to average
    waves = 6.7e-4
    assert slope(task, np.array([5e-4, 0.0]))[0] < 0 > slope(task, np.array([0.05, 0.0]))[0]
    axes = np.abs(design._axes(task, np.zeros(2)))
    assert np.sort(axes.ravel()) == pytest.approx([0.0, 0.0, 0.0, 0.2], rel=1e-12, abs=0.0)
    at_bound = SimpleNamespace(kernel=RBF([1.0, 1.0], (1.0, np.exp(1.0))))
    assert np.sort(np.abs(design._axes(at_bound, np.zeros(2))).max(axis=0)) == pytest.approx([0.2, 1.0])


def lengths_between(low, high, p=1):
    """Return a task whose p parameters, logs of lengths, lie between two limits."""
    return SimpleNamespace(kernel=RBF(np.ones(p) if p > 1 else 1.0, (np.exp(low), np.exp(high))))


def test_a_grid_goes_to_both_sides_until_nothing_is_left(monkeypatch):
    """A normal density of width 0.5 in steps of 3/4 of it, 1000 times larger in places than exp can hold."""
    monkeypatch.setattr(design, "_axes", lambda task, theta: np.array([[0.5]]))
    asked = []

    def log_density(theta):
        asked.append(theta[0])
        return 1000.0 - 2.0 * (theta[0] - 0.3) ** 2

    points, weight = design.explore(lengths_between(-9.0, 9.0), np.array([0.3]), log_density)
    z = 0.75 * np.arange(1, 6)  # exp(-z^2/2) is below exp(-5) at the fifth step
    assert points[:, 0] == pytest.approx(np.concatenate([[0.3], 0.3 + 0.5 * z, 0.3 - 0.5 * z]))
    assert len(asked) == len(points)
    density = np.exp(-0.5 * np.concatenate([[0.0], z, z]) ** 2)
    assert weight == pytest.approx(density / density.sum())
    points, _ = design.explore(lengths_between(-9.0, 9.0), np.array([0.3]), lambda theta: 0.0)
    assert len(points) == 17  # eight steps to each side of what has no end
    points, weight = design.explore(lengths_between(0.0, 9.0), np.array([0.3]), log_density)
    assert points.min() == 0.3  # there is nothing below, so that no weight is left of the first step
    assert weight.sum() == pytest.approx(1.0)


def test_densities_are_not_asked_for_beyond_bounds_but_at_them():
    bounded = design._Bounded(lambda theta: 7.0, np.array([[-1.0, 2.0], [0.0, 3.0]]))
    for theta, expected in (
        *(((-1.0, 3.0), 7.0), ((2.0 + 1e-12, 0.0), 7.0), ((-1.0 - 1e-12, 0.0), 7.0)),
        *(((2.0 + 4e-12, 0.0), -np.inf), ((-1.0 - 3e-12, 1.0), -np.inf), ((0.0, -1.5e-12), -np.inf)),
        *(((0.0, 3.0 + 5e-12), -np.inf), ((0.0, 3.0 + 3.5e-12), 7.0), ((0.0, -0.9e-12), 7.0)),
    ):
        assert bounded(np.array(theta)) == expected


@pytest.mark.parametrize("p", [2, 3, 5, 12])
def test_a_normal_density_has_the_weights_of_its_design(monkeypatch, p):
    axes = np.tril(np.random.default_rng(0).normal(size=(p, p))) + 2.0 * np.eye(p)
    monkeypatch.setattr(design, "_axes", lambda task, theta: axes)
    theta = np.linspace(-1.0, 1.0, p)
    precision = np.linalg.inv(axes @ axes.T)
    points, weight = design.explore(
        lengths_between(-99.0, 99.0, p), theta, lambda t: 5.0 - 0.5 * (t - theta) @ precision @ (t - theta)
    )
    z, share = design.composite_design(p)
    assert close(points, theta + z @ axes.T, 1e-12)
    assert weight == pytest.approx(share)
    assert share.sum() == pytest.approx(1.0)
    assert close(np.einsum("k,ki,kj->ij", share, z, z), np.eye(p), 1e-12)  # the moments of a normal density
    assert np.abs(share @ z).max() < 1e-12
    assert share[0] == pytest.approx(1.0 - 1.0 / 1.21)
    assert np.linalg.norm(z[1:], axis=1) == pytest.approx(1.1 * np.sqrt(p))
    corners = len(z) - 1 - 2 * p
    assert corners == (0 if p > 11 else {2: 4, 3: 8, 5: 16}[p])


def test_corners_of_a_design_tell_main_effects_and_pairs_apart():
    """As many as Sanchez & Sanchez (2005) need, and no product of up to four columns is a constant."""
    sizes = [2, 4, 8, 16, 16, 32, 64, 64, 128, 128, 128]
    for p, size in enumerate(sizes, 1):
        corners = design._corners(p)
        assert corners.shape == (size, p)
        assert (np.abs(corners) == 1.0).all()
        for k in range(1, 5):
            for columns in combinations(range(p), k):
                assert corners[:, columns].prod(axis=1).sum() == 0.0
    assert design._corners(12).shape == (0, 12)


# -- priors


def test_priors_of_parameters_are_minus_twice_log_densities():
    kernel = RBF([1.0, 0.7]) + ConstantKernel(2.0) * DotProduct(0.5)
    length, sigma = stats.gamma(3.0, scale=0.5), stats.lognorm(0.8)
    prior, _ = read_priors({"length_scale": length, "sigma_0": sigma}, kernel, VarianceBounds())
    theta = kernel.theta + 0.3

    def expected(theta):
        parameters = np.exp(theta)  # two lengths, the constant, and sigma
        return -2.0 * (length.logpdf(parameters[:2]).sum() + sigma.logpdf(parameters[3]))

    value, gradient = prior(theta)
    assert value == pytest.approx(expected(theta))
    steps = 1e-4 * np.eye(4)
    assert gradient == pytest.approx(
        [(expected(theta + h) - expected(theta - h)) / 2e-4 for h in steps], abs=1e-5
    )
    assert prior.log_density(theta) == pytest.approx(-0.5 * expected(theta) + theta[[0, 1, 3]].sum())


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
    step, change = np.array([0.5, 0.0]), np.array([4.0, 1.0])
    new = _bfgs(77.0 * np.eye(2), step, change, fresh=True)
    scale = 17.0 / 2.0  # change'change / step'change
    B = scale * np.eye(2)
    expected = B - np.outer(B @ step, B @ step) / (step @ B @ step) + np.outer(change, change) / 2.0
    assert close(new, expected, 1e-12)
    huge = 1e200 * np.array([4.0, 0.0])  # whose square is no number
    assert close(_updated(1e-8 * np.eye(2), step, huge, True), 8e200 * np.eye(2))


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
    # no flatter than 1e-12 of the largest
    assert flat == pytest.approx([-1e-14, -1e-2, -1e-14], rel=1e-6, abs=0.0)


@pytest.mark.parametrize("size", [1.0, 1e-12, 1e12, 1e26])
@pytest.mark.parametrize("flat", [1e-13, 0.0, -1e-16, -1.0])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_curvatures_are_no_flatter_than_a_share_of_the_largest(size, flat, place):
    """Where rounding has left a Cholesky decomposition, and where it has not."""
    b = np.insert([3.0, 0.5], place, 3.0 * flat)
    gradient = 0.1 * size * np.array([0.7, -0.2, 0.4])
    expected = gradient / size / np.maximum(b, 3e-12)
    assert close(_solved(size * np.diag(b), gradient), expected, 1e-9)
    A = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turned = size * (A * b) @ A.T
    assert close(_solved((turned + turned.T) / 2.0, A @ gradient), A @ expected, 0.2 if flat > 0 else 1e-3)


def test_curvatures_are_no_flatter_than_a_share_of_the_slope():
    gradient = np.array([2.0, -3e3, 0.0])
    assert _solved(np.zeros((3, 3)), gradient) == pytest.approx(gradient / 3e-9)
    assert _solved(np.diag([5.0, 5.0, 0.0]), gradient) == pytest.approx(gradient / 5.0)
    assert _solved(np.diag([5.0, 3e-10, 0.0]), gradient) == pytest.approx([0.4, -1e12, 0.0])


def test_steps_are_cut_to_the_minimum_of_a_parabola_or_to_a_quarter_where_nothing_is_defined():
    tried = []

    def objective(x):
        tried.append(float(x[0]))
        return Evaluation(np.inf if x[0] > 0.5 else (x[0] - 0.1) ** 2, 2.0 * (x - 0.1))

    box = (np.array([-9.0]), np.array([9.0]))
    x, there, _ = _line_search(objective, np.zeros(1), 0.01, np.array([-0.2]), np.ones(1), box, 12)
    assert tried == pytest.approx([1.0, 0.25, 0.1])  # a parabola has its minimum where it is
    assert x == pytest.approx([0.1])
    assert there.value == pytest.approx(0.0, abs=1e-15)
    x, there, _ = _line_search(objective, np.zeros(1), 0.01, np.array([-0.2]), np.ones(1), box, 1)
    assert there is None
    assert x == 0.0


def test_a_line_search_asks_for_a_share_of_what_the_slope_promises():
    """On a line that falls by a share of the slope, and a path that a bound cuts off at half."""
    box = (np.array([-9.0]), np.array([2.5]))
    for share, is_enough in ((0.9e-4, False), (1.1e-4, True)):

        def line(x, share=share):
            return Evaluation(-share * float(x[0] - 2.0), np.array([-1.0]))

        x, there, _ = _line_search(line, np.array([2.0]), 0.0, np.array([-1.0]), np.ones(1), box, 1)
        assert (there is not None) == is_enough
        assert x == (2.5 if is_enough else 2.0)


@pytest.mark.parametrize(("wall", "places"), [(100.0, [1.0, 0.1]), (-5e-7, [1.0, 0.5])])
def test_steps_are_cut_by_no_more_than_ten_and_no_less_than_two(wall, places):
    tried = []

    def objective(x):
        tried.append(float(x[0]))
        return Evaluation(wall if x[0] > 0.9 else -1.0, np.zeros(1))

    box = (np.array([-9.0]), np.array([9.0]))
    _line_search(objective, np.zeros(1), 0.0, np.array([-0.01]), np.ones(1), box, 9)
    assert tried == pytest.approx(places, abs=1e-9)


class Bent:
    """Two smooth pieces that meet at 0 with the same slope: x / 100 above, 50 x^2 + x / 100 below.

    The minimum of the lower one is at -1e-4, just behind the edge.
    """

    def __init__(self, face=None):
        self.n_calls, self.only = 0, face

    def on_face(self, face):
        return Bent("whole" if face is None else face)

    def __call__(self, x):
        self.n_calls += 1
        x = float(x[0])
        is_steep = self.only == "steep" or (self.only is None and x < 0)
        value, slope = (50 * x**2 + x / 100, 100 * x + 0.01) if is_steep else (x / 100, 0.01)
        return Evaluation(value, np.array([slope]), face="steep" if is_steep and self.only is None else None)


def test_a_minimum_behind_an_edge_is_reached_along_the_other_face():
    bent = Bent()
    end = minimize_in_box(bent, np.array([3.0]), np.array([-9.0]), np.array([9.0]), tolerance=1e-9)
    assert end.x == pytest.approx([-1e-4], abs=1e-8)
    assert end.evaluation.face == "steep"  # of the function itself, not of its face
    assert bent.n_calls < 25


def test_a_line_search_stops_at_an_edge_unless_faces_do_not_matter():
    box, ahead = (np.array([-9.0]), np.array([9.0])), (np.array([0.5]), 0.005, np.array([0.01]))
    x, there, beyond = _line_search(Bent(), *ahead, np.array([-1.0]), box, 12, None)
    assert (x, there, beyond.face) == (0.5, None, "steep")
    x, there, beyond = _line_search(Bent(), *ahead, np.array([-1.0]), box, 12)
    assert beyond is None
    assert there.value < 0.005


@pytest.mark.parametrize("start", [[0.0], [5.0, 5.0]])
def test_a_line_search_leaves_a_function_that_is_rougher_than_its_slope(start):
    """Twelve steps, down to 1e-12, would not tell rounding from a function."""
    tried, rng, start = [], np.random.default_rng(0), np.array(start)
    ahead = np.eye(len(start))[0]

    def rough(x):
        tried.append(float(x[0] - start[0]))
        return Evaluation(tried[-1] ** 2 + rng.uniform(0.05, 0.1), -ahead)

    box = (start - 9.0, start + 9.0)
    x, there, _ = _line_search(rough, start, 0.0, -ahead, ahead, box, 12)
    assert there is None
    np.testing.assert_array_equal(x, start)
    short = [t for t in tried if t < 1e-3]  # where all that is smooth is a line
    assert len(tried) - len(short) == 5
    assert len(short) == 2


@pytest.mark.parametrize(("length", "n_tried"), [(1.5, 6), (0.9, 5)])
def test_steps_of_less_than_a_thousandth_are_short(length, n_tried):
    """Ten times shorter each on a high plateau, which two short steps leave."""
    tried, box = [], (np.array([-9.0]), np.array([9.0]))

    def plateau(x):
        tried.append(float(x[0]))
        return Evaluation(10.0, np.array([-1.0]))

    _line_search(plateau, np.zeros(1), 0.0, np.array([-1.0]), np.array([length]), box, 12)
    assert tried == pytest.approx([length * 0.1**k for k in range(n_tried)])


@pytest.mark.parametrize("curvature", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("power", [1.5, 2.0, 4.0])
def test_a_line_search_follows_a_steep_wall_down_to_short_steps(curvature, power):
    tried = []

    def wall(x):
        tried.append(float(x[0]))
        return Evaluation(-float(x[0]) + curvature * float(x[0]) ** power, np.array([-1.0]))

    box = (np.array([-9.0]), np.array([9.0]))
    x, there, _ = _line_search(wall, np.zeros(1), 0.0, np.array([-1.0]), np.ones(1), box, 20)
    assert there.value < 0.0 < x[0] < 1.0
    assert len(tried) <= 18


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


@pytest.mark.parametrize(("decrease", "n_steps"), [(0.9e-7, 2), (1.1e-7, 5)])
def test_steps_that_bring_less_than_a_ten_millionth_are_nothing_unless_told(decrease, n_steps):
    seen, calls = [], itertools.count()

    def creeping(x):
        return Evaluation(1.0 - decrease * next(calls), np.array([1e-4]))

    box = np.array([-np.inf]), np.array([np.inf])  # none to creep to
    minimize_in_box(creeping, np.zeros(1), *box, max_steps=5, report=lambda *step: seen.append(step))
    assert len(seen) == n_steps


def test_a_descent_makes_a_hundred_steps_unless_told():
    seen = []
    box = np.array([-999.0]), np.array([999.0])
    minimize_in_box(
        lambda x: Evaluation(float(x[0]), np.ones(1)),
        np.zeros(1),
        *box,
        report=lambda *step: seen.append(step),
    )
    assert len(seen) == 100


# -- the walk of a descent


def at_rest(value=1.0, gradient=(0.0, 0.0), looks=None):
    """Return an objective of one value and gradient everywhere; it keeps where it was asked."""

    def objective(x):
        if looks is not None:
            looks.append(x.copy())
        return Evaluation(value, np.array(gradient, dtype=float))

    return objective


def walk_in_box(objective, x, lower, upper, curvature=None):
    return _Walk(objective, *(np.array(v, dtype=float) for v in (x, lower, upper)), curvature)


def test_variables_are_held_at_bounds_that_they_would_leave():
    gradient = np.array([1.0, -1.0, 1.0, -1.0])
    walk = walk_in_box(
        at_rest(gradient=gradient), np.zeros(4), [0, 0, -1, -1], [1, 1, 0, 0], curvature=4.0 * np.eye(4)
    )
    assert walk.promise() == pytest.approx(0.25)
    assert walk._direction == pytest.approx([0.0, 0.25, -0.25, 0.0])
    B = np.array([[2.0, 1.0], [1.0, 2.0]])
    level = walk_in_box(at_rest(gradient=[0.0, -1.0]), [0, 0], [0, 0], [9, 9], curvature=B)
    level.promise()
    assert level._direction == pytest.approx([-1.0 / 3.0, 2.0 / 3.0])  # no slope is no reason to be held
    level = walk_in_box(at_rest(gradient=[0.0, 1.0]), [0, 0], [-9, -9], [0, 0], curvature=B)
    level.promise()
    assert level._direction == pytest.approx([1.0 / 3.0, -2.0 / 3.0])
    held = walk_in_box(at_rest(gradient=[1.0, -1.0]), [0, 9], [0, 0], [9, 9])
    assert held.promise() == -np.inf
    assert walk_in_box(at_rest(gradient=[1.0, 0.0]), [5, 5], [0, 0], [9, 9]).promise() == np.inf


def test_slopes_of_rounding_lead_nowhere():
    for slope, promise in ((1e-8, -np.inf), (-1e-8, -np.inf), (1.1e-8, np.inf), (-1.1e-8, np.inf)):
        assert walk_in_box(at_rest(gradient=[0.0, slope]), [5, 5], [0, 0], [9, 9]).promise() == promise


def test_starts_are_brought_into_the_box():
    walk = walk_in_box(at_rest(), [-5, 20], [0, 0], [9, 9])
    np.testing.assert_array_equal(walk.x, [0.0, 9.0])


def test_first_steps_with_the_curvature_of_other_rows_are_shorter():
    def longest(curvature, n_steps=0):
        walk = walk_in_box(at_rest(gradient=[-1e6]), [0], [-99], [99], curvature)
        walk.n_steps = n_steps
        walk.B = np.ones((1, 1))
        walk.promise()
        return float(walk._direction[0])

    assert longest(np.eye(1)) == 1.0
    assert longest(None) == longest(np.eye(1), 1) == longest(None, 1) == 2.0


def test_a_curvature_that_no_step_has_shown_promises_everything_but_once():
    walk = walk_in_box(at_rest(gradient=[2.0, 0.0]), [1, 1], [0, 0], [9, 9])
    assert walk.promise() == np.inf
    walk.idle = 1
    assert walk.promise() == pytest.approx(0.5)  # half of 2.0 times half a unit
    known = walk_in_box(at_rest(gradient=[2.0, 0.0]), [1, 1], [0, 0], [9, 9], curvature=4.0 * np.eye(2))
    assert known.promise() == pytest.approx(0.5)


def test_an_objective_with_a_curvature_gives_it_to_the_start():
    class Curved:
        def with_curvature(self, x):
            return Evaluation(1.0, np.array([4.0, 0.0]), curvature=np.diag([3.0, 2.0]))

    walk = walk_in_box(Curved(), [0, 0], [-9, -9], [9, 9])
    np.testing.assert_array_equal(walk.B, np.diag([4.0, 2.0]))  # a quarter of the slope more
    assert not walk.fresh


@pytest.mark.parametrize(("slope", "rise", "n_looks"), [(1.0, np.inf, 12), (1.0, 1.0, 6), (1e-7, 1.0, 2)])
@pytest.mark.parametrize("was_fresh", [True, False])
def test_steps_that_lead_nowhere_are_shortened_less_often_where_rounding_may_hide(
    slope, rise, n_looks, was_fresh
):
    looks = []

    def rising(x):
        looks.append(x)
        return Evaluation(rise if x.any() else 0.0, np.array([slope]))

    walk = walk_in_box(rising, [0], [-9], [9], None if was_fresh else np.eye(1))
    walk.promise()
    looks.clear()
    hidden = n_looks == 2
    assert walk.step(1e-7) == (not was_fresh and not hidden)
    assert len(looks) == n_looks - (was_fresh and rise == slope)  # a first step is half as long
    assert walk.n_steps == 1
    assert walk.fresh
    np.testing.assert_array_equal(walk.B, [[2.0 * slope]])
    assert walk.x == 0.0


@pytest.mark.parametrize(("promise", "n_looks"), [(0.9e-7, 2), (1.1e-7, 12)])
def test_rounding_may_hide_what_a_step_promises_if_it_is_less_than_a_ten_millionth(promise, n_looks):
    slope, looks = np.sqrt(2.0 * promise), []  # half of slope^2 over a curvature of 1

    def undefined(x):
        looks.append(x)
        return Evaluation(np.inf if x.any() else 0.0, np.array([slope]))

    walk = walk_in_box(undefined, [0], [-9], [9], np.eye(1))
    assert walk.promise() == pytest.approx(promise)
    looks.clear()
    walk.step(1e-9)
    assert len(looks) == n_looks


@pytest.mark.parametrize(
    ("p", "has_curvature", "has_home", "is_asked"),
    [
        (1, False, False, True),
        (2, False, False, True),
        (2, True, False, False),
        (2, False, True, False),
        (2, True, True, False),
        (3, True, True, True),
        (3, True, False, True),
    ],
)
def test_the_curvature_of_few_variables_is_asked_for_where_none_is_known(
    p, has_curvature, has_home, is_asked
):
    asked = []

    class Curved:
        def __call__(self, x):
            return Evaluation(1.0, np.zeros(p))

        def with_curvature(self, x):
            asked.append(x)
            return Evaluation(1.0, np.zeros(p), curvature=7.0 * np.eye(p))

    box = np.full(p, -9.0), np.full(p, 9.0)
    known = 3.0 * np.eye(p) if has_curvature else None
    walk = _Walk(Curved(), np.zeros(p), *box, known, home=np.zeros(p) if has_home else None)
    assert len(asked) == is_asked
    assert walk.fresh == (not is_asked and not has_curvature)
    assert walk.B[0, 0] == (7.0 if is_asked else 3.0 if has_curvature else 1e-8)


def test_home_is_half_a_unit_around_a_point_in_all_variables():
    walk = walk_in_box(at_rest(), [0, 0], [-9, -9], [9, 9])
    assert not walk._is_home(np.zeros(2))
    walk.home = np.array([5.0, -5.0])
    assert walk._is_home(np.array([5.4, -5.4]))
    assert walk._is_home(np.array([4.6, -4.6]))
    assert not walk._is_home(np.array([5.6, -5.0]))
    assert not walk._is_home(np.array([5.0, -4.4]))
    assert not walk._is_home(np.zeros(2))


@pytest.mark.parametrize("e", [-0.5, 0.1, 0.3])
def test_what_is_left_after_a_step_follows_from_how_far_a_curvature_is_off(e):
    """With 1 + e times the curvature of the model a step brings 1 - e of its promise."""

    def bowl(x):
        return Evaluation(2.0 * (1.0 + e) * float(x[0]) ** 2, 4.0 * (1.0 + e) * x)

    x = np.array([0.5])
    walk = walk_in_box(bowl, x, [-9], [9], 4.0 * np.eye(1))
    to = x - walk.here.gradient / 4.0  # the minimum of the model
    promised = 2.0 * (1.0 + e) ** 2 * 0.5**2
    assert walk._left_after(to, bowl(to)) == pytest.approx(promised * max(abs(e), 0.15) ** 2)
    assert walk._left_after(x, bowl(x)) == np.inf  # no step promises nothing
    assert walk._left_after(2.0 * x, bowl(2.0 * x)) == np.inf  # nor does one up
    walk.fresh = True
    assert walk._left_after(to, bowl(to)) == np.inf


@pytest.mark.parametrize(("rise", "is_taken"), [(0.9, True), (1.1, False)])
def test_a_step_may_rise_by_a_tenth_of_the_tolerance(rise, is_taken):
    """Beside which the slope hardly asks for anything: half of what it promises is 1e-9."""
    tolerance, slope = 1e-3, 1e-4

    def level(x):
        return Evaluation(0.1 * rise * tolerance * float(x[0] != 0), np.array([slope]))

    walk = walk_in_box(level, [0], [-9], [9], np.eye(1))
    walk.promise()
    walk.step(tolerance)
    assert (walk.x[0] != 0) == is_taken


def test_what_a_walk_learns_from_a_step():
    def bowl(x):
        return Evaluation(float(x @ x), 2.0 * x)

    walk = walk_in_box(bowl, [1, 1], [-9, -9], [9, 9], curvature=4.0 * np.eye(2))
    x, moved = np.array([0.5, 1.5]), np.array([-0.5, 0.5])
    walk._take(x, bowl(x), 1e-3)
    assert walk.decrease == pytest.approx(2.0 - 2.5)
    assert walk.idle == 1
    assert walk.B @ moved == pytest.approx(2.0 * moved)
    np.testing.assert_array_equal(walk._drift, moved)
    walk._take(np.array([0.25, 1.0]), bowl(np.array([0.25, 1.0])), 1e-3)
    np.testing.assert_array_equal(walk._drift, [-0.75, -0.5])  # on in one direction, back in the other
    assert walk.idle == 0
    assert not walk.fresh


def test_a_walk_is_behind_where_four_times_its_last_decrease_is_not_enough():
    walk = walk_in_box(at_rest(10.0), [0, 0], [-9, -9], [9, 9])
    walk.n_steps = 2
    assert not walk._is_behind(10.0, 1.0)  # nothing is to be beaten
    for decrease, to_beat, expected in (
        (1.0, 6.0, False),
        (1.0, 5.9, True),
        (-1.0, 10.0, False),
        (-1.0, 9.9, True),
    ):
        walk.to_beat = to_beat
        assert walk._is_behind(10.0, decrease) == expected
    walk.n_steps, walk.to_beat = 1, -99.0
    assert not walk._is_behind(10.0, 1.0)


def test_variables_that_creep_a_long_way_for_little_are_taken_to_their_bounds():
    looks = []
    walk = walk_in_box(at_rest(looks=looks), [5, 5, 5, 9], [0, 0, 0, 0], [9, 9, 9, 9])
    looks.clear()
    walk.decrease, walk.idle = 0.06, 1
    walk._drift = np.array([3.1, -3.1, 2.9, 8.0])
    walk._try_bounds()
    assert not looks  # steps that still bring something
    walk.decrease = 0.05
    walk._try_bounds()
    np.testing.assert_array_equal(looks, [[9.0, 0.0, 5.0, 9.0]])
    np.testing.assert_array_equal(walk.x, [9.0, 0.0, 5.0, 9.0])
    np.testing.assert_array_equal(walk._drift, [0.0, 0.0, 2.9, 8.0])
    assert walk.idle == 0


def test_a_shorter_way_is_enough_where_steps_bring_next_to_nothing():
    for decrease, end in ((0.9e-3, [0.0, 5.0]), (1.1e-3, [5.0, 5.0])):
        walk = walk_in_box(at_rest(), [5, 5], [0, 0], [9, 9])
        walk.decrease, walk._drift = decrease, np.array([-1.1, 0.9])
        walk._try_bounds()
        np.testing.assert_array_equal(walk.x, end)


def test_bounds_that_are_worse_or_infinite_are_not_gone_to():
    looks, chosen = [], np.array([True, False])

    def steep(x):
        looks.append(x.copy())
        return Evaluation(1.0 + 1e-7 * float(x[0] != 1), np.zeros(2))

    walk = walk_in_box(steep, [1, 1], [0, -np.inf], [9, np.inf])
    looks.clear()
    assert not walk._go_to_bounds(chosen, np.array([1.0, 0.0]))
    np.testing.assert_array_equal(walk.x, [1.0, 1.0])
    assert not walk._go_to_bounds(~chosen, np.ones(2))
    assert not walk._go_to_bounds(np.zeros(2, dtype=bool), np.ones(2))
    assert len(looks) == 1
    assert walk._go_to_bounds(chosen, np.array([-0.5, 0.0]), 2e-7)  # a loss that is allowed
    np.testing.assert_array_equal(walk.x, [0.0, 1.0])
    level = walk_in_box(at_rest(), [1, 1], [0, 0], [9, 9])
    assert level._go_to_bounds(chosen, np.array([0.5, 0.0]))
    np.testing.assert_array_equal(level.x, [9.0, 1.0])


@pytest.mark.parametrize("matters", [True, False])
def test_flat_variables_far_from_the_start_leave_at_once_or_one_by_one(matters):
    looks = []

    def objective(x):
        looks.append(x.copy())
        return Evaluation(float(matters and x[0] != 5.0), np.array([0.0, -0.009, 0.011, 0.0, 0.0]))

    walk = walk_in_box(objective, [5, 5, 5, 5, 0], np.zeros(5), np.full(5, 9.0))
    looks.clear()
    walk.leave_flat(np.array([1.9, 8.1, 1.9, 2.1, 9.0]))
    end = [9.0, 0.0, 5.0, 5.0, 0.0]  # the third has a slope, the fourth came no long way, the last is there
    assert looks[0].tolist() == end
    assert walk.x.tolist() == ([5.0, *end[1:]] if matters else end)
    assert len(looks) == (3 if matters else 1)


@pytest.mark.parametrize(("loss", "leaves"), [(0.9e-6, True), (1.1e-6, False)])
def test_flat_variables_may_cost_next_to_nothing_to_leave(loss, leaves):
    walk = walk_in_box(lambda x: Evaluation(loss * float(x[0] != 5.0), np.zeros(1)), [5], [0], [9])
    walk.leave_flat(np.array([1.0]))
    assert walk.x == (9.0 if leaves else 5.0)


@pytest.mark.parametrize(("gain", "n_kept"), [(0.09, 1), (0.11, 2)])
def test_a_hop_must_gain_a_tenth(gain, n_kept):
    looks = []

    class Looking(Explorer):
        def look(self, start, to_beat, curvature=None, home=None):
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
            assert (theta.tolist(), solution) == ([0.0], "solution")
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
    X = np.array([[0.0], [0.0], [1.0]])
    for kernel, largest in ((Matern(1.0, nu=0.5), 1.0), (DotProduct(1.0), 2.0)):
        mean = MeanProcess(kernel, 4.0, (1e-5, 1e5), True, X)
        added = mean.prior().K / 4.0 - kernel(X)
        assert added == pytest.approx(3.0 * np.finfo(np.float64).eps * largest * np.eye(3), abs=1e-16)


def test_what_a_factor_of_a_mean_misses_is_part_of_its_gradient(monkeypatch):
    X = np.array([[0.5], [1.0], [2.0]])
    by_diagonal = np.array([0.3, -0.2, 0.7])
    sensitivity = SimpleNamespace(by_diagonal=by_diagonal, by_log_scale=4.0, weights=None)
    factor = SimpleNamespace(Phi=np.array([[1.0], [2.0], [1.5]]))
    mean = MeanProcess(DotProduct(3.0), 2.0, (1e-5, 1e5), True, X, factor)
    monkeypatch.setattr(noise_task, "contract_factor", lambda *args: np.array([10.0]))
    diagonal = 9.0 + X[:, 0] ** 2
    gradient = mean.gradient(sensitivity)
    assert gradient == pytest.approx([4.0 + by_diagonal @ diagonal, 10.0 + by_diagonal.sum() * 2.0 * 9.0])
    assert mean.missed == pytest.approx(2.0 * (diagonal - [1.0, 4.0, 2.25]))
    steep = replace(mean, factor=SimpleNamespace(Phi=np.full((3, 1), 9.0)))
    np.testing.assert_array_equal(steep.missed, np.zeros(3))
    whole = replace(mean, factor=None)
    assert whole.missed is None
    monkeypatch.setattr(noise_task, "contract", lambda *args: np.array([10.0]))
    assert whole.gradient(sensitivity) == pytest.approx([4.0, 10.0])
    fixed = MeanProcess(DotProduct(3.0, "fixed"), 2.0, (2.0, 2.0), True, X)
    assert fixed.gradient(sensitivity).tolist() == []


@pytest.mark.parametrize("weight", [None, np.array([1.0, 4.0, 0.5])])
def test_targets_with_changing_noise_resolve_squares_of_a_ten_billionth(weight):
    X, y = np.array([[0.5], [1.0], [2.0]]), np.array([1.0, -1.0, 3.0])
    mean = MeanProcess(DotProduct(3.0), 2.0, (1e-5, 1e5), False)
    task = noise_task.NoiseTask(Data.with_intercept(X, y[:, None], weight, False), RBF(1.0), mean)
    seen, w = task.observations(mean), np.ones(3) if weight is None else weight
    assert seen.resolution == 1e-10
    assert (seen.has_constant, seen.missed) == (False, None)
    np.testing.assert_array_equal(seen.y, y)
    np.testing.assert_array_equal(seen.weight, w)
    Phi = np.array([[1.0], [2.0], [1.5]])
    coarse = task.observations(mean, SimpleNamespace(Phi=Phi, L=np.eye(1)))
    missed = 2.0 * (9.0 + X[:, 0] ** 2 - Phi[:, 0] ** 2)
    assert coarse.missed == pytest.approx(missed)
    assert coarse.resolution == pytest.approx(w * missed)


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
    assert _Adam(0.3).step(np.array([1e300, -1e200])) == pytest.approx([-0.3, 0.3], rel=1e-5)


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


# -- levels


@pytest.mark.parametrize(
    ("found", "halvings", "expected"), [(None, 3, 2), ("matrix", 3, 2), ("factor", 3, 1), ("factor", 1, 0)]
)
def test_the_next_level_has_twice_the_rows_or_four_times_where_factors_are_small(found, halvings, expected):
    rank = {"matrix": None, "factor": 7}.get(found)
    best = SimpleNamespace(evaluation=SimpleNamespace(rank=rank))
    found = None if found is None else SimpleNamespace(best=best)
    task = type("Rows", (SimpleNamespace,), {"__len__": lambda self: 1000})(plan=Plan("exact"))
    assert levels._finer(task, halvings, found) == expected


@pytest.mark.parametrize(("n", "expected"), [(12_002, 1), (24_000, 0)])
def test_no_level_is_dearer_than_all_rows(monkeypatch, n, expected):
    """Of that many rows there is a factor; half of them have a matrix, of 2.2e11 or 1.7e12 flops."""
    monkeypatch.setattr("skspectral.decomposition.plan.physical_memory", lambda: 1e15)
    task = type("Rows", (SimpleNamespace,), {"__len__": lambda self: n})(plan=Plan())
    assert task.plan.flops_of_step(n) == pytest.approx(3e11, rel=1e-2)
    assert levels._finer(task, 2, None) == expected


def test_the_ratio_is_taken_out_of_a_curvature_at_its_best():
    B = np.array([[4.0, 1.0, 2.0], [1.0, 3.0, 1.0], [2.0, 1.0, 5.0]])
    theta, curvature = levels._without_ratio(np.arange(3.0), B, 2)
    np.testing.assert_array_equal(theta, [0.0, 1.0])
    assert close(np.linalg.inv(curvature), np.linalg.inv(B)[:2, :2], 1e-12)
    same = levels._without_ratio(np.arange(2.0), B[:2, :2], 2)
    np.testing.assert_array_equal(same[1], B[:2, :2])
    assert levels._without_ratio(np.arange(3.0), None, 2)[1] is None


@pytest.mark.parametrize(
    ("n", "plan", "tolerance"),
    [
        (999, Plan(), 1e-7),
        (1000, Plan(), 1e-3),
        (5000, Plan(), 1e-3),
        (5001, Plan(), 0.005 * 3),
        (10, Plan("low_rank"), 1e-3),
    ],
)
def test_steps_are_finer_where_they_cost_little(n, plan, tolerance):
    task = type("Rows", (SimpleNamespace,), {"__len__": lambda self: n})(plan=plan, kernel=RBF(np.ones(3)))
    assert levels._tolerance(task) == tolerance
    assert levels._coarse_tolerance(task) == (0.015 if n > 5000 else 1e-3)


def test_the_smallest_noise_ratio_that_a_level_found():
    def ratio(noise, signal):
        evaluation = SimpleNamespace(variances=(np.array(noise), np.array(signal)))
        return levels._Found([SimpleNamespace(evaluation=evaluation)], 10).noise_ratio

    assert ratio([1.0, 6.0], [4.0, 2.0]) == 0.25
    assert ratio([1.0, 6.0], [0.0, 2.0]) == 3.0
    assert ratio([0.0], [0.0]) == np.inf
    assert ratio([1.0], [0.0]) == np.inf
    assert ratio([1e300, 6.0], [1e-300, 2.0]) == 3.0
    assert ratio([1e300], [1e-300]) == np.inf


# -- factors of steps


@pytest.mark.parametrize(
    ("share", "is_open", "is_used"), [(0.9, True, True), (29.0, True, False), (31.0, False, False)]
)
def test_factors_are_used_where_exact_and_given_up_where_far_from_it(monkeypatch, share, is_open, is_used):
    asked = []

    def factorised(gram, X, **options):
        asked.append(options)
        return SimpleNamespace(tau=share * options["tau"])

    monkeypatch.setattr(step_factors, "pivoted_cholesky", factorised)
    X, y = smooth(n=1000)
    data = Data.with_intercept(X, y[:, None], None, True)
    task = Task(data, RBF(1.0), CRITERIA["evidence"])
    steps = step_factors.StepFactors(task, 0.3)
    assert steps.at(np.zeros(1), None) is None
    assert not asked
    assert (steps.at(np.zeros(1), 0.5) is not None) == is_used
    assert asked[0] == {"tau": 0.005, "rank": 300, "weight": None, "unless_hopeless": True}
    steps.at(np.zeros(1), 0.5)
    assert len(asked) == 1 + is_open
    asked.clear()
    forced = step_factors.StepFactors(replace(task, plan=Plan("low_rank")), 0.3)
    for _ in range(2):
        assert forced.at(np.zeros(1), 0.5) is not None
    assert asked[1] == {"tau": 0.005, "rank": 1000, "weight": None, "unless_hopeless": False}
    few = step_factors.StepFactors(task.subset(np.arange(999)), 0.3)
    assert few.at(np.zeros(1), 0.5) is None


# -- levels of latent tasks


def test_variables_out_of_sight_are_brought_back_on_the_way_they_took():
    task = SimpleNamespace(learns_signal=True, likelihood=SimpleNamespace(names=["noise"]))
    start, far = np.zeros(4), np.log(20.0) + 0.01
    x = np.array([far, far, -far, far])  # signal, two lengths, a parameter of the likelihood
    sight = 1.5
    assert latent._in_sight(x, start, sight, task) == pytest.approx([far, 1.5, -1.5, far])
    assert latent._in_sight(-x, start, sight, task) == pytest.approx([-1.5, -1.5, 1.5, -1.5])
    near = np.full(4, np.log(20.0) - 0.01)
    np.testing.assert_array_equal(latent._in_sight(near, start, sight, task), near)
    without = SimpleNamespace(learns_signal=False, likelihood=SimpleNamespace(names=[]))
    assert latent._in_sight(x, start, sight, without) == pytest.approx([1.5, 1.5, -1.5, 1.5])
    assert latent._in_sight(x + 5.0, start + 5.0, sight, task) == pytest.approx(
        [5.0 + far, 6.5, 3.5, 5.0 + far]
    )


@pytest.mark.parametrize(("n", "sizes"), [(599, [599]), (600, [150, 600]), (2400, [150, 600, 2400])])
def test_levels_of_latent_tasks_have_a_quarter_of_the_rows(n, sizes):
    X = np.random.default_rng(0).normal(size=(n, 1))
    task = LatentTask(Data.with_intercept(X, np.ones((n, 1)), None, True), RBF(1.0), Poisson())
    rows = latent._levels(task)
    assert [len(level) for level in rows] == sizes
    for fewer, more in itertools.pairwise(rows):
        assert set(fewer) < set(more)
        assert (np.diff(fewer) > 0).all()
    fixed = replace(task, kernel=RBF(1.0, "fixed"))
    assert [len(level) for level in latent._levels(fixed)] == [n]


def test_the_coarsest_level_of_classes_has_rows_for_each_variable_and_class():
    def coarsest(n_variables, n_classes):
        return latent._coarsest(SimpleNamespace(start=np.zeros(n_variables), n_classes=n_classes))

    assert coarsest(2, 2) == 40
    assert coarsest(3, 2) == 45
    assert coarsest(2, 5) == 50
    assert coarsest(9, None) == 150


# -- moving landmarks


def walk_of(values):
    """Return a walk whose looks have given values one after the other, a step being worth an eighth."""
    values = iter(values)
    return moving._Walk(lambda x: (SimpleNamespace(value=next(values)), np.ones(1)), np.zeros(1), 0.125)


def test_a_walk_goes_on_while_five_steps_gain_enough():
    falling = walk_of(10.0 - 0.125 * np.arange(20))
    slow = walk_of(10.0 - 0.124 * np.arange(20))
    for k in range(1, 8):
        assert falling.n_looks == k
        assert falling.goes_on()
        assert slow.goes_on() == (k <= 5)
        assert falling.step()
        assert slow.step()


def test_a_walk_that_got_lost_goes_back_and_on_more_slowly():
    walk = walk_of([10.0, 9.0, 9.5, 9.5, 9.5, 8.0, np.inf, 7.0])
    assert walk.step()
    best = walk.best
    assert not walk.step()
    assert not walk.step()
    assert walk._here is not best
    assert not walk.step()  # the third in a row
    assert walk._here is walk.best is best
    assert walk._adam.speed == pytest.approx(0.03)
    assert walk.step()
    assert walk.best.x == pytest.approx(best.x - 0.03)
    assert not walk.step()  # where nothing is defined it turns round at once
    assert walk._here is walk.best
    assert walk._adam.speed == pytest.approx(0.009)
    assert walk.n_looks == 7


class Bowl:
    """A bound whose landmarks are best at `centre`, in units of (1, 4), and whose theta is best at 0.3."""

    def __init__(self, centre, n_rows=1000):
        self.landmarks, self.rows, self.looks = np.array([[0.5, 0.0], [0.0, -0.5]]), self, []
        self.centre, self.n_rows = np.asarray(centre), n_rows

    def __len__(self):
        return self.n_rows

    def spread(self):
        return np.array([1.0, 4.0])

    def jointly(self, theta, Z):
        self.looks.append((theta, Z))
        gap, off = (Z - self.centre) / self.spread(), theta - 0.3
        value = 1e3 * ((gap**2).sum() + (off**2).sum())
        return SimpleNamespace(value=value, gradient=2e3 * off), 2e3 * gap / self.spread()

    def move_to(self, Z):
        self.landmarks = Z


def test_landmarks_and_parameters_move_together_at_one_speed():
    objective, reports = Bowl([[1.0, 4.0], [-1.0, 0.0]]), []
    theta = np.array([1.0, 0.35])
    box = np.array([0.0, 0.32]), np.array([2.0, 2.0])
    end = moving.moved(objective, theta, box, 40, lambda *args: reports.append(args))
    first, second = objective.looks[:2]
    np.testing.assert_array_equal(first[0], theta)
    start = np.array([[0.5, 0.0], [0.0, -0.5]])
    np.testing.assert_array_equal(first[1], start)
    assert second[0] == pytest.approx([0.9, 0.32], rel=1e-5)  # a tenth, and no further than the limit
    assert second[1] - start == pytest.approx(np.array([[0.1, 0.4], [-0.1, 0.4]]), rel=1e-4)
    assert 6 < len(objective.looks) <= 40
    assert objective.landmarks == pytest.approx(objective.centre, abs=0.2)
    values = [Bowl.jointly(objective, *look)[0].value for look in list(objective.looks)]
    best = objective.looks[int(np.argmin(values))]
    np.testing.assert_array_equal(end, best[0])
    np.testing.assert_array_equal(objective.landmarks, best[1])
    better = [k for k in range(1, len(values)) if values[k] < min(values[:k])]
    assert [report[0] for report in reports] == [k + 1 for k in better]
    for (_, at, evaluation), k in zip(reports, better, strict=True):
        np.testing.assert_array_equal(at, objective.looks[k][0])
        assert evaluation.value == values[k]


@pytest.mark.parametrize(("max_looks", "n_looks"), [(5, 0), (6, 6), (9, 9)])
def test_landmarks_move_for_as_many_looks_as_there_are(max_looks, n_looks):
    objective, theta = Bowl(np.full((2, 2), 9.0)), np.array([1.0])
    end = moving.moved(objective, theta, (np.zeros(1), np.ones(1)), max_looks)
    assert len(objective.looks) == n_looks
    assert (end is theta) == (n_looks == 0)


@pytest.mark.parametrize(("n_rows", "goes_on"), [(61_000, True), (63_000, False)])
def test_landmarks_move_while_each_step_is_worth_it(n_rows, goes_on):
    """Five steps of a tenth each are worth it where they gain 5e-4 for each row: 31 for 62,000 rows."""
    objective = Bowl(0.0, n_rows)
    objective.jointly = lambda theta, Z: (
        objective.looks.append(Z) or SimpleNamespace(value=-62.0 * Z[0, 0], gradient=np.zeros(1)),
        np.array([[-62.0, 0.0], [0.0, 0.0]]),
    )
    moving.moved(objective, np.array([0.3]), (np.zeros(1), np.ones(1)), 7)
    assert len(objective.looks) == (7 if goes_on else 6)


def test_landmarks_stay_where_the_start_is_best():
    start = Bowl(0.0).landmarks
    objective, theta = Bowl(start), np.array([0.3])
    assert moving.moved(objective, theta, (np.zeros(1), np.ones(1)), 20) is theta
    np.testing.assert_array_equal(objective.landmarks, start)


def test_slopes_by_landmarks_are_compared_in_units_of_their_spread():
    """Slopes of 1 beside one of 1e7 may be rounding: 1e-6 of the largest is added to their size."""
    objective = Bowl(0.0)
    objective.spread = lambda: np.array([1.0, 1e7])
    start = objective.landmarks
    objective.jointly = lambda theta, Z: (
        objective.looks.append(Z) or SimpleNamespace(value=0.0, gradient=np.zeros(1)),
        np.ones((2, 2)),
    )
    moving.moved(objective, np.array([0.3]), (np.zeros(1), np.ones(1)), 6)
    step = (objective.looks[1] - start) / [1.0, 1e7]
    assert step == pytest.approx(np.full((2, 2), -0.1) * [1.0 / 11.0, 1.0], rel=1e-4)


def test_a_walk_goes_back_after_every_three_steps_without_a_gain():
    walk = walk_of([10.0, *[10.0] * 3, *[11.0] * 6])
    for k in range(1, 10):
        assert not walk.step()
        assert (walk._here is walk.best) == (k % 3 == 0)
    assert walk._adam.speed == pytest.approx(0.1 * 0.3**3)


# -- landmarks


def test_the_spread_of_inputs_is_weighted():
    X, y = smooth(n=30)
    weight = np.random.default_rng(0).uniform(0.2, 3.0, 30)
    task = Task(Data.with_intercept(X, y[:, None], weight, True), RBF(1.0), CRITERIA["evidence"])
    share = weight / weight.sum()
    mean = share @ X
    assert RowsInMemory(task).spread() == pytest.approx(np.sqrt(share @ (X - mean) ** 2))


@pytest.mark.parametrize(("noise_ratio", "tau"), [(0.5, 5e-4), (99.0, 3e-3)])
def test_landmarks_are_as_many_as_a_small_trace_needs(noise_ratio, tau):
    """A thousandth of the noise ratio, or of the variance of the kernel where that is smaller."""
    asked = []

    class Rows(RowsInMemory):
        def choose(self, kernel, rank, tau):
            asked.append((rank, tau))
            return self.data.X[:rank]

    X, y = smooth(n=25)
    data, kernel = Data.with_intercept(X, y[:, None], None, True), ConstantKernel(3.0, "fixed") * RBF(1.0)
    task = Task(data, kernel, CRITERIA["evidence"], plan=Plan("low_rank"))
    objective = LandmarkObjective(task, Rows(task), rank=7, noise_ratio=noise_ratio)
    objective._chosen(kernel)
    objective._chosen(kernel, 4)
    objective._chosen(kernel, 99)
    assert asked == [(7, pytest.approx(tau)), (4, pytest.approx(tau)), (25, pytest.approx(tau))]
    tuned = SimpleNamespace(noise_ratio=np.array([0.7, 0.02, 0.3]), noise_var="noise", signal_var="signal")
    here = SimpleNamespace(tuned=tuned, value=1.0, feature_map=SimpleNamespace(L=np.eye(3)))
    told, slope = objective._evaluation(kernel.theta, here, np.zeros(1)), np.zeros(1)
    np.testing.assert_array_equal(told.gradient, slope)
    assert (told.value, told.variances, told.rank) == (1.0, ("noise", "signal"), 3)
    objective._chosen(kernel)
    assert asked[-1] == (7, pytest.approx(2e-5))  # of the output with the least noise so far
    given = LandmarkObjective(replace(task, plan=Plan("low_rank", 5)), Rows(task))
    given._chosen(kernel)
    assert asked[-1] == (5, 0.0)  # all that were asked for


@pytest.mark.parametrize(("gain", "is_better"), [(0.9, False), (1.1, True)])
def test_landmarks_chosen_anew_must_be_better_by_one(gain, is_better):
    task = make_task(bowl, Plan("low_rank", 6))
    objective, theta = LandmarkObjective(task), np.array([0.1, 0.2])
    value = objective(theta).value
    chosen, objective.landmarks = objective.landmarks, objective.landmarks + 0.3
    objective.has_moved = True
    assert objective.refreshed(theta, value + gain) == is_better  # the same as before are chosen
    assert objective.has_moved != is_better
    np.testing.assert_array_equal(objective.landmarks, chosen if is_better else chosen + 0.3)


# -- objectives of latent tasks


def log_normal_penalty(theta):
    """-2 log density of N(0.3, 1/2) for each parameter, with its gradient."""
    return float((2.0 * (theta - 0.3) ** 2).sum()), 4.0 * (theta - 0.3)


@pytest.mark.parametrize("signal_bounds", [(1e-5, 1e5), (1.0, 1.0)])
def test_latent_objectives_are_minus_twice_log_densities(signal_bounds):
    prior = VariancePrior(signal=stats.gamma(3.0, scale=0.5))
    task = replace(
        poisson_task(),
        theta_prior=log_normal_penalty,
        signal_prior=prior,
        signal_bounds=signal_bounds,
        unit=1.5,
    )
    learns = signal_bounds[0] < signal_bounds[1]
    x = task.start + 0.1
    assert len(x) == 1 + learns
    objective = LatentObjective(task)

    def density(x):
        point = task.point(x)
        value = task.fit(point).approximation.log_evidence - 0.5 * log_normal_penalty(point.theta)[0]
        return value + (stats.gamma(3.0, scale=0.5).logpdf(point.signal_var * 2.25) if learns else 0.0)

    here = objective(x)
    assert here.value == pytest.approx(-2.0 * density(x))
    steps = 1e-4 * np.eye(len(x))
    differences = [(density(x - e) - density(x + e)) / 1e-4 for e in steps]
    assert close(here.gradient, differences, 1e-5)
    assert objective(x.copy()) is here
    assert objective.n_calls == 1
    assert objective(x + 0.1) is not here
    assert objective.n_calls == 2


def test_optimizers_see_half_of_the_objective():
    task, seen = poisson_task(), []

    def optimizer(obj_func, x, bounds):
        seen.extend([obj_func(x + 0.3), obj_func(x + 0.3, eval_gradient=False), bounds])
        return x + 0.1, 7.0

    end = _optimise(task, task.start, optimizer)
    here = LatentObjective(task)(task.start + 0.3)
    assert seen[0][0] == seen[1] == pytest.approx(0.5 * here.value)
    assert seen[0][1] == pytest.approx(0.5 * here.gradient, rel=1e-4)
    assert seen[2] is task.bounds
    assert end.value == pytest.approx(LatentObjective(task)(end.variables).value)
    np.testing.assert_array_equal(end.variables, task.start + 0.1)


def test_what_was_learned_is_of_a_task_with_the_same_rows_and_outputs():
    rotated = type("Rotated", (), {"rows": range(30), "n_outputs": 2})()
    learned = levels.Learned(None, 0.0, None, SimpleNamespace(rotated=rotated), 1)

    def task(n=30, n_outputs=2, has_holes=False, plan=None):
        data = SimpleNamespace(has_holes=has_holes, n_outputs=n_outputs)
        rows = type("Rows", (SimpleNamespace,), {"__len__": lambda self: n})
        return rows(data=data, plan=Plan() if plan is None else plan)

    assert learned.is_of(task())
    assert not learned.is_of(task(n=29))
    assert not learned.is_of(task(n_outputs=3))
    assert not learned.is_of(task(has_holes=True))
    assert not learned.is_of(task(plan=Plan(selection="greedy")))
    assert not learned.is_of(task(n=29, plan=Plan(selection="greedy")))


# -- learning from one level to the next


def test_the_best_of_all_starts_is_taken_and_all_of_them_are_counted(monkeypatch):
    seen = []

    def learned(task, theta, bounds, optimizer, report):
        seen.append((theta, bounds, optimizer, report))
        if len(seen) == 3:
            raise IndefiniteKernelError(-1.0, 0.0)
        return levels.Learned(theta, [5.0, 3.0, None, 4.0][len(seen) - 1], None, None, 10)

    monkeypatch.setattr(levels, "_from", learned)
    task = SimpleNamespace(kernel=RBF([1.0, 2.0], (0.1, 10.0)), report=None)
    best = levels.learn_from_starts(task, optimizer="own", n_restarts=3, random_state=0, report="tell")
    drawn = np.random.RandomState(0)
    bounds = task.kernel.bounds
    expected = [task.kernel.theta, *(drawn.uniform(*bounds.T) for _ in range(3))]
    for theta, (found, *rest) in zip(expected, seen, strict=True):
        np.testing.assert_array_equal(theta, found)
        np.testing.assert_array_equal(rest[0], bounds)
        assert rest[1:] == ["own", "tell"]
    assert best.value == 3.0
    assert best.n_decompositions == 30


@pytest.mark.parametrize("on_landmarks", [True, False])
def test_an_optimizer_of_the_user_sees_half_and_its_value_is_doubled(monkeypatch, on_landmarks):
    class Objective:
        n_calls = 4

        def __call__(self, theta):
            assert theta.tolist() == [0.5]
            return Evaluation(6.0, np.array([8.0]))

        def solve(self, theta):
            return "decomposition", "solution"

    seen = []

    def optimizer(obj_func, theta, bounds):
        seen.extend([obj_func(theta), obj_func(theta, eval_gradient=False), bounds])
        return [9.0], 2.5

    monkeypatch.setattr(levels, "LandmarkObjective", lambda task: Objective())
    monkeypatch.setattr(
        levels, "objective_of", lambda task, is_single: Objective() if not is_single else task.never
    )
    monkeypatch.setattr(levels, "_learned", lambda o, theta: levels.Learned(theta, 0.0, None, None, 11))
    task = SimpleNamespace(learns_on_landmarks=on_landmarks)
    end = levels._from(task, np.full(1, 0.5), "bounds", optimizer, None)
    assert seen == [(3.0, np.array([4.0])), 3.0, "bounds"]
    assert end.value == 5.0
    assert end.theta.tolist() == [9.0]
    assert end.n_decompositions == (5 if on_landmarks else 11)


class Watching:
    """An explorer that tells what it was asked for."""

    def __init__(self, n=40, **task):
        rows = type("Rows", (SimpleNamespace,), {"__len__": lambda self: n})
        self.task = rows(**{"kernel": RBF([1.0, 2.0]), "given": None, "given_ratio": None} | task)
        self.objective = SimpleNamespace(
            task=self.task,
            n_calls=0,
            starts=lambda theta: ["start", theta],
            with_ratio=lambda theta, ratio: np.append(theta, np.log(ratio)),
        )
        self.asked = []

    def _ended(self, value=1.0):
        return SimpleNamespace(x=np.full(3, 9.0), value=value, curvature=np.eye(3))

    def explore(self, starts, tolerance):
        self.asked.append(("explore", starts, tolerance))
        return [self._ended()]

    def compare(self, starts, tolerance):
        self.asked.append(("compare", starts, tolerance))
        return [self._ended()]

    def look(self, start, to_beat):
        self.asked.append(("look", start.tolist(), to_beat))
        return self._ended(0.5)

    def descend(self, start, *, tolerance):
        self.asked.append(("descend", start.tolist(), tolerance))
        return self._ended(self.end)

    def hop(self, ends, tolerance):
        self.asked.append(("hop", len(ends), tolerance))
        return ends


def test_levels_explore_or_go_on_from_a_coarser_one():
    explorer, theta = Watching(), np.array([0.0, 1.0])
    found = levels._found(explorer, None, theta, False)
    assert found.n_rows == 40
    assert explorer.asked[0][0] == "explore"
    assert explorer.asked[0][1][0] == "start"
    coarser = levels._Found([SimpleNamespace(x=np.ones(3), curvature=2.0 * np.eye(3))], 10)
    levels._found(explorer, coarser, theta, False)
    name, ((x, curvature),), tolerance = explorer.asked[1]
    assert (name, tolerance) == ("compare", 1e-3)
    assert x.tolist() == [1.0] * 3
    assert close(curvature, 8.0 * np.eye(3), 1e-12)  # of four times the rows


@pytest.mark.parametrize(("gain", "expected"), [(1.9e-6, "start"), (2.1e-6, "end")])
def test_where_all_is_noise_the_start_is_as_good(monkeypatch, gain, expected):
    def solution(ratio):
        return SimpleNamespace(in_basis=SimpleNamespace(noise_ratio=np.array(ratio)))

    start = SimpleNamespace(value=10.0, name="start")
    objective = SimpleNamespace(task=SimpleNamespace(data=SimpleNamespace(n_outputs=2)))
    asked = []
    monkeypatch.setattr(levels, "_learned", lambda *what: asked.append(what) or start)
    end = SimpleNamespace(value=10.0 - gain, name="end", solution=solution([np.inf, np.inf]))
    assert levels._where_it_matters(objective, end, "theta").name == expected
    assert asked == [(objective, "theta")]
    end.solution = solution([np.inf, 3.0])
    assert levels._where_it_matters(objective, end, None) is end


def test_the_rows_of_the_coarsest_level():
    def halvings(n, n_dims=1, n_mean=0):
        rows = type("Rows", (SimpleNamespace,), {"__len__": lambda self: n})
        data = SimpleNamespace(rows=SimpleNamespace(n_mean=n_mean))
        return levels._halvings(rows(kernel=SimpleNamespace(n_dims=n_dims), data=data))

    assert [halvings(n) for n in (100, 299, 300, 600, 1199)] == [0, 0, 1, 2, 2]
    assert [halvings(n, n_dims=20) for n in (599, 600)] == [0, 1]
    assert [halvings(n, n_mean=60) for n in (599, 600)] == [0, 1]


def test_what_is_told_of_the_way_ahead(monkeypatch):
    monkeypatch.setattr(levels, "available_threads", lambda: 1)
    data = SimpleNamespace(rows=SimpleNamespace(n_mean=1))

    def ahead(n, n_starts, plan):
        rows = type("Rows", (SimpleNamespace,), {"__len__": lambda self: n})
        return levels._ahead(rows(kernel=RBF(1.0), data=data, plan=plan), n_starts)

    assert (
        ahead(1200, 1, Plan("exact")) == "ahead: levels of 150, 300, 600, 1200 rows, at most about 2 seconds"
    )
    assert ahead(100, 2, Plan("exact")) == "ahead: levels of 100 rows, 2 starts, at most about 1 seconds"
    # 20 steps of 5 n r^2 flops, at 1.5e10 in a second
    assert ahead(299, 3, Plan("low_rank", 7)).startswith(
        "ahead: levels of 299 rows, rank 7, 3 starts, at most"
    )
    assert ahead(4000, 1, Plan("exact")).endswith("at most about 85 seconds")
    assert ahead(4200, 1, Plan("exact")).endswith("at most about 2 minutes")
    assert ahead(4200, 2, Plan("exact")).endswith("2 starts, at most about 3 minutes")
    monkeypatch.setattr(levels, "available_threads", lambda: 2)
    assert ahead(4200, 1, Plan("exact")).endswith("at most about 49 seconds")


# -- variables of the objective of one output


@pytest.mark.parametrize(("given", "n_starts"), [(None, 1), (np.exp(0.9), 1), (np.exp(1.1), 2)])
def test_the_users_ratio_is_a_start_where_it_is_another(given, n_starts):
    X, y = smooth(n=25)
    data, kernel = Data.with_intercept(X, y[:, None], None, True), RBF([1.0, 0.7])
    theta = kernel.theta
    tuned = Task(data, kernel, CRITERIA["evidence"]).solve(theta)[1].noise_ratio[0]
    parts = None if given is None else ConstantKernel(2.0) * kernel + WhiteKernel(2.0 * tuned * given)
    objective = ResolventObjective(Task(data, kernel, CRITERIA["evidence"], given=parts))
    starts = objective.starts(theta)
    assert objective.n_calls == 1
    assert len(starts) == n_starts
    assert starts[0] == pytest.approx([*theta, np.log(tuned)], rel=1e-4)  # a grid and a step are enough
    if n_starts > 1:
        assert starts[1] == pytest.approx([*theta, np.log(tuned * given)])
    assert objective.theta(starts[0]).tolist() == theta.tolist()


def test_factors_of_the_log_noise_miss_a_trace_with_its_signal_variance(monkeypatch):
    asked = []
    monkeypatch.setattr(noise_task, "pivoted_cholesky", lambda gram, X, **options: asked.append(options))
    X, y = smooth(n=12)
    mean = MeanProcess(RBF(1.0), 1.0, (1e-5, 1e5), True)
    task = noise_task.NoiseTask(Data.with_intercept(X, y[:, None], None, True), RBF(1.0), mean)
    task._noise_factor(SimpleNamespace(theta=RBF(1.0).theta, signal_var=4.0), 1e-3, rank=5)
    assert asked == [{"tau": 2.5e-4, "rank": 5}]


@pytest.mark.parametrize(
    ("missed", "tau", "expected"),
    [(0.39, 0.1, True), (0.41, 0.1, False), (0.1, 0.3, False), (None, 9.0, True)],
)
def test_factors_of_mean_and_noise_are_certified_in_units_of_the_noise(missed, tau, expected):
    D = np.array([0.5, 2.0])  # what is missed of the mean counts 2 and 1/2 times: 2.5 in all
    approximation = SimpleNamespace(
        observations=SimpleNamespace(missed=None if missed is None else missed * 1e-3 * np.ones(2)),
        weighted_mean=SimpleNamespace(D=D),
    )
    point, factor = SimpleNamespace(signal_var=4.0), SimpleNamespace(tau=1e-3 * tau)
    fit = SimpleNamespace(approximation=approximation, point=point, factor=factor)
    assert noise_task.NoiseTask.is_certified(None, fit) == expected


# -- factors of changing noise


def factors_by(route, tau_of_mean, tau_of_noise, n=1000, rank=900):
    """Return what `_factors` of n rows returns on a route, and what was asked for, in its order."""
    asked = []

    class Task:
        plan = SimpleNamespace(route=lambda n: route, factor_rank=lambda n: rank)

        def __len__(self):
            return n

        def _mean_factor(self, point, **options):
            asked.append(("mean", options))
            return SimpleNamespace(tau=tau_of_mean)

        def _noise_factor(self, point, tau, **options):
            asked.append(("noise", {"tau": tau} | options))
            return SimpleNamespace(tau=tau_of_noise)

    point = SimpleNamespace(signal_var=2.0, likelihood=SimpleNamespace(signal_var=3.0))
    return noise_task.NoiseTask._factors(Task(), point, np.array([0.5, 1.0])), asked


def test_a_matrix_is_taken_whole_and_its_noise_to_rounding():
    (mean, _), asked = factors_by(Route.EXACT, 0.0, 0.0)
    assert mean is None
    assert asked == [("noise", {"tau": 1e-9})]


def test_factors_of_a_given_rank():
    _, asked = factors_by(Route.OF_RANK, 0.0, 0.0, rank=17)
    assert asked == [("mean", {"rank": 17}), ("noise", {"tau": 0.0, "rank": 17})]


@pytest.mark.parametrize(
    ("route", "n", "rank", "expected"),
    [
        (Route.CERTIFIED, 1000, 900, 1000),
        (Route.CERTIFIED_OR_EXACT, 1000, 900, 99),
        (Route.AFFORDABLE, 1000, 5, 5),
        (Route.AFFORDABLE, 1, 5, 1),
    ],
)
def test_factors_that_are_certified_ask_for_a_tenth_of_what_is_allowed(route, n, rank, expected):
    (mean, noise), asked = factors_by(route, 1e-4, 0.5e-4, n, rank)
    assert (mean.tau, noise.tau) == (1e-4, 0.5e-4)
    (_, of_mean), (_, of_noise) = asked
    assert of_mean.pop("weight") == pytest.approx([6.0, 3.0])
    for options in (of_mean, of_noise):
        assert options.pop("tau") == pytest.approx(1e-4)
        assert options == {"rank": expected, "unless_hopeless": route is not Route.CERTIFIED}


@pytest.mark.parametrize("taus", [(1.1e-4, 0.0), (0.0, 0.51e-4)])
def test_factors_that_are_not_fine_enough(taus):
    (mean, _), asked = factors_by(Route.CERTIFIED_OR_EXACT, *taus)
    assert mean is None
    assert asked[2:] == [("noise", {"tau": 1e-9})]
    _, asked = factors_by(Route.AFFORDABLE, *taus, rank=5)
    assert asked[2] == ("mean", {"rank": 5, "drawn": True})
    assert asked[3] == ("noise", {"tau": pytest.approx(1e-4), "rank": 5})
    assert len(asked) == 4
    (mean, noise), asked = factors_by(Route.CERTIFIED, *taus)
    assert (mean.tau, noise.tau) == taus
    assert len(asked) == 2
