"""Regression with noise that changes with the inputs, against the dense definition."""

import pickle

import numpy as np
import pytest
from noise_reference import DenseNoise, leave_one_out
from problems import close
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skspectral import (
    HeteroscedasticGPRegressor,
    KernelSearchCV,
    LowRankWarning,
    PredictionBandDisplay,
    SpectralGPRegressor,
    load_motorcycle,
)
from skspectral.decomposition import plan
from skspectral.decomposition.data import Data
from skspectral.inference.changing_noise import ChangingNoise, changing_noise, interval_over_noise
from skspectral.kernels.gram import make_gram
from skspectral.learning.latent_objective import gradient
from skspectral.learning.noise_task import MeanProcess, NoiseTask
from skspectral.linalg.coupled import CoupledCurvature, SquaredProducts
from skspectral.linalg.curved import DensePrior, FactorPrior
from skspectral.linalg.factors import pivoted_cholesky

pytestmark = pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
CASES = [(True, False), (False, False), (True, True)]
each_form = pytest.mark.parametrize("form", ["matrix", "factor"])
each_case = pytest.mark.parametrize(("has_constant", "weighted"), CASES)


def changing(n=40, seed=0):
    """Return inputs, targets whose noise grows with the input, and weights."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 3, (n, 1)), axis=0)
    y = np.sin(2 * X[:, 0]) + (0.05 + 0.2 * X[:, 0]) * rng.normal(size=n)
    return X, y, rng.uniform(0.5, 2.0, n)


def root_of(K):
    """Return an exact factor of a matrix."""
    size, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(size, 0.0))


def process(kernel, has_constant=True, **more):
    """Return a mean of signal variance 1, which is learned."""
    return MeanProcess(kernel, 1.0, (1e-5, 1e5), has_constant, **more)


def fitted(X, y, weight, has_constant, resolution=0.0, form="matrix"):
    """Return our approximation and the referee's at given kernels, which are no multiples of each other."""
    K_mu, K_l = 1.5 * RBF(0.8)(X), 0.6 * RBF(1.1)(X)
    prior = FactorPrior(root_of(K_l))
    mean = DensePrior(K_mu.copy()) if form == "matrix" else FactorPrior(root_of(K_mu)[:, len(y) // 4 :])
    observations = ChangingNoise(process(RBF()), mean, y, weight, has_constant, resolution)
    referee = DenseNoise(K_mu, K_l, y, weight, has_constant, resolution)
    return changing_noise(prior, observations, max_iter=100), referee


@each_case
@each_form
@pytest.mark.parametrize("resolution", [0.0, 0.01])
def test_mode_evidence_and_covariance_are_those_of_the_definition(has_constant, weighted, resolution, form):
    X, y, weight = changing()
    weight = weight if weighted else np.ones(len(y))
    ours, dense = fitted(X, y, weight, has_constant, resolution, form)
    assert ours.mode.is_found
    given_noise = ours.weighted_mean.approximation().mode
    assert (given_noise.n_iter, given_noise.n_factorisations, given_noise.is_found) == (0, 1, True)
    assert close(ours.mode.F[:, 0], dense.l, 1e-6)
    assert close(ours.log_evidence, dense.log_evidence(), 1e-8)
    assert close(ours.covariances, np.diag(dense.covariance), 1e-6)


@each_case
def test_the_mode_is_where_the_alternation_ends(has_constant, weighted):
    X, y, weight = changing()
    ours, dense = fitted(X, y, weight if weighted else np.ones(len(y)), has_constant)
    l, A = ours.mode.F[:, 0], ours.mode.A[:, 0]
    assert close(dense.first(l), A, 1e-7)  # r/D - 1 = K_l^-1 (l - c)
    assert abs(A.sum()) < 1e-8


@each_case
@each_form
def test_derivatives_by_the_log_noise(has_constant, weighted, form):
    X, y, weight = changing(12)
    ours, _ = fitted(X, y, weight if weighted else np.ones(len(y)), has_constant, 0.01, form)
    seen, F = ours.observations, 0.3 * np.cos(X) - 1.0
    steps = 1e-5 * np.eye(len(y))[:, :, None]
    first = [(seen.log_density(F + e) - seen.log_density(F - e)) / 2e-5 for e in steps]
    second = [(seen.first(F + e) - seen.first(F - e))[:, 0] / -2e-5 for e in steps]
    assert close(seen.first(F)[:, 0], first, 1e-6)
    assert close(seen.curvature(F) @ np.eye(len(y)), second, 1e-6)


def test_coupled_curvatures_multiply_like_their_matrices():
    rng = np.random.default_rng(0)
    d, E, B, V = rng.normal(size=9), rng.normal(size=(9, 4)), rng.normal(size=(9, 3)), rng.normal(size=(9, 4))
    for coupled, W in (
        (CoupledCurvature(d, SquaredProducts(E), -2.0, B), np.diag(d) - 2.0 * (E @ E.T) ** 2 - B @ B.T),
        (CoupledCurvature(d, SquaredProducts(E), 2.0), np.diag(d) + 2.0 * (E @ E.T) ** 2),
    ):
        assert close(coupled @ V, W @ V, 1e-12)
        assert close(coupled.quadratic(V), V.T @ W @ V, 1e-12)
        assert close(coupled.times_span(V, np.ones((4, 2))), W @ V @ np.ones((4, 2)), 1e-12)
        lumped = coupled.lumped()
        assert close(lumped @ np.ones((9, 1)), W @ np.ones((9, 1)), 1e-12)
        off_diagonal = W - np.diag(np.diag(W))
        less = off_diagonal if coupled.B is None else off_diagonal + B @ B.T - np.diag((B**2).sum(axis=1))
        matrix = W - less + np.diag(less.sum(axis=1))
        assert close(lumped.quadratic(V), V.T @ matrix @ V, 1e-12)


def test_the_expected_curvature_is_the_mean_of_the_curvature():
    X, y, weight = changing(8)
    ours, _ = fitted(X, y, weight, True)
    F, K = 0.3 * np.cos(X) - 1.0, ours.observations.prior.K
    V = K + np.diag(ours.observations.mean_at(F).D)
    draws = np.linalg.cholesky(V) @ np.random.default_rng(0).normal(size=(8, 1000))
    found = np.mean(
        [
            ChangingNoise(None, ours.observations.prior, draw, weight, True).curvature(F)
            for draw in np.hstack([draws, -draws]).T
        ],
        axis=0,
    )
    assert np.abs(found - ours.observations.expected_curvature(F)).max() < 0.3


@pytest.mark.parametrize("has_constant", [True, False])
@pytest.mark.parametrize("noise_kernel", [RBF(1.0), Matern(1.0, nu=0.5), RBF(1.0) + WhiteKernel(0.1)])
def test_gradient_of_the_evidence(has_constant, noise_kernel):
    X, y, weight = changing(25)
    mean = process(RBF(0.8), has_constant=has_constant)
    data = Data.with_intercept(X, y[:, None], weight, True)
    task = NoiseTask(data, noise_kernel, mean, changing_noise, signal_start=0.5)
    x = task.start + 0.1
    found = [task.fit(task.point(x + sign * e)) for e in 1e-4 * np.eye(len(x)) for sign in (1, -1)]
    values = np.array([fit.approximation.log_evidence for fit in found])
    assert close(gradient(task, task.fit(task.point(x))), (values[::2] - values[1::2]) / 2e-4, 2e-6)


@pytest.mark.parametrize("has_constant", [True, False])
@pytest.mark.parametrize("rank", [4, 25])
@pytest.mark.parametrize("noise_kernel", [RBF(1.0), Matern(1.0, nu=0.5)])
def test_gradient_of_the_evidence_with_factors_of_any_rank(has_constant, rank, noise_kernel):
    X, y, weight = changing(25)
    mean = process(Matern(0.8, nu=1.5), has_constant=has_constant)
    data = Data.with_intercept(X, y[:, None], weight, True)
    by_factors = plan.Plan("low_rank", rank, couples_rows=True)
    task = NoiseTask(data, noise_kernel, mean, changing_noise, signal_start=0.5, plan=by_factors)
    x = task.start + 0.1
    found = [task.fit(task.point(x + sign * e)) for e in 1e-4 * np.eye(len(x)) for sign in (1, -1)]
    values = np.array([fit.approximation.log_evidence for fit in found])
    assert close(gradient(task, task.fit(task.point(x))), (values[::2] - values[1::2]) / 2e-4, 2e-6)


def test_what_a_factor_misses_makes_a_lower_bound_that_rises_with_its_rank():
    X, y, weight = changing(30)
    kernel, F = Matern(0.8, nu=0.5), 0.3 * np.cos(X) - 1.0
    mean = process(kernel, X=X)
    exact = ChangingNoise(mean, mean.prior(), y, weight, False).log_density(F)
    bounds = []
    for rank in (3, 10, 29):
        factor = pivoted_cholesky(make_gram(kernel), X, rank=rank)
        mean = process(kernel, X=X, factor=factor)
        bounds.append(ChangingNoise(mean, mean.prior(), y, weight, False, 0.0, mean.missed).log_density(F))
    assert bounds[0] < bounds[1] < bounds[2] < exact


@pytest.mark.parametrize("options", [{"method": "low_rank"}, {"rank": 60}])
@pytest.mark.parametrize("has_constant", [True, False])
def test_factors_give_what_matrices_give(options, has_constant):
    X, y, weight = changing(60)
    kernels = {"kernel": 1.5 * RBF(0.8), "noise_kernel": 0.6 * RBF(1.1), "fit_intercept": has_constant}
    dense = HeteroscedasticGPRegressor(**kernels, method="exact", optimizer=None).fit(X, y, weight)
    model = HeteroscedasticGPRegressor(**kernels, **options, optimizer=None).fit(X, y, weight)
    assert model.mean_rank_ < 20 < dense.mean_rank_
    # certified is 1e-3 of the log evidence
    tolerance = 1e-6 if "rank" in options else 1e-3
    assert abs(model.log_marginal_likelihood_value_ - dense.log_marginal_likelihood_value_) < tolerance
    new = np.linspace(-0.5, 3.5, 9)[:, None]
    for answer in (
        lambda m: m.predict(new, return_std=True),
        lambda m: m.predict(new, return_std=True, include_noise=False),
        lambda m: m.predict_noise_std(new),
        lambda m: m.predict_interval(new),
        lambda m: m.loo_predict(return_std=True),
    ):
        assert close(np.array(answer(model)), np.array(answer(dense)), 10 * tolerance)


@pytest.mark.slow
def test_auto_learns_by_factors_what_matrices_learn(monkeypatch):
    monkeypatch.setattr(plan, "SMALLEST_N", 200)
    X, y, _ = changing(200, seed=1)
    by_factor, by_matrix = (HeteroscedasticGPRegressor(method=m).fit(X, y) for m in ("auto", "exact"))
    assert by_factor.mean_rank_ < 20
    assert by_factor.noise_rank_ < 20
    value = by_matrix.log_marginal_likelihood_value_
    assert by_factor.log_marginal_likelihood_value_ == pytest.approx(value, abs=2e-3)
    assert close(by_factor.predict_noise_std(X), by_matrix.predict_noise_std(X), 1e-2)


def test_auto_takes_the_matrix_where_no_small_factor_is_fine_enough(monkeypatch):
    monkeypatch.setattr(plan, "SMALLEST_N", 40)
    X, y, _ = changing()
    rough = Matern(0.5, nu=0.5)
    assert HeteroscedasticGPRegressor(rough, noise_kernel=RBF(), optimizer=None).fit(X, y).mean_rank_ == 40
    assert HeteroscedasticGPRegressor(RBF(), noise_kernel=rough, optimizer=None).fit(X, y).mean_rank_ == 40
    both = HeteroscedasticGPRegressor(RBF(2.0), noise_kernel=RBF(2.0), optimizer=None).fit(X, y)
    assert both.mean_rank_ < 12


def test_matrices_that_are_not_affordable_are_replaced_with_a_warning(monkeypatch):
    monkeypatch.setattr(plan, "LARGEST_COUPLED", 39)
    monkeypatch.setattr(plan, "_AFFORDABLE_FLOPS", 20.0 * 40 * 8.1**3)
    X, y, _ = changing()
    model = HeteroscedasticGPRegressor(Matern(0.5, nu=0.5), noise_kernel=RBF(1.0), optimizer=None)
    with pytest.warns(LowRankWarning, match="matrix of 40 rows .* rank 8 stands in"):
        model.fit(X, y)
    assert model.mean_rank_ == 8
    certified = HeteroscedasticGPRegressor(RBF(3.0), noise_kernel=RBF(3.0), optimizer=None).fit(X, y)
    assert certified.mean_rank_ < 8


@each_case
def test_leave_one_out_is_exact_given_the_noise(has_constant, weighted):
    X, y, weight = changing()
    weight = weight if weighted else None
    model = HeteroscedasticGPRegressor(RBF(0.8), noise_kernel=RBF(1.0), fit_intercept=has_constant)
    model.fit(X, y, sample_weight=weight)
    K, w = model.signal_variance_ * model.kernel_(X), np.ones(len(y)) if weight is None else weight
    D = model.predict_noise_std(X) ** 2 / w
    mean, var = leave_one_out(K, y, D, has_constant)
    found, std = model.loo_predict(return_std=True)
    assert close(found, mean, 1e-6)
    assert close(model.loo_predict(), mean, 1e-6)
    more = model.predict(X, return_std=True)[1] ** 2 - model.predict(X, True, include_noise=False)[1] ** 2
    assert close(std**2, var - D + more / w, 1e-6)


def test_predictions_are_those_of_the_definition():
    X, y, _ = changing()
    new = np.linspace(-1, 4, 7)[:, None]
    model = HeteroscedasticGPRegressor(RBF(0.8), noise_kernel=RBF(1.1), fit_intercept=False, optimizer=None)
    model.fit(X, y)
    K_mu, K_l = model.signal_variance_ * RBF(0.8)(X), RBF(1.1)(X)
    unit = np.sqrt(np.mean(y**2))
    dense = DenseNoise(K_mu, K_l, y, np.ones(len(y)), False, 1e-10 * unit**2)
    assert close(model.log_marginal_likelihood_value_, dense.log_evidence(), 1e-7)
    n, k, k_l = len(y), model.signal_variance_ * RBF(0.8)(new, X), RBF(1.1)(new, X)
    V_inv = np.linalg.inv(K_mu + np.diag(np.exp(2 * dense.l)))
    mean, var = k @ V_inv @ y, model.signal_variance_ - np.einsum("ij,jk,ik->i", k, V_inv, k)
    size, vectors = np.linalg.eigh(K_l)
    features = k_l @ vectors / np.sqrt(np.maximum(size, 1e-10 * size.max()))
    features[:, size < 1e-10 * size.max()] = 0.0
    log_noise = features @ dense.x[:n] + dense.x[n]
    design = np.hstack([features, np.ones((7, 1))])
    log_var = 1.0 - (features**2).sum(axis=1) + np.einsum("ij,jk,ik->i", design, dense.posterior, design)
    assert close(model.predict(new), mean, 1e-5)
    assert close(model.predict(new, return_std=True, include_noise=False)[1], np.sqrt(var), 1e-5)
    assert close(model.predict_noise_std(new), np.exp(log_noise), 1e-4)
    assert close(
        model.predict(new, return_std=True)[1], np.sqrt(var + np.exp(2 * log_noise + 2 * log_var)), 1e-3
    )


def test_intervals_have_their_coverage():
    rng = np.random.default_rng(0)
    mean, var, log_mean, log_var = np.array([[1.0, 0.3, -0.5, 0.4], [0.0, 0.0, 0.0, 0.0]]).T
    lower, upper = interval_over_noise(mean, var, log_mean, log_var, 0.9)
    assert close(upper[1], norm.ppf(0.95), 1e-9)
    assert close(mean - lower, upper - mean, 1e-12)
    noise = np.exp(-0.5 + np.sqrt(0.4) * rng.normal(size=400_000)) * rng.normal(size=400_000)
    y = 1.0 + np.sqrt(0.3) * rng.normal(size=400_000) + noise
    assert abs(np.mean((lower[0] < y) & (y < upper[0])) - 0.9) < 2e-3


def test_the_interval_of_the_mean_leaves_out_the_noise():
    X, y, _ = changing()
    model = HeteroscedasticGPRegressor().fit(X, y)
    mean, std = model.predict(X, return_std=True, include_noise=False)
    lower, upper = model.predict_interval(X, coverage=0.8, include_noise=False)
    assert close(upper - mean, norm.ppf(0.9) * std, 1e-9)
    wide_lower, wide_upper = model.predict_interval(X, coverage=0.8)
    assert (wide_lower < lower).all()
    assert (upper < wide_upper).all()


@pytest.mark.parametrize("seed", range(3))
def test_constant_noise_is_found_to_be_constant(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (100, 1))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=100)
    model, constant = HeteroscedasticGPRegressor().fit(X, y), SpectralGPRegressor().fit(X, y)
    noise = model.predict_noise_std(X)
    assert np.ptp(np.log(noise)) < 0.6
    assert abs(np.log(noise).mean() - 0.5 * np.log(constant.noise_variance_)) < 0.1
    assert np.sqrt(np.mean((model.predict(X) - constant.predict(X)) ** 2)) < 0.05


def test_changing_noise_is_found():
    X, y, _ = changing(200, seed=1)
    model = HeteroscedasticGPRegressor().fit(X, y)
    assert np.abs(np.log(model.predict_noise_std(X) / (0.05 + 0.2 * X[:, 0]))).mean() < 0.25


@pytest.mark.slow
def test_shift_and_scale_of_targets_move_everything_along():
    X, y, _ = changing()
    a, b, c = (HeteroscedasticGPRegressor().fit(X, targets) for targets in (y, 1e3 * y - 7.0, 1024.0 * y))
    assert (c.predict(X) == 1024.0 * a.predict(X)).all()  # a power of two moves no digit
    # other digits are rounded otherwise, and learning ends anywhere within 1e-5 of the largest log evidence
    assert close(b.predict(X), 1e3 * a.predict(X) - 7.0, 1e-3)
    assert close(b.predict_noise_std(X), 1e3 * a.predict_noise_std(X), 1e-3)
    assert b.intercept_ == pytest.approx(1e3 * a.intercept_ - 7.0, abs=1e-3 * np.ptp(1e3 * y))
    assert close(b.noise_intercept_, a.noise_intercept_ + np.log(1e3), 1e-3)
    density = a.log_marginal_likelihood_value_ - (len(y) - 1) * np.log(1e3)
    assert b.log_marginal_likelihood_value_ == pytest.approx(density, abs=1e-5)


def test_weights_are_relative_precisions_and_zero_means_absent():
    X, y, weight = changing()
    model = HeteroscedasticGPRegressor(RBF(0.8), noise_kernel=RBF(1.1), optimizer=None)
    a, b = clone(model).fit(X, y, weight), clone(model).fit(X, y, 4.0 * weight)
    assert close(b.predict(X), a.predict(X), 1e-7)
    assert close(b.predict_noise_std(X), 2.0 * a.predict_noise_std(X), 1e-7)
    assert close(b.loo_predict(True)[1], a.loo_predict(True)[1], 1e-7)
    weight[::5] = 0.0
    absent, without = (
        clone(model).fit(X, y, weight),
        clone(model).fit(X[weight > 0], y[weight > 0], weight[weight > 0]),
    )
    assert close(absent.predict(X), without.predict(X), 1e-12)


@pytest.mark.slow
def test_rows_in_another_order_give_the_same():
    X, y, _ = changing()
    order = np.random.default_rng(0).permutation(len(y))
    a, b = HeteroscedasticGPRegressor().fit(X, y), HeteroscedasticGPRegressor().fit(X[order], y[order])
    assert close(b.predict_noise_std(X), a.predict_noise_std(X), 1e-3)


def test_the_evidence_at_any_theta():
    X, y, _ = changing()
    model = HeteroscedasticGPRegressor().fit(X, y)
    theta = np.log([model.noise_signal_variance_, model.signal_variance_])
    theta = np.array([theta[0], *model.noise_kernel_.theta, theta[1], *model.kernel_.theta])
    value, slope = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert close(value, model.log_marginal_likelihood_value_, 1e-8)
    assert np.abs(slope).max() < 1e-2
    assert model.log_marginal_likelihood() == model.log_marginal_likelihood_value_
    with pytest.raises(ValueError, match="4 parameter"):
        model.log_marginal_likelihood([0.0])


def test_constants_of_kernels_are_starts_and_bounds_and_white_noise_is_left_out():
    X, y, _ = changing()
    kernel = ConstantKernel(2.0, "fixed") * RBF(0.8) + WhiteKernel(0.5)
    noise_kernel = ConstantKernel(0.3, (0.25, 0.35)) * RBF(1.0, "fixed")
    model = HeteroscedasticGPRegressor(kernel, noise_kernel=noise_kernel).fit(X, y)
    assert close(model.signal_variance_, 2.0, 1e-12)
    assert 0.25 <= model.noise_signal_variance_ <= 0.35 + 1e-12
    assert model.noise_kernel_.length_scale == 1.0
    plain = HeteroscedasticGPRegressor(kernel.k1, noise_kernel=noise_kernel).fit(X, y)
    assert close(model.predict(X), plain.predict(X), 1e-12)
    free = HeteroscedasticGPRegressor(RBF(0.8) + WhiteKernel(), optimizer=None).fit(X, y)
    assert free.kernel_ == RBF(0.8)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "low_rank"])
@pytest.mark.parametrize("y_of", [np.ones_like, lambda x: 0.0 * x, np.sin, lambda x: 1e150 * np.sin(x)])
def test_extremes_give_numbers(y_of, method):
    X = np.linspace(0, 5, 20)[:, None]
    model = HeteroscedasticGPRegressor(method=method).fit(X, y_of(X[:, 0]))
    answers = [*model.predict(X, return_std=True), *model.predict_interval(X), *model.loo_predict(True)]
    assert np.isfinite(answers).all()
    assert np.abs(model.predict(X) - y_of(X[:, 0])).max() <= 1e-3 * (np.abs(y_of(X[:, 0])).max() or 1.0)


@pytest.mark.slow
def test_duplicate_inputs_show_the_noise_of_their_place():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0], [5.0], [10.0]], 40, axis=0)
    y = np.repeat([0.1, 1.0, 3.0], 40) * rng.normal(size=120)
    noise = HeteroscedasticGPRegressor(RBF(2.0), noise_kernel=RBF(2.0)).fit(X, y).predict_noise_std(X[::40])
    assert np.abs(np.log(noise / [0.1, 1.0, 3.0])).max() < 0.3


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        ([[0.0], [1.0]], [0.0, 1.0], "minimum of 3"),
        ([[0.0], [1.0], [2.0]], [0.0, np.nan, 1.0], "NaN"),
        ([[0.0], [np.inf], [2.0]], [0.0, 1.0, 1.0], "infinity"),
        ([[0.0], [1.0], [2.0]], [[0.0, 1.0]] * 3, "1d array"),
    ],
)
def test_bad_input_is_refused(X, y, match):
    with pytest.raises(ValueError, match=match):
        HeteroscedasticGPRegressor().fit(X, y)


def test_bad_parameters_and_weights_are_refused():
    X, y, _ = changing(10)
    with pytest.raises(ValueError, match="kernel"):
        HeteroscedasticGPRegressor("precomputed").fit(X, y)
    with pytest.raises(ValueError, match="must not be negative"):
        HeteroscedasticGPRegressor().fit(X, y, sample_weight=-np.ones(10))
    with pytest.raises(ValueError, match="three rows of positive weight"):
        HeteroscedasticGPRegressor().fit(X, y, sample_weight=[1.0] * 2 + [0.0] * 8)
    model = HeteroscedasticGPRegressor(optimizer=None).fit(X, y)
    with pytest.raises(ValueError, match="coverage"):
        model.predict_interval(X, coverage=1.0)
    with pytest.raises(MemoryError, match="fewer rows"):
        clone(model).set_params(method="exact").fit(np.zeros((30_000, 1)), np.zeros(30_000))
    with pytest.raises(ValueError, match="rank=11 is larger"):
        model.set_params(rank=11).fit(X, y)
    assert model.predict(X).shape == (10,)  # a fit that fails leaves all as it was


def test_pickle_pipeline_search_and_display():
    X, y, _ = changing()
    model = HeteroscedasticGPRegressor(optimizer=None).fit(X, y)
    assert close(pickle.loads(pickle.dumps(model)).predict_noise_std(X), model.predict_noise_std(X), 1e-12)
    assert make_pipeline(StandardScaler(), HeteroscedasticGPRegressor()).fit(X, y).score(X, y) > 0.5
    grid = {"noise_kernel": [RBF(0.01, "fixed"), RBF(1.5, "fixed")], "optimizer": [None]}
    search = KernelSearchCV(HeteroscedasticGPRegressor(RBF(0.8)), grid).fit(X, y)
    assert search.best_params_["noise_kernel"].length_scale == 1.5
    display = PredictionBandDisplay.from_estimator(model, show_loo=True)
    assert (display.band[0] < display.function_band[0]).all()
    assert close(display.y, y, 1e-12)


@pytest.mark.slow
def test_motorcycle_leave_one_out_beats_the_published_figures():
    X, y = load_motorcycle(return_X_y=True)
    model = HeteroscedasticGPRegressor().fit(X, y)
    kernel, noise_kernel = (
        ConstantKernel(scale) * core
        for scale, core in (
            (model.signal_variance_, model.kernel_),
            (model.noise_signal_variance_, model.noise_kernel_),
        )
    )
    given = HeteroscedasticGPRegressor(kernel, noise_kernel=noise_kernel, optimizer=None)
    found = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        mean, std = clone(given).fit(X[rest], y[rest]).predict(X[i : i + 1], return_std=True)
        found.append((y[i] - mean[0], std[0]))
    r, std = np.array(found).T
    assert r @ r <= 72_200
    assert np.sum(np.log(std) + 0.5 * (r / std) ** 2) <= 439.6
