"""Factors of K for the steps of learning, while their rank is small enough to pay."""

import numpy as np

from ..kernels.algebra import contract
from ..kernels.gram import KernelGram
from ..kernels.parts import has_white_noise
from ..linalg.factors import pivoted_cholesky
from ..support.exceptions import IndefiniteKernelError

__all__ = ["StepFactors", "contract_factor"]

# A factor stands in for K where the trace of what it misses is this share of the noise ratio, so that the
# evidence is off by about that much.
_TAU_SHARE = 1e-2
# A factor that missed its trace by no more than this may reach it at the next step.
_NEARLY = 30.0


class StepFactors:
    """Factors of the kernel matrices of outer steps; none any more once the rank needed is too large.

    Parameters
    ----------
    task : Task
        What is learned.
    largest_share : float
        Share of n up to which the rank of a factor pays.

    Attributes
    ----------
    rows, Z, scale
        Weights and mean functions; standardised targets and their scale.
    by_force : bool
        Whether steps use factors whatever their rank.
    """

    def __init__(self, task, largest_share):
        self.task, self.rows = task, task.data.rows
        self.Z, self.scale, _ = task.data.standardised
        self.by_force = task.is_by_evidence and task.plan.forces_factors
        n, rank = len(task), task.plan.factor_rank(len(task))
        self._largest = rank if self.by_force else max(1, int(largest_share * n))
        self._open = task.is_by_evidence and task.plan.may_use_factors(n)

    def at(self, theta, g):
        """Return a factor at theta, exact enough at noise ratio g, or None."""
        if not self._open or g is None:
            return None
        kernel = self.task.kernel_at(theta)
        data, tau = self.task.data, _TAU_SHARE * g
        try:
            factor = pivoted_cholesky(
                KernelGram(kernel),
                data.X,
                tau=tau,
                rank=self._largest,
                weight=data.weight,
                unless_hopeless=not self.by_force,
            )
        except IndefiniteKernelError:
            if self.by_force:
                raise
            self._open = False  # K may still be definite outside the mean space
            return None
        self._open = self.by_force or factor.tau <= _NEARLY * tau
        return factor if self.by_force or factor.tau <= tau else None


def contract_factor(kernel, sensitivity, X, factor):
    """Return dF/dtheta from the derivatives by K(X, Z) and K(Z, Z)."""
    to_landmarks, among = sensitivity
    Z = factor.landmarks
    slope = contract(kernel, to_landmarks, X, Z) + contract(kernel, among, Z)
    if has_white_noise(kernel):  # columns of K(X, X) have it where rows are landmarks, K(X, Z) does not
        at_landmarks = np.diag(to_landmarks[factor.pivots, np.arange(factor.rank)])
        slope += contract(kernel, at_landmarks, Z) - contract(kernel, at_landmarks, Z, Z)
    return slope
