"""Every criterion against its dense definition, and its derivatives against differences."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from skspectral import Spectrum
from skspectral.criteria import CRITERIA, Box, profile, profile_at_one
from skspectral.criteria.evidence import (
    evidence_gradient,
    evidence_hessian,
    evidence_log_hessian,
    neg_two_log_evidence,
)
from skspectral.criteria.form import Terms
from skspectral.criteria.lower_bound import certain_evidence
from skspectral.criteria.posterior import posterior_gradient, posterior_hessian, posterior_score

NAMES = sorted(CRITERIA)


def make(seed, *, n=14, intercept=True, weighted=False, kernel="rbf", m=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    F = np.ones((n, 1)) if intercept else None
    weight = rng.uniform(0.1, 1, n) if weighted else None  # below 1: precisions
    Y = 3.0 * rng.normal(size=(n, m)) + 1.0
    K = X @ X.T if kernel == "linear" else reference.rbf(X)
    spectrum = Spectrum.from_factor(X, F, weight) if kernel == "linear" else Spectrum.from_gram(K, F, weight)
    return K, Y, F, weight, spectrum.rotate(Y)


def public(name, rotated, x):
    criterion = CRITERIA[name]
    terms = criterion(rotated, x)
    return criterion.score(rotated, terms.n, profile(terms, x).f)


@given(st.integers(0, 10**6), st.booleans(), st.booleans(), st.sampled_from(["rbf", "linear"]))
def test_evidence_is_the_textbook_one_at_the_profiled_variances(seed, intercept, weighted, kernel):
    K, Y, F, weight, rotated = make(seed, intercept=intercept, weighted=weighted, kernel=kernel)
    x = np.array([[-3.0], [0.0], [2.5]])
    values = public("evidence", rotated, x)
    noise = profile(CRITERIA["evidence"](rotated, x), x).noise_var * rotated.scale**2
    for k, g in enumerate(np.exp(x[:, 0])):
        for j, y in enumerate(Y.T):
            b, l = noise[k, j], noise[k, j] / g
            if intercept:
                expected = reference.reml(K, y, F, b, l, weight)
            else:
                expected = reference.log_evidence(K, y, b, l, weight)
            assert values[k, j] == pytest.approx(expected, rel=1e-8)


@given(st.integers(0, 10**6), st.sampled_from(["rbf", "linear"]))
def test_posterior_is_equation_15_at_the_profiled_variances(seed, kernel):
    K, Y, _, _, rotated = make(seed, intercept=False, kernel=kernel)
    x = np.array([[-2.0], [1.0]])
    values = public("posterior", rotated, x)
    noise = profile(CRITERIA["posterior"](rotated, x), x).noise_var * rotated.scale**2
    for k, g in enumerate(np.exp(x[:, 0])):
        for j, y in enumerate(Y.T):
            L = reference.posterior_predictive(K, y, noise[k, j], noise[k, j] / g)
            assert values[k, j] == pytest.approx(-0.5 * (L + len(y) * np.log(2 * np.pi)), rel=1e-8)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("intercept", [True, False])
def test_gcv_against_the_smoother_matrix(intercept, kernel):
    K, Y, F, _, rotated = make(1, intercept=intercept, kernel=kernel)
    for g in (0.05, 1.0, 20.0):
        value = public("gcv", rotated, np.array([[np.log(g)]]))[0]
        for j, y in enumerate(Y.T):
            assert -value[j] == pytest.approx(reference.gcv(K, y, g, F), rel=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_leave_one_out_criteria_against_refits(intercept, weighted, kernel):
    K, Y, F, weight, rotated = make(2, intercept=intercept, weighted=weighted, kernel=kernel)
    w = np.ones(len(Y)) if weight is None else weight
    for g in (0.1, 2.0):
        x = np.array([[np.log(g)]])
        press = public("loo", rotated, x)[0]
        density = public("loo_lpd", rotated, x)[0]
        noise = profile(CRITERIA["loo_lpd"](rotated, x), x).noise_var[0] * rotated.scale**2
        for j, y in enumerate(Y.T):
            mean, variance = reference.leave_one_out(K, y, noise[j], noise[j] / g, F, weight)
            assert -press[j] == pytest.approx(np.average((y - mean) ** 2, weights=w), rel=1e-8)
            expected = -0.5 * np.sum(np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)
            assert density[j] == pytest.approx(expected, rel=1e-8)


@given(st.sampled_from(NAMES), st.integers(0, 10**6), st.booleans(), st.sampled_from(["rbf", "linear"]))
def test_derivatives_in_x_are_central_differences(name, seed, weighted, kernel):
    *_, rotated = make(seed, weighted=weighted, kernel=kernel)
    x, h = np.array([[-2.0], [0.3], [3.0]]), 1e-4

    def at(shift):
        return profile(CRITERIA[name](rotated, x + shift), x + shift)

    here, ahead, behind = at(0.0), at(h), at(-h)
    scale = 1.0 + np.abs(here.f1)
    assert np.allclose(here.f1, (ahead.f - behind.f) / (2 * h), rtol=0, atol=1e-6 * scale)
    assert np.allclose(here.f2, (ahead.f1 - behind.f1) / (2 * h), rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("name", NAMES)
def test_a_grid_for_all_outputs_equals_points_of_each_outputs_own(name):
    *_, rotated = make(5, m=3)
    grid = np.linspace(-4, 4, 5)[:, None]
    shared = profile(CRITERIA[name](rotated, grid), grid)
    own_x = np.repeat(grid, 3, axis=1)
    own = profile(CRITERIA[name](rotated, own_x), own_x)
    for field in ("f", "f1", "f2", "noise_var"):
        if name != "posterior" or field != "noise_var":
            assert np.allclose(getattr(shared, field), getattr(own, field), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_in_blocks_changes_nothing(name, monkeypatch):
    *_, rotated = make(6, m=2)
    grid = np.linspace(-4, 4, 11)[:, None]
    whole = CRITERIA[name](rotated, grid)
    monkeypatch.setattr("skspectral.criteria.form._BLOCK_ENTRIES", 40)
    blocks = CRITERIA[name](rotated, grid)
    assert np.allclose(whole.A2, blocks.A2, rtol=1e-12)
    assert np.allclose(whole.H, blocks.H, rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_pure_noise_limit_is_an_ordinary_evaluation(name):
    *_, rotated = make(7)
    far, limit = (profile(CRITERIA[name](rotated, np.array([[x]])), np.array([[x]])) for x in (30.0, np.inf))
    assert np.allclose(far.f, limit.f, atol=1e-9)
    assert not limit.f1.any()


@given(st.integers(0, 10**6), st.floats(-3, 1), st.floats(-2, 2))
def test_variance_form_of_the_evidence(seed, log_noise, log_signal):
    K, Y, _, _, rotated = make(seed, intercept=False)
    b, l = 10**log_noise, 10**log_signal
    value = neg_two_log_evidence(rotated, b, l)[0]
    for j, y in enumerate(Y.T):
        assert value[j] == pytest.approx(-2 * reference.log_evidence(K, y, b, l), rel=1e-8)
    check_derivatives(rotated, b, l, neg_two_log_evidence, evidence_gradient, evidence_hessian)


def test_curvature_by_logarithms_follows_from_that_by_variances():
    *_, rotated = make(8, m=2)
    v = np.array([0.3, 0.8])  # far from where the slope vanishes
    first, second = evidence_gradient(rotated, *v)[0], evidence_hessian(rotated, *v)[0]
    expected = [v[:, None] * H * v + np.diag(v * slope) for H, slope in zip(second, first, strict=True)]
    assert np.allclose(evidence_log_hessian(rotated, *v), expected, rtol=1e-10)
    one = rotated.select([1])
    assert np.allclose(evidence_log_hessian(one, *v), expected[1:], rtol=1e-10)


@given(st.integers(0, 10**6), st.floats(-3, 1), st.floats(-2, 2))
def test_propositions_2_1_to_2_3_as_printed(seed, log_noise, log_signal):
    *_, rotated = make(seed, intercept=False, m=1)
    b, l = 10**log_noise, 10**log_signal
    printed = reference.posterior_printed(rotated.s[:-1], rotated.y_tilde[:, 0] * rotated.scale[0], b, l)
    assert posterior_score(rotated, b, l)[0, 0] == pytest.approx(printed[0], rel=1e-7)
    assert np.allclose(posterior_gradient(rotated, b, l)[0, 0], printed[1], rtol=1e-6)
    assert np.allclose(posterior_hessian(rotated, b, l)[0, 0], printed[2], rtol=1e-5)
    check_derivatives(rotated, b, l, posterior_score, posterior_gradient, posterior_hessian)


def test_the_stable_form_survives_where_the_printed_one_cancels():
    *_, rotated = make(0, intercept=False, m=1)
    s, y_tilde, b = rotated.s[:-1], rotated.y_tilde[:, 0] * rotated.scale[0], 1e-13
    exact = float(
        sum(
            np.log(np.longdouble(b))
            + np.log((2 * np.longdouble(a) + b) / (np.longdouble(a) + b))
            + np.longdouble(y) ** 2 * b / ((np.longdouble(a) + b) * (2 * np.longdouble(a) + b))
            for a, y in zip(s, y_tilde, strict=True)
        )
    )
    assert posterior_score(rotated, b, 1.0)[0, 0] == pytest.approx(exact, rel=1e-13)
    assert abs(reference.posterior_printed(s, y_tilde, b, 1.0)[0] - exact) > 1e-3


def check_derivatives(rotated, b, l, value, gradient, hessian):
    h = 1e-5
    here, curvature = gradient(rotated, b, l)[0], hessian(rotated, b, l)[0]
    for axis, (db, dl) in enumerate(((h * b, 0.0), (0.0, h * l))):
        step = 2 * (db + dl)
        slope = (value(rotated, b + db, l + dl) - value(rotated, b - db, l - dl))[0] / step
        assert np.allclose(here[:, axis] * step, slope * step, rtol=1e-5, atol=1e-8)
        bend = (gradient(rotated, b + db, l + dl) - gradient(rotated, b - db, l - dl))[0] / step
        size = np.abs(here).max()
        assert np.allclose(curvature[:, axis] * step, bend * step, rtol=1e-5, atol=1e-8 * size)


def test_trial_values_come_in_batches():
    *_, rotated = make(3)
    b, l = np.array([0.1, 1.0, 2.0]), np.array([3.0, 0.5, 1.0])
    for function in (
        neg_two_log_evidence,
        evidence_gradient,
        evidence_hessian,
        posterior_score,
        posterior_gradient,
        posterior_hessian,
    ):
        batch = function(rotated, b, l)
        assert batch.shape[:2] == (3, 2)
        for k in range(3):
            assert np.allclose(batch[k], function(rotated, b[k], l[k])[0], rtol=1e-12)


def test_evidence_updates_of_cawley_and_talbot_rest_at_the_optimum():
    """gamma/(2 E_W) and (n-gamma)/(2 E_D) are the precisions at the optimum of the evidence."""
    from skspectral.inference.solution import solve

    rng = np.random.default_rng(4)
    X = rng.uniform(-3, 3, (60, 1))
    K, y = reference.rbf(X), np.sin(X) + 0.2 * rng.normal(size=(60, 1))
    solution = solve(Spectrum.from_gram(K).rotate(y), CRITERIA["evidence"])
    c = solution.dual[:, 0]
    gamma = solution.effective_dof[0]
    assert solution.signal_var[0] == pytest.approx(c @ K @ c / gamma, rel=1e-7)
    assert solution.noise_var[0] == pytest.approx(np.sum((y[:, 0] - K @ c) ** 2) / (60 - gamma), rel=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_common_factor_of_the_weights_is_a_factor_of_the_noise(name, intercept):
    rng = np.random.default_rng(9)
    X, Y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    K, ones, w, c = reference.rbf(X), np.ones((12, 1)) if intercept else None, rng.uniform(0.2, 3, 12), 37.0
    plain, scaled = (Spectrum.from_gram(K, ones, factor * w).rotate(Y) for factor in (1.0, c))
    x = np.array([[-3.0], [-0.5], [2.0]])
    # the restricted densities hold 1/2 log|F'WF|
    constant = 0.5 * np.log(c) if intercept and name in ("evidence", "posterior") else 0.0
    assert np.allclose(public(name, scaled, x + np.log(c)), public(name, plain, x) + constant, rtol=1e-9)


@pytest.mark.parametrize("weights", ["none", "precision", "with a zero"])
@pytest.mark.parametrize("name", NAMES)
def test_sensitivity_to_the_kernel_matrix_is_a_directional_difference(name, weights):
    rng = np.random.default_rng(11)
    X, Y = rng.normal(size=(10, 2)), rng.normal(size=(10, 2))
    weight = {
        "none": None,
        "precision": rng.uniform(0.2, 1, 10),
        "with a zero": np.append(rng.uniform(0, 3, 9), 0.0),
    }[weights]
    K, F = reference.matern12(X), np.ones((10, 1))
    direction = rng.normal(size=(10, 10))
    direction += direction.T
    x, criterion = np.array([-1.0, 0.7]), CRITERIA[name]

    def value(step):
        rotated = Spectrum.from_gram(K + step * direction, F, weight).rotate(Y)
        return rotated, profile(criterion(rotated, x[None]), x[None])

    h = 1e-5
    rotated, here = value(0.0)
    G = criterion.sensitivity(rotated, x, here.noise_var[0])
    root = rotated.rows.sqrt_weight
    expected = (value(h)[1].f.sum() - value(-h)[1].f.sum()) / (2 * h)
    assert np.sum(root * G * root.T * direction) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("entries", [1, 100, 10**6])
def test_a_surface_of_many_blocks_is_in_its_order(entries, monkeypatch):
    """Against one evaluation at a time: blocks of one pair, of some, and all in one."""
    monkeypatch.setattr("skspectral.criteria.form._CACHED_ENTRIES", entries)
    K, Y, F, _, rotated = make(7, m=2)
    rng = np.random.default_rng(3)
    noise, signal = np.exp(rng.normal(size=(2, 57)))
    surface = -0.5 * neg_two_log_evidence(rotated, noise, signal)
    for k in (0, 1, 28, 56):
        for j, y in enumerate(Y.T):
            assert surface[k, j] == pytest.approx(reference.reml(K, y, F, noise[k], signal[k]), rel=1e-8)
    for function in (
        evidence_gradient,
        evidence_hessian,
        posterior_score,
        posterior_gradient,
        posterior_hessian,
    ):
        alone = np.concatenate([function(rotated, noise[[k]], signal[[k]]) for k in range(57)])
        assert np.allclose(function(rotated, noise, signal), alone, rtol=1e-10)


@pytest.mark.parametrize("g", [1e-8, 0.3, 50.0])
@pytest.mark.parametrize("A", [1e-3, 0.7, 400.0])
@pytest.mark.parametrize(
    "bounds", [None, (0.0, np.inf, 0.0, np.inf), (1e-9, 0.5, 0.0, 1e3), (0.0, 100.0, 0.4, 1e9)]
)
def test_the_profile_at_one_point_is_that_of_arrays(g, A, bounds):
    n, A1, H, H1 = 17, 0.4 * A, 3.1, -2.2
    terms = Terms(n, *(np.full((1, 1), value) for value in (A, A1, 0.0, H, H1, 0.0)))
    box = None if bounds is None else Box(*(np.array([bound]) for bound in bounds))
    expected = profile(terms, np.full((1, 1), np.log(g)), box)
    f, f1, b, held_by = profile_at_one(n, A, A1, H, H1, g, box)
    assert f == pytest.approx(expected.f[0, 0], rel=1e-12)
    assert f1 == pytest.approx(expected.f1[0, 0], rel=1e-12)
    assert b == pytest.approx(expected.noise_var[0, 0], rel=1e-12)
    # the bound that a variance sits on, if it is not the best one
    held = {"noise_min": b, "noise_max": b, "signal_min": b / g, "signal_max": b / g}
    assert (held_by is None) == (b == pytest.approx(A / n, rel=1e-12))
    if held_by is not None:
        assert held[held_by] == pytest.approx(getattr(box, held_by)[0], rel=1e-12)
        # on that face of the box it stays there, whatever the targets want
        on_face = profile_at_one(n, A, A1, H, H1, g, box.face(held_by))
        assert on_face[:3] == pytest.approx((f, f1, b), rel=1e-12)
        other = profile_at_one(n, 3.0 * A, A1, H, H1, 2.0 * g, box.face(held_by))[2]
        assert other == pytest.approx(b if held_by.startswith("noise") else 2.0 * b, rel=1e-12)


def test_a_box_without_a_face_holds_nothing():
    box = Box(*(np.array([bound]) for bound in (0.1, 0.2, 0.3, 0.4)))
    assert profile_at_one(7, 70.0, 1.0, 0.0, 0.0, 0.5, box.face(None))[2:] == (10.0, None)


def test_the_profile_at_one_point_is_infinite_where_nothing_is_left():
    assert profile_at_one(17, 0.0, 0.0, 1.0, 1.0, 0.5)[0] == np.inf


@pytest.mark.filterwarnings("error")
def test_a_misfit_beyond_all_numbers_is_infinite():
    """A bound of the noise that is next to nothing beside the targets."""
    values = (np.full((1, 1), value) for value in (1e10, 1e9, 1e8, 2.0, 0.0, 0.0))
    bound = np.full(1, 1e-300)
    limits = Box(np.zeros(1), bound, np.zeros(1), np.full(1, np.inf))
    at_bound = profile(Terms(5.0, *values), np.zeros((1, 1)), limits)
    assert at_bound.noise_var == bound
    assert at_bound.f == np.inf


@pytest.mark.filterwarnings("error")
def test_a_bound_times_a_noise_ratio_may_be_beyond_all_numbers():
    limits = Box(np.zeros(1), np.full(1, np.inf), np.zeros(1), np.full(1, 1e300))
    assert profile_at_one(5, 2.0, 1.0, 0.0, 0.0, 1e200, limits)[2] == pytest.approx(0.4)


@pytest.mark.parametrize("n_rows", [2, 14])
@pytest.mark.parametrize("tau", [0.0, 0.3, 50.0])
def test_the_evidence_that_a_factor_is_certain_of(tau, n_rows):
    """H rises by n log(1 + tau/(n g)), and no noise variance makes a difference to that."""
    *_, rotated = make(1, n=n_rows)
    assert certain_evidence(tau).is_density
    criterion, x, h = certain_evidence(tau), np.array([[-3.0], [0.0], [2.5]]), 1e-4
    plain, found = CRITERIA["evidence"](rotated, x), criterion(rotated, x)
    n = rotated.n_free
    np.testing.assert_allclose(found.H, plain.H + n * np.log(1.0 + tau / (n * np.exp(x))))
    np.testing.assert_array_equal(found.A, plain.A)
    behind, ahead = criterion(rotated, x - h), criterion(rotated, x + h)
    np.testing.assert_allclose(found.H1, (ahead.H - behind.H) / (2 * h), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.H2, (ahead.H1 - behind.H1) / (2 * h), rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("error")
def test_the_evidence_that_a_factor_is_certain_of_at_both_limits():
    *_, rotated = make(1)
    far = np.array([[-800.0], [np.inf]])
    plain, found = CRITERIA["evidence"](rotated, far), certain_evidence(0.3)(rotated, far)
    np.testing.assert_allclose(found.H1, plain.H1 - np.array([[rotated.n_free], [0.0]]))
    np.testing.assert_allclose(found.H2, plain.H2)
    assert np.isinf(found.H[0]).all()
    np.testing.assert_allclose(found.H[1], plain.H[1])
