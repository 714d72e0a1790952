"""What a spectrum says of targets and of new points beside dense matrices, for every way to make one."""

import numpy as np
import pytest
import reference
from problems import close

from skspectral.linalg.spectrum import Spectrum, _checked, _own_copy, norm

EPS = np.finfo(np.float64).eps
MAKES = ["gram", "factor", "squares", "wide factor", "flip", "clip"]
N, N_NEW, ABSENT = 9, 5, 4


class Problem:
    """Rows with weights, one of them absent, new points, and the dense matrices of the rows present."""

    def __init__(self, make, q):
        rng = np.random.default_rng(0)
        self.make, self.q = make, q
        Phi = rng.normal(size=(N + N_NEW, 12 if make == "wide factor" else 4)) + 0.5
        signs = [1.0, -1.0, 1.0, -0.5] if make in ("flip", "clip") else 1.0
        whole = (Phi * signs) @ Phi.T
        if make == "gram":
            whole += np.diag(np.linspace(0.5, 1.0, N + N_NEW))
        basis = np.column_stack([np.ones(N + N_NEW), rng.normal(size=N + N_NEW)])[:, :q]
        self.weight = rng.uniform(0.5, 2.0, N)
        self.weight[ABSENT] = 0.0
        self.K, self.K_new, self.among = whole[:N, :N], whole[N:, :N], whole[N:, N:]
        self.F, self.F_new = (basis[:N], basis[N:]) if q else (None, None)
        self.Phi, self.Phi_new = Phi[:N], Phi[N:]
        self.Y = rng.normal(size=(N, 2)) * [1.0, 30.0] + 3.0
        self.spectrum = self.decomposed()
        self._make_dense()

    def decomposed(self):
        if self.make in ("gram", "flip", "clip"):
            indefinite = self.make if self.make != "gram" else "refuse"
            return Spectrum.from_gram(self.K, self.F, self.weight, indefinite=indefinite)
        return Spectrum.from_factor(self.Phi, self.F, self.weight, is_exact=self.make != "squares")

    def _make_dense(self):
        """With h = f*'(F'F)^-1 F', in weighted rows: k~ = P (k* - K h'), its variance and h h'."""
        root = np.sqrt(self.weight)
        F = root[:, None] * (np.zeros((N, 1)) if self.F is None else self.F)
        F_new = np.zeros((N_NEW, 1)) if self.F is None else self.F_new
        h = F_new @ np.linalg.pinv(F)
        self.P = np.diag((root > 0).astype(float)) - F @ np.linalg.pinv(F)
        K, k = root[:, None] * self.K * root, root[:, None] * self.K_new.T
        self.outside = self.P @ k
        self.k = self.P @ (k - K @ h.T)
        self.prior = self.among - h @ k - (h @ k).T + h @ K @ h.T
        self.leverage = h @ h.T
        self.PKP = self.P @ K @ self.P
        if self.make in ("flip", "clip"):
            s, V = np.linalg.eigh(self.PKP)
            kept = np.abs(s) > 1e-10
            s, V = s[kept], V[:, kept]
            t = np.abs(s) if self.make == "flip" else np.maximum(s, 0.0)
            self.prior = self.prior + (self.k.T @ V) @ np.diag((t - s) / s**2) @ (V.T @ self.k)
            rest = np.eye(N) - V @ V.T
            self.signs = (V * (t / s)) @ V.T + rest
            self.PKP = (V * t) @ V.T
            self.k, self.outside = self.signs @ self.k, self.signs @ self.outside


@pytest.fixture(scope="module", params=MAKES)
def make(request):
    return request.param


@pytest.fixture(scope="module", params=[0, 2], ids=["no mean", "mean"])
def problem(request, make):
    return Problem(make, request.param)


def test_eigenvectors_are_those_of_the_dense_matrix(problem):
    U, s = problem.spectrum.dense_U, problem.spectrum.s
    assert close((U * s) @ U.T, problem.PKP, 1e-10)
    assert close(U.T @ U, np.eye(len(s)), 1e-12)
    assert close(problem.P @ U, U, 1e-12)
    assert (np.diff(s) >= 0).all()


def test_new_points_are_what_they_are_outside_of_the_mean(problem):
    spectrum = problem.spectrum
    U = spectrum.dense_U
    cross, prior, leverage = spectrum.project(problem.K_new, problem.among, problem.F_new)
    assert close(U @ cross, problem.k, 1e-10)
    assert close(prior, problem.prior, 1e-10)
    assert close(leverage, problem.leverage, 1e-12)
    each, variances, lengths = spectrum.project(problem.K_new, np.diag(problem.among), problem.F_new)
    assert close(each, cross, 1e-12)
    assert close(variances, np.diag(problem.prior), 1e-10)
    assert close(lengths, np.diag(problem.leverage), 1e-12)
    assert close(U @ spectrum.project_outside_mean(problem.K_new), problem.outside, 1e-10)


@pytest.mark.parametrize("make", ["factor", "squares", "wide factor"], indirect=True)
def test_features_of_new_points_say_what_kernel_values_say(problem):
    """So do kernel values with landmarks, k = L phi, if L^-1 makes features of them.

    The kernel of new points may have more than the features show, a part that no row knows of.
    """
    spectrum = problem.spectrum
    extra = np.diag(np.linspace(1.0, 2.0, N_NEW))
    features = problem.Phi_new.shape[1]
    L = np.tril(np.random.default_rng(2).normal(size=(features, features))) + 3.0 * np.eye(features)
    on_landmarks, K_landmarks = spectrum.of_features.on_landmarks(L), problem.Phi_new @ L.T
    for add, pick in ((extra, np.asarray), (extra.diagonal(), np.diag)):
        prior = pick(problem.among) + add
        found = spectrum.of_features.project(problem.Phi_new, prior, problem.F_new)
        assert close(spectrum.dense_U @ found[0], problem.k, 1e-10)
        assert close(found[1], pick(problem.prior) + add, 1e-10)
        assert close(found[2], pick(problem.leverage), 1e-12)
        again = on_landmarks.project(K_landmarks, prior, problem.F_new)
        for one, other in zip(found, again, strict=True):
            assert close(one, other, 1e-10)
    outside = spectrum.of_features.project_outside_mean(problem.Phi_new)
    assert close(spectrum.dense_U @ outside, problem.outside, 1e-10)
    assert close(on_landmarks.project_outside_mean(K_landmarks), outside, 1e-10)


def test_slopes_at_new_points_are_those_of_differences(problem):
    """Of combinations of prior, cross and leverage, by kernel values or features and by mean functions."""
    spectrum, rng = problem.spectrum, np.random.default_rng(1)
    by_features = spectrum.loadings is not None
    inputs, basis, prior = (
        problem.Phi_new if by_features else problem.K_new,
        problem.F_new,
        problem.among.diagonal(),
    )
    projection = spectrum.of_features if by_features else spectrum
    by = rng.normal(size=N_NEW), rng.normal(size=(len(spectrum.s), N_NEW)), rng.normal(size=N_NEW)

    def values(inputs, basis):
        cross, own, leverage = projection.project(inputs, prior, basis)
        return by[0] * own + (by[1] * cross).sum(axis=0) + by[2] * leverage

    def slopes(at, value):  # a point's value depends on its own row alone
        steps = 1e-5 * np.eye(at.shape[1])
        return np.column_stack([(value(at + step) - value(at - step)) / 2e-5 for step in steps])

    by_inputs, by_basis = projection.pull_back(inputs, basis, *by)
    assert close(by_inputs, slopes(inputs, lambda at: values(at, basis)), 1e-7)
    if basis is None:
        assert by_basis is None
    else:
        assert close(by_basis, slopes(basis, lambda at: values(inputs, at)), 1e-7)


def test_predictions_are_those_of_dense_ridge_regression(problem):
    """In the given kernel: values of a repaired one are its values times signs, outside of the mean."""
    spectrum, g = problem.spectrum, np.array([0.3, 2.0])
    rotated = spectrum.rotate(problem.Y)
    dual = spectrum.dual(rotated, g)
    beta = spectrum.mean_coefficients(rotated, dual)
    found = problem.K_new @ dual + (problem.F_new @ beta if problem.q else 0.0)
    root = np.sqrt(problem.weight)
    expected = np.empty((N_NEW, 2))
    F = np.zeros((N, 1)) if problem.F is None else root[:, None] * problem.F
    F_new = np.zeros((N_NEW, 1)) if problem.F is None else problem.F_new
    for j in range(2):
        y = root * problem.Y[:, j]
        weights = np.linalg.solve(problem.PKP + g[j] * np.eye(N), problem.P @ y)
        expected[:, j] = problem.k.T @ weights + F_new @ np.linalg.pinv(F) @ y
    assert close(found, expected, 1e-9)
    assert not dual[ABSENT].any()


@pytest.mark.parametrize("make", ["gram", "factor", "wide factor"], indirect=True)
def test_the_reference_agrees_where_rows_are_left_out(problem):
    at = np.flatnonzero(problem.weight)
    F = None if problem.F is None else problem.F[at]
    K, K_new = problem.K[np.ix_(at, at)], problem.K_new[:, at]
    rotated = problem.spectrum.rotate(problem.Y)
    g = np.full(2, 0.7)
    dual = problem.spectrum.dual(rotated, g)
    beta = problem.spectrum.mean_coefficients(rotated, dual)
    found = problem.K_new @ dual + (problem.F_new @ beta if problem.q else 0.0)
    for j in range(2):
        y = problem.Y[at, j]
        expected = reference.ridge(K, y, 0.7, K_new, F, problem.F_new, problem.weight[at])
        assert close(found[:, j], np.ravel(expected), 1e-9)


def test_dual_coefficients_outside_of_the_kernel_explain_the_rest(problem):
    spectrum, root = problem.spectrum, np.sqrt(problem.weight)[:, None]
    g, rotated = np.array([0.3, 2.0]), spectrum.rotate(problem.Y)
    U = spectrum.dense_U
    rest = problem.P @ (root * problem.Y)
    rest = rest - U @ (U.T @ rest)
    expected = root * rest / g if spectrum.n_null else np.zeros((N, 2))
    assert np.abs(spectrum.null_dual(rotated, g) - expected).max() < 1e-10
    assert (np.abs(expected).max() > 1.0) == (problem.make in ("factor", "squares"))


@pytest.mark.parametrize("make", ["factor", "squares", "wide factor"], indirect=True)
def test_coefficients_of_features_are_sums_over_rows(problem):
    spectrum = problem.spectrum
    dual = spectrum.dual(spectrum.rotate(problem.Y), np.array([0.3, 2.0]))
    assert close(spectrum.primal(dual), problem.Phi.T @ dual, 1e-10)


def test_outputs_are_mixed_and_selected_with_their_means(problem):
    M, present = np.array([[1.0, 2.0], [-3.0, 0.5], [0.0, 1.0]]), problem.weight > 0
    rotated = problem.spectrum.rotate(problem.Y)
    for found, expected in (
        (rotated, problem.Y),
        (rotated.mixed(M), problem.Y @ M.T),
        (rotated.select([1]), problem.Y[:, [1]]),
        (rotated.select([1, 0, 1]), problem.Y[:, [1, 0, 1]]),
    ):
        assert close(found.targets(), expected * present[:, None], 1e-10)


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**60])
@pytest.mark.parametrize("q", [0, 2])
def test_the_unit_of_a_kernel_is_that_of_its_spectrum(make, q, unit):
    problem = Problem(make, q)
    one = problem.spectrum
    problem.K, problem.Phi = unit * problem.K, np.sqrt(unit) * problem.Phi
    other = problem.decomposed()
    assert close(other.s, unit * one.s, 1e-10)
    assert other.resolution == pytest.approx(unit * one.resolution, rel=1e-10, abs=0.0)
    assert other.noise_resolution == pytest.approx(unit * one.noise_resolution, rel=1e-10, abs=0.0)
    assert (one.s > 0).sum() == (other.s > 0).sum()


# -- limits


@pytest.mark.parametrize("q", [1, 3])
def test_a_kernel_of_zeros_has_eigenvalues_of_0_beside_a_mean(q):
    F = np.random.default_rng(0).normal(size=(6, q))
    spectrum = Spectrum.from_gram(np.zeros((6, 6)), F)
    np.testing.assert_array_equal(spectrum.s, np.zeros(6 - q))
    assert spectrum.resolution == 0.0
    U = spectrum.dense_U
    assert np.abs(U.T @ F).max() < 1e-14
    assert close(U.T @ U, np.eye(6 - q), 1e-14)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_a_direction_that_is_all_of_the_kernel_is_not_mixed_with_the_mean(size):
    """Its eigenvalue is the norm of the matrix, that of the mean must be another."""
    u = np.array([1.0, -1.0, 2.0, -2.0, 0.0])
    spectrum = Spectrum.from_gram(size * np.outer(u, u), np.ones((5, 1)))
    U = spectrum.dense_U
    assert np.abs(U.sum(axis=0)).max() < 1e-14
    assert spectrum.s == pytest.approx([0.0, 0.0, 0.0, 10.0 * size], rel=1e-12, abs=0.0)


@pytest.mark.filterwarnings("error")
def test_the_resolution_of_a_kernel_that_has_nothing_along_the_mean():
    """It is that of the largest eigenvalue, 10."""
    u = np.array([1.0, -1.0, 2.0, -2.0, 0.0])
    spectrum = Spectrum.from_gram(np.outer(u, u), np.eye(5)[:, 4:])
    assert close(spectrum.resolution_sensitivity(), np.outer(u, u) / 100.0, 1e-12)


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (1, 3), (4, 7)])
def test_columns_beyond_the_rows_span_no_more_than_these(n, columns):
    spectrum = Spectrum.from_factor(np.random.default_rng(0).normal(size=(n, columns)))
    assert spectrum.noise_resolution == spectrum.resolution
    assert len(spectrum.s) == n


@pytest.mark.parametrize("is_exact", [True, False])
def test_digits_of_small_singular_values(is_exact):
    """Those of a factor known to all digits are not squared on the way."""
    rng = np.random.default_rng(0)
    Q, V = (np.linalg.qr(rng.normal(size=(n, 6)))[0] for n in (30, 6))
    sizes = np.array([1e-12, 1e-6, 1.0, 1.0, 1.0, 1.0])
    spectrum = Spectrum.from_factor((Q * sizes) @ V.T, is_exact=is_exact)
    if is_exact:
        assert np.sqrt(spectrum.s) == pytest.approx(sizes, rel=0.01, abs=0.0)
    else:
        assert np.sqrt(spectrum.s) == pytest.approx(sizes[1:], rel=0.01, abs=0.0)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_one_entry_that_is_no_number_is_refused(bad):
    Phi = np.ones((3, 2))
    Phi[1, 1] = bad
    with pytest.raises(ValueError, match="factor of the kernel matrix has NaN or infinite entries"):
        Spectrum.from_factor(Phi)
    with pytest.raises(ValueError, match="beyond the largest number"):
        _checked(Phi)
    assert _checked(Phi[:1]) is not None


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-139, 1.0, 1e139, 1e200, 1e300])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_norm_of_very_large_and_small_entries(size, sign):
    assert norm(sign * size * np.array([[1.0, 2.0], [0.5, 4.0]])) == pytest.approx(
        size * np.sqrt(21.25), rel=1e-12, abs=0.0
    )
    assert norm(np.zeros((2, 2))) == norm(np.zeros((0, 2))) == 0.0


def test_the_memory_of_a_matrix_is_used_where_that_is_allowed():
    K = np.eye(3)
    assert _own_copy(K, overwrite_K=True) is K
    assert not np.may_share_memory(_own_copy(K, overwrite_K=False), K)
    single = K.astype(np.float32)
    assert _own_copy(single, overwrite_K=False).dtype == np.float64


def test_a_spectrum_without_null_directions_has_one_zero_for_all_rows():
    assert Spectrum.from_gram(np.eye(3)).null_leverage.shape == (1, 1)
    assert Spectrum.from_gram(np.eye(3)).rotate(np.ones((3, 2))).null_residual.shape == (1, 1)
