"""A Gaussian process before it has seen data."""

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel
from sklearn.utils import check_array, check_random_state

from ..kernels.parts import split_kernel

__all__ = ["PriorProcess"]


@dataclass(frozen=True)
class PriorProcess:
    """N(0, kernel), with its white noise kept apart.

    Attributes
    ----------
    latent : Kernel
        The kernel without white noise.
    noise_var : float
        The white noise.
    """

    latent: Kernel
    noise_var: float

    @classmethod
    def of(cls, kernel):
        """Return the prior of a kernel as the user gave it; None is scikit-learn's RBF of unit length."""
        if kernel is None:
            return cls(ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed"), 0.0)
        parts = split_kernel(kernel)
        signal = 1.0 if parts.signal_start is None else parts.signal_start
        return cls(ConstantKernel(signal) * parts.core, parts.noise_start or 0.0)

    def predict(self, X, return_std=False, return_cov=False, include_noise=True):
        """Return the mean, and on request the standard deviation or covariance."""
        X, noise = self._validated(X), include_noise * self.noise_var
        mean = np.zeros(len(X))
        if return_cov:
            return mean, self.latent(X) + noise * np.eye(len(X))
        return (mean, np.sqrt(self.latent.diag(X) + noise)) if return_std else mean

    def sample_y(self, X, n_samples, random_state, include_noise):
        """Return draws, (n_new, n_samples)."""
        mean, covariance = self.predict(X, return_cov=True, include_noise=include_noise)
        rng = check_random_state(random_state)
        return rng.multivariate_normal(mean, covariance, n_samples, check_valid="ignore").T

    def _validated(self, X):
        if self.latent.requires_vector_input:
            return check_array(X, dtype=np.float64)
        return check_array(X, dtype=None, ensure_2d=False)
