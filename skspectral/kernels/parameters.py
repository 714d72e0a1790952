"""Kernels with other values of their free parameters, in a fraction of scikit-learn's time."""

from copy import copy

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, KernelOperator, Product, Sum

__all__ = ["free_parameters", "set_theta", "with_theta"]


def with_theta(kernel, theta):
    """Return a kernel with other free parameters, exp(theta): what `clone_with_theta` returns.

    That clones by way of the constructors and lists all parameters twice. Here scikit-learn's own kernels are
    copied, which share no more than bounds; others, which may be made of anything, are cloned all the same.
    """
    if not _is_plain(kernel):
        return kernel.clone_with_theta(theta)
    kernel = _copied(kernel)
    set_theta(list(free_parameters(kernel)), theta)
    return kernel


def _is_plain(kernel):
    """Return whether a kernel is made of scikit-learn's own, each with theta of its own parameters."""
    if type(kernel) in (Sum, Product):
        return _is_plain(kernel.k1) and _is_plain(kernel.k2)
    kind = type(kernel)
    return kind.__module__ == Kernel.__module__ and kind.theta is Kernel.theta


def _copied(kernel):
    kernel = copy(kernel)
    if type(kernel) in (Sum, Product):
        kernel.k1, kernel.k2 = _copied(kernel.k1), _copied(kernel.k2)
    return kernel


def free_parameters(kernel):
    """Yield the kernels that a kernel is made of with names and sizes of their parameters, as in theta."""
    if isinstance(kernel, KernelOperator):
        yield from free_parameters(kernel.k1)
        yield from free_parameters(kernel.k2)
        return
    for parameter in kernel.hyperparameters:
        if not parameter.fixed:
            yield kernel, parameter.name, parameter.n_elements


def set_theta(parameters, theta):
    """Give `free_parameters` the values exp(theta)."""
    start = 0
    for leaf, name, size in parameters:
        part = theta[start] if size == 1 else theta[start : start + size]
        leaf.set_params(**{name: np.exp(part)})  # of several at once the last digit may differ
        start += size
