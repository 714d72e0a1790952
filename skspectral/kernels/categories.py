"""A kernel on columns of categories."""

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import GenericKernelMixin, Hyperparameter

from .algebra import in_order
from .composable import ComposableKernel

__all__ = ["Overlap"]

_KINDS = ("exponential", "fraction")
# Integers up to this size are exact as float64.
_LARGEST_EXACT = 2**53


class Overlap(GenericKernelMixin, ComposableKernel):
    """A kernel on categories by the columns in which two rows agree.

    Parameters
    ----------
    length_scale : float or list of float, default=1.0
        For "exponential": how little a disagreement matters, for all columns or for each of them. A
        disagreement multiplies the kernel by exp(-1 / length_scale).
    length_scale_bounds : pair of float, ndarray of shape (n_columns, 2) or "fixed", default=(1e-2, 1e3)
        Bounds within which it is learned. There is nothing to learn of "fraction".
    kind : {"exponential", "fraction"}, default="exponential"
        "exponential" is exp(-sum over columns c of [x_c != z_c] / length_scale_c): only rows that agree in
        all columns are the same. "fraction" is the share of columns that agree, an additive model with
        equal shares.

    See Also
    --------
    Columns : Chooses columns of categories in a table that has others, too.

    Notes
    -----
    [x_c = z_c] is the inner product of indicators of categories, and so a kernel. "fraction" is a mean of
    such kernels and "exponential" the product of e + (1 - e) [x_c = z_c] with e = exp(-1 / length_scale_c):
    sums and products of kernels (Bishop 2006, *Pattern Recognition and Machine Learning*, (6.21) and
    (6.22)). The derivative of "exponential" by log length_scale_c is K [x_c != z_c] / length_scale_c.

    Categories are equal where Python says so: numbers, texts or any hashable thing. Their order has no
    meaning, so rows do not get closer by nearby codes. A missing category (NaN) is refused; give it a value
    of its own.

    Examples
    --------
    >>> from skspectral.kernels import Overlap
    >>> X = [["red", "round"], ["red", "square"], ["blue", "square"]]
    >>> Overlap(kind="fraction")(X)
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    >>> Overlap([0.5, 2.0])(X).round(3)
    array([[1.   , 0.607, 0.082],
           [0.607, 1.   , 0.135],
           [0.082, 0.135, 1.   ]])
    """

    def __init__(self, length_scale=1.0, length_scale_bounds=(1e-2, 1e3), kind="exponential"):
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds
        self.kind = kind

    @property
    def anisotropic(self):
        """Whether every column has a length scale of its own."""
        return np.ndim(self.length_scale) == 1 and len(self.length_scale) > 1

    @property
    def hyperparameter_length_scale(self):
        """Specification of the length scales, which "fraction" has no use for."""
        bounds = self.length_scale_bounds if self._decays else "fixed"
        return Hyperparameter("length_scale", "numeric", bounds, np.size(self.length_scale))

    def is_stationary(self):
        """Return False: categories have no differences to depend on."""
        return False

    def diag(self, X):
        """Return the diagonal of K(X, X): ones.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Categories.

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.ones(len(X))

    def _evaluate(self, X, Z=None):
        return self._of_distances(self._distances(*_codes(X, Z)))

    def _contract(self, G, X, Z=None):
        A, B = _codes(X, Z)
        D = self._distances(A, B)
        W = G * self._of_distances(D)
        return in_order(self, {"length_scale": [np.sum(W * D_c) for D_c in self._shares(D, A, B)]})

    def _with_gradient(self, X):
        A, B = _codes(X, None)
        D = self._distances(A, B)
        K = self._of_distances(D)
        slopes = [K * D_c for D_c in self._shares(D, A, B)]
        return K, np.stack(slopes, axis=2)[..., : self.n_dims]  # none is free, or all are

    def _of_distances(self, D):
        return np.exp(-D) if self._decays else 1.0 - D

    def _distances(self, A, B):
        """Return D with K = exp(-D), or the share of columns that disagree."""
        if not self._decays:
            return cdist(A, B, "hamming")
        weight = 1.0 / self._length_scales(A.shape[1])
        return weight.sum() * cdist(A, B, "hamming", w=weight)  # which divides by the sum of the weights

    def _shares(self, D, A, B):
        """Return the parts of D that belong to each length scale: -dD/dlog length_scale."""
        if not self.anisotropic:
            return [D]
        lengths = self._length_scales(A.shape[1])
        return (np.not_equal.outer(a, b) / length for a, b, length in zip(A.T, B.T, lengths, strict=True))

    def _length_scales(self, n_columns):
        """Return a length scale for every column."""
        lengths = np.array(self.length_scale, dtype=np.float64, ndmin=1)
        usable = (lengths >= np.finfo(np.float64).tiny) & (lengths < np.inf)  # with finite reciprocals
        if lengths.ndim != 1 or len(lengths) not in (1, n_columns) or not usable.all():
            raise ValueError(
                f"length_scale={self.length_scale!r} does not suit {n_columns} columns. Pass one positive "
                "finite number, or one for each column."
            )
        return np.broadcast_to(lengths, (n_columns,))

    @property
    def _idle_parameters(self):
        return () if self.kind == "exponential" else ("length_scale",)

    @property
    def _decays(self):
        if self.kind not in _KINDS:
            raise ValueError(f"kind={self.kind!r} is unknown. Pass one of {', '.join(map(repr, _KINDS))}.")
        return self.kind == "exponential"


def _codes(X, Z):
    """Return two tables of numbers that are equal where categories are; Z is X for None."""
    A, B = _table(X), None if Z is None else _table(Z)
    if B is not None and A.shape[1] != B.shape[1]:
        raise ValueError(
            f"X has {A.shape[1]} columns, what it is compared with has {B.shape[1]}. Pass the same columns."
        )
    if _is_exact(A) and (B is None or _is_exact(B)):
        A, B = (None if T is None else T.astype(np.float64) for T in (A, B))
    else:
        known = [{} for _ in range(A.shape[1])]
        A, B = (None if T is None else _numbered(T, known) for T in (A, B))
    return A, A if B is None else B


def _table(X):
    """Return rows of categories as a two-dimensional array."""
    # of lists as objects: numbers beside texts would become texts
    table = np.asarray(X) if hasattr(X, "__array__") else np.array(list(X), dtype=object)
    if table.ndim != 2 or not table.shape[1]:
        raise ValueError(
            f"Overlap compares rows of categories, got X of shape {table.shape}. Pass a table with at least "
            "one column, such as X[:, None] for a single one."
        )
    if table.dtype.kind == "f" and np.isnan(table).any():
        _refuse_missing()
    return table


def _is_exact(table):
    """Return whether categories are numbers that float64 tells apart."""
    if table.dtype.kind in "iu":
        return table.min(initial=0) >= -_LARGEST_EXACT and table.max(initial=0) <= _LARGEST_EXACT
    return table.dtype.kind in "bf"


def _numbered(table, known):
    """Return the categories of every column numbered as they come; `known` has the numbers so far."""
    codes = np.empty(table.shape)
    for c, numbers in enumerate(known):
        try:
            codes[:, c] = [numbers.setdefault(category, len(numbers)) for category in table[:, c]]
        except TypeError as error:
            raise ValueError(
                f"Column {c} has entries that are no categories: {error}. Use hashable ones."
            ) from error
        if any(isinstance(category, float) and np.isnan(category) for category in numbers):
            _refuse_missing()
    return codes


def _refuse_missing():
    raise ValueError(
        "X has NaN among its categories. Give what is missing a category of its own, such as 'missing'."
    )
