"""Low-rank factors of a kernel matrix that is never formed.

A `Factor` is Phi with K = Phi Phi' + E, E positive semi-definite with known trace tau: the error of
everything computed from Phi is bounded by tau (`Factor` docstring). Columns of K are made on demand
and all work is in blocks of matrix products.

This room knows kernels only as something with columns, blocks and a diagonal (see `gram`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigvalsh, solve_triangular
from scipy.linalg.lapack import dpstrf

from ..support.exceptions import IndefiniteKernelError
from ..support.threads import threads_for
from .rows import check_kernel_values

__all__ = [
    "Columns",
    "Factor",
    "FeatureMap",
    "InputFeatures",
    "independent",
    "missed_trace",
    "nystroem",
    "pivoted_cholesky",
    "spanned_by_few",
    "spanned_by_rows",
]

_EPS = np.finfo(np.float64).eps
# Candidates looked at together, most of them that are taken, and the share of the largest residual that a
# pivot must keep after the others of its block.
_POOL, _BLOCK, _KEEP = 256, 128, 0.1
# How much faster than in its last steps a trace may fall. For smooth and rough kernels alike it falls ever
# more slowly; where a rank was enough in the end, up to 0.95 had been asked for on the way.
_HOPE = 1.2
# Fewest rows drawn at a time, and in how many draws a rank is reached at least.
_SMALLEST_DRAW, _DRAWS = 8, 16
# Make new numbers that look random of old ones.
_GOLDEN, _SHUFFLE = 0.6180339887498949, 7919.3
# Residual that is rounding, in eps of the largest variance.
_FLOOR = 16.0
# Share of some rows that is independent, up to which few of all may span the others.
_FEW_OF_SOME = 0.75
# Digits to which equal residual variances agree after rounding.
_TIE_DIGITS = 9


@dataclass(frozen=True)
class Factor:
    """Phi = K(X, Z) L^-T with K(Z, Z) = L L', so that Phi Phi' is the best approximation of K from Z.

    Attributes
    ----------
    Phi : ndarray of shape (n, r)
        Features of the rows.
    landmarks : ndarray of shape (r, ...)
        The inputs Z that span the approximation.
    pivots : ndarray of shape (r,) or None
        Which rows they are, where they are rows.
    L : ndarray of shape (r, r)
        Lower triangular Cholesky factor of K(Z, Z).
    tau : float
        Weighted trace of E = K - Phi Phi'.

    Notes
    -----
    For every noise ratio g, with K~ = Phi Phi' (Cawley & Talbot sec. II-E):

        log|K~+g|            <=  log|K+g|       <=  log|K~+g| + n log(1 + tau/(n g))
        y'(K~+(g+tau)I)^-1y  <=  y'(K+gI)^-1 y  <=  y'(K~+gI)^-1 y.
    """

    Phi: np.ndarray
    landmarks: np.ndarray
    pivots: np.ndarray | None
    L: np.ndarray
    tau: float

    @property
    def rank(self):
        """Number of features r."""
        return self.Phi.shape[1]

    @property
    def feature_map(self):
        """What makes features of other inputs, without Phi."""
        return FeatureMap(self.landmarks, self.L)


@dataclass(frozen=True)
class FeatureMap:
    """x -> L^-1 k(Z, x)."""

    landmarks: np.ndarray
    L: np.ndarray

    def __call__(self, gram, X):
        """Return the features K(X, Z) L^-T, (n_new, r)."""
        values = self.values(gram, X)
        return solve_triangular(self.L, values.T, lower=True, overwrite_b=True, check_finite=False).T

    def values(self, gram, X):
        """Return what predictions are made of, K(X, Z), (n_new, r)."""
        return gram.cross(X, self.landmarks)

    def coefficients(self, of_features):
        """Return coefficients of these values, L^-T times those of features (r, m)."""
        return solve_triangular(self.L, of_features, lower=True, trans=1, check_finite=False)

    def projection(self, of_features):
        """Return the geometry of new points from these values, given that from features."""
        return of_features.on_landmarks(self.L)


@dataclass(frozen=True)
class InputFeatures:
    """x -> x, the features of the linear kernel."""

    def values(self, gram, X):
        """Return what predictions are made of: the inputs, which are the features."""
        return X

    def coefficients(self, of_features):
        """Return coefficients of the inputs: those of features."""
        return of_features

    def projection(self, of_features):
        """Return the geometry of new points from the inputs: that from features."""
        return of_features


def pivoted_cholesky(
    gram, X, *, tau=0.0, rank=None, weight=None, report=None, drawn=False, unless_hopeless=False, keep=_KEEP
):
    """Factorise K by a blocked Cholesky with diagonal pivoting, stopping at a trace or a rank.

    Each round takes the rows with the largest residual variances, keeps those of them that stay large
    after the others (a small pivoted Cholesky among themselves), and only then makes their columns of K.
    O(n r^2) time, O(n r) memory. There is always one pivot, also where the trace is small enough without.

    Parameters
    ----------
    gram : gram object
        The kernel: `columns`, `block`, `diagonal`, `precision`, `fingerprint` and, for new inputs, `cross`.
    X : array of n rows
        Inputs (or the kernel matrix, for a precomputed kernel).
    tau : float, default=0
        Stop when the weighted trace of the residual is no larger.
    rank : int, default=None
        Stop at this rank; None means n.
    weight : ndarray of shape (n,), default=None
        Weights of the rows in the trace.
    report : callable, default=None
        report(n_rows=..., rank=..., left=...) after every block; left is the share of the trace that is left.
    drawn : bool, default=False
        Whether pivots are drawn with probabilities proportional to the residual variances, instead of the
        largest of them (Chen, Epperly, Tropp & Webber 2022). The better choice for a rank that is far from
        enough: the largest residuals are then those of outliers, which explain nothing but themselves. What
        looks random depends on the content of the rows alone.
    unless_hopeless : bool, default=False
        Whether to stop as soon as the trace falls so slowly that `rank` will not reach `tau`.
    keep : float, default=0.1
        Share of the largest residual that a pivot must keep after the others of its block. Without any there
        are few blocks, for a kernel that few columns span to rounding.

    Returns
    -------
    Factor
    """
    if not tau >= 0:
        raise ValueError(f"tau is the trace of what is left out and must not be negative, got {tau!r}.")
    diagonal = np.array(gram.diagonal(X), dtype=np.float64)
    n = len(diagonal)
    rank = _checked_rank(rank, n)
    weight = np.ones(n) if weight is None else weight
    residual = _weighted(diagonal, weight)
    largest = np.abs(residual).max(initial=0.0)
    eps = gram.precision(X)
    residual = _nonnegative(residual, largest, eps)
    if largest == 0:
        return _nothing(gram, X, n)
    floor = _FLOOR * eps * largest
    ties = gram.fingerprint(X)
    Phi, pivots = np.empty((n, 0), order="F"), np.empty(0, dtype=int)
    store, trace, left = Columns(n, rank), residual.sum(), residual.sum()
    while len(pivots) < rank and (residual.sum() > tau or not len(pivots)) and residual.max() > floor:
        with threads_for(n, len(pivots) + _BLOCK):
            size = min(_BLOCK, rank - len(pivots))
            pool, least = _pool(residual, ties, floor, keep, (rank, len(pivots)) if drawn else None)
            chosen, L_block = _choose(gram, X, Phi, weight, pool, size, least)
            if not len(chosen):
                break  # what is left of the residual is rounding
            new = _next_columns(gram, X, Phi, chosen, L_block)
        # no more of the block than the trace needs
        enough = np.searchsorted(np.cumsum(weight @ new**2), residual.sum() - tau) + 1
        new, chosen = new[:, :enough], chosen[:enough]
        Phi = store.append(new)
        pivots = np.append(pivots, chosen)
        residual -= weight * np.einsum("ij,ij->i", new, new)
        residual[chosen] = 0.0
        residual = _nonnegative(residual, largest, eps)
        before, left = left, residual.sum()
        if report is not None:
            report(n_rows=n, rank=len(pivots), left=left / trace)
        if unless_hopeless and _is_hopeless(before, left, len(chosen), tau, rank - len(pivots)):
            break
    # The rows of the pivots are the Cholesky factor of K among them; above its diagonal is rounding.
    return Factor(Phi, gram.rows(X, pivots), pivots, np.tril(Phi[pivots]), float(residual.sum()))


def spanned_by_few(gram, X, most):
    """Return the factor of a positive definite kernel to rounding, None unless a few columns span all of K.

    Some rows tell first, and at little cost, that it takes more than `most` columns.
    """
    n, eps = X.shape[0], gram.precision(X)
    some = np.arange(0, n, max(1, n // most))
    if len(_independent(gram.block(X, some), eps)[0]) > _FEW_OF_SOME * len(some):
        return None
    factor = pivoted_cholesky(gram, X, rank=min(most, n), keep=0.0)
    largest = gram.diagonal(X).max()
    return factor if factor.tau <= n * _FLOOR * eps * largest else None


def _weighted(diagonal, weight):
    """Return k(x, x) times weights, refused where their sum is no number."""
    check_kernel_values(diagonal)
    with np.errstate(over="ignore"):
        residual = diagonal * weight
        check_kernel_values(residual.sum())
    return residual


def _next_columns(gram, X, Phi, chosen, L_block):
    """Return the columns of a factor that belong to chosen rows."""
    new = gram.columns(X, chosen) - Phi @ Phi[chosen].T
    return solve_triangular(L_block, new.T, lower=True, overwrite_b=True, check_finite=False).T


def _is_hopeless(before, left, n_steps, tau, n_open):
    """Return whether a trace that falls like in the last steps, or faster by far, does not reach tau."""
    if left <= tau or tau <= 0 or not n_open:
        return False
    return np.log(left / tau) * n_steps > _HOPE * n_open * np.log(before / left)


def _checked_rank(rank, n):
    if rank is not None and not 1 <= rank <= n:
        raise ValueError(f"rank must lie between 1 and the number of rows, {n}; got {rank!r}.")
    return n if rank is None else rank


def nystroem(gram, X, landmarks, *, weight=None, random_state=0):
    """Return the factor of given or sampled landmarks: Phi = K(X, Z) L^-T.

    Parameters
    ----------
    gram, X, weight
        As in `pivoted_cholesky`.
    landmarks : array of r inputs or int
        Like rows of X, or how many rows of positive weight are drawn, without replacement. Landmarks that
        others span already are dropped.
    random_state : int, default=0
        Seed of the draw.
    """
    if np.ndim(landmarks) == 0:
        possible = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight)
        if not 1 <= landmarks <= len(possible):
            raise ValueError(
                f"landmarks must lie between 1 and the number of rows, {len(possible)}; got {landmarks!r}."
            )
        drawn = np.random.default_rng(random_state).choice(possible, landmarks, replace=False)
        return spanned_by_rows(gram, X, np.sort(drawn), weight=weight)
    if landmarks.shape[1:] != X.shape[1:]:
        raise ValueError(
            f"landmarks have shape {landmarks.shape} but the inputs have {X.shape[1]} columns. Pass "
            "landmarks with the same columns as X."
        )
    landmarks, L = independent(gram, landmarks)
    Phi = FeatureMap(landmarks, L)(gram, X)
    return Factor(Phi, landmarks, None, L, missed_trace(gram, X, Phi, weight))


def independent(gram, landmarks):
    """Return the landmarks that are numerically independent, and the Cholesky factor of K among them."""
    kept, L = _independent(gram.cross(landmarks, landmarks))
    return landmarks[kept], L


def _independent(K, eps=_EPS):
    """Return which rows of K are numerically independent, in their order, and its Cholesky factor there."""
    check_kernel_values(K)
    _, order, rank, _ = dpstrf(K, tol=len(K) * eps * np.diag(K).max() * 8.0, lower=True)
    if rank == 0:  # a kernel that is 0 at every landmark
        return np.zeros(1, dtype=int), np.ones((1, 1))
    kept = np.sort(order[:rank] - 1)
    K = K[np.ix_(kept, kept)]
    jitter = len(K) * eps * np.diag(K).max()  # what rounding may have taken
    K.flat[:: len(K) + 1] += jitter
    try:
        return kept, cholesky(K, lower=True, check_finite=False)
    except LinAlgError as error:
        raise IndefiniteKernelError(float(eigvalsh(K)[0]), jitter) from error


def _nonnegative(residual, largest, eps):
    """Clip what rounding made of residual variances; refuse what it does not explain."""
    smallest, tolerance = residual.min(initial=0.0), np.sqrt(eps) * largest
    if smallest < -tolerance:
        raise IndefiniteKernelError(smallest, tolerance)
    return np.maximum(residual, 0.0, out=residual)


def _nothing(gram, X, n):
    """Return the factor of a kernel that is 0 at every row: one feature, always 0."""
    pivots = np.zeros(1, dtype=int)
    largest = np.abs(gram.columns(X, pivots)).max()
    if largest > 0:  # [[0, c], [c, 0]] has the eigenvalue -c
        raise IndefiniteKernelError(-largest, 0.0)
    return Factor(np.zeros((n, 1)), gram.rows(X, pivots), pivots, np.ones((1, 1)), 0.0)


def spanned_by_rows(gram, X, pivots, *, weight=None):
    """Return the factor of given rows, without those that others span already."""
    K = gram.block(X, pivots)
    kept, L = _independent(K, gram.precision(X))
    pivots = pivots[kept]
    columns = gram.columns(X, pivots).T
    Phi = solve_triangular(L, columns, lower=True, overwrite_b=True, check_finite=False).T
    return Factor(Phi, gram.rows(X, pivots), pivots, L, missed_trace(gram, X, Phi, weight))


def missed_trace(gram, X, Phi, weight):
    """Return the weighted trace of K - Phi Phi'."""
    diagonal = gram.diagonal(X)
    residual = diagonal - np.einsum("ij,ij->i", Phi, Phi)
    residual = _nonnegative(residual, np.abs(diagonal).max(initial=0.0), gram.precision(X))
    return float(residual.sum() if weight is None else residual @ weight)


class Columns:
    """Columns that grow in place, up to a limit, in Fortran order."""

    def __init__(self, n, limit):
        self.array, self.limit, self.used = np.empty((n, min(limit, 64)), order="F"), limit, 0

    def append(self, new):
        needed = self.used + new.shape[1]
        if needed > self.array.shape[1]:
            size = min(self.limit, max(needed, 2 * self.array.shape[1]))
            grown = np.empty((len(self.array), size), order="F")
            grown[:, : self.used] = self.array[:, : self.used]
            self.array = grown
        self.array[:, self.used : needed] = new
        self.used = needed
        return self.array[:, : self.used]


def _pool(residual, ties, floor, keep, draw):
    """Return rows from which pivots are taken, and what each must keep of its residual beside the others."""
    pool, typical = _largest(residual, ties) if draw is None else _drawn(residual, ties, floor, *draw)
    return pool[residual[pool] > floor], max(keep * typical, floor)


def _largest(residual, ties):
    """Return the rows of the largest residuals, the largest first, and how large that is.

    Residuals that agree to rounding are ordered by the content of their rows, so that the order of the rows
    has no part in the choice.
    """
    level = np.round(residual / residual.max(), _TIE_DIGITS)
    return np.lexsort((ties, -level))[:_POOL], residual.max()


def _drawn(residual, ties, floor, rank, n_before):
    """Return rows drawn with probabilities proportional to their residuals, and the median of these.

    The smallest of exponential variables with these rates, made of a number in [0, 1) for each row.
    """
    uniform = np.mod((ties + _GOLDEN * (n_before + 1)) * _SHUFFLE, 1.0)
    waiting = np.full_like(residual, np.inf)
    np.divide(-np.log1p(-uniform), residual, out=waiting, where=residual > floor)
    pool = np.argsort(waiting, kind="stable")[: min(_BLOCK, max(_SMALLEST_DRAW, rank // _DRAWS))]
    return pool, np.median(residual[pool])


def _choose(gram, X, Phi, weight, pool, size, floor):
    """Return up to `size` rows of a pool and the Cholesky factor of the residual among them, in their order.

    Each of them keeps more than `floor` of its variance beside those before it.
    """
    S = gram.block(X, pool) - Phi[pool] @ Phi[pool].T
    root = np.sqrt(weight[pool])
    factor, order, rank, _ = dpstrf(root[:, None] * S * root, tol=floor, lower=True)
    rank = min(rank, size)
    order = order[:rank] - 1
    L = np.tril(factor[:rank, :rank]) / root[order][:, None]
    return pool[order], L
