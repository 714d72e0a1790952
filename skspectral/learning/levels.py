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
from ..kernels.parameters import bounds_of, n_dims_of, theta_of
from ..kernels.parts import has_white_noise, parameter_names
from ..support.exceptions import IndefiniteKernelError
from ..support.threads import available_threads, threads_for
from .exploration import Explorer, is_elsewhere
from .landmark_descent import (
    COARSE_TOLERANCE_OF_BOUNDS,
    TOLERANCE_OF_BOUNDS,
    descend_on_landmarks,
    end_of_bound,
    starts_on_landmarks,
)
from .landmarks import LandmarkObjective
from .patterns import objective_of
from .valleys import COARSE_TOLERANCE, beside, explored, with_user_path

__all__ = ["Learned", "at_level", "learn", "learn_from_starts", "learn_with"]

# Fewest rows of a level, in all and for each parameter.
_COARSEST, _COARSEST_EACH = 150, 15
_ROWS_PER_MEAN_FUNCTION = 5
# Decrease of -2 log density that is not worth another step on all rows, where they are few.
_TOLERANCE = 1e-7
# Rows of which a step takes ten seconds and more.
_VERY_MANY = 5000
# Steps on all rows and flops of a thread in a second that a rough time is made of.
_STEPS_AHEAD, _FLOPS_OF_THREAD = 20, 1.5e10
# Calls of an objective of landmarks after which no more hops are tried.
_MAX_CALLS = 80
# Difference of -2 log density, for each output, that is rounding.
_NOTHING = 1e-6
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
    curvature : ndarray or None
        Second derivatives of the objective by the outer variables, as far as the descent got to know them.
    """

    theta: np.ndarray
    value: float
    decomposition: Decomposition
    solution: Solution
    n_decompositions: int
    curvature: np.ndarray | None = None

    def is_of(self, task):
        """Return whether decomposition and solution are those of all rows and outputs of a task."""
        if task.data.has_holes:
            return False
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
    starts, bounds = [theta_of(task.kernel)], bounds_of(task.kernel)
    if n_restarts:
        if not np.isfinite(bounds).all():
            raise ValueError(
                "n_restarts_optimizer > 0 draws starts within the bounds, which must be finite; got "
                f"{dict(zip(parameter_names(task.kernel), np.exp(bounds).tolist(), strict=True))}."
            )
        rng = check_random_state(random_state)
        starts += [rng.uniform(*bounds.T) for _ in range(n_restarts)]
    if task.report is not None and task.report.verbose:
        task.report.line(_ahead(task, len(starts)))
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
        n_rows, is_last = len(task) >> halvings, halvings == 0
        level = task if is_last else task.subset(task.drawn(n_rows)).of_varying_outputs()
        if level is not None:  # these rows have something to learn from
            with threads_for(n_rows):
                objective = _objective(level, task, found)
                if halvings == 1:
                    found = _with_valley_of_all_rows(found, objective, task, theta, bounds)
                # a noise ratio among the variables does not hop: it is searched globally in the end
                box, tell = objective.box(bounds), at_level(report, objective)
                explorer = Explorer(objective, *box, tell, n_hopping=len(theta))
                on_landmarks = level.learns_on_landmarks
                found = (_found_on_landmarks if on_landmarks else _found)(explorer, found, theta, is_last)
                n_calls += objective.n_calls
                if is_last:
                    descent, end = (_on_landmarks if on_landmarks else _settled)(explorer, found, theta)
                    n_calls += end.n_decompositions
                    return replace(
                        end, value=descent.value, n_decompositions=n_calls, curvature=descent.curvature
                    )
        halvings = _finer(task, halvings, found)


def _objective(level, task, found):
    """Return the objective of a level, given what a coarser one found."""
    noise_ratio = None if found is None else found.noise_ratio
    if level.learns_on_landmarks:
        landmarks = None if found is None else found.landmarks
        return LandmarkObjective(level, noise_ratio=noise_ratio, landmarks=landmarks)
    return objective_of(level, task.is_single, noise_ratio)


def _with_valley_of_all_rows(found, objective, task, theta, bounds):
    """Return what a level found and, for very many rows, where a lower bound on all of them leads.

    That is a start of the last level but one, which decides between them by what the matrix itself says.
    """
    is_of_matrix = found is not None and found.best.evaluation.rank is None
    if not (is_of_matrix and len(task) > _VERY_MANY and task.is_single) or has_white_noise(task.kernel):
        return found
    end, n_calls = end_of_bound(task, theta, bounds)
    objective.n_calls += n_calls
    x = objective.with_ratio(end.x, _Found([end], len(task)).noise_ratio)
    return (
        replace(found, ends=[*found.ends, replace(found.best, x=x)]) if is_elsewhere(x, found.best) else found
    )


def _found_on_landmarks(explorer, coarser, theta, is_last):
    """Return what a level of a lower bound finds: by exploring, or from the best end of a coarser level."""
    objective, p = explorer.objective, len(theta)
    bounds = np.stack([explorer.lower, explorer.upper], axis=1)
    if coarser is None:
        starts = starts_on_landmarks(objective, theta, bounds)
        best, growth = explorer.explore(starts, p * COARSE_TOLERANCE_OF_BOUNDS, _MAX_CALLS)[0], 1.0
    else:
        best, growth = coarser.best, len(objective.task) / coarser.n_rows
    start, curvature = _without_ratio(best.x, best.curvature * growth, p)
    settings = {"is_last": is_last, "report": explorer.report}
    end = descend_on_landmarks(objective, start, bounds, curvature, **settings)
    return _Found([end], len(objective.task), objective.landmarks if objective.has_moved else None)


def _on_landmarks(explorer, found, _):
    """Return the descent of a lower bound on all rows, and the model at its end."""
    descent = found.best
    return descent, Learned(descent.x, descent.value, *explorer.objective.solve(descent.x), 1)


def _without_ratio(variables, curvature, p):
    """Return theta of (theta, x), and the curvature by theta with x at its best (a Schur complement)."""
    if len(variables) == p or curvature is None:
        return variables[:p], curvature
    B, mixed = curvature[:p, :p], curvature[:p, p]
    return variables[:p], B - np.outer(mixed, mixed) / curvature[p, p]


@dataclass(frozen=True)
class _Found:
    """What a level found: its best descents, best first, its number of rows, and landmarks that it moved."""

    ends: list
    n_rows: int
    landmarks: np.ndarray | None = None

    @property
    def best(self):
        return self.ends[0]

    @property
    def noise_ratio(self):
        """Smallest noise ratio of all outputs."""
        noise, signal = self.best.evaluation.variances
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # no signal: an infinite ratio
            return np.nanmin(np.divide(noise, signal), initial=np.inf)


def _found(explorer, coarser, theta, is_last):
    """Return what a level finds: by exploring, or from the ends of a coarser level."""
    objective = explorer.objective
    task, n_rows = objective.task, len(objective.task)
    is_users = is_last and np.array_equal(theta, theta_of(task.kernel))
    if coarser is None:
        return _Found(explored(explorer, theta, is_users), n_rows)
    growth = n_rows / coarser.n_rows
    starts = [(end.x, end.curvature * growth) for end in coarser.ends]
    ends = explorer.compare(starts, _coarse_tolerance(task))
    return _Found(with_user_path(explorer, ends, theta) if is_users else ends, n_rows)


def _settled(explorer, found, theta):
    """Return the best descent on all rows, and what the global search over variances makes of its end."""
    objective, tolerance = explorer.objective, _tolerance(explorer.objective.task)
    objective.n_calls, best = 0, found.best
    if tolerance < COARSE_TOLERANCE:
        way_from = beside(best.x, theta)
        best = explorer.go_on(best, tolerance=tolerance, enough=tolerance, way_from=way_from)
    for _ in range(_MAX_ROUNDS):
        end = _globally(objective, best)
        if end.value >= best.value - max(best.evaluation.off_by, tolerance):
            return best, _where_it_matters(objective, end, theta)
        again = objective.at(end.theta, end.solution)
        further = explorer.descend(again, curvature=best.curvature, tolerance=tolerance)
        if further.value >= best.value - tolerance:  # it does not lead on from there: the search is ahead
            return best, _where_it_matters(objective, end, theta)
        best = further
    return best, _globally(objective, best)


def _where_it_matters(objective, end, theta):
    """Return the end of learning, at the start where all is noise: no parameter of a kernel matters then."""
    if np.isfinite(end.solution.in_basis.noise_ratio).any():
        return end
    at_start = _learned(objective, theta)
    is_as_good = at_start.value <= end.value + objective.task.data.n_outputs * _NOTHING
    return at_start if is_as_good else end


def _tolerance(task):
    """Return a decrease that is not worth another step, where steps are expensive or factors approximate."""
    is_rough = len(task) >= SMALLEST_N or task.plan.forces_factors
    return _coarse_tolerance(task) if is_rough else _TOLERANCE


def _coarse_tolerance(task):
    """Return a decrease that is not worth another step on the way: more where a step takes many seconds."""
    return TOLERANCE_OF_BOUNDS * task.kernel.n_dims if len(task) > _VERY_MANY else COARSE_TOLERANCE


def _globally(objective, descent):
    """Return what is learned if it ends where a descent did, with variances found by a global search."""
    theta, without_factor = objective.theta(descent.x), descent.evaluation.rank is None
    return _learned(objective, theta, without_factor)


def _learned(objective, theta, without_factor=False):
    """Return what is learned if it ends at theta."""
    objective.n_calls += objective.task.n_matrices
    decomposition, solution = objective.task.solve(theta, without_factor=without_factor)
    value = objective.task.objective(theta, solution)
    return Learned(theta, value, decomposition, solution, objective.n_calls)


def _ahead(task, n_starts):
    """Return what is ahead in words: levels, rank and a rough time, which no more than flops are known of."""
    n, plan = len(task), task.plan
    sizes = ", ".join(str(n >> halvings) for halvings in range(_halvings(task), -1, -1))
    rank = f", rank {plan.factor_rank(n)}" if plan.has_given_rank(n) else ""
    speed = _FLOPS_OF_THREAD * available_threads()
    seconds = n_starts * _STEPS_AHEAD * plan.flops_of_step(n) / speed
    starts = f", {n_starts} starts" if n_starts > 1 else ""
    time = f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{max(seconds, 1):.0f} seconds"
    return f"ahead: levels of {sizes} rows{rank}{starts}, at most about {time}"


def learn_with(optimizer, task, theta, bounds):
    """Minimise by a callable with scikit-learn's signature, which sees half of F, a -log density."""
    objective = LandmarkObjective(task) if task.learns_on_landmarks else objective_of(task, False)

    def obj_func(theta, eval_gradient=True):
        at_theta = objective(np.asarray(theta, dtype=np.float64))
        return (0.5 * at_theta.value, 0.5 * at_theta.gradient) if eval_gradient else 0.5 * at_theta.value

    theta, value = optimizer(obj_func, theta, bounds=bounds)
    theta = np.asarray(theta, dtype=np.float64)
    if task.learns_on_landmarks:
        return Learned(theta, 2.0 * float(value), *objective.solve(theta), objective.n_calls + 1)
    end = _learned(objective, theta)
    return replace(end, value=2.0 * float(value))


def at_level(report, objective):
    """Return what tells of a descent's steps with the rows of an objective, None for None."""
    if report is None:
        return None

    def report_step(step, variables, evaluation):
        report(len(getattr(objective, "rows", objective.task)), step, objective.theta(variables), evaluation)

    return report_step


def _halvings(task):
    """Return how often the rows are halved for the coarsest level."""
    fewest = max(
        _COARSEST,
        _COARSEST_EACH * n_dims_of(task.kernel),
        _ROWS_PER_MEAN_FUNCTION * task.data.rows.n_mean,
    )
    return max(0, int(np.log2(len(task) / fewest)))


def _finer(task, halvings, found):
    """Return the halvings of the next level: one less, or two where factors make large levels cheap.

    None where the matrix of some rows would cost more than a factor of all of them.
    """
    by_factor = found is not None and found.best.evaluation.rank is not None
    halvings = max(0, halvings - (2 if by_factor else 1))
    n, plan = len(task) >> halvings, task.plan
    return halvings if plan.for_rows(n).flops_of_step(n) <= plan.flops_of_step(len(task)) else 0
