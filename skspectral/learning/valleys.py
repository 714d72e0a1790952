"""In which valleys the descents of a level end: by exploring, and by the user's own path.

A single parameter is scanned (`scan`), several hop (`exploration`). The path that scikit-learn's optimizer
would take from the user's start is followed where rows are few (`user_path`), so that learning never ends in
a worse valley than that; where a scan has found more than noise, a look from that start is enough.
"""

import numpy as np

from .exploration import is_elsewhere, worth_keeping
from .scan import scan
from .user_path import MAX_ROWS, follow_user_path, is_followed

__all__ = ["COARSE_TOLERANCE", "beside", "explored", "with_user_path"]

# Decrease of -2 log density that is not worth another step, while the valley is looked for.
COARSE_TOLERANCE = 1e-3
# -2 log density, less that of noise alone, below which an end is none of the plateaus where all is noise.
_MORE_THAN_NOISE = 2.0
# -2 log density of the end of a path, above that of another end, with which a descent may still overtake it,
# and how much below it is another end, and one that is worth hops.
_NOT_YET_BETTER, _BETTER, _WORTH_HOPS = 0.1, 0.01, 0.1


def explored(explorer, theta, is_last):
    """Return the ends that are found from theta, on all rows with the end of the user's own path among them.

    The valleys of a single parameter are few, and a scan sees them.
    """
    objective = explorer.objective
    is_scanned = len(theta) == 1 and objective.task.is_single
    ends = _ends_of_scan(explorer, theta, is_last) if is_scanned else []
    if not ends:
        ends = explorer.explore(objective.starts(theta), COARSE_TOLERANCE)
    if not (is_last and is_followed(objective.task)) or _is_scanned(theta, ends[0]):
        return ends
    found = _with_end_of_path(explorer, ends)
    is_better = found[0].value < ends[0].value - _WORTH_HOPS
    return explorer.hop(found, COARSE_TOLERANCE) if is_better else found


def _ends_of_scan(explorer, theta, is_last):
    """Return where the points that a scan proposes lead, and on all rows the user's start.

    None of them where the rows of the scan, or the kernel, have nothing to show.
    """
    objective = explorer.objective
    found = scan(objective.task, theta, (explorer.lower[0], explorer.upper[0]), objective.sloped)
    objective.n_calls += found.n_matrices
    if not found.points:
        return []
    users = [_user_start(objective, found.points[0], theta)] if is_last else []
    ends = explorer.compare([(start, None) for start in [*found.points, *users]], COARSE_TOLERANCE)
    return ends if np.isfinite(ends[0].value) else []


def _is_scanned(theta, best):
    """Return whether a scan has seen all valleys, and the best of them is more than noise."""
    return len(theta) == 1 and best.value < -_MORE_THAN_NOISE


def with_user_path(explorer, ends, theta):
    """Return the best ends, with that of the user's own path among them if it leads elsewhere.

    Few rows may have led past a valley that all of them see from the user's start: where the path is not
    followed, there is a look from that start.
    """
    objective, best = explorer.objective, ends[0]
    if is_followed(objective.task) and not _is_scanned(theta, best):
        return _with_end_of_path(explorer, ends)
    if objective.task.given is not None and len(objective.task) <= MAX_ROWS:
        start = _user_start(objective, best.x, theta)
        return worth_keeping([*ends, explorer.look(start, best.value, home=best.x)])
    return ends


def _with_end_of_path(explorer, ends):
    """Return the best ends, with that of the user's path if it leads elsewhere and is better."""
    best = ends[0]
    close = best.value + max(1.0, 0.5 * np.abs(best.curvature).sum())  # more than a short way from it costs
    level = best.value if best.value < -_MORE_THAN_NOISE else None  # plateaus of noise have valleys around
    path = follow_user_path(explorer.objective.task, lambda x: not is_elsewhere(x, best), close, level)
    explorer.objective.n_calls += path.n_calls
    if path.is_known or path.value > best.value + _NOT_YET_BETTER:
        return ends
    end = explorer.descend(path.x, curvature=path.curvature(), tolerance=COARSE_TOLERANCE)
    return worth_keeping([*ends, end]) if end.value < best.value - _BETTER else ends


def _user_start(objective, variables, theta):
    """Return the user's theta with the user's noise ratio, or with that of other variables without one."""
    ratio = objective.task.given_ratio
    return beside(variables, theta) if ratio is None else objective.with_ratio(theta, ratio)


def beside(variables, theta):
    """Return theta, with what the outer variables have beside it."""
    return np.concatenate([theta, variables[len(theta) :]])
