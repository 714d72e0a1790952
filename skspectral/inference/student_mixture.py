"""Mixtures of Student-t distributions: what predictions averaged over variances are."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

from .variances import LARGEST_VARIANCE

__all__ = ["StudentMixture", "inflate"]

# Weight of a component, relative to the largest, that is left out.
_NEGLIGIBLE_WEIGHT = 1e-7
_QUANTILE_TOLERANCE = 1e-12
_MAX_QUANTILE_STEPS = 100


@dataclass(frozen=True)
class StudentMixture:
    """Mixtures of K Student-t distributions with common weights, one mixture for each of n_new points.

    Attributes
    ----------
    location, scale : ndarray of shape (n_new, K)
        Of the components.
    weight : ndarray of shape (K,)
        Their probabilities.
    dof : float
        Degrees of freedom of all components.
    """

    location: np.ndarray
    scale: np.ndarray
    weight: np.ndarray
    dof: float

    @property
    def mean(self):
        """sum w m, (n_new,)."""
        return self.location @ self.weight

    @property
    def variance(self):
        """sum w [scale^2 nu/(nu-2) + (m - mean)^2], (n_new,); infinite for nu <= 2 unless the scale is 0."""
        within = self.scale**2 @ self.weight
        with np.errstate(over="ignore"):
            between = (self.location - self.mean[:, None]) ** 2 @ self.weight
        return inflate(within, self.dof) + np.minimum(between, LARGEST_VARIANCE)

    @classmethod
    def joined(cls, mixtures, probability):
        """Return the mixture of mixtures of the same points; components of no weight are left out."""
        weight = np.concatenate([p * mix.weight for p, mix in zip(probability, mixtures, strict=True)])
        location, scale = (
            np.hstack([getattr(mix, name) for mix in mixtures]) for name in ("location", "scale")
        )
        kept = weight > _NEGLIGIBLE_WEIGHT * weight.max()
        weight = weight[kept] / weight[kept].sum()
        return cls(location[:, kept], scale[:, kept], weight, mixtures[0].dof)

    def quantile(self, probability):
        """Return the points where the distribution functions reach a probability in (0, 1), (n_new,).

        Newton's method inside a shrinking bracket; the quantiles of the components are the first.
        """
        unit = ndtri(probability) if np.isinf(self.dof) else stdtrit(self.dof, probability)
        components = self.location + self.scale * unit
        low, high = components.min(axis=1), components.max(axis=1)
        width = _QUANTILE_TOLERANCE * (high - low + self.scale.max(axis=1))
        y = components @ self.weight
        for _ in range(_MAX_QUANTILE_STEPS):
            excess = self._distribution(y) - probability
            low, high = np.where(excess < 0, y, low), np.where(excess < 0, high, y)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # hardly any density
                newton = y - excess / self._density(y)
            inside = (newton >= low) & (newton <= high)
            proposal = np.where(inside, newton, 0.5 * (low + high))
            done = np.abs(proposal - y) <= width
            y = proposal
            if done.all():
                break
        return y

    def _standardised(self, y):
        """Return (y - m)/scale, with a scale of 0 replaced by the smallest that does not overflow."""
        gap = y[:, None] - self.location
        floor = np.finfo(np.float64).tiny + 1e-100 * np.abs(gap)
        return gap / np.maximum(self.scale, floor)

    def _distribution(self, y):
        z = self._standardised(y)
        return (ndtr(z) if np.isinf(self.dof) else stdtr(self.dof, z)) @ self.weight

    def _density(self, y):
        nu, z = self.dof, self._standardised(y)
        if np.isinf(nu):
            return (np.exp(-0.5 * z**2) / (np.sqrt(2 * np.pi) * self.scale)) @ self.weight
        log_constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        component = np.exp(log_constant - 0.5 * (nu + 1) * np.log1p(z**2 / nu))
        return (component / self.scale) @ self.weight


def inflate(scale_squared, dof):
    """Return the variance scale^2 nu/(nu-2) of Student-t; infinite for nu <= 2, and 0 for a scale of 0."""
    if np.isinf(dof):
        return scale_squared
    if dof > 2:
        return scale_squared * (dof / (dof - 2.0))
    return np.where(scale_squared == 0, 0.0, np.copysign(np.inf, scale_squared))
