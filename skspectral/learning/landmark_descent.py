"""The descent of a lower bound on the rows of a level: with landmarks that stay, then with moving ones."""

from dataclasses import replace

import numpy as np

from ..decomposition.plan import Plan
from ..kernels.parts import parameter_names
from .descent import minimize_in_box
from .landmarks import LandmarkObjective
from .moving import moved

__all__ = [
    "COARSE_TOLERANCE_OF_BOUNDS",
    "TOLERANCE_OF_BOUNDS",
    "descend_on_landmarks",
    "end_of_bound",
    "starts_on_landmarks",
]

# Decrease of -2 log density, for each parameter, that is not worth another step on very many rows or on the
# way to them. It falls by about 1 for each parameter within its own uncertainty: a step that brings a
# two-hundredth of that is not worth its time.
TOLERANCE_OF_BOUNDS, COARSE_TOLERANCE_OF_BOUNDS = 0.005, 0.1
# Steps with the first landmarks, and with those chosen anew or moved.
_MAX_STEPS, _MAX_STEPS_AFTERWARDS = 18, 6
_MAX_STEPS_OF_MOVED = 3
# Looks while landmarks move on fewer rows than all, and looks at all rows that a descent plans: line
# searches may take a few more, up to about 30.
_MAX_COARSE_MOVES, _MAX_LOOKS = 20, 27
# Factors by which a start is tried with all of its lengths longer.
_LONGER = (3.0, 9.0, 27.0, 81.0)
# Rows for each landmark of a bound that looks for valleys: an evaluation costs a twentieth of one of K.
_ROWS_PER_LANDMARK = 10


def starts_on_landmarks(objective, theta, bounds):
    """Return theta, and after it theta with longer lengths if these have a better bound.

    Landmarks see nothing of rows that are several lengths away from all of them. Few landmarks and lengths
    that are far too short explain nothing, and the bound has no slope there that would tell.
    """
    is_length = np.array(["length_scale" in name for name in parameter_names(objective.task.kernel)])
    longer = [np.clip(theta + np.log(factor) * is_length, *objective.box(bounds)) for factor in _LONGER]
    starts = [theta, *(start for start in longer if not np.array_equal(start, theta))]
    best = min(starts, key=lambda start: objective(start).value) if len(starts) > 1 else theta
    return [theta] if best is theta else [theta, best]


def end_of_bound(task, theta, bounds):
    """Return the `Descent` of a lower bound on all rows of a task from theta, and how often it was evaluated.

    For tasks whose matrix is the dear part: all of their rows may have a valley that half of them do not see,
    or see as the worse one. A factor of a tenth of their number sees it for little.
    """
    plan = Plan("low_rank", max(1, len(task) // _ROWS_PER_LANDMARK), keeps_rows=True)
    objective = LandmarkObjective(replace(task, plan=plan))
    settings = {"tolerance": len(theta) * COARSE_TOLERANCE_OF_BOUNDS, "max_steps": _MAX_STEPS}
    return minimize_in_box(objective, theta, *objective.box(bounds), **settings), objective.n_calls


def descend_on_landmarks(objective, start, bounds, curvature, is_last, report=None):
    """Return the `Descent` of a lower bound that begins at theta `start`.

    With landmarks that stay, at first. These are then chosen anew, and the new ones taken where they are
    better; moved, where the kernel has slopes by its inputs; and theta follows. Landmarks that were moved on
    fewer rows are moved on, unless rows chosen at `start` are better. Decreases that are not worth a step
    are in units of the log evidence for each parameter.
    """
    box, worth = objective.box(bounds), TOLERANCE_OF_BOUNDS if is_last else COARSE_TOLERANCE_OF_BOUNDS
    most_looks = objective.n_calls + _MAX_LOOKS

    def descend(start, curvature, max_steps):
        settings = {"tolerance": len(bounds) * worth, "max_steps": max_steps, "report": report}
        return minimize_in_box(objective, start, *box, curvature=curvature, **settings)

    best, is_new, max_steps = _moved_before(objective, start, curvature, descend), False, _MAX_STEPS_OF_MOVED
    if best is None:
        best = descend(start, curvature, _MAX_STEPS)
        if not (is_last or objective.may_move()):
            return best
        is_new, max_steps = objective.refreshed(best.x, best.value), _MAX_STEPS_AFTERWARDS
    theta = best.x
    if objective.may_move():
        max_moves = most_looks - objective.n_calls - max_steps - 1 if is_last else _MAX_COARSE_MOVES
        theta = moved(objective, theta, box, max_moves, report)
    return descend(theta, best.curvature, max_steps) if is_new or objective.has_moved else best


def _moved_before(objective, start, curvature, descend):
    """Return where a level with moved landmarks of a coarser one begins, None if rows are better there."""
    if not objective.has_moved:
        return None
    here = descend(start, curvature, 0)
    return None if objective.refreshed(start, here.value) else here
