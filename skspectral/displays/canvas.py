"""Axes and colours that all displays share."""

import numpy as np

__all__ = [
    "BLACK",
    "COLORS",
    "CRITERION_LABELS",
    "GREY",
    "Display",
    "is_geometric",
    "plain_log_ticks",
    "pyplot",
]

# Okabe and Ito's palette: told apart under all common kinds of colour blindness.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
BLACK, GREY = "#000000", "#767676"
_GEOMETRIC_SPAN = 20.0

CRITERION_LABELS = {
    "evidence": "log evidence",
    "gcv": "-GCV score",
    "loo": "-leave-one-out squared error",
    "loo_lpd": "leave-one-out log density",
    "posterior": "posterior criterion",
}


def pyplot():
    """Import matplotlib.pyplot, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Displays need matplotlib, which is not installed. Try: pip install 'skspectral[plot]'."
        ) from error
    return plt


class Display:
    """Base of all displays: takes axes, or makes a figure of its own."""

    _figsize = (6.4, 4.2)

    def _take_axes(self, ax):
        """Set and return `ax_`, with `figure_` beside it."""
        plt = pyplot()
        if ax is None:
            _, ax = plt.subplots(figsize=self._figsize, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def is_geometric(values):
    """Return whether positive numbers span so much that a logarithmic axis shows them better."""
    values = np.asarray(values, dtype=np.float64)
    return bool((values > 0).all() and values.max() > _GEOMETRIC_SPAN * values.min())


def plain_log_ticks(axis):
    """Label a logarithmic axis whose limits are set: powers of ten, 2 and 5 times these if it is short."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,), numticks=6))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")
