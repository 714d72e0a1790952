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

from ..linalg.active import Active
from ..linalg.growth import Growth
from .sparse_newton import Settling
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
# What rounding may do to phi'C^-1 phi of columns of length 1: functions that are relevant by no more than
# that would come and go for ever, two rows that are alike in turn.
_LOST = 1e-14
# Gradient at which Newton's steps stop, and coarsely, where one that promises no more than this is the last.
_STATIONARY, _ROUGHLY_STATIONARY, _ENOUGH = 1e-10, 1e-2, 0.01


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
        Functions that came or went, and Newton steps, those before the start of this ascent too.
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

    def _count(self, model):
        self.n_steps += 1
        if self.trace is not None:
            self.trace.append(self.noise.value(model))

    def add(self, least, most=np.inf):
        """Take in the function of the largest gain again and again, down to a gain of `least`."""
        growth = Growth(self.active)
        while growth.size < most and self.n_steps < self.max_iter:
            j = growth.best()
            prospect = self.noise.prospect(growth, *growth.of_one(j))
            if not prospect.gain > least:
                break
            growth.enter(j, prospect.d)
            self._count(growth)
        growth.finish()

    def settle(self, stationary):
        """Maximise over the prior variances of active functions, all others out of sight.

        Until no derivative by log d is larger than `stationary`.
        """
        before = self.n_steps
        enough = _ENOUGH if stationary == _ROUGHLY_STATIONARY else 0.0
        settling = Settling(self.active.alone(), self.noise, stationary, enough)
        while self.n_steps < self.max_iter and settling.step():
            self._count(settling.members)
        if self.n_steps > before:
            self.active.follow(settling.kept, settling.members, settling.turns)

    def run(self):
        """Climb until every function is where it belongs; return a `SparseFit`."""
        self.settle(_ROUGHLY_STATIONARY)
        converged = self._climb()
        value, noise_var = self.noise.value(self.active), self.noise.variance(self.active)
        return SparseFit(self.active, float(value), float(noise_var), self.n_steps, converged)

    def _climb(self):
        """Take in functions and settle in turn; return whether every one is where it belongs.

        Near the maximum everything is computed afresh, before and after the last steps.
        """
        converged, stationary = False, _ROUGHLY_STATIONARY
        is_rough = self.least > 0
        while self.n_steps < self.max_iter and not converged:
            missing = self._most_missing()
            if missing is not None:
                self._take_in(*missing)
                self.settle(stationary)
            elif not (is_rough or (self.active.is_fresh and stationary == _STATIONARY)):
                stationary = _STATIONARY
                self._polish()
            else:
                converged = True
        return converged

    def _polish(self):
        self.active.refresh()  # which knows nothing of other functions, so that `settle` ends afresh
        self.settle(_STATIONARY)

    def _take_in(self, j, d, gain):
        """Let functions enter that are worthwhile, or j with prior variance d if its gain is too small."""
        if gain > self.worthwhile:
            self.add(self.worthwhile)
        else:
            self._let_in(j, d)

    def _let_in(self, j, d):
        """Let function j enter, in the place of the active function that is most like it if that is better.

        For neighbours this is one step; Newton's steps would be many, and short, along the narrow valley in
        which one prior variance grows as the other one shrinks.
        """
        active = self.active
        if len(active.members):
            place = active.most_alike(j)
            without, S, Q = active.in_place_of(place, j)
            prospect = self.noise.prospect(without, S, Q)
            if self.noise.value(without) - prospect.gain < self.noise.value(active):
                active.exchange(place, j, prospect.d, S, Q)
                self._count(active)
                return
        active.admit(j, d)
        self._count(active)

    def _most_missing(self):
        """Return the function that belongs to the model most of all that are not in it, or None.

        With its best prior variance and its gain: both its relevance and its gain grow with Q^2/S.
        """
        if not len(self.active.d):
            return None
        j, S, Q = self.active.foremost()
        prospect = self.noise.prospect(self.active, S, Q)
        is_relevant = S * (prospect.relevance - 1.0 - self.tol) > _LOST
        belongs = is_relevant and prospect.gain > self.least
        return (j, prospect.d, prospect.gain) if belongs else None


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
    active, steps, n_steps = _best_end(values, noise, tol, max_iter, max(least, _TO_COMPARE))
    fit = Ascent(active, noise, tol, max_iter, steps, least, n_steps).run()
    if trace is not None:
        trace.extend(steps)
    return fit


def _best_end(values, noise, tol, max_iter, least):
    """Return a model near the best maximum found, the trace of the way to it, and the number of steps."""
    active, ends, n_steps = Active(values, np.zeros(len(values))), [], 0
    for share in _SHARES:
        n_added = _overfill(active, TooLittleNoise(_rows(noise, values), share), tol, max_iter - n_steps)
        n_steps += n_added
        if n_added or not ends:
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
