"""What rows leave behind when they are gone: counts, means and a scatter matrix."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from ..linalg.rows import Rows
from ..linalg.spectrum import Rotated, Spectrum

__all__ = ["FeatureStatistics"]

_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class FeatureStatistics:
    """Sufficient statistics of weighted rows (phi_i, y_i) for ridge regression on features.

    Two of them add up to those of all their rows: ``+`` is associative and commutative up to rounding, and
    `nothing` is neutral. O((r + m)^2) memory, however many rows.

    Attributes
    ----------
    n_rows : int
        Rows of positive weight.
    n_observations : float
        Observations, sum max(1, w): a row of weight w >= 1 counts w times (see `Rows`).
    half_log_precision : float
        1/2 sum log min(1, w).
    weight : float
        Sum of the weights.
    mean : ndarray of shape (r + m,)
        Weighted means of features and targets.
    scatter : ndarray of shape (r + m, r + m)
        sum_i w_i (z_i - mean)(z_i - mean)', z = (phi, y): centred Phi'Phi, Phi'Y and Y'Y in one.
    n_features : int
        r.

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
    n_observations: float
    half_log_precision: float
    weight: float
    mean: np.ndarray
    scatter: np.ndarray
    n_features: int

    @classmethod
    def nothing(cls, n_features, n_outputs):
        """Return the statistics of no rows."""
        size = n_features + n_outputs
        return cls(0, 0.0, 0.0, 0.0, np.zeros(size), np.zeros((size, size)), n_features)

    @classmethod
    def from_rows(cls, Phi, Y, weight=None):
        """Return the statistics of features Phi (n, r) and targets Y (n, m) with weights (n,), O(n r^2)."""
        rows = Rows.make(len(Phi), None, weight)
        if not rows.present.any():
            return cls.nothing(Phi.shape[1], Y.shape[1])
        total = float((rows.sqrt_weight**2).sum())
        Z = np.concatenate([Phi, Y], axis=1)
        mean = 0.0
        for _ in range(2):  # again for what rounding of a long sum left behind
            left = (rows.sqrt_weight[:, 0] ** 2) @ Z / total
            Z -= left
            mean = mean + left
        Z *= rows.sqrt_weight
        return cls(
            int(rows.present.sum()),
            rows.n_observations,
            rows.half_log_precision,
            total,
            mean,
            Z.T @ Z,
            Phi.shape[1],
        )

    def __add__(self, other):
        """Return the statistics of the rows of both."""
        if not isinstance(other, FeatureStatistics):
            return NotImplemented
        if (self.n_features, len(self.mean)) != (other.n_features, len(other.mean)):
            raise ValueError(
                f"Statistics of {self.n_features} features and {self.n_outputs} outputs cannot be added to "
                f"those of {other.n_features} and {other.n_outputs}. Use the same landmarks and targets."
            )
        total = self.weight + other.weight
        if total == 0:
            return self
        share = other.weight / total
        d = other.mean - self.mean
        return FeatureStatistics(
            self.n_rows + other.n_rows,
            self.n_observations + other.n_observations,
            self.half_log_precision + other.half_log_precision,
            total,
            self.mean + share * d,
            self.scatter + other.scatter + (self.weight * share) * np.outer(d, d),
            self.n_features,
        )

    def __radd__(self, other):
        """Return self for `other` = 0, where `sum` starts."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @property
    def n_outputs(self):
        """Number of outputs m."""
        return len(self.mean) - self.n_features

    def rotate(self, fit_intercept=True):
        """Return the targets in the eigenbasis of the (centred) Phi Phi', for any criterion without rows.

        O(r^3), whatever the number of rows.

        Notes
        -----
        With S = Phi'P Phi = V diag(s) V', P the projector outside the mean space, U = P Phi V / root(s) are
        the eigenvectors of P Phi Phi'P, and U'y = V'Phi'P y / root(s). U itself has gone with the rows; in
        its place the `Spectrum` carries Phi'U = V diag(root s), so that its "dual" coefficients are those of
        the features. The energy outside U is y'Py - |U'y|^2: there is no residual vector to take it from, so
        noise of less than about 1e-8 of the size of y is lost in rounding.
        """
        rows = _SummedRows.of(self, fit_intercept)
        S, PhiY, energy = self._moments(fit_intercept)
        s, V, resolution = _eigen(S, rows, self)
        scale = np.sqrt(energy / max(rows.n_free, 1.0))
        varies = scale > self._negligible
        y_tilde = V.T @ np.divide(PhiY, scale, out=np.zeros_like(PhiY), where=varies) / np.sqrt(s)[:, None]
        n_null = self.n_rows - rows.n_mean - len(s)
        has_null = n_null + rows.n_repeats > 0
        null_energy = np.where(varies & has_null, rows.n_free - (y_tilde**2).sum(axis=0), 0.0)
        spectrum = self._spectrum(s, V, n_null, resolution, rows)
        return Rotated(
            s=np.append(s, 0.0),
            count=np.append(np.ones_like(s), n_null + rows.n_repeats),
            energy=np.concatenate([y_tilde**2, np.maximum(null_energy, 0.0)[None]]),
            scale=np.where(varies, scale, 1.0),
            y_tilde=y_tilde,
            null_residual=np.zeros((1, 1)),
            basis_part=rows.root_total * self.mean[None, self.n_features :],
            spectrum=spectrum,
        )

    def _moments(self, fit_intercept):
        """Return Phi'P Phi, Phi'P Y and the squared lengths of P Y."""
        r, scatter = self.n_features, self.scatter
        if not fit_intercept:
            scatter = scatter + self.weight * np.outer(self.mean, self.mean)
        return scatter[:r, :r], scatter[:r, r:], np.diag(scatter)[r:]

    @cached_property
    def _negligible(self):
        """Size below which what is left of an output is rounding."""
        squares = np.diag(self.scatter)[self.n_features :] / (self.weight or 1.0)
        size = np.sqrt(squares + self.mean[self.n_features :] ** 2)
        return size * _EPS * max(32.0, np.sqrt(self.n_rows))

    def _spectrum(self, s, V, n_null, resolution, rows):
        loadings = np.sqrt(s)[:, None] * V.T
        QPhi = rows.root_total * self.mean[None, : self.n_features]
        return Spectrum(s, loadings.T, n_null, resolution, rows, QPhi.T, loadings, QPhi)


def _eigen(S, rows, statistics):
    """Return the eigenvalues above rounding, their vectors, and the size of that rounding."""
    s, V = eigh(S, check_finite=False)
    mean_part = float((rows.root_total**2).sum() * (statistics.mean[: len(S)] ** 2).sum())
    # eigh errs by r eps; sums of n terms by about root(n) eps
    error = 8.0 * _EPS * max(len(S), np.sqrt(statistics.n_rows))
    resolution = error * (max(s[-1], 0.0) + mean_part)
    kept = s > resolution
    kept[: max(0, len(s) - max(0, statistics.n_rows - rows.n_mean))] = False
    return s[kept], V[:, kept], resolution


@dataclass(frozen=True)
class _SummedRows:
    """What a `Spectrum` asks of its `Rows`, known from sums; its own rows are those of feature space."""

    sqrt_weight: np.ndarray
    R_inv: np.ndarray
    root_total: np.ndarray
    n_observations: float
    n_repeats: float
    half_log_precision: float

    @classmethod
    def of(cls, statistics, fit_intercept):
        """Return the rows of statistics: Q = W^1/2 1 / root(weight) with an intercept, else none."""
        q = int(fit_intercept and statistics.n_rows > 0)
        root_total = np.full((q, 1), np.sqrt(statistics.weight))
        return cls(
            np.ones((statistics.n_features, 1)),
            np.full((q, q), 1.0 / np.sqrt(statistics.weight or 1.0)),
            root_total,
            statistics.n_observations,
            statistics.n_observations - statistics.n_rows,
            statistics.half_log_precision,
        )

    @property
    def n_mean(self):
        """Dimension of the mean space."""
        return len(self.root_total)

    @property
    def n_free(self):
        """Observations less the dimension of the mean space."""
        return self.n_observations - self.n_mean
