"""Low-rank factors of a kernel matrix that is never formed.

A `Factor` is Phi with K = Phi Phi' + E, E positive semi-definite with known trace tau: the error of
everything computed from Phi is bounded by tau (`Factor` docstring). Columns of K are made on demand
and all work is in blocks of matrix products.

This room knows kernels only as something with columns and a diagonal (see `gram`).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpstrf

from .exceptions import IndefiniteKernelError

__all__ = [
    "Factor",
    "FeatureMap",
    "SparseGreedy",
    "greedy_landmarks",
    "independent",
    "nystroem",
    "pivoted_cholesky",
]

_EPS = np.finfo(np.float64).eps
# Candidates looked at together, and the share of the largest residual that a pivot of the block must keep
# after the others of its block.
_POOL, _BLOCK, _KEEP = 256, 128, 0.1
# Columns of K made at a time where all of it must be seen once.
_PASS_BLOCK = 512


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
    For every noise ratio g, with K~ = Phi Phi' (maths 10; Cawley & Talbot sec. II-E):

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
        K_cross = gram.cross(X, self.landmarks)
        return solve_triangular(self.L, K_cross.T, lower=True, overwrite_b=True, check_finite=False).T


def pivoted_cholesky(gram, X, *, tau=0.0, rank=None, weight=None):
    """Factorise K by a blocked Cholesky with diagonal pivoting, stopping at a trace or a rank.

    Each round takes the rows with the largest residual variances, keeps those of them that stay large
    after the others (a small pivoted Cholesky among themselves), and only then makes their columns of K.
    O(n r^2) time, O(n r) memory. There is always one pivot, also where the trace is small enough without.

    Parameters
    ----------
    gram : gram object
        The kernel: `columns`, `diagonal` and, for new inputs, `cross`.
    X : array of n rows
        Inputs (or the kernel matrix, for a precomputed kernel).
    tau : float, default=0
        Stop when the weighted trace of the residual is no larger.
    rank : int, default=None
        Stop at this rank; None means n.
    weight : ndarray of shape (n,), default=None
        Weights of the rows in the trace.

    Returns
    -------
    Factor
    """
    if tau < 0:
        raise ValueError(f"tau is the trace of what is left out and must not be negative, got {tau!r}.")
    diagonal = np.array(gram.diagonal(X), dtype=np.float64)
    n = len(diagonal)
    rank = n if rank is None else rank
    if not 1 <= rank <= n:
        raise ValueError(f"rank must lie between 1 and the number of rows, {n}; got {rank!r}.")
    weight = np.ones(n) if weight is None else weight
    residual = diagonal * weight
    largest = np.abs(residual).max(initial=0.0)
    # in float32 only where the caller made the matrix: its entries are trusted to that precision
    eps = np.finfo(np.float32).eps if X.dtype == np.float32 else _EPS
    residual = _nonnegative(residual, largest, eps)
    if largest == 0:
        return _nothing(gram, X, n)
    floor = 16.0 * eps * largest
    Phi, pivots = np.empty((n, 0), order="F"), np.empty(0, dtype=int)
    store = _Columns(n, rank)
    while len(pivots) < rank and (residual.sum() > tau or not len(pivots)) and residual.max() > floor:
        chosen, L_block = _choose(gram, X, Phi, residual, weight, min(_BLOCK, rank - len(pivots)), floor)
        if not len(chosen):
            break  # what is left of the residual is rounding
        new = gram.columns(X, chosen)
        new = new - Phi @ Phi[chosen].T
        new = solve_triangular(L_block, new.T, lower=True, overwrite_b=True, check_finite=False).T
        Phi = store.append(new)
        pivots = np.append(pivots, chosen)
        residual -= weight * np.einsum("ij,ij->i", new, new)
        residual[chosen] = 0.0
        residual = _nonnegative(residual, largest, eps)
    # The rows of the pivots are the Cholesky factor of K among them; above its diagonal is rounding.
    return Factor(Phi, gram.rows(X, pivots), pivots, np.tril(Phi[pivots]), float(residual.sum()))


def nystroem(gram, X, landmarks, *, weight=None):
    """Return the factor of given landmarks: Phi = K(X, Z) L^-T.

    Parameters
    ----------
    gram, X, weight
        As in `pivoted_cholesky`.
    landmarks : array of r inputs
        Like rows of X. Landmarks that others span already are dropped.
    """
    if landmarks.shape[1:] != X.shape[1:]:
        raise ValueError(
            f"landmarks have shape {landmarks.shape} but the inputs have {X.shape[1]} columns. Pass "
            "landmarks with the same columns as X."
        )
    landmarks, L = independent(gram, landmarks)
    Phi = FeatureMap(landmarks, L)(gram, X)
    residual = np.maximum(gram.diagonal(X) - np.einsum("ij,ij->i", Phi, Phi), 0.0)
    tau = float(residual.sum() if weight is None else residual @ weight)
    return Factor(Phi, landmarks, None, L, tau)


def independent(gram, landmarks):
    """Return the landmarks that are numerically independent, and the Cholesky factor of K among them."""
    kept, L = _independent(gram.cross(landmarks, landmarks))
    return landmarks[kept], L


def _independent(K):
    """Return which rows of K are numerically independent, in their order, and its Cholesky factor there."""
    _, order, rank, _ = dpstrf(K, tol=len(K) * _EPS * np.diag(K).max() * 8.0, lower=True)
    if rank == 0:  # a kernel that is 0 at every landmark
        return np.zeros(1, dtype=int), np.ones((1, 1))
    kept = np.sort(order[:rank] - 1)
    K = K[np.ix_(kept, kept)]
    K.flat[:: len(K) + 1] += len(K) * _EPS * np.diag(K).max()  # what rounding may have taken
    return kept, cholesky(K, lower=True, check_finite=False)


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


def greedy_landmarks(
    gram, X, y, noise_ratio, *, gap=0.025, max_rank=None, candidates=59, random_state=0, dense_dual=False
):
    """Choose rows as landmarks by how well they explain targets (Smola & Schoelkopf, Algorithm 1.1).

    Basis functions are added one by one, each the best of a random subset, until the attained minimum of the
    ridge problem is certified to be within `gap` of the optimum over all rows, relatively (their eq. 84).

    Parameters
    ----------
    gram, X
        As in `pivoted_cholesky`.
    y : ndarray of shape (n,) or (n, m)
        Targets; for a model with an intercept, centred. Several are explained together.
    noise_ratio : float
        The penalty g, their sigma^2.
    gap : float, default=0.025
        Where to stop.
    max_rank : int, default=None
        Most landmarks; None means n.
    candidates : int, default=59
        Size of the random subsets; 59 contain one of the best 5 % with probability 0.95.
    random_state : int, default=0
        Seed of the subsets.
    dense_dual : bool, default=False
        Whether the lower bound may also come from residuals at all rows (`SparseGreedy.tighten`), at O(n^2)
        for every tenth more of landmarks. The sparse bound of the source is weak for noisy, centred targets.

    Returns
    -------
    Factor
        Of the chosen rows. O(candidates n r^2) time and O(n r) memory.
    """
    search = SparseGreedy(gram, X, y, noise_ratio, candidates=candidates, random_state=random_state)
    largest = search.n if max_rank is None else max_rank
    if not 1 <= largest <= search.n:
        raise ValueError(f"max_rank must lie between 1 and the number of rows, {search.n}; got {max_rank!r}.")
    next_look = 8
    while len(search.chosen) < largest and search.gap > gap and search.step():
        if dense_dual and len(search.chosen) >= next_look:
            next_look = 1.1 * len(search.chosen)
            search.tighten()
    return _of_pivots(gram, X, np.array(search.chosen or [0]))


class SparseGreedy:
    """Sparse greedy minimisation of two quadratic forms whose minima add up to -|y|^2/2.

    With g the noise ratio,

        L(a)  = -y'Ka + a'(gK + K'K)a/2      over a supported on `chosen`
        L*(a) = -y'a + a'(gI + K)a/2         over a supported on `chosen_dual`

    (eqs. 78, 79), and L >= min L >= -|y|^2/2 - g L* (eq. 80). Each step adds the best of a random subset to
    both supports, by updates of Cholesky factors.

    Parameters
    ----------
    gram, X, y, noise_ratio, candidates, random_state
        As in `greedy_landmarks`.

    Attributes
    ----------
    chosen, chosen_dual : list of int
        The supports.
    upper, lower : float
        Bounds on min L.
    """

    def __init__(self, gram, X, y, noise_ratio, *, candidates=59, random_state=0):
        self.gram, self.X, self.g = gram, X, float(noise_ratio)
        self.Y = np.asarray(y, dtype=np.float64).reshape(X.shape[0], -1)
        self.n, self.candidates = len(self.Y), candidates
        self.rng = np.random.default_rng(random_state)
        self.diagonal = np.array(gram.diagonal(X), dtype=np.float64)
        self.chosen, self.chosen_dual = [], []
        self.columns = _Columns(self.n, self.n)  # K(X, chosen)
        self.primal, self.dual = _GrowingSolve(self.Y.shape[1]), _GrowingSolve(self.Y.shape[1])
        self.dense_lower = -np.inf

    @property
    def upper(self):
        """The attained L."""
        return -0.5 * self.primal.explained

    @property
    def lower(self):
        """-|y|^2/2 - g L*, no larger than min L."""
        sparse = -0.5 * float((self.Y**2).sum()) + 0.5 * self.g * self.dual.explained
        return max(sparse, self.dense_lower)

    @property
    def gap(self):
        """Relative distance of the bounds, eq. 84; 0 for targets that are 0."""
        size = -(self.upper + self.lower)
        return 2.0 * (self.upper - self.lower) / size if size > 0 else 0.0

    def step(self):
        """Add one basis function to each form; return whether the first has gained any."""
        gained = self._step_primal()
        self._step_dual()
        return gained

    def tighten(self):
        """Take L* at a* = (y - f)/g, f the fit of the chosen functions, for the lower bound: a pass over K.

        a* is optimal where f is, so this bound closes with `upper`, at any level of noise; O(n) memory.
        """
        f = self.columns.array[:, : self.columns.used] @ self.primal.solution()
        v = self.Y - f
        quadratic = 0.0
        for i in range(0, self.n, _PASS_BLOCK):
            rows = np.arange(i, min(i + _PASS_BLOCK, self.n))
            quadratic += float((v[rows] * (self.gram.columns(self.X, rows).T @ v)).sum())
        scaled = -float((self.Y * v).sum()) + 0.5 * float((v**2).sum()) + 0.5 * quadratic / self.g
        self.dense_lower = max(self.dense_lower, -0.5 * float((self.Y**2).sum()) - scaled)

    def _draw(self, taken):
        free = np.ones(self.n, dtype=bool)
        free[taken] = False
        free = np.flatnonzero(free)
        return self.rng.choice(free, min(self.candidates, len(free)), replace=False)

    def _step_primal(self):
        among = self._draw(self.chosen)
        if not len(among):
            return False
        C, new = self.columns.array[:, : self.columns.used], self.gram.columns(self.X, among)
        cross = C.T @ new + self.g * new[self.chosen]
        size = np.einsum("ij,ij->j", new, new) + self.g * self.diagonal[among]
        best = self.primal.append_best(cross, size, new.T @ self.Y)
        if best is None:
            return False
        self.chosen.append(int(among[best]))
        self.columns.append(new[:, [best]])
        return True

    def _step_dual(self):
        among = self._draw(self.chosen_dual)
        if not len(among):
            return
        both = np.concatenate([np.array(self.chosen_dual, dtype=int), among])
        cross = self.gram.block(self.X, both)[: len(self.chosen_dual), len(self.chosen_dual) :]
        best = self.dual.append_best(cross, self.diagonal[among] + self.g, self.Y[among])
        if best is not None:
            self.chosen_dual.append(int(among[best]))


class _GrowingSolve:
    """b'A^-1 b for a growing positive definite A = R R', with the choice of what it grows by."""

    def __init__(self, m):
        self.R = np.empty((0, 0), order="F")
        self.half = np.empty((0, m))  # R^-1 b
        self.explained = 0.0

    def append_best(self, cross, size, b):
        """Append the candidate that raises b'A^-1 b most and return it, or None if all are dependent.

        cross (r, k), size (k,) and b (k, m) are the new columns, diagonal entries and right-hand sides.
        """
        r = len(self.half)
        T = solve_triangular(self.R[:r, :r], cross, lower=True, check_finite=False) if r else cross
        pivot = size - np.einsum("ij,ij->j", T, T)
        left = b - T.T @ self.half
        usable = pivot > 1e3 * _EPS * size
        if not usable.any():
            return None
        gain = np.where(usable, (left**2).sum(axis=1) / np.where(usable, pivot, 1.0), -1.0)
        best = int(gain.argmax())
        self._append(T[:, best], np.sqrt(pivot[best]), left[best])
        self.explained += float(gain[best])
        return best

    def solution(self):
        """Return A^-1 b."""
        r = len(self.half)
        return solve_triangular(self.R[:r, :r], self.half, lower=True, trans="T", check_finite=False)

    def _append(self, row, root, left):
        r = len(self.half)
        if r == len(self.R):
            grown = np.zeros((max(64, 2 * r),) * 2, order="F")
            grown[:r, :r] = self.R
            self.R = grown
        self.R[r, :r], self.R[r, r] = row, root
        self.half = np.concatenate([self.half, left[None] / root])


def _of_pivots(gram, X, pivots):
    """Return the factor of given rows, without those that others span already."""
    K = gram.block(X, pivots)
    kept, L = _independent(K)
    pivots = pivots[kept]
    columns = gram.columns(X, pivots).T
    Phi = solve_triangular(L, columns, lower=True, overwrite_b=True, check_finite=False).T
    tau = float(np.maximum(gram.diagonal(X) - np.einsum("ij,ij->i", Phi, Phi), 0.0).sum())
    return Factor(Phi, gram.rows(X, pivots), pivots, L, tau)


class _Columns:
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


def _choose(gram, X, Phi, residual, weight, size, floor):
    """Return up to `size` pivots and the Cholesky factor of the residual among them, in their order."""
    pool = np.argpartition(residual, -min(_POOL, len(residual)))[-min(_POOL, len(residual)) :]
    pool = pool[residual[pool] > floor]
    S = gram.block(X, pool) - Phi[pool] @ Phi[pool].T
    root = np.sqrt(weight[pool])
    largest = residual.max()
    scaled = root[:, None] * S * root
    factor, order, found, _ = dpstrf(scaled, tol=max(_KEEP * largest, floor), lower=True)
    found = min(found, size)
    order = order[:found] - 1
    L = np.tril(factor[:found, :found]) / root[order][:, None]
    return pool[order], L
