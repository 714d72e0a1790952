"""Noise that changes with x, by its definition: dense, with explicit inverses and scipy's minimiser."""

import numpy as np
from scipy.optimize import minimize


def inverse_outside_constant(V, has_constant):
    """Return V^-1 - V^-1 1 1'V^-1/(1'V^-1 1), or V^-1."""
    V_inv = np.linalg.inv(V)
    if not has_constant:
        return V_inv
    one = V_inv.sum(axis=0)
    return V_inv - np.outer(one, one) / one.sum()


class DenseNoise:
    """The most probable log noise over x = (K_l^-1/2 (l - c), c), and Laplace's evidence around it."""

    def __init__(self, K_mu, K_l, y, weight, has_constant=True, resolution=0.0):
        self.K_mu, self.K_l, self.y, self.weight = K_mu, K_l, y, weight
        self.has_constant, self.resolution = has_constant, resolution
        size, vectors = np.linalg.eigh(K_l)
        self.root = vectors * np.sqrt(np.maximum(size, 0.0))
        self.l = self._most_probable()

    def log_p(self, l):
        V = self.K_mu + np.diag(np.exp(2 * l) / self.weight)
        V_inv = np.linalg.inv(V)
        residual, n_free, more = self.y, len(self.y), 0.0
        if self.has_constant:
            residual = self.y - (V_inv @ self.y).sum() / V_inv.sum()
            n_free, more = n_free - 1, np.log(V_inv.sum())
        log_dets = np.linalg.slogdet(V)[1] + more + n_free * np.log(2 * np.pi)
        return -0.5 * (log_dets + residual @ V_inv @ residual + self.resolution * np.exp(-2 * l).sum())

    def first(self, l):
        """Return the gradient by the fixed point of the alternation: r/D - 1."""
        D = np.exp(2 * l) / self.weight
        P = inverse_outside_constant(self.K_mu + np.diag(D), self.has_constant)
        m, v = self.y - D * (P @ self.y), D - D**2 * np.diag(P)
        return ((self.y - m) ** 2 + v) / D - 1.0 + self.resolution * np.exp(-2 * l)

    def _most_probable(self):
        n = len(self.y)

        def negative(x):
            l = self.root @ x[:n] + x[n]
            first = self.first(l)
            gradient = np.append(self.root.T @ first - x[:n], first.sum())
            return 0.5 * x[:n] @ x[:n] - self.log_p(l), -gradient

        found = minimize(negative, np.zeros(n + 1), jac=True, method="BFGS", options={"gtol": 1e-9})
        self.x, self.psi = found.x, -found.fun
        return self.root @ found.x[:n] + found.x[n]

    def log_evidence(self):
        """Return psi - 1/2 log|Hessian over (x, c)| with the expected curvature."""
        D = np.exp(2 * self.l) / self.weight
        P = inverse_outside_constant(self.K_mu + np.diag(D), self.has_constant)
        W = 2 * np.outer(D, D) * P**2 + np.diag(2 * self.resolution * np.exp(-2 * self.l))
        design = np.hstack([self.root, np.ones((len(D), 1))])
        penalty = np.diag(np.append(np.ones(len(D)), 0.0))
        self.posterior = np.linalg.inv(design.T @ W @ design + penalty)
        self.covariance = design @ self.posterior @ design.T
        return self.psi - 0.5 * np.linalg.slogdet(design.T @ W @ design + penalty)[1]


def leave_one_out(K, y, D, has_constant):
    """Return means and variances of observations, each predicted from the other rows with their noise."""
    found = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        V_inv = np.linalg.inv(K[np.ix_(rest, rest)] + np.diag(D[rest]))
        k, constant, more = K[i, rest], 0.0, 0.0
        if has_constant:
            constant = (V_inv @ y[rest]).sum() / V_inv.sum()
            more = (1.0 - (V_inv @ k).sum()) ** 2 / V_inv.sum()
        mean = constant + k @ V_inv @ (y[rest] - constant)
        found.append((mean, K[i, i] - k @ V_inv @ k + more + D[i]))
    return np.array(found).T
