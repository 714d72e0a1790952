"""A kernel on some of the columns of a table."""

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from .algebra import contract, evaluate
from .composable import NestedKernel
from .slopes import contract_inputs

__all__ = ["Columns", "resolve_columns"]


class Columns(NestedKernel):
    """A kernel that looks at some of the columns only: k(x, z) = kernel(x[columns], z[columns]).

    Sums of such kernels are additive models, products are interactions; different columns may have different
    kernels.

    Parameters
    ----------
    kernel : Kernel
        Kernel on the chosen columns.
    columns : int, str, slice, list of int, list of str or boolean mask
        Which columns: positions (negative ones count from the end), names, or one flag for every column.
        A single int or str is a single column. Repeated columns are taken as often as they are named.
    mixed : bool, default=False
        Whether the table may hold other things than numbers, such as names of categories, in columns that
        other kernels look at. See Notes.

    See Also
    --------
    resolve_columns : Turns names into positions, everywhere in a kernel.
    Overlap : A kernel on columns of categories.

    Notes
    -----
    These are the last two ways to construct kernels in Bishop (2006), *Pattern Recognition and Machine
    Learning*, (6.21) and (6.22): k_a(x_a, z_a) + k_b(x_b, z_b) and k_a(x_a, z_a) k_b(x_b, z_b).

    **Names.** Estimators pass arrays to kernels, and arrays have no names. Positions therefore work
    everywhere; names work where the kernel is called on a data frame. For an estimator, turn names into
    positions: ``kernel.resolved(X.columns)``, or ``resolve_columns(kernel, X.columns)`` for sums and
    products.

    **Mixed tables.** An estimator converts X to numbers where the kernel requires vectors, and a sum of
    kernels requires them if any part does. With ``mixed=True`` this part no longer does: the estimator
    passes on the table as it is and the chosen columns are converted here. The price is that estimators do
    not compare the number of columns of new rows with that in fit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral.kernels import Columns
    >>> X = np.array([[0.0, 5.0], [1.0, 5.0]])
    >>> Columns(RBF(), 1)(X)
    array([[1., 1.],
           [1., 1.]])
    >>> Columns(RBF(), 0) + Columns(RBF(2.0), [1])
    Columns(RBF(length_scale=1), columns=0) + Columns(RBF(length_scale=2), columns=[1])
    """

    def __init__(self, kernel, columns, mixed=False):
        super().__init__(kernel)
        self.columns = columns
        self.mixed = mixed

    @property
    def requires_vector_input(self):
        """Whether X must be numbers: where the inner kernel needs them, unless the table is mixed."""
        return self.kernel.requires_vector_input and not self.mixed

    def resolved(self, feature_names):
        """Return a copy with positions in place of names, see `resolve_columns`.

        Parameters
        ----------
        feature_names : sequence of str
            Names of all columns, in their order.

        Returns
        -------
        Columns
        """
        return resolve_columns(self, feature_names)

    def diag(self, X):
        """Return the diagonal of K(X, X).

        Parameters
        ----------
        X : array-like or data frame of shape (n, n_columns)
            Inputs.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.kernel.diag(self._chosen(X))

    def _evaluate(self, X, Z=None):
        return evaluate(self.kernel, *self._both(X, Z))

    def _contract(self, G, X, Z=None):
        return contract(self.kernel, G, *self._both(X, Z))

    def _contract_inputs(self, V, X, Z):
        slope = np.zeros(X.shape)
        inner = contract_inputs(self.kernel, V, *self._both(X, Z))
        np.add.at(slope, (slice(None), positions(self.columns, X.shape[1])), inner)  # maybe repeated ones
        return slope

    def _with_gradient(self, X):
        return self.kernel(self._chosen(X), eval_gradient=True)

    def _both(self, X, Z):
        return self._chosen(X), None if Z is None else self._chosen(Z)

    def _chosen(self, X):
        """Return the chosen columns, as numbers where the inner kernel needs them."""
        names, table = getattr(X, "columns", None), np.asarray(X)
        if table.ndim != 2:
            raise ValueError(
                f"{self} chooses columns of a table, got X of shape {table.shape}. Pass rows of equal "
                "length, such as X[:, None] for a single column."
            )
        chosen = table[:, positions(self.columns, table.shape[1], names)]
        return self._as_numbers(chosen) if self.kernel.requires_vector_input else chosen

    def _as_numbers(self, chosen):
        try:
            numbers = np.asarray(chosen, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Columns {self.columns!r} have entries that are not numbers ({error}), and {self.kernel} "
                "needs numbers. Choose other columns, or a kernel on categories such as Overlap()."
            ) from error
        if not np.isfinite(numbers).all():
            raise ValueError(f"Columns {self.columns!r} have NaN or infinite entries. Pass finite numbers.")
        return numbers


def resolve_columns(kernel, feature_names):
    """Return a copy of a kernel in which every `Columns` has positions in place of names.

    Parameters
    ----------
    kernel : Kernel
        Any kernel; `Columns` are found inside sums, products and all kernels that are made of others.
        Inside a `Columns`, names and positions are those of its chosen columns.
    feature_names : sequence of str
        Names of all columns, in their order, such as ``X.columns`` or an estimator's ``feature_names_in_``.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral.kernels import Columns, resolve_columns
    >>> kernel = Columns(RBF(), ["depth"]) + Columns(RBF(), ["east", "north"])
    >>> resolve_columns(kernel, ["east", "north", "depth"])
    Columns(RBF(length_scale=1), columns=[2]) + Columns(RBF(length_scale=1), columns=[0, 1])
    """
    kernel = clone(kernel)
    _resolve(kernel, list(feature_names))
    return kernel


def _resolve(kernel, names):
    """Replace names in a kernel itself and in the kernels it is made of."""
    if isinstance(kernel, Columns):
        kernel.columns = positions(kernel.columns, len(names), names)
        names = [names[i] for i in kernel.columns]
    for part in kernel.get_params(deep=False).values():
        if isinstance(part, Kernel):
            _resolve(part, names)


def positions(columns, n_columns, names=None):
    """Return columns given in any of the ways of `Columns` as a list of positions.

    Parameters
    ----------
    columns : int, str, slice, list of int, list of str or boolean mask
        Which columns.
    n_columns : int
        How many there are.
    names : sequence of str, default=None
        Their names, where they have any.
    """
    if isinstance(columns, slice):
        found = _of_slice(columns, n_columns)
    elif _is_mask(columns):
        found = _of_mask(columns, n_columns)
    else:
        found = [_position(c, n_columns, names) for c in _as_list(columns)]
    if not found:
        raise ValueError(f"columns={columns!r} chooses none of the {n_columns} columns. Choose at least one.")
    return found


def _as_list(columns):
    return list(columns) if np.ndim(columns) == 1 else [columns]


def _is_mask(columns):
    return np.ndim(columns) == 1 and len(columns) > 0 and all(isinstance(c, bool | np.bool_) for c in columns)


def _of_mask(mask, n_columns):
    if len(mask) != n_columns:
        raise ValueError(
            f"The boolean mask has {len(mask)} entries but X has {n_columns} columns. Pass one for each."
        )
    return np.flatnonzero(mask).tolist()


def _of_slice(columns, n_columns):
    if any(isinstance(end, str) for end in (columns.start, columns.stop)):
        raise ValueError(f"columns={columns!r} is a slice between names. Pass a list of names, or positions.")
    return list(range(n_columns))[columns]


def _position(column, n_columns, names):
    """Return the position of one column, given by name or position."""
    if isinstance(column, str):
        return _of_name(column, names)
    if not isinstance(column, int | np.integer) or isinstance(column, bool | np.bool_):
        raise ValueError(
            f"{column!r} is not a column. Pass positions (int) or names (str), a list of them, a slice or a "
            "boolean mask."
        )
    if not -n_columns <= column < n_columns:
        raise ValueError(f"Column {column} does not exist: X has {n_columns} columns, counted from 0.")
    return int(column) % n_columns


def _of_name(name, names):
    if names is None:
        raise ValueError(
            f"Column {name!r} is a name, but X is an array and has none (estimators pass arrays to kernels). "
            "Use positions, or resolve_columns(kernel, names) with the names of all columns."
        )
    found = [i for i, other in enumerate(names) if other == name]
    if len(found) != 1:
        many = "does not exist" if not found else f"exists {len(found)} times"
        raise ValueError(f"Column {name!r} {many} among {list(names)}.")
    return found[0]
