"""Run every benchmark: `python -m benchmarks [--fast] [--threads N] [--repeats N]`."""

import sys

from . import (
    bench_classes,
    bench_identities,
    bench_jackknife,
    bench_ordinary,
    bench_ordinary_scale,
    bench_outputs,
    bench_scale,
    bench_sparse,
    bench_speed,
)

BENCHMARKS = (
    bench_identities,
    bench_outputs,
    bench_speed,
    bench_ordinary,
    bench_scale,
    bench_ordinary_scale,
    bench_classes,
    bench_sparse,
    bench_jackknife,
)

for benchmark in BENCHMARKS:
    print(f"\n=== {benchmark.__name__}: {benchmark.__doc__.splitlines()[0]}")
    benchmark.main(sys.argv[1:])
