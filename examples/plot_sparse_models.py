"""How many functions does a prediction need?
==========================================

A Gaussian process predicts from the kernel functions of all training rows. A relevance vector machine gives
each function a prior variance of its own and keeps those that the evidence wants; a Laplacian process keeps
those that survive a penalty on the sum of absolute coefficients. Triangles mark the functions that are used.
At the ends, where data are missing, the last two are more certain than the process: their functions vanish.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import (
    LaplacianProcessRegressor,
    PredictionBandDisplay,
    RelevanceVectorRegressor,
    SpectralGPRegressor,
)

GAMMA = 1 / 9


def make_data(n=100):
    """Return noisy observations of sin(x)/x."""
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(-10, 10, (n, 1)), axis=0)
    return X, np.sinc(X[:, 0] / np.pi) + 0.1 * rng.normal(size=n)


def main(path):
    """Draw the three side by side and save the picture."""
    X, y = make_data()
    models = {
        "Gaussian process": SpectralGPRegressor(RBF(np.sqrt(0.5 / GAMMA)), optimizer=None),
        "Relevance vectors": RelevanceVectorRegressor(gamma=GAMMA),
        "Laplacian process": LaplacianProcessRegressor(gamma=GAMMA),
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), sharey=True, layout="constrained")
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        display = PredictionBandDisplay.from_estimator(model.fit(X, y), X, y, ax=ax)
        used = len(X) if display.used is None else len(display.used)
        ax.set(title=f"{name}: {used} functions", xlabel="x", ylabel="y" if ax is axes[0] else "")
        ax.get_legend().remove()
        print(f"{name}: {used} functions, noise {np.sqrt(model.noise_variance_):.3f}")
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, [*labels[:-1], "functions in use"], loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    print(f"saved {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).with_suffix(".png"))
