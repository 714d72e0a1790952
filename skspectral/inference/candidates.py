"""Relevance vectors among more functions than are kept in memory.

The evidence is maximised over a pool of functions. Then the columns of all others are made once, a block at
a time; those that belong to the model join the pool, with others that nearly do, and so on until none does.
The columns of n functions are made a few times, and memory is O(n) times the size of the pool.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..linalg.active import Active, FunctionValues
from ..support.threads import at_most, threads_for
from .sparse import Ascent, SparseFit, maximise, worthwhile

__all__ = ["Expansion", "expand", "on_one_thread"]

# Functions up to which all are in the pool; how many it starts with beyond; most that join at a time.
_ALL, _FIRST, _JOIN = 1500, 600, 600
# Functions whose columns are made at a time, and looks at all functions.
_BLOCK, _LOOKS = 500, 20
# Gain in -2 log evidence below which a function outside of the pool may stay there: for each row, no less and
# no more. Akaike's criterion would ask for 2.
_LITTLE_PER_ROW, _LITTLE, _LITTLE_AT_MOST = 1e-4, 0.3, 2.0


@dataclass(frozen=True)
class Expansion:
    """The functions that one target needs.

    Attributes
    ----------
    functions : ndarray of shape (M,)
        Positions in the dictionary.
    lengths : ndarray of shape (M,)
        Lengths of their columns: all else is about columns of length 1.
    active : Active
        The model on the rows, with these functions alone.
    fit : SparseFit
        How it was found.
    """

    functions: np.ndarray
    lengths: np.ndarray
    active: Active
    fit: SparseFit

    @property
    def coefficients(self):
        """Coefficients of the functions, (M,)."""
        return self.active.coefficients() / self.lengths

    @property
    def covariance_root(self):
        """A (M, M): the coefficients have covariance noise_var AA'."""
        return self.active.covariance_root() / self.lengths[:, None]

    @property
    def prior_variance(self):
        """Prior variances of the coefficients, (M,)."""
        return self.fit.noise_var * self.active.d / self.lengths**2


def on_one_thread(n):
    """Return a context for n functions on n rows: one thread of BLAS where all of them are in the pool.

    Most of the work then is on small matrices, and threads that wait for the next large one slow it down.
    Beyond that it has the threads of matrices of n rows.
    """
    return at_most(1) if n <= _ALL else threads_for(n)


def expand(dictionary, Y, noise, *, tol, max_iter, report=None):
    """Return an `Expansion` for each column of Y.

    Parameters
    ----------
    dictionary : Dictionary
        Functions.
    Y : ndarray of shape (n, m)
        Targets on the same rows: weighted, outside the mean space, of unit mean square.
    noise : ProfiledNoise or KnownNoise
        What is known of the noise.
    tol, max_iter
        As of `Ascent`.
    report : callable, default=None
        report(line) after every look at all functions.
    """
    total = len(dictionary)
    pool = np.arange(total if total <= _ALL else _FIRST)
    coarse = worthwhile(len(Y)) if total > len(pool) else 0.0
    some, columns = _values(dictionary, pool, Y)
    with at_most(1):  # many small matrices, numpy's and scipy's in turn
        fits = [maximise(values, noise, tol=tol, max_iter=max_iter, least=coarse) for values in some]
    expansions = _on_rows(columns, pool, Y, fits)
    if not coarse:
        return expansions
    ascend = partial(_rejoined, dictionary, Y, noise, tol, max_iter)
    for look in range(_LOOKS):
        joining, n_missing = _joining(dictionary, expansions, noise, tol)
        if report is not None:
            sizes = ", ".join(str(len(e.functions)) for e in expansions)
            report(f"look {look + 1} at {total} functions: {sizes} active, {n_missing} to join")
        if not n_missing:
            break
        expansions = ascend(expansions, joining, least=coarse)
    expansions = ascend(expansions, joining, least=0.0)
    return [_unfinished(e) for e in expansions] if n_missing else expansions


def _values(dictionary, pool, Y):
    """Return the functions of a pool with each target, and what makes columns of some of them on the rows."""
    few = dictionary.in_few_coordinates() if len(pool) == len(dictionary) else None
    if few is not None:
        coordinates, _, Q = few
        return FunctionValues.in_basis(Q, coordinates, Y), dictionary.columns
    Phi, lengths = dictionary.columns(pool)
    return FunctionValues.on_rows(Phi, Y), lambda chosen: (Phi[:, chosen], lengths[chosen])


def _on_rows(columns, pool, Y, fits):
    """Return what each target needs, as models on the rows."""
    expansions = []
    for y, fit in zip(Y.T, fits, strict=True):
        a = np.flatnonzero(fit.active.d)
        Phi, lengths = columns(a)
        active = Active(FunctionValues(Phi, y), fit.active.d[a])
        expansions.append(Expansion(pool[a], lengths, active, fit))
    return expansions


def _joining(dictionary, expansions, noise, tol):
    """Return functions to join the pool, and how many belong to a model and are in none.

    Those of the largest gain come first. The most relevant of all others follow: they may belong to the
    model soon, and are spared another look.
    """
    gain, relevance = np.zeros(len(dictionary)), np.zeros(len(dictionary))
    little = np.clip(_LITTLE_PER_ROW * dictionary.X.shape[0], _LITTLE, _LITTLE_AT_MOST)
    for start in range(0, len(dictionary), _BLOCK):
        chosen = np.arange(start, min(start + _BLOCK, len(dictionary)))
        K, _ = dictionary.columns(chosen)
        for e in expansions:
            outlook = noise.outlook(e.active, *e.active.of_others(K), e.active.rest, None)
            belongs = (outlook.relevance > 1.0 + tol) & (outlook.gain > little)
            gain[chosen] = np.maximum(gain[chosen], np.where(belongs, outlook.gain, 0.0))
            relevance[chosen] = np.maximum(relevance[chosen], outlook.relevance)
    for e in expansions:
        gain[e.functions] = relevance[e.functions] = 0.0
    n_missing = np.count_nonzero(gain)
    return np.lexsort((-relevance, -gain))[: _JOIN if n_missing else 0], n_missing


def _rejoined(dictionary, Y, noise, tol, max_iter, expansions, joining, *, least):
    """Return the models after more functions have joined their pool."""
    pool = np.unique(np.concatenate([joining, *(e.functions for e in expansions)]))
    some, columns = _values(dictionary, pool, Y)
    fits = []
    for values, e in zip(some, expansions, strict=True):
        d = np.zeros(len(pool))
        d[np.searchsorted(pool, e.functions)] = e.active.d
        with at_most(1):
            fits.append(Ascent(Active(values, d), noise, tol, max_iter, least=least).run())
    return _on_rows(columns, pool, Y, fits)


def _unfinished(expansion):
    fit = expansion.fit
    stopped = SparseFit(fit.active, fit.value, fit.noise_var, fit.n_steps, False)
    return Expansion(expansion.functions, expansion.lengths, expansion.active, stopped)
