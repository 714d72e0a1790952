"""Scans of one parameter on few rows, beside dense profiles of the evidence."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import null_space
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from skspectral import IndefiniteKernelError, SpectralGPRegressor
from skspectral.criteria import CRITERIA
from skspectral.decomposition.data import Data
from skspectral.learning import scan as scan_module
from skspectral.learning.scan import scan
from skspectral.learning.task import Task
from skspectral.linalg.rows import Rows
from skspectral.linalg.stack import evidence_terms_of_stack
from skspectral.support.exceptions import NonFiniteKernelError


class TooClose(RBF):
    """Three times a kernel beside a diagonal of 1, which is none."""

    def __call__(self, X, Y=None, eval_gradient=False):
        if not eval_gradient:
            K = 3.0 * super().__call__(X, Y)
            return K if Y is not None else K - 2.0 * np.eye(len(X))
        K, slopes = super().__call__(X, eval_gradient=True)
        return 3.0 * K - 2.0 * np.eye(len(X)), 3.0 * slopes


WIDE, RATIOS = (-20.0, 20.0), (-8.0, 4.0)


def waves(n, seed=0, noise=0.1):
    """A slow and a fast wave: two lengths explain something."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (n, 1))
    return X, np.sin(0.5 * X[:, 0]) + 0.5 * np.sin(9.0 * X[:, 0]) + noise * rng.normal(size=n)


def task_of(X, y, kernel=None, weight=None, intercept=False, prior=None):
    data = Data.with_intercept(X, y[:, None], weight, intercept)
    return Task(data, RBF(1.0) if kernel is None else kernel, CRITERIA["evidence"], theta_prior=prior)


def dense_profile(X, y, theta, x):
    """-2 log evidence of standardised targets at each x, less that of noise alone."""
    n, z = len(y), y / np.sqrt((y**2).mean())
    values = []
    for g in np.exp(x):
        V = RBF(np.exp(theta))(X) + g * np.eye(n)
        values.append(n * np.log(g * (z @ np.linalg.solve(V, z)) / n) + np.linalg.slogdet(V / g)[1])
    return np.array(values)


def test_a_scan_proposes_the_minima_of_the_dense_profile():
    X, y = waves(48)  # as many as a scan has
    thetas, x = np.log(4.0) * np.arange(-3, 4), np.linspace(*RATIOS, 13)
    f = np.array([dense_profile(X, y, theta, x) for theta in thetas])
    around = np.pad(f, 1, constant_values=np.inf)
    low = [(k, j) for k, j in np.ndindex(f.shape) if f[k, j] == around[k : k + 3, j : j + 3].min()]
    low = sorted((cell for cell in low if f[cell] < 0.75 * f.min()), key=lambda cell: f[cell])
    assert len(low) > 1  # both waves are seen
    found = scan(task_of(X, y), np.zeros(1), WIDE, RATIOS)
    assert found.n_matrices == 7
    expected = [[thetas[k], x[j]] for k, j in low[:3]]
    assert np.array(found.points) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_profiles_are_those_of_dense_matrices_and_of_the_prior(intercept, weighted):
    """n log(z'V^-1 z / n) + log|V|, V = K + g I outside of the mean, less that of noise alone."""
    X, y = waves(12)
    weight = np.random.default_rng(3).uniform(0.2, 3.0, 12) if weighted else None
    task = task_of(X, y, weight=weight, intercept=intercept, prior=lambda theta: (5.0 + theta[0], theta))
    thetas, x = np.array([-1.0, 0.5]), np.array([-3.0, 0.0, 2.0])
    kept, found = scan_module._profiles(task, thetas, x)
    assert kept.tolist() == thetas.tolist()
    root = np.ones(12) if weight is None else np.sqrt(weight)
    A = null_space(root[None]) if intercept else np.eye(12)
    z = A.T @ (root * y)
    z, n = z / np.sqrt((z**2).mean()), len(z)
    for theta, of_theta in zip(thetas, found, strict=True):
        K = A.T @ (np.outer(root, root) * RBF(np.exp(theta))(X)) @ A
        V = [np.eye(n) + K / g for g in np.exp(x)]
        f = [n * np.log(z @ np.linalg.solve(each, z) / n) + np.linalg.slogdet(each)[1] for each in V]
        assert of_theta == pytest.approx(np.array(f) + 5.0 + theta)


def test_values_at_which_a_kernel_is_no_number_are_left_out():
    X, y = waves(12)
    thetas, x = np.array([0.0, 800.0, 1.0]), np.array([-1.0, 1.0])
    task = task_of(X, y, DotProduct(1.0))
    kept, found = scan_module._profiles(task, thetas, x)
    assert kept.tolist() == [0.0, 1.0]
    assert found == pytest.approx(scan_module._profiles(task, kept, x)[1])


@pytest.mark.parametrize(
    ("high", "step", "n_ratios"), [(4.0, 1.0, 13), (4.2, 1.0, 14), (3.2, 1.0, 13), (4.2, 0.5, 26)]
)
def test_noise_ratios_are_no_farther_apart_than_a_step(monkeypatch, high, step, n_ratios):
    monkeypatch.setattr(scan_module, "_RATIO_STEP", step)
    asked = []

    def profiles(task, thetas, x):
        asked.extend([thetas, x])
        return thetas, np.zeros((len(thetas), len(x)))

    monkeypatch.setattr(scan_module, "_profiles", profiles)
    scan(task_of(*waves(12)), np.array([0.5]), (-2.0, 20.0), (-8.0, high))
    thetas, x = asked
    assert x == pytest.approx(np.linspace(-8.0, high, n_ratios))
    # factors of four on both sides, up to the bounds
    assert thetas == pytest.approx([-2.0, *0.5 + np.log([0.25, 1.0, 4.0, 16.0, 64.0])])


def test_many_rows_are_scanned_by_few_of_them(monkeypatch):
    scanned, profiles = [], scan_module._profiles
    monkeypatch.setattr(
        scan_module, "_profiles", lambda task, *where: scanned.append(len(task)) or profiles(task, *where)
    )
    for n in (47, 48, 49, 200):
        scan(task_of(*waves(n)), np.zeros(1), WIDE, RATIOS)
    assert scanned == [47, 48, 48, 48]


def test_inputs_without_distances_are_drawn_from_everywhere():
    task = task_of(*waves(60))
    words = SimpleNamespace(data=SimpleNamespace(X=task.data.X.astype(str)), drawn=lambda n: ("drawn", n))
    assert scan_module._neighbourhoods(words) == ("drawn", 48)
    words.data.X = task.data.X.tolist()
    assert scan_module._neighbourhoods(words) == ("drawn", 48)


def valleys(values):
    """The places of a sequence that are worth a descent."""
    return [k for k, _ in scan_module._valleys(np.array(values)[:, None])]


def test_only_minima_that_explain_something_follow_the_first():
    assert valleys([0.0, 1.0, -5.0, -4.0, -6.0, 0.0, -0.09, 0.0, -5.5]) == [4, 8, 2]
    assert valleys([0.0, 1.0, 0.0]) == [0]
    assert valleys([1.0, 0.5, 2.0, -0.05]) == [3]
    assert valleys([-0.2, 0.5, -0.3, 0.5, -0.05]) == [2, 0]
    assert valleys([-5.0, 0.0, -4.9, 0.0, -4.8, 0.0, -4.7]) == [0, 2, 4]  # at most three
    assert valleys([-4.7, 0.0, -4.8, 0.0, -4.9, 0.0, -5.0]) == [6, 4, 2]
    assert valleys([0.0, 0.0, 1.0]) == [0]  # the first of equal ones
    assert valleys([np.inf, np.inf]) == []
    assert valleys([-5.0, np.inf, np.inf, -4.9]) == [0, 3]


def test_only_minima_that_are_nearly_as_low_follow_the_first():
    assert valleys([-10.0, 0.0, -7.51]) == [0, 2]
    assert valleys([-10.0, 0.0, -7.5]) == valleys([-10.0, 0.0, -7.49]) == [0]
    assert valleys([-2.0, 0.0, -1.01]) == [0, 2]  # where all of them are shallow, by one
    assert valleys([-2.0, 0.0, -0.99]) == [0]


def test_a_plateau_is_no_valley():
    assert valleys([-1.0, -6.0, -5.0, -4.95, -5.0]) == [1]
    assert valleys([-6.0, -5.0 + 0.1, -5.0]) == [0]  # as far as a plateau may
    assert valleys([-1.0, -6.0, -5.0, -4.85, -5.0]) == [1, 4]
    assert valleys([-5.0, -4.95, -5.0, -6.0, 0.0]) == [3]
    assert valleys([-5.0, -4.85, -5.0, -6.0, 0.0]) == [3, 0]
    assert valleys([-6.0, 0.0, -3.0, -5.0, 0.0]) == [0, 3]  # nor is the way into one
    assert valleys([-6.0, 0.0, -5.0, -5.0, 0.0]) == [0, 2]


def test_valleys_are_those_of_both_variables():
    """At nearly the same length, with much noise and with next to none."""
    f = np.array([[-3.0, -1.0, -1.0, -2.0], [-9.0, -2.0, -3.0, -9.5], [-4.0, -1.0, -2.0, -3.0]])
    assert scan_module._valleys(f) == [(1, 3), (1, 0)]
    f[0, 1:3] = -8.95, -9.0  # a way around, which hardly rises
    assert scan_module._valleys(f) == [(1, 3)]


def rises_by_relaxation(f):
    """How far a map rises from each minimum to a lower cell, by ways that are improved until none can be."""
    cells, rises = list(np.ndindex(f.shape)), {}
    for start in cells:
        height = dict.fromkeys(cells, np.inf) | {start: f[start]}
        for _ in cells:
            for k, j in cells:
                for other in cells:
                    if max(abs(other[0] - k), abs(other[1] - j)) == 1:
                        height[k, j] = min(height[k, j], max(height[other], f[k, j]))
        lower = [height[cell] for cell in cells if f[cell] < f[start]]
        rises[start] = min(lower) - f[start] if lower else None
    return rises


@pytest.mark.parametrize("seed", range(6))
def test_a_valley_is_enclosed_where_the_lowest_way_to_a_lower_one_rises(seed, monkeypatch):
    f = np.random.default_rng(seed).normal(size=(3, 4))
    rises, minima = rises_by_relaxation(f), scan_module._minima(f)
    assert minima == sorted((c for c in rises if rises[c] != 0.0), key=lambda cell: f[cell])
    assert rises[minima[0]] is None
    for cell in minima[1:]:
        for share, is_enclosed in ((0.999, True), (1.001, False)):
            monkeypatch.setattr(scan_module, "_RISE", share * rises[cell])
            assert scan_module._is_enclosed(f, cell) == is_enclosed


def test_rows_of_a_scan_are_the_neighbourhoods_of_four():
    X, y = waves(300)
    task = task_of(X, y)
    chosen, centres = scan_module._neighbourhoods(task), list(task.drawn(4))
    expected = list(centres)
    for centre in centres:
        near = sorted((i for i in range(300) if i not in expected), key=lambda i: abs(X[i, 0] - X[centre, 0]))
        expected += near[:11]
    assert list(chosen) == sorted(expected)
    assert len(chosen) == 48


def test_fast_waves_are_seen_among_neighbours():
    rng = np.random.default_rng(5)
    X = rng.uniform(-20.0, 20.0, (290, 2))
    y = np.sin(0.6 * X[:, 0]) + 0.1 * X[:, 1] + 0.05 * rng.normal(size=290)
    kernel = ConstantKernel() * RBF(1.0) + WhiteKernel()
    gp = SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y)
    lengths = np.exp(np.linspace(-1.0, 5.0, 61))
    fixed = [SpectralGPRegressor(RBF(a), optimizer=None, fit_intercept=False).fit(X, y) for a in lengths]
    assert gp.log_marginal_likelihood_value_ > max(f.log_marginal_likelihood_value_ for f in fixed) - 1e-6


@pytest.mark.parametrize("X", [np.arange(100.0), np.arange(600.0).reshape(100, 3, 2), np.array(["a"] * 100)])
def test_inputs_that_are_no_rows_of_numbers_are_drawn(X):
    task = task_of(X, waves(100)[1])
    assert np.array_equal(scan_module._neighbourhoods(task), task.drawn(48))


def test_inputs_beyond_all_numbers_have_neighbours_too():
    X, y = waves(100)
    chosen = scan_module._neighbourhoods(task_of(1e200 * X, y))
    assert len(chosen) == len(set(chosen)) <= 48
    assert set(task_of(1e200 * X, y).drawn(4)) <= set(chosen)


def test_the_order_of_many_rows_does_not_matter():
    X, y = waves(150)
    order = np.random.default_rng(1).permutation(150)
    found, permuted = (scan(task_of(X[o], y[o]), np.zeros(1), WIDE, RATIOS) for o in (np.arange(150), order))
    assert np.array(found.points) == pytest.approx(np.array(permuted.points))


def test_values_of_theta_stay_inside_of_their_bounds():
    X, y = waves(30)
    found = scan(task_of(X, y), np.zeros(1), (-1.0, 0.5), RATIOS)
    assert found.n_matrices == 3  # both bounds and the start between them
    assert all(-1.0 <= point[0] <= 0.5 for point in found.points)


def test_priors_of_theta_count():
    X, y = waves(60)
    (first, *_) = scan(task_of(X, y), np.zeros(1), WIDE, RATIOS).points
    away = np.log(4.0) * 3

    def prior(theta):
        return 1e4 * float((theta[0] - away) ** 2), np.zeros(1)

    assert scan(task_of(X, y, prior=prior), np.zeros(1), WIDE, RATIOS).points[0][0] == pytest.approx(away)
    assert first[0] != pytest.approx(away)


def test_rows_without_variation_and_kernels_beyond_all_numbers_propose_nothing(monkeypatch):
    X, y = waves(100)
    y[:48], X[:48] = 2.0, 0.01 * X[:48]  # close to each other, and far from all others
    X[48:] += 100.0
    monkeypatch.setattr(Task, "drawn", lambda task, n_rows: np.arange(n_rows))
    assert scan(task_of(X, y, intercept=True), np.zeros(1), WIDE, RATIOS) == scan_module.Scan([], 0)
    flat = scan(task_of(X[:9], np.zeros(9) + 1e-3 * (np.arange(9) == 0)), np.zeros(1), WIDE, RATIOS)
    assert all(np.isfinite(point).all() for point in flat.points)
    with np.errstate(over="ignore"):
        X = np.full((5, 1), 1e200)
        none = scan(task_of(X, np.arange(5.0), DotProduct(1.0)), np.zeros(1), WIDE, RATIOS)
    assert none.points == []
    assert none.n_matrices == 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_evidences_of_a_stack_are_those_of_projected_matrices(intercept, weighted):
    """A = g z'(M + gI)^-1 z and H = log|M + gI| - n log g, M the weighted matrix outside the mean space."""
    rng = np.random.default_rng(5)
    X, weight = rng.normal(size=(8, 2)), rng.uniform(0.2, 3.0, 8) if weighted else None
    rows = Rows.make(8, np.ones((8, 1)) if intercept else None, weight)
    z, ratios = rows.standardise(rng.normal(size=(8, 1)))[0][:, 0], np.array([1e-4, 0.1, 3.0])
    stack = np.array([RBF(0.5)(X), RBF(2.0)(X), X @ X.T])
    A, H = evidence_terms_of_stack(stack.copy(), rows, z, ratios)
    root = np.ones(8) if weight is None else np.sqrt(weight)
    q = root / np.linalg.norm(root)
    P = np.eye(8) - np.outer(q, q) if intercept else np.eye(8)
    for K, A_of, H_of in zip(stack, A, H, strict=True):
        M = P @ (np.outer(root, root) * K) @ P
        for g, a, h in zip(ratios, A_of, H_of, strict=True):
            V = M + g * np.eye(8)
            assert a == pytest.approx(g * (z @ np.linalg.solve(V, z)), rel=1e-9, abs=0.0)
            assert h == pytest.approx(np.linalg.slogdet(V)[1] - 8 * np.log(g), rel=1e-9, abs=0.0)


@pytest.mark.parametrize("first", [0.7, -0.7, 0.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_evidences_of_a_stack_of_few_rows_of_any_size(n, first):
    """Squares of kernel values of 1e200 are beyond all numbers, and a target may have any direction."""
    rng, rows = np.random.default_rng(n), Rows.make(n)
    z, R = rng.normal(size=n), rng.normal(size=(n, n))
    z[0] = first if n > 1 or first else 1.0
    z[1:] *= first != -0.7  # along the first axis already
    for size in (1e200, 1e-200):
        K = size * (R @ R.T)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            A, H = evidence_terms_of_stack(K[None].copy(), rows, z, np.array([0.3 * size]))
        V = (R @ R.T) / 0.3 + np.eye(n)
        assert A.item() == pytest.approx(z @ np.linalg.solve(V, z), rel=1e-12, abs=0.0)
        assert H.item() == pytest.approx(np.linalg.slogdet(V)[1], rel=1e-12, abs=0.0)


def test_a_matrix_that_is_not_definite_has_no_evidence_below_its_smallest_eigenvalue():
    K, z = np.diag([1.0, -0.5, 2.0]), np.array([0.3, 1.0, -0.2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        A, H = evidence_terms_of_stack(K[None], Rows.make(3), z, np.array([0.4, 0.6]))
    assert np.isnan([A[0, 0], H[0, 0]]).all()
    assert np.isfinite([A[0, 1], H[0, 1]]).all()
    zero = evidence_terms_of_stack(np.zeros((1, 3, 3)), Rows.make(3), z, np.array([0.4]))
    assert [term.item() for term in zero] == pytest.approx([z @ z, 0.0])


def test_matrices_that_are_not_definite_leave_the_evidences_of_others_as_they_are():
    rng, rows, ratios = np.random.default_rng(1), Rows.make(4), np.array([0.1, 0.4])
    z, R = rng.normal(size=4), rng.normal(size=(3, 4, 4))
    good, bad = R @ R.transpose(0, 2, 1), np.diag([1.0, 2.0, -0.9, 3.0])
    stack = np.array([bad, good[0], bad, bad, good[1], good[2], bad])
    is_good = np.array([False, True, False, False, True, True, False])
    unit = float(stack.max())
    mixed = evidence_terms_of_stack(stack.copy(), rows, z, ratios)
    alone = evidence_terms_of_stack(np.concatenate([good, [np.eye(4) * unit]]), rows, z, ratios)
    for term, expected in zip(mixed, alone, strict=True):
        assert np.isnan(term[~is_good]).all()
        np.testing.assert_allclose(term[is_good], expected[:3], rtol=1e-12)
    A, H = evidence_terms_of_stack(np.array([[[-1.0]], [[2.0]]]), Rows.make(1), np.ones(1), ratios[:1])
    assert np.isnan([A[0], H[0]]).all()
    assert [A[1, 0], H[1, 0]] == pytest.approx([1.0 / 21.0, np.log(21.0)])


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
def test_a_fast_wave_is_found_from_a_length_that_is_far_too_long():
    rng = np.random.default_rng(2)
    X = rng.uniform(-0.5, 0.5, (120, 1))
    y = np.sin(60.0 * X[:, 0])
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(1.0)
    gp = SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y)
    assert gp.kernel_.length_scale < 0.1
    assert gp.noise_variance_ < 1e-3


@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
def test_a_noise_at_its_bound_is_reached_in_few_steps():
    """Where the bound begins to hold, the evidence bends at once from nearly flat to steep."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    K = Matern(0.3, nu=0.5)(X) + 1e-8 * np.eye(100)
    y = np.linalg.cholesky(K) @ rng.normal(size=100)
    kernel = ConstantKernel(1.0) * Matern(1.0, nu=0.5) + WhiteKernel(1.0)
    gp = SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y)
    assert gp.tuning_[0].status == "bound"
    assert gp.n_decompositions_ < 80  # 129 without going along the edge
    _, slope = gp.log_marginal_likelihood(gp.kernel_.theta, eval_gradient=True)
    assert abs(slope[0]) < 1e-3


@pytest.mark.parametrize("n", [40, 400])
def test_kernels_that_are_none_anywhere_are_refused_by_name(n):
    X, y = waves(n)
    with pytest.raises(NonFiniteKernelError, match="NaN or infinite"), np.errstate(invalid="ignore"):
        SpectralGPRegressor(RBF(-1.0)).fit(X, y)
    with pytest.raises(IndefiniteKernelError):
        SpectralGPRegressor(TooClose(1.0)).fit(X, y)
