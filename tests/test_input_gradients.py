"""Derivatives of kernels and predictions by the inputs, against central differences."""

import numpy as np
import pytest
from problems import smooth
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    PairwiseKernel,
    RationalQuadratic,
    WhiteKernel,
)

from skspectral import SpectralGPRegressor
from skspectral.kernels import Columns, Exponential, Normalized, Overlap, Polynomial, Scaled, SetKernel
from skspectral.kernels.algebra import evaluate
from skspectral.kernels.slopes import contract_inputs, diagonal_slope

KERNELS = [
    RBF(1.3),
    RBF([0.7, 2.0]),
    Matern(1.1, nu=0.5),
    Matern([0.8, 1.5], nu=1.5),
    Matern(1.1, nu=2.5),
    Matern(1.1, nu=np.inf),
    Matern(1.1, nu=1.2),
    Matern(0.9, nu=3.7),
    RationalQuadratic(1.2, 0.7),
    ExpSineSquared(1.1, 2.3),
    DotProduct(0.5),
    ConstantKernel(2.0) * RBF(1.3) + DotProduct(0.4) * Matern(1.1, nu=1.5) + WhiteKernel(0.1),
    Exponentiation(DotProduct(1.0), 2),
    Columns(RBF(1.0), 1) * Columns(Matern(1.0, nu=1.5), [0, 1, 1]),
    Exponential(ConstantKernel(0.5) * RBF(1.0)),
    Polynomial(DotProduct(0.5), [1.0, 0.5, 0.2]),
    Normalized(DotProduct(0.7) + RBF(1.0)),
]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)
STEP = 1e-5


def by_differences(function, X, step=STEP):
    """d function / dx of every row by central differences, (n, p, ...)."""
    slopes = []
    for d in range(X.shape[1]):
        shift = np.zeros(X.shape[1])
        shift[d] = step
        slopes.append((function(X + shift) - function(X - shift)) / (2 * step))
    return np.stack(slopes, axis=1)


@each_kernel
def test_kernel_contractions(kernel, rng):
    X, Z, V = rng.normal(size=(6, 2)), rng.normal(size=(9, 2)), rng.normal(size=(6, 9))
    expected = by_differences(lambda A: (V * evaluate(kernel, A, Z)).sum(axis=1), X)
    np.testing.assert_allclose(contract_inputs(kernel, V, X, Z), expected, rtol=1e-6, atol=1e-7)


@each_kernel
def test_kernel_diagonals(kernel, rng):
    X = rng.normal(size=(70, 2))
    expected = by_differences(kernel.diag, X)
    np.testing.assert_allclose(diagonal_slope(kernel, X), expected, rtol=1e-6, atol=1e-7)


SMOOTH = [KERNELS[i] for i in (1, 3, 7, 8, 11, 13, 16)]
MODELS = {
    "plain": {},
    "no mean": {"fit_intercept": False},
    "trend": {"basis": "quadratic"},
    "waves": {"basis": np.sin, "fit_intercept": False},
    "averaged": {"inference": "integrate"},
    "averaged trend": {"inference": "integrate", "basis": "linear"},
    "factor": {"method": "low_rank", "rank": 12},
    "factor trend": {"method": "low_rank", "rank": 12, "basis": "linear"},
    "factor, no mean": {"method": "low_rank", "rank": 12, "fit_intercept": False},
}


def check(gp, X_new, weight=None):
    mean, std = gp.predict_gradient(X_new, return_std=True)
    _, latent = gp.predict_gradient(X_new, return_std=True, include_noise=False)
    assert np.array_equal(gp.predict_gradient(X_new), mean)
    expected = by_differences(gp.predict, X_new)
    scale = np.abs(expected).max()
    assert np.abs(mean - expected).max() < 1e-6 * scale
    for slope, noise in ((std, True), (latent, False)):
        expected = by_differences(
            lambda A, noise=noise: gp.predict(A, return_std=True, include_noise=noise)[1], X_new
        )
        assert np.abs(slope - expected).max() < 1e-6 * max(np.abs(expected).max(), scale)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [25, 80], ids=["eigenvectors", "reflectors"])
def test_predictions(name, weighted, n):
    X, Y = smooth(n=n, m=2)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, n) if weighted else None
    X_new = np.random.default_rng(1).uniform(-2.5, 2.5, (5, 2))
    gp = SpectralGPRegressor(RBF([1.0, 1.4]), optimizer=None, **MODELS[name]).fit(X, Y, sample_weight=weight)
    check(gp, X_new)


@pytest.mark.parametrize("kernel", SMOOTH, ids=str)
def test_predictions_of_other_kernels(kernel):
    X, y = smooth(n=25)
    gp = SpectralGPRegressor(kernel, optimizer=None).fit(X, y)
    check(gp, np.random.default_rng(1).uniform(-2.5, 2.5, (5, 2)))


def test_repaired_kernels():
    X, y = smooth(n=20)
    gp = SpectralGPRegressor(PairwiseTanh(), optimizer=None, indefinite="flip").fit(X, y)
    assert gp.indefinite_.n_negative > 0
    check(gp, np.random.default_rng(1).uniform(-2.5, 2.5, (5, 2)))


class PairwiseTanh(DotProduct):
    """tanh of a product, which is not positive semi-definite, with its slope."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return np.tanh(super().__call__(X, Y) - 1.0)

    def diag(self, X):
        return np.tanh(super().diag(X) - 1.0)

    def _contract_inputs(self, V, X, Z):
        return (V * (1.0 - self(X, Z) ** 2)) @ Z


def test_shapes_follow_the_outputs():
    X, Y = smooth(n=20, m=3)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, Y)
    assert gp.predict_gradient(X[:4]).shape == (4, 2, 3)
    assert SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, Y[:, 0]).predict_gradient(X[:4]).shape == (
        4,
        2,
    )


@pytest.mark.filterwarnings("ignore::skspectral.UndeterminedVarianceWarning")
def test_limits_have_no_slope():
    X, _ = smooth(n=10)
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None).fit(X, np.full(10, 3.0))
    mean, std = gp.predict_gradient(X, return_std=True)
    assert not mean.any()
    assert not std.any()


def test_what_has_no_derivatives_says_so():
    X, y = smooth(n=8)
    with pytest.raises(ValueError, match="kernel='precomputed'"):
        SpectralGPRegressor("precomputed").fit(RBF()(X), y).predict_gradient(RBF()(X))
    for kernel in (Scaled(RBF(), np.sum), PairwiseKernel(metric="laplacian"), Overlap()):
        with pytest.raises(ValueError, match="not known of"):
            contract_inputs(kernel, np.ones((8, 8)), X, X)
    sets = [{1}, {2}, {1, 2}, {3}]
    gp = SpectralGPRegressor(SetKernel(), optimizer=None).fit(sets, [1.0, 2.0, 3.0, 0.5])
    with pytest.raises(ValueError, match="vectors of numbers"):
        gp.predict_gradient(sets)
