"""Relevance vectors of two classes: the regression on Laplace's working targets, again and again.

At the mode F of the latent values, with curvature W and slope g of log p there, the likelihood looks like
that of targets z = F + g/W with noise variances 1/W. The evidence of these is maximised over the prior
variances of the functions (`sparse`), which moves the mode, and so on until neither changes.
"""

from dataclasses import dataclass

import numpy as np

from ..linalg.active import Active, FunctionValues
from ..linalg.curved import FactorPrior
from ..linalg.rows import Rows
from ..support.threads import at_most
from .approximate import laplace
from .sparse import Ascent
from .sparse_noise import KnownNoise

__all__ = ["LatentExpansion", "expand_latent"]

# Curvature below which a row says nothing: where it is classified beyond doubt.
_FLAT = 1e-10
# Rounds without a larger evidence after which the best is taken, and what counts as larger.
_PATIENCE, _LARGER = 10, 1e-9
# Change of log prior variances at which rounds have converged.
_SETTLED = 1e-9
# Largest curvature of the logistic likelihood.
_LARGEST_CURVATURE = 0.25


@dataclass(frozen=True)
class LatentExpansion:
    """A latent function made of few kernel functions.

    Attributes
    ----------
    functions : ndarray of shape (M,)
        Positions in the dictionary.
    prior_variance, coefficients : ndarray of shape (M,)
        Prior variances and values at the mode.
    constant : float
        The constant at the mode.
    log_evidence : float
        Laplace's approximation.
    n_iter : int
        Rounds.
    converged : bool
        Whether the last round changed nothing.
    """

    functions: np.ndarray
    prior_variance: np.ndarray
    coefficients: np.ndarray
    constant: float
    log_evidence: float
    n_iter: int
    converged: bool


def expand_latent(K, observations, *, has_constant, tol, max_iter, report=None):
    """Return the `LatentExpansion` of two classes.

    Parameters
    ----------
    K : ndarray of shape (n, k)
        Functions on the rows.
    observations : Observations
        Classes 0 and 1 under the logistic likelihood.
    has_constant : bool
        Whether the latent function has an unpenalised constant.
    tol : float
        As of `sparse.Ascent`.
    max_iter : int
        Largest number of rounds.
    report : callable, default=None
        report(line) after every round.
    """
    v, fit, best, idle = np.zeros(K.shape[1]), None, None, 0
    for n_iter in range(1, max_iter + 1):
        fit = laplace(_prior(K, v), observations, has_constant=has_constant, start=fit)
        here = _described(K, v, fit, n_iter)
        if report is not None:
            report(f"round {n_iter}: {len(here.functions)} active, log evidence {here.log_evidence:.8g}")
        idle = 0 if best is None or here.log_evidence > best.log_evidence + _LARGER else idle + 1
        best = here if best is None or here.log_evidence > best.log_evidence else best
        new = _next(K, v, fit, has_constant, tol)
        if _is_settled(v, new):
            return LatentExpansion(*_fields(here)[:-1], converged=True)
        if idle >= _PATIENCE:
            return LatentExpansion(*_fields(best)[:-2], n_iter=n_iter, converged=True)
        v = new
    return best


def _fields(expansion):
    return [getattr(expansion, name) for name in LatentExpansion.__dataclass_fields__]


def _prior(K, v):
    a = np.flatnonzero(v)
    return FactorPrior(K[:, a] * np.sqrt(v[a]))


def _described(K, v, fit, n_iter):
    a, mode = np.flatnonzero(v), fit.mode
    coefficients = v[a] * (K[:, a].T @ mode.A[:, 0])
    return LatentExpansion(
        a, v[a], coefficients, float(mode.constants[0]), float(fit.log_evidence), n_iter, False
    )


def _next(K, v, fit, has_constant, tol):
    """Return the prior variances of the largest evidence of the working targets."""
    F = fit.mode.F
    W = fit.observations.curvature_times(F, np.ones_like(F))[:, 0]
    W = np.maximum(W, _FLAT * W.max())
    z = F[:, 0] + fit.observations.first(F)[:, 0] / W
    rows = Rows.make(len(W), np.ones((len(W), 1)) if has_constant else None, W)
    Phi, lengths = rows.unit_columns(K)
    y = rows.sqrt_weight[:, 0] * z
    y = y - rows.Q @ (rows.Q.T @ y)
    ascent = Ascent(Active(FunctionValues(Phi, y), v * lengths**2), KnownNoise(), tol, 10 * len(z))
    with at_most(1):
        d = ascent.run().active.d
    return np.divide(d, lengths**2, out=np.zeros_like(d), where=d > 0)


def _is_settled(v, new):
    return np.array_equal(v > 0, new > 0) and bool(np.all(np.abs(np.log(new[v > 0] / v[v > 0])) < _SETTLED))


def widened_root(K, prior_variance, weight, has_constant):
    """Return the root of the covariance of coefficients, and the variance and levels of the constant.

    At the largest curvature that the likelihood has, as for `Approximation.widened`: Laplace's own vanishes
    at rows that are classified with confidence.
    """
    rows = Rows.make(len(K), np.ones((len(K), 1)) if has_constant else None, _LARGEST_CURVATURE * weight)
    Phi, lengths = rows.unit_columns(K)
    active = Active(FunctionValues(Phi, np.zeros(len(K))), prior_variance * lengths**2)
    return active.covariance_root() / lengths[:, None], rows
