"""Functions enter a model one after the other, all others in sight."""

import math

import numpy as np

from .active import FAINT, independent

__all__ = ["Growth"]


class Growth:
    """What all functions have in common with a model that grows.

    Parameters
    ----------
    active : Active
        Where to start; it is changed by `finish` only.

    Attributes
    ----------
    d : ndarray of shape (k,)
        Prior variances of all functions.
    S, Q : ndarray of shape (k,)
        phi_i'C^-1 phi_i, infinite for active functions and for those that they span, and phi_i'C^-1 y.
    rest, log_det, yy : float
        y'C^-1 y, log|C| and y'y.
    size : int
        Number of active functions.

    Notes
    -----
    With function j of prior variance d, C_new^-1 = C^-1 - tt'/(1/d + S_j), t = C^-1 phi_j. What C^-1 takes
    off phi_i'phi_j is kept as T'T with a row of T for each active function: a new one costs O(k M). The
    triangle R (see `Active`) has a column d^1/2 T_j above (1 + d S_j)^1/2 for each function that entered.
    """

    def __init__(self, active):
        self._start = active
        self.d, self.rest, self.log_det, self.yy = active.d.copy(), active.rest, active.log_det, active.yy
        S, self.Q, self._T = active.watch()
        self.S, self.Q, self.size = S.copy(), self.Q.copy(), len(active.members)
        self.S[active.members] = np.inf
        self._entered, self._lengths, self._w, self._least = [], [], [], np.inf

    def best(self):
        """Return the function of the largest Q^2/S, which is that of the largest gain."""
        return int((self.Q * self.Q / independent(self.S, np.inf)).argmax())

    def of_one(self, j):
        """Return S and Q of function j."""
        return float(self.S[j]), float(self.Q[j])

    def enter(self, j, d):
        """Let function j enter with prior variance d."""
        m, s, q = self.size, float(self.S[j]), float(self.Q[j])
        if m == len(self._T):
            self._T = np.concatenate([self._T, np.empty((m // 2 + 8, self._T.shape[1]))])
        t = self._T[m]
        np.subtract(self._start.values.products_with(j), self._T[:m, j] @ self._T[:m], out=t)
        size = math.sqrt(1.0 / d + s)
        self._least = min(self._least, s)
        t /= size
        w = q / size
        self.S -= t * t
        self.Q -= w * t
        self.rest -= w * w
        self.log_det += math.log1p(d * s)
        self.d[j], self.S[j], self.size = d, np.inf, m + 1
        self._entered.append(j)
        self._lengths.append(math.sqrt(1.0 + d * s))
        self._w.append(w)

    def finish(self):
        """Give the functions to the model that this began with; afresh if one of them is faint."""
        start, known = self._start, len(self._start.members)
        if self._least < FAINT:
            start.d[:] = self.d
            start.refresh()
        elif self._entered:
            a = np.append(start.members, self._entered)
            start.carry_on(a, self._bordered(start.alone(), known), self._T[: self.size])

    def _bordered(self, members, known):
        new = self._entered
        d = self.d[new]
        columns = self._T[: self.size, new] * np.sqrt(d)
        corner = np.triu(columns[known:], 1)
        corner.flat[:: len(new) + 1] = self._lengths
        return members.bordered(d, columns[:known], corner, np.array(self._w))
