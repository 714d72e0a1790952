"""Fits that fail or are interrupted: the old model, whole, or none."""

import numpy as np
import pytest
from problems import smooth
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF

from skspectral import (
    IndefiniteKernelError,
    KernelSearchCV,
    SpectralGPRegressor,
    SpectralKernelRidge,
    StreamingSpectralRegressor,
)

# Where a fit of each estimator can be interrupted: early, late, and in between.
PLACES = (
    "skspectral.linalg.spectrum.Spectrum.from_gram",
    "skspectral.linalg.spectrum.Spectrum.rotate",
    "skspectral.inference.tuned.minimize_each",
    "skspectral.inference.solution.Solution.of",
)
ESTIMATORS = (
    SpectralKernelRidge(gamma=0.5),
    SpectralGPRegressor(RBF(1.0)),
    KernelSearchCV(SpectralKernelRidge(), {"gamma": [0.1, 1.0]}),
    KernelSearchCV(SpectralKernelRidge(), {"gamma": [0.1, 1.0]}, cv=3),
)


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def state(model):
    return {name: id(value) for name, value in vars(model).items()}


def test_a_refit_that_is_refused_leaves_the_old_model():
    (X, y), (X2, _) = smooth(0, n=30), smooth(1, n=30)
    ridge = SpectralKernelRidge(kernel="sigmoid", gamma=1e-6).fit(X, y)
    expected = ridge.predict(X)
    ridge.set_params(gamma=5.0)
    with pytest.raises(IndefiniteKernelError):
        ridge.fit(X2, y)
    ridge.set_params(gamma=1e-6)
    assert np.array_equal(ridge.predict(X), expected)


@pytest.mark.parametrize("model", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_an_interrupted_refit_leaves_the_old_model(model, place, monkeypatch):
    X, y = smooth(0, n=30)
    model = clone(model).fit(X, y)
    before, expected = state(model), model.predict(X)
    with monkeypatch.context() as patch:
        patch.setattr(place, interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X[:20, :1], y[:20])
    assert state(model) == before
    assert np.array_equal(model.predict(X), expected)
    assert np.array_equal(model.fit(X, y).predict(X), expected)


@pytest.mark.parametrize("model", ESTIMATORS, ids=repr)
@pytest.mark.parametrize("place", PLACES)
def test_an_interrupted_first_fit_leaves_nothing(model, place, monkeypatch):
    X, y = smooth(0, n=30)
    model = clone(model)
    monkeypatch.setattr(place, interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert set(vars(model)) == set(vars(clone(model)))
    with pytest.raises((NotFittedError, AttributeError)) as caught:
        _ = model.score(X, y) if isinstance(model, KernelSearchCV) else model.loo_predict()
    assert isinstance(caught.value, NotFittedError)


@pytest.mark.parametrize("place", ["skspectral.streaming.model.tune", "skspectral.linalg.moments.eigh"])
def test_an_interrupted_stream_goes_on_from_where_it_was(place, monkeypatch):
    X, y = smooth(0, n=60)
    stream = StreamingSpectralRegressor(RBF(1.0), landmarks=X[:10], optimizer=None).fit(X, y)
    before, expected = state(stream), stream.predict(X)
    with monkeypatch.context() as patch:
        patch.setattr(place, interrupt)
        with pytest.raises(KeyboardInterrupt):
            stream.fit(X[:40], y[:40])
    assert state(stream) == before
    assert np.array_equal(stream.predict(X), expected)
