"""The evidence (marginal likelihood); restricted (REML) where there is a mean space. The default."""

import numpy as np

from .form import Terms, count_sum, in_blocks, shrinkage

__all__ = [
    "evidence_complexity",
    "evidence_gradient",
    "evidence_hessian",
    "evidence_log_hessian",
    "evidence_sensitivity",
    "evidence_terms",
    "neg_two_log_evidence",
]


def evidence_terms(rotated, x):
    """Return A = sum e v and H = -sum c log v (Smola & Schoelkopf eq. 62, profiled), O(n) per x."""
    v = shrinkage(rotated.s, x)
    u, c = 1.0 - v, rotated.count
    A, A1, A2 = rotated.coordinates.unexplained(x, v)
    H, H1, H2 = -count_sum(np.log(v), c), -count_sum(u, c), count_sum(v * u, c)
    return Terms(rotated.n_free, A, A1, A2, H, H1, H2)


def evidence_sensitivity(rotated, x, b):
    """Return dF/dK = U diag(sum_m 1/(s+g_m)) U' - sum_m a_m a_m' / (g_m b_m), a_m = U v y~_m.

    From dA = -(v y)' dK (v y)/g and dH = tr(v dK)/g; one GEMM whatever the number of outputs.
    """
    U, g = rotated.spectrum.dense_U, np.exp(x)
    v = shrinkage(rotated.spectrum.s, x).T  # (r, m)
    a = U @ (v * rotated.y_tilde / np.sqrt(g) / np.sqrt(b))
    return (U * (v / g).sum(axis=1)) @ U.T - a @ a.T


def evidence_complexity(rotated, x):
    """Return H of `evidence_terms` alone, for which eigenvalues are enough, (k, 1) for x of shape (k, 1)."""
    return -count_sum(np.log(shrinkage(rotated.s, x)), rotated.count)


@in_blocks
def neg_two_log_evidence(rotated, noise_var, signal_var):
    """Return -2 log p(y) = n log 2 pi + sum c log d + sum e / d, d = signal_var s + noise_var.

    Parameters
    ----------
    rotated : Rotated
        Targets in the eigenbasis.
    noise_var, signal_var : ndarray of shape (k,) or float
        Trial values in the units of y squared.

    Returns
    -------
    ndarray of shape (k, m)
    """
    d = _directions(rotated, noise_var, signal_var)
    energy = rotated.energy * rotated.scale**2
    constant = rotated.n_free * np.log(2 * np.pi) - 2.0 * rotated.counts.half_log_weight
    return constant + (np.log(d) @ rotated.count)[:, None] + (1.0 / d) @ energy


@in_blocks
def evidence_gradient(rotated, noise_var, signal_var):
    """Return the derivatives of `neg_two_log_evidence` by (noise_var, signal_var), (k, m, 2).

    sum (c/d - e/d^2) times 1 and s.
    """
    d = _directions(rotated, noise_var, signal_var)
    energy, c, s = rotated.energy * rotated.scale**2, rotated.count, rotated.s

    def moment(weight):
        return ((weight / d) @ c)[:, None] - (weight / d**2) @ energy

    return np.stack([moment(1.0), moment(s)], axis=-1)


@in_blocks
def evidence_hessian(rotated, noise_var, signal_var):
    """Return the second derivatives of `neg_two_log_evidence`, (k, m, 2, 2).

    sum (-c/d^2 + 2 e/d^3) times 1, s and s^2.
    """
    d = _directions(rotated, noise_var, signal_var)
    energy, c, s = rotated.energy * rotated.scale**2, rotated.count, rotated.s

    def moment(weight):
        return 2.0 * (weight / d**3) @ energy - ((weight / d**2) @ c)[:, None]

    noise_noise, noise_signal, signal_signal = moment(1.0), moment(s), moment(s**2)
    return _symmetric_2x2(noise_noise, noise_signal, signal_signal)


def evidence_log_hessian(rotated, noise_var, signal_var):
    """Return the second derivatives of `neg_two_log_evidence` by both logarithms, (m, 2, 2).

    With a = noise_var/d and b = signal_var s/d, the first derivatives are sum (c - e/d) times a and b, and
    the second ones sum (2 e/d - c) times a^2, ab and b^2, plus the first on the diagonal: no power of d,
    which may be as small or large as the units of y.
    """
    d = _directions(rotated, noise_var, signal_var)[0]
    shares = np.stack([noise_var / d, signal_var * rotated.s / d])
    q, c = rotated.energy * (rotated.scale**2 / d[:, None]), rotated.count[:, None]
    first = shares @ (c - q)
    second = np.einsum("ir,jr,rm->mij", shares, shares, 2.0 * q - c)
    return second + np.einsum("im,ij->mij", first, np.eye(2))


def _directions(rotated, noise_var, signal_var):
    """Return d = signal_var s + noise_var, shape (k, r + 1)."""
    noise_var, signal_var = np.atleast_1d(noise_var), np.atleast_1d(signal_var)
    return signal_var[:, None] * rotated.s + noise_var[:, None]


def _symmetric_2x2(first, mixed, second):
    rows = [np.stack([first, mixed], axis=-1), np.stack([mixed, second], axis=-1)]
    return np.stack(rows, axis=-2)
