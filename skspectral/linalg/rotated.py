"""Targets seen through a decomposition: all that a criterion ever sees of them."""

from dataclasses import dataclass, replace

import numpy as np

from .coordinates import Coordinates
from .rows import RowCounts

__all__ = ["FAR_FROM_ROUNDING", "Rotated"]

# Noise ratios that are so many times the resolution have nothing to do with rounding.
FAR_FROM_ROUNDING = 1e4


@dataclass(frozen=True)
class Rotated:
    """Targets in the eigenbasis, standardised to unit mean square: the input of every criterion.

    The eigenvalue 0 of the directions that the eigenvectors do not span is appended to the others, so that no
    formula has a low-rank branch: sums over n - q directions are sums over distinct entries of `s`
    with multiplicity `count` and squared length `energy`.

    Attributes
    ----------
    s : ndarray of shape (r + 1,)
        Eigenvalues in ascending order, then 0 for the null directions.
    count : ndarray of shape (r + 1,)
        Multiplicities: ones, and the number of null directions.
    coordinates : Coordinates or ReducedCoordinates
        The standardised outputs.
    scale : ndarray of shape (m,)
        Root mean square of each output outside the mean space; 1 where nothing is left.
    counts : RowCounts
        Numbers of rows and mean functions, and sums of their weights.
    resolution : float
        The smallest noise ratio that rounding resolves.
    rounding : ndarray of shape (m,)
        Squared length of what rounding leaves of each output where the eigenvectors span all of it.
    """

    s: np.ndarray
    count: np.ndarray
    coordinates: Coordinates
    scale: np.ndarray
    counts: RowCounts
    resolution: float
    rounding: np.ndarray

    @classmethod
    def make(cls, s, y_tilde, null_energy, scale, counts, **more):
        """Return the targets with coordinates `y_tilde` (r, m) and the energy (m,) of what is outside."""
        return cls.at(s, Coordinates(y_tilde, null_energy), scale, counts, **more)

    @classmethod
    def at(cls, s, coordinates, scale, counts, **more):
        """Return the targets with given coordinates, for eigenvalues (r,)."""
        s, count = np.append(s, 0.0), np.append(np.ones_like(s), counts.n_free - len(s))
        return cls(s, count, coordinates, scale, counts, **more)

    @property
    def y_tilde(self):
        """Coordinates U'y / scale, (r, m)."""
        return self.coordinates.y_tilde

    @property
    def energy(self):
        """Squared coordinates, and in the last row what the eigenvectors do not reach, (r + 1, m)."""
        return self.coordinates.energy

    @property
    def n_outputs(self):
        """Number of outputs m."""
        return self.coordinates.n_outputs

    @property
    def n_free(self):
        """Number of rows less the dimension of the mean space, n - q."""
        return self.counts.n_free

    @property
    def largest(self):
        """Largest eigenvalue, where all are 0 the size of their rounding, and 1 without any."""
        return float(self.s.max()) or self.resolution or 1.0

    @property
    def varies(self):
        """Whether each output has anything left outside the mean space."""
        return self.coordinates.vary

    @property
    def hidden_energy(self):
        """Squared length of each output along the directions of eigenvalue 0, (m,)."""
        return self.coordinates.hidden_energy(self.s)

    @property
    def all_rounding(self):
        """What rounding leaves of each output, (m,)."""
        return self.rounding

    @property
    def shows_noise(self):
        """Whether each output has more than rounding where the kernel has nothing."""
        return self.hidden_energy > self.all_rounding

    def log_jacobian(self, n):
        """Return the log Jacobian of n standardised coordinates, per output."""
        return self.counts.half_log_weight - n * np.log(self.scale)

    def select(self, outputs):
        """Return the same for the given outputs only (repetitions allowed)."""
        return replace(
            self,
            coordinates=self.coordinates.select(outputs),
            scale=self.scale[outputs],
            rounding=self.rounding[outputs],
        )

    def mixed(self, M, null_residual):
        """Return the outputs Y M' for M of shape (k, m), in the units of these products.

        Parameters
        ----------
        M : ndarray of shape (k, m)
            Coefficients in the units of y.
        null_residual : ndarray of shape (rows, m) or (1, 1)
            Standardised targets outside the eigenvectors, or any rows with the same inner products.
        """
        mixing = (M * self.scale).T
        null = null_residual if null_residual.shape[1] != self.n_outputs else null_residual @ mixing
        null_energy = np.broadcast_to((null**2).sum(axis=0), len(M))
        return replace(
            self,
            coordinates=Coordinates(self.y_tilde @ mixing, null_energy),
            scale=np.ones(len(M)),
            rounding=(np.sqrt(self.rounding) @ np.abs(mixing)) ** 2,  # of lengths that may all add up
        )
