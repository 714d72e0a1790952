"""Free parameters of kernels, and kernels with other values of them, in a fraction of the usual time.

scikit-learn's kernels look through all of their attributes for hyperparameters, and through the signatures of
their constructors for values, each time they are asked.
"""

from copy import copy
from functools import cache

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel, KernelOperator, Product, Sum

__all__ = [
    "bounds_of",
    "copied",
    "free_parameters",
    "hyperparameters_of",
    "n_dims_of",
    "set_theta",
    "theta_of",
    "with_theta",
]


def with_theta(kernel, theta):
    """Return a kernel with other free parameters, exp(theta): what `clone_with_theta` returns.

    That clones by way of the constructors and lists all parameters twice. Here kernels are `copied`.
    """
    if not _is_plain(kernel):
        return kernel.clone_with_theta(theta)
    kernel = copied(kernel)
    set_theta(list(free_parameters(kernel)), theta)
    return kernel


def copied(kernel):
    """Return a kernel with the same parameters: what scikit-learn's `clone` returns.

    Its own kernels are copied, which share no more than bounds; others, which may be made of anything, are
    cloned.
    """
    if not _is_plain(kernel):
        return clone(kernel)
    own = copy(kernel)
    if type(kernel) in (Sum, Product):
        own.k1, own.k2 = copied(kernel.k1), copied(kernel.k2)
    for name, value in vars(own).items():
        if isinstance(value, np.ndarray):
            setattr(own, name, value.copy())
    return own


def theta_of(kernel):
    """Return ``kernel.theta``."""
    if not _is_plain(kernel):
        return kernel.theta
    values = [getattr(leaf, parameter.name) for leaf, parameter in free_parameters(kernel)]
    return np.log(np.hstack(values)) if values else np.empty(0)


def bounds_of(kernel):
    """Return ``kernel.bounds``."""
    if not _is_plain(kernel):
        return kernel.bounds
    bounds = [parameter.bounds for _, parameter in free_parameters(kernel)]
    return np.log(np.vstack(bounds)) if bounds else np.empty(0)


def n_dims_of(kernel):
    """Return ``kernel.n_dims``."""
    if not _is_plain(kernel):
        return kernel.n_dims
    return sum(parameter.n_elements for _, parameter in free_parameters(kernel))


def free_parameters(kernel):
    """Yield (kernel, hyperparameter) of the kernels that a kernel is made of, in the order of theta."""
    if isinstance(kernel, KernelOperator):
        yield from free_parameters(kernel.k1)
        yield from free_parameters(kernel.k2)
        return
    for parameter in hyperparameters_of(kernel):
        if not parameter.fixed:
            yield kernel, parameter


def hyperparameters_of(kernel):
    """Return ``kernel.hyperparameters``."""
    if isinstance(kernel, KernelOperator) or not _is_plain(kernel):
        return kernel.hyperparameters
    return [getattr(kernel, name) for name in _names_of_hyperparameters(type(kernel))]


@cache
def _names_of_hyperparameters(kind):
    return [name for name in dir(kind) if name.startswith("hyperparameter_")]


def _is_plain(kernel):
    """Return whether a kernel is made of scikit-learn's own, each with theta of its own parameters."""
    if type(kernel) in (Sum, Product):
        return _is_plain(kernel.k1) and _is_plain(kernel.k2)
    kind = type(kernel)
    return kind.__module__ == Kernel.__module__ and kind.theta is Kernel.theta


def set_theta(parameters, theta):
    """Give `free_parameters` the values exp(theta)."""
    start = 0
    for leaf, parameter in parameters:
        size = parameter.n_elements
        value = np.exp(theta[start] if size == 1 else theta[start : start + size])
        if _is_plain(leaf):
            setattr(leaf, parameter.name, value)
        else:
            leaf.set_params(**{parameter.name: value})  # which may be one of a kernel inside
        start += size
