"""A stream: chunks of rows come one after the other, and none of them is kept
===========================================================================

partial_fit adds each chunk to sums whose size depends on the number of landmarks only. Variances are tuned
again whenever a prediction is asked for. After 100 000 rows the model is the one that fit makes from all of
them at once.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import StreamingSpectralRegressor

BLUE, ORANGE = "#0072B2", "#D55E00"
NOISE, N_CHUNKS, N_ROWS = 0.5, 25, 4000


def truth(X):
    """Return the function behind the data."""
    return np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.5 * X[:, 0]


def chunks():
    """Yield rows as they come."""
    rng = np.random.default_rng(0)
    for _ in range(N_CHUNKS):
        X = rng.uniform(-3, 3, size=(N_ROWS, 2))
        yield X, truth(X) + rng.normal(0, NOISE, N_ROWS)


def main():
    """Follow error and noise along the stream, then compare with a fit of all rows."""
    X_new = np.random.default_rng(1).uniform(-3, 3, size=(1000, 2))
    model = StreamingSpectralRegressor(RBF(1.0), landmarks=200, optimizer=None)
    rows, errors, noise = [], [], []
    for X, y in chunks():
        model.partial_fit(X, y)
        rows.append(model.n_samples_seen_)
        errors.append(np.sqrt(np.mean((model.predict(X_new) - truth(X_new)) ** 2)))
        noise.append(np.sqrt(model.noise_variance_))

    X, y = (np.concatenate(parts) for parts in zip(*chunks(), strict=True))
    at_once = StreamingSpectralRegressor(RBF(1.0), landmarks=model.landmarks_, optimizer=None).fit(X, y)
    difference = np.abs(at_once.predict(X_new) - model.predict(X_new)).max()

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    axes[0].loglog(rows, errors, "o-", color=BLUE, ms=4, label="of the predicted mean")
    axes[0].loglog(rows, errors[0] * np.sqrt(rows[0] / np.array(rows)), "--", color="grey", label="1/√rows")
    axes[1].semilogx(rows, noise, "o-", color=BLUE, ms=4, label="found")
    axes[1].axhline(NOISE, color=ORANGE, label="true")
    error = 1.96 * NOISE / np.sqrt(2 * np.array(rows))  # of a standard deviation from so many residuals
    axes[1].fill_between(
        rows, NOISE - error, NOISE + error, color=ORANGE, alpha=0.15, lw=0, label="95 % at so many rows"
    )
    axes[0].set(title="Error", ylabel="rms error against the true function")
    axes[1].set(title="Noise", ylabel="standard deviation of the noise")
    axes[0].yaxis.set_minor_formatter("{x:g}")
    for ax in axes:
        ax.set_xlabel("rows seen")
        ax.legend()
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print(f"{model.n_samples_seen_} rows, rank {model.rank_}: error {errors[-1]:.4f}, noise {noise[-1]:.4f}")
    print(f"largest difference from a fit of all rows at once: {difference:.1e}")
    print(f"saved {path}")


if __name__ == "__main__":
    main()
