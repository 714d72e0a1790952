"""Which decomposition stands for the kernel matrix, and how exact it is.

===========  ============================================================================
data         `Data`: inputs, targets, weights and mean functions of the rows
plan         `Plan`: exact, factor, which rank, decided in one place
certificate  how far a factor's evidence can be from that of the exact matrix
decompose    from data and a kernel to a `Decomposition`, by the plan's route
===========  ============================================================================
"""
