"""Kernel functions at given centres, as columns of numbers on the rows."""

from dataclasses import dataclass

import numpy as np

from .factors import spanned_by_few
from .rows import Rows

__all__ = ["Dictionary"]

# Fewest functions, and most coordinates, of which it is known beforehand that they are few.
_MANY, _FEW = 300, 64


@dataclass(frozen=True)
class Dictionary:
    """The functions k(., x_j) of some rows x_j.

    Columns are weighted, outside the mean space, and of unit length: what functions have in common with the
    mean is the mean's, and the scale of a function is its prior variance's. The kernel need not be symmetric
    or positive: any function will do.

    Attributes
    ----------
    gram : gram object
        The kernel: `cross` and `rows` (see `gram`).
    X : array of n rows
        Inputs, or the kernel matrix where it is given.
    rows : Rows
        Weights and mean functions.
    centres : ndarray of shape (k,)
        Indices of the rows whose functions are meant.
    """

    gram: object
    X: np.ndarray
    rows: Rows
    centres: np.ndarray

    def __len__(self):
        return len(self.centres)

    def inputs(self, chosen):
        """Return the centres as `gram.cross` takes them."""
        return self.gram.rows(self.X, self.centres[chosen])

    def raw(self, chosen):
        """Return columns as the kernel makes them, (n, len(chosen))."""
        K = np.asarray(self.gram.cross(self.X, self.inputs(chosen)), np.float64)
        # a sum tells at once that all is well
        if not np.isfinite(K.sum()) and not np.isfinite(K).all():
            raise ValueError(
                "The kernel has values that are not finite. Scale the inputs, or use other parameters of the "
                "kernel (for instance a smaller degree or gamma)."
            )
        return K

    def in_few_coordinates(self):
        """Return all columns in an orthonormal basis (r, k), their lengths before, and the basis (n, r).

        None unless there are many, and of a kernel that is known to be positive, of which a few columns span
        all others: then the others are never made.
        """
        if len(self) < _MANY or not self.gram.is_positive:
            return None
        factor = spanned_by_few(self.gram, self.X, _FEW)
        return None if factor is None else self.rows.unit_coordinates(factor.Phi, self.centres)

    def columns(self, chosen):
        """Return columns (n, len(chosen)) of unit length, and their lengths before; 0 where none is left."""
        K = self.raw(chosen)
        return self.rows.unit_columns(K, overwrite=not np.may_share_memory(K, self.X))
