"""A kernel attached to its inputs: values and derivatives at many theta, each part of it evaluated once.

Learning evaluates the same kernel on the same rows at one theta after another, and needs K and then
sum_ij G_ij dK_ij/dtheta. `attach` keeps what does not depend on theta (distances between the inputs, shared
by all isotropic parts), and the values at a theta keep what their contraction needs again.

A symmetric matrix is kept as `Pairs`: its diagonal and a vector of what is above it, in the order of
:func:`scipy.spatial.distance.pdist`. That halves the work on entries. Numbers stand for constant vectors.
"""

from functools import cached_property
from itertools import compress, pairwise

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Kernel,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from .algebra import contract, evaluate
from .pairs import Pairs
from .parameters import hyperparameters_of
from .stationary import radial

__all__ = ["attach"]

# Half squared lengths beyond which the rounding of sums of W (a_i^2 + a_j^2 - 2 a_i a_j) would be seen.
_CANCELLING = 5e4
# Exponents below which exponentials are 0, which takes several times as long as to find other values.
_VANISHING = -745.2
# Largest alpha of a rational quadratic kernel up to which 1 + D/alpha, to that power, is as exact as K.
_EXACT_POWER = 10.0


def attach(kernel, X, dtype=np.float64):
    """Return a kernel on fixed inputs: an object whose `at(theta)` gives `K` and `contract(G)` there.

    `K` is `Pairs` that are not to be written to, G is `Pairs` of weights. `dtype` is that of the distances
    of all pairs: float32 where single precision is enough.
    """
    return _attached(kernel, _Inputs(X, dtype))


class _Inputs:
    """Rows, and what is common to all kernels on them."""

    def __init__(self, X, dtype):
        self.X, self.dtype, self.is_double = X, dtype, dtype == np.float64
        # a factor of distances beyond which their products with weights might not be finite
        self.largest = float(np.finfo(dtype).max) * 1e-8

    @cached_property
    def unit(self):
        """A power of 2 of the size of the inputs: their squares may be beyond float64."""
        size = np.abs(self.X - self.X.mean(axis=0)).max(initial=0.0)
        return float(np.exp2(np.frexp(size)[1]))

    @cached_property
    def distances(self):
        """Half squared distances of all pairs, in square units."""
        return (0.5 * pdist(self.X / self.unit, "sqeuclidean")).astype(self.dtype, copy=False)

    @cached_property
    def farthest(self):
        """The largest of these."""
        return float(self.distances.max(initial=0.0))

    @cached_property
    def lengths(self):
        """Distances of all pairs in the units of the inputs."""
        return np.sqrt(2.0 * self.distances) * self.unit

    @cached_property
    def products(self):
        """Inner products."""
        return Pairs.of(self.X @ self.X.T)


def _attached(kernel, inputs):
    if hasattr(kernel, "_evaluate") or hasattr(kernel, "_contract"):
        return _Any(kernel, inputs)
    if type(kernel) in _KINDS:
        return _KINDS[type(kernel)](kernel, inputs)
    if radial(kernel) is None:
        return _Any(kernel, inputs)
    return (_Scaled if np.size(kernel.length_scale) > 1 else _Isotropic)(kernel, inputs)


class _Leaf:
    """A kernel that is not made of others."""

    def __init__(self, kernel, inputs):
        params, parameters = kernel.get_params(), hyperparameters_of(kernel)  # those of kernels inside, too
        self.kernel, self.inputs = kernel, inputs
        self.fixed = {h.name: params[h.name] for h in parameters if h.fixed}
        self.free = [(h.name, h.n_elements) for h in parameters if not h.fixed]
        self.n_dims = sum(size for _, size in self.free)

    def values(self, theta):
        """Return all parameters by name, free ones taken from theta."""
        parameters, start, theta = dict(self.fixed), 0, np.exp(theta)
        for name, size in self.free:
            parameters[name] = float(theta[start]) if size == 1 else theta[start : start + size]
            start += size
        return parameters

    def products(self, K, given, v):
        """Return (dK/dtheta) v, see `_Values`."""
        return None

    def in_order(self, slopes):
        """Return derivatives by name as theta has them."""
        if self.n_dims == len(self.free):
            return np.array([float(slopes[name]) for name, _ in self.free])
        return np.array([s for name, _ in self.free for s in np.atleast_1d(slopes[name])])


class _Values:
    """A leaf at some theta: `K`, and what its contraction needs."""

    def __init__(self, leaf, K, given):
        self.leaf, self.K, self.given = leaf, K, given

    def contract(self, G):
        """Return sum_ij G_ij dK_ij/dtheta."""
        return self.leaf.in_order(self.leaf.slopes(G, self.K, self.given))

    def derivative_products(self, v):
        """Return (dK/dtheta) v, (n, 1); None where the distances that are kept do not say it."""
        return self.leaf.products(self.K, self.given, v)


class _Radial(_Leaf):
    """k(D), a function of the half squared distance in units of the length scale; 1 on the diagonal."""

    def __init__(self, kernel, inputs):
        super().__init__(kernel, inputs)
        self.shape = radial(kernel)
        self.is_gaussian = self.shape is radial(RBF())

    def at(self, theta):
        """Return the `_Values` at theta."""
        given = self.values(theta)
        D = self.distances(given)
        off = _exp(np.negative(D, out=D)) if self.is_gaussian else self.shape.value(D, None)
        return _Values(self, Pairs(off, 1.0), given)

    def slopes(self, G, K, given):
        """Return the derivatives by name."""
        D = self.distances(given)
        W = self.shape.weight(D, K.off, None) * G.off
        return {"length_scale": self.by_length(W, D, given)}


def _exp(exponents, smallest=None):
    """Return exponentials, in the memory of their exponents, the smallest of which may be known."""
    if (exponents.min(initial=0.0) if smallest is None else smallest) >= _VANISHING:
        return np.exp(exponents, out=exponents)
    vanishes = exponents < _VANISHING
    np.putmask(exponents, vanishes, 0.0)
    np.putmask(np.exp(exponents, out=exponents), vanishes, 0.0)
    return exponents


class _Isotropic(_Radial):
    """With one length scale, from distances that are made once."""

    def __init__(self, kernel, inputs):
        super().__init__(kernel, inputs)
        if "length_scale" in self.fixed:
            self.fixed["length_scale"] = float(np.ravel(self.fixed["length_scale"])[0])

    def at(self, theta):
        """Return the `_Values` at theta; those of an RBF kernel in fewer passes."""
        if not self.is_gaussian:
            return super().at(theta)
        given = self.values(theta)
        factor = -self._factor(given)
        off = _exp(self.inputs.distances * factor, factor * self.inputs.farthest)
        return _Values(self, Pairs(off, 1.0), given)

    def slopes(self, G, K, given):
        """Return the derivatives by name; dK/dlog length = 2 K D of an RBF kernel without D."""
        if not self.is_gaussian:
            return super().slopes(G, K, given)
        return {"length_scale": 2.0 * self._factor(given) * ((K.off * G.off) @ self.inputs.distances)}

    def distances(self, given):
        """Return D."""
        return self.inputs.distances * self._factor(given)

    def _factor(self, given):
        """Return what distances in square units are multiplied by."""
        ratio = self.inputs.unit / given["length_scale"]
        return min(ratio * ratio, self.inputs.largest)  # a power would raise

    def by_length(self, W, D, given):
        """Return the derivative by the log length scale."""
        return 2.0 * (W @ D)

    def products(self, K, given, v):
        """Return (dK/dtheta) v where theta is the log length scale."""
        if [name for name, _ in self.free] != ["length_scale"]:
            return None
        D = self.distances(given)
        D *= self.shape.weight(D, K.off, given.get("alpha"))
        return 2.0 * Pairs(D, 0.0).matrix(len(v)) @ v[:, None]


class _Rational(_Isotropic):
    """(1 + D/alpha)^-alpha, with the logarithms of what is to a power kept for the slope by alpha.

    That is dK/dlog alpha = K (D/base - alpha log base) with base = 1 + D/alpha.
    """

    def at(self, theta):
        """Return the `_Values` at theta."""
        given = self.values(theta)
        D = self.distances(given)
        D /= given["alpha"]
        logs = np.log1p(D, out=D) if given["alpha"] > _EXACT_POWER else np.log(np.add(D, 1.0, out=D), out=D)
        return _Values(self, Pairs(_exp(logs * -given["alpha"]), 1.0), given | {"logs": logs})

    def slopes(self, G, K, given):
        """Return the derivatives by name."""
        D, alpha, GK = self.distances(given), given["alpha"], K.off * G.off
        W = D / alpha
        W += 1.0
        WD = np.divide(GK, W, out=W) @ D
        return {"length_scale": 2.0 * WD, "alpha": WD - alpha * (GK @ given["logs"])}


class _Scaled(_Radial):
    """With a length scale for each input."""

    def scaled(self, given):
        """Return the inputs in units of their length scales, centred."""
        if self.inputs.X.shape[1] != len(given["length_scale"]):
            evaluate(self.kernel, self.inputs.X)  # which refuses them
        return (self.inputs.X - self.inputs.X.mean(axis=0)) / given["length_scale"]

    def distances(self, given):
        """Return D."""
        D = pdist(self.scaled(given), "sqeuclidean")
        D *= 0.5
        return D if self.inputs.is_double else np.minimum(D, self.inputs.largest).astype(self.inputs.dtype)

    def by_length(self, W, D, given):
        """Return the derivatives by the log length scales, sum over pairs of W (a_i - a_j)^2."""
        A = self.scaled(given)
        if 0.5 * np.square(A).sum(axis=1).max(initial=0.0) > _CANCELLING:
            return np.array([W @ pdist(a[:, None], "sqeuclidean") for a in A.T])
        W = squareform(W)
        return W.sum(axis=1, dtype=np.float64) @ A**2 - np.einsum("ik,ik->k", A, W @ A)


class _Constant(_Leaf):
    """A constant."""

    def at(self, theta):
        """Return the `_Values` at theta."""
        given = self.values(theta)
        return _Values(self, Pairs(given["constant_value"], given["constant_value"]), given)

    def slopes(self, G, K, given):
        """Return the derivatives by name."""
        return {"constant_value": given["constant_value"] * G.sum()}


class _White(_Leaf):
    """Noise on the diagonal."""

    def at(self, theta):
        """Return the `_Values` at theta."""
        given = self.values(theta)
        return _Values(self, Pairs(0.0, given["noise_level"]), given)

    def slopes(self, G, K, given):
        """Return the derivatives by name."""
        return {"noise_level": given["noise_level"] * np.sum(G.diagonal)}


class _DotProduct(_Leaf):
    """sigma_0^2 + x'z."""

    def at(self, theta):
        """Return the `_Values` at theta."""
        given = self.values(theta)
        return _Values(self, self.inputs.products.map(lambda entries: entries + given["sigma_0"] ** 2), given)

    def slopes(self, G, K, given):
        """Return the derivatives by name."""
        return {"sigma_0": 2.0 * given["sigma_0"] ** 2 * G.sum()}


class _Periodic(_Leaf):
    """exp(-2 S / length_scale^2) with S = sin^2(pi |x - z| / period)."""

    @cached_property
    def _squares_of_fixed_period(self):
        return self._squared_sines(self.kernel.periodicity)

    def _squared_sines(self, period):
        S = np.sin(np.pi / period * self.inputs.lengths)
        return np.square(S, out=S)

    def at(self, theta):
        """Return the `_Values` at theta."""
        given = self.values(theta)
        is_fixed = "periodicity" in self.fixed
        S = self._squares_of_fixed_period if is_fixed else self._squared_sines(given["periodicity"])
        off = _exp(S * (-2.0 / given["length_scale"] ** 2))
        return _Values(self, Pairs(off, 1.0), given | {"squares": S})

    def slopes(self, G, K, given):
        """Return the derivatives by name."""
        length, GK = given["length_scale"], G.off * K.off
        slopes = {"length_scale": 4.0 / length**2 * (GK @ given["squares"])}
        if "periodicity" not in self.fixed:
            angle = np.pi / given["periodicity"] * self.inputs.lengths
            slopes["periodicity"] = 2.0 / length**2 * (GK @ (angle * np.sin(2.0 * angle)))
        return slopes


class _Any(_Leaf):
    """Any other kernel, by its own methods or scikit-learn's."""

    def __init__(self, kernel, inputs):
        super().__init__(kernel, inputs)
        self.n_dims = kernel.n_dims  # its theta may be anything

    def at(self, theta):
        """Return the values at theta."""
        return _ValuesOfAny(
            self.kernel.clone_with_theta(theta) if self.n_dims else self.kernel, self.inputs.X
        )


class _ValuesOfAny:
    def __init__(self, kernel, X):
        self.kernel, self.X, self.K = kernel, X, Pairs.of(evaluate(kernel, X))

    def contract(self, G):
        halves = Pairs(0.5 * G.off, G.diagonal)
        return contract(self.kernel, halves.matrix(len(self.K.diagonal)), self.X)


class _Several:
    """Kernels that are added or multiplied, all of them side by side."""

    def __init__(self, kernel, inputs):
        self.parts = [_attached(part, inputs) for part in _flattened(kernel, type(kernel))]
        self.are_learned = [part.n_dims > 0 for part in self.parts]
        ends = np.cumsum([0, *(part.n_dims for part in self.parts)])
        self.n_dims, self._places = int(ends[-1]), [slice(*both) for both in pairwise(ends)]

    def at(self, theta):
        """Return the values at theta."""
        places = zip(self.parts, self._places, strict=True)
        return self.joined([part.at(theta[place]) for part, place in places], self.are_learned)


def _flattened(kernel, operator):
    if type(kernel) is operator:
        return _flattened(kernel.k1, operator) + _flattened(kernel.k2, operator)
    return [kernel]


class _ValuesOfSum:
    def __init__(self, values, are_learned):
        self.learned = list(compress(values, are_learned))
        self.K = sum((part.K for part in values[1:]), start=values[0].K)

    def contract(self, G):
        return np.concatenate([part.contract(G) for part in self.learned])


class _ValuesOfProduct:
    def __init__(self, values, are_learned):
        self.values, self.are_learned = values, are_learned
        self.K = _product([part.K for part in values])

    def contract(self, G):
        return np.concatenate([self._slopes(k, G) for k, learned in enumerate(self.are_learned) if learned])

    def _slopes(self, k, G):
        """Return the derivatives by the parameters of factor k, in few passes over the entries."""
        part = self.values[k]
        if isinstance(part, _Values) and isinstance(part.leaf, _Constant):
            return np.array([G.dot(self.K)])
        others = [value.K for i, value in enumerate(self.values) if i != k]
        for K in others:
            G = G if K.is_number else G * K
        return float(np.prod([K.off for K in others if K.is_number])) * part.contract(G)


def _product(factors):
    """Return the product of pairs, numbers first."""
    factors = sorted(factors, key=lambda K: np.ndim(K.off))
    product = factors[0]
    for K in factors[1:]:
        product = product * K
    return product


class _Sum(_Several):
    joined = _ValuesOfSum


class _Product(_Several):
    joined = _ValuesOfProduct


class _Power:
    """A kernel to a power."""

    def __init__(self, kernel, inputs):
        self.inner, self.exponent = _attached(kernel.kernel, inputs), kernel.exponent
        self.n_dims = self.inner.n_dims

    def at(self, theta):
        """Return the values at theta."""
        return _ValuesOfPower(self.inner.at(theta), self.exponent)


class _ValuesOfPower:
    def __init__(self, inner, exponent):
        self.inner, self.exponent = inner, exponent
        self.K = inner.K.map(lambda entries: entries**exponent)

    def contract(self, G):
        slope = self.inner.K.map(lambda entries: self.exponent * entries ** (self.exponent - 1))
        return self.inner.contract(G * slope)


_KINDS: dict[type[Kernel], type] = {
    Sum: _Sum,
    Product: _Product,
    Exponentiation: _Power,
    ConstantKernel: _Constant,
    RationalQuadratic: _Rational,
    WhiteKernel: _White,
    DotProduct: _DotProduct,
    ExpSineSquared: _Periodic,
}
