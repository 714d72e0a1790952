"""Single steps of searches, where what a fit ends with hardly shows them."""

from types import SimpleNamespace

import numpy as np
import pytest

from skspectral.learning import descent
from skspectral.learning.descent import _bfgs, _line_search, _Walk
from skspectral.learning.evaluation import Evaluation
from skspectral.learning.exploration import Explorer
from skspectral.linalg.directions import descent_direction, scoring_direction
from skspectral.linalg.factors import _HOPE, _is_hopeless


@pytest.mark.parametrize(("n_open", "expected"), [(49.0 / _HOPE, True), (51.0 / _HOPE, False)])
def test_hope_ends_where_a_trace_that_falls_as_before_needs_too_many_steps(n_open, expected):
    # a tenth is left after ten steps, so a millionth is left after fifty more
    assert _is_hopeless(1.0, 0.1, 10, 1e-6, n_open) == expected
    assert _is_hopeless(1e9, 1e8, 10, 1e3, n_open) == expected


def test_hope_is_counted_in_powers():
    # half is left after one step, so one more is needed to bring three halves of tau below it
    assert _is_hopeless(3.0, 1.5, 1, 1.0, 0.58 / _HOPE)
    assert not _is_hopeless(3.0, 1.5, 1, 1.0, 0.59 / _HOPE)


def test_a_start_near_the_best_end_is_not_looked_at_again():
    looks = []

    class Looking(Explorer):
        def descend(self, start, **settings):
            return SimpleNamespace(x=start, value=1.0)

        def look(self, start, to_beat, curvature=None, home=None):
            assert home == 0.0  # where the best end is
            looks.append(start[0])
            return SimpleNamespace(x=start, value=0.0)

    starts = [(np.array([x]), None) for x in (0.0, 5.0, 5.1)]
    best, *_ = Looking(None, np.array([-9.0]), np.array([9.0])).compare(starts, 1e-3)
    assert looks == [5.0]
    assert best.x == 5.0


def test_a_step_across_the_slope_tells_no_scale_of_the_curvature():
    B = _bfgs(2.0 * np.eye(2), np.array([1.0, 0.0]), np.array([0.0, 1.0]), fresh=True)
    assert np.isfinite(B).all()
    assert (np.linalg.eigvalsh(B) > 0).all()


def test_steps_are_newtons_where_there_is_curvature_and_of_length_one_where_there_is_none():
    gradient, expected = np.array([1.0, -3.0]), np.diag([4.0, 0.0])
    assert descent_direction(gradient, np.diag([4.0, 2.0]), expected) == pytest.approx([-0.25, 1.5])
    assert scoring_direction(gradient, expected) == pytest.approx([-0.2, 1.0])


def test_functions_without_slope_or_expected_curvature_stay():
    gradient, expected = np.array([1.0, 0.0]), np.diag([4.0, 0.0])
    assert scoring_direction(gradient, expected) == pytest.approx([-0.2, 0.0])
    assert descent_direction(gradient, np.diag([4.0, -1.0]), expected) == pytest.approx([-0.2, 0.0])


def test_steps_beside_a_saddle_are_long_where_they_lead_away():
    gradient, expected = np.array([0.1, -0.02]), np.diag([4.0, 1.0])
    for curvature in (-0.02, -0.2, -0.9):
        step = descent_direction(gradient, np.diag([4.0, curvature]), expected)
        assert step[0] == pytest.approx(-0.1 / 4.0, rel=0.7)  # 1.28 of what is expected would be the most
        assert step[1] > 0.02 / abs(curvature) * 0.9  # as long as in a bowl of that curvature, or longer
    everywhere = descent_direction(gradient, np.diag([4.0, -50.0]), expected)
    assert everywhere == pytest.approx([-0.1 / 4.1, 0.02 / 1.02])


# -- edges between the faces of a function


class Edged:
    """A level ground at x > 0 that turns into a wall, a face of its own, whose function is a bowl.

    Nothing on the wall is below the ground but what `depth` says.
    """

    def __init__(self, depth=0.0, target=-1.0):
        self.depth, self.target, self.n_calls, self.faces = depth, target, 0, []

    def __call__(self, x):
        self.n_calls += 1
        if x[0] > 0:
            return Evaluation(5.0, np.ones(1))
        end = abs(x[0] - self.target) < 1e-3
        return Evaluation(5.0 - self.depth if end else 99.0, np.array([0.25]), face="wall")

    def on_face(self, name):
        self.faces.append(name)
        return Bowl(self.target)


class Bowl:
    """A square around a target, of curvature 2."""

    def __init__(self, target):
        self.target, self.n_calls = target, 0

    def __call__(self, x):
        self.n_calls += 1
        return Evaluation(float((x[0] - self.target) ** 2), 2.0 * (x - self.target))


def walk_to_edge(objective, start=1.0, **settings):
    walk = _Walk(objective, np.array([start]), np.array([-9.0]), np.array([9.0]), np.eye(1) / 2.0, **settings)
    walk.promise()
    return walk


@pytest.mark.parametrize(("depth", "is_taken"), [(0.5, True), (0.0, False), (-0.5, False)])
def test_the_end_of_another_face_is_taken_where_it_is_better(depth, is_taken):
    objective = Edged(depth)
    walk = walk_to_edge(objective)
    walk.idle, before = 1, walk.decrease
    assert walk.step(1e-9)
    assert objective.faces == ["wall"]
    assert walk.n_steps == 1
    assert walk.x == pytest.approx([-1.0 if is_taken else 1.0])
    assert walk.here.value == (4.5 if is_taken else 5.0)
    assert walk.idle == (0 if is_taken else 1)
    assert walk.decrease == (0.5 if is_taken else before)
    assert walk.B[0, 0] == pytest.approx(2.0 if is_taken else 0.5)  # the curvature of the bowl
    assert not walk.fresh


def test_evaluations_of_a_face_count():
    objective = Edged()
    counted = []
    on_face = objective.on_face
    objective.on_face = lambda name: counted.append(on_face(name)) or counted[-1]
    walk_to_edge(objective).step(1e-9)
    (smooth,) = counted
    # the start, a point on the wall, and the end of the bowl, which is looked at by the function itself
    assert smooth.n_calls > 1
    assert objective.n_calls == smooth.n_calls + 3


def test_edges_are_crossed_three_times_at_most():
    objective = Edged(-1.0)
    walk = walk_to_edge(objective)
    for n_edges in (1, 2, 3):
        assert walk.step(1e-9)
        assert len(objective.faces) == n_edges
    assert walk.step(1e-9)  # halved until it does not come to the wall
    assert len(objective.faces) == 3
    assert walk.n_steps == 4


def test_few_steps_are_made_on_a_face(monkeypatch):
    asked = []

    def minimize(smooth, start, lower, upper, **settings):
        asked.append((start.tolist(), lower.tolist(), upper.tolist(), settings))
        return SimpleNamespace(x=np.array([-1.0]), curvature=7.0 * np.eye(1))

    walk = walk_to_edge(Edged(0.5))
    monkeypatch.setattr(descent, "minimize_in_box", minimize)
    walk.step(1e-5)
    assert asked == [([1.0], [-9.0], [9.0], {"tolerance": 1e-5, "max_steps": 20})]
    assert walk.B == 7.0


def test_functions_without_faces_are_searched_along_the_path():
    class Plain(Edged):
        on_face = property()  # raises AttributeError

    objective = Plain()
    walk = walk_to_edge(objective)
    assert not walk._may_cross_edges
    assert walk.step(1e-9)
    assert walk.n_steps == 1


def test_undefined_points_are_no_edge():
    def undefined_beyond(x):
        if x[0] < -1.0:
            return Evaluation.undefined(x)
        return Evaluation(float(x[0]), np.ones(1), face="floor")

    box = (np.array([-9.0]), np.array([9.0]))
    search = (np.zeros(1), 0.0, np.ones(1), np.array([-4.0]), box, 12)
    x, there, beyond = _line_search(undefined_beyond, *search, "floor")
    assert (x, there.value, beyond) == (-1.0, -1.0, None)
    x, there, beyond = _line_search(undefined_beyond, *search, None)
    assert (x, there.value, beyond) == (-1.0, -1.0, None)  # what is low enough is taken on any face
    higher = (np.zeros(1), -1.5, *search[2:])
    assert _line_search(undefined_beyond, *higher, "floor")[2] is None
    assert _line_search(undefined_beyond, *higher, None)[2].value == -1.0
