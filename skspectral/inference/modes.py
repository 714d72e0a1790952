"""The mode of latent values given targets: Newton's method with unpenalised constants.

What is maximised over the duals A and constants c, with F = K A + 1 (H c)', is

    psi = log p(y|F) - 1/2 tr(A'K A).

With the residual rho = d log p/dF - A, Newton's step is, without a division by curvatures that may vanish,

    dc = T^-1 J'(d log p/dF - R K rho),    dA = rho - R K rho - R J dc     (letters as in `linalg.constants`).

R is used again for further steps as long as each of them brings the mode much nearer: they cost O(n^2)
beside the O(n^3) of a factorisation. So is that of a similar problem, with the K that belongs to it:
I - R K = (I + W K)^-1 is then off by as much as K and W are, relatively. All else is the problem's own.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..linalg.constants import ConstantTerms
from ..support.exceptions import IndefiniteKernelError

__all__ = ["FOUND", "Mode", "find_mode"]

# Decrement (twice what a step promises) of another step at which the mode is found, and at which steps need
# no search.
FOUND, _NEAR = 1e-20, 1e-5
# Decrement below which the exact curvature is used where log p is not concave.
_NEAR_ENOUGH_TO_BE_CONCAVE = 1.0
# R is used again where the last step with it reduced the decrement by this factor; a cheap stand-in for the
# curvature does where it reduces it by this one; with this one, steps lead nowhere.
_GOOD_REDUCTION, _FAIR_REDUCTION, _NO_REDUCTION = 0.1, 0.25, 0.5
# Factors of the noise on the way to a mode where log p is not concave.
_WIDENINGS = (8.0, 4.0, 2.0)
_MAX_HALVINGS, _ARMIJO = 30, 1e-4


@dataclass(frozen=True)
class Mode:
    """Where psi is largest.

    Attributes
    ----------
    A : ndarray of shape (n, m)
        Duals: the latent values are K A plus constants.
    KA : ndarray of shape (n, m)
        K A.
    constants : ndarray of shape (m,)
        Constants of the latent functions.
    psi : float
        log p(y|F) - 1/2 tr(A'K A).
    n_iter : int
        Newton steps taken.
    n_factorisations : int
        Matrices factorised for them.
    is_found : bool
        Whether the steps converged.
    """

    A: np.ndarray
    KA: np.ndarray
    constants: np.ndarray
    psi: float
    n_iter: int = 0
    n_factorisations: int = 0
    is_found: bool = False

    @cached_property
    def F(self):
        """Latent values at the rows, (n, m)."""
        return self.KA + self.constants


def find_mode(prior, observations, *, has_constant=True, start=None, near=None, max_iter=100, found=FOUND):
    """Return the `Mode` of latent values.

    Parameters
    ----------
    prior : DensePrior or FactorPrior
        K.
    observations : Observations
        Targets and likelihood.
    has_constant : bool, default=True
        Whether latent functions have unpenalised constants.
    start : Mode, default=None
        Where to start: the mode of a similar problem on the same rows.
    near : object with `prior`, `curved` and `constants`, default=None
        Approximation of a similar problem on the same rows, with whose R the first steps are made.
    max_iter : int, default=100
        Largest number of steps.
    found : float, default=1e-20
        Twice what another step would add to psi, relatively, at which the mode is found.
    """
    if start is None and not observations.likelihood.is_log_concave and observations.likelihood.has_units:
        start = _annealed(prior, observations, has_constant, max_iter)
    problem = _Problem(prior, observations, observations.H if has_constant else observations.H[:, :0])
    mode, last = problem.start(start), np.inf
    newton = None if near is None else _NewtonOf(problem, near)
    n_iter = n_factorisations = 0
    while n_iter < max_iter:
        step = None if newton is None else newton.step(mode)
        if step is None or step.decrement > _GOOD_REDUCTION * last:
            was_exact = newton is not None and newton.is_exact
            newton, step = _fresh_steps(problem, mode, last)
            n_factorisations += 1
            is_idle = was_exact and newton.is_exact and step.decrement > _NO_REDUCTION * last
            if last < _NEAR and is_idle:
                break  # rounding is all that is left
        moved = problem.moved(mode, step)
        if moved is None and newton.is_foreign:
            newton = None
            continue
        if moved is None:
            break
        reduction = min(1.0, step.decrement / last) if n_iter else 1.0  # the next step's, at the worst
        n_iter, last, mode = n_iter + 1, step.decrement, moved
        if reduction * last <= found * max(1.0, abs(mode.psi)):
            break
    return replace(mode, n_iter=n_iter, n_factorisations=n_factorisations, is_found=last <= _NEAR)


def _annealed(prior, observations, has_constant, max_iter):
    """Return a mode that is followed from noise so wide that there is one mode only to the noise itself."""
    mode = Mode(*(np.zeros((len(prior), 1)),) * 2, observations.starting_constants() * has_constant, 0.0)
    for widening in _WIDENINGS:
        wide = observations.under(observations.likelihood.in_units(1.0 / widening))
        mode = find_mode(prior, wide, has_constant=has_constant, start=mode, max_iter=max_iter)
    return mode


@dataclass(frozen=True)
class _Step:
    """A step in duals and constants (m,), what K makes of the former, and what psi gains by it at first."""

    dA: np.ndarray
    K_dA: np.ndarray
    constants: np.ndarray
    decrement: float


def _fresh_steps(problem, mode, last):
    """Return steps with the curvature of a point, and the first of them.

    The curvature is a cheap stand-in, where there is one, far from the mode and as long as steps with it
    bring the mode nearer.
    """
    observations, prior = problem.observations, problem.prior
    is_near = observations.likelihood.is_log_concave or last < _NEAR_ENOUGH_TO_BE_CONCAVE
    try:
        lumped = observations.lumped_curved(prior, mode.F, is_near)
        newton = None if lumped is None else _Newton(problem, lumped, is_exact=False)
    except IndefiniteKernelError:
        newton = None
    if newton is not None:
        step = newton.step(mode)
        if not is_near or step.decrement <= _FAIR_REDUCTION * last:
            return newton, step
    newton = _exact_newton(problem, mode, is_near)
    return newton, newton.step(mode)


def _exact_newton(problem, mode, is_near):
    observations, prior = problem.observations, problem.prior
    try:
        curved = (observations.curved if is_near else observations.step_curved)(prior, mode.F)
        return _Newton(problem, curved)
    except IndefiniteKernelError:
        return _Newton(problem, observations.step_curved(prior, mode.F))


class _Newton:
    """Newton's steps with the curvature of one point."""

    is_foreign = False

    def __init__(self, problem, curved, is_exact=True):
        self.problem, self.K, self.curved, self.is_exact = problem, problem.prior, curved, is_exact
        self.terms = ConstantTerms(problem.prior, curved, problem.H)

    def step(self, mode):
        """Return the step at a point."""
        prior, H = self.problem.prior, self.problem.H
        first = self.problem.observations.first(mode.F)
        rho = first - mode.A
        left = rho - self.curved.times(self.K.times(rho))
        if not H.size:
            K_dA = prior.times(left)
            return _Step(left, K_dA, np.zeros(len(H)), float(abs(np.vdot(rho, K_dA))))
        dc = self.terms.solve(H.T @ (left + mode.A).sum(axis=0))
        dA = left - np.einsum("qij,q->ij", self.terms.RJ, dc)
        K_dA, constants = prior.times(dA), H @ dc
        decrement = np.vdot(rho, K_dA) + first.sum(axis=0) @ constants
        return _Step(dA, K_dA, constants, float(abs(decrement)))


class _NewtonOf(_Newton):
    """Newton's steps with the curvature and the K of a similar problem."""

    is_foreign = True

    def __init__(self, problem, near):
        self.problem, self.K, self.curved, self.is_exact = problem, near.prior, near.curved, False
        self.terms = near.constants


@dataclass(frozen=True)
class _Problem:
    """A prior, targets, and the directions of constants."""

    prior: object
    observations: object
    H: np.ndarray

    def start(self, start):
        """Return where to start: at the constants, or at a mode nearby if psi is larger there."""
        constants = self.observations.starting_constants() if self.H.size else np.zeros(len(self.H))
        zero = np.zeros((len(self.prior), len(self.H)))
        cold = self.at(zero, zero, constants)
        if start is None:
            return cold
        constants = start.constants if self.H.size else constants
        warm = self.at(start.A, self.prior.times(start.A), constants)
        is_better = warm.psi >= cold.psi or not self.observations.likelihood.is_log_concave
        return warm if is_better else cold

    def at(self, A, KA, constants):
        """Return a point with its psi."""
        psi = self.observations.log_density(KA + constants) - 0.5 * np.vdot(A, KA)
        return Mode(A, KA, constants, float(psi))

    def moved(self, mode, step):
        """Return the point after a step, halved until psi grows; None if it never does."""
        t = 1.0
        for _ in range(_MAX_HALVINGS):
            new = self.at(mode.A + t * step.dA, mode.KA + t * step.K_dA, mode.constants + t * step.constants)
            if step.decrement < _NEAR or new.psi > mode.psi + _ARMIJO * t * step.decrement:
                return new
            t *= 0.5
        return None
