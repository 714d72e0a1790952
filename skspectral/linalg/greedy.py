"""Sparse greedy choice of landmarks: rows whose kernel functions explain the targets.

Pivoted Cholesky (`factors`) looks at the kernel alone. Here the targets have a say: Algorithm 1.1 of Smola &
Schoelkopf (2003), "Bayesian Kernel Methods", stopped by the gap between an upper and a lower bound.
"""

import numpy as np
from scipy.linalg import solve_triangular

from ..kernels.gram import product
from .factors import Columns, spanned_by_rows
from .rows import check_kernel_values

__all__ = ["SparseGreedy", "greedy_landmarks"]

_SPARSE_GAP, _DENSE_GAP = 0.025, 0.005
_EPS = np.finfo(np.float64).eps


def greedy_landmarks(
    gram,
    X,
    y,
    noise_ratio,
    *,
    gap=None,
    max_rank=None,
    weight=None,
    candidates=59,
    random_state=0,
    dense_dual=False,
    report=None,
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
    gap : float, default=None
        Where to stop. None means 0.025, that of the source, or 0.005 with `dense_dual`, whose bound leaves
        nothing to spare.
    max_rank : int, default=None
        Most landmarks; None means n.
    weight : ndarray of shape (n,), default=None
        Weights of the rows; those of weight 0 are not chosen.
    candidates : int, default=59
        Size of the random subsets; 59 contain one of the best 5 % with probability 0.95.
    random_state : int, default=0
        Seed of the subsets.
    dense_dual : bool, default=False
        Whether the lower bound comes from residuals at all rows (`SparseGreedy.tighten`), at O(n^2) for every
        fifth more of landmarks, instead of from a second greedy choice. The latter, that of the source, is
        weak for noisy, centred targets.
    report : callable, default=None
        report(n_rows=..., rank=..., gap=...) after every step.

    Returns
    -------
    Factor
        Of the chosen rows. O(candidates n r^2) time and O(n r) memory.
    """
    search = SparseGreedy(
        gram, X, y, noise_ratio, weight=weight, candidates=candidates, random_state=random_state
    )
    largest = search.n if max_rank is None else max_rank
    if not 1 <= largest <= search.n:
        raise ValueError(f"max_rank must lie between 1 and the number of rows, {search.n}; got {max_rank!r}.")
    if gap is None:
        gap = _DENSE_GAP if dense_dual else _SPARSE_GAP
    next_look = 8
    while len(search.chosen) < largest and search.gap > gap and search.step(dual=not dense_dual):
        if dense_dual and len(search.chosen) >= next_look:
            next_look = 1.2 * len(search.chosen)
            search.tighten()
        if report is not None:
            report(n_rows=search.n, rank=len(search.chosen), gap=search.gap)
    return spanned_by_rows(gram, X, np.array(search.chosen or [0]), weight=weight)


class SparseGreedy:
    """Sparse greedy minimisation of two quadratic forms whose minima add up to -|y|^2/2.

    With g the noise ratio,

        L(a)  = -y'Ka + a'(gK + K'K)a/2      over a supported on `chosen`
        L*(a) = -y'a + a'(gI + K)a/2         over a supported on `chosen_dual`

    (eqs. 78, 79), and L >= min L >= -|y|^2/2 - g L* (eq. 80). Each step adds the best of a random subset to
    both supports, by updates of Cholesky factors. With weights W, W^1/2 K W^1/2 and W^1/2 y stand for
    K and y.

    Parameters
    ----------
    gram, X, y, noise_ratio, weight, candidates, random_state
        As in `greedy_landmarks`.

    Attributes
    ----------
    chosen, chosen_dual : list of int
        The supports.
    upper, lower : float
        Bounds on min L.
    """

    def __init__(self, gram, X, y, noise_ratio, *, weight=None, candidates=59, random_state=0):
        self.gram, self.X, self.g = gram, X, float(noise_ratio)
        self.n, self.candidates = X.shape[0], candidates
        self.root = None if weight is None else np.sqrt(weight)
        self.Y = np.asarray(y, dtype=np.float64).reshape(self.n, -1)
        self.diagonal = np.array(gram.diagonal(X), dtype=np.float64)
        check_kernel_values(self.diagonal)
        if weight is not None:
            self.Y = self.root[:, None] * self.Y
            self.diagonal *= weight
        # K and g in units of the largest variance, so that their squares are numbers; L is the same in any.
        self.unit = float(np.abs(self.diagonal).max(initial=0.0)) or 1.0
        self.diagonal, self.g = self.diagonal / self.unit, self.g / self.unit
        self.rng = np.random.default_rng(random_state)
        self.order = np.argsort(gram.fingerprint(X), kind="stable")  # draws do not depend on the rows' order
        self.chosen, self.chosen_dual = [], []
        self.columns = Columns(self.n, self.n)  # K(X, chosen)
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

    def step(self, *, dual):
        """Add one basis function to L, and to L* on request; return whether the first has gained any."""
        gained = self._step_primal()
        if dual:
            self._step_dual()
        return gained

    def tighten(self):
        """Take L* at a* = (y - f)/g, f the fit of the chosen functions, for the lower bound: a pass over K.

        a* is optimal where f is, so this bound closes with `upper`, at any level of noise; O(n) memory.
        """
        f = self.columns.array[:, : self.columns.used] @ self.primal.solution()
        v = self.Y - f
        unweighted = v if self.root is None else self.root[:, None] * v
        quadratic = float((unweighted * (product(self.gram, self.X, unweighted) / self.unit)).sum())
        scaled = -float((self.Y * v).sum()) + 0.5 * float((v**2).sum()) + 0.5 * quadratic / self.g
        self.dense_lower = max(self.dense_lower, -0.5 * float((self.Y**2).sum()) - scaled)

    def _columns(self, rows):
        K = self.gram.columns(self.X, rows) / self.unit
        return K if self.root is None else self.root[:, None] * K * self.root[rows]

    def _block(self, rows):
        K = self.gram.block(self.X, rows) / self.unit
        return K if self.root is None else self.root[rows, None] * K * self.root[rows]

    def _draw(self, taken):
        free = np.ones(self.n, dtype=bool) if self.root is None else self.root > 0
        free[taken] = False
        free = self.order[free[self.order]]
        return self.rng.choice(free, min(self.candidates, len(free)), replace=False)

    def _step_primal(self):
        among = self._draw(self.chosen)
        if not len(among):
            return False
        C, new = self.columns.array[:, : self.columns.used], self._columns(among)
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
        cross = self._block(both)[: len(self.chosen_dual), len(self.chosen_dual) :]
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
