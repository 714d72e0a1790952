"""Global minimisation of smooth functions of one variable, many at once.

This room does not know what it minimises. An objective is a callable

    objective(x, outputs) -> (f, f1, f2)

with x of shape (k, 1) (the same points for every output) or (k, len(outputs)), `outputs` an index
array, and results of shape (k, len(outputs)).

The search is exact for functions whose features are no narrower than the grid: evaluate f, f', f''
on the grid, bracket every minimum by a change of sign of f' (cells where the tangents of f' suggest a
hidden pair of roots are looked at more closely), guess the root from f' and f'' at the ends of each
bracket, refine it by Newton's method with bisection as its safeguard, and compare all of them with both ends.
"""

from dataclasses import dataclass, fields

import numpy as np

__all__ = ["Minima", "TuningResult", "look_at_each", "minimize_each", "zoom"]

_GRID_STEP = 0.25
# The same where functions are known to have no narrow features.
_WIDE_STEP = 4.0
_EVERYWHERE = -np.inf, np.inf
_SUBDIVISIONS = 8
# Steps of a grid may differ by rounding.
_JUST_ABOVE = 1.0 + 1e-9
_X_TOLERANCE = 1e-10
# Step of Newton's method after which it has converged: what is left is of the order of its square.
_LAST_STEP = 1e-6
_MAX_REFINEMENTS = 80
# Share of the way to the other end of a bracket that leads back across a kink.
_LITTLE_BACK = 0.05
# Brackets refined together; bounds the memory of evaluations at points of each output's own.
_BATCH = 256
# Points of each look that zooms in: a factor of 4.
_ZOOM_POINTS = 9


@dataclass(frozen=True)
class TuningResult:
    """What tuning found for one output.

    Attributes
    ----------
    status : str
        "interior": a minimum with vanishing derivative; "noise_free" or "pure_noise": the limit of no
        noise or no signal is best; "resolution": what the kernel leaves unexplained is too little to be
        told from the rounding of its matrix, and the smallest ratio that can be told stands for it;
        "bound": a bound given by the user is active; "undetermined": targets without variation, or too few
        of them, say nothing of the variances; "fixed": nothing was tuned.
    noise_ratio : float
        noise_var / signal_var, the penalty of the ridge; infinite for "pure_noise".
    value : float
        The criterion in its public sense, greater is better.
    n_evaluations : int
        Trial values at which the criterion was evaluated.
    """

    status: str
    noise_ratio: float
    value: float
    n_evaluations: int


@dataclass(frozen=True)
class Minima:
    """Global minimiser per output: `x`, `f`, `place` ("interior", "lower", "upper"), `n_evaluations`.

    `first_slope` is the derivative at the lower end.
    """

    x: np.ndarray
    f: np.ndarray
    place: np.ndarray
    n_evaluations: np.ndarray
    first_slope: np.ndarray

    def repeated(self, n_outputs):
        """Return the minimum of one function as that of each of several outputs."""
        return Minima(*(np.repeat(getattr(self, field.name), n_outputs) for field in fields(self)))


def minimize_each(
    objective, n_outputs, x_min, x_max, *, upper=np.inf, tie=0.0, step=_GRID_STEP, features=_EVERYWHERE
):
    """Minimise every output's function over [x_min, x_max] and the point `upper` beyond it.

    Parameters
    ----------
    objective : callable
        See the module's docstring.
    n_outputs : int
        Number of functions.
    x_min, x_max : float
        Ends of the grid.
    upper : float, default=inf
        Where the upper limit is evaluated.
    tie : float, default=0
        Differences of f that are rounding. Limits, being simpler, win ties, the upper one first.
    step : float, default=0.25
        Largest step of the grid.
    features : tuple of two floats, default=(-inf, inf)
        Where functions may have several minima: few points are enough below and above.
    """
    grid = _grid(x_min, x_max, step, features)
    f, f1, f2 = objective(np.append(grid, upper)[:, None], np.arange(n_outputs))
    f_upper = f[-1]
    outputs, *brackets = _brackets(objective, grid, f1[:-1], f2[:-1], step)
    x_inner, f_inner, n_steps = _refine_in_batches(objective, outputs, *brackets)

    x, best, place = (
        np.full(n_outputs, x_min),
        f[0].copy(),
        np.full(n_outputs, "lower", dtype=object),
    )
    order = np.argsort(-f_inner, kind="stable")  # the best of an output is written last
    for i in order:
        j = outputs[i]
        if f_inner[i] < best[j] - tie:
            x[j], best[j], place[j] = x_inner[i], f_inner[i], "interior"
    wins = f_upper <= best + tie
    x[wins], best[wins], place[wins] = upper, f_upper[wins], "upper"
    n_evaluations = len(grid) + 1 + np.bincount(outputs, weights=n_steps, minlength=n_outputs)
    return Minima(x, best, place, n_evaluations.astype(int), f1[0])


def look_at_each(objective, n_outputs, x_min, x_max, *, upper=np.inf, features=_EVERYWHERE):
    """Return the best point of the grid for each output, or `upper`, after a step of Newton's.

    A rough `minimize_each`.
    """
    points, everyone = np.append(_grid(x_min, x_max, _GRID_STEP, features), upper), np.arange(n_outputs)
    f, f1, f2 = objective(points[:, None], everyone)
    best = f.argmin(axis=0), everyone
    x, slope, curvature = points[best[0]], f1[best], f2[best]
    may_move = (curvature > 0) & np.isfinite(x)
    with np.errstate(over="ignore"):  # hardly any curvature
        step = np.divide(-slope, curvature, out=np.zeros_like(slope), where=may_move)
    moved = np.clip(x + np.clip(step, -_GRID_STEP, _GRID_STEP), x_min, x_max)
    return np.where(np.isfinite(x), moved, x)


def _grid(x_min, x_max, step, features):
    first, last = (min(max(end, x_min), x_max) for end in features)
    below, above = _spaced(x_min, first, _WIDE_STEP), _spaced(last, x_max, _WIDE_STEP)
    return np.concatenate([below[:-1], _spaced(first, last, step), above[1:]])


def _spaced(start, end, step):
    return np.linspace(start, end, int(np.ceil((end - start) / step)) + 1)


def _brackets(objective, grid, f1, f2, step):
    """Return (outputs, a, b, x) of all cells [a, b] in which f' rises through 0, about at x.

    Cells of more than a step are those of functions without narrow features, which hide nothing.
    """
    down, up = f1[:-1], f1[1:]
    cell, output = np.nonzero((down < 0) & (up >= 0))
    a, b, ends = grid[cell], grid[cell + 1], ((cell, output), (cell + 1, output))
    brackets = [(output, a, b, _rough_root(a, b, *(values[end] for values in (f1, f2) for end in ends)))]
    width = np.diff(grid)[:, None]
    may_hide = _may_hide_roots(down, up, f2[:-1], f2[1:], width) & (width <= _JUST_ABOVE * step)
    cell, output = np.nonzero(may_hide)
    if len(cell):
        fine = np.linspace(grid[cell], grid[cell + 1], _SUBDIVISIONS + 1)
        slope = objective(fine, output)[1]
        piece, which = np.nonzero((slope[:-1] < 0) & (slope[1:] >= 0))
        a, b = fine[piece, which], fine[piece + 1, which]
        brackets.append((output[which], a, b, 0.5 * (a + b)))
    return tuple(np.concatenate(parts) for parts in zip(*brackets, strict=True))


def _rough_root(a, b, down, up, curve_down, curve_up):
    """Return about where f' rises from `down` at a to `up` at b through 0: the inverse function's cubic.

    The middle where a slope of the inverse function is unknown, or the cubic leaves the bracket.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rise = up - down
        t = -down / rise
        before, after = rise / curve_down, rise / curve_up
        x = a + (b - a) * t**2 * (3.0 - 2.0 * t) + t * (1.0 - t) * ((1.0 - t) * before - t * after)
        is_good = (curve_down > 0) & (curve_up > 0) & (x > a) & (x < b)
    return np.where(is_good, x, 0.5 * (a + b))


def _may_hide_roots(down, up, curve_down, curve_up, width):
    """Return where f' has one sign at both ends of a cell but its end tangents meet beyond 0."""
    side = np.sign(down)
    turns = (side == np.sign(up)) & (side == -np.sign(curve_down)) & (side == np.sign(curve_up))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        meet = (up - down - curve_up * width) / (curve_down - curve_up)
        return turns & (side * (down + curve_down * meet) <= 0)


def _refine_in_batches(objective, outputs, *brackets):
    x, f, steps = np.empty((3, len(outputs)))
    for start in range(0, len(outputs), _BATCH):
        part = slice(start, start + _BATCH)
        x[part], f[part], steps[part] = _refine(objective, outputs[part], *(end[part] for end in brackets))
    return x, f, steps


def _refine(objective, outputs, a, b, x):
    """Return the roots of f' in brackets [a, b] by Newton's method from x, bisecting where it leaves them.

    A step that leaves a bracket right after one that did not has crossed a kink of f', at a bound of a
    variance, beyond which f' is flat: the root is close behind.
    """
    n_steps, back = 0, np.full(len(a), 0.5)
    while n_steps < _MAX_REFINEMENTS:
        n_steps += 1
        f, f1, f2 = (values[0] for values in objective(x[None], outputs))
        a, b, other = np.where(f1 < 0, x, a), np.where(f1 < 0, b, x), np.where(f1 < 0, b, a)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # hardly any curvature
            newton = x - f1 / f2
        inside = (f2 > 0) & (newton >= a) & (newton <= b)
        proposal = np.where(inside, newton, x + back * (other - x))
        back = np.where(inside, _LITTLE_BACK, 0.5)
        step = proposal - x
        if np.all(np.abs(step) <= np.where(inside, _LAST_STEP, _X_TOLERANCE)):
            return proposal, f + 0.5 * f1 * step, n_steps
        x = proposal
    return x, f, n_steps


def zoom(function, points, n_looks):
    """Return minimisers and minima of functions of one variable without derivatives, one for each column.

    Parameters
    ----------
    function : callable
        (k, ...) -> (k, ...), elementwise.
    points : ndarray of shape (k, ...)
        Ascending along the first axis. The best point and its neighbours bracket the minimum that is found.
    n_looks : int
        How often the bracket is cut, by a factor of 4 each time.
    """
    for _ in range(n_looks):
        best = function(points).argmin(axis=0)[None]
        left, right = (
            np.take_along_axis(points, np.clip(best + step, 0, len(points) - 1), axis=0)[0]
            for step in (-1, 1)
        )
        points = np.linspace(left, right, _ZOOM_POINTS)
    values = function(points)
    best = values.argmin(axis=0)[None]
    return tuple(np.take_along_axis(of, best, axis=0)[0] for of in (points, values))
