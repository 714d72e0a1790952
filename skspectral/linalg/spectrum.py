"""The decomposition of a kernel matrix on its rows.

A `Spectrum` is geometry, valid from birth and frozen. `Spectrum.rotate` turns targets into a `Rotated`, which
is all that a criterion ever sees.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from ..support.exceptions import IndefiniteKernelError, IndefiniteKernelWarning, warn_user
from ..support.pickling import WithoutCache
from ..support.types import FloatArray
from .coordinates import Coordinates
from .indefinite import Repair
from .projection import Projection
from .reflectors import ReducedVectors, left_singular, symmetric_eigen
from .rotated import FAR_FROM_ROUNDING, Rotated
from .rows import Rows, add_outer, check_kernel_values

__all__ = ["RotatedRows", "Spectrum", "norm", "resolution_of"]

_EPS = np.finfo(np.float64).eps
# How many eps an eigenvalue may be off, relative to the largest.
_ROUNDING = 8.0
# Eigenvalues that are all so many times their resolution are no rounding.
_CLEAR = 16.0
# Rows up to which eigenvectors are formed at once where some eigenvalue is rounding: to find out whether they
# are needed would take as long.
_FEW_ROWS = 256


@dataclass(frozen=True)
class RotatedRows(Rotated):
    """Targets in the eigenbasis together with the rows they came from, as leave-one-out needs them.

    Attributes
    ----------
    null_residual : ndarray of shape (n, m) or (1, 1)
        The part of y / scale outside span(U) and the mean space (a zero where there is none).
    basis_part : ndarray of shape (q, m)
        Q'y in the units of y.
    spectrum : Spectrum
        Where the eigenvectors and the weights are.
    """

    null_residual: np.ndarray
    basis_part: np.ndarray
    spectrum: "Spectrum"

    @property
    def rows(self):
        """Weights and mean functions."""
        return self.spectrum.rows

    @property
    def all_rounding(self):
        """What rounding leaves of each output, with what inexact eigenvectors let out of their span, (m,)."""
        return self.rounding + self.coordinates.leak(self.spectrum.s, self.spectrum.resolution)

    def targets(self):
        """Return y (n, m) again, 0 in absent rows."""
        Y = (self.spectrum.U @ self.y_tilde + self.null_residual) * self.scale
        Y += self.rows.Q @ self.basis_part
        return _divided(Y, self.rows.sqrt_weight)

    def select(self, outputs):
        """Return the same for the given outputs only (repetitions allowed)."""
        null = self.null_residual
        return replace(
            super().select(outputs),
            null_residual=null[:, outputs] if null.shape[1] == self.n_outputs else null,
            basis_part=self.basis_part[:, outputs],
        )

    def mixed(self, M, null_residual=None):
        """Return the outputs Y M' for M of shape (k, m), see `Rotated.mixed`."""
        null = self.null_residual
        whole = null.shape[1] == self.n_outputs
        return replace(
            super().mixed(M, null),
            null_residual=null @ (M * self.scale).T if whole else np.zeros((1, 1)),
            basis_part=self.basis_part @ M.T,
        )


@dataclass(frozen=True)
class Spectrum(WithoutCache):
    """Eigendecomposition of A'KA = V diag(s) V' with U = A V, A a basis of the complement of the mean.

    K stands for W^1/2 K W^1/2, and absent rows are rows of zeros in U. Make one with `from_gram` or
    `from_factor`.

    Attributes
    ----------
    s : ndarray of shape (r,)
        Eigenvalues in ascending order, none negative.
    U : ndarray of shape (n, r), `ReflectedVectors`, or `ReducedVectors`, which are made when first used
        Orthonormal eigenvectors, orthogonal to the mean space; supports ``U @ w`` and ``U.T @ Z``.
    resolution : float
        Below it an eigenvalue is rounding: 8 eps times a bound on the largest eigenvalue of K, or more where
        K itself is less exact, and (n eps)^2 times that bound where K came as an exact factor.
    rows : Rows
        Weights and mean functions.
    KQ : ndarray of shape (n, q)
        K Q, kept because K itself is overwritten by its decomposition.
    loadings, QPhi : ndarray of shape (r, features) and (q, features), or None
        U'Phi and Q'Phi where K = Phi Phi' came as a factor.
    repair : Repair or None
        What was done to negative eigenvalues, where that was asked for and there were any.
    """

    s: np.ndarray
    U: np.ndarray
    resolution: float
    rows: Rows
    KQ: np.ndarray
    loadings: np.ndarray | None = None
    QPhi: np.ndarray | None = None
    repair: Repair | None = None

    @classmethod
    def from_gram(
        cls,
        K: FloatArray,
        basis: FloatArray | None = None,
        sample_weight: FloatArray | None = None,
        *,
        precision: float = _EPS,
        indefinite: str = "refuse",
        overwrite_K: bool = False,
    ) -> Self:
        """Decompose a kernel matrix, O(n^3).

        Parameters
        ----------
        K : ndarray of shape (n, n)
            Symmetric positive semi-definite; on the complement of the basis is enough.
        basis : ndarray of shape (n, q), default=None
            Mean functions F at the rows; a column of ones is an intercept.
        sample_weight : ndarray of shape (n,), default=None
            Relative noise precisions; 0 means that the row is absent.
        precision : float, default=2.2e-16
            Relative error of the entries of K; 1.2e-7 for a matrix that was made in float32.
        indefinite : {"refuse", "flip", "clip"}, default="refuse"
            What becomes of eigenvalues so negative that rounding does not explain them: an error, their
            moduli, or 0; see `Repair`.
        overwrite_K : bool, default=False
            Whether the memory of K may be used for U.

        Notes
        -----
        The mean is deflated: with P = I - QQ', the matrix PKP + c QQ' has eigenvectors Q at the
        eigenvalue c, chosen twice above all others, and above what PKP is rounded from, so the rest of its
        eigenvectors are U. These are rank-q updates of K in place; no second n x n matrix is made.
        """
        rows = Rows.make(len(K), basis, sample_weight)
        settings = {"precision": precision, "indefinite": indefinite, "overwrite_K": overwrite_K}
        return cls.on_rows(K, rows, **settings)

    @classmethod
    def on_rows(
        cls,
        K: FloatArray,
        rows: Rows,
        *,
        precision: float = _EPS,
        indefinite: str = "refuse",
        overwrite_K: bool = False,
    ) -> Self:
        """Decompose a kernel matrix on rows whose weights and mean functions are known; see `from_gram`."""
        K = _own_copy(K, overwrite_K)
        check_kernel_values(K)
        KQ = rows.project(K)
        size, mean_size = norm(K), norm(rows.Q.T @ KQ)
        if rows.n_mean:
            add_outer(K, (2.0 * max(size, mean_size) or 1.0) * rows.Q, rows.Q)
        whole = rows.present.all()
        block = K if whole else K[np.ix_(rows.present, rows.present)]
        # The transpose of a C-ordered symmetric matrix is itself in LAPACK's order: no copy.
        s, V = symmetric_eigen(block.T)
        s, V = s[: len(s) - rows.n_mean], V[:, : len(s) - rows.n_mean]
        s = s if size > 0 else np.zeros_like(s)
        s, repair = _repaired(s, mean_size, precision, size, indefinite)
        bound = max(s.max(initial=0.0), 0.0) + mean_size  # on the spectrum of K
        resolution = resolution_of(s, bound, precision, size)
        if len(block) <= _FEW_ROWS and not _are_clear(s, resolution):
            V = np.asarray(V)
        U = V if whole else _scatter_rows(np.asarray(V), rows.present)
        if repair is not None:  # in ascending order again
            order = np.argsort(s, kind="stable")
            s, U, repair = s[order], U[:, order], replace(repair, eigenvalues=repair.eigenvalues[order])
        return cls(np.where(s > resolution, s, 0.0), U, resolution, rows, KQ, repair=repair)

    @classmethod
    def from_factor(
        cls,
        Phi: FloatArray,
        basis: FloatArray | None = None,
        sample_weight: FloatArray | None = None,
        *,
        is_exact: bool = True,
    ) -> Self:
        """Decompose K = Phi Phi' from its factor Phi (n, r) without any n x n matrix, O(n r^2).

        A QR decomposition of [Q, Phi], whose orthogonal factor stays in reflectors, and an SVD of Phi's R,
        or the eigenvectors of R R'.

        Parameters
        ----------
        Phi : ndarray of shape (n, r)
            Any factor.
        basis, sample_weight
            As in `from_gram`.
        is_exact : bool, default=True
            Whether Phi is known to all digits, so that eigenvalues far below the rounding of K have a
            meaning. A factor made from entries of K is not, and takes half of the time.
        """
        rows = Rows.make(len(Phi), basis, sample_weight)
        # One array [Q, Phi]: after Q in the same QR, U is orthogonal to Q to rounding. Projecting Phi first
        # leaves eps |Phi| / root_s of Q in the vectors of small singular values.
        both = np.empty((Phi.shape[0], rows.n_mean + Phi.shape[1]), order="F")
        both[:, : rows.n_mean] = rows.Q
        Phi, source = both[:, rows.n_mean :], Phi
        with np.errstate(over="ignore"):
            np.multiply(rows.sqrt_weight, source, out=Phi)
        if not np.isfinite(Phi).all():
            raise ValueError("The factor of the kernel matrix has NaN or infinite entries.")
        QPhi = rows.Q.T @ Phi
        with np.errstate(over="ignore"):
            KQ = Phi @ QPhi.T
        check_kernel_values(KQ)
        vectors, root_s, loadings = left_singular(both, rows.n_mean, by_squares=not is_exact)
        n, mean_size = int(rows.present.sum()), norm(QPhi)
        largest = root_s.max(initial=0.0)
        # Singular values resolve down to n eps relative to the largest, eigenvalues to its square:
        # the noise floor of the eigenvalues is far below that of a dense K, and of squares.
        smallest = n * _EPS if is_exact else np.sqrt(_ROUNDING * _EPS)
        kept = root_s > smallest * max(largest, mean_size)
        kept &= np.arange(len(root_s)) < n - rows.n_mean
        order = np.flatnonzero(kept)[::-1]  # ascending
        s = root_s[order] ** 2
        resolution = _ROUNDING * _EPS if not is_exact else (n * _EPS) ** 2
        resolution *= largest**2 + mean_size**2
        return cls(s, vectors[:, order], resolution, rows, KQ, loadings[order], QPhi)

    @property
    def n_null(self) -> int:
        """Directions of the rows outside both U and the mean space; their eigenvalue is 0."""
        return self.rows.n_free - len(self.s)

    @property
    def noise_resolution(self) -> float:
        """Smallest noise ratio that rounding resolves.

        Noise lives in all of the n - q directions, rounding of the kernel only in those that its factor
        spans: their share of the resolution of eigenvalues, all of it without a factor.
        """
        spanned = self.rows.n_free if self.loadings is None else self.loadings.shape[1]
        return self.resolution * min(1.0, spanned / max(self.rows.n_free, 1))

    @cached_property
    def U_squared(self) -> FloatArray:
        """Squares of the entries of U: the weights of diag(U diag(v) U')."""
        return self.dense_U**2

    @cached_property
    def dense_U(self) -> FloatArray:
        """U as an array."""
        return np.asarray(self.U)

    @cached_property
    def null_leverage(self) -> FloatArray:
        """Diagonal of the projector on the null directions, shape (n, 1)."""
        if self.n_null == 0:
            return np.zeros((1, 1))
        leverage = self.U_squared.sum(axis=1, keepdims=True)
        leverage += (self.rows.Q**2).sum(axis=1, keepdims=True)
        return np.clip(1.0 - leverage, 0.0, 1.0) * self.rows.present[:, None]

    @cached_property
    def freedom(self) -> FloatArray:
        """Diagonal of the projector outside the mean space: 0 where a row is absent or alone, (n, 1)."""
        return self.U_squared.sum(axis=1, keepdims=True) + self.null_leverage

    def resolution_sensitivity(self) -> FloatArray:
        """Return d log(resolution)/dK = (uu' + QMQ'/|M|)/(s_max + |M|), M = Q'KQ, u the last of U, (n, n)."""
        Q, M = self.rows.Q, self.rows.Q.T @ self.KQ
        size = norm(M)
        lead = np.column_stack([self.dense_U[:, -1], Q @ (M / (size or 1.0))])
        return lead @ np.column_stack([self.dense_U[:, -1], Q]).T / (self.s[-1] + size)

    def rotate(self, Y: FloatArray, standardised: tuple | None = None) -> RotatedRows:
        """Return the targets Y (n, m) in the eigenbasis, O(n r m).

        `standardised` is what `Rows.standardise` makes of them, where that is known.
        """
        Z, scale, basis_part = self.rows.standardise(Y) if standardised is None else standardised
        coordinates, null_residual = self._seen(Z)
        return RotatedRows.at(
            self.s,
            coordinates,
            scale,
            self.rows.counts,
            resolution=self.noise_resolution,
            rounding=self.rows.n_free * (self.rows.rounding(Y) / scale) ** 2,
            null_residual=null_residual,
            basis_part=basis_part,
            spectrum=self,
        )

    def _seen(self, Z):
        """Return the coordinates of standardised targets (n, m), and what is left of them outside span(U)."""
        if isinstance(self.U, ReducedVectors):
            return self.U.coordinates_of(Z, self._vectors_below), np.zeros((1, 1))
        y_tilde = self.U.T @ Z
        if not self.n_null:
            return Coordinates(y_tilde, np.zeros(Z.shape[1])), np.zeros((1, 1))
        # the residual vector, not z'z - y~'y~: that cancels when z is nearly in span(U)
        null_residual = Z - self.U @ y_tilde
        return Coordinates(y_tilde, (null_residual**2).sum(axis=0)), null_residual

    @property
    def _vectors_below(self):
        """Noise ratio below which it takes eigenvectors to leave out what is rounding; 0 if nothing is."""
        if _are_clear(self.s, self.resolution):
            return 0.0
        return FAR_FROM_ROUNDING * self.resolution or np.inf

    def dual(self, rotated: RotatedRows, noise_ratio: FloatArray) -> FloatArray:
        """Return W^1/2 U y~/(s+g), the dual coefficients on the range of K, (n, m), in the units of y."""
        with np.errstate(over="ignore", invalid="ignore"):
            resolved = rotated.coordinates.resolved(self, noise_ratio)
            return _checked(self.rows.sqrt_weight * resolved * rotated.scale)

    def expand(self, rotated: RotatedRows, weights: FloatArray) -> FloatArray:
        """Return the coefficients of kernel values that belong to weights (r, m) of U'k~, (n, m).

        For a repaired matrix these are coefficients of values of the kernel as it was given.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return _checked(self.rows.sqrt_weight * self.combined(weights) * rotated.scale)

    def combined(self, weights: FloatArray) -> FloatArray:
        """Return U weights (n, m), of the eigenvalues' own signs for a repaired matrix."""
        return self.U @ (weights if self.repair is None else self.repair.signs * weights)

    def primal(self, range_dual: FloatArray) -> FloatArray:
        """Return Phi'range_dual, the coefficients of the features, (features, m)."""
        return self.loadings.T @ (self.U.T @ _divided(range_dual, self.rows.sqrt_weight))

    def null_dual(self, rotated: RotatedRows, noise_ratio: FloatArray) -> FloatArray:
        """Return W^1/2 (null part of y)/g, which belongs to the dual coefficients but predicts nothing."""
        with np.errstate(over="ignore", invalid="ignore"):
            return _checked(self.rows.sqrt_weight * rotated.null_residual / noise_ratio * rotated.scale)

    def mean_coefficients(self, rotated: RotatedRows, dual: FloatArray) -> FloatArray:
        """Return beta = R^-1 (Q'y - Q'K alpha) belonging to `dual`, (functions, m)."""
        unweighted = _divided(dual, self.rows.sqrt_weight)
        return self.rows.R_inv @ (rotated.basis_part - self.KQ.T @ unweighted)

    def project_outside_mean(self, cross: FloatArray) -> FloatArray:
        """Return U'k of kernel values (n_new, n), (r, n_new).

        Of a function that is a part of the model's, and that mean functions are no part of.
        """
        rotated = self.U.T @ (self.rows.sqrt_weight * cross.T)
        return rotated if self.repair is None else self.repair.signs * rotated

    def project(
        self, K_cross: FloatArray, prior: FloatArray, basis: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the geometry of new points, see `Projection`, from their kernel with the rows (n_new, n)."""
        vectors = self._vectors_for(K_cross.shape[0])
        cross, prior, leverage = self._projection(vectors).project(self._weighted(K_cross), prior, basis)
        if self.repair is None:
            return cross, prior, leverage
        return self.repair.signs * cross, self.repair.prior(cross, prior), leverage

    def pull_back(
        self,
        K_cross: FloatArray,
        basis: FloatArray | None,
        by_prior: FloatArray,
        by_cross: FloatArray,
        by_leverage: FloatArray,
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return derivatives by K_cross and basis of a function of what `project` returns.

        See `Projection.pull_back`.
        """
        projection, k = self._projection(self.U), self._weighted(K_cross)
        if self.repair is not None:
            raw = projection.project(k, by_prior, basis)[0]
            by_cross = self.repair.signs * by_cross + 2.0 * by_prior * self.repair.added * raw
        by_k, by_basis = projection.pull_back(k, basis, by_prior, by_cross, by_leverage)
        return self._weighted(by_k), by_basis

    @property
    def of_features(self) -> Projection:
        """The geometry of new points from their features, where K came as a factor."""
        return Projection.of_features(self.loadings, self.QPhi, self.rows.R_inv)

    def _projection(self, vectors):
        return Projection(vectors.T, self.rows.Q.T, self.KQ, self.rows.R_inv)

    def _weighted(self, K_cross):
        return (self.rows.sqrt_weight * K_cross.T).T

    def _vectors_for(self, n_columns):
        """Return U as it is best for a product with so many columns: entries pay where these are many."""
        return self.U if 2 * n_columns < len(self.rows) else self.dense_U


def _own_copy(K, overwrite_K):
    """Return K as a C-ordered float64 array whose memory may be used: K itself if that is allowed."""
    own = np.ascontiguousarray(K, dtype=np.float64)
    return own.copy() if not overwrite_K and np.may_share_memory(own, K) else own


def norm(A):
    """Return the Frobenius norm, safe from overflow and underflow of squares."""
    largest = max(A.max(initial=0.0), -A.min(initial=0.0))
    if 1e-140 < largest < 1e140:
        return np.linalg.norm(A)
    return largest * np.linalg.norm(A / largest) if largest > 0 else 0.0


def _checked(dual):
    """Return dual coefficients; refuse those beyond the largest number."""
    if not np.isfinite(dual).all():
        raise ValueError(
            "The coefficients of the kernel functions, targets over eigenvalues of the kernel matrix, are "
            "beyond the largest number. Rescale the targets, or the inputs so that the kernel is larger."
        )
    return dual


def _divided(dual, root):
    """Return dual / root, 0 for absent rows."""
    return np.divide(dual, root, out=np.zeros_like(dual), where=root > 0)


def _repaired(s, mean_size, eps, size, indefinite):
    """Return the eigenvalues to use, and the `Repair` where some were too negative for rounding."""
    bound, smallest = max(s.max(initial=0.0), 0.0) + mean_size, s.min(initial=0.0)
    if indefinite == "refuse" or -smallest <= _largest_rounding(bound, eps, size):
        return s, None
    rounding = len(s) * _EPS * max(bound, -smallest)
    repair = Repair(indefinite, np.where(np.abs(s) > rounding, s, 0.0))
    return repair.repaired, repair


def _largest_rounding(bound, eps, size):
    """Return how negative eigenvalues may be for rounding: of half the digits, or to single precision."""
    return max(np.sqrt(eps) * bound, 0.5 * float(np.finfo(np.float32).eps) * size)


def resolution_of(s, bound, eps, size):
    """Return the size below which eigenvalues are rounding; refuse what rounding does not explain.

    A few eps times a bound on the spectrum is the error of the decomposition. Entries of K may carry more
    (distances of uncentred inputs): the most negative eigenvalue shows how far it reaches. Beyond half of the
    digits it is no rounding, unless it is no more than entries in float32 would explain: then a warning
    tells what was clipped.
    """
    smallest, largest = s.min(initial=0.0), _largest_rounding(bound, eps, size)
    if -smallest > largest:
        raise IndefiniteKernelError(smallest, largest)
    if -smallest > np.sqrt(eps) * bound:
        warn_user(
            f"Negative eigenvalues of the kernel matrix, down to {smallest:.3g} where the largest is "
            f"{bound:.3g}, were set to 0: they are as small as rounding to single precision makes them.",
            IndefiniteKernelWarning,
        )
    # eps |K|_F is what entries in float32 may be off in all
    return max(_ROUNDING * _EPS * bound, 0.0 if eps == _EPS else eps * size, -smallest)


def _are_clear(s, resolution):
    """Return whether no eigenvalue is near rounding."""
    return s.min(initial=np.inf) > _CLEAR * resolution


def _scatter_rows(V, present):
    U = np.zeros((len(present), V.shape[1]))
    U[present] = V
    return U
