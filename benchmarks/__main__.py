"""Run every benchmark: `python -m benchmarks [--fast] [--threads N] [--repeats N]`."""

import sys

from . import bench_identities, bench_ordinary, bench_outputs, bench_scale, bench_speed

for benchmark in (bench_identities, bench_outputs, bench_speed, bench_ordinary, bench_scale):
    print(f"\n=== {benchmark.__name__}: {benchmark.__doc__.splitlines()[0]}")
    benchmark.main(sys.argv[1:])
