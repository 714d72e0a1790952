"""What a sum of kernels says of each of its parts
===============================================

Monthly values like those of carbon dioxide on Mauna Loa, and the kernel of scikit-learn's example on them: a
smooth trend, a season whose shape may drift, irregularities of medium term, and noise that is correlated
over weeks. The model is fitted once. The posterior of every part has a mean and a band of its own; the means
add up to the prediction. Parts are drawn less their averages, since what is constant could be in any of them.
Beyond the data a part returns to 0 with the band of its prior, sooner or later: the season goes on,
irregularities do not.

The values are simulated, so that nothing has to be fetched. Give a csv file with the columns date and co2
(weekly, as in statsmodels) for the real ones: python examples/plot_additive_parts.py co2.csv
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, RationalQuadratic, WhiteKernel

from skspectral import AdditivePartsDisplay, KernelBoundWarning, SpectralGPRegressor

TREND = 50.0**2 * RBF(50.0)
SEASON = 2.0**2 * RBF(100.0) * ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
IRREGULAR = 0.5**2 * RationalQuadratic(1.0, 1.0)
NOISE = 0.1**2 * RBF(0.1) + WhiteKernel(0.1**2, (1e-5, 1e5))


def simulated_months(n=360):
    """Return decimal years (n, 1) and concentrations (n,): a trend, a season and what wanders about them."""
    rng = np.random.default_rng(0)
    years = 1970.0 + np.arange(n) / 12.0
    trend = 325.0 + 1.2 * (years - 1970.0) + 0.015 * (years - 1970.0) ** 2
    drift = 1.0 + 0.2 * np.sin(0.25 * (years - 1970.0))
    season = 3.0 * drift * np.sin(2.0 * np.pi * years) + 0.9 * np.sin(4.0 * np.pi * years + 0.5)
    wandering = np.convolve(rng.normal(0.0, 0.12, n + 23), np.ones(24), mode="valid")
    return years[:, None], trend + season + wandering + rng.normal(0.0, 0.15, n)


def monthly_means(path):
    """Return decimal years (n, 1) and mean concentrations (n,) of the months of a file that have any."""
    dates, values = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str, unpack=True)
    known = values != ""
    year, month = (np.array([int(d.split("-")[k]) for d in dates[known]], dtype=float) for k in (0, 1))
    months, place = np.unique(12.0 * year + month - 1.0, return_inverse=True)
    return months[:, None] / 12.0, np.bincount(place, values[known].astype(float)) / np.bincount(place)


def main(path=None):
    """Fit, draw the parts, and tell how they add up."""
    X, y = simulated_months() if path is None else monthly_means(path)
    warnings.simplefilter("ignore", KernelBoundWarning)  # of the trend, which is nearly a line
    gp = SpectralGPRegressor(TREND + SEASON + IRREGULAR + NOISE).fit(X, y)
    print(f"{len(X)} months, kernel {gp.kernel_}")
    print(f"signal variance {gp.signal_variance_:.4g}, noise variance {gp.noise_variance_:.4g}")
    gap = np.abs(sum(part.mean for part in gp.predict_parts(X)) - gp.predict(X)).max()
    print(f"the parts miss the mean by at most {gap:.1g}")
    display = AdditivePartsDisplay.from_estimator(gp, grid=np.linspace(X.min(), X.max() + 12.0, 1500))
    display.axes_[0].set_ylabel("ppm")
    display.axes_[-1].set_xlabel("year")
    picture = Path(__file__).with_suffix(".png")
    display.figure_.savefig(picture, dpi=110)
    print(f"saved {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
