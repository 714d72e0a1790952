"""The evidence of several small kernel matrices at many noise ratios each."""

import numpy as np
from scipy.linalg.lapack import dsytrd

__all__ = ["evidence_terms_of_stack"]


def evidence_terms_of_stack(K, rows, z, noise_ratios):
    """Return A and H of the evidence (see `criteria`) of a stack of kernel matrices, both (k, j).

    A tridiagonal T whose first direction is z says it all, a third of a spectrum's cost: with the pivots p of
    T + gI, eliminated from the last row to the first,

        A = g z'(PKP + gI)^-1 z = g z'z / p_1   and   H = log|PKP + gI| - n log g = sum_i log(p_i / g) .

    NaN where PKP + gI has a negative pivot.

    Parameters
    ----------
    K : ndarray of shape (k, n, n)
        Kernel matrices on the same rows; overwritten.
    rows : Rows
        Weights and mean functions; all rows are present.
    z : ndarray of shape (n,)
        Target, standardised.
    noise_ratios : ndarray of shape (j,)
        g.
    """
    unit = K.max() or 1.0  # squares of what is smaller than 1 are numbers
    K, g = K / unit, noise_ratios / unit
    for each in K:
        rows.project(each)
    diagonal, off_diagonal = _tridiagonal(K, z)
    pivots = diagonal.T[:, :, None] + g
    squares, rows_of_pivots = list(np.square(off_diagonal).T[:, :, None]), list(pivots)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of matrices that are not definite
        for i in range(len(z) - 2, -1, -1):
            rows_of_pivots[i] -= squares[i] / rows_of_pivots[i + 1]
        return g * (z @ z) / pivots[0], np.log(pivots / g).sum(axis=0)


def _tridiagonal(K, z):
    """Return diagonals (k, n) and off-diagonals (k, n - 1) of a stack of matrices, with z as first direction.

    A reflector I - vv' takes z to the first axis, and LAPACK's reduction leaves that axis where it is.
    """
    v = z.copy()
    v[0] += np.copysign(np.sqrt(z @ z), z[0])
    v *= np.sqrt(2.0 / (v @ v))
    Kv = K @ v
    outer = (Kv - 0.5 * (Kv @ v)[:, None] * v)[:, :, None] * v
    K = K - outer - outer.transpose(0, 2, 1)
    reduced = [dsytrd(each.T, lower=True, overwrite_a=True) for each in K]
    return tuple(np.array([parts[i] for parts in reduced]) for i in (1, 2))
