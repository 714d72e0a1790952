"""Uncertainty of least squares coefficients."""

import numpy as np
from scipy.linalg import svd

__all__ = ["inverse_root"]

_EPS = np.finfo(np.float64).eps


def inverse_root(Phi):
    """Return A with AA' = (Phi'Phi)^-1, directions of rounding left out."""
    _, size, Vt = svd(Phi, full_matrices=False, check_finite=False)
    kept = size > max(Phi.shape) * _EPS * size.max(initial=0.0)
    return Vt[kept].T / size[kept]
