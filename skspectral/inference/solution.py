"""From rotated targets to a fitted model on its rows: tuned variances and the coefficients that follow.

Nothing here forms or factorises a matrix.
"""

from dataclasses import dataclass

import numpy as np

from ..criteria import UNDETERMINED, profile
from ..linalg.spectrum import RotatedRows, Spectrum
from ..support.exceptions import (
    DegenerateCriterionWarning,
    NoiseResolutionWarning,
    UndeterminedVarianceWarning,
    warn_user,
)
from .tuned import Tuned, at_noise_ratio, ratio_range, tune

__all__ = ["Solution", "solve", "solve_fixed", "warn_of_unknown_spread", "warn_of_vanished_noise"]

# A ratio that was the end of a search may be off by the rounding of its logarithm.
_JUST_ABOVE = 1.0 + 1e-12


@dataclass(frozen=True)
class Solution(Tuned):
    """A fitted model for m outputs, in the units of y.

    Attributes
    ----------
    range_dual : ndarray of shape (n, m)
        Dual coefficients on the range of K: predictions are K(X*, X) range_dual + F* beta.
    beta : ndarray of shape (functions, m)
        Coefficients of the mean functions.
    """

    rotated: RotatedRows
    range_dual: np.ndarray
    beta: np.ndarray

    @classmethod
    def of(cls, tuned):
        """Return the model of tuned variances."""
        rotated = tuned.rotated
        dual = rotated.spectrum.dual(rotated, tuned.noise_ratio)
        beta = rotated.spectrum.mean_coefficients(rotated, dual)
        return cls(**tuned.by_field(), range_dual=dual, beta=beta)

    @property
    def spectrum(self) -> Spectrum:
        """The decomposition behind it."""
        return self.rotated.spectrum

    @property
    def dual(self):
        """All of the dual coefficients (K + gI)^-1 (y - F beta), (n, m)."""
        return self.range_dual + self.spectrum.null_dual(self.rotated, self.noise_ratio)

    def dual_variance(self):
        """Return diag Cov[c | y] on the numerical range of K (Prop. 2.4 of Schirru et al.), (n, m).

        Cov[c | y] = U diag(q) U' with q_i = noise_var signal_var / ((signal_var s_i + noise_var) s_i);
        directions with s_i = 0, where q_i is infinite, are left out. O(n^2 m).
        """
        s = self.s[self.s > 0][:, None]
        in_range = self.spectrum.U_squared[:, len(self.s) - len(s) :]
        with np.errstate(over="ignore"):  # at most the largest number there is
            q = np.divide(
                self.noise_var,
                s + self.noise_ratio,
                out=np.zeros((len(s), len(self.noise_var))),
                where=np.isfinite(self.noise_ratio) & (self.noise_ratio > 0),
            )
            q = np.minimum(q / s, np.finfo(np.float64).max)
            variance = self.spectrum.rows.sqrt_weight**2 * (in_range @ q)
        return np.minimum(variance, np.finfo(np.float64).max)

    def objective_and_sensitivity(self, criterion):
        """Return the objective and its derivative by the kernel matrix, (n, n).

        The derivative is that of the profiled criterion: the variances are optimal (or at a bound), so
        how they move with K does not matter. Only the smallest noise that rounding resolves moves with K,
        being relative to its largest eigenvalue. Outputs without variation have no part in it.
        """
        value, varying, rotated, terms, b = self._varying_part(criterion)
        if not len(varying):
            n = len(self.spectrum.U)
            return value, np.zeros((n, n))
        x = np.log(self.noise_ratio[varying])
        G = criterion.sensitivity(rotated, x, b)
        at_end = self.noise_ratio[varying] <= _JUST_ABOVE * ratio_range(self.rotated)[0]
        if at_end.any():
            slope = profile(terms, x[None]).f1[0, at_end].sum()
            G += slope * self.spectrum.resolution_sensitivity()
        return value, self.spectrum.rows.unweighted_sensitivity(G)

    def leave_one_out(self):
        """Return the exact leave-one-out mean and variance of every row, (n, m) each, and who is absent.

        With R = U diag(v) U' + null projector, the residual is (R y)_i / R_ii and the predictive
        variance of row i, of weight w_i, is noise_var / (R_ii w_i), noise included. Absent rows hold 0.
        """
        weighted, R_diag = self.weighted_loo_residuals()
        w, present = self.spectrum.rows.sqrt_weight, self.spectrum.rows.present
        zeros, at = np.zeros_like(weighted), present[:, None]
        residual = np.divide(weighted, w, out=zeros.copy(), where=at)
        with np.errstate(over="ignore"):  # at most the largest number there is
            variance = np.divide(self.noise_var, R_diag * w**2, out=zeros, where=at)
        variance = np.minimum(variance, np.finfo(np.float64).max)
        return self.rotated.targets() - residual, self.honest(variance), ~present

    def weighted_loo_residuals(self):
        """Return sqrt(w_i) times leave-one-out residuals, (R y)_i / R_ii, 0 in absent rows, and diag R."""
        spectrum, rotated = self.spectrum, self.rotated
        v = 1.0 / (1.0 + spectrum.s[:, None] / self.noise_ratio)
        Ry = (spectrum.U @ (v * rotated.y_tilde) + rotated.null_residual) * rotated.scale
        R_diag = spectrum.U_squared @ v + spectrum.null_leverage
        present = spectrum.rows.present
        self._check_determined(~present)
        return np.divide(Ry, R_diag, out=np.zeros_like(Ry), where=present[:, None]), R_diag

    def draw(self, geometry, include_noise, n_samples, rng):
        """Return draws around the mean from the joint distribution of new points, (n_new, m, n_samples)."""
        covariance = self.predictive_variance(*geometry)
        if include_noise:
            covariance = covariance + self.noise_var * np.eye(len(covariance))[..., None]
        zero = np.zeros(len(covariance))
        draws = [
            rng.multivariate_normal(zero, covariance[..., j], n_samples, check_valid="ignore").T
            for j in range(covariance.shape[-1])
        ]
        return np.stack(draws, axis=1)

    def _check_determined(self, absent):
        """Refuse rows that no other row says anything about."""
        alone = (self.spectrum.freedom[:, 0] <= UNDETERMINED) & ~absent
        if alone.any():
            raise ValueError(
                f"Leave-one-out is not defined: without row {alone.argmax()} the other "
                f"{(~absent).sum() - 1} row(s) of positive weight do not determine "
                f"{self.spectrum.rows.n_mean} mean coefficient(s), or weigh nothing beside it. Fit more "
                "rows, with weights of like size, or use fit_intercept=False."
            )


def solve(rotated, criterion, bounds=None, *, shared=False, prior=None):
    """Return the `Solution` with the variances of every output tuned by a criterion, see `tune`."""
    return Solution.of(tune(rotated, criterion, bounds, shared=shared, prior=prior))


def solve_fixed(rotated, criterion, noise_ratio):
    """Return the `Solution` at given noise ratios (m,), with the variances that the evidence prefers."""
    return Solution.of(at_noise_ratio(rotated, criterion, noise_ratio))


def warn_of_unknown_spread(tuned):
    """Warn where the data do not determine the variances, for estimators that predict spreads."""
    if tuned.is_undetermined.any():
        warn_user(
            "Targets without variation, or no more of them than mean functions, do not determine the "
            "variances: standard deviations and intervals of such an output are infinite. Give more rows, or "
            "bound the variances by ConstantKernel and WhiteKernel.",
            UndeterminedVarianceWarning,
        )


def warn_of_vanished_noise(tuned, criterion):
    """Warn where the tuned noise vanished for a reason that is not in the data."""
    if any(result.status == "resolution" for result in tuned.tuning):
        warn_user(
            "What the kernel leaves unexplained is too little beside the signal to be told from the rounding "
            "of the kernel matrix. The smallest noise ratio that can be told stands for it, so that the "
            "noise variance may be too large and the signal variance too small. A factor, method='low_rank' "
            "with a rank, resolves less noise; or give the variances by ConstantKernel and WhiteKernel.",
            NoiseResolutionWarning,
        )
    if criterion.is_unbounded and any(result.status == "noise_free" for result in tuned.tuning):
        warn_user(
            f"criterion='{criterion.name}' has no minimum here: it falls without limit as the noise "
            "vanishes, whatever the data, and was stopped at the smallest noise that rounding "
            "resolves. Use criterion='evidence'.",
            DegenerateCriterionWarning,
        )
