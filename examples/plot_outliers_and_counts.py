"""Outliers and counts: the noise is not normal
============================================

Left: one observation in eight is too large by a lot. Under normal noise the mean follows such outliers;
Student-t noise has tails that expect them. Right: events per day whose rate changes. A Poisson likelihood
gives a rate that is never negative, and intervals of whole numbers that widen with it.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import GeneralizedGPRegressor, SpectralGPRegressor

BLUE, ORANGE, LIGHT = "#0072B2", "#D55E00", "#56B4E9"
GRID = np.linspace(0, 10, 300)[:, None]


def truth(x):
    """Return the function behind the data with outliers."""
    return np.sin(1.5 * x) + 0.2 * x


def with_outliers(n=80):
    """Return inputs and observations, some of which are far off."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 10, n))
    y = truth(x) + rng.normal(0, 0.15, n)
    y[rng.choice(n, n // 8, replace=False)] += rng.uniform(1.5, 4.0, n // 8)
    return x[:, None], y


def counts(n=120):
    """Return days, numbers of events, and their rate."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 10, n)
    rate = np.exp(1.0 + 1.3 * np.sin(0.9 * x))
    return x[:, None], rng.poisson(rate), rate


def draw_outliers(ax):
    """Draw the means under normal and Student-t noise; return their errors."""
    X, y = with_outliers()
    models = {
        "normal noise": SpectralGPRegressor(RBF(1.0)),
        "Student-t noise": GeneralizedGPRegressor("student_t", RBF(1.0)),
    }
    errors = {}
    ax.plot(X, y, ".", color="black", ms=4, label="data")
    ax.plot(GRID, truth(GRID), "--", color="grey", lw=1, label="truth")
    for (name, model), colour in zip(models.items(), (ORANGE, BLUE), strict=True):
        mean = model.fit(X, y).predict(GRID)
        errors[name] = np.sqrt(np.mean((mean - truth(GRID[:, 0])) ** 2))
        ax.plot(GRID, mean, color=colour, label=f"{name}: rms error {errors[name]:.2f}")
    ax.set(title="One observation in eight is an outlier", xlabel="x", ylabel="y", ylim=(-2, 8.5))
    ax.legend(fontsize="small", loc="upper left")
    return errors


def draw_counts(ax):
    """Draw rate and interval of new counts; return the share of counts inside."""
    X, y, rate = counts()
    model = GeneralizedGPRegressor("poisson", RBF(1.0)).fit(X, y)
    lower, upper = model.predict_interval(GRID)
    ax.fill_between(
        GRID[:, 0], lower, upper, step="mid", color=LIGHT, alpha=0.4, lw=0, label="95 % of new counts"
    )
    ax.plot(GRID, model.predict(GRID), color=BLUE, label="predicted rate")
    ax.plot(X, rate, "--", color="grey", lw=1, label="true rate")
    ax.plot(X, y, ".", color="black", ms=4, label="counts")
    ax.set(title="Counts: the band widens with the rate", xlabel="days", ylabel="events")
    ax.set_ylim(-0.5, 1.35 * max(upper.max(), y.max()))
    ax.legend(fontsize="small", loc="upper center", ncols=2)
    lower, upper = model.predict_interval(X)
    return np.mean((lower <= y) & (y <= upper))


def main():
    """Draw both and save the picture."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for name, error in draw_outliers(axes[0]).items():
        print(f"{name}: rms error of the mean {error:.3f}")
    print(f"{draw_counts(axes[1]):.0%} of the counts lie in their 95 % interval")
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print(f"saved {path}")


if __name__ == "__main__":
    main()
