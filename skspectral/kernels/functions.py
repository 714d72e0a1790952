"""Functions of a kernel's values that are kernels: exponentials and polynomials."""

from abc import abstractmethod

import numpy as np
from numpy.polynomial import polynomial
from sklearn.gaussian_process.kernels import Hyperparameter

from .algebra import contract, evaluate
from .composable import NestedKernel, finite
from .slopes import contract_inputs

__all__ = ["Exponential", "Polynomial"]


class _FunctionOfKernel(NestedKernel):
    """q(k(x, z)), with the chain rule d q(k) = q'(k) dk."""

    @abstractmethod
    def _q(self, k):
        """Return q of an array, as a new one."""

    @abstractmethod
    def _q_slope(self, k):
        """Return q' of an array."""

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
        return self._checked_q(self.kernel.diag(X))

    def _evaluate(self, X, Z=None):
        return self._checked_q(evaluate(self.kernel, X, Z))

    def _contract(self, G, X, Z=None):
        return contract(self.kernel, G * self._q_slope(evaluate(self.kernel, X, Z)), X, Z)

    def _contract_inputs(self, V, X, Z):
        return contract_inputs(self.kernel, V * self._q_slope(evaluate(self.kernel, X, Z)), X, Z)

    def _with_gradient(self, X):
        k, dk = self.kernel(X, eval_gradient=True)
        return self._checked_q(k), self._q_slope(k)[..., None] * dk

    def _checked_q(self, k):
        with np.errstate(over="ignore", invalid="ignore"):  # reported by name
            return finite(self._q(k), self)


class Exponential(_FunctionOfKernel):
    """The exponential of a kernel, exp(k(x, z)).

    Parameters
    ----------
    kernel : Kernel
        Kernel in the exponent. A ``ConstantKernel`` times it sets how steep the exponential is.

    Notes
    -----
    Its power series 1 + k + k^2 / 2 + ... is a sum of products of kernels, and so a kernel: (6.16) of Bishop
    (2006), *Pattern Recognition and Machine Learning*. ``Normalized(Exponential(k))`` is the Gaussian kernel
    in the feature space of k, exp(-|phi(x) - phi(z)|^2 / 2). Inner values above 709 lead beyond float64 and
    raise a `KernelOverflowError`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import ConstantKernel
    >>> from skspectral.kernels import Exponential
    >>> Exponential(ConstantKernel(2.0))([[0.0], [1.0]]).round(3)
    array([[7.389, 7.389],
           [7.389, 7.389]])
    """

    def _q(self, k):
        return np.exp(k)

    def _q_slope(self, k):
        return self._checked_q(k)


class Polynomial(_FunctionOfKernel):
    """A polynomial of a kernel, c_0 + c_1 k(x, z) + c_2 k(x, z)^2 + ...

    Parameters
    ----------
    kernel : Kernel
        Kernel whose powers are added.
    coefficients : sequence of float
        c_0, c_1, ..., none of them negative and at least one positive.
    coefficients_bounds : "fixed", pair of float or ndarray of shape (n_coefficients, 2), default="fixed"
        Bounds within which coefficients are learned, one pair for all or one for each. It is their logarithms
        that are learned, so that none of the coefficients may then be 0.

    Notes
    -----
    Sums and products of kernels are kernels, and so are polynomials with coefficients >= 0: (6.15) of Bishop
    (2006), *Pattern Recognition and Machine Learning*. The derivative by log c_d is c_d k^d. A factor of all
    coefficients cannot be told from the signal variance of a model, so leave one of the two fixed.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import DotProduct
    >>> from skspectral.kernels import Polynomial
    >>> kernel = Polynomial(DotProduct(sigma_0=0.0, sigma_0_bounds="fixed"), [1.0, 0.0, 2.0])
    >>> kernel
    Polynomial(DotProduct(sigma_0=0), coefficients=[1, 0, 2])
    >>> kernel([[3.0]])  # 1 + 2 * 9^2
    array([[163.]])
    """

    def __init__(self, kernel, coefficients, coefficients_bounds="fixed"):
        super().__init__(kernel)
        self.coefficients = coefficients
        self.coefficients_bounds = coefficients_bounds

    @property
    def hyperparameter_coefficients(self):
        """Specification of the coefficients, refusing to learn those that are 0."""
        c = self._checked_coefficients()
        found = Hyperparameter("coefficients", "numeric", self.coefficients_bounds, len(c))
        if not found.fixed and not c.all():
            raise ValueError(
                f"A coefficient of 0 cannot be learned, since its logarithm is not finite; got {c.tolist()}. "
                "Start from positive coefficients, or leave coefficients_bounds='fixed'."
            )
        return found

    def _q(self, k):
        return polynomial.polyval(k, self._checked_coefficients())

    def _q_slope(self, k):
        return polynomial.polyval(k, polynomial.polyder(self._checked_coefficients()))

    def _contract(self, G, X, Z=None):
        own = [np.sum(G * term) for term in self._learned_terms(X, Z)]
        return np.concatenate([own, super()._contract(G, X, Z)])

    def _with_gradient(self, X):
        K, inner = super()._with_gradient(X)
        own = [term[..., None] for term in self._learned_terms(X)]
        return K, np.concatenate([*own, inner], axis=2)

    def _learned_terms(self, X, Z=None):
        """Yield c_d k^d for every coefficient, nothing where they are fixed."""
        if not self.hyperparameter_coefficients.fixed:
            k = evaluate(self.kernel, X, Z)
            yield from (c * k**d for d, c in enumerate(self._checked_coefficients()))

    def _checked_coefficients(self):
        c = np.array(self.coefficients, dtype=np.float64, ndmin=1)  # learning makes a number of a single one
        if c.ndim != 1 or not np.isfinite(c).all() or c.min(initial=0.0) < 0 or not c.any():
            raise ValueError(
                f"coefficients={self.coefficients!r} do not make a kernel of a polynomial. Pass finite "
                "numbers c_0, c_1, ... of which none is negative and at least one is positive."
            )
        return c
