"""Posteriors of latent functions under any likelihood, approximated by normal ones.

The model is p(y|F), F = f + constants, f ~ N(0, K) for each of m latent functions (one, or one for each class
of the softmax), K with the signal variance inside, constants unpenalised. With the mode from `modes`, W the
curvature of -log p there, and R, V, T, U of `linalg.curved` and `linalg.constants`:

    log evidence   L = psi - 1/2 log|I + K W| - 1/2 log|T|             (no T without a constant)
    covariance     V = K - K R K + U T^-1 U'                           (no U T^-1 U' without)
    dL/dK          = 1/2 A A' - 1/2 P + 1/2 (h A' + A h'),   h = (I - W V) t,   t = 1/2 V_ii d^3 log p/dF^3
    dL/de          = sum d log p/de + 1/2 sum V_ii d^3 log p/(dF^2 de) + t'V d^2 log p/(dF de)

for a parameter e of the likelihood. Constants are integrated out of L, or given (`integrated=False`): L then
is the evidence at their values in the mode, T and U have no part in L, V_ii and predictions, P is R, and only
the mode goes on moving with them in h and V t. Three curvatures are offered for the same model:

==============  ============================================================================================
laplace         the curvature at the mode
bound           the largest curvature there is, 1/4 of the logistic curve and 1/2 of the softmax: L is then a
                lower bound on the log evidence, and h = 0
variational     for two classes: tanh(xi/2)/(2 xi) with xi_i^2 = m_i^2 + V_ii, the lower bound of Jaakkola and
                Jordan ((76) of Smola & Schoelkopf), maximised over xi: tighter than "bound"; h = 0
==============  ============================================================================================

How to use it
-------------
>>> import numpy as np
>>> from sklearn.gaussian_process.kernels import RBF
>>> from skspectral.inference.approximate import laplace
>>> from skspectral.inference.observations import observe
>>> from skspectral.likelihoods import Poisson
>>> from skspectral.linalg.curved import DensePrior
>>> X = np.linspace(0.0, 4.0, 9)[:, None]
>>> y = np.array([1.0, 3.0, 4.0, 6.0, 9.0, 5.0, 4.0, 2.0, 0.0])
>>> fit = laplace(DensePrior(RBF(1.0)(X), scale=0.5), observe(Poisson(), y))
>>> bool(fit.mode.F[4, 0] > 1.0)
True
>>> G = fit.sensitivity().weights        # dL/dK, for kernels.algebra.contract(kernel, G, X)
>>> mean = fit.mean(RBF(1.0)(X[:2], X))  # latent means of new inputs, from kernel values with the rows

Give the result as `start` to the next call: the mode is then found in a few steps. With a factor, pass
`FactorPrior(Phi, scale, L)`, and features of new inputs in place of kernel values.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..linalg.constants import ConstantTerms
from ..support.exceptions import IndefiniteKernelError
from .modes import FOUND, Mode, find_mode
from .observations import LogisticBound, TiltedObservations

__all__ = [
    "Approximation",
    "WithLargestCurvature",
    "bound",
    "evidence_bracket",
    "laplace",
    "mode_of",
    "variational",
]

# Nearer to 0 the curvature of the bound is 1/4 to rounding.
_SMALLEST_XI = 1e-8
# Relative growth of a bound that is not worth another re-estimation of its points of contact.
_XI_TOLERANCE = 1e-13
# Re-estimations that bring a lower bound near its largest.
_BRACKET_ROUNDS = 20


@dataclass(frozen=True)
class Approximation:
    """A normal posterior of latent functions.

    Attributes
    ----------
    prior : DensePrior or FactorPrior
        K.
    observations : Observations
        Targets and likelihood.
    mode : Mode
        Its mean.
    curved : object
        R at the curvature of the approximation, see `linalg.curved`.
    constants : ConstantTerms
        What unpenalised constants add.
    log_density : float
        The largest value of the exponent: psi, or that of a bound.
    moves : bool
        Whether the curvature moves with the mode, which the derivatives of L then follow.
    integrated : bool
        Whether constants are integrated out, or given by the mode.
    """

    prior: object
    observations: object
    mode: Mode
    curved: object
    constants: ConstantTerms
    log_density: float
    moves: bool
    integrated: bool = True

    @property
    def log_evidence(self):
        """L."""
        given = self.log_density - 0.5 * self.curved.log_det
        return given - 0.5 * self.constants.log_det if self.integrated else given

    @cached_property
    def covariances(self):
        """Posterior covariances of the latent values of each row: (n,), or (n, C, C) for classes."""
        V = self.curved.variances()
        if not self.integrated:
            return V
        more = self.constants.uncertainty(self.constants.U)
        return V + (more if V.ndim == 3 else more[:, 0, 0])

    def sensitivity(self):
        """Return dL/dK as a `Sensitivity`."""
        A = self.mode.A
        h = self._tilt - self.observations.curvature_times(self.mode.F, self._V_tilt) if self.moves else 0.0
        left, right = 0.5 * A + h, A
        if self.integrated:
            more_left, more_right = self.constants.halves()
            left, right = np.hstack([left, more_left]), np.hstack([right, more_right])
        return self.curved.sensitivity(left, right)

    def likelihood_gradient(self):
        """Return dL/de for the likelihood's learned parameters, (p,)."""
        value, first, second = self.observations.parameter_slopes(self.mode.F)
        if not len(value):
            return np.empty(0)
        return value.sum(axis=1) + 0.5 * second @ self.covariances + first @ self._V_tilt[:, 0]

    @cached_property
    def _tilt(self):
        """t, (n, m): how the log determinant changes with the latent values."""
        return 0.5 * self.observations.third_contracted(self.mode.F, self.covariances)

    @cached_property
    def _V_tilt(self):
        """V t, (n, m)."""
        t = self._tilt
        return self.prior.times(t - self.curved.times(self.prior.times(t))) + self.constants.times(t)

    def with_curvature(self, curved):
        """Return the approximation with the same mode and R at another curvature that is given."""
        has_constant = bool(self.constants.H.size)
        return _assembled(
            self.prior, self.observations, self.mode, curved, has_constant, self.integrated, moves=False
        )

    def at_mean(self, max_iter=100):
        """Return the approximation around the mean of the posterior in the place of its mode, to first order.

        The mean is the mode plus V t, up to terms of second order: so is the mode of the posterior times
        exp(t'F), which steps with a search find also where V t would be lost in rounding. Where they do not,
        the mode stays. With counts and an unpenalised constant the expected rates of the rows then add up to
        the counts, as those of the exact posterior do.
        """
        tilted, has_constant = TiltedObservations(self.observations, self._tilt), bool(self.constants.H.size)
        mode = find_mode(self.prior, tilted, has_constant=has_constant, start=self.mode, max_iter=max_iter)
        return replace(self, mode=replace(mode, n_iter=self.mode.n_iter)) if mode.is_found else self

    def mean(self, cross):
        """Return latent means (n_new, m) from kernel values (or features) of new inputs, K without scale."""
        return cross @ self.prior.coefficients(self.mode.A) + self.mode.constants

    def variance(self, cross, diagonal):
        """Return latent variances (n_new,) of new inputs, for one latent function or classes alike.

        Parameters
        ----------
        cross : ndarray of shape (n_new, n) or (n_new, r)
            Kernel values with the rows, or features.
        diagonal : ndarray of shape (n_new,)
            k(x, x), without scale.
        """
        left = self.prior.scale * diagonal - self.curved.explained(cross)
        return np.maximum(left + self._of_constant(cross) ** 2, 0.0)

    def covariance(self, cross, among):
        """Return the joint latent covariance (n_new, n_new) of new inputs, for one latent function.

        Parameters
        ----------
        cross : ndarray of shape (n_new, n) or (n_new, r)
            Kernel values with the rows, or features.
        among : ndarray of shape (n_new, n_new)
            Kernel values among the new inputs, without scale.
        """
        u = self._of_constant(cross)
        return self.prior.scale * among - self.curved.explained_jointly(cross) + np.outer(u, u)

    def _of_constant(self, cross):
        """Return (1 - k'R1) T^-1/2 of new inputs: what an uncertain constant adds."""
        if not (self.integrated and self.constants.H.size):
            return np.zeros(len(cross))
        one = self.constants.RJ[0] @ self.constants.H[:, 0]  # R 1 of one latent function
        return (1.0 - cross @ self.prior.coefficients(one)) / np.sqrt(one.sum())


class WithLargestCurvature:
    """Means and variances of new inputs around the mode, with the largest curvature there is, for classes.

    Its matrix is factorised when it is first needed. Methods are those of `Approximation`.

    Parameters
    ----------
    approximation : Approximation
        The mode, the prior and the targets.
    """

    def __init__(self, approximation):
        self.approximation = approximation

    @cached_property
    def _spread(self):
        of = self.approximation
        return of.with_curvature(of.observations.bounded_curved(of.prior))

    def mean(self, cross):
        """Return latent means (n_new, m) of new inputs."""
        return self.approximation.mean(cross)

    def variance(self, cross, diagonal):
        """Return latent variances (n_new,) of new inputs."""
        return self._spread.variance(cross, diagonal)


def laplace(
    prior, observations, *, has_constant=True, integrated=True, start=None, max_iter=100, found=FOUND
):
    """Return Laplace's `Approximation`.

    Parameters
    ----------
    prior, observations, has_constant, max_iter, found
        As in `find_mode`.
    integrated : bool, default=True
        Whether constants are integrated out of the evidence, or given.
    start : Approximation or Mode, default=None
        Of a similar problem on the same rows.

    Notes
    -----
    Steps that end where the posterior is not concave (it may have no strict maximum, where log p is not
    concave) are tried again from a wide noise, and at last take the curvature of steps, which is positive.
    """
    for begin in [start, None] if start is not None else [None]:
        settings = {"has_constant": has_constant, "max_iter": max_iter, "found": found}
        mode = find_mode(prior, observations, start=mode_of(begin), near=_near(begin), **settings)
        try:
            curved = observations.curved(prior, mode.F)
            return _assembled(prior, observations, mode, curved, has_constant, integrated, moves=True)
        except IndefiniteKernelError:
            if observations.likelihood.is_log_concave:
                raise
    curved = observations.step_curved(prior, mode.F)
    return _assembled(prior, observations, mode, curved, has_constant, integrated, moves=False)


def bound(prior, observations, *, has_constant=True, integrated=True, start=None, max_iter=100, found=FOUND):
    """Return the `Approximation` of the largest curvature, for classes; parameters as in `find_mode`."""
    settings = {"has_constant": has_constant, "max_iter": max_iter, "found": found}
    mode = find_mode(prior, observations, start=mode_of(start), **settings)
    curved = observations.bounded_curved(prior)
    return _assembled(prior, observations, mode, curved, has_constant, integrated, moves=False)


def variational(
    prior, observations, *, has_constant=True, integrated=True, start=None, max_iter=100, found=FOUND
):
    """Return the `Approximation` of the largest lower bound with a curvature for each row, for two classes.

    Parameters are those of `find_mode`; `max_iter` limits the re-estimations of xi^2 = m^2 + V. Each mode is
    found exactly, by one step.
    """
    if not isinstance(start, Approximation):
        start = bound(prior, observations, has_constant=has_constant, integrated=integrated)
    value = -np.inf
    for _ in range(max_iter):
        xi = np.sqrt(observations.shifted(start.mode.F) ** 2 + start.covariances)
        contact = LogisticBound(observations, np.maximum(xi, _SMALLEST_XI))
        mode = find_mode(prior, contact, has_constant=has_constant, start=start.mode)
        curved = contact.curved(prior, None)
        start = _assembled(prior, contact, mode, curved, has_constant, integrated, moves=False)
        value, before = start.log_evidence, value
        if value - before <= _XI_TOLERANCE * abs(value):
            break
    return start


def evidence_bracket(approximation):
    """Return a lower and an upper bound on the log evidence of classes, given the constants of the mode.

    The lower one is that of "variational" for two classes and of "bound" for more. The upper one, (77) of
    Smola & Schoelkopf at its least, is psi: log p(y|f) is concave, so it lies below its tangent at the mode,
    whose integral over the prior is psi.
    """
    prior, mode = approximation.prior, approximation.mode
    given = approximation.observations.given(mode.constants)
    start = find_mode(prior, given, has_constant=False, start=mode)
    below = bound(prior, given, has_constant=False, start=start)
    if not given.likelihood.is_joint:
        below = variational(prior, given, has_constant=False, start=below, max_iter=_BRACKET_ROUNDS)
    return float(below.log_evidence), float(start.psi)


def _assembled(prior, observations, mode, curved, has_constant, integrated, *, moves):
    H = observations.H if has_constant else observations.H[:, :0]
    terms = ConstantTerms(prior, curved, H)
    return Approximation(prior, observations, mode, curved, terms, mode.psi, moves, integrated)


def _near(start):
    """Return an approximation whose R may stand for another one's in steps, None if there is none."""
    is_usable = isinstance(start, Approximation) and start.moves
    return start if is_usable and start.observations.likelihood.is_log_concave else None


def mode_of(start):
    """Return the mode of an approximation; a mode, or None, is its own."""
    return start.mode if isinstance(start, Approximation) else start
