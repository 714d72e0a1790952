"""What all kernels of this package share, and those that are made of another kernel.

================  ==================================================================================
ComposableKernel  values, gradients and contractions behind scikit-learn's interface; ==, repr
NestedKernel      a kernel made of another one, whose parameters become its own
================  ==================================================================================
"""

from abc import abstractmethod
from inspect import signature

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..support.exceptions import IndefiniteKernelError

__all__ = ["ComposableKernel", "KernelOverflowError", "NestedKernel", "finite"]


class KernelOverflowError(IndefiniteKernelError):
    """A kernel has values that float64 cannot hold.

    Its matrix cannot be decomposed, no more than an indefinite one, and learning keeps away from parameters
    that raise either error.

    Attributes
    ----------
    kernel : str
        The kernel in words.
    smallest_eigenvalue : float
        NaN: there is no matrix to have one.
    """

    def __init__(self, kernel):
        self.kernel, self.smallest_eigenvalue, self.tolerance = str(kernel), float("nan"), 0.0
        ValueError.__init__(
            self,
            f"{self.kernel} has values beyond {np.finfo(np.float64).max:.3g}, the largest number of float64. "
            "Make the values inside smaller (a ConstantKernel below 1 times the inner kernel, or Normalized "
            "around it), or narrow the bounds of the parameters.",
        )

    def __reduce__(self):
        return type(self), (self.kernel,)


def finite(K, kernel):
    """Return K, refusing values of `kernel` that overflowed."""
    if not np.isfinite(K).all():
        raise KernelOverflowError(kernel)
    return K


class ComposableKernel(Kernel):
    """A scikit-learn kernel by four methods: `_evaluate`, `_contract`, `_with_gradient` and `diag`."""

    @abstractmethod
    def _evaluate(self, X, Z=None):
        """Return a fresh K(X, Z), or K(X, X) for Z=None."""

    @abstractmethod
    def _contract(self, G, X, Z=None):
        """Return sum_ij G_ij dK_ij/dtheta for the free parameters, in the order of theta."""

    @abstractmethod
    def _with_gradient(self, X):
        """Return K(X, X) and all of dK/dtheta, an array (n, n, n_dims)."""

    def __call__(self, X, Y=None, eval_gradient=False):
        """Return K(X, Y) and, on request, its gradient.

        Parameters
        ----------
        X : array-like or list of object
            Left inputs.
        Y : array-like or list of object, default=None
            Right inputs; None means X.
        eval_gradient : bool, default=False
            Whether to return the derivatives by theta, the logarithms of the free parameters; only for
            Y=None.

        Returns
        -------
        K : ndarray of shape (n_X, n_Y)
        K_gradient : ndarray of shape (n_X, n_X, n_dims)
            Only with `eval_gradient`.
        """
        if not eval_gradient:
            return self._evaluate(X, Y)
        if Y is not None:
            raise ValueError("eval_gradient=True is for K(X, X) alone: leave Y=None, or eval_gradient=False.")
        return self._with_gradient(X)

    def __eq__(self, other):
        if type(self) is not type(other):
            return False
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_same(mine[name], theirs[name]) for name in mine)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(self._shown_parameters())})"

    def _shown_parameters(self):
        """Yield the inner kernel, what can be learned, and what differs from its default."""
        params, signed = self.get_params(deep=False), signature(type(self).__init__).parameters
        for name, value in params.items():
            says_something = f"{name}_bounds" in params or not _same(value, signed[name].default)
            if name == "kernel":
                yield repr(value)
            elif says_something and not name.endswith("_bounds") and name not in self._idle_parameters:
                yield f"{name}={_shown(value)}"

    @property
    def _idle_parameters(self):
        """Names of parameters that have no effect beside the others."""
        return ()


def _same(a, b):
    # as objects: kernels, lists, arrays, slices, names and functions alike
    return np.array_equal(np.asarray(a, dtype=object), np.asarray(b, dtype=object))


def _shown(value):
    if np.ndim(value) == 1:
        return f"[{', '.join(map(_shown, value))}]"
    value = value.item() if isinstance(value, np.generic) else value
    return f"{value:.3g}" if isinstance(value, float) else getattr(value, "__name__", repr(value))


class NestedKernel(ComposableKernel):
    """A kernel made of another, its parameter `kernel`.

    Parameters of the inner kernel belong to this one too, after its own and with names ``kernel__...``.
    """

    def __init__(self, kernel):
        if not isinstance(kernel, Kernel):
            raise ValueError(
                f"{type(self).__name__} is made of a kernel, got {kernel!r}. Pass one of "
                "sklearn.gaussian_process.kernels or skspectral.kernels, such as RBF()."
            )
        self.kernel = kernel

    def get_params(self, deep=True):
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include those of the inner kernel, as ``kernel__<name>``.

        Returns
        -------
        dict
        """
        params = super().get_params()
        if deep:
            params.update((f"kernel__{name}", value) for name, value in self.kernel.get_params().items())
        return params

    @property
    def hyperparameters(self):
        """Specifications of the own parameters and those of the inner kernel."""
        inner = [h._replace(name=f"kernel__{h.name}") for h in self.kernel.hyperparameters]
        return super().hyperparameters + inner

    def is_stationary(self):
        """Return whether the inner kernel is stationary, and this one with it."""
        return self.kernel.is_stationary()

    @property
    def requires_vector_input(self):
        """Whether the inner kernel is defined on vectors only, and this one with it."""
        return self.kernel.requires_vector_input
