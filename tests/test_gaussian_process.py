"""SpectralGPRegressor: scikit-learn's process for given variances, brute force for all that it adds."""

import numpy as np
import pytest
import reference
from problems import close, smooth
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    GenericKernelMixin,
    Kernel,
    Matern,
    RationalQuadratic,
    StationaryKernelMixin,
    WhiteKernel,
)

import skspectral.linalg.spectrum
from skspectral import KernelBoundWarning, SpectralGPRegressor
from skspectral.kernels.parts import split_kernel

both_intercepts = pytest.mark.parametrize("fit_intercept", [True, False])
both_weightings = pytest.mark.parametrize("weighted", [True, False])


def process(kernel=None, **params):
    """The estimator with its kernel's parameters kept."""
    return SpectralGPRegressor(RBF(1.2) if kernel is None else kernel, optimizer=None, **params)


def precisions(n):
    """Relative noise precisions up to 1: each row one observation."""
    return np.random.default_rng(0).uniform(0.2, 1.0, n)


def ones(n, fit_intercept):
    return np.ones((n, 1)) if fit_intercept else None


# -- agreement with scikit-learn


@pytest.mark.parametrize("seed", range(5))
def test_scikit_learn_agrees_at_the_tuned_variances(seed):
    X, y = smooth(seed, n=30)
    X_new = smooth(100 + seed, n=11)[0]
    kernel = ConstantKernel(2.0) * RBF(0.8) + WhiteKernel(0.5)
    ours = process(kernel, fit_intercept=False).fit(X, y)
    tuned = ConstantKernel(ours.signal_variance_) * RBF(0.8) + WhiteKernel(ours.noise_variance_)
    theirs = GaussianProcessRegressor(tuned, alpha=0.0, optimizer=None).fit(X, y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-8
    )
    mean, std = ours.predict(X_new, return_std=True)
    expected, expected_std = theirs.predict(X_new, return_std=True)
    assert close(mean, expected, rel=1e-6)
    assert close(std, expected_std, rel=1e-6)
    assert close(ours.predict(X_new, return_cov=True)[1], theirs.predict(X_new, return_cov=True)[1], rel=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(20))
def test_no_search_over_the_two_variances_is_better(seed):
    noise = (0.02, 0.3, 3.0, 30.0)[seed % 4]
    X, y = smooth(seed, n=25, noise=noise)
    kernel = ConstantKernel(1.0) * RBF(0.8, "fixed") + WhiteKernel(1.0)
    ours = process(kernel, fit_intercept=False).fit(X, y)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=2, random_state=0).fit(X, y)
    best = theirs.log_marginal_likelihood_value_
    assert ours.log_marginal_likelihood_value_ >= best - 1e-8 * abs(best)


# -- which parts of a kernel are variances

CORE = RBF(0.8)
AS_ONE = {
    "C*k + W": ConstantKernel(2.0) * RBF(0.8) + WhiteKernel(0.1),
    "W + C*k": WhiteKernel(0.1) + ConstantKernel(2.0) * RBF(0.8),
    "k*C + W": RBF(0.8) * ConstantKernel(2.0) + WhiteKernel(0.1),
    "W + k*C": WhiteKernel(0.1) + RBF(0.8) * ConstantKernel(2.0),
    "number*k + W": 2.0 * RBF(0.8) + WhiteKernel(0.1),
    "C*C*k + W + W": ConstantKernel(4.0) * ConstantKernel(0.5) * RBF(0.8)
    + WhiteKernel(0.06)
    + WhiteKernel(0.04),
}


@pytest.mark.parametrize("kernel", AS_ONE.values(), ids=AS_ONE)
def test_a_constant_factor_and_added_noise_are_recognised_in_any_order(kernel):
    parts = split_kernel(kernel)
    assert parts.core == CORE
    assert parts.signal_start == pytest.approx(2.0)
    assert parts.noise_start == pytest.approx(0.1)
    X, y = smooth(1)
    model, plain = process(kernel).fit(X, y), process(CORE).fit(X, y)
    assert model.kernel_ == CORE
    assert model.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-8)
    assert model.signal_variance_ == pytest.approx(plain.signal_variance_, rel=1e-8)


@pytest.mark.parametrize(
    ("kernel", "core", "signal_start"),
    [
        (ConstantKernel(3.0) * RBF() * Matern(), RBF() * Matern(), 3.0),
        (RBF() * ConstantKernel(3.0) * Matern(), RBF() * Matern(), 3.0),
        (ConstantKernel(3.0) * (RBF() + DotProduct()), RBF() + DotProduct(), 3.0),
        (RBF() + WhiteKernel() + DotProduct(), RBF() + DotProduct(), None),
        (RBF() + ConstantKernel(3.0) * Matern(), RBF() + ConstantKernel(3.0) * Matern(), None),
        (RationalQuadratic(), RationalQuadratic(), None),
    ],
    ids=str,
)
def test_what_is_no_common_factor_stays_in_the_core(kernel, core, signal_start):
    parts = split_kernel(kernel)
    assert parts.core == core
    assert parts.signal_start == signal_start


def test_absent_parts_are_free_and_given_ones_bring_their_bounds():
    free = split_kernel(RBF())
    assert free.noise_bounds == free.signal_bounds == (0.0, np.inf)
    parts = split_kernel(
        ConstantKernel(2.0, (0.5, 4.0)) * ConstantKernel(3.0, "fixed") * RBF() + WhiteKernel(0.1, "fixed")
    )
    assert parts.signal_bounds == pytest.approx((1.5, 12.0))
    assert parts.noise_bounds == (0.1, 0.1)


@pytest.mark.parametrize("side", ["below", "above"])
@pytest.mark.parametrize("part", ["noise", "signal"])
def test_bounds_of_the_variances_are_honoured(part, side):
    X, y = smooth(2)
    free = process(fit_intercept=False).fit(X, y)
    value = getattr(free, f"{part}_variance_")
    bounds = (value / 9, value / 3) if side == "below" else (3 * value, 9 * value)
    nearest = bounds[1] if side == "below" else bounds[0]
    constant = ConstantKernel(1.0, bounds if part == "signal" else (1e-9, 1e9))
    white = WhiteKernel(1.0, bounds if part == "noise" else (1e-9, 1e9))
    model = process(constant * RBF(1.2) + white, fit_intercept=False)
    name, end = (
        {"noise": "noise_level", "signal": "constant_value"}[part],
        "upper" if side == "below" else "lower",
    )
    with pytest.warns(KernelBoundWarning, match=rf"Tuned variances ended .*{name} \({end} bound\)"):
        model.fit(X, y)
    assert getattr(model, f"{part}_variance_") == pytest.approx(nearest, rel=1e-10)
    assert model.tuning_[0].status == "bound"
    assert model.log_marginal_likelihood_value_ < free.log_marginal_likelihood_value_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("fixed", ["noise", "signal", "both"])
def test_a_fixed_variance_stays_and_the_other_is_still_the_best(fixed):
    X, y = smooth(3, n=25)
    constant = ConstantKernel(2.5, "fixed" if fixed != "noise" else (1e-5, 1e5))
    white = WhiteKernel(0.3, "fixed" if fixed != "signal" else (1e-5, 1e5))
    kernel = constant * RBF(1.2, "fixed") + white
    ours = process(kernel, fit_intercept=False).fit(X, y)
    if fixed != "noise":
        assert ours.signal_variance_ == pytest.approx(2.5, rel=1e-12)
    if fixed != "signal":
        assert ours.noise_variance_ == pytest.approx(0.3, rel=1e-12)
    assert (ours.tuning_[0].status == "fixed") == (fixed == "both")
    best = GaussianProcessRegressor(kernel, alpha=0.0).fit(X, y).log_marginal_likelihood_value_
    assert ours.log_marginal_likelihood_value_ >= best - 1e-8 * abs(best)


def test_the_users_kernel_is_not_touched():
    X, y = smooth(3)
    kernel = ConstantKernel(2.0) * RBF(0.8) + WhiteKernel(0.1)
    before = kernel.theta.copy()
    model = process(kernel).fit(X, y)
    assert model.kernel is kernel
    assert np.array_equal(kernel.theta, before)


# -- brute force


@both_weightings
@both_intercepts
def test_mean_and_variance_are_universal_kriging(fit_intercept, weighted):
    X, y = smooth(4, n=20)
    X_new = smooth(5, n=7)[0]
    weight = precisions(20) if weighted else None
    model = process(fit_intercept=fit_intercept).fit(X, y, weight)
    K, K_new, prior = (reference.rbf(*pair, 1.2) for pair in ((X, X), (X_new, X), (X_new, X_new)))
    F, F_new = ones(20, fit_intercept), ones(7, fit_intercept)
    b, l = model.noise_variance_, model.signal_variance_
    mean, cov = model.predict(X_new, return_cov=True, include_noise=False)
    assert close(mean, reference.ridge(K, y, b / l, K_new, F, F_new, weight))
    expected = reference.kriging_variance(K, K_new, prior, b, l, F, F_new, weight)
    assert close(cov, expected)
    noisy = model.predict(X_new, return_std=True)[1]
    assert close(noisy**2, np.diag(expected) + b)


@both_weightings
@both_intercepts
def test_the_likelihood_is_the_textbook_one_restricted_with_an_intercept(fit_intercept, weighted):
    X, Y = smooth(6, n=20, m=3)
    weight = precisions(20) if weighted else None
    model = process(Matern(1.5, nu=0.5), fit_intercept=fit_intercept).fit(X, Y, weight)
    K, total = reference.matern12(X, length=1.5), 0.0
    for y, b, l in zip(Y.T, model.noise_variance_, model.signal_variance_, strict=True):
        if fit_intercept:
            total += reference.reml(K, y, np.ones((20, 1)), b, l, weight)
        else:
            total += reference.log_evidence(K, y, b, l, weight)
    assert model.log_marginal_likelihood_value_ == pytest.approx(total, rel=1e-8)
    assert model.log_marginal_likelihood() == model.log_marginal_likelihood_value_


@both_weightings
@both_intercepts
def test_leave_one_out_is_refitting_without_the_row(fit_intercept, weighted):
    X, Y = smooth(7, n=15, m=2)
    weight = precisions(15) if weighted else None
    model = process(fit_intercept=fit_intercept).fit(X, Y, weight)
    mean, std = model.loo_predict(return_std=True)
    K, F = reference.rbf(X, length=1.2), ones(15, fit_intercept)
    for j, y in enumerate(Y.T):
        b, l = model.noise_variance_[j], model.signal_variance_[j]
        expected, variance = reference.leave_one_out(K, y, b, l, F, weight)
        assert close(mean[:, j], expected)
        assert close(std[:, j], np.sqrt(variance))
    assert np.array_equal(model.loo_predict(), mean)


def test_a_row_of_weight_zero_is_absent_and_predicted_by_all_the_others():
    X, y = smooth(7, n=15)
    weight = np.ones(15)
    weight[4] = 0.0
    rest = weight > 0
    model, without = process().fit(X, y, weight), process().fit(X[rest], y[rest])
    for got, expected in zip(
        model.predict(X, return_std=True), without.predict(X, return_std=True), strict=True
    ):
        assert close(got, expected)
    mean, std = model.loo_predict(return_std=True)
    assert (mean[4], std[4]) == pytest.approx([v[0] for v in without.predict(X[[4]], return_std=True)])


@both_intercepts
def test_with_given_variances_integer_weights_predict_as_repeated_rows(fit_intercept):
    X, y = smooth(8, n=16)
    times = np.random.default_rng(1).integers(0, 4, 16)
    again = np.repeat(np.arange(16), times)
    kernel = ConstantKernel(2.0, "fixed") * RBF(1.2) + WhiteKernel(0.2, "fixed")
    weighted = process(kernel, fit_intercept=fit_intercept).fit(X, y, times)
    repeated = process(kernel, fit_intercept=fit_intercept).fit(X[again], y[again])
    for got, expected in zip(
        weighted.predict(X, return_std=True), repeated.predict(X, return_std=True), strict=True
    ):
        assert close(got, expected)


def test_a_mean_of_repeated_measurements_is_one_row_of_their_number():
    X, _ = smooth(8, n=16)
    times, rng = np.arange(1, 17), np.random.default_rng(1)
    again = np.repeat(np.arange(16), times)
    single = np.sin(X[again, 0]) + rng.normal(0, 0.3, len(again))
    mean = np.bincount(again, single) / times
    kernel = ConstantKernel(2.0, "fixed") * RBF(1.2) + WhiteKernel(0.09, "fixed")
    by_mean, by_rows = process(kernel).fit(X, mean, times), process(kernel).fit(X[again], single)
    assert close(by_mean.predict(X), by_rows.predict(X))
    assert close(by_mean.predict(X, return_std=True)[1], by_rows.predict(X, return_std=True)[1])


@pytest.mark.parametrize("kernel", [RBF(1.0), RBF([1.0, 2.0]) + WhiteKernel()])
@pytest.mark.parametrize(
    "options", [{}, {"method": "low_rank"}, {"inference": "integrate"}, {"criterion": "loo"}]
)
def test_a_common_factor_of_the_weights_changes_no_prediction(kernel, options):
    X, y = smooth(18, n=60)
    w = np.random.default_rng(1).uniform(0.5, 2.0, 60)
    plain, scaled = (SpectralGPRegressor(kernel, **options).fit(X, y, factor * w) for factor in (1.0, 100.0))
    tolerance = 1e-5 if options.get("method") else 1e-8  # pivots stop at a trace that follows a pilot's noise
    assert close(scaled.predict(X), plain.predict(X), tolerance)
    assert scaled.noise_variance_ == pytest.approx(100.0 * plain.noise_variance_, rel=10 * tolerance)


def test_inverse_variances_as_weights_give_a_noise_variance_of_one():
    rng = np.random.default_rng(3)
    X = rng.uniform(-3, 3, (400, 1))
    sigma = rng.uniform(0.05, 0.5, 400)
    y = np.sin(2 * X[:, 0]) + sigma * rng.normal(size=400)
    gp = SpectralGPRegressor(RBF(1.0)).fit(X, y, 1.0 / sigma**2)
    error = gp.variance_uncertainty()[0].noise_se  # of the logarithm
    assert abs(np.log(gp.noise_variance_)) <= 2 * error
    assert error < 0.1


# -- several outputs, one decomposition


@pytest.mark.parametrize("m", [None, 1, 200])
def test_one_fit_is_one_eigendecomposition_whatever_the_number_of_outputs(m, monkeypatch):
    calls = []

    def counted(*args, original=skspectral.linalg.spectrum.symmetric_eigen, **kwargs):
        calls.append(args[0].shape)
        return original(*args, **kwargs)

    monkeypatch.setattr("skspectral.linalg.spectrum.symmetric_eigen", counted)
    X, y = smooth(9, n=30, m=m)
    model = process().fit(X, y)
    model.predict(X, return_std=True)
    model.loo_predict()
    assert calls == [(30, 30)]
    assert model.n_decompositions_ == 1


@pytest.mark.parametrize("criterion", ["evidence", "gcv", "loo", "loo_lpd"])
def test_outputs_together_are_what_each_is_alone(criterion):
    X, Y = smooth(10, m=4)
    X_new = smooth(11, n=6)[0]
    together = process(criterion=criterion).fit(X, Y)
    mean, std = together.predict(X_new, return_std=True)
    total = 0.0
    for j in range(4):
        alone = process(criterion=criterion).fit(X, Y[:, j])
        total += alone.log_marginal_likelihood_value_
        assert together.noise_variance_[j] == pytest.approx(alone.noise_variance_, rel=1e-8)
        assert together.signal_variance_[j] == pytest.approx(alone.signal_variance_, rel=1e-8)
        expected, expected_std = alone.predict(X_new, return_std=True)
        assert close(mean[:, j], expected)
        assert close(std[:, j], expected_std)
    assert together.log_marginal_likelihood_value_ == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("m", [None, 1, 3])
def test_shapes_are_those_of_scikit_learn(m):
    X, y = smooth(12, m=m)
    X_new = smooth(13, n=5)[0]
    ours, theirs = (
        process().fit(X, y),
        GaussianProcessRegressor(RBF() + WhiteKernel(), optimizer=None).fit(X, y),
    )
    asked = [{}, {"return_std": True}, {"return_cov": True}]
    for how in asked:
        results = [model.predict(X_new, **how) for model in (ours, theirs)]
        got, expected = (r if how else (r,) for r in results)
        assert [a.shape for a in got] == [a.shape for a in expected]
    assert ours.sample_y(X_new, 4).shape == theirs.sample_y(X_new, 4).shape
    assert ours.alpha_.shape == theirs.alpha_.shape
    assert np.shape(ours.noise_variance_) == np.shape(ours.signal_variance_) == y.shape[1:]
    assert ours.beta_.shape == (1, *y.shape[1:])
    assert process(fit_intercept=False).fit(X, y).beta_ is None


# -- spread of predictions


@both_intercepts
@pytest.mark.parametrize("include_noise", [True, False])
def test_a_covariance_is_symmetric_positive_and_has_the_variances_on_its_diagonal(
    include_noise, fit_intercept
):
    X, Y = smooth(14, m=2)
    X_new = np.vstack([smooth(15, n=8)[0], X[:2]])
    model = process(fit_intercept=fit_intercept).fit(X, Y)
    std = model.predict(X_new, return_std=True, include_noise=include_noise)[1]
    cov = model.predict(X_new, return_cov=True, include_noise=include_noise)[1]
    for j in range(2):
        C = cov[..., j]
        assert close(np.diag(C), std[:, j] ** 2, rel=1e-10)
        assert close(C, C.T, rel=1e-12)
        assert np.linalg.eigvalsh(C).min() >= -1e-10 * np.abs(C).max()


def test_noise_adds_its_variance_and_nothing_else():
    X, Y = smooth(14, m=2)
    model = process().fit(X, Y)
    (mean, noisy), (same_mean, latent) = (
        model.predict(X, return_std=True, include_noise=noise) for noise in (True, False)
    )
    assert np.array_equal(mean, same_mean)
    assert close(noisy**2 - latent**2, np.broadcast_to(model.noise_variance_, Y.shape), rel=1e-10)


NOISELESS = {
    "tuned": Matern(2.0, nu=0.5),
    "fixed below rounding": ConstantKernel(1.0, "fixed") * RBF(1.0) + WhiteKernel(1e-18, "fixed"),
}


@both_intercepts
@pytest.mark.parametrize("kernel", NOISELESS.values(), ids=NOISELESS)
def test_variances_are_not_negative_where_the_latent_function_is_known(kernel, fit_intercept):
    X = np.linspace(-3, 3, 40)[:, None]
    model = process(kernel, fit_intercept=fit_intercept).fit(X, np.sin(X[:, 0]))
    assert model.noise_variance_ < 1e-10 * model.signal_variance_
    X_new = np.linspace(-3, 3, 101)[:, None]
    std = model.predict(X_new, return_std=True, include_noise=False)[1]
    cov = model.predict(X_new, return_cov=True, include_noise=False)[1]
    assert (std >= 0).all()
    assert (np.diag(cov) >= 0).all()


@pytest.mark.parametrize("include_noise", [True, False])
def test_samples_have_the_predicted_moments(include_noise):
    X, Y = smooth(16, m=2)
    X_new = smooth(17, n=3)[0]
    model = process().fit(X, Y)
    n_samples = 4000
    draws = model.sample_y(X_new, n_samples, random_state=0, include_noise=include_noise)
    mean, cov = model.predict(X_new, return_cov=True, include_noise=include_noise)
    for j in range(2):
        std = np.sqrt(np.diag(cov[..., j]))
        # five standard errors of a mean and of a covariance
        assert (np.abs(draws[:, j].mean(axis=1) - mean[:, j]) < 5 * std / np.sqrt(n_samples)).all()
        error = np.abs(np.cov(draws[:, j]) - cov[..., j])
        assert (error < 5 * np.sqrt(2 / n_samples) * np.outer(std, std)).all()


@pytest.mark.parametrize("m", [None, 2])
def test_samples_depend_on_the_seed_alone(m):
    X, y = smooth(16, m=m)
    model = process().fit(X, y)
    first, again, other = (model.sample_y(X[:4], 3, random_state=seed) for seed in (1, 1, 2))
    assert first.shape == (4, *y.shape[1:], 3)
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


# -- conversions and other kinds of input


@both_weightings
@pytest.mark.parametrize("output", [0, 1, -1])
def test_without_intercept_the_exported_process_predicts_the_same(output, weighted):
    X, Y = smooth(18, m=3)
    X_new = smooth(19, n=6)[0]
    weight = precisions(40) if weighted else None
    model = process(fit_intercept=False).fit(X, Y, weight)
    exported = model.to_sklearn(output)
    assert isinstance(exported, GaussianProcessRegressor)
    for ours, theirs in zip(
        model.predict(X_new, return_std=True), exported.predict(X_new, return_std=True), strict=True
    ):
        assert close(theirs, ours[:, output], rel=1e-7)


@both_weightings
def test_with_intercept_the_exported_process_predicts_the_same_mean(weighted):
    X, y = smooth(18)
    X_new = smooth(19, n=6)[0]
    model = process().fit(X, y, precisions(40) if weighted else None)
    mean, std = model.predict(X_new, return_std=True)
    exported_mean, exported_std = model.to_sklearn().predict(X_new, return_std=True)
    assert close(exported_mean, mean, rel=1e-7)
    assert (exported_std < std).all()  # the constant counts as known there


def test_a_row_of_weight_zero_is_absent_from_the_exported_process():
    X, y = smooth(18)
    weight = np.ones(40)
    weight[:5] = 0
    model = process(fit_intercept=False).fit(X, y, weight)
    exported = model.to_sklearn()
    assert len(exported.X_train_) == 35
    assert close(exported.predict(X), model.predict(X), rel=1e-7)


@both_weightings
@both_intercepts
def test_a_precomputed_matrix_is_the_kernel_it_came_from(fit_intercept, weighted):
    X, Y = smooth(20, n=25, m=2)
    X_new = smooth(21, n=6)[0]
    weight = precisions(25) if weighted else None
    direct = process(fit_intercept=fit_intercept).fit(X, Y, weight)
    given = process("precomputed", fit_intercept=fit_intercept).fit(reference.rbf(X, length=1.2), Y, weight)
    K_new = reference.rbf(X_new, X, 1.2)
    got = given.predict(K_new, return_std=True, K_test_diag=np.ones(6))
    for ours, expected in zip(got, direct.predict(X_new, return_std=True), strict=True):
        assert close(ours, expected)
    assert close(given.predict(K_new), direct.predict(X_new))
    for ours, expected in zip(
        given.loo_predict(return_std=True), direct.loo_predict(return_std=True), strict=True
    ):
        assert close(ours, expected)


class SharedLetters(GenericKernelMixin, StationaryKernelMixin, Kernel):
    """Similarity of words: how many letters they have at the same place, a count of features."""

    def __init__(self, per_letter=1.0):
        self.per_letter = per_letter

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        K = self.per_letter * np.array([[sum(map(str.__eq__, a, b)) for b in Y] for a in X])
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X):
        return self.per_letter * np.array([len(word) for word in X])


def test_inputs_need_not_be_vectors():
    words = ["cat", "hat", "dog", "dot", "cot", "hut", "hog", "cut", "rat", "rot"]
    y = np.array([len(set(word) & set("ao")) + 0.1 * i for i, word in enumerate(words)])
    model = process(SharedLetters()).fit(words, y)
    given = process("precomputed").fit(SharedLetters()(words), y)
    new = ["rut", "dag"]
    got = model.predict(new, return_std=True)
    K_new = SharedLetters()(new, words)
    for ours, expected in zip(
        got, given.predict(K_new, return_std=True, K_test_diag=[3.0, 3.0]), strict=True
    ):
        assert close(ours, expected, rel=1e-10)
    assert model.sample_y(new, 2).shape == (2, 2)
    assert close(model.to_sklearn().predict(new), got[0], rel=1e-7)


# -- the likelihood of other kernel parameters


@both_weightings
@both_intercepts
def test_the_likelihood_of_theta_is_that_of_a_fit_with_it(fit_intercept, weighted):
    X, Y = smooth(22, m=2)
    weight = precisions(40) if weighted else None
    model = process(RBF(1.2), fit_intercept=fit_intercept).fit(X, Y, weight)
    other = process(RBF(0.4), fit_intercept=fit_intercept).fit(X, Y, weight)
    before = model.predict(X)
    assert model.log_marginal_likelihood(np.log([0.4])) == pytest.approx(
        other.log_marginal_likelihood_value_, rel=1e-9
    )
    own = model.log_marginal_likelihood(model.kernel_.theta)
    assert own == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-9)
    assert np.array_equal(model.predict(X), before)


def test_the_likelihood_of_theta_keeps_to_the_bounds_of_the_variances():
    X, y = smooth(22)
    constant, white = ConstantKernel(2.0, "fixed"), WhiteKernel(0.3, "fixed")
    model = process(constant * RBF(1.2) + white, fit_intercept=False).fit(X, y)
    theirs = GaussianProcessRegressor(constant * RBF(0.4) + white, alpha=0.0, optimizer=None).fit(X, y)
    expected = theirs.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood(np.log([0.4])) == pytest.approx(expected, rel=1e-8)


def test_training_inputs_are_copied_unless_told_otherwise():
    X, y = smooth(23)
    copied, kept = (process(copy_X_train=flag).fit(X, y) for flag in (True, False))
    assert not np.shares_memory(copied.X_train_, X)
    assert np.shares_memory(kept.X_train_, X)


@pytest.mark.parametrize("constant", [1e-3, 1e-9, 1e-15])
def test_a_small_fixed_signal_variance_leaves_the_targets_to_the_noise(constant):
    X, y = smooth(n=40)
    gp = SpectralGPRegressor(ConstantKernel(constant, "fixed") * RBF(1.0), optimizer=None).fit(X, y)
    assert gp.signal_variance_ == pytest.approx(constant, rel=1e-9, abs=0.0)
    assert gp.noise_variance_ == pytest.approx(y.var(ddof=1), rel=0.01)
    assert gp.tuning_[0].status == "interior"
