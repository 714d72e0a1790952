"""Bands that know how little the data say about the noise
=======================================================

The motorcycle data: acceleration of the head against time after a crash. inference="maximize" takes the
variances of the largest evidence as known, inference="integrate" averages over them. With all rows both
agree; with few the variances are hardly determined, and only the averaged band says so. The 15 rows shown
are a strong case, 40 % wider; evenly spaced subsets of 22 to 40 rows gave 5 to 13 %.

Give a path to save the picture there: the README's comes from
python examples/plot_motorcycle_bands.py examples/images/motorcycle.png
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import SpectralGPRegressor, load_motorcycle

BLUE, ORANGE, LIGHT = "#0072B2", "#D55E00", "#56B4E9"
GRID = np.linspace(0, 60, 400)[:, None]


def fit(X, y, inference, kernel=None):
    """Return a fitted model; a given kernel is kept as it is."""
    optimizer = None if kernel is not None else "default"
    return SpectralGPRegressor(kernel or RBF(5.0), optimizer=optimizer, inference=inference).fit(X, y)


def draw(ax, X, y, kernel=None):
    """Draw data, mean and both bands; return their mean widths."""
    integrated, maximised = (fit(X, y, inference, kernel) for inference in ("integrate", "maximize"))
    lower, upper = integrated.predict_interval(GRID)
    low, high = maximised.predict_interval(GRID)
    x = GRID[:, 0]
    ax.fill_between(x, lower, upper, color=LIGHT, alpha=0.4, lw=0, label='95 %, "integrate"')
    for end in (low, high):
        ax.plot(x, end, "--", color=ORANGE, lw=1.2, label='95 %, "maximize"' if end is low else None)
    ax.plot(x, integrated.predict(GRID), color=BLUE, label="mean")
    ax.plot(X, y, ".", color="black", ms=4, alpha=0.7, label="data")
    ax.set(xlabel="milliseconds after impact", title=f"{len(X)} rows", xlim=(0, 60))
    return np.mean(upper - lower), np.mean(high - low), integrated.kernel_


def main(path):
    """Draw all rows and a few of them, and save the picture."""
    X, y = load_motorcycle(return_X_y=True)
    few = np.linspace(0, len(X) - 1, 15).astype(int)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    *widths, kernel = draw(axes[0], X, y)
    *widths_few, _ = draw(axes[1], X[few], y[few], kernel)  # of the same length scale
    axes[0].set_ylabel("acceleration (g)")
    axes[0].legend(fontsize="small", loc="lower right")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    for rows, (integrated, maximised) in ((len(X), widths), (len(few), widths_few)):
        print(
            f"{rows:4d} rows: mean width of the band {integrated:.0f} g averaged, {maximised:.0f} g maximised"
        )
    print(f"saved {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"))
