"""Bad input gets an error that says what came, what was expected and what to do."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import reference
from problems import smooth
from scipy.stats import invgamma
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skspectral import (
    DegenerateCriterionWarning,
    IndefiniteKernelError,
    KernelBoundWarning,
    SpectralGPRegressor,
    SpectralKernelRidge,
)

X, Y = smooth(0, n=12, m=3)
y = Y[:, 0]
K = reference.rbf(X)


def ridge(**params):
    return SpectralKernelRidge(**params)


def process(**params):
    return SpectralGPRegressor(optimizer=None, **params)


both_estimators = pytest.mark.parametrize("make", [ridge, process])


def spoiled(array, value):
    array = array.copy()
    array.flat[4] = value
    return array


# -- both estimators


@both_estimators
@pytest.mark.parametrize("value", [np.nan, np.inf], ids=["NaN", "inf"])
@pytest.mark.parametrize("where", ["X", "y", "K", "weight", "X_new"])
def test_values_that_are_not_finite_are_refused(make, where, value):
    model = make(kernel="precomputed") if where == "K" else make()
    rows, targets, weight, new = K if where == "K" else X, y, np.ones(12), X
    if where in ("X", "K"):
        rows = spoiled(rows, value)
    targets = spoiled(y, value) if where == "y" else targets
    weight = spoiled(weight, value) if where == "weight" else weight
    new = spoiled(X, value) if where == "X_new" else X
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        model.fit(rows, targets, weight).predict(new)


@both_estimators
def test_a_precomputed_matrix_must_be_square(make):
    with pytest.raises(ValueError, match=r"square matrix.*got shape \(12, 5\).*one row and one column per"):
        make(kernel="precomputed").fit(K[:, :5], y)


@both_estimators
def test_a_precomputed_matrix_must_be_symmetric(make):
    skewed = K.copy()
    skewed[0, 1] += 0.25
    with pytest.raises(ValueError, match=r"not symmetric: \|K - K'\| reaches 0\.25.*\(K \+ K\.T\) / 2"):
        make(kernel="precomputed").fit(skewed, y)


@both_estimators
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_an_indefinite_matrix_is_refused_with_its_smallest_eigenvalue(make, fit_intercept):
    U = np.linalg.qr(np.column_stack([np.ones(12), X, np.random.default_rng(0).normal(size=(12, 9))]))[0]
    indefinite = (U * np.r_[5.0, -0.125, np.ones(10)]) @ U.T
    model = make(kernel="precomputed", fit_intercept=fit_intercept)
    with pytest.raises(
        IndefiniteKernelError, match=r"smallest eigenvalue is -0\.125.*positive semi-definite"
    ):
        model.fit((indefinite + indefinite.T) / 2, y)


def test_parameters_of_a_kernel_cannot_silently_make_it_indefinite():
    def difference(a, b, shift):
        return float(np.exp(-((a - b) ** 2).sum()) - shift)

    model = ridge(kernel=difference, kernel_params={"shift": 0.5}, fit_intercept=False)
    with pytest.raises(
        IndefiniteKernelError, match=r"smallest eigenvalue is -.*change the kernel's parameters"
    ):
        model.fit(X, y)
    with pytest.raises(IndefiniteKernelError, match="smallest eigenvalue"):
        ridge(kernel="sigmoid", gamma=2.0, coef0=-3.0).fit(X, y)


def test_a_kernel_that_overflows_is_refused():
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match=r"NaN or infinite.*Rescale the inputs .* or change the"),
    ):
        ridge(kernel="polynomial", degree=5).fit(1e100 * X, y)


@both_estimators
def test_negative_weights_are_refused_by_row(make):
    weight = np.ones(12)
    weight[3] = -0.5
    with pytest.raises(ValueError, match=r"not be negative, got -0\.5 at row 3.*0 leaves a row out"):
        make().fit(X, y, weight)


@both_estimators
def test_weights_that_leave_no_row_are_refused(make):
    with pytest.raises(ValueError, match=r"at least one (non-zero number|row needs a positive weight)"):
        make().fit(X, y, np.zeros(12))


@both_estimators
def test_there_is_one_weight_per_row(make):
    with pytest.raises(ValueError, match=r"sample_weight"):
        make().fit(X, y, np.ones(5))


@both_estimators
@pytest.mark.parametrize(
    "params",
    [{"criterion": "likelihood"}, {"kernel": "gaussian"}, {"fit_intercept": "yes"}],
    ids=["criterion", "kernel", "fit_intercept"],
)
def test_an_unknown_choice_is_answered_with_the_known_ones(make, params):
    ((name, value),) = params.items()
    known = {"criterion": "'evidence'", "kernel": "'precomputed'", "fit_intercept": "bool"}[name]
    with pytest.raises(ValueError, match=rf"(?s)'{name}' parameter.*{known}.*Got '{value}'"):
        make(**params).fit(X, y)


@both_estimators
def test_rows_of_x_and_y_must_match(make):
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[12, 5\]"):
        make().fit(X, y[:5])


@both_estimators
@pytest.mark.parametrize(("kernel", "expected"), [(None, 2), ("precomputed", 12)])
def test_new_rows_need_the_columns_of_the_training_rows(make, kernel, expected):
    params = {} if kernel is None else {"kernel": kernel}
    model = make(**params).fit(X if kernel is None else K, y)
    with pytest.raises(ValueError, match=rf"7 features, but \w+ is expecting {expected} features"):
        model.predict(np.ones((3, 7)))


@both_estimators
@pytest.mark.parametrize("method", ["predict", "loo_predict"])
def test_an_estimator_must_be_fitted_first(make, method):
    arguments = (X,) if method == "predict" else ()
    if make is process and method == "predict":
        make = partial(make, kernel="precomputed")  # others have a prior to predict from
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(make(), method)(*arguments)


@both_estimators
@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_leave_one_out_needs_a_row_beside_the_intercept(make):
    model = make().fit(X[:1], y[:1])
    with pytest.raises(ValueError, match=r"(?s)without row 0 the other 0 row\(s\).*Fit more rows"):
        model.loo_predict()


# -- the ridge


@pytest.mark.parametrize("alpha", [0, 0.0, -1.5, np.nan, np.inf, [1.0, 0.0, 2.0], [1.0, -2.0, 1.0]], ids=str)
def test_alpha_must_be_positive(alpha):
    match = r"must be positive and finite, got .*small positive value, or let alpha='auto'"
    with pytest.raises(ValueError, match=match):
        ridge(alpha=alpha).fit(X, Y)
    with pytest.raises(ValueError, match=match):
        ridge().fit(X, Y).with_alpha(alpha)


@pytest.mark.parametrize(("targets", "alpha"), [(Y, [1.0, 2.0]), (y, [1.0, 2.0]), (Y, [])])
def test_there_is_one_alpha_or_one_per_target(targets, alpha):
    m = 1 if targets.ndim == 1 else targets.shape[1]
    match = rf"{len(alpha)} entries but y has {m} output.*one number, one per output, or alpha='auto'"
    with pytest.raises(ValueError, match=match):
        ridge(alpha=alpha).fit(X, targets)
    with pytest.raises(ValueError, match=match):
        ridge().fit(X, targets).with_alpha(alpha)


def test_alpha_is_checked_before_the_decomposition(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("decomposed in vain")

    monkeypatch.setattr("skspectral.linalg.spectrum.symmetric_eigen", refuse)
    with pytest.raises(ValueError, match="must be positive"):
        ridge(alpha=-1.0).fit(X, y)


@pytest.mark.parametrize("alpha", ["best", "Auto"])
def test_the_only_word_for_alpha_is_auto(alpha):
    with pytest.raises(ValueError, match=rf"'alpha' parameter.*'auto'.*Got '{alpha}'"):
        ridge(alpha=alpha).fit(X, y)


@pytest.mark.parametrize("alphas", [[1.0, 0.0], [-1.0], [np.nan, 1.0]])
def test_a_curve_is_drawn_over_positive_alphas(alphas):
    with pytest.raises(ValueError, match=r"alphas must be positive, the smallest is"):
        ridge().fit(X, y).criterion_curve(alphas)


# -- the process


def test_a_kernel_of_noise_only_is_refused():
    with pytest.raises(ValueError, match=r"noise only.*Add a kernel for the signal.*or leave kernel=None"):
        process(kernel=WhiteKernel() + WhiteKernel()).fit(X, y)


def test_std_and_cov_are_not_asked_together():
    with pytest.raises(RuntimeError, match="At most one of return_std or return_cov"):
        process().fit(X, y).predict(X, return_std=True, return_cov=True)


@pytest.mark.parametrize(("diagonal", "got"), [(None, "nothing"), (np.ones(3), r"shape \(3,\)")])
def test_std_from_a_precomputed_matrix_needs_the_variances_of_the_new_points(diagonal, got):
    model = process(kernel="precomputed").fit(K, y)
    with pytest.raises(ValueError, match=rf"need K_test_diag, the 5 values k\(x, x\).*got {got}"):
        model.predict(K[:5], return_std=True, K_test_diag=diagonal)


def test_cov_is_not_known_from_a_precomputed_matrix():
    with pytest.raises(
        ValueError, match=r"need the kernel among the new points.*Use predict with return_std=True"
    ):
        process(kernel="precomputed").fit(K, y).predict(K, return_cov=True)


def test_a_precomputed_model_has_no_sklearn_equivalent():
    with pytest.raises(ValueError, match=r"no precomputed kernels. Fit with a kernel object"):
        process(kernel="precomputed").fit(K, y).to_sklearn()


@pytest.mark.parametrize("output", [3, -4])
def test_only_outputs_that_exist_are_exported(output):
    with pytest.raises(ValueError, match=rf"output={output} does not exist: the model has 3 output"):
        process(kernel=RBF()).fit(X, Y).to_sklearn(output)


def test_more_rows_than_lapack_can_count_are_refused_before_the_matrix_is_made(monkeypatch):
    monkeypatch.setattr("skspectral.decomposition.plan.LARGEST_DENSE", 10)
    with pytest.raises(ValueError, match=r"11 rows.*32 bits.*method='low_rank'"):
        SpectralKernelRidge(method="exact").fit(np.ones((11, 1)), np.arange(11.0))


def test_a_collection_of_kernels_is_refused():
    with pytest.raises(ValueError, match="collection of kernels, not one"):
        process(kernel=CompoundKernel([RBF(1.0), RBF(2.0)])).fit(X, y)


def test_warnings_point_to_the_code_of_the_user():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 1))
    model = SpectralGPRegressor(RBF(1.0, (0.9, 1.1)))
    fast = np.sin(4 * X[:, 0]) + 0.2 * rng.normal(size=30)  # faster than bounds allow, and no noise
    cases = [
        (model, fast, KernelBoundWarning),
        (make_pipeline(StandardScaler(), model), fast, KernelBoundWarning),
        (SpectralKernelRidge(criterion="posterior"), np.sin(9 * X[:, 0]), DegenerateCriterionWarning),
    ]
    for estimator, y, category in cases:
        with pytest.warns(category) as caught:
            estimator.fit(X, y)
        assert [Path(warning.filename) for warning in caught] == [Path(__file__)] * len(caught)


@pytest.mark.parametrize("settings", [{"criterion": "gcv"}, {"priors": {"noise_variance": invgamma(2.0)}}])
def test_low_rank_does_not_learn_what_needs_the_matrix(settings):
    model = SpectralGPRegressor(RBF(1.0), method="low_rank", **settings)
    with pytest.raises(ValueError, match="learns kernel parameters by the evidence alone"):
        model.fit(X, y)
    assert model.set_params(optimizer=None).fit(X, y).rank_ <= len(X)
