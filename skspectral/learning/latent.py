"""Learning kernel, signal variance and likelihood by an approximate evidence, from few rows to all."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.utils import check_random_state

from ..kernels.gram import make_gram
from ..support.threads import threads_for
from .exploration import Explorer, worth_keeping
from .latent_objective import LatentObjective
from .latent_path import follow_latent_path, is_path_followed
from .latent_task import LatentFit

__all__ = ["LatentLearned", "learn_latent"]

# Decrease of -2 log evidence that is not worth another step: on all rows, where they are many, on few rows on
# the way, and on many. What may be left of it where a step brought what was promised, and rounding of single
# precision that the last steps would see.
_TOLERANCE, _TOLERANCE_OF_MANY, _COARSE_TOLERANCE, _ROUGH_TOLERANCE = 1e-7, 3e-4, 1e-2, 0.1
_ENOUGH, _DISTURBING = 2e-3, 1e-3
# Rows that are many, and fewest rows of a level of half of all.
_MANY, _FEWEST_OF_HALF = 800, 400
# Fewest rows of a level: of classes these, so many for each variable, and so many for each class; of other
# likelihoods, whose own parameters are learned too. Each level has this fraction of the next one's rows.
_COARSEST_OF_CLASSES, _EACH_VARIABLE, _EACH_CLASS, _COARSEST, _FRACTION = 40, 15, 10, 150, 0.25
# Distance of a variable from its start, in log units, at which it has no effect that could be seen, and to
# which it is brought back for more rows, from many and from few: more rows may see an effect of an input that
# few rows do not.
_OUT_OF_SIGHT, _IN_SIGHT, _IN_SIGHT_OF_FEW = np.log([20.0, 20.0, 3.0])
_FEW, _FLATTEST = 150, 1e-3
# -2 log evidence of the end of the user's path, above that of another end, with which a descent may still
# overtake it, and how much below it is another end.
_NOT_YET_BETTER, _BETTER = 0.1, 0.01


@dataclass(frozen=True)
class LatentLearned:
    """Result of `learn_latent`.

    Attributes
    ----------
    variables : ndarray
        Outer variables at the end.
    value : float
        -2 (log evidence + log prior) there.
    fit : LatentFit
        The approximate posterior there.
    n_evaluations : int
        How often the evidence was evaluated, on subsets of the rows too.
    """

    variables: np.ndarray
    value: float
    fit: LatentFit
    n_evaluations: int


def learn_latent(task, *, optimizer=None, n_restarts=0, random_state=None, report=None):
    """Return the best `LatentLearned` from the starting values and from drawn ones.

    Parameters
    ----------
    task : LatentTask
        What is learned.
    optimizer : callable, default=None
        Takes the place of the descent; of scikit-learn's signature.
    n_restarts : int, default=0
        Further starts, drawn uniformly within the bounds.
    random_state : int, RandomState instance or None, default=None
        Draws them.
    report : callable, default=None
        report(n_rows, step, variables, evaluation) after every step.
    """
    starts, bounds = [task.start], task.bounds
    if n_restarts:
        if not np.isfinite(bounds).all():
            raise ValueError(
                "n_restarts_optimizer > 0 draws starts within the bounds, which must be finite; got "
                f"{np.exp(bounds).tolist()}."
            )
        rng = check_random_state(random_state)
        starts += [rng.uniform(*bounds.T) for _ in range(n_restarts)]
    if optimizer is None:
        ends = [_descend(task, start, report) for start in starts]
    else:
        ends = [_optimise(task, start, optimizer) for start in starts]
    best = min(ends, key=lambda end: end.value)
    return replace(best, n_evaluations=sum(end.n_evaluations for end in ends))


def _descend(task, start, report):
    """Return where exploring few rows leads, settled on all of them."""
    found, task = None, replace(task, is_rough=True)
    for rows in _levels(task):
        level = task if len(rows) == len(task) else task.subset(rows)
        if not level.has_all_classes:
            continue
        if len(rows) == len(task) // 2 and found is not None:
            found = found.before_half(task)
            if found.vain is None:
                continue
        is_rough = len(rows) >= (len(task) // 4 if _has_half(task) else _FEWEST_OF_HALF)
        tolerance = _ROUGH_TOLERANCE if is_rough else _COARSE_TOLERANCE
        found = _found(level, rows, found, start, tolerance, report, level is task)
    return _settled(task, found if found.n_before == 0 else _with_path(task, found, start, report), report)


def _with_path(task, found, start, report):
    """Return what is found on all rows, with the end of the user's own path if that is a better one."""
    if not _is_followed(task, start):
        return found
    objective, best = LatentObjective(task), found.ends[0]
    explorer = Explorer(objective, *task.bounds.T, _at_level(report, len(task)))
    with threads_for(len(task)):
        path = follow_latent_path(objective, best)
        if not path.is_known and path.value < best.value + _NOT_YET_BETTER:
            end = explorer.descend(path.x, tolerance=_COARSE_TOLERANCE)
            if end.value < best.value - _BETTER:
                return _Found(found.rows, worth_keeping([*found.ends, end]), explorer, found.n_evaluations)
    return replace(found, n_before=found.n_before + objective.n_calls)


def _is_followed(task, start):
    return is_path_followed(task) and np.array_equal(start, task.start)


@dataclass(frozen=True)
class _Found:
    """What a level found.

    Attributes
    ----------
    rows : ndarray of int
        Its rows.
    ends : list of Descent
        The best ends.
    explorer : Explorer
        How they were found.
    n_before : int
        Evaluations on fewer rows.
    vain : Point or None
        Where a factor of small rank does not stand for K of all rows, if that is known.
    is_seen : bool
        Whether the curvature comes from differences of gradients.
    """

    rows: np.ndarray
    ends: list
    explorer: Explorer
    n_before: int
    vain: object = None
    is_seen: bool = False

    @property
    def fit(self):
        return self.explorer.objective.last

    @property
    def n_evaluations(self):
        return self.n_before + self.explorer.objective.n_calls

    def before_half(self, task):
        """Return what half of all rows are to be told, where steps on them cost far less than those on all.

        That is so where the matrix itself is factorised: the fewer steps on all rows, the better.
        """
        best, *others = self.ends
        point = task.point(best.x)
        with threads_for(len(self.rows)):
            if not task.is_of_matrix(point):
                best = self.explorer.go_on(best, tolerance=_COARSE_TOLERANCE)
                return replace(self, ends=[best, *others])
            seen = self.explorer.see_curvature(best)
        return replace(self, ends=[seen, *others], vain=point, is_seen=seen is not best)


def _found(level, rows, coarser, start, tolerance, report, is_all=False):
    """Return what a level finds: by exploring, or from the ends of a coarser level."""
    begin = None if coarser is None else level.start_from_fewer(coarser.fit, coarser.rows, rows, coarser.vain)
    objective, report = LatentObjective(level, begin), _at_level(report, len(rows))
    explorer = Explorer(objective, *level.bounds.T, report)
    with threads_for(len(rows)):
        if coarser is None:
            return _Found(rows, _explored(explorer, start, is_all), explorer, 0)
        growth = len(rows) / len(coarser.rows)
        places = [_in_sight(end.x, start, _sight(coarser), level) for end in coarser.ends]
        starts = [
            (x, _curvature_at(explorer.objective, x, end, growth))
            for x, end in zip(places, coarser.ends, strict=True)
        ]
        ends = explorer.compare(starts, tolerance)
    return _Found(rows, ends, explorer, coarser.n_evaluations, coarser.vain, coarser.is_seen)


def _explored(explorer, start, is_all):
    """Return the ends that exploring finds, by the user's own path first where these are all rows."""
    if not (is_all and _is_followed(explorer.objective.task, start)):
        return explorer.explore([start], _COARSE_TOLERANCE)
    path = follow_latent_path(explorer.objective)
    return explorer.hop([explorer.descend(path.x, tolerance=_COARSE_TOLERANCE)], _COARSE_TOLERANCE)


def _settled(task, found, report):
    """Return what is learned where a descent on all rows ended, after the last steps of full precision."""
    objective = LatentObjective(replace(task, is_rough=False), found.fit)
    explorer = Explorer(objective, *task.bounds.T, _at_level(report, len(task)))
    with threads_for(len(task)):
        end = _refined(explorer, found)
        return _ended(objective, end.x, found.n_evaluations)


def _refined(explorer, found):
    """Return where the last steps lead: from rough values, where rows are many, or from exact ones."""
    end, off_by = found.ends[0], 0.0 if found.fit is None else found.fit.off_by
    if len(found.rows) < _MANY:
        return explorer.descend(end.x, curvature=end.curvature, tolerance=_TOLERANCE)
    settings = {"tolerance": _TOLERANCE_OF_MANY, "enough": _ENOUGH if found.is_seen else None}
    if off_by > _DISTURBING:
        return explorer.descend(end.x, curvature=end.curvature, **settings)
    return explorer.go_on(end, **settings | {"tolerance": max(_TOLERANCE_OF_MANY, off_by)})


def _sight(coarser):
    return _IN_SIGHT_OF_FEW if len(coarser.rows) < _FEW else _IN_SIGHT


def _curvature_at(objective, x, end, growth):
    """Return the curvature of a coarser level's end, for a start with variables brought back from there.

    These have a curvature of their own: what depends on a length that is too large falls like its -2nd power.
    """
    back, curvature = x != end.x, end.curvature * growth
    if back.any():
        curvature[back, :] = curvature[:, back] = 0.0
        curvature[back, back] = np.maximum(2.0 * np.abs(objective(x).gradient[back]), _FLATTEST)
    return curvature


def _in_sight(x, start, sight, task):
    """Return x with variables brought back that have no effect where they are: a large variance has one."""
    way = x - start
    gone = np.abs(way) > _OUT_OF_SIGHT
    first = int(task.learns_signal)
    is_of_kernel = np.zeros(len(x), dtype=bool)
    is_of_kernel[first : len(x) - len(task.likelihood.names)] = True
    return np.where(gone & (is_of_kernel | (way < 0)), start + np.sign(way) * sight, x)


def _levels(task):
    """Return row indices of each level, nested; all rows alone where the kernel has nothing to learn."""
    sizes = [len(task)]
    if task.is_precomputed or not task.kernel.n_dims:
        return [np.arange(len(task))]
    if _has_half(task):
        sizes += [len(task) // 2, len(task) // 4]
    while _FRACTION * sizes[-1] >= _coarsest(task):
        sizes.append(int(_FRACTION * sizes[-1]))
    order = task.data.shuffled(make_gram(task.kernel))
    return [np.sort(order[:size]) for size in reversed(sizes)]


def _has_half(task):
    """Return whether half of all rows may be a level, between a quarter and all of them."""
    return task.n_classes is not None and len(task) // 2 >= _FEWEST_OF_HALF


def _coarsest(task):
    if task.n_classes is None:
        return _COARSEST
    return max(_COARSEST_OF_CLASSES, _EACH_VARIABLE * len(task.start), _EACH_CLASS * task.n_classes)


def _optimise(task, start, optimizer):
    """Return where an optimizer of scikit-learn's signature ends, which sees a -log density."""
    objective = LatentObjective(task)

    def obj_func(variables, eval_gradient=True):
        at = objective(np.asarray(variables, dtype=np.float64))
        return (0.5 * at.value, 0.5 * at.gradient) if eval_gradient else 0.5 * at.value

    with threads_for(len(task)):
        x, _ = optimizer(obj_func, start, bounds=task.bounds)
        return _ended(objective, np.asarray(x, dtype=np.float64))


def _ended(objective, x, n_before=0):
    value, fit = objective(x).value, objective.fit(x)
    return LatentLearned(x, value, fit, n_before + objective.n_calls)


def _at_level(report, n_rows):
    return None if report is None else partial(report, n_rows)
