"""Which ends a level keeps: of a scan, of exploring, and of the user's own path, each by an explorer that
only tells what it was asked for."""

from types import SimpleNamespace

import numpy as np
import pytest

from skspectral.learning import valleys
from skspectral.learning.scan import Scan
from skspectral.learning.user_path import UserPath

THETA, RATIO = np.array([0.3]), 4.0
SLOPED = (-9.0, 5.0)


def end(value, x=(0.0, 0.0), size=0.0):
    """Return the end of a descent, with a curvature whose entries have this sum."""
    x = np.array(x, dtype=float)
    return SimpleNamespace(x=x, value=value, curvature=np.full((len(x), len(x)), size / len(x) ** 2))


class Telling:
    """An explorer whose calls all end in given places."""

    def __init__(self, n=40, *, n_outputs=1, given="kernel", ratio=RATIO, **ends):
        rows = type("Rows", (SimpleNamespace,), {"__len__": lambda self: n})
        self.task = rows(given=given, given_ratio=ratio, is_single=n_outputs == 1)
        self.objective = SimpleNamespace(
            task=self.task,
            n_calls=100,
            sloped=SLOPED,
            starts=lambda theta: [np.append(theta, 7.0)],
            with_ratio=lambda theta, ratio: np.append(theta, np.log(ratio)),
        )
        self.lower, self.upper = np.array([-2.0, -50.0]), np.array([3.0, 50.0])
        self.ends, self.asked = ends, []

    def _told(self, name, *what):
        self.asked.append((name, *what))
        return self.ends[name]

    def explore(self, starts, tolerance):
        return self._told("explore", [start.tolist() for start in starts], tolerance)

    def compare(self, starts, tolerance):
        assert all(curvature is None for _, curvature in starts)
        return self._told("compare", [start.tolist() for start, _ in starts], tolerance)

    def look(self, start, to_beat, home):
        return self._told("look", start.tolist(), to_beat, home.tolist())

    def descend(self, start, *, curvature, tolerance):
        return self._told("descend", start.tolist(), curvature, tolerance)

    def hop(self, ends, tolerance):
        return self._told("hop", [each.value for each in ends], tolerance)


@pytest.fixture
def scanned(monkeypatch):
    """Let scans find given points; return what was scanned."""

    def let_it_find(*points):
        asked = []

        def scan(task, theta, bounds, ratios):
            asked.append((task, theta.tolist(), bounds, ratios))
            return Scan([np.array(point) for point in points], 7)

        monkeypatch.setattr(valleys, "scan", scan)
        return asked

    return let_it_find


@pytest.fixture
def followed(monkeypatch):
    """Let paths of the user end at a value, in 30 factorisations; return what was asked of them."""

    def let_it_end(value=0.0, is_known=False, is_followed=True):
        asked = []

        def follow(task, is_known_at, below, level):
            asked.append(SimpleNamespace(task=task, is_known_at=is_known_at, below=below, level=level))
            return UserPath(np.array([5.0, 6.0]), value, 30, is_known, lambda: "curvature")

        monkeypatch.setattr(valleys, "follow_user_path", follow)
        monkeypatch.setattr(valleys, "is_followed", lambda task: is_followed)
        return asked

    return let_it_end


# -- a level that explores


@pytest.mark.parametrize("is_last", [True, False])
def test_a_single_parameter_is_scanned_between_its_bounds(scanned, followed, is_last):
    asked, paths, ends = scanned([1.0, -3.0], [2.0, -1.0]), followed(), [end(-2.1), end(-2.0)]
    explorer = Telling(compare=ends)
    assert valleys.explored(explorer, THETA, is_last) is ends
    assert asked == [(explorer.task, [0.3], (-2.0, 3.0), SLOPED)]
    users = [[0.3, np.log(RATIO)]] if is_last else []
    assert explorer.asked == [("compare", [[1.0, -3.0], [2.0, -1.0], *users], 1e-3)]
    assert explorer.objective.n_calls == 107
    assert paths == []  # there is more than noise: a look from the user's start was enough


def test_without_a_noise_of_the_user_a_scan_has_one_for_the_users_start(scanned, followed):
    scanned([1.0, -3.0], [2.0, -1.0])
    followed(is_followed=False)
    explorer = Telling(ratio=None, compare=[end(0.0)])
    valleys.explored(explorer, THETA, True)
    assert explorer.asked[0][1][-1] == [0.3, -3.0]


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("points", [(), ([1.0, -3.0],)])
def test_where_a_scan_leads_nowhere_there_are_descents_and_hops(scanned, followed, points, value):
    scanned(*points)
    followed(is_followed=False)
    explorer = Telling(compare=[end(value)], explore=[end(5.0)])
    assert valleys.explored(explorer, THETA, True) is explorer.ends["explore"]
    assert explorer.asked[-1] == ("explore", [[0.3, 7.0]], 1e-3)
    assert len(explorer.asked) == 1 + len(points)
    assert explorer.objective.n_calls == 107


@pytest.mark.parametrize(("theta", "n_outputs"), [([0.3, 0.4], 1), ([0.3], 2)])
def test_several_parameters_or_outputs_are_not_scanned(scanned, followed, theta, n_outputs):
    asked = scanned([1.0, -3.0])
    followed(is_followed=False)
    explorer = Telling(n_outputs=n_outputs, explore=[end(5.0)])
    assert valleys.explored(explorer, np.array(theta), False) is explorer.ends["explore"]
    assert asked == []
    assert explorer.objective.n_calls == 100


# -- a level of all rows, which knows where the user's own path leads


@pytest.mark.parametrize(("is_last", "is_followed"), [(True, False), (False, True), (False, False)])
def test_only_levels_of_all_rows_that_have_a_path_follow_it(followed, is_last, is_followed):
    paths = followed(-9.0, is_followed=is_followed)
    explorer = Telling(explore=[end(5.0)])
    valleys.explored(explorer, np.zeros(2), is_last)
    assert paths == []


@pytest.mark.parametrize(("value", "n_paths"), [(-2.1, 0), (-1.9, 1)])
@pytest.mark.parametrize("n_parameters", [1, 2])
def test_a_path_is_followed_unless_a_scan_found_more_than_noise(
    scanned, followed, value, n_paths, n_parameters
):
    scanned([1.0, -3.0])
    paths, ends = followed(99.0), [end(value)]
    explorer = Telling(compare=ends, explore=ends)
    assert valleys.explored(explorer, np.zeros(n_parameters), True) is ends
    assert len(paths) == (n_paths if n_parameters == 1 else 1)
    assert valleys.with_user_path(Telling(look=end(99.0)), ends, np.zeros(n_parameters)) == ends
    assert len(paths) == 2 * (n_paths if n_parameters == 1 else 1)


def test_where_no_path_is_followed_there_is_a_look_from_the_users_start(followed):
    followed(is_followed=False)
    best, theta = end(5.0, [1.0, 2.0, 3.0]), np.array([0.3, 0.4])
    better, close = end(4.0, [9.0, 9.0, 9.0]), end(6.0, [9.0, 9.0, 9.0])
    for found, expected in ((better, [better, best]), (close, [best, close]), (end(99.0), [best])):
        explorer = Telling(look=found if len(found.x) == 3 else end(99.0, np.zeros(3)))
        assert valleys.with_user_path(explorer, [best], theta) == expected
        assert explorer.asked == [("look", [0.3, 0.4, np.log(RATIO)], 5.0, [1.0, 2.0, 3.0])]
    without_noise = Telling(ratio=None, look=better)
    valleys.with_user_path(without_noise, [best], theta)
    assert without_noise.asked[0][1] == [0.3, 0.4, 3.0]


@pytest.mark.parametrize(("n", "given", "n_looks"), [(1000, "kernel", 1), (1001, "kernel", 0), (40, None, 0)])
def test_looks_are_for_few_rows_and_kernels_of_the_user(followed, n, given, n_looks):
    followed(is_followed=False)
    explorer, ends = Telling(n, given=given, look=end(99.0)), [end(5.0)]
    assert valleys.with_user_path(explorer, ends, np.zeros(1)) == ends
    assert len(explorer.asked) == n_looks


@pytest.mark.parametrize(("size", "way"), [(0.0, 1.0), (1.9, 1.0), (2.1, 1.05), (40.0, 20.0), (-40.0, 20.0)])
def test_a_path_is_known_near_the_best_end_unless_it_is_far_above(followed, size, way):
    paths = followed(99.0)
    best = end(3.0, [1.0, 2.0], size)
    valleys.with_user_path(Telling(), [best, end(4.0)], THETA)
    (path,) = paths
    assert path.below == pytest.approx(3.0 + way)
    assert path.is_known_at(np.array([1.5, 1.5]))
    assert not path.is_known_at(np.array([1.0, 2.51]))
    assert not path.is_known_at(np.array([0.49, 2.0]))


@pytest.mark.parametrize(("value", "has_level"), [(-2.1, True), (-1.9, False), (3.0, False)])
def test_plateaus_of_noise_are_no_level_to_stop_at(followed, value, has_level):
    paths = followed(99.0)
    explorer = Telling()
    valleys.with_user_path(explorer, [end(value)], np.zeros(2))
    assert paths[0].level == (value if has_level else None)
    assert paths[0].task is explorer.task
    assert explorer.objective.n_calls == 130


@pytest.mark.parametrize("value", [5.09, 5.11])
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("gain", [0.009, 0.011])
def test_a_path_is_a_start_unless_it_is_known_or_behind(followed, value, is_known, gain):
    followed(value, is_known)
    best = end(5.0)
    better = end(5.0 - gain, [9.0, 9.0])
    explorer = Telling(descend=better)
    ends = valleys.with_user_path(explorer, [best], THETA)
    is_start = value < 5.1 and not is_known
    assert explorer.asked == ([("descend", [5.0, 6.0], "curvature", 1e-3)] if is_start else [])
    assert ends == ([better, best] if is_start and gain > 0.01 else [best])


@pytest.mark.parametrize(("gain", "hops"), [(0.09, False), (0.11, True)])
def test_hops_follow_where_a_path_gained_something(followed, gain, hops):
    followed(5.0)
    better = end(5.0 - gain, [9.0, 9.0])
    explorer = Telling(explore=[end(5.0)], descend=better, hop=["hopped"])
    found = valleys.explored(explorer, np.zeros(2), True)
    assert (found == ["hopped"]) == hops
    assert explorer.asked[2:] == ([("hop", [better.value, 5.0], 1e-3)] if hops else [])
    assert hops or found == [better, explorer.ends["explore"][0]]
