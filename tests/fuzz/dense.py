"""The evidence by a dense factorisation, from its definition."""

import numpy as np
from scipy.linalg import cholesky, null_space, solve_triangular

__all__ = ["log_evidence"]


def log_evidence(K, y, noise_ratio, noise_var, weight, fit_intercept):
    """Return the log (restricted) evidence of one output and how far rounding may move it.

    With C = I + W^1/2 K W^1/2 / noise_ratio and A an orthonormal basis outside the mean,

        -2 log p = (n - q) log(2 pi noise_var) + log|A'CA| + y'A (A'CA)^-1 A'y / noise_var - sum log w.
    """
    weight = np.ones(len(y)) if weight is None else weight
    present = weight > 0
    K, y, root = K[np.ix_(present, present)], y[present], np.sqrt(weight[present])
    A = null_space(root[None]) if fit_intercept else np.eye(len(y))
    whole = np.eye(len(y)) + root[:, None] * (K / noise_ratio) * root
    C = A.T @ whole @ A
    z = A.T @ (root * y / np.sqrt(noise_var))
    if not len(z):
        return np.log(root).sum(), 0.0
    C = 0.5 * (C + C.T)
    negative = max(1.0 - np.linalg.eigvalsh(C)[0], 0.0)  # which the package takes for rounding
    # a factor need not notice that a kernel is indefinite; rounding need not leave it singular
    if negative >= 1.0 - len(z) * np.finfo(np.float64).eps * np.linalg.norm(C):
        return 0.0, np.inf
    L = cholesky(C, lower=True)
    fit = (solve_triangular(L, z, lower=True) ** 2).sum()
    log_det = 2.0 * np.log(np.diag(L)).sum()
    value = len(z) * np.log(2.0 * np.pi) + len(z) * np.log(noise_var) + log_det + fit
    rounding = np.finfo(np.float64).eps * len(z) * np.linalg.norm(whole) * (len(z) + fit)
    rounding += negative * (len(z) + fit)
    # what centring an offset leaves of y
    rounding += 8 * np.finfo(np.float64).eps * np.abs(z).max() * np.abs(root * y).max() / np.sqrt(noise_var)
    return -0.5 * value + np.log(root).sum(), 30.0 * rounding + 1e-9 * (len(z) + abs(value))
