"""Laplace's approximation by its definition: a dense Newton method on all latent values and constants."""

import numpy as np


def basis_of_classes(n_classes):
    """Return an orthonormal basis of the vectors that sum to 0; one function for n_classes=None."""
    if n_classes is None:
        return np.ones((1, 1))
    return np.linalg.svd(np.eye(n_classes) - 1.0 / n_classes)[0][:, : n_classes - 1]


def slopes(likelihood, y, F, weight):
    """Return first derivatives (n, m) and curvatures (n, m, m) by the latent values."""
    d = likelihood.derivatives(y, F if likelihood.is_joint else F[:, 0])
    first, W = (
        (d.first, d.curvature()) if likelihood.is_joint else (d.first[:, None], d.curvature[:, None, None])
    )
    return weight[:, None] * first, weight[:, None, None] * W


class DenseLaplace:
    """The mode over x = (G, c), latent values F = G H' + 1 (H c)', each column of G with prior N(0, K)."""

    def __init__(self, K, likelihood, y, weight, has_constant, n_classes=None, start=None):
        self.K, self.K_inv, self.likelihood, self.y, self.weight = K, np.linalg.inv(K), likelihood, y, weight
        self.H, self.n = basis_of_classes(n_classes), len(y)
        self.k = self.H.shape[1]
        eye = np.kron(np.eye(self.n), self.H)  # G row by row -> F row by row
        constant = np.kron(np.ones((self.n, 1)), self.H)
        self.design = np.hstack([eye, constant]) if has_constant else eye
        self.penalty = np.zeros((self.design.shape[1],) * 2)
        self.penalty[: self.n * self.k, : self.n * self.k] = np.kron(self.K_inv, np.eye(self.k))
        self.x = self._newton(np.zeros(self.design.shape[1]) if start is None else start)

    def latent(self, x):
        return (self.design @ x).reshape(self.n, -1)

    def psi(self, x):
        F = self.latent(x)
        log_p = self.likelihood.log_density(self.y, F if self.likelihood.is_joint else F[:, 0])
        return self.weight @ log_p - 0.5 * x @ self.penalty @ x

    def hessian(self, x):
        _, W = slopes(self.likelihood, self.y, self.latent(x), self.weight)
        m = W.shape[1]
        blocks = np.zeros((self.n * m, self.n * m))
        for i in range(self.n):
            blocks[i * m : (i + 1) * m, i * m : (i + 1) * m] = W[i]
        return self.design.T @ blocks @ self.design + self.penalty

    def _newton(self, x):
        for _ in range(200):
            first, _ = slopes(self.likelihood, self.y, self.latent(x), self.weight)
            gradient = self.design.T @ first.ravel() - self.penalty @ x
            size, vectors = np.linalg.eigh(self.hessian(x))
            step = vectors @ (vectors.T @ gradient / np.maximum(np.abs(size), 1e-8))
            t = 1.0
            while self.psi(x + t * step) < self.psi(x) - 1e-10 and t > 1e-10:
                t *= 0.5
            x = x + t * step
            if np.abs(step).max() < 1e-13:
                break
        return x

    @property
    def F(self):
        return self.latent(self.x)

    @property
    def log_evidence(self):
        log_det_K = self.k * np.linalg.slogdet(self.K)[1]
        return self.psi(self.x) - 0.5 * log_det_K - 0.5 * np.linalg.slogdet(self.hessian(self.x))[1]

    def predict(self, cross, diagonal):
        """Return latent means (n_new, m) and, for one latent function, variances (n_new,)."""
        weights = cross @ self.K_inv
        rows = np.kron(weights, self.H)
        if self.design.shape[1] > self.n * self.k:
            rows = np.hstack([rows, np.kron(np.ones((len(cross), 1)), self.H)])
        covariance = rows @ np.linalg.inv(self.hessian(self.x)) @ rows.T
        left = diagonal - np.einsum("ij,ij->i", weights, cross)
        return (rows @ self.x).reshape(len(cross), -1), left + np.diag(covariance) if self.k == 1 else None
