"""The score over the candidates of a search."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .canvas import COLORS, CRITERION_LABELS, Display, is_geometric
from .view import unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["KernelSearchDisplay"]

_LINE_LENGTH = 36


@dataclass
class KernelSearchDisplay(Display):
    """Score over the grid of a search: a curve for one parameter, a heat map for two.

    Make it with `from_estimator`.

    Attributes
    ----------
    params : tuple of str
        One or two parameters.
    values : tuple of list
        Their values, in the order of the axes.
    scores : ndarray of shape (k,) or (k1, k2)
        Best score at each of them, over all other parameters; nan where every fit failed.
    spread : ndarray of shape (k,) or None
        Standard deviation over folds, for a curve.
    score_name : str
        Label of the score.
    ax_, figure_ : matplotlib Axes and Figure
        Of the last `plot`.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from skspectral import KernelSearchCV, KernelSearchDisplay, SpectralKernelRidge, load_motorcycle
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> search = KernelSearchCV(SpectralKernelRidge(), {"gamma": np.logspace(-4, 0, 9)}).fit(X, y)
    >>> display = KernelSearchDisplay.from_estimator(search)
    >>> display.params, display.score_name
    (('gamma',), 'log evidence')
    >>> plt.close(display.figure_)
    """

    params: tuple
    values: tuple
    scores: np.ndarray
    spread: np.ndarray | None = None
    score_name: str = "score"

    @classmethod
    def from_estimator(
        cls,
        search: Any,
        *,
        params: str | Iterable[str] | None = None,
        score: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Read the results of a fitted search and draw them.

        Parameters
        ----------
        search : KernelSearchCV, GridSearchCV or another search of scikit-learn
            Fitted.
        params : str or sequence of one or two str, default=None
            Parameters to show, of the others the best is taken; None are those that vary, at most two.
        score : str, default=None
            Which metric of a search with several; None is the one that refit uses.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        KernelSearchDisplay
        """
        check_is_fitted(search, "cv_results_")
        candidates = search.cv_results_["params"]
        params = _shown(candidates, params)
        key = _score_key(search, score)
        mean, std = search.cv_results_[f"mean_test_{key}"], search.cv_results_[f"std_test_{key}"]
        values = tuple(_distinct([c[name] for c in candidates if name in c]) for name in params)
        scores, best = _table(candidates, params, values, mean)
        spread = std[best] if len(params) == 1 and search.n_splits_ > 1 else None
        return cls(params, values, scores, spread, _score_name(search, key)).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the curve or the heat map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        KernelSearchDisplay
        """
        ax = self._take_axes(ax)
        if len(self.params) == 2:
            self._draw_map(ax)
        elif _is_numeric(self.values[0]):
            self._draw_curve(ax)
        else:
            self._draw_list(ax)
        return self

    def _draw_curve(self, ax):
        x = np.array(self.values[0], dtype=np.float64)
        ax.plot(x, self.scores, ".-", color=COLORS[0])
        if self.spread is not None:
            ends = self.scores - self.spread, self.scores + self.spread
            ax.fill_between(x, *ends, color=COLORS[0], alpha=0.2, lw=0, label="± one std over folds")
        best = np.nanargmax(self.scores)
        ax.plot(x[best], self.scores[best], "o", color=COLORS[1], label=f"best: {_short(x[best])}")
        if is_geometric(x):
            ax.set_xscale("log")
        ax.set(xlabel=self.params[0], ylabel=self.score_name)
        ax.grid(alpha=0.25)
        ax.legend(fontsize="small")

    def _draw_list(self, ax):
        """Draw values that are not numbers, such as kernels, best on top."""
        order = np.argsort(np.nan_to_num(self.scores, nan=-np.inf), kind="stable")
        place, labels = np.arange(len(order)), [_short(self.values[0][i]) for i in order]
        spread = None if self.spread is None else self.spread[order]
        ax.errorbar(self.scores[order], place, xerr=spread, fmt="o", color=COLORS[0], capsize=3)
        ax.plot(self.scores[order[-1]], place[-1], "o", color=COLORS[1], zorder=4, label="best")
        ax.set_yticks(place, labels)
        ax.set(xlabel=self.score_name, ylabel=self.params[0], ylim=(-0.5, len(order) - 0.5))
        ax.grid(alpha=0.25)
        ax.legend(fontsize="small", loc="lower right")

    def _draw_map(self, ax):
        image = ax.imshow(self.scores, origin="lower", aspect="auto", cmap="cividis")
        self.figure_.colorbar(image, ax=ax, label=self.score_name)
        row, column = np.unravel_index(np.nanargmax(self.scores), self.scores.shape)
        ax.plot(column, row, "o", color=COLORS[1], mec="white", ms=9, label="best")
        for axis, values, name in ((ax.yaxis, self.values[0], 0), (ax.xaxis, self.values[1], 1)):
            step = -(-len(values) // 7)  # no more than seven labels
            axis.set_ticks(range(0, len(values), step), [_short(v) for v in values[::step]])
            axis.set_label_text(self.params[name])
        ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), facecolor="#9a9a9a")


def _shown(candidates, params):
    """Return the names of one or two parameters to show."""
    names = sorted({name for candidate in candidates for name in candidate})
    if params is None:
        varying = [n for n in names if len(_distinct([c[n] for c in candidates if n in c])) > 1] or names[:1]
        if len(varying) > 2:
            raise ValueError(
                f"{len(varying)} parameters vary: {', '.join(varying)}. Choose one or two by params."
            )
        return tuple(varying)
    params = (params,) if isinstance(params, str) else tuple(params)
    unknown = [name for name in params if name not in names]
    if unknown or not 1 <= len(params) <= 2:
        raise ValueError(f"params must be one or two of {', '.join(names)}; got {params!r}.")
    return params


def _distinct(values):
    """Return distinct values, numbers in ascending order, others as they come."""
    distinct = list({repr(value): value for value in values}.values())
    return sorted(distinct) if _is_numeric(distinct) else distinct


def _is_numeric(values):
    return all(isinstance(value, Real) and not isinstance(value, bool) for value in values)


def _table(candidates, params, values, mean):
    """Return the best mean score for each (pair of) value(s), and the candidates they come from."""
    places = [{repr(value): i for i, value in enumerate(column)} for column in values]
    shape = tuple(len(column) for column in values)
    scores, best = np.full(shape, np.nan), np.zeros(shape, dtype=int)
    for i, candidate in enumerate(candidates):
        if all(name in candidate for name in params):
            at = tuple(place[repr(candidate[name])] for place, name in zip(places, params, strict=True))
            if np.isnan(scores[at]) or mean[i] > scores[at]:
                scores[at], best[at] = mean[i], i
    return scores, best


def _score_key(search, score):
    keys = [name.removeprefix("mean_test_") for name in search.cv_results_ if name.startswith("mean_test_")]
    if score is None:
        score = search.refit if isinstance(search.refit, str) and search.refit in keys else keys[0]
    if score not in keys:
        raise ValueError(f"score must be one of {', '.join(keys)}; got {score!r}.")
    return score


def _score_name(search, key):
    """Return the criterion's name where there are no folds, else that of the score."""
    if key != "score":
        return key
    if getattr(search, "cv", 0) is None and search.n_splits_ == 1:
        last = unwrap(search)[0] if hasattr(search, "best_estimator_") else search.estimator
        return CRITERION_LABELS[last.criterion]
    return search.scoring if isinstance(search.scoring, str) else "mean test score"


def _short(value):
    """Return a label: a number in few digits, anything else in at most three lines."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return f"{value:.2g}"
    return "\n".join(textwrap.wrap(str(value), _LINE_LENGTH, max_lines=3, placeholder=" …"))
