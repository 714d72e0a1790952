"""Where the evidence may have its valleys, if a kernel has one parameter: a scan of all of them on few rows.

A tridiagonal form of K shows the evidence at every noise ratio. A few values of theta make a map of both
variables, and a few dozen rows are enough to see about where it has its valleys: that form of them costs less
than a step of a descent on all rows. They are neighbourhoods of a few rows: rows drawn from everywhere are
farther from each other than all rows are, and do not see short lengths.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.spatial.distance import cdist

from ..kernels.attached import attach
from ..linalg.stack import evidence_terms_of_stack

__all__ = ["Scan", "scan"]

# Neighbourhoods of a scan, and the rows of each.
_PLACES, _NEIGHBOURS = 4, 12
# Values of theta on each side of the start, and the steps between them and between log noise ratios.
_REACH, _STEP, _RATIO_STEP = 3, float(np.log(4.0)), 1.0
# Minima that are worth a descent, and the -2 log evidence, less that of noise alone, of all but the lowest.
_MOST, _MORE_THAN_NOISE = 3, 0.1
# How far above the lowest of them the others may be: in -2 log evidence, or as a share of that of the lowest.
_CLOSE, _CLOSE_SHARE = 1.0, 0.25
# How far the -2 log evidence rises between a minimum and a lower one: less is a plateau, and no valley.
_RISE = 0.1


def scan(task, theta, bounds, ratios):
    """Return where a map of the evidence has its valleys, a `Scan`.

    Parameters
    ----------
    task : Task
        What is learned: one parameter, by the evidence of one output.
    theta : ndarray of shape (1,)
        Middle of the scan.
    bounds : tuple of float
        Of theta.
    ratios : tuple of float
        Smallest and largest log noise ratio.
    """
    n_rows = _PLACES * _NEIGHBOURS
    few = task if len(task) <= n_rows else task.subset(_neighbourhoods(task)).of_varying_outputs()
    if few is None:  # these rows have nothing to learn from
        return Scan([], 0)
    x = np.linspace(*ratios, int(np.ceil((ratios[1] - ratios[0]) / _RATIO_STEP)) + 1)
    thetas, f = _profiles(few, _grid(float(theta[0]), *bounds), x)
    return Scan([np.array([thetas[k], x[j]]) for k, j in _valleys(f)], len(thetas))


@dataclass(frozen=True)
class Scan:
    """Result of `scan`: points (theta, log noise ratio), the lowest first, and how many matrices it took."""

    points: list
    n_matrices: int


def _neighbourhoods(task):
    """Return indices of a few rows and of those next to each of them; rows from everywhere without distances.

    Inputs that are no rows of numbers have none.
    """
    X = task.data.X
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"):
        return task.drawn(_PLACES * _NEIGHBOURS)
    centres = task.drawn(_PLACES)
    distances = cdist(X[centres], X)
    distances[:, centres] = np.inf
    chosen = [centres]
    for row in distances:
        chosen.append(np.argsort(row, kind="stable")[: _NEIGHBOURS - 1])
        distances[:, chosen[-1]] = np.inf
    return np.unique(np.concatenate(chosen))  # beyond all numbers, distances are alike


def _grid(middle, lower, upper):
    return np.unique(np.clip(middle + _STEP * np.arange(-_REACH, _REACH + 1), lower, upper))


def _profiles(task, thetas, x):
    """Return values of theta at which the kernel is finite, and -2 log evidence there at each x, (k, j)."""
    rows, kernel = task.data.rows, attach(task.kernel, task.data.X)
    with np.errstate(over="ignore", invalid="ignore"):  # kernels beyond all numbers are left out
        stack = np.array([kernel.at(theta[None]).K.matrix(len(rows)) for theta in thetas])
        finite = np.isfinite(stack.sum(axis=(1, 2)))
    stack, thetas = stack[finite], thetas[finite]
    if not len(thetas):
        return thetas, np.zeros((0, len(x)))
    A, H = evidence_terms_of_stack(stack, rows, task.data.standardised[0][:, 0], np.exp(x))
    penalty = np.array([task.with_prior(np.array([theta]), 0.0, 0.0)[0] for theta in thetas])
    with np.errstate(invalid="ignore"):
        f = rows.n_free * np.log(A / rows.n_free) + H + penalty[:, None]
    return thetas, np.where(np.isnan(f), np.inf, f)


def _valleys(f):
    """Return the cells (k, j) of a map that are minima and worth a descent, the lowest first."""
    minima = _minima(f)
    if not minima:
        return []
    lowest, *others = minima
    highest = min(f[lowest] + max(_CLOSE, -_CLOSE_SHARE * f[lowest]), -_MORE_THAN_NOISE)
    return [lowest, *(cell for cell in others if f[cell] < highest and _is_enclosed(f, cell))][:_MOST]


def _minima(f):
    """Return the cells that are no higher than those around them, the lowest first."""
    padded = np.full((f.shape[0] + 2, f.shape[1] + 2), np.inf)
    padded[1:-1, 1:-1] = f
    around = np.minimum(np.minimum(padded[:-2], padded[2:]), padded[1:-1])
    around = np.minimum(np.minimum(around[:, :-2], around[:, 2:]), around[:, 1:-1])
    cells = np.argwhere((f <= around) & (f < np.inf))
    return [tuple(cell) for cell in cells[np.argsort(f[tuple(cells.T)], kind="stable")].tolist()]


def _is_enclosed(f, cell):
    """Return whether all ways from a minimum to a lower cell, or to the first of equal ones, rise enough."""
    water, shore = {cell}, [cell]
    while shore:
        for other in _around(shore.pop(), f.shape):
            if other in water or f[other] > f[cell] + _RISE:
                continue
            if (f[other], other) < (f[cell], cell):
                return False
            water.add(other)
            shore.append(other)
    return True


def _around(cell, shape):
    """Return a cell and those around it."""
    return product(*(range(max(0, k - 1), min(k + 2, n)) for k, n in zip(cell, shape, strict=True)))
