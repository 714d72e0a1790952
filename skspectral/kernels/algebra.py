"""Values and parameter derivatives of sklearn kernels, without the n x n x p tensor.

For any smooth function F of a kernel matrix K(X, Z) with G = dF/dK, `contract` returns

    dF/dtheta_p = sum_ij G_ij dK_ij/dtheta_p

in scikit-learn's log parametrisation. For k = rho(|z_i - z_j|^2) with z = x / length_scale and W = G * w,
w the common weight of all directions, the sums over pairs of W_ij (z_ik - z_jk)^2 of all inputs k come
from one product W Z: O(n^2 p) time and no array larger than K. Sums, products and powers follow by the
chain rule.

A kernel class joins in by defining either or both of two methods, and this file need not know it:

``_evaluate(X, Z)``
    Return a fresh K(X, Z), or K(X, X) for Z=None.
``_contract(G, X, Z)``
    Return sum_ij G_ij dK_ij/dtheta for its free parameters in their order.

Methods of a kernel that is made of others call `evaluate`, `contract` and `contract_diagonal` for those. A
kernel with neither rule nor method falls back on scikit-learn's ``eval_gradient``.
"""

import numpy as np
from scipy.spatial.distance import cdist
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

from ..support.threads import map_in_threads
from .stationary import WeightedPairs, half_squared_distances, radial, scaled_inputs

__all__ = ["contract", "contract_diagonal", "evaluate", "in_order", "periodic_slopes"]

# Step of the central difference for kernels of which only values are known.
_STEP = 1e-5
# Rows whose kernel among themselves is made to read off the derivatives of its diagonal.
_DIAGONAL_BLOCK = 64
# Entries from which a kernel matrix is made in threads, and rows that each makes at a time.
_LARGE, _ROWS_AT_ONCE = 1_000_000, 256


@np.errstate(over="ignore")  # infinite entries are refused where they matter, with a message
def evaluate(kernel, X, Z=None):
    """Return a fresh K(X, Z), or K(X, X) for Z=None.

    Functions of the squared distance are built by one GEMM and in place (from differences where the inputs
    span hundreds of length scales), and a kernel may have a method of its own; everything else is
    scikit-learn's own.
    """
    if hasattr(kernel, "_evaluate"):
        return kernel._evaluate(X, Z)
    if type(kernel) is Sum:
        K = evaluate(kernel.k1, X, Z)
        return np.add(K, evaluate(kernel.k2, X, Z), out=K)
    if type(kernel) is Product:
        if type(kernel.k1) is ConstantKernel:
            return _scaled(evaluate(kernel.k2, X, Z), kernel.k1.constant_value)
        K = evaluate(kernel.k1, X, Z)
        return np.multiply(K, evaluate(kernel.k2, X, Z), out=K)
    shape = radial(kernel)
    if shape is not None:
        return _radial_values(kernel, shape, X, Z)
    return np.array(kernel(X, Z), dtype=np.float64)


def _radial_values(kernel, shape, X, Z):
    """Return K(X, Z) of a function of the distance; where it is large, in threads by blocks of rows."""
    (A, B), alpha = scaled_inputs(kernel.length_scale, X, Z), getattr(kernel, "alpha", None)
    if len(A) * len(B) < _LARGE:
        return shape.value(_distances(shape, A, B, is_square=Z is None), alpha)
    K = np.empty((len(A), len(B)))

    def fill(start):
        rows = slice(start, start + _ROWS_AT_ONCE)
        D = half_squared_distances(A[rows], B, exactly=not shape.is_smooth)
        if Z is None:
            np.fill_diagonal(D[:, rows], 0.0)
        K[rows] = shape.value(D, alpha)

    map_in_threads(fill, range(0, len(A), _ROWS_AT_ONCE))
    return K


def contract(kernel, G, X, Z=None):
    """Return sum_ij G_ij dK_ij/dtheta for the free parameters theta of the kernel, in their order.

    Parameters
    ----------
    kernel : Kernel
        Any sklearn kernel.
    G : ndarray of shape (n, n) or (n, n_z)
        Weights; symmetric for Z=None.
    X, Z : ndarray
        Inputs as in `evaluate`.
    """
    if kernel.n_dims == 0:
        return np.empty(0)
    if hasattr(kernel, "_contract"):
        return kernel._contract(G, X, Z)
    if type(kernel) is Sum:
        return np.concatenate([contract(k, G, X, Z) for k in (kernel.k1, kernel.k2)])
    if type(kernel) is Product:
        pairs = ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1))
        parts = [contract(k, _times(G, other, X, Z), X, Z) if k.n_dims else np.empty(0) for k, other in pairs]
        return np.concatenate(parts)
    if type(kernel) is Exponentiation:
        slope = kernel.exponent * evaluate(kernel.kernel, X, Z) ** (kernel.exponent - 1)
        return contract(kernel.kernel, G * slope, X, Z)
    rule = _rule(kernel)
    if rule is None:
        return _contract_without_rule(kernel, G, X, Z)
    return in_order(kernel, rule(kernel, G, X, Z))


def contract_diagonal(kernel, g, X):
    """Return sum_i g_i dk(x_i, x_i)/dtheta: the contraction with a diagonal G, in blocks of rows.

    All k(x, x) of a stationary kernel are the same, and one row stands for all.

    Parameters
    ----------
    kernel : Kernel
        Any sklearn kernel.
    g : ndarray of shape (n,)
        Weights.
    X : ndarray
        Inputs.
    """
    slope = np.zeros(kernel.n_dims)
    if kernel.is_stationary() and len(g):
        return contract(kernel, np.full((1, 1), g.sum()), X[:1])
    for i in range(0, len(g), _DIAGONAL_BLOCK):
        rows = slice(i, i + _DIAGONAL_BLOCK)
        slope += contract(kernel, np.diag(g[rows]), X[rows])
    return slope


def in_order(kernel, slopes):
    """Return derivatives that are given by names of parameters as theta has them: the free ones, in order."""
    free = [np.atleast_1d(slopes[h.name]) for h in kernel.hyperparameters if not h.fixed]
    return np.concatenate([np.empty(0), *free])


def _rule(kernel):
    if type(kernel) is Matern and radial(kernel) is None:
        return None
    return _RULES.get(type(kernel))


def _times(G, kernel, X, Z):
    if type(kernel) is ConstantKernel:
        return G * kernel.constant_value
    return G * evaluate(kernel, X, Z)


def _scaled(K, factor):
    K *= factor
    return K


def _constant(kernel, G, X, Z):
    return {"constant_value": kernel.constant_value * G.sum()}


def _white(kernel, G, X, Z):
    return {"noise_level": kernel.noise_level * np.trace(G) if Z is None else 0.0}


def _radial(kernel, G, X, Z):
    return WeightedPairs.of(kernel, G, X, Z).by_parameters()


def _distances(shape, A, B, is_square):
    """Return half squared distances in units of the length scale, exactly 0 on the diagonal of a square."""
    D = half_squared_distances(A, B, exactly=not shape.is_smooth)
    if is_square:
        np.fill_diagonal(D, 0.0)
    return D


def _dot_product(kernel, G, X, Z):
    return {"sigma_0": 2.0 * kernel.sigma_0**2 * G.sum()}


def _exp_sine_squared(kernel, G, X, Z):
    slopes = periodic_slopes(kernel, X, X if Z is None else Z)
    return {name: np.vdot(G, slope) for name, slope in slopes.items()}


def periodic_slopes(kernel, X, Z):
    """Return the derivatives of the values of an ExpSineSquared by its log parameters, (n, n_z) by name."""
    length, period = kernel.length_scale, kernel.periodicity
    angle = np.pi / period * cdist(X, Z)
    squares = (np.sin(angle) / length) ** 2
    K = np.exp(-2.0 * squares)
    return {
        "length_scale": 4.0 * K * squares,
        "periodicity": 2.0 / length**2 * K * angle * np.sin(2.0 * angle),
    }


_RULES = {
    ConstantKernel: _constant,
    WhiteKernel: _white,
    RBF: _radial,
    Matern: _radial,
    RationalQuadratic: _radial,
    DotProduct: _dot_product,
    ExpSineSquared: _exp_sine_squared,
}


def _contract_without_rule(kernel, G, X, Z):
    if Z is None:
        return np.einsum("ij,ijp->p", G, kernel(X, eval_gradient=True)[1])
    slopes = np.empty(kernel.n_dims)
    for p, step in enumerate(_STEP * np.eye(kernel.n_dims)):
        ahead, behind = (kernel.clone_with_theta(kernel.theta + sign * step)(X, Z) for sign in (1, -1))
        slopes[p] = np.sum(G * (ahead - behind)) / (2.0 * _STEP)
    return slopes
