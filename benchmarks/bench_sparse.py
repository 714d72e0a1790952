"""Do relevance vectors reach a larger evidence than other implementations, and at what cost?

RelevanceVectorRegressor beside scikit-learn's ARDRegression on the columns of the kernel matrix, and fastrvm
and sklearn-rvm where they are installed and run, with the same RBF kernel, no intercept and standardised
targets. The evidence of each is that of its own prior variances and noise by the dense formula. Goals:
evidence at least that of each peer, test RMSE at most 1.02 of the best, 20 times faster than ARDRegression,
no slower than fastrvm. Where our evidence is larger than fastrvm's, a fit of ours is timed beside it, too,
that `max_iter` stops at the first step at which it has reached fastrvm's evidence. Then ours alone: the test
RMSE over that of ARDRegression on average over 20 sets of 100 rows, and 10,000 rows of 8 inputs in at most 30
seconds, with memory for a few times n M numbers.

Run `python -m benchmarks.bench_sparse`, or with `--fast` for a smoke run; `--data DIR` adds concrete and
energy from uci_concrete.csv and uci_energy.csv; `--without NAMES` leaves out peers (ARDRegression takes five
minutes for 1000 rows, and sklearn-rvm is left out beyond 300). Fits of up to 2 seconds are warm, in turn and
repeated; longer ones are timed once.
"""

import resource
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.linear_model import ARDRegression
from sklearn.metrics.pairwise import rbf_kernel

from skspectral import RelevanceVectorRegressor

from . import harness

RMSE_GOAL = 1.02
# Speed relative to a peer.
SPEED_GOALS = {"ARDRegression": 20.0, "fastrvm": 1.0}
# Rows beyond which a peer takes too long.
MOST_ROWS = {"sklearn-rvm": 300}
# Seconds of a first fit beyond which there is no second, and samples of all others.
LONG, REPEATS = 2.0, 7
# Fits of which ours is stopped at the evidence of the other, and steps that are tried first.
MEASURED, STEPS = {"skspectral", "fastrvm"}, [2**k for k in range(14)]
# Sets of 100 rows on which errors are compared on average; seconds that many rows may take.
SETS, SECONDS_GOAL = 20, 30.0


def main(argv=None):
    """Fit, print, save."""
    argv = list(sys.argv[1:] if argv is None else argv)
    folder, without = option(argv, "--data"), option(argv, "--without")
    options = harness.parse_arguments(__doc__, argv)
    peers = {name: fit for name, fit in PEERS.items() if name not in (without or "").split(",")}
    with harness.pinned(options.threads):
        record = {"environment": harness.environment(options.threads), "fast": options.fast}
        rows = many_rows(1600 if options.fast else 10_000)
        some = problems(options.fast, folder and Path(folder))
        record["cases"] = [run(peers, options.repeats or REPEATS, *problem) for problem in some]
    rows = [*average_error(3 if options.fast else SETS), *rows]
    record["rows"] = report(record["cases"], rows)
    harness.save("sparse", record, draw(record["cases"]))


def option(argv, name):
    """Take an option and its value out of the arguments; return the value, or None."""
    if name not in argv:
        return None
    where = argv.index(name)
    value = argv[where + 1]
    del argv[where : where + 2]
    return value


def problems(fast, folder):
    """Yield a name, training and test data and gamma."""
    for n in (100,) if fast else (200, 1000):
        yield f"sinc {n}", *sinc(n, n), 1 / 9
    for name in ("concrete", "energy") if folder else ():
        table = np.loadtxt(folder / f"uci_{name}.csv", delimiter=",", skiprows=1)
        table = table[np.random.default_rng(0).permutation(len(table))]
        X, y, n = table[:, :8], table[:, 8], 200 if fast else int(0.8 * len(table))
        X, y = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0), (y - y[:n].mean()) / y[:n].std()
        yield f"{name} {n}", X[:n], y[:n], X[n:], y[n:], 1 / 16


def sinc(n, seed):
    """Return n training rows and 1000 test rows of sinc with noise 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-10, 10, (n + 1000, 1))
    y = np.sinc(X[:, 0] / np.pi) + 0.1 * rng.normal(size=n + 1000)
    return X[:n], y[:n], X[n:], y[n:]


def average_error(sets):
    """Return the test RMSE over that of ARDRegression, on average: a single set says little."""
    ratios = []
    for seed in range(1000, 1000 + sets):
        X, y, X_test, y_test = sinc(100, seed)
        K, K_test = rbf_kernel(X, gamma=1 / 9), rbf_kernel(X_test, X, gamma=1 / 9)
        errors = [rmse(K_test, y_test, *quietly(fit, X, y, K, 1 / 9)) for fit in (ours, ard)]
        ratios.append(errors[0] / errors[1])
    what = f"test error / ARDRegression's, mean of {sets} sets"
    spread = np.percentile(ratios, [25, 75]).tolist()
    return [harness.entry("sinc 100", what, np.mean(ratios), RMSE_GOAL, at_least=False, spread=spread)]


def many_rows(n):
    """Return seconds and memory of a fit to n rows of 8 inputs."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 8))
    f = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2
    before, start = peak_memory(), time.perf_counter()
    model = RelevanceVectorRegressor().fit(X, f + 0.1 * rng.normal(size=n))
    seconds, taken = time.perf_counter() - start, peak_memory() - before
    name, M = f"{n:,} rows", len(model.relevance_)
    return [
        harness.entry(name, "seconds", seconds, SECONDS_GOAL, at_least=False, unit=""),
        harness.entry(name, "relevance vectors", M, unit=""),
        harness.entry(name, "memory / n M numbers", taken / (8.0 * n * M)),
    ]


def peak_memory():
    """Return the largest memory that this process had, in bytes."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(peers, repeats, name, X, y, X_test, y_test, gamma):
    """Return evidence, size, error and seconds of every implementation, and why others are left out."""
    K, K_test = rbf_kernel(X, gamma=gamma), rbf_kernel(X_test, X, gamma=gamma)
    data, results, again, left_out = (X, y, K, gamma), {}, {}, {}
    for peer, fit in peers.items():
        call = partial(quietly, fit, *data)
        start = time.perf_counter()
        try:
            fitted = attempt(call, peer, len(y))
        except (ImportError, AttributeError, TypeError, TimeoutError) as error:  # or for other versions
            print(f"Notice: {peer} is left out: {error}")
            left_out[peer] = str(error)
            continue
        seconds = time.perf_counter() - start
        results[peer] = {"seconds": seconds} | judged(fitted, K, y, K_test, y_test)
        if seconds < LONG:
            again[peer] = call
    stopped = until(results["fastrvm"]["log_evidence"], *data) if results.keys() >= MEASURED else None
    if stopped is not None:
        results["stopped"], again["stopped"] = judged(stopped(), K, y, K_test, y_test), stopped
        if results["stopped"]["log_evidence"] < results["fastrvm"]["log_evidence"]:
            raise RuntimeError(
                f"{name}: a fit that was stopped does not have the evidence that it had before."
            )
    for peer, timing in harness.time_in_turn(again, repeats, warm_ups=0).items():
        results[peer] |= {"seconds": timing.median, "timing": timing.as_dict()}
    return {"name": name, "results": results, "left_out": left_out}


def attempt(call, peer, n):
    """Fit, unless it would take too long."""
    if n > MOST_ROWS.get(peer, n):
        raise TimeoutError(f"{n} rows, more than {MOST_ROWS[peer]}, take minutes")
    return call()


def until(least, X, y, K, gamma):
    """Return a fit of ours that `max_iter` stops once its log evidence is `least`; None if it never is.

    The number of steps is found by doubling and bisection: one step less is not enough.
    """

    def stopped_after(steps):
        return partial(quietly, ours, X, y, K, gamma, steps)

    def is_enough(steps):
        functions, variance, noise_var, _ = stopped_after(steps)()
        return log_evidence(K[:, functions], y, variance, noise_var) >= least

    enough = next((steps for steps in STEPS if is_enough(steps)), None)
    if enough is None:
        return None
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        too_few, enough = (too_few, middle) if is_enough(middle) else (middle, enough)
    return stopped_after(enough)


def judged(fitted, K, y, K_test, y_test):
    """Return what is reported of one fit."""
    functions, variance, noise_var, _ = fitted
    return {
        "log_evidence": log_evidence(K[:, functions], y, variance, noise_var),
        "functions": len(functions),
        "rmse": rmse(K_test, y_test, *fitted),
    }


def rmse(K_test, y_test, functions, variance, noise_var, coefficients):
    """Return the test error of one fit."""
    return float(np.sqrt(np.mean((y_test - K_test[:, functions] @ coefficients) ** 2)))


def quietly(fit, *arguments):
    """Fit without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(*arguments)


def log_evidence(Phi, y, variance, noise_var):
    """Return log N(y; 0, Phi diag(variance) Phi' + noise_var I)."""
    C = (Phi * variance) @ Phi.T + noise_var * np.eye(len(y))
    value = np.linalg.slogdet(C)[1] + y @ np.linalg.solve(C, y) + len(y) * np.log(2 * np.pi)
    return float(-0.5 * value)


def ours(X, y, K, gamma, max_iter=10_000):
    """Fit ours."""
    model = RelevanceVectorRegressor(gamma=gamma, fit_intercept=False, max_iter=max_iter).fit(X, y)
    return model.relevance_, model.prior_variance_, model.noise_variance_, model.dual_coef_


def ard(X, y, K, gamma):
    """Fit scikit-learn's ARDRegression on the columns."""
    model = ARDRegression(fit_intercept=False).fit(K, y)
    kept = np.flatnonzero(model.lambda_ < model.threshold_lambda)
    return kept, 1 / model.lambda_[kept], 1 / model.alpha_, model.coef_[kept]


def fastrvm(X, y, K, gamma):
    """Fit fastrvm; its precisions are those of unit columns over their squared lengths."""
    from fastrvm import RVR

    model = RVR(gamma=gamma).fit(X, y)
    a = model.relevance_
    length = np.linalg.norm(K[:, a], axis=0)
    return a, 1 / (model.alpha_.ravel() * length**4), 1 / model.beta_, model.dual_coef_.ravel()


def em(X, y, K, gamma):
    """Fit sklearn-rvm, whose functions are those of the kernel over a scale of its own."""
    from sklearn_rvm import EMRVR

    model = EMRVR(gamma=gamma, bias_used=False)
    model.fit(X, y)
    variance = 1 / (np.ravel(model.alpha_) * model._scale**2)
    return model.relevance_, variance, 1 / model.beta_, np.ravel(model.mu_) / model._scale


PEERS = {"skspectral": ours, "ARDRegression": ard, "fastrvm": fastrvm, "sklearn-rvm": em}


def report(cases, rows_alone):
    """Print the tables; return the rows of the last one."""
    header = ["problem", "fit", "log evidence", "functions", "RMSE", "seconds"]
    rows = [
        [
            c["name"],
            peer,
            f"{r['log_evidence']:.2f}",
            str(r["functions"]),
            f"{r['rmse']:.4f}",
            f"{r['seconds']:.4f}",
        ]
        for c in cases
        for peer, r in c["results"].items()
    ]
    harness.print_table("Relevance vectors", header, rows)
    entries = [entry for case in cases for entry in entries_of(case["name"], case["results"])]
    entries += rows_alone
    harness.print_entries("Beside the best of the others", entries)
    return entries


def entries_of(name, results):
    """Return how ours compares: evidence, error and time."""
    mine = results["skspectral"]
    others = [r for peer, r in results.items() if peer not in ("skspectral", "stopped")]
    if not others:
        return []
    ahead = mine["log_evidence"] - max(r["log_evidence"] for r in others)
    error = mine["rmse"] / min(r["rmse"] for r in others)
    entries = [
        harness.entry(name, "log evidence - best peer's", ahead, 0.0, unit=""),
        harness.entry(name, "test error / best peer's", error, RMSE_GOAL, at_least=False),
    ]
    for peer in sorted(SPEED_GOALS.keys() & results.keys()):
        speed = results[peer]["seconds"] / mine["seconds"]
        entries.append(harness.entry(name, f"time of {peer} / ours", speed, SPEED_GOALS[peer]))
    if "stopped" in results:
        speed = results["fastrvm"]["seconds"] / results["stopped"]["seconds"]
        what = "time of fastrvm / ours to its evidence"
        entries.append(harness.entry(name, what, speed, SPEED_GOALS["fastrvm"]))
    return entries


def draw(cases):
    """Return the figure: log evidence relative to ours."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for peer, marker in {"ARDRegression": "s", "fastrvm": "^", "sklearn-rvm": "o"}.items():
        known = [(i, c["results"]) for i, c in enumerate(cases) if peer in c["results"]]
        gap = [r[peer]["log_evidence"] - r["skspectral"]["log_evidence"] for _, r in known]
        axes.plot([i for i, _ in known], gap, marker, label=peer)
    axes.axhline(0.0, color="black", lw=0.8)
    axes.set(
        xticks=range(len(cases)), xticklabels=[c["name"] for c in cases], ylabel="log evidence less ours"
    )
    axes.legend()
    return figure


if __name__ == "__main__":
    main()
