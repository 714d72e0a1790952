"""What an objective of learning returns."""

from copy import copy

import numpy as np

__all__ = ["Evaluation"]

# By how much a value may be off by a local search over the noise ratio.
_OFF_BY = 1e-3


class Evaluation:
    """An objective at one point.

    Parameters
    ----------
    value : float
        What is minimised; infinite where it is not defined.
    gradient : ndarray of shape (p,) or callable
        Its derivatives by the outer variables, or what makes them: most of the cost, and only where they are
        asked for.
    variances : tuple of ndarray or callable
        Noise and signal variances there, or what makes them.
    rank : int or None
        Rank of the factor that stood for K, None for K itself.
    off_by : float
        By how much a global search over the variances may improve on the value for no good reason.
    curvature : ndarray of shape (p, p) or None
        Estimate of the second derivatives, where it was asked for and is known.
    face : str or None
        Name of the bound that holds a variance: where it changes, the second derivatives jump.
    """

    def __init__(self, value, gradient, variances=(), rank=None, off_by=_OFF_BY, curvature=None, face=None):
        self.value, self._gradient, self._variances = value, gradient, variances
        self.rank, self.off_by, self.curvature, self.face = rank, off_by, curvature, face

    @classmethod
    def undefined(cls, variables):
        """Return the evaluation at a point where the kernel is indefinite."""
        return cls(np.inf, np.zeros_like(variables))

    @property
    def gradient(self):
        """Derivatives by the outer variables, (p,); None where they were let go."""
        if callable(self._gradient):
            self._gradient = self._gradient()  # without the matrices that it was made from
        return self._gradient

    @property
    def variances(self):
        """Noise and signal variances."""
        if callable(self._variances):
            self._variances = self._variances()
        return self._variances

    def without_gradient(self):
        """Return the evaluation without its gradient, and the matrices that it would be made from."""
        lighter = copy(self)
        lighter._gradient = None
        return lighter
