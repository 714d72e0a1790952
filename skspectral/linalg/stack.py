"""Spectra of several small kernel matrices at once."""

import numpy as np

__all__ = ["spectra_of_stack"]


def spectra_of_stack(K, rows, z):
    """Return eigenvalues (k, n) of a stack of kernel matrices, and the energy of a target in each direction.

    Parameters
    ----------
    K : ndarray of shape (k, n, n)
        Kernel matrices on the same rows; overwritten.
    rows : Rows
        Weights and mean functions. Directions of the mean space have eigenvalue 0 and no energy.
    z : ndarray of shape (n,)
        Target, standardised.
    """
    for each in K:
        rows.project(each)
    s, U = np.linalg.eigh(K)
    return np.maximum(s, 0.0), np.square(z @ U)
