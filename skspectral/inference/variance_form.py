"""The variance of predictions as a quadratic form, which derivatives by the inputs need."""

from dataclasses import dataclass

import numpy as np

__all__ = ["VarianceForm"]


@dataclass(frozen=True)
class VarianceForm:
    """a prior - cross' diag(b) cross + c leverage + |T' cross|^2 of one output, without noise.

    Attributes
    ----------
    a, c : float
        Signal and noise variance, or what their averages are.
    b : ndarray of shape (r,)
        signal_var / (s + g), or its average.
    T : ndarray of shape (r, k)
        How much coefficients of U'k~ differ between the nodes of an average; k = 0 without one.
    """

    a: float
    b: np.ndarray
    c: float
    T: np.ndarray

    @classmethod
    def of(cls, solution, averaged, j):
        """Return the form of output j of a solution, or of what `averaged` makes of its variances."""
        s = solution.spectrum.s
        if averaged is None:
            signal, g = solution.signal_var[j], solution.noise_ratio[j]
            return cls(signal, signal / (s + g), solution.noise_var[j], np.zeros((len(s), 0)))
        p, rotated = averaged.posteriors[j], solution.rotated
        shrink = 1.0 / (s[:, None] + p.noise_ratio)
        w = p.weight * p.inflation
        T = (shrink - (shrink @ p.weight)[:, None]) * np.sqrt(p.weight)
        T *= rotated.y_tilde[:, [j]] * rotated.scale[j]
        return cls(
            float(w @ p.signal_variance), shrink @ (w * p.signal_variance), float(w @ p.noise_variance), T
        )

    def __call__(self, cross, prior):
        """Return the variance of a function that mean functions are no part of, (n_new,)."""
        kernel_part = np.maximum(self.a * prior - (cross**2).T @ self.b, 0.0)
        return kernel_part + ((self.T.T @ cross) ** 2).sum(axis=0)

    def slopes(self, cross, prior):
        """Return the derivatives by prior (n_new,), cross (r, n_new) and leverage (n_new,).

        Where nothing is left of the variance of the kernel part it stays 0, and so do its derivatives.
        """
        left = self.a * prior - (cross**2).T @ self.b > 0
        by_cross = -2.0 * left * self.b[:, None] * cross + 2.0 * self.T @ (self.T.T @ cross)
        return self.a * left, by_cross, np.full(len(prior), self.c)
