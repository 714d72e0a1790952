"""Minimisation of an expensive smooth function in a box: projected BFGS that can inherit its curvature.

scipy's L-BFGS-B always starts from a unit Hessian. Here one problem is solved on ever more rows, and
what a coarser level learned about the curvature saves most of the steps of the next.
"""

from dataclasses import dataclass, replace
from math import frexp, isfinite, sqrt

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.optimize import minimize
from sklearn.utils.optimize import _check_optimize_result

from ..linalg.directions import largest_size

__all__ = ["NEIGHBOURHOOD", "Descent", "lbfgs", "minimize_in_box", "with_seen_curvature"]

_ARMIJO = 1e-4
# Largest change of a (log) parameter in one step, and in the first one with the curvature of other rows.
_MAX_STEP, _MAX_FIRST_STEP = 2.0, 1.0
# Way of a variable, in log units, that a curvature promises at most: what is flat here need not be so there.
_FARTHEST = 4.0
_MAX_HALVINGS = 12
# A promised decrease so small that rounding may hide it, and how often such a step is then halved.
_HIDDEN, _FEW_HALVINGS = 1e-7, 2
# Step so short that a smooth function is nearly its tangent, and how often a function may fail to show it.
_SHORT, _FEW_DOUBTS = 1e-3, 2
# Slope, for each log unit, that is rounding, and leads nowhere.
_NO_SLOPE = 1e-8
# Smallest curvature relative to the largest, and to the slope.
_FLATTEST = 1e-12
# Smallest squared pivot of a Cholesky factor, relative to the largest, that leaves no doubt of that.
_WELL_ABOVE = 1e-8
# Way of a variable in one direction, in log units, that suggests its bound, where a step brings this little.
_LONG_WAY, _LITTLE = 3.0, 0.05
# The same where a step brings next to nothing.
_SHORTER_WAY, _NEXT_TO_NOTHING = 1.0, 1e-3
# Slope, for each log unit, of a variable that a function hardly depends on, and what it may then cost to go
# to its bound.
_FLAT, _NOTHING = 0.01, 1e-6
# Differences of log parameters from which a curvature is seen, and the smallest of it beside the largest that
# is believed.
_DIFFERENCE, _FLATTEST_SEEN = 0.05, 1e-4
# How far off a curvature may be, relatively, that a step did not show to be off.
_UNSEEN = 0.15
# Variables up to which a descent that inherits a curvature, or is a mere look, does not ask for one.
_WELL_KNOWN = 2
# How often a descent may go over to another face, and how many steps it then makes there.
_MAX_EDGES, _EDGE_STEPS = 3, 20
_ANY = object()
# Distance, in log units, at which two ends are two optima.
NEIGHBOURHOOD = 0.5
# How many times its last decrease a descent may still be expected to fall.
_OUTLOOK = 4.0


@dataclass(frozen=True)
class Descent:
    """Where a minimisation ended.

    Attributes
    ----------
    x : ndarray of shape (p,)
        The point.
    evaluation : object
        What the objective returned there.
    curvature : ndarray of shape (p, p)
        Estimate of the Hessian (BFGS).
    """

    x: np.ndarray
    evaluation: object
    curvature: np.ndarray

    @property
    def value(self):
        """The objective at `x`."""
        return self.evaluation.value


def minimize_in_box(
    objective,
    start,
    lower,
    upper,
    *,
    curvature=None,
    tolerance=1e-7,
    max_steps=100,
    to_beat=None,
    home=None,
    way_from=None,
    here=None,
    enough=None,
    report=None,
):
    """Minimise a function over lower <= x <= upper.

    Parameters
    ----------
    objective : callable
        Returns an `Evaluation`, whose value may be infinite where it is not defined. The objective's
        method `with_curvature`, if it has one, adds the `curvature`, or None, and is called for the start.
        A function whose second derivatives jump from one `face` to the next has a method `on_face`, which
        returns a smooth function that equals it on a face.
    start, lower, upper : ndarray of shape (p,)
        Starting point and box.
    curvature : ndarray of shape (p, p), default=None
        Positive definite guess of the Hessian, for objectives that have none themselves.
    tolerance : float, default=1e-7
        Stop when the model promises, or two steps in a row bring, no more than this.
    max_steps : int, default=100
        Limit of the number of steps.
    to_beat : float, default=None
        Stop when the last decreases do not suggest that this value will be reached.
    home : ndarray of shape (p,), default=None
        Stop when a step leads back to the neighbourhood of this point, half a unit in all variables.
    way_from : ndarray of shape (p,), default=None
        Where the first of all descents began: variables that came a long way from there and do not matter in
        the end go to the bounds that they were on their way to.
    here : object, default=None
        What the objective returns at the start, where that is known, with its gradient.
    enough : float, default=None
        Stop, without a look at the gradient there, where a step brought what was promised, so that about this
        can be left: for a curvature that is well known, and a gradient that costs more than a value.
    report : callable, default=None
        report(step, x, evaluation) is called after every step.
    """
    walk = _Walk(objective, start, lower, upper, curvature, here, enough, home, to_beat)
    while walk.n_steps < max_steps and walk.promise() >= tolerance and walk.step(tolerance):
        if report is not None:
            report(walk.n_steps, walk.x, walk.here)
        if walk.idle >= 2:
            break
    if way_from is not None:
        walk.leave_flat(way_from)
    return Descent(walk.x, walk.here, walk.B)


def with_seen_curvature(objective, descent, lower, upper):
    """Return a descent with the curvature at its end from differences of gradients, if that is positive."""
    x, gradient = descent.x, descent.evaluation.gradient
    inwards = np.where(x + _DIFFERENCE > upper, -_DIFFERENCE, _DIFFERENCE)
    changes = [objective(np.maximum(point, lower)).gradient - gradient for point in x + np.diag(inwards)]
    H = np.array(changes) / inwards[:, None]
    b = np.linalg.eigvalsh(0.5 * (H + H.T))
    return replace(descent, curvature=0.5 * (H + H.T)) if b[0] > _FLATTEST_SEEN * b[-1] else descent


class _Walk:
    """Where a descent is and what it knows.

    Attributes
    ----------
    x, here
        The point, and the evaluation there.
    B : ndarray of shape (p, p)
        Estimate of the Hessian; `fresh` until a step has shown something of it.
    idle : int
        Steps in a row that brought next to nothing.
    """

    def __init__(
        self, objective, start, lower, upper, curvature, here=None, enough=None, home=None, to_beat=None
    ):
        self.objective, self.lower, self.upper = objective, lower, upper
        self.enough, self.home, self.to_beat = enough, home, to_beat
        self.x = np.minimum(np.maximum(start, lower), upper)
        if here is None or here.gradient is None:
            is_wanted = len(self.x) > _WELL_KNOWN or (curvature is None and home is None)
            here = getattr(objective, "with_curvature", objective)(self.x) if is_wanted else objective(self.x)
            if here.curvature is not None:
                curvature = _damped(here.curvature, here.gradient)
        self.here = here
        self.fresh = curvature is None
        self.B = _initial_curvature(self.here.gradient) if self.fresh else curvature.copy()
        self.idle = self.n_steps = self._n_edges = 0
        self.decrease = np.inf
        self._drift = np.zeros(len(self.x))

    def promise(self):
        """Return the decrease that the model promises; infinite where no step has shown the curvature."""
        gradient = self.here.gradient
        free = np.where(gradient > 0, self.x > self.lower, (self.x < self.upper) | (gradient == 0))
        if largest_size(gradient[free]) <= _NO_SLOPE:
            return -np.inf
        longest = _MAX_STEP if self.n_steps or self.fresh else _MAX_FIRST_STEP
        self._direction = _newton_direction(self.B, gradient, free, longest)
        return np.inf if self.fresh and not self.idle else -0.5 * (gradient @ self._direction)

    def step(self, tolerance):
        """Move; return whether the descent can go on."""
        x, here = self.x, self.here
        may_be_hidden = -0.5 * (here.gradient @ self._direction) < _HIDDEN
        x_new, there, beyond = _line_search(
            self.objective,
            x,
            here.value + 0.1 * tolerance,
            here.gradient,
            self._direction,
            (self.lower, self.upper),
            _FEW_HALVINGS if may_be_hidden else _MAX_HALVINGS,
            here.face if self._may_cross_edges else _ANY,
        )
        self.n_steps += 1
        if beyond is not None:
            return self._along_edge(beyond.face, tolerance)
        if there is None:
            was_fresh, self.B, self.fresh = self.fresh, _initial_curvature(here.gradient), True
            return not (was_fresh or may_be_hidden)
        if self._is_home(x_new) or self._is_behind(there.value, here.value - there.value):
            self.x, self.here = x_new, there.without_gradient()
            return False
        if self._is_enough(x_new, there):
            self.x, self.here = x_new, there
            return False
        self._take(x_new, there, tolerance)
        self._try_bounds()
        return True

    @property
    def _may_cross_edges(self):
        return hasattr(self.objective, "on_face") and self._n_edges < _MAX_EDGES

    def _along_edge(self, face, tolerance):
        """Go to where the smooth function of another face ends, if that is better.

        A minimum at the edge of two faces is approached for ever from the flat side: steps by its curvature
        are too long on the other one.
        """
        self._n_edges += 1
        smooth = self.objective.on_face(face)
        end = minimize_in_box(
            smooth, self.x, self.lower, self.upper, tolerance=tolerance, max_steps=_EDGE_STEPS
        )
        self.objective.n_calls += smooth.n_calls
        there = self.objective(end.x)
        if there.value < self.here.value:
            self.decrease, self.idle = self.here.value - there.value, 0
            self.x, self.here, self.B, self.fresh = end.x, there, end.curvature, False
        return not self._is_behind(self.here.value, self.decrease)

    def _is_home(self, x):
        return self.home is not None and largest_size(x - self.home) <= NEIGHBOURHOOD

    def _is_enough(self, x, there):
        return self.enough is not None and self._left_after(x, there) < self.enough

    def _left_after(self, x, there):
        """Return about how much is left to gain after a step, from what it promised and what it brought.

        With a curvature 1 + e times that of the model, a step to the minimum of the model brings 1 - e of the
        promise p, and p e^2 / (1 + e) is left.
        """
        step = x - self.x
        promised = -(self.here.gradient @ step + 0.5 * step @ self.B @ step)
        if self.fresh or promised <= 0:
            return np.inf
        e = max(abs(1.0 - (self.here.value - there.value) / promised), _UNSEEN)
        return promised * e**2

    def _take(self, x, there, tolerance):
        self.decrease = self.here.value - there.value
        self.idle = self.idle + 1 if self.decrease < tolerance else 0
        self.B = _updated(self.B, x - self.x, there.gradient - self.here.gradient, self.fresh)
        moved = x - self.x
        self._drift = np.where(moved * self._drift > 0, self._drift + moved, moved)
        self.x, self.here, self.fresh = x, there, False

    def _is_behind(self, value, decrease):
        """Return whether steps like the last one, to a value, do not lead to the one to beat."""
        is_told = self.to_beat is not None and self.n_steps > 1
        return is_told and value - _OUTLOOK * max(decrease, 0.0) > self.to_beat

    def _try_bounds(self):
        """Go to the bounds that some variables creep towards, if that is no worse.

        The length of an input that does not matter grows for ever, for less and less: a long way in one
        direction that brings little is tried to its end.
        """
        if self.decrease > _LITTLE:
            return
        far = _LONG_WAY if self.decrease > _NEXT_TO_NOTHING else _SHORTER_WAY
        creeping = (np.abs(self._drift) > far) & self._is_inside
        if self._go_to_bounds(creeping, self._drift):
            self.idle = 0
        self._drift[creeping] = 0.0

    def leave_flat(self, start):
        """Go to the bounds of variables that came a long way from a start and no longer matter.

        All of them at once, or one by one where the objective depends on some of them after all.
        """
        way = self.x - start
        far = self._is_inside & (np.abs(way) > _LONG_WAY)
        flat = far & (np.abs(self.here.gradient) < _FLAT) if far.any() else far
        if not self._go_to_bounds(flat, way, _NOTHING) and flat.sum() > 1:
            for chosen in np.eye(len(flat), dtype=bool)[flat]:
                self._go_to_bounds(chosen, way, _NOTHING)

    @property
    def _is_inside(self):
        return (self.x > self.lower) & (self.x < self.upper)

    def _go_to_bounds(self, chosen, way, loss=0.0):
        """Go to the bounds that chosen variables are on the way to, if that costs no more; return whether."""
        end = np.where(chosen, np.where(way > 0, self.upper, self.lower), self.x)
        if not chosen.any() or not np.isfinite(end).all():
            return False
        there = self.objective(end)
        is_good = there.value <= self.here.value + loss
        if is_good:
            self.x, self.here = end, there
        return is_good


def _initial_curvature(gradient):
    """Return a multiple of the identity whose first step is at most half a unit long."""
    return max(2.0 * float(np.hypot.reduce(gradient)), 1e-8) * np.eye(len(gradient))


def _damped(curvature, gradient):
    """Return a curvature with a share of the slopes: no variable is sent too far by its own."""
    return curvature + np.diag(np.abs(gradient)) / _FARTHEST


def _newton_direction(B, gradient, free, longest):
    """Return -B^-1 gradient in the free variables, shortened; curvature that rounding took is given back."""
    if free.all():
        direction = -_solved(B, gradient)
    else:
        direction = np.zeros_like(gradient)
        direction[free] = -_solved(B[np.ix_(free, free)], gradient[free])
    return direction * (longest / max(largest_size(direction), longest))


def _solved(B, gradient):
    """Return B^-1 gradient, with eigenvalues of B that are not far below the largest."""
    root, x, info = dposv(B, gradient)
    pivots = root.diagonal().tolist()
    if info == 0 and min(pivots) ** 2 > _WELL_ABOVE * max(pivots) ** 2:
        return x
    b, V = np.linalg.eigh(B)
    return V @ (V.T @ gradient / np.maximum(b, max(_FLATTEST * b[-1], _FLATTEST * largest_size(gradient))))


def _line_search(objective, x, value, gradient, direction, box, max_halvings, face=_ANY):
    """Return the first point on the projected path that decreases enough from `value`, with its evaluation.

    The latter is None where there is no such point, or where the function is rougher than its slope: what a
    short step brings less than promised is proportional to its square, unless it is rounding. Third, what the
    path met instead: an evaluation on another face than the given one that is too high.
    """
    t, expected, doubts = 1.0, np.inf, 0
    for _ in range(max_halvings):
        x_new = np.minimum(np.maximum(x + t * direction, box[0]), box[1])
        promised = gradient @ (x_new - x)
        there = objective(x_new)
        if isfinite(there.value) and there.value <= value + _ARMIJO * promised:
            return x_new, there, None
        if face is not _ANY and isfinite(there.value) and there.face != face:
            return x, None, there
        missing, shorter = there.value - value - promised, 0.25
        if isfinite(missing):  # minimum of the parabola through both values and the slope
            shorter = min(max(-0.5 * promised / missing, 0.1), 0.5)
        doubts += bool(missing > expected and largest_size(x_new - x) < _SHORT)
        if doubts == _FEW_DOUBTS:
            break
        t, expected = t * shorter, sqrt(shorter) * missing
        del there  # with the matrices behind it, before there are others
    return x, None, None


def _updated(B, step, change, fresh):
    """Return the BFGS update of B, in units in which products of gradients are numbers."""
    largest = max(largest_size(change), largest_size(B.ravel()))
    unit = 2.0 ** (frexp(largest)[1] - 1)  # a power of two: no rounding
    return unit * _bfgs(B / unit, step, change / unit, fresh)


def _bfgs(B, step, change, fresh):
    """Return the BFGS update of B, damped (Powell) so that it stays positive definite."""
    if fresh and step @ change > 0:
        B = (change @ change) / (step @ change) * np.eye(len(step))  # the scale of the curvature seen
    Bs = B @ step
    sBs = step @ Bs
    if sBs <= 0:
        return B
    agreement = step @ change
    if agreement < 0.2 * sBs:
        mix = 0.8 * sBs / (sBs - agreement)
        change = mix * change + (1.0 - mix) * Bs
    return B - Bs[:, None] * (Bs / sBs) + change[:, None] * (change / (step @ change))


def lbfgs(obj_func, initial_theta, bounds):
    """Minimise by scipy's L-BFGS-B, an optimizer with scikit-learn's signature."""
    result = minimize(obj_func, initial_theta, method="L-BFGS-B", jac=True, bounds=bounds)
    _check_optimize_result("lbfgs", result)
    return result.x, result.fun
