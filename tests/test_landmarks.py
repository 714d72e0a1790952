"""Learning with fixed landmarks: the lower bound of the evidence, its slope, and what a fit makes of them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from problems import close, smooth
from sklearn.base import clone
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skspectral import KernelBoundWarning, SpectralGPRegressor
from skspectral.criteria import CRITERIA
from skspectral.decomposition.data import Data
from skspectral.decomposition.plan import Plan
from skspectral.inference.variances import VarianceBounds
from skspectral.kernels.gram import KernelGram
from skspectral.learning import levels
from skspectral.learning.evaluation import Evaluation
from skspectral.learning.exploration import Explorer
from skspectral.learning.landmark_descent import end_of_bound, starts_on_landmarks
from skspectral.learning.landmarks import LandmarkObjective
from skspectral.learning.moving import moved
from skspectral.learning.task import Task
from skspectral.linalg.factors import pivoted_cholesky
from skspectral.support.threads import available_threads

ARD = RBF([1.5, 0.8])
KERNELS = [
    ARD,
    Matern([1.0, 2.0], nu=1.5),
    RationalQuadratic(1.2, 0.7),
    DotProduct(0.5) + RBF(0.9),
    ConstantKernel(0.5) * RBF(2.0) + RBF(0.5) + WhiteKernel(0.1) * RBF(1.0),
]


def weights_of(X):
    return np.random.default_rng(5).uniform(0.2, 3.0, len(X))


def make_task(kernel, X, Y, weight=None, intercept=True, rank=12, bounds=None):
    data = Data.with_intercept(X, Y, weight, intercept)
    bounds = VarianceBounds() if bounds is None else bounds
    return Task(data, kernel, CRITERIA["evidence"], bounds, plan=Plan("low_rank", rank))


def lower_bound(kernel, X, y, Z, noise_var, signal_var, weight=None, intercept=True):
    """The bound from its definition: dense matrices, and -n/2 log(1 + tau/(n g)) for what is missed."""
    C = kernel(X, Z)
    K = C @ np.linalg.solve(kernel(Z, Z), C.T)
    weight = np.ones(len(X)) if weight is None else weight
    tau = weight @ (kernel.diag(X) - np.diag(K))
    if intercept:
        value = reference.reml(K, y, np.ones((len(X), 1)), noise_var, signal_var, weight)
    else:
        value = reference.log_evidence(K, y, noise_var, signal_var, weight)
    n = len(X) - intercept
    return value - 0.5 * n * np.log1p(tau / (n * noise_var / signal_var))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_objective_is_the_lower_bound_at_its_best_variances(kernel, weighted, intercept):
    X, Y = smooth(n=40, m=2)
    weight = weights_of(X) if weighted else None
    objective = LandmarkObjective(make_task(kernel, X, Y, weight, intercept))
    here = objective(kernel.theta)
    noise, signal = here.variances
    Z = objective.landmarks
    args = {"weight": weight, "intercept": intercept}
    pairs = np.transpose(here.variances)
    values = [lower_bound(kernel, X, y, Z, *v, **args) for y, v in zip(Y.T, pairs, strict=True)]
    constant = objective_constant(objective)
    assert close(-0.5 * here.value, sum(values) - constant)
    for y, b, a, best in zip(Y.T, noise, signal, values, strict=True):
        for factor in (0.95, 1.05):
            assert lower_bound(kernel, X, y, Z, factor * b, a, **args) < best
            assert lower_bound(kernel, X, y, Z, b, factor * a, **args) < best
        K = (
            kernel(X)
            if not has_white(kernel)
            else kernel(X, X) + np.diag(kernel.diag(X) - np.diag(kernel(X, X)))
        )
        exact = (
            reference.reml(K, y, np.ones((len(X), 1)), b, a, weight)
            if intercept
            else reference.log_evidence(K, y, b, a, weight)
        )
        assert best <= exact + 1e-8


def has_white(kernel):
    return "WhiteKernel" in str(kernel)


def objective_constant(objective):
    """What the objective leaves out: of the standardisation and of 2 pi."""
    counts, scale = objective.rows.counts, objective.rows.scale
    n = counts.n_free
    return (counts.half_log_weight - n * np.log(scale) - 0.5 * n * (np.log(2 * np.pi) + 1.0)).sum()


@pytest.mark.parametrize(
    "bounds", [None, VarianceBounds(noise=(0.5, 0.5)), VarianceBounds(signal=(0.0, 0.1))]
)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_slope_is_that_of_the_objective(kernel, intercept, bounds):
    X, Y = smooth(n=40, m=2)
    objective = LandmarkObjective(make_task(kernel, X, Y, weights_of(X), intercept, bounds=bounds))
    slope = objective(kernel.theta).gradient
    step = 1e-5
    for k, h in enumerate(step * np.eye(len(slope))):
        ahead, behind = (objective(kernel.theta + sign * h).value for sign in (1, -1))
        assert slope[k] == pytest.approx((ahead - behind) / (2 * step), rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("kept_share", [0.0, 0.1])
def test_slabs_add_up(kept_share, n_threads, monkeypatch):
    X, Y = smooth(n=60, m=2)
    whole = LandmarkObjective(make_task(ARD, X, Y, weights_of(X)))(ARD.theta)
    monkeypatch.setattr("skspectral.learning.landmarks._SLAB", 7)
    monkeypatch.setattr("skspectral.learning.landmarks._KEPT_SHARE", kept_share)
    monkeypatch.setattr("skspectral.support.threads.available_threads", lambda: n_threads)
    slabs = LandmarkObjective(make_task(ARD, X, Y, weights_of(X)))(ARD.theta)
    assert slabs.value == pytest.approx(whole.value, rel=1e-12)
    assert close(slabs.gradient, whole.gradient, rel=1e-9)


def test_landmarks_that_become_alike_stay_in_use():
    X, Y = smooth(n=60, m=1)
    objective = LandmarkObjective(make_task(ARD, X, Y, rank=60))
    objective(ARD.theta)
    for length in (10.0, 1e3, 1e6):
        there = objective(np.log([length, length]))
        assert np.isfinite([there.value, *there.gradient]).all()
        assert there.rank == 60


def evidence_lower_end(model, X, y):
    """The bound at the model's landmarks and variances, from its definition."""
    Z = model._fitted.decomposition.feature_map.landmarks
    return lower_bound(model.kernel_, X, y, Z, model.noise_variance_, model.signal_variance_)


@pytest.mark.filterwarnings("ignore:.*targets hardly depend on such an input")
@pytest.mark.parametrize("method", ["low_rank", "auto"])
def test_the_lower_end_of_the_bounds_is_what_was_maximised(method):
    X, y = smooth(3, n=700, p=3, noise=0.2)
    model = SpectralGPRegressor(RBF(np.full(3, 0.7), (0.1, 1e4)), method=method, rank=30).fit(X, y)
    lower, upper = model.evidence_bounds_
    assert lower == pytest.approx(evidence_lower_end(model, X, y), rel=1e-6)
    exact = SpectralGPRegressor(model.kernel_, optimizer=None, method="exact").fit(X, y)
    assert lower < exact.log_evidence_at(model.noise_variance_, model.signal_variance_) < upper
    start = SpectralGPRegressor(RBF(np.full(3, 0.7)), optimizer=None, method=method, rank=30).fit(X, y)
    assert lower > start.evidence_bounds_[0] + 10.0
    # no worse than the neighbours, to what is worth a step
    task = Task(
        Data.with_intercept(X, y[:, None], None, True),
        model.kernel_,
        CRITERIA["evidence"],
        plan=Plan("low_rank", 30),
    )
    objective = LandmarkObjective(task)
    objective.landmarks = model._fitted.decomposition.feature_map.landmarks
    here = objective(model.kernel_.theta)
    assert -0.5 * here.value + objective_constant(objective) == pytest.approx(lower, rel=1e-8)
    for step in 0.2 * np.concatenate([np.eye(3), -np.eye(3)]):
        assert objective(model.kernel_.theta + step).value > here.value - 0.5


def test_the_order_of_rows_has_no_part_in_what_is_learned():
    X, y = smooth(4, n=700, p=3)
    model = SpectralGPRegressor(RBF(np.ones(3)), method="low_rank", rank=25)
    order = np.random.default_rng(0).permutation(len(X))
    one = model.fit(X, y).kernel_.theta
    other = model.fit(X[order], y[order]).kernel_.theta
    assert np.allclose(one, other, atol=1e-6)


def test_outputs_share_a_kernel_and_have_bounds_together():
    X, Y = smooth(5, n=700, p=3, m=2)
    model = SpectralGPRegressor(RBF(np.ones(3)), method="low_rank", rank=25).fit(X, Y)
    lower, upper = model.evidence_bounds_
    Z = model._fitted.decomposition.feature_map.landmarks
    variances = zip(Y.T, model.noise_variance_, model.signal_variance_, strict=True)
    assert lower == pytest.approx(sum(lower_bound(model.kernel_, X, y, Z, b, a) for y, b, a in variances))
    assert lower < upper


@pytest.mark.filterwarnings("ignore::skspectral.NoiseResolutionWarning")
@pytest.mark.parametrize("rank", [None, 40])
def test_data_without_noise_move_the_kernel_from_its_start(rank):
    X, y = smooth(6, n=700, p=2, noise=0.0)
    model = SpectralGPRegressor(RBF([0.3, 0.3], (0.01, 100.0)), method="low_rank", rank=rank).fit(X, y)
    assert (model.kernel_.length_scale > 0.6).all()
    assert model.noise_variance_ < 1e-4
    assert model.score(X, y) > 0.999


@pytest.mark.filterwarnings("ignore:.*targets hardly depend on such an input")
@pytest.mark.parametrize("rank", [20, 40])
def test_few_landmarks_learn_from_lengths_that_are_far_too_short(rank):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(250, 10))
    y = np.tanh(X[:, :4].sum(axis=1)) + 0.3 * rng.normal(size=250)
    kernel = RBF(np.full(10, 0.3), (0.01, 1e4))
    scores = [
        SpectralGPRegressor(kernel, **route).fit(X[:200], y[:200]).score(X[200:], y[200:])
        for route in ({"method": "low_rank", "rank": rank}, {"method": "exact"})
    ]
    assert scores[0] > scores[1] - 0.1
    assert scores[1] > 0.6


def test_a_start_is_tried_with_longer_lengths_that_have_a_better_bound():
    X, y = smooth(9, n=120, p=2)
    kernel = ConstantKernel(2.0) * RBF([0.05, 0.05], (0.01, 1.0)) + RationalQuadratic(0.02, 3.0, (0.02, 0.5))
    task = make_task(kernel, X, y[:, None], rank=10)
    objective, theta = LandmarkObjective(task), kernel.theta
    first, longer = starts_on_landmarks(objective, theta, kernel.bounds)
    assert first is theta
    names = ["k1__k1__constant_value", *["k1__k2__length_scale"] * 2, "k2__alpha", "k2__length_scale"]
    ways = [np.array(["length" in name for name in names]) * np.log(3.0) * k for k in range(1, 5)]
    tried = [np.clip(theta + way, *kernel.bounds.T) for way in ways]
    best = min(tried, key=lambda start: objective(start).value)
    assert np.array_equal(longer, best)
    assert objective(best).value < objective(theta).value


@pytest.mark.parametrize("kernel", [RBF(2.0, (0.1, 2.0)), DotProduct(1.0), RBF(1.0, (1e-3, 1e6))])
def test_a_start_without_better_longer_lengths_stands_alone(kernel):
    X, y = smooth(0, n=120, p=2)
    objective = LandmarkObjective(make_task(kernel, X, y[:, None], rank=60))
    assert starts_on_landmarks(objective, kernel.theta, kernel.bounds) == [kernel.theta]


def test_a_bound_on_all_rows_descends_from_the_start_with_few_landmarks():
    X, y = smooth(4, n=300, p=2)
    task = make_task(ARD, X, y[:, None], rank=7)
    bounds = np.log([[0.1, 10.0], [0.1, 10.0]])
    end, n_calls = end_of_bound(task, ARD.theta, bounds)
    assert end.evaluation.rank == 30
    assert end.value < LandmarkObjective(make_task(ARD, X, y[:, None], rank=30))(ARD.theta).value - 10.0
    assert np.abs(end.evaluation.gradient).max() < 3.0
    assert 3 <= n_calls <= 15


class ValleySpy:
    """Stands for the descent of a bound on all rows, and keeps the starts of every level."""

    def __init__(self, monkeypatch, theta, noise_ratio):
        self.end, self.n_calls, self.starts, compare = theta, 0, {}, Explorer.compare
        self.variances = np.array([noise_ratio]), np.array([1.0])

        def spied(explorer, given, tolerance):
            self.starts[len(explorer.objective.task)] = [x for x, _ in given]
            return compare(explorer, given, tolerance)

        monkeypatch.setattr(Explorer, "compare", spied)
        monkeypatch.setattr(levels, "end_of_bound", self)

    def __call__(self, task, theta, bounds):
        assert (len(task), len(bounds)) == (700, len(theta))
        assert np.array_equal(theta, task.kernel.theta)
        evaluation = Evaluation(0.0, theta, self.variances)
        return SimpleNamespace(x=self.end, evaluation=evaluation), self.n_calls


def test_very_many_rows_show_their_valley_to_half_of_them(monkeypatch):
    (X, y), model = smooth(0, n=700, p=2), SpectralGPRegressor(ARD, method="exact")
    spy = ValleySpy(monkeypatch, np.array([2.0, -2.0]), 0.04)
    monkeypatch.setattr(levels, "_VERY_MANY", 700)
    before = clone(model).fit(X, y)
    assert len(spy.starts[350]) == 1
    monkeypatch.setattr(levels, "_VERY_MANY", 699)
    after = clone(model).fit(X, y)
    assert spy.starts[350][1] == pytest.approx([2.0, -2.0, np.log(0.04)])
    assert [len(spy.starts[n]) for n in (350, 700)] == [2, 1]
    assert after.log_marginal_likelihood_value_ == pytest.approx(
        before.log_marginal_likelihood_value_, abs=0.1
    )
    spy.n_calls = 11
    assert clone(model).fit(X, y).n_decompositions_ == after.n_decompositions_ + 11
    *spy.end, x = spy.starts[350][0]  # where fewer rows lead anyway
    spy.variances = np.array([np.exp(x + 0.4)]), np.array([1.0])
    clone(model).fit(X, y)
    assert len(spy.starts[350]) == 1


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
@pytest.mark.parametrize(
    ("kernel", "m", "method"),
    [(ARD + WhiteKernel(0.1, "fixed") * ARD, None, "exact"), (ARD, 2, "exact"), (ARD, None, "low_rank")],
)
def test_no_valley_is_looked_for_where_there_is_no_bound_or_no_matrix(kernel, m, method, monkeypatch):
    X, y = smooth(0, n=700, p=2, m=m)
    monkeypatch.setattr(levels, "_VERY_MANY", 699)
    monkeypatch.setattr(levels, "end_of_bound", None)
    assert SpectralGPRegressor(kernel, method=method).fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize(("gain", "goes_on"), [(0.008, False), (0.012, True)])
def test_very_many_rows_go_on_from_a_global_search_where_that_is_worth_a_step(gain, goes_on, monkeypatch):
    X, y = smooth(0, n=400, p=2)
    ends, searched, globally, descend = [], [], levels._globally, levels.Explorer.descend

    def spied(objective, best):
        ends.append(replace(globally(objective, best), value=best.value - gain))
        return ends[-1]

    def telling(explorer, *start, **settings):
        searched.append(len(ends) > 0)
        return descend(explorer, *start, **settings)

    monkeypatch.setattr(levels, "_globally", spied)
    monkeypatch.setattr(levels.Explorer, "descend", telling)
    monkeypatch.setattr(levels, "_VERY_MANY", 399)
    monkeypatch.setattr(levels, "SMALLEST_N", 400)
    SpectralGPRegressor(ARD, method="exact").fit(X, y)
    assert any(searched) == goes_on


@pytest.mark.filterwarnings("ignore:.*targets hardly depend on such an input")
def test_few_evaluations_of_all_rows(monkeypatch):
    X, y = smooth(7, n=1000, p=6)
    calls, bound = [], LandmarkObjective._bound

    def counted(self, kernel, landmarks):
        calls.append(len(self.rows))
        return bound(self, kernel, landmarks)

    monkeypatch.setattr(LandmarkObjective, "_bound", counted)
    SpectralGPRegressor(RBF(np.full(6, 2.0)), method="low_rank", rank=50).fit(X, y)
    assert 3 <= calls.count(1000) <= 30


def test_drawn_landmarks_leave_outliers_alone():
    rng = np.random.default_rng(0)
    X, gram = rng.standard_t(3, size=(900, 6)), KernelGram(RBF(3.0))
    drawn, largest = (pivoted_cholesky(gram, X, rank=60, drawn=drawn) for drawn in (True, False))
    assert drawn.tau < 0.8 * largest.tau
    assert drawn.rank == 60
    order = rng.permutation(len(X))
    again = pivoted_cholesky(gram, X[order], rank=60, drawn=True)
    assert np.array_equal(np.sort(order[again.pivots]), np.sort(drawn.pivots))


def test_blocks_of_predictions_are_as_large_as_a_factor_allows(monkeypatch):
    X, y = smooth(8, n=900)
    model = SpectralGPRegressor(RBF(1.0), optimizer=None, method="low_rank", rank=16).fit(X, y)
    monkeypatch.setattr("skspectral.models.fitted._BLOCK_ENTRIES", 1600)
    assert [len(X[rows]) for rows in model._fitted.blocks(X)] == [100] * 9


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_absent_rows_and_constant_outputs_change_nothing_of_what_is_learned():
    X, y = smooth(9, n=500)
    kernel = RBF([1.0, 1.0])
    model = SpectralGPRegressor(kernel, method="low_rank", rank=20)
    alone = clone(model).fit(X[:400], y[:400])
    weight = np.repeat([1.0, 0.0], [400, 100])
    absent = clone(model).fit(X, y, weight)
    beside = clone(model).fit(X[:400], np.column_stack([y[:400], np.full(400, 2.0)]))
    for other in (absent, beside):
        assert np.allclose(other.kernel_.theta, alone.kernel_.theta, atol=1e-6)
        assert np.ravel(other.noise_variance_)[0] == pytest.approx(alone.noise_variance_, rel=1e-6)
    assert absent.evidence_bounds_ == pytest.approx(alone.evidence_bounds_, rel=1e-6)


def test_averages_over_variances_take_a_given_rank():
    X, y = smooth(9, n=300)
    model = SpectralGPRegressor(RBF(1.0), method="low_rank", rank=20, inference="integrate").fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.mean((mean - y) ** 2) < 0.12
    assert 0.25 < std.mean() < 0.5


@pytest.mark.parametrize("optimizer", ["fmin_l_bfgs_b", "default"])
def test_every_optimizer_maximises_the_bound(optimizer):
    X, y = smooth(9, n=300)
    model = SpectralGPRegressor(RBF([0.7, 0.7]), method="low_rank", rank=20, optimizer=optimizer).fit(X, y)
    objective = LandmarkObjective(make_task(model.kernel_, X, y[:, None], rank=20))
    objective.landmarks = model._fitted.decomposition.feature_map.landmarks
    here = objective(model.kernel_.theta)
    assert -0.5 * here.value + objective_constant(objective) == pytest.approx(model.evidence_bounds_[0])
    assert np.abs(here.gradient).max() < 2.0


def test_an_interrupt_leaves_a_model_as_it_was(monkeypatch):
    X, y = smooth(9, n=300)
    model = SpectralGPRegressor(RBF(1.0), method="low_rank", rank=20).fit(X, y)
    before, threads = dict(vars(model)), available_threads()

    def interrupt(self, kernel, here):
        raise KeyboardInterrupt

    monkeypatch.setattr(LandmarkObjective, "_slope", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, 2.0 * y)
    assert vars(model) == before
    assert available_threads() == threads


@pytest.mark.parametrize("factor", [1e-120, 1e120])
def test_the_unit_of_the_targets_has_no_part_in_what_is_learned(factor):
    X, y = smooth(9, n=300)
    model = SpectralGPRegressor(RBF([1.0, 1.0]), method="low_rank", rank=20)
    one, other = (clone(model).fit(X, unit * y + 3.0 * unit) for unit in (1.0, factor))
    assert np.allclose(other.kernel_.theta, one.kernel_.theta, atol=1e-6)
    assert other.noise_variance_ == pytest.approx(factor**2 * one.noise_variance_, rel=1e-6, abs=0.0)


def test_kernels_and_noise_whose_product_is_too_large_a_number_have_a_slope():
    rng = np.random.default_rng(0)
    X, y = 1e122 * rng.normal(size=(50, 4)), rng.normal(size=50)
    kernel = ConstantKernel(0.01, (1e-2, 1e2)) * DotProduct(0.8)
    with pytest.warns(KernelBoundWarning, match="lower bound"):
        model = SpectralGPRegressor(kernel, rank=1).fit(X, y)
    assert model.signal_variance_ == pytest.approx(1e-2)
    assert min(model.tuning_[0].noise_ratio, model.noise_variance_) > 1e200
    assert np.isfinite(model.predict(X, return_std=True)).all()


def at_variances(objective, evaluation, X, Y, Z, weight, intercept):
    """-2 log of the bound, from its definition, at the variances of an evaluation."""
    kernel = objective.task.kernel
    variances = zip(Y.T, *evaluation.variances, strict=True)
    return -2.0 * sum(lower_bound(kernel, X, y, Z, b, a, weight, intercept) for y, b, a in variances)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_slope_by_landmarks_is_that_of_the_definition(kernel, intercept):
    X, Y = smooth(n=40, m=2)
    weight, Z = weights_of(X), X[:12] + 0.1
    objective = LandmarkObjective(make_task(kernel, X, Y, weight, intercept))
    there, by_landmarks = objective.jointly(kernel.theta, Z)
    objective.landmarks = Z
    at_same = objective(kernel.theta)
    assert there.value == pytest.approx(at_same.value, rel=1e-12)
    assert close(there.gradient, at_same.gradient, rel=1e-9)
    step = 1e-5
    for index in np.ndindex(Z.shape):
        # variances are at their best, so that the derivative by them is nothing
        ahead, behind = (
            at_variances(objective, there, X, Y, Z + sign * step * one_at(index, Z.shape), weight, intercept)
            for sign in (1, -1)
        )
        assert by_landmarks[index] == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-4)


def one_at(index, shape):
    """An array of zeros but for a 1."""
    array = np.zeros(shape)
    array[index] = 1.0
    return array


@pytest.mark.parametrize("kept_share", [0.0, 0.1])
def test_slopes_by_landmarks_of_slabs_add_up(kept_share, monkeypatch):
    X, Y = smooth(n=60, m=2)
    Z = X[:9] + 0.1
    _, whole = LandmarkObjective(make_task(ARD, X, Y, weights_of(X))).jointly(ARD.theta, Z)
    monkeypatch.setattr("skspectral.learning.landmarks._SLAB", 7)
    monkeypatch.setattr("skspectral.learning.landmarks._KEPT_SHARE", kept_share * 1e-9)
    _, slabs = LandmarkObjective(make_task(ARD, X, Y, weights_of(X))).jointly(ARD.theta, Z)
    assert close(slabs, whole, rel=1e-9)


def rough(n=800, seed=8):
    """Targets of four inputs that 25 rows are far from enough for."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.sin(2.0 * X @ rng.normal(size=(4, 3)) / 2.0).sum(axis=1) + 0.1 * rng.normal(size=n)


def test_landmarks_move_where_that_makes_the_bound_better(monkeypatch):
    X, y = rough()
    model = SpectralGPRegressor(RBF(np.full(4, 2.0)), method="low_rank", rank=25)
    lower, upper = model.fit(X, y).evidence_bounds_
    Z = model._fitted.decomposition.feature_map.landmarks
    assert not (Z[:, None] == X).all(axis=2).any()
    assert lower == pytest.approx(evidence_lower_end(model, X, y), rel=1e-6)
    exact = SpectralGPRegressor(model.kernel_, optimizer=None, method="exact").fit(X, y)
    assert lower < exact.log_evidence_at(model.noise_variance_, model.signal_variance_) < upper
    monkeypatch.setattr(Plan, "may_move", False)
    of_rows = model.fit(X, y)
    Z = of_rows._fitted.decomposition.feature_map.landmarks
    assert (Z[:, None] == X).all(axis=2).any(axis=1).all()
    assert lower > of_rows.evidence_bounds_[0] + 50.0


def test_the_units_of_inputs_have_no_part_in_how_landmarks_move():
    X, y = rough(n=300)
    kernel, unit = RBF(np.full(4, 2.0), (1e-9, 1e9)), np.array([1024.0, 1.0, 0.25, 64.0])
    found = []
    for factor in (np.ones(4), unit):
        objective = LandmarkObjective(make_task(kernel, factor * X, y[:, None]))
        objective.landmarks = factor * X[:15]
        theta = moved(objective, kernel.theta + np.log(factor), objective.box(kernel.bounds), 12)
        assert objective.has_moved
        found.append((theta - np.log(factor), objective.landmarks / factor))
    assert np.allclose(found[0][0], found[1][0], atol=1e-7)
    assert np.allclose(found[0][1], found[1][1], atol=1e-7)


class KernelOfValues(RBF):
    """A kernel without derivatives by inputs, because nobody knows its formula."""


def test_landmarks_stay_rows_of_kernels_without_slopes_by_inputs():
    X, y = rough(n=300)
    model = SpectralGPRegressor(KernelOfValues(2.0), method="low_rank", rank=20).fit(X, y)
    Z = model._fitted.decomposition.feature_map.landmarks
    assert (Z[:, None] == X).all(axis=2).any(axis=1).all()


def test_landmarks_that_others_replace_in_the_end_stay_rows():
    assert Plan("low_rank", 20).for_learning().may_move
    assert not Plan("low_rank", 20, "greedy").for_learning().may_move
    assert not Plan("low_rank").for_learning().may_move


class Bowl:
    """Stands for an objective: |theta|^2 + steepness |Z|^2, not defined where a landmark is below -1."""

    def __init__(self, landmarks, steepness):
        self.landmarks, self.steepness, self.n_calls = landmarks, steepness, 0
        self.rows = self

    def __len__(self):
        return 10

    def spread(self):
        return np.ones(self.landmarks.shape[1])

    def jointly(self, theta, Z):
        self.n_calls += 1
        if Z.min() < -1.0:
            return Evaluation.undefined(theta), np.zeros_like(Z)
        value = theta @ theta + self.steepness * (Z**2).sum()
        return Evaluation(value, 2.0 * theta, None, None), 2.0 * self.steepness * Z

    def move_to(self, landmarks):
        self.landmarks = landmarks


def test_landmarks_and_parameters_move_together_within_the_box():
    bowl, box = Bowl(np.full((3, 2), 0.5), 1.0), (np.full(2, 0.3), np.full(2, 2.0))
    steps = []
    theta = moved(bowl, np.array([1.0, 0.5]), box, 40, lambda *step: steps.append(step))
    assert np.allclose(theta, 0.3)
    assert np.abs(bowl.landmarks).max() < 0.1
    values = [evaluation.value for _, _, evaluation in steps]
    assert values == sorted(values, reverse=True)
    assert bowl.n_calls <= 40


def test_landmarks_that_are_best_where_they_are_stay_there():
    bowl, box = Bowl(np.zeros((3, 2)), 1e6), (np.zeros(2), np.ones(2))
    start = bowl.landmarks
    assert np.array_equal(moved(bowl, np.zeros(2), box, 40), np.zeros(2))
    assert bowl.landmarks is start
    assert bowl.n_calls <= 6


def test_no_way_is_begun_that_is_too_short_to_be_judged():
    bowl, box = Bowl(np.ones((3, 2)), 1.0), (np.zeros(2), np.ones(2))
    assert np.array_equal(moved(bowl, np.ones(2), box, 5), np.ones(2))
    assert bowl.n_calls == 0


def test_a_way_out_of_where_a_bound_is_defined_is_taken_back():
    bowl, box = Bowl(np.array([[-0.99]]), -1.0), (np.zeros(1), np.ones(1))
    theta = moved(bowl, np.ones(1), box, 40)
    assert theta[0] < 1.0
    assert -1.0 <= bowl.landmarks[0, 0] < -0.99
