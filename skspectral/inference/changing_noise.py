"""Noise whose size changes with the inputs: the posterior of its logarithm, the mean integrated out.

    y_i ~ N(mu(x_i), exp(2 l(x_i))/w_i),   mu ~ N(0, K_mu),   l ~ N(0, K_l),

both with unpenalised constants. Given l, the mean is a weighted Gaussian process: with D = diag exp(2 l)/w,
P = (K_mu + D)^-1 outside the constant and a = P y,

    log p(y|l) = -1/2 log|K_mu + D| - 1/2 log 1'(K_mu + D)^-1 1 - 1/2 y'a - (n - 1)/2 log 2 pi
    d/dl_i     = D_i a_i^2 - D_i P_ii = r_i/D_i - 1,    r_i = (y_i - m_i)^2 + v_i,

m and v the posterior mean and variance of mu at the rows. So the most probable l is where the alternation
ends that fits mu with weights exp(-2 l) and then l to log r (Cawley & Talbot II-G have r_i without v_i, which
makes the noise too small). It is found by Newton's method of `modes` with

    -d^2 log p/(dl_i dl_j) = 2 (D_i P_ii - D_i a_i^2) [i = j] - 2 D_i P_ij^2 D_j + 4 D_i a_i P_ij a_j D_j,

whose expectation over y is W = 2 D_i P_ij^2 D_j. W is never indefinite; it takes the place of the curvature
far from the mode and in the evidence of `approximate`. With V the posterior covariance of l,
M_ij = D_i V_ij D_j P_ij and z = V t for V at the curvature above,

    t_i        = -2 sum_j V_ij W_ij + 4 D_i (P M P)_ii           (how log|I + K_l W| and log T move with l)
    dL/dK_mu   = 1/2 a a' - 1/2 P + 2 P M P + P diag(z D) P - [P (z D a) a' + a (P (z D a))'],

and dL/dK_l has the form that it has for any likelihood. P has two forms, see `weighted_mean`: the matrix
itself, or that of a factor of K_mu, which makes all of this linear in n.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from ..likelihoods.quadrature import invert, normal_rule
from ..linalg.constants import ConstantTerms
from ..linalg.curved import FactorPrior
from ..support.exceptions import IndefiniteKernelError
from .approximate import Approximation
from .modes import find_mode
from .weighted_mean import Spread, weighted_mean

__all__ = ["ChangingNoise", "NoiseApproximation", "changing_noise", "interval_over_noise"]

# Beyond this, exp(-+2 l) times kernel values would leave the range of numbers.
_LARGEST_LOG = 250.0


class ChangingNoise:
    """Targets as the log noise sees them: `Observations` of one latent function that couple the rows.

    Parameters
    ----------
    mean : object
        What is learned of the mean, in the place of a likelihood: `is_log_concave`, `has_units` and
        `gradient(sensitivity)`.
    prior : DensePrior or FactorPrior
        K_mu, or its factor.
    y, weight : ndarray of shape (n,)
        Targets and relative precisions.
    has_constant : bool
        Whether the mean has an unpenalised constant.
    resolution : float, default=0
        Is added to all r_i: squares of differences that targets do not resolve. Without it noise-free targets
        have no most probable noise.
    missed : ndarray of shape (n,), default=None
        What a factor misses of the prior variances of the mean. It is part of all v_i; log p(y|l) then is a
        lower bound of that of the kernel itself, whichever the factor (Titsias 2009).
    """

    H = np.ones((1, 1))

    def __init__(self, mean, prior, y, weight, has_constant, resolution=0.0, missed=None):
        self.likelihood, self.prior, self.y, self.weight = mean, prior, y, weight
        self.has_constant, self.missed = has_constant, missed
        self.resolution = resolution if missed is None else resolution + weight * missed
        self._last = (None, None)

    def __len__(self):
        return len(self.y)

    def mean_at(self, F):
        """Return the `WeightedMean` at log noise F (n, 1); the last one is kept."""
        if self._last[0] is None or not np.array_equal(self._last[0], F):
            D = np.exp(2.0 * np.clip(F[:, 0], -_LARGEST_LOG, _LARGEST_LOG)) / self.weight
            self._last = F, weighted_mean(self.prior, self.y, D, self.has_constant)
        return self._last[1]

    def starting_constants(self):
        """Return the log of the spread of the targets: all is noise."""
        rows = self.y - self.y.mean() if self.has_constant else self.y
        least = max(float(np.mean(self.resolution)), 1e-300)
        return np.array([0.5 * np.log(np.mean(self.weight * rows**2) + least)])

    def log_density(self, F):
        """Return log p(y|l); minus infinity where it is beyond all numbers."""
        try:
            return self.mean_at(F).log_density - 0.5 * self._unresolved(F).sum()
        except IndefiniteKernelError:
            return -np.inf

    def first(self, F):
        """Return the derivatives by F, (n, 1)."""
        mean = self.mean_at(F)
        return (mean.D * mean.a**2 - mean.shares + self._unresolved(F))[:, None]

    def curvature(self, F):
        """Return the second derivatives of -log p: (n, n), or what multiplies like that."""
        return self.mean_at(F).curvature(2.0 * self._unresolved(F))

    def expected_curvature(self, F):
        """Return W, likewise."""
        return self.mean_at(F).expected_curvature(2.0 * self._unresolved(F))

    def curved(self, prior, F):
        """Return R at the curvature of -log p."""
        return prior.curved(self.curvature(F))

    def step_curved(self, prior, F):
        """Return R at W, which is nowhere negative."""
        return prior.curved(self.expected_curvature(F))

    def lumped_curved(self, prior, F, is_near):
        """Return R at a cheap stand-in for the curvature (near the mode) or W; None where there is none."""
        if not isinstance(self.prior, FactorPrior):
            return None
        return prior.curved((self.curvature if is_near else self.expected_curvature)(F).lumped())

    def curvature_times(self, F, V):
        """Return the curvature of -log p times V."""
        return self.curvature(F) @ V

    def tilt(self, F, spread):
        """Return t (n, 1) for the posterior covariance of a `Spread`, and what `by_mean` needs of it."""
        t, inner = self.mean_at(F).tilt(spread)
        return (t + 2.0 * spread.variances * self._unresolved(F))[:, None], inner

    def by_mean(self, F, inner, z, v):
        """Return dL/dK_mu as a `Sensitivity`; v (n,) are the posterior variances of l."""
        mean = self.mean_at(F)
        by_missed = None if self.missed is None else (z[:, 0] - 0.5 - v) / mean.D
        return mean.by_prior(inner, z[:, 0], by_missed)

    def _unresolved(self, F):
        return self.resolution * np.exp(-2.0 * np.clip(F[:, 0], -_LARGEST_LOG, _LARGEST_LOG))


@dataclass(frozen=True)
class NoiseApproximation(Approximation):
    """The normal posterior of the log noise, at the expected curvature."""

    @property
    def weighted_mean(self):
        """The `WeightedMean` at the most probable noise."""
        return self.observations.mean_at(self.mode.F)

    def likelihood_gradient(self):
        """Return the derivatives of L by the parameters of the mean."""
        by_mean = self.observations.by_mean(self.mode.F, self._tilts[1], self._V_tilt, self.covariances)
        return self.observations.likelihood.gradient(by_mean)

    @cached_property
    def _tilts(self):
        ones = [u / np.sqrt(one.sum()) for u, one in zip(self.constants.U, self.constants.RJ, strict=True)]
        spread = Spread(self.prior.Phi, self.curved.root, ones)
        return self.observations.tilt(self.mode.F, spread)

    @property
    def _tilt(self):
        """t, (n, 1)."""
        return self._tilts[0]

    @cached_property
    def _V_tilt(self):
        """z = V t, (n, 1), V at the curvature by which the mode moves."""
        try:
            curved = self.observations.curved(self.prior, self.mode.F)
            terms = ConstantTerms(self.prior, curved, self.constants.H)
        except IndefiniteKernelError:  # no strict maximum: the expected curvature stands in
            curved, terms = self.curved, self.constants
        t = self._tilt
        return self.prior.times(t - curved.times(self.prior.times(t))) + terms.times(t)


def changing_noise(prior, observations, max_iter):
    """Return the `NoiseApproximation` of the log noise, its constant integrated out.

    Steps start where all is noise: there may be several modes, and so the one that is found depends on the
    kernels alone, not on the way to them.

    Parameters
    ----------
    prior : FactorPrior
        K_l.
    observations : ChangingNoise
        Targets, and what the mean is.
    max_iter : int
        Largest number of steps.
    """
    mode = find_mode(prior, observations, max_iter=max_iter)
    curved = observations.step_curved(prior, mode.F)
    constants = ConstantTerms(prior, curved, observations.H)
    return NoiseApproximation(prior, observations, mode, curved, constants, mode.psi, moves=True)


def interval_over_noise(mean, var, log_mean, log_var, coverage):
    """Return the ends (n,) of intervals of new observations with equal tails.

    The distribution is that of the mean plus a noise of uncertain size: E Phi((y - mean)/(var + exp 2 l)^1/2)
    over l ~ N(log_mean, log_var), inverted by bisection.

    Parameters
    ----------
    mean, var, log_mean, log_var : ndarray of shape (n,)
        Means and variances of the mean and of the log noise.
    coverage : float
        Between 0 and 1.
    """
    log_sd = np.sqrt(log_var)

    def tail(half):
        return normal_rule().average(
            lambda h, v, m, s, z: ndtr(h / np.sqrt(v + np.exp(2.0 * (m + s * z)))),
            half,
            var,
            log_mean,
            log_sd,
        )

    typical = np.sqrt(var + np.exp(2.0 * log_mean))
    half = invert(tail, np.full(len(mean), 0.5 * (1.0 + coverage)), np.zeros(len(mean)), typical)
    return mean - half, mean + half
