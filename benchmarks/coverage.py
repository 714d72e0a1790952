"""Do 95 % predictive intervals cover 95 % of new observations when the variances come from 30 rows?

Data sets are drawn from the model (RBF kernel, constant mean, normal noise) at several noise levels; each
is fitted with variances maximised and averaged over (`inference="integrate"`), with the kernel's length
scale known and learned. The goal is that averaged intervals cover 93 to 97 % and maximised ones less.

A second study has 15 rows and a learned length, over which "integrate" averages as well, and looks at
intervals of new observations, of the function and of both variances (`--small` runs only this one).

Run `python -m benchmarks.coverage`, or with `--fast` for a smoke run.
"""

import argparse
import warnings

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from skspectral import KernelBoundWarning, SpectralGPRegressor

from . import harness

COVERAGE = 0.95
GOAL = (0.93, 0.97)
INFERENCES = ("maximize", "integrate")
NOISE_VARIANCES = (0.01, 0.1, 1.0)
N_SMALL, N_SMALL_NEW = 15, 40
N_ROWS, N_NEW, LENGTH_SCALE, SPAN = 30, 100, 1.0, 10.0


def main(argv=None):
    """Simulate, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="smoke run: 10 data sets")
    parser.add_argument("--small", action="store_true", help="only the study of 15 rows")
    options = parser.parse_args(argv)
    n_sets = 10 if options.fast else 200
    with harness.pinned(1):
        report_small({noise: simulate_small(n_sets // 2, noise) for noise in NOISE_VARIANCES})
        if options.small:
            return
        for learned in (False, True):
            report(n_sets, learned, {noise: simulate(n_sets, noise, learned) for noise in NOISE_VARIANCES})


def simulate(n_sets, noise_var, learned=False, seed=0):
    """Return per inference the coverage and the mean width of the intervals of each data set, (n_sets, 2)."""
    rng = np.random.default_rng(seed)
    results = {inference: [] for inference in INFERENCES}
    for _ in range(n_sets):
        X, y, X_new, y_new = draw(rng, noise_var)
        for inference in INFERENCES:
            lower, upper = fit(X, y, inference, learned).predict_interval(X_new, COVERAGE)
            inside = (lower <= y_new) & (y_new <= upper)
            results[inference].append([inside.mean(), (upper - lower).mean()])
    return {inference: np.array(rows) for inference, rows in results.items()}


def simulate_small(n_sets, noise_var, seed=0):
    """Return per inference what is covered: observations, function and both variances, (n_sets, 4)."""
    rng = np.random.default_rng(seed)
    results = {inference: [] for inference in INFERENCES}
    for _ in range(n_sets):
        X, y, X_new, y_new, f_new = draw_with_function(rng, noise_var, N_SMALL, N_SMALL_NEW)
        for inference in INFERENCES:
            model = fit(X, y, inference, learned=True)
            covered = [
                within(model.predict_interval(X_new, COVERAGE, include_noise=noise), truth).mean()
                for noise, truth in ((True, y_new), (False, f_new))
            ]
            noise, signal = variance_intervals(model)
            results[inference].append([*covered, within(noise, noise_var), within(signal, 1.0)])
    return {inference: np.array(rows, dtype=float) for inference, rows in results.items()}


def variance_intervals(model):
    """Return the intervals of both variances: posterior quantiles, or of the profile likelihood."""
    if model.variance_posterior_ is None:
        uncertainty = model.variance_uncertainty(COVERAGE)[0]
        return uncertainty.noise_interval, uncertainty.signal_interval
    posterior = model.variance_posterior_[0]
    return posterior.noise_interval(COVERAGE), posterior.signal_interval(COVERAGE)


def within(interval, truth):
    """Return whether the truth lies in an interval."""
    lower, upper = interval
    return (lower <= truth) & (truth <= upper)


def draw(rng, noise_var, n=N_ROWS, n_new=N_NEW):
    """Return a training and a test set of one draw from the model, signal variance 1."""
    return draw_with_function(rng, noise_var, n, n_new)[:4]


def draw_with_function(rng, noise_var, n, n_new):
    """Return the same, and the function at the new points."""
    X = rng.uniform(0, SPAN, (n + n_new, 1))
    K = np.exp(-0.5 * ((X - X.T) / LENGTH_SCALE) ** 2)
    f = rng.multivariate_normal(np.full(n + n_new, 3.0), K, check_valid="ignore", method="eigh")
    y = f + rng.normal(0, np.sqrt(noise_var), n + n_new)
    return X[:n], y[:n], X[n:], y[n:], f[n:]


def fit(X, y, inference, learned):
    """Return the fitted model, its length scale the true one or learned."""
    model = SpectralGPRegressor(
        RBF(LENGTH_SCALE), optimizer="default" if learned else None, inference=inference
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelBoundWarning)  # pure noise has no length scale
        return model.fit(X, y)


def report_small(results):
    """Print what is covered at every noise level and in all, with standard errors over data sets."""
    rows = []
    for inference in INFERENCES:
        every = {f"{noise:g}": by_inference[inference] for noise, by_inference in results.items()}
        every["all"] = np.concatenate(list(every.values()))
        for noise, values in every.items():
            spread = values.std(axis=0) / np.sqrt(len(values))
            cells = [f"{m:.1%} +- {s:.1%}" for m, s in zip(values.mean(axis=0), spread, strict=True)]
            rows.append([inference, noise, *cells])
    n_sets = sum(len(by_inference["integrate"]) for by_inference in results.values())
    title = f"{COVERAGE:.0%} intervals, {n_sets} data sets of {N_SMALL} rows, length scale learned"
    columns = ["inference", "noise variance", "observations", "function", "noise variance", "signal variance"]
    harness.print_table(title, columns, rows)


def report(n_sets, learned, results):
    """Print coverage (mean, its standard error over data sets) and width for every noise level."""
    rows = []
    for noise_var, by_inference in results.items():
        for inference, values in by_inference.items():
            (coverage, width), spread = values.mean(axis=0), values[:, 0].std() / np.sqrt(n_sets)
            rows.append([inference, f"{noise_var:g}", f"{coverage:.2%}", f"{spread:.2%}", f"{width:.3f}"])
    for inference in INFERENCES:
        pooled = np.concatenate([by_inference[inference] for by_inference in results.values()])
        spread = pooled[:, 0].std() / np.sqrt(len(pooled))
        rows.append(
            [inference, "all", f"{pooled[:, 0].mean():.2%}", f"{spread:.2%}", f"{pooled[:, 1].mean():.3f}"]
        )
    kind = "learned" if learned else "known"
    title = f"{COVERAGE:.0%} intervals, {n_sets} data sets of {N_ROWS} rows, length scale {kind}"
    harness.print_table(title, ["inference", "noise variance", "covers", "+-", "width"], rows)


if __name__ == "__main__":
    main()
