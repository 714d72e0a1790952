"""Two covariances between outputs, of signals and of noise, either of which may be singular."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .output_basis import OutputBasis

__all__ = ["CovariancePair", "Units"]


@dataclass(frozen=True)
class Units:
    """What both covariances are multiples of.

    With Vg = G/size and Ve = E + ridge Vg, s Vg + Ve = (s + ridge)/size G + E: noise no less than `ridge`
    times the signal is E >= 0, and eigenvalues (s + ridge)/size are of the order of 1.

    Attributes
    ----------
    ridge : float
        Smallest noise ratio that a combination of outputs may have.
    size : float
        Typical s + ridge.
    """

    ridge: float
    size: float

    def eigenvalues(self, s):
        """Return (s + ridge)/size."""
        return (s + self.ridge) / self.size


@dataclass(frozen=True)
class CovariancePair:
    """Covariances `back diag(signal) back'` of the signals and `back diag(noise) back'` of the noise.

    The columns of Y `forth'` are independent outputs, whose signal and noise variances sum to 1.

    Attributes
    ----------
    back, forth : ndarray of shape (m, k) and (k, m)
        From independent outputs to the outputs, and its inverse (left inverse where k < m).
    signal, noise : ndarray of shape (k,)
        Variances, none negative.
    """

    back: np.ndarray
    forth: np.ndarray
    signal: np.ndarray
    noise: np.ndarray

    @classmethod
    def of_basis(cls, basis, units):
        """Return the pair of the covariances of an `OutputBasis`."""
        signal = basis.signal * units.size
        noise = np.maximum(1.0 - units.ridge * basis.signal, 0.0)
        root = np.sqrt(signal + noise)
        return cls(basis.back * root, basis.forth / root[:, None], signal / root**2, noise / root**2)

    def basis(self, units):
        """Return the covariances as an `OutputBasis`."""
        signal = self.signal / units.size
        noise = self.noise + units.ridge * signal
        root = np.sqrt(noise)
        return OutputBasis(self.back * root, self.forth / root[:, None], signal / noise)

    def __len__(self):
        return len(self.signal)

    @property
    def parts(self):
        """Variances of the signals and of the noise."""
        return self.signal, self.noise

    @property
    def covariances(self):
        """Both covariances, (m, m) each."""
        return tuple((self.back * part) @ self.back.T for part in self.parts)

    @cached_property
    def log_det(self):
        """log |sum of both covariances| of square bases."""
        return float(2.0 * np.linalg.slogdet(self.back)[1])

    def with_factors(self, signal_factor, noise_factor):
        """Return the pair of the covariances back GG' back' and back EE' back', given square factors G and E.

        Notes
        -----
        (G'; E') = (Q1; Q2) R, and Q2 = U diag(root noise) W': the new back is back R'W, and the columns of
        Q1 W are orthogonal and as long as root signal. Small variances of either are free of cancellation.
        """
        k = len(self)
        Q, R = np.linalg.qr(np.concatenate([signal_factor.T, noise_factor.T]))
        _, root_noise, Wt = np.linalg.svd(Q[k:])
        signal, noise = ((Q[:k] @ Wt.T) ** 2).sum(axis=0), root_noise**2
        mixing = Wt @ R
        return CovariancePair(self.back @ mixing.T, np.linalg.solve(mixing.T, self.forth), signal, noise)

    def moved(self, signal_step, noise_step):
        """Return the pair of the factors back (root signal + T) and back (root noise + S)."""
        roots = (np.diag(np.sqrt(part)) for part in self.parts)
        return self.with_factors(
            *(root + step for root, step in zip(roots, (signal_step, noise_step), strict=True))
        )

    def shifted(self, G, E, least):
        """Return the pair of the covariances back (diag(signal) + G) back' and back (diag(noise) + E) back'.

        Eigenvalues in the middle, of signal and of noise, are raised to `least` where they are smaller.
        """
        middles = (np.diag(part) + change for part, change in zip(self.parts, (G, E), strict=True))
        return self.with_factors(*map(_factor, middles, least))

    def given(self, part, members, Q, variance):
        """Return the pair with independent outputs `members` rotated by Q, and given variances of one part.

        Their variances of that part were 0, so that both covariances do not notice the rotation.
        """
        back, forth = self.back.copy(), self.forth.copy()
        back[:, members], forth[members] = back[:, members] @ Q, Q.T @ forth[members]
        variances = [v.copy() for v in self.parts]
        variances[part][members] = variance
        root = np.sqrt(variances[0] + variances[1])
        return CovariancePair(back * root, forth / root[:, None], *(v / root**2 for v in variances))

    def within(self, directions, left_inverse):
        """Return the pair of outputs that are `directions` (m, k) times those of this one."""
        return CovariancePair(directions @ self.back, self.forth @ left_inverse, *self.parts)


def _factor(V, least):
    """Return a square factor of V with eigenvalues of no less than `least`."""
    size, Q = np.linalg.eigh(V)
    return Q * np.sqrt(np.maximum(size, least))
