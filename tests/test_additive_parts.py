"""Parts of a sum of kernels, against the joint normal distribution, and their display."""

import matplotlib as mpl
import numpy as np
import pytest
from problems import close, smooth
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skspectral import AdditivePartsDisplay, SpectralGPRegressor, SpectralKernelRidge
from skspectral.kernels import Columns

mpl.use("Agg")
import matplotlib.pyplot as plt

TERMS = (RBF(0.8), ConstantKernel(0.4) * Matern(2.0, nu=1.5), Columns(RBF(1.5), 0))
KERNEL = TERMS[0] + TERMS[1] + TERMS[2]
X_NEW = np.random.default_rng(1).uniform(-2.5, 2.5, (6, 2))


def posterior_of_part(term, gp, X, y, F, weight, j):
    """Mean and variance of one part given y, with the coefficients of F under a flat prior."""
    noise, signal = gp.noise_variance_[j], gp.signal_variance_[j]
    C = signal * KERNEL(X) + np.diag(noise / weight)
    P = np.linalg.inv(C)
    if F is not None:
        P = P - P @ F @ np.linalg.solve(F.T @ P @ F, F.T @ P)
    c = signal * term(X_NEW, X)
    return c @ P @ y, signal * term.diag(X_NEW) - np.einsum("ij,jk,ik->i", c, P, c)


@pytest.mark.parametrize("mean", ["none", "constant", "linear"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_part_has_its_posterior(mean, weighted):
    X, Y = smooth(n=25, m=2)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 25) if weighted else np.ones(25)
    F = {"none": None, "constant": np.ones((25, 1)), "linear": np.column_stack([np.ones(25), X])}[mean]
    basis = "linear" if mean == "linear" else None
    gp = SpectralGPRegressor(KERNEL, optimizer=None, fit_intercept=mean != "none", basis=basis)
    gp.fit(X, Y, sample_weight=weight)
    parts = gp.predict_parts(X_NEW)
    kernels = parts if F is None else parts[1:]
    assert [part.name for part in kernels] == [str(term) for term in TERMS]
    for part, term in zip(kernels, TERMS, strict=True):
        for j in range(2):
            m, v = posterior_of_part(term, gp, X, Y[:, j], F, weight, j)
            assert close(part.mean[:, j], m)
            assert close(part.std[:, j] ** 2, v)
    assert close(sum(part.mean for part in parts), gp.predict(X_NEW))
    if F is not None:
        F_new = np.ones((6, 1)) if mean == "constant" else np.column_stack([np.ones(6), X_NEW])
        for j, summary in enumerate(gp.mean_summary()):
            assert parts[0].name == "mean"
            assert close(parts[0].mean[:, j], F_new @ summary.coefficients)
            assert close(parts[0].std[:, j] ** 2, np.diag(F_new @ summary.covariance @ F_new.T))


@pytest.mark.parametrize("basis", [None, "linear"])
def test_centred_parts_are_differences_to_their_average(basis):
    X, y = smooth(n=25)
    weight = np.ones(25)
    weight[3] = 0.0
    gp = SpectralGPRegressor(KERNEL, optimizer=None, basis=basis).fit(X, y, sample_weight=weight)
    rows = X[weight > 0]
    F = np.ones((24, 1)) if basis is None else np.column_stack([np.ones(24), rows])
    C = gp.signal_variance_ * KERNEL(rows) + gp.noise_variance_ * np.eye(24)
    P = np.linalg.inv(C)
    P = P - P @ F @ np.linalg.solve(F.T @ P @ F, F.T @ P)
    parts = gp.predict_parts(X_NEW, centred=True)
    for part, term in zip(parts[-3:], TERMS, strict=True):
        D = np.hstack([np.eye(6), np.full((6, 24), -1 / 24)])  # f(x) - mean of f at the rows
        both = np.vstack([X_NEW, rows])
        c = gp.signal_variance_ * D @ term(both, rows)
        variance = np.diag(gp.signal_variance_ * D @ term(both) @ D.T - c @ P @ c.T)
        assert close(part.mean, c @ P @ y[weight > 0])
        assert close(part.std**2, variance)
    assert close(sum(part.mean for part in parts), gp.predict(X_NEW) - gp.predict(rows).mean())
    assert len(parts) == (3 if basis is None else 4)


def test_centred_parts_of_a_factor_and_of_averages_add_up():
    X, y = smooth(n=25)
    for options in ({"method": "low_rank", "rank": 15}, {"inference": "integrate"}):
        gp = SpectralGPRegressor(KERNEL, optimizer=None, basis="linear", **options).fit(X, y)
        total = sum(part.mean for part in gp.predict_parts(X_NEW, centred=True))
        assert close(total, gp.predict(X_NEW) - gp.predict(X).mean())


@pytest.mark.parametrize(
    "options",
    [
        {"inference": "integrate"},
        {"method": "low_rank", "rank": 15},
        {"method": "low_rank", "rank": 15, "inference": "integrate", "basis": "linear"},
    ],
)
def test_parts_add_up_whatever_the_model(options):
    X, y = smooth(n=30)
    gp = SpectralGPRegressor(KERNEL, optimizer=None, **options).fit(X, y)
    parts = gp.predict_parts(X_NEW)
    assert close(sum(part.mean for part in parts), gp.predict(X_NEW))
    assert all((part.std > 0).all() for part in parts)


def test_a_single_kernel_is_its_own_part():
    X, y = smooth(n=20)
    for inference in ("maximize", "integrate"):
        gp = SpectralGPRegressor(
            RBF(1.0) + WhiteKernel(), optimizer=None, fit_intercept=False, inference=inference
        ).fit(X, y)
        (part,) = gp.predict_parts(X_NEW)
        mean, std = gp.predict(X_NEW, return_std=True, include_noise=False)
        assert close(part.mean, mean)
        assert close(part.std, std)


def test_parts_of_averages_over_kernel_parameters():
    X, y = smooth(n=14, p=1)
    gp = SpectralGPRegressor(RBF(1.0), fit_intercept=False, inference="integrate").fit(X, y)
    (part,) = gp.predict_parts(X)
    mean, std = gp.predict(X, return_std=True, include_noise=False)
    assert close(part.mean, mean)
    assert close(part.std, std)


def test_a_factor_of_full_rank_has_the_parts_of_the_matrix():
    X, y = smooth(n=25)
    exact, factor = (
        SpectralGPRegressor(KERNEL, optimizer=None, **more).fit(X, y).predict_parts(X_NEW)
        for more in ({}, {"method": "low_rank", "rank": 25})
    )
    for one, other in zip(exact, factor, strict=True):
        assert close(other.mean, one.mean, 1e-5)
        assert close(other.std, one.std, 1e-5)


def test_models_without_parts_say_so():
    X, y = smooth(n=10)
    K = RBF()(X)
    with pytest.raises(ValueError, match="has no parts"):
        SpectralGPRegressor("precomputed").fit(K, y).predict_parts(K)
    with pytest.raises(TypeError, match="SpectralKernelRidge has no additive parts"):
        AdditivePartsDisplay.from_estimator(SpectralKernelRidge().fit(X, y))
    with pytest.raises(ValueError, match="single input"):
        AdditivePartsDisplay.from_estimator(SpectralGPRegressor(KERNEL, optimizer=None).fit(X, y))


def test_the_display_shows_the_model_and_its_parts(tmp_path):
    X = np.linspace(0, 10, 60)[:, None]
    Y = np.column_stack([0.1 * X[:, 0] ** 2 + np.sin(6.0 * X[:, 0]), np.cos(X[:, 0])])
    Y += np.random.default_rng(0).normal(0, 0.1, Y.shape)
    kernel = RBF(5.0) + ExpSineSquared(1.0, 1.0)
    gp = SpectralGPRegressor(kernel, optimizer=None).fit(X, Y)
    display = AdditivePartsDisplay.from_estimator(gp, output=1, coverage=0.9, n_points=50, centred=False)
    assert display.names == ["all of it", "mean", *map(str, (RBF(5.0), ExpSineSquared(1.0, 1.0)))]
    assert close(sum(display.means[1:]), display.means[0])
    parts = gp.predict_parts(display.grid[:, None])
    lower, upper = display.bands[2]
    assert close((upper - lower) / 2, 1.6448536269514722 * parts[1].std[:, 1])
    assert [ax.get_title(loc="left") for ax in display.axes_] == display.names
    assert display.figure_ is display.axes_[0].figure
    file = tmp_path / "parts.png"
    display.figure_.savefig(file)
    assert file.stat().st_size > 3000
    _, axes = plt.subplots(4, 1)
    assert display.plot(axes=axes).axes_ == list(axes)
    plt.close("all")


def test_the_display_of_a_pipeline_needs_its_last_step():
    X = np.linspace(0, 10, 40)[:, None]
    gp = SpectralGPRegressor(RBF(1.0), optimizer=None)
    y = np.sin(X[:, 0]) + np.random.default_rng(0).normal(0, 0.1, 40)
    pipeline = make_pipeline(StandardScaler(), gp).fit(X, y)
    display = AdditivePartsDisplay.from_estimator(pipeline[-1], grid=[0.0, 1.0])
    assert len(display.grid) == 2
    plt.close("all")
