"""Small parts of `decomposition` and of what is said of variances: rules with limits, at their limits."""

from types import SimpleNamespace

import numpy as np
import pytest
import reference
from problems import close

from skspectral.criteria import CRITERIA
from skspectral.decomposition import plan as planning
from skspectral.decomposition.certificate import _check_probes, bracket_width, evidence_bounds
from skspectral.decomposition.data import Data
from skspectral.decomposition.plan import Plan, Route
from skspectral.inference import tuned
from skspectral.inference.solution import solve
from skspectral.inference.tuning import zoom
from skspectral.inference.uncertainty import _is_held
from skspectral.inference.variances import VarianceBounds, finite_ratio, resolvable_ratios
from skspectral.linalg.factors import pivoted_cholesky
from skspectral.linalg.rows import check_target_size
from skspectral.linalg.spectrum import Spectrum
from skspectral.support.exceptions import IndefiniteKernelError

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


# -- variances


def test_ratios_inside_of_bounds():
    assert VarianceBounds().noise_ratio == (0.0, np.inf)
    assert VarianceBounds((1.0, 4.0), (2.0, 8.0)).noise_ratio == (0.125, 2.0)
    assert VarianceBounds((1.0, 4.0), (0.0, 8.0)).noise_ratio == (0.125, np.inf)
    assert VarianceBounds((0.0, 4.0), (2.0, np.inf)).noise_ratio == (0.0, 2.0)
    assert VarianceBounds((1.0, 4.0), (0.0, 0.0)).noise_ratio == (np.inf, np.inf)
    assert VarianceBounds((0.0, 0.0), (0.0, 8.0)).noise_ratio == (0.0, 0.0)
    assert VarianceBounds().is_free
    assert not VarianceBounds((0.0, 1.0)).is_free
    assert not VarianceBounds(signal=(1.0, np.inf)).is_free
    assert VarianceBounds((1.0, 1.0), (2.0, 2.0)).is_fixed
    assert not VarianceBounds((1.0, 1.0), (2.0, 3.0)).is_fixed
    assert not VarianceBounds((1.0, 2.0), (3.0, 3.0)).is_fixed
    assert VarianceBounds((1.0, 2.0), (3.0, 4.0)).of_signal == VarianceBounds(signal=(3.0, 4.0))


def test_no_noise_is_what_rounding_of_the_targets_hides():
    eps = np.finfo(np.float64).eps
    scale = np.array([3.0, 2.0])
    assert VarianceBounds((0.0, 40.0 * eps)).allow_no_noise(10, scale)
    assert not VarianceBounds((0.0, 41.0 * eps)).allow_no_noise(10, scale)
    assert not VarianceBounds((40.0 * eps, 40.0 * eps), (0.0, 1.0)).allow_no_noise(10, scale)
    assert VarianceBounds((40.0 * eps, 40.0 * eps), (0.0, 4.0)).allow_no_noise(10, scale)


def test_bounds_in_units_of_the_targets():
    box = VarianceBounds((1.0, 4.0), (0.0, np.inf)).box(np.array([1.0, 2.0]))
    lower, upper = box.noise_limits(np.zeros((1, 2)))[:2]
    assert lower[0] == pytest.approx([1.0, 0.25])
    assert upper[0] == pytest.approx([4.0, 1.0])


def test_resolvable_ratios():
    finite = np.finfo(np.float64)
    assert resolvable_ratios(2.0, 1e-10) == (1e-10, 2e6)
    assert resolvable_ratios(2.0, 0.0) == (2.0 * finite.eps, 2e6)
    assert resolvable_ratios(1e305, 1.0)[1] == pytest.approx(0.5 * finite.max)
    assert finite_ratio(np.array([1.0, 1e300]), np.array([4.0, 1e-20])).tolist() == [0.25, finite.max]


@pytest.mark.parametrize(("value", "held"), [(1.0, True), (1.0 + 9e-9, True), (1.0 + 2e-8, False)])
def test_a_variance_is_held_within_a_slack_of_its_bounds(value, held):
    assert _is_held(value, (1.0, np.inf)) == held
    assert _is_held(2.0 / value, (0.0, 2.0)) == held
    assert not _is_held(value - 1.0, (0.0, np.inf))
    assert _is_held(value, (1.0, 5.0)) == held


def test_targets_must_have_a_size_whose_square_is_a_number():
    check_target_size(np.array([0.9e152, 1.1e-152]))
    for size in (1e152, 0.99e-152, 0.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"It must lie between 1e-152 and 1e\+152") as caught:
            check_target_size(np.array([1.0, size]))
        assert f"root mean square of {size:.3g}," in str(caught.value)


def test_boxes_of_bounds_beyond_all_numbers():
    box = VarianceBounds((1e300, np.inf), (1e-300, 1e300)).box(np.array([1e-10]))
    lower = box.noise_limits(np.zeros((1, 1)))[0]
    assert np.isfinite(lower).all()
    assert close(lower, np.full((1, 1), np.finfo(np.float64).max))


# -- tuned variances


def test_values_sit_on_ends_that_leave_a_choice():
    value = np.array([1.0, 1.0 + 1e-13, 1.5, 2.0 - 1e-13, 2.0])
    assert tuned._active(value, (1.0, 2.0)).tolist() == [True, True, False, True, True]
    assert not tuned._active(np.array([1.0]), (1.0, 1.0)).any()
    assert not tuned._active(np.array([0.0, 5.0]), (0.0, np.inf)).any()
    assert tuned._active(np.array([1.0 + 1e-11, 1.0]), (1.0, np.inf)).tolist() == [False, True]
    assert tuned._active(np.array([2.0 - 1e-11, 2.0]), (0.0, 2.0)).tolist() == [False, True]


@pytest.mark.parametrize("size", [1.0, 1e139, 1e141, 1e200])
def test_squares_beyond_all_numbers_are_multiplied_by_small_ones(size):
    rng = np.random.default_rng(0)
    cross, weight = rng.normal(size=(3, 4)), rng.uniform(size=(3, 2))
    found = tuned._squares_times(size * cross, weight / size)
    assert close(found / size, (cross**2).T @ weight, 1e-12)


def flat_output(n_free):
    return SimpleNamespace(n_free=n_free, largest=4.0, resolution=1e-3)


@pytest.mark.parametrize(
    ("n_free", "noise", "signal", "expected"),
    [
        (5, (0.0, np.inf), (0.0, np.inf), (np.inf, 0.0, "undetermined")),
        (5, (2.0, 8.0), (0.0, np.inf), (np.inf, 2.0, "pure_noise")),
        (5, (2.0, 8.0), (4.0, 9.0), (np.log(0.5), 2.0, "pure_noise")),
        (5, (0.0, 8.0), (4.0, 9.0), (np.log(1e-3), 4e-3, "pure_noise")),  # what rounding resolves
        (0, (2.0, 8.0), (4.0, 16.0), (np.log(0.5), 8.0, "pure_noise")),  # as likely as all others
        (0, (2.0, np.inf), (4.0, 16.0), (np.log(0.5), 2.0, "undetermined")),
    ],
)
def test_variances_of_outputs_that_do_not_vary(n_free, noise, signal, expected):
    x, noise_var, status = tuned._constant_output(flat_output(n_free), VarianceBounds(noise, signal), None)
    assert (x, noise_var) == pytest.approx(expected[:2])
    assert status == expected[2]


def test_variances_of_outputs_that_do_not_vary_are_the_medians_of_their_priors():
    prior = SimpleNamespace(medians=lambda bounds, default: (3.0, 6.0))
    x, noise_var, status = tuned._constant_output(flat_output(5), VarianceBounds(), prior)
    assert (x, noise_var, status) == (np.log(0.5), 3.0, "fixed")


def test_the_range_of_a_search_ends_at_bounds_and_leaves_room_for_noise():
    rotated = SimpleNamespace(largest=2.0, resolution=1e-10, scale=np.array([3.0, 5.0]))

    def ends(noise, signal):
        x_min, x_max, is_limit = tuned.search_range(rotated, VarianceBounds(noise, signal))
        return np.exp(x_min), np.exp(x_max), is_limit

    free = (0.0, np.inf)
    assert ends(free, free) == (pytest.approx(1e-10), pytest.approx(2e6), (True, True))
    # a thousand times the mean square of the largest output, over the smallest signal variance
    assert ends(free, (1e-4, np.inf)) == (pytest.approx(1e-10), pytest.approx(2.5e8), (True, False))
    assert ends(free, (1.0, np.inf)) == (pytest.approx(1e-10), pytest.approx(2e6), (True, False))
    assert ends((0.0, 4.0), (2.0, 8.0)) == (pytest.approx(1e-10), pytest.approx(2.0), (True, False))
    assert ends((4.0, 4.0), (0.0, 8.0)) == (pytest.approx(0.5), pytest.approx(2e6), (False, True))
    assert ends(free, (1e-320, np.inf))[1] == pytest.approx(1e300)


def test_noise_that_rounding_leaves_is_none():
    rotated = SimpleNamespace(
        rounding=np.array([6.0, 6.0, 6.0, 6.0]),
        n_free=3,
        scale=np.array([1.0, 1.0, 2.0, 1.0]),
        shows_noise=np.array([False, False, False, True]),
    )
    status = np.array(["interior"] * 4, dtype=object)
    # twice 6/3 in the units of each output
    assert tuned._is_rounding(rotated, status, np.array([4.0, 4.1, 16.0, 4.0])).tolist() == [
        True,
        False,
        True,
        False,
    ]
    status[:] = "bound"
    assert not tuned._is_rounding(rotated, status, np.zeros(4)).any()


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


# -- searches without derivatives


def test_a_zoom_finds_minima_of_all_columns():
    centres = np.array([0.123, -0.987, 1.0])
    points = np.linspace(-1.0, 1.0, 9)[:, None] + np.zeros(3)
    x, f = zoom(lambda x: np.abs(x - centres) + 5.0, points, 20)
    assert x == pytest.approx(centres, abs=1e-11)
    assert f == pytest.approx([5.0] * 3, abs=1e-11)
    coarse, _ = zoom(lambda x: (x - centres) ** 2, points, 0)
    assert coarse == pytest.approx([0.0, -1.0, 1.0], abs=0.26)
    looks = []
    zoom(lambda x: looks.append(len(x)) or x, np.linspace(0.0, 1.0, 5)[:, None], 3)
    assert looks == [5, 9, 9, 9]


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
    X, Y = np.zeros((12, 1)), rng.normal(size=(12, 2))  # inputs alike: the targets tell rows apart
    Y[[2, 5], [0, 1]] = np.nan if holes else 0.5
    gram = SimpleNamespace(fingerprint=lambda X: np.full(len(X), 0.25))
    order = Data(X, Y).shuffled(gram)
    assert sorted(order) == list(range(12))
    moved = rng.permutation(12)
    np.testing.assert_array_equal(moved[Data(X, Y[moved]).shuffled(gram)], order)
    # shifts and positive factors of an output are no content
    np.testing.assert_array_equal(Data(X, Y * [1024.0, 0.5]).shuffled(gram), order)
    assert order.tolist() != list(range(12))


def test_what_varies_and_is_present_is_kept():
    Y = np.column_stack([np.arange(4.0), np.full(4, 3.0)])
    data = Data(np.arange(4.0)[:, None], Y, np.array([1.0, 0.0, 1.0, 1.0]), np.ones((4, 1)))
    assert data.of_varying_outputs().Y.tolist() == Y[:, :1].tolist()
    assert Data(data.X, Y[:, 1:], None, np.ones((4, 1))).of_varying_outputs() is None
    assert data.of_present_rows().Y.tolist() == Y[[0, 2, 3]].tolist()
    weighted = Y - np.average(Y, axis=0, weights=data.weight)
    assert close(data.detrended(), weighted, 1e-12)
    assert Data(data.X, Y).detrended() is Y
