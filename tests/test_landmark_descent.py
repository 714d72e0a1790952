"""The descent of a lower bound in its parts: what is asked of an objective that only tells of it."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skspectral.learning import landmark_descent
from skspectral.learning.landmark_descent import descend_on_landmarks, end_of_bound, starts_on_landmarks

BOUNDS = np.log([[1e-2, 100.0], [1e-2, 100.0]])


class Telling:
    """An objective of two parameters with landmarks."""

    def __init__(
        self, kernel=None, *, n_calls=50, has_moved=False, may_move=False, refreshed=False, values=None
    ):
        self.task = SimpleNamespace(kernel=RBF([1.0, 1.0]) if kernel is None else kernel)
        self.n_calls, self.has_moved, self._may_move = n_calls, has_moved, may_move
        self._refreshed, self.values, self.asked = refreshed, values, []

    def box(self, bounds):
        return bounds.T

    def may_move(self):
        return self._may_move

    def refreshed(self, theta, value):
        self.asked.append(("refreshed", theta.tolist(), value))
        return self._refreshed

    def __call__(self, theta):
        self.asked.append(theta.tolist())
        return SimpleNamespace(value=self.values(theta))


# -- starts


def test_longer_lengths_are_tried_by_powers_of_three():
    objective = Telling(values=lambda theta: abs(theta[0] - np.log(9.0)))
    theta = np.array([0.0, 1.0])
    starts = starts_on_landmarks(objective, theta, BOUNDS)
    expected = [np.minimum(theta + np.log(factor), np.log(100.0)) for factor in (1, 3, 9, 27, 81)]
    assert np.allclose(objective.asked, expected)
    assert np.allclose(starts, [theta, theta + np.log(9.0)])
    assert starts[0] is theta


def test_only_lengths_become_longer():
    kernel = RBF(1.0) + ConstantKernel(1.0)
    objective = Telling(kernel, values=lambda theta: -theta[0])
    _, best = starts_on_landmarks(objective, np.zeros(2), BOUNDS)
    assert np.allclose(best, [np.log(81.0), 0.0])


def test_a_start_that_is_best_stands_alone_and_one_that_cannot_move_is_not_looked_at():
    theta = np.zeros(2)
    objective = Telling(values=lambda theta: theta[0])
    assert [start is theta for start in starts_on_landmarks(objective, theta, BOUNDS)] == [True]
    top = BOUNDS[:, 1]
    for at, kernel in ((top, RBF([100.0, 100.0])), (theta[:1], WhiteKernel(1.0))):
        still = Telling(kernel, values=lambda theta: theta[0])
        assert [start is at for start in starts_on_landmarks(still, at, BOUNDS[: len(at)])] == [True]
        assert still.asked == []
    near = Telling(values=lambda theta: -theta.sum())
    # what the bounds leave room for is tried
    starts = starts_on_landmarks(near, np.array([np.log(100.0), np.log(99.0)]), BOUNDS)
    assert np.allclose(starts[1], top)


# -- a bound that looks for valleys


@pytest.mark.parametrize(("n", "rank"), [(5, 1), (10, 1), (29, 2), (300, 30)])
def test_a_bound_on_all_rows_has_a_landmark_for_ten_of_them(monkeypatch, n, rank):
    asked = {}

    class Objective:
        n_calls = 17

        def __init__(self, task):
            asked["task"] = task

        def box(self, bounds):
            return bounds.T

    def minimize(objective, start, lower, upper, **settings):
        asked.update(start=start, box=(lower, upper), settings=settings)
        return "end"

    class Rows(SimpleNamespace):
        def __len__(self):
            return n

    monkeypatch.setattr(landmark_descent, "LandmarkObjective", Objective)
    monkeypatch.setattr(landmark_descent, "minimize_in_box", minimize)
    monkeypatch.setattr(landmark_descent, "replace", lambda task, plan: (task, plan))
    task, theta = Rows(), np.zeros(2)
    assert end_of_bound(task, theta, BOUNDS) == ("end", 17)
    of, plan = asked["task"]
    assert of is task
    assert plan.factor_rank(n) == plan.rank == rank
    assert plan.keeps_rows
    assert asked["start"] is theta
    assert np.array_equal(asked["box"], BOUNDS.T)
    assert asked["settings"] == {"tolerance": pytest.approx(0.2), "max_steps": 18}


# -- the descent of a level


def descended(monkeypatch, objective, is_last, moves=False):
    """Return the end of a descent whose n-th part ends at n, and the parts."""
    parts = []

    def minimize(of, start, lower, upper, **settings):
        assert of is objective
        assert np.array_equal([lower, upper], BOUNDS.T)
        objective.n_calls += 4
        parts.append(("descend", start.tolist(), settings))
        n = len(parts)
        return SimpleNamespace(x=np.full(2, float(n)), value=10.0 * n, curvature=f"curvature {n}")

    def moved(of, theta, box, max_moves, report):
        assert of is objective
        assert np.array_equal(box, BOUNDS.T)
        parts.append(("move", theta.tolist(), max_moves, report))
        objective.has_moved = moves
        return theta + 0.5

    monkeypatch.setattr(landmark_descent, "minimize_in_box", minimize)
    monkeypatch.setattr(landmark_descent, "moved", moved)
    end = descend_on_landmarks(objective, np.zeros(2), BOUNDS, "known", is_last, "report")
    return end, parts


def settings(curvature, max_steps, is_last):
    worth = 0.01 if is_last else 0.2  # for both parameters
    return {
        "curvature": curvature,
        "tolerance": pytest.approx(worth),
        "max_steps": max_steps,
        "report": "report",
    }


def test_landmarks_that_stay_are_descended_once_on_the_way(monkeypatch):
    objective = Telling()
    end, parts = descended(monkeypatch, objective, is_last=False)
    assert end.value == 10.0
    assert parts == [("descend", [0.0, 0.0], settings("known", 18, False))]
    assert objective.asked == []


@pytest.mark.parametrize("is_new", [True, False])
def test_landmarks_that_stay_are_chosen_anew_in_the_end(monkeypatch, is_new):
    objective = Telling(refreshed=is_new)
    end, parts = descended(monkeypatch, objective, is_last=True)
    assert objective.asked == [("refreshed", [1.0, 1.0], 10.0)]
    assert parts[0] == ("descend", [0.0, 0.0], settings("known", 18, True))
    assert parts[1:] == ([("descend", [1.0, 1.0], settings("curvature 1", 6, True))] if is_new else [])
    assert end.value == (20.0 if is_new else 10.0)


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("moves", [True, False])
def test_landmarks_that_may_move_are_moved_after_the_first_descent(monkeypatch, is_last, is_new, moves):
    objective = Telling(may_move=True, refreshed=is_new)
    end, parts = descended(monkeypatch, objective, is_last, moves)
    assert objective.asked == [("refreshed", [1.0, 1.0], 10.0)]
    # 27 looks in all, less the 4 of the first descent, the steps to come and the look that begins them
    looks = 27 - 4 - 6 - 1 if is_last else 20
    assert parts[1] == ("move", [1.0, 1.0], looks, "report")
    follows = is_new or moves
    assert parts[2:] == ([("descend", [1.5, 1.5], settings("curvature 1", 6, is_last))] if follows else [])
    assert end.value == (30.0 if follows else 10.0)


@pytest.mark.parametrize("is_last", [True, False])
def test_landmarks_moved_before_are_moved_on(monkeypatch, is_last):
    objective = Telling(has_moved=True, may_move=True)
    _, parts = descended(monkeypatch, objective, is_last, True)
    assert parts[0] == ("descend", [0.0, 0.0], settings("known", 0, is_last))  # one look
    assert objective.asked == [("refreshed", [0.0, 0.0], 10.0)]
    looks = 27 - 4 - 3 - 1 if is_last else 20
    assert parts[1] == ("move", [1.0, 1.0], looks, "report")
    assert parts[2:] == [("descend", [1.5, 1.5], settings("curvature 1", 3, is_last))]


def test_rows_that_are_better_take_the_place_of_landmarks_moved_before(monkeypatch):
    objective = Telling(has_moved=True, may_move=True, refreshed=True)
    _, parts = descended(monkeypatch, objective, True, True)
    assert [part[0] for part in parts] == ["descend", "descend", "move", "descend"]
    assert parts[1] == ("descend", [0.0, 0.0], settings("known", 18, True))
    assert objective.asked == [("refreshed", [0.0, 0.0], 10.0), ("refreshed", [2.0, 2.0], 20.0)]
    assert parts[2][2] == 27 - 8 - 6 - 1
