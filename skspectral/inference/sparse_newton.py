"""Newton steps in all prior variances of a model, from which functions leave meanwhile.

See `sparse` for the letters. Functions that are not active are out of sight.
"""

import numpy as np

from ..linalg.directions import descent_direction, largest_size, scoring_direction

__all__ = ["Settling"]

# Largest step in log d, and halvings.
_LONGEST, _HALVINGS = 3.0, 12
# Gradient above which functions do not leave yet, for those beside them may be the ones to leave, unless the
# data determine this much of their coefficients or less: then they are gone but for their name. That they
# leave pays where they are this share of all.
_UNSETTLED, _FORGOTTEN, _MANY = 0.5, 1e-3, 0.125
# Increase of -2 log evidence, relative to its size, that is rounding.
_ROUNDING = 1e-13


class Settling:
    """Steps towards the best prior variances of active functions; none goes down, beyond rounding.

    Parameters
    ----------
    members : Members
        Where to start.
    noise : ProfiledNoise or KnownNoise
        What is known of the noise.
    stationary : float
        Largest derivative by log d at which nothing is left to do.
    enough : float, default=0
        Change of `noise.value` that a Newton step promises below which it is the last one: what is left after
        it is much less.

    Attributes
    ----------
    members : Members
        The model after the steps so far.
    value : float
        Its `noise.value`.
    kept : ndarray
        Positions of its functions among those of the start.
    turns : list
        `Members.turn` of every step, from the start to here.
    """

    def __init__(self, members, noise, stationary, enough=0.0):
        self.members, self.noise, self.stationary, self.enough = members, noise, stationary, enough
        self.value = noise.value(members)
        self.kept, self.turns = np.arange(len(members.d)), []
        self._is_done = False

    def gradient(self):
        """Return the derivatives of `noise.value` by log d."""
        return self._gradient_at(self.members)

    def _gradient_at(self, members):
        return (1.0 - self.noise.slope(members) * members.pull**2) - members.undetermined

    def step(self):
        """Let functions go or take a Newton step; return whether there was anything to do."""
        if self._is_done or not len(self.kept):
            return False
        gradient, members = self.gradient(), self.members
        largest, leaves = largest_size(gradient), ~self.noise.belong(members)
        may_leave = leaves if largest < _UNSETTLED else self._forgotten(leaves)
        if may_leave.any() and self.remove(may_leave):
            return True
        if largest > self.stationary and self.newton_step(gradient, leaves):
            return True
        return largest >= _UNSETTLED and leaves.any() and self.remove(leaves)

    def _forgotten(self, leaves):
        """Return which of the functions that should leave are as good as gone, none where they are few."""
        forgotten = leaves & (self.members.undetermined > 1.0 - _FORGOTTEN)
        is_many = np.count_nonzero(forgotten) >= _MANY * len(forgotten)
        return forgotten if is_many else np.zeros_like(forgotten)

    def remove(self, leaves):
        """Let functions go, by a mask of them; return whether any went.

        All of them at once if the evidence agrees, else half of them, those of the largest gains, and so on.
        """
        if self._removed(leaves):
            return True
        gain = self.noise.outlook(self.members, *self.members.left_out(), self.members.d).gain
        order = np.argsort(np.where(leaves, -gain, np.inf), kind="stable")
        place, count = np.argsort(order), np.count_nonzero(leaves) // 2
        while count and not self._removed(place < count):
            count //= 2
        return count > 0

    def _removed(self, leave):
        """Return whether the model is no worse without some functions; if so, they are gone."""
        without = self.members.without(leave)
        value = self.noise.value(without)
        better = value <= self.value + _rounding(self.value)
        if better:
            self._become(without, value)
            self.kept = self.kept[~leave]
        return better

    def newton_step(self, gradient, leaves):
        """Take one step, with functions that should leave on their way; return whether it led anywhere."""
        largest, rounding = largest_size(gradient), _rounding(self.value)
        direction = self.direction(gradient, largest)
        longest = largest_size(direction)
        step = direction if longest <= _LONGEST else np.minimum(np.maximum(direction, -_LONGEST), _LONGEST)
        if largest > _UNSETTLED:
            step = np.where(leaves, -_LONGEST, step)
        slope = gradient @ step
        if slope >= 0:  # entries cut one by one may lead up
            step = direction * min(1.0, _LONGEST / longest)
            slope = gradient @ step
        promising = -slope > rounding
        for k in range(_HALVINGS if promising else 1):
            there = self.members.scaled(0.5**k * step)
            if there is not None and self._moved(there, rounding, largest):
                self._is_done = -slope < self.enough
                return True
        return False

    def _moved(self, there, rounding, largest):
        """Return whether the evidence is no worse there; if so, that is where the model is.

        Where only rounding differs, the gradient must fall.
        """
        value = self.noise.value(there)
        change = value - self.value
        better = change < -rounding or (
            change <= rounding and largest_size(self._gradient_at(there)) < 0.9 * largest
        )
        if better:
            self._become(there, value)
        return better

    def _become(self, members, value):
        self.members, self.value = members, value
        self.turns.append(members.turn)

    def direction(self, gradient, largest):
        """Return Newton's direction, or that of the expected curvature while functions may not leave yet.

        There the curvature itself is hardly ever positive. Its mean over targets of the model is V_ij^2.
        """
        V = self.members.among()
        expected = V * V
        if largest > _UNSETTLED:
            return scoring_direction(gradient, expected)
        return descent_direction(gradient, self.curvature(gradient, V, expected), expected)

    def curvature(self, gradient, V, expected):
        """Return the second derivatives of `noise.value` by log d, given V = `members.among()` and V_ij^2:

        -V_ij^2 + 2 slope z_i z_j V_ij - bend z_i^2 z_j^2 with z_i = d_i^1/2 Q_i, and the gradient on the
        diagonal.
        """
        zz = self.members.pull[:, None] * self.members.pull
        H = (2.0 * self.noise.slope(self.members)) * V
        H -= self.noise.bend(self.members) * zz
        H *= zz
        H -= expected
        H.flat[:: len(V) + 1] += gradient
        return H


def _rounding(value):
    """Return what differences of values of this size may be by rounding alone."""
    return _ROUNDING * max(abs(value), 1.0)
