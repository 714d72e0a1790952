"""Predictions of ridges at many given penalties, without a fitted model for each of them."""

from dataclasses import dataclass

import numpy as np

from ..decomposition.data import Data
from ..decomposition.decompose import Decomposition, decompose_matrix
from ..inference.variances import VarianceBounds
from ..linalg.held_out import held_out_means
from ..linalg.tridiagonal import Tridiagonal
from .fitted import Fitted
from .mean_functions import MeanFunctions

__all__ = ["HeldOut", "means_at_penalties"]

# Penalties below so many times what rounding resolves are left to the spectrum, which knows what is rounding.
_ABOVE_RESOLUTION = 1e4
# Fewest rows that have a tridiagonal form of their own.
_FEWEST_ROWS = 3
# Largest condition of K + gI at which blocks of its inverse say all about the rows outside of a block.
_LARGEST_CONDITION = 1e7
# Floating point operations in units of n^3 as measured: a spectrum with its vectors, and a tridiagonal form.
_SPECTRUM_COST, _TRIDIAGONAL_COST = 5.5, 2.0


@dataclass(frozen=True)
class _Coefficients:
    """What a mean is made of."""

    range_dual: np.ndarray
    beta: np.ndarray


def means_at_penalties(gram, data, penalties, inputs):
    """Return means at new inputs for penalties (k, m), a list with (k, n_new, m) for each of the inputs.

    None where a penalty is too close to rounding, rows are absent, or there are too few of them.
    """
    if len(data) < _FEWEST_ROWS or not data.present.all():
        return None
    k, m = penalties.shape
    K, precision = gram.square(data.X), gram.precision(data.X)
    form = Tridiagonal.from_gram(K, data.basis, data.weight, precision=precision)
    if penalties.min() < _ABOVE_RESOLUTION * form.resolution:
        return None
    coefficients = _Coefficients(*form.ridge(data.Y, penalties))
    mean = MeanFunctions(data.basis is not None)
    model = Fitted(gram, data, VarianceBounds(), Decomposition(None), coefficients, 2, mean)
    return [model.mean(X).reshape(-1, k, m).swapaxes(0, 1) for X in inputs]


@dataclass(frozen=True)
class HeldOut:
    """Means of rows that a fit has not seen, for any block of rows, from one decomposition of all rows.

    Attributes
    ----------
    gram : gram object
        The kernel.
    data : Data
        All rows.
    penalties : ndarray of shape (k,)
        The same for all outputs.
    """

    gram: object
    data: Data
    penalties: np.ndarray

    def means(self, blocks):
        """Return means (k, b, m) of each block; None where the penalties are too small for it."""
        spectrum = decompose_matrix(self.gram, self.data).spectrum
        if spectrum.s.max(initial=0.0) > _LARGEST_CONDITION * self.penalties.min():
            return None
        rotated = spectrum.rotate(self.data.Y)
        return [held_out_means(rotated, self.penalties, block) for block in blocks]

    def is_cheaper(self, blocks):
        """Return whether one decomposition of all rows, and b^2 n + b^3 for each penalty and block of b rows,
        cost less than one tridiagonal form of the other rows for each block.
        """
        n, b = float(len(self.data)), np.array([float(len(block)) for block in blocks])
        all_rows = _SPECTRUM_COST * n**3 + len(self.penalties) * (b**2 * n + b**3).sum()
        return all_rows < _TRIDIAGONAL_COST * ((n - b) ** 3).sum()
