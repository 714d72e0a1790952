"""Landmarks that move: the lower bound is descended in theta and in the inputs that span its factor.

Rows are a good start for landmarks, but F (`landmarks`) falls by much more once these may lie anywhere: a
factor of moved landmarks is worth one of several times as many rows. A derivative by the landmarks costs
little beside that by theta, O(n r p).

The way is Adam's (Kingma & Ba 2015): every coordinate moves at the same speed in the direction of its mean
slope. Curvatures of landmarks differ by many orders of magnitude, and what L-BFGS gets to know of them in a
few dozen steps is too little: at equal numbers of steps it gained half as much or less. Where the bound does
not get better the way ends at once, and the landmarks stay what they were.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["moved"]

# Way of a coordinate in one step: of theta in log units, of a landmark in units of its input's spread.
_SPEED = 0.1
# Shares of the past in the means of slopes and of their squares.
_MEMORY, _MEMORY_OF_SQUARES = 0.8, 0.99
# Slopes below this share of the largest are rounding, and move nothing.
_ROUNDING = 1e-6
# Slope whose square is a number; steeper ones are not told apart.
_STEEPEST = 1e150
# Steps without a gain after which the way is taken back, and the speed with which it goes on.
_PATIENCE, _SLOWER = 3, 0.3
# Steps over which a gain is judged, and what it must be for each step and row, in -2 log units.
_WINDOW, _WORTH_A_STEP = 5, 1e-4


@dataclass(frozen=True)
class _Place:
    """Coordinates, the evaluation there and its slope by them."""

    x: np.ndarray
    evaluation: object
    slope: np.ndarray

    @property
    def value(self):
        return self.evaluation.value


class _Adam:
    """Steps at a speed that slopes decide only the direction of."""

    def __init__(self, speed):
        self.speed, self._n = speed, 0
        self._mean = self._square = 0.0

    def step(self, slope):
        """Return the next step."""
        self._n += 1
        slope = np.clip(slope, -_STEEPEST, _STEEPEST)
        self._mean = _MEMORY * self._mean + (1.0 - _MEMORY) * slope
        self._square = _MEMORY_OF_SQUARES * self._square + (1.0 - _MEMORY_OF_SQUARES) * slope**2
        size = np.sqrt(self._square / (1.0 - _MEMORY_OF_SQUARES**self._n))
        floor = _ROUNDING * size.max(initial=0.0) + np.finfo(np.float64).tiny
        return -self.speed * self._mean / (1.0 - _MEMORY**self._n) / (size + floor)


def moved(objective, theta, box, max_looks, report=None):
    """Move the landmarks of an objective together with theta as far as that pays; return theta.

    Parameters
    ----------
    objective : LandmarkObjective
        Its landmarks are the start, and afterwards the best that were found.
    theta : ndarray of shape (p,)
        Start of the parameters.
    box : tuple of ndarray
        Lower and upper limits of theta.
    max_looks : int
        Largest number of evaluations; no way is begun for fewer than it takes to judge it.
    report : callable, default=None
        report(step, theta, evaluation) after every one that is better than those before.
    """
    if max_looks <= _WINDOW:
        return theta
    p, start, unit = len(theta), objective.landmarks, objective.rows.spread()

    def split(x):
        return np.clip(x[:p], *box), start + unit * x[p:].reshape(start.shape)

    def look(x):
        evaluation, by_landmarks = objective.jointly(*split(x))
        return evaluation, np.concatenate([evaluation.gradient, (unit * by_landmarks).ravel()])

    walk = _Walk(look, np.concatenate([theta, np.zeros(start.size)]), _WORTH_A_STEP * len(objective.rows))
    while walk.n_looks < max_looks and walk.goes_on():
        if walk.step() and report is not None:
            report(walk.n_looks, split(walk.best.x)[0], walk.best.evaluation)
    if not walk.best.x[p:].any():
        return theta
    theta, landmarks = split(walk.best.x)
    objective.move_to(landmarks)
    return theta


class _Walk:
    """The way of Adam, which goes back to the best place and on from there more slowly where it got lost."""

    def __init__(self, look, x, worth):
        self._look, self._worth = look, worth
        self._adam, self._idle = _Adam(_SPEED), 0
        self.best = self._here = _Place(x, *look(x))
        self._values = [self.best.value]

    @property
    def n_looks(self):
        """Evaluations so far."""
        return len(self._values)

    def goes_on(self):
        """Return whether the last steps were worth it."""
        recent = self._values[-1 - _WINDOW :]
        return len(recent) <= _WINDOW or recent[0] - recent[-1] >= _WINDOW * self._worth

    def step(self):
        """Take a step; return whether it led to the best place so far."""
        x = self._here.x + self._adam.step(self._here.slope)
        self._here = _Place(x, *self._look(x))
        is_better = self._here.value < self.best.value
        self._idle = 0 if is_better else self._idle + 1
        if is_better:
            self.best = self._here
        elif self._idle >= _PATIENCE or not np.isfinite(self._here.value):
            self._here, self._idle, self._adam = self.best, 0, _Adam(_SLOWER * self._adam.speed)
        self._values.append(self.best.value)
        return is_better
