"""What a sum of kernels says of each of its parts: carbon dioxide on Mauna Loa.

Monthly means of the air samples since 1958 and the kernel of scikit-learn's example: a smooth trend, a season
whose shape may drift, irregularities of medium term, and noise that is correlated over weeks. The model is
fitted once. The posterior of every part has a mean and a band of its own; the means add up to the prediction.
Parts are drawn less their averages, since what is constant could be in any of them.
Beyond the data a part returns to 0 with the band of its prior, sooner or later: the season goes on,
irregularities do not.

Give a csv file with the columns date and co2 (weekly, as in statsmodels), or nothing to fetch it from OpenML:
python examples/plot_additive_parts.py co2.csv
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, RationalQuadratic, WhiteKernel

from skspectral import AdditivePartsDisplay, SpectralGPRegressor

TREND = 50.0**2 * RBF(50.0)
SEASON = 2.0**2 * RBF(100.0) * ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
IRREGULAR = 0.5**2 * RationalQuadratic(1.0, 1.0)
NOISE = 0.1**2 * RBF(0.1) + WhiteKernel(0.1**2, (1e-5, 1e5))


def monthly_means(path=None):
    """Return decimal years (n, 1) and mean concentrations (n,) of months that have any."""
    if path is None:
        from sklearn.datasets import fetch_openml

        frame = fetch_openml(data_id=41187, as_frame=True, parser="auto").frame
        year, month, co2 = (frame[name].to_numpy(dtype=float) for name in ("year", "month", "co2"))
    else:
        dates, values = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str, unpack=True)
        known = values != ""
        year, month = (np.array([int(d.split("-")[k]) for d in dates[known]], dtype=float) for k in (0, 1))
        co2 = values[known].astype(float)
    months, place = np.unique(12.0 * year + month - 1.0, return_inverse=True)
    return months[:, None] / 12.0, np.bincount(place, co2) / np.bincount(place)


def main(path=None):
    """Fit, draw the parts, and tell how they add up."""
    X, y = monthly_means(path)
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
