"""Single steps of searches, where what a fit ends with hardly shows them."""

from types import SimpleNamespace

import numpy as np
import pytest

from skspectral.learning.descent import _bfgs
from skspectral.learning.exploration import Explorer
from skspectral.linalg.active import descent_direction
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
    for flat in (np.diag([4.0, 0.0]), np.diag([4.0, -1.0])):
        assert descent_direction(gradient, flat, expected) == pytest.approx([-0.2, 1.0])


def test_steps_beside_a_saddle_are_long_where_they_lead_away():
    gradient, expected = np.array([0.1, -0.02]), np.diag([4.0, 1.0])
    for curvature in (-0.02, -0.2, -0.9):
        step = descent_direction(gradient, np.diag([4.0, curvature]), expected)
        assert step[0] == pytest.approx(-0.1 / 4.0, rel=0.7)  # 1.28 of what is expected would be the most
        assert step[1] > 0.02 / abs(curvature) * 0.9  # as long as in a bowl of that curvature, or longer
    everywhere = descent_direction(gradient, np.diag([4.0, -50.0]), expected)
    assert everywhere == pytest.approx([-0.1 / 4.1, 0.02 / 1.02])
