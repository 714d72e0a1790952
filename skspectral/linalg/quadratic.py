"""Small symmetric matrices: quadratic forms with an inverse, and inverse roots."""

import numpy as np

__all__ = ["inverse_quadratic", "inverse_root"]

_EPS = np.finfo(np.float64).eps


def inverse_quadratic(covariance, vector):
    """Return v'C^+ v and the rank of C, a symmetric positive semi-definite (q, q) matrix.

    Entries are first divided by the standard deviations, so that units do not decide what is rounding.
    Directions that C leaves no room for are left out, and an infinite C says nothing.
    """
    if not np.isfinite(covariance).all():
        return 0.0, 0
    size = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    size = np.where(size > 0, size, 1.0)
    c, V = np.linalg.eigh(covariance / np.outer(size, size))
    kept = c > 4.0 * len(c) * _EPS * c.max(initial=0.0)
    return float(((V[:, kept].T @ (vector / size)) ** 2 / c[kept]).sum()), int(kept.sum())


def inverse_root(H, smallest, largest):
    """Return columns A with A A' = H^-1, the eigenvalues of H (p, p) limited to a range."""
    h, V = np.linalg.eigh(0.5 * (H + H.T))
    return V / np.sqrt(np.clip(h, smallest, largest))
