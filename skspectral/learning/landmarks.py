"""Learning with a factor whose rank is given: the objective is what the factor is certain of.

A factor of fixed rank misses a part of K, more of it the shorter the length scales are, and its own evidence
takes that part for noise. The lower bound of the exact evidence does not (`criteria.lower_bound`): in
-2 log units, for each output, with landmarks Z and tau the trace of what they miss,

    F(theta) = min over g of  n log A + H + n log(1 + tau/(n g))  >=  -2 log evidence of K.

F is smooth in theta while Z stays, so landmarks are chosen once before a descent, and once more after it.
Where the new ones make F smaller, the descent goes on with them (`LandmarkObjective.refreshed`). F is smooth
in Z too (`LandmarkObjective.jointly`), which `moving` makes use of.

Rows enter by sums alone (`linalg.landmark_sums`): an evaluation is a pass over them that adds up J'J and tau,
and a second one that adds up slopes. `RowsInMemory` does both in slabs; other places of rows have the same
verbs.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..criteria.lower_bound import certain_evidence
from ..decomposition.decompose import decompose_on_landmarks, pilot_noise_ratio
from ..inference.tuned import tune
from ..kernels.algebra import contract, contract_diagonal
from ..kernels.gram import KernelGram
from ..kernels.slopes import contract_all, contract_inputs, has_input_slopes
from ..linalg.factors import FeatureMap, pivoted_cholesky
from ..linalg.landmark_sums import LandmarkSums, RowBlock, Sensitivity, joined_features, smooth_feature_map
from ..support.exceptions import IndefiniteKernelError
from ..support.memory import physical_memory
from ..support.threads import map_in_threads, threads_for
from .evaluation import Evaluation

__all__ = ["LandmarkObjective", "RowsInMemory", "block_slope", "block_sums", "drawn_landmarks"]

# Rows of a slab: arrays of a slab and the landmarks stay small beside those of all rows.
_SLAB = 2048
# Share of the memory that joined features may take between the two passes; else they are made anew.
_KEPT_SHARE = 0.125
# Share of the noise ratio that landmarks may miss of the trace and be enough: so much is F off.
_TAU_SHARE = 1e-3
# By how much (in -2 log units) landmarks chosen anew must be better before a descent goes on with them.
_WORTH_ANOTHER_DESCENT = 1.0


def block_sums(kernel, feature_map, block):
    """Return the `LandmarkSums` of a block of rows: its part of the first pass."""
    gram = KernelGram(kernel)
    return LandmarkSums.of(joined_features(feature_map, gram, block), gram, block)


def block_slope(kernel, feature_map, sensitivity, block, J=None):
    """Return what a block of rows adds to dF/dtheta: its part of the second pass."""
    by_cross = _by_cross(kernel, feature_map, sensitivity, block, J)
    slope = contract(kernel, by_cross, block.X, feature_map.landmarks)
    return slope + _slope_of_diagonal(kernel, sensitivity, block)


def block_slopes(kernel, feature_map, sensitivity, block, J=None):
    """Return what a block of rows adds to dF/dtheta and to dF/dZ, one array after the other."""
    by_cross = _by_cross(kernel, feature_map, sensitivity, block, J)
    slope, by_landmarks = contract_all(kernel, by_cross, block.X, feature_map.landmarks)
    slope = slope + _slope_of_diagonal(kernel, sensitivity, block)
    return np.concatenate([slope, by_landmarks.ravel()])


def _by_cross(kernel, feature_map, sensitivity, block, J):
    """Return dF/dK(X, Z) of a block of rows."""
    J = joined_features(feature_map, KernelGram(kernel), block) if J is None else J
    by_cross = J @ sensitivity.by_cross
    by_cross *= block.root
    return by_cross


def _slope_of_diagonal(kernel, sensitivity, block):
    return contract_diagonal(kernel, sensitivity.by_diagonal * block.root[:, 0] ** 2, block.X)


def drawn_landmarks(kernel, X, weight, rank, tau):
    """Return at most `rank` rows of X that span the kernel to a trace of tau, drawn by what others miss."""
    return pivoted_cholesky(KernelGram(kernel), X, tau=tau, rank=rank, weight=weight, drawn=True).landmarks


class RowsInMemory:
    """The rows of a task, all at hand.

    Attributes
    ----------
    counts : RowCounts
        Numbers of rows and mean functions.
    scale : ndarray of shape (m,)
        Scale of the standardised targets.
    """

    def __init__(self, task):
        self.data, rows = task.data, task.data.rows
        Y, self.scale, _ = task.data.standardised
        self.counts = rows.counts
        slabs = [slice(i, i + _SLAB) for i in range(0, len(task), _SLAB)]
        self._blocks = [RowBlock(self.data.X[i], rows.sqrt_weight[i], rows.Q[i], Y[i]) for i in slabs]
        self._kept = [None] * len(self._blocks)

    def __len__(self):
        return len(self.data)

    def choose(self, kernel, rank, tau):
        """Return at most `rank` inputs that span the kernel to a trace of tau, drawn by what others miss."""
        return drawn_landmarks(kernel, self.data.X, self.data.weight, rank, tau)

    def sums(self, kernel, feature_map):
        """Return the `LandmarkSums` of all rows."""
        gram = KernelGram(kernel)
        keeps = 8.0 * len(self) * len(feature_map.L) <= _KEPT_SHARE * physical_memory()

        def of_block(block):
            J = joined_features(feature_map, gram, block)
            return J if keeps else None, LandmarkSums.of(J, gram, block)

        self._kept, parts = zip(*map_in_threads(of_block, self._blocks), strict=True)
        return sum(parts[1:], start=parts[0])

    def slope(self, kernel, feature_map, sensitivity):
        """Return what all rows add to dF/dtheta, with the features of the sums just before."""
        return self._added(block_slope, kernel, feature_map, sensitivity)

    def slopes(self, kernel, feature_map, sensitivity):
        """Return what all rows add to dF/dtheta and dF/dZ, likewise, one after the other."""
        return self._added(block_slopes, kernel, feature_map, sensitivity)

    def _added(self, slope, kernel, feature_map, sensitivity):
        def of_block(block_and_features):
            return slope(kernel, feature_map, sensitivity, *block_and_features)

        return sum(map_in_threads(of_block, [*zip(self._blocks, self._kept, strict=True)]))

    def spread(self):
        """Return the weighted standard deviation of each input."""
        X, weight = self.data.X, self.data.rows.sqrt_weight[:, 0] ** 2
        weight = weight / weight.sum()
        return np.sqrt(weight @ (X - weight @ X) ** 2)


@dataclass(frozen=True)
class BoundAt:
    """The lower bound at one theta: the sums, their spectrum and the variances that it prefers."""

    feature_map: FeatureMap
    sums: LandmarkSums
    spectrum: object
    tuned: object
    value: float


class LandmarkObjective:
    """F(theta) = sum_m min over variances of the certain part of -2 log evidence, for fixed landmarks.

    Parameters
    ----------
    task : Task
        What is learned.
    rows : object, default=None
        Where the rows are; None means in the task's own memory.
    rank : int, default=None
        Largest number of landmarks; None asks the task's plan.
    noise_ratio : float, default=None
        Where no rank was asked for, landmarks are as many as it takes to miss a trace that is small beside
        the smallest noise ratio; None has it estimated on a few rows.
    landmarks : ndarray of shape (r, p), default=None
        Landmarks that were moved on fewer rows.

    Attributes
    ----------
    n_calls : int
        Passes over the rows for a value so far.
    landmarks : array of r inputs or None
        The landmarks, None before the first are chosen.
    has_moved : bool
        Whether they are other inputs than rows.
    """

    def __init__(self, task, rows=None, rank=None, noise_ratio=None, landmarks=None):
        self.task, self.n_calls = task, 0
        self.landmarks, self.has_moved = landmarks, landmarks is not None
        self.rows = RowsInMemory(task) if rows is None else rows
        self._rank = task.plan.learning_rank(len(self.rows)) if rank is None else rank
        self._smallest_g = noise_ratio

    def starts(self, theta):
        """Return the points in the outer variables from which to descend: theta itself."""
        return [theta]

    def at(self, theta, solution):
        """Return the outer variables of a solution."""
        return theta

    def theta(self, variables):
        """Return theta of the outer variables."""
        return variables

    def box(self, bounds):
        """Return lower and upper limits of the outer variables."""
        return bounds[:, 0], bounds[:, 1]

    def __call__(self, theta):
        """Return the `Evaluation` at theta."""
        kernel = self.task.kernel_at(theta)
        try:
            if self.landmarks is None:
                self.landmarks = self._chosen(kernel)
            with threads_for(len(self.rows), len(self.landmarks)):
                here = self._bound(kernel, self.landmarks)
                slope = self._slope(kernel, here)
        except IndefiniteKernelError:
            return Evaluation.undefined(theta)
        return self._evaluation(theta, here, slope)

    def jointly(self, theta, landmarks):
        """Return the `Evaluation` at theta with other landmarks, and dF/dZ, (r, p)."""
        kernel = self.task.kernel_at(theta)
        try:
            with threads_for(len(self.rows), len(landmarks)):
                here = self._bound(kernel, landmarks)
                slope, by_landmarks = self._slopes(kernel, here)
        except IndefiniteKernelError:
            return Evaluation.undefined(theta), np.zeros_like(landmarks)
        return self._evaluation(theta, here, slope), by_landmarks

    def may_move(self):
        """Return whether landmarks may be other inputs than rows: where the kernel has slopes by these."""
        return self.task.plan.may_move and has_input_slopes(self.task.kernel, self.task.data.X)

    def _evaluation(self, theta, here, slope):
        self._smallest_g = here.tuned.noise_ratio.min()
        value, slope = self.task.with_prior(theta, here.value, slope)
        variances = here.tuned.noise_var, here.tuned.signal_var
        return Evaluation(value, slope, variances, len(here.feature_map.L))

    def refreshed(self, theta, value):
        """Choose landmarks anew at theta, keep the better ones, and return whether these are new.

        New ones are taken where they make the value at theta smaller by more than it takes to be worth
        another descent.
        """
        kernel = self.task.kernel_at(theta)
        chosen = self._chosen(kernel)
        with threads_for(len(self.rows), len(chosen)):
            there = self._bound(kernel, chosen).value
        there = self.task.with_prior(theta, there, np.zeros_like(theta))[0]
        if not there < value - _WORTH_ANOTHER_DESCENT:
            return False
        self.landmarks, self.has_moved = chosen, False
        return True

    def move_to(self, landmarks):
        """Take other inputs for landmarks."""
        self.landmarks, self.has_moved = landmarks, True

    def solve(self, theta):
        """Return the decomposition at theta and its solution: on the landmarks, or certified."""
        if not self.task.learns_by_bound:
            return self.task.solve(theta)
        problem, plan, landmarks = self.task.problem(theta), self.task.plan, self.landmarks
        if plan.rank is None:
            landmarks = self._chosen(self.task.kernel_at(theta), plan.factor_rank(len(self.rows)))
        decomposition = decompose_on_landmarks(problem, landmarks)
        return decomposition, problem.solution(decomposition)

    def _chosen(self, kernel, rank=None):
        """Return landmarks for a kernel, at most as many as learning has for None."""
        if self.task.plan.rank is not None:
            tau = 0.0  # all that were asked for
        else:
            if self._smallest_g is None:
                self._smallest_g = pilot_noise_ratio(replace(self.task.problem(), gram=KernelGram(kernel)))
            # no more than the variance of the kernel: something is to be spanned even where all seems noise
            tau = _TAU_SHARE * min(self._smallest_g, float(kernel.diag(self.task.data.X).mean()))
        return self.rows.choose(kernel, min(rank or self._rank, len(self.rows)), tau)

    def _bound(self, kernel, landmarks):
        """Return the bound at a kernel: the first pass over the rows."""
        self.n_calls += 1
        task, rows = self.task, self.rows
        feature_map = smooth_feature_map(KernelGram(kernel), landmarks)
        sums = rows.sums(kernel, feature_map)
        spectrum, criterion = sums.spectrum(rows.counts), certain_evidence(sums.tau)
        rotated = spectrum.rotate(sums.PhiY, sums.energy, rows.scale)
        tuned = tune(rotated, criterion, task.bounds)
        return BoundAt(feature_map, sums, spectrum, tuned, tuned.objective(criterion))

    def _slope(self, kernel, here):
        """Return dF/dtheta: the second pass over the rows."""
        sensitivity, Z = self._sensitivity(here), here.feature_map.landmarks
        slope = contract(kernel, sensitivity.among, Z, Z)
        return slope + self.rows.slope(kernel, here.feature_map, replace(sensitivity, among=None))

    def _slopes(self, kernel, here):
        """Return dF/dtheta and dF/dZ, by the second pass too."""
        sensitivity, Z = self._sensitivity(here), here.feature_map.landmarks
        slope = contract(kernel, sensitivity.among, Z, Z)
        by_landmarks = 2.0 * contract_inputs(kernel, sensitivity.among, Z, Z)  # as rows and as columns
        both = self.rows.slopes(kernel, here.feature_map, replace(sensitivity, among=None))
        return slope + both[: len(slope)], by_landmarks + both[len(slope) :].reshape(Z.shape)

    def _sensitivity(self, here):
        g, b = here.tuned.noise_ratio, here.tuned.noise_var / self.rows.scale**2
        return Sensitivity.at(here.sums, here.spectrum, here.feature_map.L, g, b)
