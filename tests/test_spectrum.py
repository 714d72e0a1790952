"""Contract of Spectrum and Rotated: whatever the route, the same geometry."""

import pickle

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from skspectral import IndefiniteKernelError, RankDeficientBasisWarning, Spectrum


def problem(seed, n=12, q=0, weighted=False, rank=4):
    rng = np.random.default_rng(seed)
    Phi = rng.normal(size=(n, rank))
    basis = None if q == 0 else np.column_stack([np.ones(n), rng.normal(size=(n, q - 1))])
    weight = rng.uniform(0.2, 3.0, n) if weighted else None
    return Phi, basis, weight, rng.normal(size=(n, 3))


@given(st.integers(0, 10**6), st.integers(0, 3), st.booleans())
def test_both_routes_diagonalise_the_projected_weighted_matrix(seed, q, weighted):
    Phi, basis, weight, _ = problem(seed, q=q, weighted=weighted)
    n = len(Phi)
    root = np.ones(n) if weight is None else np.sqrt(weight)
    K = root[:, None] * (Phi @ Phi.T) * root
    F = np.zeros((n, 1)) if basis is None else root[:, None] * basis
    P = np.eye(n) - F @ np.linalg.pinv(F)
    for spectrum in (
        Spectrum.from_gram(Phi @ Phi.T, basis, weight),
        Spectrum.from_factor(Phi, basis, weight),
    ):
        U, s = spectrum.dense_U, spectrum.s
        assert np.allclose(U.T @ U, np.eye(len(s)), atol=1e-12)
        assert np.allclose((U * s) @ U.T, P @ K @ P, atol=1e-11 * np.abs(K).max())
        assert np.abs(F.T @ U).max() < 1e-12 * n
        assert (s >= 0).all()
        assert spectrum.rows.n_free == n - q
        assert spectrum.rows.n_mean == q


@given(st.integers(0, 10**6), st.integers(0, 2), st.booleans())
def test_rotation_keeps_length_and_gives_the_targets_back(seed, q, weighted):
    Phi, basis, weight, Y = problem(seed, q=q, weighted=weighted)
    for spectrum in (
        Spectrum.from_gram(Phi @ Phi.T, basis, weight),
        Spectrum.from_factor(Phi, basis, weight),
    ):
        rotated = spectrum.rotate(Y)
        assert np.allclose(rotated.energy.sum(axis=0), spectrum.rows.n_free)  # unit mean square
        assert rotated.count.sum() == pytest.approx(spectrum.rows.n_free)
        assert np.allclose(rotated.targets(), Y)


def test_null_energy_is_computed_without_cancellation():
    rng = np.random.default_rng(0)
    Phi = rng.normal(size=(50, 3))
    outside = rng.normal(size=50)
    outside -= Phi @ np.linalg.lstsq(Phi, outside, rcond=None)[0]
    outside *= 1e-7 / np.linalg.norm(outside)
    rotated = Spectrum.from_factor(Phi).rotate((Phi @ [1.0, 2.0, 3.0] + outside)[:, None])
    assert rotated.energy[-1, 0] * rotated.scale[0] ** 2 == pytest.approx(1e-14, rel=1e-6, abs=0.0)


def test_zero_weight_is_an_absent_row(rng):
    X, Y = rng.normal(size=(15, 2)), rng.normal(size=(15, 2))
    K, ones = reference.rbf(X), np.ones((15, 1))
    weight = rng.uniform(0.5, 2, 15)
    weight[[3, 7]] = 0
    kept = weight > 0
    whole = Spectrum.from_gram(K, ones, weight)
    part = Spectrum.from_gram(K[np.ix_(kept, kept)], ones[kept], weight[kept])
    assert np.allclose(whole.s, part.s, rtol=1e-10, atol=1e-13)
    assert not whole.U[~kept].any()
    assert np.allclose(whole.rotate(Y).energy, part.rotate(Y[kept]).energy)
    assert whole.rows.counts == part.rows.counts
    assert part.rows.counts.n_rows == kept.sum()
    assert part.rows.counts.half_log_weight == pytest.approx(0.5 * np.log(weight[kept]).sum())
    assert part.rows.counts.mean_weight == pytest.approx(weight[kept].mean())


def test_negative_eigenvalues_within_rounding_are_clipped_and_beyond_it_refused(rng):
    U = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    s = np.array([-1e-15, 1e-15, 0, 1, 1, 2, 3, 4, 5, 6.0])
    assert (Spectrum.from_gram((U * s) @ U.T).s[:3] == 0).all()
    s[0] = -1e-6
    with pytest.raises(IndefiniteKernelError, match=r"smallest eigenvalue is -1e-06") as caught:
        Spectrum.from_gram((U * s) @ U.T)
    assert caught.value.smallest_eigenvalue == pytest.approx(-1e-6, rel=1e-6)


def test_a_kernel_positive_definite_up_to_the_mean_needs_the_mean(rng):
    X = rng.normal(size=(20, 1))
    K = -np.abs(X - X.T)  # the variogram of Brownian motion: conditionally positive definite
    with pytest.raises(IndefiniteKernelError):
        Spectrum.from_gram(K)
    assert (Spectrum.from_gram(K, np.ones((20, 1))).s > 0).all()


def test_a_nearly_constant_kernel_is_not_mistaken_for_an_indefinite_one(rng):
    K = reference.rbf(rng.normal(size=(200, 3)), length=1e6)
    spectrum = Spectrum.from_gram(K, np.ones((200, 1)))
    assert spectrum.resolution >= 8 * np.finfo(float).eps * 100


def test_more_mean_functions_than_rows_warn_and_use_the_shortest_coefficients(rng):
    basis = rng.normal(size=(3, 5))
    with pytest.warns(RankDeficientBasisWarning, match=r"Only 3 of 5 mean functions"):
        spectrum = Spectrum.from_gram(np.eye(3), basis)
    y = rng.normal(size=(3, 1))
    rotated = spectrum.rotate(y)
    assert spectrum.rows.n_free == 0
    beta = spectrum.mean_coefficients(rotated, spectrum.dual(rotated, np.ones(1)))
    length = np.linalg.norm(basis, axis=0)  # the shortest in units in which all functions have length 1
    assert np.allclose(beta * length[:, None], np.linalg.pinv(basis / length) @ y)


def test_a_pickle_leaves_out_what_can_be_made_again(rng):
    spectrum = Spectrum.from_gram(reference.rbf(rng.normal(size=(9, 2))))
    before = len(pickle.dumps(spectrum))
    assert spectrum.U_squared.shape == (9, 9)
    assert len(pickle.dumps(spectrum)) == before
    assert np.array_equal(pickle.loads(pickle.dumps(spectrum)).U_squared, spectrum.U_squared)


def test_inputs_stay_as_they_were(rng):
    X = rng.normal(size=(8, 2))
    K, basis, weight = reference.rbf(X), np.ones((8, 1)), rng.uniform(1, 2, 8)
    copies = K.copy(), basis.copy(), weight.copy(), X.copy()
    Spectrum.from_gram(K, basis, weight)
    Spectrum.from_factor(X, basis, weight)
    for now, before in zip((K, basis, weight, X), copies, strict=True):
        assert np.array_equal(now, before)


def test_a_spectrum_is_frozen_and_refuses_non_finite_matrices(rng):
    spectrum = Spectrum.from_gram(np.eye(3))
    with pytest.raises(AttributeError):
        spectrum.s = np.zeros(3)
    with pytest.raises(ValueError, match="NaN or infinite"):
        Spectrum.from_gram(np.array([[1.0, np.nan], [np.nan, 1.0]]))
    with pytest.raises(ValueError, match="NaN or infinite"):
        Spectrum.from_factor(np.array([[np.inf]]))
