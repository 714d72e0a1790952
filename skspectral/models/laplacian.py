"""Laplacian processes: kernel functions with a Laplacian prior on their coefficients."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.linear_model import lasso_path
from sklearn.model_selection import KFold
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from ..inference.absolute import least_absolute
from ..linalg.active import Active, FunctionValues
from ..linalg.unpenalised import inverse_root
from ..support.atomic import all_or_nothing
from ..support.progress import Progress
from ..support.shapes import as_columns, like_targets, per_output
from ..support.threads import threads_for
from ..support.types import SparseOrDense
from ..support.validation import with_checked_parameters
from .expansion import Spread
from .sparse_expansion import SparseRegression, assemble

__all__ = ["LaplacianProcessRegressor"]

# Penalties on a path, and the smallest over the largest.
_N_PENALTIES, _SMALLEST = 60, 1e-4
# Stretches of a path after each of which it may end.
_N_STRETCHES = 6
# Fewer and larger for linear programs, whose cost does not fall along a path.
_N_PROGRAMS, _SMALLEST_OF_PROGRAMS = 8, 1e-2


@dataclass(frozen=True)
class _Choice:
    """Coefficients of unit columns at one penalty."""

    penalty: float
    coefficients: np.ndarray
    noise_var: float
    log_evidence: float
    n_iter: int = 1
    offset: float = 0.0  # what absolute deviations add to the constant of least squares

    @property
    def support(self):
        return np.flatnonzero(self.coefficients)


class LaplacianProcessRegressor(MultiOutputMixin, RegressorMixin, SparseRegression):
    """Laplacian process: a regression by few kernel functions through a penalty on their coefficients.

    f(x) = b + sum_i theta_i k(x, x_i), where theta_i has a Laplacian prior, exp(-|theta_i| l_i/scale), with
    l_i the length of the column of function i. The most probable theta is a lasso on the columns of the
    kernel matrix: sparse, unique, and a convex problem whatever the kernel.

    Parameters
    ----------
    kernel : str, callable or sklearn kernel, default="rbf"
        As of :class:`RelevanceVectorRegressor`; it need not be positive definite or symmetric.
    gamma : float, default=None
        Parameter of the rbf, laplacian, polynomial, exponential chi2 and sigmoid kernels; None means the
        kernel's default (1 / n_features for most).
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1
        Zero coefficient of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Additional keyword arguments of a callable kernel.
    noise : {"normal", "laplace"}, default="normal"
        Distribution of the noise. "laplace" is robust against outliers: absolute instead of squared
        deviations, a linear program solved by HiGHS, for up to some hundred rows.
    tuning : {"evidence", "cv"}, default="evidence"
        How the penalty is chosen: by an approximate evidence along one path, or by cross-validation with
        `n_folds` folds. Laplacian noise is always tuned by cross-validation.
    n_folds : int, default=5
        Number of folds of the cross-validation.
    fit_intercept : bool, default=True
        Whether to include an unpenalised constant.
    max_iter : int, default=2000
        Limit of the sweeps of coordinate descent for each penalty.
    verbose : int, default=0
        1 prints a line for every fold, and one for every output when its penalty is chosen.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Training rows whose functions some output uses.
    support_vectors_ : {ndarray, sparse matrix} of shape (n_support, n_features)
        These rows.
    dual_coef_ : ndarray of shape (n_support,) or (n_support, n_outputs)
        The most probable theta; 0 where an output does not use a function.
    intercept_ : float or ndarray of shape (n_outputs,)
        The constant; 0 with ``fit_intercept=False``.
    noise_variance_ : float or ndarray of shape (n_outputs,)
        Variance of the noise of a row of weight 1.
    n_iter_ : int
        Largest number of sweeps for a penalty; 1 for a linear program.
    prior_scale_ : float or ndarray of shape (n_outputs,)
        Mean of |theta_i| l_i a priori.
    log_marginal_likelihood_value_ : float or ndarray of shape (n_outputs,)
        The approximate log evidence; NaN for Laplacian noise.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string column names.

    See Also
    --------
    RelevanceVectorRegressor : Fewer functions, tuned by the exact evidence.

    Notes
    -----
    With columns of length 1, outside the constant, the most probable theta minimises

        |y - Phi theta|^2/2 + penalty sum |theta_i|,    penalty = noise variance/scale.

    Error bars are those of Smola and Schoelkopf (2003), (110)-(112): functions with theta_i = 0 are dropped
    and the signs of the others kept, so that theta ~ N(theta_MAP, noise_var (Phi'Phi)^-1) (the source's (111)
    lacks the factor noise_var). They treat the choice of functions as given, and shrink far from the data.

    The normalisation of that normal is no use as an evidence: functions that are nearly alike leave whole
    directions undetermined, in which it reaches far beyond the signs that it assumes. The approximate
    evidence here is the lower bound that follows from

        exp(-|t|) >= exp(-(t^2/|t_0| + |t_0|)/2)

    at t_0 = theta_MAP, for the model of the functions with theta_i != 0. It is the evidence of a normal model
    with prior variances |theta_i| scale, times a factor, and largest in the noise variance where that is
    (|y - Phi theta|^2 + 2 penalty sum |theta_i|)/(n + M).

    For Laplacian noise of scale b the covariance of theta is b^2 (Phi'Phi)^-1, that of least absolute
    deviations for many rows, and the noise variance 2 b^2.

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral import LaplacianProcessRegressor
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> y = np.sinc(X[:, 0] / np.pi) + 0.1 * np.random.default_rng(0).normal(size=100)
    >>> model = LaplacianProcessRegressor(gamma=0.1).fit(X, y)
    >>> len(model.support_) < 30
    True
    """

    _parameter_constraints: dict = {
        **SparseRegression._parameter_constraints,
        "noise": [StrOptions({"normal", "laplace"})],
        "tuning": [StrOptions({"evidence", "cv"})],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        kernel: str | Callable[..., float] | Kernel = "rbf",
        *,
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        noise: Literal["normal", "laplace"] = "normal",
        tuning: Literal["evidence", "cv"] = "evidence",
        n_folds: int = 5,
        fit_intercept: bool = True,
        max_iter: int = 2000,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.noise = noise
        self.tuning = tuning
        self.n_folds = n_folds
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.verbose = verbose

    @with_checked_parameters
    @all_or_nothing
    def fit(self, X: SparseOrDense, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the most probable coefficients, and the prior scale and noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or the kernel matrix (n_samples, n_samples) for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Relative precisions: a row of weight 2 has half the noise variance, a row of weight 0 is absent.

        Returns
        -------
        self : LaplacianProcessRegressor
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **self._input_rules)
        data, kept = self._data(X, as_columns(y), sample_weight)
        with threads_for(len(data)):
            return self._fitted_to(data, kept, y.ndim)

    def _fitted_to(self, data, kept, y_ndim):
        dictionary = self._dictionary(data, self._gram)
        Phi, lengths = dictionary.columns(np.arange(len(dictionary)))
        Z, scale, _ = data.standardised
        choose = self._by_squares if self.noise == "normal" else self._by_deviations
        speak = Progress(type(self).__name__, self.verbose).line
        choices = [choose(Phi, z, data.rows, speak) for z in Z.T]
        supports = [choice.support for choice in choices]
        for j, (choice, a) in enumerate(zip(choices, supports, strict=True), 1):
            speak(f"output {j}: penalty {choice.penalty:.4g}, {len(a)} of {len(lengths)} functions")
        coefficients = [
            s * c.coefficients[a] / lengths[a] for s, c, a in zip(scale, choices, supports, strict=True)
        ]
        noise_var = np.array([s**2 * c.noise_var for s, c in zip(scale, choices, strict=True)])
        of_coefficients = noise_var if self.noise == "normal" else noise_var / 2.0
        roots = [inverse_root(Phi[:, a]) / lengths[a][:, None] for a in supports]

        def spread(j, functions):
            return Spread(functions, roots[j], noise_var[j], of_coefficients[j])

        offset = scale * [c.offset for c in choices]
        fitted, used = assemble(dictionary, data, supports, coefficients, spread, y_ndim, offset)
        return self._adopt(fitted, used, kept, data, choices, scale, noise_var, y_ndim)

    def _adopt(self, fitted, used, kept, data, choices, scale, noise_var, ndim):
        """Take over a fitted model: all attributes at once."""
        # exp(-r^2/(2 noise_var)) or exp(-|r|/b), b^2 = noise_var/2
        unit = [c.noise_var if self.noise == "normal" else np.sqrt(c.noise_var / 2.0) for c in choices]
        prior_scale = [
            s * u / c.penalty if c.penalty > 0 else 0.0 for s, u, c in zip(scale, unit, choices, strict=True)
        ]
        log_evidence = [
            c.log_evidence - data.rows.n_free * np.log(s) + data.rows.counts.half_log_weight
            for s, c in zip(scale, choices, strict=True)
        ]
        vars(self).update(
            _fitted=fitted,
            _columns=kept,
            support_=kept[used],
            support_vectors_=data.X[used],
            dual_coef_=like_targets(fitted.coefficients, ndim),
            intercept_=per_output(fitted.intercept, ndim),
            noise_variance_=per_output(noise_var, ndim),
            n_iter_=max(c.n_iter for c in choices),
            prior_scale_=per_output(prior_scale, ndim),
            log_marginal_likelihood_value_=per_output(log_evidence, ndim),
        )
        return self

    # ------------------------------------------------------------------ normal noise

    def _by_squares(self, Phi, y, rows, speak):
        """Return the best choice along one path of penalties."""
        largest = np.abs(Phi.T @ y).max(initial=0.0)
        if largest <= 1e-12 * len(y):
            return _judged(Phi, y, 0.0, np.zeros(Phi.shape[1]), rows.n_free)
        penalties = largest * np.geomspace(1.0, _SMALLEST, _N_PENALTIES)
        if self.tuning == "evidence":
            return self._by_evidence(Phi, y, penalties, rows.n_free)
        path, n_iter = self._path(Phi, y, penalties)
        at = _best_by_folds(
            lambda train, test: self._path(Phi[train], y[train], penalties)[0] @ Phi[test].T,
            y,
            self.n_folds,
            np.square,
            speak,
        )
        return _judged(Phi, y, penalties[at], path[at], rows.n_free, n_iter)

    def _by_evidence(self, Phi, y, penalties, n):
        """Return the choice of the largest evidence; the path ends with a stretch that has none larger."""
        gram, start, best = Phi.T @ Phi, None, None
        for stretch in np.split(penalties, _N_STRETCHES):
            path, n_iter = self._path(Phi, y, stretch, gram, start)
            start, n_iter = path[-1], max(n_iter, best.n_iter if best else 0)
            choices = [_judged(Phi, y, p, theta, n, n_iter) for p, theta in zip(stretch, path, strict=True)]
            here = max(choices, key=lambda choice: choice.log_evidence)
            if best is not None and here.log_evidence <= best.log_evidence:
                break
            best = here
        return best

    def _path(self, Phi, y, penalties, gram=None, start=None):
        """Return the lasso's coefficients at decreasing penalties, (len(penalties), k), and sweeps.

        With Phi'Phi at hand a sweep visits coefficients that stay 0 in O(1) instead of O(n).
        """
        with warnings.catch_warnings():
            # near the end of the path, where functions are alike and nothing is gained by more digits
            warnings.simplefilter("ignore", ConvergenceWarning)
            _, path, _, sweeps = lasso_path(
                np.asfortranarray(Phi),
                y,
                alphas=penalties / len(y),
                precompute=Phi.T @ Phi if gram is None else gram,
                coef_init=start,
                max_iter=self.max_iter,
                tol=1e-5,
                return_n_iter=True,
            )
        return path.T, int(max(sweeps))

    # ------------------------------------------------------------------ Laplacian noise

    def _by_deviations(self, Phi, y, rows, speak):
        """Return the choice of a penalty by cross-validation of absolute deviations."""
        largest = np.abs(Phi.T @ np.sign(y)).max(initial=0.0)
        penalties = max(largest, 1e-12) * np.geomspace(1.0, _SMALLEST_OF_PROGRAMS, _N_PROGRAMS)
        basis = rows.Q

        def predictions(train, test):
            fits = [least_absolute(Phi[train], y[train], p, basis[train]) for p in penalties]
            return np.array([Phi[test] @ theta + basis[test] @ beta for theta, beta in fits])

        at = _best_by_folds(predictions, y, self.n_folds, np.abs, speak)
        theta, beta = least_absolute(Phi, y, penalties[at], basis)
        theta[np.abs(theta) < 1e-10 * np.abs(theta).max(initial=0.0)] = 0.0
        deviations = np.abs(y - Phi @ theta - basis @ beta).sum()
        b = deviations / max(rows.n_free - np.count_nonzero(theta), 1)
        offset = float((rows.R_inv @ beta).sum())
        return _Choice(float(penalties[at]), theta, float(2.0 * b**2), np.nan, 1, offset)


def _best_by_folds(predictions, y, n_folds, loss, speak):
    """Return which penalty predicts left-out rows best; predictions(train, test) has a row for each."""
    if len(y) < 2:
        return 0
    folds, total = KFold(min(n_folds, len(y)), shuffle=True, random_state=0), 0.0
    for number, (train, test) in enumerate(folds.split(y), 1):
        losses = loss(y[test] - predictions(train, test)).sum(axis=1)
        total = total + losses
        speak(f"fold {number} of {folds.n_splits}: best penalty {np.argmin(losses) + 1} of {len(losses)}")
    return int(np.argmin(total))


def _judged(Phi, y, penalty, theta, n, n_iter=1):
    """Return the coefficients with their noise variance and the approximate log evidence."""
    a = np.flatnonzero(theta)
    size, M = np.abs(theta[a]), len(a)
    residual = y - Phi[:, a] @ theta[a]
    total = residual @ residual + 2.0 * penalty * size.sum()
    noise_var = max(total, 1e-12 * (y @ y)) / max(n + M, 1)
    if total == 0:
        return _Choice(penalty, theta, 0.0, np.inf, n_iter)
    normal = Active(FunctionValues(Phi[:, a], y), size / penalty if M else np.zeros(0))
    value = n * np.log(2.0 * np.pi * noise_var) + normal.log_det + total / noise_var
    value += M * np.log(2.0 * noise_var / np.pi) - np.sum(np.log(penalty * size))
    return _Choice(penalty, theta, float(noise_var), float(-0.5 * value), n_iter)
