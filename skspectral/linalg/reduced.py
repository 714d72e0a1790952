"""K = Q T Q' with T tridiagonal: what can be said of K + gI, O(n) for each g, without eigenvectors."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dptsv, dsterf

try:
    from scipy.linalg.lapack import dstevd
except ImportError:  # an older scipy, with which eigenvectors are formed at once
    dstevd = None

from ..support.pickling import WithoutCache
from ..support.threads import threads_for
from .coordinates import Coordinates
from .pieces import Pieces, PiecewiseTargets
from .shifted import unexplained_of_one

__all__ = ["Reduced", "ReducedCoordinates", "check_converged", "dstevd"]

# The exponential of a logarithm may be off by rounding.
_JUST_BELOW = 1.0 - 1e-12
# Share of the noise ratio from which T is reliable, down to which it may serve to tell what is not there.
_ROUGHLY = 1.0 / 128.0


@dataclass(frozen=True)
class Reduced(WithoutCache):
    """A tridiagonal matrix T.

    Attributes
    ----------
    diagonal, off_diagonal : ndarray of shape (n,) and (n - 1,)
        Its entries.
    """

    diagonal: np.ndarray
    off_diagonal: np.ndarray

    def __len__(self):
        return len(self.diagonal)

    def eigenvalues(self):
        """Return the eigenvalues in ascending order, O(n^2)."""
        s, info = dsterf(self.diagonal, self.off_diagonal)
        check_converged(info)
        return s

    @cached_property
    def eigen(self):
        """Eigenvalues in ascending order and eigenvectors (n, n), O(n^3)."""
        with threads_for(len(self)):
            s, V, info = dstevd(self.diagonal, self.off_diagonal, compute_v=1)
        check_converged(info)
        return s, V

    def solved(self, B):
        """Return T^-1 B of a positive definite T."""
        return dptsv(self.diagonal, self.off_diagonal, B)[2]

    def resolved(self, B, ratios):
        """Return (T + gI)^-1 b for the columns of B (n, m), each at its own g."""
        columns = zip(B.T, ratios, strict=True)
        return np.stack([dptsv(self.diagonal + g, self.off_diagonal, b)[2] for b, g in columns], axis=1)

    @cached_property
    def pieces(self):
        """T in short pieces."""
        return Pieces.of(self.diagonal, self.off_diagonal)


@dataclass(frozen=True)
class ReducedCoordinates(WithoutCache):
    """Targets in the basis Q of a `Reduced`.

    The same to users as `Coordinates`; those in the eigenbasis are made for who asks for them, or for noise
    ratios at which eigenvalues that are rounding, and count as 0, would be seen in T.

    Attributes
    ----------
    T : Reduced
        K = Q T Q'.
    B : ndarray of shape (n, m)
        Q'y / scale.
    n_vectors : int
        Eigenvectors outside the mean space; the others, of the largest eigenvalues, span that.
    reliable_from : float
        Smallest noise ratio for which T is as good as eigenvectors; 0 where no eigenvalue is rounding.
    """

    T: Reduced
    B: np.ndarray
    n_vectors: int
    reliable_from: float = 0.0

    @cached_property
    def in_eigenbasis(self):
        """The `Coordinates` of the same targets."""
        V = self.T.eigen[1][:, : self.n_vectors]
        return Coordinates(V.T @ self.B, np.zeros(self.n_outputs))

    @property
    def y_tilde(self):
        """Coordinates in the eigenbasis, (r, m)."""
        return self.in_eigenbasis.y_tilde

    @property
    def energy(self):
        """Squared coordinates in the eigenbasis, and a 0: there are no null directions, (r + 1, m)."""
        return self.in_eigenbasis.energy

    @property
    def n_outputs(self):
        """Number of outputs m."""
        return self.B.shape[1]

    @property
    def vary(self):
        """Whether each output is anything but 0, (m,)."""
        return self.B.any(axis=0)

    def hidden_energy(self, s):
        """Return the squared length along the directions of eigenvalue 0, (m,), see `Coordinates`."""
        return np.zeros(self.n_outputs) if self._is_clear else self.in_eigenbasis.hidden_energy(s)

    def _is_reliable(self, ratios):
        return ratios.min() >= _JUST_BELOW * self.reliable_from

    @property
    def _is_clear(self):
        return self.reliable_from == 0

    @cached_property
    def _in_pieces(self):
        return PiecewiseTargets(self.T.pieces, self.T.pieces.coordinates(self.B))

    def unexplained(self, x, v):
        """Return A = b'(I + T/g)^-1 b and its first two derivatives by x = log g, see `Coordinates`."""
        ratios = np.exp(x)
        if self._is_reliable(ratios):
            return self._unexplained(ratios)
        return self.in_eigenbasis.unexplained(x, v)

    def _unexplained(self, ratios):
        if self.n_outputs == 1:
            return unexplained_of_one(self.T.diagonal, self.T.off_diagonal, self.B[:, 0], ratios)
        return self._in_pieces.unexplained(ratios)

    def resolved(self, spectrum, noise_ratio):
        """Return U y~/(s + g) = Q (T + gI)^-1 b for noise ratios (m,), (n, m)."""
        if self._is_reliable(noise_ratio):
            return spectrum.U.reflected(self.T.resolved(self.B, noise_ratio))
        return self.in_eigenbasis.resolved(spectrum, noise_ratio)

    def leak(self, s, resolution):
        """Return the squared length that inexact eigenvectors let out of their span, see `Coordinates`."""
        if not self._is_clear:
            return self.in_eigenbasis.leak(s, resolution)
        return ((resolution * self.T.solved(self.B)) ** 2).sum(axis=0)

    def roughly(self):
        """Return the same with T in place of eigenvectors for noise ratios that are closer to rounding."""
        return replace(self, reliable_from=_ROUGHLY * self.reliable_from)

    def select(self, outputs):
        """Return the same for the given outputs only (repetitions allowed)."""
        return replace(self, B=self.B[:, outputs])


def check_converged(info):
    """Refuse eigenvalues that LAPACK did not find."""
    if info:
        raise np.linalg.LinAlgError("The eigenvalues of a symmetric matrix did not converge.")
