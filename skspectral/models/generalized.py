"""Gaussian process regression with other noise than normal: outliers, counts, or one's own likelihood."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import validate_data

from ..likelihoods import BY_NAME, Likelihood, StudentT, make_likelihood
from ..likelihoods.location_scale import robust_spread
from ..support.atomic import all_or_nothing
from ..support.exceptions import IndefiniteKernelError
from ..support.intervals import check_coverage
from ..support.threads import threads_for
from ..support.types import FloatArray, Method, Objects, RandomState
from ..support.validation import WEIGHTS_ARE_POWERS, check_weights, with_checked_parameters
from .latent import LatentFitted, LatentProcess

__all__ = ["GeneralizedGPRegressor"]

# Range of the degrees of freedom of "student_t": from Cauchy's distribution almost to the normal one.
_DOF_BOUNDS = (1.0, 1e3)
# Levels of the quantiles that stand for all targets where starts are chosen: weights repeat rows there too.
_LEVELS = (np.arange(201) + 0.5) / 201
# Relative difference of psi by which two modes are told apart.
_DIFFERENT = 1e-6


class GeneralizedGPRegressor(RegressorMixin, LatentProcess):
    """Gaussian process regression under any likelihood, by Laplace's approximation.

    Parameters
    ----------
    likelihood : {"student_t", "laplace", "huber", "poisson", "gaussian"} or Likelihood, default="student_t"
        How targets are distributed around the latent function: noise with outliers ("student_t", "laplace",
        "huber"), counts with rate exp(f) ("poisson"), or an instance of
        :class:`skspectral.likelihoods.Likelihood`. Parameters of the likelihood, such as a scale, are
        learned; "student_t" learns its degrees of freedom too, so that without outliers it becomes normal.
    kernel : sklearn kernel, "precomputed" or None, default=None
        Any kernel of :mod:`sklearn.gaussian_process.kernels`. A ``ConstantKernel`` that multiplies it is the
        start (and the bounds) of the signal variance. A ``WhiteKernel`` is noise of the latent function; the
        kernel then is learned as it stands. None is an RBF whose length scale is the root of the summed
        variances of the inputs.
    fit_intercept : bool, default=True
        Whether the latent function has an unpenalised constant, which is integrated out.
    optimizer : {"default", "fmin_l_bfgs_b"}, callable or None, default="default"
        How kernel, signal variance and likelihood are learned, see :class:`SpectralGPClassifier`. None keeps
        them; a scale that was not given is then a third of the spread of y.
    n_restarts_optimizer : int, default=0
        Further starts, drawn log-uniformly within the bounds; the best end is kept.
    priors : dict, default=None
        Frozen :mod:`scipy.stats` distributions by name of a kernel parameter or "signal_variance".
    method : {"auto", "exact", "low_rank"}, default="auto"
        Whether a factor may stand for the kernel matrix, see :class:`SpectralGPClassifier`.
    rank : int, default=None
        Rank of the factor; None means as large as its accuracy needs.
    max_iter : int, default=100
        Limit of Newton's steps towards a mode.
    random_state : int, RandomState instance or None, default=None
        Source of the restarts; nothing else is random.
    verbose : int, default=0
        1 prints a line for every step of learning.

    Attributes
    ----------
    likelihood_ : Likelihood
        The likelihood with its learned parameters.
    kernel_ : Kernel or "precomputed"
        The learned kernel, without its signal variance.
    signal_variance_ : float
        The learned signal variance of the latent function.
    intercept_ : float
        Constant of the latent function; 0 with ``fit_intercept=False``.
    log_marginal_likelihood_value_ : float
        Laplace's approximation of the log evidence; with an intercept its constant is integrated out, flat
        prior and factor (2 pi)^1/2 left out.
    n_modes_ : int
        Modes that were found at the learned parameters: 2 where following one mode while learning and
        narrowing a wide noise ended in different ones, of which the higher was taken. 1 if log p is concave.
    n_iter_ : int
        Newton steps to the mode.
    n_evaluations_ : int
        How often the evidence was evaluated, on subsets of the rows too.
    X_train_ : array-like of shape (n_samples, n_features)
        Training inputs of positive weight.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string column names.

    See Also
    --------
    SpectralGPRegressor : Normal noise, without an approximation.

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral import GeneralizedGPRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[::10] += 5.0
    >>> model = GeneralizedGPRegressor("student_t").fit(X, y)
    >>> bool(abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.05)
    True
    """

    _parameter_constraints: dict = {
        **LatentProcess._parameter_constraints,
        "likelihood": [
            StrOptions({name for name, kind in BY_NAME.items() if not kind.is_joint}),
            Likelihood,
        ],
    }

    def __init__(
        self,
        likelihood: str | Likelihood = "student_t",
        kernel: Kernel | Literal["precomputed"] | None = None,
        *,
        fit_intercept: bool = True,
        optimizer: Literal["default", "fmin_l_bfgs_b"] | Callable[..., Any] | None = "default",
        n_restarts_optimizer: int = 0,
        priors: dict[str, Any] | None = None,
        method: Method = "auto",
        rank: int | None = None,
        max_iter: int = 100,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.likelihood = likelihood
        self.kernel = kernel
        self.fit_intercept = fit_intercept
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.priors = priors
        self.method = method
        self.rank = rank
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    @with_checked_parameters
    @all_or_nothing
    def fit(self, X: Objects, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kernel and likelihood and find the latent function.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or list of object
            Training inputs, or the kernel matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Targets, such as the likelihood can produce.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Powers of the likelihood: weight 2 counts a row twice, 0 leaves it out.

        Returns
        -------
        self : GeneralizedGPRegressor
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, y_numeric=True, **self._input_rules)
        with threads_for(len(y)):
            return self._fitted_to(X, y, check_weights(sample_weight, X, WEIGHTS_ARE_POWERS))

    def _fitted_to(self, X, y, weight):
        likelihood = self._checked_likelihood()
        y, likelihood, unit = _standardised(likelihood.check_targets(y), weight, likelihood)
        task, columns = self._task(X, y, weight, likelihood, unit=unit)
        fit, n_evaluations = self._learned(task)
        fit, n_modes = _higher_mode(task, fit)
        learned = fit.point.likelihood
        if learned.is_skewed:
            fit = replace(fit, approximation=fit.approximation.at_mean(self.max_iter))
        fitted = LatentFitted(task, fit, fit.approximation, columns)
        return self._adopt(
            {
                **self._latent_attributes(fitted, n_evaluations),
                "likelihood_": learned.in_units(1.0 / unit) if learned.has_units else learned,
                "intercept_": float(unit * fit.approximation.mode.constants[0]),
                "n_modes_": n_modes,
            }
        )

    def _checked_likelihood(self):
        is_default = isinstance(self.likelihood, str) and self.likelihood == "student_t"
        likelihood = StudentT(dof_bounds=_DOF_BOUNDS) if is_default else make_likelihood(self.likelihood)
        if likelihood.is_joint:
            raise ValueError(f"{likelihood!r} is about classes: use SpectralGPClassifier.")
        return likelihood

    @property
    def _ranks_by(self):
        return f"evidence of {'counts' if self._checked_likelihood().is_discrete else 'densities'}"

    def predict(
        self, X: Objects, return_std: bool = False, K_test_diag: ArrayLike | None = None
    ) -> FloatArray | Any:
        """Predict means of new observations and, on request, their standard deviations.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs, or K(X_new, X_train) for ``kernel="precomputed"``.
        return_std : bool, default=False
            Whether to return the standard deviation of a new observation too; infinite for Student-t noise
            of two or fewer degrees of freedom.
        K_test_diag : array-like of shape (n_new,), default=None
            For ``kernel="precomputed"``: k(x, x) of every new point. Not needed where it is the same for all
            training rows, whose value is then taken.

        Returns
        -------
        mean : ndarray of shape (n_new,)
        std : ndarray of shape (n_new,)
            Only with `return_std`.
        """
        latent = self.predict_latent(X, K_test_diag)
        mean = self.likelihood_.predictive_mean(*latent)
        if not return_std:
            return mean
        return mean, np.sqrt(self.likelihood_.predictive_variance(*latent))

    def predict_latent(
        self, X: Objects, K_test_diag: ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of the latent function.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs, or K(X_new, X_train) for ``kernel="precomputed"``.
        K_test_diag : array-like of shape (n_new,), default=None
            As in `predict`.

        Returns
        -------
        mean, variance : ndarray of shape (n_new,)
        """
        mean, var = self._mean_and_variance(X, K_test_diag)
        unit = self._latent.task.unit
        return unit * mean[:, 0], unit**2 * var

    def predict_interval(
        self, X: Objects, coverage: float = 0.95, K_test_diag: ArrayLike | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Predict intervals of new observations with equal tails.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs, or K(X_new, X_train) for ``kernel="precomputed"``.
        coverage : float, default=0.95
            Probability of each interval, strictly between 0 and 1; of counts at least.
        K_test_diag : array-like of shape (n_new,), default=None
            As in `predict`.

        Returns
        -------
        lower, upper : ndarray of shape (n_new,)
        """
        tail = 0.5 * (1.0 - check_coverage(coverage))
        latent = self.predict_latent(X, K_test_diag)
        lower, upper = (self.likelihood_.predictive_quantile(level, *latent) for level in (tail, 1.0 - tail))
        return lower, upper

    def sample_y(self, X: Objects, n_samples: int = 1, random_state: RandomState = 0) -> FloatArray:
        """Draw observations at new inputs, whose latent values vary together.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0
            Source of randomness.

        Returns
        -------
        ndarray of shape (n_new, n_samples)
        """
        mean, covariance = self._joint_latent(X)
        rng, unit = check_random_state(random_state), self._latent.task.unit
        draws = rng.multivariate_normal(mean, covariance, n_samples, check_valid="ignore").T
        return np.asarray(self.likelihood_.sample(unit * draws, rng))


def _standardised(y, weight, likelihood):
    """Return targets and likelihood in a unit of their spread, the latter with a start, and the unit."""
    typical = np.quantile(y, _LEVELS, weights=weight, method="inverted_cdf")
    if not likelihood.has_units:
        return y, likelihood.starting(typical), 1.0
    unit = robust_spread(typical)
    return y / unit, likelihood.in_units(unit).starting(typical / unit), unit


def _higher_mode(task, fit):
    """Return the fit at the higher of two modes, and how many there are.

    One was followed while the parameters were learned, the other while a wide noise was made narrow.
    """
    if fit.point.likelihood.is_log_concave:
        return fit, 1
    try:
        other = task.fit(fit.point)
    except IndefiniteKernelError:
        return fit, 1
    ours, theirs = fit.approximation.mode.psi, other.approximation.mode.psi
    differ = abs(ours - theirs) > _DIFFERENT * max(1.0, abs(ours))
    return (other if differ and theirs > ours else fit), 1 + int(differ)
