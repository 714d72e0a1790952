"""Kernels with negative eigenvalues: refused, or repaired alike at the rows and at new points."""

import pickle

import numpy as np
import pytest
from problems import close, smooth
from reference import kriging_variance, leave_one_out, reml, ridge
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import sigmoid_kernel

from skspectral import IndefiniteKernelError, SpectralGPRegressor, SpectralKernelRidge
from skspectral.linalg.resolvent import Resolvent
from skspectral.linalg.rows import Rows
from skspectral.linalg.spectrum import Spectrum

ACTIONS = ("flip", "clip")


def hyperbolic(X, Z):
    """An indefinite kernel: what of a Gaussian one is left without a narrower one."""
    square = ((X[:, None] - Z[None]) ** 2).sum(-1)
    return np.exp(-square / 4.0) - 0.4 * np.exp(-square)


def repaired(K, K_new, prior, action, F, F_new, weight):
    """Return K, k* and k** of the repaired kernel by its definition, in the units without weights."""
    root = np.sqrt(weight)[:, None]
    K, K_new, F = root * K * root.T, K_new * root.T, None if F is None else root * F
    n, h = len(K), np.zeros_like(K_new)
    P = np.eye(n)
    if F is not None:
        P = P - F @ np.linalg.pinv(F)
        h = F_new @ np.linalg.pinv(F)
    s, U = np.linalg.eigh(P @ K @ P)
    kept = np.abs(s) > 1e-10
    s, U = s[kept], U[:, kept]
    t = np.abs(s) if action == "flip" else np.maximum(s, 0.0)
    outside = (K_new - h @ K) @ U
    K_new = K_new + outside @ np.diag(t / s - 1.0) @ U.T
    prior = prior + outside @ np.diag((t - s) / s**2) @ outside.T
    K = K + U @ np.diag(t - s) @ U.T
    return K / root / root.T, K_new / root.T, prior


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_everything_is_that_of_the_repaired_kernel(action, intercept, weighted):
    X, Y = smooth(n=25, m=2)
    X_new = np.random.default_rng(3).uniform(-2, 2, (6, 2))
    weight = np.random.default_rng(4).uniform(0.5, 2.0, 25) if weighted else np.ones(25)
    F, F_new = (np.ones((25, 1)), np.ones((6, 1))) if intercept else (None, None)
    given = hyperbolic(X, X), hyperbolic(X_new, X), hyperbolic(X_new, X_new)
    K, K_new, prior = repaired(*given, action, F, F_new, weight)
    gp = SpectralGPRegressor("precomputed", fit_intercept=intercept, indefinite=action)
    gp.fit(given[0], Y, sample_weight=weight)
    mean, std = gp.predict(given[1], return_std=True, include_noise=False, K_test_diag=np.diag(given[2]))
    assert gp.indefinite_.n_negative > 0
    loo = gp.loo_predict()
    evidence = 0.0
    for j in range(2):
        noise, signal = gp.noise_variance_[j], gp.signal_variance_[j]
        assert close(mean[:, j], ridge(K, Y[:, j], noise / signal, K_new, F, F_new, weight), 1e-7)
        variance = np.diag(kriging_variance(K, K_new, prior, noise, signal, F, F_new, weight))
        # among new points the kernel may be indefinite still: what is no variance is 0
        of_mean = noise / weight.sum() if intercept else 0.0
        assert close(std[:, j] ** 2, np.maximum(variance - of_mean, 0.0) + of_mean, 1e-6)
        assert close(loo[:, j], leave_one_out(K, Y[:, j], noise, signal, F, weight)[0], 1e-6)
        basis = np.zeros((25, 0)) if F is None else F
        evidence += reml(K, Y[:, j], basis, noise, signal, weight)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(evidence, rel=1e-8)


@pytest.mark.parametrize("action", ACTIONS)
def test_rows_of_the_fit_are_new_rows_like_any_other(action):
    X, y = smooth(n=30)
    K = hyperbolic(X, X)
    gp = SpectralGPRegressor("precomputed", indefinite=action, fit_intercept=False).fit(K, y)
    s, U = np.linalg.eigh(K)
    t = np.abs(s) if action == "flip" else np.maximum(s, 0.0)
    other = SpectralGPRegressor("precomputed", fit_intercept=False).fit(U @ np.diag(t) @ U.T, y)
    assert close(gp.predict(K), other.predict(U @ np.diag(t) @ U.T), 1e-6)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(other.log_marginal_likelihood_value_, rel=1e-8)


def test_what_was_done_is_reported():
    X, y = smooth(n=30)
    K = hyperbolic(X, X)
    s = np.linalg.eigvalsh(K)
    for action in ACTIONS:
        ridge = SpectralKernelRidge(kernel="precomputed", fit_intercept=False, indefinite=action).fit(K, y)
        report = pickle.loads(pickle.dumps(ridge)).indefinite_
        assert report.action == action
        assert report.n_negative == (s < -1e-12).sum()
        assert report.smallest_eigenvalue == pytest.approx(s.min())
        assert report.negative_share == pytest.approx(-s[s < 0].sum() / np.abs(s).sum())
        kept = ridge.spectrum_.s
        assert (np.diff(kept) >= 0).all()
        assert (kept >= 0).all()


def test_refusal_is_the_default_and_names_the_remedy():
    X, y = smooth(n=30)
    for model in (SpectralKernelRidge(kernel="precomputed"), SpectralGPRegressor("precomputed")):
        with pytest.raises(IndefiniteKernelError, match="indefinite='flip' or 'clip'"):
            model.fit(hyperbolic(X, X), y)


def test_definite_kernels_stay_as_they_are():
    X, y = smooth(n=30)
    plain, careful = (SpectralGPRegressor(RBF(1.0), indefinite=a).fit(X, y) for a in ("refuse", "flip"))
    assert careful.indefinite_ is None
    assert np.array_equal(plain.predict(X), careful.predict(X))
    squares = -((X[:, None] - X[None]) ** 2).sum(-1)  # definite outside of the constants
    assert SpectralKernelRidge(kernel="precomputed", indefinite="flip").fit(squares, y).indefinite_ is None


def test_the_sigmoid_kernel_by_name_predicts_like_its_matrix():
    X, y = smooth(n=40)
    X_new = X[:5] + 0.05
    by_name = SpectralKernelRidge(kernel="sigmoid", gamma=2.0, coef0=-1.0, indefinite="flip").fit(X, y)
    K, K_new = (sigmoid_kernel(A, X, gamma=2.0, coef0=-1.0) for A in (X, X_new))
    given = SpectralKernelRidge(kernel="precomputed", indefinite="flip").fit(K, y)
    assert by_name.indefinite_.n_negative > 0
    assert close(by_name.predict(X_new), given.predict(K_new), 1e-7)
    assert close(K_new @ by_name.dual_coef_ + by_name.intercept_, by_name.predict(X_new), 1e-7)


def test_averaging_over_the_variances_of_a_repaired_kernel():
    X, y = smooth(n=20)
    K = hyperbolic(X, X)
    gp = SpectralGPRegressor("precomputed", indefinite="flip", inference="integrate").fit(K, y)
    mean, std = gp.predict(K, return_std=True, K_test_diag=np.diag(K))
    assert np.isfinite(std).all()
    lower, upper = gp.predict_interval(K, K_test_diag=np.diag(K))
    assert (lower < mean).all()
    assert (mean < upper).all()


def test_joint_covariances_of_a_repaired_kernel_are_covariances():
    X, _ = smooth(n=12)
    K, prior = hyperbolic(X, X), hyperbolic(X[:5] + 0.3, X[:5] + 0.3)
    spectrum = Spectrum.from_gram(K, np.ones((12, 1)), indefinite="flip")
    cross = hyperbolic(X[:5] + 0.3, X)
    joint = spectrum.project(cross, prior, np.ones((5, 1)))
    alone = spectrum.project(cross, np.diag(prior), np.ones((5, 1)))
    assert close(np.diag(joint[1]), alone[1])
    assert close(joint[0], alone[0])
    at_rows = spectrum.project(K, K, np.ones((12, 1)))[1]
    assert np.linalg.eigvalsh(at_rows).min() > -1e-10


@pytest.mark.parametrize("more", [{"method": "low_rank"}, {"rank": 5}, {"selection": "greedy"}])
def test_factors_cannot_be_repaired(more):
    X, y = smooth(n=30)
    with pytest.raises(ValueError, match="which factors do not show"):
        SpectralKernelRidge(kernel="sigmoid", indefinite="flip", **more).fit(X, y)


def test_unknown_actions_are_refused():
    X, y = smooth(n=10)
    with pytest.raises(ValueError, match="'indefinite' parameter"):
        SpectralGPRegressor(indefinite="ignore").fit(X, y)


def test_learning_keeps_to_definite_kernels():
    X, y = smooth(n=25)
    gp = SpectralGPRegressor(RBF(1.0), indefinite="clip").fit(X, y)
    assert gp.indefinite_ is None
    assert gp.n_decompositions_ > 1


def test_a_resolvent_says_how_negative_an_eigenvalue_is_at_least():
    with pytest.raises(IndefiniteKernelError) as refusal:
        Resolvent.from_gram(-np.eye(3), Rows.make(3), 0.5)
    assert refusal.value.smallest_eigenvalue == -0.5
    assert refusal.value.tolerance == 0
