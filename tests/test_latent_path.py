"""The path that scikit-learn's optimizer would take from the user's start, beside scikit-learn itself."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from problems import close
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skspectral import SpectralGPClassifier
from skspectral.inference.approximate import bound
from skspectral.learning import latent
from skspectral.learning.descent import minimize_in_box
from skspectral.learning.latent_objective import LatentObjective
from skspectral.learning.latent_path import _View, follow_latent_path, is_path_followed

PRODUCT = ConstantKernel(2.0) * RBF(0.8)
SUM = ConstantKernel(2.0) * RBF(0.8) + ConstantKernel(0.5) * RBF(3.0)
NESTED = ConstantKernel(2.0) * (RBF(0.8) + ConstantKernel(0.5) * RBF(3.0))


def two_classes(n=80, p=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, (X[:, 0] + np.sin(2.0 * X[:, 1]) + rng.logistic(size=n) > 0).astype(int)


def task_of(kernel, fit_intercept=False, n=80):
    X, y = two_classes(n)
    model = SpectralGPClassifier(kernel, fit_intercept=fit_intercept, optimizer=None).fit(X, y)
    return model._latent.task


def descended(task):
    """Return the end of a descent from the user's start, which knows its curvature."""
    return minimize_in_box(LatentObjective(task), task.start, *task.bounds.T)


@pytest.mark.parametrize("kernel", [PRODUCT, SUM, NESTED])
def test_the_path_ends_where_scikit_learn_does(kernel):
    X, y = two_classes()
    theirs = GaussianProcessClassifier(kernel).fit(X, y)
    path = follow_latent_path(LatentObjective(task_of(kernel)))
    assert not path.is_known
    assert -0.5 * path.value == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-5)


@pytest.mark.parametrize("kernel", [PRODUCT, SUM, NESTED])
def test_the_path_is_one_in_the_parameters_of_the_given_kernel(kernel):
    X, y = two_classes()
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y)
    task = task_of(kernel)
    view, objective = _View(task), LatentObjective(task)
    assert close(view.start, kernel.theta, 1e-12)
    theta = kernel.theta + np.linspace(-0.6, 0.5, len(kernel.theta))
    value, gradient = theirs.log_marginal_likelihood(theta, eval_gradient=True)
    here = objective(view.at(theta))
    assert -0.5 * here.value == pytest.approx(value, abs=1e-6)
    assert close(-0.5 * view.pulled_back(here.gradient), gradient, 1e-5)


def test_outer_variables_of_the_path_stay_inside_of_their_bounds():
    kernel = ConstantKernel(1.0, (0.5, 2.0)) * RBF(1.0) + ConstantKernel(1.0) * RBF(1.0)
    task = task_of(kernel)
    view = _View(task)
    for theta in view.bounds.T:
        assert np.all(view.at(theta) >= task.bounds[:, 0])
        assert np.all(view.at(theta) <= task.bounds[:, 1])


def test_a_path_is_left_where_it_comes_into_a_known_valley():
    task = task_of(PRODUCT)
    known, followed, left = descended(task), LatentObjective(task), LatentObjective(task)
    whole, path = follow_latent_path(followed), follow_latent_path(left, known)
    assert path.is_known
    assert not whole.is_known
    assert left.n_calls < followed.n_calls
    assert np.abs(path.x - known.x).max() <= 0.5


def test_a_path_goes_on_near_an_end_that_it_is_far_above_of():
    task = task_of(PRODUCT)
    known = descended(task)
    below = replace(known, evaluation=SimpleNamespace(value=known.value - 1e4))
    assert not follow_latent_path(LatentObjective(task), below).is_known


def test_a_path_is_left_on_the_level_of_a_known_end_where_it_does_not_get_on():
    task = task_of(PRODUCT)
    known = descended(task)
    elsewhere = replace(known, x=known.x + 3.0)
    followed, left = LatentObjective(task), LatentObjective(task)
    whole, path = follow_latent_path(followed), follow_latent_path(left, elsewhere)
    assert not path.is_known
    assert path.value == pytest.approx(whole.value, abs=0.1)
    assert left.n_calls <= followed.n_calls


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_path_is_followed_past_plateaus_without_a_signal(fit_intercept):
    task = task_of(PRODUCT, fit_intercept)
    plateau = SimpleNamespace(x=task.start, value=task.value_of_nothing - 1.0, curvature=1e6 * np.eye(2))
    path = follow_latent_path(LatentObjective(task), plateau)
    assert not path.is_known
    assert path.value == pytest.approx(descended(task).value, abs=1e-3)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_value_of_nothing_is_that_of_a_constant(fit_intercept):
    task = task_of(PRODUCT, fit_intercept)
    y = task.data.Y[:, 0]
    share = (y.sum() + 0.5) / (len(y) + 1.0) if fit_intercept else 0.5
    expected = -2.0 * (y * np.log(share) + (1.0 - y) * np.log(1.0 - share)).sum()
    assert task.value_of_nothing == pytest.approx(expected)


def test_which_tasks_have_a_path():
    task = task_of(PRODUCT)
    assert is_path_followed(task)
    assert not is_path_followed(replace(task, n_classes=3))
    assert not is_path_followed(replace(task, n_classes=None))
    assert not is_path_followed(replace(task, approximate=bound))
    assert not is_path_followed(replace(task, kernel="precomputed"))
    assert is_path_followed(task_of(PRODUCT, n=800))
    assert not is_path_followed(task_of(PRODUCT, n=801))


def test_only_kernels_whose_constants_are_no_variables_are_kept_as_given():
    assert task_of(PRODUCT).given is None
    assert task_of(SUM).given == SUM
    assert task_of(RBF(1.0) + ConstantKernel(1.0) * RBF(2.0)).given is None


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
@pytest.mark.parametrize("has_levels", [True, False])
@pytest.mark.parametrize("seed", [6, 8])
def test_learning_from_an_extreme_start_is_not_behind_scikit_learns_optimizer(seed, has_levels, monkeypatch):
    if has_levels:
        monkeypatch.setattr(latent, "_coarsest", lambda task: 15)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(70, 4))
    y = (X[:, 0] + np.sin(2 * X[:, 1]) + rng.logistic(size=70) > 0).astype(int)
    kernel = ConstantKernel(50.0) * Matern(10 ** rng.uniform(-2, 1, 4), nu=1.5)
    fits = {}
    for optimizer in ("default", "fmin_l_bfgs_b"):
        model = SpectralGPClassifier(kernel, fit_intercept=False, optimizer=optimizer).fit(X, y)
        fits[optimizer] = model.log_marginal_likelihood_value_
    assert fits["default"] >= fits["fmin_l_bfgs_b"] - 0.01
    assert fits["default"] > -0.5 * model._latent.task.value_of_nothing + 5.0


def test_drawn_starts_have_no_path(monkeypatch):
    followed = []
    monkeypatch.setattr(
        latent, "follow_latent_path", lambda *args: followed.append(1) or follow_latent_path(*args)
    )
    X, y = two_classes()
    bounded = ConstantKernel(2.0, (0.1, 10.0)) * RBF(0.8, (0.1, 10.0))
    SpectralGPClassifier(bounded, n_restarts_optimizer=2, random_state=0).fit(X, y)
    assert len(followed) == 1
