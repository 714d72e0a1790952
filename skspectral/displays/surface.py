"""The evidence as a function of both variances."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import chdtri

from .canvas import BLACK, COLORS, Display, plain_log_ticks
from .view import spectral

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EvidenceSurfaceDisplay"]

# Drops of the log evidence that fill the picture, and how far beyond an interval it reaches.
_DEEPEST, _MARGIN = 20.0, 0.7
_LOG_SMALLEST = np.log(1e-300)  # what floats can hold, with a margin
_REGIONS = (0.5, 0.95, 0.999)


@dataclass
class EvidenceSurfaceDisplay(Display):
    """Contours of the log evidence over noise and signal variance of one output.

    Make it with `from_estimator`.

    Attributes
    ----------
    noise_variance, signal_variance : ndarray of shape (k,)
        The grid.
    log_evidence : ndarray of shape (k, k)
        Less its maximum, rows of noise variance, columns of signal variance.
    optimum : tuple of float
        Fitted noise and signal variance.
    noise_interval, signal_interval : tuple of float
        Profile-likelihood intervals.
    coverage : float
        Their nominal coverage.
    ax_, figure_ : matplotlib Axes and Figure
        Of the last `plot`.

    Notes
    -----
    Contours are labelled by the joint coverage of what they enclose: the log evidence is there within half
    the quantile of chi-squared with two degrees of freedom. The cross is the profile interval of each
    variance, with one degree of freedom.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral import EvidenceSurfaceDisplay, SpectralGPRegressor, load_motorcycle
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> gp = SpectralGPRegressor(RBF(5.0), optimizer=None).fit(X, y)
    >>> display = EvidenceSurfaceDisplay.from_estimator(gp)
    >>> display.log_evidence.shape
    (80, 80)
    >>> plt.close(display.figure_)
    """

    noise_variance: np.ndarray
    signal_variance: np.ndarray
    log_evidence: np.ndarray
    optimum: tuple
    noise_interval: tuple
    signal_interval: tuple
    coverage: float = 0.95

    _figsize = (6.0, 4.8)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        output: int = 0,
        coverage: float = 0.95,
        n_grid: int = 80,
        ax: "Axes | None" = None,
    ) -> Self:
        """Evaluate the log evidence of a fitted estimator over both variances and draw it.

        Parameters
        ----------
        estimator : estimator
            A fitted SpectralKernelRidge or SpectralGPRegressor, or a Pipeline or search that ends with one.
        output : int, default=0
            Which output.
        coverage : float, default=0.95
            Nominal coverage of the intervals.
        n_grid : int, default=80
            Points along each axis.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        EvidenceSurfaceDisplay
        """
        model = spectral(estimator)
        uncertainty = model.variance_uncertainty(coverage)[output]
        fitted = [float(np.ravel(v)[output]) for v in (model.noise_variance_, model.signal_variance_)]
        noise = _grid(uncertainty.noise_interval, fitted[0], 1.0, n_grid)
        largest = model.spectrum_.s.max(initial=0.0) or 1.0
        signal = _grid(uncertainty.signal_interval, fitted[1], 1.0 / largest, n_grid)
        values = _log_evidence(model, output, noise[:, None], signal)
        best = [max(v, grid[0]) for v, grid in zip(fitted, (noise, signal), strict=True)]
        top = max(values.max(), float(_log_evidence(model, output, *best)))
        intervals = uncertainty.noise_interval, uncertainty.signal_interval
        return cls(noise, signal, values - top, tuple(fitted), *intervals, coverage).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the contours.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        EvidenceSurfaceDisplay
        """
        ax = self._take_axes(ax)
        x, y = self.signal_variance, self.noise_variance
        deep = np.maximum(self.log_evidence, -_DEEPEST)
        filled = ax.contourf(x, y, deep, levels=np.linspace(-_DEEPEST, 0.0, 21), cmap="cividis")
        self.figure_.colorbar(filled, ax=ax, label="log evidence less its maximum", ticks=range(-20, 1, 5))
        self._draw_regions(ax)
        self._draw_intervals(ax)
        ax.set(xscale="log", yscale="log", xlim=x[[0, -1]], ylim=y[[0, -1]])
        plain_log_ticks(ax.xaxis)
        plain_log_ticks(ax.yaxis)
        ax.set_xlabel("signal variance λ²")
        ax.set_ylabel("noise variance σ²")
        return self

    def _draw_regions(self, ax):
        depths = {-0.5 * chdtri(2, 1.0 - share): f"{100 * share:g} %" for share in _REGIONS}
        levels = sorted(depths)
        if self.log_evidence.min() < levels[-1]:
            lines = ax.contour(
                self.signal_variance,
                self.noise_variance,
                self.log_evidence,
                levels,
                colors=BLACK,
                linewidths=1,
                linestyles="-",
            )
            ax.clabel(lines, fmt=depths, fontsize="small", inline_spacing=1)

    def _draw_intervals(self, ax):
        x, y = self.signal_variance[[0, -1]], self.noise_variance[[0, -1]]
        noise, signal = np.clip(self.optimum[0], *y), np.clip(self.optimum[1], *x)
        label = f"{100 * self.coverage:g} % profile intervals"
        ax.plot(np.clip(self.signal_interval, *x), [noise] * 2, color="white", lw=1.5, label=label)
        ax.plot([signal] * 2, np.clip(self.noise_interval, *y), color="white", lw=1.5)
        ax.plot(signal, noise, "o", color=COLORS[1], mec="white", label="fitted", clip_on=False, zorder=4)
        ax.legend(
            fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, facecolor="#9a9a9a"
        )


def _log_evidence(model, output, noise, signal):
    values = model.log_evidence_at(noise, signal)
    return values if np.ndim(model.noise_variance_) == 0 else values[..., output]


def _grid(interval, fitted, size, n):
    """Return a geometric grid around an interval, whose ends may be 0 and infinity, and a fitted value."""
    low, high = interval
    inner = [v for v in (low, fitted, high) if 0 < v < np.inf] or [size]
    low = inner[0] / 1e3 if low == 0 else low
    high = inner[-1] * 1e3 if np.isinf(high) else high
    low, high = min(low, *inner), max(high, *inner)
    log_low, log_high = np.log(low), np.log(high)
    margin = _MARGIN * (np.log(2.0) + log_high - log_low)
    return np.exp(
        np.linspace(max(log_low - margin, _LOG_SMALLEST), min(log_high + margin, -_LOG_SMALLEST), n)
    )
