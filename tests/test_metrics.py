"""Scores of predictive distributions against their definitions, and scorers in scikit-learn's tools."""

import pickle

import numpy as np
import pytest
import sklearn
from problems import smooth
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skspectral import KernelSearchCV, SpectralGPRegressor, SpectralKernelRidge, load_motorcycle, metrics

GP = SpectralGPRegressor(RBF(1.0), optimizer=None)
GPR = GaussianProcessRegressor(ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.1), optimizer=None)
FUNCTIONS = {
    "neg_mean_log_loss": (metrics.mean_log_loss, -1),
    "neg_mean_crps": (metrics.mean_crps, -1),
    "neg_mean_interval_width": (metrics.mean_interval_width, -1),
    "interval_coverage_scorer": (metrics.interval_coverage, 1),
}
each_function = pytest.mark.parametrize("function", [f for f, _ in FUNCTIONS.values()])
each_scorer = pytest.mark.parametrize("name", [*FUNCTIONS, "neg_mean_standardized_log_loss"])


def predictions(m=None, n=7, seed=3):
    rng = np.random.default_rng(seed)
    shape = n if m is None else (n, m)
    return rng.normal(size=shape), rng.normal(size=shape), rng.uniform(0.3, 2.0, shape)


def crps_by_quadrature(y, mean, std):
    below = quad(lambda t: norm.cdf(t, mean, std) ** 2, -30, y)[0]
    return below + quad(lambda t: norm.sf(t, mean, std) ** 2, y, 30)[0]


def test_the_log_loss_is_minus_the_mean_normal_log_density():
    y, mean, std = predictions()
    np.testing.assert_allclose(metrics.mean_log_loss(y, mean, std), -norm(mean, std).logpdf(y).mean())


def test_the_crps_is_the_integral_of_its_definition():
    y, mean, std = predictions(n=4)
    each = [crps_by_quadrature(*row) for row in zip(y, mean, std, strict=True)]
    np.testing.assert_allclose(metrics.mean_crps(y, mean, std), np.mean(each), rtol=1e-7)


def test_the_crps_of_a_certain_prediction_is_its_absolute_error():
    assert metrics.mean_crps([1.0, 2.0], [1.5, 0.0], [0.0, 0.0]) == 1.25


def test_coverage_and_width_are_those_of_normal_intervals():
    y, mean, std = predictions(n=50)
    lower, upper = norm(mean, std).interval(0.6)
    inside = (lower < y) & (y < upper)
    np.testing.assert_allclose(metrics.interval_coverage(y, mean, std, coverage=0.6), inside.mean())
    np.testing.assert_allclose(
        metrics.mean_interval_width(y, mean, std, coverage=0.6), (upper - lower).mean()
    )


def test_the_standardised_log_loss_compares_with_a_normal_of_the_training_targets():
    y, mean, std = predictions()
    y_train = np.random.default_rng(0).normal(2, 3, 20)
    trivial = -norm(y_train.mean(), y_train.std()).logpdf(y).mean()
    value = metrics.mean_standardized_log_loss(y, mean, std, y_train=y_train)
    np.testing.assert_allclose(value, metrics.mean_log_loss(y, mean, std) - trivial)


def test_a_standard_deviation_of_zero_gives_the_limits_of_the_log_loss():
    assert metrics.mean_log_loss([1.0], [1.0], [0.0]) == -np.inf
    assert metrics.mean_log_loss([1.0], [2.0], [0.0]) == np.inf
    assert metrics.mean_log_loss([1.0], [2.0], [np.inf]) == np.inf


@each_function
def test_several_outputs_are_averaged_or_returned_one_by_one(function):
    y, mean, std = predictions(m=3)
    raw = function(y, mean, std, multioutput="raw_values")
    alone = [function(y[:, j], mean[:, j], std[:, j]) for j in range(3)]
    np.testing.assert_allclose(raw, alone)
    np.testing.assert_allclose(function(y, mean, std), np.mean(alone))


@each_function
def test_integer_weights_equal_repetition(function):
    y, mean, std = predictions()
    weight = np.array([1, 2, 0, 3, 1, 1, 4])
    repeated = (np.repeat(values, weight) for values in (y, mean, std))
    np.testing.assert_allclose(function(y, mean, std, sample_weight=weight), function(*repeated))


@each_function
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"std": [-1.0, 1.0]}, "std must not be negative, the smallest is -1"),
        ({"std": [1.0]}, "must have one shape"),
        ({"mean": [np.nan, 0.0]}, "NaN"),
        ({"std": [np.nan, 0.0]}, "NaN"),
        ({"y_true": np.zeros((2, 1, 1))}, "dim"),
        ({"multioutput": "sum"}, "multioutput must be"),
        ({"sample_weight": [1.0]}, "inconsistent numbers"),
    ],
)
def test_bad_input_to_a_score_is_refused(function, change, message):
    arguments = {"y_true": [0.0, 1.0], "mean": [0.0, 0.0], "std": [1.0, 1.0]} | change
    with pytest.raises(ValueError, match=message):
        function(**arguments)


@pytest.mark.parametrize("function", [metrics.interval_coverage, metrics.mean_interval_width])
@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.5, 95, np.nan, "0.95"])
def test_a_coverage_outside_the_unit_interval_is_refused(function, coverage):
    with pytest.raises(ValueError, match="coverage must be a number strictly between 0 and 1"):
        function([0.0], [0.0], [1.0], coverage=coverage)


def test_the_standardised_log_loss_refuses_training_targets_that_cannot_standardise():
    with pytest.raises(ValueError, match="constant"):
        metrics.mean_standardized_log_loss([0.0], [0.0], [1.0], y_train=[2.0, 2.0])
    with pytest.raises(ValueError, match=r"2 output\(s\) but y_true has 1"):
        metrics.mean_standardized_log_loss([0.0], [0.0], [1.0], y_train=[[2.0, 1.0], [1.0, 3.0]])


@pytest.mark.parametrize("model", [GP, GPR, BayesianRidge()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_scorers_are_the_functions_of_the_models_own_predictions(model, name):
    X, y = smooth(n=30)
    model = sklearn.clone(model).fit(X[:20], y[:20])
    function, sign = FUNCTIONS[name]
    expected = sign * function(y[20:], *model.predict(X[20:], return_std=True))
    assert getattr(metrics, name)(model, X[20:], y[20:]) == expected


@pytest.mark.parametrize("m", [None, 1, 3])
@pytest.mark.parametrize("model", [GP, GPR], ids=lambda m: type(m).__name__)
@each_scorer
def test_scorers_work_through_pipelines_for_any_number_of_outputs(name, model, m):
    X, Y = smooth(n=40, m=m)
    pipeline = make_pipeline(StandardScaler(), sklearn.clone(model))
    values = cross_val_score(pipeline, X, Y, scoring=getattr(metrics, name), cv=3, error_score="raise")
    assert values.shape == (3,)
    assert np.isfinite(values).all()


def test_a_scorer_of_a_pipeline_is_that_of_its_last_step_on_transformed_inputs():
    X, y = smooth(n=30)
    scaler = StandardScaler().fit(X)
    alone = sklearn.clone(GP).fit(scaler.transform(X), y)
    pipeline = make_pipeline(StandardScaler(), sklearn.clone(GP)).fit(X, y)
    expected = metrics.neg_mean_crps(alone, scaler.transform(X), y)
    assert metrics.neg_mean_crps(pipeline, X, y) == expected
    assert metrics.neg_mean_crps(make_pipeline(pipeline), X, y) == expected
    with sklearn.config_context(enable_metadata_routing=True):
        assert metrics.neg_mean_crps(pipeline, X, y) == expected


@pytest.mark.parametrize("normalize_y", [False, True])
def test_the_standardised_scorer_finds_the_training_targets_of_every_gaussian_process(normalize_y):
    X, y = smooth(n=30)
    for model in (sklearn.clone(GP), sklearn.clone(GPR).set_params(normalize_y=normalize_y)):
        model.fit(X[:20], y[:20])
        mean, std = model.predict(X[20:], return_std=True)
        expected = -metrics.mean_standardized_log_loss(y[20:], mean, std, y_train=y[:20])
        np.testing.assert_allclose(metrics.neg_mean_standardized_log_loss(model, X[20:], y[20:]), expected)


def test_the_standardised_scorer_names_models_that_do_not_keep_their_targets():
    X, y = smooth(n=30)
    with pytest.raises(TypeError, match="BayesianRidge does not keep"):
        metrics.neg_mean_standardized_log_loss(BayesianRidge().fit(X, y), X, y)


@pytest.mark.parametrize("search", [GridSearchCV, KernelSearchCV])
def test_searches_choose_by_the_predictive_distribution(search):
    X, y = smooth(n=40)
    grid = {"kernel": [RBF(length) for length in (0.05, 1.5, 50.0)]}
    found = search(GP, grid, scoring=metrics.neg_mean_log_loss, cv=3).fit(X, y)
    assert found.best_params_["kernel"].length_scale == 1.5
    expected = metrics.neg_mean_log_loss(found.best_estimator_, X, y)
    assert found.score(X, y) == expected
    assert metrics.neg_mean_log_loss(found, X, y) == expected


def test_a_search_may_use_several_scorers_at_once():
    X, y = smooth(n=40)
    scoring = {name: getattr(metrics, name) for name in FUNCTIONS} | {"r2": "r2"}
    together = cross_validate(GP, X, y, scoring=scoring, cv=3)
    for name in FUNCTIONS:
        alone = cross_val_score(GP, X, y, scoring=scoring[name], cv=3)
        np.testing.assert_array_equal(together[f"test_{name}"], alone)


@pytest.mark.parametrize(
    "model",
    [KernelRidge(), SpectralKernelRidge(), TransformedTargetRegressor(GP), make_pipeline(KernelRidge())],
    ids=lambda m: type(m).__name__,
)
def test_a_model_without_standard_deviations_gets_a_clear_error(model):
    X, y = smooth(n=20)
    with pytest.raises(TypeError, match=r"has no predict\(X, return_std=True\)"):
        metrics.neg_mean_log_loss(sklearn.clone(model).fit(X, y), X, y)


def test_weights_reach_the_scorer_directly_and_by_metadata_routing():
    X, y = smooth(n=30)
    weight = np.random.default_rng(1).uniform(0.5, 1.0, 30)
    model = sklearn.clone(GP).fit(X, y)
    expected = -metrics.mean_log_loss(y, *model.predict(X, return_std=True), sample_weight=weight)
    assert metrics.neg_mean_log_loss(model, X, y, sample_weight=weight) == expected
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = metrics.make_predictive_scorer(metrics.mean_log_loss, greater_is_better=False)
        scorer.set_score_request(sample_weight=True)
        gp = sklearn.clone(GP).set_fit_request(sample_weight=False)
        folds = [(np.arange(30), np.arange(30))]
        routed = cross_val_score(gp, X, y, scoring=scorer, cv=folds, params={"sample_weight": weight})
    np.testing.assert_allclose(routed, expected)


def test_scorers_show_how_they_were_made_and_can_be_pickled():
    scorer = metrics.make_predictive_scorer(
        metrics.mean_interval_width, greater_is_better=False, coverage=0.5
    )
    text = "make_predictive_scorer(mean_interval_width, greater_is_better=False, coverage=0.5)"
    assert repr(scorer) == repr(pickle.loads(pickle.dumps(scorer))) == text


def test_the_motorcycle_data_are_those_of_mass():
    bunch = load_motorcycle()
    X, y = load_motorcycle(return_X_y=True)
    np.testing.assert_array_equal(bunch.data, X)
    np.testing.assert_array_equal(bunch.target, y)
    assert (X.shape, y.shape) == ((133, 1), (133,))
    assert (bunch.feature_names, bunch.target_names) == (["times"], ["accel"])
    assert (X[0, 0], y[0], X[-1, 0], y[-1]) == (2.4, 0.0, 57.6, 10.7)
    assert (y.min(), y.max()) == (-134.0, 75.0)
    assert "Silverman" in bunch.DESCR
