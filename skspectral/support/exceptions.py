"""Errors and warnings that a caller may want to catch by name, and how they point to the caller."""

import inspect
import warnings

from sklearn.exceptions import ConvergenceWarning

__all__ = [
    "DegenerateCriterionWarning",
    "IndefiniteKernelError",
    "IndefiniteKernelWarning",
    "KernelBoundWarning",
    "LowRankWarning",
    "NoiseResolutionWarning",
    "NonFiniteKernelError",
    "RankDeficientBasisWarning",
    "UndeterminedVarianceWarning",
    "warn_user",
]


class IndefiniteKernelError(ValueError):
    """The kernel matrix has a negative eigenvalue that rounding does not explain.

    Attributes
    ----------
    smallest_eigenvalue : float
        The offending eigenvalue.
    """

    def __init__(self, smallest_eigenvalue: float, tolerance: float) -> None:
        self.smallest_eigenvalue = float(smallest_eigenvalue)
        self.tolerance = float(tolerance)
        super().__init__(
            f"The kernel matrix is not positive semi-definite: its smallest eigenvalue is "
            f"{self.smallest_eigenvalue:.6g}, below the rounding tolerance {-self.tolerance:.3g}. "
            "Use a positive semi-definite kernel (for example 'rbf' or 'linear'), change the kernel's "
            "parameters, or, where these are not learned, replace negative eigenvalues by "
            "indefinite='flip' or 'clip'."
        )

    def __reduce__(self):
        return type(self), (self.smallest_eigenvalue, self.tolerance)


class NonFiniteKernelError(IndefiniteKernelError):
    """The kernel matrix has entries that are no finite numbers, and cannot be decomposed.

    Attributes
    ----------
    smallest_eigenvalue : float
        NaN: there is none.
    """

    def __init__(self) -> None:
        self.smallest_eigenvalue, self.tolerance = float("nan"), 0.0
        ValueError.__init__(
            self,
            "The kernel matrix has NaN or infinite entries. Rescale the inputs (or weights) or change the "
            "kernel's parameters so that every k(x_i, x_j) is finite.",
        )

    def __reduce__(self):
        return type(self), ()


class IndefiniteKernelWarning(UserWarning):
    """Negative eigenvalues of the kernel matrix were replaced."""


class DegenerateCriterionWarning(UserWarning):
    """The tuning criterion has no minimum and was stopped at the smallest resolvable noise."""


class NoiseResolutionWarning(UserWarning):
    """What the kernel leaves unexplained is too little to be told from the rounding of its matrix."""


class RankDeficientBasisWarning(UserWarning):
    """Some mean functions cannot be told apart on the given rows; the shortest solution is used."""


class UndeterminedVarianceWarning(UserWarning):
    """The data do not determine a variance, so that a spread is infinite."""


class KernelBoundWarning(ConvergenceWarning):
    """Learned kernel parameters or variances ended at a bound of their range."""


class LowRankWarning(UserWarning):
    """The kernel matrix was replaced by a low-rank one that is not certified to the usual accuracy."""


# Packages between a user and a warning: ours, and those that call fit on behalf of users.
_NOT_THE_USER = ("skspectral", "sklearn", "joblib")


def warn_user(message, category):
    """Warn at the line of the user's code that led here, however deep we are (not through a thread pool)."""
    frame, depth = inspect.currentframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USER:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(message, category, stacklevel=depth)
