"""Data that come with the package."""

from importlib.resources import files
from typing import Any, Literal, overload

import numpy as np
from sklearn.utils import Bunch

from .support.types import FloatArray

__all__ = ["load_motorcycle"]

_DESCR = """Motorcycle crash data

133 measurements of head acceleration in a simulated motorcycle accident, used to test crash helmets.

times   milliseconds after impact
accel   acceleration in g

The noise grows after the impact, and several times have more than one measurement.

Silverman, B. W. (1985), "Some aspects of the spline smoothing approach to non-parametric regression curve
fitting", Journal of the Royal Statistical Society B 47:1-52. The values are those of `mcycle` in Venables and
Ripley, "Modern Applied Statistics with S" (MASS).
"""


@overload
def load_motorcycle(*, return_X_y: Literal[False] = False) -> Bunch: ...
@overload
def load_motorcycle(*, return_X_y: Literal[True]) -> tuple[FloatArray, FloatArray]: ...
def load_motorcycle(*, return_X_y: bool = False) -> Any:
    """Load the motorcycle crash data: acceleration of the head against time, 133 rows.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.

    Returns
    -------
    data : :class:`sklearn.utils.Bunch`
        With `data` (133, 1): milliseconds after impact; `target` (133,): acceleration in g;
        `feature_names`, `target_names`, `DESCR` and `filename`.
    (data, target) : tuple
        With ``return_X_y=True``.

    Notes
    -----
    The spread of the measurements depends on time; models of constant noise are too wide before the impact
    and too narrow after it. Source: Silverman (1985), JRSS B 47:1-52; `mcycle` of Venables & Ripley's MASS.

    Examples
    --------
    >>> from skspectral import load_motorcycle
    >>> X, y = load_motorcycle(return_X_y=True)
    >>> X.shape, y.shape
    ((133, 1), (133,))
    """
    source = files(__package__) / "data" / "mcycle.csv"
    with source.open(encoding="utf-8") as lines:
        names = next(lines).strip().split(",")
        table = np.loadtxt(lines, delimiter=",")
    if return_X_y:
        return table[:, :1], table[:, 1]
    return Bunch(
        data=table[:, :1],
        target=table[:, 1],
        feature_names=names[:1],
        target_names=names[1:],
        DESCR=_DESCR,
        filename="mcycle.csv",
    )
