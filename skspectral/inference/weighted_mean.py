"""The mean of a process where the noise of every row is known: a weighted Gaussian process.

    y ~ N(mu + constant, D),  mu ~ N(0, K),  D diagonal;    P = (K + D)^-1 outside the constant, a = P y.

How its density changes with log noise l, D = exp(2 l)/w, needs more of P than its action. It has two forms:

==========  ==================================================================================================
DenseMean   P itself: O(n^3), several matrices n x n
FactorMean  K = C C' with C (n, r): D^1/2 P D^1/2 = I - E E' with E (n, r + 1), which spans D^-1/2 [C, 1].
            Then, with h_i = |e_i|^2, D_i P_ii = 1 - h_i and D_i P_ij^2 D_j = (1 - 2 h_i) [i = j] +
            (e_i'e_j)^2, which `linalg.coupled` multiplies with: O(n r^2 s) for s columns, O(n (r + s))
            memory, and nothing is approximated
==========  ==================================================================================================

Both share the verbs of `WeightedMean`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..linalg.constants import ConstantTerms
from ..linalg.coupled import CoupledCurvature, SquaredProducts
from ..linalg.curved import DensePrior, FactorPrior
from ..linalg.sensitivity import Sensitivity
from .approximate import Approximation
from .modes import Mode

__all__ = ["DenseMean", "FactorMean", "Spread", "WeightedMean", "weighted_mean"]

_ONE, _NONE = np.ones((1, 1)), np.ones((1, 0))


@dataclass(frozen=True)
class Spread:
    """The posterior covariance Y Y' of the log noise, Y = [Phi M, ones].

    Attributes
    ----------
    Phi : ndarray of shape (n, s)
        Features of the log noise's kernel.
    M : ndarray of shape (s, s)
        What makes the covariance of the features' coefficients, M M'.
    ones : list of ndarray of shape (n, 1)
        What an uncertain constant adds.
    """

    Phi: np.ndarray
    M: np.ndarray
    ones: list

    @cached_property
    def Y(self):
        """A root of the covariance, (n, s) or one more."""
        return np.hstack([self.Phi @ self.M, *self.ones])

    @cached_property
    def variances(self):
        """Its diagonal, (n,)."""
        return np.einsum("ik,ik->i", self.Y, self.Y)


class WeightedMean:
    """What both forms share.

    Parameters
    ----------
    prior : DensePrior or FactorPrior
        K.
    y, D : ndarray of shape (n,)
        Targets and noise variances.
    has_constant : bool
        Whether the mean has an unpenalised constant.

    Raises
    ------
    IndefiniteKernelError
        If K + D is not positive definite.

    Notes
    -----
    Verbs of the forms: `shares` D_i P_ii; `curvature(more)` and `expected_curvature(more)`, that of
    -log p(y|l) and its mean over y, with more (n,) on the diagonal; `tilt(spread)`, how the log determinant
    moves with l where its posterior covariance is that of a `Spread`, and what `by_prior` needs of that;
    `by_prior(inner, z, by_missed)`.
    """

    def __init__(self, prior, y, D, has_constant):
        self.prior, self.y, self.D = prior, y, D
        self.curved = prior.curved(1.0 / D)
        self.constants = ConstantTerms(prior, self.curved, _ONE if has_constant else _NONE)

    @cached_property
    def a(self):
        """P y."""
        R_y = self.curved.times(self.y[:, None])
        for one in self.constants.RJ:
            R_y -= one * (one[:, 0] @ self.y) / one.sum()
        return R_y[:, 0]

    @property
    def log_density(self):
        """log p(y|l)."""
        n_free = len(self.y) - len(self.constants.RJ)
        log_dets = self.curved.log_det + np.log(self.D).sum() + self._log_det_of_constant
        return -0.5 * float(log_dets + self.y @ self.a + n_free * np.log(2.0 * np.pi))

    @property
    def _log_det_of_constant(self):
        return self.constants.log_det if len(self.constants.RJ) else 0.0

    @property
    def intercept(self):
        """The constant: what y - K a - D a is in every row."""
        ones = self.constants.RJ
        return float(ones[0, :, 0] @ self.y / ones[0].sum()) if len(ones) else 0.0

    def approximation(self):
        """Return the posterior as an `Approximation`, which here is exact, for predictions."""
        A = self.a[:, None]
        mode = Mode(A, self.prior.times(A), np.array([self.intercept]), self.log_density, 0, 1, True)
        return Approximation(self.prior, None, mode, self.curved, self.constants, mode.psi, False)

    def leave_one_out(self):
        """Return means and variances (n,) of every observation from all the others, given the noise.

        y_i - a_i/P_ii and 1/P_ii, which is infinite where the other rows do not determine the constant.
        """
        diagonal = self.shares / self.D
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.where(diagonal > 0, 1.0 / diagonal, np.inf)
            return self.y - np.where(diagonal > 0, self.a / diagonal, 0.0), variance


class DenseMean(WeightedMean):
    """The form with P itself."""

    @cached_property
    def P(self):
        """(K + D)^-1 outside the constant, (n, n)."""
        P = self.curved.matrix()
        left, right = self.constants.halves()
        return P - 2.0 * left @ right.T

    @property
    def shares(self):
        """D_i P_ii, (n,)."""
        return self.D * np.diag(self.P)

    def curvature(self, more):
        """Return the second derivatives of -log p(y|l), (n, n)."""
        Da = self.D * self.a
        H = 4.0 * (Da[:, None] * self.P * Da) - self._coupled
        H.flat[:: len(H) + 1] += 2.0 * (self.shares - self.a * Da) + more
        return H

    def expected_curvature(self, more):
        """Return their mean over y, (n, n)."""
        W = self._coupled
        W.flat[:: len(W) + 1] += more
        return W

    @property
    def _coupled(self):
        return 2.0 * (self.D[:, None] * self.P**2 * self.D)

    def tilt(self, spread):
        """Return how -1/2 log|I + K_l W| and -1/2 log T move with l, (n,), and P M P (n, n)."""
        V = spread.Y @ spread.Y.T
        PMP = self.P @ (self.D[:, None] * V * self.D * self.P) @ self.P
        return -2.0 * (V * self._coupled).sum(axis=1) + 4.0 * self.D * np.diag(PMP), PMP

    def by_prior(self, PMP, z, by_missed):
        """Return dL/dK as a `Sensitivity`; nothing of K is missed here."""
        zD = z * self.D
        left = 0.25 * self.a - self.P @ (zD * self.a)
        G = np.outer(left, self.a)
        G += G.T - 0.5 * self.P + 2.0 * PMP + (self.P * zD) @ self.P
        return Sensitivity(self.prior.scale * G, float(np.vdot(G, self.prior.K)))


class FactorMean(WeightedMean):
    """The form with a factor."""

    @cached_property
    def E(self):
        """What the mean explains of whitened rows: D^1/2 P D^1/2 = I - E E', (n, q)."""
        root = np.sqrt(self.D)[:, None]
        ones = [root * one / np.sqrt(one.sum()) for one in self.constants.RJ]
        return np.asfortranarray(np.hstack([self.curved.half.T / root, *ones]))

    @cached_property
    def _to_P(self):
        """J (q, r) with D^1/2 P C = E J: no difference of large numbers where the noise is small."""
        L_inv = self.curved.root.T
        ones = (self.curved.half / self.D).sum(axis=1)  # E'D^-1/2 1, without its last
        rows = [-(ones @ L_inv)[None] / np.sqrt(one.sum()) for one in self.constants.RJ]
        return np.vstack([L_inv, *rows])

    @cached_property
    def _squares(self):
        return SquaredProducts(self.E)

    @cached_property
    def leverages(self):
        """h, (n,)."""
        return np.einsum("ia,ia->i", self.E, self.E)

    @property
    def shares(self):
        """D_i P_ii, (n,)."""
        return np.maximum(1.0 - self.leverages, 0.0)

    def curvature(self, more):
        """Return the second derivatives of -log p(y|l) as a `CoupledCurvature`."""
        b = np.sqrt(self.D) * self.a
        B = 2.0 * b[:, None] * self.E
        return CoupledCurvature(2.0 * (self.leverages + b**2) + more, self._squares, -2.0, B)

    def expected_curvature(self, more):
        """Return their mean over y as a `CoupledCurvature`."""
        return CoupledCurvature(2.0 - 4.0 * self.leverages + more, self._squares, 2.0)

    def tilt(self, spread):
        """Return how -1/2 log|I + K_l W| and -1/2 log T move with l, (n,), and Y with its moments S.

        4 (sum_j V_ij (e_i'e_j)^2 - h_i V_ii + e_i'(E'diag(V) E - G) e_i) with G_ab = sum_ck S_ack S_bck.
        """
        squares, Y, v = self._squares, spread.Y, spread.variances
        ones = [squares.moments(one) for one in spread.ones]
        S, spanned = squares.span(spread.Phi, spread.M)
        S, spanned = np.concatenate([S, *ones], 2), np.hstack([spanned, *map(squares.spread, ones)])
        coupled = np.einsum("ik,ik->i", spanned, Y)
        flat = S.reshape(len(S), -1)
        inner = (self.E.T * v) @ self.E - flat @ flat.T
        return 4.0 * (coupled - self.leverages * v + squares.forms(inner)), (Y, S)

    def by_prior(self, moments, z, by_missed):
        """Return dL/dK as a `Sensitivity`; `by_missed` (n,) are the derivatives by variances it misses."""
        (Y, S), root, C = moments, np.sqrt(self.D), self.prior.Phi
        b, PC = root * self.a, self.E @ self._to_P  # both whitened
        v, p = np.einsum("ik,ik->i", Y, Y), self._P_times((z * root * self.a)[:, None])
        b_C, p_C = (b / root) @ C, (p[:, 0] / root) @ C
        inner = (2.0 * v + z)[:, None] * PC - 2.0 * self._coupled_times(Y, S)
        G_C = np.outer(0.5 * b - p[:, 0], b_C) - np.outer(b, p_C) - 0.5 * PC + self._P_times(inner)
        return self.prior.pulled_back(G_C / root[:, None], by_missed)

    def _coupled_times(self, Y, S):
        """Return (Y Y' o E E') E J, (n, r)."""
        out = np.zeros_like(self.prior.Phi)
        for k, inner in enumerate(np.moveaxis(S, 2, 0)):
            out += Y[:, k, None] * (self.E @ (inner @ self._to_P))
        return out

    def _P_times(self, V):
        """Return D^1/2 P D^1/2 V."""
        return V - self.E @ (self.E.T @ V)


def weighted_mean(prior, y, D, has_constant):
    """Return the `WeightedMean` in the form of its prior."""
    form = {DensePrior: DenseMean, FactorPrior: FactorMean}[type(prior)]
    return form(prior, y, D, has_constant)
