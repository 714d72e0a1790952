"""The global search: on functions with known minima, and through the criteria it serves."""

import pickle

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from problems import smooth
from scipy.optimize import brentq, minimize
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skspectral import SpectralGPRegressor, Spectrum
from skspectral.criteria import CRITERIA, profile
from skspectral.inference.solution import Solution, solve, solve_fixed
from skspectral.inference.tuned import (
    _objective,
    _tune_varying,
    criterion_curve,
    look_for_ratio,
    ratio_range,
    search_range,
    tune,
)
from skspectral.inference.tuning import _refine, look_at_each, minimize_each
from skspectral.inference.variances import VarianceBounds

NAMES = sorted(CRITERIA)
BOUNDED = [name for name in NAMES if not CRITERIA[name].is_unbounded]
runs_to_its_bound = pytest.mark.filterwarnings("ignore::skspectral.DegenerateCriterionWarning")


# -- on functions with known minima


def objective_of(*functions):
    """Return the objective of functions x -> (f, f1, f2), one per output."""

    def objective(x, outputs):
        x = np.broadcast_to(x, (len(x), len(outputs)))
        columns = [functions[j](x[:, i]) for i, j in enumerate(outputs)]
        return tuple(np.stack(parts, axis=1) for parts in zip(*columns, strict=True))

    return objective


def well(centre, depth=1.0, width=1.0):
    """A Gaussian well: flat at 0 far away, so that every place is possible."""

    def function(x):
        z = (x - centre) / width
        f = -depth * np.exp(-0.5 * z**2)
        return f, -z * f / width, (z**2 - 1) * f / width**2

    return function


def added(*functions):
    return lambda x: tuple(np.sum(parts, axis=0) for parts in zip(*(f(x) for f in functions), strict=True))


def with_slope_roots(*roots):
    """A polynomial whose derivative has the given roots and a positive leading coefficient."""
    f = Polynomial.fromroots(roots).integ()
    return lambda x: (f(x), f.deriv()(x), f.deriv(2)(x))


def waves(seed):
    """A sum of waves no narrower than a few cells of the grid."""
    rng = np.random.default_rng(seed)
    k, a, phase = rng.uniform(0.2, 3, 6)[:, None], rng.normal(size=(6, 1)), rng.uniform(0, 6, (6, 1))

    def function(x):
        angle = k * x + phase
        terms = a * np.cos(angle), -a * k * np.sin(angle), -a * k**2 * np.cos(angle)
        return tuple(t.sum(axis=0) for t in terms)

    return function


def search(*functions, x_min=-5.0, x_max=5.0, upper=1e3, tie=0.0):
    return minimize_each(objective_of(*functions), len(functions), x_min, x_max, upper=upper, tie=tie)


def test_the_deepest_of_several_minima_is_found():
    found = search(added(well(-3, 1.0), well(0, 1.2), well(3, 1.1)), added(well(-3, 1.3), well(3, 1.1)))
    assert list(found.place) == ["interior", "interior"]
    assert np.allclose(found.x, [0, -3], atol=0.1)
    assert (found.f <= [-1.2, -1.3]).all()


@pytest.mark.parametrize(
    ("roots", "minimum"), [((0.27, 0.45, 0.55), 0.27), ((0.1, 0.27, 0.48), 0.48)], ids=["falling", "rising"]
)
def test_a_minimum_and_a_maximum_hidden_between_two_grid_points_are_seen(roots, minimum):
    function = with_slope_roots(*roots)
    ends = function(np.array([0.25, 0.5]))[1]
    assert ends[0] * ends[1] > 0  # on the grid 0, 0.25, ... no sign changes in the cell of the minimum
    found = search(function, x_min=0.0, x_max=1.0, upper=1.0)
    assert found.place[0] == "interior"
    assert found.x[0] == pytest.approx(minimum, abs=1e-10)


@pytest.mark.parametrize(("slope", "place", "x"), [(1.0, "lower", -5.0), (-1.0, "upper", 1e3)])
def test_a_monotone_function_ends_at_an_end(slope, place, x):
    found = search(lambda t: (slope * t, np.full_like(t, slope), np.zeros_like(t)))
    assert (found.place[0], found.x[0], found.f[0]) == (place, x, slope * x)


def test_the_upper_limit_wins_ties_and_only_ties():
    flat, shallow = well(0, 0.0), well(0, 1e-9)
    assert list(search(flat, shallow).place) == ["upper", "interior"]
    assert list(search(flat, shallow, tie=1e-8).place) == ["upper", "upper"]
    assert list(search(flat, shallow, tie=1e-10).place) == ["upper", "interior"]


@given(st.integers(0, 10**6))
def test_no_grid_point_is_better_and_an_interior_minimum_is_stationary(seed):
    function = waves(seed)
    found = search(function, upper=5.0)
    grid = np.linspace(-5, 5, 20001)
    assert found.f[0] <= function(grid)[0].min() + 1e-12  # rounding of a sum of six
    if found.place[0] == "interior":
        _, f1, f2 = (v[0] for v in function(found.x))
        assert f2 >= 0
        assert abs(f1) <= 1e-9 * max(1.0, f2)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=6))
def test_many_functions_together_are_what_each_is_alone(seeds):
    functions = [waves(seed) for seed in seeds]
    together = search(*functions, upper=5.0)
    for j, function in enumerate(functions):
        alone = search(function, upper=5.0)
        assert together.place[j] == alone.place[0]
        assert together.x[j] == pytest.approx(alone.x[0], abs=2e-10)  # each within 1e-10 of the root
        assert together.f[j] == pytest.approx(alone.f[0], abs=1e-12)


# -- through the criteria


def rotated_problem(seed, kernel="rbf", intercept=True, noise=0.3, m=2, n=25):
    X, Y = smooth(seed, n=n, m=m, noise=noise)
    basis = np.ones((n, 1)) if intercept else None
    if kernel == "linear":
        return Spectrum.from_factor(X, basis).rotate(Y)
    K = reference.rbf(X) if kernel == "rbf" else reference.matern12(X)
    return Spectrum.from_gram(K, basis).rotate(Y)


def test_what_tuning_keeps_is_no_part_of_what_is_written_or_passed_on():
    tuned = tune(rotated_problem(0), CRITERIA["evidence"])
    known = tuned.log_evidence
    again = pickle.loads(pickle.dumps(tuned))
    assert "_evidence_terms" in vars(tuned)
    assert "_evidence_terms" not in vars(again)
    assert again.log_evidence == pytest.approx(known)
    assert Solution.of(tuned).log_evidence == pytest.approx(known)


@pytest.mark.parametrize("name", ["evidence", "posterior", "gcv"])
def test_the_objective_of_a_tuned_model_is_the_sum_of_what_was_minimised(name):
    criterion, rotated = CRITERIA[name], rotated_problem(1, kernel="matern", noise=1.0)
    tuned = tune(rotated, criterion)
    each = [criterion(rotated.select([j]), np.log([[g]])) for j, g in enumerate(tuned.noise_ratio)]
    expected = sum(float(profile(terms, None).f[0, 0]) for terms in each)
    assert tuned.objective(criterion) == pytest.approx(expected)


def ratios(rotated, k=2000):
    return np.geomspace(*ratio_range(rotated), k)


@pytest.mark.slow
@runs_to_its_bound
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    kernel=st.sampled_from(["rbf", "matern12", "linear"]),
    intercept=st.booleans(),
    noise=st.sampled_from([0.0, 1e-6, 0.3, 100.0]),
)
def test_tuning_is_never_worse_than_a_grid_of_2000_points(name, seed, kernel, intercept, noise):
    rotated = rotated_problem(seed, kernel, intercept, noise)
    solution = solve(rotated, CRITERIA[name])
    values = np.array([t.value for t in solution.tuning])
    best = criterion_curve(rotated, CRITERIA[name], ratios(rotated)).max(axis=0)
    # rounding, relative for a mean squared error, which may be 1e-30
    slack = 1e-10 * (np.abs(best) + CRITERIA[name].is_density)
    assert (values >= best - slack).all()


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("kernel", ["rbf", "matern12", "linear"])
def test_an_interior_optimum_is_a_root_of_the_derivative_to_1e_10(name, kernel):
    rotated = rotated_problem(3, kernel, m=1, n=60)
    criterion = CRITERIA[name]

    def slope(x):
        return profile(criterion(rotated, np.array([[x]])), np.array([[x]])).f1[0, 0]

    solution = solve(rotated, criterion)
    x = np.log(solution.noise_ratio[0])
    assert solution.tuning[0].status == "interior"
    assert slope(x - 0.01) < 0 < slope(x + 0.01)
    assert abs(x - brentq(slope, x - 0.01, x + 0.01, xtol=1e-14)) <= 1.01e-10
    assert abs(slope(x)) < 1e-8  # 1e-10 in x times a curvature of at most n


def test_the_status_names_where_the_optimum_lies():
    """Noise, smooth values and values along the roughest eigenvector, all outputs of one fit."""
    X = np.linspace(-3, 3, 50)[:, None]
    spectrum = Spectrum.from_gram(reference.matern12(X), np.ones((50, 1)))
    rng = np.random.default_rng(0)
    Y = np.column_stack(
        [np.sin(X) + 0.2 * rng.normal(size=(50, 1)), np.sin(X), spectrum.U[:, 0], np.ones(50)]
    )
    for name in BOUNDED:
        statuses = [t.status for t in solve(spectrum.rotate(Y), CRITERIA[name]).tuning]
        assert statuses == ["interior", "noise_free", "pure_noise", "undetermined"], name


def test_limits_carry_their_variances():
    X = np.linspace(-3, 3, 50)[:, None]
    spectrum = Spectrum.from_gram(reference.matern12(X))
    rotated = spectrum.rotate(np.column_stack([np.sin(X[:, 0]), spectrum.U[:, 0]]))
    smooth_one, rough = (solve(rotated.select([j]), CRITERIA["evidence"]) for j in (0, 1))
    assert smooth_one.noise_ratio[0] == pytest.approx(ratio_range(rotated)[0], rel=1e-6, abs=0.0)
    assert (rough.noise_ratio[0], rough.signal_var[0]) == (np.inf, 0.0)
    assert rough.noise_var[0] == pytest.approx(1 / 50)  # the mean square of a unit vector
    assert not rough.range_dual.any()


def test_given_ratios_are_not_tuned():
    rotated = rotated_problem(1)
    solution = solve_fixed(rotated, CRITERIA["evidence"], [0.1, 7.0])
    assert [t.status for t in solution.tuning] == ["fixed", "fixed"]
    assert np.allclose(solution.noise_ratio, [0.1, 7.0])


@pytest.mark.parametrize("name", NAMES)
@runs_to_its_bound
def test_outputs_are_tuned_together_as_alone(name):
    rotated = rotated_problem(5, m=6)
    together = solve(rotated, CRITERIA[name])
    for j in range(6):
        alone = solve(rotated.select([j]), CRITERIA[name])
        assert together.tuning[j].status == alone.tuning[0].status
        assert together.noise_ratio[j] == pytest.approx(alone.noise_ratio[0], rel=1e-9, abs=0.0)
        assert together.noise_var[j] == pytest.approx(alone.noise_var[0], rel=1e-9, abs=0.0)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_shared_ratio_minimises_the_sum_of_the_criteria(name):
    """Of log densities, or of logarithms of mean squared errors."""
    criterion = CRITERIA[name]
    rotated = rotated_problem(2, m=4)
    solution = solve(rotated, criterion, shared=True)
    assert len(set(solution.noise_ratio)) == 1
    grid = np.append(ratios(rotated), solution.noise_ratio[0])
    curve = criterion_curve(rotated, criterion, grid)
    total = (curve if criterion.is_density else -np.log(-curve)).sum(axis=1)
    assert total[-1] >= total.max() - 1e-10 * abs(total.max())
    own = solve(rotated, criterion)
    assert len(set(own.noise_ratio)) == 4


# -- bounds on the variances

BOXES = {
    "noise only": VarianceBounds(noise=(0.5, 0.7)),
    "signal only": VarianceBounds(signal=(0.02, 0.03)),
    "both": VarianceBounds(noise=(1e-3, 0.02), signal=(0.1, 0.2)),
    "noise fixed": VarianceBounds(noise=(0.3, 0.3)),
    "signal fixed": VarianceBounds(signal=(0.5, 0.5), noise=(1e-3, 10.0)),
    "large signal": VarianceBounds(noise=(1e-3, 1e3), signal=(20.0, 50.0)),
    "one upper": VarianceBounds(noise=(0.0, 0.01)),
    "wide": VarianceBounds(noise=(1e-3, 1e3), signal=(1e-3, 1e3)),
}


def best_in_box(K, y, bounds):
    """Return the best log evidence in a box by a grid and a local search from its best point."""
    limits = np.clip(np.array([bounds.noise, bounds.signal], dtype=float), 1e-3, 1e3)
    axes = [np.geomspace(low, high, 18) for low, high in limits]
    grid = [(reference.log_evidence(K, y, b, l), b, l) for b in axes[0] for l in axes[1]]
    value, *start = max(grid)
    local = minimize(
        lambda z: -reference.log_evidence(K, y, *np.exp(z)),
        np.log(start),
        bounds=np.log(limits),
        method="L-BFGS-B",
    )
    return max(value, -local.fun)


def inside(value, interval):
    slack = 1e-12 * value  # a product and a quotient of the bound
    return interval[0] - slack <= value <= interval[1] + slack


@pytest.mark.slow
@pytest.mark.parametrize("bounds", BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_in_a_box_is_never_worse_than_a_search_over_both_variances(seed, bounds):
    X, y = smooth(seed, n=12)
    K = reference.rbf(X)
    solution = solve(Spectrum.from_gram(K).rotate(y[:, None]), CRITERIA["evidence"], bounds)
    b, l = solution.noise_var[0], solution.signal_var[0]
    assert inside(b, bounds.noise)
    assert inside(l, bounds.signal)
    assert solution.log_evidence[0] == pytest.approx(reference.log_evidence(K, y, b, l), rel=1e-8)
    assert solution.log_evidence[0] >= best_in_box(K, y, bounds) - 1e-8


def test_bounds_that_do_not_bind_change_nothing_and_those_that_do_are_reported():
    rotated = rotated_problem(0, m=1)
    free = solve(rotated, CRITERIA["evidence"])
    b, l = free.noise_var[0], free.signal_var[0]

    def bounded(noise, signal):
        return solve(rotated, CRITERIA["evidence"], VarianceBounds(noise=noise, signal=signal))

    loose = bounded((b / 10, b * 10), (l / 10, l * 10))
    assert loose.tuning[0].status == free.tuning[0].status == "interior"
    assert loose.noise_ratio[0] == pytest.approx(free.noise_ratio[0], rel=3e-10)
    for noise, signal in (
        ((2 * b, 9 * b), (0, np.inf)),
        ((0, np.inf), (l / 9, l / 2)),
        ((0, b / 2), (0, l / 2)),
    ):
        tight = bounded(noise, signal)
        assert tight.tuning[0].status == "bound"
        assert tight.log_evidence[0] < free.log_evidence[0]
    fixed = bounded((2 * b, 2 * b), (l, l))
    assert fixed.tuning[0].status == "fixed"
    assert (fixed.noise_var[0], fixed.signal_var[0]) == pytest.approx((2 * b, l), rel=1e-12)


@runs_to_its_bound
@pytest.mark.parametrize("bounds", BOXES.values(), ids=BOXES)
@pytest.mark.parametrize("name", NAMES)
def test_every_criterion_keeps_to_the_box(name, bounds):
    solution = solve(rotated_problem(4, m=3), CRITERIA[name], bounds)
    for b, l in zip(solution.noise_var, solution.signal_var, strict=True):
        assert inside(b, bounds.noise)
        assert inside(l, bounds.signal)


def test_a_curvature_of_next_to_nothing_leaks_no_warning():
    """A line whose slope changes its sign at 0.3: Newton's steps there are beyond all numbers."""

    def bend(x):
        return np.abs(x - 0.3), np.where(x < 0.3, -1.0, 1.0), np.full_like(x, 1e-320)

    found = search(bend)
    assert found.x[0] == pytest.approx(0.3, abs=1e-9)
    look = look_at_each(objective_of(bend), 1, -5.0, 5.0, upper=1e3)
    assert look[0] == pytest.approx(0.3, abs=0.25)


@pytest.mark.parametrize("flat", [1e-7, 1e-3])
@pytest.mark.parametrize("root", [0.02, 0.1, 0.23])
def test_a_minimum_at_a_kink_of_the_slope_is_found_in_few_evaluations(flat, root):
    """Steep on one side, nearly flat on the other, as at a bound of the noise variance."""

    def objective(x, outputs):
        steep = 100.0 * (1.0 - np.exp(root - x))
        is_steep = steep < flat
        return -x, np.where(is_steep, steep, flat), np.where(is_steep, 100.0 - steep, flat)

    x, _, n_steps = _refine(
        objective, np.zeros(1, dtype=int), np.zeros(1), np.full(1, 0.25), np.full(1, 0.125)
    )
    assert x[0] == pytest.approx(root, abs=1e-9)
    assert n_steps <= 12


def test_a_look_finds_nearly_the_noise_ratio_of_tuning():
    rotated = rotated_problem(4)
    for bounds in (VarianceBounds(), VarianceBounds((0.5, 2.0), (1e-5, 1e5))):
        ratio = look_for_ratio(rotated, CRITERIA["evidence"], bounds)
        tuned = solve(rotated, CRITERIA["evidence"], bounds)
        assert np.abs(np.log(ratio / tuned.noise_ratio)).max() < 0.05


def test_evaluations_are_counted():
    """A grid of 21 points, the point beyond it, and the refinement of the one bracket."""
    points = []

    def objective(x, outputs):
        points.append(len(x))
        shape = np.broadcast_shapes(x.shape, (1, len(outputs)))
        value = np.where(np.isinf(x), 1e6, (np.where(np.isinf(x), 0.0, x) - 0.1234) ** 2)
        slope = np.where(np.isinf(x), 0.0, 2 * (np.where(np.isinf(x), 0.0, x) - 0.1234))
        return tuple(np.broadcast_to(v, shape) for v in (value, slope, np.full_like(value, 2.0)))

    found = minimize_each(objective, 1, -2.5, 2.5)
    assert points[0] == 21 + 1
    assert found.n_evaluations[0] == sum(points)
    assert len(points) <= 3  # Newton's first step ends at the root of a line, and the second stays
    assert found.x[0] == pytest.approx(0.1234, abs=1e-9)


FAR = {  # bounds whose ratios are far beyond all eigenvalues; the best of them may be, too
    "wide": ((0.0, np.inf), (1e-300, 1e300)),
    "no signal": ((0.0, np.inf), (1e-200, 1e-190)),
    "little noise": ((1e-100, 1e-90), (1e-200, 1e-190)),
    "one noise": ((1e100, 1e100), (1e-100, 1e100)),
    "too little of both": ((1e-180, 1e-90), (1e-210, 1e-200)),
}


@runs_to_its_bound
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bounds", [VarianceBounds(*pair) for pair in FAR.values()], ids=FAR)
def test_few_points_are_enough_beyond_all_eigenvalues(name, bounds):
    rotated, criterion = rotated_problem(4, m=3), CRITERIA[name]
    found = _tune_varying(rotated, criterion, bounds, False, None)
    x_min, x_max, _ = search_range(rotated, bounds)
    objective = _objective(rotated, criterion, bounds.box(rotated.scale), None)
    everyone = np.arange(3)
    best = objective(np.linspace(x_min, x_max, 40000)[:, None], everyone)[0].min(axis=0)
    reached = objective(found[0][None], everyone)[0][0]
    assert (reached <= best + 1e-9 * (1.0 + np.abs(best))).all()  # rounding: values are up to 1e10
    assert found[3].max() < 500  # a range of up to 1e310, which steps of 0.25 would see 2900 times


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
def test_a_signal_variance_on_its_bound_is_told_where_the_noise_has_its_best_value():
    X = np.linspace(0.0, 6.0, 40)[:, None]
    y = 100.0 * np.sin(X[:, 0]) + np.random.default_rng(0).normal(size=40)
    gp = SpectralGPRegressor(
        ConstantKernel(1.0, (1e-5, 10.0)) * RBF(1.0, "fixed") + WhiteKernel(), fit_intercept=False
    ).fit(X, y)
    assert gp.signal_variance_ == pytest.approx(10.0)
    assert gp.tuning_[0].status == "bound"
