"""Products (dK/dtheta_t) v of all derivatives of a kernel matrix with one vector, without the matrices.

For k(D), D half the squared distance of inputs z = x / length_scale, and its weight w = -dk/dD
(`stationary`), those by the length scales of all inputs k come from one product of w with a few columns,

    sum_j w_ij (z_ik - z_jk)^2 v_j = z_ik^2 (w v)_i + (w (z_k^2 v))_i - 2 z_ik (w (z_k v))_i.

Sums, products and powers of kernels follow by the chain rule: O is what a derivative is multiplied by, entry
by entry. Rows are taken in slabs, so that nothing is as large as K.
"""

from dataclasses import dataclass

import numpy as np
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
)

from ..support.threads import map_in_threads
from .algebra import evaluate, periodic_slopes
from .parameters import hyperparameters_of, n_dims_of
from .stationary import half_squared_distances, radial, scaled_inputs, share_by_alpha

__all__ = ["derivative_products"]

# Rows of a slab.
_SLAB = 1024


def derivative_products(kernel, X, v):
    """Return (dK(X, X)/dtheta_t) v for all free parameters of a kernel, (n, p).

    None where it is made of a kernel that has no rule here: one of the user's, or white noise, which is no
    function of two inputs.
    """
    if not _is_known(kernel):
        return None
    slabs = [_Slab(X[i : i + _SLAB], X, v) for i in range(0, len(v), _SLAB)]
    return np.concatenate(map_in_threads(lambda slab: _products(kernel, slab, None), slabs))


def _is_known(kernel):
    if type(kernel) in (Sum, Product):
        return _is_known(kernel.k1) and _is_known(kernel.k2)
    if type(kernel) is Exponentiation:
        return _is_known(kernel.kernel)
    return type(kernel) in _RULES and (type(kernel) is not Matern or radial(kernel) is not None)


@dataclass(frozen=True)
class _Slab:
    """Some rows, all rows, and the vector."""

    some: np.ndarray
    X: np.ndarray
    v: np.ndarray

    def times(self, K, O):
        """Return (O K) v, either of which may be None for ones."""
        if K is None and O is None:
            return np.full(len(self.some), self.v.sum())
        return (O if K is None else K if O is None else O * K) @ self.v


def _products(kernel, slab, O):
    """Return the products of the rows of a slab, (n, p)."""
    if not n_dims_of(kernel):
        return np.empty((len(slab.some), 0))
    if type(kernel) is Sum:
        return np.hstack([_products(each, slab, O) for each in (kernel.k1, kernel.k2)])
    if type(kernel) is Product:
        pairs = ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1))
        return np.hstack([_products(each, slab, _multiplied(O, other, slab)) for each, other in pairs])
    if type(kernel) is Exponentiation:
        K = evaluate(kernel.kernel, slab.some, slab.X)
        slope = kernel.exponent * K ** (kernel.exponent - 1)
        return _products(kernel.kernel, slab, slope if O is None else O * slope)
    products = _RULES[type(kernel)](kernel, slab, O)
    free = [products[h.name] for h in hyperparameters_of(kernel) if not h.fixed]
    return np.column_stack(free)


def _multiplied(O, kernel, slab):
    K = evaluate(kernel, slab.some, slab.X)
    return K if O is None else O * K


def _constant(kernel, slab, O):
    return {"constant_value": kernel.constant_value * slab.times(None, O)}


def _dot_product(kernel, slab, O):
    return {"sigma_0": 2.0 * kernel.sigma_0**2 * slab.times(None, O)}


def _radial(kernel, slab, O):
    shape, alpha = radial(kernel), getattr(kernel, "alpha", None)
    A, B = scaled_inputs(kernel.length_scale, slab.some, slab.X)
    D = half_squared_distances(A, B, exactly=not shape.is_smooth)
    K = shape.value(D.copy(), alpha)
    w = shape.weight(D, K, alpha)
    if np.size(kernel.length_scale) > 1:
        return {"length_scale": _by_directions(w if O is None else O * w, A, B, slab.v)}
    products = {"length_scale": 2.0 * slab.times(w * D, O)}
    if alpha is not None:
        products["alpha"] = slab.times(K * share_by_alpha(D, alpha), O)
    return products


def _by_directions(w, A, B, v):
    """Return sum_j w_ij (a_ik - b_jk)^2 v_j for all inputs k."""
    v, p = v[:, None], A.shape[1]
    sums = w @ np.hstack([v, B * v, B**2 * v])
    return A**2 * sums[:, :1] - 2.0 * A * sums[:, 1 : p + 1] + sums[:, p + 1 :]


def _exp_sine_squared(kernel, slab, O):
    slopes = periodic_slopes(kernel, slab.some, slab.X)
    return {name: slab.times(slope, O) for name, slope in slopes.items()}


_RULES = {
    ConstantKernel: _constant,
    RBF: _radial,
    Matern: _radial,
    RationalQuadratic: _radial,
    DotProduct: _dot_product,
    ExpSineSquared: _exp_sine_squared,
}
