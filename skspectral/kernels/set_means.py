"""A kernel on sets of vectors: the mean of another one over pairs of elements."""

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import GenericKernelMixin

from .algebra import contract, evaluate
from .composable import NestedKernel

__all__ = ["SetMean"]

# Entries of the kernel between elements of sets that are held at a time.
_LARGEST_BLOCK = 2**23


class SetMean(GenericKernelMixin, NestedKernel):
    """A kernel on sets of vectors: the mean of a kernel over all pairs of elements.

    k(A, B) = 1 / (|A| |B|) * sum over a in A, b in B of kernel(a, b)

    Parameters
    ----------
    kernel : Kernel
        Kernel on the vectors.

    See Also
    --------
    SetKernel : Sets whose elements are equal or not.
    object_rows : Makes lists of sets of different sizes that estimators accept.

    Notes
    -----
    It is the inner product of the mean features of A and B, and so a kernel (Bishop 2006, *Pattern
    Recognition and Machine Learning*, (6.19)): inputs are compared by the distributions of which their
    elements are samples.

    X is a sequence of non-empty sets or lists of vectors of the same length; plain numbers are vectors of
    length 1. In lists repeated vectors count as often as they stand there. Vectors are numbers where the
    inner kernel requires them and may hold anything else (`Overlap`) where it does not. A ``WhiteKernel``
    inside is noise of each element's own. Time grows with the product of the total numbers of elements;
    K(X, Z) and contractions are made in blocks, whereas ``eval_gradient=True`` holds the gradients of all
    pairs of elements.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral.kernels import SetMean
    >>> SetMean(RBF())([[[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0]]]).round(3)
    array([[0.803, 0.803],
           [0.803, 1.   ]])
    """

    def is_stationary(self):
        """Return False: sets have no differences to depend on."""
        return False

    def diag(self, X):
        """Return the diagonal of K(X, X).

        Parameters
        ----------
        X : sequence of sets of vectors
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.array([evaluate(self.kernel, elements).mean() for elements in self._bags(X).each()])

    def _evaluate(self, X, Z=None):
        A, B = self._both(X, Z)
        return np.concatenate([self._means(A, B, block, Z is None) for block in A.blocks(len(B.elements))])

    def _contract(self, G, X, Z=None):
        A, B = self._both(X, Z)
        weights, slope = G / np.outer(A.sizes, B.sizes), np.zeros(self.n_dims)
        for block in A.blocks(len(B.elements)):
            W = weights[block].repeat(A.sizes[block], axis=0).repeat(B.sizes, axis=1)
            slope += self._contract_elements(
                W, A.elements[A.of(block)], B, A.of(block) if Z is None else None
            )
        return slope

    def _with_gradient(self, X):
        A = self._bags(X)
        means = [_sums(_sums(k, A.ends, 0), A.ends, 1) for k in self.kernel(A.elements, eval_gradient=True)]
        pairs = np.outer(A.sizes, A.sizes)
        return means[0] / pairs, means[1] / pairs[..., None]

    def _means(self, A, B, block, square):
        """Return K between a block of the sets A and all sets B, which are the same where K is `square`."""
        rows = A.of(block)
        k = evaluate(self.kernel, A.elements[rows], B.elements)
        if square:  # with the noise of elements that K(X, Z) does not have
            k[:, rows] = evaluate(self.kernel, A.elements[rows])
        sums = _sums(_sums(k, A.ends[block.start : block.stop + 1] - rows.start, 0), B.ends, 1)
        return sums / np.outer(A.sizes[block], B.sizes)

    def _contract_elements(self, W, elements, B, own):
        """Return the contraction of the kernel between elements and those of B; `own` are they within B."""
        if own is None:
            return contract(self.kernel, W, elements, B.elements)
        among = W[:, own].copy()
        W[:, own] = 0.0
        return contract(self.kernel, among, elements) + contract(self.kernel, W, elements, B.elements)

    def _both(self, X, Z):
        A = self._bags(X)
        B = A if Z is None else self._bags(Z)
        if A.elements.shape[1] != B.elements.shape[1]:
            raise ValueError(
                f"The sets of X hold vectors of length {A.elements.shape[1]}, those they are compared with "
                f"of length {B.elements.shape[1]}. Pass vectors of the same length."
            )
        return A, B

    def _bags(self, X):
        return _Bags.read(X, np.float64 if self.kernel.requires_vector_input else object)


@dataclass(frozen=True)
class _Bags:
    """Sets of vectors one after the other: set i has the rows ends[i] to ends[i + 1] of `elements`."""

    elements: np.ndarray
    ends: np.ndarray

    @classmethod
    def read(cls, X, dtype):
        """Return the sets, refusing empty ones and vectors of different lengths."""
        tables = [_vectors(row, thing, dtype) for row, thing in enumerate(X)]
        lengths = sorted({table.shape[1] for table in tables})
        if len(lengths) > 1:
            raise ValueError(f"Vectors in the sets have lengths {lengths}. Pass vectors of the same length.")
        return cls(np.concatenate(tables), np.cumsum([0, *map(len, tables)]))

    @property
    def sizes(self):
        """Numbers of elements."""
        return np.diff(self.ends)

    def of(self, block):
        """Return the rows of `elements` that belong to a block of sets."""
        return slice(int(self.ends[block.start]), int(self.ends[block.stop]))

    def each(self):
        """Yield the elements of one set after the other."""
        return np.split(self.elements, self.ends[1:-1])

    def blocks(self, width):
        """Yield slices of sets whose elements times `width` make no more than the largest block."""
        room, first, n = _LARGEST_BLOCK // width, 0, len(self.sizes)
        while first < n:
            fitting = np.searchsorted(self.ends, self.ends[first] + room, side="right") - 1
            last = max(first + 1, int(fitting))
            yield slice(first, last)
            first = last


def _vectors(row, thing, dtype):
    """Return one set of vectors as a table of one row for each."""
    try:
        table = np.array(list(thing), dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Row {row} is no set of vectors ({error}). Pass a list or set of vectors of the same length, as "
            "tuples of numbers."
        ) from error
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or not table.size:
        raise ValueError(
            f"Row {row} has shape {table.shape}, expected a non-empty set of vectors, (n_vectors, length). "
            "Leave out empty sets: they have no mean."
        )
    if dtype is not object and not np.isfinite(table).all():
        raise ValueError(f"Row {row} has NaN or infinite entries. Pass vectors of finite numbers.")
    return table


def _sums(k, ends, axis):
    """Return the sums of entries that belong to the same set."""
    return np.add.reduceat(k, ends[:-1], axis=axis)
