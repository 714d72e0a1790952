"""Five-fold comparison on scikit-learn's diabetes data: scores and fit times
==========================================================================

442 patients, 10 inputs, disease progression after a year. Every model sits in a pipeline behind a
StandardScaler and sees the same folds. KernelRidge has no intercept, so its targets are centred for
it; its two parameters are found by a grid search, as is usual.
"""

import warnings

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skspectral import SpectralGPRegressor, SpectralKernelRidge

GAMMAS = [0.003, 0.01, 0.03, 0.1]
ALPHAS = [0.01, 0.1, 0.3, 1.0, 10.0]


def make_models():
    """Return the models to compare, by name."""
    kernel = ConstantKernel() * RBF(length_scale=3.0) + WhiteKernel()
    ridge_grid = GridSearchCV(KernelRidge(kernel="rbf"), {"gamma": GAMMAS, "alpha": ALPHAS})
    return {
        "SpectralGPRegressor()": SpectralGPRegressor(),
        "GaussianProcessRegressor": GaussianProcessRegressor(kernel, normalize_y=True),
        "SpectralKernelRidge()": SpectralKernelRidge(),
        "SpectralKernelRidge, gamma by grid": GridSearchCV(SpectralKernelRidge(), {"gamma": GAMMAS}),
        "KernelRidge, gamma and alpha by grid": TransformedTargetRegressor(
            ridge_grid, transformer=StandardScaler()
        ),
    }


def compare(models, X, y):
    """Return the cross-validation results of every model on the same folds."""
    folds = KFold(n_splits=5, shuffle=True, random_state=0)
    results = {}
    for name, model in models.items():
        with warnings.catch_warnings():
            # GaussianProcessRegressor remarks on parameters that end close to their bounds
            warnings.simplefilter("ignore", ConvergenceWarning)
            results[name] = cross_validate(make_pipeline(StandardScaler(), model), X, y, cv=folds)
    return results


def print_table(results):
    """Print mean and spread of R^2 over the folds, and the median time of a fit."""
    width = max(len(name) for name in results)
    print(f"{'model'.ljust(width)}  {'R^2 (mean +- std)':>17}  {'fit, ms':>8}")
    for name, result in results.items():
        score, seconds = result["test_score"], np.median(result["fit_time"])
        r2 = f"{score.mean():.3f} +- {score.std():.3f}"
        print(f"{name.ljust(width)}  {r2:>17}  {1000 * seconds:8.1f}")


def show_one_fit(X, y):
    """Print what a single fit found."""
    gp = make_pipeline(StandardScaler(), SpectralGPRegressor()).fit(X, y)[-1]
    noise, signal = np.sqrt(gp.noise_variance_), np.sqrt(gp.signal_variance_)
    print(
        f"\nAll rows: {gp.kernel_}, noise std {noise:.1f}, signal std {signal:.1f} ({gp.tuning_[0].status})."
    )
    mean, std = gp.loo_predict(return_std=True)
    inside = np.mean(np.abs(y - mean) < 1.96 * std)
    print(f"Leave-one-out: {inside:.1%} of the targets lie inside their 95% interval.")


def main():
    """Load, compare, print."""
    X, y = load_diabetes(return_X_y=True)
    print(f"Diabetes data: {X.shape[0]} rows, {X.shape[1]} inputs, 5-fold cross-validation\n")
    with threadpool_limits(limits=1):  # matrices this small gain nothing from threads
        print_table(compare(make_models(), X, y))
        show_one_fit(X, y)


if __name__ == "__main__":
    main()
