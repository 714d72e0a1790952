"""What people who come from scikit-learn's estimators meet first."""

import numpy as np
import pytest
from problems import close, smooth
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.model_selection import cross_val_score
from sklearn.utils import get_tags

from skspectral import (
    IndefiniteKernelError,
    IndefiniteKernelWarning,
    KernelBoundWarning,
    KernelSearchCV,
    SpectralGPRegressor,
    SpectralKernelRidge,
    StreamingSpectralRegressor,
)
from skspectral.models.bounds import warn_at_bounds

LINE = np.linspace(0, 6, 30)[:, None]
WAVE = np.sin(LINE[:, 0])


# -- variances of zero


@pytest.mark.parametrize("signal", [None, ConstantKernel(), ConstantKernel(1.0, "fixed")], ids=str)
@pytest.mark.parametrize("noise", [0.0, 1e-30])
@pytest.mark.parametrize("optimizer", ["default", None])
def test_without_noise_the_process_interpolates(signal, noise, optimizer):
    core = RBF() if signal is None else signal * RBF()
    gp = SpectralGPRegressor(core + WhiteKernel(noise, "fixed"), optimizer=optimizer).fit(LINE, WAVE)
    assert gp.tuning_[0].status == "fixed"
    assert close(gp.predict(LINE), WAVE, 1e-5)
    assert gp.noise_variance_ <= 1e-11 * gp.signal_variance_
    between = LINE[:-1] + 0.1
    assert close(gp.predict(between), np.sin(between[:, 0]), 1e-3)


def test_learning_without_noise_reaches_the_likelihood_of_the_same_jitter():
    core = ConstantKernel(1.0, "fixed") * RBF(1.0)
    gp = SpectralGPRegressor(core + WhiteKernel(0.0, "fixed"), fit_intercept=False).fit(LINE, WAVE)
    theirs = GaussianProcessRegressor(core, alpha=gp.noise_variance_).fit(LINE, WAVE)
    # at this condition a likelihood has four digits
    assert gp.log_marginal_likelihood_value_ >= theirs.log_marginal_likelihood_value_ - 0.05


def test_a_stream_without_noise_interpolates():
    model = StreamingSpectralRegressor(RBF() + WhiteKernel(0.0, "fixed"), landmarks=LINE).fit(LINE, WAVE)
    assert model.tuning_[0].status == "fixed"
    assert close(model.predict(LINE), WAVE, 1e-5)


@pytest.mark.parametrize("model", [SpectralGPRegressor, StreamingSpectralRegressor])
def test_a_signal_of_zero_is_the_mean(model):
    zero = model(ConstantKernel(0.0, "fixed") * RBF() + WhiteKernel()).fit(LINE, WAVE)
    assert np.allclose(zero.predict(LINE), WAVE.mean())
    assert zero.noise_variance_ == pytest.approx(WAVE.var(ddof=1))
    assert (zero.signal_variance_, zero.tuning_[0].status) == (0.0, "fixed")
    assert np.isfinite(zero.predict(LINE, return_std=True)[1]).all()


# -- which parts of a kernel are the variances


class LoudWhite(WhiteKernel):
    """Ten times the noise that it says."""

    def __call__(self, X, Y=None, eval_gradient=False):
        value = super().__call__(X, Y, eval_gradient)
        return (10 * value[0], 10 * value[1]) if eval_gradient else 10 * value

    def diag(self, X):
        return 10 * super().diag(X)


class Doubled(ConstantKernel):
    """Twice the constant that it says."""

    def __call__(self, X, Y=None, eval_gradient=False):
        value = super().__call__(X, Y, eval_gradient)
        return (2 * value[0], 2 * value[1]) if eval_gradient else 2 * value

    def diag(self, X):
        return 2 * super().diag(X)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF() + LoudWhite(0.1, "fixed") + WhiteKernel(0.01, "fixed"),
        Doubled(1.5, "fixed") * RBF() + WhiteKernel(0.1, "fixed"),
    ],
)
def test_subclasses_are_kernels_like_any_other(kernel):
    X, y = smooth(0)
    one = ConstantKernel(1.0, "fixed")
    ours = SpectralGPRegressor(one * kernel, optimizer=None, fit_intercept=False).fit(X, y)
    theirs = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(X, y)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_)


def test_later_constants_of_a_sum_stay_fixed_and_within_their_bounds():
    X, y = smooth(1)
    fixed = ConstantKernel(2.0) * RBF(1.5, "fixed") + ConstantKernel(3.0, "fixed") + WhiteKernel(0.1)
    gp = SpectralGPRegressor(fixed, fit_intercept=False).fit(X, y)
    theirs = GaussianProcessRegressor(fixed).fit(X, y)
    constant = gp.signal_variance_ * gp.kernel_.k2.k1.constant_value
    assert constant == pytest.approx(3.0)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-4)
    bounded = ConstantKernel(2.0) * RBF(1.5, "fixed") + ConstantKernel(0.2, (0.1, 0.3)) * DotProduct()
    with pytest.warns(KernelBoundWarning, match="constant_value"):
        gp = SpectralGPRegressor(bounded + WhiteKernel(0.1), fit_intercept=False).fit(X, 5 * X[:, 0] + y)
    assert 0.1 <= gp.signal_variance_ * gp.kernel_.k2.k1.constant_value <= 0.3 * (1 + 1e-9)


# -- warnings


def test_warnings_at_bounds_are_scikit_learns_kind_and_hold_no_fitted_numbers():
    X, y = smooth(2, n=60)
    kernel = RBF([1.0, 1.0], (0.05, 0.3))
    with pytest.warns(ConvergenceWarning) as caught:
        cross_val_score(SpectralGPRegressor(kernel), X, y, cv=3)
    assert len({str(warning.message) for warning in caught}) == 1
    assert not any(
        character.isdigit() for character in str(caught[0].message).replace("[0]", "").replace("[1]", "")
    )


def test_a_warning_tells_what_a_bound_means():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=80)
    with pytest.warns(KernelBoundWarning, match=r"length_scale\[1\] .*hardly depend") as caught:
        SpectralGPRegressor(RBF([1.0, 1.0], (1e-2, 20.0))).fit(X, y)
    assert "Widen" not in str(caught[0].message)
    gp = SpectralGPRegressor().fit(X, y)
    at_bound = gp.kernel_.clone_with_theta(gp.kernel_.bounds[:, 1])
    with pytest.warns(KernelBoundWarning, match="default kernel's length_scale") as caught:
        warn_at_bounds(at_bound, gp._fitted.solution, gp._fitted.bounds, are_ours=True)
    assert "Widen" not in str(caught[0].message)


# -- messages


def test_too_many_length_scales_are_counted():
    X, y = smooth(3)
    for model in (
        SpectralGPRegressor(RBF([1.0, 1.0, 1.0])),
        SpectralKernelRidge(kernel=RBF([1.0, 1.0, 1.0])),
    ):
        with pytest.raises(ValueError, match=r"length_scale has 3 entries but the kernel sees 2 columns"):
            model.fit(X, y)


def test_chi2_kernels_have_their_own_default_and_take_dense_inputs():
    X, y = smooth(4)
    X = np.abs(X)
    ridge = SpectralKernelRidge(kernel="chi2").fit(X, y)
    other = SpectralKernelRidge(kernel="precomputed").fit(chi2_kernel(X), y)
    assert close(ridge.predict(X), other.predict(chi2_kernel(X)))
    for name in ("chi2", "additive_chi2"):
        tags = get_tags(SpectralKernelRidge(kernel=name)).input_tags
        assert (tags.sparse, tags.positive_only) == (False, True)
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            SpectralKernelRidge(kernel=name).fit(sparse.csr_matrix(X), y)
    assert get_tags(SpectralKernelRidge()).input_tags.sparse


def test_a_grid_that_is_no_dict_is_a_type_error():
    with pytest.raises(TypeError, match=r"Parameter grid is not a dict \(3\)"):
        KernelSearchCV(SpectralKernelRidge(), [{"alpha": [1]}, 3]).fit(*smooth(5))


def test_a_theta_of_wrong_length_is_told_what_theta_holds():
    kernel = ConstantKernel() * RBF([1.0, 1.0]) + WhiteKernel()
    gp = SpectralGPRegressor(kernel, optimizer=None).fit(*smooth(6))
    with pytest.raises(
        ValueError, match=r"(?s)shape \(4,\).*\['length_scale\[0\]', 'length_scale\[1\]'\].*log_evidence_at"
    ):
        gp.log_marginal_likelihood(kernel.theta)


# -- before the fit


@pytest.mark.parametrize("kernel", [None, ConstantKernel(2.0) * RBF(0.7) + WhiteKernel(0.3), Matern(2.0)])
def test_before_the_fit_there_is_the_prior(kernel):
    X, _ = smooth(7, n=9)
    ours, theirs = SpectralGPRegressor(kernel), GaussianProcessRegressor(kernel)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    for spread in ("return_std", "return_cov"):
        for mine, other in zip(
            ours.predict(X, **{spread: True}), theirs.predict(X, **{spread: True}), strict=True
        ):
            assert close(mine, other, 1e-12)
    assert ours.sample_y(X, 3, random_state=1) == pytest.approx(theirs.sample_y(X, 3, random_state=1))
    assert not hasattr(ours, "kernel_")
    if kernel is not None and kernel.n_dims == 3:
        _, std = ours.predict(X, return_std=True, include_noise=False)
        assert std == pytest.approx(np.sqrt(2.0))


def test_a_precomputed_kernel_has_no_prior_to_predict_from():
    for method in ("predict", "sample_y"):
        with pytest.raises(NotFittedError):
            getattr(SpectralGPRegressor("precomputed"), method)(np.eye(3))


# -- other things that GaussianProcessRegressor does


def test_scipys_optimizer_by_its_name():
    X, y = smooth(8, n=60)
    kernel = RBF([1.0, 1.0])
    ours = SpectralGPRegressor(kernel).fit(X, y)
    scipys = SpectralGPRegressor(kernel, optimizer="fmin_l_bfgs_b").fit(X, y)
    value = ours.log_marginal_likelihood_value_
    assert scipys.log_marginal_likelihood_value_ == pytest.approx(value, abs=1e-3)


def test_likelihoods_are_numpy_floats_and_the_kernel_can_be_set():
    X, y = smooth(9)
    gp = SpectralGPRegressor(RBF(1.0)).fit(X, y)
    assert isinstance(gp.log_marginal_likelihood_value_, np.float64)
    assert isinstance(gp.log_marginal_likelihood(gp.kernel_.theta), np.float64)
    before, theta = gp.predict(X), gp.kernel_.theta + 0.3
    gp.log_marginal_likelihood(theta)
    assert gp.kernel_.theta != pytest.approx(theta)
    gp.log_marginal_likelihood(theta, clone_kernel=False)
    assert gp.kernel_.theta == pytest.approx(theta)
    assert np.array_equal(gp.predict(X), before)


def test_the_converted_kernel_has_its_constant_in_every_term():
    X, y = smooth(10)
    gp = SpectralGPRegressor(RBF(1.0) + 0.5 * Matern(2.0), optimizer=None, fit_intercept=False).fit(X, y)
    converted = gp.to_sklearn()
    signal = gp.signal_variance_
    assert converted.kernel_.k1.k1.k1.constant_value == pytest.approx(signal)
    assert converted.kernel_.k1.k2.k1.constant_value == pytest.approx(0.5 * signal)
    assert converted.alpha == 0.0
    assert close(converted.predict(X), gp.predict(X))


# -- the same rows, the same answer


@pytest.mark.parametrize(
    "model",
    [
        SpectralKernelRidge(gamma=0.5, method="low_rank", rank=25),
        SpectralKernelRidge(gamma=0.5, method="low_rank"),
        SpectralKernelRidge(gamma=0.5, selection="greedy", rank=25),
        SpectralGPRegressor(Matern(2.0), optimizer=None, rank=25),
    ],
    ids=repr,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_the_rows_does_not_choose_a_factor(model, weighted):
    X, y = smooth(11, n=500, p=3)
    X[:100] = X[100:200]  # ties between equal rows as well
    w = np.random.default_rng(0).choice([0.5, 1.0, 2.0], 500) if weighted else None
    order = np.random.default_rng(1).permutation(500)
    first = clone(model).fit(X, y, w)
    second = clone(model).fit(X[order], y[order], None if w is None else w[order])
    assert close(first.predict(X), second.predict(X), 1e-8)


def test_the_order_of_a_given_matrix_does_not_choose_a_factor():
    X, y = smooth(11, n=300, p=3)
    K, order = RBF(1.0)(X), np.random.default_rng(1).permutation(300)
    model = SpectralKernelRidge(kernel="precomputed", method="low_rank", rank=25)
    first = clone(model).fit(K, y).predict(K)
    second = clone(model).fit(K[np.ix_(order, order)], y[order]).predict(K[:, order])
    assert close(first, second, 1e-8)


@pytest.mark.parametrize("gamma", [1e-10, 1e-6, 1.0])
def test_a_row_is_predicted_alike_alone_and_among_others(gamma):
    X, y = smooth(12, n=100)
    model = SpectralKernelRidge(gamma=gamma).fit(X, y)
    alone = np.concatenate([model.predict(X[[i]]) for i in range(100)])
    assert np.abs(alone - model.predict(X)).max() < 1e-12


# -- matrices that were rounded on their way


@pytest.mark.parametrize("method", ["exact", "low_rank"])
def test_a_matrix_rounded_to_single_precision_is_accepted(method):
    rng = np.random.default_rng(0)
    for n in (20, 80, 150):
        X = rng.normal(size=(n, 2))
        K = RBF(3.0)(X).astype(np.float32).astype(np.float64)
        y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
        model = SpectralKernelRidge(kernel="precomputed", method=method).fit(K, y)
        assert model.score(K, y) > 0.9


def test_what_is_clipped_is_told_and_what_is_no_rounding_is_refused():
    rng = np.random.default_rng(1)
    U = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    y = rng.normal(size=30)
    ridge = SpectralKernelRidge(kernel="precomputed", fit_intercept=False)
    for smallest, expected in ((-1e-7, IndefiniteKernelWarning), (-1e-5, None)):
        s = np.append(smallest, np.linspace(0.1, 2.0, 29))
        K = (U * s) @ U.T
        if expected is None:
            with pytest.raises(IndefiniteKernelError):
                ridge.fit(K, y)
        else:
            with pytest.warns(expected, match=r"down to -1e-07 where the largest is 2, were set to 0"):
                ridge.fit(K, y)
