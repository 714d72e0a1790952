"""When the paths of the user are left, and what they see, beside scikit-learn's own objectives."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import close, smooth
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from skspectral import SpectralGPClassifier
from skspectral.criteria import CRITERIA
from skspectral.decomposition.data import Data
from skspectral.kernels.parts import split_kernel
from skspectral.learning import latent_path, user_path
from skspectral.learning.task import Task
from skspectral.support.exceptions import IndefiniteKernelError

# -- both paths leave where they do not get on, on the level of a known end

# above the level, decrease of the last step (None: the first), whether the path is left
LEVELS = [
    (0.05, 0.5e-3, True),
    (-0.05, 0.5e-3, True),
    (0.05, -1.0, True),
    (0.05, 2e-3, False),
    (0.11, 0.5e-3, False),
    (-0.11, 0.5e-3, False),
    (0.05, None, False),
]


def is_left(callback, x, *values):
    """Return whether a path is left at the last of some values of -log evidence, and not before."""
    *before, last = values
    for value in before:
        callback(SimpleNamespace(x=x, fun=value))
    try:
        callback(SimpleNamespace(x=x, fun=last))
    except StopIteration:
        return True
    return False


# -- of two classes


def latent_walk(known, kernel=None):
    X = np.random.default_rng(0).normal(size=(20, 1))
    kernel = ConstantKernel(2.0) * RBF(0.8) if kernel is None else kernel
    model = SpectralGPClassifier(kernel, fit_intercept=False, optimizer=None).fit(X, np.arange(20) % 2)
    objective = SimpleNamespace(task=model._latent.task)
    return latent_path._Walk(objective, known)


def known_end(value=30.0, x=(0.0, 0.0), size=0.0):
    return SimpleNamespace(value=value, x=np.array(x), curvature=np.array([[0.0, size], [-size, 0.0]]) / 2.0)


def test_a_latent_path_sees_half_of_the_objective_in_the_users_parameters():
    kernel = ConstantKernel(2.0) * RBF(0.8) + ConstantKernel(0.5) * RBF(3.0)
    walk = latent_walk(None, kernel)
    asked, slopes = [], np.array([1.0, 20.0, 300.0, 4000.0])

    def objective(x):
        asked.append(x)
        return SimpleNamespace(value=10.0, gradient=slopes[: len(x)])

    walk.objective = objective
    theta, view = kernel.theta + 0.1, walk.view
    value, gradient = walk(theta)
    assert value == 5.0
    assert close(asked[0], view.at(theta), 1e-12)
    steps = np.eye(len(theta))
    by_theta = [slopes[: len(asked[0])] @ (view.at(theta + h) - view.at(theta)) for h in 1e-3 * steps]
    assert close(gradient, 0.5 * np.array(by_theta) / 1e-3, 1e-6)


@pytest.mark.parametrize(("above", "decrease", "expected"), LEVELS)
def test_a_latent_path_is_left_on_a_known_level(above, decrease, expected):
    walk = latent_walk(known_end(x=[9.0, 9.0]))
    last = 0.5 * (30.0 + above)  # far away from the end, on its level
    before = [] if decrease is None else [last + 0.5 * decrease]
    walk._previous = np.inf if decrease is None else 1e9
    assert is_left(walk.stop_where_known, walk.view.start, *before, last) == expected
    assert not walk.is_known


@pytest.mark.parametrize(
    ("way", "above", "size", "expected"),
    [
        (0.4, 0.9, 0.0, True),
        (-0.4, 0.9, 0.0, True),
        (0.6, 0.9, 0.0, False),
        (-0.6, 0.9, 0.0, False),
        (0.4, 1.1, 0.0, False),
        (0.4, 1.1, 2.0, False),
        (0.4, 1.1, 2.4, True),
        (0.4, 6.9, 14.0, True),
        (0.4, 7.1, 14.0, False),
        (0.4, -50.0, 0.0, True),
    ],
)
def test_a_latent_path_is_left_near_a_known_end_that_is_not_far_below(way, above, size, expected):
    walk = latent_walk(None)
    at = walk.view.at(walk.view.start)
    walk.known = known_end(x=at + np.array([0.1, way]), size=size)
    assert is_left(walk.stop_where_known, walk.view.start, 0.5 * (30.0 + above)) == expected
    assert walk.is_known == expected


def test_a_latent_path_without_a_known_end_is_not_left():
    walk = latent_walk(None)
    assert not is_left(walk.stop_where_known, walk.view.start, 5.0, 5.0)
    assert not walk.is_known


@pytest.mark.parametrize(("less", "expected"), [(1.9, False), (2.1, True)])
def test_ends_that_explain_something_are_known(monkeypatch, less, expected):
    walks = []

    def minimize(walk, start, **settings):
        walks.append(walk)
        return SimpleNamespace(x=start, fun=7.0)

    monkeypatch.setattr(latent_path, "minimize", minimize)
    objective = latent_walk(None).objective
    end = known_end(objective.task.value_of_nothing - less)
    path = latent_path.follow_latent_path(objective, end)
    assert (walks[0].known is end) == expected
    assert (path.value, path.is_known) == (14.0, False)


# -- of the evidence of targets


KERNEL = ConstantKernel(1.5) * RBF([0.7, 2.0]) + WhiteKernel(0.2)


def user_task(kernel=KERNEL, n=20):
    X, y = smooth(4, n=n)
    core = split_kernel(kernel).core
    return Task(Data.with_intercept(X, y[:, None], None, False), core, CRITERIA["evidence"], given=kernel)


@pytest.fixture
def path_at(monkeypatch):
    """Return what follows the path of the user to given values, from one point to the same."""

    y = user_task().data.Y[:, 0]
    of_noise = len(y) * (1.0 + np.log((y**2).mean()))  # -2 log density of noise alone, but for 2 pi

    def follow(values, **settings):
        seen = SimpleNamespace(left=None)

        def minimize(objective, start, callback, **others):
            assert (others.pop("method"), others.pop("jac")) == ("L-BFGS-B", True)
            assert np.array_equal(others.pop("bounds"), KERNEL.bounds)
            assert others == {}
            own = [0.5 * (value + of_noise) for value in values]
            seen.left = is_left(callback, start, *own)
            inverse = SimpleNamespace(todense=lambda: np.eye(len(start)))
            return SimpleNamespace(x=start, fun=own[-1], hess_inv=inverse)

        monkeypatch.setattr(user_path, "minimize", minimize)
        return user_path.follow_user_path(user_task(), **settings), seen.left

    return follow


@pytest.mark.parametrize(("above", "decrease", "expected"), LEVELS)
def test_the_users_path_is_left_on_a_known_level(path_at, above, decrease, expected):
    last = -30.0 + above
    before = [] if decrease is None else [-10.0, last + decrease]
    path, left = path_at([*before, last], level=-30.0)
    assert left == expected
    assert path.value == pytest.approx(last)
    assert not path.is_known
    assert not path_at([*before, last])[1]  # without a level


@pytest.mark.parametrize(("value", "expected"), [(-5.1, True), (-4.9, False)])
@pytest.mark.parametrize("is_near", [True, False])
def test_the_users_path_is_left_where_its_end_is_known(path_at, value, expected, is_near):
    asked = []

    def is_known(x):
        asked.append(x.tolist())
        return is_near

    path, left = path_at([value], is_known=is_known, below=-5.0)
    assert left == path.is_known == (expected and is_near)
    assert asked == ([[*np.log([0.7, 2.0]), np.log(0.2 / 1.5)]] * 2 if expected else [])
    # of two lengths, whose curvature by theta is 2, and of noise less signal, two variables of 2
    assert close(path.curvature(), np.diag([2.0, 2.0, 1.0]), 1e-8)


def test_the_objective_of_the_users_path_is_scikit_learns():
    task = user_task()
    objective, theta = user_path._GivenObjective(task), KERNEL.theta + np.array([0.3, -0.2, 0.1, 0.4])
    peer = GaussianProcessRegressor(KERNEL, optimizer=None).fit(task.data.X, task.data.Y[:, 0])
    expected, slope = peer.log_marginal_likelihood(theta, eval_gradient=True)
    value, gradient = objective(theta)
    n = len(task)
    assert value == pytest.approx(-expected - 0.5 * n * np.log(2.0 * np.pi))
    assert close(gradient, -slope, 1e-8)
    assert objective.n_calls == 1


@pytest.mark.parametrize("fails", ["numbers", "factor"])
def test_the_users_path_has_no_evidence_where_a_kernel_is_none(monkeypatch, fails):
    def refused(*_):
        raise IndefiniteKernelError(-1.0, 0.0)

    kernel = DotProduct(1.0, (1e-300, np.inf)) + WhiteKernel(0.1)
    objective = user_path._GivenObjective(user_task(kernel))
    if fails == "factor":
        monkeypatch.setattr(user_path.Resolvent, "from_gram", refused)
    value, gradient = objective(np.array([800.0 if fails == "numbers" else 0.0, 0.0]))
    assert value == np.inf
    assert gradient.tolist() == [0.0, 0.0]
    assert objective.n_calls == 1


def test_points_of_the_users_path_are_inside_of_the_bounds_of_the_core():
    kernel = ConstantKernel(2.0) * RBF([0.7, 2.0], (0.5, 3.0)) + WhiteKernel(0.2)
    view = user_path._CoreView(user_task(kernel))
    theta = kernel.theta + np.array([0.1, 5.0, -5.0, 0.3])
    assert view.at(theta) == pytest.approx([np.log(3.0), np.log(0.5), np.log(0.1) + 0.2])


def test_parameters_of_the_user_are_read_in_their_order():
    kernel = WhiteKernel(0.2) + ConstantKernel(1.5) * RBF([0.7, 2.0, 3.0]) * DotProduct(2.5)
    task = Task(Data(np.zeros((3, 3)), np.zeros((3, 1))), split_kernel(kernel).core, None, given=kernel)
    view, move = user_path._CoreView(task), 0.1 * np.arange(1.0, 7.0)
    core = split_kernel(kernel.clone_with_theta(kernel.theta + move)).core
    expected = [*core.theta, np.log(0.2 / 1.5) + move[0] - move[1]]
    assert view.at(kernel.theta + move) == pytest.approx(expected)


def test_curvatures_of_the_users_path_have_limits():
    view, steps = user_path._CoreView(user_task()), np.eye(4)
    assert close(view.curvature(KERNEL.theta, 0.0 * steps), 2e9 * np.eye(3), 1e-6)
    assert close(view.curvature(KERNEL.theta, 1e15 * steps), 2e-9 * np.eye(3), 1e-6)


def test_kernels_without_a_constant_have_a_signal_variance_of_one():
    view = user_path._CoreView(user_task(RBF([0.7, 2.0]) + WhiteKernel(0.2)))
    theta = np.log([0.7, 2.0, 0.2])
    assert view.at(theta) == pytest.approx(theta)


def test_which_tasks_have_a_path_of_the_user():
    assert user_path.is_followed(user_task(n=1000))
    assert not user_path.is_followed(user_task(n=1001))
    assert user_path.is_followed(user_task(RBF([1.0, 1.0]) + WhiteKernel(1e-5)))
    assert not user_path.is_followed(user_task(RBF([1.0, 1.0])))
