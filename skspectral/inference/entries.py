"""Correlated outputs that were not all observed in all rows: covariances from the observed entries alone.

There is no common basis of the outputs then, and the N observed entries are one dense system: each evaluation
is a Cholesky factorisation, O(N^3). The search is that of `covariances`; the expected information costs m^2
products of (n, n) matrices, and where holes are most of the table it is the average of what draws show.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..criteria.joint_evidence import between, blocks, from_pairs, pairs
from ..linalg.covariance_pair import CovariancePair, Units
from ..linalg.entries import Entries, EntrySystem
from ..linalg.output_basis import OutputBasis
from ..support.exceptions import IndefiniteKernelError
from .correlated import negligible, smallest_ratio
from .covariances import CovarianceResult, Information, minimize_covariances
from .tuned import ratio_range

__all__ = ["EntriesSolution", "solve_entries"]


@dataclass(frozen=True)
class EntriesSolution:
    """A model of m correlated outputs with holes, in the units of y; names are those of `CorrelatedSolution`.

    Attributes
    ----------
    basis : OutputBasis
        The covariances, 0 for outputs that do not vary.
    system : EntrySystem
        The observed entries of outputs that vary, standardised by `scale` (m,).
    scale : ndarray of shape (varying,)
        Units of the outputs that vary.
    varying : ndarray of shape (varying,)
        Which outputs these are.
    dual, range_dual : ndarray of shape (n, m)
        Dual coefficients, and these times the signal covariance: coefficients of the kernel in the means.
    beta : ndarray of shape (functions, m)
        Coefficients of the mean functions.
    tuning : tuple of TuningResult
        Of each output alone.
    information : Information
        How well the covariances are determined.
    result : CovarianceResult
        How they came about.
    """

    basis: OutputBasis
    system: EntrySystem
    scale: np.ndarray
    varying: np.ndarray
    dual: np.ndarray
    range_dual: np.ndarray
    beta: np.ndarray
    tuning: tuple
    information: Information
    result: CovarianceResult

    @property
    def noise_var(self):
        """Diagonal of the noise covariance, (m,)."""
        return np.diag(self.basis.noise_covariance).copy()

    @property
    def signal_var(self):
        """Diagonal of the signal covariance, (m,)."""
        return np.diag(self.basis.signal_covariance).copy()

    @property
    def in_basis(self):
        """This model: only its noise ratio is asked for."""
        return self

    @property
    def noise_ratio(self):
        """Noise ratios of the outputs in the basis of the covariances."""
        with np.errstate(divide="ignore"):
            return 1.0 / self.basis.signal

    @property
    def log_evidence(self):
        """Log (restricted) evidence of all outputs together, (1,); infinite where some do not vary."""
        is_whole = len(self.varying) == len(self.tuning)
        return np.array([self.result.value if is_whole else np.inf])

    def objective(self, _):
        """Return -2 log evidence of outputs that vary, without constants."""
        return self.system.value

    def sensitivity(self):
        """Return the derivative of the objective by the kernel matrix, (n, n)."""
        system, entries = self.system, self.system.entries
        Vg = self._standard(self.basis.signal_covariance)
        G = entries.by_rows(system.P - np.outer(system.dual, system.dual), Vg)
        return entries.weighted(G)

    def signals(self, k, points, outputs):
        """Return covariances of the entries and signals at new points, (N, len(points)), standardised.

        Parameters
        ----------
        k : ndarray of shape (n_new, n)
            Kernel between new and training points.
        points, outputs : ndarray of int
            New point and varying output of each value.
        """
        entries, Vg = self.system.entries, self._standard(self.basis.signal_covariance)
        weighted = (k * entries.root)[np.ix_(points, entries.row)].T
        return Vg[np.ix_(entries.output, outputs)] * weighted

    def noises(self, rows, outputs):
        """Return covariances of the entries and the weighted noise of others of the same rows, (N, k)."""
        entries, Ve = self.system.entries, self._standard(self.basis.noise_covariance)
        same = entries.row[:, None] == rows
        return np.where(same, Ve[np.ix_(entries.output, outputs)], 0.0)

    def _standard(self, V):
        """Return a covariance of the outputs that vary in standardised units."""
        return V[np.ix_(self.varying, self.varying)] / np.outer(self.scale, self.scale)


@dataclass(frozen=True)
class _Observed:
    """The evidence of observed entries as a function of both covariances."""

    entries: Entries
    K: np.ndarray
    least: tuple

    def at(self, pair):
        """Return the `_Point` of two covariances."""
        return _Point(pair, self, self.entries.solve(self.K, *pair.covariances))


@dataclass(frozen=True)
class _Point:
    pair: CovariancePair
    model: _Observed
    system: EntrySystem | None

    @property
    def value(self):
        return np.inf if self.system is None else self.system.value

    def slopes(self):
        """Return Mg and Me in the basis; refuse where the system is singular, to rounding."""
        system, back = self.system, self.pair.back
        if system is None:
            raise IndefiniteKernelError(0.0, np.finfo(np.float64).eps)
        S = system.P - np.outer(system.dual, system.dual)
        return tuple(back.T @ M @ back for M in self.model.entries.row_sums(S, self.model.K))

    def curvatures(self):
        """Yield second derivatives, from what the data show and what they are expected to."""
        yield from between(self._shown(self.system.dual), self._expected())

    def _expected(self):
        """Return tr(P V_p P V_q); what draws show on average where holes are most of the table."""
        if not self.system.is_dense:
            return np.mean([self._shown(dual) for dual in self.system.dual_probes().T], axis=0)
        k = len(self.pair)
        B = np.stack([from_pairs(unit, k) for unit in np.eye(len(pairs(k)[0]))])
        return blocks(
            np.einsum("pjk,qcd,djkc->pq", B, B, T, optimize=True)
            for T in self.system.traces(self.model.K, self.pair.back)
        )

    def flatness(self):
        """Return bounds on the second derivatives by a signal, and by a noise, that is 0."""
        return tuple(np.full(len(self.pair), (M**2).sum()) for M in (self.model.K, self.system.P))

    def scoring_step(self):
        """Return None: the expected information couples all pairs."""
        return None

    def _shown(self, dual):
        """Return V_p'P V_q, V_p the change of C by a pair times P y."""
        entries, A = self.model.entries, self.model.entries.scattered(dual)
        V = entries.gathered(np.concatenate([(self.model.K @ A) @ self._units, A @ self._units]))
        return V @ self.system.P @ V.T

    @cached_property
    def _units(self):
        """Changes of a covariance by each pair, (pairs, m, m)."""
        back, k = self.pair.back, len(self.pair)
        return np.stack([back @ from_pairs(unit, k) @ back.T for unit in np.eye(len(pairs(k)[0]))])


def solve_entries(alone, data, K, start=None):
    """Return the `EntriesSolution` that maximises the evidence of the observed entries.

    Parameters
    ----------
    alone : list of (ndarray, Solution)
        Outputs and their solution where they share their rows: where the search starts.
    data : Data
        All rows.
    K : ndarray of shape (n, n)
        Kernel matrix; absent rows do not matter.
    start : OutputBasis, default=None
        Covariances to start from instead, in the units of y. Those of another kernel, that needed hardly any
        noise, may make the system singular: then the outputs alone are the start after all.
    """
    m = data.n_outputs
    noise, signal, scale, varies, largest, smallest, mean_variance = _of_outputs(alone, m)
    varying = np.flatnonzero(varies)
    seen = (data.observed & data.present[:, None])[:, varying]
    entries = Entries.make(data.Y[:, varying], scale[varying], seen, data.weight, data.basis)
    units = Units(smallest, mean_variance + smallest)
    least = negligible(*units.eigenvalues(np.array([0.0, largest])))
    model = _Observed(entries, _shifted(entries.weighted(K), units), least)
    scale = scale[varying]
    if start is None:
        basis = OutputBasis.of_variances(signal[varying] / scale**2, noise[varying] / scale**2)
    else:
        basis = start.within(np.eye(m)[varying] / scale[:, None], (np.eye(m)[varying] * scale[:, None]).T)
    try:
        point, norm, status, n_evaluations = minimize_covariances(
            model, CovariancePair.of_basis(basis, units)
        )
    except IndefiniteKernelError:
        if start is None:
            raise
        return solve_entries(alone, data, K)
    pair = point.pair.within(np.eye(m)[:, varying] * scale, np.eye(m)[varying] / scale[:, None])
    whole, known = pair.basis(units), Information(pair.back, units, point)
    rank = int((point.pair.signal > least[0]).sum())
    result = CovarianceResult(status, _log_evidence(point, scale), norm, rank, n_evaluations)
    return _solution(point, whole, scale, varying, alone, known, result)


def _of_outputs(alone, m):
    """Return noise, signal, scale, variation of outputs; largest eigenvalue, least ratio, mean variance."""
    (noise, signal, scale), varies = np.empty((3, m)), np.empty(m, dtype=bool)
    for outputs, solution in alone:
        rotated = solution.rotated
        scale[outputs], varies[outputs] = rotated.scale, rotated.varies
        noise[outputs] = np.maximum(solution.noise_var, 1e-9 * rotated.scale**2)
        signal[outputs] = np.minimum(solution.signal_var, 1e12 * noise[outputs])
    largest = max(solution.rotated.largest for _, solution in alone)
    rotated = max((solution.rotated for _, solution in alone), key=lambda r: r.n_free)
    resolved = m * max(ratio_range(solution.rotated)[0] for _, solution in alone)
    mean_variance = (rotated.count @ rotated.s) / max(rotated.n_free, 1)
    smallest = smallest_ratio(resolved, mean_variance, *(solution for _, solution in alone))
    return noise, signal, scale, varies, largest, smallest, mean_variance


def _shifted(K, units):
    """Return (K + ridge I)/size."""
    shifted = K / units.size
    shifted.flat[:: len(K) + 1] += units.ridge / units.size
    return shifted


def _log_evidence(point, scale):
    """Return the log evidence of outputs that vary, in the units of y."""
    entries = point.system.entries
    free = np.array([rows.n_free for rows in entries.means])
    jacobian = sum(rows.counts.half_log_weight for rows in entries.means) - free @ np.log(scale)
    return float(jacobian - 0.5 * (free.sum() * np.log(2 * np.pi) + point.value))


def _solution(point, basis, scale, varying, alone, known, result):
    """Return the model in the units of y; outputs that do not vary keep what they are alone."""
    system, m = point.system, basis.back.shape[0]
    entries = system.entries
    dual, beta = np.zeros((len(entries.seen), m)), np.zeros((len(alone[0][1].beta), m))
    tuning = np.empty(m, dtype=object)
    for outputs, solution in alone:
        beta[:, outputs] = solution.beta
        for j, result_alone in zip(outputs, solution.tuning, strict=True):
            tuning[j] = result_alone
    dual[:, varying] = entries.root[:, None] * entries.scattered(system.dual) / scale
    beta[:, varying] = system.mean_coefficients() * scale
    range_dual = dual @ basis.signal_covariance
    return EntriesSolution(
        basis, system, scale, varying, dual, range_dual, beta, tuple(tuning), known, result
    )
