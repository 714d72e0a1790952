"""How long do ordinary data of 10,000 to a million rows take, where no factor of small rank is exact?

Six questions, each with the project's goal on two cores:

* rank, only with ``--data DIR``: elevators and pol, first split, inputs and targets standardised by the
  training rows, ARD RBF learned from root(d) with ``method="low_rank", rank=500``: at most 60 s each. Beside
  GPyTorch's SGPR (500 inducing points that it moves, 50 steps of Adam), if it is installed: at one of our
  ranks, a better root mean square and log density in at most half of its time.
* defaults, only with ``--data DIR``: ``SpectralGPRegressor(kernel)`` on the same data in at most 10 minutes,
  with a test error of at most 0.36 (elevators) and 0.12 (pol).
* wide: 20,000 rows of 10 inputs that all matter, defaults: at most 5 minutes, and no larger a test error than
  ``Nystroem(2000)`` and ``RidgeCV`` with gamma by cross-validation.
* exact: 10,000 rows of 8 inputs, ``method="exact"``, learned: at most 6 minutes and 3.5 n^2 doubles.
* dask, if it is installed: 1,000,000 rows of 8 inputs in blocks, 300 landmarks, ARD learned in threads: at
  most 10 minutes and 1.5 GB.
* workers, if dask.distributed is installed: the same rows on two workers, of which one is killed midway: the
  same lengths, to 1e-6, as where nobody is killed, and at most 1.5 GB in any worker.

All models are asked how often they looked at all rows, by the matrix or by a lower bound: at most 30 times.
Each question is asked in a process of its own, and memory is its peak. Beside seconds there are those of
processors, which other work on the machine hardly changes.

Run `python -m benchmarks.bench_ordinary_scale --data DIR` (about 50 minutes), `--only NAME` for one question,
or `--fast` for a smoke run. Every question has a record of its own.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skspectral import SpectralGPRegressor, StreamingSpectralRegressor
from skspectral.learning.landmarks import LandmarkObjective
from skspectral.learning.objectives import ResolventObjective

from . import harness
from .bench_scale import Report, draw, peak_bytes

NAMES = ("elevators", "pol")
RMSE_GOALS = {"elevators": 0.36, "pol": 0.12}
FULL = {
    "rows": None,
    "ranks": (300, 500),
    "wide": 20_000,
    "exact": 10_000,
    "dask": (1_000_000, 50_000, 300),
}
FAST = {"rows": 600, "ranks": (50,), "wide": 400, "exact": 300, "dask": (3000, 500, 20)}
INDUCING, ADAM_STEPS, ADAM_RATE = 500, 50, 0.1
MOST_EVALUATIONS = 30


def main(argv=None):
    """Ask the questions, each in a process of its own, print, save."""
    extra = argparse.ArgumentParser(add_help=False)
    extra.add_argument("--data", type=Path, default=None)
    extra.add_argument("--only", choices=sorted(QUESTIONS), default=None)
    given, rest = extra.parse_known_args(sys.argv[1:] if argv is None else argv)
    options = harness.parse_arguments(__doc__, rest)
    sizes = FAST if options.fast else FULL
    with harness.pinned(options.threads):
        common = {"environment": harness.environment(options.threads), "fast": options.fast, "sizes": sizes}
    for name, question in QUESTIONS.items():
        if given.only not in (None, name):
            continue
        print(f"\n{name}", flush=True)
        report = Report(options.fast)
        found = question(sizes, given.data, options.threads, report)
        if found is not None:
            record = common | {"found": found, "rows": report.rows}
            harness.save(f"ordinary_scale_{name}", record, draw(report))


def in_a_process(function, *arguments, threads):
    """Return what a function of this module returns in a fresh process; None where a package is missing."""
    code = (
        "import json, warnings; from benchmarks import bench_ordinary_scale as bench, harness\n"
        "warnings.simplefilter('ignore')\n"
        f"with harness.pinned({threads}): print(json.dumps(bench.{function}(*{arguments!r})))"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  {function}: {done.stderr.splitlines()[-1]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


# ---- rank ----


def ask_rank(sizes, data, threads, report):
    """Time and quality at given ranks, beside SGPR."""
    if data is None:
        return None
    found = {}
    for name in NAMES:
        fits = {
            r: in_a_process("fit_rank", str(data), name, sizes["rows"], r, threads=threads)
            for r in sizes["ranks"]
        }
        peer = in_a_process("fit_sgpr", str(data), name, sizes["rows"], threads, threads=threads)
        _print_fits(name, fits, peer)
        for rank, fit in fits.items():
            report.add(f"{name}: seconds at rank {rank}", fit["seconds"], 60.0, " s")
            report.add(f"{name}, rank {rank}: looks at all rows", fit["evaluations"], MOST_EVALUATIONS)
        if peer is not None:
            better = [f for f in fits.values() if f["rmse"] <= peer["rmse"] and f["nlpd"] <= peer["nlpd"]]
            least = min((f["seconds"] for f in better), default=np.inf)
            report.add(f"{name}: time of a better model / SGPR", least / peer["seconds"], 0.5)
        found[name] = {"fits": fits, "sgpr": peer}
    return found


def _print_fits(name, fits, peer):
    rows = [[f"rank {rank}", *_cells(fit)] for rank, fit in fits.items()]
    if peer is not None:
        rows.append([f"SGPR, {INDUCING} points", *_cells(peer)])
    harness.print_table(f"{name}, ARD RBF", ["model", "seconds", "looks", "rmse", "nlpd"], rows)


def _cells(fit):
    return [
        f"{fit['seconds']:.1f}",
        str(fit.get("evaluations", "")),
        f"{fit['rmse']:.4f}",
        f"{fit['nlpd']:.4f}",
    ]


def load_split(data, name, rows):
    """Return standardised training and test rows of the first split; only some of the former for a number."""
    table = np.loadtxt(Path(data) / f"uci_{name}.csv.gz", delimiter=",")
    test = np.loadtxt(Path(data) / f"uci_{name}_test_mask.csv.gz", delimiter=",")[:, 0].astype(bool)
    train = np.flatnonzero(~test)
    train = train if rows is None else np.random.default_rng(0).permutation(train)[:rows]
    mean, spread = table[train].mean(axis=0), table[train].std(axis=0)
    table = (table - mean) / np.where(spread > 0, spread, 1.0)
    return table[train, :-1], table[train, -1], table[test, :-1], table[test, -1]


def ard_kernel(n_inputs):
    """Return an ARD RBF that starts from root(d)."""
    return RBF(np.full(n_inputs, np.sqrt(n_inputs)), (1e-2, 1e4))


def fit_rank(data, name, rows, rank):
    """Return time, looks at all rows and test scores of a fit of given rank."""
    X, y, X_test, y_test = load_split(data, name, rows)
    model = SpectralGPRegressor(ard_kernel(X.shape[1]), method="low_rank", rank=rank)
    return _fitted(model, X, y, X_test, y_test)


def _fitted(model, X, y, X_test, y_test):
    looks, clock = _count_looks(len(X)), _Clock()
    model.fit(X, y)
    times = clock.read()
    mean, std = model.predict(X_test, return_std=True)
    return {
        **times,
        "evaluations": len(looks),
        "rank": int(model.rank_),
        "bounds": list(model.evidence_bounds_),
        **_scores(y_test, mean, std),
    }


def _scores(y, mean, std):
    density = 0.5 * np.log(2 * np.pi * std**2) + 0.5 * ((y - mean) / std) ** 2
    return {"rmse": float(np.sqrt(np.mean((y - mean) ** 2))), "nlpd": float(density.mean())}


class _Clock:
    """Seconds, and those of processors, since it was made."""

    def __init__(self):
        self._start, self._processors = time.perf_counter(), time.process_time()

    def read(self):
        """Return both as they go into a record."""
        processors = time.process_time() - self._processors
        return {"seconds": time.perf_counter() - self._start, "processor_seconds": processors}


def _count_looks(n):
    """Return a list that grows with every evaluation of all n rows: "bound" or "matrix"."""
    looks = []
    _count(LandmarkObjective, "_bound", lambda objective: len(objective.rows) == n, looks, "bound")
    _count(ResolventObjective, "__call__", lambda objective: len(objective.task) == n, looks, "matrix")
    return looks


def _count(owner, name, is_counted, looks, kind):
    """Let a list grow with calls of a method."""
    method = getattr(owner, name)

    def counted(self, *args, **kwargs):
        if is_counted(self):
            looks.append(kind)
        return method(self, *args, **kwargs)

    setattr(owner, name, counted)


def fit_sgpr(data, name, rows, threads):
    """Return time and test scores of GPyTorch's SGPR."""
    import gpytorch
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    X, y, X_test, y_test = (torch.tensor(part) for part in load_split(data, name, rows))
    chosen = torch.randperm(len(X))[: min(INDUCING, len(X))]

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
            base.base_kernel.lengthscale = X.shape[1] ** 0.5
            self.covar_module = gpytorch.kernels.InducingPointKernel(base, X[chosen].clone(), likelihood)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    start = time.perf_counter()
    model = Model(gpytorch.likelihoods.GaussianLikelihood()).double()
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=ADAM_RATE)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    for _ in range(ADAM_STEPS):
        optimizer.zero_grad()
        loss = -objective(model(X), y)
        loss.backward()
        optimizer.step()
    seconds = time.perf_counter() - start
    model.eval()
    with torch.no_grad():
        predicted = model.likelihood(model(X_test))
        mean, std = predicted.mean.numpy(), predicted.stddev.numpy()
    return {"seconds": seconds, **_scores(y_test.numpy(), mean, std)}


# ---- defaults ----


def ask_defaults(sizes, data, threads, report):
    """Time and error of the default route."""
    if data is None:
        return None
    found = {}
    for name in NAMES:
        fit = in_a_process("fit_defaults", str(data), name, sizes["rows"], threads=threads)
        harness.print_table(
            f"{name}, defaults, rank {fit['rank']}",
            ["model", "seconds", "looks", "rmse", "nlpd"],
            [["defaults", *_cells(fit)]],
        )
        report.add(f"{name}: seconds with defaults", fit["seconds"], 600.0, " s")
        report.add(f"{name}: rmse with defaults", fit["rmse"], RMSE_GOALS[name])
        report.add(f"{name}: looks at all rows with defaults", fit["evaluations"], MOST_EVALUATIONS)
        found[name] = fit
    return found


def fit_defaults(data, name, rows):
    """Return time, looks and test scores of the default route with an ARD kernel."""
    X, y, X_test, y_test = load_split(data, name, rows)
    return _fitted(SpectralGPRegressor(ard_kernel(X.shape[1])), X, y, X_test, y_test)


# ---- wide ----


def ask_wide(sizes, data, threads, report):
    """The defaults where every input matters, beside a pipeline of scikit-learn."""
    fit = in_a_process("fit_wide", sizes["wide"], threads=threads)
    peer = in_a_process("fit_pipeline", sizes["wide"], threads=threads)
    print(f"  {sizes['wide']} rows, 10 inputs: {fit['seconds']:.0f} s at rank {fit['rank']}")
    print(f"  pipeline: {peer['seconds']:.0f} s")
    report.add("wide: seconds with defaults", fit["seconds"], 300.0, " s")
    report.add("wide: looks at all rows", fit["evaluations"], MOST_EVALUATIONS)
    report.add("wide: rmse / Nystroem + RidgeCV", fit["rmse"] / peer["rmse"], 1.0)
    return {"defaults": fit, "pipeline": peer}


def make_wide(n, seed=0):
    """Return 10 inputs that all matter, and noisy targets of about unit variance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    directions = np.random.default_rng(7).normal(size=(10, 6)) / np.sqrt(10)
    return X, np.sin(1.5 * X @ directions).sum(axis=1) / 2 + 0.2 * rng.normal(size=n)


def fit_wide(n):
    """Return time and test scores of the defaults."""
    return _fitted(SpectralGPRegressor(), *make_wide(n), *make_wide(5000, seed=1))


def fit_pipeline(n):
    """Return time and error of Nystroem and RidgeCV with gamma by cross-validation."""
    (X, y), (X_test, y_test) = make_wide(n), make_wide(5000, seed=1)
    pipe = make_pipeline(
        Nystroem(n_components=min(2000, n // 2), random_state=0), RidgeCV(np.logspace(-6, 3, 10))
    )
    search = GridSearchCV(pipe, {"nystroem__gamma": np.logspace(-2.5, -0.5, 5)}, cv=3)
    start = time.perf_counter()
    search.fit(X, y)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "rmse": float(np.sqrt(np.mean((search.predict(X_test) - y_test) ** 2)))}


# ---- exact ----


def ask_exact(sizes, data, threads, report):
    """Time and memory of learning with the matrix itself."""
    found, n = in_a_process("fit_exact", sizes["exact"], threads=threads), sizes["exact"]
    print(f"  {n} rows, 8 inputs: {found['seconds']:.0f} s, {found['processor_seconds']:.0f} s of processors")
    print(f"  looks at all rows: {found['matrices']} at the matrix, {found['bounds']} at a bound")
    report.add("exact: seconds", found["seconds"], 360.0, " s")
    processors = found["processor_seconds"]
    report.rows.append(harness.entry("exact", "seconds of processors", processors, unit="s"))
    report.add("exact: looks at all rows", found["matrices"] + found["bounds"], MOST_EVALUATIONS)
    report.add("exact: peak memory", found["peak"] / (8 * n**2), 3.5, " n^2 doubles")
    return found


def make_eight(n, seed=0):
    """Return 8 inputs, of which the first matter most, and noisy targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    return X, np.sin(X[:, 0] + 0.5 * X[:, 1] * X[:, 2]) + 0.3 * np.tanh(
        X[:, 3:].sum(axis=1)
    ) + 0.2 * rng.normal(size=n)


def fit_exact(n):
    """Return time, looks at all rows, the log evidence and the memory that a fit adds to its data."""
    X, y = make_eight(n)
    before, looks, clock = peak_bytes(), _count_looks(n), _Clock()
    model = SpectralGPRegressor(ard_kernel(8), method="exact").fit(X, y)
    return {
        **clock.read(),
        "peak": peak_bytes() - before,
        "matrices": looks.count("matrix"),
        "bounds": looks.count("bound"),
        "log_evidence": float(model.log_marginal_likelihood_value_),
    }


# ---- dask ----


def ask_dask(sizes, data, threads, report):
    """Time and memory of learning on a dask collection that is made block by block."""
    n, size, rank = sizes["dask"]
    found = in_a_process("fit_dask", n, size, rank, threads, threads=1)
    if found is None:
        return None
    print(f"  {n} rows in blocks of {size}, {rank} landmarks: {found['seconds']:.0f} s")
    print(f"  noise found {found['noise']:.3f}, true 0.2")
    report.add("dask: seconds", found["seconds"], 600.0, " s")
    report.add("dask: resident memory", found["peak"] / 1e9, 1.5, " GB")
    report.add("dask: looks at all rows", found["evaluations"], MOST_EVALUATIONS)
    return found


def fit_dask(n, size, rank, threads):
    """Return time, looks and memory of a stream over blocks that threads make."""
    import dask

    X, y = _in_blocks(n, size, make_eight)
    looks, clock = _count_looks(n), _Clock()
    with dask.config.set(scheduler="threads", num_workers=threads):
        model = StreamingSpectralRegressor(ard_kernel(8), landmarks=rank).fit(X, y)
    noise = float(np.sqrt(model.noise_variance_))
    return {**clock.read(), "evaluations": len(looks), "peak": peak_bytes(), "noise": noise}


def _in_blocks(n, size, make):
    """Return dask arrays of inputs and targets whose blocks are made(size, seed) when they are asked for."""
    import dask
    import dask.array as da

    parts = [dask.delayed(make, pure=False)(size, seed) for seed in range(n // size)]
    X = da.concatenate([da.from_delayed(part[0], (size, 8), float) for part in parts])
    return X, da.concatenate([da.from_delayed(part[1], (size,), float) for part in parts])


# ---- workers ----

# Block that kills its worker, and in which of the passes over all rows.
_DEADLY_BLOCK, _DEADLY_PASS = 2, 8


def ask_workers(sizes, data, threads, report):
    """What is learned on two workers, and where one of them is killed midway."""
    n, size, rank = sizes["dask"]
    fits = {k: in_a_process("fit_workers", n, size, rank, k, threads=1) for k in (False, True)}
    if None in fits.values():
        return None
    apart = float(np.abs(np.subtract(fits[True]["theta"], fits[False]["theta"])).max())
    for killed, fit in fits.items():
        name = "workers, one killed" if killed else "workers"
        report.add(f"{name}: seconds", fit["seconds"], 600.0, " s")
        report.add(f"{name}: resident memory", fit["peak"] / 1e9, 1.5, " GB")
    report.rows.append(harness.entry("workers, one killed", "processes", fits[True]["started"], 3, unit=""))
    report.add("workers, one killed: difference of log lengths", apart, 1e-6)
    return {"undisturbed": fits[False], "killed": fits[True]}


def fit_workers(n, size, rank, killed):
    """Return time, lengths and memory of a stream on two worker processes, of which one may be killed."""
    import distributed

    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        tempfile.TemporaryDirectory() as folder,
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        X, y = _in_blocks(n, size, _Deadly(folder) if killed else make_eight)
        clock, born = _Clock(), set(client.run(os.getpid).values())
        model = StreamingSpectralRegressor(ard_kernel(8), landmarks=rank).fit(X, y)
        alive, peaks = set(client.run(os.getpid).values()), client.run(peak_bytes)
        return {
            "seconds": clock.read()["seconds"],
            "theta": model.kernel_.theta.tolist(),
            "peak": max(peaks.values()),
            "started": len(born | alive),
        }


class _Deadly:
    """`make_eight`, but one block kills the process that makes it in one of the passes, once."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, size, seed):
        if seed == _DEADLY_BLOCK and len(os.listdir(self.folder)) <= _DEADLY_PASS:
            Path(tempfile.mkstemp(dir=self.folder)[1]).touch()
            if len(os.listdir(self.folder)) == _DEADLY_PASS:
                os.kill(os.getpid(), signal.SIGKILL)
        return make_eight(size, seed)


QUESTIONS = {
    "rank": ask_rank,
    "defaults": ask_defaults,
    "wide": ask_wide,
    "exact": ask_exact,
    "dask": ask_dask,
    "workers": ask_workers,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
