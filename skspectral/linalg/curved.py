"""A prior of latent values beside curvatures of their likelihood: R = (W^-1 + K)^-1 and what follows from it.

Approximations by a normal posterior need, for one latent function with curvatures W = diag(W_i) of -log p,

    R = (W^-1 + K)^-1,    log|I + K W|,    V = (K^-1 + W)^-1 = K - K R K,

and nothing else of K. A prior has two forms, the matrix itself (`DensePrior`) and a factor K = Phi Phi'
(`FactorPrior`); `curved(W)` returns R in the form that belongs to it, with the same verbs:

==================  ======================================================================================
times(V)            R V for V of shape (n, m)
log_det             log|I + K W|
variances()         the diagonal of V
explained(cross)    c'R c for each row c of `cross`, kernel values or features of new inputs
explained_jointly   c'R d for all pairs of rows
sensitivity(l, r)   dL/dK = (l r' + r l')/2 - R/2, ready for contraction, and tr(dL/dK K)
==================  ======================================================================================

Curvatures may be 0, and negative where log p is not concave, as long as K^-1 + W is positive definite.
"""

from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dpotrf, dpotri, dtrtri, dtrtrs, spotrf, spotri, strtrs

from ..support.exceptions import IndefiniteKernelError
from .sensitivity import Sensitivity, TriangularSensitivity, add_products, dense_sensitivity, upper_between

__all__ = ["DensePrior", "FactorPrior", "lower_cholesky"]

# Below this product of curvature and prior variance, 1 - (1 + W V)^-1 leaves fewer than half of the digits.
_SMALLEST_SHARE = 1e-8


class DensePrior:
    """N(0, scale K) with K at hand.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix; overwritten by scale K. Of float32, factorisations have single precision and cost half;
        the sum of all K_ii W_i should then be below 1e4.
    scale : float, default=1
        Its factor.
    """

    def __init__(self, K, scale=1.0):
        self.K, self.scale = np.multiply(K, scale, out=K), scale

    def __len__(self):
        return len(self.K)

    @property
    def diagonal(self):
        """Prior variances at the rows, (n,)."""
        return self.K.diagonal()

    @property
    def is_single(self):
        """Whether K has single precision."""
        return self.K.dtype == np.float32

    def times(self, V):
        """Return scale K V."""
        return self.K @ V.astype(self.K.dtype, copy=False)

    def coefficients(self, A):
        """Return what kernel values with the rows are multiplied by in the mean: scale A."""
        return self.scale * A

    def curved(self, W):
        """Return R for curvatures W (n,)."""
        return DenseCurved(self, W)


class FactorPrior:
    """N(0, scale Phi Phi') without the kernel matrix.

    Parameters
    ----------
    Phi : ndarray of shape (n, r)
        Features of the rows.
    scale : float, default=1
        Factor of Phi Phi'.
    L : ndarray of shape (r, r), default=None
        Cholesky factor of K among the landmarks that span the features, for sensitivities.
    """

    is_single = False

    def __init__(self, Phi, scale=1.0, L=None):
        self.Phi, self.scale, self.L = np.sqrt(scale) * Phi, scale, L

    def __len__(self):
        return len(self.Phi)

    @property
    def diagonal(self):
        """Prior variances at the rows, (n,)."""
        return np.einsum("ij,ij->i", self.Phi, self.Phi)

    def times(self, V):
        """Return scale Phi Phi' V."""
        return self.Phi @ (self.Phi.T @ V)

    def coefficients(self, A):
        """Return what features are multiplied by in the mean."""
        return np.sqrt(self.scale) * (self.Phi.T @ A)

    def curved(self, W):
        """Return R for curvatures W (n,)."""
        return FactorCurved(self, W)

    def sensitivity(self, left, right, R_Phi):
        """Return the `Sensitivity` of G = (l r' + r l')/2 - R/2, given R Phi (n, r).

        K~ = C K(Z,Z)^-1 C' with C = K(X, Z), so dL = 2 tr((G Phi L^-1)'dC) - tr(L^-T Phi'G Phi L^-1 dK(Z,Z)).
        """
        return self.pulled_back(0.5 * (left @ (right.T @ self.Phi) + right @ (left.T @ self.Phi) - R_Phi))

    def pulled_back(self, G_Phi, by_missed=None):
        """Return the `Sensitivity` of G, given G Phi (n, r) and dL by the variances that Phi misses, (n,)."""
        if by_missed is not None:
            G_Phi = G_Phi - by_missed[:, None] * self.Phi
            by_missed = self.scale * by_missed
        inner = self.Phi.T @ G_Phi
        if self.L is None:
            return Sensitivity(None, float(np.trace(inner)), by_missed)
        to_landmarks = np.sqrt(self.scale) * _times_inverse(G_Phi, self.L)
        among = _times_inverse(_times_inverse(inner, self.L).T, self.L)
        weights = 2.0 * to_landmarks, -0.5 * (among + among.T)
        return Sensitivity(weights, float(np.trace(inner)), by_missed)


class DenseCurved:
    """R = w (S + w K w)^-1 w with w = |W|^1/2 and S = sign(W), by one Cholesky factorisation.

    Parameters
    ----------
    prior : DensePrior
        The prior.
    W : ndarray of shape (n,)
        Curvatures.

    Raises
    ------
    IndefiniteKernelError
        If K^-1 + W is not positive definite.

    Notes
    -----
    Rows of negative curvature come last, where S + w K w = L S L' with a lower triangular L: a factorisation
    of the others, and one of what is left for the few. It exists where K^-1 + W is positive definite.
    """

    def __init__(self, prior, W):
        self.prior, self.W = prior, W
        negative = W < 0
        self.sign, self.root = np.where(negative, -1.0, 1.0), np.sqrt(np.abs(W))
        self.order = np.argsort(negative, kind="stable") if negative.any() else slice(None)
        self.signs = self.sign[self.order]
        self.L = _signed_cholesky(self._bordered(), int((~negative).sum()))

    def _bordered(self):
        """Return S + w K w, rows of negative curvature last; without these, its upper triangle."""
        if isinstance(self.order, slice):
            B = upper_between(self.prior.K, self.root)
            B.flat[:: len(B) + 1] += 1.0
            return B
        B = self.prior.K * self.root
        B *= self.root[:, None]
        B.flat[:: len(B) + 1] += self.sign
        return B[np.ix_(self.order, self.order)]

    @property
    def log_det(self):
        """log|I + K W|."""
        return 2.0 * np.log(self.L.diagonal(), dtype=np.float64).sum()

    @cached_property
    def _lower_inverse(self):
        """The lower triangle of (I + w K w)^-1, without negative curvatures; zeros above, as L has."""
        return (spotri if self.prior.is_single else dpotri)(self.L, lower=True)[0]

    @cached_property
    def inverse(self):
        """(S + w K w)^-1."""
        if isinstance(self.order, slice):
            half = self._lower_inverse.copy(order="K")
            half.flat[:: len(half) + 1] *= 0.5
            return half + half.T
        L_inv, _ = dtrtri(self.L, lower=True)
        inverse, back = (L_inv.T * self.signs) @ L_inv, np.argsort(self.order)
        return inverse[np.ix_(back, back)]

    @property
    def _diagonal_of_inverse(self):
        return (self._lower_inverse if isinstance(self.order, slice) else self.inverse).diagonal()

    def times(self, V):
        """Return R V, (n, m)."""
        X = self.root[:, None] * V
        if isinstance(self.order, slice):
            return self.root[:, None] * _solve(self.L, _solve(self.L, X), trans="T")
        half = self.signs[:, None] * _solve(self.L, X[self.order])
        X[self.order] = _solve(self.L, half, trans="T")
        return self.root[:, None] * X

    def variances(self):
        """Return diag(K - K R K): (S_i - [(S + w K w)^-1]_ii)/|W_i|, from K itself where W_i is about 0."""
        flat = np.abs(self.W) * self.prior.diagonal < _SMALLEST_SHARE
        v = np.empty_like(self.W)
        v[~flat] = ((self.sign - self._diagonal_of_inverse) / np.abs(np.where(flat, 1.0, self.W)))[~flat]
        v[flat] = self.prior.diagonal[flat] - self._explained(self.prior.K[flat])
        return np.maximum(v, 0.0)

    def explained(self, cross):
        """Return scale^2 c'R c for each row c of kernel values K(X*, X)."""
        return self.prior.scale**2 * self._explained(cross)

    def explained_jointly(self, cross):
        """Return scale^2 c'R d for all pairs of rows c, d of kernel values K(X*, X)."""
        half = self._half(cross)
        return self.prior.scale**2 * ((half.T * self.signs) @ half)

    def _explained(self, cross):
        return self.signs @ self._half(cross) ** 2

    def _half(self, cross):
        return _solve(self.L, (cross * self.root).T[self.order])

    def matrix(self):
        """Return R itself, (n, n), in an array of its own."""
        R = self.inverse * self.root
        R *= self.root[:, None]
        return R

    def sensitivity(self, left, right):
        """Return the `Sensitivity` of G = (l r' + r l')/2 - R/2; tr(R K) = n - tr(S (S + w K w)^-1)."""
        if not isinstance(self.order, slice):
            return dense_sensitivity(self.prior, left, right, self.matrix())
        fit, trace = np.vdot(left, self.prior.times(right)), (1.0 - self._diagonal_of_inverse).sum()
        G = upper_between(self._lower_inverse.T, self.root, -0.5 * self.prior.scale)
        add_products(G, left, right, 0.5 * self.prior.scale)
        return TriangularSensitivity(G, float(fit - 0.5 * trace))


class FactorCurved:
    """R = W - W Phi A^-1 Phi'W with A = I + Phi'W Phi, O(n r^2); O(n^2 r) where W is a matrix.

    Parameters
    ----------
    prior : FactorPrior
        The prior.
    W : ndarray of shape (n,) or (n, n), or CoupledCurvature
        Curvatures; a symmetric matrix where the likelihood couples the rows, or what multiplies like one.

    Raises
    ------
    IndefiniteKernelError
        If A is not positive definite.
    """

    def __init__(self, prior, W):
        self.prior, self.W = prior, W
        A = W.quadratic(prior.Phi) if hasattr(W, "quadratic") else prior.Phi.T @ self._W_times(prior.Phi)
        self.L = lower_cholesky(np.eye(len(A)) + 0.5 * (A + A.T))

    def _W_times(self, V):
        return self.W[:, None] * V if self.W.ndim == 1 else self.W @ V

    @property
    def log_det(self):
        """log|I + K W|."""
        return 2.0 * np.log(np.diag(self.L)).sum()

    def times(self, V):
        """Return R V, (n, m)."""
        inner = _solve(self.L, _solve(self.L, self.prior.Phi.T @ self._W_times(V)), trans="T")
        return self._W_times(V - self.prior.Phi @ inner)

    @cached_property
    def half(self):
        """L^-1 Phi', (r, n): its columns' products are V."""
        return _solve(self.L, self.prior.Phi.T)

    @cached_property
    def root(self):
        """L^-T, (r, r), with L L' = A: V = Phi L^-T (Phi L^-T)'."""
        return _solve(self.L, np.eye(len(self.L))).T

    def variances(self):
        """Return diag(Phi A^-1 Phi')."""
        return np.einsum("ri,ri->i", self.half, self.half)

    def explained(self, cross):
        """Return what the rows explain of scale |phi|^2 for each row phi of features."""
        left = _solve(self.L, cross.T)
        return self.prior.scale * (np.einsum("ij,ij->i", cross, cross) - np.einsum("ri,ri->i", left, left))

    def explained_jointly(self, cross):
        """Return what the rows explain of scale Phi* Phi*'."""
        left = _solve(self.L, cross.T)
        return self.prior.scale * (cross @ cross.T - left.T @ left)

    def sensitivity(self, left, right):
        """Return the `Sensitivity` of G = (l r' + r l')/2 - R/2; R Phi = W Phi A^-1."""
        return self.prior.sensitivity(left, right, self._R_Phi())

    def _R_Phi(self):
        if hasattr(self.W, "times_span"):
            return self.W.times_span(self.prior.Phi, self.root) @ self.root.T
        return self._W_times(_solve(self.L, self.half, trans="T").T)


def lower_cholesky(B):
    """Return the lower Cholesky factor; say by the usual error that there is none."""
    try:
        return cholesky(B, lower=True, check_finite=False)
    except LinAlgError:
        raise IndefiniteKernelError(np.nan, 0.0) from None


def _signed_cholesky(B, n_positive):
    """Return L with L S L' = B, S = 1 for the first rows and -1 for the others; B is overwritten.

    Where there are no others, the upper triangle of B is enough.
    """
    if n_positive == len(B):
        potrf = spotrf if B.dtype == np.float32 else dpotrf
        L, info = potrf(B.T, lower=True, clean=True, overwrite_a=True)
        if info:
            raise IndefiniteKernelError(np.nan, 0.0)
        return L
    first, last = slice(n_positive), slice(n_positive, None)
    L = np.zeros_like(B, order="F")
    L[first, first] = lower_cholesky(B[first, first])
    L[last, first] = _solve(L[first, first], B[first, last]).T
    L[last, last] = lower_cholesky(L[last, first] @ L[last, first].T - B[last, last])
    return L


def _solve(L, X, trans="N"):
    """Return L^-1 X or L^-T X; LAPACK itself, whose callers are many and small."""
    trtrs = strtrs if L.dtype == np.float32 else dtrtrs
    return trtrs(L, X, lower=True, trans=trans == "T")[0] if L.size and X.size else np.zeros_like(X)


def _times_inverse(X, L):
    """Return X L^-1."""
    return _solve(L, X.T, trans="T").T
