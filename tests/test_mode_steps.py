"""When the steps towards a mode use a curvature again, make a new one, and end: by scripted decrements."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import close

from skspectral.inference import modes
from skspectral.inference.modes import Mode, find_mode
from skspectral.inference.observations import observe
from skspectral.likelihoods import Gaussian
from skspectral.linalg.curved import DensePrior, FactorPrior


class Scripted:
    """Steps of one curvature, whose decrements are given."""

    def __init__(self, *decrements, is_exact=True, is_foreign=False):
        self.decrements, self.is_exact, self.is_foreign = list(decrements), is_exact, is_foreign

    def step(self, mode):
        return SimpleNamespace(decrement=self.decrements.pop(0))


@pytest.fixture
def walk(monkeypatch):
    """Return what finds the mode by curvatures that are made one after the other."""

    def find(*fresh, near=None, refused=(), psi=-1.0, is_log_concave=True, has_units=True, **settings):
        fresh, taken = list(fresh), []
        has_constant = settings.get("has_constant", True)
        is_annealed = not is_log_concave and has_units and "start" not in settings

        class Problem:
            def __init__(self, prior, observations, H):
                assert (prior, H.shape) == ("prior", (3, 2 if has_constant else 0))

            def start(self, start):
                assert start == ("annealed" if is_annealed else settings.get("start"))
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
        likelihood = SimpleNamespace(is_log_concave=is_log_concave, has_units=has_units)
        observations = SimpleNamespace(likelihood=likelihood, H=np.ones((3, 2)))

        def annealed(*what):
            assert what == ("prior", observations, has_constant, settings.get("max_iter", 100))
            return "annealed"

        monkeypatch.setattr(modes, "_annealed", annealed)
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


@pytest.mark.parametrize("has_units", [True, False])
@pytest.mark.parametrize("is_log_concave", [True, False])
@pytest.mark.parametrize("settings", [{}, {"start": "start"}, {"has_constant": False, "max_iter": 7}])
def test_modes_that_may_be_several_are_followed_from_wide_noise(walk, has_units, is_log_concave, settings):
    walk(Scripted(END), has_units=has_units, is_log_concave=is_log_concave, **settings)


@pytest.mark.parametrize("has_constant", [True, False])
@pytest.mark.parametrize("form", ["matrix", "factor"])
def test_one_step_leads_to_the_mode_of_a_square(has_constant, form):
    """A normal density: no slope is left, and psi has grown by half of the decrement."""
    rng = np.random.default_rng(0)
    Phi, y, weight = rng.normal(size=(6, 3)), rng.normal(size=6), rng.uniform(0.5, 2.0, 6)
    prior = FactorPrior(Phi, 2.0) if form == "factor" else DensePrior(Phi @ Phi.T + 0.1 * np.eye(6), 2.0)
    observations = observe(Gaussian(0.49), y, weight)
    problem = modes._Problem(prior, observations, observations.H if has_constant else observations.H[:, :0])
    A, constants = rng.normal(size=(6, 1)), np.full(1, 0.4 * has_constant)
    here = problem.at(A, prior.times(A), constants)
    step = modes._Newton(problem, observations.curved(prior, here.F)).step(here)
    assert close(step.K_dA, prior.times(step.dA), 1e-12)
    there = problem.at(A + step.dA, here.KA + step.K_dA, constants + step.constants)
    slope = weight * (y - there.F[:, 0]) / 0.49
    assert close(prior.times(there.A), prior.times(slope[:, None]), 1e-9)
    assert there.psi - here.psi == pytest.approx(0.5 * step.decrement)
    expected = -0.5 * weight @ ((y - there.F[:, 0]) / 0.7) ** 2 - 0.5 * there.A[:, 0] @ there.KA[:, 0]
    assert there.psi == pytest.approx(expected - weight.sum() * np.log(0.7 * np.sqrt(2.0 * np.pi)))
    if has_constant:
        assert abs(slope.sum()) < 1e-9
    else:
        assert not step.constants.any()


def test_the_next_decrement_is_foreseen_from_the_last_two(walk):
    # 1e-4 and then 1e-12: the next one would be 1e-20; but of the first step nothing is foreseen
    assert walk(Scripted(1e-4, 0.9e-12))[1] == [1e-4, 0.9e-12]
    assert walk(Scripted(1e-4, 1.1e-12, END))[1] == [1e-4, 1.1e-12, END]
    assert walk(Scripted(0.9e-20))[1] == [0.9e-20]
    assert walk(Scripted(1.1e-20, END))[1] == [1.1e-20, END]
    # in units of psi, where that is large, and of what is asked for
    assert walk(Scripted(0.9e-20), psi=-0.1)[1] == [0.9e-20]
    assert walk(Scripted(0.9e-17), psi=-1e3)[1] == [0.9e-17]
    assert walk(Scripted(0.9e-10), found=1e-10)[1] == [0.9e-10]


# -- single points and steps


def problem_of(log_density, has_constant=True, is_log_concave=True):
    """Return a problem of one row, K = 2, whose targets have this log density."""

    class Prior:
        def __len__(self):
            return 1

        def times(self, V):
            return 2.0 * V

    observations = SimpleNamespace(
        log_density=lambda F: log_density(float(F[0, 0])),
        starting_constants=lambda: np.array([5.0]),
        likelihood=SimpleNamespace(is_log_concave=is_log_concave),
    )
    return modes._Problem(Prior(), observations, np.ones((1, int(has_constant))))


@pytest.mark.parametrize("has_constant", [True, False])
@pytest.mark.parametrize("is_log_concave", [True, False])
@pytest.mark.parametrize("at_start", [9.5, 10.5])
def test_modes_begin_nearby_where_that_is_better(has_constant, is_log_concave, at_start):
    cold_F, warm_F = (5.0, 7.0) if has_constant else (0.0, 6.0)
    values = {cold_F: 1.0, warm_F: at_start}
    problem = problem_of(values.__getitem__, has_constant, is_log_concave)
    cold = problem.start(None)
    assert (cold.A, cold.KA, cold.F, cold.psi) == (0.0, 0.0, cold_F, 1.0)
    nearby = SimpleNamespace(A=np.array([[3.0]]), constants=np.array([1.0]))
    begun = problem.start(nearby)
    is_taken = at_start - 9.0 >= 1.0 or not is_log_concave
    assert (warm_F if is_taken else cold_F) == begun.F
    assert begun.psi == (at_start - 9.0 if is_taken else 1.0)
    if is_taken:
        assert (begun.A, begun.KA) == (3.0, 6.0)


def moved(log_density, decrement=1.0):
    """Return the point after a step of 2 in A, 1 in K A and 8 in the constant; psi is log_density(t)."""
    problem = problem_of(lambda F: log_density((F - 3.0) / 9.0) + ((F - 3.0) / 9.0) ** 2)
    here = problem.at(np.zeros((1, 1)), np.zeros((1, 1)), np.array([3.0]))
    step = modes._Step(np.full((1, 1), 2.0), np.ones((1, 1)), np.array([8.0]), decrement)
    return problem.moved(here, step)


@pytest.mark.parametrize("good", [1.0, 0.5, 0.25, 2.0**-29])
def test_steps_are_halved_until_they_gain_something(good):
    new = moved(lambda t: 0.0 if t == 0 else 10.0 if t < 1.5 * good else -1.0)
    assert (new.A, new.KA, new.constants) == pytest.approx((2.0 * good, good, 3.0 + 8.0 * good))
    assert new.psi == pytest.approx(10.0)


def test_steps_that_never_gain_lead_nowhere():
    tried = []
    assert moved(lambda t: tried.append(t) or -t) is None
    assert len(tried) == 31  # the start, and thirty lengths


@pytest.mark.parametrize("decrement", [1.0, 4.0])
def test_steps_must_gain_a_share_of_the_decrement(decrement):
    assert moved(lambda t: 0.9e-4 * decrement * t, decrement) is None
    assert moved(lambda t: 1.1e-4 * decrement * t, decrement).KA == 1.0
    # half of a step need not gain more than half of that
    assert moved(lambda t: 0.6e-4 * decrement * (t < 0.9) * (t > 0), decrement).KA == 0.5


def test_steps_near_the_mode_are_made_without_a_search():
    assert moved(lambda t: -t, 0.9e-5).KA == 1.0
    assert moved(lambda t: -t, 1.1e-5) is None
