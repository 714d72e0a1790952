"""Dask collections as blocks of rows. dask is imported only when a collection of its own is passed."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_array, check_X_y

from ..support.shapes import as_columns
from ..support.validation import check_weights
from .features import Chunk
from .learning import over_slabs

__all__ = ["as_blocks", "check_columns", "is_dask", "lazily", "sample", "total", "total_of_blocks"]

# Blocks that are sampled for landmarks, evenly spread, sums that are added in one task, lines of progress.
_SAMPLED_BLOCKS, _FAN_IN, _REPORTS = 8, 8, 10


def is_dask(X):
    """Return whether X is a dask collection, without importing dask."""
    return hasattr(X, "__dask_graph__")


def as_blocks(X, y, sample_weight=None):
    """Return delayed (X, y, weight) of every block of rows.

    Parameters
    ----------
    X : dask array or dataframe of shape (n, p)
        Arrays must know their chunk sizes.
    y, sample_weight : dask collection, array-like or None
        Arrays are cut as X is; dataframes and series must have the partitions of X.
    """
    if _is_frame(X) and all(part is None or _is_frame(part) for part in (y, sample_weight)):
        return _partitions(X, y, sample_weight)
    X, y, sample_weight = (
        part.to_dask_array(lengths=True) if _is_frame(part) else part for part in (X, y, sample_weight)
    )
    X = _checked_array(X, "X").rechunk({1: -1})
    parts = [X, *(_cut_like(X, part, name) for part, name in ((y, "y"), (sample_weight, "sample_weight")))]
    columns = [[None] * X.numblocks[0] if part is None else part.to_delayed().ravel() for part in parts]
    return list(zip(*columns, strict=True))


def check_columns(estimator, X, reset):
    """Note or compare the number and the names of the columns of a dask collection."""
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got a dask collection of shape {X.shape}.")
    like = X._meta if _is_frame(X) else np.empty((0, X.shape[1]))
    _check_feature_names(estimator, like, reset=reset)
    _check_n_features(estimator, like, reset=reset)


def sample(blocks, size, seed):
    """Return a `Chunk` of about `size` rows from a few blocks spread over all, more if these are small."""
    import dask

    task = dask.delayed(_some_rows, pure=False)
    order, whole = _spread(len(blocks)), None
    for k in range(0, len(blocks), _SAMPLED_BLOCKS):
        chosen = order[k : k + _SAMPLED_BLOCKS]
        each = -(-(size - (0 if whole is None else len(whole))) // len(chosen))
        for part in dask.compute(*(task(*blocks[i], i, each, seed + i) for i in chosen)):
            whole = part if whole is None else whole.joined(part)
        if len(whole) >= size:
            break
    return whole


def _spread(n):
    """Return 0 ... n - 1, first some that are spread evenly, then twice as many, and so on."""
    order, size = {}, _SAMPLED_BLOCKS
    while len(order) < n:
        order |= dict.fromkeys(np.linspace(0, n - 1, min(size, n)).round().astype(int).tolist())
        size *= 2
    return list(order)


def total(blocks, features, report=None):
    """Return the statistics of all blocks, added as a tree where the blocks are.

    With a `report`, as several trees one after the other, so that report(n_rows, rank) can be told between.
    """
    size = len(blocks) if report is None else max(1, -(-len(blocks) // _REPORTS))
    whole = None
    for i in range(0, len(blocks), size):
        part = _tree_sum(features.statistics, blocks, range(i, min(i + size, len(blocks))))
        whole = part if whole is None else whole + part
        if report is not None:
            report(whole.n_rows, features.rank)
    return whole


def total_of_blocks(blocks):
    """Return what sums a function of chunks over all blocks: one task for each, and a tree above them."""
    return partial(_total_of_blocks, blocks)


def _total_of_blocks(blocks, function):
    return _tree_sum(partial(over_slabs, function), blocks, range(len(blocks)))


def _tree_sum(function, blocks, which):
    """Return the sum of function(chunk) over some of the blocks."""
    import dask

    shared = dask.delayed(_Shared(function))  # one object in the graph, not one per block
    summed = dask.delayed(_of_block, pure=False)
    added = dask.delayed(_add, pure=False)
    sums = [summed(shared, *blocks[i], i) for i in which]
    while len(sums) > 1:
        sums = [added(sums[i : i + _FAN_IN]) for i in range(0, len(sums), _FAN_IN)]
    return dask.compute(sums[0])[0]


@dataclass(frozen=True)
class _Shared:
    """A function that dask takes for data."""

    function: object


def lazily(model, X, return_std, include_noise):
    """Return the predictions of a model as dask arrays with the row blocks of X."""
    X = X.to_dask_array() if _is_frame(X) else X
    X = X.rechunk({1: -1})
    m = len(model.intercept)
    shape = {"drop_axis": 1} if model.y_ndim == 1 else {"chunks": (X.chunks[0], (m,))}
    shape["meta"] = np.empty((0,) * model.y_ndim)
    mean = X.map_blocks(_block_mean, model=model, dtype=np.float64, **shape)
    if not return_std:
        return mean
    std = X.map_blocks(_block_std, model=model, include_noise=include_noise, dtype=np.float64, **shape)
    return mean, std


def _block_mean(X, model):
    return model.mean(check_array(X, dtype=np.float64, ensure_min_samples=0))


def _block_std(X, model, include_noise):
    return model.std(check_array(X, dtype=np.float64, ensure_min_samples=0), include_noise)


def _is_frame(X):
    return is_dask(X) and hasattr(X, "npartitions") and not hasattr(X, "chunks")


def _partitions(X, y, sample_weight):
    """Return the delayed partitions of frames that are cut alike."""
    for part, name in ((y, "y"), (sample_weight, "sample_weight")):
        if part is not None and part.npartitions != X.npartitions:
            raise ValueError(
                f"{name} has {part.npartitions} partitions but X has {X.npartitions}. Cut both alike, for "
                "example by taking them from the same dataframe."
            )
    columns = [
        [None] * X.npartitions if part is None else part.to_delayed() for part in (X, y, sample_weight)
    ]
    return list(zip(*columns, strict=True))


def _checked_array(array, name):
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise ValueError(
            f"{name} is a dask array with unknown chunk sizes. Call {name}.compute_chunk_sizes() first, or "
            "pass the dataframe it came from."
        )
    if name == "X" and array.ndim != 2:
        raise ValueError(f"X must have two dimensions, got a dask array of shape {array.shape}.")
    return array


def _cut_like(X, part, name):
    """Return `part` as a dask array with the row blocks of X, None for None."""
    if part is None:
        return None
    import dask.array as da

    if not is_dask(part):
        part = np.asarray(part)
        part = np.full(X.shape[0], part) if part.ndim == 0 else part
        part = da.from_array(part, chunks=part.shape)
    part = _checked_array(part, name)
    if part.shape[0] != X.shape[0]:
        raise ValueError(f"{name} has {part.shape[0]} rows but X has {X.shape[0]}. Pass one per row of X.")
    return part.rechunk({0: X.chunks[0], **dict.fromkeys(range(1, part.ndim), -1)})


def _chunk(X, y, weight, index):
    """Return the validated rows of a block, naming it in errors; empty blocks are allowed."""
    if not len(X):
        return None
    try:
        X, y = check_X_y(X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        if weight is not None and np.any(weight):
            weight = check_weights(weight, X)
    except ValueError as error:
        raise ValueError(f"Block {index} of the rows: {error}") from error
    weight = None if weight is None else np.asarray(weight, dtype=np.float64)
    return Chunk.present(X, as_columns(y), weight)


def _some_rows(X, y, weight, index, size, seed):
    chunk = _chunk(X, y, weight, index)
    if chunk is None:
        return _empty(X, y)
    return chunk[np.sort(np.random.default_rng(seed).permutation(len(chunk))[:size])]


def _empty(X, y):
    return Chunk(np.empty((0, X.shape[1])), np.empty((0, 1 if np.ndim(y) == 1 else y.shape[1])))


def _of_block(shared, X, y, weight, index):
    chunk = _chunk(X, y, weight, index)
    return shared.function(_empty(X, y) if chunk is None else chunk)


def _add(parts):
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    return whole
