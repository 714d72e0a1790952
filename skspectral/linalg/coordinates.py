"""Standardised targets seen through a decomposition, and what a noise ratio leaves unexplained of them."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..support.pickling import WithoutCache

__all__ = ["Coordinates", "energy_sum"]


@dataclass(frozen=True)
class Coordinates(WithoutCache):
    """Targets in the eigenbasis.

    Attributes
    ----------
    y_tilde : ndarray of shape (r, m)
        Coordinates U'y / scale.
    null_energy : ndarray of shape (m,)
        Squared length of what the eigenvectors do not reach.
    """

    y_tilde: np.ndarray
    null_energy: np.ndarray

    @cached_property
    def energy(self):
        """Squared coordinates, and in the last row what the eigenvectors do not reach, (r + 1, m)."""
        return np.concatenate([self.y_tilde**2, self.null_energy[None]])

    @property
    def reliable_from(self):
        """Smallest noise ratio at which all is known without more work: any."""
        return 0.0

    @property
    def n_outputs(self):
        """Number of outputs m."""
        return self.y_tilde.shape[1]

    @property
    def vary(self):
        """Whether each output is anything but 0, (m,)."""
        return self.energy.any(axis=0)

    def hidden_energy(self, s):
        """Return the squared length along the directions of eigenvalue 0, (m,), given all r + 1."""
        return self.energy[s == 0].sum(axis=0)

    def unexplained(self, x, v):
        """Return A = sum e v and its first two derivatives by x = log g, (k, m) each.

        y'(I + K/g)^-1 y, the squared residuals of a ridge and g times its penalty.

        Parameters
        ----------
        x : ndarray of shape (k, 1) or (k, m)
            Logarithms of noise ratios.
        v : ndarray of shape (k, 1 or m, r + 1)
            g/(s + g), which gives u = s/(s + g) too: v' = v u.
        """
        u = 1.0 - v
        vu = v * u
        return tuple(energy_sum(weights, self.energy) for weights in (v, vu, vu * (u - v)))

    def resolved(self, spectrum, noise_ratio):
        """Return U y~/(s + g) for noise ratios (m,), the coefficients of a ridge, (n, m)."""
        return spectrum.combined(self.y_tilde / (spectrum.s[:, None] + noise_ratio))

    def leak(self, s, resolution):
        """Return the squared length that inexact eigenvectors let out of their span, (m,).

        Rounding turns the vector of eigenvalue s by an angle of up to resolution / s.
        """
        angle = np.divide(resolution, s, out=np.zeros_like(s), where=s > 0)
        return angle**2 @ self.y_tilde**2

    def select(self, outputs):
        """Return the same for the given outputs only (repetitions allowed)."""
        return replace(self, y_tilde=self.y_tilde[:, outputs], null_energy=self.null_energy[outputs])


def energy_sum(weights, energy):
    """Return sum_i weights_i energy_i, (k, m): one GEMM where all outputs share their x."""
    if weights.shape[1] == 1:
        return weights[:, 0] @ energy
    return np.einsum("kmr,rm->km", weights, energy)
