"""How much outputs have in common, and how sure that is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .canvas import GREY, Display
from .view import unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CorrelationDisplay"]

# Outputs up to which standard errors, and numbers at all, can be read.
_MOST_WITH_ERRORS, _MOST_WITH_NUMBERS = 8, 16


@dataclass
class CorrelationDisplay(Display):
    """Correlations between outputs with standard errors: of signals above the diagonal, of noise below.

    Make it with `from_estimator`.

    Attributes
    ----------
    correlations : OutputCorrelations
        What is shown.
    names : tuple of str
        Names of the outputs.
    ax_, figure_ : matplotlib Axes and Figure
        Of the last `plot`.
    text_ : ndarray of shape (m, m)
        The texts drawn, None where there is none.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral import CorrelationDisplay, SpectralGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 10, 80)[:, None]
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0] + 0.3)]) + rng.normal(0, 0.3, (80, 2))
    >>> gp = SpectralGPRegressor(RBF(1.5), outputs="correlated", optimizer=None).fit(X, Y)
    >>> display = CorrelationDisplay.from_estimator(gp, names=["left", "right"])
    >>> display.names
    ('left', 'right')
    >>> plt.close(display.figure_)
    """

    correlations: Any
    names: tuple

    _figsize = (6.0, 5.2)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | None = None, ax: "Axes | None" = None
    ) -> Self:
        """Read the correlations of a fitted model and draw them.

        Parameters
        ----------
        estimator : SpectralGPRegressor with outputs="correlated", or a Pipeline or search that ends with one
            Fitted.
        names : sequence of str, default=None
            Names of the outputs; None counts them from 0.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        CorrelationDisplay
        """
        model, _ = unwrap(estimator)
        if not hasattr(model, "output_correlations"):
            raise TypeError(
                f"This display needs correlations between outputs, and {type(model).__name__} has none. Use "
                "SpectralGPRegressor(outputs='correlated')."
            )
        correlations = model.output_correlations()
        m = len(correlations.signal)
        names = tuple(str(j) for j in range(m)) if names is None else tuple(names)
        if len(names) != m:
            raise ValueError(f"names has {len(names)} entries, but the model has {m} output(s).")
        return cls(correlations, names).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw the table.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        CorrelationDisplay
        """
        ax = self._take_axes(ax)
        shown = self._shown(self.correlations.signal, self.correlations.noise)
        image = ax.imshow(shown, cmap="RdBu", vmin=-1.0, vmax=1.0)  # the diagonal stays white
        self.figure_.colorbar(image, ax=ax, label="correlation", shrink=0.85)
        self._draw_numbers(ax, shown)
        m = len(self.names)
        ax.plot([-0.5, m - 0.5], [-0.5, m - 0.5], color=GREY, lw=0.8)
        ax.set_xticks(range(m), self.names, rotation=45 if m > 4 else 0)
        ax.set_yticks(range(m), self.names)
        ax.set_title("signal above, noise below the diagonal", fontsize="medium")
        return self

    @staticmethod
    def _shown(above, below):
        """Return a table of both, without the diagonal."""
        table = np.where(np.tri(len(above), dtype=bool), below, above)
        np.fill_diagonal(table, np.nan)
        return table

    def _draw_numbers(self, ax, shown):
        """Write correlations, and standard errors where there is room."""
        m = len(shown)
        errors = self._shown(self.correlations.signal_se, self.correlations.noise_se)
        self.text_ = np.full((m, m), None, dtype=object)
        if m > _MOST_WITH_NUMBERS:
            return
        for i, j in np.argwhere(np.isfinite(shown)):
            text = f"{shown[i, j]:.2f}"
            if m <= _MOST_WITH_ERRORS:
                text += f"\n± {errors[i, j]:.2f}"
            color = "white" if abs(shown[i, j]) > 0.6 else "black"
            self.text_[i, j] = ax.text(j, i, text, ha="center", va="center", color=color, fontsize="small")
