"""Derivatives of sklearn kernels by the inputs, contracted without the n x n x p tensor.

`contract_inputs` returns sum_j V_ij dk(x_i, z_j)/dx_i. For k = rho(|x - z|) with lengths l and W = V * w, w
the weight -rho'(d)/d, it is (W Z - diag(W 1) X) / l^2: one product for all inputs. Sums, products and powers
follow by the chain rule. A kernel class joins in by a method ``_contract_inputs(V, X, Z)``.
"""

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Matern,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from .algebra import contract, evaluate, in_order
from .stationary import WeightedPairs, half_squared_distances, radial, scaled_inputs

__all__ = ["contract_all", "contract_inputs", "diagonal_slope", "has_input_slopes"]

# Rows whose kernel among themselves is made to read off the derivatives of its diagonal.
_DIAGONAL_BLOCK = 64


def contract_inputs(kernel, V, X, Z):
    """Return sum_j V_ij dk(x_i, z_j)/dx_i for every row i, (n, p).

    Parameters
    ----------
    kernel : Kernel
        A sum, product or power of kernels with a rule, or a kernel with a method for it.
    V : ndarray of shape (n, n_z)
        Weights.
    X, Z : ndarray of shape (n, p) and (n_z, p)
        Inputs.
    """
    if hasattr(kernel, "_contract_inputs"):
        return kernel._contract_inputs(V, X, Z)
    if type(kernel) is Sum:
        return contract_inputs(kernel.k1, V, X, Z) + contract_inputs(kernel.k2, V, X, Z)
    if type(kernel) is Product:
        left, right = kernel.k1, kernel.k2
        return contract_inputs(left, V * evaluate(right, X, Z), X, Z) + contract_inputs(
            right, V * evaluate(left, X, Z), X, Z
        )
    if type(kernel) is Exponentiation:
        slope = kernel.exponent * evaluate(kernel.kernel, X, Z) ** (kernel.exponent - 1)
        return contract_inputs(kernel.kernel, V * slope, X, Z)
    rule = _RULES.get(type(kernel))
    if rule is None:
        raise ValueError(
            f"Derivatives by the inputs are not known of {kernel}. They are of scikit-learn's kernels on "
            "vectors, their sums, products and powers, and of Columns, Normalized, Exponential and "
            "Polynomial of these."
        )
    return rule(kernel, V, X, Z)


def has_input_slopes(kernel, X):
    """Return whether derivatives of a kernel by inputs like the rows of X are known."""
    if not (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"):
        return False
    try:
        contract_inputs(kernel, np.ones((1, 1)), X[:1], X[:1])
    except ValueError:
        return False
    return True


def contract_all(kernel, G, X, Z):
    """Return sum_ij G_ij dK_ij/dtheta, see `contract`, and sum_i G_ij dk(x_i, z_j)/dz_j, (n_z, p).

    Both come from one look at all pairs where the kernel is a function of the distance.
    """
    if radial(kernel) is None:
        return contract(kernel, G, X, Z), contract_inputs(kernel, G.T, Z, X)
    pairs = WeightedPairs.of(kernel, G, X, Z)
    return in_order(kernel, pairs.by_parameters()), pairs.by_second()


def diagonal_slope(kernel, X):
    """Return dk(x, x)/dx of every row, (n, p): twice the derivative by one of both arguments."""
    if kernel.is_stationary():
        return np.zeros(X.shape)
    blocks = (X[i : i + _DIAGONAL_BLOCK] for i in range(0, len(X), _DIAGONAL_BLOCK))
    return np.concatenate([2.0 * contract_inputs(kernel, np.eye(len(B)), B, B) for B in blocks])


def _by_differences(W, X, Z, length_scale):
    """Return -sum_j W_ij (x_i - z_j) / length_scale^2."""
    centre = Z.mean(axis=0)  # small coordinates: less cancellation
    return (W @ (Z - centre) - W.sum(axis=1)[:, None] * (X - centre)) / np.square(length_scale)


def _nothing(kernel, V, X, Z):
    return np.zeros(X.shape)


def _radial(kernel, V, X, Z):
    shape, alpha = radial(kernel), getattr(kernel, "alpha", None)
    A, B = scaled_inputs(kernel.length_scale, X, Z)
    D = half_squared_distances(A, B, exactly=shape is None or not shape.is_smooth)
    if shape is None:
        weight = _matern_weight(kernel.nu)(np.sqrt(2.0 * D))
    else:
        weight = shape.weight(D, shape.value(D.copy(), alpha), alpha)
    return _by_differences(V * weight, X, Z, kernel.length_scale)


def _matern_weight(nu):
    """Return -rho'(d)/d of any Matern kernel: 2 nu u^(nu-1) K_(nu-1)(u) 2^(1-nu)/Gamma(nu), u = d sqrt(2 nu).

    At d = 0 it is nu/(nu - 1), and 0 for nu <= 1, where the kernel has a kink.
    """

    def weight(d):
        u = np.where(d > 0, d, 1.0) * np.sqrt(2.0 * nu)
        values = 2.0 * nu * 2.0 ** (1.0 - nu) / gamma(nu) * u ** (nu - 1.0) * kv(nu - 1.0, u)
        return np.where(d > 0, values, nu / (nu - 1.0) if nu > 1 else 0.0)

    return weight


def _dot_product(kernel, V, X, Z):
    return V @ Z


def _exp_sine_squared(kernel, V, X, Z):
    d, turn = cdist(X, Z), 2.0 * np.pi / kernel.periodicity
    # sin(turn d)/d, with its limit at 0
    weight = turn * np.sinc(turn * d / np.pi) * turn / kernel.length_scale**2
    return _by_differences(V * evaluate(kernel, X, Z) * weight, X, Z, 1.0)


_RULES = {
    ConstantKernel: _nothing,
    WhiteKernel: _nothing,
    RBF: _radial,
    Matern: _radial,
    RationalQuadratic: _radial,
    DotProduct: _dot_product,
    ExpSineSquared: _exp_sine_squared,
}
