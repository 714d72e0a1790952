"""Learning from few rows to all, and the end on all of them: what is asked of objectives and explorers that
only tell of it."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skspectral.learning import levels
from skspectral.learning.levels import Learned, learn

BOUNDS = np.array([[-3.0, 3.0], [-4.0, 4.0]])
THETA = np.array([0.1, 0.2])


class Task:
    """A task of n rows, of which those of some levels may have nothing to learn from."""

    def __init__(self, n, empty=(), on_landmarks=False, kernel=None):
        self.n, self.empty, self.learns_on_landmarks = n, empty, on_landmarks
        self.kernel, self.is_single = RBF([1.0, 1.0]) if kernel is None else kernel, True
        self.data = SimpleNamespace(n_outputs=1)

    def __len__(self):
        return self.n

    def drawn(self, n_rows):
        return np.arange(n_rows)

    def subset(self, rows):
        return Task(len(rows), self.empty, self.learns_on_landmarks)

    def of_varying_outputs(self):
        return None if self.n in self.empty else self


def learned(monkeypatch, task, halvings, on_landmarks=False):
    """Return what learning returns, and what each level was asked for."""
    asked, names = [], ("_found_on_landmarks", "_on_landmarks") if on_landmarks else ("_found", "_settled")

    def objective(level, whole, found):
        assert whole is task
        asked.append(("objective", len(level), found))
        box = SimpleNamespace(n_calls=5, task=level)
        box.box = lambda bounds: ("lower", "upper") if bounds is BOUNDS else None
        return box

    def explorer(objective, lower, upper, report, n_hopping):
        assert (lower, upper, report, n_hopping) == ("lower", "upper", None, 2)
        return SimpleNamespace(objective=objective)

    def found(explorer, coarser, theta, is_last):
        assert theta is THETA
        asked.append(("found", len(explorer.objective.task), coarser, is_last))
        return f"found on {len(explorer.objective.task)}"

    def settled(explorer, found, theta):
        asked.append(("settled", found))
        end = Learned("theta", 99.0, "decomposition", "solution", 100)
        return SimpleNamespace(value=-7.0, curvature="curvature"), end

    def valley(found, objective, whole, theta, bounds):
        assert (theta is THETA, bounds is BOUNDS, whole is task) == (True, True, True)
        asked.append(("valley", len(objective.task), found))
        objective.n_calls += 1000
        return found

    monkeypatch.setattr(levels, "_halvings", lambda task: halvings)
    monkeypatch.setattr(levels, "_finer", lambda task, halvings, found: halvings - 1)
    monkeypatch.setattr(levels, "_objective", objective)
    monkeypatch.setattr(levels, "Explorer", explorer)
    monkeypatch.setattr(levels, "_with_valley_of_all_rows", valley)
    monkeypatch.setattr(levels, names[0], found)
    monkeypatch.setattr(levels, names[1], settled)
    return learn(task, THETA, BOUNDS), asked


@pytest.mark.parametrize("on_landmarks", [True, False])
def test_levels_halve_the_rows_and_the_last_one_settles(monkeypatch, on_landmarks):
    end, asked = learned(monkeypatch, Task(103, on_landmarks=on_landmarks), 2, on_landmarks)
    assert asked == [
        ("objective", 25, None),
        ("found", 25, None, False),
        ("objective", 51, "found on 25"),
        ("valley", 51, "found on 25"),
        ("found", 51, "found on 25", False),
        ("objective", 103, "found on 51"),
        ("found", 103, "found on 51", True),
        ("settled", "found on 103"),
    ]
    assert end == Learned("theta", -7.0, "decomposition", "solution", 3 * 5 + 1000 + 100, "curvature")


def test_a_task_is_learned_from_its_own_start_alone_unless_told(monkeypatch):
    seen, lines = [], []

    def own(task, theta, bounds, *, report):
        seen.append((task, theta.tolist(), bounds.tolist(), report))
        return Learned(theta, 1.0, None, None, 3)

    monkeypatch.setattr(levels, "learn", own)
    monkeypatch.setattr(levels, "_ahead", lambda task, n_starts: ("ahead of", task, n_starts))
    for verbose in (1, 0):
        task = SimpleNamespace(
            kernel=RBF([1.0, np.e]), report=SimpleNamespace(line=lines.append, verbose=verbose)
        )
        assert levels.learn_from_starts(task, report="report").n_decompositions == 3
        assert seen.pop() == (task, [0.0, 1.0], task.kernel.bounds.tolist(), "report")
        assert lines == ([("ahead of", task, 1)] if verbose else [])
        lines.clear()


def test_rows_with_nothing_to_learn_from_are_passed_over(monkeypatch):
    end, asked = learned(monkeypatch, Task(103, empty=[25]), 2)
    assert asked[0] == ("objective", 51, None)
    assert end.n_decompositions == 2 * 5 + 1000 + 100
    _, asked = learned(monkeypatch, Task(103, empty=[103]), 0)  # all rows are never passed over
    assert asked[0] == ("objective", 103, None)


def test_objectives_know_what_a_coarser_level_found(monkeypatch):
    monkeypatch.setattr(levels, "LandmarkObjective", lambda level, **known: ("landmarks", level, known))
    monkeypatch.setattr(levels, "objective_of", lambda *what: ("matrix", *what))
    found = SimpleNamespace(noise_ratio=0.5, landmarks="moved")
    few, task = Task(10), Task(40)
    task.is_single = "single"  # of all rows, not of few of them
    assert levels._objective(few, task, None) == ("matrix", few, "single", None)
    assert levels._objective(few, task, found) == ("matrix", few, "single", 0.5)
    few.learns_on_landmarks = True
    known = {"noise_ratio": None, "landmarks": None}
    assert levels._objective(few, task, None) == ("landmarks", few, known)
    known = {"noise_ratio": 0.5, "landmarks": "moved"}
    assert levels._objective(few, task, found) == ("landmarks", few, known)


# -- very many rows


def valley_of(monkeypatch, *, n=5001, rank=None, found=True, is_single=True, kernel=None, x=9.0):
    """Return the ends after a look at all rows, the objective, and how often they were looked at."""
    looks = []
    variances = (np.array([3.0, 1.0]), np.array([1.0, 4.0]))
    end = SimpleNamespace(x=np.full(2, x), evaluation=SimpleNamespace(variances=variances))

    def end_of_bound(task, theta, bounds):
        looks.append((len(task), theta is THETA, bounds is BOUNDS))
        return end, 40

    monkeypatch.setattr(levels, "end_of_bound", end_of_bound)
    monkeypatch.setattr(levels, "replace", replace_any)
    task = Task(n, kernel=kernel)
    task.is_single = is_single
    objective = SimpleNamespace(n_calls=2, with_ratio=lambda theta, ratio: np.append(theta, np.log(ratio)))
    best = SimpleNamespace(x=np.zeros(3), value=1.0, evaluation=SimpleNamespace(rank=rank), curvature="B")
    before = levels._Found([best, "other"], 30) if found else None
    after = levels._with_valley_of_all_rows(before, objective, task, THETA, BOUNDS)
    return before, after, objective, looks


def replace_any(thing, **changes):
    return type(thing)(**vars(thing) | changes)


def test_all_of_very_many_rows_propose_a_start(monkeypatch):
    before, after, objective, looks = valley_of(monkeypatch)
    assert looks == [(5001, True, True)]
    assert objective.n_calls == 42
    best, other, start = after.ends
    assert (best, other, after.n_rows) == (*before.ends, 30)
    assert start.x == pytest.approx([9.0, 9.0, np.log(0.25)])  # the smaller of both noise ratios
    assert start.curvature == "B"


@pytest.mark.parametrize(
    "change",
    [
        {"n": 5000},
        {"rank": 7},
        {"found": False},
        {"is_single": False},
        {"kernel": RBF([1.0, 1.0]) * (RBF(1.0) + WhiteKernel(1.0))},
    ],
)
def test_no_valley_is_looked_for_otherwise(monkeypatch, change):
    before, after, _, looks = valley_of(monkeypatch, **change)
    assert after is before
    assert looks == []


def test_a_valley_that_is_known_is_none(monkeypatch):
    monkeypatch.setattr(levels, "is_elsewhere", lambda x, best: x[0] > 5.0)
    before, after, objective, looks = valley_of(monkeypatch, x=4.0)
    assert after is before
    assert len(looks) == 1
    assert objective.n_calls == 42


# -- on landmarks


@pytest.mark.parametrize("has_moved", [True, False])
@pytest.mark.parametrize("is_last", [True, False])
def test_a_level_of_landmarks_goes_on_from_a_coarser_one(monkeypatch, has_moved, is_last):
    asked = []

    def descend(objective, start, bounds, curvature, **settings):
        asked.append((start.tolist(), bounds.tolist(), curvature.tolist(), settings))
        return "end"

    monkeypatch.setattr(levels, "descend_on_landmarks", descend)
    objective = SimpleNamespace(task=Task(80), landmarks="landmarks", has_moved=has_moved)
    explorer = SimpleNamespace(objective=objective, lower=BOUNDS[:, 0], upper=BOUNDS[:, 1], report="report")
    coarser = levels._Found([SimpleNamespace(x=np.array([1.0, 2.0]), curvature=np.diag([2.0, 3.0]))], 20)
    found = levels._found_on_landmarks(explorer, coarser, THETA, is_last)
    settings = {"is_last": is_last, "report": "report"}
    assert asked == [
        ([1.0, 2.0], BOUNDS.tolist(), [[8.0, 0.0], [0.0, 12.0]], settings)
    ]  # four times the rows
    assert found == levels._Found(["end"], 80, "landmarks" if has_moved else None)


def test_the_first_level_of_landmarks_explores(monkeypatch):
    asked, curvatures = [], []

    def explore(starts, tolerance, max_calls):
        asked.append((starts, tolerance, max_calls))
        return [SimpleNamespace(x=np.array([1.0, 2.0]), curvature=np.diag([2.0, 3.0])), "worse"]

    def starts(objective, theta, bounds):
        assert theta is THETA
        assert np.array_equal(bounds, BOUNDS)
        return ["starts"]

    monkeypatch.setattr(levels, "starts_on_landmarks", starts)
    monkeypatch.setattr(
        levels,
        "descend_on_landmarks",
        lambda objective, start, bounds, curvature, **settings: curvatures.append(curvature.tolist()),
    )
    objective = SimpleNamespace(task=Task(80), landmarks="landmarks", has_moved=False)
    explorer = SimpleNamespace(
        objective=objective, lower=BOUNDS[:, 0], upper=BOUNDS[:, 1], report=None, explore=explore
    )
    levels._found_on_landmarks(explorer, None, THETA, False)
    assert asked == [(["starts"], pytest.approx(0.2), 80)]
    assert curvatures == [[[2.0, 0.0], [0.0, 3.0]]]


def test_the_end_on_landmarks_is_the_model_of_the_bound():
    descent = SimpleNamespace(x="x", value=-3.0)
    objective = SimpleNamespace(solve=lambda x: ("decomposition of", "solution"))
    explorer = SimpleNamespace(objective=objective)
    best, end = levels._on_landmarks(explorer, levels._Found([descent, "other"], 80), None)
    assert best is descent
    assert end == Learned("x", -3.0, "decomposition of", "solution", 1)


# -- the end


class Settling:
    """An explorer whose descents fall by one each."""

    def __init__(self, n=40, off_by=0.3):
        self.objective = SimpleNamespace(task=Task(n), n_calls=77, at=lambda theta, solution: ("at", theta))
        self.off_by, self.asked = off_by, []

    def end(self, value, curvature="B"):
        evaluation = SimpleNamespace(off_by=self.off_by)
        return SimpleNamespace(
            x=np.array([1.0, 2.0, 3.0]), value=value, evaluation=evaluation, curvature=curvature
        )

    def go_on(self, descent, **settings):
        way = settings.pop("way_from")
        self.asked.append(("go on", descent.value, way.tolist(), settings))
        return self.end(descent.value - 1.0, "B after")

    def descend(self, start, **settings):
        self.asked.append(("descend", start, settings))
        return self.end(self.falls_to.pop(0), "B again")


def settled(monkeypatch, gains, tolerance=1e-9, **explorer):
    """Return the end where global searches gain so much, and the explorer."""
    explorer, gains = Settling(**explorer), list(gains)
    values = []

    def globally(objective, best):
        assert objective.n_calls == 0
        values.append(best.value)
        gain = gains.pop(0)
        return SimpleNamespace(value=best.value - gain, theta=f"theta {len(values)}", solution="solution")

    explorer.falls_to = [-20.0, -30.0, -40.0, -50.0]
    monkeypatch.setattr(levels, "_globally", globally)
    monkeypatch.setattr(levels, "_tolerance", lambda task: tolerance)
    monkeypatch.setattr(
        levels,
        "_where_it_matters",
        lambda objective, end, theta: (end, objective is explorer.objective and theta is THETA),
    )
    found = levels._Found([explorer.end(-10.0)], 40)
    return *levels._settled(explorer, found, THETA), explorer, values


def test_the_best_end_goes_on_where_steps_are_finer(monkeypatch):
    best, (_, is_theta), explorer, values = settled(monkeypatch, [0.0])
    assert is_theta
    assert best.value == -11.0
    assert values == [-11.0]
    # from the start, with what stands beside theta
    assert explorer.asked == [("go on", -10.0, [0.1, 0.2, 3.0], {"tolerance": 1e-9, "enough": 1e-9})]


@pytest.mark.parametrize(("tolerance", "goes_on"), [(0.9e-3, True), (1e-3, False), (0.015, False)])
def test_ends_of_steps_that_are_as_coarse_stay(monkeypatch, tolerance, goes_on):
    _, _, explorer, _ = settled(monkeypatch, [0.0], tolerance)
    assert len(explorer.asked) == goes_on


@pytest.mark.parametrize(
    ("off_by", "tolerance", "gain", "n_descents"),
    [(0.3, 0.01, 0.29, 0), (0.3, 0.01, 0.31, 1), (0.01, 0.3, 0.29, 0), (0.01, 0.3, 0.31, 1)],
)
def test_a_global_search_that_gains_more_than_it_may_sends_the_descent_on_its_way(
    monkeypatch, off_by, tolerance, gain, n_descents
):
    best, _, explorer, values = settled(monkeypatch, [gain, 0.0], tolerance, off_by=off_by)
    descents = [("descend", ("at", "theta 1"), {"curvature": "B", "tolerance": tolerance})]
    assert explorer.asked == descents[:n_descents]
    assert values == [-10.0, -20.0][: n_descents + 1]
    assert best.value == values[-1]


def test_a_descent_is_sent_on_its_way_four_times_at_most(monkeypatch):
    best, end, explorer, values = settled(monkeypatch, [1.0] * 5, 0.01)
    assert len(explorer.asked) == 4
    assert values == [-10.0, -20.0, -30.0, -40.0, -50.0]
    assert (best.value, end.value) == (-50.0, -51.0)


@pytest.mark.parametrize(("falls_to", "is_followed"), [(-9.0, False), (-10.01, False), (-10.015, True)])
def test_a_descent_that_does_not_lead_on_is_not_followed(monkeypatch, falls_to, is_followed):
    """However high it ends: the end of the global search, which is ahead of both, is the model then."""
    explorer = Settling()
    monkeypatch.setattr(levels, "_tolerance", lambda task: 0.01)
    monkeypatch.setattr(
        levels,
        "_globally",
        lambda objective, best: SimpleNamespace(
            value=-11.0, theta=f"beside {best.value}", solution="solution"
        ),
    )
    monkeypatch.setattr(levels, "_where_it_matters", lambda objective, end, theta: (end, theta is THETA))
    explorer.falls_to = [falls_to, -11.0]
    best, (end, is_theta) = levels._settled(explorer, levels._Found([explorer.end(-10.0)], 40), THETA)
    assert is_theta
    assert best.value == (-11.0 if is_followed else -10.0)
    assert end.theta == ("beside -11.0" if is_followed else "beside -10.0")


@pytest.mark.parametrize("rank", [None, 7])
def test_a_global_search_follows_a_descent_on_matrices_without_a_factor(monkeypatch, rank):
    asked = []
    monkeypatch.setattr(levels, "_learned", lambda *what: asked.append(what))
    objective = SimpleNamespace(theta=lambda x: ("theta of", x))
    levels._globally(objective, SimpleNamespace(x="x", evaluation=SimpleNamespace(rank=rank)))
    assert asked == [(objective, ("theta of", "x"), rank is None)]


@pytest.mark.parametrize(
    ("start", "is_last", "is_users"),
    [([0.0, 1.0], True, True), ([0.0, 1.0 + 1e-9], True, False), ([0.0, 1.0], False, False)],
)
def test_only_the_users_start_on_all_rows_has_a_path(monkeypatch, start, is_last, is_users):
    asked = []
    monkeypatch.setattr(
        levels, "explored", lambda explorer, theta, is_users: asked.append(is_users) or ["end"]
    )
    monkeypatch.setattr(
        levels,
        "with_user_path",
        lambda explorer, ends, theta: asked.append(theta.tolist()) or ["path", *ends],
    )
    explorer = SimpleNamespace(
        objective=SimpleNamespace(task=Task(40, kernel=RBF([1.0, np.e]))),
        compare=lambda starts, tolerance: ["compared"],
    )
    theta = np.array(start)
    found = levels._found(explorer, None, theta, is_last)
    assert asked == [is_users]
    assert found == levels._Found(["end"], 40)
    coarser = levels._Found([SimpleNamespace(x=theta, curvature=np.eye(2))], 10)
    found = levels._found(explorer, coarser, theta, is_last)
    assert asked[1:] == ([start] if is_users else [])
    assert found.ends == (["path", "compared"] if is_users else ["compared"])


def test_reports_tell_theta_and_the_rows_of_a_level():
    told = []
    objective = SimpleNamespace(task=Task(40), theta=lambda x: x[:-1])
    levels.at_level(lambda *what: told.append(what), objective)(3, [1.0, 2.0, 9.0], "evaluation")
    objective.rows = range(7)
    levels.at_level(lambda *what: told.append(what), objective)(4, [1.0, 9.0], "evaluation")
    assert told == [(40, 3, [1.0, 2.0], "evaluation"), (7, 4, [1.0], "evaluation")]
    assert levels.at_level(None, objective) is None
