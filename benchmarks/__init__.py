"""Benchmarks: each module answers the question in its docstring, run as `python -m benchmarks.<name>`."""
