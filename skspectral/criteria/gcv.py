"""Generalised cross-validation."""

import numpy as np

from ..linalg.coordinates import energy_sum
from .form import Terms, count_sum, outer_sum, shrinkage

__all__ = ["gcv_sensitivity", "gcv_terms"]


def gcv_terms(rotated, x):
    """Return the terms of log GCV, GCV = n sum e v^2 / (sum c v)^2, O(n) per x.

    The mean space counts as fitted degrees of freedom: sum c v runs over the n-q other directions,
    while n is the number of rows.
    """
    v = shrinkage(rotated.s, x)
    u = 1.0 - v
    v2, vu = v**2, v * u
    n, e, c = rotated.counts.n_rows, rotated.energy, rotated.count
    T, T1, T2 = count_sum(v, c), count_sum(vu, c), count_sum(vu * (u - v), c)
    T = np.maximum(T, np.finfo(np.float64).tiny)  # 0 only where no direction is left at all
    return Terms(
        n=1.0,
        A=n * energy_sum(v2, e),
        A1=2.0 * n * energy_sum(v2 * u, e),
        A2=2.0 * n * energy_sum(v2 * u * (2.0 * u - v), e),
        H=-2.0 * np.log(T),
        H1=-2.0 * T1 / T,
        H2=-2.0 * (T2 / T - (T1 / T) ** 2),
    )


def gcv_sensitivity(rotated, x, b):
    """Return dF/dK from dA = -2n (v y)' dK (v^2 y)/g and dH = 2 tr(v^2 dK)/(g T), T = sum c v."""
    U, g = rotated.spectrum.dense_U, np.exp(x)
    T = count_sum(shrinkage(rotated.s, x), rotated.count)
    v = shrinkage(rotated.spectrum.s, x).T
    once = U @ (v * rotated.y_tilde)
    twice = U @ (v**2 * rotated.y_tilde * (2.0 * rotated.counts.n_rows / g / b))
    return (U * (2.0 * v**2 / (g * T)).sum(axis=1)) @ U.T - outer_sum(once, twice)
