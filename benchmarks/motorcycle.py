"""How good are the predictive distributions on the motorcycle data, by 10-fold cross-validation?

scikit-learn's GaussianProcessRegressor against SpectralGPRegressor with its variances maximised and averaged
over, all with an RBF kernel whose length scale is learned in every fold. NLPD and coverage take predictions
to be normal with the mean and standard deviation of each model. Numbers are means over random splits into ten
folds, with the standard error over splits.

Run `python -m benchmarks.motorcycle`, or with `--fast` for a single split.
"""

import argparse

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import KFold, cross_validate

from skspectral import SpectralGPRegressor, interval_coverage_scorer, load_motorcycle, neg_mean_log_loss

from . import harness

N_FOLDS = 10
START = 5.0  # milliseconds, of the length scale
MODELS = {
    "GaussianProcessRegressor": GaussianProcessRegressor(
        ConstantKernel(1.0) * RBF(START) + WhiteKernel(1.0), normalize_y=True
    ),
    'SpectralGPRegressor, "maximize"': SpectralGPRegressor(RBF(START)),
    'SpectralGPRegressor, "integrate"': SpectralGPRegressor(RBF(START), inference="integrate"),
}
SCORES = {"nlpd": neg_mean_log_loss, "r2": "r2", "coverage": interval_coverage_scorer}


def main(argv=None):
    """Cross-validate and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fast", action="store_true", help="smoke run: one split into folds")
    n_splits = 1 if parser.parse_args(argv).fast else 10
    X, y = load_motorcycle(return_X_y=True)
    with harness.pinned(1):
        results = {name: scores(model, X, y, n_splits) for name, model in MODELS.items()}
    report(results, n_splits)


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


def _with_error(values, style):
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
    return f"{values.mean():{style}}" + (f" +- {error:{style}}" if error is not None else "")


if __name__ == "__main__":
    main()
