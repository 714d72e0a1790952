"""Mean and bands over a single input."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..support.intervals import check_coverage
from .canvas import BLACK, COLORS, Display
from .view import has_distribution, interval, output_column, unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PredictionBandDisplay"]


@dataclass
class PredictionBandDisplay(Display):
    """Predictions over one input: mean, bands, data and leave-one-out predictions.

    Make it with `from_estimator`.

    Attributes
    ----------
    grid : ndarray of shape (k,)
        Inputs.
    mean : ndarray of shape (k,)
        Predictive mean.
    band, function_band : tuple of two ndarrays of shape (k,), or None
        Lower and upper ends for new observations and for the function without noise; None for a model without
        predictive distribution.
    X, y : ndarray of shape (n,), or None
        Data.
    loo : ndarray of shape (n,) or None
        Leave-one-out predictions at the data.
    coverage : float
        Nominal coverage of the bands.
    used : ndarray of shape (r,) or None
        Inputs whose kernel functions the model uses, where it uses only some: relevance vectors.
    x_name, y_name : str
        Labels.
    ax_, figure_ : matplotlib Axes and Figure
        Of the last `plot`.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skspectral import PredictionBandDisplay, SpectralGPRegressor, load_motorcycle
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> gp = SpectralGPRegressor(inference="integrate").fit(X, y)
    >>> display = PredictionBandDisplay.from_estimator(gp)
    >>> lower, upper = display.band
    >>> bool((lower < display.mean).all() and (display.mean < upper).all())
    True
    >>> plt.close(display.figure_)
    """

    grid: np.ndarray
    mean: np.ndarray
    band: tuple | None = None
    function_band: tuple | None = None
    X: np.ndarray | None = None
    y: np.ndarray | None = None
    loo: np.ndarray | None = None
    coverage: float = 0.95
    x_name: str = "x"
    y_name: str = "y"
    used: np.ndarray | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        output: int = 0,
        coverage: float = 0.95,
        n_points: int = 400,
        show_loo: bool = False,
        ax: "Axes | None" = None,
    ) -> Self:
        """Predict along the only input of a fitted estimator and draw it.

        Parameters
        ----------
        estimator : estimator
            Fitted, of one input: one of this package, a GaussianProcessRegressor, or a Pipeline or search
            that ends with one of these. Any other regressor is drawn without bands.
        X, y : array-like of shape (n, 1) and (n,) or (n, m), default=None
            Data to show; None are the training data where the estimator keeps them. The grid covers X and a
            tenth more on each side.
        output : int, default=0
            Which output.
        coverage : float, default=0.95
            Nominal coverage of the bands.
        n_points : int, default=400
            Size of the grid.
        show_loo : bool, default=False
            Whether to show leave-one-out predictions of the training rows, where the estimator has them.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        PredictionBandDisplay
        """
        check_coverage(coverage)
        model, _ = unwrap(estimator)
        x_name, X = _name(X, "x"), _inputs(model, X if X is not None else _training_inputs(estimator, model))
        y_name, y = _name(y, "y"), output_column(_training_targets(model, X) if y is None else y, output)
        margin = 0.1 * (X.max() - X.min()) or 1.0
        grid = np.linspace(X.min() - margin, X.max() + margin, n_points)
        inputs = unwrap(estimator, _like_training(estimator, grid))[1]
        mean = output_column(model.predict(inputs), output)
        bands = _bands(model, inputs, coverage, output)
        loo = None
        if show_loo and hasattr(model, "loo_predict"):
            loo = output_column(model.loo_predict(), output)
            if len(loo) != len(X):
                raise ValueError(
                    "show_loo=True needs the training rows: leave out X and y, or pass those of fit."
                )
        return cls(grid, mean, *bands, X, y, loo, coverage, x_name, y_name, _used(model, estimator)).plot(
            ax=ax
        )

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw mean, bands and points.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        PredictionBandDisplay
        """
        ax = self._take_axes(ax)
        share = f"{100 * self.coverage:g} %"
        if self.band is not None:
            ax.fill_between(
                self.grid, *self.band, color=COLORS[5], alpha=0.35, lw=0, label=f"{share}, new observations"
            )
        if self.function_band is not None:
            ax.fill_between(
                self.grid, *self.function_band, color=COLORS[0], alpha=0.35, lw=0, label=f"{share}, function"
            )
        ax.plot(self.grid, self.mean, color=COLORS[0], label="mean")
        if self.y is not None:
            ax.plot(self.X, self.y, ".", color=BLACK, ms=4, alpha=0.7, label="data")
        if self.used is not None:
            foot = np.full(len(self.used), 0.02)
            ax.plot(
                self.used,
                foot,
                "^",
                transform=ax.get_xaxis_transform(),
                color=COLORS[1],
                label=f"{len(self.used)} functions",
            )
        if self.loo is not None:
            ax.plot(self.X, self.loo, "x", color=COLORS[1], ms=4, label="leave-one-out prediction")
        ax.set(xlabel=self.x_name, ylabel=self.y_name, xlim=self.grid[[0, -1]])
        ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
        return self


def _used(model, estimator):
    """Return the inputs of the functions that a sparse model uses, None for others and behind a Pipeline."""
    vectors = getattr(model, "relevance_vectors_", getattr(model, "support_vectors_", None))
    return None if vectors is None or model is not estimator else np.asarray(vectors, dtype=np.float64)[:, 0]


def _name(values, default):
    """Return the name of a data frame's only column, or of a series."""
    names = list(getattr(values, "columns", [])) or [getattr(values, "name", None)]
    return names[0] if len(names) == 1 and isinstance(names[0], str) else default


def _training_inputs(estimator, model):
    if model is estimator:
        for name in ("X_train_", "X_fit_"):
            if hasattr(model, name):
                return getattr(model, name)
    raise ValueError(
        f"Pass X (and y): {type(estimator).__name__} does not keep its training inputs as they were."
    )


def _training_targets(model, X):
    """Return the training targets if the model keeps them in their units and X are its rows, or None."""
    y = getattr(model, "y_train_", None)
    if y is None or len(y) != len(X):
        return None
    return y * getattr(model, "_y_train_std", 1.0) + getattr(model, "_y_train_mean", 0.0)


def _inputs(model, X):
    X = np.asarray(X, dtype=np.float64)
    precomputed = isinstance(getattr(model, "kernel", None), str) and model.kernel == "precomputed"
    if precomputed or X.ndim != 2 or X.shape[1] != 1:
        what = "a precomputed kernel" if precomputed else f"X of shape {X.shape}"
        raise ValueError(f"PredictionBandDisplay shows models of a single input, got {what}.")
    return X[:, 0]


def _like_training(estimator, grid):
    """Return the grid as (k, 1), in a data frame of the names seen in fit."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return grid[:, None]
    import pandas as pd

    return pd.DataFrame(grid[:, None], columns=names)


def _bands(model: Any, inputs: Any, coverage: float, output: int) -> tuple[Any, Any]:
    """Return the bands of new observations and of the function, None where the model has none."""
    try:
        band = interval(model, inputs, coverage)
    except TypeError:
        return None, None
    band = tuple(output_column(end, output) for end in band)
    if not has_distribution(model):  # scikit-learn's cannot leave out the noise
        return band, None
    function = interval(model, inputs, coverage, include_noise=False)
    return band, tuple(output_column(end, output) for end in function)
