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
functions leave. From there this is done once more, for less noise still, and the better end is taken.
"""

from dataclasses import dataclass

import numpy as np

from ..linalg.active import Active, descent_direction
from ..support.threads import at_most
from .sparse_noise import TooLittleNoise

__all__ = ["Ascent", "SparseFit", "maximise", "worthwhile"]

# Shares of the best noise variance for which functions are added, one after the other.
_SHARES = (0.3, 0.1)
# What a function must gain in -2 log evidence to enter then; most of them, relative to the rows and in all.
_ENTRY, _MOST, _MOST_IN_ALL = 1.0, 0.5, 200
# Gain in -2 log evidence above which several functions enter between Newton's steps: for each row, no less
# and no more.
_WORTHWHILE_PER_ROW, _WORTHWHILE, _WORTHWHILE_AT_MOST = 5e-5, 0.1, 1.0
# The gain of a function that must not be missing to tell which of several ends is the better one.
_TO_COMPARE = 0.5
# Functions up to which all are looked at after every change; others that are, beyond, at least.
_FEW, _POOL = 250, 100
# Newton: largest step in log d, halvings; gradient at which to stop, and coarsely.
_LONGEST, _HALVINGS = 3.0, 12
_STATIONARY, _ROUGHLY_STATIONARY = 1e-10, 1e-2
# Gradient above which functions do not leave yet: those beside them may be the ones to leave.
_UNSETTLED = 0.5
# Increase of -2 log evidence, relative to its size, that is rounding.
_ROUNDING = 1e-13


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


def worthwhile(n):
    """Return the gain in -2 log evidence below which functions need not enter yet, for n rows."""
    return min(max(_WORTHWHILE, _WORTHWHILE_PER_ROW * n), _WORTHWHILE_AT_MOST)


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
    least : float
        Gain that a function must promise to be let in; above 0 the ascent ends near the maximum.
    n_steps : int
        Steps that were taken before.
    """

    def __init__(self, active, noise, tol, max_iter, trace=None, least=0.0, n_steps=0):
        self.active, self.noise, self.tol, self.max_iter = active, noise, tol, max_iter
        self.n_steps, self.trace, self.least = n_steps, trace, least
        self.worthwhile = max(worthwhile(_rows(noise, active.values)), least)
        self.stationary = _ROUGHLY_STATIONARY if least else _STATIONARY

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
            a = self._forget(a)
        here.d[:] = 0.0
        here.d[a] = self.active.d
        self.active = here
        here.refresh()

    def _forget(self, a):
        """Put functions out of sight that have left; return those of a that have not."""
        kept, here = self.active.members, self.active
        if not 0 < len(kept) < len(a):
            return a
        self.active = Active(here.values.among(kept), here.d[kept])
        return a[kept]

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
        step = descent_direction(gradient, *self._curvatures(gradient))
        step = np.clip(step, -_LONGEST, _LONGEST)
        if np.abs(gradient).max() > _UNSETTLED:
            step[self.outlook_of_members().d == 0] = -_LONGEST
        promising = -(gradient @ step) > _ROUNDING * max(abs(value), 1.0)
        for k in range(_HALVINGS if promising else 1):
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

    def _curvatures(self, gradient):
        """Return the second derivatives of `noise.value` by log d, with V_ij = phi_i'C^-1 phi_j:

        d_i d_j (-V_ij^2 + 2 slope Q_i Q_j V_ij - bend Q_i^2 Q_j^2), and the gradient on the diagonal. And
        what they are on average over targets of the model, d_i d_j V_ij^2.
        """
        active = self.active
        V, z = active.among_members(), np.sqrt(active.d[active.members]) * active.Q_members
        expected = V * V
        H = np.multiply.outer(2.0 * self.noise.slope(active) * z, z)
        H *= V
        H -= expected
        H -= np.multiply.outer(self.noise.bend(active) * z**2, z**2)
        H.flat[:: len(z) + 1] += gradient
        return H, expected

    def run(self):
        """Climb until every function is where it belongs; return a `SparseFit`."""
        many = len(self.active.values) > _FEW
        converged = self._climb_in_pools() if many else self._climb()
        value, noise_var = self.noise.value(self.active), self.noise.variance(self.active)
        return SparseFit(self.active, float(value), float(noise_var), self.n_steps, converged)

    def _climb(self):
        """Climb with all functions in sight; return whether every one is where it belongs."""
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
        self.stationary = final
        return converged

    def _climb_in_pools(self):
        """Climb with the most relevant functions in sight, until a look at all others finds none missing."""
        converged = False
        while self.n_steps < self.max_iter and not converged:
            here, pool = self.active, self._pool()
            self.active = Active(here.values.among(pool), here.d[pool])
            self._climb()
            here.d[pool], self.active = self.active.d, here
            here.refresh()
            converged = self.n_steps < self.max_iter and self._most_missing() is None
        return converged

    def _pool(self):
        """Return the active functions and the most relevant others, as many of them."""
        members = self.active.members
        others = np.argsort(-self.outlook_of_others().relevance, kind="stable")
        others = others[: max(_POOL, len(members))]
        return np.union1d(members, others)

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


def _rows(noise, values):
    """Return the number of rows, which coordinates of the functions need not have."""
    return getattr(noise, "n", len(values.y))


def maximise(values, noise, *, tol, max_iter, trace=None, least=0.0):
    """Maximise the evidence over prior variances.

    Parameters
    ----------
    values : FunctionValues
        Functions and a target.
    noise : ProfiledNoise or KnownNoise
        What is known of the noise.
    tol, max_iter, trace, least
        As of `Ascent`; the trace is that of the way to the end that is taken.

    Returns
    -------
    SparseFit
    """
    with at_most(1):  # many small matrices, numpy's and scipy's in turn
        active, steps, n_steps = _best_end(values, noise, tol, max_iter, max(least, _TO_COMPARE))
        fit = Ascent(active, noise, tol, max_iter, steps, least, n_steps).run()
    if trace is not None:
        trace.extend(steps)
    return fit


def _best_end(values, noise, tol, max_iter, least):
    """Return a model near the best maximum found, the trace of the way to it, and the number of steps."""
    active, ends, n_steps = Active(values, np.zeros(len(values))), [], 0
    for share in _SHARES:
        if _overfill(active, TooLittleNoise(_rows(noise, values), share), tol, max_iter) or not ends:
            steps = []
            fit = Ascent(active, noise, tol, max_iter, steps, least, n_steps).run()
            n_steps = fit.n_steps
            ends.append((fit.value, active.d.copy(), steps))
    _, d, steps = min(ends, key=lambda end: end[0])
    return (active if d is ends[-1][1] else Active(values, d)), steps, n_steps


def _overfill(active, noise, tol, max_iter):
    """Add functions that there would be for less noise; return how many."""
    before = len(active.members)
    if active.values.yy > 0:
        Ascent(active, noise, tol, max_iter).add(_ENTRY, min(_MOST * noise.n, _MOST_IN_ALL))
    return len(active.members) - before
