"""Rows of known precision: two instruments, one ten times more exact than the other
=================================================================================

sample_weight is a relative precision, 1/std^2. The weighted fit follows the exact
instrument where it measured and is humble elsewhere; the unweighted one believes both alike.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import SpectralGPRegressor

BLUE, ORANGE, LIGHT = "#0072B2", "#D55E00", "#56B4E9"


def truth(x):
    """Return the function behind the data."""
    return np.sin(x) + 0.5 * np.sin(2.5 * x)


def make_data():
    """Return inputs, measurements and the standard deviation of each."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(0, 10, 60), rng.uniform(0, 5, 15)])
    std = np.repeat([0.6, 0.06], [60, 15])
    return x[:, None], truth(x) + std * rng.normal(size=len(x)), std


def main():
    """Fit with and without weights and draw both."""
    X, y, std = make_data()
    grid = np.linspace(0, 10, 400)
    weight = 1 / std**2
    models = {
        "no weights": SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, y),
        "weights 1/std²": SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, y, sample_weight=weight),
    }
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        mean, (lower, upper) = (
            model.predict(grid[:, None]),
            model.predict_interval(grid[:, None], include_noise=False),
        )
        error = np.sqrt(np.mean((mean - truth(grid)) ** 2))
        ax.fill_between(grid, lower, upper, color=LIGHT, alpha=0.4, lw=0, label="95 %, function")
        ax.plot(grid, mean, color=BLUE, label="mean")
        ax.plot(grid, truth(grid), "--", color="black", lw=1, label="truth")
        for exact, marker, color in ((False, "o", "grey"), (True, "s", ORANGE)):
            seen = (std < 0.1) == exact
            label = "exact instrument" if exact else "coarse instrument"
            ax.plot(X[seen], y[seen], marker, color=color, ms=4, mfc="none", label=label)
        ax.set(title=f"{name}: rms error {error:.2f}", xlabel="x", xlim=(0, 10))
        print(f"{name:15s} rms error of the mean {error:.3f}, noise std {np.sqrt(model.noise_variance_):.3f}")
    axes[0].set_ylabel("y")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print(f"saved {path}")


if __name__ == "__main__":
    main()
