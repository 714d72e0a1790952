"""Small parts of correlated outputs beside naive definitions: pairs of covariances and what leads to them."""

from types import SimpleNamespace

import numpy as np
import pytest
from problems import close, with_energy

from skspectral.criteria.joint_evidence import JointEvidence
from skspectral.inference import correlated, entries
from skspectral.inference.correlated import negligible, smallest_ratio
from skspectral.inference.covariances import _Counted
from skspectral.linalg.covariance_pair import CovariancePair, Units, _factor
from skspectral.linalg.entries import Entries
from skspectral.linalg.output_basis import (
    OutputBasis,
    conditional,
    positive_inverse,
    positive_solve,
    row_space,
    triangle,
)
from skspectral.linalg.rotated import Rotated
from skspectral.linalg.rows import RowCounts


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def pair_of(k=3, seed=0):
    """Return a pair of covariances of k outputs whose parts sum to 1."""
    back = random(k, k, seed=seed)
    signal = np.linspace(0.2, 0.9, k)
    return CovariancePair(back, np.linalg.inv(back), signal, 1.0 - signal)


def assert_is_sound(pair):
    assert close(pair.forth @ pair.back, np.eye(len(pair)), 1e-10)
    assert close(pair.signal + pair.noise, np.ones(len(pair)), 1e-12)


# -- pairs of covariances


def test_a_basis_becomes_a_pair_and_comes_back():
    back, units = random(3, 3), Units(0.1, 2.5)
    basis = OutputBasis(back, np.linalg.inv(back), np.array([0.5, 2.0, 9.0]))
    pair = CovariancePair.of_basis(basis, units)
    assert_is_sound(pair)
    G, E = pair.covariances
    assert close(G / units.size, basis.signal_covariance, 1e-12)
    assert close(E + 0.1 * G / units.size, basis.noise_covariance, 1e-12)
    again = pair.basis(units)
    assert close(again.forth @ again.back, np.eye(3), 1e-10)
    assert close(again.signal_covariance, basis.signal_covariance, 1e-12)
    assert close(again.noise_covariance, basis.noise_covariance, 1e-12)
    assert pair.log_det == pytest.approx(np.linalg.slogdet(G + E)[1])
    assert basis.log_det_noise == pytest.approx(np.linalg.slogdet(basis.noise_covariance)[1])
    least = CovariancePair.of_basis(OutputBasis(back, np.linalg.inv(back), np.full(3, 11.0)), units)
    np.testing.assert_array_equal(least.noise, np.zeros(3))  # noise below the ridge is the ridge


def test_the_basis_of_outputs_without_correlation():
    basis = OutputBasis.of_variances(np.array([2.0, 3.0]), np.array([0.25, 9.0]))
    assert close(basis.signal_covariance, np.diag([2.0, 3.0]))
    assert close(basis.noise_covariance, np.diag([0.25, 9.0]))
    assert close(basis.forth @ basis.back, np.eye(2))


def test_eigenvalues_in_units():
    assert Units(0.5, 4.0).eigenvalues(np.array([0.0, 7.5])) == pytest.approx([0.125, 2.0])


def test_factors_move_a_pair():
    pair, T, S = pair_of(), 0.3 * random(3, 3, seed=1), 0.2 * random(3, 3, seed=2)
    moved = pair.moved(T, S)
    assert_is_sound(moved)
    for part, step, V in zip(pair.parts, (T, S), moved.covariances, strict=True):
        factor = pair.back @ (np.diag(np.sqrt(part)) + step)
        assert close(V, factor @ factor.T, 1e-10)


def test_a_pair_is_shifted_and_kept_above_a_least_variance():
    pair = pair_of()
    G, E = (A + A.T for A in (0.05 * random(3, 3, seed=1), 0.03 * random(3, 3, seed=2)))
    shifted = pair.shifted(G, E, (1e-6, 1e-6))
    assert_is_sound(shifted)
    for part, change, V in zip(pair.parts, (G, E), shifted.covariances, strict=True):
        assert close(V, pair.back @ (np.diag(part) + change) @ pair.back.T, 1e-10)
    size, Q = np.array([-1.0, 0.2, 3.0]), np.linalg.qr(random(3, 3))[0]
    L = _factor((Q * size) @ Q.T, 0.5)
    assert close(L @ L.T, (Q * [0.5, 0.5, 3.0]) @ Q.T, 1e-12)


@pytest.mark.parametrize("part", [0, 1])
def test_what_was_missing_is_given(part):
    back, parts = random(3, 3), [np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.4, 1.0])]
    pair = CovariancePair(back, np.linalg.inv(back), *(parts if part == 0 else parts[::-1]))
    Q, members = np.linalg.qr(random(2, 2))[0], np.array([0, 2])
    given = pair.given(part, members, Q, np.array([0.7, 0.1]))
    assert_is_sound(given)
    directions = back[:, members] @ Q
    expected = list(pair.covariances)
    expected[part] = expected[part] + (directions * [0.7, 0.1]) @ directions.T
    for V, W in zip(given.covariances, expected, strict=True):
        assert close(V, W, 1e-12)
    np.testing.assert_array_equal(pair.back, back)


def test_outputs_that_are_combinations():
    pair, D = pair_of(2), random(4, 2, seed=5)
    basis = OutputBasis(pair.back, pair.forth, np.array([2.0, 0.5]))
    whole, of_basis = pair.within(D, np.linalg.pinv(D)), basis.within(D, np.linalg.pinv(D))
    for each in (whole, of_basis):
        assert close(each.forth @ each.back, np.eye(2), 1e-10)
    for V, own in zip(whole.covariances, pair.covariances, strict=True):
        assert close(V, D @ own @ D.T, 1e-12)
    assert close(of_basis.signal_covariance, D @ basis.signal_covariance @ D.T, 1e-12)
    assert close(of_basis.noise_covariance, D @ basis.noise_covariance @ D.T, 1e-12)


# -- small matrices between outputs


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_triangle_has_the_inner_products(n):
    Z = random(n, 3)
    R = triangle(Z)
    assert R.shape == (3, 3)
    assert close(R.T @ R, Z.T @ Z, 1e-12)


@pytest.mark.parametrize(("share", "k"), [(1e-10, 3), (1.5e-11, 3), (0.9e-11, 2), (1e-12, 2)])
@pytest.mark.parametrize("size", [1e-20, 5.0, 1e20])
def test_directions_that_rows_span(share, k, size):
    Q = np.linalg.qr(random(3, 3))[0]
    Z = np.linalg.qr(random(8, 3))[0] * [size, 0.4 * size, size * share] @ Q.T
    assert row_space(0.0 * Z).shape == (3, 0)
    B = row_space(Z)
    assert B.shape == (3, k)
    assert close(B.T @ B, np.eye(k), 1e-12)
    assert close(Z @ B @ B.T, Z, 1e-10)
    if k == 3:
        np.testing.assert_array_equal(B, np.eye(3))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_positive_systems_are_solved_and_others_are_not(size):
    A, rhs = random(3, 3), random(3, 2, seed=1)
    units = np.array([1e-6, 1.0, 1e5])
    H = size * (A @ A.T) * np.outer(units, units)
    inverse = np.linalg.inv(H / np.outer(units, units)) / np.outer(units, units)
    assert close(positive_solve(H, rhs) * units[:, None], inverse @ rhs * units[:, None], 1e-10)
    assert close(positive_solve(H, rhs[:, 0]) * units, inverse @ rhs[:, 0] * units, 1e-10)
    assert close(positive_inverse(H), inverse, 1e-10)
    for bad in (H - 2.0 * np.diag(np.diag(H)), np.diag([1.0, 0.0, 1.0]), np.diag([1.0, -1.0, 1.0])):
        assert positive_solve(size * bad, rhs) is None
    assert positive_solve(size * np.array([[1.0, 2.0], [2.0, 1.0]]), rhs[:2]) is None
    assert positive_solve(size * np.eye(3), np.array([np.inf, 0.0, 0.0])) is None


@pytest.mark.parametrize("latent", [True, False])
def test_outputs_given_some_of_them_row_by_row(latent):
    n, m = 5, 3
    signal = np.stack([A @ A.T for A in random(n, m, m)])
    total = signal + np.diag([0.1, 0.2, 0.3])
    wanted, mean = signal if latent else total, random(n, m, seed=1)
    observed = random(n, m, seed=2)
    known = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 0], [1, 0, 1], [0, 0, 1]], dtype=bool)
    observed[~known] = np.nan
    before = mean.copy()
    found, std = conditional(mean, total, wanted, observed)
    np.testing.assert_array_equal(mean, before)
    for i, o in enumerate(known):
        gain = wanted[i][:, o] @ np.linalg.inv(total[i][np.ix_(o, o)]) if o.any() else np.zeros((m, 0))
        assert found[i] == pytest.approx(mean[i] + gain @ (observed[i, o] - mean[i, o]))
        variance = np.diag(wanted[i] - gain @ wanted[i][o])
        assert std[i] == pytest.approx(np.sqrt(np.maximum(variance, 0.0)), abs=1e-6)


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
def test_outputs_that_say_the_same_count_once(size):
    total = np.full((1, 2, 2), size)
    mean, std = conditional(np.zeros((1, 2)), total, total, np.array([[3.0, 3.0]]))
    assert mean == pytest.approx(np.full((1, 2), 3.0))
    assert std == pytest.approx(np.zeros((1, 2)), abs=1e-7 * np.sqrt(size))
    v, y = random(4), random(4, seed=1)  # contradictions count by how far they go along the only direction
    total = size * np.outer(v, v)[None]
    assert close(conditional(np.zeros((1, 4)), total, total, y[None])[0][0], v * (v @ y) / (v @ v), 1e-6)
    total = np.full((1, 2, 2), size)
    nothing, std = conditional(np.ones((1, 2)), 0.0 * total, 0.0 * total, np.array([[3.0, 3.0]]))
    assert nothing.tolist() == [[1.0, 1.0]]
    assert std.tolist() == [[0.0, 0.0]]


# -- where the search for covariances begins, and what it leaves out


@pytest.mark.parametrize(
    ("resolved", "ratios", "expected"),
    [
        (1e-12, [[0.3, 0.1], [0.2]], 4e-6),  # a millionth of the mean variance 4
        (1e-12, [[0.3, 1e-7], [0.2]], 1e-7),  # an output alone has less noise
        (1e-12, [[0.3], [0.2, 1e-8]], 1e-8),
        (1e-5, [[0.3, 1e-7]], 1e-5),  # rounding resolves no less
    ],
)
def test_the_smallest_ratio_of_a_combination(resolved, ratios, expected):
    alone = [SimpleNamespace(noise_ratio=np.array(of_outputs)) for of_outputs in ratios]
    assert smallest_ratio(resolved, 4.0, *alone) == pytest.approx(expected)


def test_signal_and_noise_that_make_no_difference():
    assert negligible(0.01, 5.0) == pytest.approx((2e-7, 1e-8))


def test_evaluations_of_covariances_are_counted():
    counted = _Counted(SimpleNamespace(at=lambda pair: 2 * pair))
    assert [counted.at(k) for k in range(5)] == [0, 2, 4, 6, 8]
    assert counted.n_evaluations == 5


def alone_of(noise_ratio, noise_var, scale):
    """Return what `tune` says of outputs alone, as far as a start needs it."""
    rotated = SimpleNamespace(scale=np.array(scale))
    return SimpleNamespace(rotated=rotated, noise_ratio=np.array(noise_ratio), noise_var=np.array(noise_var))


def test_the_search_begins_at_the_variances_of_outputs_alone():
    alone = alone_of([0.5, 1e-9, np.inf], [2.0, 1e-9, 3.0], [2.0, 1.0, 3.0])
    basis = correlated._start(alone, np.eye(3), 1e-3)
    noise = np.array([0.5, 1e-9, 1.0 / 3.0])
    assert np.diag(basis.noise_covariance) == pytest.approx(noise)
    assert np.diag(basis.signal_covariance) == pytest.approx(noise * [2.0, 1e3, 0.0])
    B = np.linalg.qr(random(3, 2))[0]
    basis = correlated._start(alone, B, 1e-3)
    assert np.diag(basis.noise_covariance) == pytest.approx((B**2).T @ noise)
    assert np.diag(basis.signal_covariance) == pytest.approx((B**2).T @ (noise * [2.0, 1e3, 0.0]))
    without = correlated._start(alone_of([1.0], [0.0], [1.0]), np.eye(1), 1e-3)
    assert np.diag(without.noise_covariance) == pytest.approx([1e-100], rel=1e-6, abs=0.0)


def rotated_of(s, m, n_rows, scale, n_mean=1, seed=0, resolution=1e-9):
    y_tilde = random(len(s), m, seed=seed)
    null = random(m, seed=seed + 1) ** 2 * (n_rows - n_mean > len(s))
    counts = RowCounts(n_rows, n_mean, 0.2, 1.0)
    return Rotated.make(
        np.array(s), y_tilde, null, np.array(scale), counts, resolution=resolution, rounding=np.zeros(m)
    )


def test_null_directions_are_rows_of_eigenvalue_0():
    rotated = rotated_of([0.5, 2.0], 3, 9, [1.0, 1.0, 1.0])
    null_residual = random(9, 3, seed=4)
    s, count, Y = correlated._coordinates(rotated, null_residual)
    assert s.tolist() == [0.5, 2.0, 0.0, 0.0, 0.0]
    assert count == pytest.approx([1.0, 1.0, 2.0, 2.0, 2.0])
    assert close(Y[:2], rotated.y_tilde)
    assert close(Y[2:].T @ Y[2:], null_residual.T @ null_residual, 1e-12)
    full = rotated_of([0.5, 2.0], 3, 3, [1.0, 1.0, 1.0])
    whole = full.s[:2], np.ones(2), full.y_tilde
    for part, expected in zip(correlated._coordinates(full, null_residual), whole, strict=True):
        np.testing.assert_array_equal(part, expected)


def test_the_ratios_of_independent_outputs():
    rotated = rotated_of([0.5, 2.0], 2, 3, [1.0, 2.0])
    back = random(2, 2)
    basis = OutputBasis(back, np.linalg.inv(back), np.array([0.0, 4.0]))
    found = correlated._independent(rotated, np.zeros((1, 1)), basis, 1e-3)
    assert close(found.rotated.y_tilde, (rotated.y_tilde * rotated.scale) @ np.linalg.inv(back).T, 1e-12)
    assert (found.tuning, found.prior) == ((), None)
    assert found.noise_ratio.tolist() == [np.inf, 0.25]
    assert found.noise_var.tolist() == [1.0, 1.0]
    assert found.signal_var.tolist() == [0.0, 4.0]
    steep = OutputBasis(np.eye(2), np.eye(2), np.array([999.0, 1001.0]))
    found = correlated._independent(rotated, np.zeros((1, 1)), steep, 1e-3)
    assert found.noise_ratio.tolist() == [1.0 / 999.0, 1e-3]


def solution(rotated, noise, signal):
    """Return variances of outputs alone, as far as covariances begin with them."""
    noise, signal = np.array(noise), np.array(signal)
    return SimpleNamespace(rotated=rotated, noise_var=noise, signal_var=signal, noise_ratio=noise / signal)


def test_what_outputs_with_holes_begin_with():
    """Two groups of outputs with their own rows; the larger one has the mean variance."""
    first = rotated_of([0.5, 2.0], 2, 4, [1.0, 3.0], resolution=2e-9)
    second = rotated_of([0.1, 0.3, 8.0], 1, 7, [10.0])

    alone = [
        (np.array([0, 2]), solution(first, [0.5, 1e-20], [1.0, 7.0])),
        (np.array([1]), solution(second, [3.0], [1e15])),
    ]
    noise, signal, scale, varies, largest, smallest, mean_variance = entries._of_outputs(alone, 3)
    assert noise == pytest.approx([0.5, 3.0, 9e-9])
    assert signal == pytest.approx([1.0, 3e12, 7.0])
    assert scale.tolist() == [1.0, 10.0, 3.0]
    assert varies.all()
    assert largest == 8.0
    assert mean_variance == pytest.approx(8.4 / 6)
    assert smallest == pytest.approx(6e-9)  # rounding: three outputs of a resolution of 2e-9
    for n_rows, expected in ((1, 0.0), (2, 4.0)):
        few = rotated_of([4.0][: n_rows - 1], 1, n_rows, [1.0])
        assert entries._of_outputs([(np.array([0]), solution(few, [1.0], [1.0]))], 1)[-1] == expected
    K = random(4, 4)
    shifted = entries._shifted(K, Units(0.5, 4.0))
    assert close(shifted, (K + 0.5 * np.eye(4)) / 4.0, 1e-14)


# -- observed entries as one dense system


class Table:
    """A table of three outputs with holes, its covariances, and the dense system of what was observed."""

    def __init__(self, has_mean):
        rng = np.random.default_rng(0)
        self.n, self.m = 6, 3
        self.X = np.sort(rng.uniform(0, 3, self.n))
        self.weight, self.scale = rng.uniform(0.5, 2.0, self.n), np.array([1.0, 2.0, 0.5])
        self.Y = rng.normal(size=(self.n, self.m))
        self.seen = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 1, 1], [0, 1, 1], [1, 1, 0]], dtype=bool)
        self.basis = np.column_stack([np.ones(self.n), self.X]) if has_mean else None
        A, B = rng.normal(size=(2, self.m, self.m))
        self.Vg, self.Ve = A @ A.T, B @ B.T + 0.3 * np.eye(self.m)
        self.entries = Entries.make(self.Y, self.scale, self.seen, self.weight, self.basis)
        self.at = [(i, j) for j in range(self.m) for i in range(self.n) if self.seen[i, j]]
        self.root = np.sqrt(self.weight)
        self.K = np.outer(self.root, self.root) * np.exp(-np.abs(self.X[:, None] - self.X))
        self.C = np.array([[self.Vg[j, k] * self.K[i, h] + self.Ve[j, k] * (i == h) for h, k in self.at]
                           for i, j in self.at])  # fmt: skip
        self.y = np.array([self.root[i] * self.Y[i, j] / self.scale[j] for i, j in self.at])
        self.F = np.zeros((len(self.at), 0))
        if has_mean:  # weighted functions of each output in turn
            self.F = np.array([np.kron(np.eye(self.m)[j], self.root[i] * self.basis[i]) for i, j in self.at])
        C_inv = np.linalg.inv(self.C)
        self.G = self.F.T @ C_inv @ self.F
        self.P = C_inv - C_inv @ self.F @ np.linalg.inv(self.G) @ self.F.T @ C_inv if has_mean else C_inv
        self.system = self.entries.solve(self.K, self.Vg, self.Ve)


@pytest.fixture(scope="module", params=[True, False], ids=["mean", "no mean"])
def table(request):
    return Table(request.param)


def test_entries_are_ordered_by_output_and_then_by_row(table):
    entries = table.entries
    assert list(zip(entries.row, entries.output, strict=True)) == table.at
    assert entries.y == pytest.approx(table.y)
    values = np.arange(1.0, len(table.at) + 1.0)
    scattered = entries.scattered(values)
    for (i, j), value in zip(table.at, values, strict=True):
        assert scattered[i, j] == value
    assert np.count_nonzero(scattered) == len(values)
    np.testing.assert_array_equal(
        entries.gathered(np.stack([scattered, 2.0 * scattered])), [values, 2.0 * values]
    )
    one, other = entries.same_row
    expected = [(a, b) for a, (i, _) in enumerate(table.at) for b, (h, _) in enumerate(table.at) if i == h]
    assert list(zip(one, other, strict=True)) == expected
    M = random(6, 6)
    assert close(entries.weighted(M), np.diag(table.root) @ M @ np.diag(table.root), 1e-12)
    plain = Entries.make(table.Y, table.scale, table.seen, None, table.basis)
    assert plain.y == pytest.approx([table.Y[i, j] / table.scale[j] for i, j in table.at])
    Q = entries.Q
    assert close(Q.T @ Q, np.eye(Q.shape[1]), 1e-12)
    assert close(Q @ (Q.T @ table.F), table.F, 1e-12)


def test_the_system_of_entries_is_the_dense_one(table):
    system = table.system
    assert close(system.inverse, np.linalg.inv(table.C), 1e-10)
    assert system.log_det == pytest.approx(np.linalg.slogdet(table.C)[1])
    assert close(system.P, table.P, 1e-9)
    assert close(system.dual, table.P @ table.y, 1e-9)
    # in orthonormal mean functions: less log |F'F| of weighted ones
    log_det = (
        np.linalg.slogdet(table.C)[1]
        + np.linalg.slogdet(table.G)[1]
        - np.linalg.slogdet(table.F.T @ table.F)[1]
    )
    assert system.value == pytest.approx(log_det + table.y @ table.P @ table.y)
    assert table.entries.solve(table.K, -table.Vg, table.Ve) is None


def test_probes_of_entries_are_draws_of_the_model(table):
    """C^-1 times L z is L^-T z, whose products have the mean C^-1, and P after the mean functions."""
    z = np.random.default_rng(0).normal(size=(len(table.C), 64))
    L = np.linalg.cholesky(table.C)
    assert close(table.system.probes, np.linalg.solve(L.T, z), 1e-9)
    assert close(table.system.dual_probes(), table.P @ (L @ z), 1e-8)


@pytest.mark.parametrize(("n_seen", "expected"), [(6, True), (5, False)])
def test_tables_are_dense_with_no_more_holes_than_entries(n_seen, expected):
    seen = np.zeros((6, 2), dtype=bool)
    seen.flat[:n_seen] = True
    entries = Entries.make(np.ones((6, 2)), np.ones(2), seen, None, None)
    assert entries.solve(np.eye(6), np.eye(2), np.eye(2)).is_dense is expected


def test_sums_over_entries(table):
    S, entries = random(len(table.at), len(table.at), seed=3), table.entries
    by_kernel, within = entries.row_sums(S, table.K)
    by_rows = entries.by_rows(S, table.Vg)
    expected = np.zeros((2, 3, 3))
    rows = np.zeros((6, 6))
    for a, (i, j) in enumerate(table.at):
        for b, (h, k) in enumerate(table.at):
            expected[0, j, k] += S[a, b] * table.K[i, h]
            expected[1, j, k] += S[a, b] * (i == h)
            rows[i, h] += table.Vg[j, k] * S[a, b]
    assert close(by_kernel, expected[0], 1e-12)
    assert close(within, expected[1], 1e-12)
    assert close(by_rows, rows, 1e-12)


def test_traces_of_blocks(table):
    back = random(3, 2, seed=4)
    P = np.zeros((3, 3, 6, 6))
    for a, (i, j) in enumerate(table.at):
        for b, (h, k) in enumerate(table.at):
            P[j, k, i, h] = table.P[a, b]
    blocks = np.einsum("xa,yb,xyij->abij", back, back, P)
    kernels = ((table.K, table.K), (table.K, np.eye(6)), (np.eye(6), np.eye(6)))
    for found, (A, B) in zip(table.system.traces(table.K, back), kernels, strict=True):
        expected = np.einsum("djpq,qr,kcrs,sp->djkc", blocks, A, blocks, B)
        assert close(found, expected, 1e-9)


def test_coefficients_of_entries_are_those_of_generalised_least_squares():
    table = Table(True)
    beta = np.linalg.solve(table.G, table.F.T @ np.linalg.solve(table.C, table.y))
    assert close(table.system.mean_coefficients(), beta.reshape(3, 2).T, 1e-9)
    covariance = np.linalg.inv(table.G)
    expected = [covariance[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] for j in range(3)]
    assert close(table.system.mean_covariances(), np.stack(expected), 1e-9)


def test_rows_left_out_are_predicted_by_all_others(table):
    order = []
    for i, chosen, residual, variance in table.system.left_out():
        order.append(i)
        o = np.array([h != i for h, _ in table.at])
        assert np.flatnonzero(~o).tolist() == sorted(chosen)
        C, F = table.C[np.ix_(o, o)], table.F[o]
        gain = table.C[np.ix_(chosen, o)] @ np.linalg.inv(C)
        gap = table.F[chosen] - gain @ F
        G = F.T @ np.linalg.solve(C, F)
        beta = np.linalg.solve(G, F.T @ np.linalg.solve(C, table.y[o]))
        mean = table.F[chosen] @ beta + gain @ (table.y[o] - F @ beta)
        total = table.C[np.ix_(chosen, chosen)] - gain @ table.C[np.ix_(o, chosen)]
        total = total + gap @ np.linalg.solve(G, gap.T)
        assert residual == pytest.approx(table.y[chosen] - mean)
        assert variance == pytest.approx(np.diag(total))
    assert order == list(range(6))


def test_what_entries_explain_of_new_values(table):
    c, outputs = random(len(table.at), 4, seed=5), np.array([0, 2, 1, 2])
    basis = None if table.basis is None else random(4, 2, seed=6)
    expected = c.T @ np.linalg.solve(table.C, c)
    if basis is not None:
        new = np.array([np.kron(np.eye(3)[j], f) for j, f in zip(outputs, basis, strict=True)]).T
        gap = new - table.F.T @ np.linalg.solve(table.C, c)
        expected = expected - gap.T @ np.linalg.solve(table.G, gap)
    assert close(table.system.explained(c, basis, outputs), expected, 1e-9)


def test_the_evidence_of_entries_is_their_density_in_the_units_of_y(table):
    """Of the entries outside of orthonormal mean functions, which leave log |F'F|/2 of them out."""
    unit = np.array([table.scale[j] / table.root[i] for i, j in table.at])
    C, F, y = table.C * np.outer(unit, unit), table.F * unit[:, None], table.y * unit
    P, log_det, n_free = np.linalg.inv(C), np.linalg.slogdet(C)[1], len(y)
    if table.basis is not None:
        G = F.T @ P @ F
        P = P - P @ F @ np.linalg.solve(G, F.T @ P)
        log_det += np.linalg.slogdet(G)[1] - np.linalg.slogdet(table.F.T @ table.F)[1]
        n_free -= F.shape[1]
    expected = -0.5 * (n_free * np.log(2 * np.pi) + log_det + y @ P @ y)
    point = SimpleNamespace(system=table.system, value=table.system.value)
    assert entries._log_evidence(point, table.scale) == pytest.approx(expected)


class CapturedError(Exception):
    """What a search was asked to do."""


@pytest.mark.parametrize("given", [True, False])
def test_a_search_over_entries_begins_in_standardised_units(monkeypatch, given):
    """Of three outputs the second does not vary; noise 0.5 and 9, signal 2 and 18 in the units of y."""
    rng, seen = np.random.default_rng(0), np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    first, second = rotated_of([0.5, 2.0], 2, 4, [1.0, 1.0]), rotated_of([0.1, 8.0], 1, 3, [3.0], seed=3)
    first = with_energy(first, first.energy * [1.0, 0.0])
    alone = [
        (np.array([0, 1]), solution(first, [0.5, 1.0], [2.0, 1.0])),
        (np.array([2]), solution(second, [9.0], [18.0])),
    ]
    present = np.array([True, True, True, False])
    data = SimpleNamespace(n_outputs=3, Y=rng.normal(size=(4, 3)), observed=seen, present=present,
                           weight=np.array([1.0, 4.0, 1.0, 0.0]), basis=None)  # fmt: skip
    of_varying = OutputBasis.of_variances(np.array([2.0, 18.0]), np.array([0.5, 9.0]))
    start = of_varying.within(np.eye(3)[:, [0, 2]], np.eye(3)[[0, 2]]) if given else None

    def capture(model, start):
        raise CapturedError(model, start)

    monkeypatch.setattr(entries, "minimize_covariances", capture)
    K = random(4, 4)
    with pytest.raises(CapturedError) as caught:
        entries.solve_entries(alone, data, K, start)
    model, pair = caught.value.args
    ridge, mean_variance = 1e-6 * 2.5 / 3, 2.5 / 3  # of the group with most rows
    size = mean_variance + ridge
    assert model.least == pytest.approx(
        (1e-6 / ((8.0 + ridge) / size), 1e-6 * ridge / size), rel=1e-9, abs=0.0
    )
    root = np.sqrt(data.weight)
    assert close(model.K, (np.outer(root, root) * K + ridge * np.eye(4)) / size, 1e-12)
    np.testing.assert_array_equal(model.entries.seen, (seen & present[:, None])[:, [0, 2]])
    assert_is_sound(pair)
    G, E = pair.covariances
    assert close(G / size, np.diag([2.0, 2.0]), 1e-9)
    assert close(E + ridge * G / size, np.diag([0.5, 1.0]), 1e-9)
    values = model.entries.scattered(model.entries.y)
    expected = root[:, None] * data.Y[:, [0, 2]] / [1.0, 3.0] * model.entries.seen
    assert close(values, expected, 1e-12)


def ended(model, start):
    """End a search at once where the signals of two outputs are 0.2 and 0.5."""
    signal = np.array([0.2, 0.5])
    pair = CovariancePair(np.eye(2), np.eye(2), signal, 1.0 - signal)
    return SimpleNamespace(pair=pair, value=0.0), 0.1, "interior", 3


def test_the_rank_of_a_signal_counts_outputs_with_more_than_a_negligible_one(monkeypatch):
    rotated = rotated_of([0.5, 2.0], 2, 4, [1.0, 3.0])
    for module in (correlated, entries):
        monkeypatch.setattr(module, "negligible", lambda smallest, largest: (0.3, 0.01))
        monkeypatch.setattr(module, "minimize_covariances", ended)
    monkeypatch.setattr(entries, "_log_evidence", lambda point, scale: -7.0)
    monkeypatch.setattr(entries, "_solution", lambda *args: SimpleNamespace(result=args[-1]))
    data = SimpleNamespace(n_outputs=2, Y=random(3, 2), observed=np.ones((3, 2), dtype=bool),
                           present=np.ones(3, dtype=bool), weight=None, basis=None)  # fmt: skip
    alone = [(np.arange(2), solution(rotated, [0.5, 1.0], [2.0, 1.0]))]
    of_entries = entries.solve_entries(alone, data, np.eye(3)).result
    for result in (correlated.tune_correlated(rotated, random(4, 2)).result, of_entries):
        told = result.status, result.gradient_norm, result.signal_rank, result.n_evaluations
        assert told == ("interior", 0.1, 1, 3)
    assert of_entries.value == -7.0


# -- steps of scoring


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_scoring_solves_two_equations_for_each_pair(size):
    s, count, signal = np.geomspace(0.01, 5.0, 6), size * np.linspace(1.0, 3.0, 6), np.array([0.2, 0.5, 0.9])
    evidence = JointEvidence(s, count, random(6, 3), signal, 1.0 - signal, 0.0)
    w = 1.0 / (np.outer(s, signal) + 1.0 - signal)
    gg, ge, ee = (np.einsum("i,ij,ik->jk", count * s**power, w, w) for power in (2, 1, 0))
    (Mg, Me), (G, E) = evidence.slopes(), evidence.scoring_step()
    assert close(gg * G + ge * E, -Mg, 1e-9)
    assert close(ge * G + ee * E, -Me, 1e-9)
    for flat, full in zip(evidence.flatness(), (gg, ee), strict=True):
        assert close(flat, np.diag(full), 1e-12)
    alike = JointEvidence(np.ones(6), count, random(6, 3), signal, 1.0 - signal, 0.0)
    G, E = alike.scoring_step()
    np.testing.assert_array_equal(G, np.zeros((3, 3)))
    w = np.ones((6, 3))
    assert close(E, -alike.slopes()[1] / np.einsum("i,ij,ik->jk", count, w, w), 1e-9)


def test_outputs_of_which_none_varies_have_covariances_of_0():
    rotated = rotated_of([0.5, 2.0], 2, 3, [1.0, 1.0])
    still = with_energy(rotated, 0.0 * rotated.energy)
    found = correlated.tune_correlated(still, np.zeros((1, 1)))
    result = found.result
    assert (result.status, result.gradient_norm, result.signal_rank, result.n_evaluations) == (
        "low_rank",
        0.0,
        0,
        0,
    )
    assert not found.basis.signal_covariance.any()
    assert not found.basis.noise_covariance.any()
    np.testing.assert_array_equal(found.information.standard_errors(np.ones((1, 2, 2)), 0), [np.inf])
    assert len(found.independent.noise_ratio) == len(found.independent.noise_var) == 0
    assert (found.independent.tuning, found.independent.prior) == ((), None)
