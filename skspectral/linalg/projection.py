"""Geometry of new points that are given by their features."""

import numpy as np

__all__ = ["project_features"]


def project_features(loadings, QPhi, R_inv, features, prior, basis=None):
    """Return rotated cross-covariances, prior variances and mean leverage of new points, O(r^2) each.

    Parameters
    ----------
    loadings : ndarray of shape (r, features)
        U'Phi.
    QPhi : ndarray of shape (q, features)
        Q'Phi, Q the orthonormal mean functions.
    R_inv : ndarray of shape (functions, q)
        F R_inv = Q.
    features : ndarray of shape (n_new, features)
        Features of the new points.
    prior : ndarray of shape (n_new,) or (n_new, n_new)
        Kernel variance of the new points, or their kernel matrix for joint results.
    basis : ndarray of shape (n_new, functions), default=None
        Mean functions at the new points; required with a mean space.

    Notes
    -----
    With k* = Phi phi* everything happens in feature space: with z = R^-T f* and psi = phi* - Phi'Qz,

        U'k~ = (U'Phi) psi,    k** - 2 h k* + h K h' = k** - |phi*|^2 + |psi|^2,    h h' = |z|^2.

    What the features miss of k** stays in: far from the data the prior variance is restored.
    """
    psi, leverage = features.T, np.zeros_like(prior)
    if len(QPhi):
        z = R_inv.T @ basis.T
        psi = psi - QPhi.T @ z
        joint = np.ndim(prior) == 2
        leverage = _inner(z, joint)
        prior = prior - _inner(features.T, joint) + _inner(psi, joint)
    return loadings @ psi, prior, leverage


def _inner(columns, joint):
    """Return the inner products of all columns, or only of each with itself."""
    return columns.T @ columns if joint else (columns**2).sum(axis=0)
