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

__all__ = ["contract", "contract_diagonal", "evaluate", "in_order"]

# Step of the central difference for kernels of which only values are known.
_STEP = 1e-5
# Half squared lengths beyond which the rounding of |a|^2 + |b|^2 - 2ab, about eps times them, would be seen.
_CANCELLING = 5e4
# Rows whose kernel among themselves is made to read off the derivatives of its diagonal.
_DIAGONAL_BLOCK = 64


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
    if type(kernel) is RBF or (type(kernel) is Matern and kernel.nu == np.inf):
        K = _half_squared_distances(kernel.length_scale, X, Z)
        return np.exp(np.negative(K, out=K), out=K)
    if type(kernel) is RationalQuadratic:
        K = _half_squared_distances(kernel.length_scale, X, Z)
        K /= kernel.alpha
        K += 1.0
        return np.power(K, -kernel.alpha, out=K)
    return np.array(kernel(X, Z), dtype=np.float64)


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
    for i in range(0, len(g), _DIAGONAL_BLOCK):
        rows = slice(i, i + _DIAGONAL_BLOCK)
        slope += contract(kernel, np.diag(g[rows]), X[rows])
    return slope


def in_order(kernel, slopes):
    """Return derivatives that are given by names of parameters as theta has them: the free ones, in order."""
    free = [np.atleast_1d(slopes[h.name]) for h in kernel.hyperparameters if not h.fixed]
    return np.concatenate([np.empty(0), *free])


def _rule(kernel):
    if type(kernel) is Matern and kernel.nu not in _MATERN_WEIGHTS:
        return None
    return _RULES.get(type(kernel))


def _times(G, kernel, X, Z):
    if type(kernel) is ConstantKernel:
        return G * kernel.constant_value
    return G * evaluate(kernel, X, Z)


def _scaled(K, factor):
    K *= factor
    return K


def _rows(X, length_scale):
    """Return inputs as rows of float64, checked to have as many columns as there are length scales."""
    X = np.atleast_2d(np.asarray(X, dtype=np.float64))
    if np.size(length_scale) not in (1, X.shape[1]):
        raise ValueError(
            f"length_scale has {np.size(length_scale)} entries but the kernel sees {X.shape[1]} columns. "
            "Pass one number, or one for each column."
        )
    return X


def _half_squared_distances(length_scale, X, Z=None):
    """Return |x_i - z_j|^2 / 2 in units of the length scale, non-negative."""
    X, Z = _rows(X, length_scale), None if Z is None else _rows(Z, length_scale)
    # Small coordinates: less cancellation in |a|^2 + |b|^2 - 2ab. Of Z, so that each row of the result
    # depends on its own x only.
    centre = (X if Z is None else Z).mean(axis=0)
    A = (X - centre) / length_scale
    B = A if Z is None else (Z - centre) / length_scale
    half = 0.5 * np.einsum("ij,ij->i", A, A)
    half_B = half if Z is None else 0.5 * np.einsum("ij,ij->i", B, B)
    if half_B.max(initial=0.0) > _CANCELLING:
        return 0.5 * cdist(A, B, "sqeuclidean")
    D = A @ B.T
    np.subtract(half[:, None], D, out=D)
    D += half_B
    np.maximum(D, 0.0, out=D)
    if Z is None:
        np.fill_diagonal(D, 0.0)
    return D


def _direction_sums(W, length_scale, X, Z=None):
    """Return sum_ij W_ij (x_ik - z_jk)^2 / length_scale_k^2 for every input k."""
    centre = (X if Z is None else Z).mean(axis=0)
    A = (X - centre) / length_scale
    B = A if Z is None else (Z - centre) / length_scale
    if 0.5 * np.einsum("ij,ij->i", B, B).max(initial=0.0) > _CANCELLING:
        return np.array([np.vdot(W, np.subtract.outer(a, b) ** 2) for a, b in zip(A.T, B.T, strict=True)])
    WB = W @ B
    return W.sum(axis=1) @ A**2 + W.sum(axis=0) @ B**2 - 2.0 * np.einsum("ik,ik->k", A, WB)


def _per_length_scale(sums, kernel):
    """Return the directional sums as derivatives by log length_scale: one, or one for each input."""
    return sums if kernel.anisotropic else sums.sum()


def _constant(kernel, G, X, Z):
    return {"constant_value": kernel.constant_value * G.sum()}


def _white(kernel, G, X, Z):
    return {"noise_level": kernel.noise_level * np.trace(G) if Z is None else 0.0}


def _rbf(kernel, G, X, Z):
    W = evaluate(kernel, X, Z)
    W *= G
    return {"length_scale": _per_length_scale(_direction_sums(W, kernel.length_scale, X, Z), kernel)}


# -rho'(d)/d of each Matern kernel as a function of d, the common weight of all directions.
_MATERN_WEIGHTS = {
    0.5: lambda d: np.divide(np.exp(-d), d, out=np.zeros_like(d), where=d > 0),
    1.5: lambda d: 3.0 * np.exp(-np.sqrt(3.0) * d),
    2.5: lambda d: 5.0 / 3.0 * (1.0 + np.sqrt(5.0) * d) * np.exp(-np.sqrt(5.0) * d),
    np.inf: lambda d: np.exp(-0.5 * d**2),
}


def _matern(kernel, G, X, Z):
    d = cdist(X / kernel.length_scale, (X if Z is None else Z) / kernel.length_scale)
    W = _MATERN_WEIGHTS[kernel.nu](d)
    W *= G
    return {"length_scale": _per_length_scale(_direction_sums(W, kernel.length_scale, X, Z), kernel)}


def _rational_quadratic(kernel, G, X, Z):
    alpha = kernel.alpha
    half = _half_squared_distances(kernel.length_scale, X, Z)
    base = 1.0 + half / alpha
    GK = G * base**-alpha
    return {
        "length_scale": np.sum(GK * 2.0 * half / base),
        "alpha": np.sum(GK * (half / base - alpha * np.log(base))),
    }


def _dot_product(kernel, G, X, Z):
    return {"sigma_0": 2.0 * kernel.sigma_0**2 * G.sum()}


def _exp_sine_squared(kernel, G, X, Z):
    length, period = kernel.length_scale, kernel.periodicity
    angle = np.pi / period * cdist(X, X if Z is None else Z)
    GK = G * np.exp(-2.0 * (np.sin(angle) / length) ** 2)
    return {
        "length_scale": np.sum(GK * 4.0 * (np.sin(angle) / length) ** 2),
        "periodicity": np.sum(GK * 2.0 * angle * np.sin(2.0 * angle) / length**2),
    }


_RULES = {
    ConstantKernel: _constant,
    WhiteKernel: _white,
    RBF: _rbf,
    Matern: _matern,
    RationalQuadratic: _rational_quadratic,
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
