"""Kernels as matrices: values, derivatives contracted without tensors, constant and white parts split off.

This floor knows inputs and kernels. It knows nothing of targets, variances or factorisations.

=========  ==================================================================================
algebra    K(X, Z) of scikit-learn's kernels, and sum_ij G_ij dK_ij/dtheta
gram       one set of verbs for every kind of kernel: square, cross, columns, block, diagonal
parts      a kernel as signal variance * core + white noise
=========  ==================================================================================
"""
