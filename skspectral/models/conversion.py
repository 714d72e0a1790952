"""Fitted models in the classes of scikit-learn."""

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Product, Sum, WhiteKernel

__all__ = ["as_sklearn"]


def as_sklearn(kernel, solution, X, output):
    """Return a fitted GaussianProcessRegressor with the variances and the constant of one output.

    Parameters
    ----------
    kernel : Kernel
        Of unit variance, without noise.
    solution : Solution
        The fitted model.
    X : array
        Training inputs.
    output : int
        Which output.
    """
    tiny = np.finfo(np.float64).tiny
    noise_var = max(solution.noise_var[output], tiny)
    signal_var = max(solution.signal_var[output], tiny)
    offset = solution.beta[0, output] if len(solution.beta) else 0.0
    weight = solution.spectrum.rows.sqrt_weight[:, 0] ** 2
    present = weight > 0
    # WhiteKernel gives every row noise_var; the rest of noise_var / w stands in alpha
    rest = noise_var * (1.0 / weight[present] - 1.0)
    gpr = GaussianProcessRegressor(
        _scaled(kernel, signal_var) + WhiteKernel(noise_var),
        alpha=rest if rest.any() else 0.0,
        optimizer=None,
    )
    gpr.fit(X[present], solution.rotated.targets()[present, output] - offset)
    gpr._y_train_mean = np.full(1, offset)
    return gpr


def _scaled(kernel, factor):
    """Return factor * kernel with the factor in every term of a sum, where people read it."""
    if type(kernel) is Sum:
        return _scaled(kernel.k1, factor) + _scaled(kernel.k2, factor)
    if type(kernel) is Product and type(kernel.k1) is ConstantKernel:
        return ConstantKernel(factor * kernel.k1.constant_value) * kernel.k2
    return ConstantKernel(factor) * kernel
