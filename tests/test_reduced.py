"""What a tridiagonal form says of K + gI without eigenvectors, beside dense formulas and the eigenvectors."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import close, smooth
from scipy.linalg.lapack import dstevd as lapack_dstevd
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skspectral import SpectralGPRegressor, Spectrum
from skspectral.criteria import CRITERIA
from skspectral.inference.solution import solve, solve_fixed
from skspectral.inference.tuned import look_for_ratio
from skspectral.inference.variances import VarianceBounds
from skspectral.linalg import pieces as pieces_module
from skspectral.linalg import reduced as reduced_module
from skspectral.linalg import reflectors as reflectors_module
from skspectral.linalg import shifted as shifted_module
from skspectral.linalg.pieces import Pieces, PiecewiseTargets
from skspectral.linalg.reduced import Reduced, ReducedCoordinates
from skspectral.linalg.reflectors import ReducedVectors, ReflectedVectors, symmetric_eigen
from skspectral.linalg.shifted import in_blocks, unexplained_of_one

RATIOS = np.array([1e-9, 1e-3, 0.3, 2.0, 1e4, 1e9])


def tridiagonal(n, seed=0, smallest=0.01):
    """Return the entries of a positive definite T, and T."""
    rng = np.random.default_rng(seed)
    off = rng.normal(size=n - 1) * np.geomspace(1.0, 1e-3, n - 1)
    diagonal = np.abs(np.append(off, 0.0)) + np.abs(np.append(0.0, off)) + smallest * rng.uniform(1, 2, n)
    return diagonal, off, np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1)


def dense_unexplained(T, B, ratios):
    """Return b'(I + T/g)^-1 b and its derivatives by log g, (k, m), by eigenvectors of T; ratios (k, m)."""
    s, V = np.linalg.eigh(T)
    energy = (V.T @ B) ** 2
    u = s[:, None] / (s[:, None] + ratios[:, None])
    v = 1.0 / (1.0 + s[:, None] / ratios[:, None])
    return [(energy * weight).sum(axis=1) for weight in (v, v * u, v * u * (u - v))]


def targets(n, m, seed=1):
    return np.random.default_rng(seed).normal(size=(n, m))


@pytest.mark.parametrize("n", [6, 8, 60, 61, 119, 1000])
def test_pieces_less_what_crosses_the_cuts_are_the_matrix(n):
    diagonal, off, T = tridiagonal(n)
    pieces = Pieces.of(diagonal, off)
    assert len(pieces.values) == {6: 3, 8: 3, 60: 4, 61: 4, 119: 7, 1000: 42}[n]
    D = np.zeros((n, n))
    for i, (start, end) in enumerate(zip(pieces.starts[:-1], pieces.starts[1:], strict=True)):
        V = pieces.vectors[i, : end - start, : end - start]
        assert close(V.T @ V, np.eye(end - start), 1e-13)
        assert not pieces.vectors[i, end - start :].any()
        D[start:end, start:end] = V @ np.diag(pieces.values[i, : end - start]) @ V.T
        first, last = (ends[i, : end - start] for ends in pieces.ends)
        assert close(np.stack([first, last]), V[[0, -1]], 1e-15)
    for cut, e in zip(pieces.starts[1:-1], pieces.cut_off, strict=True):
        z = np.zeros(n)
        z[cut - 1], z[cut] = 1.0, -np.sign(e)
        D -= abs(e) * np.outer(z, z)
    assert close(D, T, 1e-13)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("n", [6, 7, 60, 131])
def test_what_is_unexplained_against_dense_formulas(n, m):
    diagonal, off, T = tridiagonal(n)
    B = targets(n, m)
    pieces = Pieces.of(diagonal, off)
    found = PiecewiseTargets(pieces, pieces.coordinates(B))
    for ratios in (RATIOS[:, None], RATIOS[:, None] * np.geomspace(1.0, 30.0, m)):
        expected = dense_unexplained(T, B, np.broadcast_to(ratios, (len(ratios), m)))
        for mine, dense in zip(found.unexplained(ratios), expected, strict=True):
            assert mine.shape == dense.shape
            assert np.abs(mine / dense - 1.0).max() < 1e-9


@pytest.mark.parametrize("n", [2, 3, 60, 131])
def test_what_is_unexplained_of_one_target_against_dense_formulas(n):
    diagonal, off, T = tridiagonal(n)
    b = targets(n, 1)
    found = unexplained_of_one(diagonal, off, b[:, 0], RATIOS[:, None])
    for mine, dense in zip(found, dense_unexplained(T, b, RATIOS[:, None]), strict=True):
        assert mine.shape == dense.shape
        assert np.abs(mine / dense - 1.0).max() < 1e-9


@pytest.mark.parametrize("m", [1, 2])
def test_one_target_needs_no_pieces(monkeypatch, m):
    made = []
    monkeypatch.setattr(reduced_module, "unexplained_of_one", lambda *_: made.append("one"))
    monkeypatch.setattr(PiecewiseTargets, "unexplained", lambda *_: made.append("pieces"))
    diagonal, off, _ = tridiagonal(70)
    ReducedCoordinates(Reduced(diagonal, off), targets(70, m), 70).unexplained(np.zeros((1, 1)), None)
    assert made == {1: ["one"], 2: ["pieces"]}[m]


@pytest.mark.parametrize(
    ("entries", "sizes"), [(2**15 // 7, [7, 7, 1]), (2**15 // 15, [15]), (2**15, [1] * 15)]
)
def test_ratios_are_looked_at_in_blocks_that_stay_in_cache(entries, sizes):
    seen = []

    def terms(ratios):
        seen.append(len(ratios))
        return ratios, -ratios

    ratios = np.arange(15.0)[:, None]
    one, other = in_blocks(terms, ratios, entries)
    assert seen == sizes
    np.testing.assert_array_equal(one, ratios)
    np.testing.assert_array_equal(other, -ratios)


@pytest.mark.parametrize("entries", [1, 25])
def test_blocks_of_ratios_of_one_target_do_not_matter(monkeypatch, entries):
    diagonal, off, _ = tridiagonal(10)
    b, ratios = targets(10, 1)[:, 0], RATIOS[:, None]
    expected = unexplained_of_one(diagonal, off, b, ratios)
    monkeypatch.setattr(shifted_module, "_BLOCK_ENTRIES", entries)
    for one, other in zip(unexplained_of_one(diagonal, off, b, ratios), expected, strict=True):
        assert one.shape == (6, 1)
        assert close(one, other, 1e-13)


@pytest.mark.parametrize("entries", [1, 25])
def test_blocks_of_ratios_do_not_matter(monkeypatch, entries):
    diagonal, off, _ = tridiagonal(70)
    pieces, B = Pieces.of(diagonal, off), targets(70, 3)
    found = PiecewiseTargets(pieces, pieces.coordinates(B))
    for ratios in (RATIOS[:, None], np.geomspace(0.1, 9.0, 12).reshape(4, 3)):
        expected = found.unexplained(ratios)
        with monkeypatch.context() as patch:
            patch.setattr(shifted_module, "_BLOCK_ENTRIES", entries)
            for one, other in zip(found.unexplained(ratios), expected, strict=True):
                assert close(one, other, 1e-12)


@given(st.integers(1, 2), st.integers(0, 10**6), st.floats(-25.0, 25.0), st.floats(-3.0, 3.0))
def test_units_of_the_matrix_and_of_the_targets_do_not_matter(m, seed, log_size, log_length):
    """T and g times c, and b times d: A and its derivatives are those of before, times d^2."""
    diagonal, off, _ = tridiagonal(70, seed)
    B, (c, d) = targets(70, m, seed), np.exp([log_size, log_length])
    before, after = (
        ReducedCoordinates(Reduced(k * diagonal, k * off), length * B, 70).unexplained(
            np.log(k * RATIOS)[:, None], None
        )
        for k, length in ((1.0, 1.0), (c, d))
    )
    for one, other in zip(before, after, strict=True):
        assert np.abs(other / (d**2 * one) - 1.0).max() < 1e-9


@pytest.mark.parametrize("m", [1, 2])
def test_the_limits_of_pure_noise_and_of_no_noise(m):
    diagonal, off, T = tridiagonal(70)
    B = targets(70, m)
    coordinates = ReducedCoordinates(Reduced(diagonal, off), B, 70)
    A, A1, A2 = coordinates.unexplained(np.array([[np.inf]]), None)
    assert close(A[0], (B**2).sum(axis=0), 1e-13)
    assert not A1.any()
    assert not A2.any()
    A, A1, A2 = coordinates.unexplained(np.array([[-400.0]]), None)
    expected = np.exp(-400.0) * np.einsum("im,im->m", B, np.linalg.solve(T, B))
    for term in (A, A1, A2):
        assert close(term[0], expected, 1e-9)
    for size in (1.0, 1e100):
        larger = ReducedCoordinates(Reduced(size * diagonal, size * off), B, 70)
        A, A1, A2 = larger.unexplained(np.array([[-1e4]]), None)  # no number is left of such a g
        assert np.isfinite([A, A1, A2]).all()
        assert (A > 0).all()


def test_a_matrix_that_falls_apart_at_a_cut():
    diagonal, off, T = tridiagonal(72)
    cut = Pieces.of(diagonal, off).starts[1]
    off[cut - 1] = T[cut, cut - 1] = T[cut - 1, cut] = 0.0
    B, ratios = targets(72, 2), np.tile(RATIOS[:, None], 2)
    mine = ReducedCoordinates(Reduced(diagonal, off), B, 72).unexplained(np.log(RATIOS)[:, None], None)
    for term, dense in zip(mine, dense_unexplained(T, B, ratios), strict=True):
        assert np.abs(term / dense - 1.0).max() < 1e-9


def test_a_reduced_matrix_against_dense_formulas():
    diagonal, off, T = tridiagonal(40)
    reduced, s = Reduced(diagonal, off), np.linalg.eigvalsh(T)
    assert len(reduced) == 40
    assert close(reduced.eigenvalues(), s, 1e-13)
    assert close(reduced.eigen[0], s, 1e-13)
    assert close(T @ reduced.eigen[1], reduced.eigen[1] * reduced.eigen[0], 1e-13)
    B = targets(40, 2)
    assert close(reduced.solved(B), np.linalg.solve(T, B), 1e-10)
    ratios = np.array([0.2, np.inf])
    resolved = reduced.resolved(B, ratios)
    assert close(resolved[:, 0], np.linalg.solve(T + 0.2 * np.eye(40), B[:, 0]), 1e-11)
    assert not resolved[:, 1].any()


def test_coordinates_without_eigenvectors_are_those_with_them():
    diagonal, off, T = tridiagonal(60)
    B = targets(60, 3)
    B[:, 1] = B[7, 0] = 0.0
    coordinates = ReducedCoordinates(Reduced(diagonal, off), B, 59)
    s, V = np.linalg.eigh(T)
    assert close(coordinates.y_tilde**2, (V[:, :59].T @ B) ** 2, 1e-9)
    assert coordinates.y_tilde.shape == (59, 3)
    assert close(coordinates.energy[:-1], coordinates.y_tilde**2)
    assert not coordinates.energy[-1].any()
    assert coordinates.n_outputs == 3
    assert coordinates.vary.tolist() == [True, False, True]
    assert coordinates.hidden_energy(None).tolist() == [0.0, 0.0, 0.0]
    leak = coordinates.leak(None, 1e-6)
    assert close(leak, ((1e-6 / s[:, None]) ** 2 * (V.T @ B) ** 2).sum(axis=0), 1e-9)
    some = coordinates.select([2, 0, 2])
    assert close(some.y_tilde, coordinates.y_tilde[:, [2, 0, 2]], 1e-13)


# -- the spectrum of a kernel matrix


def rough(n=280, m=2, seed=0):
    """Return a kernel matrix without eigenvalues near rounding, and targets (n, m)."""
    X, Y = smooth(seed, n, p=4, m=m)
    return RBF(0.7)(X), Y


def with_and_without(monkeypatch, make):
    """Return what is made without eigenvectors, and with them."""
    lazy = make()
    monkeypatch.setattr(reflectors_module, "dstevd", None)
    return lazy, make()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["evidence", "gcv", "loo", "posterior"])
def test_a_solution_is_the_same_with_eigenvectors_and_without(monkeypatch, name, weighted, intercept):
    K, Y = rough()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(K)) if weighted else None
    basis = np.ones((len(K), 1)) if intercept else None
    solutions = with_and_without(
        monkeypatch, lambda: solve(Spectrum.from_gram(K, basis, weight).rotate(Y), CRITERIA[name])
    )
    lazy, eager = solutions
    assert isinstance(lazy.spectrum.U, ReducedVectors)
    assert isinstance(eager.spectrum.U, np.ndarray)
    for field in ("noise_ratio", "noise_var", "signal_var", "log_evidence", "effective_dof"):
        assert close(getattr(lazy, field), getattr(eager, field), 1e-9)
    assert close(lazy.range_dual, eager.range_dual, 1e-8)
    assert close(lazy.beta, eager.beta, 1e-8)
    assert close(lazy.rotated.all_rounding, eager.rotated.all_rounding, 1e-6)
    assert close(lazy.leave_one_out()[0], eager.leave_one_out()[0], 1e-8)
    assert close(lazy.rotated.targets(), Y, 1e-10)
    assert [result.status for result in lazy.tuning] == [result.status for result in eager.tuning]


def test_coefficients_at_given_ratios_without_eigenvectors():
    K, Y = rough()
    ratios = np.array([0.3, 7.0])
    solution = solve_fixed(Spectrum.from_gram(K).rotate(Y), CRITERIA["evidence"], ratios)
    for j, g in enumerate(ratios):
        expected = np.linalg.solve(K + g * np.eye(len(K)), Y[:, j])
        assert close(solution.range_dual[:, j], expected, 1e-10)


def test_mixed_outputs_are_products_whether_or_not_there_are_eigenvectors():
    K, Y = rough()
    rotated, M = Spectrum.from_gram(K).rotate(Y), np.array([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]])
    mixed = rotated.mixed(M)
    assert close(mixed.targets(), Y @ M.T, 1e-10)
    dual = rotated.spectrum.dual(mixed, np.full(3, 0.2))
    assert close(dual, np.linalg.solve(K + 0.2 * np.eye(len(K)), Y @ M.T), 1e-10)


@pytest.mark.parametrize(("share", "is_clear"), [(40.0, True), (4.0, False)])
def test_eigenvectors_are_for_small_ratios_where_an_eigenvalue_is_near_rounding(share, is_clear):
    """The smallest eigenvalue of a matrix in units of what rounding may be: 8 eps times the largest."""
    s = np.linspace(1.0, 2.0, 280)
    s[0] = share * 8.0 * np.finfo(np.float64).eps * 2.0
    Q = np.linalg.qr(targets(280, 280))[0]
    K = Q @ np.diag(s) @ Q.T
    spectrum = Spectrum.from_gram(0.5 * (K + K.T))
    expected = 0.0 if is_clear else 1e4 * spectrum.resolution
    assert spectrum.rotate(targets(280, 1)).coordinates.reliable_from == expected


def test_kernels_of_zeros_and_of_single_precision_are_not_clear():
    K, Y = rough()
    assert Spectrum.from_gram(K).rotate(Y).coordinates.reliable_from == 0.0
    single = Spectrum.from_gram(K, precision=1e-4)
    assert single.rotate(Y).coordinates.reliable_from == 1e4 * single.resolution
    nothing = Spectrum.from_gram(0.0 * K).rotate(Y).coordinates
    assert nothing.reliable_from == np.inf
    assert close(
        nothing.unexplained(np.zeros((1, 1)), np.ones((1, 1, 281)))[0], nothing.energy.sum(axis=0)[None]
    )


def test_absent_rows_have_eigenvectors_at_once():
    K, _ = rough()
    weight = np.ones(len(K))
    weight[3] = 0.0
    spectrum = Spectrum.from_gram(K, sample_weight=weight)
    assert isinstance(spectrum.U, np.ndarray)
    assert not spectrum.U[3].any()


def test_vectors_to_be_made_are_those_that_were_made():
    K, _ = rough()
    s, waiting = symmetric_eigen(np.asfortranarray(K))
    t, made = np.linalg.eigh(K)
    assert close(s, t, 1e-12)
    assert waiting.shape == made.shape == (len(waiting), len(waiting)) == (280, 280)
    for columns in (slice(None, 100), slice(None, -3), slice(20, 30), np.array([3, 1])):
        some, expected = waiting[:, columns], made[:, columns]
        assert some.shape == expected.shape
        waits = isinstance(columns, slice) and columns.start is None
        assert type(some) is (ReducedVectors if waits else ReflectedVectors)
        # to the sign of each vector
        assert close(np.abs(np.asarray(some)), np.abs(np.asarray(expected)), 1e-8)
        assert close(some.T @ K @ np.asarray(some), np.diag(s[columns]), 1e-10)
    assert waiting[:, :200][:, :-3].shape == (280, 197)
    with pytest.raises(IndexError, match="no rows"):
        waiting[3:, :2]


@pytest.mark.parametrize("m", [1, 4, 5, 70])
def test_vectors_are_the_same_in_single_reflectors_and_in_blocks(monkeypatch, m):
    """For few columns the reflectors are applied one by one, and no blocks of them are made."""
    K, _ = rough(100)
    _, vectors = symmetric_eigen(np.asfortranarray(K))
    Z = targets(100, m)
    coordinates = vectors._coordinates(Z)
    assert ("blocks" in vars(vectors)) == (m > 4)
    assert close(vectors.reflected(coordinates), Z, 1e-13)
    monkeypatch.setattr(reflectors_module, "_FEW_COLUMNS", 4 if m <= 4 else 100)
    Q = np.asarray(ReflectedVectors(vectors.reflectors, vectors.blocks, np.eye(100), 1))
    assert close(coordinates, Q.T @ Z, 1e-13)


@pytest.mark.parametrize("n", [64, 65, 256, 257])
def test_eigenvectors_of_few_rows_are_formed_at_once_where_they_will_be_needed(n):
    """Up to 64 rows in any case, and up to 256 where an eigenvalue is rounding."""
    clear = Spectrum.from_gram(rough(n)[0]).U
    assert isinstance(clear, np.ndarray) == (n <= 64)
    K, _ = smooth_matrix(n, length=3.0)
    spectrum = Spectrum.from_gram(K)
    assert isinstance(spectrum.U, np.ndarray) == (n <= 256)
    U = spectrum.dense_U
    assert close(U.T @ U, np.eye(n), 1e-12)
    assert close((U * spectrum.s) @ U.T, K, 1e-12)


@pytest.fixture
def made(monkeypatch):
    """How many rows the matrices have whose eigenvectors were made."""
    sizes = []

    def counted(diagonal, *args, **kwargs):
        sizes.append(len(diagonal))
        return lapack_dstevd(diagonal, *args, **kwargs)

    monkeypatch.setattr(reduced_module, "dstevd", counted)
    return sizes


def process(m):
    X, Y = smooth(0, 280, p=4, m=m)
    kernel = ConstantKernel() * RBF(0.7, "fixed") + WhiteKernel()
    return SpectralGPRegressor(kernel).fit(X, Y[:, 0] if m == 1 else Y), X


@pytest.mark.parametrize("m", [1, 3])
def test_a_fit_and_its_mean_need_no_eigenvectors_and_spreads_need_them_once(made, monkeypatch, m):
    model, X = process(m)
    mean = model.predict(X[:20])
    assert made == []
    again, std = model.predict(X[:20], return_std=True)
    model.predict(X[:30], return_std=True)
    assert made == [280]
    np.testing.assert_array_equal(mean, again)
    monkeypatch.setattr(reflectors_module, "dstevd", None)
    eager, _ = process(m)
    assert close(std, eager.predict(X[:20], return_std=True)[1], 1e-9)
    assert close(mean, eager.predict(X[:20]), 1e-10)


def test_eigenvectors_are_not_pickled(made):
    model, X = process(1)
    size = len(pickle.dumps(model))
    expected = model.predict(X[:5], return_std=True)
    text = pickle.dumps(model)
    assert len(text) < size + 1000
    assert made == [280]
    for one, other in zip(pickle.loads(text).predict(X[:5], return_std=True), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_older_scipy_makes_eigenvectors_at_once(monkeypatch):
    K, Y = rough()
    expected = solve(Spectrum.from_gram(K).rotate(Y), CRITERIA["evidence"])
    monkeypatch.setattr("skspectral.linalg.reflectors.dstevd", None)
    found = solve(Spectrum.from_gram(K).rotate(Y), CRITERIA["evidence"])
    assert isinstance(found.spectrum.U, np.ndarray)
    assert close(found.log_evidence, expected.log_evidence, 1e-10)


def test_eigenvalues_that_do_not_converge_are_refused(monkeypatch):
    reduced = Reduced(np.ones(3), np.zeros(2))
    monkeypatch.setattr(reduced_module, "dsterf", lambda *_: (None, 1))
    monkeypatch.setattr(reduced_module, "dstevd", lambda *_, compute_v: (None, None, compute_v))
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        reduced.eigenvalues()
    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        _ = reduced.eigen


def test_sizes_of_pieces_do_not_matter(monkeypatch):
    diagonal, off, _ = tridiagonal(150)
    B, found = targets(150, 2), []
    for size in (5, 24, 70):
        monkeypatch.setattr(pieces_module, "_SIZE", size)
        found.append(
            ReducedCoordinates(Reduced(diagonal, off), B, 150).unexplained(np.log(RATIOS)[:, None], None)
        )
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            assert np.abs(one / another - 1.0).max() < 1e-9


# -- eigenvalues that are rounding


def smooth_matrix(n=300, length=1.5, seed=0):
    """Return a kernel matrix, many eigenvalues of which are rounding, and its inputs."""
    X = np.random.default_rng(seed).uniform(-2.0, 2.0, (n, 2))
    return RBF(length)(X), X


def test_ratios_below_what_is_reliable_are_those_of_eigenvectors():
    K, X = smooth_matrix()
    Y = np.column_stack([np.sin(X[:, 0]), targets(300, 1)[:, 0]])
    rotated = Spectrum.from_gram(K).rotate(Y)
    coordinates, (s, U) = rotated.coordinates, np.linalg.eigh(K)
    low = coordinates.reliable_from
    assert low == 1e4 * rotated.spectrum.resolution
    clipped = np.where(s > rotated.spectrum.resolution, s, 0.0)
    energy = (U.T @ (Y / rotated.scale)) ** 2
    for g in (1e-3 * low, low, 1e3 * low, 1.0):
        v = 1.0 / (1.0 + rotated.s / g)[None, None]
        A, A1, _ = coordinates.unexplained(np.log([[g]]), v)
        shares = 1.0 / (1.0 + clipped[:, None] / g)
        digits = 1e-5 if g >= low else 1e-2  # small eigenvalues have errors of their own
        assert np.abs(A[0] / (energy * shares).sum(axis=0) - 1.0).max() < digits
        assert np.abs(A1[0] / (energy * shares * (1.0 - shares)).sum(axis=0) - 1.0).max() < 100.0 * digits
    assert close(coordinates.hidden_energy(rotated.s), energy[clipped == 0].sum(axis=0), 1e-3)
    kept = clipped > 0
    leak = ((rotated.spectrum.resolution / clipped[kept, None]) ** 2 * energy[kept]).sum(axis=0)
    assert coordinates.leak(rotated.spectrum.s, rotated.spectrum.resolution) == pytest.approx(leak, rel=0.3)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_noisy_targets_of_a_smooth_kernel_need_no_eigenvectors(made, monkeypatch, shared, intercept):
    K, X = smooth_matrix()
    Y = np.sin(X) + 0.1 * targets(300, 2)
    basis = np.ones((300, 1)) if intercept else None

    def make():
        return solve(Spectrum.from_gram(K, basis).rotate(Y), CRITERIA["evidence"], shared=shared)

    lazy = make()
    assert made == []
    monkeypatch.setattr(reflectors_module, "dstevd", None)
    eager = make()
    assert [result.status for result in lazy.tuning] == ["interior", "interior"]
    for field in ("noise_ratio", "noise_var", "log_evidence"):
        assert close(getattr(lazy, field), getattr(eager, field), 1e-7)
    assert close(K @ lazy.range_dual, K @ eager.range_dual, 1e-7)


@pytest.mark.parametrize(("noise", "waits"), [(0.1, True), (0.0, False)])
def test_a_look_at_noisy_targets_needs_no_eigenvectors(made, monkeypatch, noise, waits):
    K, X = smooth_matrix()
    Y = np.sin(X) + noise * targets(300, 2)
    lazy = look_for_ratio(Spectrum.from_gram(K).rotate(Y), CRITERIA["evidence"], VarianceBounds())
    assert (made == []) == waits
    monkeypatch.setattr(reflectors_module, "dstevd", None)
    eager = look_for_ratio(Spectrum.from_gram(K).rotate(Y), CRITERIA["evidence"], VarianceBounds())
    assert np.abs(np.log(lazy / eager)).max() < (0.1 if waits else 3.0)


@pytest.mark.parametrize("name", ["evidence", "gcv"])
def test_targets_without_noise_have_their_eigenvectors(made, monkeypatch, name):
    K, X = smooth_matrix()
    Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 1]) + 0.1 * targets(300, 1)[:, 0]])
    lazy = solve(Spectrum.from_gram(K).rotate(Y), CRITERIA[name])
    assert made == [300]
    monkeypatch.setattr(reflectors_module, "dstevd", None)
    eager = solve(Spectrum.from_gram(K).rotate(Y), CRITERIA[name])
    assert [r.status for r in lazy.tuning] == [r.status for r in eager.tuning]
    assert close(K @ lazy.range_dual, K @ eager.range_dual, 1e-4)
    assert lazy.noise_ratio[1] == pytest.approx(eager.noise_ratio[1], rel=1e-5)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.floats(-6.0, 0.0), st.floats(-1.0, 1.0), st.floats(-9.0, 0.5), st.booleans())
def test_no_lower_minimum_hides_where_eigenvectors_are_needed(seed, log_noise, log_length, log_wave, bounded):
    """Signals of two scales, one of them next to nothing, and noise: the end is that with eigenvectors."""
    K, X = smooth_matrix(260, 10.0**log_length, seed)
    y = (
        np.sin(2.0 * X[:, :1])
        + 10.0**log_wave * np.sin(40.0 * X[:, 1:])
        + 10.0**log_noise * targets(260, 1, seed)
    )
    bounds = VarianceBounds((1e-9, 1e5), (1e-5, 1e5)) if bounded else None
    lazy = solve(Spectrum.from_gram(K).rotate(y), CRITERIA["evidence"], bounds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reflectors_module, "dstevd", None)
        eager = solve(Spectrum.from_gram(K).rotate(y), CRITERIA["evidence"], bounds)
    is_far = eager.noise_ratio[0] > 1e4 * eager.spectrum.resolution
    digits = 1e-4 if is_far else 0.2  # eigenvalues near rounding have errors of their own
    assert lazy.log_evidence[0] == pytest.approx(eager.log_evidence[0], rel=1e-2 * digits, abs=digits)
