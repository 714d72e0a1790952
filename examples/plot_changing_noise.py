"""A band that is wide where the noise is, and narrow where it is not
==================================================================

The motorcycle data: acceleration of the head against time after a crash. Before the impact hardly anything
moves, afterwards measurements scatter widely. SpectralGPRegressor has one noise for all of them, so its band
is far too wide at first and too narrow where it matters. HeteroscedasticGPRegressor learns the noise as a
second smooth function, its kernel by the evidence as well.

A path given on the command line is where the picture goes; the README's goes to
examples/images/changing_noise.png.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skspectral import HeteroscedasticGPRegressor, SpectralGPRegressor, load_motorcycle

BLUE, ORANGE, LIGHT, PALE = "#0072B2", "#D55E00", "#56B4E9", "#E69F00"
GRID = np.linspace(0, 60, 400)[:, None]


def draw(ax, model, X, y, colour, fill, title):
    """Draw data, mean and band; return how many rows of each half of time the band covers."""
    lower, upper = model.predict_interval(GRID)
    ax.fill_between(GRID[:, 0], lower, upper, color=fill, alpha=0.4, lw=0, label="95 % of new observations")
    ax.plot(GRID, model.predict(GRID), color=colour, label="mean")
    ax.plot(X, y, ".", color="black", ms=4, alpha=0.7, label="data")
    ax.set(xlabel="milliseconds after impact", title=title, xlim=(0, 60))
    lower, upper = model.predict_interval(X)
    return (lower <= y) & (y <= upper)


def main(path):
    """Draw the constant and the changing noise side by side, and save the picture."""
    X, y = load_motorcycle(return_X_y=True)
    constant, changing = SpectralGPRegressor().fit(X, y), HeteroscedasticGPRegressor().fit(X, y)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    titles = "one noise for all: SpectralGPRegressor", "changing noise: HeteroscedasticGPRegressor"
    covered = [
        draw(axes[0], constant, X, y, ORANGE, PALE, titles[0]),
        draw(axes[1], changing, X, y, BLUE, LIGHT, titles[1]),
    ]
    axes[0].set_ylabel("acceleration (g)")
    for ax in axes:
        ax.legend(fontsize="small", loc="lower right")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    early = X[:, 0] < 14
    for name, inside in zip(("constant", "changing"), covered, strict=True):
        print(
            f"{name} noise: covers {inside[early].mean():.0%} before 14 ms, {inside[~early].mean():.0%} after"
        )
    for name, model in (("constant", constant), ("changing", changing)):
        low, high = model.predict_interval([[5.0], [30.0]])
        print(
            f"{name} noise: the band is {high[0] - low[0]:.0f} g wide at 5 ms, {high[1] - low[1]:.0f} at 30"
        )
    print(f"saved {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"))
