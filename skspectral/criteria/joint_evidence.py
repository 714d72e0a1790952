"""The evidence of correlated outputs, in a basis where they are independent.

With independent outputs k of signal variance g_k and noise variance e_k, w_ik = 1/(g_k s_i + e_k), rotated
targets y~ in that basis B (Vg = B diag(g) B', Ve = B diag(e) B') and Z = w y~,

    -2 log p = n_free (k log 2 pi + log|BB'|) - sum c_i log w_ik + sum w_ik y~_ik^2.

A change of the covariances, G of diag(g) and E of diag(e), changes it by tr(Mg G) + tr(Me E),

    Mg = diag(sum_i c_i s_i w_ik) - (s Z)'Z,    Me = diag(sum_i c_i w_ik) - Z'Z,

and to second order by half of 2 D - I, D what the data show and I = sum tr(P dV P dV) what they are expected
to (Fisher's information). Symmetric matrices count by their entries on and above the diagonal, `pairs`.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

__all__ = ["JointEvidence", "between", "blocks", "from_pairs", "pair_products", "pairs", "to_pairs"]

# Determinant of the information of a pair of entries, relative to the product of its diagonal.
_TOLD_APART = 1e-10


@dataclass(frozen=True)
class JointEvidence:
    """-2 log evidence, without constants, at given covariances.

    Attributes
    ----------
    s, count : ndarray of shape (r,)
        Eigenvalues and their multiplicities.
    Y : ndarray of shape (r, k)
        Rotated targets in the basis of independent outputs.
    signal, noise : ndarray of shape (k,)
        Variances in that basis.
    log_det : float
        log |BB'|.
    """

    s: np.ndarray
    count: np.ndarray
    Y: np.ndarray
    signal: np.ndarray
    noise: np.ndarray
    log_det: float

    @cached_property
    def value(self):
        """-2 log evidence less n_free k log 2 pi."""
        log_det = self.count @ np.log(self._variance)
        return float(self.count.sum() * self.log_det + log_det.sum() + np.vdot(self._Z, self.Y))

    @cached_property
    def _variance(self):
        return self.s[:, None] * self.signal + self.noise

    @cached_property
    def _w(self):
        return 1.0 / self._variance

    @cached_property
    def _Z(self):
        return self._w * self.Y

    def slopes(self):
        """Return Mg and Me, (k, k) each."""
        return self._slopes

    @cached_property
    def _slopes(self):
        s, c, Z, k = self.s, self.count, self._Z, len(self.signal)
        sums = np.stack([c * s, c]) @ self._w
        M = -(np.concatenate([s[:, None] * Z, Z], axis=1).T @ Z).reshape(2, k, k)
        M.reshape(2, -1)[:, :: k + 1] += sums
        return M[0], M[1]

    def expected(self):
        """Return I over pairs of G, then of E: not 0 only for the same pair."""
        k = len(self.signal)
        return blocks(np.diag(_counts(k) * M[pairs(k)]) for M in self._information)

    def flatness(self):
        """Return I of the signal and of the noise of each output, (k,) both."""
        return np.diag(self._information[0]), np.diag(self._information[2])

    @cached_property
    def _information(self):
        """sum_i c_i s_i^power w_ij w_ik, (3, k, k) for the powers 2, 1 and 0."""
        k = len(self.signal)
        return (self._weights.T @ (self.count[:, None] * self._w)).reshape(3, k, k)

    @cached_property
    def _weights(self):
        """s_i^power w_ij, (r, 3 k) for the powers 2, 1 and 0."""
        once = self.s[:, None] * self._w
        return np.concatenate([self.s[:, None] * once, once, self._w], axis=1)

    def scoring_step(self):
        """Return the changes G and E of Fisher's scoring, -I^-1 times the slopes.

        2 x 2 systems for each pair, O(r k^2) in all. E alone where both covariances can hardly be told apart.
        """
        (Mg, Me), (gg, ge, ee) = self.slopes(), self._information
        determinant = gg * ee - ge**2
        told = determinant > _TOLD_APART * gg * ee
        determinant = np.where(told, determinant, 1.0)
        G = np.where(told, (ge * Me - ee * Mg) / determinant, 0.0)
        return G, np.where(told, (ge * Mg - gg * Me) / determinant, -Me / ee)

    def shown(self):
        """Return D over pairs of G, then of E, O(r k^3)."""
        return blocks(pair_products(moments) for moments in self._moments())

    def _moments(self):
        """Return sum_i s_i^power w_ij Z_ik Z_ih, (3, k, k, k) for the powers 2, 1 and 0."""
        (J, K), k = pairs(len(self.signal)), len(self.signal)
        sums = self._weights.T @ (self._Z[:, J] * self._Z[:, K])
        return sums[:, _places(k)].reshape(3, k, k, k)


def between(shown, expected):
    """Yield second derivatives from D and I: the exact 2 D - I, then less and less that may be negative."""
    yield from (2.0 * shown - share * expected for share in (1.0, 0.9, 0.6, 0.0))
    yield expected


@cache
def pairs(k):
    """Return the indices (J, K), J <= K, of the entries that symmetric (k, k) matrices count by."""
    return np.triu_indices(k)


@cache
def _counts(k):
    """Return how many entries of a matrix each pair stands for."""
    J, K = pairs(k)
    return np.where(J == K, 1.0, 2.0)


@cache
def _places(k):
    """Return which pair each entry of a symmetric matrix is, (k, k)."""
    J, K = pairs(k)
    places = np.empty((k, k), dtype=np.intp)
    places[J, K] = places[K, J] = np.arange(len(J))
    return places


@cache
def _targets(k):
    """Return the flat index of the pairs (j, k) and (j, h) in a matrix over pairs, for all j, k, h."""
    places = _places(k)
    return (places[:, :, None] * len(pairs(k)[0]) + places[:, None, :]).ravel()


def to_pairs(M):
    """Return the derivatives by pairs, given the matrix M of a derivative tr(M dV)."""
    return _counts(len(M)) * M[pairs(len(M))]


def from_pairs(values, k):
    """Return the symmetric matrix with given entries on and above the diagonal."""
    return values[_places(k)]


def pair_products(T):
    """Return sum (B_p z)' diag(w) (B_q z) over pairs p, q of symmetric units B; T_jkh = sum w_j z_k z_h.

    B_p z has z_k at j and z_j at k: T_jkh belongs to the pairs (j, k) and (j, h).
    """
    size = len(pairs(T.shape[-1])[0])
    return np.bincount(_targets(T.shape[-1]), T.ravel(), size**2).reshape(size, size)


def blocks(parts):
    """Return the matrix over pairs of G, then of E, given its blocks of both, mixed and of E."""
    signal, mixed, noise = parts
    H = np.empty((2, len(signal), 2, len(signal)))
    H[0, :, 0], H[0, :, 1], H[1, :, 0], H[1, :, 1] = signal, mixed, mixed.T, noise
    return H.reshape(2 * len(signal), -1)
