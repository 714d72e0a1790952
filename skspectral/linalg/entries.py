"""Observed entries of several outputs as one dense system, for targets with holes.

Entries (i, j), row i and output j, are ordered by output. In weighted units their covariance and mean are

    C = Vg_jk K_ii' + Ve_jk [i = i'],    F beta = (columns of each output's own mean functions),

and P = C^-1 - C^-1 Q (Q'C^-1 Q)^-1 Q'C^-1 with Q an orthonormal basis of all mean functions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

from .rows import Rows

__all__ = ["Entries", "EntrySystem"]

# Draws from the model whose average stands for the expected information.
_PROBES = 64
# Entries with holes, relative to those that were observed, up to which it is exact.
_DENSE = 2


@dataclass(frozen=True)
class Entries:
    """Which entries were observed, their weighted values, and each output's mean functions.

    Attributes
    ----------
    seen : ndarray of shape (n, m)
        Which entries were observed.
    y : ndarray of shape (N,)
        Their weighted, standardised values.
    root : ndarray of shape (n,)
        Square roots of the weights.
    means : tuple of Rows
        Weights and mean functions of each output's observed rows.
    """

    seen: np.ndarray
    y: np.ndarray
    root: np.ndarray
    means: tuple

    @classmethod
    def make(cls, Y, scale, seen, weight, basis):
        """Return the entries of targets Y (n, m) in units of `scale` (m,)."""
        n, m = Y.shape
        root = np.ones(n) if weight is None else np.sqrt(weight)
        y = np.concatenate([root[seen[:, j]] * Y[seen[:, j], j] / scale[j] for j in range(m)])
        means = tuple(
            Rows.make(rows.sum(), None if basis is None else basis[rows], root[rows] ** 2) for rows in seen.T
        )
        return cls(seen, y, root, means)

    @cached_property
    def row(self):
        """Row of every entry, (N,)."""
        return np.concatenate([np.flatnonzero(rows) for rows in self.seen.T])

    @cached_property
    def output(self):
        """Output of every entry, (N,)."""
        return np.repeat(np.arange(self.seen.shape[1]), self.seen.sum(axis=0))

    @cached_property
    def Q(self):
        """Orthonormal mean functions of all outputs, (N, q)."""
        return block_diag(*(rows.Q for rows in self.means))

    @cached_property
    def same_row(self):
        """Which pairs of entries are of one row, as two index arrays."""
        return np.nonzero(self.row[:, None] == self.row)

    def scattered(self, values):
        """Return values (N,) of entries as a matrix (n, m), 0 in its holes."""
        M = np.zeros(self.seen.shape)
        M[self.row, self.output] = values
        return M

    def gathered(self, M):
        """Return the observed entries of matrices (..., n, m), (..., N)."""
        return M[..., self.row, self.output]

    def weighted(self, K):
        """Return W^1/2 K W^1/2."""
        return self.root[:, None] * K * self.root

    def solve(self, K, Vg, Ve):
        """Return the `EntrySystem` of weighted kernel values and covariances, None where it is singular."""
        C = Vg[np.ix_(self.output, self.output)] * K[np.ix_(self.row, self.row)]
        one, other = self.same_row
        C[one, other] += Ve[self.output[one], self.output[other]]
        factor, info = dpotrf(C.T, lower=True, clean=True, overwrite_a=True)
        if info:
            return None
        log_det = 2.0 * np.log(np.diag(factor)).sum()
        z = np.random.default_rng(0).normal(size=(len(C), _PROBES))  # fixed: same input, same output
        probes, _ = dtrtrs(factor, z, lower=True, trans=1)
        half, _ = dpotri(factor, lower=True, overwrite_c=True)
        half.flat[:: len(half) + 1] *= 0.5
        return EntrySystem(self, half + half.T, float(log_det), probes)

    def row_sums(self, S, K):
        """Return sums of S_ee' K_ii' over each pair of outputs, and of S_ee' within rows, (m, m) both."""
        m = self.seen.shape[1]
        ends = np.append(0, np.cumsum(self.seen.sum(axis=0)))
        parts = [slice(ends[j], ends[j + 1]) for j in range(m)]
        product = S * K[np.ix_(self.row, self.row)]
        by_kernel = np.array([[product[p, q].sum() for q in parts] for p in parts])
        one, other = self.same_row
        within = np.zeros((m, m))
        np.add.at(within, (self.output[one], self.output[other]), S[one, other])
        return by_kernel, within

    def by_rows(self, S, V):
        """Return sum_jk V_jk S_(ij)(i'k), (n, n)."""
        n = len(self.seen)
        by_column = np.zeros((n, len(self.y)))
        product = S * V[np.ix_(self.output, self.output)]
        np.add.at(by_column, self.row, product)
        total = np.zeros((n, n))
        np.add.at(total.T, self.row, by_column.T)
        return total


@dataclass(frozen=True)
class EntrySystem:
    """C^-1 of the observed entries and what follows.

    Attributes
    ----------
    entries : Entries
        The entries.
    inverse : ndarray of shape (N, N)
        C^-1.
    log_det : float
        log |C|.
    probes : ndarray of shape (N, k)
        C^-1 times draws from N(0, C).
    """

    entries: Entries
    inverse: np.ndarray
    log_det: float
    probes: np.ndarray

    @cached_property
    def _mean(self):
        """C^-1 Q and (Q'C^-1 Q)^-1."""
        CQ = self.inverse @ self.entries.Q
        return CQ, np.linalg.inv(self.entries.Q.T @ CQ)

    @cached_property
    def P(self):
        """C^-1 outside the mean functions, (N, N)."""
        CQ, G_inv = self._mean
        return self.inverse - CQ @ G_inv @ CQ.T if CQ.shape[1] else self.inverse

    @cached_property
    def dual(self):
        """P y, (N,)."""
        return self.P @ self.entries.y

    def dual_probes(self):
        """Return P z of draws z from the model, (N, k)."""
        CQ, G_inv = self._mean
        return self.probes - CQ @ (G_inv @ (self.entries.Q.T @ self.probes))

    @property
    def is_dense(self):
        """Whether `traces` take no more than a few times the memory of P."""
        return self.entries.seen.size <= _DENSE * len(self.entries.y)

    def traces(self, K, back):
        """Return tr(P_dj A P_kc B) over combinations d, j, k, c of outputs, for A, B = K, K; K, I; and I, I.

        P_dj is the (n, n) block of P for two columns of `back`, 0 in the holes: three arrays (k, k, k, k), at
        the cost of k^2 products of (n, n) matrices.
        """
        (n, m), entries, k = self.entries.seen.shape, self.entries, back.shape[1]
        P = np.zeros((m, n, m, n))
        P[entries.output[:, None], entries.row[:, None], entries.output, entries.row] = self.P
        blocks = np.einsum("xa,xiyj,yb->abij", back, P, back, optimize=True)
        by_kernel = blocks @ K
        return [
            (A.reshape(k * k, -1) @ B.transpose(0, 1, 3, 2).reshape(k * k, -1).T).reshape(k, k, k, k)
            for A, B in ((by_kernel, by_kernel), (by_kernel, blocks), (blocks, blocks))
        ]

    @property
    def value(self):
        """-2 log evidence in weighted, standardised units, without (N - q) log 2 pi."""
        log_det = self.log_det - np.linalg.slogdet(self._mean[1])[1]
        return float(log_det + self.entries.y @ self.dual)

    def mean_coefficients(self):
        """Return the coefficients of the mean functions, (functions, m), in standardised units."""
        CQ, G_inv = self._mean
        theta = G_inv @ (CQ.T @ self.entries.y)
        ends = np.append(0, np.cumsum([rows.n_mean for rows in self.entries.means]))
        columns = [rows.R_inv @ theta[ends[j] : ends[j + 1]] for j, rows in enumerate(self.entries.means)]
        return np.column_stack(columns)

    def mean_covariances(self):
        """Return the covariance of the coefficients of each output, (m, functions, functions)."""
        G_inv, blocks, start = self._mean[1], [], 0
        for rows in self.entries.means:
            part = slice(start, start + rows.n_mean)
            blocks.append(rows.R_inv @ G_inv[part, part] @ rows.R_inv.T)
            start = part.stop
        return np.stack(blocks)

    def left_out(self):
        """Yield rows, their entries I, and mean residual and variance of these from all other rows.

        The residual is P_II^-1 (Py)_I, and its covariance P_II^-1.
        """
        row = self.entries.row
        order = np.argsort(row, kind="stable")
        rows, starts = np.unique(row[order], return_index=True)
        for i, chosen in zip(rows, np.split(order, starts[1:]), strict=True):
            inverse = np.linalg.pinv(self.P[np.ix_(chosen, chosen)], hermitian=True)
            yield i, chosen, inverse @ self.dual[chosen], np.diag(inverse)

    def explained(self, c, basis, outputs):
        """Return what the entries explain of the covariance of new values, and what the mean adds, (k, k).

        Parameters
        ----------
        c : ndarray of shape (N, k)
            Covariances of the entries and the new values.
        basis : ndarray of shape (k, functions) or None
            Mean functions of the new values.
        outputs : ndarray of shape (k,)
            Their outputs.
        """
        total = c.T @ (self.inverse @ c)
        if basis is None:
            return total
        CQ, G_inv = self._mean
        gap = self._new_functions(basis, outputs) - CQ.T @ c
        return total - gap.T @ G_inv @ gap

    def _new_functions(self, basis, outputs):
        """Return the mean functions of new values in the basis Q, (q, k)."""
        blocks = [
            np.where(outputs == j, rows.R_inv.T @ basis.T, 0.0) for j, rows in enumerate(self.entries.means)
        ]
        return np.concatenate(blocks)
