"""Extremes of the data: finite answers, the right status, and no warning but the announced one."""

from dataclasses import dataclass

import numpy as np
import pytest
import reference
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from skspectral import DegenerateCriterionWarning, SpectralGPRegressor, SpectralKernelRidge
from skspectral.criteria import CRITERIA

ESTIMATORS = {
    "ridge": SpectralKernelRidge,
    "process": lambda **params: SpectralGPRegressor(optimizer=None, **params),
}
every_criterion = pytest.mark.parametrize("criterion", sorted(CRITERIA))
both_intercepts = pytest.mark.parametrize("fit_intercept", [True, False])
both_estimators = pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS)
may_know_no_spread = pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
may_run_to_its_bound = pytest.mark.filterwarnings("ignore::skspectral.DegenerateCriterionWarning")


@dataclass(frozen=True)
class Case:
    """A kernel matrix, targets, and the status expected with and without an intercept."""

    K: np.ndarray
    y: np.ndarray
    with_intercept: str | None
    without: str | None

    def status(self, fit_intercept):
        return self.with_intercept if fit_intercept else self.without


def make_cases():
    rng = np.random.default_rng(0)
    X, e = rng.uniform(-2, 2, (16, 2)), rng.normal(size=16)
    signal = np.sin(X[:, 0])
    K, line = reference.rbf(X), np.linspace(-3, 3, 30)[:, None]
    rough = reference.matern12(line)
    twice = np.tile(np.arange(16), 2)
    roughest = np.linalg.eigh(rough)[1][:, 0]
    noisy = signal + 0.3 * e
    interior, noise_free, pure_noise, undetermined = (
        (name, name) for name in ("interior", "noise_free", "pure_noise", "undetermined")
    )
    return {
        "constant y": Case(K, np.full(16, 3.7), "undetermined", None),
        "constant y 1e150": Case(K, np.full(16, 3.7e150), "undetermined", None),
        "constant y with digits": Case(K, np.full(16, 0.1 + 1e8), "undetermined", None),
        "y = 0": Case(K, np.zeros(16), *undetermined),
        "n = 1": Case(np.ones((1, 1)), np.array([2.0]), "undetermined", "pure_noise"),
        "n = 2": Case(K[:2, :2], np.array([2.0, -1.0]), *pure_noise),
        "n = 2, K = 0": Case(np.zeros((2, 2)), np.array([2.0, -1.0]), *pure_noise),
        "n = 2, constant y": Case(K[:2, :2], np.array([2.0, 2.0]), "undetermined", "noise_free"),
        "each row twice, y noisy": Case(K[np.ix_(twice, twice)], np.r_[noisy, signal - 0.3 * e], *interior),
        "each row twice, y too": Case(K[np.ix_(twice, twice)], noisy[twice], *noise_free),
        "all rows the same": Case(np.ones((16, 16)), e - e.mean(), *pure_noise),
        "K = 0": Case(np.zeros((16, 16)), noisy, *pure_noise),
        "K = c I": Case(4.0 * np.eye(16), noisy, *pure_noise),
        "fewer rows than outputs": Case(K[:5, :5], rng.normal(size=(5, 40)), None, None),
        "noise free": Case(rough, np.sin(line[:, 0]), *noise_free),
        "pure noise": Case(rough, roughest, *pure_noise),
        "y 1e150": Case(K, noisy * 1e150, *interior),
        "y 1e-150": Case(K, noisy * 1e-150, *interior),
        "outputs of all sizes": Case(K, noisy[:, None] * [1e150, 1.0, 1e-150], *interior),
        "K 1e100": Case(1e100 * K, noisy, *interior),
        "K 1e-100": Case(1e-100 * K, noisy, *interior),
    }


CASES = make_cases()
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def assert_finite(*arrays):
    for array in arrays:
        assert np.isfinite(array).all()


def assert_sound(model, K, n_targets):
    """Check everything that a fitted model of a precomputed kernel can be asked."""
    K_new = np.vstack([K, 0.5 * K[:1]])
    assert_finite(model.predict(K_new), model.noise_variance_, model.signal_variance_)
    assert len(model.tuning_) == n_targets
    assert not np.isnan([(t.noise_ratio, t.value) for t in model.tuning_]).any()
    if len(K) > 1:
        assert_finite(model.loo_predict())
    if isinstance(model, SpectralGPRegressor):
        _, std = model.predict(K_new, return_std=True, K_test_diag=np.append(np.diag(K), K[0, 0]))
        known = np.array([t.status != "undetermined" for t in model.tuning_])
        assert np.array_equal(np.isfinite(std.reshape(len(K_new), -1)), np.tile(known, (len(K_new), 1)))
        assert (std >= 0).all()
        assert not np.isnan(model.log_marginal_likelihood_value_)
    else:
        assert_finite(model.dual_coef_, model.intercept_, model.dual_coef_variance(), model.effective_dof_)
        assert not np.isnan(model.log_evidence_).any()


@may_know_no_spread
@may_run_to_its_bound
@each_case
@every_criterion
@both_intercepts
@both_estimators
def test_an_extreme_gets_finite_answers_and_its_status(make, fit_intercept, criterion, case):
    model = make(kernel="precomputed", criterion=criterion, fit_intercept=fit_intercept).fit(case.K, case.y)
    assert_sound(model, case.K, 1 if case.y.ndim == 1 else case.y.shape[1])
    expected = case.status(fit_intercept)
    if expected and not CRITERIA[criterion].is_unbounded:
        assert {t.status for t in model.tuning_} == {expected}


@both_estimators
@both_intercepts
def test_the_posterior_criterion_warns_when_it_runs_to_the_limit_of_no_noise(make, fit_intercept):
    case = CASES["pure noise"]  # whatever the data
    model = make(kernel="precomputed", criterion="posterior", fit_intercept=fit_intercept)
    with pytest.warns(DegenerateCriterionWarning, match=r"no minimum.*Use criterion='evidence'"):
        model.fit(case.K, case.y)
    assert model.tuning_[0].status == "noise_free"


@both_estimators
def test_one_output_of_several_that_runs_to_no_noise_is_told(make):
    case = CASES["each row twice, y noisy"]
    Y = np.column_stack([case.K.sum(axis=1), case.y])  # the same for both twins, and not
    with pytest.warns(DegenerateCriterionWarning, match="no minimum"):
        model = make(kernel="precomputed", criterion="posterior", fit_intercept=False).fit(case.K, Y)
    assert [t.status for t in model.tuning_] == ["noise_free", "interior"]


@both_estimators
def test_the_posterior_criterion_is_silent_where_it_has_a_minimum(make):
    case = CASES["each row twice, y noisy"]  # half of the eigenvalues are 0
    assert (
        make(kernel="precomputed", criterion="posterior").fit(case.K, case.y).tuning_[0].status == "interior"
    )


@may_know_no_spread
@pytest.mark.parametrize("name", ["constant y", "y = 0", "pure noise", "K = c I", "n = 1"])
@both_estimators
def test_pure_noise_predicts_the_mean(make, name):
    case = CASES[name]
    with_mean, without = (
        make(kernel="precomputed", fit_intercept=flag).fit(case.K, case.y).predict(case.K)
        for flag in (True, False)
    )
    size = np.abs(case.y).max() or 1.0
    assert np.allclose(with_mean, case.y.mean(), rtol=0, atol=1e-12 * size)
    if case.without in ("pure_noise", "undetermined"):
        assert not without.any()


def test_noise_free_values_are_interpolated():
    case = CASES["noise free"]
    model = ESTIMATORS["process"](kernel="precomputed").fit(case.K, case.y)
    assert np.allclose(model.predict(case.K), case.y, rtol=0, atol=1e-9)
    assert model.noise_variance_ < 1e-10 * model.signal_variance_


@may_know_no_spread
@both_estimators
@both_intercepts
@pytest.mark.parametrize(
    "X",
    [
        np.ones((1, 3)),
        np.ones((2, 3)),
        np.zeros((6, 2)),
        np.eye(5),
        1e100 * np.eye(5),
        1e-100 * np.eye(5),
    ],
    ids=["one row", "two equal rows", "zeros", "more columns", "1e100", "1e-100"],
)
def test_inputs_of_any_size_and_shape_give_finite_answers(X, fit_intercept, make):
    y = np.arange(len(X)) % 3 - 0.5
    model = make(fit_intercept=fit_intercept).fit(X, y)
    assert_finite(model.predict(X), model.noise_variance_)


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")  # as they should
@both_intercepts
@pytest.mark.parametrize(
    "y", [np.zeros(8), np.full(8, 5.0), np.arange(8) * 1e150], ids=["zero", "constant", "huge"]
)
def test_bounds_of_the_variances_hold_in_extremes(y, fit_intercept):
    kernel = ConstantKernel(2.0, (0.5, 4.0)) * RBF() + WhiteKernel(1.0, (0.1, 3.0))
    model = SpectralGPRegressor(kernel, optimizer=None, fit_intercept=fit_intercept)
    model.fit(np.arange(8.0)[:, None], y)
    assert model.tuning_[0].status == "bound"
    assert 0.5 * (1 - 1e-12) <= model.signal_variance_ <= 4.0 * (1 + 1e-12)
    assert 0.1 * (1 - 1e-12) <= model.noise_variance_ <= 3.0 * (1 + 1e-12)
    assert_finite(*model.predict([[0.5], [100.0]], return_std=True))


@pytest.mark.parametrize("method", ["exact", "auto"])
def test_exact_features_whose_products_are_beyond_all_numbers_are_refused(method):
    X = 2e154 * (1.0 + 1e-6 * np.random.default_rng(0).normal(size=(20, 3)))
    with pytest.raises(ValueError, match="has NaN or infinite entries"):
        SpectralKernelRidge(kernel="linear", method=method).fit(X, np.arange(20.0))


def test_spreads_of_huge_targets_averaged_over_the_variances_are_numbers():
    rng = np.random.default_rng(3)
    X = 200.0 * rng.choice([-1.0, 0.0, 1.0], (23, 4))
    y = 5e147 * rng.normal(size=23)
    gp = SpectralGPRegressor(DotProduct(0.2), optimizer=None, inference="integrate").fit(X, y)
    mean, std = gp.predict(3e7 * X, return_std=True)
    assert_finite(mean, std)
    assert std.max() > 1e153  # a variance at the end of all numbers
    assert_finite(*gp.predict_interval(3e7 * X))


def test_weighted_kernels_beyond_all_numbers_are_refused():
    X = 1e149 * np.random.default_rng(0).normal(size=(20, 3))
    for weight in (np.full(20, 1e12), np.full(20, 1e9)):  # each of them, or their sum
        ridge = SpectralKernelRidge(kernel=DotProduct(1.0), rank=4)
        with pytest.raises(ValueError, match="has NaN or infinite entries"):
            ridge.fit(X, np.arange(20.0), sample_weight=weight)


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
def test_noise_that_bounds_allow_to_the_end_of_all_numbers_is_averaged():
    """A signal variance of at least 1e-5 at noise ratios of 1e300."""
    rng = np.random.default_rng(1)
    X, y = 1e149 * rng.normal(size=(5, 4)), 20.0 * rng.normal(size=5)
    kernel = ConstantKernel(0.1) * (RBF(7.0) + DotProduct(1.0))
    gp = SpectralGPRegressor(kernel, optimizer=None, inference="integrate", method="low_rank").fit(X, y)
    assert_finite(*gp.predict(X, return_std=True))
    assert_finite(gp.noise_variance_, gp.variance_posterior_[0].noise_variance)
