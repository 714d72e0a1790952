"""Minimisation over two covariance matrices, of the signals and of the noise of several outputs.

Steps are taken in the basis of the present point, where the noise has covariance I and the signals
diag(delta). The factors of both move by symmetric matrices T and S,

    diag(delta) + G = (root delta + T)(root delta + T)',    I + E = (I + S)(I + S)',

so that covariances stay positive semi-definite, and signals of lower rank are ordinary points. Newton's
method where the second derivatives are positive definite, steps towards Fisher's scoring elsewhere, all with
halving. Along directions without signal the derivative by T vanishes: there the sign of Mg tells whether
signal is missing.
This room does not know where values and derivatives come from.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..criteria.joint_evidence import diagonal_pairs, from_pairs, pair_products, pairs, to_pairs
from ..linalg.output_basis import OutputBasis, eigenbasis, positive_inverse, positive_solve

__all__ = ["CovarianceResult", "Information", "minimize_covariances"]

# Decrease of -2 log density that Newton's method promises at its last step.
_TOLERANCE = 1e-10
_MAX_STEPS, _MAX_HALVINGS = 100, 20
# Steps of Fisher's scoring cost little, and are repeated while they bring so much of -2 log density.
_MAX_SCORINGS, _WORTHWHILE = 10, 10.0
# Along vanishing noise steps may go on without end: so many in a row that bring less than this are enough.
_IDLE, _MAX_IDLE = 1e-5, 4
_ARMIJO = 1e-4
# Largest entry of S: no factor of the noise more than doubles in a step.
_LARGEST_STEP = 0.7
# A share of the diagonal that makes undetermined curvature definite.
_RIDGE = 1e-12


@dataclass(frozen=True)
class CovarianceResult:
    """What tuning found for outputs that are correlated.

    Attributes
    ----------
    status : str
        "interior": a minimum at which the derivatives vanish; "low_rank": so is it, and the signals of some
        combinations of outputs are 0; "noise_free": some combinations of outputs have no more noise than
        rounding resolves; "not_converged": the largest number of steps was taken.
    value : float
        The log evidence of all directions in which the outputs vary.
    gradient_norm : float
        Length of the derivative of -2 log evidence by the factors of both covariances, in the units of the
        noise.
    signal_rank : int
        Rank of the signal covariance.
    n_evaluations : int
        Covariances at which the evidence was evaluated.
    """

    status: str
    value: float
    gradient_norm: float
    signal_rank: int
    n_evaluations: int


@dataclass(frozen=True)
class _Chart:
    """The coordinates (T, S) around a basis.

    Attributes
    ----------
    basis : OutputBasis
        The point.
    slopes : tuple of ndarray
        Mg and Me there.
    tied : ndarray of int
        Independent outputs whose noise is as small as it may be, and wants to be smaller.
    """

    basis: OutputBasis
    slopes: tuple
    tied: np.ndarray

    @classmethod
    def at(cls, point, largest):
        slopes = point.slopes()
        at_limit = point.basis.signal >= 0.5 * largest
        return cls(point.basis, slopes, np.flatnonzero(at_limit & (np.diag(slopes[1]) > 0)))

    @cached_property
    def scale(self):
        """dG/dT and dE/dS, by pairs."""
        J, K = pairs(len(self.basis))
        root = np.sqrt(self.basis.signal)
        return np.concatenate([root[J] + root[K], np.full(len(J), 2.0)])

    @cached_property
    def gradient(self):
        """Derivatives by T and S, by pairs, before ties."""
        return self.scale * np.concatenate([to_pairs(M) for M in self.slopes])

    def curvature(self, base, bend):
        """Return the second derivatives by T and S, given those by G and E and the slopes that bend.

        T and S enter squared too: tr(Mg T^2) + tr(Me S^2).
        """
        k, half = len(self.basis), len(base) // 2
        H = self.scale[:, None] * base * self.scale
        for i, M in enumerate(bend):
            part = slice(i * half, (i + 1) * half)
            H[part, part] += 2.0 * pair_products(np.broadcast_to(M, (k, k, k)))
        return H

    @property
    def ties(self):
        """Matrix (2 pairs, free variables): T and S of the free variables; a tied S_kk is T_kk/root delta."""
        half, masters, slaves = self._tied_pairs
        C = np.eye(2 * half)
        C[slaves, masters] = 1.0 / np.sqrt(self.basis.signal[self.tied])
        return np.delete(C, slaves, axis=1)

    @property
    def _tied_pairs(self):
        """Number of pairs, and where T_kk and S_kk of tied outputs are among both."""
        k = len(self.basis)
        half, masters = len(pairs(k)[0]), diagonal_pairs(k)[self.tied]
        return half, masters, half + masters

    def free(self, gradient, H):
        """Return derivatives by the free variables, given those by T and S."""
        if not len(self.tied):
            return gradient, H
        C = self.ties
        return C.T @ gradient, C.T @ H @ C

    def whole(self, step):
        """Return T and S of a step in the free variables."""
        return self.ties @ step if len(self.tied) else step

    def split(self, step):
        """Return T and S of a vector of both."""
        k, half = len(self.basis), len(step) // 2
        return from_pairs(step[:half], k), from_pairs(step[half:], k)


def minimize_covariances(model, basis):
    """Minimise a function of two covariances from a starting point.

    Parameters
    ----------
    model : object
        `at(basis)` returns a point with `basis`, `value`, `slopes()` and `curvatures()`, the latter
        second derivatives by G and E, the exact first and at last one that is never negative, and
        `scored(largest)`, the basis after a step of Fisher's scoring or None. `largest` is
        the largest and `least` the smallest signal of an independent output that makes a difference,
        `flatness` a bound on the second derivative by a signal that is 0.
    basis : OutputBasis
        Start.

    Returns
    -------
    point : object
        Where the minimum is.
    gradient_norm : float
        Length of the derivative by the free variables.
    status : str
        See `CovarianceResult`.
    n_evaluations : int
        Points evaluated.
    """
    counted = _Counted(model)
    here, converged, idle = _scored(counted, counted.at(basis)), False, 0
    for _ in range(_MAX_STEPS):
        before = here.value
        here = _with_missing_signal(counted, here)
        chart = _Chart.at(here, model.largest)
        step, promised = _newton_step(chart, here)
        there = _line_search(counted, here, chart, step, promised)
        converged = promised < _TOLERANCE or there is None
        here = here if there is None else there
        idle = idle + 1 if len(chart.tied) and before - here.value < _IDLE else 0
        if converged or idle > _MAX_IDLE:
            break
    here = _without_traces(counted, here)
    chart = _Chart.at(here, model.largest)
    norm = float(np.linalg.norm(chart.ties.T @ chart.gradient))
    return here, norm, _status(model, here, chart, converged), counted.n_evaluations


class _Counted:
    """A model that counts its evaluations."""

    def __init__(self, model):
        self.model, self.n_evaluations = model, 0

    def at(self, basis):
        self.n_evaluations += 1
        return self.model.at(basis)


def _scored(counted, here):
    """Return the point where steps of Fisher's scoring lead while they bring much, far from the minimum."""
    for _ in range(_MAX_SCORINGS):
        basis = here.scored(counted.model.largest)
        there = here if basis is None else counted.at(basis)
        gain, here = here.value - there.value, there if there.value < here.value else here
        if not gain > _WORTHWHILE:
            break
    return here


def _newton_step(chart, point):
    """Return (T, S) as a vector and half of the decrease that it promises."""
    for base, bend in _curvatures(chart, point):
        gradient, H = chart.free(chart.gradient, chart.curvature(base, bend))
        H.flat[:: len(H) + 1] += _RIDGE * np.abs(np.diag(H)) + np.finfo(np.float64).tiny
        step = positive_solve(H, -gradient)
        if step is not None and gradient @ step <= 0:
            break
    else:
        step = -gradient / np.linalg.norm(gradient)
    step = chart.whole(step)
    half = len(step) // 2
    step *= min(1.0, _LARGEST_STEP / max(np.abs(step[half:]).max(), _LARGEST_STEP))
    return step, -0.5 * float(chart.gradient @ step)


def _curvatures(chart, point):
    """Yield second derivatives by G and E with the slopes that bend T and S: exact, then never negative."""
    bases = point.curvatures()
    yield next(bases), chart.slopes
    bend = [_positive_part(M) for M in chart.slopes]
    for base in bases:
        yield base, bend


def _positive_part(M):
    size, Q = eigenbasis(M)
    return (Q * np.maximum(size, 0.0)) @ Q.T


def _line_search(counted, here, chart, step, promised):
    """Return the first point on the way that is low enough, None where there is none."""
    t, rounding = 1.0, 1e-14 * abs(here.value)
    for _ in range(_MAX_HALVINGS):
        there = counted.at(here.basis.moved(*chart.split(t * step), counted.model.largest))
        if np.isfinite(there.value) and there.value <= here.value - _ARMIJO * t * promised + rounding:
            return there
        t *= 0.4
    return None


def _with_missing_signal(counted, here):
    """Return a better point with signal in directions that have none, or the point itself."""
    model, basis = counted.model, here.basis
    empty = np.flatnonzero(basis.signal <= model.least)
    if not len(empty):
        return here
    size, Q = eigenbasis(here.slopes()[0][np.ix_(empty, empty)])
    signal = np.maximum(-size, 0.0) / model.flatness
    if (size * signal).sum() > -2.0 * _TOLERANCE:
        return here
    for _ in range(_MAX_HALVINGS):
        there = counted.at(basis.turned(empty, Q, np.minimum(signal, model.largest)))
        if there.value < here.value:
            return there
        signal = 0.25 * signal
    return here


def _without_traces(counted, here):
    """Return the point with signals that make no difference set to 0."""
    traces = np.flatnonzero((here.basis.signal <= counted.model.least) & (here.basis.signal > 0))
    if not len(traces):
        return here
    there = counted.at(here.basis.turned(traces, np.eye(len(traces)), 0.0))
    return there if there.value <= here.value + 1e-6 else here


def _status(model, point, chart, converged):
    if len(chart.tied):
        return "noise_free"
    if not converged:
        return "not_converged"
    return "interior" if (point.basis.signal > model.least).all() else "low_rank"


@dataclass(frozen=True)
class Information:
    """How well two covariances are determined, by the inverse of their information matrix.

    Attributes
    ----------
    basis : OutputBasis
        The covariances in the units of y.
    point : object or None
        See `minimize_covariances`; None where nothing is determined.
    largest : float
        Largest signal of an independent output.
    """

    basis: OutputBasis
    point: object = None
    largest: float = np.inf

    @cached_property
    def covariance(self):
        """Covariance of the estimates, by pairs of G, then of E; None where there is no information.

        The inverse of the information that is observed, else of one that is never negative. Directions
        without signal, and noise at its limit, count as known.
        """
        if self.point is None:
            return None
        chart = _Chart.at(self.point, self.largest)
        to_covariances = chart.scale[:, None] * chart.ties
        moving = to_covariances.any(axis=0)
        for base, bend in _curvatures(chart, self.point):
            _, H = chart.free(chart.gradient, chart.curvature(base, bend))
            inverse = positive_inverse(0.5 * H[np.ix_(moving, moving)])
            if inverse is not None:
                return to_covariances[:, moving] @ inverse @ to_covariances[:, moving].T
        return None

    def standard_errors(self, derivatives, part):
        """Return the standard errors of functions of the signal (part 0) or noise (part 1) covariance.

        Parameters
        ----------
        derivatives : ndarray of shape (functions, m, m)
            Symmetric matrices D of derivatives tr(D dV).
        part : {0, 1}
            Which covariance.
        """
        if self.covariance is None:
            return np.full(len(derivatives), np.inf)
        half = len(self.covariance) // 2
        block = self.covariance[part * half : (part + 1) * half, part * half : (part + 1) * half]
        local = self.basis.back.T @ derivatives @ self.basis.back
        rows = np.stack([to_pairs(D) for D in local]) if len(local) else np.zeros((0, half))
        return np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows, block, rows), 0.0))
