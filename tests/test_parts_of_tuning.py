"""Small parts of tuning beside naive definitions: bounds and priors of variances, ranges, intervals."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from problems import close, with_energy
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import expon, gamma, norm

from skspectral.criteria import CRITERIA, Box, profile
from skspectral.criteria.form import Terms, profile_at_one
from skspectral.inference import averaging, tuned, tuning, uncertainty
from skspectral.inference.averaging import _Panels
from skspectral.inference.tuned import Tuned
from skspectral.inference.tuning import TuningResult, look_at_each, minimize_each, zoom
from skspectral.inference.variances import VarianceBounds, VariancePrior, finite_ratio, resolvable_ratios
from skspectral.linalg.rotated import Rotated
from skspectral.linalg.rows import RowCounts

EPS, LARGEST = np.finfo(np.float64).eps, np.finfo(np.float64).max
ANY = (0.0, np.inf)


def targets(m=3, r=6, n_rows=10, n_mean=1, scale=None, seed=0, **more):
    """Return targets of mean square 1 with eigenvalues from 0.01 to 5 and some null directions."""
    rng = np.random.default_rng(seed)
    counts = RowCounts(n_rows, n_mean, 0.3, 1.1)
    energy = rng.gamma(1.0, size=(r + 1, m))
    energy *= counts.n_free / energy.sum(axis=0)
    scale = np.geomspace(0.5, 4.0, m) if scale is None else scale
    more = {"resolution": 1e-9, "rounding": np.full(m, 1e-12)} | more
    s = np.geomspace(0.01, 5.0, r)
    return Rotated.make(s, np.sqrt(energy[:-1]), energy[-1], scale, counts, **more)


# -- bounds


def test_signal_variances_are_finite():
    with np.errstate(over="raise"):
        assert_array_equal(finite_ratio(np.array([6.0, 1e200]), np.array([2.0, 1e-200])), [3.0, LARGEST])


@pytest.mark.parametrize(
    ("largest", "resolution", "expected"),
    [(3.0, 1e-9, (1e-9, 3e6)), (3.0, 0.0, (3.0 * EPS, 3e6)), (1e305, 1.0, (1.0, 0.5 * LARGEST))],
)
def test_the_range_of_ratios_that_make_a_difference(largest, resolution, expected):
    assert resolvable_ratios(largest, resolution) == pytest.approx(expected, rel=1e-12, abs=0.0)


@pytest.mark.parametrize(
    ("noise", "signal", "expected"),
    [
        (ANY, ANY, ANY),
        ((1.0, 6.0), (2.0, 4.0), (0.25, 3.0)),
        ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
        ((0.0, 6.0), (2.0, np.inf), (0.0, 3.0)),
        ((2.0, 6.0), (0.0, 4.0), (0.5, np.inf)),
        ((2.0, np.inf), (0.0, np.inf), (0.0, np.inf)),
        ((0.0, 0.0), (0.0, 1.0), (0.0, 0.0)),
        ((0.0, 0.0), ANY, (0.0, 0.0)),
        ((1.0, 2.0), (0.0, 0.0), (np.inf, np.inf)),
        ((1.0, 2.0), (0.5, 0.5), (2.0, 4.0)),
    ],
)
def test_ratios_within_bounds(noise, signal, expected):
    assert VarianceBounds(noise, signal).noise_ratio == expected


@pytest.mark.parametrize(("noise", "allowed"), [(1.01, False), (1.0, True), (0.99, True)])
@pytest.mark.parametrize(("signal", "also"), [(1.01, True), (1.0, True), (0.99, False)])
def test_noise_is_absent_where_its_bounds_are_below_the_rounding_of_the_smallest_targets(
    noise, allowed, signal, also
):
    """Targets of sizes 0.5 and 3: their mean squares are 0.25 and 9."""
    n, scale = 40, np.array([3.0, 0.5])
    most, least = noise * n * EPS * 0.25, 0.125 * n * EPS
    bounds = VarianceBounds((least, most), (0.0, signal * 0.125))
    assert bounds.allow_no_noise(n, scale) == (allowed and also)


def test_what_bounds_leave_free():
    free, fixed = VarianceBounds(), VarianceBounds((1.0, 1.0), (2.0, 2.0))
    partly = [
        VarianceBounds((1.0, 1.0)),
        VarianceBounds(signal=(1.0, 1.0)),
        VarianceBounds((1.0, 2.0), (1.0, 2.0)),
    ]
    assert [b.is_free for b in (free, fixed, *partly)] == [True] + [False] * 4
    assert [b.is_fixed for b in (free, fixed, *partly)] == [False, True] + [False] * 3
    assert VarianceBounds((1.0, 2.0), (3.0, 4.0)).of_signal == VarianceBounds(ANY, (3.0, 4.0))


@pytest.mark.parametrize(
    ("noise", "signal", "size", "expected"),
    [
        # the smallest allowed mean square is 1 + 2 * 3, the largest 10 + 20 * 3: nearly is a factor of 2
        ((1.0, 10.0), (2.0, 20.0), np.sqrt(13.9), True),
        ((1.0, 10.0), (2.0, 20.0), np.sqrt(14.0), True),
        ((1.0, 10.0), (2.0, 20.0), np.sqrt(14.1), False),
        ((1.0, 10.0), (2.0, 20.0), np.sqrt(34.9), False),
        ((1.0, 10.0), (2.0, 20.0), np.sqrt(35.0), True),
        ((1.0, 10.0), (2.0, 20.0), np.sqrt(35.1), True),
        ((0.0, 10.0), (2.0, 20.0), 0.1, False),  # a variance of 0 is never too large
        ((1.0, 10.0), (0.0, 20.0), 0.1, False),
        ((1.0, 10.0), (2.0, np.inf), 1e9, False),
        ((1.0, 1.0), (2.0, 20.0), 0.1, False),  # one is given, and the other follows it
        ((1.0, 10.0), (2.0, 2.0), 1e9, False),
        ((0.5, 10.0), (0.5, 20.0), np.sqrt(3.9), True),
    ],
)
def test_targets_that_are_too_small_or_too_large_for_both_variances(noise, signal, size, expected):
    assert VarianceBounds(noise, signal).hold_both(size, 3.0) is expected


def test_bounds_in_the_units_of_targets():
    box = VarianceBounds((1.0, 8.0), (0.5, np.inf)).box(np.array([2.0, 1e-160]))
    assert_array_equal(box.noise_min, [0.25, LARGEST])
    assert_array_equal(box.noise_max, [2.0, np.inf])
    assert_array_equal(box.signal_min, [0.125, LARGEST])
    assert_array_equal(box.signal_max, [np.inf, np.inf])


# -- priors


PRIOR = VariancePrior(gamma(3.0, scale=0.2), expon(scale=2.0))


def test_penalties_are_minus_twice_the_log_densities():
    noise, signal = np.array([0.3, 1.5]), np.array([2.0, 0.1])
    of_noise, of_signal = -2.0 * PRIOR.noise.logpdf(noise), -2.0 * PRIOR.signal.logpdf(signal)
    assert PRIOR.penalty(noise, signal) == pytest.approx(of_noise + of_signal)
    assert VariancePrior(PRIOR.noise).penalty(noise, signal) == pytest.approx(of_noise)
    assert VariancePrior(None, PRIOR.signal).penalty(noise, signal) == pytest.approx(of_signal)


def test_medians_stay_within_bounds():
    bounds = VarianceBounds((0.0, 0.1), (5.0, 9.0))
    assert PRIOR.medians(bounds, (7.0, 8.0)) == (0.1, 5.0)
    assert PRIOR.medians(VarianceBounds(), (7.0, 8.0)) == pytest.approx(
        (PRIOR.noise.median(), 2.0 * np.log(2.0))
    )
    assert VariancePrior(None, PRIOR.signal).medians(bounds, (7.0, 8.0)) == (7.0, 5.0)


@pytest.mark.parametrize(
    "ends",
    [(0.0, np.inf, 0.0, np.inf), (0.2, 0.5, 0.1, 3.0), (0.0, np.inf, 0.0, 0.3), (0.0, np.inf, 2.0, 9.0)],
)
def test_the_penalised_profile_is_a_search_over_the_noise_and_its_slope(ends):
    box = Box(*(np.full(3, end) for end in ends)) if ends != (0.0, np.inf, 0.0, np.inf) else None
    rotated, x = targets(), np.array([[-2.0, -0.3, 0.9], [0.5, -0.3, -1.0]])

    def best(x, j):
        part = rotated.select([j])
        terms = CRITERIA["evidence"](part, np.full((1, 1), x))
        A, H, n, unit = terms.A.item(), terms.H.item(), terms.n, part.scale[0] ** 2
        low, high = max(1e-9, ends[0], ends[2] * np.exp(x)), min(1e9, ends[1], ends[3] * np.exp(x))

        def value(log_b):
            b = np.exp(log_b)
            penalty = PRIOR.penalty(b * unit, b * unit / np.exp(x))
            return n * np.log(b) + A / b - n + H + penalty

        end = minimize_scalar(value, bounds=np.log([low, high]), method="bounded", options={"xatol": 1e-10})
        log_b = min((end.x, np.log(low), np.log(high)), key=value)
        return value(log_b), np.exp(log_b)

    found = PRIOR.profile(CRITERIA["evidence"](rotated, x), x, rotated.scale, box)
    for k, j in np.ndindex(x.shape):
        value, noise_var = best(x[k, j], j)
        slope = (best(x[k, j] + 1e-3, j)[0] - best(x[k, j] - 1e-3, j)[0]) / 2e-3
        assert found.f[k, j] == pytest.approx(value, abs=1e-6)
        assert found.noise_var[k, j] == pytest.approx(noise_var, rel=1e-4)
        assert found.f1[k, j] == pytest.approx(slope, abs=1e-3)
    assert np.isnan(found.f2).all()
    at_limit = PRIOR.profile(
        CRITERIA["evidence"](rotated, np.full((1, 3), np.inf)), np.full((1, 3), np.inf), rotated.scale, None
    )
    assert_array_equal(at_limit.f1, np.zeros((1, 3)))


def test_the_penalised_noise_of_targets_that_are_explained_but_for_little():
    """n log b + A/b - 2 log p, with p falling like b^2 where b is small: the best b is A/(n - 4)."""
    A, zero = np.full((1, 1), 1e-13), np.zeros((1, 1))
    found = VariancePrior(PRIOR.noise).profile(
        Terms(9, A, zero, zero, zero, zero, zero), zero, np.ones(1), None
    )
    assert found.noise_var.item() == pytest.approx(1e-13 / 5.0, rel=1e-4, abs=0.0)


# -- profiles at one ratio


BOXES = [None, (0.4, 0.5, 0.0, np.inf), (0.0, np.inf, 2.0, 3.0), (0.1, 0.2, 0.05, 9.0)]
BOXES += [(2.0, 9.0, 0.0, np.inf), (0.0, np.inf, 0.0, 0.1)]


@pytest.mark.parametrize("ends", BOXES)
@pytest.mark.parametrize("x", [-1.0, 0.2])
def test_a_profile_from_numbers_is_that_of_arrays(ends, x):
    rotated = targets(m=1)
    terms = CRITERIA["evidence"](rotated, np.array([[x]]))
    box = None if ends is None else Box(*(np.array([end]) for end in ends))
    expected = profile(terms, np.array([[x]]), box)
    numbers = (terms.A[0], terms.A1[0], terms.H[0], terms.H1[0])
    numbers = [float(np.ravel(number)[0]) for number in numbers]
    found = profile_at_one(terms.n, *numbers, np.exp(x), box)
    assert found[:3] == pytest.approx((expected.f.item(), expected.f1.item(), expected.noise_var.item()))
    assert profile_at_one(terms.n, 0.0, *numbers[1:], np.exp(x), box) == (np.inf, 0.0, 0.0, None)


def test_the_slopes_of_a_profile_are_those_of_its_values():
    """A = 2 + sin x and H = cos x; the noise A/5 is held by no bound, or by one of four."""
    boxes = [Box(*(np.full(1, end) for end in ends)) for ends in BOXES[1:]]

    def at(x, box):
        x = np.array([[x]])
        terms = Terms(5, 2.0 + np.sin(x), np.cos(x), -np.sin(x), np.cos(x), -np.sin(x), -np.cos(x))
        return profile(terms, x, box)

    h = 1e-4
    for box in (None, *boxes):
        for x in (-1.0, 0.3, 1.1):
            behind, here, ahead = (at(x + step, box) for step in (-h, 0.0, h))
            assert here.f1.item() == pytest.approx((ahead.f - behind.f).item() / (2 * h), abs=1e-6)
            assert here.f2.item() == pytest.approx((ahead.f1 - behind.f1).item() / (2 * h), abs=1e-6)


# -- ranges, status and what follows from variances


def test_the_searched_range_leaves_room_for_noise_beside_a_small_signal():
    rotated = targets(scale=np.array([2.0, 5.0, 1.0]))
    x_min, x_max, is_limit = tuned.search_range(rotated, VarianceBounds())
    assert np.exp([x_min, x_max]) == pytest.approx([1e-9, 5e6])
    assert is_limit == (True, True)
    for least, largest in ((1.0, 5e6), (1e-4, 1e3 * 25.0 / 1e-4), (1e-320, 1e300)):
        _, x_max, is_limit = tuned.search_range(rotated, VarianceBounds(signal=(least, np.inf)))
        assert np.exp(x_max) == pytest.approx(largest)
        assert is_limit == (True, False)
    x_min, x_max, is_limit = tuned.search_range(rotated, VarianceBounds((0.1, 2.0), (0.5, 4.0)))
    assert np.exp([x_min, x_max]) == pytest.approx([0.025, 4.0])
    assert is_limit == (False, False)
    x_min, x_max, is_limit = tuned.search_range(rotated, VarianceBounds((0.0, 1e-12), (1.0, 4.0)))
    assert np.exp([x_min, x_max]) == pytest.approx([1e-9, 1e-9])
    assert is_limit == (True, False)
    assert tuned.search_range(rotated, VarianceBounds((0.1, 2.0)))[2] == (True, True)
    assert tuned.search_range(rotated, VarianceBounds((0.1, 2.0), (0.0, 4.0)))[2] == (False, True)
    assert tuned.search_range(rotated, VarianceBounds((1e-9, 2.0), (0.0, 1.0)))[2] == (False, True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((2.0, True), (2.0 * (1 + 0.9e-12), True), (2.0 * (1 + 1.1e-12), False), (3.0, False)),
        *((5.0, True), (5.0 * (1 - 0.9e-12), True), (5.0 * (1 - 1.1e-12), False), (1.0, True), (6.0, True)),
    ],
)
def test_variances_on_a_bound(value, expected):
    assert tuned._active(np.array([value]), (2.0, 5.0)).tolist() == [expected]


def test_variances_without_a_choice_are_on_no_bound():
    for interval in ((0.0, np.inf), (1.0, 1.0), (0.0, 0.0)):
        assert not tuned._active(np.array([0.0, 1.0]), interval).any()
    assert tuned._active(np.array([0.0, 1.0, np.inf]), (0.0, 1.0)).tolist() == [False, True, True]
    assert tuned._active(np.array([0.5, 0.6, 1.0]), (0.5, 1.0)).tolist() == [True, False, True]


def test_noise_of_the_size_of_rounding_is_told():
    rotated = targets(rounding=np.full(3, 0.9), scale=np.array([2.0, 3.0, 2.0]))
    hidden = np.array([0.5, 0.5, 1.5])
    rotated = Rotated.make(rotated.s[:-1], rotated.y_tilde, hidden, rotated.scale, rotated.counts,
                           resolution=1e-9, rounding=rotated.rounding)  # fmt: skip
    smallest = 0.9 / 9 * np.array([4.0, 9.0, 4.0])
    interior = np.full(3, "interior", dtype=object)
    near, far = np.full(3, np.log(0.99e-5)), np.full(3, np.log(1.01e-5))
    assert tuned._is_rounding(rotated, near, interior, 1.99 * smallest).tolist() == [True, True, False]
    assert tuned._is_rounding(rotated, near, interior, 2.01 * smallest).tolist() == [False] * 3
    assert not tuned._is_rounding(rotated, near, np.full(3, "bound", dtype=object), smallest).any()
    assert not tuned._is_rounding(rotated, far, interior, 1.99 * smallest).any()
    alone = targets(n_rows=1, rounding=np.full(3, 1.0), scale=np.ones(3))
    alone = Rotated.make(alone.s[:0], alone.y_tilde[:0], np.zeros(3), alone.scale, alone.counts,
                         resolution=1e-9, rounding=alone.rounding)  # fmt: skip
    judged = tuned._is_rounding(alone, near, interior, np.array([1.9, 2.0, 2.1]))
    assert judged.tolist() == [True, True, False]


@pytest.mark.parametrize(("size", "unit"), [(1e-3, 1.0), (1.0, 1.0), (1e150, 1e-300), (1e170, 1e-200)])
def test_squares_that_are_beyond_all_numbers(size, unit):
    rng = np.random.default_rng(0)
    cross, weight = rng.uniform(-1, 1, (4, 3)), rng.uniform(size=(4, 2))
    cross[0, 0] = 1.0
    with np.errstate(over="raise"):
        found = tuned._squares_times(cross * size, weight * unit)
    assert close(found / (size * unit) / size, (cross**2).T @ weight, 1e-13)
    for rows in (0, 4):
        assert not tuned._squares_times(np.zeros((rows, 3)), weight[:rows]).any()


@pytest.mark.parametrize(("n_rows", "share"), [(1, 1.0), (2, 1.0), (3, 0.5)])
def test_the_noise_of_the_evidence_is_a_mean_over_free_directions(n_rows, share):
    rotated = targets(m=1, n_rows=5, scale=np.full(1, 3.0))
    alone = Rotated.make(rotated.s[:0], rotated.y_tilde[:0], np.array([0.7]), rotated.scale,
                         RowCounts(n_rows, 1, 0.0, 1.0), resolution=1e-9, rounding=np.zeros(1))  # fmt: skip
    assert tuned._evidence_noise(alone, np.zeros(1)) == pytest.approx(9.0 * 0.7 * share)


@pytest.mark.parametrize(
    ("bounds", "n_free", "prior", "expected"),
    [
        (VarianceBounds((1.0, 3.0), (2.0, 8.0)), 9, None, (np.log(0.5), 1.0, "pure_noise")),
        (VarianceBounds((1.0, 3.0), (2.0, 8.0)), 0, None, (np.log(3.0 / 8.0), 3.0, "pure_noise")),
        (VarianceBounds((1.0, 3.0)), 9, None, (np.inf, 1.0, "pure_noise")),
        (VarianceBounds((1.0, 3.0)), 0, None, (np.inf, 1.0, "undetermined")),
        (VarianceBounds(signal=(2.0, 8.0)), 9, None, (np.log(1e-9), 2e-9, "pure_noise")),
        (VarianceBounds(), 9, None, (np.inf, 0.0, "undetermined")),
        (VarianceBounds(), 0, None, (np.inf, 0.0, "undetermined")),
        (VarianceBounds(), 9, PRIOR, None),
        (VarianceBounds((0.0, 3.0)), 9, VariancePrior(None, PRIOR.signal), "jitter"),
    ],
)
def test_variances_of_an_output_without_variation(bounds, n_free, prior, expected):
    rotated = targets(n_rows=n_free + 1)
    noise, signal = PRIOR.noise.median(), PRIOR.signal.median()
    if expected is None:
        expected = np.log(noise / signal), noise, "fixed"
    elif expected == "jitter":
        expected = np.log(1e-9), 1e-9 * signal, "fixed"
    x, noise_var, status = tuned._constant_output(rotated, bounds, prior)
    assert (x, noise_var) == pytest.approx(expected[:2])
    assert status == expected[2]


def test_what_is_not_determined_has_infinite_variances():
    def of(*statuses):
        results = tuple(TuningResult(status, 1.0, 0.0, 1) for status in statuses)
        return Tuned(targets(m=len(statuses)), *np.ones((3, len(statuses))), results, None)

    one, joint = np.ones((4, 2)), np.ones((4, 4, 2))
    known = of("interior", "bound")
    assert known.honest(one) is one
    partly = of("interior", "undetermined")
    assert partly.is_undetermined.tolist() == [False, True]
    assert partly.honest(one)[:, 0].tolist() == [1.0] * 4
    assert np.isinf(partly.honest(one)[:, 1]).all()
    assert one.max() == 1.0
    expected = joint.copy()
    expected[range(4), range(4), 1] = np.inf
    assert_array_equal(partly.honest(joint), expected)


def test_outputs_are_profiled_by_their_own_bounds():
    rotated = targets()
    bounds = VarianceBounds((0.3, 4.0), (0.1, 7.0))
    objective = tuned._objective(rotated, CRITERIA["evidence"], bounds.box(rotated.scale), None)
    x = np.linspace(-2.0, 2.0, 5)[:, None]
    whole = objective(x, np.arange(3))
    for outputs in ([2, 0], [0, 1, 1], [0], [2, 1, 0], [0, 1]):
        for all_of, part in zip(whole, objective(x, np.array(outputs)), strict=True):
            assert close(part, all_of[:, outputs], 1e-13)
    unbounded = tuned._objective(rotated, CRITERIA["evidence"], None, None)
    assert close(unbounded(x, np.array([1]))[0], unbounded(x, np.arange(3))[0][:, [1]], 1e-13)
    summed = tuned._summed(objective, 3)
    for each, total in zip(whole, summed(x, None), strict=True):
        assert close(total, each.sum(axis=1, keepdims=True), 1e-13)
    assert summed(x.T, None)[0].shape == (1, 5)


def test_a_given_ratio_has_the_variances_that_the_evidence_prefers():
    rotated, g = targets(), np.array([0.1, 1.0, 7.0])
    found = tuned.at_noise_ratio(rotated, CRITERIA["gcv"], g)
    quadratic = (rotated.energy / (1.0 + rotated.s[:, None] / g)).sum(axis=0)
    assert found.noise_var == pytest.approx(quadratic / 9 * rotated.scale**2)
    assert found.signal_var == pytest.approx(found.noise_var / g)
    assert [(r.status, r.n_evaluations) for r in found.tuning] == [("fixed", 1)] * 3
    everyone = tuned.at_noise_ratio(rotated, CRITERIA["gcv"], 2.0)
    assert_array_equal(everyone.noise_ratio, [2.0] * 3)
    dof = (rotated.s[:-1, None] / (rotated.s[:-1, None] + g)).sum(axis=0) + 1
    assert found.effective_dof == pytest.approx(dof)


@pytest.mark.parametrize("prior", [None, PRIOR])
@pytest.mark.parametrize("name", ["evidence", "posterior", "gcv"])
def test_the_objective_is_a_sum_over_outputs_that_vary(name, prior):
    rotated = targets(m=3)
    rotated = with_energy(rotated, rotated.energy * [1.0, 0.0, 1.0])
    noise, signal = np.array([0.4, 1.0, 2.0]), np.array([1.5, 1.0, 0.3])
    fit = Tuned(rotated, noise / signal, noise, signal, (), prior)
    total, criterion = 0.0, CRITERIA[name]
    for j in (0, 2):
        part = rotated.select([j])
        terms = criterion(part, np.log([[noise[j] / signal[j]]]))
        b = noise[j] / part.scale[0] ** 2 if criterion.is_density else terms.A.item()
        total += terms.n * np.log(b) + terms.A.item() / b - terms.n + terms.H.item()
        if prior is not None:
            total += prior.penalty(noise[j], signal[j])
    assert fit.objective(criterion) == pytest.approx(total)
    nothing = replace(fit, rotated=with_energy(rotated, 0.0 * rotated.energy))
    assert nothing.objective(criterion) == 0.0


# -- panels of an average over ratios


def test_panels_integrate_polynomials():
    """Eight nodes integrate x^14 exactly, relative to a peak of each output."""
    panels = _Panels.make(
        lambda x: np.stack([14.0 * np.log(x), 0.0 * x], axis=1), np.array([1.0, 2.0]), np.array([2.0, 4.0])
    )
    whole = np.array([[2.0**15 - 1.0, 1.0], [4.0**15 - 2.0**15, 2.0]]) / [15.0, 1.0]
    assert panels.area(np.array([0.0, np.log(2.0)])) == pytest.approx(whole / [1.0, 2.0])
    left, right = panels.halves(lambda x: np.zeros((len(x), 1)))
    assert (left.a.tolist(), left.b.tolist()) == ([1.0, 2.0], [1.5, 3.0])
    assert (right.a.tolist(), right.b.tolist()) == ([1.5, 3.0], [2.0, 4.0])
    joined = left.joined(right.select([1]))
    assert joined.a.tolist() == [1.0, 2.0, 3.0]
    assert joined.area(np.zeros(1)) == pytest.approx(np.array([[0.5], [1.0], [1.0]]))


@pytest.mark.parametrize(("centre", "width"), [(0.3, 0.02), (0.3, 1.0), (-3.9, 0.1)])
def test_densities_are_integrated_wherever_their_mass_is(centre, width):
    def log_density(x):
        both = np.stack([(x - centre) / width, (x - 2.0) / 0.3], axis=1)
        return -0.5 * both**2 - np.log([width, 0.3]) - 0.5 * np.log(2.0 * np.pi)

    x, log_mass = averaging._quadrature(log_density, np.linspace(-4.0, 9.0, 8), 13.0 / width**2)
    assert (np.diff(x) > 0).all()
    mass = np.exp(log_mass)
    inside = norm.cdf(9.0, centre, width) - norm.cdf(-4.0, centre, width)
    assert mass.sum(axis=0) == pytest.approx([inside, 1.0], rel=1e-9)
    assert (mass[:, 1] * x).sum() == pytest.approx(2.0, rel=1e-9)
    alone, value = averaging._quadrature(log_density, np.array([1.5]), 1.0)
    assert alone.tolist() == [1.5]
    assert close(value, log_density(np.array([1.5])))


@pytest.mark.parametrize(
    ("bounds", "is_limit"),
    [
        (VarianceBounds(), True),
        (VarianceBounds((0.01, 9.0), (0.0, 40.0)), True),  # less noise than that is not allowed
        (VarianceBounds(signal=(1e-6, np.inf)), False),
    ],
)
def test_a_look_at_targets_of_noise_ends_at_the_limit_unless_signal_must_be(bounds, is_limit):
    rotated = targets(m=1)
    rotated = replace(with_energy(rotated, np.append(np.full(6, 0.5), 6.0)[:, None]), scale=np.ones(1))
    ratio = tuned.look_for_ratio(rotated, CRITERIA["evidence"], bounds)
    assert np.isinf(ratio).tolist() == [is_limit]
    assert ratio[0] > 100.0
    given = VarianceBounds((2.0, 2.0), (0.0, 0.0))
    assert np.isinf(tuned.look_for_ratio(rotated, CRITERIA["evidence"], given)).all()


def nodes_one_by_one(log_density, edges, steepest, most):
    """Return the nodes of `_quadrature`, panel by panel: halves that agree to 1e-10 of all are enough."""

    def panel(a, b):
        x, w = np.polynomial.legendre.leggauss(8)
        x, w = 0.5 * (a + b) + 0.5 * (b - a) * x, 0.5 * (b - a) * w
        return a, b, x, np.log(w)[:, None] + log_density(x)

    open_panels, done = [panel(a, b) for a, b in pairwise(edges)], []
    for _ in range(40):
        peak = np.max([p[3].max(axis=0) for p in done + open_panels], axis=0)
        gap = 0.5 * np.diff(np.polynomial.legendre.leggauss(8)[0]).max() * 0.5
        open_panels = [
            p for p in open_panels if (p[3].max(axis=0) + steepest * gap * (p[1] - p[0]) >= peak - 45.0).any()
        ]
        halves = [(panel(a, 0.5 * (a + b)), panel(0.5 * (a + b), b)) for a, b, *_ in open_panels]
        peak = np.max([p[3].max(axis=0) for p in done + [half for pair in halves for half in pair]], axis=0)
        areas = [sum(np.exp(half[3] - peak).sum(axis=0) for half in pair) for pair in halves]
        total = sum(areas) + sum(np.exp(p[3] - peak).sum(axis=0) for p in done)
        following = []
        for p, pair, area in zip(open_panels, halves, areas, strict=True):
            is_rough = (np.abs(area - np.exp(p[3] - peak).sum(axis=0)) > 1e-10 * total).any()
            following, done = (following + list(pair), done) if is_rough else (following, [*done, p])
        open_panels = following
        if not open_panels or 8 * (len(done) + len(open_panels)) > most:
            break
    return np.sort(np.concatenate([p[2] for p in done + open_panels]))


@pytest.mark.parametrize("most", [4096, 150, 200])
@pytest.mark.parametrize("height", [-300.0, 0.0, 300.0])
def test_panels_are_halved_where_halves_disagree_and_left_out_where_nothing_is(monkeypatch, most, height):
    monkeypatch.setattr(averaging, "_MAX_NODES", most)

    def log_density(x):
        narrow = np.logaddexp(-0.5 * ((x - 0.3) / 0.02) ** 2, -0.5 * ((x - 3.0) / 0.05) ** 2 - 1.0)
        return np.stack([narrow, -3.0 * np.abs(x - 2.0)], axis=1) + height

    edges = np.linspace(-60.0, 9.0, 24)
    x, log_mass = averaging._quadrature(log_density, edges, 3.0)
    assert x == pytest.approx(nodes_one_by_one(log_density, edges, 3.0, most), abs=1e-9)
    assert log_mass.shape == (len(x), 2)


def test_first_panels_move_with_their_range():
    for flat in (-1.0, 20.0, 40.3, 90.0):
        edges = averaging._edges(0.0, 70.0, flat)
        for shift in (-33.0, 5.0):
            assert averaging._edges(shift, 70.0 + shift, flat + shift) == pytest.approx(edges + shift)


# -- a rough look, and looks that zoom in


def bowls(centres, ends=0.0):
    def objective(x, outputs):
        gap = np.where(np.isinf(x), 0.0, x) - np.asarray(centres)[outputs]
        beyond = np.broadcast_to(np.isinf(x), gap.shape)
        value = np.where(beyond, ends, 0.5 * gap**2)
        return value, np.where(beyond, 0.0, gap), np.where(beyond, 0.0, 1.0)

    return objective


def test_a_look_takes_one_step_of_newton_from_the_best_point():
    centres = [0.07, -0.9, 40.0, -40.0]
    assert look_at_each(bowls(centres, 1e9), 4, -1.0, 1.0) == pytest.approx([0.07, -0.9, 1.0, -1.0])
    assert_array_equal(look_at_each(bowls([0.1], -1.0), 1, -1.0, 1.0), [np.inf])
    assert_array_equal(look_at_each(bowls([0.1], 1e9), 1, -1.0, 1.0, upper=1.0), [0.1])

    def steep(x, outputs):
        value, slope, _ = bowls([0.01], 1e9)(x, outputs)
        return value, slope + 5.0, np.where(slope > 0, -1.0, 1.0)

    assert look_at_each(steep, 1, -1.0, 1.0) == pytest.approx([-0.25])
    assert look_at_each(steep, 1, 0.02, 1.0) == pytest.approx([0.02])  # the curvature is negative there

    assert look_at_each(bowls([1.6], 1e9), 1, -1.0, 2.0) == pytest.approx([1.6])

    def straight(x, outputs):
        value = np.where(np.isinf(x), 1e9, np.where(np.isinf(x), 0.0, x))
        return value, np.ones_like(value), np.zeros_like(value)

    assert look_at_each(straight, 1, -0.5, 1.0) == pytest.approx([-0.5])


def test_a_grid_has_steps_of_a_quarter_or_less():
    for x_max, n in ((1.0, 5), (1.1, 6), (1.25, 6)):
        assert tuning._grid(0.0, x_max, 0.25, (-np.inf, np.inf)) == pytest.approx(np.linspace(0.0, x_max, n))


def test_a_grid_has_wide_steps_outside_features():
    grid = tuning._grid(0.0, 30.0, 0.5, (9.0, 11.0))
    assert grid == pytest.approx([0, 3, 6, 9, 9.5, 10, 10.5, 11, 14.8, 18.6, 22.4, 26.2, 30])
    assert tuning._grid(0.0, 8.0, 0.5, (-3.0, -2.0)) == pytest.approx([0, 4, 8])
    assert tuning._grid(0.0, 8.0, 0.5, (12.0, 13.0)) == pytest.approx([0, 4, 8])
    assert tuning._grid(0.0, 8.0, 4.0, (-np.inf, 5.0)) == pytest.approx([0, 2.5, 5, 8])


def test_features_reach_four_units_beyond_the_eigenvalues_unless_there_is_a_prior():
    rotated = targets(m=1)
    s = rotated.s[rotated.s > 0]
    expected = np.log(s.min()) - 4.0, np.log(s.max()) + 4.0
    assert tuned._features(rotated, None) == pytest.approx(expected)
    assert tuned._features(rotated, PRIOR) == (-np.inf, np.inf)
    nothing = replace(rotated, s=0.0 * rotated.s, resolution=0.1)
    assert tuned._features(nothing, None) == pytest.approx((np.log(0.1) - 4.0, np.log(0.1) + 4.0))


@pytest.mark.parametrize(("prior", "most"), [(None, 0.75), (PRIOR, 0.25)])
def test_a_search_has_steps_of_three_quarters_and_finer_ones_with_a_prior(monkeypatch, prior, most):
    seen = []

    def watched(*args, **settings):
        seen.append(settings)
        return minimize_each(*args, **settings)

    monkeypatch.setattr(tuned, "minimize_each", watched)
    rotated = targets(m=1)
    tuned.tune(rotated, CRITERIA["evidence"], prior=prior)
    assert [settings["step"] for settings in seen] == [most]
    assert seen[0]["features"] == tuned._features(rotated, prior)


def test_minima_without_a_tie_win_by_any_gain():
    found = minimize_each(bowls([0.1], 1e9), 1, -0.2, 0.3)
    assert found.place.tolist() == ["interior"]
    assert found.first_slope == pytest.approx([-0.3])


def test_cells_with_hidden_roots_are_cut_into_eight():
    """f' = (x - 0.3)(x - 0.4375) of the second output has one sign at both ends of the cell [1/4, 1/2]."""
    grid = np.linspace(-1.0, 1.0, 9)

    def objective(x, outputs):
        roots = np.array([[-0.6, 9.0], [0.3, 0.4375]])[outputs]
        slope = (x - roots[:, 0]) * (x - roots[:, 1]) * np.where(outputs == 0, -1.0, 1.0)
        return slope, slope, (2.0 * x - roots.sum(axis=1)) * np.where(outputs == 0, -1.0, 1.0)

    _, f1, f2 = objective(grid[:, None], np.arange(2))
    outputs, a, b, x = tuning._brackets(objective, grid, f1, f2, 0.25)
    assert outputs.tolist() == [0, 1]
    assert (a.tolist(), b.tolist()) == ([-0.75, 0.40625], [-0.5, 0.4375])
    assert x[1] == 0.421875
    assert x[0] == pytest.approx(-0.6, abs=2e-6)
    # cells wider than a step are those without features
    assert tuning._brackets(objective, grid, f1, f2, 0.24)[0].tolist() == [0]


def test_a_step_that_is_longer_by_rounding_is_a_step():
    grid, roots = np.linspace(0.0, 1.0, 11), (0.22, 0.27)
    assert np.diff(grid)[2] > 0.1

    def objective(x, outputs):
        slope = (x - roots[0]) * (x - roots[1])
        return slope, slope, 2.0 * x - sum(roots)

    _, f1, f2 = objective(grid[:, None], np.arange(1))
    _, a, b, _ = tuning._brackets(objective, grid, f1, f2, 0.1)
    assert [(start < roots[1] <= end) for start, end in zip(a, b, strict=True)] == [True]


def test_a_root_is_guessed_from_slopes_and_curvatures_at_both_ends():
    """Exact where x is a cubic of f'; the middle where that is unknown, or outside."""
    slopes = np.array([-2.0, 5.0])
    x_of = np.polynomial.Polynomial([0.3, 3.0, -0.02, 0.01])  # x at each f'
    a, b = x_of(slopes)
    curvatures = 1.0 / x_of.deriv()(slopes)
    ends = (np.array([value]) for value in (a, b, *slopes, *curvatures))
    assert tuning._rough_root(*ends)[0] == pytest.approx(0.3, rel=1e-14, abs=0.0)
    for curve_down, curve_up in ((-1.0, 2.0), (1.0, 0.0), (np.nan, 1.0), (1.0, 1e-3), (1e-3, 1.0)):
        ends = (np.array([value]) for value in (1.0, 2.0, -1.0, 1.0, curve_down, curve_up))
        assert tuning._rough_root(*ends)[0] == 1.5


def test_the_last_step_of_newton_is_taken_without_another_look():
    """A parabola's minimum, 1e-7 away, is where its slope says, and as deep as it says."""
    centre, looks = 0.3, []

    def objective(x, outputs):
        looks.append(x.item())
        return 4.0 * (x - centre) ** 2, 8.0 * (x - centre), np.full_like(x, 8.0)

    for away, n_looks in ((9e-7, 1), (1.1e-6, 2)):
        looks.clear()
        x, f, n_steps = tuning._refine(
            objective, np.zeros(1, dtype=int), np.zeros(1), np.ones(1), np.full(1, centre + away)
        )
        assert x[0] == pytest.approx(centre, rel=1e-14, abs=0.0)
        assert abs(f[0]) < 1e-22
        assert len(looks) == n_steps == n_looks


def test_brackets_are_refined_in_batches(monkeypatch):
    centres = np.linspace(0.01, 0.2, 11)
    objective, outputs = bowls(centres), np.arange(11)
    for batch in (4, 11, 99):
        monkeypatch.setattr(tuning, "_BATCH", batch)
        x, f, steps = tuning._refine_in_batches(
            objective, outputs, np.zeros(11), np.full(11, 0.25), np.linspace(0.1, 0.15, 11)
        )
        assert x == pytest.approx(centres)
        assert f == pytest.approx(np.zeros(11), abs=1e-12)
        assert (steps == 2).all()


@pytest.mark.parametrize("root", [0.3, 0.7])
def test_brackets_are_halved_where_newton_leads_nowhere(root):
    looks = []

    def objective(x, outputs):
        looks.append(x.item())
        return x, 0.1 * (x - root), np.full_like(x, -1.0)

    x, _, n_steps = tuning._refine(
        objective, np.zeros(1, dtype=int), np.zeros(1), np.ones(1), np.full(1, 0.5)
    )
    assert x[0] == pytest.approx(root, abs=1e-9)
    a, b = 0.0, 1.0
    for look in looks:
        assert look == pytest.approx(0.5 * (a + b))
        a, b = (look, b) if look < root else (a, look)
    assert len(looks) == n_steps


@pytest.mark.parametrize("n_looks", [0, 1, 5])
def test_a_zoom_narrows_by_four(n_looks):
    seen, centre = [], np.array([0.137, 5.0, -3.0])

    def function(x):
        seen.append(x)
        return np.abs(x - centre)

    points = np.linspace(0.0, [1.0, 1.0, 1.0], 9)
    x, value = zoom(function, points, n_looks)
    assert len(seen) == n_looks + 1
    assert np.abs(x - np.clip(centre, 0.0, 1.0)).max() <= 0.125 / 4.0**n_looks
    assert_array_equal(value, np.abs(x - centre))
    for k, looked in enumerate(seen):
        assert len(looked) == 9
        assert looked[-1, 0] - looked[0, 0] == pytest.approx(4.0**-k)


# -- uncertainty


@pytest.mark.parametrize(
    ("value", "interval", "expected"),
    [
        (1.0, ANY, False),
        (0.0, ANY, False),
        (2.0 * (1 + 0.9e-8), (2.0, 5.0), True),
        (2.0 * (1 + 1.1e-8), (2.0, 5.0), False),
        (5.0 * (1 - 0.9e-8), (2.0, 5.0), True),
        (5.0 * (1 - 1.1e-8), (2.0, 5.0), False),
        (0.0, (0.0, 5.0), False),
        (5.0, (0.0, 5.0), True),
        (3.0, (3.0, 3.0), True),
        (np.inf, (1.0, np.inf), False),
        (1.0, (1.0, np.inf), True),
    ],
)
def test_variances_that_are_held(value, interval, expected):
    assert uncertainty._is_held(value, interval) == expected


@pytest.mark.parametrize("seed", range(5))
def test_the_inverse_of_an_information_gives_errors_and_correlation(seed):
    root = np.random.default_rng(seed).normal(size=(2, 2))
    inverse = np.linalg.inv(root @ root.T)
    *errors, correlation = uncertainty._invert(root @ root.T)
    assert errors == pytest.approx(np.sqrt(np.diag(inverse)))
    assert correlation == pytest.approx(inverse[0, 1] / np.prod(errors))


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        *((0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (-1.0, 0.0, 1.0), (1.0, 0.0, -1.0)),
        *((1.0, 1.0, 1.0), (1.0, 2.0, 1.0), (1.0, 1.5, 2.0), (2.0, 1.5, 1.0)),
        *((49.0, 44.27188724235731, 40.0), (40.0, 44.27188724235731, 49.0)),  # rounding leaves one of them
    ],
)
def test_an_information_that_is_not_positive_says_nothing(a, b, c):
    assert uncertainty._invert(np.array([[a, b], [b, c]])) == (np.inf, np.inf, 0.0)


def test_the_roots_that_bound_the_noise_at_a_ratio():
    depth = np.array([0.0, 1e-12, 1e-3, 0.7, 3.0, 40.0, 1e4])
    up, down = uncertainty._depth_roots(depth)
    assert (up[0], down[0]) == (0.0, 0.0)
    for d, high, low in zip(depth[1:], up[1:], down[1:], strict=True):
        f = lambda t, d=d: np.expm1(t) - t - d  # noqa: E731
        assert high == pytest.approx(brentq(f, 0.0, 20.0, xtol=1e-14), rel=1e-6)
        assert low == pytest.approx(brentq(f, -2.0 - d - 2.0 * np.sqrt(d), 0.0, xtol=1e-14), rel=1e-6)


def region_of_interval(low, high, x_best):
    """Return a region that holds the ratios between two limits, one pair for each output, and its looks."""
    region, looks = object.__new__(uncertainty._Region), []

    def contains(x):
        looks.append(x)
        return (x >= np.asarray(low)) & (x <= np.asarray(high))

    vars(region).update(x_best=np.asarray(x_best), contains=contains)
    return region, looks


def test_the_ends_of_ratios_are_found_to_rounding():
    low, high = np.array([-1.234, -9.0, 0.51, 3.0, -1.9]), np.array([0.777, 9.0, 0.52, 9.0, 3.05])
    region, looks = region_of_interval(low, high, [0.1, 0.0, 0.515, np.inf, 0.0])
    found = region.ratio_ends(-2.0, 3.1)
    assert looks[0] == pytest.approx(np.linspace(-2.0, 3.1, 22)[:, None])  # in steps of at most 1/4
    assert found[0] == pytest.approx(np.maximum(low, -2.0), abs=1e-12)
    assert found[1] == pytest.approx(np.minimum(high, 3.1), abs=1e-12)
    assert found[2].tolist() == [False, True, False, False, False]
    assert found[3].tolist() == [False, True, False, True, False]
    half = len(looks) // 2
    for ends, part, at_limit in (
        (found[0], looks[1 : half + 1], found[2]),
        (found[1], looks[half + 1 :], found[3]),
    ):
        asked = np.concatenate(part)[:, ~at_limit]
        assert np.abs(asked - ends[~at_limit]).max() < 0.25  # between neighbours of the grid
