"""What do jackknife+ intervals cost without n refits, and do they cover where the model is wrong?

`SpectralKernelRidge.predict_interval` beside MAPIE's CrossConformalRegressor, which refits scikit-learn's
KernelRidge n times with the same kernel and penalty: the intervals must be equal, and are timed in one run.
Then coverage of nominal 90 % intervals of both estimators, tuned, where noise has heavy tails, grows with x,
or the kernel is wrong. Goal: at least 1 - 2 (1 - 0.9) = 80 %, the guarantee of jackknife+ (without tuning).

Run `python -m benchmarks.bench_jackknife`, or with `--fast` for a smoke run.
"""

from functools import partial

import numpy as np
from sklearn.gaussian_process.kernels import RBF, DotProduct
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut

from skspectral import SpectralGPRegressor, SpectralKernelRidge

from . import harness

COVERAGE, ALPHA, GAMMA, N_NEW = 0.9, 0.1, 0.5, 200
GUARANTEE = 1.0 - 2.0 * (1.0 - COVERAGE)
OURS, PEER = "skspectral", "MAPIE"
KERNELS = {"rbf": (RBF(1.0), {"gamma": GAMMA}), "linear": (DotProduct(), {"kernel": "linear"})}


def main(argv=None):
    """Compare, time, simulate, print, save."""
    options = harness.parse_arguments(__doc__, argv)
    sizes, n_sets = ((40,), 10) if options.fast else ((100, 300, 600), 200)
    with harness.pinned(options.threads):
        record = {"environment": harness.environment(options.threads), "fast": options.fast}
        record["times"] = [measure(n, options.repeats or 3) for n in sizes] if has_peer() else []
    with harness.pinned(1):
        record["coverage"] = [covered(case, n_sets) for case in cases()]
    report(record)
    harness.save("jackknife", record, draw(record))


def has_peer():
    """Return whether MAPIE is installed, with a notice where it is not."""
    try:
        import mapie.regression  # noqa: F401
    except ImportError:
        print("Notice: MAPIE is not installed and left out.")
        return False
    return True


def measure(n, repeats):
    """Return the seconds of both and the largest difference of their intervals, relative to their width."""
    X, y = make_data(np.random.default_rng(n), n, "normal")
    X_new, _ = make_data(np.random.default_rng(n + 1), N_NEW, "normal")
    calls = {OURS: partial(our_interval, X, y, X_new), PEER: partial(their_interval, X, y, X_new)}
    ours, theirs = (np.stack(call()) for call in calls.values())
    gap = float(np.abs(ours - theirs).max() / np.ptp(ours, axis=0).min())
    if gap > 1e-8:
        raise AssertionError(f"Intervals differ by {gap:.1e} of their width at n = {n}.")
    timings = harness.time_in_turn(calls | {"one Cholesky": harness.one_cholesky(n)}, repeats, warm_ups=0)
    return {"n": n, "gap": gap, "seconds": {name: t.as_dict() for name, t in timings.items()}}


def our_interval(X, y, X_new):
    """Return both ends, from one decomposition."""
    model = SpectralKernelRidge(ALPHA, gamma=GAMMA, fit_intercept=False)
    return model.fit(X, y).predict_interval(X_new, COVERAGE)


def their_interval(X, y, X_new):
    """Return both ends, from n fits."""
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(
        KernelRidge(alpha=ALPHA, kernel="rbf", gamma=GAMMA),
        confidence_level=COVERAGE,
        method="plus",
        cv=LeaveOneOut(),
    )
    return model.fit_conformalize(X, y).predict_interval(X_new)[1][:, :, 0].T


def make_data(rng, n, noise):
    """Return a step and a wave of one input, with normal noise, heavy tails, or noise that grows with x."""
    x = rng.uniform(-3, 3, n)
    draws = {"normal": rng.normal(size=n), "heavy tails": rng.standard_t(2, n), "growing": rng.normal(size=n)}
    size = np.exp(0.7 * x) if noise == "growing" else 1.0
    return x[:, None], np.sin(2 * x) + 2.0 * (x > 0) + 0.3 * size * draws[noise]


def cases():
    """Yield noise, kernel and number of rows."""
    yield from ((noise, kernel, 50) for noise in ("heavy tails", "growing") for kernel in KERNELS)


def covered(case, n_sets):
    """Return the share of new observations within intervals of both estimators, and its standard error."""
    noise, kernel, n = case
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(n_sets):
        (X, y), (X_new, y_new) = make_data(rng, n, noise), make_data(rng, N_NEW, noise)
        ends = [model.fit(X, y).predict_interval(X_new, COVERAGE, **how) for model, how in models(kernel)]
        shares.append([((lower <= y_new) & (y_new <= upper)).mean() for lower, upper in ends])
    mean, spread = np.mean(shares, axis=0), np.std(shares, axis=0) / np.sqrt(n_sets)
    named = zip(("ridge", "process", "process, normal"), mean, spread, strict=True)
    return {"noise": noise, "kernel": kernel, "n": n, "covered": {name: [m, s] for name, m, s in named}}


def models(kernel):
    """Return tuned estimators, and how their intervals are made; the last rests on its model."""
    of_process, of_ridge = KERNELS[kernel]
    process = SpectralGPRegressor(of_process, optimizer=None)
    jackknife = {"method": "jackknife+"}
    return (SpectralKernelRidge(**of_ridge), jackknife), (process, jackknife), (process, {})


def report(record):
    """Print the tables and the verdicts."""
    rows = []
    for row in record["times"]:
        ours, theirs, unit = (row["seconds"][name]["median"] for name in (OURS, PEER, "one Cholesky"))
        rows.append([str(row["n"]), f"{theirs / ours:.0f}", f"{ours / unit:.1f}", f"{row['gap']:.0e}"])
    if rows:
        header = ["rows", "MAPIE / skspectral", "skspectral / one Cholesky", "largest difference / width"]
        harness.print_table(f"Time of fit and intervals at {N_NEW} points", header, rows)
    rows = [
        [row["noise"], row["kernel"], *(f"{m:.1%} +- {s:.1%}" for m, s in row["covered"].values())]
        for row in record["coverage"]
    ]
    header = ["noise", "kernel", *record["coverage"][0]["covered"]]
    harness.print_table(f"Coverage of nominal {COVERAGE:.0%} intervals", header, rows)
    worst = min(row["covered"][name][0] for row in record["coverage"] for name in ("ridge", "process"))
    record["rows"] = [
        harness.entry(
            f"n = {r['n']}", "MAPIE / ours", r["seconds"][PEER]["median"] / r["seconds"][OURS]["median"]
        )
        for r in record["times"]
    ]
    least = harness.entry("coverage", "least of all cases, nominal 0.9", worst, GUARANTEE, unit="")
    record["rows"].append(least)
    harness.print_entries("Jackknife+", record["rows"])


def draw(record):
    """Return the figure: coverage of each case, and times."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    places = np.arange(len(record["coverage"]))
    for i, (name, marker) in enumerate(zip(record["coverage"][0]["covered"], "osx", strict=True)):
        values = np.array([row["covered"][name] for row in record["coverage"]])
        at = places + 0.15 * (i - 1)
        left.errorbar(at, values[:, 0], 2 * values[:, 1], marker=marker, linestyle="", label=name)
    left.set_xticks(places, [f"{row['noise']}\n{row['kernel']}" for row in record["coverage"]])
    left.axhline(COVERAGE, color="black", linewidth=1, linestyle="--", label="nominal")
    left.axhline(GUARANTEE, color="black", linewidth=1, linestyle=":", label="guaranteed")
    left.set(ylabel="coverage of 90 % intervals", ylim=(0.6, 1.0))
    for name in (OURS, PEER) if record["times"] else ():
        n, seconds = zip(*((r["n"], r["seconds"][name]["median"]) for r in record["times"]), strict=True)
        right.loglog(n, seconds, marker="o", label=name)
    right.set(xlabel="rows", ylabel="seconds")
    for axes in (left, right):
        axes.grid(alpha=0.25)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
