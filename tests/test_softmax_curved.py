"""The curvature of the softmax beside all classes in one dense matrix."""

import numpy as np
import pytest
from problems import close

from skspectral.linalg import softmax_curved as module
from skspectral.linalg.curved import DensePrior, FactorPrior
from skspectral.linalg.softmax_curved import AlikeClasses, contrasts, softmax_curved
from skspectral.support.exceptions import IndefiniteKernelError

N, SCALE = 7, 3.0


def landmarks(rank=3):
    """Return Phi = C L^-T of values C (n, r) with landmarks, and L."""
    rng = np.random.default_rng(4)
    C, A = rng.normal(size=(N, rank)), rng.normal(size=(rank, rank))
    L = np.linalg.cholesky(A @ A.T + np.eye(rank))
    return C, np.linalg.solve(L, C.T).T, L


class Dense:
    """All classes at once, class by class: W = w (diag p - p p'), the prior I x K."""

    def __init__(self, K, P, weight):
        self.n, self.C = P.shape
        blocks = [
            [np.diag(weight * P[:, c] * ((c == d) - P[:, d])) for d in range(self.C)] for c in range(self.C)
        ]
        W, self.prior = np.block(blocks), np.kron(np.eye(self.C), K)
        self.R = W @ np.linalg.inv(np.eye(len(W)) + self.prior @ W)
        self.log_det = np.linalg.slogdet(np.eye(len(W)) + self.prior @ W)[1]

    def block(self, c, d):
        return self.R[c * self.n : (c + 1) * self.n, d * self.n : (d + 1) * self.n]

    def times(self, V):
        return (self.R @ V.T.ravel()).reshape(self.C, self.n).T

    def variances(self):
        V = (self.prior - self.prior @ self.R @ self.prior).reshape(self.C, self.n, self.C, self.n)
        return np.einsum("cidi->icd", V)

    def by_matrix(self, left, right):
        """Return G = (l r' + r l')/2 - sum_c R_cc/2."""
        each = sum(self.block(c, c) for c in range(self.C))
        return 0.5 * (left @ right.T + right @ left.T - each)


@pytest.fixture(params=[2, 3, 5])
def probabilities(request):
    """Return P (n, C) and weights of the rows."""
    rng = np.random.default_rng(request.param)
    F = 2.0 * rng.normal(size=(N, request.param))
    return np.exp(F) / np.exp(F).sum(axis=1, keepdims=True), rng.uniform(0.3, 2.0, N)


@pytest.fixture(params=["matrix", "factor"])
def prior(request):
    _, Phi, L = landmarks()
    if request.param == "factor":
        return FactorPrior(Phi.copy(), SCALE, L)
    return DensePrior(Phi @ Phi.T + 1e-3 * np.eye(N), SCALE)


def matrix_of(prior):
    return prior.K if isinstance(prior, DensePrior) else prior.Phi @ prior.Phi.T


def test_products_determinants_and_variances(prior, probabilities):
    P, weight = probabilities
    found, dense = softmax_curved(prior, P, weight), Dense(matrix_of(prior), P, weight)
    V = np.random.default_rng(9).normal(size=P.shape)
    for each in (V, V - V.mean(axis=1, keepdims=True)):
        assert close(found.times(each), dense.times(each), 1e-9)
    assert found.log_det == pytest.approx(dense.log_det, rel=1e-9)
    among = contrasts(P.shape[1]) @ contrasts(P.shape[1]).T  # what differs between classes
    assert close(among @ found.variances() @ among, among @ dense.variances() @ among, 1e-9)
    if isinstance(prior, DensePrior):
        assert close(found.variances(), dense.variances(), 1e-8)


def test_sensitivities(prior, probabilities):
    P, weight = probabilities
    found, K = softmax_curved(prior, P, weight), matrix_of(prior)
    rng = np.random.default_rng(8)
    left, right = rng.normal(size=P.shape), rng.normal(size=P.shape)
    G, sensitivity = Dense(K, P, weight).by_matrix(left, right), found.sensitivity(left, right)
    assert sensitivity.by_log_scale == pytest.approx(np.trace(G @ K), rel=1e-8)
    if isinstance(prior, DensePrior):
        assert close(sensitivity.weights, SCALE * G, 1e-8)
        return
    # as the values C with landmarks and M = LL' among them change: K = C M^-1 C'
    C, _, L = landmarks()
    M, dC = L @ L.T, rng.normal(size=C.shape)
    dM = rng.normal(size=M.shape)
    dM = dM + dM.T
    change = dC @ np.linalg.solve(M, C.T)
    change = change + change.T - C @ np.linalg.solve(M, dM @ np.linalg.solve(M, C.T))
    by_values, among = sensitivity.weights
    assert np.vdot(by_values, dC) + np.vdot(among, dM) == pytest.approx(SCALE * np.vdot(G, change), rel=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_contrasts_are_an_orthonormal_basis_of_what_differs(n_classes):
    H = contrasts(n_classes)
    assert H.shape == (n_classes, n_classes - 1)
    assert close(H @ H.T, np.eye(n_classes) - 1.0 / n_classes, 1e-12)


@pytest.mark.parametrize("n_classes", [1, 2, 4])
def test_classes_that_are_curved_alike(prior, n_classes):
    """R_1 x (I - 11'/C); a single function stands for itself."""
    W = np.random.default_rng(2).uniform(0.2, 1.0, N)
    K = matrix_of(prior)
    R = np.linalg.inv(np.diag(1.0 / W) + K)
    among = np.eye(1) if n_classes == 1 else np.eye(n_classes) - 1.0 / n_classes
    k = max(1, n_classes - 1)
    found = AlikeClasses(prior.curved(W), n_classes)
    rng = np.random.default_rng(3)
    V, left, right = rng.normal(size=(3, N, n_classes))
    assert close(found.times(V), R @ V @ among, 1e-9)
    assert found.log_det == pytest.approx(k * np.linalg.slogdet(np.eye(N) + K * W)[1])
    assert close(found.variances(), np.diag(K - K @ R @ K), 1e-8)
    G = 0.5 * (left @ right.T + right @ left.T - k * R)
    sensitivity = found.sensitivity(left, right)
    assert sensitivity.by_log_scale == pytest.approx(np.trace(G @ K), rel=1e-8)
    if isinstance(prior, DensePrior):
        assert close(found.explained(K[:2] / SCALE), np.diag(K @ R @ K)[:2], 1e-8)
        assert close(sensitivity.weights, SCALE * G, 1e-8)
    else:
        one = prior.sensitivity(left, right, k * R @ prior.Phi)
        for found_part, part in zip(sensitivity.weights, one.weights, strict=True):
            assert close(found_part, part, 1e-8)


def test_what_rounding_took_of_a_sum_is_given_back_on_its_diagonal(monkeypatch):
    tried = []

    def lower_cholesky(M):
        tried.append(M.copy())
        if len(tried) == 1:
            raise IndefiniteKernelError(-1.0, 0.0)
        return "factor"

    monkeypatch.setattr(module, "lower_cholesky", lower_cholesky)
    total = np.array([[2.0, 1.0, 0.5], [1.0, 8.0, 0.25], [0.5, 0.25, 4.0]])
    assert module._cholesky_of_sum(total) == "factor"
    assert np.array_equal(tried[0], total)
    added = tried[1] - total
    np.testing.assert_array_equal(np.diag(added), np.full(3, 3 * 8.0 * np.finfo(np.float64).eps))
    assert np.count_nonzero(added) == 3
    assert module._cholesky_of_sum(total) == "factor"
    assert np.array_equal(tried[2], total)  # at once where it can be
