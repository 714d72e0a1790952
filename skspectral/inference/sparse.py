"""Relevance vectors: the evidence maximised over one prior variance for each function.

The model is y = Phi theta + e with theta_i ~ N(0, noise_var d_i) and e ~ N(0, noise_var), so that

    y ~ N(0, noise_var C),   C = I + Phi diag(d) Phi'.

At its maximum most of the d_i are 0: few functions are *active*. With S_i = phi_i'C^-1 phi_i and
Q_i = phi_i'C^-1 y, and s, q, r the same S, Q and y'C^-1 y with function i left out, the evidence as a
function of d_i alone, at the best noise variance for each d_i, is maximal where

    d_i s_i = (n e_i - r)/(r - e_i),   e_i = q_i^2/s_i,

if that is positive, else at 0: the function leaves, or stays out. For a known noise variance v it is
d_i s_i = e_i/v - 1, the rule of Tipping & Faul (2003), "Fast marginal likelihood maximisation for sparse
Bayesian models". In either case a function belongs to the model where its `relevance`, n e_i/r or e_i/v, is
above 1.

There are many local maxima. Those found by adding functions one at a time, as the cited paper does, are often
poor: functions that came first stay. Here functions are first added for a noise variance that is too small,
which is far too many of them, and then all prior variances are maximised jointly by Newton steps while
functions leave. The best of a few such noise variances is taken.
"""

from dataclasses import dataclass

import numpy as np

from ..linalg.active import Active, descent_direction
from ..support.threads import at_most

__all__ = ["Ascent", "KnownNoise", "ProfiledNoise", "SparseFit", "maximise"]

# Noise variances, relative to the mean square of y, for which functions are first added.
_STARTS = (0.1, 0.01, 0.001)
# What a function must gain in -2 log evidence to enter then; most of them, relative to the rows and in all.
_ENTRY, _MOST, _MOST_IN_ALL = 1.0, 0.5, 200
# Smallest y'C^-1 y relative to y'y: below it is rounding, and the data count as free of noise.
_NOISE_FREE = 1e-12
# Gain in -2 log evidence above which several functions enter between Newton's steps: for each row, no less
# and no more.
_WORTHWHILE_PER_ROW, _WORTHWHILE, _WORTHWHILE_AT_MOST = 5e-5, 0.1, 1.0
# Functions up to which every start is followed to its end.
_FEW = 500
# Newton: largest step in log d, halvings; gradient at which to stop, and coarsely.
_LONGEST, _HALVINGS = 2.0, 12
_STATIONARY, _NEARLY_STATIONARY, _ROUGHLY_STATIONARY = 1e-10, 1e-3, 1e-2
# Gradient above which functions do not leave yet: those beside them may be the ones to leave.
_UNSETTLED = 0.5
# Increase of -2 log evidence, relative to its size, that is rounding.
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Outlook:
    """What each function would do, the others as they are.

    Attributes
    ----------
    d : ndarray of shape (k,)
        Its best prior variance.
    gain : ndarray of shape (k,)
        How much lower -2 log evidence would be there.
    relevance : ndarray of shape (k,)
        Above 1 where the function belongs to the model.
    worth : ndarray of shape (k,) or float
        How much higher -2 log evidence would be without it.
    """

    d: np.ndarray
    gain: np.ndarray
    relevance: np.ndarray
    worth: np.ndarray | float


@dataclass(frozen=True)
class ProfiledNoise:
    """The noise variance is the best one, y'C^-1 y/n, whatever the prior variances are."""

    n: int

    def value(self, active):
        """Return n log(y'C^-1 y/n) + log|C|: -2 log evidence up to a constant."""
        return self.n * np.log(self._rest(active) / self.n) + active.log_det

    def outlook(self, active, s, q, rest, d):
        """Return what functions would do that have s, q and rest without them, and d now; None for 0."""
        e, safe = _explained(s, q)
        rest = np.maximum(rest, self._floor(active))
        e = np.minimum(e, rest - 0.5 * self._floor(active))
        u = np.maximum((self.n * e - rest) / (rest - e), 0.0)
        share = e / rest
        worth = 0.0 if d is None else self._drop(d * s, share)
        return Outlook(u / safe, self._drop(u, share) - worth, self.n * share, worth)

    def _drop(self, u, share):
        return (self.n - 1) * np.log1p(u) - self.n * np.log1p((1.0 - share) * u)

    def slope(self, active):
        """Return the factor of Q^2 in d value/dd = S - factor Q^2."""
        return self.n / self._rest(active)

    def bend(self, active):
        """Return the factor of -Q_i^2 Q_j^2 in the second derivatives."""
        return self.n / self._rest(active) ** 2

    def variance(self, active):
        """Return the noise variance."""
        return self._rest(active) / self.n

    def _floor(self, active):
        return max(_NOISE_FREE * active.values.yy, 1e-100)  # 0 targets are no reason to divide by 0

    def _rest(self, active):
        return max(active.rest, self._floor(active))


@dataclass(frozen=True)
class KnownNoise:
    """The noise variance is given."""

    v: float = 1.0

    def value(self, active):
        """Return y'C^-1 y/v + log|C|: -2 log evidence up to a constant."""
        return active.rest / self.v + active.log_det

    def outlook(self, active, s, q, rest, d):
        """Return what functions would do that have s and q without them, and d now; None for 0."""
        e, safe = _explained(s, q)
        e = e / self.v
        u = np.maximum(e - 1.0, 0.0)
        worth = 0.0 if d is None else _drop_known(d * s, e)
        return Outlook(u / safe, _drop_known(u, e) - worth, e, worth)

    def slope(self, active):
        """Return the factor of Q^2 in d value/dd = S - factor Q^2."""
        return 1.0 / self.v

    def bend(self, active):
        """Return the factor of -Q_i^2 Q_j^2 in the second derivatives: none."""
        return 0.0

    def variance(self, active):
        """Return the noise variance."""
        return self.v


def _rows(noise, values):
    """Return the number of rows, which coordinates of the functions need not have."""
    return getattr(noise, "n", len(values.y))


def _explained(s, q):
    """Return q^2/s, 0 where s is 0, and an s that can be divided by."""
    independent = s > 0
    safe = np.where(independent, s, 1.0)
    return np.where(independent, q * q / safe, 0.0), safe


def _drop_known(u, e):
    return e * u / (1.0 + u) - np.log1p(u)


@dataclass(frozen=True)
class SparseFit:
    """A maximum of the evidence.

    Attributes
    ----------
    active : Active
        The model there.
    value : float
        -2 log evidence up to a constant, see `ProfiledNoise.value`.
    noise_var : float
        Noise variance.
    n_steps : int
        Functions that came, went or changed, and Newton steps.
    converged : bool
        Whether every function is where it belongs.
    """

    active: Active
    value: float
    noise_var: float
    n_steps: int
    converged: bool


class Ascent:
    """Steps towards a maximum of the evidence; none of them goes down, beyond rounding.

    Parameters
    ----------
    active : Active
        Where to start; it is changed.
    noise : ProfiledNoise or KnownNoise
        What is known of the noise.
    tol : float
        Relevance above 1 that is tolerated in a function that is not active.
    max_iter : int
        Limit of the number of steps.
    trace : list or None
        Collects `noise.value` after every step.
    coarse : bool
        Whether to stop near the maximum, where no function gains more than 0.1 to 1, the more the more rows.
    """

    def __init__(self, active, noise, tol, max_iter, trace=None, coarse=False):
        self.active, self.noise, self.tol, self.max_iter = active, noise, tol, max_iter
        self.n_steps, self.trace = 0, trace
        gain = _WORTHWHILE_PER_ROW * _rows(noise, active.values)
        self.worthwhile = min(max(_WORTHWHILE, gain), _WORTHWHILE_AT_MOST)
        self.least, self.stationary = (self.worthwhile, _NEARLY_STATIONARY) if coarse else (0.0, _STATIONARY)

    def outlook_of_others(self):
        """Return what functions would do that are not active, and nothing for those that are."""
        active = self.active
        outside = np.where(active.d > 0, 0.0, active.S)
        return self.noise.outlook(active, outside, active.Q, active.rest, None)

    def outlook_of_members(self):
        """Return what active functions would do."""
        active = self.active
        return self.noise.outlook(active, *active.members_left_out(), active.d[active.members])

    def _count(self):
        self.n_steps += 1
        if self.trace is not None:
            self.trace.append(self.noise.value(self.active))

    def _move(self, j, d_new):
        self.active.move(j, d_new)
        self._count()

    def add(self, least, most=np.inf):
        """Take in the function of the largest gain again and again, down to a gain of `least`."""
        while len(self.active.members) < most and self.n_steps < self.max_iter:
            outlook = self.outlook_of_others()
            j = int(np.argmax(outlook.gain))
            if not outlook.gain[j] > least:
                break
            self._move(j, outlook.d[j])

    def remove(self):
        """Let active functions go that the model is better without; return whether there were any.

        All of them at once if the evidence agrees, else half of them, those of the largest gains, and so on.
        """
        outlook = self.outlook_of_members()
        count = np.count_nonzero(outlook.d == 0)
        order = self.active.members[
            np.argsort(np.where(outlook.d == 0, -outlook.gain, np.inf), kind="stable")
        ]
        while count and not self._removed(order[:count]):
            count //= 2
        return count > 0

    def _removed(self, leave):
        """Return whether the model is no worse without some functions, which then are gone."""
        before, value = self.active.d[leave], self.noise.value(self.active)
        self._set(leave, 0.0)
        better = self.noise.value(self.active) <= value
        if better:
            self._count()
        else:
            self._set(leave, before)
        return better

    def gradient(self):
        """Return the derivatives of `noise.value` by log d of the active functions."""
        active = self.active
        d, q = active.d[active.members], active.Q_members
        return 1.0 - active.undetermined - self.noise.slope(active) * d * q**2

    def settle(self, newcomer=None, least=np.inf):
        """Maximise over the prior variances of active functions, all others out of sight.

        A newcomer may take the place of another function, if -2 log evidence is below `least` then.
        """
        here, a = self.active, self.active.members
        if not len(a):
            return
        self.active = Active(here.values.among(a), here.d[a])
        if newcomer is not None:
            self._replace(int(np.flatnonzero(a == newcomer)[0]), least)
        while self.n_steps < self.max_iter and self._step():
            pass
        here.d[a] = self.active.d
        self.active = here
        here.refresh()

    def _step(self):
        """Let functions go or take a Newton step; return whether there was anything to do."""
        largest = np.abs(self.gradient()).max(initial=0.0)
        if largest < _UNSETTLED and self.remove():
            return True
        return (largest > self.stationary and self._newton_step()) or self.remove()

    def _replace(self, j, least):
        """Let j take the place of the function that is most like it, if that is better than `least`.

        For neighbours this is one step; Newton's steps would be many, and short, along the narrow valley in
        which one prior variance grows as the other one shrinks.
        """
        before, i = self.active.d.copy(), self.active.values.most_alike(j)
        if i is not None:
            self._set([i, j], [0.0, before[i]])
            k = int(np.searchsorted(self.active.members, j))
            self._set(j, self.outlook_of_members().d[k])
            if not self.noise.value(self.active) < least:
                self._set(slice(None), before)
        self._count()

    def _newton_step(self):
        """Take one step; return whether it led anywhere."""
        a, before = self.active.members, self.active.d.copy()
        gradient, value = self.gradient(), self.noise.value(self.active)
        step = descent_direction(gradient, self._curvature(gradient), self.active.among_members() ** 2)
        step *= min(1.0, _LONGEST / np.abs(step).max(initial=_LONGEST))
        for k in range(_HALVINGS):
            self._set(a, before[a] * np.exp(0.5**k * step))
            if self._is_better(value, np.abs(gradient).max()):
                self._count()
                return True
        self._set(a, before[a])
        return False

    def _is_better(self, value, largest):
        """Return whether the evidence is no worse; where only rounding differs, the gradient must fall."""
        change, rounding = self.noise.value(self.active) - value, _ROUNDING * max(abs(value), 1.0)
        return change < -rounding or (
            change <= rounding and np.abs(self.gradient()).max(initial=0.0) < 0.9 * largest
        )

    def _set(self, a, d):
        self.active.d[a] = d
        self.active.refresh()

    def _curvature(self, gradient):
        """Return the second derivatives of `noise.value` by log d, with V_ij = phi_i'C^-1 phi_j:

        d_i d_j (-V_ij^2 + 2 slope Q_i Q_j V_ij - bend Q_i^2 Q_j^2), and the gradient on the diagonal.
        """
        active, a = self.active, self.active.members
        V, z = active.among_members(), np.sqrt(active.d[a]) * active.Q_members
        H = -(V**2) + 2.0 * self.noise.slope(active) * np.outer(z, z) * V
        H -= self.noise.bend(active) * np.outer(z**2, z**2)
        H.flat[:: len(a) + 1] += gradient
        return H

    def run(self):
        """Climb until every function is where it belongs; return a `SparseFit`."""
        converged, final, self.stationary = False, self.stationary, _ROUGHLY_STATIONARY
        self.settle()
        while self.n_steps < self.max_iter and not converged:
            j = self._most_missing()
            if j is not None:
                self._take_in(j)
            elif self.stationary > final:
                self.stationary = final
                self.settle()
            else:
                converged = True
        value, noise_var = self.noise.value(self.active), self.noise.variance(self.active)
        return SparseFit(self.active, float(value), float(noise_var), self.n_steps, converged)

    def _take_in(self, j):
        """Let functions enter that are worthwhile, or j if none is."""
        least, steps = self.noise.value(self.active), self.n_steps
        self.add(self.worthwhile)
        if self.n_steps > steps:
            self.settle()
        else:
            self.active.move(j, self.outlook_of_others().d[j])
            self.settle(j, least)

    def _most_missing(self):
        """Return the function that belongs to the model most of all that are not in it, or None."""
        missing = self._missing()
        j = int(np.argmax(missing)) if len(missing) else 0
        return j if len(missing) and missing[j] > 0 else None

    def _missing(self):
        """Return the relevance above 1 of functions that should enter, 0 for all others."""
        outlook = self.outlook_of_others()
        belongs = (outlook.relevance > 1.0 + self.tol) & (outlook.gain > self.least)
        return np.where(belongs, outlook.relevance - 1.0, 0.0)


def maximise(values, noise, *, tol=1e-6, max_iter=10_000, trace=None, coarse=False):
    """Maximise the evidence over prior variances from several starts.

    Parameters
    ----------
    values : FunctionValues
        Functions and a target.
    noise : ProfiledNoise or KnownNoise
        What is known of the noise.
    tol, max_iter, trace
        As of `Ascent`; the trace is that of the best start.
    coarse : bool, default=False
        Whether to stop near the maximum.

    Returns
    -------
    SparseFit
    """
    with at_most(1):  # many small matrices, numpy's and scipy's in turn
        return _best_of_starts(values, noise, tol, max_iter, trace, coarse)


def _best_of_starts(values, noise, tol, max_iter, trace, coarse):
    tries = [_from_overfull(values, noise, level, tol, max_iter) for level in _STARTS]
    best, steps = min(tries, key=lambda pair: pair[0].value)
    if coarse:
        return best
    ascent = Ascent(best.active, noise, tol, max_iter, steps)
    ascent.n_steps = best.n_steps
    fit = ascent.run()
    if trace is not None:
        trace.extend(steps)
    return fit


def _from_overfull(values, noise, level, tol, max_iter):
    """Return where an ascent ends that starts with too many functions, coarse for many, and its trace."""
    active, n, steps = Active(values, np.zeros(len(values))), _rows(noise, values), []
    if values.yy > 0:
        overfull = Ascent(active, KnownNoise(level * values.yy / n), tol, max_iter)
        overfull.add(_ENTRY, min(_MOST * n, _MOST_IN_ALL))
    return Ascent(active, noise, tol, max_iter, steps, coarse=len(values) > _FEW).run(), steps
