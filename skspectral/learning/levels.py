"""Learning continuous kernel parameters: the outer loop around the O(n) inner one.

`learn` minimises an objective of `objectives` first on few rows and finally on all of them. The coarsest
level explores (`exploration`); every other one starts where the coarser one ended, with its curvature, so
that the full matrix is factorised only a few times. All rows end with a spectrum and a global search over the
noise ratio. Where that finds a better one than the descent did, the descent goes on from there.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import check_random_state

from ..decomposition.decompose import Decomposition
from ..decomposition.plan import SMALLEST_N, Route
from ..inference.solution import Solution
from ..kernels.parts import parameter_names
from ..support.exceptions import IndefiniteKernelError
from ..support.threads import threads_for
from .exploration import Explorer
from .objectives import SpectralObjective, make_objective
from .user_path import follow_user_path

__all__ = ["Learned", "learn", "learn_from_starts", "learn_with"]

# Fewest rows of a level, in all and for each parameter.
_COARSEST, _COARSEST_EACH = 150, 15
_ROWS_PER_MEAN_FUNCTION = 5
# Decrease of -2 log density that is not worth another step: on all rows, where they are many, on the way.
_TOLERANCE, _TOLERANCE_OF_MANY, _COARSE_TOLERANCE = 1e-9, 1e-5, 1e-3
# How often the global search over g may send the descent on its way again.
_MAX_ROUNDS = 4


@dataclass(frozen=True)
class Learned:
    """Result of `learn`.

    Attributes
    ----------
    theta : ndarray of shape (p,)
        The learned parameters, in log units.
    value : float
        The minimised objective.
    decomposition : Decomposition
        Of the kernel matrix at theta.
    solution : Solution
        Its variances and coefficients.
    n_decompositions : int
        Matrices factorised on the way.
    """

    theta: np.ndarray
    value: float
    decomposition: Decomposition
    solution: Solution
    n_decompositions: int

    def is_of(self, task):
        """Return whether decomposition and solution are those of all rows and outputs of a task."""
        rotated = self.solution.rotated
        all_rows, greedy = len(rotated.rows) == len(task), task.plan.route(len(task)) is Route.GREEDY
        return all_rows and not greedy and rotated.n_outputs == task.data.n_outputs


def learn_from_starts(task, *, optimizer=None, n_restarts=0, random_state=None, report=None):
    """Return the best of `learn` from the kernel's own theta and from drawn ones, all factorisations counted.

    Parameters
    ----------
    task : Task
        What is learned.
    optimizer : callable, default=None
        Takes the place of `learn`, see `learn_with`.
    n_restarts : int, default=0
        Starts drawn uniformly within the bounds of theta.
    random_state : int, RandomState instance or None, default=None
        Draws them.
    report : callable, default=None
        As in `learn`.
    """
    starts, bounds = [task.kernel.theta], task.kernel.bounds
    if n_restarts:
        if not np.isfinite(bounds).all():
            raise ValueError(
                "n_restarts_optimizer > 0 draws starts within the bounds, which must be finite; got "
                f"{dict(zip(parameter_names(task.kernel), np.exp(bounds).tolist(), strict=True))}."
            )
        rng = check_random_state(random_state)
        starts += [rng.uniform(*bounds.T) for _ in range(n_restarts)]
    ends = [_from(task, starts[0], bounds, optimizer, report)]
    for theta in starts[1:]:
        try:
            ends.append(_from(task, theta, bounds, optimizer, report))
        except IndefiniteKernelError:
            continue  # drawn where the kernel has no decomposition
    best = min(ends, key=lambda end: end.value)
    return replace(best, n_decompositions=sum(end.n_decompositions for end in ends))


def _from(task, theta, bounds, optimizer, report):
    if optimizer is None:
        return learn(task, theta, bounds, report=report)
    return learn_with(optimizer, task, theta, bounds)


def learn(task, theta, bounds, *, report=None):
    """Minimise the task's objective over theta from one starting point, coarse to fine.

    Parameters
    ----------
    task : Task
        What is learned; all outputs vary.
    theta : ndarray of shape (p,)
        Start, in log units.
    bounds : ndarray of shape (p, 2)
        Box, in log units.
    report : callable, default=None
        report(n_rows, step, theta, evaluation) after every step.
    """
    found, n_calls, halvings = None, 0, _halvings(task)
    while True:
        rows = _drawn(task, len(task) >> halvings)
        level = task if halvings == 0 else task.subset(rows).of_varying_outputs()
        if level is not None:  # these rows have something to learn from
            with threads_for(len(rows)):
                objective = make_objective(
                    level, task.is_single, None if found is None else found.noise_ratio
                )
                explorer = Explorer(objective, *objective.box(bounds), _at_level(report, objective))
                found = _found(explorer, found, theta, halvings == 0)
                n_calls += objective.n_calls
                if halvings == 0:
                    descent, end = _settled(explorer, found)
                    return replace(end, value=descent.value, n_decompositions=n_calls + end.n_decompositions)
        halvings = _finer(halvings, found)


@dataclass(frozen=True)
class _Found:
    """What a level found: its best descents, best first, and its number of rows."""

    ends: list
    n_rows: int

    @property
    def best(self):
        return self.ends[0]

    @property
    def noise_ratio(self):
        """Smallest noise ratio of all outputs."""
        noise, signal = self.best.evaluation.variances
        return np.min(noise / signal)


def _found(explorer, coarser, theta, is_last):
    """Return what a level finds: by exploring, or from the ends of a coarser level."""
    objective = explorer.objective
    n_rows, paths = len(objective.task), _user_paths(objective, theta) if is_last else []
    if coarser is None:
        return _Found(explorer.explore([*objective.starts(theta), *paths], _COARSE_TOLERANCE), n_rows)
    growth = n_rows / coarser.n_rows
    starts = [(path, None) for path in paths] + [(end.x, end.curvature * growth) for end in coarser.ends]
    return _Found(explorer.compare(starts, _COARSE_TOLERANCE), n_rows)


def _user_paths(objective, theta):
    """Return the outer variables at the end of the user's own path, if that is followed."""
    task = objective.task
    if not np.array_equal(theta, task.kernel.theta):
        return []
    end, n_calls = follow_user_path(task)
    objective.n_calls += n_calls
    return [] if end is None else [objective.with_ratio(*end)]


def _settled(explorer, found):
    """Return the best descent on all rows, and what the global search over variances makes of its end."""
    objective, tolerance = explorer.objective, _tolerance(explorer.objective.task)
    objective.n_calls, best = 0, found.best
    best = explorer.descend(best.x, curvature=best.curvature, tolerance=tolerance)
    for _ in range(_MAX_ROUNDS):
        end = _globally(objective, objective.theta(best.x))
        if end.value >= best.value - best.evaluation.off_by:
            return best, end
        again = objective.at(end.theta, end.solution)
        best = explorer.descend(again, curvature=best.curvature, tolerance=tolerance)
    return best, _globally(objective, objective.theta(best.x))


def _tolerance(task):
    """Return a decrease that is not worth another step, where steps are expensive or factors approximate."""
    is_rough = len(task) >= SMALLEST_N or task.plan.forces_factors
    return _TOLERANCE_OF_MANY if is_rough else _TOLERANCE


def _globally(objective, theta):
    """Return what is learned if it ends at theta, with the variances found by a global search."""
    objective.n_calls += 1
    decomposition, solution = objective.task.solve(theta)
    value = objective.task.objective(theta, solution)
    return Learned(theta, value, decomposition, solution, objective.n_calls)


def learn_with(optimizer, task, theta, bounds):
    """Minimise by a callable with scikit-learn's signature, which sees half of F, a -log density."""
    objective = SpectralObjective(task)

    def obj_func(theta, eval_gradient=True):
        at_theta = objective(np.asarray(theta, dtype=np.float64))
        return (0.5 * at_theta.value, 0.5 * at_theta.gradient) if eval_gradient else 0.5 * at_theta.value

    theta, value = optimizer(obj_func, theta, bounds=bounds)
    end = _globally(objective, np.asarray(theta, dtype=np.float64))
    return replace(end, value=2.0 * float(value))


def _at_level(report, objective):
    if report is None:
        return None

    def report_step(step, variables, evaluation):
        report(len(objective.task), step, objective.theta(variables), evaluation)

    return report_step


def _halvings(task):
    """Return how often the rows are halved for the coarsest level."""
    fewest = max(
        _COARSEST,
        _COARSEST_EACH * task.kernel.n_dims,
        _ROWS_PER_MEAN_FUNCTION * task.data.rows.n_mean,
    )
    return max(0, int(np.log2(len(task) / fewest)))


def _finer(halvings, found):
    """Return the halvings of the next level: one less, or two where factors make large levels cheap."""
    by_factor = found is not None and found.best.evaluation.rank is not None
    return max(0, halvings - (2 if by_factor else 1))


def _drawn(task, n_rows):
    """Return the row indices of a level: those of coarser levels are among them."""
    return np.sort(task.data.shuffled(task.problem().gram)[:n_rows])
