"""Models that differ only in what comes after the decomposition of their kernel matrix."""

import copy
from typing import Any, ClassVar

__all__ = ["HasSiblings"]


class HasSiblings:
    """Fitted copies with other settings that share the decomposition of a model.

    Estimators name the parameters that come after the decomposition in `_after_decomposition`, and have
    ``_fit_data(data, y_ndim, mean, decomposition=None)``.
    """

    _after_decomposition: ClassVar[frozenset[str]] = frozenset()

    def _decomposition_needs(self, n: int) -> Any:
        """Return what the decomposition of n rows depends on among these parameters, None if on all."""
        raise NotImplementedError

    def _sibling(self, settings):
        """Return a fitted copy of this fitted model with other values of parameters after the decomposition.

        The settings must agree in `_decomposition_needs`.
        """
        other = copy.copy(self).set_params(**settings)
        other._validate_params()
        fitted = self._fitted
        return other._fit_data(fitted.data, fitted.y_ndim, fitted.mean_functions, fitted.decomposition)
