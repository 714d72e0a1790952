"""The annotations of the public API: complete, and right for those who use it as the README does.

The first functions are a user's: mypy checks their types (settings in pyproject.toml), pytest that they run.
"""

import inspect
from collections.abc import Callable
from typing import Any, assert_type, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF

import skspectral
from skspectral import (
    CalibrationDisplay,
    FeatureStatistics,
    KernelSearchCV,
    PredictionBandDisplay,
    SpectralGPRegressor,
    SpectralKernelRidge,
    Spectrum,
    StreamingSpectralRegressor,
    TuningResult,
    VarianceUncertainty,
    interval_coverage,
    load_motorcycle,
    make_predictive_scorer,
    mean_crps,
)

Floats = NDArray[np.float64]


def test_a_process() -> None:
    X, y = load_motorcycle(return_X_y=True)
    assert_type(X, Floats)
    gp = SpectralGPRegressor(RBF(5.0), optimizer=None, inference="integrate", random_state=0).fit(X, y)
    assert_type(gp, SpectralGPRegressor)
    assert gp.predict(X).shape == (133,)
    mean, std = gp.predict([[1.0], [2.0]], return_std=True)
    assert mean.shape == std.shape == (2,)
    assert_type(gp.predict_interval(X, coverage=0.9), tuple[Floats, Floats])
    assert_type(gp.sample_y(X[:3], n_samples=2), Floats)
    assert_type(gp.variance_uncertainty(), tuple[VarianceUncertainty, ...])
    assert float(gp.log_marginal_likelihood()) < 0
    value, gradient = gp.log_marginal_likelihood(gp.kernel_.theta, eval_gradient=True)
    assert value < 0
    assert gradient.shape == (1,)
    loo_mean, loo_std = gp.loo_predict(return_std=True)
    assert loo_mean.shape == loo_std.shape == (133,)


def test_a_ridge() -> None:
    X, y = load_motorcycle(return_X_y=True)
    ridge = SpectralKernelRidge("auto", kernel="rbf", gamma=0.02).fit(X, y, sample_weight=np.ones(133))
    assert_type(ridge, SpectralKernelRidge)
    assert_type(ridge.with_alpha(2.0), SpectralKernelRidge)
    assert_type(ridge.predict(X), Floats)
    assert_type(ridge.loo_predict(), Floats)
    assert_type(ridge.criterion_curve([0.1, 1.0]), Floats)
    assert_type(ridge.log_evidence_at(500.0, [1.0, 2.0]), Floats)
    given = SpectralKernelRidge([1.0, 2.0], kernel=lambda a, b: float(a @ b), kernel_params={})
    assert given.fit(X, np.column_stack([y, y])).predict(X).shape == (133, 2)
    linear = SpectralKernelRidge(kernel="linear").fit(sparse.csr_array(X), y)
    assert linear.predict(sparse.csr_array(X)).shape == (133,)


def test_a_stream() -> None:
    X, y = load_motorcycle(return_X_y=True)
    stream = StreamingSpectralRegressor(RBF(5.0), landmarks=20).partial_fit(X[:60], y[:60])
    assert_type(stream, StreamingSpectralRegressor)
    assert_type(stream.fit(X, y.tolist()), StreamingSpectralRegressor)
    assert_type(stream.statistics_, FeatureStatistics)
    assert_type(stream.tuning_, tuple[TuningResult, ...])
    assert_type(stream.landmarks_, Floats)
    mean, std = stream.predict(X, return_std=True)
    assert mean.shape == std.shape == (133,)


def test_a_search() -> None:
    X, y = load_motorcycle(return_X_y=True)
    search = KernelSearchCV(SpectralKernelRidge(), {"gamma": [0.01, 0.02]}, cv=3, scoring="r2").fit(X, y)
    assert_type(search, KernelSearchCV)
    assert search.predict(X).shape == (133,)


def test_scores_and_decompositions() -> None:
    y, mean, std = np.zeros(3), [0.0, 0.0, 1.0], np.ones(3)
    assert round(mean_crps(y, mean, std), 4) > 0
    assert mean_crps(y, mean, std, multioutput="raw_values").shape == (1,)
    assert_type(make_predictive_scorer(interval_coverage, coverage=0.5), Callable[..., float])
    spectrum = Spectrum.from_gram(np.eye(3), np.ones((3, 1)))
    assert_type(spectrum, Spectrum)
    assert_type(spectrum.null_leverage, Floats)
    assert_type(FeatureStatistics.nothing(2, 1) + FeatureStatistics.nothing(2, 1), FeatureStatistics)
    assert load_motorcycle().data.shape == (133, 1)


def test_displays() -> None:
    X, y = load_motorcycle(return_X_y=True)
    gp = SpectralGPRegressor(RBF(5.0), optimizer=None).fit(X, y)
    display = PredictionBandDisplay.from_estimator(gp, X, y, coverage=0.9)
    assert_type(display, PredictionBandDisplay)
    calibration = CalibrationDisplay.from_predictions(y, *gp.predict(X, return_std=True), coverages=[0.5])
    assert_type(calibration.plot(ax=display.ax_), CalibrationDisplay)


def public_functions() -> dict[str, Callable[..., Any]]:
    """Return public functions, and the constructors, methods and properties that are defined here."""
    found: dict[str, Callable[..., Any]] = {}
    for name in skspectral.__all__:
        thing = getattr(skspectral, name)
        if inspect.isfunction(thing):
            found[name] = thing
        if inspect.isclass(thing):
            for home in thing.__mro__:
                if home.__module__.startswith("skspectral."):
                    found |= {f"{name}.{own}": function for own, function in own_functions(home).items()}
    return found


def own_functions(home: type) -> dict[str, Callable[..., Any]]:
    """Return the functions in the body of a class that users call, generated ones left out."""
    found = {}
    for name, member in vars(home).items():
        function = getattr(member, "fget", None) or getattr(member, "func", None) or member
        function = inspect.unwrap(getattr(function, "__func__", function))
        written = inspect.isfunction(function) and function.__code__.co_filename != "<string>"
        if written and (name == "__init__" or not name.startswith("_")):
            found[name] = function
    return found


@pytest.mark.parametrize("name", public_functions())
def test_public_signatures_are_annotated(name: str) -> None:
    signature = inspect.signature(public_functions()[name])
    parameters = list(signature.parameters.values())
    bare = [p.name for p in parameters if p.annotation is p.empty and p.name not in ("self", "cls")]
    assert not bare
    assert signature.return_annotation is not signature.empty


def test_annotations_can_be_evaluated() -> None:
    hints = get_type_hints(SpectralGPRegressor.predict)
    assert hints["return_std"] is bool
