"""Fits that are interrupted at random times: python -m tests.fuzz.interrupts --number 200 --seed 0.

Every estimator and the search are fitted to one set of rows, then fitted again to another and interrupted
on the way, at a time drawn anew each time. Afterwards the old model must be there, whole, or the new one;
BLAS must have its threads back; and a refit must give what it gave before.
"""

import argparse
import signal
import sys
import time
from dataclasses import dataclass

import numpy as np
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_info, threadpool_limits

from skspectral import (
    GeneralizedGPRegressor,
    HeteroscedasticGPRegressor,
    KernelSearchCV,
    LaplacianProcessRegressor,
    RelevanceVectorClassifier,
    RelevanceVectorRegressor,
    SpectralGPClassifier,
    SpectralGPRegressor,
    SpectralKernelRidge,
    StreamingSpectralRegressor,
)

__all__ = ["MODELS", "Trial", "blas_threads"]

_GRID = {"gamma": [0.01, 0.1, 1.0, 10.0]}
MODELS = {
    "ridge": SpectralKernelRidge(gamma=0.5),
    "ridge of low rank": SpectralKernelRidge(gamma=0.5, method="low_rank"),
    "process": SpectralGPRegressor(RBF(1.0)),
    "process, averaged": SpectralGPRegressor(RBF(1.0), optimizer=None, inference="integrate"),
    "process, kernels averaged": SpectralGPRegressor(RBF(1.0), inference="integrate"),
    "classes": SpectralGPClassifier(RBF(1.0)),
    "outliers": GeneralizedGPRegressor("student_t", RBF(1.0)),
    "changing noise": HeteroscedasticGPRegressor(RBF(1.0)),
    "relevance vectors": RelevanceVectorRegressor(gamma=0.5),
    "relevance vectors of classes": RelevanceVectorClassifier(gamma=0.5),
    "absolute values": LaplacianProcessRegressor(gamma=0.5),
    "stream": StreamingSpectralRegressor(RBF(1.0), landmarks=40),
    "search": KernelSearchCV(SpectralKernelRidge(), _GRID),
    "search with folds": KernelSearchCV(SpectralKernelRidge(), _GRID, cv=3),
    "search in threads": KernelSearchCV(SpectralKernelRidge(), _GRID, cv=3, n_jobs=2),
}
# Rows of models whose fits take longer.
_ROWS = dict.fromkeys(("classes", "outliers", "changing noise", "absolute values", "relevance vectors"), 40)
# Seconds after which workers that were left behind must be gone.
_PATIENCE = 20.0


def blas_threads():
    """Return how many threads each BLAS may use."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def rows(seed, n):
    """Return inputs and noisy targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=n)


@dataclass(frozen=True)
class Trial:
    """A model, what it predicts from old and from new rows, and how long a fit takes."""

    model: object
    n: int

    @classmethod
    def make(cls, name):
        """Return the trial of a model by name."""
        return cls(MODELS[name], _ROWS.get(name, 150))

    def duration(self):
        """Return the seconds that a fit takes."""
        start = time.perf_counter()
        self._fitted(1)
        return time.perf_counter() - start

    def run(self, delay):
        """Interrupt a refit after `delay` seconds; return what is broken, None if nothing is."""
        model, X = self._fitted(0), rows(2, 20)[0]
        old, new, threads, before = (
            model.predict(X),
            self._fitted(1).predict(X),
            blas_threads(),
            dict(vars(model)),
        )
        interrupted_after(delay, lambda: model.fit(*self._rows(1)))
        now = model.predict(X)
        is_old = vars(model).keys() == before.keys() and all(vars(model)[k] is v for k, v in before.items())
        if not (is_old and np.array_equal(now, old)) and not np.array_equal(now, new):
            return "neither the old model nor the new one"
        if not within_patience(lambda: blas_threads() == threads):
            return f"{blas_threads()} threads instead of {threads}"
        if not np.array_equal(model.fit(*self._rows(0)).predict(X), old):
            return "a refit predicts something else"
        return None

    def run_first(self, delay):
        """Interrupt a first fit; return what is broken: it must leave nothing, or the whole model."""
        model, whole, X = clone(self.model), self._fitted(0), rows(2, 20)[0]
        parameters = set(vars(model))
        interrupted_after(delay, lambda: model.fit(*self._rows(0)))
        left = set(vars(model)) - parameters
        if left and (
            left != set(vars(whole)) - parameters or not np.array_equal(model.predict(X), whole.predict(X))
        ):
            return f"an interrupted first fit left {sorted(left)}"
        return None

    def _fitted(self, seed):
        return clone(self.model).fit(*self._rows(seed))

    def _rows(self, seed):
        X, y = rows(seed, self.n)
        return X, y > 0 if is_classifier(self.model) else y


def interrupted_after(delay, call):
    """Call something and interrupt it, as Ctrl-C would; return whether that came in time.

    An interrupt in the instant in which scikit-learn puts back its settings at the end of a fit, of any
    estimator, leaves parameters unchecked from then on. That is put right here.
    """
    with config_context():
        return _interrupted_after(delay, call)


def _interrupted_after(delay, call):

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(delay, 1e-6))
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return False
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def within_patience(holds):
    """Return whether something holds, now or soon."""
    end = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def main(arguments=None):
    """Interrupt every model; return how many trials broke something."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.interrupts", description=__doc__)
    parser.add_argument("--number", type=int, default=200, help="of interrupts of each model")
    parser.add_argument("--seed", type=int, default=0, help="of their times")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    with threadpool_limits(2, user_api="blas"):  # so that there is something to give back
        return sum(interrupt_often(name, options.number, rng) for name in MODELS)


def interrupt_often(name, number, rng):
    """Interrupt a model at random times; print and count what broke."""
    trial, broken = Trial.make(name), 0
    longest = trial.duration()
    for k in range(number):
        run, delay = trial.run_first if k % 4 == 0 else trial.run, rng.uniform(0.0, longest)
        found = run(delay)
        if found:
            broken += 1
            print(f"{name}, interrupted after {delay:.6f} s: {found}", flush=True)
    print(f"{name}: {number} interrupts within {longest:.3f} s, {broken} of them broke something", flush=True)
    return broken


if __name__ == "__main__":
    sys.exit(main() > 0)
