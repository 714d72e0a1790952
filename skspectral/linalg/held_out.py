"""Predictions of blocks of rows from all the others, exactly, from one decomposition of all rows."""

import numpy as np
from scipy.linalg.lapack import dposv

__all__ = ["held_out_means"]


def held_out_means(rotated, noise_ratios, block):
    """Return what fits without the rows of a block predict for them, (k, b, m).

    With R = U diag(g/(s+g)) U' and the null directions added, the residuals of a block I that is left out
    are R_II^-1 (R y)_I. O(b^2 r + b^3) for each noise ratio.

    Parameters
    ----------
    rotated : RotatedRows
        Targets of all rows, all of them present.
    noise_ratios : ndarray of shape (k,)
        Penalties, the same for all outputs.
    block : ndarray of shape (b,)
        Indices of the rows to leave out.
    """
    spectrum = rotated.spectrum
    U, Q = spectrum.dense_U[block], spectrum.rows.Q[block]
    null, null_y = np.zeros((1, 1)), np.zeros((1, 1))
    if spectrum.n_null:
        null, null_y = np.eye(len(block)) - U @ U.T - Q @ Q.T, rotated.null_residual[block]
    means = np.empty((len(noise_ratios), len(block), rotated.n_outputs))
    for i, g in enumerate(noise_ratios):
        v = g / (spectrum.s + g)
        half = U * np.sqrt(v)
        Ry = U @ (v[:, None] * rotated.y_tilde) + null_y
        means[i] = dposv((half @ half.T + null).T, Ry, lower=True)[1]
    root = spectrum.rows.sqrt_weight[block]
    return rotated.targets()[block] - means * rotated.scale / root
