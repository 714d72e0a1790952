"""Quickstart: beside scikit-learn on real data
============================================

Four tasks, each fitted by scikit-learn's estimator and by ours on the same rows: a length scale for each of
ten inputs (diabetes), many outputs at once (the lower half of a digit from its upper half), two classes
(digits 3 and 5), and noise that changes with the input (a motorcycle's crash). Printed and drawn are the time
of a fit and the score on rows that were left out. scikit-learn's regressor has one noise for all outputs and
inputs; ours finds what there is.
"""

import warnings
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from skspectral import (
    HeteroscedasticGPRegressor,
    SpectralGPClassifier,
    SpectralGPRegressor,
    load_motorcycle,
    mean_log_loss,
)

COLORS = ("#0072B2", "#D55E00")


def regressors(core):
    """Return our regressor and scikit-learn's."""
    theirs = GaussianProcessRegressor(ConstantKernel() * core + WhiteKernel(), normalize_y=True)
    return SpectralGPRegressor(core), theirs


def each_length():
    """Ten inputs, each with a length scale of its own."""
    X, y = load_diabetes(return_X_y=True)
    return "10 length scales", regressors(RBF([3.0] * 10)), (X / X.std(axis=0), y), "R²", r_squared


def many_outputs():
    """The lower half of a digit from its upper half."""
    X = load_digits().data[:500] / 16
    upper, lower = X[:, :32], X[:, 32:]
    lower = lower[:, np.mean(lower > 0, axis=0) > 0.1]  # not the margins, which are nearly always white
    return f"{lower.shape[1]} outputs", regressors(RBF(2.0)), (upper, lower), "R²", r_squared


def two_classes():
    """Digits 3 and 5."""
    X, y = load_digits(return_X_y=True)
    keep = np.isin(y, [3, 5])
    models = SpectralGPClassifier(RBF(2.0)), GaussianProcessClassifier(ConstantKernel() * RBF(2.0))
    return "two classes", models, (X[keep] / 16, y[keep]), "log loss", loss


def changing_noise():
    """Acceleration of a helmet: quiet before the crash, then not."""
    X, y = load_motorcycle(return_X_y=True)
    theirs = GaussianProcessRegressor(ConstantKernel() * RBF(5.0) + WhiteKernel(), normalize_y=True)
    return "changing noise", (HeteroscedasticGPRegressor(), theirs), (X, y), "-log density", surprise


def r_squared(model, X, y):
    """Return the share of the variance that is explained, averaged over outputs."""
    return r2_score(y, model.predict(X), multioutput="variance_weighted")


def loss(model, X, y):
    """Return the mean of -log probability of the true class; smaller is better."""
    return log_loss(y, model.predict_proba(X))


def surprise(model, X, y):
    """Return the mean of -log predictive density; smaller is better."""
    return mean_log_loss(y, *model.predict(X, return_std=True))


def compare(models, data, score):
    """Return the seconds of a fit and the score on a quarter of the rows, for each model."""
    X_train, X_test, y_train, y_test = train_test_split(*data, random_state=0)
    results = []
    for model in models:
        start = perf_counter()
        model.fit(X_train, y_train)
        results.append((perf_counter() - start, score(model, X_test, y_test)))
    return results


def draw(ax, task, name, models, results):
    """Draw the times as bars that tell the score."""
    seconds = [t for t, _ in results]
    bars = ax.barh([type(model).__name__ for model in models], seconds, color=COLORS, height=0.5)
    ax.bar_label(bars, [f"{t:.2f} s, {name} {s:.3f}" for t, s in results], padding=4)
    ax.set(title=task, xlim=(0, 1.5 * max(seconds)))
    ax.spines[["top", "right"]].set_visible(False)
    ax.invert_yaxis()


def main():
    """Compare, print and draw."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # parameters of either model that end at a bound
    figure, axes = plt.subplots(4, 1, figsize=(8.5, 7.2), layout="constrained")
    for ax, make_task in zip(axes, (each_length, many_outputs, two_classes, changing_noise), strict=True):
        task, models, data, name, score = make_task()
        with threadpool_limits(limits=1):  # matrices this small gain nothing from threads
            results = compare(models, data, score)
        draw(ax, task, name, models, results)
        for model, (seconds, value) in zip(models, results, strict=True):
            print(f"{task:17s} {type(model).__name__:26s} {seconds:6.2f} s   {name} {value:.3f}")
    axes[-1].set_xlabel("seconds of a fit")
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print(f"saved {path}")


if __name__ == "__main__":
    main()
