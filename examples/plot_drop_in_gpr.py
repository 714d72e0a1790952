"""The same folds, the same scores
===============================

`SpectralGPRegressor` in the place of `GaussianProcessRegressor`: diabetes data, ten-fold cross-validation, an
RBF kernel with learned length scale and noise. The two models are the same up to the intercept, so their
predictive densities are nearly equal, fold by fold; the time is not.
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skspectral import SpectralGPRegressor, neg_mean_log_loss

COLORS = ("#0072B2", "#D55E00")


def compare():
    """Return cross-validation results by name of the model."""
    X, y = load_diabetes(return_X_y=True)
    kernel = ConstantKernel() * RBF(length_scale=3.0) + WhiteKernel()
    models = {
        "SpectralGPRegressor": SpectralGPRegressor(kernel),
        "GaussianProcessRegressor": GaussianProcessRegressor(kernel, normalize_y=True),
    }
    folds = KFold(10, shuffle=True, random_state=0)
    scoring = {"r2": "r2", "log_density": neg_mean_log_loss}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # GaussianProcessRegressor, close to a bound
        return {
            name: cross_validate(make_pipeline(StandardScaler(), model), X, y, cv=folds, scoring=scoring)
            for name, model in models.items()
        }


def main():
    """Compare and draw scores and times."""
    results = compare()
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    ours, theirs = results.values()
    panels = (("test_r2", "R²"), ("test_log_density", "log density"))
    for ax, (key, label) in zip(axes, panels, strict=False):
        ends = np.min([ours[key], theirs[key]]), np.max([ours[key], theirs[key]])
        ax.axline((ends[0], ends[0]), slope=1, color="grey", lw=0.8)
        ax.plot(theirs[key], ours[key], "o", color=COLORS[0])
        ax.set(title=f"{label}, by fold", xlabel="GaussianProcessRegressor", ylabel="SpectralGPRegressor")
    names = list(results)
    times = [1000 * np.median(result["fit_time"]) for result in results.values()]
    bars = axes[2].barh(names, times, color=COLORS, height=0.5)
    axes[2].bar_label(bars, fmt="{:.0f}", padding=3)
    axes[2].margins(x=0.25)  # for the numbers
    axes[2].set(title="median time of a fit", xlabel="milliseconds")
    axes[2].set_yticks(range(2), [name.replace("Regressor", "\nRegressor") for name in names])
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    for name, result, time in zip(names, results.values(), times, strict=True):
        r2, density = result["test_r2"].mean(), result["test_log_density"].mean()
        print(f"{name:24s}  R² {r2:.4f}  log density {density:.4f}  fit {time:.0f} ms")
    print(f"saved {path}")


if __name__ == "__main__":
    main()
