"""Small parts of `decomposition` and of what is said of variances: rules with limits, at their limits."""

from types import SimpleNamespace

import numpy as np
import pytest
import reference
from problems import close

from skspectral.criteria import CRITERIA
from skspectral.decomposition import decompose
from skspectral.decomposition import plan as planning
from skspectral.decomposition.certificate import (
    _check_probes,
    bracket_width,
    evidence_bounds,
    missed_energy,
    warn_of_bracket,
)
from skspectral.decomposition.data import Data
from skspectral.decomposition.decompose import Problem
from skspectral.decomposition.plan import Plan, Route
from skspectral.inference import tuned
from skspectral.inference.solution import solve
from skspectral.kernels.gram import scattered
from skspectral.linalg.factors import pivoted_cholesky
from skspectral.linalg.rows import check_target_size
from skspectral.linalg.spectrum import Spectrum
from skspectral.support.exceptions import IndefiniteKernelError, LowRankWarning

PLENTY = 1e15


@pytest.fixture
def memory(monkeypatch):
    """Return a function that sets the size of the memory, which is plenty otherwise."""

    def set_size(size):
        monkeypatch.setattr(planning, "physical_memory", lambda: size)

    set_size(PLENTY)
    return set_size


@pytest.mark.parametrize(
    ("options", "n", "route"),
    [
        ({}, 999, Route.EXACT),
        ({}, 1000, Route.CERTIFIED_OR_EXACT),
        ({}, 12_000, Route.CERTIFIED_OR_EXACT),
        ({}, 12_001, Route.AFFORDABLE),
        ({"couples_rows": True}, 5_000, Route.CERTIFIED_OR_EXACT),
        ({"couples_rows": True}, 5_001, Route.AFFORDABLE),
        ({"must_be_exact": True}, 12_001, Route.EXACT),
        ({"must_be_exact": True}, 32_000, Route.EXACT),
        ({"must_be_exact": True}, 32_001, Route.AFFORDABLE),
        ({"method": "exact", "rank": 5}, 100, Route.EXACT),
        ({"indefinite": "flip"}, 20_000, Route.EXACT),
        ({"selection": "greedy", "rank": 5}, 100, Route.GREEDY),
        ({"method": "low_rank"}, 100, Route.CERTIFIED),
        ({"rank": 5}, 100, Route.OF_RANK),
    ],
)
def test_routes_at_the_limits_of_their_sizes(memory, options, n, route):
    plan = Plan(**options)
    assert plan.route(n) is route
    assert plan.looks_at_targets(n) == (route not in (Route.EXACT, Route.OF_RANK))
    assert plan.has_given_rank(n) == (route in (Route.OF_RANK, Route.AFFORDABLE))


@pytest.mark.parametrize(("couples_rows", "matrices"), [(False, 3.5), (True, 10.0)])
def test_a_matrix_is_taken_where_it_fits_in_memory(memory, couples_rows, matrices):
    plan = Plan(couples_rows=couples_rows, must_be_exact=True)
    needed = 8.0 * matrices * 2000**2
    memory(needed * 1.001)
    assert plan.route(2000) is Route.EXACT
    memory(needed)
    assert plan.route(2000) is Route.AFFORDABLE


def test_ranks_that_are_affordable(memory):
    """5 n r^2 flops of a step, 20 n r^3 where rows are coupled, in what ten seconds hold."""
    n = 60_000
    rank = int(2 * (3e11 / (5.0 * n)) ** 0.5)
    assert Plan().factor_rank(n) == rank
    assert Plan().learning_rank(n) == rank // 2
    assert Plan().flops_of_step(n) == 5.0 * n * (rank // 2) ** 2
    coupled = int((3e11 / (20.0 * n)) ** (1.0 / 3.0))
    assert Plan(couples_rows=True).factor_rank(n) == Plan(couples_rows=True).learning_rank(n) == coupled
    memory(2.0 * 8.0 * 4.0 * n * 100.5)  # half of it for four arrays of the size of a factor
    assert Plan().factor_rank(n) == 100
    memory(1.0)
    assert Plan().factor_rank(n) == Plan().learning_rank(n) == 1
    memory(PLENTY)
    assert Plan().factor_rank(500) == Plan().learning_rank(500) == 500
    assert Plan(rank=7).factor_rank(5) == 5
    assert Plan(rank=7).learning_rank(100) == Plan(rank=7).factor_rank(100) == 7
    assert Plan("exact").flops_of_step(10) == 1000.0


def test_plans_of_some_of_the_rows(memory):
    plan = Plan("low_rank", 10)
    assert plan.for_rows(20) == Plan("exact")
    assert plan.for_rows(21) == plan
    assert Plan("auto", 10, "greedy").for_rows(8) == Plan("auto", 8, "greedy")
    assert Plan().for_rows(5) == Plan()
    learning = Plan("auto", 10, "greedy", indefinite="refuse").for_learning()
    assert learning == Plan("auto", 10, keeps_rows=True)
    assert not learning.may_move
    assert Plan("auto", 10).may_move
    assert not Plan().may_move


@pytest.mark.parametrize(("n", "expected"), [(999, False), (1000, True)])
def test_steps_of_learning_use_factors_on_many_rows(n, expected):
    assert Plan().may_use_factors(n) == expected
    assert Plan("low_rank").may_use_factors(n)
    assert not Plan("exact").may_use_factors(n)


def test_exact_features_are_taken_where_they_are_no_more_than_the_rank():
    assert Plan(rank=5).takes_exact_features(5)
    assert not Plan(rank=5).takes_exact_features(6)
    assert Plan().takes_exact_features(6)
    assert Plan("exact", 5).takes_exact_features(6)
    assert not Plan(selection="greedy").takes_exact_features(1)


def test_what_rows_and_memory_cannot_hold_is_refused(memory, monkeypatch):
    asked = []
    monkeypatch.setattr(planning, "check_fits", lambda needed, what, advice: asked.append((needed, what)))
    Plan("exact").check(32_000)
    Plan("low_rank", 10).check(10)
    Plan("exact", 11).check(10)
    assert [needed for needed, _ in asked] == [8.0 * 3.5 * 32_000**2, 8.0 * 4.0 * 10 * 10, 8.0 * 3.5 * 100]
    for plan in (Plan("exact"), Plan(indefinite="clip")):
        with pytest.raises(ValueError, match="32001 rows"):
            plan.check(32_001)
    with pytest.raises(ValueError, match="rank=11 is larger than the number of rows, 10"):
        Plan("low_rank", 11).check(10)
    for refused in ({"method": "low_rank"}, {"rank": 2}, {"selection": "greedy"}):
        with pytest.raises(ValueError, match="indefinite='flip' replaces eigenvalues"):
            Plan(**refused, indefinite="flip").check(10)


# -- certificates


@pytest.mark.parametrize("intercept", [True, False])
def test_bounds_of_the_evidence_hold_that_of_the_matrix(intercept):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (30, 1))
    K, y = reference.matern12(X), np.sin(X) + 0.3 * rng.normal(size=(30, 1))
    F = np.ones((30, 1)) if intercept else None
    gram = SimpleNamespace(
        diagonal=lambda X: np.diag(K).copy(),
        precision=lambda X: np.finfo(float).eps,
        fingerprint=lambda X: np.linspace(0.0, 1.0, 30, endpoint=False),
        columns=lambda X, j: K[:, j],
        block=lambda X, j: K[np.ix_(j, j)],
        rows=lambda X, j: X[j],
    )
    factor = pivoted_cholesky(gram, X, rank=15)
    spectrum = Spectrum.from_factor(factor.Phi, F, is_exact=False)
    solution = solve(spectrum.rotate(y), CRITERIA["evidence"])
    b, a = solution.noise_var[0], solution.signal_var[0]
    exact = reference.reml(K, y[:, 0], F, b, a) if intercept else reference.log_evidence(K, y[:, 0], b, a)
    lower, upper = evidence_bounds(solution, factor.tau)
    g, n = b / a, 30 - intercept
    assert lower < exact < upper
    assert lower == pytest.approx(solution.log_evidence - 0.5 * n * np.log1p(factor.tau / (n * g)))
    w = solution.dual[:, 0] / solution.rotated.scale[0]
    missed = w @ (K - factor.Phi @ factor.Phi.T) @ w
    same, closer = evidence_bounds(solution, factor.tau, np.array([missed]))
    assert same == lower
    assert exact < closer < upper
    scale = solution.rotated.scale[0]
    by_missed = solution.log_evidence + 0.5 * g * missed / (b / scale**2)
    by_tau = upper
    assert closer == pytest.approx(np.minimum(by_missed, by_tau))


def test_the_width_of_brackets():
    assert bracket_width(np.array([1.0, -np.inf]), np.array([1.5, -np.inf])) == 0.5
    assert bracket_width(np.array([1.0, 2.0]), np.array([4.0, 2.5])) == 3.0
    assert bracket_width(np.array([1.0]), np.array([0.5])) == 0.0


@pytest.mark.filterwarnings("error")
def test_a_wide_bracket_is_told_where_a_factor_had_to_do(memory):
    lower = np.array([-5.0, 3.0])
    with pytest.warns(LowRankWarning, match=r"12001 rows .* rank 7 .* 0\.25 apart. Set rank above 7"):
        warn_of_bracket(Plan(), 12_001, 7, lower, lower + np.array([0.25, 0.0]))
    warn_of_bracket(Plan(), 12_001, 7, lower, lower + 2.0**-7)  # less than a hundredth counts as exact
    warn_of_bracket(Plan(), 12_000, 7, lower, lower + 1.0)
    warn_of_bracket(Plan(rank=7), 12_001, 7, lower, lower + 1.0)  # as it was asked for


def test_quotients_that_no_positive_matrix_of_a_trace_has_are_refused():
    gram = SimpleNamespace(precision=lambda X: 1e-8, diagonal=lambda X: np.array([1.0, 2.0]))
    problem = SimpleNamespace(gram=gram, data=SimpleNamespace(X=None))
    root = np.array([1.0, 3.0])  # the largest entry of the weighted diagonal is 18
    for fine in ([0.0, 0.5], [0.2, 0.5 + 17e-4], [-17e-4, 0.1]):
        _check_probes(np.array(fine), 0.5, problem, root)
    for bad, smallest in (([0.0, 0.5 + 19e-4], -19e-4), ([-19e-4, 0.1], -19e-4)):
        with pytest.raises(IndefiniteKernelError) as caught:
            _check_probes(np.array(bad), 0.5, problem, root)
        assert caught.value.smallest_eigenvalue == pytest.approx(smallest)
        assert caught.value.tolerance == pytest.approx(18e-4)
    gram.diagonal = lambda X: np.zeros(2)
    _check_probes(np.zeros(2), 0.0, problem, root)  # a kernel of zeros is none that is indefinite


@pytest.mark.parametrize(
    ("sizes", "missed"),
    [([1.0, 2.0, 3.0, 4.0], 0.0), ([1.0, 2.0, 3.0, 0.0], 4.0), ([1.0, 2.0, 3.0, 5.0], 0.0)],
)
def test_the_energy_that_a_factor_misses_is_no_less_than_rounding(monkeypatch, sizes, missed):
    """All numbers are whole multiples of a quarter, so that nothing is rounded but what is added for it."""
    K, w, scale, root = np.diag([1.0, 4.0, 9.0, 16.0]), np.array([[1.0], [2.0], [-1.0], [0.5]]), 8.0, 2.0

    def product(gram, X, V, report):
        report(4)
        asked.append((gram, X, V))
        return K @ V

    told, asked, probes, gram = [], [], [], "gram"
    monkeypatch.setattr("skspectral.decomposition.certificate.product", product)
    monkeypatch.setattr(
        "skspectral.decomposition.certificate._check_probes", lambda *args: probes.append(args)
    )
    problem = SimpleNamespace(gram=gram, data=SimpleNamespace(X="X"), report=lambda **line: told.append(line))
    rows = SimpleNamespace(sqrt_weight=np.full((4, 1), root))
    solution = SimpleNamespace(
        dual=w * scale,
        rotated=SimpleNamespace(scale=np.array([scale])),
        spectrum=SimpleNamespace(rows=rows),
    )
    factor = SimpleNamespace(Phi=np.diag(sizes), rank=4, tau=1.0)
    rounding = 4 * np.finfo(np.float64).eps * (1.0 + 16.0 + 9.0 + 4.0)
    found = missed_energy(solution, problem, factor)
    assert found == pytest.approx([missed + rounding], rel=1e-9, abs=0.0)
    assert told == [{"n_rows": 4, "rank": 4, "done": 4}]
    *inputs, V = asked[0]
    assert inputs == ["gram", "X"]
    np.testing.assert_array_equal(V[:, :1], w)
    z, (quotients, tau, of, weights) = V[:, 1:] / root, probes[0]
    assert z.std() == pytest.approx(1.0, rel=0.5)
    expected = root**2 * (np.diag(K) - np.square(sizes)) @ z**2 / (z**2).sum(axis=0)
    assert quotients == pytest.approx(expected, abs=1e-12)
    assert (tau, of) == (1.0, problem)
    np.testing.assert_array_equal(weights, np.full(4, root))
    problem.report = None
    np.testing.assert_array_equal(missed_energy(solution, problem, factor), found)


# -- variances


def test_targets_must_have_a_size_whose_square_is_a_number():
    check_target_size(np.array([0.9e152, 1.1e-152]))
    for size in (1e152, 1.0 / 1e152, 0.99e-152, 0.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"It must lie between 1e-152 and 1e\+152") as caught:
            check_target_size(np.array([1.0, size]))
        assert f"root mean square of {size:.3g}," in str(caught.value)


# -- tuned variances


@pytest.mark.parametrize("intercept", [True, False])
def test_given_ratios_have_the_noise_and_freedom_of_dense_matrices(intercept):
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(0.0, 4.0, (15, 1)), 3.0 * rng.normal(size=(15, 2))
    K, F = reference.rbf(X), np.ones((15, 1)) if intercept else None
    g = np.array([0.3, 2.0])
    found = tuned.at_noise_ratio(Spectrum.from_gram(K, F).rotate(Y), CRITERIA["evidence"], g)
    assert [result.status for result in found.tuning] == ["fixed"] * 2
    assert [result.n_evaluations for result in found.tuning] == [1, 1]
    for j in range(2):
        C_inv = np.linalg.inv(K + g[j] * np.eye(15))
        mean = C_inv.sum(axis=0) @ Y[:, j] / C_inv.sum() if intercept else 0.0
        residual = Y[:, j] - mean
        noise = g[j] * residual @ C_inv @ residual / (15 - intercept)
        assert found.noise_var[j] == pytest.approx(noise)
        assert found.signal_var[j] == pytest.approx(noise / g[j])
        assert found.effective_dof[j] == pytest.approx(reference.effective_dof(K, g[j], F))


# -- which solution


@pytest.mark.parametrize(
    ("settings", "n_outputs", "is_certified", "expected"),
    [
        ({}, 2, True, "certified"),
        ({"noise_ratio": np.ones(2)}, 2, True, "certified"),
        ({"shared": True}, 1, True, "certified"),
        ({"shared": True}, 2, True, ("tuned", "evidence", {"shared": True, "prior": None})),
        ({"prior": "prior"}, 1, True, ("tuned", "evidence", {"shared": False, "prior": "prior"})),
        ({"criterion": CRITERIA["gcv"]}, 1, True, ("tuned", "gcv", {"shared": False, "prior": None})),
        ({"correlated": True}, 2, True, "correlated"),
        ({"correlated": True, "noise_ratio": np.ones(2)}, 2, False, "correlated"),
        ({"noise_ratio": np.ones(2)}, 2, False, "fixed"),
        ({}, 1, False, ("tuned", "evidence", {"shared": False, "prior": None})),
        ({"by_bound": True}, 1, False, ("tuned", 0.25, {"shared": False, "prior": None})),
    ],
)
def test_the_solution_of_a_certificate_is_taken_where_it_is_the_same(
    monkeypatch, settings, n_outputs, is_certified, expected
):
    monkeypatch.setattr(decompose, "solve_correlated", lambda rotated: "correlated")
    monkeypatch.setattr(decompose, "solve_fixed", lambda *args: args)
    monkeypatch.setattr(decompose, "certain_evidence", lambda tau: SimpleNamespace(name=tau))
    monkeypatch.setattr(
        decompose, "solve", lambda rotated, of, bounds, **options: ("tuned", of.name, options)
    )
    certified = SimpleNamespace(solution="certified") if is_certified else None
    data = Data(np.zeros((3, 1)), np.zeros((3, n_outputs)))
    spectrum = SimpleNamespace(
        rotate=lambda *args: "rotated" if args == (data.Y, data.standardised) else args
    )
    problem = Problem(None, data, **settings)
    found = problem.solution(SimpleNamespace(certified=certified, spectrum=spectrum, tau=0.25))
    fixed = "rotated", problem.criterion, problem.noise_ratio
    assert found == (fixed if expected == "fixed" else expected)
    alone = problem.by_evidence()
    assert (alone.criterion.name, alone.prior, alone.shared) == ("evidence", None, False)
    assert not alone.correlated
    assert not alone.by_bound
    assert alone.noise_ratio is problem.noise_ratio


@pytest.mark.parametrize(("n", "is_dense"), [(32_000, True), (32_001, False)])
def test_greedy_choices_see_outputs_of_the_same_size(monkeypatch, n, is_dense):
    asked = []
    monkeypatch.setattr(decompose, "greedy_landmarks", lambda *args, **options: asked.append((args, options)))
    monkeypatch.setattr(decompose, "pilot_noise_ratio", lambda problem: 0.125)
    Y, weight = np.zeros((n, 3)), np.ones(n)
    Y[:2] = [[0.01, 50.0, 0.0], [-0.005, -100.0, 0.0]]
    problem = Problem("gram", Data(np.zeros((n, 1)), Y, weight), report="report")
    decompose.greedy_factor(problem, 7, 3)
    (gram, X, seen, ratio), options = asked[0]
    assert (gram, ratio) == ("gram", 0.125)
    assert X is problem.data.X
    assert seen[:2] == pytest.approx(np.array([[1.0, 0.5, 0.0], [-0.5, -1.0, 0.0]]))
    assert options.pop("weight") is weight
    assert options == {"max_rank": 7, "random_state": 3, "dense_dual": is_dense, "report": "report"}
    decompose.greedy_factor(problem, 7)
    assert asked[1][1]["random_state"] == 0


# -- data


def test_holes_and_patterns_of_targets():
    Y = np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    data = Data(np.arange(3.0)[:, None], Y, np.array([1.0, 2.0, 0.0]))
    assert data.has_holes
    assert not Data(data.X, np.ones((3, 2))).has_holes
    (both, first), (one, second) = data.by_pattern()
    assert (both.tolist(), one.tolist()) == ([0, 2], [1])
    assert first.weight.tolist() == [1.0, 2.0, 0.0]
    assert second.weight.tolist() == [0.0, 2.0, 0.0]
    assert first.Y.tolist() == [[1.0, 3.0], [4.0, 6.0], [0.0, 0.0]]
    assert data.present.tolist() == [True, True, False]


@pytest.mark.parametrize("holes", [True, False])
def test_the_order_of_rows_that_looks_random_depends_on_their_content(holes):
    rng = np.random.default_rng(0)
    n = 17 if holes else 16  # the sum over 16 numbers of few digits and their mean have no rounding
    X, Y = np.zeros((n, 1)), rng.integers(-1000, 1000, (n, 2)) / 8.0  # inputs alike: the targets tell rows
    if holes:
        Y[[2, 5], [0, 1]] = np.nan
    gram = SimpleNamespace(fingerprint=lambda X: np.full(len(X), 0.25))
    order = Data(X, Y).shuffled(gram)
    assert sorted(order) == list(range(n))
    moved = rng.permutation(n)
    np.testing.assert_array_equal(moved[Data(X, Y[moved]).shuffled(gram)], order)
    # shifts and positive factors of an output are no content
    np.testing.assert_array_equal(Data(X, Y * [1024.0, 0.5] + [64.0, -8.0]).shuffled(gram), order)
    assert order.tolist() != list(range(n))
    assert Data(X, Y * [1.0, -1.0]).shuffled(gram).tolist() != order.tolist()


def test_rows_are_ordered_by_fingerprints_of_inputs_and_targets():
    """Outputs count by their largest distance from the mean; one is seen once, one is constant, one never."""
    rng = np.random.default_rng(0)
    Y = np.column_stack([0.1 * rng.normal(size=9), 50.0 * rng.normal(size=9), np.full((9, 3), np.nan)])
    Y[4, 0], Y[2, 2], Y[:, 3] = np.nan, 7.0, 3.0
    fingerprint, total = rng.uniform(size=9), np.zeros(9)
    for column in Y.T[:2]:
        centred = np.nan_to_num(column - np.nanmean(column))
        total += centred / np.abs(centred).max()
    order = Data(np.zeros((9, 1)), Y).shuffled(SimpleNamespace(fingerprint=lambda X: fingerprint))
    expected = np.argsort((fingerprint + scattered(total)) % 1.0)
    np.testing.assert_array_equal(order, expected)


def test_what_varies_and_is_present_is_kept():
    Y = np.column_stack([np.arange(4.0), np.full(4, 3.0)])
    data = Data(np.arange(4.0)[:, None], Y, np.array([1.0, 0.0, 1.0, 1.0]), np.ones((4, 1)))
    assert data.of_varying_outputs().Y.tolist() == Y[:, :1].tolist()
    assert Data(data.X, Y[:, 1:], None, np.ones((4, 1))).of_varying_outputs() is None
    assert data.of_present_rows().Y.tolist() == Y[[0, 2, 3]].tolist()
    weighted = Y - np.average(Y, axis=0, weights=data.weight)
    assert close(data.detrended(), weighted, 1e-12)
    assert Data(data.X, Y).detrended() is Y
