"""Three sensors on one process: what they share, and what that tells of one that is off half of the time
======================================================================================================

Signals and noise of the sensors are correlated, each in its own way. A model of correlated outputs finds both
covariances, from the observed entries alone, and fills the gaps of the third sensor with what the others saw
at the same time. A model of independent outputs has to guess.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import CorrelationDisplay, SpectralGPRegressor

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#767676"
NAMES = ["sensor 1", "sensor 2", "sensor 3"]


def make_data(n=160):
    """Return times, all readings, and the readings with half of the third sensor's missing."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 12, n))
    slow, fast = np.sin(0.7 * x), np.sin(2.1 * x + 1)
    signal = np.column_stack([slow + 0.4 * fast, -slow + 0.5 * fast, 0.8 * slow + 0.6 * fast])
    correlation = np.array([[1.0, 0.3, 0.8], [0.3, 1.0, 0.1], [0.8, 0.1, 1.0]])
    truth = signal + 0.35 * rng.multivariate_normal(np.zeros(3), correlation, n)
    Y = truth.copy()
    Y[rng.permutation(n)[: n // 2], 2] = np.nan
    return x[:, None], truth, Y


def main():
    """Fit both models, draw the correlations and the filled gaps."""
    X, truth, Y = make_data()
    holes = np.isnan(Y[:, 2])
    models = {
        name: SpectralGPRegressor(RBF(1.0), outputs=name).fit(X, Y) for name in ("independent", "correlated")
    }
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.6), layout="constrained", width_ratios=(4, 5))
    CorrelationDisplay.from_estimator(models["correlated"], names=NAMES, ax=axes[0])
    ends = [truth[holes, 2].min() - 0.2, truth[holes, 2].max() + 0.2]
    axes[1].plot(ends, ends, color=GREY, lw=0.8)
    for (name, model), color, marker in zip(models.items(), (ORANGE, BLUE), "^o", strict=True):
        filled, std = model.predict_missing(return_std=True)
        error = np.sqrt(np.mean((filled - truth)[holes, 2] ** 2))
        axes[1].errorbar(
            truth[holes, 2],
            filled[holes, 2],
            yerr=std[holes, 2],
            fmt=marker,
            ms=4,
            lw=0.6,
            alpha=0.8,
            color=color,
            label=f"{name}: RMSE {error:.2f}",
        )
        print(f"{name}: RMSE at the gaps {error:.3f}, typical standard deviation {std[holes, 2].mean():.3f}")
    axes[1].set(
        xlabel="reading that was missing", ylabel="predicted, ± one standard deviation", title=NAMES[2]
    )
    axes[1].legend()
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print(models["correlated"].covariance_tuning_)
    print(f"saved {path}")


if __name__ == "__main__":
    main()
