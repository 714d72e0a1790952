"""The search with folds: one task for each kernel and split, and the answers of GridSearchCV."""

import re
from functools import partial
from itertools import chain

import numpy as np
import pytest
import sklearn
from problems import smooth
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import get_scorer, make_scorer, mean_pinball_loss, mean_squared_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut, ShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from test_search import assert_same_results
from threadpoolctl import threadpool_info, threadpool_limits

import skspectral.linalg.spectrum
import skspectral.linalg.tridiagonal
from skspectral import IndefiniteKernelError, KernelSearchCV, SpectralGPRegressor, SpectralKernelRidge
from skspectral.linalg.held_out import held_out_means
from skspectral.linalg.spectrum import Spectrum
from skspectral.linalg.tridiagonal import Tridiagonal
from skspectral.models.penalties import HeldOut
from skspectral.search.scoring import looks_at_predictions_alone, scores_at_once

N = 30
X, y = smooth(3, n=N)
Y = smooth(4, n=N, m=3)[1]
WEIGHT = np.random.default_rng(5).uniform(0.2, 2.0, N)
ABSENT = np.where(np.arange(N) % 7 == 0, 0.0, WEIGHT)
ONES = np.ones((N, 1))
ALPHAS = [0.05, 0.3, 2.0]
GAMMAS = [0.1, 0.8]
GRID = {"alpha": ALPHAS, "gamma": GAMMAS}


# References: dense, and as the definitions say


def ridge(K, Y, alpha, weight, basis):
    """Return dual and mean coefficients: the saddle point system of the weighted ridge."""
    n, q = basis.shape
    system = np.block([[K + alpha * np.diag(1 / weight), basis], [basis.T, np.zeros((q, q))]])
    solution = np.linalg.solve(system, np.concatenate([Y, np.zeros((q, Y.shape[1]))]))
    return solution[:n], solution[n:]


def weights_and_bases():
    return [
        pytest.param(weight, basis, id=f"{name}, {mean}")
        for name, weight in (("equal", np.ones(N)), ("weights", WEIGHT))
        for mean, basis in (("no mean", ONES[:, :0]), ("intercept", ONES), ("line", np.c_[ONES, X[:, :1]]))
    ]


@pytest.mark.parametrize(("weight", "basis"), weights_and_bases())
def test_a_tridiagonal_form_gives_the_ridges_of_all_penalties(weight, basis):
    K, ratios = rbf_kernel(X, gamma=0.5), np.array([[0.01, 0.1, 1.0], [3.0, 0.1, 0.1]])
    form = Tridiagonal.from_gram(K.copy(), basis if basis.shape[1] else None, weight)
    dual, beta = form.ridge(Y, ratios)
    for column, (ratio, output) in enumerate(zip(ratios.ravel(), [0, 1, 2, 0, 1, 2], strict=True)):
        expected, mean = ridge(K, Y[:, [output]], ratio, weight, basis)
        assert np.allclose(dual[:, [column]], expected, rtol=1e-8, atol=1e-9)
        assert np.allclose(beta[:, [column]], mean, rtol=1e-8, atol=1e-9)


def test_a_tridiagonal_form_resolves_and_refuses_what_a_spectrum_does():
    K = rbf_kernel(X, gamma=0.5)
    for basis in (None, ONES):
        assert Tridiagonal.from_gram(K.copy(), basis).resolution == pytest.approx(
            Spectrum.from_gram(K, basis).resolution, rel=1e-9, abs=0.0
        )
    errors = []
    for decompose in (Spectrum.from_gram, Tridiagonal.from_gram):
        with pytest.raises(IndefiniteKernelError) as error:
            decompose(K - 0.5 * np.eye(N))
        errors.append(str(error.value))
        with pytest.raises(ValueError, match="NaN or infinite"):
            decompose(np.where(np.eye(N) > 0, np.nan, K))
    assert errors[0] == errors[1]


@pytest.mark.parametrize(("weight", "basis"), weights_and_bases())
@pytest.mark.parametrize("rank", [None, 6])
def test_held_out_means_are_those_of_fits_without_the_rows(weight, basis, rank):
    Phi = np.random.default_rng(0).normal(size=(N, rank or 1))
    K = rbf_kernel(X, gamma=0.5) if rank is None else Phi @ Phi.T
    mean = basis if basis.shape[1] else None
    spectrum = (
        Spectrum.from_gram(K, mean, weight) if rank is None else Spectrum.from_factor(Phi, mean, weight)
    )
    ratios, rotated = np.array([0.02, 1.0]), spectrum.rotate(Y)
    for block in (np.array([7]), np.array([2, 28, 3, 11])):
        rest = np.setdiff1d(np.arange(N), block)
        means = held_out_means(rotated, ratios, block)
        for ratio, found in zip(ratios, means, strict=True):
            dual, beta = ridge(K[np.ix_(rest, rest)], Y[rest], ratio, weight[rest], basis[rest])
            assert np.allclose(found, K[np.ix_(block, rest)] @ dual + basis[block] @ beta, rtol=1e-7)


@pytest.mark.parametrize(
    ("n", "k", "n_alphas", "is_cheaper"), [(100, 100, 30, True), (1000, 5, 30, False), (1000, 6, 1, True)]
)
def test_the_predicted_cost_decides_between_all_rows_and_folds(n, k, n_alphas, is_cheaper):
    held_out = HeldOut(None, np.zeros(n), np.ones(n_alphas))
    blocks = np.array_split(np.arange(n), k)
    assert held_out.is_cheaper(blocks) == is_cheaper


# The search, beside GridSearchCV with the same estimator


@pytest.fixture
def matrices(monkeypatch):
    """Numbers of rows of the matrices brought to tridiagonal form, and of those decomposed."""
    rows = {"tridiagonal": [], "spectrum": []}

    def counted(K, *args, original, kind, **kwargs):
        rows[kind].append(len(K))
        return original(K, *args, **kwargs)

    for room, name in (
        (skspectral.linalg.tridiagonal, "dsytrd"),
        (skspectral.linalg.spectrum, "symmetric_eigen"),
    ):
        kind = room.__name__.rpartition(".")[2]
        monkeypatch.setattr(room, name, partial(counted, original=getattr(room, name), kind=kind))
    return rows


class Centred(TransformerMixin, BaseEstimator):
    """A step that learns the mean, with a parameter of its own."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return self.factor * (X - self.mean_)


def ours(alpha="auto", **params):
    return SpectralKernelRidge(alpha, **params)


def largest_residual(estimator, X, y):
    """Score by something that only the fitted model knows."""
    return -np.abs(y - estimator.predict(X)).max() + 1e-3 * np.sum(getattr(estimator, "log_evidence_", 0.0))


PRECOMPUTED = rbf_kernel(X, gamma=0.5)
IN_STEPS = {"ridge__alpha": ALPHAS, "ridge__gamma": GAMMAS}
LEARNING = Pipeline([("scale", StandardScaler()), ("centre", Centred()), ("ridge", ours())])
FIXED = Pipeline([("twice", FunctionTransformer(np.cbrt)), ("pass", "passthrough"), ("ridge", ours())])
NESTED = make_pipeline(Centred(), make_pipeline(FunctionTransformer(), ours()))
METRICS = {"r2": "r2", "squares": "neg_mean_squared_error", "worst": "neg_max_error"}

# estimator, grid, X, y, options, parameters of fit, matrices without refit (to tridiagonal form, decomposed)
CASES = {
    "ridge": (ours(), GRID, X, y, {}, {}, (6, 0)),
    "no intercept": (ours(fit_intercept=False), GRID, X, y, {}, {}, (6, 0)),
    "weights": (ours(), GRID, X, y, {}, {"sample_weight": WEIGHT}, (6, 0)),
    "absent rows": (ours(), GRID, X, y, {}, {"sample_weight": ABSENT}, (0, 6)),
    "several outputs": (ours(), GRID, X, Y, {}, {}, (6, 0)),
    "alphas by output": (ours(), {"alpha": [[1, 2, 3], 0.5], "gamma": GAMMAS}, X, Y, {}, {}, (6, 0)),
    "a column": (ours(), GRID, X, y[:, None], {}, {}, (6, 0)),
    "sparse": (ours(), GRID, csr_array(np.where(X > 0.5, X, 0)), y, {}, {}, (6, 0)),
    "lists": (ours(), GRID, X.tolist(), y.tolist(), {}, {}, (6, 0)),
    "precomputed": (ours(kernel="precomputed"), {"alpha": ALPHAS}, PRECOMPUTED, y, {}, {}, (3, 0)),
    "one alpha": (ours(0.1), {"gamma": GAMMAS}, X, y, {"cv": 2}, {}, (4, 0)),
    "train scores": (ours(), GRID, X, y, {"return_train_score": True}, {}, (6, 0)),
    "metrics": (ours(), GRID, X, y, {"scoring": METRICS, "refit": "r2"}, {}, (6, 0)),
    "metrics of outputs": (
        ours(),
        GRID,
        X,
        Y,
        {"scoring": ["r2", "neg_median_absolute_error"], "refit": "r2"},
        {},
        (6, 0),
    ),
    "one metric": (ours(), GRID, X, y, {"scoring": "neg_mean_absolute_percentage_error"}, {}, (6, 0)),
    "own metric": (ours(), GRID, X, y, {"scoring": make_scorer(mean_pinball_loss, alpha=0.2)}, {}, (6, 0)),
    "own scorer": (ours(), GRID, X, y, {"scoring": largest_residual}, {}, (0, 6)),
    "choice": (ours(), GRID, X, y, {"refit": lambda results: 3}, {}, (6, 0)),
    "groups": (ours(), GRID, X, y, {"cv": GroupKFold(3)}, {"groups": np.arange(N) % 5}, (6, 0)),
    "repeated draws": (ours(), GRID, X, y, {"cv": ShuffleSplit(3, random_state=0)}, {}, (6, 0)),
    "rows left out": (
        ours(),
        GRID,
        X,
        y,
        {"cv": ShuffleSplit(9, test_size=4, train_size=20, random_state=0)},
        {},
        (18, 0),
    ),
    "leave one out": (ours(), GRID, X, y, {"cv": LeaveOneOut(), "scoring": METRICS["squares"]}, {}, (0, 2)),
    "many folds": (ours(), GRID, X, Y, {"cv": 10}, {"sample_weight": WEIGHT}, (0, 2)),
    "masks": (ours(), GRID, X, y, {"cv": [(np.arange(N) % 3 > 0, np.arange(N) % 3 == 0)]}, {}, (2, 0)),
    "tiny alphas": (ours(), {"alpha": [1e-11, 1.0]}, X, y, {}, {}, (3, 3)),
    "many folds, tiny alphas": (ours(), {"alpha": [5e-7, 1.0]}, X, y, {"cv": 10}, {}, (10, 1)),
    "two grids": (ours(0.7), [GRID, {"gamma": GAMMAS}], X, y, {}, {}, (6, 0)),
    "criteria": (ours(), {"criterion": ["gcv", "loo"], "gamma": GAMMAS}, X, y, {}, {}, (0, 6)),
    "tuned and given": (ours(), {"alpha": ["auto", 1.0], "gamma": GAMMAS}, X, y, {}, {}, (0, 6)),
    "linear": (ours(kernel="linear"), {"alpha": ALPHAS}, X, y, {}, {}, (0, 0)),
    "learning steps": (LEARNING, IN_STEPS | {"centre__factor": [1.0, 2.0]}, X, y, {}, {}, (12, 0)),
    "learning steps, many folds": (LEARNING, IN_STEPS, X, y, {"cv": 10}, {}, (20, 0)),
    "fixed steps": (FIXED, IN_STEPS, X, y, {}, {}, (6, 0)),
    "fixed steps, many folds": (FIXED, IN_STEPS, X, y, {"cv": 10}, {"ridge__sample_weight": WEIGHT}, (0, 2)),
    "steps, metrics": (LEARNING, IN_STEPS, X, y, {"scoring": METRICS, "refit": False}, {}, (6, 0)),
    "steps, own scorer": (LEARNING, IN_STEPS, X, y, {"scoring": largest_residual}, {}, (0, 6)),
    "steps in steps": (
        NESTED,
        {"pipeline__spectralkernelridge__alpha": ALPHAS, "centred__factor": [0.5, 1.0]},
        X,
        y,
        {"return_train_score": True},
        {},
        (6, 0),
    ),
    "another last step": (
        LEARNING,
        {"ridge": [ours(), KernelRidge(kernel="rbf")], "ridge__alpha": ALPHAS},
        X,
        y,
        {},
        {},
        (3, 0),
    ),
    "processes": (
        SpectralGPRegressor(optimizer=None),
        {"kernel": [RBF(), ConstantKernel() * RBF(2.0) + WhiteKernel()], "criterion": ["evidence", "loo"]},
        X,
        y,
        {},
        {},
        (0, 6),
    ),
    "averaged processes": (
        SpectralGPRegressor(RBF(0.7, "fixed")),
        {"inference": ["maximize", "integrate"]},
        X,
        y,
        {"scoring": "neg_mean_squared_error"},
        {},
        (0, 3),
    ),
}


@pytest.mark.parametrize(
    ("estimator", "grid", "X", "y", "options", "params", "expected"), CASES.values(), ids=CASES
)
def test_results_are_those_of_grid_search(estimator, grid, X, y, options, params, expected, matrices):
    options = {"cv": KFold(3)} | options
    search = KernelSearchCV(clone(estimator), grid, **options | {"refit": False}).fit(X, y, **params)
    assert tuple(map(len, matrices.values())) == expected
    search = KernelSearchCV(clone(estimator), grid, **options).fit(X, y, **params)
    peer = GridSearchCV(clone(estimator), grid, **options).fit(X, y, **params)
    assert_same_results(search.cv_results_, peer.cv_results_, tolerance=1e-7)
    for name in ("best_index_", "best_params_", "n_splits_", "multimetric_"):
        assert getattr(search, name, None) == getattr(peer, name, None)
    if hasattr(peer, "predict"):
        assert np.array_equal(search.predict(X), peer.predict(X))


# What fails, what is printed, what is routed


class Refusing(Centred):
    """A step that fails on some rows."""

    def fit(self, X, y=None):
        if len(X) < 20 and self.factor > 1:
            raise ValueError(f"too few rows for a factor of {self.factor}")
        return super().fit(X, y)


SOME_FAIL = {
    "bad alphas": (ours(), {"alpha": [-1.0, 0.5, [1.0, 2.0]], "gamma": GAMMAS}, 12),
    "bad settings": (ours(), [{"criterion": ["aic", "gcv"]}, {"alpha_per_target": ["no", True]}], 6),
    "a bad kernel": (
        ours(0.1),
        [{"gamma": [1.0]}, {"kernel": ["sigmoid"], "gamma": [2.0], "coef0": [-2.0]}],
        3,
    ),
    "a bad step": (
        Pipeline([("step", Refusing()), ("ridge", ours())]),
        {"step__factor": [1.0, 2.0], "ridge__alpha": [0.1, "auto"]},
        4,
    ),
}


@pytest.mark.parametrize(("estimator", "grid", "n_failed"), SOME_FAIL.values(), ids=SOME_FAIL)
@pytest.mark.parametrize("error_score", [np.nan, -7.0])
@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_candidates_that_fail_are_told_as_in_grid_search(estimator, grid, n_failed, error_score):
    cv = [
        (np.arange(10, N), np.arange(10)),
        (np.arange(N - 11), np.arange(N - 11, N)),
        (np.arange(15), [20, 21]),
    ]
    results = []
    for kind in (KernelSearchCV, GridSearchCV):
        search = kind(estimator, grid, cv=cv, error_score=error_score, scoring="neg_mean_squared_error")
        with pytest.warns(FitFailedWarning, match=f"{n_failed} fits failed out of a total of") as warned:
            results.append(search.fit(X, y).cv_results_)
        reasons = [
            re.findall(r"^\w*(?:Error|Exception)\S*: .*", str(w.message), re.MULTILINE) for w in warned
        ]
        results.append(sorted(chain.from_iterable(reasons)))
    assert results[1] == results[3]
    for result in results[::2]:
        result["param_alpha"] = result["params"] = np.ma.array([0])  # lists are not compared
    assert_same_results(results[0], results[2])


@pytest.mark.parametrize(("estimator", "grid", "n_failed"), SOME_FAIL.values(), ids=SOME_FAIL)
def test_the_first_failure_stops_the_search_on_request(estimator, grid, n_failed):
    raised = []
    for kind in (KernelSearchCV, GridSearchCV):
        with pytest.raises(ValueError, match=r"alpha|parameter|semi-definite|too few rows") as error:
            kind(estimator, grid, cv=2, error_score="raise").fit(X, y)
        raised.append((type(error.value), str(error.value)))
    assert raised[0] == raised[1]


def test_a_metric_that_fails_is_told_as_in_grid_search():
    def refuses(y, prediction):
        if prediction.mean() > 1e9 or len(y) == 10:
            raise ValueError("no")
        return 1.0

    results = []
    for kind in (KernelSearchCV, GridSearchCV):
        scoring = {"own": make_scorer(refuses), "r2": "r2"}
        search = kind(ours(), GRID, cv=[(np.arange(15), np.arange(15, 25)), (np.arange(9), [20, 21])])
        with pytest.warns(UserWarning, match="Scoring failed"):
            search.set_params(scoring=scoring, refit="r2", error_score=-1.0).fit(X, y)
        results.append(search.cv_results_)
    assert_same_results(*results)
    assert results[0]["split0_test_own"].tolist() == [-1.0] * 6


@pytest.mark.parametrize("scoring", [None, METRICS])
def test_what_is_printed_about_single_fits_has_their_scores(scoring, capsys):
    lines = []
    for kind in (KernelSearchCV, GridSearchCV):
        search = kind(ours(), GRID, cv=3, verbose=10, scoring=scoring, refit=False, return_train_score=True)
        search.fit(X, y)
        lines.append(re.sub(r"\.{2,}|total time=.*", "", capsys.readouterr().out))
    assert lines[0] == lines[1]
    assert "train=" in lines[0]


@pytest.mark.parametrize("estimator", [ours(), Pipeline([("centre", Centred()), ("ridge", ours())])])
def test_weights_are_routed_to_fits_and_scores(estimator, matrices):
    prefix = "ridge__" if isinstance(estimator, Pipeline) else ""
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = clone(estimator)
        ridge = estimator[-1] if prefix else estimator
        ridge.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        metric = make_scorer(mean_squared_error, greater_is_better=False).set_score_request(
            sample_weight=True
        )
        for scoring in (metric,) if prefix else (metric, None):
            results = [
                kind(estimator, {prefix + "alpha": ALPHAS}, cv=GroupKFold(3), scoring=scoring, refit=False)
                .fit(X, y, sample_weight=WEIGHT, groups=np.arange(N) % 6)
                .cv_results_
                for kind in (KernelSearchCV, GridSearchCV)
            ]
            assert_same_results(*results)
    assert len(matrices["tridiagonal"]) == 3 if prefix else 2 * 3


@pytest.mark.parametrize(("k", "expected"), [(3, (6, 0)), (10, (0, 2))])
def test_given_alphas_are_exact_where_tuned_ones_may_take_a_factor(k, expected, matrices, monkeypatch):
    monkeypatch.setattr("skspectral.decomposition.plan.SMALLEST_N", 10)
    KernelSearchCV(ours(), GRID, cv=k, refit=False).fit(X, y)
    assert tuple(map(len, matrices.values())) == expected


def test_steps_before_the_last_are_fitted_once_for_each_kernel_and_split():
    fits = []

    class Counted(Centred):
        def fit(self, X, y=None):
            fits.append(len(X))
            return super().fit(X, y)

    model = Pipeline([("step", Counted()), ("ridge", ours())])
    KernelSearchCV(model, IN_STEPS, cv=3, refit=False).fit(X, y)
    assert fits == [20] * 3 * len(GAMMAS)


def test_times_are_those_of_a_task_shared_by_its_candidates():
    results = KernelSearchCV(ours(), {"alpha": ALPHAS}, cv=3).fit(X, y).cv_results_
    for name in ("mean_fit_time", "mean_score_time"):
        assert (results[name] > 0).all()
        assert np.ptp(results[name]) == pytest.approx(0.0, abs=1e-12)


# Scorers


SCORERS = ["r2", "explained_variance", "neg_mean_squared_error", "neg_root_mean_squared_error"]
SCORERS += ["neg_mean_absolute_error", "neg_median_absolute_error", "d2_absolute_error_score", "max_error"]


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("targets", [y, y[:, None], Y], ids=["one", "column", "three"])
@pytest.mark.parametrize("params", [{}, {"sample_weight": WEIGHT}], ids=["equal", "weights"])
def test_scores_at_once_are_those_one_after_the_other(name, targets, params):
    scorer = get_scorer(f"neg_{name}" if name == "max_error" else name)
    predictions = [
        targets + scale * np.cos(np.arange(targets.size)).reshape(targets.shape) for scale in (0.0, 0.3, 2)
    ]

    class Model(KernelRidge):
        def predict(self, X):
            return self.alpha

    found = scores_at_once(scorer, targets, predictions, params)
    if name == "max_error":
        assert found is None
        return
    expected = [scorer(Model(alpha=prediction), X, targets, **params) for prediction in predictions]
    assert np.allclose(found, expected, rtol=1e-12)


def test_scorers_that_look_at_more_than_predictions_are_told_apart():
    class Own(SpectralKernelRidge):
        def score(self, X, y):
            return self.alpha_

    model = ours()
    passing = sklearn.metrics.check_scoring(model)
    assert looks_at_predictions_alone(passing, model)
    assert not looks_at_predictions_alone(passing, Own())
    assert looks_at_predictions_alone(get_scorer("r2"), model)
    assert not looks_at_predictions_alone(largest_residual, model)
    assert not looks_at_predictions_alone(
        make_scorer(mean_squared_error, response_method="decision_function"), model
    )
    search = KernelSearchCV(Own(), {"alpha": ALPHAS}, cv=2).fit(X, y)
    assert search.cv_results_["mean_test_score"].tolist() == ALPHAS


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_a_tridiagonal_form_keeps_its_digits_whatever_the_size_of_the_kernel(size):
    K, ratios = size * rbf_kernel(X, gamma=0.5), size * np.array([[0.1, 0.1, 0.1]])
    dual, beta = Tridiagonal.from_gram(K.copy(), ONES, np.ones(N)).ridge(Y, ratios)
    for output in range(3):
        expected, mean = ridge(K, Y[:, [output]], ratios[0, 0], np.ones(N), ONES)
        assert np.allclose(size * dual[:, [output]], size * expected, rtol=1e-8, atol=1e-9)
        assert np.allclose(beta[:, [output]], mean, rtol=1e-8, atol=1e-9)


# How much of BLAS works on a split

# The last row is in none of them, so that no decomposition of all rows serves them.
SPLITS = [(np.setdiff1d(np.arange(N - 1), test), test) for test in np.split(np.arange(20), 4)]


@pytest.mark.parametrize(
    ("step", "cv", "n_matrices"),
    [(StandardScaler(), SPLITS, 4), (FunctionTransformer(), LeaveOneOut(), 1)],
    ids=["each split", "all at once"],
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_matrices_are_decomposed_while_no_other_threads_are_in_the_way(
    step, cv, n_matrices, n_jobs, monkeypatch
):
    """In a Pipeline, too, and whatever the number of jobs."""
    seen, make, rotate = [], Tridiagonal.from_gram.__func__, Spectrum.rotate

    def blas_threads():
        return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")

    def watched(cls, *args, **kwargs):
        seen.append(blas_threads())
        return make(cls, *args, **kwargs)

    def rotated(*args):
        seen.append(blas_threads())
        return rotate(*args)

    monkeypatch.setattr(Tridiagonal, "from_gram", classmethod(watched))
    monkeypatch.setattr(Spectrum, "rotate", rotated)
    grid = {f"spectralkernelridge__{name}": values for name, values in GRID.items()}
    with threadpool_limits(2):
        model = make_pipeline(step, SpectralKernelRidge())
        KernelSearchCV(model, grid, cv=cv, refit=False, n_jobs=n_jobs, scoring="neg_mean_squared_error").fit(
            X, y
        )
        assert blas_threads() == 2
    assert seen == [1] * len(GAMMAS) * n_matrices


@pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
def test_an_indefinite_kernel_fails_on_its_own_split_alone():
    def kernel(a, b):
        return float(np.exp(-np.sum((a - b) ** 2))) - 3.0 * (a[0] == X[0, 0]) * (b[0] == X[0, 0])

    cv = [(np.arange(10, 29), np.arange(10)), (np.arange(20), np.arange(20, 29))]  # the second has row 0
    search = KernelSearchCV(SpectralKernelRidge(kernel=kernel), {"alpha": ALPHAS}, cv=cv, refit=False)
    with pytest.warns(FitFailedWarning, match="3 fits failed"):
        search.fit(X, y)
    assert np.isfinite(search.cv_results_["split0_test_score"]).all()
    assert np.isnan(search.cv_results_["split1_test_score"]).all()
