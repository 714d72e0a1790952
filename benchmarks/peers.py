"""Other libraries behind the same few verbs; those that are not installed are left out with a notice."""

import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

__all__ = ["fit_gpr", "fit_gpytorch", "fit_himalaya", "kernel_of", "missing_peers"]

LENGTH_START = 1.0


def missing_peers():
    """Return the names of optional peers that cannot be imported."""
    missing = []
    for name in ("torch", "gpytorch", "himalaya"):
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    return missing


def kernel_of(n_inputs, *, ard, fixed_length=None):
    """Return ConstantKernel * RBF + WhiteKernel, the common model."""
    length = fixed_length if fixed_length is not None else LENGTH_START
    length = np.full(n_inputs, length) if ard else length
    bounds = "fixed" if fixed_length is not None else (1e-5, 1e5)
    return ConstantKernel(1.0) * RBF(length, bounds) + WhiteKernel(1.0)


def fit_gpr(X, y, kernel):
    """Return a fitted scikit-learn GPR; its warnings about bounds are not the question here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GaussianProcessRegressor(kernel).fit(X, y)


def fit_gpytorch(X, y, *, ard, threads):
    """Return the log likelihood that GPyTorch's exact GP reaches by L-BFGS from the same start."""
    import gpytorch
    import torch

    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float64)
    X, y = torch.tensor(X), torch.tensor(y)

    class Model(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1] if ard else None)
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    model = Model()
    model.likelihood.noise = 1.0
    model.covar_module.outputscale = 1.0
    model.covar_module.base_kernel.lengthscale = LENGTH_START
    model.train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=100, line_search_fn="strong_wolfe", tolerance_change=1e-7
    )

    def closure():
        optimizer.zero_grad()
        loss = -marginal(model(X), y)
        loss.backward()
        return loss

    with gpytorch.settings.fast_computations(False, False, False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer.step(closure)
        return -float(closure()) * len(y)


def fit_himalaya(X, Y, gamma):
    """Return himalaya's KernelRidgeCV with 30 alphas and 5 folds."""
    from himalaya.kernel_ridge import KernelRidgeCV

    model = KernelRidgeCV(
        alphas=np.logspace(-5, 3, 30), kernel="rbf", kernel_params={"gamma": gamma}, cv=5, warn=False
    )
    return model.fit(X, Y)
