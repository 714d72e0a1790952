"""Search over kernels and their parameters in the pattern of GridSearchCV.

=============  ==========================================================================
scoring        what scorers look at, and many predictions scored by one call
evaluation     the candidates of a kernel and a split as one task
kernel_search  `KernelSearchCV`
=============  ==========================================================================
"""

from .kernel_search import KernelSearchCV

__all__ = ["KernelSearchCV"]
