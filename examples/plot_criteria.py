"""Why the evidence is the default criterion
=========================================

200 points of sin(2x) with noise of standard deviation 0.3, under a Matern-3/2 kernel whose matrix has full
rank. Evidence and leave-one-out error have a clear optimum, and the noise of the evidence is close to the
true one. The criterion of Schirru et al. (2011) scores the targets under a prediction made from those same
targets: it improves without limit as the noise goes to zero, and its fit runs through every point.
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import Matern

from skspectral import DegenerateCriterionWarning, EvidenceDisplay, SpectralGPRegressor

COLORS = {"evidence": "#0072B2", "loo": "#D55E00", "posterior": "#009E73"}
NOISE = 0.3


def fit_each(X, y):
    """Return a model fitted by each criterion."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateCriterionWarning)  # "posterior" says that it has no optimum
        return {
            name: SpectralGPRegressor(Matern(nu=1.5), optimizer=None, criterion=name).fit(X, y)
            for name in COLORS
        }


def main():
    """Draw the criteria along alpha and the fits that they choose."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 5, 200))[:, None]
    y = np.sin(2 * X[:, 0]) + rng.normal(0, NOISE, len(X))
    models = fit_each(X, y)
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.4), layout="constrained")
    EvidenceDisplay.from_estimator(models["evidence"], criteria=list(COLORS), ax=axes[0])
    grid = np.linspace(1, 3, 800)[:, None]
    shown = (X[:, 0] > 1) & (X[:, 0] < 3)
    axes[1].plot(X[shown], y[shown], "k.", ms=4, label="data")
    for name in ("posterior", "loo", "evidence"):
        found = np.sqrt(models[name].noise_variance_)
        label = f"{name}: noise {found:.2g}"
        axes[1].plot(grid, models[name].predict(grid), color=COLORS[name], lw=1.2, label=label)
        print(f"{name:10s} status {models[name].tuning_[0].status:11s} noise std {found:.3g} (true {NOISE})")
    axes[0].set_title("What each criterion says of the noise", pad=38)
    axes[1].set_title("The fits that they choose", pad=38)
    axes[1].set(xlabel="x", ylabel="y", xlim=(1, 3), ylim=(-3, 3))  # "posterior" swings to 30
    axes[1].legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print(f"saved {path}")


if __name__ == "__main__":
    main()
