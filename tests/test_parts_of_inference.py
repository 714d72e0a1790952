"""Small parts of `inference` beside naive definitions: single rules whose effect a fit hardly shows."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import close
from scipy.optimize import brentq
from scipy.stats import invgamma, norm, t

from skspectral.criteria.joint_evidence import between
from skspectral.inference import candidates, covariances, modes, sparse, sparse_classes
from skspectral.inference.absolute import least_absolute
from skspectral.inference.averaging import _NO_MASS, VariancePosterior, _edges, _Panels, pooled
from skspectral.inference.changing_noise import ChangingNoise
from skspectral.inference.correlated import _Complete
from skspectral.inference.covariances import _Counted, _status, _with_missing, _without_traces
from skspectral.inference.mean_summary import MeanSummary
from skspectral.inference.observations import Observations, observe
from skspectral.inference.sparse import Ascent, worthwhile
from skspectral.inference.sparse_newton import Settling
from skspectral.inference.sparse_noise import KnownNoise, ProfiledNoise, TooLittleNoise
from skspectral.inference.student_mixture import StudentMixture, inflate
from skspectral.inference.tuned import _status as status_of_minima
from skspectral.inference.tuning import _may_hide_roots, minimize_each
from skspectral.inference.variance_form import VarianceForm
from skspectral.inference.weighted_mean import WeightedMean
from skspectral.likelihoods import Bernoulli
from skspectral.linalg.active import Active, FunctionValues
from skspectral.linalg.covariance_pair import CovariancePair, Units
from skspectral.linalg.curved import DensePrior

# -- mixtures of Student-t

LOCATION = np.array([[-3.0, 1.0, 4.0], [10.0, 10.5, 50.0]])
SCALE = np.array([[0.5, 2.0, 1.0], [0.1, 3.0, 0.01]])
WEIGHT = np.array([0.5, 0.3, 0.2])


def one(dof, location, scale):
    return norm(location, scale) if np.isinf(dof) else t(dof, location, scale)


@pytest.mark.parametrize("dof", [2.5, 7.0, np.inf])
def test_moments_and_quantiles_of_a_mixture_are_those_of_its_definition(dof):
    mixture = StudentMixture(LOCATION, SCALE, WEIGHT, dof)
    mean = (LOCATION * WEIGHT).sum(axis=1)
    second = ((one(dof, LOCATION, SCALE).var() + LOCATION**2) * WEIGHT).sum(axis=1)
    assert mixture.mean == pytest.approx(mean)
    assert mixture.variance == pytest.approx(second - mean**2)
    for probability in (1e-4, 0.3, 0.5, 0.97):
        reached = [
            WEIGHT @ one(dof, *row).cdf(y)
            for y, *row in zip(mixture.quantile(probability), LOCATION, SCALE, strict=True)
        ]
        assert reached == pytest.approx([probability] * 2, rel=1e-9)


@pytest.mark.parametrize("exponent", np.arange(-14.0, -12.0, 0.25))
def test_quantiles_of_components_far_apart_leak_no_warning(exponent):
    """Between the two the density is hardly a number, and its inverse is none at an exponent of -13.25."""
    scale = 10.0**exponent
    mixture = StudentMixture(np.array([[0.0, 1.0]]), np.full((1, 2), scale), np.array([0.5, 0.5]), 26.0)
    assert mixture.quantile(0.9) == pytest.approx(1.0 + scale * t(26.0).ppf(0.8), rel=1e-12)


def watched(location, scale, dof):
    """Return a mixture, and the list of points at which its distribution is looked at."""
    looks = []

    class Watched(StudentMixture):
        def _distribution(self, y):
            looks.append(y)
            return super()._distribution(y)

    return Watched(location, scale, WEIGHT, dof), looks


@pytest.mark.parametrize("dof", [3.0, np.inf])
def test_the_search_for_a_quantile_begins_at_those_of_the_components(dof):
    """Where all components are one it is there at once: one look, and one that finds nothing to do."""
    mixture, looks = watched(np.full((2, 3), 7.0), np.full((2, 3), 2.0), dof)
    assert mixture.quantile(0.9) == pytest.approx(np.full(2, one(dof, 7.0, 2.0).ppf(0.9)))
    assert len(looks) == 1


@pytest.mark.parametrize("dof", [3.0, np.inf])
@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
def test_steps_of_newton_find_quantiles_in_any_unit(dof, unit):
    """Halving of brackets alone would need forty looks."""
    mixture, looks = watched(unit * LOCATION, unit * SCALE, dof)
    y = mixture.quantile(0.7)
    assert len(looks) < 10
    for end, *row in zip(y / unit, LOCATION, SCALE, strict=True):
        assert WEIGHT @ one(dof, *row).cdf(end) == pytest.approx(0.7, rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dof", [3.0, np.inf])
def test_a_component_without_spread_is_a_step(dof):
    mixture = StudentMixture(np.array([[0.0, 2.0]]), np.array([[0.0, 1.0]]), np.array([0.4, 0.6]), dof)
    for y in (-1e150, -1e-5, 1e-5, 3.0, 1e150):
        expected = 0.4 * (y > 0) + 0.6 * one(dof, 2.0, 1.0).cdf(y)
        assert mixture._distribution(np.array([y]))[0] == pytest.approx(expected)
    below = 0.6 * one(dof, 2.0, 1.0).cdf(0.0)
    assert mixture.quantile(below + 0.2)[0] == pytest.approx(0.0, abs=1e-9)


def test_mixtures_are_joined_without_components_of_no_weight():
    first = StudentMixture(LOCATION, SCALE, WEIGHT, 4.0)
    second = StudentMixture(-LOCATION, 2.0 * SCALE, np.array([1.0 - 1e-9, 1e-9, 0.0]), 4.0)
    both = StudentMixture.joined([first, second], [0.25, 0.75])
    weight = np.array([0.125, 0.075, 0.05, 0.75])
    assert both.dof == 4.0
    assert both.weight.sum() == pytest.approx(1.0, abs=1e-15)
    assert both.weight == pytest.approx(weight)
    np.testing.assert_array_equal(both.location, np.hstack([LOCATION, -LOCATION[:, :1]]))
    np.testing.assert_array_equal(both.scale, np.hstack([SCALE, 2.0 * SCALE[:, :1]]))
    halves = StudentMixture.joined([first, first], [1.5e-7, 1.0])  # the limit is a share of the largest
    assert len(halves.weight) == 4
    assert len(StudentMixture.joined([first, first], [1e-8, 1.0]).weight) == 3


def test_the_variance_of_student_t():
    squares = np.array([0.0, 1.0, 5.0])
    np.testing.assert_array_equal(inflate(squares, np.inf), squares)
    assert inflate(squares, 5.0) == pytest.approx(squares * 5.0 / 3.0)
    for dof in (2.0, 1.0):
        np.testing.assert_array_equal(inflate(squares, dof), [0.0, np.inf, np.inf])
    np.testing.assert_array_equal(inflate(np.array([-1.0]), 2.0), [-np.inf])
    assert inflate(squares, 2.5) == pytest.approx(squares * 5.0)


# -- the average over variances


def test_panels_are_negligible_where_no_peak_between_their_nodes_can_matter():
    """A tent of the steepest slope, its top halfway between the two nodes that are farthest apart."""
    a, b, steepest = np.array([-1.0]), np.array([3.0]), 2.5

    def tent(top):
        return _Panels.make(lambda x: top - steepest * np.abs(x - 1.0)[:, None], a, b)

    nodes, weights = np.polynomial.legendre.leggauss(8)
    height = np.log(2.0 * weights[3:5].max())  # what the weight of the nodes beside the top makes of it
    for top, expected in ((-1e-6, True), (1e-6, False)):
        panels = tent(top - height - _NO_MASS)
        assert panels.are_negligible(np.zeros(1), steepest).tolist() == [expected]
    both = _Panels.make(lambda x: np.stack([0.0 * x, -1e3 + 0.0 * x], axis=1), a, b)
    assert not both.are_negligible(np.zeros(2), steepest)  # one output has mass there
    assert np.diff(nodes).max() == pytest.approx(2.0 * nodes[4])


@pytest.mark.parametrize(("flat", "widths"), [(5.0, (1.0, 2.0)), (-9.0, (32.0, 32.0)), (99.0, (1.0, 2.0))])
def test_first_panels_are_wide_beyond_all_eigenvalues(flat, widths):
    edges = _edges(0.0, 70.0, flat)
    assert edges[0] == 0.0
    assert edges[-1] == 70.0
    steps, inside = np.diff(edges), min(max(flat, 0.0), 70.0)
    assert (steps > 0).all()
    assert (steps[edges[1:] <= inside + 1e-9] <= 2.0).all()
    beyond = steps[edges[:-1] >= inside - 1e-9]
    assert len(beyond) == int(np.ceil((70.0 - inside) / 32.0))
    assert len(steps) == len(beyond) + int(np.ceil(inside / 2.0))


# -- one-dimensional searches


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_tangents_of_the_slope_that_meet_beyond_0_hide_roots(sign):
    """1 - 3 t from the left and 2 + 6 (t - w) from the right meet at (4 - 6 w)/3."""
    ends = sign * np.array([1.0, 2.0, -3.0, 6.0])
    for width, expected in ((0.66, False), (0.67, True)):
        assert _may_hide_roots(*ends, width) == expected
    for k in range(4):  # with any other sign the slope does not turn inside
        turned = ends * np.where(np.arange(4) == k, -1.0, 1.0)
        assert not _may_hide_roots(*turned, 5.0)


def test_limits_win_ties_from_both_sides():
    def objective(x, outputs):
        """A slope down from -5 to the minimum -1 at 0, and up again to `beyond`."""
        inner = np.clip(x, -9.0, 9.0)
        f = np.where(np.isinf(x), 5.0, inner**2)
        f, f1, f2 = (np.broadcast_to(v, (len(x), len(outputs))) for v in (f, 2.0 * inner, 2.0 + 0.0 * inner))
        return f + 0.0, f1, f2

    for tie, place in ((0.0, "interior"), (0.24, "interior"), (0.26, "lower")):
        assert minimize_each(objective, 1, -0.5, 3.0, tie=tie).place[0] == place


def test_the_status_of_minima_at_the_ends_tells_limits_from_bounds():
    places = np.array(["lower", "interior", "upper"], dtype=object)
    assert status_of_minima(places, (True, True)).tolist() == ["noise_free", "interior", "pure_noise"]
    assert status_of_minima(places, (True, False)).tolist() == ["noise_free", "interior", "bound"]
    assert status_of_minima(places, (False, True)).tolist() == ["bound", "interior", "pure_noise"]


# -- modes


def test_a_curvature_is_used_again_where_its_last_step_brought_the_mode_much_nearer(monkeypatch):
    steps = []

    class Watched(modes._Newton):
        def step(self, mode):
            step = super().step(mode)
            steps.append((self, step.decrement))
            return step

    monkeypatch.setattr(modes, "_Newton", Watched)
    x = np.linspace(0.0, 6.0, 30)
    prior = DensePrior(np.exp(-0.5 * (x[:, None] - x) ** 2), 9.0)
    mode = modes.find_mode(prior, observe(Bernoulli(), (np.sin(2.0 * x) > 0).astype(float)))
    assert mode.is_found
    assert mode.n_factorisations == len({id(newton) for newton, _ in steps}) < mode.n_iter
    taken, reused, rejected = steps[0], 0, 0
    for step, following in zip(steps[1:], [*steps[2:], None], strict=True):
        if step[0] is not taken[0]:
            taken = step
        elif following is None or following[0] is step[0]:
            assert step[1] <= 0.1 * taken[1]
            taken, reused = step, reused + 1
        else:
            assert step[1] > 0.1 * taken[1]
            rejected += 1
    assert reused
    assert rejected
    assert mode.n_iter == len(steps) - rejected


@pytest.mark.parametrize("has_constant", [True, False])
def test_the_log_noise_begins_where_all_is_noise(has_constant):
    y, weight = np.array([10.0, 11.0, 15.0]), np.array([1.0, 2.0, 0.5])
    prior = DensePrior(np.eye(3))
    seen = ChangingNoise(None, prior, y, weight, has_constant, 0.25)
    spread = y - 12.0 if has_constant else y
    assert seen.starting_constants() == pytest.approx([0.5 * np.log((weight * spread**2).mean() + 0.25)])
    still = ChangingNoise(None, prior, np.full(3, 4.0), weight, True)
    assert still.starting_constants() == pytest.approx([0.5 * np.log(1e-300)])
    missed = ChangingNoise(None, prior, y, weight, has_constant, 0.25, np.array([0.0, 1.0, 2.0]))
    least = 0.25 + (2.0 * 1.0 + 0.5 * 2.0) / 3.0
    assert missed.starting_constants() == pytest.approx([0.5 * np.log((weight * spread**2).mean() + least)])


# -- relevance vectors


def test_functions_that_stand_for_each_other_do_not_leave_together():
    rng = np.random.default_rng(0)
    column = rng.normal(size=30)
    Phi = np.column_stack([column, column + 1e-3 * rng.normal(size=30)])
    Phi /= np.linalg.norm(Phi, axis=0)
    y = 5.0 * Phi[:, 0] + 0.1 * rng.normal(size=30)
    noise, start = ProfiledNoise(30), Active(FunctionValues(Phi, y), np.array([2500.0, 2500.0])).alone()
    settling = Settling(start, noise, 1e-10)
    assert not noise.belong(start).any()  # the model is better without either
    assert settling.remove(np.array([True, True]))
    assert len(settling.members.d) == 1
    assert noise.value(settling.members) <= noise.value(start)
    assert not settling.remove(np.array([True]))
    assert len(settling.kept) == 1


@pytest.mark.parametrize(
    ("slope", "leaves", "undetermined", "expected"),
    [
        (0.4, True, 0.5, ["remove", "newton"]),  # functions leave first, where the others have nearly settled
        (0.4, False, 0.5, ["newton"]),
        (0.6, True, 0.5, ["newton"]),
        (0.6, True, 0.9991, ["remove", "newton"]),  # nothing is left of it
        (0.6, True, 0.9989, ["newton"]),
        (0.6, False, 0.9991, ["newton"]),
        (1e-11, True, 0.5, ["remove"]),
        (1e-11, False, 0.5, []),
        (2e-10, True, 0.5, ["remove", "newton"]),
    ],
)
def test_functions_leave_once_the_others_have_nearly_settled(slope, leaves, undetermined, expected):
    calls = []

    class Watched(Settling):
        def gradient(self):
            return np.array([0.0, -slope])

        def remove(self, leaves):
            calls.append("remove")
            return False

        def newton_step(self, gradient, leaves):
            calls.append("newton")
            return True

    noise = SimpleNamespace(value=lambda members: 0.0, belong=lambda members: np.array([True, not leaves]))
    members = SimpleNamespace(d=np.ones(2), undetermined=np.array([0.1, undetermined]))
    assert Watched(members, noise, 1e-10).step() == ("newton" in expected)
    assert calls == expected


def test_functions_leave_where_newton_does_not_lead_on():
    class Stuck(Settling):
        def gradient(self):
            return np.array([0.9])

        def newton_step(self, gradient, leaves):
            return False

        def remove(self, leaves):
            return leaves.tolist() == [True]

    members = SimpleNamespace(d=np.ones(1), undetermined=np.array([0.1]))
    for belongs in (True, False):
        noise = SimpleNamespace(value=lambda members: 0.0, belong=lambda members, b=belongs: np.array([b]))
        assert Stuck(members, noise, 1e-10).step() != belongs


def test_functions_enter_for_too_little_noise_down_to_a_gain_of_one():
    """A function of gain e - 1 - log e; noise of the mean square 1 times a share of 1."""
    n = 50
    for gain, enters in ((0.97, False), (1.03, True), (1.9, True)):
        e = brentq(lambda e, gain=gain: e - 1.0 - np.log(e) - gain, 1.0, 20.0)
        y = np.append(np.sqrt(e), np.full(n - 1, np.sqrt((n - e) / (n - 1))))
        active = Active(FunctionValues(np.eye(n)[:, :1], y), np.zeros(1))
        assert sparse._overfill(active, TooLittleNoise(n, 1.0), 1e-6, 100) == int(enters)
        assert len(active.members) == int(enters)


def test_no_more_functions_enter_than_half_of_the_rows():
    n = 8
    active = Active(FunctionValues(np.eye(n), np.full(n, 9.0)), np.zeros(n))
    assert sparse._overfill(active, TooLittleNoise(n, 0.01), 1e-6, 100) == 4
    nothing = Active(FunctionValues(np.eye(n), np.zeros(n)), np.zeros(n))
    assert sparse._overfill(nothing, TooLittleNoise(n, 0.01), 1e-6, 100) == 0


def test_what_is_worthwhile_grows_with_the_rows_between_limits():
    assert [worthwhile(n) for n in (10, 2000, 10_000, 100_000)] == pytest.approx([0.1, 0.1, 0.5, 1.0])


@pytest.mark.parametrize("rise", [0.0, 5e-10, -1.0])
def test_rounds_of_classes_end_after_ten_without_a_larger_evidence(monkeypatch, rise):
    asked = set()

    def described(K, v, fit, n_iter):
        value = -5.0 + n_iter if n_iter <= 3 else -2.0 + rise * (n_iter - 3)
        return sparse_classes.LatentExpansion(None, None, None, 0.0, value, n_iter, False)

    monkeypatch.setattr(sparse_classes, "laplace", lambda *args, **kwargs: None)
    monkeypatch.setattr(sparse_classes, "_prior", lambda K, v: None)
    monkeypatch.setattr(sparse_classes, "_described", described)
    monkeypatch.setattr(sparse_classes, "_next", lambda K, v, fit, *args: asked.add(args))
    monkeypatch.setattr(sparse_classes, "_is_settled", lambda v, new: False)
    settings = {"has_constant": True, "tol": 1e-6, "max_iter": 40}
    end = sparse_classes.expand_latent(np.zeros((2, 2)), None, **settings)
    assert end.converged
    assert end.n_iter == 13  # three that were better, ten that were not
    assert asked == {(True, 1e-6)}
    assert end.log_evidence == pytest.approx(-2.0)
    few = sparse_classes.expand_latent(np.zeros((2, 2)), None, **settings | {"max_iter": 12})
    assert not few.converged


@pytest.mark.parametrize(
    ("v", "new", "expected"),
    [
        ([0.0, 2.0], [0.0, 2.0], True),
        ([0.0, 2.0], [0.0, 2.0 * (1.0 + 5e-10)], True),
        ([0.0, 2.0], [0.0, 2.0 * (1.0 - 1.5e-9)], False),
        ([0.0, 2.0], [1e-30, 2.0], False),
        ([1.0, 2.0], [0.0, 2.0], False),
    ],
)
def test_prior_variances_have_settled_where_none_changes(v, new, expected):
    with np.errstate(divide="raise"):
        assert sparse_classes._is_settled(np.array(v), np.array(new)) == expected


def test_known_noise_is_that_of_the_density_of_targets():
    rng = np.random.default_rng(0)
    Phi = np.linalg.qr(rng.normal(size=(12, 3)))[0]
    y, d, noise = rng.normal(size=12), np.array([2.0, 0.0, 0.5]), KnownNoise(0.3)
    active = Active(FunctionValues(Phi, y), d)
    C = np.eye(12) + (Phi * d) @ Phi.T
    expected = y @ np.linalg.solve(0.3 * C, y) + np.linalg.slogdet(C)[1]
    assert noise.value(active) == pytest.approx(expected)
    assert noise.variance(active) == 0.3


@pytest.mark.parametrize("share", [0.01, 0.5, 0.9])
@pytest.mark.parametrize("above", [True, False])
def test_active_functions_belong_where_what_they_explain_is_more_than_noise_does(share, above):
    """That is q^2/s > y'C^-1 y/n or v, with s, q and C without it. At d, u = 1/(1 + d s) and Q = u q."""
    n, rest, d, v = 20, 3.0, 0.7, 0.3
    s = (1.0 / share - 1.0) / d
    # rest = without - d q^2 u; at the limit without = n q^2/s
    q_profiled = np.sqrt(rest / (n / s - d * share))
    q_known = np.sqrt(v * s)
    for noise, q in ((ProfiledNoise(n), q_profiled), (KnownNoise(v), q_known)):
        pull = share * np.sqrt(d) * q * (1.0 + (1e-9 if above else -1e-9))
        both = np.array([share, 1.0]), np.array([-pull, 9.0])
        members = SimpleNamespace(undetermined=both[0], pull=both[1], rest=rest, yy=10.0)
        assert noise.belong(members).tolist() == [above, False]


# -- covariances


def complete(noise=0.5, signal=1.0, k=2, r=30):
    """Return the evidence of independent outputs with variances signal s + noise."""
    s = np.geomspace(1e-3, 9.0, r)
    Y = np.sqrt(noise + signal * s)[:, None] * np.random.default_rng(0).normal(size=(r, k))
    return _Complete(s, np.ones(r), Y)


@pytest.mark.parametrize("part", [0, 1])
def test_signal_and_noise_that_are_missing_come_back(part):
    model = complete()
    parts = [np.full(2, 0.5), np.full(2, 0.5)]
    parts[part] = np.array([0.0, 0.5])
    parts[1 - part] = 1.0 - parts[part]
    here = model.at(CovariancePair(np.eye(2), np.eye(2), *parts))
    counted = _Counted(model)
    there = _with_missing(counted, here)
    assert there.value < here.value
    assert there.pair.parts[part].min() > model.least[part]
    assert counted.n_evaluations >= 1
    whole = model.at(CovariancePair(np.eye(2), np.eye(2), *np.full((2, 2), 0.5)))
    assert _with_missing(_Counted(model), whole) is whole


@pytest.mark.parametrize("part", [0, 1])
def test_traces_of_signal_and_noise_are_set_to_0(part):
    model = complete(noise=float(1 - part), signal=float(part))
    parts = [np.full(2, 0.5), np.full(2, 0.5)]
    parts[part] = np.array([0.5 * model.least[part], 0.5])
    parts[1 - part] = 1.0 - parts[part]
    here = model.at(CovariancePair(np.eye(2), np.eye(2), *parts))
    counted = _Counted(model)
    there = _without_traces(counted, here)
    assert there.pair.parts[part][0] == 0.0
    assert there.pair.parts[part][1] == pytest.approx(0.5)
    assert counted.n_evaluations == 1
    assert _without_traces(counted, there) is there
    assert counted.n_evaluations == 1


def test_the_status_of_covariances():
    model = SimpleNamespace(least=(1e-3, 1e-6))

    def status(signal, noise, converged=True):
        point = SimpleNamespace(pair=SimpleNamespace(signal=np.array(signal), noise=np.array(noise)))
        return _status(model, point, converged)

    assert status([0.5, 0.5], [0.5, 0.5]) == "interior"
    assert status([0.5, 1e-3], [0.5, 1.0]) == "low_rank"
    assert status([0.5, 1.0], [0.5, 1e-6]) == "noise_free"
    assert status([1e-3, 1.0], [1.0, 1e-6]) == "noise_free"
    assert status([1e-3, 1.0], [1.0, 1e-6], converged=False) == "not_converged"


def test_curvatures_go_from_the_exact_one_to_one_that_is_never_negative():
    rng = np.random.default_rng(0)
    shown, expected = (A @ A.T for A in rng.normal(size=(2, 4, 4)))
    exact, *others, last = between(shown, expected)
    assert close(exact, 2.0 * shown - expected, 1e-14)
    np.testing.assert_array_equal(last, expected)
    before = exact
    for H in others:  # less and less of the expected one is taken off
        assert np.linalg.eigvalsh(H - before).min() > 0
        before = H
    assert close(others[-1], 2.0 * shown, 1e-14)


# -- posteriors and forms of variances


@pytest.mark.parametrize("nu", [1, 5, 40])
def test_intervals_of_variances_have_equal_tails_of_the_mixture(nu):
    """A scale times nu/chi2(nu) is inverse gamma."""
    scale, weight = np.array([0.5, 2.0, 30.0]), np.array([0.2, 0.7, 0.1])
    posterior = VariancePosterior(np.ones(3), weight, scale, 7.0 * scale, nu)
    for coverage in (0.5, 0.95):
        for interval, unit in ((posterior.noise_interval, 1.0), (posterior.signal_interval, 7.0)):
            reached = [
                weight @ invgamma(nu / 2, scale=nu * unit * scale / 2).cdf(v) for v in interval(coverage)
            ]
            assert reached == pytest.approx([0.5 - coverage / 2, 0.5 + coverage / 2], rel=1e-9)
    assert posterior.inflation == (np.inf if nu <= 2 else pytest.approx(nu / (nu - 2.0)))
    assert posterior.noise_interval() == posterior.noise_interval(0.95)
    assert posterior.signal_interval() == posterior.signal_interval(0.95)


def test_intervals_of_variances_that_nodes_hold_are_between_nodes():
    scale, weight = np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, 0.25)
    posterior = VariancePosterior(np.ones(4), weight, scale, 0.0 * scale, np.inf)
    assert posterior.noise_interval(0.6) == pytest.approx((1.0, 4.0), rel=1e-3)
    assert posterior.noise_interval(0.4) == pytest.approx((2.0, 3.0), rel=1e-3)
    assert posterior.signal_interval(0.9)[1] < 1e-300  # no signal has a variance of 0, to the smallest number
    assert posterior.inflation == 1.0


def test_posteriors_of_several_models_are_pooled_in_the_order_of_their_ratios():
    first = VariancePosterior(np.array([1.0, 3.0]), np.array([0.4, 0.6]), np.array([5.0, 6.0]), np.ones(2), 7)
    second = VariancePosterior(np.array([2.0]), np.ones(1), np.array([8.0]), np.array([9.0]), 7)
    both = pooled([first, second], [0.25, 0.75])
    assert both.noise_ratio.tolist() == [1.0, 2.0, 3.0]
    assert both.weight == pytest.approx([0.1, 0.75, 0.15])
    assert both.noise_variance.tolist() == [5.0, 8.0, 6.0]
    assert both.signal_variance.tolist() == [1.0, 9.0, 1.0]
    assert both.degrees_of_freedom == 7


def test_forms_of_variances_and_their_slopes():
    rng = np.random.default_rng(0)
    form = VarianceForm(2.0, np.array([0.5, 0.1, 0.3]), 0.7, rng.normal(size=(3, 2)))
    cross, prior = rng.normal(size=(3, 4)), np.full(4, 9.0)
    dense = np.diag(form.b) - form.T @ form.T.T
    assert form(cross, prior) == pytest.approx(18.0 - np.einsum("ri,rs,si->i", cross, dense, cross))
    by_prior, by_cross, by_leverage = form.slopes(cross, prior)
    assert by_prior.tolist() == [2.0] * 4
    assert by_leverage.tolist() == [0.7] * 4
    assert close(by_cross, -2.0 * dense @ cross, 1e-12)


def test_where_nothing_is_left_of_a_variance_it_has_no_slope():
    form = VarianceForm(1.0, np.ones(1), 0.5, np.zeros((1, 0)))
    cross, prior = np.array([[1.0, 1.0, 1.0]]), np.array([0.5, 1.0, 2.0])
    assert form(cross, prior).tolist() == [0.0, 0.0, 1.0]
    by_prior, by_cross, _ = form.slopes(cross, prior)
    assert by_prior.tolist() == [0.0, 0.0, 1.0]
    assert by_cross.tolist() == [[0.0, 0.0, -2.0]]


def test_the_mean_at_one_log_noise_is_kept_until_there_is_another():
    y = np.array([1.0, 2.0, 4.0])
    seen = ChangingNoise(None, DensePrior(np.eye(3)), y, np.ones(3), True)
    F = np.array([[0.1], [0.2], [0.3]])
    first = seen.mean_at(F)
    assert seen.mean_at(F.copy()) is first
    other = seen.mean_at(F + 1.0)
    assert other is not first
    assert pytest.approx(np.exp(2.0 * (F[:, 0] + 1.0))) == other.D
    assert pytest.approx(np.exp(2.0 * F[:, 0])) == seen.mean_at(F).D
    extreme = ChangingNoise(None, DensePrior(np.eye(3)), y, np.full(3, 2.0), True).mean_at(
        np.full((3, 1), 300.0)
    )
    assert pytest.approx(np.full(3, 0.5 * np.exp(500.0))) == extreme.D


# -- functions outside of the pool


def test_what_active_functions_leave_of_others():
    rng = np.random.default_rng(0)
    Phi, others = (A / np.linalg.norm(A, axis=0) for A in (rng.normal(size=(9, 4)), rng.normal(size=(9, 2))))
    y, d = rng.normal(size=9), np.array([2.0, 0.0, 0.5, 3.0])
    active, a = Active(FunctionValues(Phi, y), d), [0, 2, 3]
    C_inv = np.linalg.inv(np.eye(9) + (Phi * d) @ Phi.T)
    here, values = rng.normal(size=(2, 3)), rng.normal(size=2)
    S, left = active.with_function(others, here, values)
    assert close(S, np.diag(others.T @ C_inv @ others), 1e-10)
    predicted = np.einsum("kj,jk->k", here, d[a][:, None] * (Phi[:, a].T @ C_inv @ others))
    assert close(left, values - predicted, 1e-10)
    S, Q = active.of_others(others)
    assert close(S, np.diag(others.T @ C_inv @ others), 1e-10)
    assert close(Q, others.T @ C_inv @ y, 1e-10)
    assert close(active.S[[1]], np.diag(Phi.T @ C_inv @ Phi)[[1]], 1e-10)
    assert close(active.Q[[1]], (Phi.T @ C_inv @ y)[[1]], 1e-10)
    assert active.rest == pytest.approx(y @ C_inv @ y)
    assert active.log_det == pytest.approx(-np.linalg.slogdet(C_inv)[1])
    s, q, rest = active.alone().left_out()
    for k, i in enumerate(a):
        less = np.where(np.arange(4) == i, 0.0, d)
        inverse = np.linalg.inv(np.eye(9) + (Phi * less) @ Phi.T)
        expected = Phi[:, i] @ inverse @ Phi[:, i], Phi[:, i] @ inverse @ y, y @ inverse @ y
        assert (s[k], q[k], rest[k]) == pytest.approx(expected)
    covariance = np.linalg.inv(Phi[:, a].T @ Phi[:, a] + np.diag(1.0 / d[a]))
    root = active.covariance_root()
    assert close(root @ root.T, covariance, 1e-10)
    assert close(active.coefficients(), covariance @ Phi[:, a].T @ y, 1e-10)


def test_functions_join_by_their_gain_and_others_by_their_relevance(monkeypatch):
    monkeypatch.setattr(candidates, "_BLOCK", 4)
    monkeypatch.setattr(candidates, "_JOIN", 5)
    little = 0.3
    gains = np.array([9.0, 0.2, 0.4, 0.5, 3.0, 0.0, 0.0, 0.0, 0.0, 0.31])
    relevance = np.array([9.0, 2.0, 1.0, 1.5, 3.0, 0.9, 0.1, 0.95, 0.2, 1.0 + 1e-3])

    class Functions:
        X = np.zeros((50, 1))

        def __len__(self):
            return 10

        def columns(self, chosen):
            return chosen, None

    class Noise:
        def outlook(self, active, s, q, rest, d):
            return SimpleNamespace(gain=active.share * gains[s], relevance=active.share * relevance[s])

    def model(share, functions):
        active = SimpleNamespace(of_others=lambda K: (K, K), rest=None, share=share)
        return SimpleNamespace(active=active, functions=np.array(functions, dtype=int))

    # 0 is in the model; 1 gains too little, 2 is not relevant enough
    joining, n_missing = candidates._joining(Functions(), [model(1.0, [0])], Noise(), 1e-6)
    assert n_missing == 3
    assert joining.tolist() == [4, 3, 9, 1, 2]
    assert gains[9] > little
    # the larger of several models counts, and what is in any of them
    both, n_missing = candidates._joining(Functions(), [model(1.0, [0]), model(0.5, [4])], Noise(), 1e-6)
    assert (both[:2].tolist(), n_missing) == ([3, 9], 2)
    none, n_missing = candidates._joining(Functions(), [model(0.1, [0])], Noise(), 1e-6)
    assert (len(none), n_missing) == (0, 0)
    _, n_missing = candidates._joining(Functions(), [model(1.0, [0])], Noise(), 1e-2)
    assert n_missing == 2
    for n_rows, share, expected in ((4500, 1.0, 2), (10_000, 1.0, 1), (99_000, 0.7, 1), (99_000, 0.6, 0)):
        Functions.X = np.zeros((n_rows, 1))  # a ten-thousandth of the rows, up to 2, is little
        assert candidates._joining(Functions(), [model(share, [0])], Noise(), 1e-6)[1] == expected


# -- steps of relevance vectors


def ascent_of(Phi, y, d, noise=None, **settings):
    active = Active(FunctionValues(np.asarray(Phi, dtype=float), np.asarray(y, dtype=float)), d)
    return Ascent(active, ProfiledNoise(len(y)) if noise is None else noise, 0.1, 100, **settings)


@pytest.mark.parametrize(
    ("relevance", "gain", "is_missing"), [(1.05, 9.0, False), (1.2, 0.5, False), (1.2, 0.6, True)]
)
def test_a_function_is_missing_that_is_relevant_and_gains(relevance, gain, is_missing):
    ascent = ascent_of(np.eye(5), [1.0, 2.0, 7.0, 9.0, 3.0], np.array([0.0, 0.0, 0.0, 4.0, 0.0]), least=0.5)

    def prospect(active, S, Q):
        assert (S, Q, active.rest) == (1.0, 7.0, ascent.active.rest)  # those of the best of the others
        return SimpleNamespace(relevance=relevance, gain=gain, d=3.0)

    ascent.noise = SimpleNamespace(prospect=prospect)
    assert ascent._most_missing() == ((2, 3.0, gain) if is_missing else None)
    nothing = ascent_of(np.ones((2, 0)), np.ones(2), np.zeros(0))
    assert nothing._most_missing() is None


@pytest.mark.parametrize(("gain", "expected"), [(0.1001, "several"), (0.0999, "one")])
def test_several_functions_enter_where_one_is_worthwhile(gain, expected):
    ascent, calls = ascent_of(np.eye(3), np.ones(3), np.zeros(3)), []
    ascent.add, ascent._let_in = lambda least: calls.append("several"), lambda j, d: calls.append("one")
    ascent._take_in(1, 2.0, gain)
    assert calls == [expected]


def test_active_functions_are_no_others():
    assert ascent_of(np.eye(3), [5.0, 4.0, 0.1], np.array([0.5, 0.0, 0.0]))._most_missing()[0] == 1


def settling_of(Phi, y, d, noise=None):
    active = Active(FunctionValues(np.asarray(Phi, dtype=float), np.asarray(y, dtype=float)), d)
    return Settling(active.alone(), ProfiledNoise(len(y)) if noise is None else noise, 1e-10)


def test_functions_that_left_are_told_by_their_positions_at_the_start():
    settling = settling_of(np.eye(5)[:, :4], [5.0, 0.0, 4.0, 0.0, 1.0], np.full(4, 2.0))
    assert settling.remove(np.array([False, True, False, False]))
    assert settling.kept.tolist() == [0, 2, 3]
    assert settling.remove(np.array([False, False, True]))
    assert settling.kept.tolist() == [0, 2]
    assert settling.members.pull == pytest.approx(
        settling_of(np.eye(5)[:, [0, 2]], [5.0, 0, 4.0, 0, 1.0], np.full(2, 2.0)).members.pull
    )


def test_functions_that_should_leave_shrink_as_fast_as_they_may():
    """While the slope is large: here 1 - 1/(1 + 9), of a function that explains nothing."""
    settling = settling_of(np.eye(3)[:, :1], [0.0, 1.0, 1.0], np.array([9.0]))
    assert settling.gradient() == pytest.approx([0.9])
    assert settling.newton_step(settling.gradient(), np.array([True]))
    assert settling.members.d == pytest.approx([9.0 * np.exp(-3.0)])
    slow = settling_of(np.eye(3)[:, :1], [0.0, 1.0, 1.0], np.array([0.5]))
    assert slow.gradient() == pytest.approx([1.0 / 3.0])  # no larger than a half: Newton's own step
    assert slow.newton_step(slow.gradient(), np.array([True]))
    assert slow.members.d[0] != pytest.approx(0.5 * np.exp(-3.0))


def test_steps_lead_down_where_cutting_their_entries_would_lead_up():
    directions = iter([np.array([60.0, 2.0]), np.array([0.2, -0.1])])
    members = SimpleNamespace(tried=[], scaled=lambda x: members.tried.append(x))
    noise = SimpleNamespace(value=lambda members: 5.0)
    settling = Settling(SimpleNamespace(d=np.ones(2)), noise, 1e-10)
    settling.members, settling.direction = members, lambda gradient, largest: next(directions)
    gradient = np.array([-0.01, 0.2])  # cut to (3, 2) the first direction would go up
    assert not settling.newton_step(gradient, np.zeros(2, dtype=bool))
    assert close(members.tried[0], [3.0, 0.1], 1e-12)
    members.tried.clear()
    assert not settling.newton_step(gradient, np.zeros(2, dtype=bool))
    assert close(members.tried[0], [0.2, -0.1], 1e-12)
    assert close(members.tried[1], [0.1, -0.05], 1e-12)


def settled(value, there, slope_there=0.0):
    """Return a `Settling` that has a value, and the model beside it with another value and slope."""
    beside = SimpleNamespace(
        value=there, pull=np.zeros(2), undetermined=np.full(2, 1.0 - slope_there), turn="to there"
    )
    members = SimpleNamespace(value=value, d=np.ones(2), without=lambda leave: beside)
    noise = SimpleNamespace(value=lambda members: members.value, slope=lambda members: 1.0)
    return Settling(members, noise, 1e-10), beside


@pytest.mark.parametrize("value", [-50.0, 0.5, 3.0])
def test_functions_leave_where_the_evidence_falls_by_rounding_alone(value):
    rounding = 1e-13 * max(abs(value), 1.0)
    for change, is_gone in ((-1.0, True), (0.9 * rounding, True), (1.1 * rounding, False)):
        settling, beside = settled(value, value + change)
        assert settling._removed(np.array([True, False])) == is_gone
        assert (settling.members is beside) == is_gone
        assert settling.value == value + change * is_gone
        assert settling.kept.tolist() == ([1] if is_gone else [0, 1])
        assert settling.turns == (["to there"] if is_gone else [])


@pytest.mark.parametrize(
    ("change", "slope", "expected"),
    [
        (-1.1, 9.0, True),  # lower by more than rounding, whatever the slope
        (-1.0, 9.0, False),
        (-0.9, 0.89, True),
        (-0.9, 0.91, False),
        (0.9, -0.89, True),
        (0.9, -0.91, False),
        (1.1, 0.0, False),
    ],
)
def test_a_step_within_rounding_must_make_the_slope_smaller_by_a_tenth(change, slope, expected):
    settling, beside = settled(2.0, 2.0 + 2.0**-30 * change, slope)
    assert settling._moved(beside, 2.0**-30, 1.0) == expected
    assert (settling.members is beside) == (settling.value != 2.0) == expected
    assert settling.turns == (["to there"] if expected else [])
    settling, beside = settled(2.0, 2.0 + 2.0**-30 * change, 2.0 * slope)
    assert settling._moved(beside, 2.0**-30, 2.0) == expected


@pytest.mark.parametrize(("slope", "n_tried"), [(1.1e-13, 12), (0.9e-13, 1)])
def test_steps_that_promise_less_than_rounding_are_tried_once(slope, n_tried):
    tried = []
    settling, _ = settled(0.5, 0.5)
    settling.direction = lambda gradient, largest: np.array([-1.0, 0.0])
    settling.members.scaled = tried.append
    assert not settling.newton_step(np.array([slope, 0.0]), np.zeros(2, dtype=bool))
    assert close([step[0] for step in tried], -(0.5 ** np.arange(n_tried)), 1e-15)


def test_curvatures_by_logs_of_prior_variances_are_differences():
    rng = np.random.default_rng(0)
    Phi, y, d = rng.normal(size=(12, 3)), rng.normal(size=12), np.array([0.5, 2.0, 1.0])
    for noise in (ProfiledNoise(12), KnownNoise(0.3)):

        def slopes(log_d, noise=noise):
            return settling_of(Phi, y, np.exp(log_d), noise).gradient()

        steps = 1e-5 * np.eye(3)
        H = [(slopes(np.log(d) + e) - slopes(np.log(d) - e)) / 2e-5 for e in steps]
        here = settling_of(Phi, y, d, noise)
        V = here.members.among()
        assert close(here.curvature(here.gradient(), V, V**2), H, 1e-7)
        C_inv = np.linalg.inv(np.eye(12) + (Phi * d) @ Phi.T)
        root = np.sqrt(d)
        assert close(V, root[:, None] * (Phi.T @ C_inv @ Phi) * root, 1e-8)


@pytest.mark.parametrize(("least", "to_compare"), [(0.01, 0.5), (0.49, 0.5), (0.9, 0.9)])
def test_ends_are_compared_without_functions_that_gain_little(monkeypatch, least, to_compare):
    asked = []

    def best_end(values, noise, tol, max_iter, least):
        asked.append((values, noise, tol, max_iter, least))
        return "active", [3.0, 2.0], 7

    class Climbed:
        def __init__(self, *args):
            asked.append(args)

        def run(self):
            return "fit"

    monkeypatch.setattr(sparse, "_best_end", best_end)
    monkeypatch.setattr(sparse, "Ascent", Climbed)
    trace = [9.0]
    assert sparse.maximise("values", "noise", tol=1e-3, max_iter=50, trace=trace, least=least) == "fit"
    assert asked[0] == ("values", "noise", 1e-3, 50, to_compare)
    assert asked[1] == ("active", "noise", 1e-3, 50, [3.0, 2.0], least, 7)
    assert trace == [9.0, 3.0, 2.0]


@pytest.mark.parametrize("values", [(5.0, 3.0), (3.0, 5.0)])
def test_the_better_of_both_ends_is_taken(monkeypatch, values):
    runs = []

    class Climbed:
        def __init__(self, active, noise, tol, max_iter, steps, least, n_steps):
            runs.append((active.d.copy(), n_steps))
            active.d[0] += 1.0
            steps.append(values[len(runs) - 1])

        def run(self):
            return SimpleNamespace(value=values[len(runs) - 1], n_steps=10 * len(runs))

    overfilled = []
    monkeypatch.setattr(sparse, "Ascent", Climbed)
    rooms = []

    def overfill(active, noise, tol, max_iter):
        overfilled.append(noise.share)
        rooms.append(max_iter)
        return 1

    monkeypatch.setattr(sparse, "_overfill", overfill)
    active, steps, n_steps = sparse._best_end(
        FunctionValues(np.eye(2), np.ones(2)), ProfiledNoise(2), 0, 9, 0.5
    )
    assert overfilled == [0.3, 0.1]
    assert [n for _, n in runs] == [1, 11]  # one function entered before each
    assert rooms == [9, -1]  # steps that are left
    assert runs[0][0].tolist() == [0.0, 0.0]
    assert active.d.tolist() == [2.0 if values[1] < values[0] else 1.0, 0.0]
    assert steps == [min(values)]
    assert n_steps == 20


@pytest.mark.parametrize(
    ("least", "looks", "max_iter", "expected", "done"),
    [
        (0.0, [None, None], 9, True, ["polish"]),
        (0.0, [3, None, 3, None, None], 9, True, ["take", "rough", "polish", "take", "fine", "polish"]),
        (0.0, [3], 1, False, ["take", "rough"]),
        (0.5, [3, None], 9, True, ["take", "rough"]),  # near the maximum is near enough
    ],
)
def test_functions_are_taken_in_until_none_is_missing_from_a_model_afresh(
    least, looks, max_iter, expected, done
):
    ascent, calls, missing = ascent_of(np.eye(4), np.ones(4), np.zeros(4), least=least), [], iter(looks)
    ascent.max_iter, ascent._most_missing = max_iter, lambda: next(missing) and (3, 1.0, 9.0)
    ascent.active.carry_on(ascent.active.members, ascent.active.alone(), np.zeros((0, 4)))

    def take_in(j, d, gain):
        calls.append("take")
        ascent.active.carry_on(ascent.active.members, ascent.active.alone(), np.zeros((0, 4)))
        ascent.n_steps += 1

    def polish():
        calls.append("polish")
        ascent.active.refresh()

    ascent._take_in, ascent._polish = take_in, polish
    ascent.settle = lambda stationary: calls.append({1e-2: "rough", 1e-10: "fine"}[stationary])
    assert ascent._climb() == expected
    assert calls == done
    assert next(missing, "all were looked at") == "all were looked at"


# -- steps of covariances


def scorings(values, steps=20):
    """Return points with given values, each of which has a step to the next, and what the steps left."""
    asked, values = [], iter(values)

    class Point:
        def __init__(self):
            self.value = next(values)
            self.pair = SimpleNamespace(noise=np.array([0.5, 0.2]), shifted=self._shifted)

        def _shifted(self, G, E, least):
            asked.append((G, E, least))

        def scoring_step(self):
            return ("G", "E") if len(asked) < steps else None

    return SimpleNamespace(at=lambda pair: Point()), Point(), asked


@pytest.mark.parametrize(
    ("values", "end", "n_steps"),
    [
        ([100.0, 80.0, 69.0, 60.0, 1.0], 60.0, 3),  # gains of 20, 11 and 9: the last brings little
        ([100.0, 110.0, 50.0], 100.0, 1),
        ([100.0, 90.0, 50.0], 90.0, 1),
        ([100.0, np.nan, 50.0], 100.0, 1),
        (1000.0 - 11.0 * np.arange(15), 1000.0 - 110.0, 10),
    ],
)
def test_scoring_goes_on_while_it_brings_much(values, end, n_steps):
    model, start, asked = scorings(values)
    assert covariances._scored(model, start).value == end
    assert len(asked) == n_steps
    assert asked[0][:2] == ("G", "E")
    assert asked[0][2] == pytest.approx((1e-3, 0.02))


def test_scoring_ends_where_there_is_no_step():
    model, start, asked = scorings(100.0 - 20.0 * np.arange(9), steps=2)
    assert covariances._scored(model, start).value == 60.0
    assert len(asked) == 2


def newton(monkeypatch, gradient, *curvatures):
    monkeypatch.setattr(covariances, "_curvatures", lambda chart, point: ((H, None) for H in curvatures))
    chart = SimpleNamespace(gradient=np.array(gradient), curvature=lambda base, bend: base.copy())
    return covariances._newton_step(chart, None)


def test_steps_use_the_first_curvature_that_is_positive(monkeypatch):
    bowl, saddle = np.array([[4.0, 1.0], [1.0, 2.0]]), np.diag([1.0, -1.0])
    gradient = np.array([0.3, -0.2])
    expected = -np.linalg.solve(bowl, gradient)
    for curvatures in ((bowl, np.eye(2)), (saddle, bowl, np.eye(2))):
        step, promised = newton(monkeypatch, gradient, *curvatures)
        assert step == pytest.approx(expected)
        assert promised == pytest.approx(-0.5 * gradient @ expected)
    step, promised = newton(monkeypatch, gradient, saddle)
    assert step == pytest.approx(
        np.array([-0.3, 0.2]) / np.hypot(0.3, 0.2) * 0.7 / (0.3 / np.hypot(0.3, 0.2))
    )
    assert promised == pytest.approx(-0.5 * gradient @ step)
    step, _ = newton(monkeypatch, [10.0, -5.0], np.eye(2))
    assert step == pytest.approx([-0.7, 0.35])
    short, _ = newton(monkeypatch, [0.6, -0.3], np.eye(2))
    assert short == pytest.approx([-0.6, 0.3])


def test_the_positive_part_of_a_slope():
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    M = (Q * [-2.0, 1.0, 3.0]) @ Q.T
    assert close(covariances._positive_part(M), (Q * [0.0, 1.0, 3.0]) @ Q.T, 1e-12)


@pytest.mark.parametrize(
    ("values", "n_looks"),
    [
        ([0.9], 1),
        ([1.0 - 0.5e-4, 0.9], 2),
        ([np.nan, np.inf, 0.9], 3),
        ([1.0] * 19 + [0.5], 20),
        ([2.0] * 30, None),
    ],
)
def test_line_searches_ask_for_a_share_of_the_promise(values, n_looks):
    looks, values = [], iter(values)

    def at(pair):
        looks.append(pair)
        return SimpleNamespace(value=next(values))

    here = SimpleNamespace(value=1.0, pair=SimpleNamespace(moved=lambda T, S: (T, S)))
    chart = SimpleNamespace(split=lambda step: (step, 2.0 * step))
    end = covariances._line_search(SimpleNamespace(at=at), here, chart, 1.0, 1.0)
    assert (end is None) == (n_looks is None)
    assert len(looks) == (n_looks or 20)
    for k, (T, S) in enumerate(looks):
        assert pytest.approx((0.4**k, 2.0 * 0.4**k)) == (T, S)


@pytest.mark.parametrize(("n_worse", "is_found"), [(0, True), (2, True), (20, False)])
def test_what_is_missing_is_tried_by_quarters(n_worse, is_found):
    tried = []

    def given(part, empty, Q, variance):
        tried.append(variance)
        return part, empty.tolist()

    class Model:
        def at(self, pair):
            assert pair == (1, [0, 2])
            return SimpleNamespace(value=5.0 if len(tried) <= n_worse else 4.0)

    slopes = np.diag([-3.0, 99.0, 2.0])
    here = SimpleNamespace(
        value=5.0,
        pair=SimpleNamespace(given=given),
        slopes=lambda: (None, slopes),
        flatness=lambda: (None, np.array([1.0, 7.0, 2.0])),
    )
    there = covariances._with_missing_part(Model(), here, 1, np.array([0, 2]))
    assert (there is not here) == is_found
    assert len(tried) == min(n_worse + 1, 20)
    for k, variance in enumerate(tried):  # 3 over the largest bound of curvatures, of at most 1
        assert variance == pytest.approx([min(1.5 * 0.25**k, 1.0), 0.0], rel=1e-6, abs=0.0)


def test_nothing_is_tried_where_nothing_is_missing():
    here = SimpleNamespace(
        slopes=lambda: (np.diag([1.0, 1e-11]), None), flatness=lambda: (np.ones(2), None), value=1.0
    )
    assert covariances._with_missing_part(None, here, 0, np.array([0, 1])) is here


def test_what_is_not_determined_has_infinite_errors():
    unknown = covariances.Information(np.eye(2), Units(0.1, 2.0))
    assert unknown.covariance is None
    np.testing.assert_array_equal(unknown.standard_errors(np.zeros((3, 2, 2)), 0), [np.inf] * 3)


# -- more of modes


def small_problem(has_constant=True):
    x = np.linspace(0.0, 4.0, 12)
    prior = DensePrior(np.exp(-0.5 * (x[:, None] - x) ** 2), 2.0)
    seen = observe(Bernoulli(), (np.cos(x) > 0).astype(float))
    return modes._Problem(prior, seen, seen.H if has_constant else seen.H[:, :0])


@pytest.mark.parametrize("has_constant", [True, False])
def test_the_decrement_of_a_step_is_what_psi_gains_at_first(has_constant):
    problem = small_problem(has_constant)
    start = problem.start(None)
    A = 0.1 * np.random.default_rng(0).normal(size=start.A.shape)
    here = problem.at(A, problem.prior.times(A), start.constants)
    newton = modes._Newton(problem, problem.observations.curved(problem.prior, here.F))
    step = newton.step(here)

    def psi(t):
        return problem.at(
            here.A + t * step.dA, here.KA + t * step.K_dA, here.constants + t * step.constants
        ).psi

    assert step.decrement == pytest.approx((psi(1e-5) - psi(-1e-5)) / 2e-5, rel=1e-6)
    assert close(step.K_dA, problem.prior.times(step.dA), 1e-10)


def test_modes_are_followed_from_wide_noise(monkeypatch):
    found, widths = [], []

    def follow(prior, seen, *, has_constant, start, max_iter):
        found.append((seen, has_constant, start, max_iter))
        return len(found)

    class Seen:
        likelihood = SimpleNamespace(in_units=lambda unit: widths.append(unit) or unit)

        def starting_constants(self):
            return np.array([3.0])

        def under(self, likelihood):
            return likelihood

    monkeypatch.setattr(modes, "find_mode", follow)
    assert modes._annealed(np.zeros(5), Seen(), True, 17) == 3
    assert widths == [1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0]
    assert [seen for seen, *_ in found] == widths
    assert [(constant, most) for _, constant, _, most in found] == [(True, 17)] * 3
    first = found[0][2]
    assert first.constants.tolist() == [3.0]
    assert first.F.shape == (5, 1)
    assert [start for *_, start, _ in found[1:]] == [1, 2]
    found.clear()
    modes._annealed(np.zeros(5), Seen(), False, 17)
    assert found[0][2].constants.tolist() == [0.0]


@pytest.mark.parametrize(
    ("concave", "last", "is_near"),
    [(True, np.inf, True), (False, np.inf, False), (False, 1.0, False), (False, 0.9, True)],
)
@pytest.mark.parametrize("decrement", [0.1, 0.3])
def test_cheap_curvatures_do_far_from_the_mode_and_where_they_help(
    monkeypatch, concave, last, is_near, decrement
):
    made = []

    class Stepping:
        def __init__(self, problem, curved, is_exact=True):
            self.name, self.is_exact = curved, is_exact
            made.append(curved)

        def step(self, mode):
            return SimpleNamespace(decrement=decrement)

    seen = SimpleNamespace(
        likelihood=SimpleNamespace(is_log_concave=concave),
        lumped_curved=lambda prior, F, is_near: ("lumped", is_near),
        curved=lambda prior, F: "exact",
        step_curved=lambda prior, F: "expected",
    )
    monkeypatch.setattr(modes, "_Newton", Stepping)
    problem = SimpleNamespace(observations=seen, prior=None)
    newton, step = modes._fresh_steps(problem, SimpleNamespace(F=None), last)
    assert made[0] == ("lumped", is_near)
    is_enough = not is_near or decrement <= 0.25 * last
    assert newton.name == (("lumped", is_near) if is_enough else "exact")
    assert newton.is_exact != is_enough
    assert step.decrement == decrement
    made.clear()
    seen.lumped_curved = lambda prior, F, is_near: None
    assert modes._fresh_steps(problem, SimpleNamespace(F=None), last)[0].name == (
        "exact" if is_near else "expected"
    )


# -- rows left out, and coefficients of means


def test_a_row_that_alone_determines_the_constant_is_not_predicted():
    mean = SimpleNamespace(
        shares=np.array([0.5, 0.0]), D=np.array([2.0, 1.0]), a=np.array([3.0, 4.0]), y=np.array([10.0, 20.0])
    )
    predicted, variance = WeightedMean.leave_one_out(mean)
    assert predicted.tolist() == [10.0 - 3.0 / 0.25, 20.0]
    assert variance.tolist() == [4.0, np.inf]


@pytest.mark.parametrize(("freedom", "dof"), [(0, 1), (1, 1), (2, 2), (9, 9)])
def test_coefficients_are_tested_by_student_t_of_their_degrees_of_freedom(freedom, dof):
    summary = MeanSummary(("1", "x"), np.array([0.0, -3.0]), np.diag([0.0, 4.0]), freedom)
    assert summary.t_values.tolist() == [0.0, -1.5]
    assert summary.p_values == pytest.approx([1.0, 2.0 * t(dof).cdf(-1.5)])


def test_the_largest_curvature_of_a_row_is_that_of_the_logistic_density():
    """p (1 - p) times the weight, p at the latent values with what is added to them."""
    F, weight = np.array([[0.0], [-2.0], [3.0]]), np.array([1.0, 4.0, 2.0])
    for offset in (0.0, np.array([1.5])):
        seen = Observations(Bernoulli(), np.array([1.0, 0.0, 1.0]), weight, offset)
        p = 1.0 / (1.0 + np.exp(-(F[:, 0] + offset)))
        assert seen.largest_step_curvature(F) == pytest.approx((weight * p * (1.0 - p)).max())
        assert seen.shifted(F) == pytest.approx(F[:, 0] + offset)


# -- least absolute deviations


@pytest.mark.parametrize("q", [0, 1, 2])
@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_least_absolute_deviations_are_a_minimum_in_every_unit(q, penalty):
    """In each coefficient alone the cost is convex and broken at few points: none of these is better."""
    rng = np.random.default_rng(0)
    Phi, y, basis = rng.normal(size=(12, 3)), rng.normal(size=12), rng.normal(size=(12, q)) + 1.0
    F, size = np.hstack([Phi, basis]), np.append(np.full(3, penalty), np.zeros(q))
    theta, beta = least_absolute(Phi, y, penalty, basis)
    assert (theta.shape, beta.shape) == ((3,), (q,))
    x = np.append(theta, beta)

    def cost(x):
        return np.abs(y - F @ x).sum() + size @ np.abs(x)

    # an extreme point of the program: as many residuals and coefficients of 0 as unknowns
    zeros = (np.abs(y - F @ x) < 1e-9).sum() + (np.abs(theta) < 1e-9).sum() * (penalty > 0)
    assert zeros >= 3 + q
    for move in rng.normal(size=(300, 3 + q)) * np.geomspace(1e-4, 1.0, 300)[:, None]:
        assert cost(x + move) >= cost(x) - 1e-9
    larger = least_absolute(Phi, 8.0 * y, penalty, basis)
    assert np.append(*larger) == pytest.approx(8.0 * x, abs=1e-9)


def test_a_large_penalty_leaves_the_median():
    y = np.array([1.0, 7.0, -3.0, 2.0, 40.0])
    theta, beta = least_absolute(np.eye(5), y, 1.5, np.ones((5, 1)))
    np.testing.assert_array_equal(theta, np.zeros(5))
    assert beta == pytest.approx([2.0])
