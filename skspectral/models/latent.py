"""What estimators with latent functions and any likelihood share: kernel, learning, latent predictions."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..decomposition.data import Data
from ..decomposition.plan import Plan
from ..inference.approximate import laplace
from ..inference.variances import VarianceBounds
from ..kernels.columns import resolve_columns
from ..kernels.gram import make_gram
from ..kernels.parts import default_kernel, has_sum, parameter_names, split_kernel
from ..learning.descent import lbfgs
from ..learning.latent import learn_latent
from ..learning.latent_objective import approximate_evidence
from ..learning.latent_task import LatentTask
from ..learning.priors import read_priors
from ..support.memory import check_memory
from ..support.progress import Progress
from ..support.shapes import as_columns
from ..support.threads import threads_for
from ..support.types import Method, Objects, RandomState
from .bounds import warn_at_latent_bounds

__all__ = ["LatentFitted", "LatentProcess", "starting_point"]

# Bounds of a signal variance for which the kernel names none.
_SIGNAL_BOUNDS = (1e-5, 1e5)
# Entries of the kernel between new rows and training rows that are made at a time.
_BLOCK_ENTRIES = 2**22
# Relative difference up to which k(x, x) of all rows counts as one number.
_ALIKE = 1e-9


@dataclass(frozen=True)
class LatentFitted:
    """A fitted approximate posterior that predicts latent functions.

    Attributes
    ----------
    task : LatentTask
        What it was fitted to.
    fit : LatentFit
        The approximate posterior, whose mode gives latent means.
    spread : Approximation
        The approximate posterior that latent means and variances of averages are taken from.
    columns : ndarray of int or None
        For a given kernel matrix, which of its columns belong to rows of positive weight.
    """

    task: LatentTask
    fit: Any
    spread: Any
    columns: np.ndarray | None

    @property
    def gram(self):
        """The learned kernel as a matrix."""
        return make_gram(self.task.kernel_at(self.fit.point.theta))

    def mode(self, X):
        """Return latent means (n_new, m) of the mode, a block of rows at a time."""
        return self._means(self.fit.approximation, X)

    def mean(self, X):
        """Return latent means (n_new, m) of what is averaged over."""
        return self._means(self.spread, X)

    def _means(self, posterior, X):
        return np.concatenate([posterior.mean(self._cross(X[rows])) for rows in self._blocks(X)])

    def mean_and_variance(self, X, diagonal):
        """Return latent means (n_new, m) and variances (n_new,), given k(x, x) without signal variance."""
        parts = []
        for rows in self._blocks(X):
            cross = self._cross(X[rows])
            variance = self.spread.variance(cross, diagonal[rows])
            parts.append((self.spread.mean(cross), variance))
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def joint(self, X):
        """Return latent means (n_new,) and their joint covariance (n_new, n_new)."""
        cross = self._cross(X)
        covariance = self.spread.covariance(cross, self.gram.square(X))
        return self.fit.approximation.mean(cross)[:, 0], covariance

    def _cross(self, X):
        """Return kernel values with the training rows, or features."""
        X = X if self.columns is None else X[:, self.columns]
        factor = self.fit.factor
        return self.gram.cross(X, self.task.data.X) if factor is None else factor.feature_map(self.gram, X)

    def _blocks(self, X):
        size = max(1, _BLOCK_ENTRIES // len(self.task))
        return [slice(start, start + size) for start in range(0, max(X.shape[0], 1), size)]


class LatentProcess(BaseEstimator):
    """Base of the estimators: parameters, learning and latent predictions."""

    _parameter_constraints: dict = {
        "kernel": [Kernel, StrOptions({"precomputed"}), None],
        "fit_intercept": ["boolean"],
        "optimizer": [StrOptions({"default", "fmin_l_bfgs_b"}), callable, None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "priors": [dict, None],
        "method": [StrOptions({"auto", "exact", "low_rank"})],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    kernel: Kernel | Literal["precomputed"] | None
    fit_intercept: bool
    optimizer: Literal["default", "fmin_l_bfgs_b"] | Callable[..., Any] | None
    n_restarts_optimizer: int
    priors: dict[str, Any] | None
    method: Method
    rank: int | None
    max_iter: int
    random_state: RandomState
    verbose: int

    _latent: LatentFitted

    @property
    def _is_precomputed(self):
        return isinstance(self.kernel, str)

    @property
    def _input_rules(self):
        if self._is_precomputed:
            return {"dtype": [np.float64, np.float32]}
        vectors = self.kernel is None or self.kernel.requires_vector_input
        return {"dtype": np.float64} if vectors else {"dtype": None, "ensure_2d": False}

    def _starting_point(self, X, weight, unit=1.0):
        """Return the core kernel, and start and bounds of the signal variance, in units of the targets."""
        return starting_point(self.kernel, getattr(self, "feature_names_in_", None), X, weight, unit)

    def _task(
        self, X, y, weight, likelihood, *, approximate=laplace, n_classes=None, integrated=True, unit=1.0
    ):
        """Return what is learned; bad parameters are refused before any work."""
        present = np.ones(len(y), dtype=bool) if weight is None else weight > 0
        columns = np.flatnonzero(present) if self._is_precomputed else None
        kernel, start, bounds = self._starting_point(X, weight, unit)
        if not present.all():
            X, y, weight = X[present], y[present], weight[present]
        if self._is_precomputed:
            X = X[:, columns] if X.shape[1] == len(present) else X
        data = Data.with_intercept(X, as_columns(y), weight, self.fit_intercept)
        parameters = ConstantKernel(1.0, "fixed") if self._is_precomputed else kernel
        theta_prior, variance_prior = read_priors(
            self.priors, parameters, VarianceBounds(signal=tuple(b * unit**2 for b in bounds))
        )
        plan = Plan(self.method, self.rank)
        plan.check(len(data))
        task = LatentTask(
            data,
            kernel,
            likelihood,
            approximate,
            start,
            bounds,
            theta_prior,
            variance_prior,
            plan,
            n_classes,
            self.max_iter,
            integrated,
            unit,
            given=self._given,
        )
        return task, columns

    @property
    def _given(self):
        """The kernel where its constants are not the variables themselves, as in a sum, else None."""
        if self.kernel is None or self._is_precomputed or not has_sum(self.kernel):
            return None
        parts = split_kernel(self.kernel)
        return None if parts.signal_start is None or parts.noise_start is not None else clone(self.kernel)

    def _learned(self, task):
        """Return the learned posterior, and how often the evidence was evaluated."""
        if self.optimizer is None or not len(task.start):
            return task.fit(task.point(task.start)), 1
        learned = learn_latent(
            task,
            optimizer={"default": None, "fmin_l_bfgs_b": lbfgs}.get(self.optimizer, self.optimizer),
            n_restarts=self.n_restarts_optimizer,
            random_state=self.random_state,
            report=_step_printer(Progress(type(self).__name__, self.verbose)) if self.verbose else None,
        )
        self._warn_of_bounds(task, learned.variables)
        return learned.fit, learned.n_evaluations

    def _warn_of_bounds(self, task, variables):
        warn_at_latent_bounds(task, variables, are_ours=self.kernel is None)

    def _latent_attributes(self, fitted, n_evaluations):
        """Return the fitted attributes that all of them have."""
        fit, task = fitted.fit, fitted.task
        kernel = task.kernel_at(fit.point.theta)
        return {
            "_latent": fitted,
            "kernel_": kernel if self._is_precomputed else clone(kernel),
            "signal_variance_": fit.point.signal_var * task.unit**2,
            "log_marginal_likelihood_value_": fit.approximation.log_evidence - task.log_unit,
            "n_iter_": max(1, fit.approximation.mode.n_iter),
            "n_evaluations_": n_evaluations,
            "X_train_": task.data.X,
        }

    def _adopt(self, attributes):
        """Take over fitted attributes, all at once."""
        vars(self).update(attributes)
        return self

    def log_marginal_likelihood(self, theta: ArrayLike | None = None, eval_gradient: bool = False) -> Any:
        """Return the approximate log evidence: of the fit, or at any theta.

        Parameters
        ----------
        theta : array-like of shape (n_params,), default=None
            Logarithms of what is learned: the signal variance, unless it is fixed, then the free parameters
            of `kernel_`, then those of the likelihood. None means the fitted ones.
        eval_gradient : bool, default=False
            Whether to return the gradient by theta too.

        Returns
        -------
        value : float
        gradient : ndarray of shape (n_params,)
            Only with `eval_gradient`.
        """
        check_is_fitted(self, "_latent")
        if theta is None:
            if eval_gradient:
                raise ValueError("The gradient needs a theta, the logarithms of what is learned.")
            return self.log_marginal_likelihood_value_
        theta, task = np.asarray(theta, dtype=np.float64), self._latent.task
        if theta.shape != task.start.shape:
            raise ValueError(
                f"theta has shape {theta.shape}, but {len(task.start)} parameter(s) are learned: "
                f"{_names(task)}. Pass one logarithm for each."
            )
        with threads_for(len(task)):
            return approximate_evidence(task, theta, eval_gradient)

    def _joint_latent(self, X):
        """Return latent means (n_new,) and their joint covariance (n_new, n_new) of one latent function."""
        check_is_fitted(self, "_latent")
        if self._is_precomputed:
            raise ValueError(
                "sample_y needs the kernel among the new points, which kernel='precomputed' does not know."
            )
        X = self._validated(X)
        check_memory(X.shape[0], 1)
        return self._latent.joint(X)

    def _validated(self, X):
        """Return new inputs, checked against those of fit."""
        return validate_data(self, X, reset=False, **self._input_rules)

    def _diagonal(self, X, K_test_diag):
        """Return k(x, x) of new inputs."""
        if not self._is_precomputed:
            return make_gram(self.kernel_).diagonal(X)
        trained = np.diag(self.X_train_)
        if K_test_diag is None and np.ptp(trained) <= _ALIKE * trained.max():
            return np.full(X.shape[0], trained.mean())
        if K_test_diag is None or np.shape(K_test_diag) != (X.shape[0],):
            got = "nothing" if K_test_diag is None else f"shape {np.shape(K_test_diag)}"
            raise ValueError(
                f"Predictions with kernel='precomputed' need K_test_diag, the {X.shape[0]} values k(x, x) of "
                f"the new points, where those of the training rows differ; got {got}."
            )
        return np.asarray(K_test_diag, dtype=np.float64)

    def _mean_and_variance(self, X: Objects, K_test_diag: ArrayLike | None = None) -> Any:
        """Return latent means (n_new, m) and variances (n_new,)."""
        check_is_fitted(self, "_latent")
        X = self._validated(X)
        with threads_for(len(self.X_train_)):
            return self._latent.mean_and_variance(X, self._diagonal(X, K_test_diag))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        return tags


def starting_point(kernel, names, X, weight, unit=1.0):
    """Return the core of a kernel, and start and bounds of its signal variance, in units of the targets.

    White noise in the kernel is noise of the latent function: it stays in the core, and with it the constant,
    so that nothing is learned that the kernel does not name.

    Parameters
    ----------
    kernel : Kernel, "precomputed" or None
        As the user gave it.
    names : ndarray of str or None
        Names of the columns of X.
    X, weight : ndarray
        Inputs and weights, for the default kernel.
    unit : float, default=1
        Of the targets.
    """
    if isinstance(kernel, str):
        return kernel, 1.0, _SIGNAL_BOUNDS
    if kernel is None:
        return default_kernel(X, weight), 1.0, _SIGNAL_BOUNDS
    kernel = clone(kernel) if names is None else resolve_columns(kernel, names)
    parts = split_kernel(kernel)
    if parts.noise_start is not None:
        return kernel, 1.0 / unit**2, (1.0 / unit**2,) * 2
    if parts.signal_start is None:
        return parts.core, 1.0, _SIGNAL_BOUNDS
    return parts.core, parts.signal_start / unit**2, tuple(b / unit**2 for b in parts.signal_bounds)


def _names(task):
    """Return the names of the outer variables."""
    kernel = [] if task.is_precomputed else parameter_names(task.kernel)
    return [*(["signal_variance"] if task.learns_signal else []), *kernel, *task.likelihood.names]


def _step_printer(progress):
    """Return what prints a line for every outer step."""

    def report(n_rows, step, variables, evaluation):
        values = " ".join(f"{v:.4g}" for v in np.exp(variables))
        progress.line(f"rows {n_rows}, step {step}: objective {evaluation.value:.8g}, parameters {values}")

    return report
