"""KernelSearchCV: the answers of GridSearchCV, ranking without folds, and no decomposition twice."""

import copy
import pickle
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import parallel_config
from problems import smooth
from scipy.stats import loguniform
from sklearn.base import clone, is_regressor
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, DotProduct, ExpSineSquared, Matern
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedKFold,
    TimeSeriesSplit,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.fixes import parse_version
from threadpoolctl import threadpool_info, threadpool_limits

import skspectral.linalg.spectrum
import skspectral.linalg.tridiagonal
from skspectral import IndefiniteKernelError, KernelSearchCV, SpectralGPRegressor, SpectralKernelRidge
from skspectral.search.criterion import criterion_score

N = 36
X, y = smooth(3, n=N)
GROUPS = np.arange(N) % 6
WEIGHT = np.random.default_rng(4).uniform(0.1, 1.0, N)
GAMMAS = [0.05, 0.3, 1.5]
GRID = {"alpha": [0.01, 0.1, 1.0], "gamma": GAMMAS}
INDEFINITE = {"kernel": ["sigmoid"], "gamma": [2.0], "coef0": [-2.0]}

ours = partial(SpectralKernelRidge, fit_intercept=False)
theirs = partial(KernelRidge, kernel="rbf")


def assert_same_results(actual, expected, tolerance=1e-8):
    """Compare two cv_results_: keys, order, types and values, of the times only their form."""
    assert list(actual) == list(expected)
    for key in expected:
        assert type(actual[key]) is type(expected[key]), key
        if key == "params":
            assert actual[key] == expected[key]
            continue
        assert actual[key].dtype == expected[key].dtype, key
        assert actual[key].shape == expected[key].shape, key
        if key.startswith("param_"):
            assert np.array_equal(actual[key].mask, expected[key].mask), key
            assert actual[key].tolist() == expected[key].tolist(), key
        elif not key.endswith("_time"):
            assert np.allclose(actual[key], expected[key], rtol=tolerance, atol=tolerance, equal_nan=True), (
                key
            )


@pytest.fixture
def decompositions(monkeypatch):
    """Shapes of all matrices decomposed so far, be it to eigenvectors or to a tridiagonal form."""
    shapes = []

    def counted(K, *args, original, **kwargs):
        shapes.append(K.shape)
        return original(K, *args, **kwargs)

    for room, name in (
        (skspectral.linalg.spectrum, "symmetric_eigen"),
        (skspectral.linalg.tridiagonal, "dsytrd"),
    ):
        monkeypatch.setattr(room, name, partial(counted, original=getattr(room, name)))
    return shapes


# The same answers as GridSearchCV

SPLITTERS = {
    "int": lambda: 4,
    "KFold": lambda: KFold(3, shuffle=True, random_state=0),
    "GroupKFold": lambda: GroupKFold(3),
    "RepeatedKFold": lambda: RepeatedKFold(n_splits=3, n_repeats=2, random_state=1),
    "TimeSeriesSplit": lambda: TimeSeriesSplit(3),
    "PredefinedSplit": lambda: PredefinedSplit(np.repeat([-1, 0, 1], 12)),
    "list": lambda: list(KFold(3).split(X)),
    "generator": lambda: KFold(3).split(X),
}


@pytest.mark.parametrize("splitter", SPLITTERS.values(), ids=SPLITTERS)
def test_results_are_those_of_grid_search_for_any_splitter(splitter):
    groups = GROUPS if isinstance(splitter(), GroupKFold) else None
    search = KernelSearchCV(ours(), GRID, cv=splitter()).fit(X, y, groups=groups)
    grid = GridSearchCV(theirs(), GRID, cv=splitter()).fit(X, y, groups=groups)
    assert_same_results(search.cv_results_, grid.cv_results_)
    assert search.n_splits_ == grid.n_splits_
    assert search.best_index_ == grid.best_index_
    assert search.best_params_ == grid.best_params_
    assert np.isclose(search.best_score_, grid.best_score_, rtol=1e-8)
    assert np.allclose(search.predict(X), grid.predict(X), rtol=1e-8)
    assert np.isclose(search.score(X, y), grid.score(X, y), rtol=1e-8)


@pytest.mark.parametrize(
    "param_grid",
    [
        [{"kernel": ["rbf"], **GRID}, {"kernel": ["linear", "polynomial"], "alpha": [0.1, 1.0]}],
        [
            {"kernel": ["polynomial"], "degree": [1, 2], "alpha": [1]},
            {"kernel": ["laplacian"], "gamma": [0.5]},
        ],
        {"alpha": np.logspace(-2, 0, 3), "gamma": np.array([1, 2])},
        {},
    ],
    ids=["two dicts", "parameters of their own", "arrays", "nothing to choose"],
)
def test_parameters_and_masks_are_those_of_grid_search(param_grid):
    search = KernelSearchCV(ours(1.0), param_grid, cv=3).fit(X, y)
    grid = GridSearchCV(theirs(1.0), param_grid, cv=3).fit(X, y)
    assert_same_results(search.cv_results_, grid.cv_results_)


def test_several_targets_and_train_scores_are_those_of_grid_search():
    X, Y = smooth(5, n=N, m=3)
    options = {"cv": 3, "return_train_score": True, "scoring": "neg_mean_squared_error"}
    search = KernelSearchCV(ours(), GRID, **options).fit(X, Y)
    assert_same_results(search.cv_results_, GridSearchCV(theirs(), GRID, **options).fit(X, Y).cv_results_)
    assert "mean_train_score" in search.cv_results_


def test_sample_weights_reach_fit_and_score_as_in_grid_search():
    search = KernelSearchCV(ours(), GRID, cv=3).fit(X, y, sample_weight=WEIGHT)
    grid = GridSearchCV(theirs(), GRID, cv=3).fit(X, y, sample_weight=WEIGHT)
    assert_same_results(search.cv_results_, grid.cv_results_)
    unweighted = KernelSearchCV(ours(), GRID, cv=3).fit(X, y)
    assert not np.allclose(search.cv_results_["mean_test_score"], unweighted.cv_results_["mean_test_score"])


def test_a_precomputed_kernel_is_split_on_both_sides():
    K, alphas = rbf_kernel(X, gamma=0.3), {"alpha": [0.01, 0.1, 1.0]}
    search = KernelSearchCV(ours(kernel="precomputed"), alphas, cv=4).fit(K, y)
    expected = KernelSearchCV(ours(gamma=0.3), alphas, cv=4).fit(X, y)
    assert_same_results(search.cv_results_, expected.cv_results_)
    assert np.allclose(search.predict(K), expected.predict(X), rtol=1e-8)


def test_draws_are_those_of_randomized_search():
    space = {"alpha": loguniform(1e-3, 1e1), "gamma": GAMMAS}
    search = KernelSearchCV(ours(), space, cv=3, n_iter=7, random_state=5).fit(X, y)
    randomized = RandomizedSearchCV(theirs(), space, cv=3, n_iter=7, random_state=5).fit(X, y)
    assert_same_results(search.cv_results_, randomized.cv_results_)
    other = KernelSearchCV(ours(), space, cv=3, n_iter=7, random_state=6).fit(X, y)
    assert other.cv_results_["params"] != search.cv_results_["params"]


@pytest.mark.parametrize("verbose", [0, 1, 2, 3, 10])
def test_verbose_prints_what_grid_search_prints(verbose, capsys):
    def lines(search):
        search.fit(X, y)
        printed = capsys.readouterr().out.splitlines()
        return [re.sub(r"\.{2,}|total time=.*", "", line) for line in printed]

    options = {"cv": 5, "verbose": verbose}
    expected = lines(GridSearchCV(theirs(), {"gamma": GAMMAS}, **options))
    assert lines(KernelSearchCV(ours(1.0), {"gamma": GAMMAS}, **options)) == expected
    first = ["Fitting 5 folds for each of 3 candidates, totalling 15 fits"]
    assert expected[:1] == (first if verbose else [])


# Several metrics, refit

METRICS = {"r2": "r2", "error": "neg_mean_absolute_error"}


def both_scores(estimator, X, y):
    residual = y - estimator.predict(X)
    return {"r2": 1 - residual.var() / y.var(), "error": -np.abs(residual).mean()}


@pytest.mark.parametrize(
    "scoring", [METRICS, ["r2", "neg_median_absolute_error"], both_scores], ids=["dict", "list", "callable"]
)
@pytest.mark.parametrize("refit", ["r2", False])
def test_several_metrics_are_those_of_grid_search(scoring, refit):
    options = {"cv": 3, "scoring": scoring, "refit": refit}
    search = KernelSearchCV(ours(), GRID, **options).fit(X, y)
    grid = GridSearchCV(theirs(), GRID, **options).fit(X, y)
    assert_same_results(search.cv_results_, grid.cv_results_)
    assert search.multimetric_
    assert hasattr(search, "best_index_") == bool(refit)
    if refit:
        assert search.best_index_ == np.argmin(search.cv_results_["rank_test_r2"])
        assert np.isclose(search.score(X, y), grid.score(X, y), rtol=1e-8)


@pytest.mark.parametrize("cv", [None, 3])
def test_refit_may_be_a_function_of_the_results(cv):
    search = KernelSearchCV(
        ours(1.0), {"gamma": GAMMAS}, cv=cv, refit=lambda results: len(results["params"]) - 1
    )
    search.fit(X, y)
    assert search.best_index_ == 2
    assert search.best_estimator_.gamma == GAMMAS[-1]
    assert not hasattr(search, "best_score_")


@pytest.mark.parametrize("cv", [None, 3])
def test_without_refit_there_are_results_but_no_predictions(cv, decompositions):
    search = KernelSearchCV(ours(), {"gamma": GAMMAS}, cv=cv, refit=False).fit(X, y)
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert not hasattr(search, "best_estimator_")
    assert not hasattr(search, "predict")
    assert len(decompositions) == 3 * search.n_splits_


def test_several_metrics_need_a_named_refit():
    with pytest.raises(ValueError, match="refit must be set to a scorer key"):
        KernelSearchCV(ours(), GRID, cv=3, scoring=METRICS).fit(X, y)


# Without folds

CRITERIA = ["evidence", "gcv", "loo", "loo_lpd"]


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("m", [None, 2])
def test_without_folds_candidates_are_ranked_by_the_criterion_on_all_rows(criterion, m):
    X, Y = smooth(6, n=N, m=m)
    search = KernelSearchCV(SpectralKernelRidge(criterion=criterion), {"gamma": GAMMAS}).fit(X, Y)
    fits = [SpectralKernelRidge(criterion=criterion, gamma=gamma).fit(X, Y) for gamma in GAMMAS]
    values = [np.sum(fit.criterion_value_) for fit in fits]
    assert search.n_splits_ == 1
    assert np.allclose(search.cv_results_["mean_test_score"], values, rtol=1e-12)
    assert search.best_index_ == np.argmax(values)
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert np.array_equal(search.predict(X), fits[search.best_index_].predict(X))


@pytest.mark.parametrize("m", [None, 2])
def test_without_folds_the_results_hold_the_tuned_values(m):
    X, Y = smooth(6, n=N, m=m)
    results = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}).fit(X, Y).cv_results_
    for i, gamma in enumerate(GAMMAS):
        fit = SpectralKernelRidge(gamma=gamma).fit(X, Y)
        for name in ("alpha", "noise_variance", "signal_variance", "log_evidence"):
            assert results[name].dtype == object
            assert results[name].shape == (3,)
            assert np.shape(results[name][i]) == (() if m is None else (m,))
            assert np.array_equal(results[name][i], getattr(fit, name + "_"))


def test_without_folds_a_given_alpha_is_ranked_by_its_evidence():
    search = KernelSearchCV(SpectralKernelRidge(gamma=0.3), {"alpha": np.logspace(-3, 2, 26)}).fit(X, y)
    tuned = SpectralKernelRidge(gamma=0.3).fit(X, y).alpha_
    assert abs(np.log10(search.best_params_["alpha"] / tuned)) <= 0.2
    assert search.cv_results_["alpha"].tolist() == search.cv_results_["param_alpha"].tolist()


def test_without_folds_weights_count_as_in_fit():
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}).fit(X, y, sample_weight=WEIGHT)
    fits = [SpectralKernelRidge(gamma=gamma).fit(X, y, WEIGHT) for gamma in GAMMAS]
    assert np.allclose(
        search.cv_results_["mean_test_score"], [fit.criterion_value_ for fit in fits], rtol=1e-12
    )


def test_without_folds_score_is_still_that_of_the_estimator_on_the_given_rows():
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}).fit(X[:24], y[:24])
    assert search.score(X[24:], y[24:]) == search.best_estimator_.score(X[24:], y[24:])
    assert (cross_val_score(search, X, y, cv=3) <= 1.0).all()


def test_without_folds_verbose_counts_one_fit_for_each_candidate(capsys):
    KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}, verbose=3).fit(X, y)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Fitting 1 folds for each of 3 candidates, totalling 3 fits"
    assert len(printed) == 4


def test_a_constant_target_is_ranked_without_nan():
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}).fit(X, np.ones(N))
    for statistic in ("mean", "std"):
        assert np.isfinite(search.cv_results_[f"{statistic}_test_score"]).all()
    assert np.allclose(search.predict(X), 1.0)


# Gaussian processes: a list of kernels

# A periodic kernel of long period is as good as an RBF, and one of long length as good as a straight line.
PERIODIC = ExpSineSquared(1.0, 2.5, periodicity_bounds=(1.0, 5.0))
FAMILIES = [RBF(1.0, (0.1, 5.0)), Matern(1.0, nu=0.5), PERIODIC, DotProduct(1.0)]


def draw(kernel, n=80, noise=0.05):
    """Return inputs on [0, 8] and noisy targets drawn from a Gaussian process."""
    rng = np.random.default_rng(11)
    T = np.sort(rng.uniform(0, 8, n))[:, None]
    return T, rng.multivariate_normal(np.zeros(n), kernel(T), method="eigh") + noise * rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")  # the wrong families run there
@pytest.mark.parametrize("optimizer", [None, "default"])
@pytest.mark.parametrize("truth", FAMILIES, ids=lambda kernel: type(kernel).__name__)
def test_the_evidence_picks_the_family_the_data_were_drawn_from(truth, optimizer):
    T, t = draw(truth)
    search = KernelSearchCV(SpectralGPRegressor(optimizer=optimizer), {"kernel": FAMILIES}).fit(T, t)
    assert search.best_params_["kernel"] == truth
    best = search.best_estimator_
    assert np.isclose(search.best_score_, best.log_marginal_likelihood_value_, rtol=1e-12)
    assert np.isclose(search.cv_results_["log_evidence"][search.best_index_], search.best_score_, rtol=1e-12)
    assert best.predict(T, return_std=True)[1].shape == t.shape


def test_kernels_compared_by_folds_are_decomposed_once_for_each_split(decompositions):
    T, t = draw(FAMILIES[0], n=40)
    grid = {"kernel": FAMILIES[:3], "criterion": CRITERIA}
    search = KernelSearchCV(SpectralGPRegressor(optimizer=None), grid, cv=3).fit(T, t)
    assert len(decompositions) == 3 * 3 + 1
    assert len(search.cv_results_["params"]) == 12


def test_process_results_hold_ratio_and_variances_of_every_output():
    X, Y = smooth(7, n=N, m=2)
    search = KernelSearchCV(SpectralGPRegressor(optimizer=None), {"kernel": [RBF(1.0)]}).fit(X, Y)
    results, best = search.cv_results_, search.best_estimator_
    assert np.array_equal(results["noise_variance"][0], best.noise_variance_)
    assert np.allclose(results["alpha"][0], best.noise_variance_ / best.signal_variance_, rtol=1e-12)


# Decompositions are counted

MANY_ALPHAS = {"gamma": np.logspace(-2, 1, 10), "alpha": np.logspace(-3, 1, 30)}


@pytest.mark.slow
def test_without_folds_300_candidates_of_10_kernels_need_10_decompositions(decompositions):
    KernelSearchCV(ours(), MANY_ALPHAS).fit(X, y)
    assert decompositions == [(N, N)] * 11


@pytest.mark.slow
def test_five_folds_of_300_candidates_of_10_kernels_need_50_decompositions(decompositions):
    KernelSearchCV(ours(), MANY_ALPHAS, cv=5).fit(X[:20], y[:20])
    assert decompositions == [(16, 16)] * 50 + [(20, 20)]


FEW_ALPHAS = {"gamma": GAMMAS, "alpha": [0.1, 1.0]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"cv": 4},
        {"cv": list(KFold(3).split(X))},
        {"cv": TimeSeriesSplit(12)},
        {"cv": LeaveOneOut(), "scoring": "neg_mean_squared_error", "return_train_score": True},
        {"cv": 4, "n_jobs": 2},
        {"n_jobs": 2},
        {"n_iter": 5, "random_state": 0},
    ],
    ids=["folds", "list", "series", "leave one out", "folds in threads", "threads", "draws"],
)
def test_candidates_that_differ_in_alpha_share_decompositions_however_many_splits(options, decompositions):
    search = KernelSearchCV(ours(), FEW_ALPHAS, refit=False, **options).fit(X, y)
    assert len(decompositions) == len(GAMMAS) * search.n_splits_


def test_a_tuned_alpha_shares_the_decomposition_of_given_ones(decompositions):
    KernelSearchCV(ours(), {"gamma": GAMMAS, "alpha": [0.1, "auto", 1.0]}, cv=3, refit=False).fit(X, y)
    assert len(decompositions) == len(GAMMAS) * 3


def test_criteria_and_sharing_of_alpha_come_after_the_decomposition(decompositions):
    X, Y = smooth(8, n=N, m=2)
    grid = {"criterion": CRITERIA, "alpha_per_target": [True, False], "gamma": GAMMAS}
    KernelSearchCV(ours(), grid, cv=3, refit=False).fit(X, Y)
    assert len(decompositions) == len(GAMMAS) * 3


def test_whatever_changes_the_matrix_is_decomposed_again(decompositions):
    grid = {"fit_intercept": [True, False], "kernel": ["rbf", "laplacian"], "alpha": [0.1, 1.0]}
    KernelSearchCV(SpectralKernelRidge(), grid, refit=False).fit(X, y)
    assert len(decompositions) == 4


@pytest.mark.parametrize(
    ("criterion", "has_range"), [("posterior", True), ("loo_lpd", False), ("gcv", False)]
)
def test_densities_outside_of_the_mean_are_compared_with_a_flat_prior(criterion, has_range):
    x = np.linspace(0.0, 1.0, 20)[:, None]
    target = np.sin(6.0 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=20)
    ridge = SpectralKernelRidge(gamma=10.0, alpha=0.1, criterion=criterion).fit(x, target)
    plain, score = (criterion_score(ridge, x, target, constants_vary=vary) for vary in (False, True))
    assert plain - score == pytest.approx(np.log(np.ptp(target)) if has_range else 0.0, rel=1e-9, abs=1e-9)


def test_whether_an_intercept_is_better_does_not_depend_on_the_units_of_y():
    x = np.linspace(0.0, 1.0, 40)[:, None]
    target = np.sin(6.0 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    gains = []
    for scale in (1e-10, 1.0, 1e10):
        search = KernelSearchCV(SpectralKernelRidge(gamma=10.0), {"fit_intercept": [True, False]})
        search.fit(x, scale * target)
        # of a prior that is flat over the range of y
        expected = search.cv_results_["log_evidence"] - np.array([np.log(scale * np.ptp(target)), 0.0])
        assert np.allclose(search.cv_results_["mean_test_score"], expected.astype(float), rtol=1e-12)
        gains += [np.diff(search.cv_results_["mean_test_score"])]
    assert np.allclose(gains, gains[0], rtol=1e-9)


def test_functions_of_the_mean_are_compared_with_a_flat_prior_each():
    x = np.linspace(0.0, 1.0, 30)[:, None]
    Y = np.column_stack([np.cos(5.0 * x[:, 0]), 3.0 * x[:, 0] ** 2]) + 0.1 * np.sin(70.0 * x)
    weight = np.where(np.arange(30) == 7, 0.0, 1.0)
    Y[7] = 1e3  # of no weight, and so of no range
    log_ranges = np.log(np.ptp(np.delete(Y, 7, axis=0), axis=0)).sum()
    for n_functions, basis in enumerate([None, "linear"], start=1):
        gp = SpectralGPRegressor(RBF(0.3), optimizer=None, basis=basis).fit(x, Y, weight)
        score = criterion_score(gp, x, Y, sample_weight=weight, constants_vary=True)
        assert score == pytest.approx(gp.log_marginal_likelihood_value_.sum() - n_functions * log_ranges)


def test_a_pipeline_shares_decompositions_for_every_setting_of_its_earlier_steps(decompositions):
    def search(kind, ridge, **more):
        steps = [("scale", StandardScaler()), ("reduce", PCA()), ("ridge", ridge)]
        names = {
            "ridge__alpha": [0.01, 0.1, 1.0],
            "ridge__gamma": [0.1, 1.0],
            "scale__with_std": [True, False],
        }
        return kind(Pipeline(steps), {"reduce__n_components": [1, 2], **names}, cv=3, **more).fit(X, y)

    found = search(KernelSearchCV, ours())
    assert len(decompositions) == 2 * 2 * 2 * 3 + 1
    assert_same_results(found.cv_results_, search(GridSearchCV, theirs()).cv_results_)


def test_a_pipeline_within_a_pipeline_is_ranked_and_shared_too(decompositions):
    model = make_pipeline(StandardScaler(), make_pipeline(PCA(), ours()))
    prefix = "pipeline__spectralkernelridge__"
    search = KernelSearchCV(model, {prefix + "alpha": [0.1, 1.0, 10.0], prefix + "gamma": GAMMAS}).fit(X, y)
    assert len(decompositions) == 3 + 1
    assert search.best_score_ == search.best_estimator_[-1][-1].criterion_value_


def test_a_pipeline_without_folds_ranks_by_its_last_step():
    model = make_pipeline(StandardScaler(), SpectralKernelRidge())
    weight = {"spectralkernelridge__sample_weight": WEIGHT}
    search = KernelSearchCV(model, {"spectralkernelridge__gamma": GAMMAS}).fit(X, y, **weight)
    expected = model.set_params(**search.best_params_).fit(X, y, **weight)[-1]
    assert search.best_score_ == expected.criterion_value_
    assert search.cv_results_["alpha"][search.best_index_] == expected.alpha_


# Kernels are told apart by their content


def scaled(scale):
    """Return a kernel that cannot be pickled and says nothing of its scale."""

    class Local:
        def __call__(self, a, b):
            return np.exp(-scale * np.sum((a - b) ** 2))

        def __repr__(self):
            return "Local()"

    return Local()


def test_local_kernels_that_look_alike_are_told_apart():
    kernels = [scaled(scale) for scale in GAMMAS]
    search = KernelSearchCV(ours(), {"kernel": kernels, "alpha": [0.1, 1.0]}, cv=3).fit(X, y)
    expected = KernelSearchCV(ours(), {"alpha": [0.1, 1.0], "gamma": GAMMAS}, cv=3).fit(X, y)
    assert np.allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-8
    )


def test_a_local_function_is_decomposed_once_for_its_parameters(decompositions):
    grid = {"kernel_params": [{"scale": 0.1}, {"scale": 1.0}], "alpha": [0.1, 1.0, 10.0]}
    estimator = ours(kernel=lambda a, b, scale: np.exp(-scale * np.sum((a - b) ** 2)))
    KernelSearchCV(estimator, grid, refit=False).fit(X, y)
    assert len(decompositions) == 2


# Candidates that fail


def with_one_failure(**options):
    return KernelSearchCV(ours(1.0), [{"gamma": GAMMAS}, INDEFINITE], **options)


@pytest.mark.parametrize("cv", [None, 3])
def test_an_indefinite_candidate_gets_nan_and_the_others_go_on(cv):
    with (
        pytest.warns(UserWarning, match="non-finite"),
        pytest.warns(FitFailedWarning, match="not positive semi-definite"),
    ):
        search = with_one_failure(cv=cv).fit(X, y)
    score, rank = search.cv_results_["mean_test_score"], search.cv_results_["rank_test_score"]
    assert np.isnan(score).tolist() == [False, False, False, True]
    assert rank[3] == 4
    expected = KernelSearchCV(ours(1.0), {"gamma": GAMMAS}, cv=cv).fit(X, y)
    assert np.array_equal(score[:3], expected.cv_results_["mean_test_score"])
    assert search.best_params_ == expected.best_params_
    if cv is None:
        assert np.isnan(
            [search.cv_results_[name][3] for name in ("alpha", "noise_variance", "log_evidence")]
        ).all()


@pytest.mark.parametrize("scoring", [None, METRICS])
def test_an_indefinite_candidate_gets_the_number_asked_for(scoring):
    refit = "r2" if scoring else True
    with pytest.warns(FitFailedWarning, match="3 fits failed out of a total of 12"):
        search = with_one_failure(cv=3, error_score=-99.0, scoring=scoring, refit=refit).fit(X, y)
    names = scoring or ["score"]
    assert [search.cv_results_[f"mean_test_{name}"][3] for name in names] == [-99.0] * len(names)


@pytest.mark.parametrize("cv", [None, 3])
def test_an_indefinite_candidate_stops_the_search_on_request(cv):
    with pytest.raises(IndefiniteKernelError, match="smallest eigenvalue"):
        with_one_failure(cv=cv, error_score="raise").fit(X, y)


def test_an_indefinite_kernel_is_not_decomposed_for_every_alpha(decompositions):
    grid = [{"gamma": GAMMAS}, {**INDEFINITE, "alpha": [0.01, 0.1, 1.0, 10.0]}]
    with pytest.warns(FitFailedWarning, match="4 fits failed with the following error"):
        KernelSearchCV(ours(1.0), grid, refit=False, error_score=-99.0).fit(X, y)
    assert len(decompositions) == 4


def test_a_search_in_which_everything_fails_says_why():
    with pytest.raises(ValueError, match=r"(?s)All the 3 fits failed.*not positive semi-definite"):
        KernelSearchCV(ours(1.0), INDEFINITE, cv=3).fit(X, y)


def test_a_nan_score_ranks_last():
    def failing_for_small_gamma(estimator, X, y):
        return np.nan if estimator.gamma == GAMMAS[1] else estimator.score(X, y)

    with pytest.warns(UserWarning, match="non-finite"):
        search = KernelSearchCV(ours(1.0), {"gamma": GAMMAS}, cv=3, scoring=failing_for_small_gamma).fit(X, y)
    assert search.cv_results_["rank_test_score"][1] == 3


# Bad input is refused with a reason

BAD = {
    "unknown parameter": (ours(), {"gama": [1.0]}, {}, "Invalid parameter 'gama'.*Valid parameters"),
    "unknown step": (make_pipeline(ours()), {"ridge__gamma": [1.0]}, {}, "Invalid parameter 'ridge'"),
    "no values": (ours(), {"gamma": []}, {}, "'gamma' need.* a non-empty sequence"),
    "no candidates": (ours(), [], {}, "Were there no candidates"),
    "a distribution": (ours(), {"gamma": loguniform(0.1, 1)}, {}, "gamma are a distribution: pass n_iter"),
    "no draws": (ours(), {"gamma": GAMMAS}, {"n_iter": 0}, "'n_iter' parameter.*Got 0"),
    "half a draw": (ours(), {"gamma": GAMMAS}, {"n_iter": 1.5}, "'n_iter' parameter.*Got 1.5"),
    "no jobs": (ours(), {"gamma": GAMMAS}, {"n_jobs": 0}, "n_jobs == 0"),
    "jobs in words": (ours(), {"gamma": GAMMAS}, {"n_jobs": "all"}, "'n_jobs' parameter.*Got 'all'"),
    "grid of no kind": (ours(), "gamma", {}, "'param_grid' parameter.*Got 'gamma'"),
    "scores without folds": (ours(), GRID, {"scoring": "r2"}, "scoring='r2' needs folds.*Pass cv=5"),
    "train scores without folds": (ours(), GRID, {"return_train_score": True}, "needs folds: pass cv=5"),
    "two criteria": (ours(), {"criterion": ["gcv", "loo"]}, {}, r"criteria \(gcv, loo\) cannot be ranked"),
    "a criterion and the default": (ours(), [{"criterion": ["gcv"]}, GRID], {}, r"\(evidence, gcv\)"),
    "a criterion of no kind": (ours(), {"criterion": ["aic"]}, {}, "criterion='aic', which is none of these"),
    "no criterion": (KernelRidge(), GRID, {}, "KernelRidge has none. Use SpectralKernelRidge"),
    "a foreign criterion": (
        DecisionTreeRegressor(),
        {"max_depth": [1]},
        {},
        "DecisionTreeRegressor has criter",
    ),
    "too many folds": (ours(), GRID, {"cv": N + 1}, "Cannot have number of splits"),
    "unknown score": (ours(), GRID, {"cv": 3, "scoring": "r3"}, "'scoring' parameter.*Got 'r3'"),
}


@pytest.mark.parametrize(("estimator", "grid", "options", "reason"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_before_any_decomposition(estimator, grid, options, reason, decompositions):
    with pytest.raises(ValueError, match=f"(?s){reason}"):
        KernelSearchCV(estimator, grid, **options).fit(X, y)
    assert decompositions == []


def test_an_unknown_parameter_far_down_the_list_is_found_first(decompositions):
    with pytest.raises(ValueError, match="Invalid parameter 'gama'"):
        KernelSearchCV(ours(), [GRID, {"gama": [1.0]}], cv=3).fit(X, y)
    assert decompositions == []


def test_the_criterion_of_an_earlier_step_is_its_own_business():
    class Tree(StandardScaler):
        def __init__(self, criterion="gini"):
            super().__init__()
            self.criterion = criterion

    model = make_pipeline(Tree(), SpectralKernelRidge())
    search = KernelSearchCV(model, {"tree__criterion": ["gini", "entropy"]}).fit(X, y)
    assert len(search.cv_results_["params"]) == 2


def test_missing_targets_are_refused():
    with pytest.raises(ValueError, match="requires y"):
        KernelSearchCV(ours(), GRID).fit(X)


def test_a_wrong_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KernelSearchCV(ours(), GRID).fit(X, y[:-1])


# Jobs

GP = SpectralGPRegressor(optimizer=None)
JOBS = {
    "ridge, folds": (ours(), FEW_ALPHAS, 4),
    "ridge, criterion": (ours(), {"gamma": GAMMAS}, None),
    "process, folds": (GP, {"kernel": FAMILIES[:2], "criterion": CRITERIA}, 3),
}


@pytest.mark.parametrize(("estimator", "grid", "cv"), JOBS.values(), ids=JOBS)
@pytest.mark.parametrize("n_jobs", [2, -1])
def test_results_do_not_depend_on_the_number_of_jobs(estimator, grid, cv, n_jobs):
    with threadpool_limits(1, user_api="blas"):
        alone = KernelSearchCV(estimator, grid, cv=cv).fit(X, y)
        together = KernelSearchCV(estimator, grid, cv=cv, n_jobs=n_jobs).fit(X, y)
    for key, values in alone.cv_results_.items():
        if not key.endswith("_time"):
            assert list(together.cv_results_[key]) == list(values), key
    assert np.array_equal(together.predict(X), alone.predict(X))


@pytest.mark.parametrize("before", [1, 2])
def test_every_job_has_the_threads_of_blas_that_a_single_one_has(before):
    """LAPACK works for one of them at a time."""

    def blas_threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    seen = set()

    def score(estimator, X, y):
        seen.update(blas_threads())
        return 0.0

    with threadpool_limits(before, user_api="blas"):
        KernelSearchCV(ours(1.0), {"gamma": GAMMAS}, cv=3, n_jobs=2, scoring=score, refit=False).fit(X, y)
        assert blas_threads() == {before}
    assert max(seen) == before


def test_a_search_within_a_threaded_cross_validation_gives_the_same():
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS})
    with parallel_config(backend="threading"):
        assert np.array_equal(
            cross_val_score(search, X, y, cv=4, n_jobs=2), cross_val_score(search, X, y, cv=4, n_jobs=1)
        )


# A good citizen of scikit-learn


@pytest.mark.slow
@pytest.mark.parametrize(
    "search",
    [
        KernelSearchCV(SpectralKernelRidge(), {"gamma": [0.1, 1.0]}, error_score="raise"),
        KernelSearchCV(GP, {"criterion": ["evidence", "gcv"]}, cv=3, error_score="raise"),
    ],
    ids=["ridge, criterion", "process, folds"],
)
def test_estimator_checks(search):
    check_estimator(search, on_skip=None)


def test_the_fitted_search_delegates_to_the_best_estimator():
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}, cv=3).fit(X, y)
    best = search.best_estimator_
    assert isinstance(best, SpectralKernelRidge)
    assert best.gamma == search.best_params_["gamma"]
    assert np.array_equal(search.predict(X), best.predict(X))
    assert search.score(X, y) == best.score(X, y)
    assert search.n_features_in_ == 2
    assert search.refit_time_ >= 0
    assert is_regressor(search)
    assert not hasattr(search, "transform")


def test_an_unfitted_search_does_not_predict():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}).predict(X)


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize(
    "through", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy], ids=["pickle", "copy"]
)
def test_a_fitted_search_can_be_pickled_and_copied(cv, through):
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}, cv=cv).fit(X, y)
    other = through(search)
    assert np.allclose(other.predict(X), search.predict(X), rtol=1e-12)
    assert np.isclose(other.score(X, y), search.score(X, y), rtol=1e-12)
    assert other.cv_results_.keys() == search.cv_results_.keys()


def test_a_clone_has_the_parameters_and_nothing_learned():
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}, cv=3, n_iter=2, random_state=0).fit(
        X, y
    )
    other = clone(search)
    assert not hasattr(other, "cv_results_")
    assert other.get_params().keys() == search.get_params().keys()
    assert_same_results(other.fit(X, y).cv_results_, search.cv_results_)


def test_nothing_that_was_passed_is_changed():
    estimator, grid = SpectralKernelRidge(gamma=7.0), {"gamma": list(GAMMAS)}
    KernelSearchCV(estimator, grid).fit(X, y)
    assert vars(estimator) == vars(SpectralKernelRidge(gamma=7.0))
    assert grid == {"gamma": GAMMAS}


@pytest.mark.parametrize("cv", [None, 3])
def test_data_frames_keep_their_names(cv):
    frame = pd.DataFrame(X, columns=["north", "east"])
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}, cv=cv).fit(frame, pd.Series(y))
    assert search.feature_names_in_.tolist() == ["north", "east"]
    assert np.array_equal(search.predict(frame), search.best_estimator_.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        search.predict(frame.rename(columns={"east": "west"}))


@pytest.mark.parametrize("cv", [None, 3])
def test_rows_may_be_lists(cv):
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}, cv=cv)
    assert search.fit(X.tolist(), y.tolist()).best_score_ == clone(search).fit(X, y).best_score_


def test_a_random_source_given_by_seed_is_left_as_it_is():
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": loguniform(0.01, 1)}, n_iter=3, random_state=1)
    assert search.fit(X, y).cv_results_["params"] == search.fit(X, y).cv_results_["params"]


@pytest.mark.parametrize("fitted", [False, True])
def test_the_representations_show_the_estimator(fitted):
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS})
    shown = search.fit(X, y) if fitted else search
    assert "SpectralKernelRidge" in repr(shown)
    html = shown._repr_html_()
    assert "KernelSearchCV" in html
    assert ("best_estimator_" in html) == fitted


def test_weights_and_groups_are_routed_where_they_are_requested():
    with sklearn.config_context(enable_metadata_routing=True):
        ridge = ours().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        peer = theirs().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        metadata = {"sample_weight": WEIGHT, "groups": GROUPS}
        search = KernelSearchCV(ridge, GRID, cv=GroupKFold(3)).fit(X, y, **metadata)
        grid = GridSearchCV(peer, GRID, cv=GroupKFold(3)).fit(X, y, **metadata)
        assert_same_results(search.cv_results_, grid.cv_results_)


def test_weights_are_routed_through_a_pipeline_without_folds():
    plain = KernelSearchCV(ours(), {"gamma": GAMMAS}).fit(X, y, sample_weight=WEIGHT)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = Pipeline([("ridge", ours().set_fit_request(sample_weight=True))])
        search = KernelSearchCV(pipeline, {"ridge__gamma": GAMMAS}).fit(X, y, sample_weight=WEIGHT)
    assert np.array_equal(search.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_weights_nobody_requested_are_refused_by_the_routing():
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.raises(ValueError, match=r"sample_weight.* not explicitly set"),
    ):
        KernelSearchCV(ours(), {"gamma": GAMMAS}).fit(X, y, sample_weight=WEIGHT)


# How a search is watched, and what is then printed; scikit-learn has callbacks since 1.9.
WATCHES = {"not at all": (lambda search: search, "")}
if parse_version(sklearn.__version__) >= parse_version("1.9"):
    from sklearn.callback import ProgressBar

    done = r"KernelSearchCV - fit .*100%(?s:.*)KernelSearchCV - search #0 .*100%"
    for depth in (0, 1):
        bar = partial(ProgressBar, max_propagation_depth=depth)
        WATCHES[f"bar of depth {depth}"] = (lambda search, bar=bar: search.set_callbacks(bar()), done)


@pytest.mark.filterwarnings("ignore:The estimator SpectralKernelRidge does not support callbacks")
@pytest.mark.parametrize(("watch", "printed"), WATCHES.values(), ids=WATCHES)
@pytest.mark.parametrize(
    "options", [{}, {"cv": 3}, {"cv": 3, "n_jobs": 2}, {"cv": 3, "refit": False}], ids=str
)
def test_a_search_can_be_watched(watch, printed, options, capsys):
    search = watch(KernelSearchCV(ours(), GRID, **options)).fit(X, y)
    expected = KernelSearchCV(ours(), GRID, **options).fit(X, y)
    assert np.array_equal(search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert re.search(printed, capsys.readouterr().out)


def test_crude_factors_are_ranked_by_what_is_certain_of_their_evidence():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=300)
    grid = [{"method": ["exact"]}, {"rank": [10, 50]}, {"selection": ["greedy"]}]
    search = KernelSearchCV(SpectralKernelRidge(gamma=0.5), grid).fit(X, y)
    assert search.best_params_ == {"method": "exact"}
    exact = search.cv_results_["log_evidence"][0]
    assert (search.cv_results_["mean_test_score"] <= exact + 1e-2).all()


@pytest.mark.filterwarnings("ignore::skspectral.NoiseResolutionWarning")  # of the longest length
def test_constant_targets_do_not_hide_the_others():
    rng = np.random.default_rng(2)
    inputs = rng.uniform(-3, 3, (150, 2))
    targets = np.column_stack([np.sin(2 * inputs[:, 0]) + 0.2 * rng.normal(size=150), np.full(150, 2.5)])
    grid = {"gamma": [1e-3, 0.1, 1.0, 100.0]}
    alone, beside = (
        KernelSearchCV(SpectralKernelRidge(), grid).fit(inputs, each) for each in (targets[:, :1], targets)
    )
    assert beside.best_params_ == alone.best_params_
    assert beside.best_score_ == pytest.approx(alone.best_score_)
