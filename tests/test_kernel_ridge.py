"""SpectralKernelRidge: KernelRidge for a given alpha, brute force for all that it adds."""

import pickle

import numpy as np
import pandas as pd
import pytest
import reference
from joblib import Parallel, delayed
from problems import close, smooth
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import BaggingRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skspectral import SpectralGPRegressor, SpectralKernelRidge, Spectrum
from skspectral.criteria import CRITERIA

TUNED_BY = ["evidence", "gcv", "loo", "loo_lpd"]


def cauchy(a, b, width=1.0):
    return 1.0 / (1.0 + ((a - b) ** 2).sum() / width**2)


KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf", "gamma": 0.7},
    "rbf with its default gamma": {"kernel": "rbf"},
    "polynomial": {"kernel": "polynomial", "degree": 2, "coef0": 0.5, "gamma": 0.4},
    "laplacian": {"kernel": "laplacian", "gamma": 0.3},
    "cosine": {"kernel": "cosine"},
    "callable": {"kernel": cauchy, "kernel_params": {"width": 2.0}},
    "sklearn kernel": {"kernel": RBF(1.3)},
}
every_kernel = pytest.mark.parametrize("params", KERNELS.values(), ids=KERNELS)
both_intercepts = pytest.mark.parametrize("fit_intercept", [True, False])
both_weightings = pytest.mark.parametrize("weighted", [True, False])


def weights(n, seed=0):
    return np.random.default_rng(seed).uniform(0.2, 3.0, n)


# -- equality with KernelRidge


def assert_same_model(ours, theirs, X_new, y_ndim):
    assert close(ours.predict(X_new), theirs.predict(X_new))
    assert close(ours.dual_coef_, theirs.dual_coef_)
    assert ours.dual_coef_.ndim == y_ndim


@both_weightings
@pytest.mark.parametrize("alpha", [0.3, [0.05, 1.0, 20.0]], ids=["one alpha", "alpha per target"])
@pytest.mark.parametrize("m", [None, 3], ids=["one target", "three targets"])
@every_kernel
def test_a_given_alpha_without_intercept_is_kernel_ridge(params, m, alpha, weighted):
    X, y = smooth(1, n=30, m=m)
    alpha = alpha if m or np.isscalar(alpha) else alpha[1]
    weight = weights(30) if weighted else None
    ours = SpectralKernelRidge(alpha, fit_intercept=False, **params).fit(X, y, weight)
    theirs = KernelRidge(alpha=alpha, **params).fit(X, y, weight)
    assert_same_model(ours, theirs, smooth(2, n=9)[0], y.ndim)


@both_weightings
def test_a_precomputed_matrix_is_kernel_ridge_too(weighted):
    X, y = smooth(1, n=30, m=2)
    K, K_new = reference.rbf(X), reference.rbf(smooth(2, n=9)[0], X)
    weight = weights(30) if weighted else None
    ours = SpectralKernelRidge(0.3, kernel="precomputed", fit_intercept=False).fit(K, y, weight)
    theirs = KernelRidge(alpha=0.3, kernel="precomputed").fit(K, y, weight)
    assert_same_model(ours, theirs, K_new, 2)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "polynomial", "cosine", "laplacian"])
@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array])
def test_sparse_rows_give_what_dense_rows_give(kernel, form):
    X, y = smooth(3, n=30, p=4)
    X[np.abs(X) < 1] = 0.0
    dense, thin = (SpectralKernelRidge(kernel=kernel).fit(rows, y) for rows in (X, form(X)))
    # distances of sparse rows are summed in another order; tuning amplifies that rounding
    assert thin.alpha_ == pytest.approx(dense.alpha_, rel=1e-8)
    assert close(thin.predict(form(X[:7])), dense.predict(X[:7]))
    assert close(thin.predict(X[:7]), dense.predict(X[:7]))


@both_weightings
@every_kernel
def test_the_intercept_is_unpenalised_least_squares(params, weighted):
    X, y = smooth(4, n=25)
    X_new = smooth(5, n=6)[0]
    weight = weights(25) if weighted else None
    model = SpectralKernelRidge(0.2, **params).fit(X, y, weight)
    K, K_new = (KernelRidge(**params)._get_kernel(*rows) for rows in ((X,), (X_new, X)))
    expected = reference.ridge(K, y, 0.2, K_new, np.ones((25, 1)), np.ones((6, 1)), weight)
    assert close(model.predict(X_new), expected)
    assert abs(model.dual_coef_.sum()) < 1e-10 * np.abs(model.dual_coef_).sum()


# -- brute force


@both_weightings
@both_intercepts
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_leave_one_out_is_refitting_without_the_row(kernel, fit_intercept, weighted):
    X, y = smooth(6, n=15, m=2)
    weight = weights(15) if weighted else np.ones(15)
    model = SpectralKernelRidge([0.1, 2.0], kernel=kernel, fit_intercept=fit_intercept)
    left_out = clone(model).fit(X, y, weight).loo_predict()
    refitted = np.empty_like(y)
    for i in range(15):
        rest = np.arange(15) != i
        refitted[i] = clone(model).fit(X[rest], y[rest], weight[rest]).predict(X[[i]])
    assert close(left_out, refitted)


def test_a_row_of_weight_zero_is_absent_and_predicted_by_all_the_others():
    X, y = smooth(6, n=15)
    weight = weights(15) / 3.0
    weight[4] = 0.0
    rest = np.arange(15) != 4
    model = SpectralKernelRidge().fit(X, y, weight)
    without = SpectralKernelRidge(gamma=0.5).fit(X[rest], y[rest], weight[rest])
    assert model.alpha_ == pytest.approx(without.alpha_, rel=1e-9)
    assert close(model.predict(X), without.predict(X))
    assert model.dual_coef_[4] == 0
    assert model.loo_predict()[4] == pytest.approx(without.predict(X[[4]])[0])


def fitted_by_weight_and_by_repetition(model):
    X, y = smooth(7, n=18, m=2)
    times = np.random.default_rng(0).integers(0, 4, 18)
    again = np.repeat(np.arange(18), times)
    return clone(model).fit(X, y, times), clone(model).fit(X[again], y[again]), X


@both_intercepts
@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_with_a_given_alpha_an_integer_weight_predicts_as_a_repeated_row(kernel, fit_intercept):
    model = SpectralKernelRidge(0.3, kernel=kernel, gamma=0.5, fit_intercept=fit_intercept)
    weighted, repeated, X = fitted_by_weight_and_by_repetition(model)
    assert close(weighted.predict(X), repeated.predict(X))
    assert close(weighted.effective_dof_, repeated.effective_dof_)


@both_intercepts
@pytest.mark.parametrize("kernel", ["linear", "laplacian"])
@pytest.mark.parametrize("criterion", TUNED_BY)
@pytest.mark.parametrize("factor", [1e-3, 100.0])
def test_a_common_factor_of_the_weights_changes_no_prediction(kernel, criterion, fit_intercept, factor):
    X, y = smooth(7, n=30, m=2)
    w = weights(30)
    model = SpectralKernelRidge(kernel=kernel, criterion=criterion, fit_intercept=fit_intercept)
    plain, scaled = clone(model).fit(X, y, w), clone(model).fit(X, y, factor * w)
    assert close(scaled.predict(X), plain.predict(X))
    for name, power in (("alpha_", 1), ("noise_variance_", 1), ("signal_variance_", 0)):
        expected = factor**power * getattr(plain, name)
        assert np.allclose(getattr(scaled, name), expected, rtol=1e-7, atol=0.0), name
    constant = 0.5 * np.log(factor) if fit_intercept else 0.0  # 1/2 log|F'WF|
    assert np.allclose(scaled.log_evidence_, plain.log_evidence_ + constant, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")  # samples that hardly need one length
def test_bagging_by_weights_is_no_worse_than_a_single_ridge():
    X, y = load_diabetes(return_X_y=True)
    ridge = make_pipeline(StandardScaler(), BaggingRegressor(SpectralKernelRidge(gamma=0.01), random_state=0))
    process = make_pipeline(StandardScaler(), BaggingRegressor(SpectralGPRegressor(), random_state=0))
    assert cross_val_score(ridge, X, y, cv=5).mean() >= 0.47
    assert cross_val_score(process, X, y, cv=5).mean() >= 0.45


@both_intercepts
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_effective_degrees_of_freedom_are_the_trace_of_the_smoother(kernel, fit_intercept):
    X, y = smooth(8, n=20)
    model = SpectralKernelRidge(0.4, kernel=kernel, fit_intercept=fit_intercept).fit(X, y)
    F = np.ones((20, 1)) if fit_intercept else None
    K = pairwise_kernels(X, metric=kernel)
    assert model.effective_dof_ == pytest.approx(reference.effective_dof(K, 0.4, F), rel=1e-9)


@both_intercepts
def test_log_evidence_is_the_textbook_one_at_the_reported_variances(fit_intercept):
    X, y = smooth(9, n=20)
    model = SpectralKernelRidge(kernel="laplacian", fit_intercept=fit_intercept).fit(X, y)
    K, variances = pairwise_kernels(X, metric="laplacian"), (model.noise_variance_, model.signal_variance_)
    F = np.ones((20, 1))
    expected = (
        reference.reml(K, y, F, *variances) if fit_intercept else reference.log_evidence(K, y, *variances)
    )
    assert model.log_evidence_ == pytest.approx(expected, rel=1e-8)
    assert model.noise_variance_ / model.signal_variance_ == pytest.approx(model.alpha_, rel=1e-12, abs=0.0)


def test_the_variance_of_the_dual_coefficients_is_proposition_2_4():
    X, y = smooth(10, n=20, m=2)
    model = SpectralKernelRidge(kernel="laplacian", fit_intercept=False).fit(X, y)
    K = pairwise_kernels(X, metric="laplacian")
    for j, (b, l) in enumerate(zip(model.noise_variance_, model.signal_variance_, strict=True)):
        assert close(model.dual_coef_variance()[:, j], np.diag(reference.dual_covariance(K, b, l)))


@both_intercepts
def test_dual_coefficients_of_null_directions_are_left_out_of_their_variance(fit_intercept):
    X, y = smooth(10, n=20)
    variance = (
        SpectralKernelRidge(kernel="linear", fit_intercept=fit_intercept).fit(X, y).dual_coef_variance()
    )
    assert np.isfinite(variance).all()
    assert (variance > 0).all()


def test_dual_coefficients_vary_by_nothing_where_there_is_no_signal():
    X, _ = smooth(10, n=20)
    model = SpectralKernelRidge(kernel="laplacian").fit(X, np.ones(20))
    assert model.tuning_[0].status == "undetermined"
    assert not model.dual_coef_variance().any()


# -- alpha along a curve, and another one without another decomposition


@pytest.mark.parametrize("criterion", TUNED_BY)
@pytest.mark.parametrize("m", [None, 3])
def test_the_curve_peaks_at_the_tuned_alpha(criterion, m):
    X, y = smooth(11, m=m)
    model = SpectralKernelRidge(criterion=criterion).fit(X, y)
    grid = np.geomspace(1e-6, 1e6, 200)
    curve = model.criterion_curve(grid)
    assert curve.shape == (200, *y.shape[1:])
    assert (curve.max(axis=0) <= model.criterion_value_ + 1e-10 * np.abs(model.criterion_value_)).all()
    at_optimum = model.criterion_curve(np.atleast_1d(model.alpha_))
    own = at_optimum[0] if m is None else np.diag(at_optimum)
    assert close(own, model.criterion_value_, rel=1e-12)


@pytest.mark.parametrize("criterion", ["evidence", "gcv", "loo"])
def test_the_curve_is_the_value_of_each_alpha_fitted(criterion):
    X, y = smooth(11)
    model = SpectralKernelRidge(criterion=criterion).fit(X, y)
    for alpha, value in zip((0.01, 1.0, 50.0), model.criterion_curve([0.01, 1.0, 50.0]), strict=True):
        refitted = SpectralKernelRidge(alpha, criterion=criterion).fit(X, y)
        assert value == pytest.approx(refitted.criterion_value_, rel=1e-12)


def test_the_curve_of_the_squared_errors_is_that_of_their_definitions():
    X, y = smooth(11, n=15)
    K, F = reference.rbf(X), np.ones((15, 1))
    gcv, loo = (
        SpectralKernelRidge(gamma=0.5, criterion=c).fit(X, y).criterion_curve([0.3])[0]
        for c in ("gcv", "loo")
    )
    assert -gcv == pytest.approx(reference.gcv(K, y, 0.3, F), rel=1e-9)
    left_out = reference.leave_one_out(K, y, 0.3, 1.0, F)[0]
    assert -loo == pytest.approx(np.mean((y - left_out) ** 2), rel=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("alpha", [0.7, [0.1, 5.0]])
def test_with_alpha_is_a_refit_that_shares_the_decomposition(kernel, alpha):
    X, Y = smooth(12, m=2)
    model = SpectralKernelRidge(kernel=kernel).fit(X, Y, weights(40) / 3.0)
    before = model.predict(X), np.copy(model.alpha_), model.dual_coef_.copy(), model.tuning_
    other = model.with_alpha(alpha)
    refitted = SpectralKernelRidge(alpha, kernel=kernel).fit(X, Y, weights(40) / 3.0)
    assert other.spectrum_ is model.spectrum_
    assert other.get_params() == refitted.get_params()
    for name in ("alpha_", "dual_coef_", "intercept_", "noise_variance_", "log_evidence_", "effective_dof_"):
        assert close(getattr(other, name), getattr(refitted, name), rel=1e-12), name
    assert close(other.predict(X), refitted.predict(X), rel=1e-12)
    assert [t.status for t in other.tuning_] == ["fixed", "fixed"]
    after = model.predict(X), model.alpha_, model.dual_coef_, model.tuning_
    for then, now in zip(before, after, strict=True):
        assert np.array_equal(then, now)
    assert model.alpha == "auto"


# -- the linear kernel


@both_intercepts
@both_weightings
@pytest.mark.parametrize("alpha", [0.3, "auto"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_a_linear_kernel_with_more_rows_than_columns_never_makes_an_n_by_n_matrix(
    form, alpha, weighted, fit_intercept, monkeypatch
):
    X, y = smooth(13, n=40, p=3)
    X_new = smooth(14, n=8, p=3)[0]
    weight = weights(40) if weighted else None
    common = {"alpha": alpha, "fit_intercept": fit_intercept}
    dense = SpectralKernelRidge(kernel="precomputed", **common).fit(X @ X.T, y, weight)

    def refuse(*args, **kwargs):
        raise AssertionError("an n x n matrix was asked for")

    monkeypatch.setattr(Spectrum, "from_gram", refuse)
    monkeypatch.setattr("skspectral.kernels.gram.pairwise_kernels", refuse)
    model = SpectralKernelRidge(kernel="linear", **common).fit(form(X), y, weight)
    assert model.spectrum_.U.shape == (40, 3)
    for name in ("alpha_", "log_evidence_", "noise_variance_", "effective_dof_", "intercept_", "dual_coef_"):
        assert close(getattr(model, name), getattr(dense, name)), name
    assert close(model.predict(form(X_new)), dense.predict(X_new @ X.T))


def test_a_linear_kernel_with_more_columns_than_rows_is_kernel_ridge_as_well():
    X, y = smooth(15, n=10, p=25)
    ours = SpectralKernelRidge(0.5, kernel="linear", fit_intercept=False).fit(X, y)
    assert_same_model(ours, KernelRidge(alpha=0.5).fit(X, y), smooth(16, n=5, p=25)[0], 1)


# -- several targets


def test_one_alpha_for_all_targets_on_request():
    X, Y = smooth(17, m=3)
    shared = SpectralKernelRidge(alpha_per_target=False).fit(X, Y)
    assert shared.alpha_.shape == (3,)
    assert len(set(shared.alpha_)) == 1
    own = SpectralKernelRidge().fit(X, Y)
    assert len(set(own.alpha_)) == 3
    grid = np.geomspace(1e-5, 1e5, 500)
    assert shared.log_evidence_.sum() >= shared.criterion_curve(grid).sum(axis=1).max() - 1e-10
    assert (own.log_evidence_ >= shared.log_evidence_ - 1e-10).all()
    again = SpectralKernelRidge(shared.alpha_[0]).fit(X, Y)
    assert close(again.predict(X), shared.predict(X), rel=1e-12)


@pytest.mark.parametrize("m", [None, 1, 3])
def test_results_have_the_shape_of_y(m):
    X, y = smooth(18, m=m)
    model = SpectralKernelRidge().fit(X, y)
    for rows in (model.predict(X), model.dual_coef_, model.loo_predict(), model.dual_coef_variance()):
        assert rows.shape == y.shape
    for value in (model.alpha_, model.intercept_, model.noise_variance_, model.signal_variance_):
        assert np.shape(value) == y.shape[1:]
    assert len(model.tuning_) == (m or 1)


# -- life among scikit-learn's tools


def test_it_works_in_a_pipeline_with_cross_validation_and_grid_search():
    X, y = smooth(19, n=60)
    model = make_pipeline(StandardScaler(), SpectralKernelRidge())
    assert cross_val_score(model, X, y, cv=3).min() > 0.5
    step = "spectralkernelridge__"
    grid = {
        step + "gamma": [1e-4, 0.3],
        step + "criterion": ["evidence", "loo"],
        step + "alpha": ["auto", 1e3],
    }
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_params_[step + "gamma"] == 0.3
    assert search.best_params_[step + "alpha"] == "auto"


def test_cross_validation_cuts_both_sides_of_a_precomputed_matrix():
    X, y = smooth(19, n=40)
    direct = cross_val_score(SpectralKernelRidge(gamma=0.5), X, y, cv=4)
    assert close(
        cross_val_score(SpectralKernelRidge(kernel="precomputed"), reference.rbf(X), y, cv=4), direct
    )


def test_clone_forgets_the_fit_and_pickle_keeps_it():
    X, y = smooth(20)
    model = SpectralKernelRidge(kernel="laplacian", gamma=0.2, criterion="gcv").fit(X, y)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "alpha_")
    revived = pickle.loads(pickle.dumps(model))
    assert np.array_equal(revived.predict(X), model.predict(X))
    assert np.array_equal(revived.loo_predict(), model.loo_predict())
    assert revived.with_alpha(1.0).spectrum_ is revived.spectrum_


def test_columns_of_a_data_frame_are_remembered_and_checked():
    X, y = smooth(21)
    frame = pd.DataFrame(X, columns=["depth", "age"])
    model = SpectralKernelRidge().fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["depth", "age"]
    assert close(model.predict(frame), SpectralKernelRidge().fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"age": "height"}))


def test_fits_in_threads_equal_fits_in_a_row():
    problems = [smooth(seed, n=50) for seed in range(6)]

    def fit(X, y):
        return SpectralKernelRidge().fit(X, y).predict(X)

    threaded = Parallel(n_jobs=2, prefer="threads")(delayed(fit)(X, y) for X, y in problems)
    for (X, y), prediction in zip(problems, threaded, strict=True):
        assert np.array_equal(prediction, fit(X, y))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed", "sklearn"])
def test_inputs_may_be_read_only_and_stay_as_they_were(kernel):
    X, y = smooth(22, m=2)
    weight = weights(40) / 3.0
    rows = reference.rbf(X) if kernel == "precomputed" else X
    inputs = rows, y, weight
    copies = [a.copy() for a in inputs]
    model = SpectralKernelRidge(kernel=RBF() if kernel == "sklearn" else kernel)
    expected = model.fit(*copies).predict(copies[0])
    for array in inputs:
        array.flags.writeable = False
    assert np.array_equal(model.fit(*inputs).predict(rows), expected)
    for array, copy in zip((rows, y, weight), copies, strict=True):
        assert np.array_equal(array, copy)


@pytest.mark.filterwarnings("ignore::skspectral.DegenerateCriterionWarning")
@pytest.mark.parametrize("criterion", sorted(CRITERIA))
def test_the_same_fit_twice_is_bitwise_the_same(criterion):
    X, y = smooth(23)
    first, second = (SpectralKernelRidge(criterion=criterion).fit(X, y) for _ in range(2))
    assert first.alpha_ == second.alpha_
    assert np.array_equal(first.dual_coef_, second.dual_coef_)
