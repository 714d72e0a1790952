"""Learning from targets with holes: a kernel for all outputs, each with the rows in which it was observed.

Outputs that were observed in the same rows share a pattern, and a kernel matrix at every step. What is
minimised is the sum over patterns.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..inference.entries import solve_entries
from ..kernels.algebra import contract
from ..kernels.gram import make_gram
from ..support.exceptions import IndefiniteKernelError
from .evaluation import Evaluation
from .objectives import SpectralObjective, make_objective
from .objectives import profiled_evidence as profiled_evidence_of_pattern
from .task import Task

__all__ = [
    "EntriesTask",
    "PatternedTask",
    "SummedObjective",
    "by_patterns",
    "objective_of",
    "profiled_evidence",
]

# By how much another start may improve on covariances that were found from those of the last step.
_OFF_BY = 1.0


@dataclass(frozen=True)
class PatternedTask(Task):
    """A task whose targets have holes: a sum of tasks without."""

    @cached_property
    def parts(self):
        """The tasks of all patterns, of outputs that vary."""
        tasks = [self._part(data.of_present_rows()) for _, data in self.data.by_pattern()]
        varying = [task.of_varying_outputs() for task in tasks]
        return tuple(task for task in varying if task is not None)

    def _part(self, data):
        values = vars(self) | {
            "data": data,
            "plan": self.plan.for_rows(len(data)),
            "theta_prior": None,
            "correlated": False,
        }
        return Task(**{name: values[name] for name in Task.__dataclass_fields__})

    @property
    def n_matrices(self):
        """How many kernel matrices stand behind a solution."""
        return len(self.parts)

    @property
    def is_single(self):
        """Whether there is a `ResolventObjective`: not for sums."""
        return False

    @property
    def learns_by_bound(self):
        """Whether there is a lower bound to maximise: not for sums."""
        return False

    @property
    def learns_on_landmarks(self):
        """Whether there is a `LandmarkObjective`: not for sums."""
        return False

    def of_varying_outputs(self):
        """Return the task itself, None where no output varies."""
        return self if self.parts else None

    def solve(self, theta, *, without_factor):
        """Return decompositions and `Solutions` of all patterns at theta."""
        solved = [part.solve(theta, without_factor=without_factor) for part in self.parts]
        decompositions, solutions = zip(*solved, strict=True)
        return decompositions, Solutions(solutions)

    def objective(self, theta, solution):
        """Return what is minimised, at the variances of solutions."""
        values = [s.objective(self.criterion) for s in solution.solutions]
        return self.with_prior(theta, sum(values), np.zeros_like(theta))[0]


@dataclass(frozen=True)
class Solutions:
    """The solutions of several patterns."""

    solutions: tuple

    @property
    def in_basis(self):
        """The solutions themselves."""
        return self

    @property
    def noise_ratio(self):
        """Noise ratios of all outputs."""
        return np.concatenate([solution.noise_ratio for solution in self.solutions])


class SummedObjective(SpectralObjective):
    """F(theta) summed over patterns, from one spectrum for each of them per call.

    Parameters
    ----------
    task : PatternedTask
        What is learned.
    noise_ratio : float, default=None
        As in `SpectralObjective`.
    """

    def __init__(self, task, noise_ratio=None):
        self.task, self.n_calls = task, 0
        self._objectives = [SpectralObjective(part, noise_ratio) for part in task.parts]

    def __call__(self, theta):
        """Return the `Evaluation` at theta."""
        before = self._n_inside
        evaluations = [objective(theta) for objective in self._objectives]
        self.n_calls += self._n_inside - before
        value = sum(e.value for e in evaluations)
        if not np.isfinite(value):
            return Evaluation.undefined(theta)
        slope = np.sum([e.gradient for e in evaluations], axis=0)
        variances = tuple(np.concatenate(v) for v in zip(*(e.variances for e in evaluations), strict=True))
        off_by = sum(e.off_by for e in evaluations)
        return Evaluation(*self.task.with_prior(theta, value, slope), variances, off_by=off_by)

    @property
    def _n_inside(self):
        return sum(objective.n_calls for objective in self._objectives)


@dataclass(frozen=True)
class EntriesTask(PatternedTask):
    """A task of correlated outputs whose targets have holes: one dense system of the observed entries."""

    def solve(self, theta, start=None, *, without_factor=False):
        """Return the decompositions of outputs alone, and the `EntriesSolution` at theta."""
        alone = []
        for outputs, data in self.data.by_pattern():
            part = self._part(data)
            alone.append((outputs, part.solve_matrix(theta)))
        K = make_gram(self.kernel_at(theta)).square(self.data.X)
        return tuple(solution.spectrum for _, solution in alone), solve_entries(alone, self.data, K, start)

    def objective(self, theta, solution):
        """Return what is minimised, at the covariances of a solution."""
        return self.with_prior(theta, solution.objective(self.criterion), np.zeros_like(theta))[0]


class EntriesObjective(SpectralObjective):
    """F(theta), minimised over both covariances of outputs with holes.

    Parameters
    ----------
    task : EntriesTask
        What is learned.
    """

    def __init__(self, task):
        self.task, self.n_calls, self._start = task, 0, None

    def __call__(self, theta):
        """Return the `Evaluation` at theta, starting from the covariances of the last one."""
        task = self.task
        try:
            solution = task.solve(theta, self._start)[1]
        except IndefiniteKernelError:
            return Evaluation.undefined(theta)
        self.n_calls += task.n_matrices + solution.result.n_evaluations
        self._start = solution.basis
        slope = contract(task.kernel_at(theta), solution.sensitivity(), task.data.X)
        value = solution.objective(task.criterion)
        return Evaluation(
            *task.with_prior(theta, value, slope), (solution.noise_var, solution.signal_var), off_by=_OFF_BY
        )


def by_patterns(task):
    """Return a task as it is, or the one of targets that have holes."""
    if not task.data.has_holes:
        return task
    return (EntriesTask if task.correlated else PatternedTask)(**vars(task))


def objective_of(task, is_single, noise_ratio=None):
    """Return the objective of a task, the same kind for all of its levels."""
    if isinstance(task, EntriesTask):
        return EntriesObjective(task)
    if isinstance(task, PatternedTask):
        return SummedObjective(task, noise_ratio)
    return make_objective(task, is_single, noise_ratio)


def profiled_evidence(task, theta, eval_gradient):
    """Return the log evidence, maximised over the variances and summed over outputs, and its gradient."""
    if not isinstance(task, PatternedTask):
        return profiled_evidence_of_pattern(task, theta, eval_gradient)
    if isinstance(task, EntriesTask):
        return _evidence_of_entries(task, theta, eval_gradient)
    parts = [task._part(data.of_present_rows()) for _, data in task.data.by_pattern()]
    results = [profiled_evidence_of_pattern(part, theta, eval_gradient) for part in parts]
    if not eval_gradient:
        return sum(results)
    values, slopes = zip(*results, strict=True)
    return sum(values), np.sum(slopes, axis=0)


def _evidence_of_entries(task, theta, eval_gradient):
    solution = task.solve(theta)[1]
    value = float(solution.log_evidence[0])
    if not eval_gradient:
        return value
    return value, -0.5 * contract(task.kernel_at(theta), solution.sensitivity(), task.data.X)
