"""Kernels times a function of both inputs, f(x) k(x, z) f(z)."""

from abc import abstractmethod

import numpy as np

from .algebra import contract, contract_diagonal, evaluate
from .composable import NestedKernel
from .slopes import contract_inputs, diagonal_slope

__all__ = ["Normalized", "Scaled"]


class _Scaling(NestedKernel):
    """f(x) k(x, z) f(z), with derivatives f(x) dk f(z)."""

    @abstractmethod
    def _f(self, X):
        """Return f of all rows."""

    def diag(self, X):
        """Return the diagonal of K(X, X).

        Parameters
        ----------
        X : array-like or list of object
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._f(X) ** 2 * self.kernel.diag(X)

    def _evaluate(self, X, Z=None):
        K = evaluate(self.kernel, X, Z)
        return np.multiply(K, self._factors(X, Z), out=K)

    def _contract(self, G, X, Z=None):
        return contract(self.kernel, G * self._factors(X, Z), X, Z)

    def _with_gradient(self, X):
        k, dk = self.kernel(X, eval_gradient=True)
        factors = self._factors(X, None)
        return k * factors, dk * factors[..., None]

    def _factors(self, X, Z):
        left = self._f(X)
        return np.outer(left, left if Z is None else self._f(Z))


class Scaled(_Scaling):
    """A kernel whose amplitude varies over the inputs, f(x) k(x, z) f(z).

    Parameters
    ----------
    kernel : Kernel
        Kernel to scale.
    function : callable
        f: takes the inputs X as they come (from an estimator, an array of n rows) and returns n numbers of
        any sign. A kernel can be pickled if its function can: one that is defined in a module, no lambda.

    Notes
    -----
    It is the covariance of f(x) g(x), where g is a process with kernel k: (6.14) of Bishop (2006), *Pattern
    Recognition and Machine Learning*.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import ConstantKernel
    >>> from skspectral.kernels import Scaled
    >>> def depth(X):
    ...     return X[:, 0]
    >>> Scaled(ConstantKernel(4.0), depth)
    Scaled(2**2, function=depth)
    >>> Scaled(ConstantKernel(4.0), depth)(np.array([[1.0], [3.0]]))
    array([[ 4., 12.],
           [12., 36.]])
    """

    def __init__(self, kernel, function):
        super().__init__(kernel)
        self.function = function

    def is_stationary(self):
        """Return False: the amplitude depends on where the inputs are."""
        return False

    def _f(self, X):
        values = np.asarray(self.function(X), dtype=np.float64)
        if values.shape != (len(X),) or not np.isfinite(values).all():
            what = f"shape {values.shape}" if values.shape != (len(X),) else "values that are not finite"
            raise ValueError(
                f"The function of {self} must return one finite number for each of the {len(X)} rows, and "
                f"returned {what}."
            )
        return values


class Normalized(_Scaling):
    """The cosine in feature space: k(x, z) / sqrt(k(x, x) k(z, z)).

    Every input gets the same variance, so that large sets, long vectors or long texts do not count for more.

    Parameters
    ----------
    kernel : Kernel
        Kernel to normalise.

    Notes
    -----
    It is f(x) k(x, z) f(z) with f(x) = k(x, x)^-1/2, and so a kernel: (6.14) of Bishop (2006), *Pattern
    Recognition and Machine Learning*. Where k(x, x) = 0, x has no direction, and its kernel with every input
    is 0, also with itself. A constant factor inside cancels and cannot be learned; put it outside.

    With K normalised, a_i = k(x_i, x_i) and b_j = k(z_j, z_j), the derivatives are

        dK_ij = dk_ij / sqrt(a_i b_j) - K_ij (da_i / a_i + db_j / b_j) / 2.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import DotProduct
    >>> from skspectral.kernels import Normalized
    >>> Normalized(DotProduct(sigma_0=0.0, sigma_0_bounds="fixed"))([[1.0, 0.0], [3.0, 3.0]]).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])
    """

    def diag(self, X):
        """Return the diagonal of K(X, X): ones, but 0 where that of the inner kernel is 0.

        Parameters
        ----------
        X : array-like or list of object
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.sign(self._f(X))

    def _contract(self, G, X, Z=None):
        Z_or_X, GK = X if Z is None else Z, G * self._evaluate(X, Z)
        slope = super()._contract(G, X, Z)
        slope -= 0.5 * contract_diagonal(self.kernel, GK.sum(axis=1) * self._f(X) ** 2, X)
        slope -= 0.5 * contract_diagonal(self.kernel, GK.sum(axis=0) * self._f(Z_or_X) ** 2, Z_or_X)
        return slope

    def _contract_inputs(self, V, X, Z):
        VK, of_diagonal = V * self._evaluate(X, Z), diagonal_slope(self.kernel, X)
        relative = of_diagonal * self._f(X)[:, None] ** 2
        slope = contract_inputs(self.kernel, V * self._factors(X, Z), X, Z)
        return slope - 0.5 * VK.sum(axis=1)[:, None] * relative

    def _with_gradient(self, X):
        K, scaled = super()._with_gradient(X)
        relative = np.einsum("iip->ip", scaled)  # da_i / a_i
        return K, scaled - 0.5 * K[..., None] * (relative[:, None] + relative)

    def _f(self, X):
        a = np.asarray(self.kernel.diag(X), dtype=np.float64)
        if not (np.isfinite(a).all() and a.min(initial=0.0) >= 0):
            raise ValueError(
                f"Only kernels with finite k(x, x) >= 0 can be normalised, and {self.kernel} has values "
                f"between {a.min():.4g} and {a.max():.4g}. Use a positive semi-definite kernel."
            )
        # reciprocals of subnormal numbers overflow
        return np.divide(1.0, np.sqrt(a), out=np.zeros_like(a), where=a >= np.finfo(np.float64).tiny)
