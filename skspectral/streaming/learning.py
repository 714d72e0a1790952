"""Learning the kernel of rows that need not meet in memory: on a sample first, then by sums over all of them.

`total(function)`, however the rows are stored, returns the sum of function(chunk) over all chunks of rows.
One pass surveys them (`Survey`), and two passes make an evaluation of the lower bound of the evidence and of
its slope (`learning.landmarks`). Nothing but such sums, and once a sample, ever leaves a block.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ..criteria import CRITERIA
from ..decomposition.data import Data
from ..decomposition.plan import Plan
from ..kernels.gram import make_gram
from ..learning.landmark_descent import descend_on_landmarks
from ..learning.landmarks import LandmarkObjective, block_slope, block_sums, drawn_landmarks
from ..learning.levels import at_level, learn
from ..learning.task import Task
from ..linalg.landmark_sums import RowBlock, smooth_feature_map
from ..support.threads import map_in_threads
from .features import SLAB, Chunk, Features
from .statistics import FeatureStatistics

__all__ = ["Survey", "learn_features", "over_slabs", "total_of_chunk"]

# Odd numbers and a shift that make the bits of a row look random.
_MULTIPLIER, _INCREMENT, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03), np.uint64(29)


@dataclass(frozen=True)
class Survey:
    """What a first look at rows tells: their number, weights and targets in sums, and a sample of them.

    The sample are the rows with the smallest of keys that look random and depend on the content of a row
    alone. So it is the same in whatever order and blocks the rows come.

    Attributes
    ----------
    statistics : FeatureStatistics
        Of the targets, with no features.
    keys : ndarray of shape (k,)
        Keys of the sample, ascending.
    sample : Chunk
        At most `size` rows, in the order of their keys.
    size : int
        Most rows of a sample.
    """

    statistics: FeatureStatistics
    keys: np.ndarray
    sample: Chunk
    size: int

    @classmethod
    def of(cls, chunk, size, seed):
        """Return the survey of a chunk."""
        statistics = FeatureStatistics.from_rows(np.empty((len(chunk), 0)), chunk.Y, chunk.weight)
        return cls(statistics, *_smallest(_keys(chunk, seed), chunk, size), size)

    def __add__(self, other):
        """Return the survey of the rows of both."""
        keys = np.concatenate([self.keys, other.keys])
        kept = _smallest(keys, self.sample.joined(other.sample), self.size)
        return Survey(self.statistics + other.statistics, *kept, self.size)


def _smallest(keys, chunk, size):
    order = np.argsort(keys, kind="stable")[:size]
    return keys[order], chunk[order]


def _keys(chunk, seed):
    """Return a number for each row that looks random, from the bits of its inputs and targets."""
    keys = np.full(len(chunk), seed, dtype=np.uint64)
    for column in np.concatenate([chunk.X, chunk.Y], axis=1).T:
        bits = np.ascontiguousarray(column + 0.0).view(np.uint64)  # + 0.0: -0 is 0
        keys = (keys ^ bits) * _MULTIPLIER + _INCREMENT
        keys ^= keys >> _SHIFT
    return keys


def over_slabs(function, chunk):
    """Return the sum of function(slab) over slabs of a chunk; of an empty one where it has no rows."""
    total = function(chunk[:SLAB])
    for i in range(SLAB, len(chunk), SLAB):
        total = total + function(chunk[i : i + SLAB])
    return total


def total_of_chunk(chunk):
    """Return `total` of rows in memory or in a memory map."""
    return partial(_total_of_chunk, chunk)


def _total_of_chunk(chunk, function):
    slabs = [slice(i, i + SLAB) for i in range(0, max(len(chunk), 1), SLAB)]
    parts = map_in_threads(lambda rows: function(chunk[rows]), slabs)
    return sum(parts[1:], start=parts[0])


@dataclass(frozen=True)
class Standard:
    """How targets become those that sums see: without a mean, of unit mean square, only those that vary."""

    varies: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    mean_size: float

    @classmethod
    def of(cls, statistics, fit_intercept):
        """Return the standard of rows with given statistics; `mean_size` is 0 without an intercept."""
        scale, varies = statistics.target_scale(fit_intercept)
        mean = statistics.mean[statistics.n_features :] * fit_intercept
        size = np.sqrt(statistics.weight) if fit_intercept else 0.0
        return cls(varies, mean[varies], scale[varies], size)

    def block(self, chunk):
        """Return rows as sums see them."""
        n = len(chunk)
        root = np.ones((n, 1)) if chunk.weight is None else np.sqrt(chunk.weight)[:, None]
        Q = root / self.mean_size if self.mean_size else np.zeros((n, 0))
        return RowBlock(chunk.X, root, Q, root * (chunk.Y[:, self.varies] - self.mean) / self.scale)


def _sums(standard, kernel, feature_map, chunk):
    return block_sums(kernel, feature_map, standard.block(chunk))


def _slope(standard, kernel, feature_map, sensitivity, chunk):
    return block_slope(kernel, feature_map, sensitivity, standard.block(chunk))


class SummedRows:
    """Rows that a `LandmarkObjective` knows by sums alone.

    Parameters
    ----------
    total : callable
        total(function) is the sum of function(chunk) over all chunks.
    survey : Survey
        Of all rows.
    fit_intercept : bool
        Whether there is an unpenalised constant.
    given : ndarray of shape (r, p) or None
        Landmarks; None has them chosen from the sample.
    """

    def __init__(self, total, survey, fit_intercept, given=None):
        self._total, self._sample, self._given = total, survey.sample, given
        self._standard = Standard.of(survey.statistics, fit_intercept)
        self.counts, self.scale = survey.statistics.counts(fit_intercept), self._standard.scale

    def __len__(self):
        return self.counts.n_rows

    def choose(self, kernel, rank, tau):
        """Return the given landmarks, or at most `rank` rows of the sample."""
        if self._given is not None:
            return self._given
        sample = self._sample
        return drawn_landmarks(kernel, sample.X, sample.weight, rank, tau * len(sample) / len(self))

    def sums(self, kernel, feature_map):
        """Return the `LandmarkSums` of all rows: one pass."""
        return self._total(partial(_sums, self._standard, kernel, feature_map))

    def slope(self, kernel, feature_map, sensitivity):
        """Return what all rows add to dF/dtheta: one pass."""
        return self._total(partial(_slope, self._standard, kernel, feature_map, sensitivity))


def learn_features(total, survey, start, landmarks, fit_intercept, report=None):
    """Return features whose kernel maximises the lower bound of the evidence of all rows.

    Parameters
    ----------
    total : callable
        As in `SummedRows`.
    survey : Survey
        Of all rows.
    start : tuple of Kernel and VarianceBounds
        The kernel of unit variance at its start, and bounds of the variances.
    landmarks : int or ndarray of shape (r, p)
        How many at most, or which.
    fit_intercept : bool
        Whether there is an unpenalised constant.
    report : callable or None
        report(n_rows, step, theta, evaluation) after every step.
    """
    (kernel, bounds), sample = start, survey.sample
    given = landmarks if np.ndim(landmarks) else None
    rank = min(landmarks if given is None else len(given), len(sample))
    data = Data.with_intercept(sample.X, sample.Y, sample.weight, fit_intercept)
    task = Task(data, kernel, CRITERIA["evidence"], bounds, plan=Plan("low_rank", rank, keeps_rows=True))
    theta, curvature = _of_sample(task, len(sample) / survey.statistics.n_rows, report)
    rows = SummedRows(total, survey, fit_intercept, given)
    objective = LandmarkObjective(task, rows, rank)
    told = at_level(report, objective)
    descent = descend_on_landmarks(objective, theta, kernel.bounds, curvature, True, told)
    kernel = task.kernel_at(descent.x)
    return Features(kernel, bounds, smooth_feature_map(make_gram(kernel), objective.landmarks))


def _of_sample(task, share, report):
    """Return theta that a sample suggests, and the curvature to expect of all rows."""
    varying = task.of_varying_outputs()
    if varying is None:
        return task.kernel.theta, None
    learned = learn(varying, task.kernel.theta, task.kernel.bounds, report=report)
    return learned.theta, learned.curvature / share
