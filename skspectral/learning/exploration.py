"""Which valley to descend: starts are compared by looks, and from the end found hops try the next valleys.

The evidence has several local optima in the parameters of a kernel, and a single descent ends in the one that
its start leads to. From the best end, each parameter in turn is multiplied by 5 or by 0.2, and looked on from
there, until no such hop gains anything. A look is a descent of a few steps that gives up as soon as
its decreases do not suggest that it will come out ahead. All this is meant for few rows; what it finds is a
proposal, and larger levels decide between the best two.

Everything is deterministic.
"""

import numpy as np

from ..linalg.directions import largest_size
from .descent import NEIGHBOURHOOD, minimize_in_box, with_seen_curvature
from .objectives import ROUGHLY

__all__ = ["Explorer", "is_elsewhere", "worth_keeping"]

# Length of a hop, in log units, and the least part of it that bounds must leave.
_HOP, _SHORTEST_HOP = float(np.log(5.0)), float(np.log(2.2))
# Decrease of -2 log density that a hop must bring; what a look is not meant to resolve.
_GAIN, _LOOK_TOLERANCE = 0.1, 1e-2
# Steps of a look, and rounds of hops through all variables.
_LOOK_STEPS, _MAX_ROUNDS = 12, 6
# Promise of a step, in units of what a rough objective may be off by, up to which it is of use.
_FAR = 2.0
# How far behind the second of two optima is worth keeping.
_CLOSE_BEHIND = 6.0


class Explorer:
    """Looks and hops on one objective.

    Parameters
    ----------
    objective : callable
        See `minimize_in_box`; its `n_calls` counts. Its method `roughly`, if it has one, returns a cheaper
        one for ways from afar that is off by `ROUGHLY` at most, or None.
    lower, upper : ndarray of shape (p,)
        Box of the outer variables.
    report : callable, default=None
        See `minimize_in_box`.
    n_hopping : int, default=None
        How many of the variables hop, the first ones; None means all.
    """

    def __init__(self, objective, lower, upper, report=None, *, n_hopping=None):
        self.objective, self.lower, self.upper, self.report = objective, lower, upper, report
        self.n_hopping = len(lower) if n_hopping is None else n_hopping

    def descend(self, start, **settings):
        """Return the descent from a start."""
        return minimize_in_box(self.objective, start, self.lower, self.upper, report=self.report, **settings)

    def go_on(self, descent, **settings):
        """Return where a descent leads that goes on from the end of another."""
        return self.descend(descent.x, curvature=descent.curvature, here=descent.evaluation, **settings)

    def see_curvature(self, descent):
        """Return a descent with the curvature at its end as differences of gradients show it."""
        return with_seen_curvature(self.objective, descent, self.lower, self.upper)

    def look(self, start, to_beat, curvature=None, home=None):
        """Return where a few steps from a start lead, fewer if they fall behind or come home."""
        limits = {"max_steps": _LOOK_STEPS, "to_beat": to_beat, "home": home}
        return self._from_afar(start, curvature, _LOOK_TOLERANCE, **limits)

    def explore(self, starts, tolerance, max_calls=np.inf):
        """Return the best end that descents from all starts and hops find, and the next best if it is close.

        Starts are given their time; hops only as long as they look promising, and none any more once the
        objective was called `max_calls` times.
        """
        ends = [self.descend(start, tolerance=_LOOK_TOLERANCE) for start in starts]
        first, *others = sorted(ends, key=lambda end: end.value)
        first = self.go_on(first, tolerance=tolerance)
        return self.hop([first, *others], tolerance, max_calls)

    def hop(self, ends, tolerance, max_calls=np.inf):
        """Return the best end that hops from the best of some ends find, and the next best if it is close."""
        ends, idle, hops = list(ends), 0, self._hops()
        for variable, way in hops * _MAX_ROUNDS:
            best = min(ends, key=lambda end: end.value)
            hopped = self._hopped(best.x, variable, way)
            if hopped is not None:
                end = self.look(hopped, best.value - _GAIN, best.curvature, home=best.x)
                if end.value < best.value - _GAIN:
                    ends.append(self.go_on(end, tolerance=tolerance))
                    idle = 0
                    continue
            idle += 1
            if idle >= len(hops) or self.objective.n_calls > max_calls:
                break
        return worth_keeping(ends)

    def compare(self, starts, tolerance):
        """Return the best end of starts given with their curvature, and the next best if it is close.

        The first is followed to its end, others as long as they lead elsewhere and look promising.
        """
        (x, curvature), *others = starts
        if curvature is None:
            first = self.descend(x, tolerance=tolerance)
        else:
            first = self._from_afar(x, curvature, tolerance)
        ends = [first]
        for x, curvature in others:
            best = min(ends, key=lambda end: end.value)
            if is_elsewhere(x, best):
                ends.append(self.look(x, best.value, curvature, home=best.x))
        return worth_keeping(ends)

    def _from_afar(self, start, curvature, tolerance, **limits):
        """Return the descent from a start, to near its end with a cheaper objective if there is one.

        Where limits made that give up, it has no gradient, and is all there is.
        """
        roughly = getattr(self.objective, "roughly", None)
        rough = None if roughly is None else roughly()
        if rough is None:
            return self.descend(start, curvature=curvature, tolerance=tolerance, **limits)
        settings = {"curvature": curvature, "tolerance": _FAR * ROUGHLY, "report": self.report}
        near = minimize_in_box(rough, start, self.lower, self.upper, **settings, **limits)
        self.objective.n_calls += rough.n_calls
        if near.evaluation.gradient is None:
            return near
        here = near.evaluation if near.evaluation.off_by < ROUGHLY else None  # in the end it was not rough
        return self.descend(near.x, curvature=near.curvature, here=here, tolerance=tolerance, **limits)

    def _hops(self):
        return [(variable, way) for variable in range(self.n_hopping) for way in (_HOP, -_HOP)]

    def _hopped(self, x, variable, way):
        """Return x after a hop, None where bounds leave no room for it."""
        hopped = x.copy()
        hopped[variable] = np.clip(x[variable] + way, self.lower[variable], self.upper[variable])
        return hopped if abs(hopped[variable] - x[variable]) >= _SHORTEST_HOP else None


def worth_keeping(ends):
    """Return the best descent, and the best of those that ended elsewhere if it is not far behind."""
    best, *others = sorted(ends, key=lambda end: end.value)
    elsewhere = [end for end in others if is_elsewhere(end.x, best)]
    close = [end for end in elsewhere if end.value < best.value + _CLOSE_BEHIND]
    return [best, *close[:1]]


def is_elsewhere(x, end):
    """Return whether a point is in another valley than the end of a descent, by its distance."""
    return largest_size(x - end.x) > NEIGHBOURHOOD
