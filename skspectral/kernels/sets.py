"""A kernel on sets of hashable things."""

from itertools import chain

import numpy as np
from scipy.sparse import csr_array
from sklearn.gaussian_process.kernels import GenericKernelMixin, Hyperparameter

from .algebra import in_order
from .composable import ComposableKernel, finite

__all__ = ["SetKernel", "object_rows"]

_KINDS = ("subsets", "intersection")


class SetKernel(GenericKernelMixin, ComposableKernel):
    """A kernel on sets of hashable things by what they have in common.

    Parameters
    ----------
    kind : {"subsets", "intersection"}, default="subsets"
        "subsets" is base^|A n B|. For base 2 it counts the subsets that A and B have in common, and so sees
        pairs and triples of elements, too. "intersection" is |A n B|, which sees single elements only.
    base : float, default=2.0
        At least 1, for "subsets": common subsets S are counted with the weight (base - 1)^|S|, so that a
        small base makes much of single elements and a large one of their combinations.
    base_bounds : pair of float or "fixed", default=(1.0001, 10.0)
        Bounds within which the base is learned, both at least 1. There is nothing to learn of "intersection".

    See Also
    --------
    SetMean : Sets of vectors, whose elements are rather near than equal.
    Normalized : Makes the variances of small and large sets equal.
    object_rows : Makes lists of things that estimators accept.

    Notes
    -----
    2^|A n B| is (6.27) of Bishop (2006), *Pattern Recognition and Machine Learning*. For any base b >= 1

        b^|A n B| = sum over S in A n B of (b - 1)^|S|,

    the inner product of indicators of all subsets, which are weighted by (b - 1)^(|S|/2); for b < 1 it is not
    positive semi-definite. The derivative by log b is |A n B| b^|A n B|. ``Normalized(SetKernel())`` is
    b^(-d/2) with d the number of elements that are in one of the sets only.

    X is a sequence of sets, or of lists, tuples and arrays, whose repeated elements count once. Intersections
    come from a sparse product of memberships, in a time that grows with the numbers of common elements.

    Examples
    --------
    >>> from skspectral.kernels import SetKernel
    >>> baskets = [{"bread", "milk"}, {"milk", "eggs", "bread"}, {"tea"}]
    >>> SetKernel()(baskets)
    array([[4., 4., 1.],
           [4., 8., 1.],
           [1., 1., 2.]])
    >>> SetKernel("intersection")(baskets, [["milk", "milk", "tea"]])
    array([[1.],
           [1.],
           [1.]])
    """

    def __init__(self, kind="subsets", base=2.0, base_bounds=(1.0001, 10.0)):
        self.kind = kind
        self.base = base
        self.base_bounds = base_bounds

    @property
    def hyperparameter_base(self):
        """Specification of the base, which "intersection" has no use for."""
        return Hyperparameter("base", "numeric", self.base_bounds if self._is_power else "fixed")

    def is_stationary(self):
        """Return False: sets have no differences to depend on."""
        return False

    def diag(self, X):
        """Return the diagonal of K(X, X).

        Parameters
        ----------
        X : sequence of sets
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._of_sizes(np.array([len(A) for A in _as_sets(X)], dtype=np.float64))

    def _evaluate(self, X, Z=None):
        return self._of_sizes(_common(X, Z))

    def _contract(self, G, X, Z=None):
        sizes = _common(X, Z)
        return in_order(self, {"base": np.sum(G * sizes * self._of_sizes(sizes))})

    def _with_gradient(self, X):
        sizes = _common(X)
        K = self._of_sizes(sizes)
        return K, (sizes * K)[..., None][..., : self.n_dims]

    def _of_sizes(self, sizes):
        """Return the kernel of sets that have so many elements in common."""
        if not self._is_power:
            return sizes
        if not 1.0 <= self.base < np.inf:
            raise ValueError(
                f"base={self.base!r} does not make a kernel: base^|A n B| is positive semi-definite for a "
                "finite base of at least 1. Pass such a base, and bounds of at least 1."
            )
        with np.errstate(over="ignore"):  # reported by name
            return finite(np.power(float(self.base), sizes), self)

    @property
    def _idle_parameters(self):
        return () if self.kind == "subsets" else ("base",)

    @property
    def _is_power(self):
        if self.kind not in _KINDS:
            raise ValueError(f"kind={self.kind!r} is unknown. Pass one of {', '.join(map(repr, _KINDS))}.")
        return self.kind == "subsets"


def _common(X, Z=None):
    """Return |A n B| for all pairs of sets, from their indicators of elements."""
    right = _as_sets(X if Z is None else Z)
    column = {element: j for j, element in enumerate(dict.fromkeys(chain.from_iterable(right)))}
    B = _membership(right, column)
    A = B if Z is None else _membership(_as_sets(X), column)
    return (A @ B.T).toarray()


def _membership(sets, column):
    """Return the sparse matrix of 0 and 1 that says which elements are in which set, as far as known."""
    known = [[column[element] for element in A if element in column] for A in sets]
    ends = np.cumsum([0, *map(len, known)])
    indices = np.fromiter(chain.from_iterable(known), dtype=np.int64, count=ends[-1])
    return csr_array((np.ones(ends[-1]), indices, ends), shape=(len(sets), len(column)))


def _as_sets(X):
    return [_as_set(row, thing) for row, thing in enumerate(X)]


def _as_set(row, thing):
    if isinstance(thing, set | frozenset):
        return thing
    try:
        if not isinstance(thing, str | bytes):
            return set(thing)
        problem = "which is a text"
    except TypeError as error:
        problem = f"but {error}"
    raise ValueError(
        f"Row {row} is {thing!r}, {problem}. Pass a set or list of hashable things: tuples in place of lists "
        "and arrays, and the parts of a text, such as set(text.split())."
    )


def object_rows(things):
    """Return things as a one-dimensional array of objects, which estimators take as X whatever they are.

    An estimator makes an array of a list. That goes well for sets, but lists of lists become tables or fail
    where their lengths differ, and arrays inside arrays are refused.

    Parameters
    ----------
    things : sequence
        Sets, or lists or arrays of different lengths. Arrays become lists.

    Returns
    -------
    ndarray of shape (n,), of objects

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral.kernels import object_rows
    >>> object_rows([np.zeros((2, 1)), [[5.0]]])
    array([list([[0.0], [0.0]]), list([[5.0]])], dtype=object)
    """
    rows = np.empty(len(things), dtype=object)
    for i, thing in enumerate(things):
        rows[i] = _without_arrays(thing)
    return rows


def _without_arrays(thing):
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    return [_without_arrays(part) for part in thing] if isinstance(thing, list) else thing
