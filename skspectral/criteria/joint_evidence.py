"""The evidence of correlated outputs, in the basis where they are independent and have unit noise.

With independent outputs k of signal variance delta_k, w_ik = 1/(delta_k s_i + 1), rotated targets y~ in that
basis and Z = w y~,

    -2 log p = n_free (k log 2 pi + log|Ve|) + sum c_i log(delta_k s_i + 1) + sum w_ik y~_ik^2.

A change of the covariances, G of diag(delta) and E of the identity, changes it by tr(Mg G) + tr(Me E),

    Mg = diag(sum_i c_i s_i w_ik) - (s Z)'Z,    Me = diag(sum_i c_i w_ik) - Z'Z,

and to second order by half of 2 D - I, D what the data show and I = sum tr(P dV P dV) what they are expected
to (Fisher's information). Symmetric matrices count by their entries on and above the diagonal, `pairs`.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

__all__ = ["JointEvidence", "between", "diagonal_pairs", "from_pairs", "pair_products", "pairs", "to_pairs"]


@dataclass(frozen=True)
class JointEvidence:
    """-2 log evidence, without constants, at given covariances.

    Attributes
    ----------
    s, count : ndarray of shape (r,)
        Eigenvalues and their multiplicities.
    Y : ndarray of shape (r, k)
        Rotated targets in the basis of independent outputs.
    signal : ndarray of shape (k,)
        Signal variances; those of the noise are 1.
    log_det_noise : float
        log |Ve|.
    """

    s: np.ndarray
    count: np.ndarray
    Y: np.ndarray
    signal: np.ndarray
    log_det_noise: float

    @cached_property
    def value(self):
        """-2 log evidence less n_free k log 2 pi."""
        log_det = self.count @ np.log1p(np.outer(self.s, self.signal))
        return float(self.count.sum() * self.log_det_noise + log_det.sum() + (self._Z * self.Y).sum())

    @cached_property
    def _w(self):
        return 1.0 / (1.0 + np.outer(self.s, self.signal))

    @cached_property
    def _Z(self):
        return self._w * self.Y

    def slopes(self):
        """Return Mg and Me, (k, k) each."""
        s, c, w, Z = self.s, self.count, self._w, self._Z
        signal = np.diag((c * s) @ w) - (s[:, None] * Z).T @ Z
        return signal, np.diag(c @ w) - Z.T @ Z

    def expected(self):
        """Return I over pairs of G, then of E: not 0 only for the same pair."""
        J, K = pairs(len(self.signal))
        weight = np.where(J == K, 1.0, 2.0)
        blocks = [
            np.diag(weight * ((self.count * self.s**power) @ (self._w[:, J] * self._w[:, K])))
            for power in (2, 1, 0)
        ]
        return _blocks(*blocks)

    def shown(self):
        """Return D over pairs of G, then of E, O(r k^3)."""
        return _blocks(*(pair_products(self._moments(power)) for power in (2, 1, 0)))

    def _moments(self, power):
        """Return sum_i s_i^power w_ij Z_ik Z_ih, (k, k, k)."""
        weights = (self.s**power)[:, None] * self._w
        return np.stack([(self._Z * column[:, None]).T @ self._Z for column in weights.T])


def between(shown, expected):
    """Yield second derivatives from D and I: the exact 2 D - I, then less and less that may be negative."""
    yield from (2.0 * shown - share * expected for share in (1.0, 0.9, 0.6, 0.0))
    yield expected


@cache
def pairs(k):
    """Return the indices (J, K), J <= K, of the entries that symmetric (k, k) matrices count by."""
    return np.triu_indices(k)


def diagonal_pairs(k):
    """Return which pairs are diagonal entries, as k indices."""
    J, K = pairs(k)
    return np.flatnonzero(J == K)


def to_pairs(M):
    """Return the derivatives by pairs, given the matrix M of a derivative tr(M dV)."""
    J, K = pairs(len(M))
    return np.where(J == K, 1.0, 2.0) * M[J, K]


def from_pairs(values, k):
    """Return the symmetric matrix with given entries on and above the diagonal."""
    M = np.zeros((k, k))
    J, K = pairs(k)
    M[J, K] = M[K, J] = values
    return M


def pair_products(T):
    """Return sum (B_p z)' diag(w) (B_q z) over pairs p, q of symmetric units B; T_jkh = sum w_j z_k z_h.

    B_p z has z_k at j and z_j at k.
    """
    J, K = pairs(T.shape[-1])
    half = np.where(J == K, 0.5, 1.0)
    total = np.zeros((len(J), len(J)))
    for row, moved in ((J, K), (K, J)):
        for row_q, moved_q in ((J, K), (K, J)):
            same = row[:, None] == row_q
            total += np.where(same, T[row[:, None], moved[:, None], moved_q], 0.0)
    return half[:, None] * total * half


def _blocks(signal, mixed, noise):
    return np.block([[signal, mixed], [mixed.T, noise]])
