"""Functions enter a model one after the other, all others in sight."""

import numpy as np

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
    off phi_i'phi_j is kept as T'T with a row of T for each active function: a new one costs O(k M).
    """

    def __init__(self, active):
        self._start = active
        self.d, self.rest, self.log_det, self.yy = active.d.copy(), active.rest, active.log_det, active.yy
        S, self.Q, self._T = active.watch()
        self.S, self.Q, self.size = S.copy(), self.Q.copy(), len(active.members)
        self.S[active.members] = np.inf

    def best(self):
        """Return the function of the largest Q^2/S, which is that of the largest gain."""
        return int(np.argmax(self.Q * self.Q / self._start.independent(self.S, np.inf)))

    def of_one(self, j):
        """Return S and Q of function j as arrays of one number."""
        return self.S[j : j + 1], self.Q[j : j + 1]

    def enter(self, j, d):
        """Let function j enter with prior variance d."""
        m, s = self.size, self.S[j]
        if m == len(self._T):
            self._T = np.concatenate([self._T, np.empty((m + 8, self._T.shape[1]))])
        t = self._T[m]
        np.subtract(self._start.values.products_with(j), self._T[:m, j] @ self._T[:m], out=t)
        t /= np.sqrt(1.0 / d + s)
        w = self.Q[j] / np.sqrt(1.0 / d + s)
        self.S -= t * t
        self.Q -= w * t
        self.rest -= w * w
        self.log_det += np.log1p(d * s)
        self.d[j], self.S[j], self.size = d, np.inf, m + 1

    def finish(self):
        """Give the prior variances to the model that this began with."""
        if self.size > len(self._start.members):
            self._start.d[:] = self.d
            self._start.refresh()
