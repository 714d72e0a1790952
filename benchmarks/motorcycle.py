"""How good are the predictive distributions on the motorcycle data?

By 10-fold cross-validation: scikit-learn's GaussianProcessRegressor against SpectralGPRegressor with its
variances maximised and averaged over, and HeteroscedasticGPRegressor, whose noise changes with time, all with
RBF kernels whose length scales are learned in every fold. NLPD and coverage take predictions to be normal
with the mean and standard deviation of each model. Numbers are means over random splits into ten folds, with
the standard error over splits.

By leave-one-out, as in Cawley & Talbot (2005), Table I: SSE, the sum of squared residuals r, and
E_D = sum(log sd + r^2/(2 sd^2)), sd that of a new observation. Kernels are learned by the evidence of all
rows, as there, and mean and noise are fitted again without each row. Their models of changing noise (HKRR)
follow, as published; W is the number of kernel functions of mean and log noise (Table II), for ours the rank
of the noise's factor and all rows for the mean; seconds are of learning, theirs on a machine of 2005.

Run `python -m benchmarks.motorcycle`, or with `--fast` for a single split and every tenth row left out.
"""

import argparse
import time

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import KFold, cross_validate

from skspectral import (
    HeteroscedasticGPRegressor,
    SpectralGPRegressor,
    interval_coverage_scorer,
    load_motorcycle,
    neg_mean_log_loss,
)

from . import harness

N_FOLDS = 10
START = 5.0  # milliseconds, of the length scale
MODELS = {
    "GaussianProcessRegressor": GaussianProcessRegressor(
        ConstantKernel(1.0) * RBF(START) + WhiteKernel(1.0), normalize_y=True
    ),
    'SpectralGPRegressor, "maximize"': SpectralGPRegressor(RBF(START)),
    'SpectralGPRegressor, "integrate"': SpectralGPRegressor(RBF(START), inference="integrate"),
    "HeteroscedasticGPRegressor": HeteroscedasticGPRegressor(RBF(START), noise_kernel=RBF(START)),
}
# Cawley & Talbot (2005), Tables I and II: SSE, E_D, kernel functions of mean and log noise, seconds.
PUBLISHED = {
    "HKRR, cross-validation": (72100, 439.70, 25, 32, 176.92),
    "HKRR, Bayesian": (71269, 462.39, 18, 6, 12.58),
    "HKRR, hybrid": (74513, 453.58, 15, 14, 154.11),
}
LEFT_OUT = 'SpectralGPRegressor, "maximize"', "HeteroscedasticGPRegressor"
SCORES = {"nlpd": neg_mean_log_loss, "r2": "r2", "coverage": interval_coverage_scorer}


def main(argv=None):
    """Cross-validate and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="smoke run: one split into folds")
    fast = parser.parse_args(argv).fast
    n_splits, every = (1, 10) if fast else (10, 1)
    X, y = load_motorcycle(return_X_y=True)
    with harness.pinned(1):
        results = {name: scores(model, X, y, n_splits) for name, model in MODELS.items()}
        left_out = {name: leave_one_out(MODELS[name], X, y, every) for name in LEFT_OUT}
    report(results, n_splits)
    report_leave_one_out(left_out, every)


def scores(model, X, y, n_splits):
    """Return the mean over folds of every score, for each random split, as {score: (n_splits,)}."""
    found = {name: [] for name in SCORES}
    for seed in range(n_splits):
        folds = KFold(N_FOLDS, shuffle=True, random_state=seed)
        result = cross_validate(model, X, y, scoring=SCORES, cv=folds, error_score="raise")
        for name, values in found.items():
            values.append(result[f"test_{name}"].mean())
    return {name: np.array(values) for name, values in found.items()}


def report(results, n_splits):
    """Print one row for each model; NLPD with its sign restored, lower is better."""
    rows = [
        [name, _with_error(-s["nlpd"], ".3f"), _with_error(s["r2"], ".3f"), _with_error(s["coverage"], ".1%")]
        for name, s in results.items()
    ]
    title = f"Motorcycle data, {N_FOLDS}-fold cross-validation, {n_splits} split(s)"
    harness.print_table(title, ["model", "NLPD", "R^2", "covered by 95 % intervals"], rows)


def leave_one_out(model, X, y, every):
    """Return SSE, E_D, kernel functions of mean and noise, and seconds of learning."""
    begin = time.perf_counter()
    learned = clone(model).fit(X, y)
    seconds = time.perf_counter() - begin
    found = []
    for i in range(0, len(y), every):
        rest = np.arange(len(y)) != i
        mean, std = with_learned_kernels(learned).fit(X[rest], y[rest]).predict(X[[i]], return_std=True)
        found.append((y[i] - mean[0], std[0]))
    r, std = np.array(found).T
    return r @ r, np.sum(np.log(std) + 0.5 * (r / std) ** 2), len(y), _noise_functions(learned), seconds


def with_learned_kernels(model):
    """Return an unfitted model that keeps the kernels of a fitted one."""
    kernel = ConstantKernel(model.signal_variance_) * model.kernel_
    if not hasattr(model, "noise_kernel_"):
        noise = WhiteKernel(model.noise_variance_, "fixed")
        kernel = ConstantKernel(model.signal_variance_, "fixed") * model.kernel_ + noise
        return clone(model).set_params(kernel=kernel, optimizer=None)
    noise_kernel = ConstantKernel(model.noise_signal_variance_) * model.noise_kernel_
    return clone(model).set_params(kernel=kernel, noise_kernel=noise_kernel, optimizer=None)


def _noise_functions(model):
    return model.noise_rank_ if hasattr(model, "noise_rank_") else 1


def report_leave_one_out(results, every):
    """Print ours above what was published."""
    rows = [
        [name, f"{sse:,.0f}", f"{e_d:.2f}", f"{n_mean}", f"{n_noise}", f"{seconds:.2f}"]
        for name, (sse, e_d, n_mean, n_noise, seconds) in {**results, **PUBLISHED}.items()
    ]
    title = "Motorcycle data, leave-one-out" + (f" of every {every}th row (ours)" if every > 1 else "")
    harness.print_table(title, ["model", "SSE", "E_D", "W mean", "W noise", "seconds"], rows)


def _with_error(values, style):
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
    return f"{values.mean():{style}}" + (f" +- {error:{style}}" if error is not None else "")


if __name__ == "__main__":
    main()
