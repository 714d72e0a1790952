"""The evidence of several small kernel matrices at many noise ratios each."""

import numpy as np
from scipy.linalg.lapack import dpttrf, dsytrd

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
    pivots = _pivots(diagonal[:, None, ::-1] + g[:, None], off_diagonal[:, None, ::-1])
    return g * (z @ z) / pivots[..., -1], np.log(pivots / g[:, None]).sum(axis=-1)


def _pivots(diagonal, off_diagonal):
    """Return the pivots of tridiagonal matrices (k, j, n), NaN for those that are not positive definite.

    All of them are blocks of one matrix that do not touch. LAPACK stops at the first pivot that is not
    positive, and is called again for what comes after that block.
    """
    n = diagonal.shape[-1]
    between = np.zeros_like(diagonal)
    between[..., :-1] = off_diagonal
    pivots, between, start = diagonal.ravel(), between.ravel(), 0
    while start < len(pivots):
        last = max(len(pivots) - 1, start + 1)  # LAPACK's interface asks for one entry at least
        pivots[start:], _, info = dpttrf(pivots[start:], between[start:last])
        if not info:
            break
        end = start + n * ((info - 1) // n + 1)
        pivots[end - n : end] = np.nan
        start = end
    return pivots.reshape(diagonal.shape)


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
