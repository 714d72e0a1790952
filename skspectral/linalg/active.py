"""What a few functions, each with a prior variance of its own, leave for all the others to explain."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.linalg.lapack import dgeqrf, dorgqr, dtrtri

from .members import Members

__all__ = ["FAINT", "Active", "FunctionValues", "independent"]

# Share of phi'phi below which a function is taken for a combination of the active ones.
_DEPENDENT = 1e-10
# Dimensions that all columns may have, at first; random combinations of columns to check it; what is left of
# these then, what more dimensions may remove, and what is left on some of the rows where they may not.
_FEW, _CHECKS, _NEGLIGIBLE, _HOPEFUL, _HOPELESS = 64, 4, 1e-14, 1e-7, 1e-6
# Columns that LAPACK treats at a time.
_BLOCK = 64
# phi'C^-1 phi of a function that enters below which too many of its digits are lost: differences of numbers
# of size 1 have 16 of them, and of its logarithm the evidence is made.
FAINT = 1e-9
# Steps with each of which T turns. More of them are taken in one: that is another model of the active
# functions, but fewer turns of all functions.
_FEW_TURNS = 2
# Numbers of a matrix that a cache holds: there, products with one column at a time are fast.
_CACHED = 2**17
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class FunctionValues:
    """Functions and a target on the rows, or in any orthonormal basis of a space that holds the functions.

    Attributes
    ----------
    Phi : ndarray of shape (n, k)
        One column for each function, of length 1 or 0.
    y : ndarray of shape (n,)
        The target.
    outside : float
        Squared length of what the target has outside of that space.
    """

    Phi: np.ndarray
    y: np.ndarray
    outside: float = 0.0

    @classmethod
    def on_rows(cls, Phi, Y):
        """Return the functions with each column of Y (n, m), on fewer than n coordinates where that is so."""
        n, k = Phi.shape
        if n > 2 * k:
            R, coordinates, outside = _triangular(Phi, Y)
            return [cls(R, y, float(r)) for y, r in zip(coordinates.T, outside, strict=True)]
        Q = _span_of_few(Phi)
        return [cls(Phi, y) for y in Y.T] if Q is None else cls.in_basis(Q, Q.T @ Phi, Y)

    @classmethod
    def in_basis(cls, Q, coordinates, Y):
        """Return functions of given coordinates (r, k) in an orthonormal basis Q, with each column of Y."""
        projected = Q.T @ Y
        outside = np.sum((Y - Q @ projected) ** 2, axis=0)
        return [cls(coordinates, y, float(r)) for y, r in zip(projected.T, outside, strict=True)]

    @cached_property
    def yy(self):
        """Squared length of the target."""
        return float(self.y @ self.y) + self.outside

    @cached_property
    def squares(self):
        """Squared lengths of the columns, (k,)."""
        return _squares(self.Phi)

    def __len__(self):
        return self.Phi.shape[1]

    @cached_property
    def _products(self):
        return self.Phi.T @ self.Phi

    def products_with(self, j):
        """Return the products of column j with all columns, (k,)."""
        return self._products[j] if self.Phi.size > _CACHED else self.Phi[:, j] @ self.Phi

    @cached_property
    def products_with_target(self):
        """Products of all columns with the target, (k,)."""
        return self.y @ self.Phi


class Evidence(NamedTuple):
    """What the evidence of a model depends on: y'C^-1 y, log|C| and y'y."""

    rest: float
    log_det: float
    yy: float


class Active:
    """The model y ~ N(0, C), C = I + Phi diag(d) Phi', of functions Phi with prior variances d >= 0.

    A function is active where d > 0. Noise has variance 1: d are prior variances relative to the noise.

    Parameters
    ----------
    values : FunctionValues
        All functions and the target.
    d : ndarray of shape (k,)
        Prior variances, 0 for a function that is not active.

    Attributes
    ----------
    members : ndarray of shape (M,)
        Active functions, in the order of their coefficients.
    undetermined : ndarray of shape (M,)
        Posterior over prior variance of their coefficients, 1 - d S without its cancellation.
    rest : float
        y'C^-1 y.
    log_det : float
        log|C|.
    S, Q : ndarray of shape (k,)
        phi_i'C^-1 phi_i and phi_i'C^-1 y of every function; good for those that are not active.
    S_members, Q_members : ndarray of shape (M,)
        The same of active functions, without differences of large numbers.
    is_fresh : bool
        Whether all of this is from the columns, or from what was known before some steps.

    Notes
    -----
    With the QR decomposition of the active columns above an identity, [Phi D^1/2; I] = [Q_1; Q_2] R,

        C^-1 = I - Q_1 Q_1',   log|C| = 2 log|R|,   Q_2 = R^-1,
        covariance of coefficients D^1/2 Q_2 Q_2' D^1/2.

    Orthogonality keeps the digits that the normal equations lose where functions are alike and noise is
    small, which is the ordinary case for smooth kernels. A model afresh costs O(n M^2), and n M k where S and
    Q of all functions are asked for. `Growth` and `Members` make many changes at less cost; after these the
    model may `carry_on` with what they know. T = Q_1'Phi then turns with the coordinates of Q_2, which costs
    O(M^2 k) and hardly any digits: every turn is orthogonal, or as well conditioned as the change is small.
    """

    def __init__(self, values, d):
        self.values = values
        self.d = np.array(d, dtype=np.float64)
        self.refresh()

    @property
    def yy(self):
        """Squared length of the target."""
        return self.values.yy

    def refresh(self):
        """Compute everything from d."""
        a = np.flatnonzero(self.d)
        M, d = len(a), self.d[a]
        factor, tau = _reflectors(self._augmented(a, np.sqrt(d)))
        Q2 = dtrtri(factor[:M, :M])[0] * _upper(M) if M else np.zeros((0, 0))
        log_det = 2.0 * float(np.log(np.abs(factor.diagonal()[:M])).sum())
        w, rest = factor[:M, M], float(factor[M, M] ** 2) + self.values.outside
        self._become(a, Members(d, Q2, w, Q2 @ w, rest, log_det, self.yy), (factor, tau))

    def carry_on(self, a, members, T):
        """Become the model of functions a that `members` describes, with its T = Q_1'Phi (M, k)."""
        self.d[:] = 0.0
        self.d[a] = members.d
        self._become(a, members, None)
        self._T = T

    def follow(self, kept, members, turns):
        """Become the model of some active functions, by their positions, to which some steps led.

        Where the steps are few, T takes the `turns` of each of them.
        """
        if self._T is None or len(turns) > _FEW_TURNS:
            self.keep(kept, members.d)
        else:
            self.carry_on(self.members[kept], members, _turned(self._T, *turns))

    def keep(self, kept, d):
        """Let all active functions go but some, by their positions, which have prior variances d then.

        By what is known of the others, unless that is nothing or so many leave that it takes longer than
        afresh.
        """
        a, left, gone = self.members[kept], len(kept), len(self.members) - len(kept)
        # multiplications for each function: by the reflectors of those that leave, and by Q_1
        is_known = self._T is not None and gone * (left + len(self.members)) < left * len(self.values.y)
        turned = self._in_one_step(kept, d) if is_known else None
        if turned is not None:
            self.carry_on(a, *turned)
        else:
            self.d[:] = 0.0
            self.d[a] = d
            self.refresh()

    def _in_one_step(self, kept, d):
        """Return the model of some active functions and its T; None where rounding leaves no such model."""
        fewer, T = self._alone, self._T
        if len(kept) < len(fewer.d):
            leave = np.ones(len(fewer.d), dtype=bool)
            leave[kept] = False
            fewer = fewer.without(leave)
            T = _turned(T, fewer.turn)
        there = fewer.scaled(np.log(d / fewer.d))
        return None if there is None else (there, _turned(T, there.turn))

    def _become(self, a, members, reflectors):
        self.members, self._alone, self._reflectors = a, members, reflectors
        self.rest, self.log_det = members.rest, members.log_det
        self._on_rows = self._T = self._watched = None

    @property
    def is_fresh(self):
        """Whether the model is from the columns themselves."""
        return self._reflectors is not None

    @property
    def undetermined(self):
        """Posterior over prior variance of the coefficients, (M,)."""
        return self._alone.undetermined

    @property
    def S_members(self):
        """phi_i'C^-1 phi_i of active functions."""
        return (1.0 - self.undetermined) / self._alone.d

    @property
    def Q_members(self):
        """phi_i'C^-1 y of active functions."""
        return self._alone.pull / np.sqrt(self._alone.d)

    def _augmented(self, a, root):
        """Return [Phi D^1/2, y; I, 0]: the last column of its R is Q_1'y above the root of y'C^-1 y."""
        n, M = len(self.values.y), len(a)
        columns = np.zeros((n + M, M + 1), order="F")
        np.multiply(self.values.Phi[:, a], root, out=columns[:n, :M])
        columns[:n, M] = self.values.y
        columns.flat[n * (M + 1) :: M + 2] = 1.0
        return columns

    def alone(self):
        """Return the model of the active functions, all others out of sight."""
        return self._alone

    def admit(self, j, d):
        """Let function j enter with prior variance d."""
        S, Q, T = self.watch()
        self._enlarge(self.members, self._alone, T, j, d, float(S[j]), float(Q[j]))

    def exchange(self, i, j, d, S, Q):
        """Let function j enter with prior variance d in the place of the i-th active one.

        S and Q are those of function j without that one, see `in_place_of`.
        """
        gone, (_, _, T) = np.arange(len(self.members)) == i, self.watch()
        fewer = self._alone.without(gone)
        self._enlarge(self.members[~gone], fewer, _turned(T, fewer.turn), j, d, S, Q)

    def _enlarge(self, a, members, T, j, d, S, Q):
        """Become the model of functions a, with `members` and T, and function j: see `Growth`."""
        new = np.append(a, j)
        if S < FAINT:
            d_new = np.append(members.d, d)
            self.d[:] = 0.0
            self.d[new] = d_new
            self.refresh()
            return
        size, root = math.sqrt(1.0 / d + S), math.sqrt(d)
        t = (self.values.products_with(j) - T[:, j] @ T) / size
        corner, w = np.array([[math.sqrt(1.0 + d * S)]]), np.array([Q / size])
        larger = members.bordered(np.array([d]), root * T[:, j : j + 1], corner, w)
        self.carry_on(new, larger, np.concatenate([T, t[None]]))

    def _rows(self):
        """Return Q_1 and C^-1 y, which only other functions ask for."""
        if self._on_rows is None:
            n, M = len(self.values.y), len(self.members)
            if not self.is_fresh:
                Q1 = self.values.Phi[:, self.members] @ self.covariance_root()
            elif M:
                factor, tau = self._reflectors
                Q1 = dorgqr(factor[:, :M], tau[:M], lwork=_BLOCK * M)[0][:n]
            else:
                Q1 = np.zeros((n, 0))
            self._on_rows = Q1, self.values.y - Q1 @ self._alone.w
        return self._on_rows

    def watch(self):
        """Return S and Q of all functions, with what rounding left of S, and Q_1'Phi."""
        if self._watched is None:
            self._watched = self._watched_afresh() if self._T is None else self._watched_by_turns()
        return self._watched

    def _watched_afresh(self):
        Q1, left = self._rows()
        self._T = Q1.T @ self.values.Phi
        return self.values.squares - _squares(self._T), left @ self.values.Phi, self._T

    def _watched_by_turns(self):
        values, T = self.values, self._T
        return values.squares - _squares(T), values.products_with_target - self._alone.w @ T, T

    @property
    def S(self):
        """phi_i'C^-1 phi_i, 0 where the active functions span function i."""
        return independent(self.watch()[0])

    @property
    def Q(self):
        """phi_i'C^-1 y."""
        return self.watch()[1]

    def of_others(self, Phi):
        """Return phi'C^-1 phi and phi'C^-1 y of other functions (n, k), 0 where the active ones span them."""
        Q1, left = self._rows()
        return independent(_squares(Phi) - _squares(Q1.T @ Phi)), left @ Phi

    def foremost(self):
        """Return the function of the largest Q^2/S that is not active, and its S and Q."""
        S, Q, _ = self.watch()
        S = independent(S, np.inf)
        S[self.members] = np.inf
        j = int((Q * Q / S).argmax())
        return j, float(S[j]), float(Q[j])

    def most_alike(self, j):
        """Return the position among the active functions of that nearest to function j or its opposite."""
        return int(np.argmax(np.abs(self.values.products_with(j)[self.members])))

    def in_place_of(self, i, j):
        """Return the model without the i-th active function, and phi_j'C^-1 phi_j and phi_j'C^-1 y there.

        With V_ij = phi_i'C^-1 phi_j and share u_i = 1 - d_i S_i, C^-1
        without function i is C^-1 + d_i/u_i C^-1 phi_i phi_i'C^-1.
        """
        (S, Q, T), share, pull = self.watch(), self.undetermined[i], self._alone.pull[i]
        common = float(self._alone.root[i] @ T[:, j])  # d_i^1/2 V_ij
        without = Evidence(self.rest + pull**2 / share, self.log_det + np.log(share), self.yy)
        return without, float(S[j] + common**2 / share), float(Q[j] + common * pull / share)

    def with_function(self, Phi, here, values):
        """Return phi'C^-1 phi of other functions (n, k), and what the active ones leave of each at a point.

        `here` (k, M) and `values` (k,) are the active and the other function at these points.
        """
        Q1, _ = self._rows()
        T = Q1.T @ Phi
        S = np.maximum(_squares(Phi) - _squares(T), 0.0)
        explained = np.sqrt(self.d[self.members])[:, None] * (self._alone.root @ T)
        return S, values - np.einsum("kj,jk->k", here, explained)

    def coefficients(self):
        """Return the posterior means of the coefficients of the active functions."""
        return self.d[self.members] * self.Q_members

    def covariance_root(self):
        """Return A (M, M) with the posterior covariance AA' of these coefficients, noise of variance 1."""
        return np.sqrt(self._alone.d)[:, None] * self._alone.root


@lru_cache(maxsize=8)
def _upper(M):
    return np.triu(np.ones((M, M), order="F"))


def _turned(T, *turns):
    """Return T in the coordinates of another root, after some turns."""
    rows = T.T
    for turn in turns:
        rows = turn(rows)
    return rows.T


def _reflectors(A):
    """Return the QR decomposition of A (Fortran order, overwritten) as LAPACK keeps it."""
    return dgeqrf(A, lwork=_BLOCK * A.shape[1], overwrite_a=1)[
        :2
    ]  # its default is room for small blocks only


def _triangular(Phi, Y):
    """Return columns and targets in a basis in which the columns are triangular, and |y|^2 outside of it."""
    k = Phi.shape[1]
    columns = np.empty((len(Phi), k + Y.shape[1]), order="F")
    columns[:, :k], columns[:, k:] = Phi, Y
    factor, _ = _reflectors(columns)
    return np.triu(factor[:k, :k]), factor[:k, k:], np.sum(np.triu(factor[k:, k:]) ** 2, axis=0)


def _span_of_few(Phi):
    """Return an orthonormal basis of all columns (n, k), r of them for r <= n/4; None if that is not enough.

    The columns of smooth functions have few dimensions, to rounding. Random combinations of some of them span
    these, and combinations of all show it: hardly ever is less left of them than of a column. Less is left on
    some of the rows, so that these tell first, and at little cost, where it is too much. The last directions
    of the basis, which the combinations hardly have, are left out.
    """
    n, k = Phi.shape
    if min(n, k) // 4 < _FEW or _left(Phi[:: max(1, n // (2 * _FEW))], _FEW)[-1] > _HOPELESS:
        return None
    size = _FEW
    while size <= min(n, k) // 4:
        Q, coordinates, length, share = _left(Phi, size)
        if share <= _NEGLIGIBLE:
            beyond = np.sqrt(np.cumsum(np.sum(coordinates**2, axis=1)[::-1]))[::-1]
            return Q[:, beyond > _NEGLIGIBLE * length]
        size = 2 * size if share < _HOPEFUL else n
    return None


def _left(Phi, size):
    """Return a basis of some dimensions, combinations of all columns in it, their length and what is left."""
    k, random = Phi.shape[1], np.random.default_rng(0)
    some = Phi[:, :: max(1, k // (2 * size))]
    mixed = some @ random.normal(size=(some.shape[1], size))
    Q = qr(mixed, mode="economic", check_finite=False)[0]
    check = Phi @ random.normal(size=(k, _CHECKS))
    coordinates, length = Q.T @ check, max(np.linalg.norm(check), _TINY)
    left = check - Q @ coordinates
    left -= Q @ (Q.T @ left)
    return Q, coordinates, length, np.linalg.norm(left) / length


def _squares(Phi):
    """Return the squared length of each column."""
    return np.einsum("ij,ij->j", Phi, Phi)


def independent(S, instead=0.0):
    """Return phi'C^-1 phi, and something else where the active functions span a function."""
    return np.where(_DEPENDENT > S, instead, S)
