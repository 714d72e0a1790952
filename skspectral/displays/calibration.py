"""Do the intervals hold what they promise?"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from ..support.intervals import check_coverage, normal_interval
from ..support.shapes import as_columns
from ..support.types import Objects
from .canvas import BLACK, COLORS, Display
from .view import interval, unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CalibrationDisplay"]

_NOMINAL = (*np.linspace(0.05, 0.95, 19).round(2).tolist(), 0.99)
_MARKERS = "os^Dv"
_GID = "calibration"  # marks the curves already on an axis


@dataclass
class CalibrationDisplay(Display):
    """Share of observations inside predictive intervals against the nominal coverage.

    Make it with `from_estimator` or `from_predictions`; draw several on one axis with ``ax=display.ax_``.

    Attributes
    ----------
    nominal : ndarray of shape (k,)
        Nominal coverages.
    empirical : ndarray of shape (k,)
        Share of observations inside, all outputs together.
    n_observations : int
        How many observations there are.
    name : str
        Label of the curve.
    ax_, figure_ : matplotlib Axes and Figure
        Of the last `plot`.

    Notes
    -----
    The grey region holds 95 % of what independent observations of a calibrated model give, point by point: it
    is the interval of Clopper and Pearson around the diagonal. Use data that the model was not fitted on.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.model_selection import train_test_split
    >>> from skspectral import CalibrationDisplay, SpectralGPRegressor, load_motorcycle
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> gp = SpectralGPRegressor().fit(X_train, y_train)
    >>> display = CalibrationDisplay.from_estimator(gp, X_test, y_test)
    >>> display.n_observations
    34
    >>> plt.close(display.figure_)
    """

    nominal: np.ndarray
    empirical: np.ndarray
    n_observations: int
    name: str = "model"

    _figsize = (4.8, 4.8)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Objects,
        y: ArrayLike,
        *,
        coverages: Iterable[float] = _NOMINAL,
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Compare intervals of a fitted estimator with observations and draw the result.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `predict_interval` or ``predict(X, return_std=True)``: a SpectralGPRegressor, a
            GaussianProcessRegressor, or a Pipeline or search that ends with one.
        X, y : array-like of shape (n, p) and (n,) or (n, m)
            Observations, best those that the estimator has not seen.
        coverages : sequence of float
            Nominal coverages, strictly between 0 and 1; the default has 20 from 0.05 to 0.99.
        name : str, default=None
            Label; None is the name of the class.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        CalibrationDisplay
        """
        model, inputs = unwrap(estimator, X)
        name = type(model).__name__ if name is None else name
        return cls._make(y, lambda coverage: interval(model, inputs, coverage), coverages, name, ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        mean: ArrayLike,
        std: ArrayLike,
        *,
        coverages: Iterable[float] = _NOMINAL,
        name: str = "model",
        ax: "Axes | None" = None,
    ) -> Self:
        """Compare normal intervals of means and standard deviations with observations and draw the result.

        Parameters
        ----------
        y_true, mean, std : array-like of shape (n,) or (n, m)
            Observations and the predictive mean and standard deviation of each.
        coverages : sequence of float
            Nominal coverages, strictly between 0 and 1.
        name : str, default="model"
            Label.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        CalibrationDisplay
        """
        mean, std = np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64)
        return cls._make(y_true, lambda coverage: normal_interval(mean, std, coverage), coverages, name, ax)

    @classmethod
    def _make(cls, y, interval_at, coverages, name, ax):
        Y = as_columns(np.asarray(y, dtype=np.float64))
        nominal = np.array([check_coverage(float(c)) for c in coverages])
        empirical = np.array([_share_inside(Y, *interval_at(c)) for c in nominal])
        return cls(nominal, empirical, Y.size, name).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the curve, the diagonal and its region.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        CalibrationDisplay
        """
        ax = self._take_axes(ax)
        drawn = sum(line.get_gid() == _GID for line in ax.lines)
        if not drawn:
            self._draw_background(ax)
        style = {"color": COLORS[drawn % len(COLORS)], "marker": _MARKERS[drawn % len(_MARKERS)]}
        ax.plot(self.nominal, self.empirical, **style, ms=5, alpha=0.8, mfc="none", label=self.name, gid=_GID)
        ax.legend(fontsize="small", loc="upper left")
        return self

    def _draw_background(self, ax):
        x = np.linspace(0.0, 1.0, 201)
        low, high = _binomial_region(x, self.n_observations)
        ax.fill_between(
            x, low, high, color="0.88", lw=0, label=f"95 % if calibrated, n = {self.n_observations}"
        )
        ax.plot([0, 1], [0, 1], color=BLACK, lw=0.8, label="calibrated")
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.set_xlabel("nominal coverage")
        ax.set_ylabel("share of observations inside")
        ax.grid(alpha=0.25)


def _share_inside(Y, lower, upper):
    lower, upper = as_columns(lower), as_columns(upper)
    if lower.shape != Y.shape:
        raise ValueError(f"y has shape {Y.shape} but predictions have shape {lower.shape}; they must agree.")
    return float(((lower <= Y) & (upper >= Y)).mean())


def _binomial_region(p, n):
    """Return the Clopper-Pearson interval of n p successes among n."""
    k = p * n
    with np.errstate(invalid="ignore"):
        low = np.where(k > 0, betaincinv(k, n - k + 1.0, 0.025), 0.0)
        high = np.where(k < n, betaincinv(k + 1.0, n - k, 0.975), 1.0)
    return low, high
