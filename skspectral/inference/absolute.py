"""Least absolute deviations with an l1 penalty: a linear program."""

import numpy as np
from scipy.optimize import linprog

__all__ = ["least_absolute"]


def least_absolute(Phi, y, penalty, basis):
    """Return coefficients (k,) and mean coefficients (q,) that minimise absolute deviations.

    The minimum of sum_i |y_i - (Phi theta + basis beta)_i| + penalty sum_j |theta_j|: with theta and
    the deviations split into positive and negative parts a linear program (eq. 109 of Smola & Schoelkopf),
    solved by scipy's HiGHS.
    """
    n, k = Phi.shape
    q = basis.shape[1]
    cost = np.concatenate([np.full(2 * k, penalty), np.zeros(q), np.ones(2 * n)])
    A = np.hstack([Phi, -Phi, basis, np.eye(n), -np.eye(n)])
    bounds = [(0, None)] * (2 * k) + [(None, None)] * q + [(0, None)] * (2 * n)
    result = linprog(cost, A_eq=A, b_eq=y, bounds=bounds, method="highs")
    if result.x is None:
        raise ValueError(f"The linear program has no solution: {result.message} Scale the targets.")
    return result.x[:k] - result.x[k : 2 * k], result.x[2 * k : 2 * k + q]
