"""Correlated outputs: signal and noise covariances between them, tuned from one decomposition.

    vec(Y) ~ N(0, Vg x K + Ve x I),    Ve = LL',  L^-1 Vg L^-T = Q diag(delta) Q',  A = Q'L^-1.

The columns of Y A' are independent outputs with signal variances delta and unit noise on the same spectrum:
all that there is for independent outputs holds for them, and goes back by A^-1.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..criteria import CRITERIA
from ..criteria.joint_evidence import JointEvidence, between
from ..linalg.covariance_pair import CovariancePair, Units
from ..linalg.output_basis import OutputBasis, row_space, triangle
from .covariances import CovarianceResult, Information, minimize_covariances
from .solution import Solution
from .tuned import Tuned, ratio_range, tune

__all__ = [
    "CorrelatedSolution",
    "CorrelatedTuned",
    "check_correlatable",
    "negligible",
    "smallest_ratio",
    "solve_correlated",
    "tune_correlated",
]

# Signal relative to noise along the largest eigenvalue, and noise relative to signal along the smallest.
_NO_DIFFERENCE = 1e-6
# Noise variance of a combination of outputs, relative to its signal variance, that is as good as none.
_LEAST_NOISE = 1e-6


@dataclass(frozen=True)
class CorrelatedTuned(Tuned):
    """Covariances of m outputs that are correlated, and what follows from them without eigenvectors.

    The inherited variances are the diagonals of both covariances.

    Attributes
    ----------
    basis : OutputBasis
        The covariances in the units of y.
    independent : Tuned
        The outputs in the basis in which they are independent.
    information : Information
        How well the covariances are determined.
    result : CovarianceResult
        How the covariances came about; `tuning` is that of each output alone, where it began.
    """

    basis: OutputBasis
    independent: Tuned
    information: Information
    result: CovarianceResult

    @property
    def in_basis(self):
        """The independent outputs."""
        return self.independent

    @property
    def mixing(self):
        """What independent outputs are multiplied by, (m, k)."""
        return self.basis.back

    def variance_of_outputs(self, variance):
        """Return variances of the outputs (..., m), given those of independent ones, (..., k)."""
        return variance @ (self.basis.back**2).T

    def targets_in_basis(self, Z):
        """Return standardised targets (n, m) in the basis, (n, k)."""
        return (Z * self.rotated.scale) @ self.basis.forth.T

    def joined(self, log_densities):
        """Return the log density of all outputs, (1,); infinite where some are constant or sums of others."""
        if len(self.basis) < self.rotated.n_outputs:
            return np.array([np.inf if self.rotated.n_free else 0.0])
        return log_densities.sum(keepdims=True) - 0.5 * self.rotated.n_free * self.basis.log_det_noise

    @property
    def log_evidence(self):
        """Log (restricted) evidence of all outputs together, (1,)."""
        return self.joined(self.independent.log_evidence)

    def objective(self, criterion):
        """Return -2 log evidence of outputs that vary, without the constants that `tune` leaves out too."""
        return self.independent.objective(criterion) - 2.0 * self._log_jacobian_of_varying

    @property
    def log_evidence_of_varying(self):
        """Log evidence of all directions in which outputs vary."""
        return float(self.independent.log_evidence.sum()) + self._log_jacobian(1.0)

    @property
    def _log_jacobian_of_varying(self):
        """The log Jacobian in the units in which `tune` measures outputs that vary."""
        return self._log_jacobian(self.rotated.scale)

    def _log_jacobian(self, scale):
        forth = self.basis.forth * scale
        return 0.5 * self.rotated.n_free * float(np.linalg.slogdet(forth @ forth.T)[1])

    def predictive_variance(self, cross, prior, leverage):
        """Return the variance of the latent function of each output, see `Tuned.predictive_variance`."""
        return self.variance_of_outputs(self.independent.predictive_variance(cross, prior, leverage))

    def output_covariance(self, cross, prior, leverage, include_noise):
        """Return the covariance between outputs at each new point, (n_new, m, m)."""
        variance = self.independent.predictive_variance(cross, prior, leverage) + include_noise
        back = self.basis.back
        return (variance[:, None, :] * back) @ back.T


@dataclass(frozen=True)
class CorrelatedSolution(CorrelatedTuned, Solution):
    """A fitted model of m outputs that are correlated, in the units of y."""

    independent: Solution

    @classmethod
    def of(cls, tuned):
        """Return the model of tuned covariances."""
        independent, rotated = Solution.of(tuned.independent), tuned.rotated
        dual = independent.range_dual @ tuned.basis.back.T
        beta = rotated.spectrum.mean_coefficients(rotated, dual)
        return cls(**(tuned.by_field() | {"independent": independent}), range_dual=dual, beta=beta)

    @property
    def dual(self):
        """All of the dual coefficients: (n, m)."""
        return self.independent.dual @ self.basis.back.T

    def objective_and_sensitivity(self, criterion):
        """Return the objective and its derivative by the kernel matrix at the tuned covariances, (n, n)."""
        value, G = self.independent.objective_and_sensitivity(criterion)
        return value - 2.0 * self._log_jacobian_of_varying, G

    def leave_one_out(self):
        """Return mean and variance of every row from all the others, (n, m) each, and who is absent."""
        mean, variance, absent = self.independent.leave_one_out()
        residual = self.independent.rotated.targets() - mean
        back = self.basis.back
        return self.rotated.targets() - residual @ back.T, self.variance_of_outputs(variance), absent

    def draw(self, geometry, include_noise, n_samples, rng):
        """Return draws around the mean from the joint distribution, (n_new, m, n_samples)."""
        if not len(self.basis):
            return np.zeros((len(geometry[1]), len(self.basis.back), n_samples))
        draws = self.independent.draw(geometry, include_noise, n_samples, rng)
        return np.einsum("mk,nks->nms", self.basis.back, draws)


@dataclass(frozen=True)
class _Complete:
    """The evidence as a function of both covariances, all outputs observed in all rows."""

    s: np.ndarray
    count: np.ndarray
    Y: np.ndarray

    @property
    def least(self):
        """See `negligible`."""
        return negligible(self.s.min(), self.s.max())

    def at(self, pair):
        """Return the `_Point` of two covariances."""
        Y = self.Y @ pair.forth.T
        return _Point(pair, JointEvidence(self.s, self.count, Y, *pair.parts, pair.log_det))


@dataclass(frozen=True)
class _Point:
    pair: CovariancePair
    evidence: JointEvidence

    @property
    def value(self):
        return self.evidence.value

    def slopes(self):
        return self.evidence.slopes()

    def flatness(self):
        return self.evidence.flatness()

    def scoring_step(self):
        return self.evidence.scoring_step()

    def curvatures(self):
        yield from between(self.evidence.shown(), self.evidence.expected())


def solve_correlated(rotated):
    """Return the `CorrelatedSolution` that maximises the evidence, see `tune_correlated`."""
    return CorrelatedSolution.of(tune_correlated(rotated, rotated.null_residual))


def tune_correlated(rotated, null_residual):
    """Tune the covariances of the signals and of the noise by the (restricted) evidence.

    From the variances of the outputs alone, O(n m^2) for each evaluation and O(n m^3 + m^6) for each step.
    Outputs that do not vary, or that are sums of others, have singular covariances.

    Parameters
    ----------
    rotated : Rotated
        Targets in the eigenbasis.
    null_residual : ndarray of shape (n, m), (m, m) or (1, 1)
        Standardised targets outside the eigenvectors, or any matrix with the same inner products.

    Returns
    -------
    CorrelatedTuned
    """
    alone = tune(rotated, CRITERIA["evidence"])
    if not rotated.varies.any():
        return _without_variation(alone)
    mean_variance = (rotated.count @ rotated.s) / rotated.n_free
    ridge = smallest_ratio(ratio_range(rotated)[0], mean_variance, alone)
    units = Units(ridge, mean_variance + ridge)
    s, count, Y = _coordinates(rotated, null_residual)
    B = row_space(Y)
    model = _Complete(units.eigenvalues(s), count, Y @ B)
    point, norm, status, n_evaluations = minimize_covariances(
        model, CovariancePair.of_basis(_start(alone, B, ridge), units)
    )
    whole = point.pair.within(rotated.scale[:, None] * B, B.T / rotated.scale)
    basis = whole.basis(units)
    independent = _independent(rotated, null_residual, basis, ridge)
    known = Information(whole.back, units, point)
    rank = int((point.pair.signal > model.least[0]).sum())
    return _tuned(alone, basis, independent, known, (status, norm, rank, n_evaluations))


def _coordinates(rotated, null_residual):
    """Return eigenvalues, multiplicities and coordinates with the null directions as m rows of eigenvalue 0.

    Inner products of what the eigenvectors do not reach are kept, and no formula has a low-rank branch.
    """
    m = rotated.n_outputs
    n_null = rotated.count[-1]
    s, count = rotated.s[:-1], rotated.count[:-1]
    if n_null == 0:
        return s, count, rotated.y_tilde
    null = triangle(np.broadcast_to(null_residual, (len(null_residual), m)))
    return (
        np.append(s, np.zeros(m)),
        np.append(count, np.full(m, n_null / m)),
        np.concatenate([rotated.y_tilde, null]),
    )


def smallest_ratio(resolved, mean_variance, *alone):
    """Return the smallest noise ratio that a combination of outputs may have.

    Few rows may leave a combination with next to no noise, at the end of a long and narrow valley of the
    evidence. Its noise variance is no less than a millionth of the signal variance, unless that of an output
    alone is.

    Parameters
    ----------
    resolved : float
        Smallest ratio above rounding.
    mean_variance : float
        Mean of the kernel at the rows.
    *alone : Tuned
        The outputs alone.
    """
    found = min(tuned.noise_ratio.min() for tuned in alone)
    return max(resolved, min(_LEAST_NOISE * mean_variance, found))


def negligible(smallest, largest):
    """Return the signal and the noise of an independent output that make no difference.

    Given the smallest and the largest eigenvalue, see `Units`.
    """
    return _NO_DIFFERENCE / largest, _NO_DIFFERENCE * smallest


def _start(alone, B, smallest):
    """Return the variances of the outputs alone, in the directions B; for sums, those of their terms."""
    scale = alone.rotated.scale**2
    ratio = np.minimum(1.0 / alone.noise_ratio, 1.0 / smallest)
    noise = np.maximum(alone.noise_var / scale, 1e-100)
    if B.shape[0] == B.shape[1]:
        return OutputBasis.of_variances(ratio * noise, noise)
    return OutputBasis.of_variances(*((B**2).T @ np.stack([ratio * noise, noise], axis=1)).T)


def _independent(rotated, null_residual, basis, smallest):
    """Return the `Tuned` of the outputs in the basis where they are independent."""
    with np.errstate(divide="ignore"):
        ratio = np.where(basis.signal >= 1.0 / smallest, smallest, 1.0 / basis.signal)
    mixed = rotated.mixed(basis.forth, null_residual)
    return Tuned(mixed, ratio, np.ones(len(basis)), basis.signal, (), None)


def _tuned(alone, basis, independent, known, result):
    """Return the `CorrelatedTuned` of a basis; the result lacks its log evidence."""
    noise, signal = np.diag(basis.noise_covariance).copy(), np.diag(basis.signal_covariance).copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(signal > 0, noise / signal, np.inf)
    tuned = CorrelatedTuned(
        alone.rotated, ratio, noise, signal, alone.tuning, None, basis, independent, known, None
    )
    status, *numbers = result
    return replace(tuned, result=CovarianceResult(status, tuned.log_evidence_of_varying, *numbers))


def _without_variation(alone):
    """Return the covariances 0 of outputs of which none varies."""
    m = alone.rotated.n_outputs
    basis = OutputBasis(np.zeros((m, 0)), np.zeros((0, m)), np.zeros(0))
    independent = Tuned(
        alone.rotated.mixed(basis.forth, np.zeros((1, 1))), *(np.zeros(0) for _ in range(3)), (), None
    )
    return _tuned(
        alone, basis, independent, Information(basis.back, Units(0.0, 1.0)), ("low_rank", 0.0, 0, 0)
    )


def check_correlatable(criterion, inference, has_variance_priors, bounds):
    """Refuse what covariances between outputs cannot be combined with, before any work."""
    wanted = (
        ("criterion", criterion, "evidence"),
        ("inference", inference, "maximize"),
    )
    for name, value, needed in wanted:
        if value != needed:
            raise ValueError(
                "outputs='correlated' maximises the evidence over both covariances and needs "
                f"{name}={needed!r}, got {value!r}. Use that, or outputs='independent'."
            )
    if has_variance_priors:
        raise ValueError(
            "outputs='correlated' takes no priors of variances. Leave out 'noise_variance' and "
            "'signal_variance', or use outputs='independent'."
        )
    for name, (low, high) in (("noise", bounds.noise), ("signal", bounds.signal)):
        if low == high:
            raise ValueError(
                f"outputs='correlated' tunes both covariances, but the kernel fixes the {name} variance at "
                f"{low:.6g}. Free it, or use outputs='independent'."
            )
