"""Functions of smooth kernels, spanned by a few columns of a kernel matrix that is never made."""

import numpy as np
import pytest
from problems import close
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, PairwiseKernel, RationalQuadratic

from skspectral import RelevanceVectorRegressor
from skspectral.kernels.gram import KernelGram, PairwiseGram, PrecomputedGram
from skspectral.linalg import dictionary as dictionary_module
from skspectral.linalg.active import FunctionValues
from skspectral.linalg.dictionary import Dictionary
from skspectral.linalg.factors import pivoted_cholesky, spanned_by_few
from skspectral.linalg.rows import Rows

N = 320


def line(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-10.0, 10.0, (n, 1))
    return X, np.sinc(X[:, 0] / np.pi) + 0.1 * rng.normal(size=n)


def smooth_gram(gamma=0.1):
    return PairwiseGram("rbf", {"gamma": gamma})


def functions(gram, X, basis=None, weight=None):
    return Dictionary(gram, X, Rows.make(len(X), basis, weight), np.random.default_rng(3).permutation(len(X)))


class Counted:
    """A gram that counts the columns it makes."""

    is_positive = True

    def __init__(self, gram):
        self.gram, self.n_columns = gram, 0

    def __getattr__(self, name):
        return getattr(self.gram, name)

    def columns(self, X, chosen):
        self.n_columns += len(chosen)
        return self.gram.columns(X, chosen)

    def cross(self, X, Z):
        raise AssertionError("all columns were made")


@pytest.mark.parametrize("basis", [None, np.ones((N, 1))], ids=["plain", "intercept"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "gram", [smooth_gram(), KernelGram(RationalQuadratic(4.0, 30.0))], ids=["rbf", "quadratic"]
)
def test_coordinates_are_those_of_the_columns(gram, weighted, basis):
    X, _ = line()
    weight = np.random.default_rng(1).uniform(0.1, 3.0, N) if weighted else None
    dictionary = functions(gram, X, basis, weight)
    expected, lengths = dictionary.columns(np.arange(N))
    coordinates, found, Q = dictionary.in_few_coordinates()
    assert Q.shape[1] == len(coordinates) < 64
    assert close(Q.T @ Q, np.eye(Q.shape[1]), 1e-13)
    assert close(Q @ coordinates, expected, 1e-11)
    assert close(found, lengths, 1e-12)
    Y = np.random.default_rng(2).normal(size=(N, 2))
    for values, y in zip(FunctionValues.in_basis(Q, coordinates, Y), Y.T, strict=True):
        assert values.products_with_target == pytest.approx(y @ expected, abs=1e-10)
        assert values.yy == pytest.approx(y @ y)


def test_columns_that_are_not_needed_are_not_made():
    X, _ = line()
    gram = Counted(smooth_gram())
    coordinates, *_ = functions(gram, X).in_few_coordinates()
    assert gram.n_columns == len(coordinates) < 40


def test_functions_that_are_all_mean_have_no_length():
    X, _ = line()
    coordinates, lengths, _ = functions(smooth_gram(0.0), X, np.ones((N, 1))).in_few_coordinates()
    assert not lengths.any()
    assert not coordinates.any()


@pytest.mark.parametrize(
    ("gram", "X"),
    [
        (PairwiseGram("sigmoid", {"gamma": 1e-3}), line()[0]),
        (PairwiseGram(lambda a, b: float(a @ b)), line()[0]),
        (KernelGram(PairwiseKernel(1e-3, metric="sigmoid")), line()[0]),
        (PrecomputedGram(), smooth_gram().square(line()[0])),
        (smooth_gram(), line(299)[0]),
        (smooth_gram(50.0), line()[0]),  # of many coordinates, as some rows show
        (smooth_gram(2.0), line(1000)[0]),  # of a few more than may be
    ],
    ids=["sigmoid", "callable", "kernel object", "precomputed", "few rows", "rough", "a little rough"],
)
def test_nothing_is_said_of_kernels_of_unknown_sign_or_of_many_coordinates(gram, X):
    assert functions(gram, X).in_few_coordinates() is None


def test_some_functions_are_those_of_their_rows_if_they_are_many():
    X, _ = line()
    some = Dictionary(smooth_gram(), X, Rows.make(N), np.arange(N)[:4:-1])
    coordinates, lengths, Q = some.in_few_coordinates()
    expected = smooth_gram().square(X)[:, :4:-1]
    assert close(Q @ coordinates * lengths, expected, 1e-11)
    assert Dictionary(smooth_gram(), X, Rows.make(N), np.arange(299)).in_few_coordinates() is None


def test_kernels_known_to_be_positive():
    assert [PairwiseGram(name).is_positive for name in ("rbf", "laplacian", "poly", "cosine")] == [
        True,
        True,
        False,
        False,
    ]
    kernels = RBF(), Matern(), RationalQuadratic(), DotProduct(), RBF() + RBF()
    assert [KernelGram(kernel).is_positive for kernel in kernels] == [True, True, True, False, False]
    assert not PrecomputedGram().is_positive


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_positive_names_have_ones_on_the_diagonal(name):
    X = np.random.default_rng(0).normal(size=(70, 3))
    gram = PairwiseGram(name)
    assert close(gram.diagonal(X), np.diag(gram.square(X)), 1e-15)


def test_a_factor_that_keeps_all_pivots_has_few_blocks_and_all_digits():
    X, _ = line()
    blocks = []
    factor = pivoted_cholesky(smooth_gram(), X, keep=0.0, report=lambda **told: blocks.append(told))
    assert len(blocks) <= 4
    assert close(factor.Phi @ factor.Phi.T, smooth_gram().square(X), 1e-12)
    slower = []
    pivoted_cholesky(smooth_gram(), X, report=lambda **told: slower.append(told))
    assert len(slower) > len(blocks)


def test_a_factor_of_few_columns_is_one_to_rounding_or_none():
    X, _ = line()
    K = smooth_gram().square(X)
    factor = spanned_by_few(smooth_gram(), X, 64)
    assert close(factor.Phi @ factor.Phi.T, K, 1e-12)
    assert spanned_by_few(smooth_gram(), X, factor.rank // 2) is None


@pytest.mark.parametrize("kernel", ["rbf", RBF(2.5)], ids=["name", "object"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("m", [1, 2])
def test_fits_are_the_same_with_the_matrix_and_without(monkeypatch, kernel, intercept, weighted, m):
    X, y = line()
    Y = y if m == 1 else np.column_stack([y, np.cos(X[:, 0]) + 0.2 * y])
    weight = np.random.default_rng(1).uniform(0.5, 2.0, N) if weighted else None
    gamma = {"gamma": 0.08} if kernel == "rbf" else {}
    without, with_matrix = (
        RelevanceVectorRegressor(kernel, fit_intercept=intercept, **gamma) for _ in range(2)
    )
    without.fit(X, Y, weight)
    monkeypatch.setattr(dictionary_module, "_MANY", N + 1)
    with_matrix.fit(X, Y, weight)
    np.testing.assert_array_equal(without.relevance_, with_matrix.relevance_)
    for name in ("log_marginal_likelihood_value_", "noise_variance_"):
        assert np.allclose(getattr(without, name), getattr(with_matrix, name), rtol=1e-7)
    assert close(without.predict(X), with_matrix.predict(X), 1e-6)


class Blocks:
    """A gram of values times a size that counts what is made of it."""

    def __init__(self, gram, size=1.0):
        self.gram, self.size, self.blocks, self.n_columns = gram, size, [], 0

    def __getattr__(self, name):
        return getattr(self.gram, name)

    def diagonal(self, X):
        return self.size * self.gram.diagonal(X)

    def block(self, X, chosen):
        self.blocks.append(chosen)
        return self.size * self.gram.block(X, chosen)

    def columns(self, X, chosen):
        self.n_columns += len(chosen)
        return self.size * self.gram.columns(X, chosen)


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e6])
def test_a_factor_of_few_columns_in_any_unit(size):
    X, _ = line()
    gram = Blocks(smooth_gram(), size)
    factor = spanned_by_few(gram, X, 64)
    assert close(factor.Phi @ factor.Phi.T, size * smooth_gram().square(X), 1e-12)
    assert len(gram.blocks) <= 5  # that of some rows, and those of a few rounds
    assert len(gram.blocks[0]) == 64
    for too_few in (8, 12):
        assert spanned_by_few(Blocks(smooth_gram(), size), X, factor.rank - too_few) is None


def test_some_rows_tell_that_no_column_is_worth_making():
    X, _ = line()
    gram = Blocks(smooth_gram(50.0))
    assert spanned_by_few(gram, X, 64) is None
    assert gram.n_columns == 0
    assert [len(chosen) for chosen in gram.blocks] == [64]
    few = X[:20]
    assert spanned_by_few(Blocks(smooth_gram(1e-4)), few, 64).rank < 10  # all of few rows are some


def test_a_fit_does_not_make_the_matrix(monkeypatch):
    X, y = line()
    shapes, original = [], PairwiseGram.cross

    def watched(self, X, Z):
        K = original(self, X, Z)
        shapes.append(K.shape)
        return K

    monkeypatch.setattr(PairwiseGram, "cross", watched)
    RelevanceVectorRegressor(gamma=0.1).fit(X, y)
    assert max(rows for rows, _ in shapes) == N
    assert max(columns for rows, columns in shapes if rows == N) <= 64


def test_columns_that_are_nearly_mean_vanish_as_those_of_the_matrix_do():
    """FF' = 10^6 + s_i s_j: what is left beside the mean is 10^-8 of a column, or 10^-11 of it."""
    rng = np.random.default_rng(0)
    s = np.where(np.arange(60) % 2, 0.1, 1e-4) * rng.choice([-1.0, 1.0], 60)
    F = np.column_stack([np.full(60, 1e3), s])
    rows, chosen = Rows.make(60, np.ones((60, 1))), rng.permutation(60)
    coordinates, lengths, basis = rows.unit_coordinates(F, chosen)
    columns, expected = rows.unit_columns((F @ F.T)[:, chosen])
    np.testing.assert_array_equal(lengths > 0, chosen % 2 == 1)
    np.testing.assert_array_equal(expected > 0, chosen % 2 == 1)
    assert np.allclose(basis @ coordinates, columns, atol=1e-5)  # as many digits as the matrix has
    assert not coordinates[:, lengths == 0].any()


@pytest.mark.parametrize(("gamma", "are_few"), [(50.0, False), (1.0, False), (0.5, True)])
def test_rows_that_some_rows_do_not_show_are_seen_in_the_end(gamma, are_few):
    """Every fifth row is the same, and these are looked at first."""
    X, _ = line()
    X[::5] = 0.0
    factor = spanned_by_few(smooth_gram(gamma), X, 64)
    assert (factor is not None) == are_few
