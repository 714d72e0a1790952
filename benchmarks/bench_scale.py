"""What do time, memory and error become where an n x n matrix is out of reach?

Five questions, each with the project's goal:

* fit: n = 100,000, 3 inputs, rank 1000, the penalty tuned by the evidence (the default) and by gcv, beside
  ``Nystroem(1000)`` and ``RidgeCV`` with 19 alphas in a Pipeline, which tunes by leave-one-out. At most 1.5
  times its time, no larger test error, and at most 3 n r doubles of memory above what the data took.
* stream: n = 1,000,000 in chunks of 10,000 at rank 500. Resident memory of the process below 1.5 GB.
* predict: n = 2000 and 1,000,000 new rows, means and, of processes, standard deviations. At most 1.5 GB of
  memory above the fitted model and the new rows, whatever the kernel and the route.
* learn: n = 8000, ARD RBF on 5 inputs of which 2 matter. At least 50 times faster than scikit-learn's GPR,
  whose time is measured at n = 2000 and *extrapolated* by its n^3 law; the log likelihood is checked by a
  dense Cholesky evaluation at the learned parameters.
* abalone, only with ``--data DIR``: with 2 sigma^2 = 0.1 and 2 omega^2 = 10 on standardised inputs, how many
  greedy basis functions reach a gap of 0.025 at 4000 rows, beside the 257 of Smola & Schoelkopf (Table 3),
  and is the test error of low-rank models within 1 % of the exact one? Targets are not centred, as there.

Memory is the peak of a process of its own. Test errors are root mean squares over 20,000 test rows of each of
three data sets, against the noisy targets and against the function behind them; each should be no larger than
the peer's, to the last digit.

Run `python -m benchmarks.bench_scale` (about 15 minutes, 16 with the data), or with `--fast` for a smoke run.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline

from skspectral import (
    KernelBoundWarning,
    SpectralGPRegressor,
    SpectralKernelRidge,
    StreamingSpectralRegressor,
)
from skspectral.kernels.gram import make_gram
from skspectral.linalg.greedy import greedy_landmarks

from . import harness, peers

NOISE, GAMMA = 0.3, 1.0
FULL = {"fit": (100_000, 1000), "stream": (1_000_000, 10_000, 500), "predict": (2000, 1_000_000)}
FULL |= {"learn": (8000, 2000), "splits": 3}
FAST = {"fit": (3000, 100), "stream": (5000, 1000, 50), "predict": (200, 20_000)}
FAST |= {"learn": (500, 200), "splits": 1}
TEST_ROWS, DATA_SETS = 20_000, 3
PREDICTING = {
    "an exact Matern process": SpectralGPRegressor(Matern(1.0, nu=1.5), optimizer=None, method="exact"),
    "an exact RBF process": SpectralGPRegressor(RBF(1.0), optimizer=None, method="exact"),
    "an RBF process": SpectralGPRegressor(RBF(1.0), optimizer=None),
    "an exact ridge": SpectralKernelRidge(gamma=GAMMA, method="exact"),
    "a ridge": SpectralKernelRidge(gamma=GAMMA),
}
PEER = "Nystroem + RidgeCV"
SOURCE_COUNT = 257  # Table 3 of Smola & Schoelkopf, kernel width 10


@dataclass
class Report:
    """Verdicts as they come in."""

    fast: bool
    rows: list = field(default_factory=list)

    def add(self, name, value, limit, unit=""):
        """Print and keep a number that should not exceed its limit."""
        verdict = harness.verdict(value, limit)
        row, _, what = name.partition(": ")
        self.rows.append(harness.entry(row, what, value, float(limit), at_least=False, unit=unit.strip()))
        note = " (smoke run)" if self.fast else ""
        print(f"  {name}: {value:.5g}{unit}, goal at most {limit:.4g}{unit}: {verdict}{note}", flush=True)


def main(argv=None):
    """Ask the five questions, print, save."""
    extra = argparse.ArgumentParser(add_help=False)
    extra.add_argument("--data", type=Path, default=None)
    given, rest = extra.parse_known_args(sys.argv[1:] if argv is None else argv)
    options = harness.parse_arguments(__doc__, rest)
    sizes = FAST if options.fast else FULL
    report = Report(options.fast)
    warnings.simplefilter("ignore", KernelBoundWarning)  # inputs that do not matter end at the bound
    with harness.pinned(options.threads):
        record = {"environment": harness.environment(options.threads), "fast": options.fast, "sizes": sizes}
        record["fit"] = ask_fit(*sizes["fit"], options, report)
        record["stream"] = ask_stream(*sizes["stream"], options, report)
        record["predict"] = ask_predict(*sizes["predict"], options, report)
        record["learn"] = ask_learn(*sizes["learn"], report)
        if given.data is not None:
            record["abalone"] = ask_abalone(given.data / "abalone.csv", sizes["splits"], report)
    record["rows"] = report.rows
    harness.save("scale", record, draw(report))


# ---- fit ----


def make_data(n, seed=0):
    """Return 3 inputs, noisy targets and the function behind them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    f = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + X[:, 2] ** 2 / 2
    return X, f + NOISE * rng.normal(size=n), f


def make_ridge(rank, criterion="evidence"):
    """Return our model."""
    return SpectralKernelRidge(gamma=GAMMA, criterion=criterion, method="low_rank", rank=rank)


def make_pipe(rank):
    """Return the peer."""
    alphas = np.logspace(-6, 3, 19)
    return make_pipeline(Nystroem(gamma=GAMMA, n_components=rank, random_state=0), RidgeCV(alphas=alphas))


def ask_fit(n, rank, options, report):
    """Time, error and memory of a fit of given rank beside the pipeline."""
    models = {name: make_ridge(rank, name) for name in ("evidence", "gcv")} | {PEER: make_pipe(rank)}
    seconds, squares = {name: [] for name in models}, {name: [] for name in models}
    for seed in range(DATA_SETS):
        X, y, _ = make_data(n, seed)
        for name, model in models.items():
            seconds[name].append(_timed(lambda model=model: model.fit(X, y))[1])  # noqa: B023
            squares[name].append(_squared_errors(model, seed))
    errors = {name: np.sqrt(np.mean(each, axis=0)).tolist() for name, each in squares.items()}
    rows = [
        [name, f"{min(seconds[name]):.1f} to {max(seconds[name]):.1f}", *(f"{e:.6f}" for e in errors[name])]
        for name in models
    ]
    header = ["model", "seconds", "rmse, noisy", "rmse, noise-free"]
    harness.print_table(f"Fits of {n} rows, 3 inputs, rank {rank}, {DATA_SETS} data sets", header, rows)
    for name in ("evidence", "gcv"):
        report.add(f"{name}: time / {PEER}", np.median(seconds[name]) / np.median(seconds[PEER]), 1.5)
        for kind, ours, peer in zip(("noisy", "noise-free"), errors[name], errors[PEER], strict=True):
            report.add(f"{name}: rmse, {kind} / {PEER}", ours / peer, 1.0)
    memory = in_a_process("memory_of_fit", n, rank, threads=options.threads)
    report.add("fit: peak memory", memory["peak"] / (8 * n * rank), 3.0, " n r doubles")
    return {"seconds": seconds, "errors": errors, "memory": memory}


def _squared_errors(model, seed):
    """Return mean squared errors on test rows, against noisy targets and the function behind them."""
    X, y, f = make_data(TEST_ROWS, seed=1000 + seed)
    mean = model.predict(X)
    return [float(np.mean((mean - truth) ** 2)) for truth in (y, f)]


def memory_of_fit(n, rank):
    """Return the peak memory that a fit adds to its data, in bytes."""
    X, y, _ = make_data(n)
    before = peak_bytes()
    model = make_ridge(rank).fit(X, y)
    return {"peak": peak_bytes() - before, "rank": model.rank_}


# ---- stream ----


def ask_stream(n, size, rank, options, report):
    """Memory of a stream."""
    found = in_a_process("memory_of_stream", n, size, rank, threads=options.threads)
    print(f"\nStream of {n} rows in chunks of {size} at rank {found['rank']}: {found['seconds']:.1f} s")
    print(f"  noise found {found['noise']:.4f}, true {NOISE}")
    report.add("stream: resident memory", found["peak"] / 1e9, 1.5, " GB")
    return found


def memory_of_stream(n, size, rank):
    """Return the peak memory of a process that streams, in bytes, its seconds and what it found."""
    model = StreamingSpectralRegressor(RBF(np.sqrt(0.5 / GAMMA)), landmarks=rank, optimizer=None)
    start = time.perf_counter()
    for i in range(n // size):
        X, y, _ = make_data(size, seed=i)
        model.partial_fit(X, y)
    noise = float(np.sqrt(model.noise_variance_))
    seconds = time.perf_counter() - start
    return {"peak": peak_bytes(), "seconds": seconds, "noise": noise, "rank": model.rank_}


# ---- predict ----


def ask_predict(n, n_new, options, report):
    """Memory of many predictions."""
    print(f"\nPredictions at {n_new} rows from {n}")
    found = {
        name: in_a_process("memory_of_predict", name, n, n_new, threads=options.threads)
        for name in PREDICTING
    }
    for name, each in found.items():
        report.add(f"predictions: {name}, {each['seconds']:.0f} s", each["peak"] / 1e9, 1.5, " GB")
    return found


def memory_of_predict(name, n, n_new):
    """Return the peak memory that predictions add to a model and new rows, in bytes, and their seconds."""
    model, (X, y, _), X_new = PREDICTING[name], make_data(n), make_data(n_new, seed=1)[0]
    model.fit(X, y)
    options = {"return_std": True} if isinstance(model, SpectralGPRegressor) else {}
    before = fresh_peak_bytes()
    _, seconds = _timed(lambda: model.predict(X_new, **options))
    return {"peak": peak_bytes() - before, "seconds": seconds}


def in_a_process(function, *arguments, threads):
    """Return what a function of this module returns in a fresh process."""
    code = (
        "import json; from benchmarks import bench_scale, harness\n"
        f"with harness.pinned({threads}): print(json.dumps(bench_scale.{function}(*{arguments!r})))"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def peak_bytes():
    """Return the largest resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would include the parent before exec
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def fresh_peak_bytes():
    """Return the resident memory, and let the peak begin anew at it on systems that can do so."""
    switch = Path("/proc/self/clear_refs")
    if switch.exists():
        switch.write_text("5")
    return peak_bytes()


# ---- learn ----


def ask_learn(n, n_peer, report):
    """Time of learned ARD lengths beside GPR's, extrapolated by n^3."""
    X, y = make_ard_data(n)
    kernel = peers.kernel_of(5, ard=True)
    ours, seconds = _timed(lambda: SpectralGPRegressor(kernel, fit_intercept=False).fit(X, y))
    peer, peer_seconds = _timed(lambda: peers.fit_gpr(X[:n_peer], y[:n_peer], kernel))
    extrapolated = peer_seconds * (n / n_peer) ** 3
    difference = ours.log_marginal_likelihood_value_ - dense_log_likelihood(ours, X, y)
    print(f"\nLearned ARD lengths: {n} rows in {seconds:.1f} s at rank {ours.rank_}: {ours.kernel_}")
    print(f"  GPR, {n_peer} rows: {peer_seconds:.1f} s ({peer.kernel_})")
    print(f"  by its n^3 law {extrapolated:.0f} s at {n} rows")
    report.add("learn: 50 x time / extrapolated time of GPR", 50 * seconds / extrapolated, 1.0)
    report.add("learn: log likelihood less the dense one, absolute", abs(difference), 1e-2)
    return {"seconds": seconds, "gpr_seconds": peer_seconds, "extrapolated": extrapolated, "rank": ours.rank_}


def make_ard_data(n):
    """Return 5 inputs, of which 2 matter, and noisy targets."""
    rng = np.random.default_rng(n)
    X = rng.uniform(-2, 2, (n, 5))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.7 + NOISE * rng.normal(size=n)


def dense_log_likelihood(model, X, y):
    """Return log N(y; 0, signal_var K + noise_var I) by one Cholesky."""
    kernel = ConstantKernel(model.signal_variance_) * model.kernel_ + WhiteKernel(model.noise_variance_)
    factor = cho_factor(kernel(X), lower=True, overwrite_a=True)
    log_det = 2.0 * np.log(np.diag(factor[0])).sum()
    return -0.5 * (y @ cho_solve(factor, y) + log_det + len(y) * np.log(2 * np.pi))


def _timed(call):
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


# ---- abalone ----


def ask_abalone(path, splits, report):
    """The count of Table 3 and the errors of Table 2."""
    X, y = load_abalone(path)
    kernel, noise_ratio = make_gram("rbf", {"gamma": 1 / 10.0}), 0.1 / 2
    rows = min(4000, len(X))
    factor, seconds = _timed(lambda: greedy_landmarks(kernel, X[:rows], y[:rows], noise_ratio))
    print(f"\nAbalone, {rows} rows: a gap of 0.025 with {factor.rank} basis functions, {seconds:.1f} s")
    report.add("abalone: greedy basis functions / those of the source", factor.rank / SOURCE_COUNT, 1.1)
    errors = np.array([_abalone_errors(X, y, seed, factor.rank) for seed in range(splits)])
    exact, low, greedy = errors.mean(axis=0)
    print(f"  squared test error: exact {exact:.4f}, pivots {low:.4f}, greedy {greedy:.4f} ({splits} splits)")
    report.add("abalone: error of the low-rank ridge / exact one", low / exact, 1.01)
    report.add("abalone: error on greedy landmarks / exact one", greedy / exact, 1.01)
    return {"count": factor.rank, "source": SOURCE_COUNT, "errors": errors.tolist()}


def load_abalone(path):
    """Return standardised inputs, the sex as three indicators, and the rings."""
    table = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
    sex = (table[:, :1] == np.unique(table[:, 0])).astype(float)
    X = np.concatenate([sex, table[:, 1:-1].astype(float)], axis=1)
    return (X - X.mean(axis=0)) / X.std(axis=0), table[:, -1].astype(float)


def _abalone_errors(X, y, seed, rank):
    """Return squared test errors: exact, low rank, and on greedy landmarks, for 3000 training rows."""
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:3000], order[3000:]
    settings = {"alpha": 0.05, "gamma": 0.1, "fit_intercept": False}
    routes = [{"method": "exact"}, {"method": "low_rank", "rank": rank}, {"selection": "greedy"}]
    models = [SpectralKernelRidge(**settings, **route).fit(X[train], y[train]) for route in routes]
    return [float(np.mean((model.predict(X[test]) - y[test]) ** 2)) for model in models]


def draw(report):
    """Return the figure: every number relative to its goal."""
    from matplotlib.figure import Figure

    rows = [row for row in report.rows[::-1] if row["goal"] is not None]
    names = [f"{row['row']}: {row['what']}" for row in rows]
    shares = [max(row["value"], 0.0) / row["goal"] for row in rows]
    figure = Figure(figsize=(7.5, 0.5 * len(names) + 1.2), layout="constrained")
    axes = figure.subplots()
    axes.barh(names, shares, color=["#0072B2" if share <= 1 else "#D55E00" for share in shares])
    axes.axvline(1.0, color="black", linewidth=1, linestyle="--")
    axes.set(xlabel="value / goal", xlim=(0, max(1.2, 1.05 * max(shares))))
    return figure


if __name__ == "__main__":
    main()
