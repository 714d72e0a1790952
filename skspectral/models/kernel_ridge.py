"""Kernel ridge regression with its penalty tuned from one decomposition."""

import copy
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from ..criteria import CRITERIA
from ..decomposition.certificate import warn_of_bracket
from ..decomposition.data import Data
from ..decomposition.decompose import Problem, decompose
from ..decomposition.plan import Plan, Route
from ..inference.solution import solve_fixed, warn_of_vanished_noise
from ..linalg.indefinite import ACTIONS
from ..support.atomic import all_or_nothing
from ..support.exceptions import LowRankWarning, warn_user
from ..support.intervals import check_coverage, check_interval_method
from ..support.progress import Progress
from ..support.shapes import as_columns, like_targets, per_output
from ..support.threads import threads_for
from ..support.types import Criterion, FloatArray, Indefinite, Method, Selection, SparseOrDense
from ..support.validation import (
    check_alphas,
    check_weights,
    with_checked_parameters,
    with_holes,
    without_holes,
)
from .by_name import ByKernelName
from .fitted import Fitted
from .mean_functions import MeanFunctions
from .parts import fit_parts
from .penalties import HeldOut, means_at_penalties
from .scoring import ScoresObserved
from .siblings import HasSiblings
from .variance_methods import VarianceMethods

__all__ = ["SpectralKernelRidge"]


class SpectralKernelRidge(
    HasSiblings, VarianceMethods, ByKernelName, MultiOutputMixin, ScoresObserved, BaseEstimator
):
    """Kernel ridge regression that tunes its penalty exactly, for every output, from one decomposition.

    The model is that of :class:`sklearn.kernel_ridge.KernelRidge` with an unpenalised intercept:

        minimise  sum_i w_i (y_i - f(x_i) - b)^2 + alpha ||f||^2.

    The kernel matrix is factorised once; then each trial value of ``alpha`` costs O(n), so the
    minimum of the chosen criterion is found globally, for each output separately.

    Parameters
    ----------
    alpha : "auto", float or array-like of shape (n_outputs,), default="auto"
        The penalty, noise variance over signal variance. "auto" tunes it by `criterion`; a positive
        number, or one for each output, fixes it.
    kernel : str, callable or sklearn kernel, default="rbf"
        A name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", a callable
        of two rows, or a kernel of :mod:`sklearn.gaussian_process.kernels`.
    gamma : float, default=None
        Parameter of the rbf, laplacian, polynomial, exponential chi2 and sigmoid kernels; None means
        the kernel's default (1 / n_features for most).
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1
        Zero coefficient of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Additional keyword arguments of a callable kernel.
    criterion : {"evidence", "gcv", "loo", "loo_lpd", "posterior"}, default="evidence"
        What the tuned alpha optimises: the evidence (restricted when there is an intercept),
        generalised cross-validation, the leave-one-out squared error (PRESS), the leave-one-out log
        predictive density, or the criterion of Schirru et al. (2011). The first two cost O(n) per
        trial value, the leave-one-out ones O(n^2). "posterior" uses y twice and has no global
        minimum for kernels of full rank; it warns when it runs to the limit of no noise.
    fit_intercept : bool, default=True
        Whether to include an unpenalised constant.
    alpha_per_target : bool, default=True
        Whether each output gets its own alpha when it is tuned; False minimises the sum of the
        criteria (of their logarithms for "gcv" and "loo") with one alpha.
    indefinite : {"refuse", "flip", "clip"}, default="refuse"
        What becomes of a kernel matrix with negative eigenvalues, such as that of a sigmoid kernel or of
        similarities: an error, their moduli in their place, or 0. New rows are transformed alike, and
        `indefinite_` tells what was done. The last two decompose the whole matrix, whatever its size.
    method : {"auto", "exact", "low_rank"}, default="auto"
        "exact" decomposes the kernel matrix. "low_rank" never forms it: O(n r^2) time and O(n r) memory by
        a pivoted Cholesky factor. "auto" is exact for small n, for a given alpha and for other criteria than
        the evidence; otherwise it takes a factor where one of small rank is certified to give the log
        evidence to 0.01. Beyond 12,000 rows, or where the matrix would not fit in memory, it takes the
        largest factor that is affordable, with a warning, see :class:`SpectralGPRegressor`; for a given alpha
        and for other criteria only where the matrix would not fit.
    rank : int, default=None
        Rank of the factor; None means as large as the certificate needs. "exact" has no factor.
    selection : {"pivots", "greedy"}, default="pivots"
        Which rows span a factor. "pivots": those where the kernel varies most. "greedy": those that explain
        the targets best, among random candidates, until the fit is within 0.5 % of its optimum (beyond 32,000
        rows 2.5 %, by a bound that is cheaper) or at `rank` (Smola & Schoelkopf, Algorithm 1.1); "auto" then
        takes this factor at any n. Usually fewer rows, so that predictions are faster, at the price of a
        longer fit and a looser `evidence_bounds_`.
    verbose : int, default=0
        1 prints, about once a second, the rank that a factor has reached and the rows done; more prints
        every line.

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_outputs,)
        The penalty used; infinite where the best model is a constant.
    dual_coef_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Weights of the kernel functions; in a model of low rank, of the kernel that its factor stands for.
    intercept_ : float or ndarray of shape (n_outputs,)
        The constant; 0 with ``fit_intercept=False``.
    noise_variance_, signal_variance_ : float or ndarray of shape (n_outputs,)
        Variances of the equivalent Gaussian process; their ratio is `alpha_`.
    log_evidence_ : float or ndarray of shape (n_outputs,)
        Log evidence at these variances. With an intercept it is the restricted one (REML): the textbook's
        plus 1/2 log(sum of the weights), a constant that does not depend on the kernel.
    criterion_value_ : float or ndarray of shape (n_outputs,)
        Value of `criterion`, greater is better: a log density, or minus a mean squared error.
    effective_dof_ : float or ndarray of shape (n_outputs,)
        Effective degrees of freedom, the trace of the smoother, intercept included.
    tuning_ : tuple of TuningResult
        Status, value and number of evaluations for each output.
    evidence_bounds_ : tuple of two floats or ndarrays of shape (n_outputs,)
        Lower and upper bound on the log evidence of the exact kernel matrix at these variances. Both are
        that log evidence itself where the matrix was decomposed. A factor that was chosen to be certified
        has bounds at most 0.01 apart for each output. A factor of a given rank, or of greedily chosen rows,
        has wide bounds, because they use no more than the trace of what the factor misses. Rounding is not
        part of them; it matters where the noise vanishes.
    rank_ : int
        Rank of the factor, or of the kernel matrix above rounding.
    spectrum_ : Spectrum
        The decomposition; where outputs are missing in different rows, that of the first output's rows, and
        so is `rank_`.
    indefinite_ : Repair or None
        What was done to negative eigenvalues; None where there were none.
    X_fit_ : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Training rows, or the kernel matrix for ``kernel="precomputed"``.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string column names.

    See Also
    --------
    SpectralGPRegressor : The same model as a Gaussian process, with predictive uncertainty.
    sklearn.kernel_ridge.KernelRidge : Fixed alpha, no intercept.

    Notes
    -----
    With eigenvalues s of the (centred, weighted) kernel matrix and rotated targets y~, the evidence of
    the best variances at a given alpha is -1/2 [n log(sum y~^2/(s+alpha)) + sum log(s+alpha)] up to a
    constant. With ``kernel="linear"`` and more rows than columns the decomposition is that of X
    itself, O(n p^2), and no n x n matrix is made.

    References
    ----------
    Schirru, Pampuri, De Nicolao, McLoone (2011), "Efficient Marginal Likelihood Computation for
    Gaussian Processes and Kernel Ridge Regression", arXiv:1110.6546.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skspectral import SpectralKernelRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SpectralKernelRidge(gamma=0.01)).fit(X, y)
    >>> ridge = model[-1]
    >>> round(float(ridge.alpha_), 2), ridge.tuning_[0].status
    (0.28, 'interior')
    """

    _parameter_constraints: dict = {
        "alpha": [StrOptions({"auto"}), Real, "array-like"],
        **ByKernelName._parameter_constraints,
        "criterion": [StrOptions(set(CRITERIA))],
        "fit_intercept": ["boolean"],
        "alpha_per_target": ["boolean"],
        "indefinite": [StrOptions(set(ACTIONS))],
        "method": [StrOptions({"auto", "exact", "low_rank"})],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "selection": [StrOptions({"pivots", "greedy"})],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        alpha: Literal["auto"] | float | ArrayLike = "auto",
        *,
        kernel: str | Callable[..., float] | Kernel = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        criterion: Criterion = "evidence",
        fit_intercept: bool = True,
        alpha_per_target: bool = True,
        indefinite: Indefinite = "refuse",
        method: Method = "auto",
        rank: int | None = None,
        selection: Selection = "pivots",
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.criterion = criterion
        self.fit_intercept = fit_intercept
        self.alpha_per_target = alpha_per_target
        self.indefinite = indefinite
        self.method = method
        self.rank = rank
        self.selection = selection
        self.verbose = verbose

    _after_decomposition = frozenset({"alpha", "criterion", "alpha_per_target"})

    @with_checked_parameters
    @all_or_nothing
    def fit(self, X: SparseOrDense, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Decompose the kernel matrix and tune or apply alpha.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or the kernel matrix (n_samples, n_samples) for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. NaN in a two-dimensional y means that this output was not observed in this row: each
            output is fitted to its own rows, with one decomposition for all outputs that share theirs.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Relative precisions: the squared residual of a row of weight 2 counts twice, and a row of weight 0
            is left out. A common factor of all weights multiplies a tuned `alpha_`, and changes no
            prediction.

        Returns
        -------
        self : SpectralKernelRidge
            The fitted estimator.
        """
        data, y_ndim = self._data(X, y, sample_weight)
        return self._fit_data(data, y_ndim, MeanFunctions(self.fit_intercept))

    def predict(self, X: SparseOrDense) -> FloatArray:
        """Predict by the kernel expansion and the intercept.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            New rows, or K(X_new, X_train) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_new,) or (n_new, n_outputs)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._input_rules)
        return like_targets(self._fitted.mean(X), self._fitted.y_ndim)

    def predict_interval(
        self, X: SparseOrDense, coverage: float = 0.95, method: Literal["jackknife+"] = "jackknife+"
    ) -> tuple[FloatArray, FloatArray]:
        """Predict intervals of new observations from all leave-one-out models, exactly and without refitting.

        Alpha is held. The probability to cover is at least 1 - 2 (1 - coverage) for exchangeable rows,
        however wrong the model may be, and usually about `coverage` (Barber et al. 2021, jackknife+).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            New rows, or K(X_new, X_train) for ``kernel="precomputed"``.
        coverage : float, default=0.95
            Nominal coverage, strictly between 0 and 1. Fewer than 1 / (1 - coverage) rows make intervals
            infinite.
        method : {"jackknife+"}, default="jackknife+"
            How intervals are made; a ridge has no distribution of its own.

        Returns
        -------
        lower, upper : ndarray of shape (n_new,) or (n_new, n_outputs)

        Examples
        --------
        >>> from skspectral import SpectralKernelRidge, load_motorcycle
        >>> X, y = load_motorcycle(return_X_y=True)
        >>> lower, upper = SpectralKernelRidge(gamma=0.02).fit(X, y).predict_interval(X)
        >>> bool(((lower <= y) & (y <= upper)).mean() > 0.9)
        True
        """
        check_is_fitted(self)
        check_interval_method(method, ("jackknife+",))
        X = validate_data(self, X, reset=False, **self._input_rules)
        lower, upper = self._fitted.jackknife_interval(X, check_coverage(coverage))
        return like_targets(lower, self._fitted.y_ndim), like_targets(upper, self._fitted.y_ndim)

    def loo_predict(self) -> FloatArray:
        """Predict every training row from all the others, exactly and without refitting.

        Alpha stays as it is. A row of weight 0, which the fit never saw, gets its ordinary prediction.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        check_is_fitted(self)
        mean, _, absent = self._fitted.leave_one_out()
        rows = absent.any(axis=1)
        if rows.any():
            mean[rows] = np.where(absent[rows], as_columns(self.predict(self.X_fit_[rows])), mean[rows])
        return like_targets(mean, self._fitted.y_ndim)

    def dual_coef_variance(self) -> FloatArray:
        """Return the posterior variance of every dual coefficient (Proposition 2.4 of Schirru et al.).

        The diagonal of U diag(q) U', q = noise_var signal_var / ((signal_var s + noise_var) s), over the
        directions with s > 0. Along the null directions of the kernel matrix the coefficients are
        undetermined (and have no effect at the training rows); they are left out.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        check_is_fitted(self)
        return like_targets(self._fitted.solution.dual_variance(), self._fitted.y_ndim)

    def with_alpha(self, alpha: float | ArrayLike) -> Self:
        """Return a fitted copy with another alpha that shares this one's decomposition.

        Where that is a factor of the kernel matrix, it was made for the alpha of the fit, and serves
        smaller ones less well; a warning says so, and `evidence_bounds_` by how much at most.

        Parameters
        ----------
        alpha : float or array-like of shape (n_outputs,)
            Positive penalties.

        Returns
        -------
        SpectralKernelRidge
            As if fitted with this `alpha` on the same decomposition, at O(n^2) instead of O(n^3).
        """
        check_is_fitted(self)
        values = check_alphas(alpha, self._fitted.data.n_outputs)
        other = copy.copy(self)
        other.alpha = alpha
        return other._adopt(
            self._fitted.solved_again(lambda part, outputs: self._solved_with(part, values[outputs]))
        )

    def _solved_with(self, fitted, alphas):
        """Return the solution of a part at given alphas."""
        self._warn_if_uncertified(fitted.decomposition.certified, alphas)
        return solve_fixed(fitted.solution.rotated, CRITERIA[self.criterion], alphas)

    def _warn_if_uncertified(self, certified, alphas):
        """Warn where alphas are much smaller than those that the factor was made for."""
        if certified is not None and (alphas < 0.5 * certified.solution.noise_ratio).any():
            warn_user(
                "The factor of the kernel matrix is certified at alpha = "
                f"{certified.solution.noise_ratio.min():.4g}, not at {alphas.min():.4g}. Fit with this "
                "alpha, or with method='exact' before with_alpha.",
                LowRankWarning,
            )

    @property
    def _is_auto(self):
        return isinstance(self.alpha, str)

    @property
    def _plan(self):
        exact = self.criterion != "evidence" or not self._is_auto or not self.alpha_per_target
        return Plan(self.method, self.rank, self.selection, exact, self.indefinite)

    def _problem(self, data):
        """Return what is decomposed and solved; bad parameters are refused before any work."""
        self._plan.check(len(data))
        if not self.alpha_per_target and data.has_holes:
            raise ValueError(
                "alpha_per_target=False tunes one alpha for outputs that share their rows, but y has missing "
                "entries (NaN). Use alpha_per_target=True or a given alpha."
            )
        return Problem(
            self._gram,
            data,
            CRITERIA[self.criterion],
            noise_ratio=None if self._is_auto else check_alphas(self.alpha, data.n_outputs),
            shared=not self.alpha_per_target,
            report=Progress(type(self).__name__, self.verbose),
        )

    def _data(self, X, y, sample_weight):
        """Return what is fitted, checked, and the dimensions of y."""
        y, holes = without_holes(y)
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **self._input_rules)
        if self._is_of_histograms:
            check_non_negative(X, f"{type(self).__name__} with kernel={self.kernel!r}")
        weight = check_weights(sample_weight, X)
        return Data.with_intercept(X, with_holes(as_columns(y), holes), weight, self.fit_intercept), y.ndim

    def _fit_data(self, data, y_ndim, mean, decomposition=None):
        """Fit, with a decomposition of the same kernel and rows if there is one already."""
        problem, known = self._problem(data), None if data.has_holes else decomposition
        with threads_for(len(data)):
            return self._adopt(
                fit_parts(data, y_ndim, lambda *part: self._fitted_model(problem, part, known, y_ndim, mean))
            )

    def _fitted_model(self, problem, part, decomposition, y_ndim, mean):
        """Return the model of rows and the outputs that were observed in them."""
        data, outputs = part
        ratio = None if problem.noise_ratio is None else problem.noise_ratio[outputs]
        problem = replace(problem, data=data, noise_ratio=ratio)
        if decomposition is None:
            decomposition = decompose(problem, self._plan)
        solution = problem.solution(decomposition)
        if problem.noise_ratio is None:
            warn_of_vanished_noise(solution, problem.criterion)
        fitted = Fitted(problem.gram, data, problem.bounds, decomposition, solution, y_ndim, mean)
        warn_of_bracket(self._plan, len(data), decomposition.rank, *fitted.evidence_bounds)
        return fitted

    def _predict_each(self, X, y, alphas, inputs, sample_weight=None):
        """Return predictions at new inputs for each of some given alphas, without a fit for each.

        One list for each of the inputs, or None where nothing but a fit can tell.
        """
        problem, y_ndim = self._exact_problem(X, y, sample_weight)
        if problem is None:
            return None
        penalties = np.array([check_alphas(alpha, problem.data.n_outputs) for alpha in alphas])
        inputs = [validate_data(self, X, reset=False, **self._input_rules) for X in inputs]
        with threads_for(len(problem.data)):
            means = means_at_penalties(problem.gram, problem.data, penalties, inputs)
        return means and [[like_targets(mean, y_ndim) for mean in part] for part in means]

    def _predict_held_out(self, X, y, alphas, blocks, sample_weight=None):
        """Return for each block of rows what fits on the other rows predict for it at given alphas.

        None where one fit for each block is cheaper, or where nothing but such fits can tell.
        """
        problem, y_ndim = self._exact_problem(X, y, sample_weight)
        if problem is None or not problem.data.present.all():
            return None
        penalties = np.array([check_alphas(alpha, 1)[0] for alpha in alphas])
        held_out = HeldOut(problem.gram, problem.data, penalties)
        with threads_for(len(problem.data)):
            means = held_out.means(blocks) if held_out.is_cheaper(blocks) else None
        return means and [[like_targets(mean, y_ndim) for mean in part] for part in means]

    def _exact_problem(self, X, y, sample_weight):
        """Return the problem where its kernel matrix is decomposed, else None, and the dimensions of y."""
        data, y_ndim = self._data(X, y, sample_weight)
        problem = self._problem(data)
        is_exact = self._plan.route(len(data)) is Route.EXACT and problem.gram.factor(data.X) is None
        is_exact = is_exact and not data.has_holes and not self._plan.may_repair
        return problem if is_exact else None, y_ndim

    def _decomposition_needs(self, n):
        looks = self._plan.looks_at_targets(n) and not self._is_auto
        return self._plan.route(n), tuple(np.ravel(self.alpha)) if looks else None

    def _adopt(self, fitted):
        """Take over a fitted model: all attributes at once."""
        solution, ndim = fitted.solution, fitted.y_ndim
        intercept = solution.beta[0] if self.fit_intercept else np.zeros(len(solution.noise_var))
        attributes = {
            "_fitted": fitted,
            "X_fit_": fitted.data.X,
            "alpha_": per_output(solution.noise_ratio, ndim),
            "dual_coef_": like_targets(solution.dual, ndim),
            "intercept_": per_output(intercept, ndim),
            "noise_variance_": per_output(solution.noise_var, ndim),
            "signal_variance_": per_output(solution.signal_var, ndim),
            "log_evidence_": per_output(solution.log_evidence, ndim),
            "criterion_value_": per_output([t.value for t in solution.tuning], ndim),
            "effective_dof_": per_output(solution.effective_dof, ndim),
            "tuning_": solution.tuning,
            "evidence_bounds_": tuple(per_output(bound, ndim) for bound in fitted.evidence_bounds),
            "rank_": fitted.decomposition.rank,
            "spectrum_": fitted.decomposition.spectrum,
            "indefinite_": fitted.decomposition.spectrum.repair,
        }
        vars(self).update(attributes)
        return self
