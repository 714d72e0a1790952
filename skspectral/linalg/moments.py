"""A spectrum from sums over rows that are not at hand: Phi'Phi and Phi'Y instead of vectors."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from .projection import Projection
from .rotated import Rotated
from .rows import RowCounts

__all__ = ["FeatureSpectrum"]

# How much larger than that of its terms the rounding of a difference of energies may be.
_CANCELLATION = 4.0


@dataclass(frozen=True)
class FeatureSpectrum:
    """Eigenvalues of P Phi Phi'P from S = Phi'P Phi = V diag(s) V', P the projector outside the mean space.

    The eigenvectors on the rows would be U = P Phi V / root(s). Only U'y = V'Phi'P y / root(s) is needed.

    Attributes
    ----------
    s : ndarray of shape (r,)
        Eigenvalues above rounding, ascending.
    V : ndarray of shape (features, r)
        Their vectors in feature space.
    resolution : float
        Eigenvalues below it are rounding.
    error : float
        Relative rounding of sums of squares.
    counts : RowCounts
        Numbers of rows and mean functions.
    """

    s: np.ndarray
    V: np.ndarray
    resolution: float
    error: float
    counts: RowCounts

    @classmethod
    def from_moments(cls, S, counts, mean_part, error):
        """Decompose S, O(r^3).

        Parameters
        ----------
        S : ndarray of shape (features, features)
            Phi'P Phi.
        counts : RowCounts
            Numbers of rows and mean functions.
        mean_part : float
            Squared length of what P took away, |Q'Phi|^2.
        error : float
            Rounding of sums of squares: of S relative to its largest eigenvalue and `mean_part`.
        """
        s, V = eigh(S, check_finite=False)
        resolution = max(error * (max(s[-1], 0.0) + mean_part), -s[0])
        kept = s > resolution
        kept[: max(0, len(s) - max(0, counts.n_free))] = False
        return cls(s[kept], V[:, kept], resolution, error, counts)

    def rotate(self, PhiZ, energy, scale):
        """Return standardised targets Z in the eigenbasis, given Phi'P Z, their squared lengths, their scale.

        The energy outside the eigenvectors is Z'PZ - |U'Z|^2. There is no residual vector to take it from, so
        noise below about 1e-7 of the size of y is lost in rounding: what is left is taken to be no less.
        """
        y_tilde = _no_longer(self.V.T @ PhiZ / np.sqrt(self.s)[:, None], energy)
        rounding = _CANCELLATION * self.error * energy
        left = np.maximum(energy - (y_tilde**2).sum(axis=0), rounding)
        left = left if self.counts.n_free > len(self.s) else np.zeros_like(energy)
        return Rotated.make(
            self.s, y_tilde, left, scale, self.counts, resolution=self.noise_resolution, rounding=rounding
        )

    @property
    def noise_resolution(self):
        """Smallest noise ratio that rounding resolves, see `Spectrum.noise_resolution`."""
        return self.resolution * min(1.0, len(self.V) / max(self.counts.n_free, 1))

    @property
    def loadings(self):
        """U'Phi = diag(root s) V', (r, features)."""
        return np.sqrt(self.s)[:, None] * self.V.T

    def coefficients(self, rotated, noise_ratio):
        """Return the coefficients Phi'U y~/(s+g) of the features, (features, m), in the units of y."""
        return self.loadings.T @ (rotated.y_tilde / (self.s[:, None] + noise_ratio)) * rotated.scale

    def of_features(self, QPhi, R_inv):
        """Return the geometry of new points from their features, a `Projection`."""
        return Projection.of_features(self.loadings, QPhi, R_inv)


def _no_longer(y_tilde, energy):
    """Return coordinates of targets (r, m) that have no more than their energy (m,) together.

    The smaller an eigenvalue, the more of a coordinate is rounding: those of the largest count first.
    """
    so_far = np.cumsum(y_tilde[::-1] ** 2, axis=0)
    left = np.diff(np.minimum(so_far, energy), axis=0, prepend=0.0)[::-1]
    return np.where(so_far[::-1] <= energy, y_tilde, np.copysign(np.sqrt(left), y_tilde))
