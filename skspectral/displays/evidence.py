"""The criterion along alpha."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri

from ..criteria import CRITERIA
from ..inference.variances import resolvable_ratios
from ..support.types import Criterion
from .canvas import COLORS, CRITERION_LABELS, GREY, Display
from .view import criterion_values, n_outputs, spectral

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EvidenceDisplay"]

_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
# The axis of the criterion is linear down to this depth and logarithmic below.
_LINEAR_DEPTH = 4.0


@dataclass
class EvidenceDisplay(Display):
    """Criterion against alpha for every output: optimum, both limits and profile-likelihood interval.

    Make it with `from_estimator`.

    Attributes
    ----------
    alphas : ndarray of shape (k,)
        Noise ratios, noise variance over signal variance.
    curves : dict of str to ndarray of shape (k, m)
        By criterion, the value less its maximum in units of log density: the difference of log densities, and
        for mean squared errors -n/2 times the logarithm of their ratio to the smallest.
    limits : dict of str to ndarray of shape (2, m)
        The same in the limits of no noise and of no signal.
    optima : dict of str to ndarray of shape (m,)
        Where each curve is largest: 0 and infinity for the limits.
    intervals : ndarray of shape (m, 2)
        Profile-likelihood intervals of alpha, of the evidence.
    coverage : float
        Their nominal coverage.
    output_names : tuple of str
        Labels of the outputs.
    ax_, figure_ : matplotlib Axes and Figure
        Of the last `plot`.

    Notes
    -----
    The horizontal line is the depth at which the evidence leaves the interval, half the `coverage` quantile
    of chi-squared with one degree of freedom. Below 4 the vertical axis is logarithmic. Curves are of the
    data alone: bounds and priors of the variances move the marked optimum, not the curve.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skspectral import EvidenceDisplay, SpectralKernelRidge, load_motorcycle
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> ridge = SpectralKernelRidge(gamma=0.02).fit(X, y)
    >>> display = EvidenceDisplay.from_estimator(ridge, criteria=("evidence", "loo"))
    >>> sorted(display.curves)
    ['evidence', 'loo']
    >>> display.ax_.get_xlabel()
    'alpha = noise variance / signal variance'
    >>> plt.close(display.figure_)
    """

    alphas: np.ndarray
    curves: dict
    limits: dict
    optima: dict
    intervals: np.ndarray
    coverage: float = 0.95
    output_names: tuple = field(default=("",))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        criteria: Criterion | Iterable[Criterion] | None = None,
        output: int | None = None,
        alphas: ArrayLike | None = None,
        coverage: float = 0.95,
        ax: "Axes | None" = None,
    ) -> Self:
        """Evaluate criteria of a fitted estimator along alpha and draw them.

        Parameters
        ----------
        estimator : estimator
            A fitted SpectralKernelRidge or SpectralGPRegressor, or a Pipeline or search that ends with one.
        criteria : str or sequence of str, default=None
            Criteria to show; None is the estimator's own.
        output : int, default=None
            Which output; None shows all.
        alphas : array-like of shape (k,), default=None
            Positive noise ratios; None covers all that the decomposition resolves.
        coverage : float, default=0.95
            Nominal coverage of the interval.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        EvidenceDisplay
        """
        model = spectral(estimator)
        criteria = _names(model.criterion if criteria is None else criteria)
        alphas = _all_alphas(model.spectrum_) if alphas is None else np.sort(np.asarray(alphas, dtype=float))
        shown = np.arange(n_outputs(model)) if output is None else np.array([output])
        curves, limits, optima = {}, {}, {}
        for name in criteria:
            curve = _Curve(model, name, shown)
            curves[name], limits[name] = curve.depth(alphas), curve.depth(curve.ends)
            optima[name] = curve.optima
        uncertainty = model.variance_uncertainty(coverage)
        intervals = np.array([uncertainty[j].ratio_interval for j in shown])
        names = ("",) if len(shown) == 1 else tuple(f"output {j}" for j in shown)
        return cls(alphas, curves, limits, optima, intervals, coverage, names).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        EvidenceDisplay
        """
        ax = self._take_axes(ax)
        for i, name in enumerate(self.curves):
            for j, output in enumerate(self.output_names):
                alone = len(self.output_names) == 1
                color = COLORS[(i if alone else j) % len(COLORS)]
                line = "-" if alone else _LINES[i % len(_LINES)]
                self._draw_curve(ax, name, j, color, line, _label(name, output, len(self.curves)))
        self._draw_intervals(ax)
        self._dress(ax)
        return self

    def _draw_curve(self, ax, name, j, color, line, label):
        curve, (low, high) = self.curves[name][:, j], self.limits[name][:, j]
        ax.plot(self.alphas, curve, color=color, linestyle=line, label=label)
        ends = self.alphas[[0, -1]]
        ax.plot(ends[0], low, "<", color=color, mfc="white", clip_on=False, zorder=4)
        ax.plot(ends[1], high, ">", color=color, mfc="white", clip_on=False, zorder=4)
        best = np.clip(self.optima[name][j], *ends)
        height = np.interp(np.log(best), np.log(self.alphas), curve)
        ax.plot(best, height, "o", color=color, clip_on=False, zorder=5)

    def _draw_intervals(self, ax):
        """Draw the interval of every output as a bar at the depth of its ends."""
        if "evidence" not in self.curves:
            return
        threshold = -0.5 * chdtri(1, 1.0 - self.coverage)
        ax.axhline(threshold, color=GREY, linewidth=0.8, linestyle=":")
        for j, ends in enumerate(np.clip(self.intervals, *self.alphas[[0, -1]])):
            color = COLORS[
                (list(self.curves).index("evidence") if len(self.output_names) == 1 else j) % len(COLORS)
            ]
            label = f"{100 * self.coverage:g} % profile interval" if j == 0 else None
            ax.plot(ends, [threshold] * 2, "|-", color=color, linewidth=5, alpha=0.35, ms=12, label=label)

    def _dress(self, ax):
        ax.set_xscale("log")
        ax.set_yscale("symlog", linthresh=_LINEAR_DEPTH, linscale=1.5)
        ax.set_ylim(None, 1.0)
        ax.set_yticks(_ticks(min(curve.min() for curve in self.curves.values())))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.set_xlabel("alpha = noise variance / signal variance")
        only = next(iter(self.curves)) if len(self.curves) == 1 else None
        name = CRITERION_LABELS[only] if only in _LOG_DENSITIES else "criterion"
        ax.set_ylabel(f"{name} less its maximum\n(logarithmic below -{_LINEAR_DEPTH:g})")
        ax.grid(alpha=0.25)
        ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)


_LOG_DENSITIES = {name for name, criterion in CRITERIA.items() if criterion.is_density}


def _names(criteria):
    names = (criteria,) if isinstance(criteria, str) else tuple(criteria)
    unknown = [name for name in names if name not in CRITERIA]
    if unknown or not names:
        raise ValueError(f"criteria must be among {', '.join(sorted(CRITERIA))}; got {criteria!r}.")
    return names


def _label(criterion, output, n_criteria):
    if not output:
        return criterion
    return output if n_criteria == 1 else f"{criterion}, {output}"


def _all_alphas(spectrum):
    """Return the range that tuning searches."""
    largest = spectrum.s.max(initial=0.0) or 1.0
    return np.geomspace(*resolvable_ratios(largest, spectrum.noise_resolution), 400)


class _Curve:
    """One criterion of a model along alpha, less its maximum, for chosen outputs."""

    def __init__(self, model, criterion, outputs):
        self.model, self.criterion, self.outputs = model, criterion, outputs
        alphas = _all_alphas(model.spectrum_)
        self.ends = np.array([alphas[0], np.inf])
        self.maximum = np.full(len(outputs), -np.inf)
        self.optima = np.zeros(len(outputs))
        self._look(np.append(alphas, np.inf))
        for alpha in self.optima[np.isfinite(self.optima)]:
            self._look(np.clip(alpha * np.geomspace(0.85, 1.18, 67), alphas[0], None))
        self.optima[self.optima == alphas[0]] = 0.0
        if criterion == model.criterion:
            self.optima = np.array([_place(model.tuning_[j]) for j in outputs])

    def _look(self, alphas):
        """Remember the best of some trial values."""
        values = self._values(alphas)
        best = values.argmax(axis=0)
        highest = values.max(axis=0)
        self.optima = np.where(highest > self.maximum, alphas[best], self.optima)
        self.maximum = np.maximum(highest, self.maximum)

    def _values(self, alphas):
        """Return the criterion in units of log density, (k, outputs)."""
        values = criterion_values(self.model, self.criterion, alphas)[:, self.outputs]
        if CRITERIA[self.criterion].is_density:
            return values
        return -0.5 * self.model.spectrum_.rows.n_free * np.log(np.maximum(-values, np.finfo(float).tiny))

    def depth(self, alphas):
        """Return the values less their maximum; 0 for a constant target, which always fits perfectly."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(self.maximum), self._values(alphas) - self.maximum, 0.0)


def _place(tuned):
    return 0.0 if tuned.status == "noise_free" else tuned.noise_ratio


def _ticks(lowest):
    """Return depths to mark: 0, -2, -4 and powers of ten below."""
    powers = 10.0 ** np.arange(1, max(2, np.ceil(np.log10(max(-lowest, 10.0))) + 1))
    return [0.0, -2.0, -4.0, *(-powers[powers <= -lowest])]
