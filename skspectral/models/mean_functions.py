"""The unpenalised functions of the mean: a constant, polynomials, or any transformer or function of X."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.validation import check_is_fitted

__all__ = ["MeanFunctions", "check_enough_rows"]

# Step of the central difference of mean functions, relative to the size of an input.
_STEP = 1e-5
_DEGREES = {"linear": 1, "quadratic": 2}


@dataclass(frozen=True)
class MeanFunctions:
    """x -> f(x), the functions whose coefficients are not penalised.

    Attributes
    ----------
    has_constant : bool
        Whether the first function is 1.
    basis : transformer, callable or None
        Makes the other functions, (n, functions), of n inputs.
    names : tuple of str
        Names of all functions.
    """

    has_constant: bool
    basis: Any = None
    names: tuple = ()

    @classmethod
    def fit(cls, basis, fit_intercept, X, feature_names=None):
        """Return the functions of a model, and their values at its rows (n, functions) or None.

        Parameters
        ----------
        basis : None, "linear", "quadratic", transformer or callable
            What users pass. A transformer that is not fitted is cloned and fitted to X.
        fit_intercept : bool
            Whether there is a constant.
        X : array
            Inputs of the rows.
        feature_names : sequence of str, default=None
            Names of the columns of X.
        """
        if isinstance(basis, str):
            basis = PolynomialFeatures(_DEGREES[basis], include_bias=False)
        mean = cls(fit_intercept, _fitted(basis, X))
        F = mean(X)
        names = ("1",) if fit_intercept else ()
        if basis is not None:
            names += _names(mean.basis, feature_names, F.shape[1] - fit_intercept)
        return cls(fit_intercept, mean.basis, names), F

    def __call__(self, X):
        """Return the functions at inputs, (n, functions), or None where there are none."""
        parts = [np.ones((X.shape[0], 1))] if self.has_constant else []
        if self.basis is not None:
            parts.append(_values(self.basis, X))
        return np.concatenate(parts, axis=1) if parts else None

    def gradient(self, X):
        """Return the derivatives by the inputs, (n, p, functions), or None: by central differences.

        They are exact but for rounding where the functions are polynomials of degree 2.
        """
        if self.basis is None:
            return np.zeros((*X.shape, 1)) if self.has_constant else None
        slopes = []
        for d in range(X.shape[1]):
            step = np.zeros_like(X)
            step[:, d] = _STEP * np.maximum(np.abs(X[:, d]), np.abs(X[:, d]).max(initial=0.0) or 1.0)
            ahead, behind = X + step, X - step
            slopes.append((self(ahead) - self(behind)) / (ahead - behind)[:, [d]])
        return np.stack(slopes, axis=1)


def check_enough_rows(data):
    """Refuse more mean functions than rows of positive weight in which an output was observed."""
    seen = (data.observed & data.present[:, None]).sum(axis=0)
    n = int(seen[seen > 0].min(initial=len(data)))
    functions = 0 if data.basis is None else data.basis.shape[1]
    if functions > n:
        raise ValueError(
            f"The mean has {functions} functions, the constant included, and n_samples={n} of positive "
            "weight, which cannot determine them. Use fewer functions, or a kernel for them (DotProduct), "
            "which penalises their coefficients."
        )


def _fitted(basis, X):
    if basis is None or not hasattr(basis, "transform"):
        return basis
    try:
        check_is_fitted(basis)
        return basis
    except NotFittedError:
        return clone(basis).fit(X)


def _values(basis, X):
    """Return what a transformer or callable makes of X, checked."""
    F = basis.transform(X) if hasattr(basis, "transform") else basis(X)
    F = np.asarray(F.toarray() if hasattr(F, "toarray") else F, dtype=np.float64)
    F = F[:, None] if F.ndim == 1 else F
    if F.ndim != 2 or len(F) != X.shape[0]:
        raise ValueError(
            f"basis must make one row of numbers for each of {X.shape[0]} inputs, got shape {F.shape}. "
            f"Return an array of shape ({X.shape[0]}, n_functions)."
        )
    if not np.isfinite(F).all():
        raise ValueError("basis returned NaN or infinite values. Use functions that are finite at all rows.")
    return F


def _names(basis, feature_names, n_functions):
    """Return the names that a transformer gives, else f0, f1, ..."""
    try:
        names = tuple(map(str, basis.get_feature_names_out(feature_names)))
    except (AttributeError, ValueError):
        names = ()
    return names if len(names) == n_functions else tuple(f"f{j}" for j in range(n_functions))
