"""Rows with weights and mean functions, targets in the eigenbasis and vectors, at the limits of numbers."""

import numpy as np
import pytest
from problems import close

from skspectral.linalg.coordinates import Coordinates
from skspectral.linalg.indefinite import Repair
from skspectral.linalg.reflectors import left_singular, symmetric_eigen
from skspectral.linalg.rotated import Rotated
from skspectral.linalg.rows import RowCounts, Rows, add_outer, span
from skspectral.support.exceptions import RankDeficientBasisWarning

EPS = np.finfo(np.float64).eps


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# -- columns outside of a mean


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("q", [0, 2])
@pytest.mark.parametrize("overwrite", [True, False])
def test_unit_columns_are_those_of_dense_matrices(weighted, q, overwrite):
    weight = np.array([1.0, 4.0, 1.0, 0.25, 0.0, 1.0, 2.0]) if weighted else np.ones(7)
    root, F = np.sqrt(weight)[:, None], random(7, q, seed=1)
    K = random(7, 3) + 10.0
    outside = root * K - root * F @ np.linalg.pinv(root * F) @ (root * K) if q else root * K
    length, before = np.linalg.norm(outside, axis=0), K.copy()
    columns, lengths = Rows.make(7, F if q else None, weight).unit_columns(K, overwrite=overwrite)
    assert close(lengths, length, 1e-12)
    assert close(columns, outside / length, 1e-12)
    assert np.may_share_memory(columns, K) == (overwrite and not weighted)
    if weighted or not overwrite:
        np.testing.assert_array_equal(K, before)


def test_columns_are_left_as_they_are_unless_they_may_be_overwritten():
    K = random(5, 2)
    before = K.copy()
    Rows.make(5, np.ones((5, 1))).unit_columns(K)
    np.testing.assert_array_equal(K, before)


@pytest.mark.parametrize("unit", [-1.0, 1e-12, 1e12, 1e-200, -1e-200, 1e200, -1e200])
def test_units_of_columns_are_those_of_their_lengths(unit):
    rows, K = Rows.make(6, np.ones((6, 1))), random(6, 3) + 1e3
    K[:, 2] = 1.0  # nothing of it is left
    one, lengths = rows.unit_columns(K)
    for factor in (np.full(3, unit), np.array([unit, 1.0, unit]), np.array([1.0, unit, 1.0])):
        columns, found = rows.unit_columns(factor * K)
        assert found == pytest.approx(np.abs(factor) * lengths, rel=1e-9, abs=0.0)
        assert close(columns, np.sign(factor) * one, 1e-9)
    np.testing.assert_array_equal(one[:, 2], np.zeros(6))


@pytest.mark.parametrize("means", [[0.0, 1e8], [1e8]])
def test_a_mean_that_hides_a_column_is_taken_away_twice(means):
    """Once leaves rounding of the mean, which is much beside what remains of the column."""
    K = random(50, len(means)) + np.array(means)
    columns, lengths = Rows.make(50, np.ones((50, 1))).unit_columns(K)
    assert np.abs(columns.sum(axis=0)).max() < 1e-13
    assert lengths == pytest.approx(7.0, rel=0.3)


@pytest.mark.parametrize(("share", "is_kept"), [(1.5e-10, True), (0.7e-10, False)])
def test_columns_of_which_little_is_left_are_rounding(share, is_kept):
    pattern = np.array([1.0, -1.0, 1.0, -1.0])
    columns, lengths = Rows.make(4, np.ones((4, 1))).unit_columns((1.0 + share * pattern)[:, None])
    if is_kept:
        assert columns[:, 0] == pytest.approx(0.5 * pattern, rel=1e-4)
        assert lengths[0] == pytest.approx(2.0 * share, rel=1e-4, abs=0.0)
    else:
        np.testing.assert_array_equal(columns, np.zeros((4, 1)))
        assert lengths[0] == 0.0


# -- mean functions


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_units_of_mean_functions_do_not_matter(unit):
    F = random(6, 2)
    rows, plain = Rows.make(6, F * [unit, 1.0]), Rows.make(6, F)
    assert close(rows.Q @ rows.Q.T, plain.Q @ plain.Q.T, 1e-12)
    assert close((F * [unit, 1.0]) @ rows.R_inv, rows.Q, 1e-12)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("zeros", [[1], [0, 1, 2]])
def test_a_mean_function_of_zeros_has_no_coefficient(zeros):
    F = random(6, 3)
    F[:, zeros] = 0.0
    with pytest.warns(RankDeficientBasisWarning, match=f"Only {3 - len(zeros)} of 3"):
        rows = Rows.make(6, F)
    assert rows.n_mean == 3 - len(zeros)
    np.testing.assert_array_equal(rows.R_inv[zeros], np.zeros((len(zeros), rows.n_mean)))
    assert close(F @ rows.R_inv, rows.Q, 1e-12)


@pytest.mark.parametrize(("size", "n_kept"), [(4e-15, 1), (1.3e-14, 1), (2e-14, 2)])
def test_functions_that_rounding_tells_apart_are_one(size, n_kept):
    """Singular values of two functions of length 1 are sqrt 2 and `size`; 50 eps of the larger is 1.6e-14."""
    a, b = np.linalg.qr(random(50, 2))[0].T
    F = np.column_stack([a, a + np.sqrt(2.0) * size * b])
    assert span(F).shape == (50, n_kept)


def test_products_are_added_in_place():
    K, A, B = random(4, 4), random(4, 2, seed=1), random(4, 2, seed=2)
    expected = K + A @ B.T
    add_outer(K, A, B)
    assert close(K, expected, 1e-14)


@pytest.mark.parametrize("weight", [np.array([1.0, 4.0, 1.0]), np.array([1.0, 1.0, 9.0])])
def test_weights_that_are_partly_1_are_weights(weight):
    rows, K = Rows.make(3, None, weight), np.ones((3, 3))
    root = np.sqrt(weight)
    np.testing.assert_array_equal(rows.unweighted_sensitivity(K.copy()), np.outer(root, root))
    mine = K.copy()
    rows.project(mine)
    np.testing.assert_array_equal(mine, np.outer(root, root))


def test_without_rows_there_is_no_weight():
    assert Rows.make(2).R_inv.shape == (0, 0)
    assert Rows.make(2, None, np.zeros(2)).counts == RowCounts(0, 0, 0.0, 0.0)


# -- targets


@pytest.mark.filterwarnings("error")
def test_targets_of_zeros_and_of_one_row():
    Z, scale, part = Rows.make(3, np.ones((3, 1))).standardise(np.zeros((3, 2)))
    assert not Z.any()
    np.testing.assert_array_equal(scale, np.ones(2))
    assert not part.any()
    Z, scale, _ = Rows.make(1).standardise(np.array([[-3.0]]))
    assert (Z.item(), scale.item()) == (-1.0, 3.0)
    Z, scale, _ = Rows.make(2, np.ones((2, 1))).standardise(np.array([[1.0], [5.0]]))
    assert scale.item() == pytest.approx(np.sqrt(8.0))  # over one direction


def rotated(s, energy, resolution=0.0, rounding=0.0):
    s, energy = np.array(s), np.array(energy, dtype=float)[:, None]
    counts, coordinates = RowCounts(len(s), 0, 0.0, 1.0), Coordinates(np.sqrt(energy[:-1]), energy[-1])
    return Rotated(s, np.ones(len(s)), coordinates, np.ones(1), counts, resolution, np.array([rounding]))


def test_the_largest_eigenvalue_of_a_kernel_of_zeros_is_its_rounding():
    assert rotated([0.5, 3.0, 0.0], [1, 1, 1], resolution=0.25).largest == 3.0
    assert rotated([0.0, 0.0], [1, 1], resolution=0.25).largest == 0.25
    assert rotated([0.0, 0.0], [1, 1]).largest == 1.0


def test_energy_is_hidden_where_eigenvalues_are_0():
    some = rotated([0.0, 0.0, 2.0, 0.0], [1, 2, 4, 8], rounding=11.0)
    np.testing.assert_array_equal(some.hidden_energy, [11.0])
    assert not some.shows_noise.any()
    assert rotated([0.0, 0.0, 2.0, 0.0], [1, 2, 4, 8], rounding=10.9).shows_noise.all()


def test_what_a_repair_tells_of_negative_eigenvalues():
    repair = Repair("flip", np.array([-3.0, -1.0, 0.0, 0.5, 11.5]))
    assert repair.n_negative == 2
    assert repair.smallest_eigenvalue == -3.0
    assert repair.negative_share == 0.25
    np.testing.assert_array_equal(repair.signs[:, 0], [-1.0, -1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(Repair("clip", repair.eigenvalues).signs[:, 0], [0.0, 0.0, 1.0, 1.0, 1.0])
    assert Repair("clip", repair.eigenvalues).added[:, 0] == pytest.approx([1 / 3, 1.0, 0.0, 0.0, 0.0])
    assert repair.added[:, 0] == pytest.approx([2 / 3, 2.0, 0.0, 0.0, 0.0])


# -- vectors in reflectors


def test_reflected_vectors_have_the_shape_of_their_entries():
    A = random(300, 300)
    vectors = symmetric_eigen(np.asfortranarray(A + A.T))[1][:, 5:25]
    assert vectors.shape == np.asarray(vectors).shape == (300, 20)
    assert len(vectors) == 300
    assert (vectors @ np.zeros((20, 0))).shape == (300, 0)
    assert (vectors.T @ np.zeros((300, 0))).shape == (20, 0)
    np.testing.assert_array_equal(vectors[:, 3], np.asarray(vectors[:, [3]])[:, 0])
    np.testing.assert_allclose(vectors[:, -1], np.asarray(vectors)[:, -1], rtol=0, atol=1e-14)
    np.testing.assert_array_equal(vectors.T.T @ np.eye(20), vectors @ np.eye(20))
    with pytest.raises(IndexError, match="no rows to choose from"):
        vectors[:3, :]


@pytest.mark.parametrize("columns", [slice(5, 25), slice(0, 60, 3), [7, 1, 3]], ids=str)
def test_products_with_reflected_vectors_are_those_with_their_entries(columns):
    A = random(300, 300)
    vectors = symmetric_eigen(np.asfortranarray(A + A.T))[1][:, columns]
    U, Z = np.asarray(vectors), random(300, 4, seed=2)
    assert np.allclose(vectors.T @ Z, U.T @ Z, rtol=0.0, atol=1e-12)
    assert np.allclose(vectors @ (U.T @ Z), U @ (U.T @ Z), rtol=0.0, atol=1e-12)


def test_singular_values_are_not_squared_unless_that_is_asked_for():
    Q, V = (np.linalg.qr(random(n, 6))[0] for n in (30, 6))
    sizes = np.array([1.0, 1.0, 1.0, 1.0, 1e-6, 1e-12])
    both = np.asfortranarray((Q * sizes) @ V.T)
    assert left_singular(both, 0)[1] == pytest.approx(sizes, rel=0.01, abs=0.0)


def test_vectors_of_more_columns_than_rows_are_orthogonal_to_the_mean():
    """However much larger than the rest what the columns have along the mean is."""
    Q = np.linalg.qr(random(6, 2))[0]
    Phi = random(6, 9) + 1e8 * Q @ random(2, 9, seed=1)
    U, root_s, _ = left_singular(np.asfortranarray(np.hstack([Q, Phi])), 2)
    assert np.abs(Q.T @ U[:, root_s > 1e-3]).max() < 1e-14
    assert (root_s > 1e-3).sum() == 4
