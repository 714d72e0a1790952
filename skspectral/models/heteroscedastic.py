"""Gaussian process regression with noise whose size changes with the inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel
from sklearn.utils.validation import check_is_fitted, validate_data

from ..decomposition.data import Data
from ..decomposition.plan import Plan
from ..inference.changing_noise import changing_noise, interval_over_noise
from ..kernels.gram import make_gram
from ..kernels.parts import split_kernel
from ..learning.latent_task import LatentFit, LatentTask, Point
from ..learning.noise_task import MeanProcess, NoiseTask
from ..support.atomic import all_or_nothing
from ..support.intervals import check_coverage, normal_interval
from ..support.shapes import as_columns
from ..support.types import FloatArray, Method, Objects, RandomState
from ..support.validation import check_weights, with_checked_parameters
from .bounds import warn_at_kernel_bounds
from .latent import LatentFitted, LatentProcess, starting_point

__all__ = ["HeteroscedasticGPRegressor"]


class HeteroscedasticGPRegressor(RegressorMixin, LatentProcess):
    """Gaussian process regression whose noise has a size that changes smoothly with the inputs.

    The mean and the logarithm of the noise's standard deviation are both Gaussian processes. The mean is
    integrated out, the log noise is approximated by a normal distribution around its most probable values,
    and the kernels of both are learned by the evidence.

    Parameters
    ----------
    kernel : sklearn kernel or None, default=None
        Kernel of the mean: any of :mod:`sklearn.gaussian_process.kernels`. A ``ConstantKernel`` that
        multiplies it is the start (and the bounds) of the signal variance. A ``WhiteKernel`` that is added to
        it is left out: the noise is what `noise_kernel` describes. None is an RBF whose length scale is the
        root of the summed variances of the inputs.
    noise_kernel : sklearn kernel or None, default=None
        Kernel of the log noise, likewise; its constant is the variance of the log standard deviation. A
        ``WhiteKernel`` in it lets the noise of every row differ from that of its neighbours.
    fit_intercept : bool, default=True
        Whether the mean has an unpenalised constant, which is integrated out. The log noise always has one.
    optimizer : {"default", "fmin_l_bfgs_b"}, callable or None, default="default"
        How kernels and signal variances are learned, see :class:`SpectralGPClassifier`. None keeps them, a
        signal variance that was not given then is 1 for the log noise and the variance of y for the mean.
    n_restarts_optimizer : int, default=0
        Further starts, drawn log-uniformly within the bounds; the best end is kept.
    method : {"auto", "exact", "low_rank"}, default="auto"
        "exact" forms kernel matrices, O(n^3) for every step. "low_rank" has factors for both kernels,
        O(n r^2 s) for ranks r of the mean's and s of the log noise's. "auto" uses factors for 1000 rows or
        more where small ones give the log evidence to about 1e-3, and where matrices cost too much (above
        5000 rows) the largest that are affordable, with a :class:`LowRankWarning`.
    rank : int, default=None
        Rank of both factors; None means the smallest that gives the log evidence to about 1e-3.
    max_iter : int, default=100
        Limit of Newton's steps towards the most probable noise.
    random_state : int, RandomState instance or None, default=None
        Source of the restarts; nothing else is random.
    verbose : int, default=0
        1 prints a line for every step of learning.

    Attributes
    ----------
    kernel_ : Kernel
        The learned kernel of the mean, without its signal variance.
    noise_kernel_ : Kernel
        The learned kernel of the log noise, without its signal variance. Where the noise is constant, its
        parameters or its signal variance end at a bound, and mean nothing.
    signal_variance_ : float
        The learned signal variance of the mean.
    noise_signal_variance_ : float
        The learned variance of the log standard deviation of the noise; about 0 where the noise is constant.
    intercept_ : float
        Constant of the mean; 0 with ``fit_intercept=False``.
    noise_intercept_ : float
        Constant of the log standard deviation of the noise.
    log_marginal_likelihood_value_ : float
        Approximate log evidence. Constants are integrated out, flat priors and the factor (2 pi)^1/2 of that
        of the log noise left out.
    mean_rank_ : int
        Number of kernel functions that the mean is made of: n for the matrix itself.
    noise_rank_ : int
        Number of kernel functions that the log noise is made of; beside a matrix for the mean, the rank of
        its kernel matrix to rounding.
    n_iter_ : int
        Newton steps to the most probable noise.
    n_evaluations_ : int
        How often the evidence was evaluated, on subsets of the rows too.
    X_train_, y_train_ : ndarray
        Training data of positive weight.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string column names.

    See Also
    --------
    SpectralGPRegressor : Constant noise, for many more rows.
    GeneralizedGPRegressor : Outliers rather than a noise that changes.

    Notes
    -----
    With kernel matrices O(n^3) for every step, and about ten of them in memory: for a few thousand rows.

    With factors C of the mean's kernel matrix and G of the log noise's, everything that is computed of them
    is exact and linear in n: D^1/2 (C C' + D)^-1 D^1/2 is the identity minus E E' with as many columns as C
    (and one for the constant), so that the coupling of all rows in the curvature, the squares of its entries,
    is a diagonal plus (E E') o (E E'), and G'W G follows from the sums of E_ia E_ib G_ik over rows. What C
    misses of the prior variance is added to the variance of the mean at its row: the density of y given the
    noise is then a lower bound of that of the kernel itself.

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral import HeteroscedasticGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 1, 80)[:, None]
    >>> y = np.sin(6 * X[:, 0]) + (0.02 + 0.5 * X[:, 0]) * rng.normal(size=80)
    >>> model = HeteroscedasticGPRegressor().fit(X, y)
    >>> quiet, loud = model.predict_noise_std([[0.0], [1.0]])
    >>> bool(loud > 5 * quiet)
    True
    """

    _parameter_constraints: dict = {
        "kernel": [Kernel, None],
        "noise_kernel": [Kernel, None],
        **{
            name: LatentProcess._parameter_constraints[name]
            for name in (
                "fit_intercept",
                "optimizer",
                "n_restarts_optimizer",
                "method",
                "rank",
                "max_iter",
                "random_state",
                "verbose",
            )
        },
    }

    kernel: Kernel | None
    _mean: LatentFitted

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        noise_kernel: Kernel | None = None,
        fit_intercept: bool = True,
        optimizer: Literal["default", "fmin_l_bfgs_b"] | Callable[..., Any] | None = "default",
        n_restarts_optimizer: int = 0,
        method: Method = "auto",
        rank: int | None = None,
        max_iter: int = 100,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.noise_kernel = noise_kernel
        self.fit_intercept = fit_intercept
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.method = method
        self.rank = rank
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @with_checked_parameters
    @all_or_nothing
    def fit(self, X: Objects, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn both kernels and find mean and noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or list of object
            Training inputs, three rows at least.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Relative precisions: row i has noise variance exp(2 l(x_i))/w_i; 0 leaves it out.

        Returns
        -------
        self : HeteroscedasticGPRegressor
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, y_numeric=True, ensure_min_samples=3, **self._input_rules)
        return self._fitted_to(*_present_rows(X, y, check_weights(sample_weight, X)))

    def _fitted_to(self, X, y, weight):
        scale = _Scale.of(y, weight, self.fit_intercept)
        task = self._noise_task(X, scale.standardised(y), weight, scale.unit)
        fit, n_evaluations = self._learned(task)
        task.warn_of_cost(fit)
        noise, mean = LatentFitted(task, fit, fit.approximation, None), _fitted_mean(task, fit)
        process = fit.point.likelihood
        return self._adopt(
            {
                **self._latent_attributes(noise, n_evaluations),
                "_mean": mean,
                "_scale": scale,
                "kernel_": clone(process.kernel),
                "noise_kernel_": clone(task.kernel_at(fit.point.theta)),
                "signal_variance_": process.signal_var * scale.unit**2,
                "noise_signal_variance_": fit.point.signal_var,
                "intercept_": float(scale.restored(mean.spread.mode.constants[0])) * self.fit_intercept,
                "noise_intercept_": float(fit.approximation.mode.constants[0] + np.log(scale.unit)),
                "mean_rank_": len(y) if mean.fit.factor is None else mean.fit.factor.rank,
                "noise_rank_": fit.factor.rank,
                "y_train_": y,
            }
        )

    def _noise_task(self, X, y, weight, unit):
        """Return what is learned."""
        names = getattr(self, "feature_names_in_", None)
        kernel = None if self.kernel is None else _without_white(self.kernel)
        process = MeanProcess(*starting_point(kernel, names, X, weight, unit), self.fit_intercept)
        core, start, bounds = starting_point(self.noise_kernel, names, X, weight)
        data = Data.with_intercept(X, as_columns(y), weight, True)
        plan = Plan(self.method, self.rank, couples_rows=True)
        plan.check(len(data))
        options = {"plan": plan, "max_iter": self.max_iter, "unit": unit}
        return NoiseTask(data, core, process, changing_noise, start, bounds, **options)

    def _warn_of_bounds(self, task, variables):
        """Tell of the mean's kernel alone: a noise kernel at a bound says that the noise is constant."""
        warn_at_kernel_bounds(task.point(variables).likelihood.kernel, are_ours=self.kernel is None)

    @property
    def _ranks_by(self):
        return "evidence of densities"

    def predict(
        self, X: Objects, return_std: bool = False, include_noise: bool = True
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict means and, on request, standard deviations.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs.
        return_std : bool, default=False
            Whether to return standard deviations too.
        include_noise : bool, default=True
            Whether these are of new observations, mean and noise uncertain, or of the mean alone.

        Returns
        -------
        mean : ndarray of shape (n_new,)
        std : ndarray of shape (n_new,)
            Only with `return_std`.

        Notes
        -----
        var y = v + exp(2 l + 2 u), where v is the variance of the mean and l and u are mean and variance of
        the log noise.
        """
        check_is_fitted(self, "_latent")
        X = self._validated(X)
        if not return_std:
            return self._scale.restored(self._mean.mean(X)[:, 0])
        mean, var = self._moments(self._mean, X)
        noise = self._noise_variance(*self._moments(self._latent, X)) if include_noise else 0.0
        return self._scale.restored(mean), self._scale.unit * np.sqrt(var + noise)

    def predict_noise_std(self, X: Objects) -> FloatArray:
        """Return the standard deviation of the noise, exp of the mean of its logarithm.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs.

        Returns
        -------
        ndarray of shape (n_new,)
        """
        check_is_fitted(self, "_latent")
        return self._scale.unit * np.exp(self._latent.mean(self._validated(X))[:, 0])

    def predict_interval(
        self, X: Objects, coverage: float = 0.95, include_noise: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Predict intervals with equal tails.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs.
        coverage : float, default=0.95
            Probability of each interval, strictly between 0 and 1.
        include_noise : bool, default=True
            Whether intervals are of new observations, averaged over the normal distribution of the log noise,
            or of the mean.

        Returns
        -------
        lower, upper : ndarray of shape (n_new,)
        """
        check_is_fitted(self, "_latent")
        coverage, X = check_coverage(coverage), self._validated(X)
        mean, var = self._moments(self._mean, X)
        if include_noise:
            log_mean, log_var = self._moments(self._latent, X)
            ends = interval_over_noise(mean, var, log_mean, log_var, coverage)
        else:
            ends = normal_interval(mean, np.sqrt(var), coverage)
        lower, upper = (self._scale.restored(end) for end in ends)
        return lower, upper

    def loo_predict(self, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict every training row from all the others, without refitting.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return the standard deviation of the left out observation too.

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,)
            Only with `return_std`.

        Notes
        -----
        Exact for the mean given the kernels and the noise, which still have seen the row: where the noise
        changes fast, the standard deviations are smaller than those of a refit without the row. The variance
        is 1/P_ii, with exp(2 l_i + 2 u_i) in the place of exp(2 l_i), and larger by what a factor of the mean
        misses.
        """
        check_is_fitted(self, "_latent")
        posterior = self._latent.spread
        mean, var = posterior.weighted_mean.leave_one_out()
        mean = self._scale.restored(mean)
        if not return_std:
            return mean
        given, weight = posterior.weighted_mean.D, posterior.observations.weight
        missed = 0.0 if posterior.observations.missed is None else posterior.observations.missed
        noise = self._noise_variance(posterior.mode.F[:, 0], posterior.covariances) / weight
        return mean, self._scale.unit * np.sqrt(np.maximum(var - given, 0.0) + missed + noise)

    def _moments(self, process, X):
        """Return means and variances (n_new,) of one of both processes, in the unit of the task."""
        diagonal = make_gram(process.task.kernel_at(process.fit.point.theta)).diagonal(X)
        mean, var = process.mean_and_variance(X, diagonal)
        return mean[:, 0], var

    @staticmethod
    def _noise_variance(mean, var):
        """Return E exp(2 l) of a normal l."""
        return np.exp(2.0 * (mean + var))


@dataclass(frozen=True)
class _Scale:
    """Where targets lie and how large they are: y = offset + unit z."""

    offset: float
    unit: float

    @classmethod
    def of(cls, y, weight, fit_intercept):
        """Return mean and standard deviation of targets; without an intercept they stay where they are."""
        largest = float(np.abs(y).max()) or 1.0  # squares of targets may be beyond all numbers
        offset = float(np.average(y / largest, weights=weight)) * largest if fit_intercept else 0.0
        spread = float(np.sqrt(np.average(((y - offset) / largest) ** 2, weights=weight))) * largest
        return cls(offset, spread if spread > np.finfo(np.float64).eps * largest else largest)

    def standardised(self, y):
        """Return z."""
        return (y - self.offset) / self.unit

    def restored(self, z):
        """Return y."""
        return self.offset + self.unit * z


def _fitted_mean(task, fit):
    """Return the posterior of the mean at the most probable noise."""
    process, posterior = fit.point.likelihood, fit.approximation.weighted_mean.approximation()
    point = Point(process.signal_var, process.kernel.theta, process)
    factor = fit.approximation.observations.likelihood.factor
    return LatentFitted(
        LatentTask(task.data, process.kernel, process), LatentFit(point, posterior, factor), posterior, None
    )


def _without_white(kernel):
    """Return the kernel without white noise that is added to it."""
    parts = split_kernel(kernel)
    if parts.noise_start is None:
        return kernel
    if parts.signal_start is None:
        return parts.core
    fixed = parts.signal_bounds[0] == parts.signal_bounds[1]
    return ConstantKernel(parts.signal_start, "fixed" if fixed else parts.signal_bounds) * parts.core


def _present_rows(X, y, weight):
    """Return inputs, targets and weights of the rows of positive weight, if there are enough of them."""
    if weight is not None:
        X, y, weight = (part[weight > 0] for part in (X, y, weight))
    _check_rows(X.shape[0])
    return X, y, weight


def _check_rows(n):
    if n < 3:
        raise ValueError(
            f"Mean and noise need three rows of positive weight at least, got {n}. Use SpectralGPRegressor, "
            "or more rows."
        )
