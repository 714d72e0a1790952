"""Every part of a sum of kernels, with its band."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..support.intervals import check_coverage, normal_interval
from .canvas import BLACK, COLORS, Display, pyplot
from .view import output_column, unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AdditivePartsDisplay"]


@dataclass
class AdditivePartsDisplay(Display):
    """The parts of a model whose kernel is a sum: posterior mean and band of each, one below the other.

    Make it with `from_estimator`.

    Attributes
    ----------
    grid : ndarray of shape (k,)
        Inputs.
    names : list of str
        The whole model first, then its mean functions and the terms of its kernel.
    means : list of ndarray of shape (k,)
        Posterior means; those of the parts add up to the first, less its average over the training rows
        where they are centred.
    bands : list of pairs of ndarrays of shape (k,)
        Lower and upper ends.
    X, y : ndarray of shape (n,)
        Data.
    coverage : float
        Nominal coverage of the bands.
    axes_, figure_ : list of matplotlib Axes, and Figure
        Of the last `plot`.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, ExpSineSquared
    >>> from skspectral import AdditivePartsDisplay, SpectralGPRegressor
    >>> X = np.linspace(0, 10, 80)[:, None]
    >>> y = 0.2 * X[:, 0] ** 2 + np.sin(2 * np.pi * X[:, 0])
    >>> gp = SpectralGPRegressor(RBF(5.0) + ExpSineSquared(1.0, 1.0), optimizer=None).fit(X, y)
    >>> display = AdditivePartsDisplay.from_estimator(gp)
    >>> display.names
    ['all of it', 'RBF(length_scale=5)', 'ExpSineSquared(length_scale=1, periodicity=1)']
    >>> bool(np.allclose(sum(display.means[1:]), display.means[0] - gp.predict(X).mean()))
    True
    >>> plt.close(display.figure_)
    """

    grid: np.ndarray
    names: list
    means: list
    bands: list
    X: np.ndarray
    y: np.ndarray
    coverage: float = 0.95

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        output: int = 0,
        coverage: float = 0.95,
        n_points: int = 600,
        grid: ArrayLike | None = None,
        centred: bool = True,
        axes: "list[Axes] | None" = None,
    ) -> Self:
        """Predict the parts along the only input of a fitted process and draw them.

        Parameters
        ----------
        estimator : SpectralGPRegressor
            Fitted, of one input and a kernel object.
        output : int, default=0
            Which output.
        coverage : float, default=0.95
            Nominal coverage of the bands, which are of functions without noise.
        n_points : int, default=600
            Size of the grid, which covers the training inputs and a tenth more on each side.
        grid : array-like of shape (k,), default=None
            Inputs in place of that grid.
        centred : bool, default=True
            Whether parts are shown less their averages over the training rows: what is constant could be in
            any of them, and would make all bands wide.
        axes : list of matplotlib Axes, default=None
            Where to draw, one for the model and one for each part; None makes a figure.

        Returns
        -------
        AdditivePartsDisplay
        """
        check_coverage(coverage)
        model, _ = unwrap(estimator)
        if not hasattr(model, "predict_parts"):
            raise TypeError(
                f"{type(model).__name__} has no additive parts. Use SpectralGPRegressor with a sum of "
                "kernels."
            )
        X = _single_input(model)
        margin = 0.1 * (X.max() - X.min()) or 1.0
        if grid is None:
            grid = np.linspace(X.min() - margin, X.max() + margin, n_points)
        grid = np.asarray(grid, dtype=np.float64)
        whole = ("all of it", *model.predict(grid[:, None], return_std=True, include_noise=False))
        parts = [whole, *model.predict_parts(grid[:, None], centred=centred)]
        means = [output_column(mean, output) for _, mean, _ in parts]
        stds = [output_column(std, output) for _, _, std in parts]
        bands = [normal_interval(mean, std, coverage) for mean, std in zip(means, stds, strict=True)]
        y = output_column(model.y_train_, output)
        return cls(grid, [name for name, *_ in parts], means, bands, X, y, coverage).plot(axes=axes)

    def plot(self, axes: "list[Axes] | None" = None) -> Self:
        """Draw the model with its data, and every part.

        Parameters
        ----------
        axes : list of matplotlib Axes, default=None
            Where to draw, one for the model and one for each part; None makes a figure.

        Returns
        -------
        AdditivePartsDisplay
        """
        if axes is None:
            size = (7.2, 1.7 * len(self.names) + 0.6)
            _, axes = pyplot().subplots(len(self.names), 1, sharex=True, figsize=size, layout="constrained")
        self.axes_ = list(np.ravel(axes))
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        self.ax_.plot(self.X, self.y, ".", color=BLACK, ms=2, alpha=0.5, label="data")
        for k, (ax, name) in enumerate(zip(self.axes_, self.names, strict=True)):
            color = COLORS[k % len(COLORS)]
            label = f"{100 * self.coverage:g} %"
            ax.fill_between(self.grid, *self.bands[k], color=color, alpha=0.3, lw=0, label=label)
            ax.plot(self.grid, self.means[k], color=color, lw=1.2, label="mean")
            ax.set_title(name, fontsize="small", loc="left")
            ax.margins(x=0)
        self.ax_.legend(
            fontsize="small", loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False
        )
        self.axes_[-1].set_xlabel("x")
        return self


def _single_input(model):
    X = np.asarray(model.X_train_)
    if isinstance(model.kernel, str) or X.ndim != 2 or X.shape[1] != 1:
        what = "a precomputed kernel" if isinstance(model.kernel, str) else f"X of shape {X.shape}"
        raise ValueError(
            f"AdditivePartsDisplay shows models of a single input, got {what}. Use predict_parts for others."
        )
    return np.asarray(X[:, 0], dtype=np.float64)
