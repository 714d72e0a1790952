"""When the steps towards a mode use a curvature again, make a new one, and end: by scripted decrements."""

from types import SimpleNamespace

import pytest

from skspectral.inference import modes
from skspectral.inference.modes import Mode, find_mode


class Scripted:
    """Steps of one curvature, whose decrements are given."""

    def __init__(self, *decrements, is_exact=True, is_foreign=False):
        self.decrements, self.is_exact, self.is_foreign = list(decrements), is_exact, is_foreign

    def step(self, mode):
        return SimpleNamespace(decrement=self.decrements.pop(0))


@pytest.fixture
def walk(monkeypatch):
    """Return what finds the mode by curvatures that are made one after the other."""

    def find(*fresh, near=None, refused=(), psi=-1.0, **settings):
        fresh, taken = list(fresh), []

        class Problem:
            def __init__(self, prior, observations, H):
                assert (prior, H) == ("prior", "H")

            def start(self, start):
                assert start is settings.get("start")
                return Mode("A", "KA", "constants", psi)

            def moved(self, mode, step):
                if step.decrement in refused:
                    return None
                taken.append(step.decrement)
                return Mode("A", "KA", "constants", psi)

        def fresh_steps(problem, mode, last):
            newton = fresh.pop(0)
            return newton, newton.step(mode)

        monkeypatch.setattr(modes, "_Problem", Problem)
        monkeypatch.setattr(modes, "_fresh_steps", fresh_steps)
        monkeypatch.setattr(modes, "_NewtonOf", lambda problem, near: near)
        likelihood = SimpleNamespace(is_log_concave=True, has_units=True)
        observations = SimpleNamespace(likelihood=likelihood, H="H")
        mode = find_mode("prior", observations, near=near, **settings)
        assert mode.n_iter == len(taken)
        return mode, taken

    return find


END = 1e-30


def test_a_curvature_is_used_again_as_long_as_decrements_fall_by_ten(walk):
    first, second = Scripted(4.0, 0.39, 0.04), Scripted(0.03, 0.0029, END)
    mode, taken = walk(first, second)
    assert taken == [4.0, 0.39, 0.03, 0.0029, END]  # 0.04 is more than a tenth of 0.39
    assert (mode.n_factorisations, mode.is_found) == (2, True)


@pytest.mark.parametrize(
    ("last", "next_one", "was_exact", "is_exact", "is_idle"),
    [
        (0.9e-5, 0.6e-5, True, True, True),
        (0.9e-5, 0.4e-5, True, True, False),
        (1.1e-5, 0.9e-5, True, True, False),
        (0.9e-5, 0.6e-5, False, True, False),
        (0.9e-5, 0.6e-5, True, False, False),
    ],
)
def test_steps_end_where_the_exact_curvature_twice_brings_nothing(
    walk, last, next_one, was_exact, is_exact, is_idle
):
    first = Scripted(last, 0.9 * last, is_exact=was_exact)
    second = Scripted(next_one, END, is_exact=is_exact)
    mode, taken = walk(first, second)
    assert taken == ([last] if is_idle else [last, next_one, END])
    assert mode.n_factorisations == 2
    assert mode.is_found


def test_a_first_curvature_is_never_idle(walk):
    mode, taken = walk(Scripted(1e-6, END))
    assert taken == [1e-6, END]
    assert mode.n_factorisations == 1


def test_a_foreign_curvature_that_leads_nowhere_is_given_up(walk):
    near = Scripted(3.0, is_exact=False, is_foreign=True)
    mode, taken = walk(Scripted(2.0, 0.1, END), near=near, refused=[3.0])
    assert taken == [2.0, 0.1, END]
    assert mode.n_factorisations == 1
    mode, taken = walk(near=Scripted(3.0, 0.1, END, is_exact=False, is_foreign=True))
    assert taken == [3.0, 0.1, END]
    assert mode.n_factorisations == 0


@pytest.mark.parametrize(("last", "is_found"), [(0.9e-5, True), (1.1e-5, False)])
def test_steps_that_lead_nowhere_end(walk, last, is_found):
    mode, taken = walk(Scripted(last, 0.05 * last), refused=[0.05 * last])
    assert taken == [last]
    assert mode.is_found == is_found


def test_no_more_steps_are_made_than_allowed(walk):
    mode, taken = walk(Scripted(*(100.0 * 0.09**k for k in range(20))), max_iter=3, start="start")
    assert len(taken) == 3
    assert not mode.is_found


def test_the_next_decrement_is_foreseen_from_the_last_two(walk):
    # 1e-4 and then 1e-12: the next one would be 1e-20; but of the first step nothing is foreseen
    assert walk(Scripted(1e-4, 0.9e-12))[1] == [1e-4, 0.9e-12]
    assert walk(Scripted(1e-4, 1.1e-12, END))[1] == [1e-4, 1.1e-12, END]
    assert walk(Scripted(0.9e-20))[1] == [0.9e-20]
    assert walk(Scripted(1.1e-20, END))[1] == [1.1e-20, END]
    # in units of psi, and of what is asked for
    assert walk(Scripted(0.9e-17), psi=-1e3)[1] == [0.9e-17]
    assert walk(Scripted(0.9e-10), found=1e-10)[1] == [0.9e-10]
