"""How much longer does a fit take with 200 outputs than with one?

All outputs share the decomposition of the kernel matrix and each gets noise and signal variances of
its own, so the goal is at most 1.3 times the fit of a single output (n = 2000, 5 inputs, fixed RBF).
Before timing, the joint fit is checked to equal separate fits.

Run `python -m benchmarks.bench_outputs`, or with `--fast` for a smoke run.
"""

from functools import partial

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import SpectralGPRegressor, SpectralKernelRidge

from . import harness

GOAL = 1.3
LENGTH_SCALE = 2.0
ESTIMATORS = {
    "SpectralGPRegressor": SpectralGPRegressor(RBF(LENGTH_SCALE), optimizer=None),
    "SpectralKernelRidge": SpectralKernelRidge(gamma=0.5 / LENGTH_SCALE**2),
}
COLOURS = {"SpectralGPRegressor": "#0072B2", "SpectralKernelRidge": "#D55E00"}


def main(argv=None):
    """Check, time, print, save."""
    options = harness.parse_arguments(__doc__, argv)
    n, outputs = (300, (1, 20)) if options.fast else (2000, (1, 10, 50, 100, 200))
    repeats = options.repeats or (3 if options.fast else 7)
    X, Y = make_data(n, outputs[-1])
    with harness.pinned(options.threads):
        record = {"environment": harness.environment(options.threads), "fast": options.fast}
        for estimator in ESTIMATORS.values():
            check_same_as_separate(estimator, X, Y, columns=(0, outputs[-1] - 1))
        timings = measure(X, Y, outputs, repeats)
    record |= {"n": n, "outputs": outputs, "seconds": {name: t.as_dict() for name, t in timings.items()}}
    record["goals"] = report(n, outputs, timings, options.fast)
    harness.save("outputs", record, draw(n, outputs, timings))


def make_data(n, m):
    """Return 5 inputs and m outputs: different smooth functions with noise from 0.05 to 1."""
    rng = np.random.default_rng(n)
    X = rng.uniform(-2, 2, (n, 5))
    functions = np.sin(X @ rng.normal(size=(5, m)) + rng.uniform(0, 6, m))
    return X, functions + rng.normal(size=(n, m)) * np.geomspace(0.05, 1.0, m)


def check_same_as_separate(estimator, X, Y, columns):
    """Assert that a joint fit gives each output what a fit of its own gives."""
    joint = estimator.fit(X, Y)
    prediction, noise = joint.predict(X), joint.noise_variance_
    for j in columns:
        alone = estimator.fit(X, Y[:, j])
        np.testing.assert_allclose(alone.noise_variance_, noise[j], rtol=1e-6)
        np.testing.assert_allclose(alone.predict(X), prediction[:, j], rtol=1e-6, atol=1e-6)


def measure(X, Y, outputs, repeats):
    """Return the timings of every estimator and number of outputs, and of one Cholesky."""
    cases = {
        _case(name, m): partial(estimator.fit, X, Y[:, :m])
        for name, estimator in ESTIMATORS.items()
        for m in outputs
    }
    return harness.time_in_turn(cases | {"one Cholesky": harness.one_cholesky(len(X))}, repeats)


def _case(name, m):
    return f"{name}/{m}"


def _ratios(timings, name, outputs):
    """Return times relative to one output, (3, len(outputs)): lower quartile, median, upper quartile."""
    one = timings[_case(name, outputs[0])].median
    of_each = [timings[_case(name, m)] for m in outputs]
    return np.array([[t.quartiles[0], t.median, t.quartiles[1]] for t in of_each]).T / one


def report(n, outputs, timings, fast):
    """Print the table and return the verdicts."""
    unit, rows, goals = timings["one Cholesky"].median, [], {}
    for name in ESTIMATORS:
        for m, (low, median, high) in zip(outputs, _ratios(timings, name, outputs).T, strict=True):
            seconds = timings[_case(name, m)].median
            rows.append([name, str(m), f"{median:.2f}", f"{low:.2f} to {high:.2f}", f"{seconds / unit:.1f}"])
        goals[name] = {"limit": GOAL, "value": float(median), "verdict": harness.verdict(median, GOAL)}
    header = ["fit", "outputs", "/ one output", "quartiles", "/ one Cholesky"]
    harness.print_table(f"Time of a fit at n = {n}", header, rows)
    print()
    for name, goal in goals.items():
        note = " (smoke run)" if fast else ""
        print(f"Goal: {name}, {outputs[-1]} outputs at most {GOAL} times one: {goal['value']:.2f}, ", end="")
        print(f"{goal['verdict']}{note}")
    return goals


def draw(n, outputs, timings):
    """Return the figure: time relative to one output against the number of outputs."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for (name, colour), marker in zip(COLOURS.items(), "os", strict=True):
        low, median, high = _ratios(timings, name, outputs)
        axes.plot(outputs, median, color=colour, marker=marker, label=name)
        axes.fill_between(outputs, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.axhline(GOAL, color="black", linewidth=1, linestyle="--", label=f"goal at {outputs[-1]} outputs")
    axes.set(xlabel="outputs", ylabel="time of a fit / fit of one output", title=f"n = {n}", ylim=(0, None))
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="lower right")
    return figure


if __name__ == "__main__":
    main()
