"""Low rank with a certificate: the exact evidence is bracketed without the exact matrix
=====================================================================================

1500 points of a function of two inputs. Each rank gives a lower and an upper bound on the log evidence of
the exact kernel matrix; where they meet, the approximation is proved exact, and predictions agree too.
rank=None chooses the rank itself; a pass over the kernel, without storing it, gives it sharper bounds, so
it needs less.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import SpectralGPRegressor

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
RANKS = (20, 30, 40, 60, 80, 100, 120, 140, 160)


def make_data():
    """Return noisy values of a smooth function."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(1500, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + rng.normal(0, 0.2, len(X))


def fit(X, y, **how):
    """Return a fitted model with the kernel as it is."""
    return SpectralGPRegressor(RBF(1.0), optimizer=None, **how).fit(X, y)


def main():
    """Fit all ranks and draw bounds and errors."""
    X, y = make_data()
    X_new = np.random.default_rng(1).uniform(-2, 2, size=(500, 2))
    exact, certified = fit(X, y, method="exact"), fit(X, y, method="low_rank")
    models = [fit(X, y, method="low_rank", rank=rank) for rank in RANKS]
    lower, upper = np.array([model.evidence_bounds_ for model in models]).T
    mean = exact.predict(X_new)
    error = [np.abs(model.predict(X_new) - mean).max() for model in models]
    value = exact.log_marginal_likelihood_value_

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    axes[0].fill_between(RANKS, lower - value, upper - value, color=BLUE, alpha=0.2, lw=0)
    axes[0].plot(RANKS, upper - value, "v-", color=BLUE, ms=5, label="given rank: upper bound")
    axes[0].plot(RANKS, lower - value, "^-", color=BLUE, ms=5, label="given rank: lower bound")
    axes[0].axhline(0.0, color=ORANGE, label="exact")
    ends = np.abs(np.subtract(certified.evidence_bounds_, value))[:, None]
    label = f"rank=None: {certified.rank_}, sharper bounds\nby a pass over the kernel"
    axes[0].errorbar(certified.rank_, 0.0, yerr=ends, fmt="D", ms=5, capsize=5, color=GREEN, label=label)
    axes[0].set_yscale("symlog", linthresh=0.01)
    axes[0].set_ylabel("log evidence less the exact one")
    axes[1].semilogy(RANKS, error, "o-", color=BLUE, label="largest difference from the exact mean")
    noise = np.sqrt(exact.noise_variance_)
    axes[1].axhline(noise, color=ORANGE, label="standard deviation of the noise")
    axes[1].set_ylabel("predictions, 500 new points")
    axes[1].axvline(certified.rank_, ymax=0.7, color=GREEN, ls=":", lw=2)
    axes[1].text(certified.rank_ - 3, min(error), f"rank=None: {certified.rank_}", color=GREEN, ha="right")
    axes[0].set_title("How far the log evidence can be off")
    axes[1].set_title("How far predictions are off")
    for ax in axes:
        ax.set(xlabel="rank")
    axes[0].legend(fontsize="small", loc="lower right")
    axes[1].legend(fontsize="small", loc="upper right", bbox_to_anchor=(1.0, 0.9))
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    width = np.subtract(*certified.evidence_bounds_[::-1])
    print(f"n = {len(X)}: rank {certified.rank_} is certified to {width:.2g} of the log evidence {value:.2f}")
    print(f"saved {path}")


if __name__ == "__main__":
    main()
