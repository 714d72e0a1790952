"""Fits that fail or are interrupted: the old model, whole, or none. Memory and processes, too."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fuzz.interrupts import MODELS, interrupt_often
from problems import smooth
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from skspectral import (
    IndefiniteKernelError,
    KernelSearchCV,
    SpectralGPRegressor,
    SpectralKernelRidge,
    StreamingSpectralRegressor,
)

# Where a fit of each estimator can be interrupted: early, late, and in between.
PLACES = (
    "skspectral.linalg.spectrum.Spectrum.on_rows",
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


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_interrupts_at_random_times_break_nothing(name):
    with threadpool_limits(2 if "threads" in name else 1, user_api="blas"):
        assert interrupt_often(name, 8, np.random.default_rng(0)) == 0


# Fits a small model, then a larger one with less memory than its kernel matrix takes, then with enough.
WITH_LITTLE_MEMORY = """
import resource
import numpy as np
from skspectral import SpectralKernelRidge

rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 2))
y = np.sin(X[:, 0])
ridge = SpectralKernelRidge(alpha=1.0, gamma=0.5).fit(X[:100], y[:100])
expected = ridge.predict(X[:50])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 2**20, limits[1]))
try:
    ridge.fit(X, y)
except MemoryError:
    print("refused")
assert np.array_equal(ridge.predict(X[:50]), expected)
resource.setrlimit(resource.RLIMIT_AS, limits)
assert np.array_equal(ridge.fit(X[:100], y[:100]).predict(X[:50]), expected)
print("whole")
"""


# What grows would do so without learning too, in a tenth of the time.
FIXED_KERNEL = {"stream": {"optimizer": None}}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits of memory are those of Linux")
def test_a_fit_without_memory_leaves_the_old_model():
    run = subprocess.run(
        [sys.executable, "-c", WITH_LITTLE_MEMORY], capture_output=True, text=True, env=one_thread()
    )
    assert run.stdout.split() == ["refused", "whole"], run.stderr


def one_thread():
    """Return the environment with one thread for BLAS, whose own memory grows with its threads."""
    return os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of processes with threads, from 3.12
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("name", ["ridge", "process", "stream", "search with folds"])
def test_a_forked_child_fits_and_predicts_the_same(name):
    X, y = smooth(0, n=60)
    model = clone(MODELS[name]).fit(X, y)
    expected = model.predict(X).tobytes()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, model.predict(X).tobytes() + clone(model).fit(X, y).predict(X).tobytes())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answers:
        assert answers.read() == 2 * expected
    assert os.waitpid(child, 0)[1] == 0


# What grows would do so without learning too, in a tenth of the time.
FIXED_KERNEL = {"stream": {"optimizer": None}}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read as Linux tells it")
@pytest.mark.parametrize("name", ["ridge", "process, averaged", "stream"])
def test_three_hundred_fits_do_not_grow(name):
    X, y = smooth(0, n=200)
    sizes = []
    for _ in range(6):
        for _ in range(50):
            clone(MODELS[name]).set_params(**FIXED_KERNEL.get(name, {})).fit(X, y).predict(X)
        sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    # a kernel matrix of each fit would be 0.3 MB
    assert sizes[-1] - sizes[1] < 8 * 2**20
