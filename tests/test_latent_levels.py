"""Learning with other likelihoods from few rows to all: its rules, by objects that only tell what they are
asked for."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from problems import close
from sklearn.gaussian_process.kernels import RBF

from skspectral.decomposition.data import Data
from skspectral.learning import latent
from skspectral.learning.latent_task import LatentTask
from skspectral.likelihoods import Bernoulli


class Rows(SimpleNamespace):
    """A task of which only the number of rows is known, and what else is given."""

    def __len__(self):
        return self.n


# -- levels


def levels_of(monkeypatch, sizes, *, n, without_class=(), of_matrix=True, **task):
    """Return what `_descend` asks of each level, and what it settles."""
    asked = []

    class Task(Rows):
        has_all_classes = True

        def subset(self, rows):
            return Task(**vars(self) | {"n": len(rows), "has_all_classes": len(rows) not in without_class})

    class Found(SimpleNamespace):
        def before_half(self, task):
            asked.append(("before half", len(self.rows)))
            return Found(**vars(self) | {"vain": "vain" if of_matrix else None})

    def found(level, rows, coarser, start, tolerance, report, is_all):
        asked.append((len(level), coarser and len(coarser.rows), tolerance, is_all))
        assert (start, report) == ("start", "report")
        return Found(rows=rows, n_before=0 if coarser is None else 5, vain=coarser and coarser.vain)

    monkeypatch.setattr(latent, "replace", lambda task, is_rough: Task(**vars(task) | {"is_rough": is_rough}))
    monkeypatch.setattr(latent, "_levels", lambda task: [np.arange(size) for size in sizes])
    monkeypatch.setattr(latent, "_found", found)
    monkeypatch.setattr(latent, "_with_path", lambda task, found, *_: ("with path", found))
    monkeypatch.setattr(latent, "_settled", lambda task, found, report: (task, found))
    settled, end = latent._descend(Task(n=n, n_classes=2, **task), "start", "report")
    assert settled.is_rough
    return asked, end


def test_levels_follow_each_other_and_the_path_comes_last(monkeypatch):
    asked, end = levels_of(monkeypatch, [50, 200, 790], n=790)
    assert asked == [(50, None, 1e-2, False), (200, 50, 1e-2, False), (790, 200, 0.1, True)]
    assert end[0] == "with path"
    asked, end = levels_of(monkeypatch, [60], n=60)
    assert asked == [(60, None, 1e-2, True)]
    assert end.n_before == 0  # the path came first


@pytest.mark.parametrize(("size", "tolerance"), [(399, 1e-2), (400, 0.1)])
def test_levels_of_many_rows_are_rough(monkeypatch, size, tolerance):
    asked, _ = levels_of(monkeypatch, [size, 799], n=799)
    assert asked[0] == (size, None, tolerance, False)


@pytest.mark.parametrize("of_matrix", [True, False])
def test_half_of_the_rows_are_a_level_for_matrices(monkeypatch, of_matrix):
    asked, _ = levels_of(monkeypatch, [50, 250, 500, 1000], n=1000, of_matrix=of_matrix)
    coarse = [(50, None, 1e-2, False), (250, 50, 0.1, False), ("before half", 250)]
    half = [(500, 250, 0.1, False), (1000, 500, 0.1, True)]
    assert asked == [*coarse, *(half if of_matrix else [(1000, 250, 0.1, True)])]


def test_a_quarter_of_the_rows_is_rough_where_half_of_them_follow(monkeypatch):
    asked, _ = levels_of(monkeypatch, [249, 250, 500, 1000], n=1000)
    assert [each[2] for each in asked if each[0] != "before half"] == [1e-2, 0.1, 0.1, 0.1]


def test_levels_without_all_classes_are_passed_over(monkeypatch):
    asked, _ = levels_of(monkeypatch, [50, 200, 790], n=790, without_class=[50])
    assert asked == [(200, None, 1e-2, False), (790, 200, 0.1, True)]
    asked, _ = levels_of(monkeypatch, [250, 500, 1000], n=1000, without_class=[250])
    assert asked == [(500, None, 0.1, False), (1000, 500, 0.1, True)]  # nothing to tell half of them


@pytest.mark.parametrize(
    ("n", "n_classes", "sizes"),
    [
        (799, 2, [49, 199, 799]),
        (800, 2, [50, 200, 400, 800]),
        (800, None, [200, 800]),
        (164, 2, [41, 164]),
        (159, 2, [159]),
    ],
)
def test_sizes_of_levels(n, n_classes, sizes):
    X = np.random.default_rng(0).normal(size=(n, 1))
    data = Data.with_intercept(X, np.zeros((n, 1)), None, True)
    task = LatentTask(data, RBF(1.0), Bernoulli(), n_classes=n_classes)
    levels = latent._levels(task)
    assert [len(rows) for rows in levels] == sizes
    assert np.array_equal(levels[-1], np.arange(n))
    assert all(np.isin(few, more).all() for few, more in pairwise(levels))
    assert [len(rows) for rows in latent._levels(replace(task, kernel="precomputed"))] == [n]


class Exploring:
    """An explorer that tells what it was asked for; its descents end at given values."""

    def __init__(self, *values, n_calls=3):
        self.values, self.asked = list(values), []
        self.objective = SimpleNamespace(n_calls=n_calls, last="fit", task="task")

    def _end(self, *what):
        self.asked.append(what)
        return SimpleNamespace(x=np.full(2, 9.0), value=self.values.pop(0), curvature=4.0 * np.eye(2))

    def descend(self, x, **settings):
        return self._end("descend", x if isinstance(x, str) else x.tolist(), settings)

    def go_on(self, end, **settings):
        return self._end("go on", end.value, settings)

    def explore(self, starts, tolerance):
        return [self._end("explore", starts, tolerance)]

    def compare(self, starts, tolerance):
        return [self._end("compare", starts, tolerance)]

    def hop(self, ends, tolerance):
        return [self._end("hop", [end.value for end in ends], tolerance)]

    def see_curvature(self, end):
        self.asked.append(("see", end.value))
        return replace_end(end, curvature="seen") if self.sees else end


def replace_end(end, **changes):
    return SimpleNamespace(**vars(end) | changes)


def end_at(value, x=(0.0, 0.0)):
    return SimpleNamespace(value=value, x=np.array(x), curvature=2.0 * np.eye(2))


@pytest.mark.parametrize("of_matrix", [True, False])
@pytest.mark.parametrize("sees", [True, False])
def test_before_half_of_the_rows_the_curvature_is_seen_where_matrices_follow(of_matrix, sees):
    explorer = Exploring(1.5)
    explorer.sees = sees
    best, other = end_at(2.0), end_at(3.0)
    found = latent._Found(np.arange(9), [best, other], explorer, 10)
    task = SimpleNamespace(point=lambda x: ("point", x.tolist()), is_of_matrix=lambda point: of_matrix)
    after = found.before_half(task)
    assert after.ends[1] is other
    assert after.n_before == 10
    if of_matrix:
        assert explorer.asked == [("see", 2.0)]
        assert after.vain == ("point", [0.0, 0.0])
        assert after.is_seen == sees
        assert (after.ends[0].curvature == "seen") if sees else (after.ends[0] is best)
    else:
        assert explorer.asked == [("go on", 2.0, {"tolerance": 1e-2})]
        assert (after.ends[0].value, after.vain, after.is_seen) == (1.5, None, False)


def test_evaluations_of_all_levels_count():
    assert latent._Found(np.arange(9), [end_at(2.0)], Exploring(n_calls=3), 10).n_evaluations == 13
    assert latent._Found(np.arange(9), [end_at(2.0)], Exploring(), 10).fit == "fit"


@pytest.mark.parametrize("n_coarse", [149, 150])
def test_a_level_goes_on_from_the_ends_of_a_coarser_one(monkeypatch, n_coarse):
    made, explorer = [], Exploring(1.0)
    monkeypatch.setattr(latent, "LatentObjective", lambda level, begin: made.append(begin) or "objective")
    monkeypatch.setattr(latent, "Explorer", lambda objective, lower, upper, report: explorer)
    sights = []
    monkeypatch.setattr(latent, "_in_sight", lambda x, start, sight, level: sights.append(sight) or x)

    def begin(*what):
        return what

    level = SimpleNamespace(start_from_fewer=begin, bounds=np.zeros((2, 2)))
    before = latent._Found(
        np.arange(n_coarse), [end_at(2.0), end_at(3.0, [8.0, 8.0])], Exploring(), 10, "vain", True
    )
    rows = np.arange(3 * n_coarse)
    found = latent._found(level, rows, before, "start", 1e-2, None)
    assert made[0][0] == "fit"
    assert made[0][1] is before.rows
    assert made[0][2] is rows
    assert made[0][3] == "vain"
    name, starts, tolerance = explorer.asked[0]
    assert (name, tolerance) == ("compare", 1e-2)
    assert [x.tolist() for x, _ in starts] == [[0.0, 0.0], [8.0, 8.0]]
    assert all(close(curvature, 6.0 * np.eye(2), 1e-12) for _, curvature in starts)  # of three times the rows
    assert sights == pytest.approx([np.log(3.0 if n_coarse < 150 else 20.0)] * 2)
    assert (found.n_before, found.vain, found.is_seen) == (13, "vain", True)
    assert found.rows is rows


def test_the_first_level_explores(monkeypatch):
    explorer = Exploring(1.0)
    monkeypatch.setattr(latent, "LatentObjective", lambda level, begin: begin)
    monkeypatch.setattr(latent, "Explorer", lambda objective, lower, upper, report: explorer)
    level = SimpleNamespace(bounds=np.zeros((2, 2)))
    found = latent._found(level, np.arange(9), None, "start", 1e-2, None)
    assert explorer.asked == [("explore", ["start"], 1e-2)]
    assert (found.n_before, found.vain, found.is_seen) == (0, None, False)


@pytest.mark.parametrize("is_all", [True, False])
@pytest.mark.parametrize("is_followed", [True, False])
def test_all_rows_explore_from_the_end_of_the_users_path(monkeypatch, is_all, is_followed):
    explorer = Exploring(5.0, 4.0)
    monkeypatch.setattr(latent, "_is_followed", lambda task, start: is_followed)
    monkeypatch.setattr(latent, "follow_latent_path", lambda objective: SimpleNamespace(x="end of path"))
    latent._explored(explorer, "start", is_all)
    if is_all and is_followed:
        descent = ("descend", "end of path", {"tolerance": 1e-2})
        assert explorer.asked == [descent, ("hop", [5.0], 1e-2)]
    else:
        assert explorer.asked == [("explore", ["start"], 1e-2)]


def test_variables_brought_back_have_a_curvature_of_their_own():
    """Twice their slope, for a function of the -2nd power; other curvatures grow with the rows."""
    B = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
    end = SimpleNamespace(x=np.array([1.0, 2.0, 3.0]), curvature=B.copy())
    slopes, asked = np.array([5.0, -7.0, 1e-9]), []

    def objective(x):
        asked.append(x.tolist())
        return SimpleNamespace(gradient=slopes)

    assert close(latent._curvature_at(objective, end.x.copy(), end, 4.0), 4.0 * B, 1e-12)
    assert asked == []
    back = np.array([1.0, 0.0, 0.0])
    expected = np.diag([16.0, 14.0, 1e-3])
    assert close(latent._curvature_at(objective, back, end, 4.0), expected, 1e-12)
    assert asked == [[1.0, 0.0, 0.0]]
    one = latent._curvature_at(objective, np.array([0.0, 2.0, 3.0]), end, 4.0)
    assert close(
        one, np.block([[np.eye(1) * 10.0, np.zeros((1, 2))], [np.zeros((2, 1)), 4.0 * B[1:, 1:]]]), 1e-12
    )
    np.testing.assert_array_equal(end.curvature, B)  # what was found stays


# -- all rows


@pytest.mark.parametrize(
    ("value", "is_known", "gain", "is_better"),
    [
        (5.09, False, 0.011, True),
        (5.09, False, 0.009, False),
        (5.11, False, 1.0, None),
        (4.0, True, 1.0, None),
    ],
)
@pytest.mark.parametrize("is_followed", [True, False])
def test_a_path_on_all_rows_is_kept_where_it_is_better(
    monkeypatch, value, is_known, gain, is_better, is_followed
):
    explorer, made = Exploring(5.0 - gain), []
    objective = SimpleNamespace(n_calls=7)
    explorer.objective.n_calls = 11

    def follow(objective, best):
        made.append((objective, best.value))
        return SimpleNamespace(x="end of path", value=value, is_known=is_known)

    monkeypatch.setattr(latent, "_is_followed", lambda task, start: is_followed)
    monkeypatch.setattr(latent, "LatentObjective", lambda task: objective)
    monkeypatch.setattr(latent, "Explorer", lambda objective, lower, upper, report: explorer)
    monkeypatch.setattr(latent, "follow_latent_path", follow)
    found = latent._Found(np.arange(30), [end_at(5.0), end_at(6.0)], Exploring(n_calls=3), 10)
    after = latent._with_path(Rows(n=30, bounds=np.zeros((2, 2))), found, "start", None)
    if not is_followed:
        assert after is found
        return
    assert made == [(objective, 5.0)]
    descends = is_better is not None
    assert explorer.asked == ([("descend", "end of path", {"tolerance": 1e-2})] if descends else [])
    if is_better:
        assert [end.value for end in after.ends] == [5.0 - gain, 5.0]
        assert after.explorer is explorer
        assert after.n_evaluations == 13 + 11
    else:
        assert after.ends is found.ends
        assert after.n_evaluations == 13 + 7


@pytest.mark.parametrize(
    ("n", "off_by", "is_seen", "expected"),
    [
        (799, 0.5, False, ("descend", 1e-7, None)),
        (800, 2e-3, False, ("descend", 3e-4, None)),
        (800, 2e-3, True, ("descend", 3e-4, 2e-3)),
        (800, 0.9e-3, True, ("go on", 0.9e-3, 2e-3)),
        (800, 1e-4, False, ("go on", 3e-4, None)),
        (800, None, False, ("go on", 3e-4, None)),
    ],
)
def test_the_last_steps_are_as_fine_as_rows_and_rounding_allow(n, off_by, is_seen, expected):
    explorer, end = Exploring(1.0), end_at(2.0)
    fit = None if off_by is None else SimpleNamespace(off_by=off_by)
    found = SimpleNamespace(rows=np.arange(n), ends=[end], fit=fit, is_seen=is_seen)
    latent._refined(explorer, found)
    ((name, at, settings),) = explorer.asked
    enough = settings.pop("enough", None)
    assert (name, settings.pop("tolerance"), enough) == expected
    assert at == (2.0 if name == "go on" else [0.0, 0.0])
    assert settings == ({} if name == "go on" else {"curvature": end.curvature})


def test_the_end_is_of_full_precision_and_counts_all_evaluations(monkeypatch):
    made = []

    class Objective:
        n_calls = 4

        def __init__(self, task, start):
            made.append((task, start))

        def __call__(self, x):
            return SimpleNamespace(value=-8.0)

        def fit(self, x):
            return ("fit at", x)

    monkeypatch.setattr(latent, "replace", lambda task, is_rough: ("task", is_rough))
    monkeypatch.setattr(latent, "LatentObjective", Objective)
    monkeypatch.setattr(latent, "_refined", lambda explorer, found: SimpleNamespace(x="x"))
    found = SimpleNamespace(fit="fit", n_evaluations=20)
    end = latent._settled(Rows(n=30, bounds=np.zeros((2, 2))), found, None)
    assert made == [(("task", False), "fit")]
    assert (end.variables, end.value, end.fit, end.n_evaluations) == ("x", -8.0, ("fit at", "x"), 24)


@pytest.mark.parametrize("optimizer", [None, "own"])
def test_the_best_of_all_starts_is_taken_and_all_evaluations_count(monkeypatch, optimizer):
    task = SimpleNamespace(start=np.array([0.1, 0.2]), bounds=np.array([[-1.0, 1.0], [-3.0, 2.0]]))
    seen = []

    def ended(start):
        seen.append(start)
        return latent.LatentLearned(start, [5.0, 3.0, 4.0][len(seen) - 1], None, 10)

    monkeypatch.setattr(latent, "_descend", lambda task, start, report: ended(start))
    monkeypatch.setattr(latent, "_optimise", lambda task, start, own: ended(start))
    best = latent.learn_latent(task, optimizer=optimizer, n_restarts=2, random_state=0)
    drawn = np.random.RandomState(0)
    expected = [task.start, *(drawn.uniform(*task.bounds.T) for _ in range(2))]
    np.testing.assert_array_equal(seen, expected)
    assert (best.value, best.n_evaluations) == (3.0, 30)
    seen.clear()
    assert latent.learn_latent(task, optimizer=optimizer).n_evaluations == 10
    assert len(seen) == 1


def test_reports_tell_the_rows_of_a_level():
    told = []
    latent._at_level(lambda *what: told.append(what), 30)(1, "x", "evaluation")
    assert told == [(30, 1, "x", "evaluation")]
    assert latent._at_level(None, 30) is None
