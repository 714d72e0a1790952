"""Thirty outputs from one decomposition, each with a noise variance of its own
============================================================================

The kernel matrix of the 600 inputs is decomposed once. Tuning an output then costs next to nothing, so
thirty take hardly longer than one, and the noise of each is found as if it had been fitted alone. At 300
rows, where the decomposition is cheaper, thirty outputs took about twice the time of one.
"""

from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import SpectralGPRegressor

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
N_ROWS, N_OUTPUTS = 600, 30


def make_data():
    """Return inputs, outputs of many frequencies, and the noise added to each."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, N_ROWS))
    noise = np.geomspace(0.05, 1.5, N_OUTPUTS)
    phase, frequency = rng.uniform(0, 2 * np.pi, N_OUTPUTS), rng.uniform(0.3, 1.5, N_OUTPUTS)
    Y = np.sin(frequency * x[:, None] + phase) + rng.normal(size=(N_ROWS, N_OUTPUTS)) * noise
    return x[:, None], Y, noise


def timed(function, repeats=5):
    """Return the shortest of some times in milliseconds."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function()
        times.append(1000 * (perf_counter() - start))
    return min(times)


def main():
    """Fit, draw found against true noise, and the times."""
    X, Y, noise = make_data()
    model = SpectralGPRegressor(RBF(1.0), optimizer=None)
    times = {
        "1 output": timed(lambda: model.fit(X, Y[:, 0])),
        "30 outputs,\none fit": timed(lambda: model.fit(X, Y)),
        "30 outputs,\n30 fits": timed(lambda: [model.fit(X, y) for y in Y.T], repeats=1),
    }
    model.fit(X, Y)
    found = np.sqrt(model.noise_variance_)
    ends = np.sqrt([result.noise_interval for result in model.variance_uncertainty()]).T
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained", width_ratios=(3, 2))
    axes[0].plot(noise, noise, color="grey", lw=0.8, label="equal")
    axes[0].errorbar(
        noise,
        found,
        yerr=np.abs(ends - found),
        fmt="o",
        ms=4,
        color=BLUE,
        label="found, 95 % profile interval",
    )
    axes[0].set(xscale="log", yscale="log", xlabel="noise std of each output", ylabel="found")
    axes[0].set_title("Thirty noise levels, found by one fit")
    axes[0].legend()
    bars = axes[1].bar(times.keys(), times.values(), color=(GREEN, BLUE, ORANGE), width=0.6)
    axes[1].bar_label(bars, fmt="{:.0f}")
    axes[1].margins(y=0.1)
    axes[1].set(ylabel="milliseconds of a fit", title=f"Times, {len(X)} rows")
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print({name.replace("\n", " "): round(ms, 1) for name, ms in times.items()}, "ms")
    print(f"{np.mean((ends[0] < noise) & (noise < ends[1])):.0%} of the intervals hold the true noise")
    print(f"saved {path}")


if __name__ == "__main__":
    main()
