"""Minimisation over two covariance matrices, of the signals and of the noise of several outputs.

Steps are taken in the basis of the present point, where both are diagonal with sum I. Their factors move by
symmetric matrices T and S,

    diag(g) + G = (root g + T)(root g + T)',    diag(e) + E = (root e + S)(root e + S)',

so that covariances stay positive semi-definite, and signals or noise of lower rank are ordinary points.
Fisher's scoring as long as it brings much; then Newton's method where the second derivatives are positive
definite, steps towards scoring elsewhere, all with halving. Along directions without signal the derivative
by T vanishes: there the sign of Mg tells whether signal is missing, and likewise of Me for noise.
This room does not know where values and derivatives come from.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..criteria.joint_evidence import from_pairs, pair_products, pairs, to_pairs
from ..linalg.covariance_pair import CovariancePair, Units
from ..linalg.output_basis import eigenbasis, positive_inverse, positive_solve

__all__ = ["CovarianceResult", "Information", "minimize_covariances"]

# Decrease of -2 log density that Newton's method promises at its last step.
_TOLERANCE = 1e-10
_MAX_STEPS, _MAX_HALVINGS = 100, 20
# Steps of Fisher's scoring cost little, and are repeated while they bring so much of -2 log density.
_MAX_SCORINGS, _WORTHWHILE = 10, 10.0
# What they leave at least: signal, of a sum of 1 with the noise, and noise, of the smallest that there was.
_LEAST_SIGNAL, _LEAST_SHARE = 1e-3, 0.1
_ARMIJO = 1e-4
# Largest entry of T and S, the diagonals of whose factors have squares that sum to 1.
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
        Length of the derivative of -2 log evidence by the factors of both covariances, in units in which the
        variances of signal and noise sum to 1.
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
    """The coordinates (T, S) around a point: its `pair` of covariances, and `slopes` Mg and Me there."""

    pair: CovariancePair
    slopes: tuple

    @classmethod
    def at(cls, point):
        return cls(point.pair, point.slopes())

    @cached_property
    def scale(self):
        """dG/dT and dE/dS, by pairs."""
        J, K = pairs(len(self.pair))
        return np.concatenate([root[J] + root[K] for root in map(np.sqrt, self.pair.parts)])

    @cached_property
    def gradient(self):
        """Derivatives by T and S, by pairs."""
        return self.scale * np.concatenate([to_pairs(M) for M in self.slopes])

    def curvature(self, base, bend):
        """Return the second derivatives by T and S, given those by G and E and the slopes that bend.

        T and S enter squared too: tr(Mg T^2) + tr(Me S^2).
        """
        k, half = len(self.pair), len(base) // 2
        H = self.scale[:, None] * base * self.scale
        for i, M in enumerate(bend):
            part = slice(i * half, (i + 1) * half)
            H[part, part] += 2.0 * pair_products(np.broadcast_to(M, (k, k, k)))
        return H

    def split(self, step):
        """Return T and S of a vector of both."""
        k, half = len(self.pair), len(step) // 2
        return from_pairs(step[:half], k), from_pairs(step[half:], k)


def minimize_covariances(model, start):
    """Minimise a function of two covariances from a starting point.

    Parameters
    ----------
    model : object
        `at(pair)` returns a point with `pair`, `value`, `slopes()`, `curvatures()`, `flatness()` and
        `scoring_step()`: second derivatives by G and E, the exact first and at last one that is never
        negative; bounds on those by a signal or noise that is 0, (k,) both; the step (G, E) of Fisher's
        scoring, or None.
        `least` are the smallest signal and noise of an independent output that make a difference.
    start : CovariancePair
        Start.

    Returns
    -------
    point : object
        Where the minimum is.
    gradient_norm : float
        Length of the derivative by T and S.
    status : str
        See `CovarianceResult`.
    n_evaluations : int
        Points evaluated.
    """
    counted = _Counted(model)
    here, converged = _scored(counted, counted.at(start)), False
    for _ in range(_MAX_STEPS):
        here = _with_missing(counted, here)
        chart = _Chart.at(here)
        step, promised = _newton_step(chart, here)
        there = _line_search(counted, here, chart, step, promised)
        converged = promised < _TOLERANCE or there is None
        here = here if there is None else there
        if converged:
            break
    here = _without_traces(counted, here)
    norm = float(np.linalg.norm(_Chart.at(here).gradient))
    return here, norm, _status(model, here, converged), counted.n_evaluations


class _Counted:
    """A model that counts its evaluations."""

    def __init__(self, model):
        self.model, self.n_evaluations = model, 0

    def at(self, pair):
        self.n_evaluations += 1
        return self.model.at(pair)


def _scored(counted, here):
    """Return the point where steps of Fisher's scoring lead while they bring much, far from the minimum."""
    for _ in range(_MAX_SCORINGS):
        step = here.scoring_step()
        if step is None:
            break
        least = _LEAST_SIGNAL, _LEAST_SHARE * here.pair.noise.min()
        there = counted.at(here.pair.shifted(*step, least))
        gain, here = here.value - there.value, there if there.value < here.value else here
        if not gain > _WORTHWHILE:
            break
    return here


def _newton_step(chart, point):
    """Return (T, S) as a vector and half of the decrease that it promises."""
    gradient = chart.gradient
    for base, bend in _curvatures(chart, point):
        H = chart.curvature(base, bend)
        H.flat[:: len(H) + 1] += _RIDGE * np.abs(np.diag(H)) + np.finfo(np.float64).tiny
        step = positive_solve(H, -gradient)
        if step is not None and gradient @ step <= 0:
            break
    else:
        step = -gradient / np.linalg.norm(gradient)
    step *= min(1.0, _LARGEST_STEP / max(np.abs(step).max(), _LARGEST_STEP))
    return step, -0.5 * float(gradient @ step)


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
        there = counted.at(here.pair.moved(*chart.split(t * step)))
        if np.isfinite(there.value) and there.value <= here.value - _ARMIJO * t * promised + rounding:
            return there
        t *= 0.4
    return None


def _with_missing(counted, here):
    """Return a better point with signal, or noise, in directions that have none, or the point itself."""
    for part in (0, 1):
        empty = np.flatnonzero(here.pair.parts[part] <= counted.model.least[part])
        if len(empty):
            here = _with_missing_part(counted, here, part, empty)
    return here


def _with_missing_part(counted, here, part, empty):
    size, Q = eigenbasis(here.slopes()[part][np.ix_(empty, empty)])
    variance = np.maximum(-size, 0.0) / here.flatness()[part][empty].max()
    if (size * variance).sum() > -2.0 * _TOLERANCE:
        return here
    for _ in range(_MAX_HALVINGS):
        there = counted.at(here.pair.given(part, empty, Q, np.minimum(variance, 1.0)))
        if there.value < here.value:
            return there
        variance = 0.25 * variance
    return here


def _without_traces(counted, here):
    """Return the point with signals and noise that make no difference set to 0."""
    for part in (0, 1):
        size = here.pair.parts[part]
        traces = np.flatnonzero((size <= counted.model.least[part]) & (size > 0))
        if len(traces):
            there = counted.at(here.pair.given(part, traces, np.eye(len(traces)), 0.0))
            here = there if there.value <= here.value + 1e-6 else here
    return here


def _status(model, point, converged):
    if not converged:
        return "not_converged"
    if (point.pair.noise <= model.least[1]).any():
        return "noise_free"
    return "interior" if (point.pair.signal > model.least[0]).all() else "low_rank"


@dataclass(frozen=True)
class Information:
    """How well two covariances are determined, by the inverse of their information matrix.

    Attributes
    ----------
    back : ndarray of shape (m, k)
        From the basis of the point to the outputs in the units of y.
    units : Units
        What its covariances are multiples of.
    point : object or None
        See `minimize_covariances`; None where nothing is determined.
    """

    back: np.ndarray
    units: Units
    point: object = None

    @cached_property
    def covariance(self):
        """Covariance of the estimates, by pairs of G, then of E; None where there is no information.

        The inverse of the information that is observed, else of one that is never negative. Directions
        without signal, or without noise, count as known.
        """
        if self.point is None:
            return None
        chart = _Chart.at(self.point)
        moving, scale = np.ix_(chart.scale > 0, chart.scale > 0), chart.scale[chart.scale > 0]
        for base, bend in _curvatures(chart, self.point):
            inverse = positive_inverse(0.5 * chart.curvature(base, bend)[moving])
            if inverse is not None:
                whole = np.zeros_like(base)
                whole[moving] = scale[:, None] * inverse * scale
                return whole
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
        local = self.back.T @ derivatives @ self.back
        by_pairs = np.array([to_pairs(D) for D in local]).reshape(len(local), -1)
        of_signal, of_noise = ((1.0, 0.0), (self.units.ridge, 1.0))[part]
        rows = np.concatenate([of_signal / self.units.size * by_pairs, of_noise * by_pairs], axis=1)
        return np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows, self.covariance, rows), 0.0))
