"""The criterion of Schirru et al.: y under the posterior predictive at the training points.

The paper scores y under N(mu_y, Sigma_y) with mu_y = K(K+gI)^-1 y, which uses y twice. Its
Propositions 2.1 to 2.3 are exact identities and are reproduced here in a form without their
cancellation: with a = signal_var s and b = noise_var,

    L = n log b + sum log[(2a+b)/(a+b)] + sum y~^2 b / ((a+b)(2a+b)).

Caveat: for a kernel matrix of full rank L falls like 2 n log g as g -> 0 whatever the data, so it
has no global minimum. It is offered for comparison; prefer the evidence.
"""

import numpy as np

from ..linalg.coordinates import energy_sum
from .evidence import _symmetric_2x2
from .form import Terms, count_sum, in_blocks, outer_sum, shrinkage

__all__ = [
    "posterior_gradient",
    "posterior_hessian",
    "posterior_score",
    "posterior_sensitivity",
    "posterior_terms",
]


def posterior_terms(rotated, x):
    """Return A = sum e v p and H = sum c (log v - log p): Proposition 2.1 profiled, O(n) per x."""
    v, p = shrinkage(rotated.s, x), shrinkage(rotated.s, x, factor=2.0)
    u, r = 1.0 - v, 1.0 - p
    vp, vu, pr = v * p, v * u, p * r
    slope = u + r  # d log(vp) / dx
    e, c = rotated.energy, rotated.count
    return Terms(
        n=rotated.n_free,
        A=energy_sum(vp, e),
        A1=energy_sum(vp * slope, e),
        A2=energy_sum(vp * (slope**2 - vu - pr), e),
        H=count_sum(np.log(v / p), c),
        H1=count_sum(u - r, c),
        H2=count_sum(pr - vu, c),
    )


def posterior_sensitivity(rotated, x, b):
    """Return dF/dK from dA = -[(v y)' dK (vp y) + 2 (vp y)' dK (p y)]/g, dH = tr((2p - v) dK)/g."""
    U, g = rotated.spectrum.dense_U, np.exp(x)
    v, p = (shrinkage(rotated.spectrum.s, x, factor).T for factor in (1.0, 2.0))
    y = rotated.y_tilde
    once, both, twice = U @ (v * y), U @ (v * p * y / g / b), U @ (2.0 * p * y)
    return (U * ((2.0 * p - v) / g).sum(axis=1)) @ U.T - outer_sum(both, once + twice)


@in_blocks
def posterior_score(rotated, noise_var, signal_var):
    """Return L of eq. 15-19 (Proposition 2.1, without its additive constant), (k, m).

    With v = b/(a+b) and w = 2 - v it is n log b + sum log w + sum y~^2 v^2 / (b w): two temporaries.

    Parameters
    ----------
    rotated : Rotated
        Targets in the eigenbasis.
    noise_var, signal_var : ndarray of shape (k,) or float
        Trial values in the units of y squared.
    """
    b = noise_var[:, None]
    v = b / (signal_var[:, None] * rotated.s + b)
    w = 2.0 - v  # d2/d1, between 1 and 2
    complexity = rotated.n_free * np.log(b) + (np.log(w) @ rotated.count)[:, None]
    v *= v
    v /= w
    return complexity + (v @ rotated.energy) * rotated.scale**2 / b


@in_blocks
def posterior_gradient(rotated, noise_var, signal_var):
    """Return the derivatives of `posterior_score` by (noise_var, signal_var): Prop. 2.2, (k, m, 2)."""
    b, a, d1, d2 = _denominators(rotated, noise_var, signal_var)
    energy, c, s = rotated.energy * rotated.scale**2, rotated.count, rotated.s
    product = d1 * d2
    by_noise = rotated.n_free / b - ((a / product) @ c)[:, None] + (1 / d1**2 - 2 / d2**2) @ energy
    fit = s * b * (4 * a + 3 * b) / product**2  # s (4/d2^2 - 1/d1^2) without its cancellation
    by_signal = ((s * b / product) @ c)[:, None] - fit @ energy
    return np.stack([by_noise, by_signal], axis=-1)


@in_blocks
def posterior_hessian(rotated, noise_var, signal_var):
    """Return the second derivatives of `posterior_score`: Proposition 2.3, (k, m, 2, 2)."""
    b, a, d1, d2 = _denominators(rotated, noise_var, signal_var)
    energy, c, s = rotated.energy * rotated.scale**2, rotated.count, rotated.s
    product = d1 * d2
    curvature = (a * (3 * a + 2 * b) / product**2) @ c
    noise_noise = (curvature - rotated.n_free / b[:, 0] ** 2)[:, None]
    noise_noise = noise_noise + (4 / d2**3 - 2 / d1**3) @ energy
    mixed = ((s * (1 / d1**2 - 2 / d2**2)) @ c)[:, None]
    mixed = mixed + (s * (8 / d2**3 - 2 / d1**3)) @ energy
    signal_signal = -((s**2 * b * (4 * a + 3 * b) / product**2) @ c)[:, None]
    fit = 2 * s**2 * b * (4 * d1**2 + 2 * product + d2**2) / product**3
    signal_signal = signal_signal + fit @ energy
    return _symmetric_2x2(noise_noise, mixed, signal_signal)


def _denominators(rotated, noise_var, signal_var):
    """Return b (k, 1), a = signal_var s, d1 = a + b and d2 = 2a + b, each (k, r + 1)."""
    b = np.atleast_1d(noise_var)[:, None]
    a = np.atleast_1d(signal_var)[:, None] * rotated.s
    return b, a, a + b, 2 * a + b
