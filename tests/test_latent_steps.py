"""Steps of learning with other likelihoods: single precision, one triangle, what is not done twice."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from problems import close
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, RationalQuadratic

from skspectral import SpectralGPClassifier
from skspectral.decomposition.data import Data
from skspectral.decomposition.plan import Plan
from skspectral.inference.approximate import laplace, mode_of
from skspectral.inference.modes import find_mode
from skspectral.inference.observations import observe
from skspectral.kernels.attached import attach
from skspectral.kernels.pairs import Pairs
from skspectral.learning import latent, latent_task
from skspectral.learning.descent import Descent, minimize_in_box, with_seen_curvature
from skspectral.learning.evaluation import Evaluation
from skspectral.learning.latent_objective import LatentObjective, approximate_evidence
from skspectral.learning.latent_task import LatentTask
from skspectral.likelihoods import Bernoulli, StudentT
from skspectral.linalg.curved import DensePrior

# More rows than a block of a triangle has.
N = 430


def classes(n=N, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    f = 2.0 * np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]
    return X, (f + 0.7 * rng.logistic(size=n) > 0).astype(float)


def task(n=N, kernel=None, **settings):
    X, y = classes(n)
    kernel = RBF(1.5) if kernel is None else kernel
    data = Data.with_intercept(X, y[:, None], None, False)
    return LatentTask(data, kernel, Bernoulli(), signal_start=4.0, n_classes=2, **settings)


def test_a_triangle_is_enough_for_all_that_is_needed_of_a_matrix():
    X, _ = classes()
    rng = np.random.default_rng(1)
    K, W = 3.0 * RBF(1.5)(X), rng.uniform(0.0, 0.25, N)
    left, right = rng.normal(size=(2, N, 2))
    curved = DensePrior(RBF(1.5)(X), 3.0).curved(W)
    R = W[:, None] * np.linalg.inv(np.eye(N) + K * W)
    G = 0.5 * (left @ right.T + right @ left.T) - 0.5 * R
    assert close(curved.times(left), R @ left, 1e-10)
    assert close(curved.matrix(), R, 1e-10)
    assert curved.log_det == pytest.approx(np.linalg.slogdet(np.eye(N) + K * W)[1])
    sensitivity = curved.sensitivity(left, right)
    assert close(sensitivity.weights, 3.0 * G, 1e-10)
    assert close(np.triu(sensitivity.upper), np.triu(3.0 * G), 1e-10)
    assert sensitivity.by_log_scale == pytest.approx(np.sum(G * K))


@pytest.mark.parametrize("has_constant", [True, False])
def test_single_precision_gives_evidence_and_gradient_of_steps(has_constant):
    X, y = classes()
    observations = observe(Bernoulli(), y)
    K = RBF(1.5)(X)
    exact = laplace(DensePrior(K.copy(), 6.0), observations, has_constant=has_constant)
    settings = {"has_constant": has_constant, "found": 1e-10}
    single = laplace(DensePrior(K.astype(np.float32), 6.0), observations, **settings)
    assert single.prior.is_single
    assert single.curved.L.dtype == single.sensitivity().upper.dtype == np.float32
    assert single.mode.n_factorisations <= exact.mode.n_factorisations
    assert close(single.mode.F, exact.mode.F, 1e-3)
    # beside 1e-5 of rounding: a mode that is not quite found changes the log determinant
    assert single.log_evidence == pytest.approx(exact.log_evidence, abs=5e-4)
    assert single.sensitivity().by_log_scale == pytest.approx(exact.sensitivity().by_log_scale, abs=1e-3)
    assert close(single.sensitivity().weights, exact.sensitivity().weights, 1e-4)


def test_a_mode_of_single_precision_is_refined_without_another_factorisation():
    X, y = classes()
    observations, K = observe(Bernoulli(), y), RBF(1.5)(X)
    single = laplace(DensePrior(K.astype(np.float32), 6.0), observations, found=1e-10)
    exact = find_mode(DensePrior(K.copy(), 6.0), observations)
    refined = find_mode(DensePrior(K.copy(), 6.0), observations, start=single.mode, near=single)
    assert refined.n_factorisations == 0
    assert close(refined.F, exact.F, 1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.8),
        RBF([0.8, 1.0, 2.0, 0.5, 3.0]),
        2.0 * Matern(1.3, nu=1.5) + DotProduct(0.5),
        ConstantKernel(0.5) * RationalQuadratic(1.1, 0.7),
    ],
    ids=str,
)
def test_an_attached_kernel_of_single_precision(kernel):
    X, _ = classes(40)
    G = np.triu(np.random.default_rng(0).normal(size=(40, 40)))
    single, exact = (attach(kernel, X, dtype).at(kernel.theta) for dtype in (np.float32, np.float64))
    assert np.allclose(single.K.matrix(40), exact.K.matrix(40), rtol=1e-5, atol=1e-6)
    slopes = single.contract(Pairs.of_triangle(G.astype(np.float32)))
    assert np.allclose(slopes, exact.contract(Pairs.of_triangle(G)), rtol=1e-4, atol=1e-3)
    assert single.K.trace(40) == pytest.approx(np.trace(kernel(X)), rel=1e-6)


@pytest.mark.parametrize("length", [1e-30, [1e-30] * 5], ids=["one length", "five"])
def test_distances_beyond_single_precision_are_far_and_no_error(length):
    X, _ = classes(20)
    kernel = RBF(length, (1e-40, 1e40))
    values = attach(kernel, X, np.float32).at(kernel.theta)
    assert np.array_equal(values.K.matrix(20), np.eye(20))
    assert np.array_equal(
        values.contract(Pairs.of_triangle(np.ones((20, 20), np.float32))), np.zeros(np.size(length))
    )


@pytest.mark.parametrize("kernel", [RBF(1.5), RBF(np.full(5, 1.5))], ids=["one length", "five"])
def test_a_rough_objective_has_the_value_and_gradient_of_the_evidence(kernel):
    exact = task(kernel=kernel)
    rough = LatentObjective(replace(exact, is_rough=True))
    for variables in (exact.start, exact.start + 0.1):
        value, slope = approximate_evidence(exact, variables, eval_gradient=True)
        at = rough(variables)
        assert rough.last.approximation.prior.is_single
        assert 0.0 < abs(at.value + 2.0 * value) < 1e-3
        assert close(at.gradient, -2.0 * slope, 1e-3)
    assert 0.0 < rough.last.off_by < 1e-3


def test_where_single_precision_is_not_enough_it_is_not_used():
    exact = task()
    assert not LatentObjective(exact).task.may_be_single
    for settings in ({"data": exact.data.subset(np.arange(150))}, {"likelihood": StudentT()}):
        assert not replace(exact, is_rough=True, **settings).may_be_single
    rough = LatentObjective(replace(exact, is_rough=True, signal_start=1e5, signal_bounds=(1e-9, 1e9)))
    rough(rough.task.start)
    assert not rough.last.approximation.prior.is_single
    assert rough.last.off_by == 0.0
    assert not rough.task.is_of_matrix(rough.task.point(rough.task.start))


def test_a_gradient_is_made_when_it_is_asked_for_and_of_its_own_point(monkeypatch):
    made = []
    monkeypatch.setattr(DensePrior, "curved", _counting(DensePrior.curved, made))
    objective, start = LatentObjective(task()), task().start
    here, _ = objective(start), objective(start + 0.3)
    n_made = len(made)
    value, slope = approximate_evidence(task(), start, eval_gradient=True)
    del made[n_made:]
    assert here.value == pytest.approx(-2.0 * value)
    assert close(here.gradient, -2.0 * slope, 1e-7)
    assert len(made) == n_made


def _counting(function, calls):
    def counted(*args, **kwargs):
        calls.append(args)
        return function(*args, **kwargs)

    return counted


def test_a_factor_that_was_looked_for_in_vain_is_not_looked_for_beside_that_point(monkeypatch):
    calls = []
    monkeypatch.setattr(latent_task, "pivoted_cholesky", _counting(latent_task.pivoted_cholesky, calls))
    monkeypatch.setattr("skspectral.decomposition.plan.SMALLEST_N", 100)
    objective = LatentObjective(task(plan=Plan("auto", None)))
    start = objective.task.start
    for way, n_calls in ((0.0, 1), (0.2, 1), (0.4, 1), (0.6, 2), (0.7, 2)):
        objective(start - way)
        assert objective.last.factor is None
        assert len(calls) == n_calls


def test_few_rows_give_a_start_for_all_of_them():
    whole, few = task(), np.arange(0, N, 2)
    coarse = whole.subset(few).fit(whole.point(whole.start))
    start = whole.start_from_fewer(coarse, few, np.arange(N))
    point = whole.point(whole.start)
    K = point.signal_var * whole.kernel(whole.data.X)
    predicted = K[:, few] @ coarse.approximation.mode.A
    assert close(K @ mode_of(start.approximation).A, predicted, 1e-12)
    cold, warm = whole.fit(point), whole.fit(point, start)
    assert close(warm.approximation.mode.F, cold.approximation.mode.F, 1e-8)
    assert replace(whole, likelihood=StudentT()).start_from_fewer(coarse, few, np.arange(N)) is None
    assert whole.start_from_fewer(None, few, np.arange(N)) is None


class Lazy:
    """A quadratic function, and how many gradients were made."""

    H = np.array([[3.0, 1.0], [1.0, 2.0]])
    best = np.array([0.3, -0.2])

    def __init__(self):
        self.n_gradients = 0

    def __call__(self, x):
        def gradient():
            self.n_gradients += 1
            return self.H @ (x - self.best)

        return Evaluation(float(0.5 * (x - self.best) @ self.H @ (x - self.best)), gradient)


BOX = np.full(2, -2.0), np.full(2, 2.0)


@pytest.mark.parametrize(("factor", "is_enough"), [(1.0, True), (1.02, True), (2.0, False)])
def test_a_step_that_brings_what_was_promised_ends_a_descent(factor, is_enough):
    lazy, curvature = Lazy(), factor * Lazy.H
    end = minimize_in_box(lazy, np.zeros(2), *BOX, curvature=curvature, tolerance=1e-9, enough=5e-3)
    same_step = Lazy()
    minimize_in_box(same_step, np.zeros(2), *BOX, curvature=curvature, tolerance=1e-9, max_steps=1)
    assert (lazy.n_gradients < same_step.n_gradients) == is_enough
    assert end.value < 5e-3


def test_a_look_that_comes_home_ends_there_without_a_gradient():
    away, home = np.array([-1.5, 1.5]), Lazy.best + 0.4
    settings = {"curvature": 2.0 * Lazy.H, "tolerance": 1e-9}
    lazy, one_step = Lazy(), Lazy()
    end = minimize_in_box(lazy, away, *BOX, home=home, **settings)
    start, *others = _path(away, **settings)
    n_before = next(k for k, x in enumerate(others) if np.abs(x - home).max() < 0.5) + 1
    assert np.abs(start - home).max() > 0.5
    minimize_in_box(one_step, away, *BOX, max_steps=n_before, **settings)
    assert np.array_equal(end.x, others[n_before - 1])
    assert lazy.n_gradients == one_step.n_gradients - 1
    assert end.evaluation.gradient is None  # nor is what it would be made from kept
    again = minimize_in_box(lazy, end.x, *BOX, here=end.evaluation, **settings)
    assert again.value < 1e-9


def test_a_look_that_is_behind_ends_without_a_gradient():
    settings = {"curvature": 40.0 * Lazy.H, "tolerance": 1e-9}
    lazy, two_steps = Lazy(), Lazy()
    end = minimize_in_box(lazy, np.ones(2), *BOX, to_beat=-9.0, **settings)
    same = minimize_in_box(two_steps, np.ones(2), *BOX, max_steps=2, **settings)
    assert np.array_equal(end.x, same.x)
    assert lazy.n_gradients == two_steps.n_gradients - 1
    assert end.evaluation.gradient is None
    assert end.value == same.value


def test_points_that_a_line_search_leaves_have_no_gradient():
    """A curvature of a tenth sends the first step too far."""
    seen, lazy, start = [], Lazy(), np.array([0.6, 0.1])

    def objective(x):
        seen.append(lazy(x))
        return seen[-1]

    minimize_in_box(objective, start, *BOX, curvature=0.1 * Lazy.H, tolerance=1e-9, max_steps=1)
    left = [at for at in seen[1:] if at.value > seen[0].value]
    assert left
    assert all(callable(at._gradient) for at in left)
    assert lazy.n_gradients == 2


def _path(start, **settings):
    """Return all points of a descent."""
    points = [start]
    minimize_in_box(Lazy(), start, *BOX, report=lambda step, x, at: points.append(x), **settings)
    return points


def test_curvature_is_seen_from_differences_of_gradients():
    for x in (np.zeros(2), np.full(2, 2.0), np.full(2, -2.0)):
        end = with_seen_curvature(Lazy(), Descent(x, Lazy()(x), np.eye(2)), *BOX)
        assert close(end.curvature, Lazy.H, 1e-10)
        assert np.array_equal(end.x, x)


def test_differences_are_taken_inside_of_the_box():
    asked = []

    def asking(x):
        asked.append(x.tolist())
        return SimpleNamespace(gradient=np.zeros(2))

    for x in ([1.94, -2.0], [1.96, 2.0]):
        with_seen_curvature(asking, Descent(np.array(x), asking(np.array(x)), np.eye(2)), *BOX)
    assert np.allclose(asked[1:3], [[1.99, -2.0], [1.94, -1.95]])
    assert np.allclose(asked[4:], [[1.91, 2.0], [1.96, 1.95]])


@pytest.mark.parametrize(("share", "is_believed"), [(0.9e-4, False), (1.1e-4, True)])
def test_curvature_that_is_far_flatter_in_one_direction_is_not_believed(share, is_believed):
    """Of the symmetric part, and beside the largest, not the middle one or 1."""
    A = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    H = (A * np.array([50.0 * share, 5.0, 50.0])) @ A.T
    twist = np.array([[0.0, 9.0, -7.0], [-9.0, 0.0, 5.0], [7.0, -5.0, 0.0]])
    descent = Descent(np.zeros(3), SimpleNamespace(gradient=np.zeros(3)), np.eye(3))
    box = np.full(3, -2.0), np.full(3, 2.0)
    seen = with_seen_curvature(lambda x: SimpleNamespace(gradient=(H + twist) @ x), descent, *box)
    assert (seen is not descent) == is_believed
    if is_believed:
        assert close(seen.curvature, H, 1e-10)


def test_curvature_that_is_not_positive_is_not_believed():
    lazy = Lazy()
    lazy.H = np.diag([1.0, -1.0])
    descent = Descent(np.zeros(2), lazy(np.zeros(2)), np.eye(2))
    assert with_seen_curvature(lazy, descent, *BOX) is descent


def test_many_rows_are_learned_from_in_few_steps(monkeypatch):
    """No more than two gradients on all rows, in single precision, and one value in double precision."""
    n, seen = 900, []
    X, y = classes(n, seed=1)
    evaluated = LatentObjective._evaluated

    def noted(objective, variables):
        at, fit = evaluated(objective, variables)
        if len(objective.task) == n:
            seen.append((at, fit.approximation.prior.is_single))
        return at, fit

    monkeypatch.setattr(LatentObjective, "_evaluated", noted)
    model = SpectralGPClassifier(ConstantKernel() * RBF(1.0), fit_intercept=False).fit(X, y)
    monkeypatch.undo()
    assert len(seen) <= 4
    assert [is_single for _, is_single in seen[:-1]] == [True] * (len(seen) - 1)
    assert not seen[-1][1]
    theta = np.append(np.log(model.signal_variance_), model.kernel_.theta)
    value, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert model.log_marginal_likelihood_value_ == pytest.approx(value, abs=1e-6)
    steps = 0.02 * np.eye(2)
    H = (
        np.array([slope - model.log_marginal_likelihood(theta + h, eval_gradient=True)[1] for h in steps])
        / 0.02
    )
    assert 0.5 * slope @ np.linalg.solve(0.5 * (H + H.T), slope) < 2e-3


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
def test_the_level_of_half_of_all_rows_is_for_matrices(monkeypatch):
    sizes = []
    found = latent._found
    monkeypatch.setattr(
        latent, "_found", lambda level, *args: sizes.append(len(level)) or found(level, *args)
    )
    for kernel, half in ((RBF(1.0), [400]), (RBF(1.0, (50.0, 100.0)), [])):
        sizes.clear()
        X, y = classes(800)
        model = SpectralGPClassifier(ConstantKernel() * kernel, fit_intercept=False, method="auto")
        monkeypatch.setattr("skspectral.decomposition.plan.SMALLEST_N", 800)
        model.fit(X, y)
        assert sizes == [50, 200, *half, 800]


def test_variances_of_predictions_are_prepared_when_they_are_needed():
    X, y = classes(60)
    model = SpectralGPClassifier(2.0 * RBF(1.0), optimizer=None).fit(X, y)
    spread = model._latent.spread
    assert "_normal" not in vars(spread)
    model.decision_function(X)
    assert "_normal" not in vars(spread)
    before = model.predict_proba(X)
    assert "_normal" in vars(spread)
    assert np.array_equal(before, model.predict_proba(X))
