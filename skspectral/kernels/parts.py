"""Taking a sklearn kernel apart into signal_variance * core + white noise.

The two variances are tuned from the spectrum, so the outer search must not see them a second time.
A constant that multiplies the whole kernel and the white noise added to it are recognised; what is
left is a core of unit variance.
"""

from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import add, mul

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Kernel,
    Product,
    Sum,
    WhiteKernel,
)

from .parameters import bounds_of, hyperparameters_of, theta_of

__all__ = [
    "KernelParts",
    "additive_terms",
    "default_kernel",
    "has_sum",
    "has_white_noise",
    "parameter_names",
    "parameters_at_bounds",
    "split_kernel",
]

_ANYTHING = (0.0, np.inf)
# scikit-learn's, of every parameter.
_DEFAULT_BOUNDS = (1e-5, 1e5)


@dataclass(frozen=True)
class KernelParts:
    """A kernel as signal_variance * core + noise_variance * identity.

    Attributes
    ----------
    core : Kernel
        What is left without the two variances.
    signal_start, noise_start : float or None
        The values the user gave, None where the part is absent.
    signal_bounds, noise_bounds : tuple of float
        Their bounds; equal where "fixed", (0, inf) where the part is absent.
    """

    core: Kernel
    signal_start: float | None
    signal_bounds: tuple
    noise_start: float | None
    noise_bounds: tuple


def split_kernel(kernel):
    """Return the `KernelParts` of a sklearn kernel.

    ``WhiteKernel`` terms of the sum are the noise. If one other term is left, the ``ConstantKernel``
    factors of its product are the signal variance (looking through brackets, ``C * (k + W)``). If several
    are left and each has a constant, the first constant is the signal variance and the others become
    relative to it, so that no two parameters rescale the same thing. Where that would lose a later constant
    that is fixed or has bounds of its own, all constants stay in the core and the signal variance is 1.

    Only the classes of scikit-learn themselves are split off. A subclass may mean anything by its value.
    """
    if isinstance(kernel, CompoundKernel):
        raise ValueError(
            f"{kernel} is a collection of kernels, not one. Pass one of them, their sum or their product."
        )
    terms = _flatten(kernel, Sum)
    noise = [_parameter(t, "noise_level") for t in terms if type(t) is WhiteKernel]
    rest = [_factor(t) for t in terms if type(t) is not WhiteKernel]
    if not rest:
        raise ValueError(
            f"The kernel {kernel} is noise only. Add a kernel for the signal, for example "
            "RBF() + WhiteKernel(), or leave kernel=None."
        )
    (signal, core), *others = rest
    if others:
        core, signal = _sum_of_several(rest)
    elif type(core) is Sum:
        return _nested(split_kernel(core), signal, noise)
    return _assemble(core, signal, noise)


def _sum_of_several(terms):
    """Return the core and the signal variance of a sum of (constant, kernel) pairs."""
    signal, constants = terms[0][0], [constant for constant, _ in terms]
    if any(c is not None and _has_own_bounds(c) for c in constants[1:]) and not _is_fixed(signal):
        return _with_constants(terms), (1.0, 1.0, 1.0)
    if any(constant is None for constant in constants):
        return _with_constants(terms), None
    relative = [_relative(constant, signal) * kernel for constant, kernel in terms[1:]]
    return reduce(add, [terms[0][1], *relative]), signal


def _with_constants(terms):
    return reduce(add, [k if c is None else _constant_kernel(c) * k for c, k in terms])


def _is_fixed(constant):
    return constant is not None and constant[1] == constant[2]


def _has_own_bounds(constant):
    """Return whether a constant is fixed or bounded otherwise than by scikit-learn's default."""
    return constant[1:] != _DEFAULT_BOUNDS


def _nested(inner, signal, noise):
    """Return the parts of signal * inner + noise."""
    if signal is not None and inner.noise_start is not None:
        scaled = (inner.noise_start, *inner.noise_bounds)
        noise = [*noise, tuple(map(mul, signal, scaled))]
    elif inner.noise_start is not None:
        noise = [*noise, (inner.noise_start, *inner.noise_bounds)]
    if inner.signal_start is not None:
        own = (inner.signal_start, *inner.signal_bounds)
        signal = own if signal is None else tuple(map(mul, signal, own))
    return _assemble(inner.core, signal, noise)


def _assemble(core, signal, noise):
    noise_total = tuple(map(sum, zip(*noise, strict=True))) if noise else None
    noise_start, noise_bounds = _start_and_bounds(noise_total)
    signal_start, signal_bounds = _start_and_bounds(signal)
    return KernelParts(core, signal_start, signal_bounds, noise_start, noise_bounds)


def _start_and_bounds(triple):
    if triple is None:
        return None, _ANYTHING
    value, low, high = map(float, triple)
    return value, (low, high)


def _factor(term):
    """Return the joint (value, low, high) of a product's constants, None without any, and the rest."""
    factors = _flatten(term, Product)
    constants = [_parameter(f, "constant_value") for f in factors if type(f) is ConstantKernel]
    others = [f for f in factors if type(f) is not ConstantKernel]
    core = reduce(mul, others) if others else ConstantKernel(1.0, "fixed")
    return (tuple(map(prod, zip(*constants, strict=True))) if constants else None), core


def _relative(constant, reference):
    value, low, high = constant[0] / reference[0], constant[1] / reference[2], constant[2] / reference[1]
    return _constant_kernel((value, low, high))


def _constant_kernel(triple):
    value, low, high = map(float, triple)
    return ConstantKernel(value, "fixed" if low == high else (low, high))


def _flatten(kernel, operator):
    if type(kernel) is operator:
        return _flatten(kernel.k1, operator) + _flatten(kernel.k2, operator)
    return [kernel]


def _parameter(kernel, name):
    """Return (value, low, high) of a kernel's parameter; all equal where it is fixed."""
    value = float(getattr(kernel, name))
    hyperparameter = getattr(kernel, f"hyperparameter_{name}")
    if hyperparameter.fixed:
        return value, value, value
    low, high = hyperparameter.bounds[0]
    return value, float(low), float(high)


def additive_terms(kernel):
    """Return the kernels of which a kernel is the sum."""
    return _flatten(kernel, Sum)


def parameter_names(kernel):
    """Return a name for each entry of ``kernel.theta``, indexed where a parameter is a vector."""
    names = []
    for h in hyperparameters_of(kernel):
        if not h.fixed:
            names += [h.name] if h.n_elements == 1 else [f"{h.name}[{i}]" for i in range(h.n_elements)]
    return names


def default_kernel(X, weight):
    """Return an RBF of length sqrt(sum of the inputs' variances), which is sqrt(p) for standardised X."""
    unit = float(np.abs(X).max(initial=0.0)) or 1.0  # squares of inputs may be beyond all numbers
    centred = X / unit - np.average(X / unit, axis=0, weights=weight)
    length = float(np.sqrt(np.average(centred**2, axis=0, weights=weight).sum())) * unit or 1.0
    return RBF(length, (1e-3 * length, 1e3 * length))


def has_white_noise(kernel):
    """Return whether white noise is anywhere inside a kernel."""
    return _has(kernel, WhiteKernel)


def has_sum(kernel):
    """Return whether a sum is anywhere inside a kernel."""
    return _has(kernel, Sum)


def _has(kernel, kind):
    return any(isinstance(part, kind) for part in [kernel, *kernel.get_params(deep=True).values()])


def parameters_at_bounds(kernel):
    """Return (name, "lower" or "upper") of every parameter that lies at a bound of its own."""
    gaps = np.abs(bounds_of(kernel).reshape(-1, 2) - theta_of(kernel)[:, None])
    stuck = np.flatnonzero(gaps.min(axis=1) < 1e-6)
    names = parameter_names(kernel) if len(stuck) else []
    return [(names[k], "lower" if gaps[k, 0] < gaps[k, 1] else "upper") for k in stuck]
