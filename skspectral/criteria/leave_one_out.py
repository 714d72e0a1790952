"""Leave-one-out criteria from the full fit: squared error (PRESS) and log predictive density.

With R = U diag(v) U' + N, N the projector on the null directions,

    r_i = (R y)_i / R_ii,     predictive variance of y_i given the others = noise_var / R_ii,

exact, with the mean refitted without row i. The diagonal of R needs the squares of U: O(n^2) per x, one GEMM
for a grid. With weights both are those of W^1/2 y, and of y after division by root(w_i) and w_i.
"""

from dataclasses import dataclass

import numpy as np

from .form import Terms, outer_sum, shrinkage

__all__ = [
    "UNDETERMINED",
    "Residuals",
    "loo_lpd_sensitivity",
    "loo_lpd_terms",
    "loo_residuals",
    "loo_sensitivity",
    "loo_terms",
]

# A row whose own leverage is 1 to this many digits is predicted by no other row.
UNDETERMINED = 1e-13


@dataclass(frozen=True)
class Residuals:
    """N = R y and D = diag R with two derivatives in x, each (rows, k, m) or (rows, k, 1)."""

    N: np.ndarray
    N1: np.ndarray
    N2: np.ndarray
    D: np.ndarray
    D1: np.ndarray
    D2: np.ndarray

    @property
    def r(self):
        """Leave-one-out residuals N/D of the standardised, weighted targets."""
        return self.N / self.D

    @property
    def r1(self):
        """First derivative of r."""
        return (self.N1 - self.r * self.D1) / self.D


def loo_residuals(rotated, x):
    """Return the `Residuals` over the rows that the others determine."""
    spectrum, rows = rotated.spectrum, _determined(rotated)
    U, U_squared = spectrum.dense_U, spectrum.U_squared
    if not rows.all():
        U, U_squared = U[rows], U_squared[rows]
    v = shrinkage(spectrum.s, x)
    u = 1.0 - v
    weights = (v, v * u, v * u * (u - v))
    numerators = [_apply(U, w * rotated.y_tilde.T) for w in weights]
    denominators = [_apply(U_squared, w) for w in weights]
    if spectrum.n_null:
        numerators[0] += rotated.null_residual[rows][:, None, :]
        denominators[0] += spectrum.null_leverage[rows][:, None, :]
    return Residuals(*numerators, *denominators)


def loo_terms(rotated, x):
    """Return the terms of log(PRESS/n), PRESS = sum r_i^2, O(n^2) per x."""
    res = loo_residuals(rotated, x)
    r, r1 = res.r, res.r1
    r2 = (res.N2 - 2.0 * r1 * res.D1 - r * res.D2) / res.D
    zero = np.zeros((len(x), 1))
    n = max(len(r), 1)
    return Terms(
        n=1.0,
        A=(r**2).sum(axis=0) / n,
        A1=2.0 * (r * r1).sum(axis=0) / n,
        A2=2.0 * (r1**2 + r * r2).sum(axis=0) / n,
        H=zero,
        H1=zero,
        H2=zero,
    )


def loo_lpd_terms(rotated, x):
    """Return A = sum r_i^2 D_i and H = -sum log D_i over the rows, O(n^2) per x."""
    res = loo_residuals(rotated, x)
    r, r1, D, D1 = res.r, res.r1, res.D, res.D1
    A1 = 2.0 * r * res.N1 - r**2 * D1
    A2 = 2.0 * (r1 * res.N1 + r * res.N2 - r * r1 * D1) - r**2 * res.D2
    log_slope = D1 / D
    return Terms(
        n=len(r),
        A=(r * res.N).sum(axis=0),
        A1=A1.sum(axis=0),
        A2=A2.sum(axis=0),
        H=-np.log(D).sum(axis=0),
        H1=-log_slope.sum(axis=0),
        H2=(log_slope**2 - res.D2 / D).sum(axis=0),
    )


def loo_sensitivity(rotated, x, b):
    """Return dF/dK of log(PRESS/n): dA = sum_i a_i (dN_i - r_i dD_i), a_i = 2 r_i / (n D_i)."""
    res = loo_residuals(rotated, x[None])
    a = 2.0 * res.r / (res.D * max(len(res.r), 1) * b)
    return _pull_back(rotated, x, res, a, a * res.r)


def loo_lpd_sensitivity(rotated, x, b):
    """Return dF/dK: dA = sum_i (2 r_i dN_i - r_i^2 dD_i) and dH = -sum_i dD_i / D_i."""
    res = loo_residuals(rotated, x[None])
    return _pull_back(rotated, x, res, 2.0 * res.r / b, res.r**2 / b + 1.0 / res.D)


def _pull_back(rotated, x, res, a, d):
    """Return dF/dK for dF = sum_i a_i dN_i - d_i dD_i, with dN = -R dK N/g and dR = -R dK R/g.

    O(n^3) for each output: R diag(d) R is dense.
    """
    spectrum, g = rotated.spectrum, np.exp(x)
    rows = _determined(rotated)
    G = np.zeros((len(spectrum.dense_U), len(spectrum.dense_U)))
    for m in range(rotated.n_outputs):
        R = (spectrum.dense_U * shrinkage(spectrum.s, x[[m]])[0]) @ spectrum.dense_U[rows].T
        G += (R * (d[:, 0, m] / g[m])) @ R.T
        N = spectrum.dense_U @ (shrinkage(spectrum.s, x[[m]])[0] * rotated.y_tilde[:, m])
        G -= outer_sum((R @ a[:, 0, m] / g[m])[:, None], N[:, None])
    return G


def _determined(rotated):
    """Return which rows the others determine; absent rows are not among them."""
    return rotated.spectrum.freedom[:, 0] > UNDETERMINED


def _apply(U, weights):
    """Return U @ weights over the last axis: (k, m, r) -> (rows, k, m)."""
    k, m, r = weights.shape
    return (U @ weights.reshape(k * m, r).T).reshape(len(U), k, m)
