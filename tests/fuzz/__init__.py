"""Fits to random data of every kind, checked against what is promised of any fit.

    python -m tests.fuzz --cases 1000 --seed 1

draws estimators and data, and prints a line for every case that breaks a promise, with the command that
repeats it; at the end, how many were fitted, and how many refused by which message.

==========  =====================================================================================
data        rows of all shapes, sizes, offsets, types and weights
models      estimators with their kernels, criteria and methods
dense       the evidence by a dense factorisation, without anything of the package
checks      the promises: finite, reproducible, indifferent to the order of rows and the unit of y
judge       one case: fine, refused with a reason, or failed; within a time limit
interrupts  fits that are interrupted at random times, a command of its own
==========  =====================================================================================
"""
