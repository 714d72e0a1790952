"""Let the evidence choose the kernel: no folds, one fit for each candidate
========================================================================

A slow trend with a yearly cycle, ten years of months with two of them missing. KernelSearchCV without cv
ranks the candidates by their evidence on all rows; each has its parameters learned. The best one continues
the cycle into the gap.
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern, RationalQuadratic

from skspectral import (
    KernelBoundWarning,
    KernelSearchCV,
    KernelSearchDisplay,
    PredictionBandDisplay,
    SpectralGPRegressor,
)


def make_data():
    """Return years and observations, the sixth and seventh year left out."""
    rng = np.random.default_rng(0)
    t = np.arange(120) / 12
    y = 0.3 * t + np.sin(2 * np.pi * t) + 0.4 * np.sin(4 * np.pi * t + 1) + rng.normal(0, 0.25, len(t))
    seen = (t < 5) | (t >= 7)
    return t[:, None], y, seen


def candidates():
    """Return the kernels to choose from."""
    cycle = ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
    return [
        RBF(1.0),
        Matern(1.0, nu=1.5),
        RationalQuadratic(1.0, 1.0),
        cycle,
        RBF(10.0) * cycle,
        RBF(10.0) + cycle,
    ]


def main():
    """Search, draw the ranking and the winner."""
    X, y, seen = make_data()
    search = KernelSearchCV(SpectralGPRegressor(), {"kernel": candidates()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelBoundWarning)  # poor candidates run to a bound
        search.fit(X[seen], y[seen])
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained", width_ratios=(2, 3))
    KernelSearchDisplay.from_estimator(search, ax=axes[0])
    PredictionBandDisplay.from_estimator(search, X[seen], y[seen], ax=axes[1])
    axes[1].plot(X[~seen], y[~seen], "x", color="#D55E00", ms=5, label="left out")
    axes[1].legend(fontsize="small", loc="upper left")
    axes[0].set_title("Ranked by evidence")
    axes[1].set(title="The best one fills the gap", xlabel="years")
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    lower, upper = search.best_estimator_.predict_interval(X[~seen])
    print("best:", search.best_estimator_.kernel_)
    inside = np.mean((lower <= y[~seen]) & (y[~seen] <= upper))
    print(f"{inside:.0%} of the left out months lie in their 95 % interval")
    print(f"saved {path}")


if __name__ == "__main__":
    main()
