"""Kernels as matrices, and kernels to compose: on columns, sets, categories, and made of other kernels.

This floor knows inputs and kernels. It knows nothing of targets, variances or factorisations.

Kernels of this package are kernels of :mod:`sklearn.gaussian_process.kernels`: they have theta, bounds and
gradients, add, multiply and nest with scikit-learn's, and work in its estimators.

==================================  ==================================================================
`Columns(kernel, columns)`          kernel(x[columns], z[columns]): additive models, mixed tables
`Normalized(kernel)`                k(x, z) / sqrt(k(x, x) k(z, z))
`Exponential(kernel)`               exp(k(x, z))
`Polynomial(kernel, coefficients)`  c_0 + c_1 k(x, z) + c_2 k(x, z)^2 + ..., none of them negative
`Scaled(kernel, function)`          f(x) k(x, z) f(z)
`SetKernel(kind, base)`             base^|A n B| or |A n B|, on sets of hashable things
`SetMean(kernel)`                   mean of k(a, b) over a in A and b in B, on sets of vectors
`Overlap(length_scale, ..., kind)`  agreement of categories, column by column
==================================  ==================================================================

`resolve_columns` turns names of columns into positions; `object_rows` makes an X of lists of any length;
`KernelOverflowError` says that values went beyond float64.

The rooms of the floor:

==========  =====================================================================================
algebra     K(X, Z) of any kernel, and sum_ij G_ij dK_ij/dtheta without the tensor of derivatives
slopes      the same for derivatives by the inputs
composable  what the kernels above share
columns     `Columns`, `resolve_columns`
functions   `Exponential`, `Polynomial`
scaled      `Scaled`, `Normalized`
sets        `SetKernel`, `object_rows`
set_means   `SetMean`
categories  `Overlap`
gram        one set of verbs for every kind of kernel: square, cross, columns, block, diagonal
gammas      matrices for many gamma from the same distances
parts       a kernel as signal variance * core + white noise
==========  =====================================================================================
"""

from .categories import Overlap
from .columns import Columns, resolve_columns
from .composable import KernelOverflowError
from .functions import Exponential, Polynomial
from .scaled import Normalized, Scaled
from .set_means import SetMean
from .sets import SetKernel, object_rows

__all__ = [
    "Columns",
    "Exponential",
    "KernelOverflowError",
    "Normalized",
    "Overlap",
    "Polynomial",
    "Scaled",
    "SetKernel",
    "SetMean",
    "object_rows",
    "resolve_columns",
]
