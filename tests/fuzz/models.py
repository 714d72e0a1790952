"""Estimators with their kernels, criteria and methods."""

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skspectral import (
    KernelSearchCV,
    SpectralGPRegressor,
    SpectralKernelRidge,
    StreamingSpectralRegressor,
)

from .data import maybe

__all__ = ["NEEDS_POSITIVE", "draw_model"]

CRITERIA = ("evidence", "evidence", "gcv", "loo", "loo_lpd", "posterior")
NAMES = ("rbf", "rbf", "linear", "laplacian", "poly", "polynomial", "cosine", "chi2", "sigmoid")
NEEDS_POSITIVE = ("chi2", "additive_chi2")


def draw_model(rng):
    """Return an unfitted estimator."""
    makers = (_ridge, _process, _stream, _search)
    return makers[rng.choice(4, p=[0.35, 0.4, 0.15, 0.1])](rng)


def _one_of(rng, values):
    return values[rng.integers(len(values))]


def _method(rng):
    """Return parameters that choose a decomposition."""
    method = _one_of(rng, ("auto", "auto", "exact", "low_rank"))
    rank = int(rng.integers(1, 8)) if method != "exact" and maybe(rng, 0.3) else None
    selection = "greedy" if method != "exact" and maybe(rng, 0.15) else "pivots"
    return {"method": method, "rank": rank, "selection": selection}


def _ridge(rng):
    kernel = _core(rng) if maybe(rng, 0.2) else _one_of(rng, NAMES)
    alpha = "auto" if maybe(rng, 0.8) else float(10.0 ** rng.uniform(-12, 12))
    return SpectralKernelRidge(
        alpha,
        kernel=kernel,
        gamma=None if maybe(rng, 0.5) else float(10.0 ** rng.uniform(-4, 2)),
        degree=int(rng.integers(1, 5)),
        criterion=_one_of(rng, CRITERIA),
        fit_intercept=maybe(rng, 0.7),
        alpha_per_target=maybe(rng, 0.8),
        **_method(rng),
    )


def _process(rng):
    inference = "integrate" if maybe(rng, 0.2) else "maximize"
    method = _method(rng)
    criterion = "evidence" if inference == "integrate" else _one_of(rng, CRITERIA)
    must_be_exact = criterion != "evidence" and method["method"] == "low_rank"
    return SpectralGPRegressor(
        None if maybe(rng, 0.15) else _with_variances(rng, _core(rng)),
        criterion=criterion,
        fit_intercept=maybe(rng, 0.7),
        optimizer=None if must_be_exact or maybe(rng, 0.6) else "default",
        inference=inference,
        **method,
    )


def _stream(rng):
    return StreamingSpectralRegressor(
        None if maybe(rng, 0.3) else _with_variances(rng, _core(rng)),
        landmarks=int(rng.integers(1, 30)),
        criterion=_one_of(rng, ("evidence", "evidence", "gcv", "posterior")),
        fit_intercept=maybe(rng, 0.7),
        selection="greedy" if maybe(rng, 0.2) else "pivots",
    )


def _search(rng):
    estimator = SpectralKernelRidge(
        kernel=_one_of(rng, ("rbf", "laplacian", "linear")), criterion=_one_of(rng, CRITERIA)
    )
    grid = {"gamma": [0.1, 1.0], "fit_intercept": [True, False]}
    return KernelSearchCV(estimator, grid, cv=3 if maybe(rng, 0.5) else None, error_score="raise")


def _core(rng):
    """Return a kernel without constant and noise."""
    length = float(10.0 ** rng.uniform(-1.5, 1.5))
    kernels = (
        RBF(length),
        RBF(length),
        Matern(length, nu=0.5),
        Matern(length, nu=1.5),
        Matern(length, nu=2.5),
        RationalQuadratic(length, alpha=float(10.0 ** rng.uniform(-1, 1))),
        ExpSineSquared(length, periodicity=float(10.0 ** rng.uniform(-1, 1))),
        DotProduct(length),
        RBF(length) + DotProduct(1.0),
        RBF(length) * Matern(2.0 * length, nu=1.5),
    )
    return _one_of(rng, kernels)


def _with_variances(rng, core):
    """Return the kernel with a constant and noise, free, bounded or fixed; or without."""
    if maybe(rng, 0.6):
        return core
    noise_bounds, signal_bounds = (
        _one_of(rng, ((1e-5, 1e5), (1e-2, 1e2), "fixed", (1e-300, 1e300))) for _ in range(2)
    )
    noise, signal = np.clip(10.0 ** rng.uniform(-2, 2, 2), 1e-2, 1e2)
    kernel = ConstantKernel(float(signal), signal_bounds) * core if maybe(rng, 0.6) else core
    return kernel + WhiteKernel(float(noise), noise_bounds) if maybe(rng, 0.6) else kernel
