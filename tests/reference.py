"""The referee: naive dense definitions, O(n^3) and obviously right. Imports nothing of the package."""

import numpy as np
from scipy.stats import multivariate_normal


def log_evidence(K, y, noise_var, signal_var, weight=None):
    """log N(y; 0, signal_var K + noise_var W^-1)."""
    return multivariate_normal(np.zeros(len(y)), covariance(K, noise_var, signal_var, weight)).logpdf(y)


def covariance(K, noise_var, signal_var, weight=None):
    weight = np.ones(len(K)) if weight is None else weight
    return signal_var * K + np.diag(noise_var / weight)


def reml(K, y, F, noise_var, signal_var, weight=None):
    """Textbook restricted log likelihood plus 1/2 log|F'WF| (so that it does not depend on F's scale)."""
    n, q = F.shape
    weight = np.ones(n) if weight is None else weight
    C = covariance(K, noise_var, signal_var, weight)
    C_inv = np.linalg.inv(C)
    G = F.T @ C_inv @ F
    P = C_inv - C_inv @ F @ np.linalg.solve(G, F.T @ C_inv)
    value = (n - q) * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + np.linalg.slogdet(G)[1] + y @ P @ y
    return -0.5 * value + 0.5 * np.linalg.slogdet(F.T @ (weight[:, None] * F))[1]


def posterior_predictive(K, y, noise_var, signal_var):
    """Eq. 15 of Schirru et al. from its definition: -2 log N(y; mu_y, Sigma_y) without the constant."""
    n = len(y)
    smoother = K @ np.linalg.inv(K + noise_var / signal_var * np.eye(n))
    mu, Sigma = smoother @ y, noise_var * (smoother + np.eye(n))
    r = y - mu
    return np.linalg.slogdet(Sigma)[1] + r @ np.linalg.solve(Sigma, r)


def posterior_printed(s, y_tilde, noise_var, signal_var):
    """Eq. 19 of Schirru et al. as printed, with gradient (20-25) and Hessian (26-35)."""
    n, e, b, l = len(s), y_tilde**2, noise_var, signal_var
    p, q = b + l * s, b + 2 * l * s
    d = q / p
    g = (d**2 + 4) / (b * d)
    value = n * np.log(b) + np.sum(np.log(d) + e * g) - 4 * e.sum() / b
    dlog_b, dlog_l = 1 / q - 1 / p, s * b / (p * q)
    dg_b = -4 / b**2 - (b**4 - 2 * l**2 * s**2 * b**2) / (b**2 * p**2 * q**2)
    dg_l = s / p**2 - 4 * s / q**2
    gradient = np.array([n / b + 4 * e.sum() / b**2 + np.sum(dlog_b + e * dg_b), np.sum(dlog_l + e * dg_l)])
    ll = np.sum(s**2 / p**2 - 4 * s**2 / q**2 + e * (16 * s**2 / q**3 - 2 * s**2 / p**3))
    lb = np.sum(s / p**2 - 2 * s / q**2 + e * (8 * s / q**3 - 2 * s / p**3))
    g_bb = 8 / b**3 - (12 * l**3 * s**3 * b**3 + 12 * l**2 * s**2 * b**4 - 2 * b**6) / (b**3 * p**3 * q**3)
    bb = -n / b**2 - 8 * e.sum() / b**3 + np.sum(1 / p**2 - 1 / q**2 + e * g_bb)
    return value, gradient, np.array([[bb, lb], [lb, ll]])


def ridge(K, y, alpha, K_new, F=None, F_new=None, weight=None):
    """Predictions of the penalised least squares problem with unpenalised mean functions."""
    n = len(K)
    weight = np.ones(n) if weight is None else weight
    C = K + alpha * np.diag(1 / weight)
    if F is None:
        return K_new @ np.linalg.solve(C, y)
    beta = np.linalg.solve(F.T @ np.linalg.solve(C, F), F.T @ np.linalg.solve(C, y))
    return K_new @ np.linalg.solve(C, y - F @ beta) + F_new @ beta


def kriging_variance(K, K_new, prior_new, noise_var, signal_var, F=None, F_new=None, weight=None):
    """Variance of the latent function at new points; universal kriging with mean functions."""
    C = covariance(K, noise_var, signal_var, weight)
    c = signal_var * K_new.T
    variance = signal_var * prior_new - c.T @ np.linalg.solve(C, c)
    if F is not None:
        gap = F_new.T - F.T @ np.linalg.solve(C, c)
        variance = variance + gap.T @ np.linalg.solve(F.T @ np.linalg.solve(C, F), gap)
    return variance


def leave_one_out(K, y, noise_var, signal_var, F=None, weight=None):
    """Mean and observation variance of each row from a model of all the others, by refitting."""
    n = len(K)
    weight = np.ones(n) if weight is None else weight
    mean, variance = np.empty(n), np.empty(n)
    for i in range(n):
        o = np.arange(n) != i
        F_o, F_i = (None, None) if F is None else (F[o], F[[i]])
        args = (K[np.ix_(o, o)], K[[i]][:, o])
        mean[i] = ridge(args[0], y[o], noise_var / signal_var, args[1], F_o, F_i, weight[o])[0]
        latent = kriging_variance(*args, K[[i]][:, [i]], noise_var, signal_var, F_o, F_i, weight[o])
        variance[i] = latent[0, 0] + noise_var / weight[i]
    return mean, variance


def gcv(K, y, alpha, F=None):
    """n ||(I-H)y||^2 / tr(I-H)^2 with the smoother H built column by column."""
    n = len(y)
    H = np.column_stack([ridge(K, unit, alpha, K, F, F) for unit in np.eye(n)])
    return n * np.sum((y - H @ y) ** 2) / np.trace(np.eye(n) - H) ** 2


def effective_dof(K, alpha, F=None):
    n = len(K)
    return np.trace(np.column_stack([ridge(K, unit, alpha, K, F, F) for unit in np.eye(n)]))


def dual_covariance(K, noise_var, signal_var):
    """Eq. 36 of Schirru et al.: noise_var (K + gI)^-1 K^-1."""
    n = len(K)
    return noise_var * np.linalg.inv(K + noise_var / signal_var * np.eye(n)) @ np.linalg.inv(K)


def rbf(X, Z=None, length=1.0):
    Z = X if Z is None else Z
    return np.exp(-0.5 * ((X[:, None] - Z[None]) ** 2).sum(-1) / length**2)


def matern12(X, Z=None, length=1.0):
    Z = X if Z is None else Z
    return np.exp(-np.sqrt(((X[:, None] - Z[None]) ** 2).sum(-1)) / length)
