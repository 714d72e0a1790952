"""The referee of several outputs: the Kronecker system, entry by entry. Imports nothing of the package."""

import numpy as np


class Dense:
    """vec(Y) ~ N(F beta, Vg x K + Ve x W^-1) on the entries of Y that are not NaN.

    Entries are ordered by output, then by row. F holds mean functions of each output, or None.
    """

    def __init__(self, K, Y, Vg, Ve, F=None, weight=None):
        n, m = Y.shape
        self.K, self.Vg, self.Ve, self.F = K, Vg, Ve, F
        self.weight = np.ones(n) if weight is None else weight
        self.seen = ~np.isnan(Y.T.ravel())
        self.y = Y.T.ravel()[self.seen]
        C = np.kron(Vg, K) + np.kron(Ve, np.diag(1 / self.weight))
        self.C = C[np.ix_(self.seen, self.seen)]
        self.C_inv = np.linalg.inv(self.C)
        self.m, self.n = m, n
        self.FF = np.zeros((len(self.y), 0)) if F is None else np.kron(np.eye(m), F)[self.seen]
        self.G = self.FF.T @ self.C_inv @ self.FF

    def log_evidence(self):
        """The restricted log likelihood plus 1/2 log|F'WF| of the observed rows of each output."""
        w = np.tile(self.weight, self.m)[self.seen]
        P = self.C_inv - self.C_inv @ self.FF @ np.linalg.solve(self.G, self.FF.T @ self.C_inv)
        value = np.linalg.slogdet(self.C)[1] + np.linalg.slogdet(self.G)[1] + self.y @ P @ self.y
        value += (len(self.y) - self.FF.shape[1]) * np.log(2 * np.pi)
        return -0.5 * value + 0.5 * np.linalg.slogdet(self.FF.T @ (w[:, None] * self.FF))[1]

    def predict(self, k_new, prior, F_new=None):
        """Means (m,) and covariance (m, m) of the latent functions at one new point."""
        c = np.kron(self.Vg, k_new[:, None])[self.seen]
        C_inv_c = self.C_inv @ c
        beta = np.linalg.solve(self.G, self.FF.T @ self.C_inv @ self.y)
        f = np.zeros((0, self.m)) if F_new is None else np.kron(np.eye(self.m), F_new[:, None])
        mean = C_inv_c.T @ (self.y - self.FF @ beta) + f.T @ beta
        gap = f - self.FF.T @ C_inv_c
        return mean, prior * self.Vg - c.T @ C_inv_c + gap.T @ np.linalg.solve(self.G, gap)


def leave_one_out(K, Y, Vg, Ve, F, weight):
    """Mean and observation variance of each row from a model of all the others, by refitting."""
    n, m = Y.shape
    mean, variance = np.empty((n, m)), np.empty((n, m))
    for i in range(n):
        o = np.arange(n) != i
        F_o, F_i = (None, None) if F is None else (F[o], F[i])
        model = Dense(K[np.ix_(o, o)], Y[o], Vg, Ve, F_o, weight[o])
        mean[i], latent = model.predict(K[i, o], K[i, i], F_i)
        variance[i] = np.diag(latent + Ve / weight[i])
    return mean, variance
