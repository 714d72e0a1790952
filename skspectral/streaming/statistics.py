"""What rows leave behind when they are gone: counts, means and a scatter matrix."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from ..linalg.moments import FeatureSpectrum
from ..linalg.rotated import Rotated
from ..linalg.rows import RowCounts, Rows, check_target_size
from ..support.types import FloatArray

__all__ = ["FeatureStatistics"]

_EPS = np.finfo(np.float64).eps
# Up to how many rows the rounding of sums does not grow.
_EXACT_ROWS = 2**16


@dataclass(frozen=True)
class FeatureStatistics:
    """Sufficient statistics of weighted rows (phi_i, y_i) for ridge regression on features.

    Two of them add up to those of all their rows: ``+`` is associative and commutative up to rounding, and
    `nothing` is neutral. O((r + m)^2) memory, however many rows.

    Attributes
    ----------
    n_rows : int
        Rows of positive weight.
    half_log_weight : float
        1/2 sum log w.
    weight : float
        Sum of the weights.
    mean : ndarray of shape (r + m,)
        Weighted means of features and targets.
    scatter : ndarray of shape (r + m, r + m)
        sum_i w_i (z_i - mean)(z_i - mean)', z = (phi, y): centred Phi'Phi, Phi'Y and Y'Y in one.
    n_features : int
        r.
    missed : float
        Weighted trace of what the features miss of the kernel, sum_i w_i (k(x_i, x_i) - |phi_i|^2); 0 where
        k(x, x) was not told.

    Notes
    -----
    Sums are kept around the mean, so that an intercept costs no digits, and merged by

        scatter = scatter_1 + scatter_2 + w_1 w_2 / (w_1 + w_2) d d',   d = mean_1 - mean_2

    (Chan, Golub & LeVeque 1983). Without an intercept the sums around 0 are scatter + weight mean mean'.

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral import FeatureStatistics
    >>> rng = np.random.default_rng(0)
    >>> Phi, Y = rng.normal(size=(100, 3)), rng.normal(size=(100, 1))
    >>> whole = FeatureStatistics.from_rows(Phi, Y)
    >>> parts = FeatureStatistics.from_rows(Phi[:30], Y[:30]) + FeatureStatistics.from_rows(Phi[30:], Y[30:])
    >>> bool(np.allclose(whole.scatter, parts.scatter)), parts.n_rows
    (True, 100)
    """

    n_rows: int
    half_log_weight: float
    weight: float
    mean: np.ndarray
    scatter: np.ndarray
    n_features: int
    missed: float = 0.0

    @classmethod
    def nothing(cls, n_features: int, n_outputs: int) -> Self:
        """Return the statistics of no rows."""
        size = n_features + n_outputs
        return cls(0, 0.0, 0.0, np.zeros(size), np.zeros((size, size)), n_features)

    @classmethod
    def from_rows(
        cls,
        Phi: FloatArray,
        Y: FloatArray,
        weight: FloatArray | None = None,
        prior: FloatArray | None = None,
    ) -> Self:
        """Return the statistics of features Phi (n, r) and targets Y (n, m) with weights (n,), O(n r^2).

        `prior` (n,) are the k(x, x) of the kernel that the features stand for.
        """
        rows = Rows.make(len(Phi), None, weight)
        if not rows.present.any():
            return cls.nothing(Phi.shape[1], Y.shape[1])
        total = float((rows.sqrt_weight**2).sum())
        missed = 0.0
        if prior is not None:
            left = np.maximum(prior - np.einsum("ij,ij->i", Phi, Phi), 0.0)
            missed = float((rows.sqrt_weight[:, 0] ** 2) @ left)
        Z = np.concatenate([Phi, Y], axis=1)
        mean = 0.0
        for _ in range(2):  # again for what rounding of a long sum left behind
            left = (rows.sqrt_weight[:, 0] ** 2) @ Z / total
            Z -= left
            mean = mean + left
        Z *= rows.sqrt_weight
        check_target_size(_sizes(Z))
        return cls(
            rows.counts.n_rows,
            rows.counts.half_log_weight,
            total,
            mean,
            Z.T @ Z,
            Phi.shape[1],
            missed,
        )

    def __add__(self, other: "FeatureStatistics") -> "FeatureStatistics":
        """Return the statistics of the rows of both."""
        if not isinstance(other, FeatureStatistics):
            return NotImplemented
        if (self.n_features, len(self.mean)) != (other.n_features, len(other.mean)):
            raise ValueError(
                f"Statistics of {self.n_features} features and {self.n_outputs} outputs cannot be added to "
                f"those of {other.n_features} and {other.n_outputs}. Use the same landmarks and targets."
            )
        total = self.weight + other.weight
        if other.weight == 0 or self.weight == 0:
            return self if other.weight == 0 else other
        share = other.weight / total
        d = np.sqrt(self.weight * share) * (other.mean - self.mean)
        check_target_size(_sizes(d))
        return FeatureStatistics(
            self.n_rows + other.n_rows,
            self.half_log_weight + other.half_log_weight,
            total,
            self.mean + share * (other.mean - self.mean),
            self.scatter + other.scatter + np.outer(d, d),
            self.n_features,
            self.missed + other.missed,
        )

    def __radd__(self, other: int) -> "FeatureStatistics":
        """Return self for `other` = 0, where `sum` starts."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @property
    def n_outputs(self) -> int:
        """Number of outputs m."""
        return len(self.mean) - self.n_features

    def counts(self, fit_intercept: bool) -> RowCounts:
        """Return the numbers that criteria ask of the rows."""
        mean_weight = self.weight / self.n_rows if self.n_rows else 0.0
        n_mean = int(fit_intercept and self.n_rows > 0)
        return RowCounts(self.n_rows, n_mean, self.half_log_weight, mean_weight)

    def decompose(self, fit_intercept: bool = True) -> FeatureSpectrum:
        """Return the eigenvalues of the (centred) Phi Phi', O(r^3), whatever the number of rows."""
        counts = self.counts(fit_intercept)
        mean_part = counts.n_mean * self.weight * float((self.mean[: self.n_features] ** 2).sum())
        return FeatureSpectrum.from_moments(self._moments(fit_intercept)[0], counts, mean_part, self._error)

    def rotate(self, fit_intercept: bool = True) -> Rotated:
        """Return the targets in the eigenbasis, for any criterion that does not look at single rows."""
        spectrum, PhiY = self.decompose(fit_intercept), self._moments(fit_intercept)[1]
        n_free, (scale, varies) = max(spectrum.counts.n_free, 1), self.target_scale(fit_intercept)
        check_target_size(scale[varies])
        PhiZ = np.divide(PhiY, scale, out=np.zeros_like(PhiY), where=varies)
        return spectrum.rotate(PhiZ, np.where(varies, n_free, 0.0), scale)

    def target_scale(self, fit_intercept: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return the root mean square of each output (outside the mean), 1 for rounding, and who varies."""
        energy = self._moments(fit_intercept)[2]
        scale = np.sqrt(energy / max(self.counts(fit_intercept).n_free, 1))
        varies = scale > self._negligible
        return np.where(varies, scale, 1.0), varies

    @property
    def _error(self):
        """Relative rounding of sums over rows: slabs are exact to a few eps, and many of them add up."""
        return 8.0 * _EPS * max(1.0, np.sqrt(self.n_rows / _EXACT_ROWS))

    def _moments(self, fit_intercept):
        """Return Phi'P Phi, Phi'P Y and the squared lengths of P Y."""
        r, scatter = self.n_features, self.scatter
        if not fit_intercept:
            around = np.sqrt(self.weight) * self.mean
            check_target_size(_sizes(around))
            scatter = scatter + np.outer(around, around)
        return scatter[:r, :r], scatter[:r, r:], np.diag(scatter)[r:]

    @cached_property
    def _negligible(self):
        """Size below which what is left of an output is rounding."""
        squares = np.diag(self.scatter)[self.n_features :] / (self.weight or 1.0)
        size = np.hypot(np.sqrt(squares), self.mean[self.n_features :])
        return size * _EPS * max(32.0, np.sqrt(self.n_rows))


def _sizes(Z):
    """Return the sizes whose squares must be numbers; what is close to 0 may be 0."""
    return np.maximum(np.abs(Z), 1.0)
