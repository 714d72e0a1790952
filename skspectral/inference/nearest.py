"""The normal nearest to the posterior of one latent function.

Laplace's normal sits at the mode. Where classes separate well the posterior is skewed: its mean is farther
from 0 than its mode, and its covariance is not that of the curvature at the mode. The normal q = N(m, V) of
the smallest Kullback-Leibler divergence KL(q || posterior) (Opper & Archambeau 2009) maximises

    E_q log p(y|f) - KL(q || prior)
        = sum_i E_q log p(y_i|f_i) - 1/2 A'K A - 1/2 log|I + K W| + 1/2 sum_i W_i V_ii,

a lower bound on the log evidence, with m = K A + constant and V = (K^-1 + W)^-1, at

    A_i = E_q d log p/df_i,    W_i = -E_q d^2 log p/df_i^2:

gradient and curvature are averaged over q itself. W and b = W K A + A are the parameters in which steps are
made, each towards its averages, as long as the bound grows (Khan & Lin 2017): one factorisation each.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..likelihoods.quadrature import normal_rule
from .modes import Mode

__all__ = ["NearestNormal", "nearest_normal"]

# Growth of the bound by a whole step that is not worth another, steps at most, and shortest step.
_GAIN, _MAX_STEPS, _SHORTEST = 1e-3, 80, 1e-3


class NearestNormal:
    """Latent means and variances of new inputs by the nearest normal, found when it is first needed.

    Methods are those of `Approximation`.

    Parameters
    ----------
    approximation : Approximation
        Laplace's, or another one around the same mode, of one latent function.
    """

    def __init__(self, approximation):
        self.approximation = approximation

    @cached_property
    def _normal(self):
        return nearest_normal(self.approximation)

    def mean(self, cross):
        """Return latent means (n_new, 1) of new inputs."""
        return self._normal.mean(cross)

    def variance(self, cross, diagonal):
        """Return latent variances (n_new,) of new inputs."""
        return self._normal.variance(cross, diagonal)


def nearest_normal(approximation):
    """Return the `Approximation` with mean and curvature of the nearest normal, given the mode's constants.

    The likelihood must be log-concave, so that the bound has one maximum.
    """
    prior, mode = approximation.prior, approximation.mode
    problem = _Problem(prior, approximation.observations, mode.constants)
    W = problem.observations.largest_curvature * problem.observations.weight
    here, length = problem.at(W * mode.KA[:, 0] + mode.A[:, 0], W), 1.0
    for _ in range(_MAX_STEPS):
        there = problem.at(*here.towards_averages(length))
        if there.bound <= here.bound:
            length *= 0.5
            if length < _SHORTEST:
                break
            continue
        gain, here = there.bound - here.bound, there
        if gain < _GAIN * length:
            break
        length = min(1.0, 2.0 * length)
    mean = Mode(here.A[:, None], here.KA[:, None], mode.constants, here.bound, n_iter=mode.n_iter)
    return replace(approximation.with_curvature(here.curved), mode=mean)


@dataclass(frozen=True)
class _Normal:
    """A normal posterior, its bound, and what the likelihood is on its average.

    Attributes
    ----------
    b, W : ndarray of shape (n,)
        Its parameters.
    curved : object
        R at W.
    A, KA : ndarray of shape (n,)
        Duals, and K times these.
    first, curvature : ndarray of shape (n,)
        Averages of d log p/df and of -d^2 log p/df^2.
    bound : float
        What is maximised.
    """

    b: np.ndarray
    W: np.ndarray
    curved: object
    A: np.ndarray
    KA: np.ndarray
    first: np.ndarray
    curvature: np.ndarray
    bound: float

    def towards_averages(self, length):
        """Return b and W after a step of a length between 0 and 1."""
        b = self.curvature * self.KA + self.first
        return self.b + length * (b - self.b), self.W + length * (self.curvature - self.W)


@dataclass(frozen=True)
class _Problem:
    """A prior, targets, and a constant (1,) that is given."""

    prior: object
    observations: object
    constants: np.ndarray

    def at(self, b, W):
        """Return the `_Normal` with parameters b and W."""
        prior, weight = self.prior, self.observations.weight
        curved = prior.curved(W)
        A = b - curved.times(prior.times(b[:, None]))[:, 0]
        KA, v = prior.times(A[:, None])[:, 0], curved.variances()
        value, first, curvature = self._averages(KA, v)
        bound = weight @ value - 0.5 * (A @ KA + curved.log_det - W @ v)
        return _Normal(b, W, curved, A, KA, weight * first, weight * curvature, float(bound))

    def _averages(self, KA, v):
        """Return log p, its slope and its curvature on average over the normal of each row, (n,) each."""
        rule, likelihood = normal_rule(), self.observations.likelihood
        y, mean = self.observations.y[:, None], self.observations.shifted(KA[:, None] + self.constants)
        f = mean[:, None] + np.sqrt(v)[:, None] * rule.points
        slopes = likelihood.derivatives(y, f)
        parts = likelihood.log_density(y, f), slopes.first, slopes.curvature
        return tuple(part @ rule.weights for part in parts)
