"""What learning is about where the noise changes with the inputs: the kernels of mean and log noise."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..inference.changing_noise import ChangingNoise
from ..kernels.algebra import contract
from ..kernels.gram import make_gram
from ..kernels.parts import parameter_names
from ..linalg.curved import DensePrior, FactorPrior
from ..linalg.factors import pivoted_cholesky
from .latent_task import LatentTask

__all__ = ["MeanProcess", "NoiseTask"]

# Trace of what the factor of the log noise's kernel misses, signal variance included: beside curvatures of at
# most 2 it moves the log evidence by no more than that.
_TAU = 1e-9
# Squared differences, in squared units of the targets, that these are not taken to resolve.
RESOLUTION = 1e-10
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class MeanProcess:
    """The mean: its kernel and signal variance are to the log noise what parameters are to a likelihood.

    Attributes
    ----------
    kernel : Kernel
        Core kernel.
    signal_var : float
        Its factor, in squared units of the targets.
    signal_bounds : tuple of float
        Bounds of the factor, equal where it is fixed.
    has_constant : bool
        Whether it has an unpenalised constant.
    X : ndarray or None
        The rows, where there are any yet.
    """

    kernel: object
    signal_var: float = 1.0
    signal_bounds: tuple = (1e-5, 1e5)
    has_constant: bool = True
    X: object = None

    is_log_concave: ClassVar[bool] = False
    has_units: ClassVar[bool] = False

    @property
    def learns_signal(self):
        """Whether the signal variance is learned."""
        return self.signal_bounds[0] < self.signal_bounds[1]

    @property
    def names(self):
        """Names of what is learned."""
        return [*(["signal_variance"] if self.learns_signal else []), *parameter_names(self.kernel)]

    @property
    def theta(self):
        """Logs of what is learned."""
        return np.concatenate([np.log([self.signal_var] * self.learns_signal), self.kernel.theta])

    @property
    def bounds(self):
        """Bounds of theta."""
        signal = np.log([self.signal_bounds] * self.learns_signal).reshape(-1, 2)
        return np.concatenate([signal, self.kernel.bounds.reshape(-1, 2)])

    def with_theta(self, theta):
        """Return the mean with other parameters."""
        first = int(self.learns_signal)
        signal = float(np.exp(theta[0])) if first else self.signal_var
        return replace(self, kernel=self.kernel.clone_with_theta(theta[first:]), signal_var=signal)

    def prior(self):
        """Return K_mu at the rows, its diagonal larger by what rounding needs where noise is absent."""
        K = make_gram(self.kernel).square(self.X)
        K.flat[:: len(K) + 1] += len(K) * _EPS * np.diag(K).max()
        return DensePrior(K, self.signal_var)

    def gradient(self, G, prior):
        """Return the derivatives by theta from those by K_mu, (n, n)."""
        by_signal = [np.vdot(G, prior.K)] if self.learns_signal else []
        by_kernel = contract(self.kernel, self.signal_var * G, self.X) if self.kernel.n_dims else []
        return np.concatenate([by_signal, by_kernel])


@dataclass(frozen=True)
class NoiseTask(LatentTask):
    """A `LatentTask` whose latent function is the log noise, and whose likelihood is a `MeanProcess`.

    Targets are in a unit of their own, `unit` in those of the user; weights are relative precisions.
    """

    @property
    def log_unit(self):
        """What the log evidence of targets in the user's unit is less by: a density of n - q numbers."""
        return (len(self) - int(self.likelihood.has_constant)) * np.log(self.unit)

    @property
    def log_units(self):
        """Logs of the units of the outer variables: the signal variance of the mean has one."""
        units = np.zeros(len(self.start))
        if self.likelihood.learns_signal:
            units[len(units) - len(self.likelihood.theta)] = 2.0 * np.log(self.unit)
        return units

    def observations(self, likelihood):
        """Return the targets around a mean that is to be integrated out."""
        mean, data = replace(likelihood, X=self.data.X), self.data
        weight = np.ones(len(data)) if data.weight is None else data.weight
        return ChangingNoise(mean, mean.prior(), data.Y[:, 0], weight, mean.has_constant, RESOLUTION)

    def _prior(self, point, observations, start, square):
        """Return the prior of the log noise by a factor, exact to rounding."""
        gram = make_gram(self.kernel_at(point.theta))
        factor = pivoted_cholesky(gram, self.data.X, tau=_TAU / point.signal_var)
        return FactorPrior(factor.Phi, point.signal_var, factor.L), factor
