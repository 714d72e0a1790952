"""Learning continuous kernel parameters: the outer loop around the O(n) inner one.

`learn` minimises an objective of `objectives` first on few rows and finally on all of them: every level
starts where the coarser one ended, with its curvature, so that the full matrix is factorised only a few
times. A level ends with a spectrum and a global search over the noise ratio. Where that finds a better one
than the descent did, the descent goes on from there.
"""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils import check_random_state

from ..decomposition.decompose import Decomposition
from ..decomposition.plan import SMALLEST_N, Route
from ..inference.solution import Solution
from ..kernels.parts import parameter_names
from ..support.threads import threads_for
from .descent import minimize_in_box
from .objectives import SpectralObjective, make_objective

__all__ = ["Learned", "learn", "learn_from_starts", "learn_with"]

# Fewest rows of a level; each level has this fraction of the next one's rows.
_COARSEST = 150
_FRACTION = 0.25
# Decrease of -2 log density that is not worth another step: on all rows, where they are many, on the way.
_TOLERANCE, _TOLERANCE_OF_MANY, _COARSE_TOLERANCE = 1e-9, 1e-5, 1e-3
# The same where several starts are compared first.
_LOOK_TOLERANCE = 1e-2
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
    if optimizer is None:
        ends = [learn(task, theta, bounds, report=report) for theta in starts]
    else:
        ends = [learn_with(optimizer, task, theta, bounds) for theta in starts]
    best = min(ends, key=lambda end: end.value)
    return replace(best, n_decompositions=sum(end.n_decompositions for end in ends))


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
    starts, curvature, noise_ratio, n_calls = None, None, None, 0
    for rows in _levels(task):
        level = task if len(rows) == len(task) else task.subset(rows).of_varying_outputs()
        if level is None:
            continue  # these rows have nothing to learn from
        with threads_for(len(rows)):
            objective = make_objective(level, task.is_single, noise_ratio)
            if starts is None:
                starts = objective.starts(theta)
            descent, end = _descend(objective, starts, bounds, curvature, level is task, report)
        starts, curvature = [descent.x], descent.curvature / _FRACTION
        noise_ratio = end.solution.noise_ratio.min()
        n_calls += objective.n_calls
    return replace(end, value=descent.value, n_decompositions=n_calls)


def _descend(objective, starts, bounds, curvature, is_last, report):
    """Return the best descent from all starts, and what the global search over variances makes of its end."""
    lower, upper = objective.box(bounds)
    settings = {
        "tolerance": _tolerance(objective.task) if is_last else _COARSE_TOLERANCE,
        "report": None if report is None else _at_level(report, objective),
    }
    if len(starts) > 1:  # look from all of them, go on from the best
        look = settings | {"tolerance": _LOOK_TOLERANCE}
        ends = [minimize_in_box(objective, s, lower, upper, curvature=curvature, **look) for s in starts]
        best = min(ends, key=lambda end: end.value)
        starts, curvature = [best.x], best.curvature
    best = minimize_in_box(objective, starts[0], lower, upper, curvature=curvature, **settings)
    for _ in range(_MAX_ROUNDS):
        end = _globally(objective, objective.theta(best.x))
        if end.value >= best.value - best.evaluation.off_by:
            return best, end
        again = objective.at(end.theta, end.solution)
        best = minimize_in_box(objective, again, lower, upper, curvature=best.curvature, **settings)
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
    def report_step(step, variables, evaluation):
        report(len(objective.task), step, objective.theta(variables), evaluation)

    return report_step


def _levels(task):
    """Return row indices of each level, nested, from the coarsest to all rows."""
    order, sizes = task.data.shuffled(task.problem().gram), [len(task)]
    while _FRACTION * sizes[-1] >= _COARSEST:
        sizes.append(int(_FRACTION * sizes[-1]))
    return [np.sort(order[:size]) for size in reversed(sizes)]
