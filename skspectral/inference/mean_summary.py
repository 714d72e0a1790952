"""What the data say of the coefficients of mean functions."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc, stdtr

from ..linalg.quadratic import inverse_quadratic
from ..support.types import FloatArray

__all__ = ["MeanSummary", "WaldTest"]


class WaldTest(NamedTuple):
    """A test that some coefficients are all 0.

    Attributes
    ----------
    statistic : float
        beta'C^-1 beta / k of the k coefficients, C their covariance.
    degrees_of_freedom : tuple of two ints
        k, and rows less mean functions: the statistic is compared with F of so many.
    p_value : float
        Probability of a larger one where the coefficients are 0.
    """

    statistic: float
    degrees_of_freedom: tuple
    p_value: float


@dataclass(frozen=True)
class MeanSummary:
    """Coefficients of the mean functions of one output with their uncertainty; print it to read it.

    Attributes
    ----------
    names : tuple of str
        Names of the functions.
    coefficients : ndarray of shape (q,)
        beta, the generalised least-squares estimates.
    covariance : ndarray of shape (q, q)
        (F'C^-1 F)^-1, C = signal_var K + noise_var W^-1.
    degrees_of_freedom : int
        Rows less mean functions.

    Notes
    -----
    Tests compare with Student-t and F distributions of `degrees_of_freedom`. They take kernel parameters as
    known, and the variances too unless the model averages over them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral import SpectralGPRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = 2.0 * X[:, 0] + np.random.default_rng(0).normal(0, 0.3, 60)
    >>> gp = SpectralGPRegressor(RBF(1.0), optimizer=None, basis="linear").fit(X, y)
    >>> summary = gp.mean_summary()[0]
    >>> summary.names
    ('1', 'x0')
    >>> bool(abs(summary.coefficients[1] - 2.0) < 3 * summary.standard_errors[1])
    True
    >>> summary.wald().p_value < 1e-6
    True
    """

    names: tuple
    coefficients: np.ndarray
    covariance: np.ndarray
    degrees_of_freedom: int

    @property
    def standard_errors(self) -> FloatArray:
        """Square roots of the diagonal of the covariance, (q,)."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    @property
    def t_values(self) -> FloatArray:
        """Coefficients over standard errors, (q,); 0 / 0 is 0."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(self.coefficients == 0, 0.0, self.coefficients / self.standard_errors)

    @property
    def p_values(self) -> FloatArray:
        """Two-sided, of each coefficient alone, (q,)."""
        return 2.0 * stdtr(max(self.degrees_of_freedom, 1), -np.abs(self.t_values))

    def wald(self, names: tuple | None = None) -> WaldTest:
        """Test that the coefficients of some functions are all 0.

        Parameters
        ----------
        names : sequence of str, default=None
            Which functions; None are all but the constant.

        Returns
        -------
        WaldTest
        """
        chosen = [name for name in self.names if name != "1"] if names is None else list(names)
        unknown = [name for name in chosen if name not in self.names]
        if unknown or not chosen:
            raise ValueError(
                f"There is no mean function to test: {unknown or 'none chosen'}. Choose among {self.names}."
            )
        at = [self.names.index(name) for name in chosen]
        value, rank = inverse_quadratic(self.covariance[np.ix_(at, at)], self.coefficients[at])
        statistic, dof = value / max(rank, 1), (rank, self.degrees_of_freedom)
        return WaldTest(statistic, dof, float(fdtrc(max(rank, 1), max(dof[1], 1), statistic)))

    def __str__(self):
        width = max(map(len, ("function", *self.names)))
        lines = [f"{'function':{width}s} {'beta':>11s} {'std. error':>11s} {'t':>8s} {'p':>8s}"]
        columns = (self.names, self.coefficients, self.standard_errors, self.t_values, self.p_values)
        lines += [
            f"{name:{width}s} {b:11.4g} {se:11.4g} {t:8.2f} {p:8.2g}"
            for name, b, se, t, p in zip(*columns, strict=True)
        ]
        if any(name != "1" for name in self.names):
            test = self.wald()
            lines.append(
                f"Wald test that all but the constant are 0: F({test.degrees_of_freedom[0]}, "
                f"{test.degrees_of_freedom[1]}) = {test.statistic:.4g}, p = {test.p_value:.2g}"
            )
        return "\n".join(lines)
