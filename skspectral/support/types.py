"""Names for types in public signatures.

Where scikit-learn's conventions let a result depend on a flag, it is annotated as ``FloatArray | Any``: what
it is by default, and anything else. Neither ``predict(X).shape`` nor ``mean, std = predict(X, True)`` then
needs a cast.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import sparray, spmatrix

__all__ = [
    "AnyFunction",
    "Criterion",
    "FloatArray",
    "Indefinite",
    "Method",
    "MultiOutput",
    "Objects",
    "PerOutput",
    "RandomState",
    "Selection",
    "SparseOrDense",
]

FloatArray = NDArray[np.float64]
PerOutput = Any  # a float for one output, a FloatArray for several: no cast is needed for either

# Inputs: vectors, maybe sparse; and things that need not be vectors, for kernels that know what they are.
SparseOrDense = ArrayLike | spmatrix | sparray
Objects = ArrayLike | Sequence[Any]

Criterion = Literal["evidence", "gcv", "loo", "loo_lpd", "posterior"]
Indefinite = Literal["refuse", "flip", "clip"]
Method = Literal["auto", "exact", "low_rank"]
Selection = Literal["pivots", "greedy"]
MultiOutput = Literal["uniform_average", "raw_values"]
RandomState = int | np.random.RandomState | None

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
