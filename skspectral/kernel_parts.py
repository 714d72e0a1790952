"""Taking a sklearn kernel apart into signal_variance * core + white noise.

The two variances are tuned from the spectrum, so the outer search must not see them a second time.
A constant that multiplies the whole kernel and the white noise added to it are recognised; what is
left is a core of unit variance.
"""

from dataclasses import dataclass
from functools import reduce
from operator import add, mul

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Product, Sum, WhiteKernel

__all__ = ["KernelParts", "split_kernel"]

_ANYTHING = (0.0, np.inf)


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

    A sum's top-level ``WhiteKernel`` terms are the noise; if one other term is left, the
    ``ConstantKernel`` factors of its product are the signal variance.
    """
    terms = _flatten(kernel, Sum)
    noise = [t for t in terms if isinstance(t, WhiteKernel)]
    rest = [t for t in terms if not isinstance(t, WhiteKernel)]
    if not rest:
        raise ValueError(
            f"The kernel {kernel} is noise only. Add a kernel for the signal, for example "
            "RBF() + WhiteKernel(), or leave kernel=None."
        )
    noise_start, noise_bounds = _combine(noise, "noise_level", add)
    if len(rest) > 1:
        return KernelParts(reduce(add, rest), None, _ANYTHING, noise_start, noise_bounds)
    factors = _flatten(rest[0], Product)
    constants = [f for f in factors if isinstance(f, ConstantKernel)]
    others = [f for f in factors if not isinstance(f, ConstantKernel)]
    core = reduce(mul, others) if others else ConstantKernel(1.0, "fixed")
    signal_start, signal_bounds = _combine(constants, "constant_value", mul)
    return KernelParts(core, signal_start, signal_bounds, noise_start, noise_bounds)


def _flatten(kernel, operator):
    if isinstance(kernel, operator):
        return _flatten(kernel.k1, operator) + _flatten(kernel.k2, operator)
    return [kernel]


def _combine(kernels, name, operation):
    """Return the joint value and bounds of parameters that are added or multiplied."""
    if not kernels:
        return None, _ANYTHING
    values, lows, highs = zip(*(_value_and_bounds(k, name) for k in kernels), strict=True)
    return reduce(operation, values), (reduce(operation, lows), reduce(operation, highs))


def _value_and_bounds(kernel, name):
    value = float(getattr(kernel, name))
    hyperparameter = getattr(kernel, f"hyperparameter_{name}")
    if hyperparameter.fixed:
        return value, value, value
    low, high = hyperparameter.bounds[0]
    return value, float(low), float(high)
