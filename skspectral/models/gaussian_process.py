"""Gaussian process regression with its variances tuned from one decomposition."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..criteria import CRITERIA
from ..decomposition.data import Data
from ..decomposition.plan import Plan
from ..inference.averaging import check_integrable
from ..inference.correlated import check_correlatable
from ..inference.variances import VarianceBounds
from ..kernels.columns import resolve_columns
from ..kernels.gram import make_gram
from ..kernels.parameters import copied
from ..kernels.parts import default_kernel, parameter_names, split_kernel
from ..learning.patterns import by_patterns, profiled_evidence
from ..learning.priors import has_variance_priors, read_priors
from ..learning.task import Task
from ..linalg.indefinite import ACTIONS
from ..support.atomic import all_or_nothing
from ..support.memory import check_memory
from ..support.progress import Progress
from ..support.shapes import as_columns, like_targets, per_output, without_single_axis
from ..support.threads import threads_for
from ..support.types import Criterion, FloatArray, Indefinite, Method, Objects, RandomState, Selection
from ..support.validation import check_weights, with_checked_parameters, with_holes, without_holes
from .conversion import as_sklearn
from .correlation_methods import CorrelationMethods, covariance_attributes
from .fitted_entries import check_entries
from .mean_functions import MeanFunctions, check_enough_rows
from .parts import part_of
from .predictive_methods import PredictiveMethods
from .prior import PriorProcess
from .process_fitting import ProcessFitting
from .scoring import ScoresObserved
from .siblings import HasSiblings
from .variance_methods import VarianceMethods

__all__ = ["SpectralGPRegressor"]


class SpectralGPRegressor(
    ProcessFitting,
    CorrelationMethods,
    PredictiveMethods,
    HasSiblings,
    VarianceMethods,
    MultiOutputMixin,
    ScoresObserved,
    BaseEstimator,
):
    """Gaussian process regression: variances tuned exactly for every output, kernel parameters learned.

    The model is y = F beta + f + e with f ~ N(0, signal_variance * K) and e ~ N(0, noise_variance / w).
    The kernel matrix is factorised once and both variances follow at O(n) per trial value, for any number of
    outputs. The search over the variances is global. Length scales and other parameters of the kernel are
    learned by descents from several places, and may still end in a local optimum.

    Parameters
    ----------
    kernel : sklearn kernel, "precomputed" or None, default=None
        Any kernel of :mod:`sklearn.gaussian_process.kernels`. A ``ConstantKernel`` that multiplies it
        and a ``WhiteKernel`` added to it are recognised: their bounds (or "fixed") are honoured and
        they are tuned from the spectrum. None is an RBF whose length scale is the root of the summed
        variances of the inputs.
    criterion : {"evidence", "gcv", "loo", "loo_lpd", "posterior"}, default="evidence"
        What the variances optimise, see :class:`SpectralKernelRidge`.
    fit_intercept : bool, default=True
        Whether to include an unpenalised constant mean; its uncertainty is part of the predictions
        and the evidence is then the restricted one (REML).
    outputs : {"independent", "correlated"}, default="independent"
        "correlated" has covariances between outputs, of their signals and of their noise, in place of
        variances: vec(Y) ~ N(., Vg x K + Ve x W^-1) with full matrices Vg and Ve, maximising the (restricted)
        evidence from the one decomposition. It needs ``criterion="evidence"``, ``inference="maximize"``, no
        `priors` of variances and no fixed variance; bounds of variances are not used.
    basis : None, "linear", "quadratic", transformer or callable, default=None
        Further unpenalised functions of the mean, beside the constant of `fit_intercept` (universal kriging):
        the inputs, these with their squares and products, or what ``transform(X)`` or the callable makes of
        the validated X, (n_samples, n_functions). A transformer that is already fitted is used as it is, any
        other is cloned and fitted to X. The uncertainty of all coefficients is part of the predictions.
    optimizer : {"default", "fmin_l_bfgs_b"}, callable or None, default="default"
        How the kernel's free parameters are learned. "default" descends along the analytic gradient of
        the profiled criterion, from few rows to all of them, and looks for better optima on the way: a single
        parameter is scanned on few rows; of several, one at a time is multiplied by 5 and by 0.2 on the
        fewest rows, with another descent from there as long as that gains anything, and up to 1000 rows the
        path of scikit-learn's optimizer is followed too. All of it is deterministic.
        "fmin_l_bfgs_b" is a single descent by scipy's L-BFGS-B on all rows, as in
        scikit-learn. A callable has scikit-learn's signature,
        ``optimizer(obj_func, initial_theta, bounds) -> (theta, value)``. None keeps the parameters; the
        variances are tuned all the same.
    n_restarts_optimizer : int, default=0
        Further starts, drawn log-uniformly within the bounds; the best end is kept.
    priors : dict, default=None
        Frozen :mod:`scipy.stats` distributions by parameter name, "noise_variance" and "signal_variance"
        included ("length_scale" stands for every parameter of that name): the criterion times their
        densities is maximised (MAP2).
    inference : {"maximize", "integrate"}, default="maximize"
        What becomes of the variances. "maximize" takes those of the largest criterion as known.
        "integrate" averages over them: the prior is 1/signal_variance and flat in the logarithm of the
        noise ratio, over the range that the spectrum resolves and within the bounds of a ``ConstantKernel``
        and a ``WhiteKernel``, and predictions are mixtures of Student-t distributions (of normal ones within
        bounds), wider where few rows determine the variances. Learned kernel parameters are averaged over,
        too, with a flat prior of their logarithms within the bounds or the given `priors`: by points around
        the largest evidence, each of which takes a decomposition that is kept: 7 to 17 for one parameter and
        1 + 2p + 2^k for p of them, k < p beyond 4, and 2p more for their curvature. It needs
        ``criterion="evidence"``, no priors of the variances and no fixed variance. ``optimizer=None`` takes
        kernel parameters as known, and so does a factor of given rank, which learns them by a lower bound of
        the evidence. Missing targets need ``optimizer=None``.
    indefinite : {"refuse", "flip", "clip"}, default="refuse"
        What becomes of a kernel matrix with negative eigenvalues, such as that of a sigmoid kernel or of
        similarities: an error, their moduli in their place, or 0. New rows are transformed alike, and
        `indefinite_` tells what was done. The last two decompose the whole matrix, whatever its size, and
        kernel parameters are learned only where the kernel is positive semi-definite.
    method : {"auto", "exact", "low_rank"}, default="auto"
        "exact" decomposes the kernel matrix. "low_rank" never forms it: O(n r^2) time and O(n r) memory by
        a pivoted Cholesky factor. "auto" is exact for small n; otherwise it takes a factor where one of
        small rank is certified to give the log evidence to 0.01. Else it is exact up to 12,000 rows, if the
        matrix fits in memory, and beyond takes the largest factor that is affordable: of rank
        490,000/sqrt(n) (4000 for 15,000 rows, 490 for a million), half of it while the kernel is learned, or
        less where memory is short. A `LowRankWarning` tells the rank and how far apart `evidence_bounds_`
        are.
    rank : int, default=None
        Rank of the factor; None means as large as the certificate needs. "exact" has no factor. With a given
        rank, what is maximised is not the evidence of the factor but what it is certain of, the lower one of
        `evidence_bounds_`, and learning moves the inputs that span the factor; see Notes.
    selection : {"pivots", "greedy"}, default="pivots"
        Which rows span a factor, see :class:`SpectralKernelRidge`. "greedy" chooses them once, after the
        kernel's parameters are learned.
    copy_X_train : bool, default=True
        Whether a copy of X is kept for predictions, or X itself.
    verbose : int, default=0
        1 prints what is ahead (levels, rank, rough time), a line for every outer step (rows, rank where a
        factor stands in for K, objective, parameters) and, about once a second, the rank that a factor has
        reached and the rows done; more prints every line.
    random_state : int, RandomState instance or None, default=None
        Source of the restarts; nothing else is random.

    Attributes
    ----------
    kernel_ : Kernel or "precomputed"
        The learned kernel, of unit variance and without noise.
    noise_variance_, signal_variance_ : float or ndarray of shape (n_outputs,)
        The tuned variances.
    log_marginal_likelihood_value_ : float
        Log evidence, summed over outputs. With mean functions F it is the restricted one (REML): the
        textbook's plus 1/2 log|F'WF| for each output, a constant that does not depend on the kernel (for an
        intercept alone, 1/2 log of the sum of the weights).
    alpha_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Weights of `kernel_` in the predictive mean; in a model of low rank, of the kernel that its factor
        stands for.
    beta_ : ndarray of shape (n_functions,) or (n_functions, n_outputs), or None
        Coefficients of the mean, that of the constant first; None where there are no mean functions. See
        `mean_summary` for their standard errors.
    mean_names_ : tuple of str
        Names of the mean functions.
    variance_posterior_ : tuple of VariancePosterior, or None
        Posterior of the variances of each output; None unless ``inference="integrate"``. The other
        attributes then are those of "maximize", but `alpha_` and `beta_` give the mean at `kernel_`, averaged
        over the variances.
    kernel_posterior_ : KernelPosterior, or None
        Points and probabilities of the kernel parameters that predictions are averaged over; None where they
        are not.
    signal_covariance_, noise_covariance_ : ndarray of shape (n_outputs, n_outputs), or None
        Covariances Vg and Ve between outputs; None unless ``outputs="correlated"``. Their diagonals are the
        variances.
    tuning_ : tuple of TuningResult
        Status, value and number of evaluations for each output, of correlated ones for each alone, which is
        where the search for covariances starts.
    covariance_tuning_ : CovarianceResult or None
        Status, value, length of the gradient and number of evaluations of the search for covariances.
    evidence_bounds_ : tuple of two floats
        Lower and upper bound on the log evidence of the exact kernel matrix at the tuned variances. Both are
        that log evidence itself where the matrix was decomposed. A factor that was chosen to be certified
        has bounds at most 0.01 apart for each output. A factor of a given rank, or of greedily chosen rows,
        has wide bounds, because they use no more than the trace of what the factor misses. The lower bound of
        a factor of given rank is what its variances and kernel parameters maximise (by the evidence, without
        priors of the variances). Rounding is not
        part of them; it matters where the noise vanishes.
    rank_ : int
        Rank of the factor, or of the kernel matrix above rounding.
    spectrum_ : Spectrum
        The decomposition; where outputs are missing in different rows, that of the first output's rows, and
        so is `rank_`.
    indefinite_ : Repair or None
        What was done to negative eigenvalues; None where there were none.
    X_train_ : array-like of shape (n_samples, n_features)
        Training inputs.
    y_train_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Training targets.
    n_decompositions_ : int
        How many matrices were factorised, those of subsets of the rows included.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string column names.

    See Also
    --------
    SpectralKernelRidge : The same model as a ridge regression, with sparse inputs.
    sklearn.gaussian_process.GaussianProcessRegressor : Learns variances by gradient steps too.

    Notes
    -----
    With y~ = U'y and eigenvalues s of K, -2 log evidence = n log(sum y~^2/(s+g)) + sum log(s+g) + const at
    the best signal variance, g the ratio of noise to signal variance: one variable for each output. The
    kernel's parameters theta minimise the sum over outputs of that minimum. Constants that multiply the
    whole kernel are part of the signal variance.

    A factor Phi of given rank misses a part of K of trace tau, the more the shorter the lengths are, and
    its own evidence takes that part for noise. So kernel parameters and variances then maximise the lower
    bound of the exact log evidence, that of Phi Phi' less n/2 log(1 + tau/(n g)). Its landmarks are rows
    drawn by what the others miss of the kernel (depending on the content of the rows alone), once for every
    level of learning and once more at the end. Where derivatives of the kernel by its inputs are known (see
    `predict_gradient`), landmarks then move to where they make the bound larger, together with the kernel's
    parameters, and are no longer rows. That is often worth several times the rank. A step is not taken for
    less than 0.005 of -2 log evidence for each parameter, or 1e-4 for each row where landmarks move, and all
    rows are looked at no more than about 30 times.

    References
    ----------
    Schirru, Pampuri, De Nicolao, McLoone (2011), "Efficient Marginal Likelihood Computation for
    Gaussian Processes and Kernel Ridge Regression", arXiv:1110.6546.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral import SpectralGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])]) + rng.normal(0, [0.1, 0.5], (60, 2))
    >>> gp = SpectralGPRegressor(RBF(1.5)).fit(X, Y)
    >>> np.sqrt(gp.noise_variance_).round(1)
    array([0.1, 0.5])
    >>> mean, std = gp.predict([[5.0]], return_std=True)
    >>> mean.shape, std.shape
    ((1, 2), (1, 2))
    """

    _parameter_constraints: dict = {
        "kernel": [Kernel, StrOptions({"precomputed"}), None],
        "criterion": [StrOptions(set(CRITERIA))],
        "fit_intercept": ["boolean"],
        "outputs": [StrOptions({"independent", "correlated"})],
        "basis": [StrOptions({"linear", "quadratic"}), HasMethods("transform"), callable, None],
        "optimizer": [StrOptions({"default", "fmin_l_bfgs_b"}), callable, None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "priors": [dict, None],
        "inference": [StrOptions({"maximize", "integrate"})],
        "indefinite": [StrOptions(set(ACTIONS))],
        "method": [StrOptions({"auto", "exact", "low_rank"})],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
        "selection": [StrOptions({"pivots", "greedy"})],
        "copy_X_train": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: Kernel | Literal["precomputed"] | None = None,
        *,
        criterion: Criterion = "evidence",
        fit_intercept: bool = True,
        outputs: Literal["independent", "correlated"] = "independent",
        basis: Any = None,
        optimizer: Literal["default", "fmin_l_bfgs_b"] | Callable[..., Any] | None = "default",
        n_restarts_optimizer: int = 0,
        priors: dict[str, Any] | None = None,
        inference: Literal["maximize", "integrate"] = "maximize",
        indefinite: Indefinite = "refuse",
        method: Method = "auto",
        rank: int | None = None,
        selection: Selection = "pivots",
        copy_X_train: bool = True,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.criterion = criterion
        self.fit_intercept = fit_intercept
        self.outputs = outputs
        self.basis = basis
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.priors = priors
        self.inference = inference
        self.indefinite = indefinite
        self.method = method
        self.rank = rank
        self.selection = selection
        self.copy_X_train = copy_X_train
        self.verbose = verbose
        self.random_state = random_state

    _after_decomposition = frozenset({"criterion", "inference", "outputs"})

    @with_checked_parameters
    @all_or_nothing
    def fit(self, X: Objects, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Decompose the kernel matrix and tune the variances.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or list of object
            Training inputs, or the kernel matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. NaN in a two-dimensional y means that this output was not observed in this row. Each
            independent output is fitted to its own rows, with one decomposition for all outputs that share
            theirs. Correlated outputs tell of each other, also in rows where some are missing.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Relative precisions: a row of weight w has noise variance noise_variance_ / w, and a row of weight
            0 is left out. A common factor of all weights multiplies a tuned `noise_variance_`, and changes no
            prediction.

        Returns
        -------
        self : SpectralGPRegressor
            The fitted estimator.
        """
        y, holes = without_holes(y)
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **self._input_rules)
        if self.copy_X_train:
            X, y = np.copy(X), np.copy(y)
        Y = with_holes(as_columns(y), holes)
        mean, F = self._mean_functions(X)
        data = Data(X, Y, check_weights(sample_weight, X), F)
        check_enough_rows(data)
        return self._fit_data(data, y.ndim, mean)

    def predict(
        self,
        X: Objects,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
        K_test_diag: ArrayLike | None = None,
        y_observed: ArrayLike | None = None,
    ) -> FloatArray | Any:
        """Predict the mean and, on request, the standard deviation or covariance.

        Before `fit` these are of the prior, as in scikit-learn: mean 0 and the kernel as it was given.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs, or K(X_new, X_train) for ``kernel="precomputed"``.
        return_std : bool, default=False
            Whether to return the standard deviation of every prediction.
        return_cov : bool, default=False
            Whether to return the joint covariance of the predictions.
        include_noise : bool, default=True
            Whether these are of new observations (weight 1), as in scikit-learn with a WhiteKernel, or
            of the latent function.
        K_test_diag : array-like of shape (n_new,), default=None
            For ``kernel="precomputed"`` with ``return_std``: k(x, x) of every new point.
        y_observed : array-like of shape (n_new, n_outputs), default=None
            For ``outputs="correlated"``: what is known of the outputs in these rows, NaN where nothing is.
            Predictions are then conditional on it, row by row; what is observed in one new row is not used
            for another. Not with `return_cov`.

        Returns
        -------
        mean : ndarray of shape (n_new,) or (n_new, n_outputs)
        std : ndarray of shape (n_new,) or (n_new, n_outputs)
            Only with `return_std`.
        cov : ndarray of shape (n_new, n_new) or (n_new, n_new, n_outputs)
            Only with `return_cov`.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        if not self._is_fitted:
            return self._prior_process(X).predict(X, return_std, return_cov, include_noise)
        X = self._validated(X)
        if y_observed is not None:
            given = self._predict_given(X, y_observed, return_cov, include_noise, K_test_diag)
            return given if return_std else given[0]
        if not (return_std or return_cov):
            return without_single_axis(self._fitted.mean(X))
        prior = self._joint_prior(X) if return_cov else self._prior(X, K_test_diag)
        mean_and_spread = self._fitted.mean_and_spread(X, prior, include_noise)
        return tuple(without_single_axis(part) for part in mean_and_spread)

    def sample_y(
        self, X: Objects, n_samples: int = 1, random_state: RandomState = 0, include_noise: bool = True
    ) -> FloatArray:
        """Draw samples from the predictive distribution at X, or from the prior before `fit`.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=0
            Source of randomness.
        include_noise : bool, default=True
            Whether to draw new observations or the latent function.

        Returns
        -------
        ndarray of shape (n_new, n_samples) or (n_new, n_outputs, n_samples)
        """
        if not self._is_fitted:
            return self._prior_process(X).sample_y(X, n_samples, random_state, include_noise)
        X = self._validated(X)
        rng, prior = check_random_state(random_state), self._joint_prior(X)
        draws = self._fitted.sample(X, prior, n_samples, rng, include_noise)
        return draws[:, 0] if draws.shape[1] == 1 else draws

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> Any:
        """Return the log (restricted) evidence, summed over outputs: of the fit, or maximised at any theta.

        At a given theta the variances are those of the largest evidence within their bounds, whatever the
        `criterion` and the priors of the fit. The kernel matrix is formed, except with ``method="low_rank"``,
        whose gradient takes the smallest noise that rounding resolves as fixed. Constant outputs make it
        infinite.

        Parameters
        ----------
        theta : array-like of shape (n_kernel_params,), default=None
            Logarithms of the free parameters of `kernel_`, as in scikit-learn; None means the fitted ones,
            with the fitted variances.
        eval_gradient : bool, default=False
            Whether to return the gradient by theta too. It is that of the maximised value: the variances
            move along with theta.
        clone_kernel : bool, default=True
            False sets the theta of `kernel_`, as in scikit-learn; predictions stay those of the fit.

        Returns
        -------
        value : float
        gradient : ndarray of shape (n_kernel_params,)
            Only with `eval_gradient`.
        """
        check_is_fitted(self, "_fitted")
        if theta is None:
            if eval_gradient:
                raise ValueError("The gradient needs a theta: pass theta=model.kernel_.theta.")
            return self.log_marginal_likelihood_value_
        if self._is_precomputed:
            raise ValueError("kernel='precomputed' has no parameters theta; call without arguments.")
        kernel, theta = copied(self.kernel_), self._checked_theta(theta)
        if not clone_kernel:
            self.kernel_.theta = theta
        data, bounds = self._fitted.data.of_present_rows(), self._fitted.bounds
        plan, correlated = self._plan.for_learning(), self._is_correlated
        task = Task(data, kernel, CRITERIA["evidence"], bounds, plan=plan, correlated=correlated)
        with threads_for(len(data)):
            return profiled_evidence(by_patterns(task), theta, eval_gradient)

    def _checked_theta(self, theta):
        """Return theta as an array; refuse a wrong length and say which parameters there are."""
        theta, names = np.asarray(theta, dtype=np.float64), parameter_names(self.kernel_)
        if theta.shape != (len(names),):
            raise ValueError(
                f"theta has shape {theta.shape}, but kernel_ has the {len(names)} free parameter(s) {names}. "
                "The noise and the signal variance are not among them: they are tuned at every theta. For "
                "the log evidence at given variances use log_evidence_at."
            )
        return theta

    def loo_predict(self, return_std: bool = False) -> FloatArray | Any:
        """Predict every training row from all the others, exactly and without refitting.

        Kernel, landmarks and variances stay as they are, with ``inference="integrate"`` those of the largest
        evidence.
        The standard deviation is that of the row's own noisy observation: a row of weight w has the noise
        variance noise_variance_ / w. A row of weight 0, which the fit never saw, gets its ordinary
        prediction.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Only with `return_std`.
        """
        check_is_fitted(self, "_fitted")
        mean, variance, absent = self._fitted.leave_one_out()
        rows = absent.any(axis=1)
        if rows.any():
            ordinary_mean, ordinary_std = self._predict_training_rows(rows)
            mean[rows] = np.where(absent[rows], ordinary_mean, mean[rows])
            variance[rows] = np.where(absent[rows], ordinary_std**2, variance[rows])
        if not return_std:
            return without_single_axis(mean)
        return without_single_axis(mean), without_single_axis(np.sqrt(variance))

    def to_sklearn(self, output: int = 0) -> GaussianProcessRegressor:
        """Return a fitted GaussianProcessRegressor that makes the same predictions for one output.

        Its kernel is ``ConstantKernel(signal_variance) * kernel_ + WhiteKernel(noise_variance)``. Means
        agree exactly; so do standard deviations with ``fit_intercept=False``. With an intercept,
        scikit-learn's model takes the constant as known, so its standard deviations leave out the
        uncertainty of the mean. In place of a factor it has the whole kernel matrix, O(n^3), and predictions
        differ by what the factor misses.

        Parameters
        ----------
        output : int, default=0
            Which output.

        Returns
        -------
        sklearn.gaussian_process.GaussianProcessRegressor
        """
        check_is_fitted(self, "_fitted")
        if self._is_precomputed:
            raise ValueError(
                "GaussianProcessRegressor has no precomputed kernels. Fit with a kernel object to convert."
            )
        self._check_independent()
        if self._fitted.averaged is not None:
            raise ValueError(
                "inference='integrate' predicts by a mixture that no GaussianProcessRegressor equals. Fit "
                "with inference='maximize' to convert."
            )
        if self.basis is not None:
            raise ValueError(
                "GaussianProcessRegressor has no mean functions. Fit with basis=None to convert."
            )
        m = self._fitted.data.n_outputs
        if not -m <= output < m:
            raise ValueError(f"output={output} does not exist: the model has {m} output(s).")
        part, column = part_of(self._fitted, output % m)
        return as_sklearn(self.kernel_, part.solution, self.X_train_, column)

    @property
    def _is_precomputed(self):
        return isinstance(self.kernel, str)

    @property
    def _is_correlated(self):
        return self.outputs == "correlated"

    @property
    def _input_rules(self):
        if self._is_precomputed:
            return {"dtype": [np.float64, np.float32]}
        vectors = self.kernel is None or self.kernel.requires_vector_input
        return {"dtype": np.float64} if vectors else {"dtype": None, "ensure_2d": False}

    def _mean_functions(self, X):
        """Return the mean functions and their values at the rows."""
        if self.basis is not None and self._is_precomputed:
            raise ValueError(
                "basis makes mean functions of the inputs, which kernel='precomputed' does not know. Use a "
                "kernel object, or basis=None."
            )
        return MeanFunctions.fit(self.basis, self.fit_intercept, X, getattr(self, "feature_names_in_", None))

    def _starting_point(self, X, weight):
        """Return the core kernel, the bounds of both variances, and the kernel as it was given."""
        if self._is_precomputed:
            return self.kernel, VarianceBounds(), None
        if self.kernel is None:
            return default_kernel(X, weight), VarianceBounds(), None
        names = getattr(self, "feature_names_in_", None)
        given = copied(self.kernel) if names is None else resolve_columns(self.kernel, names)
        parts = split_kernel(given)
        return parts.core, VarianceBounds(parts.noise_bounds, parts.signal_bounds), given

    def _read_priors(self, kernel, bounds):
        """Return the priors of theta and of the variances, refusing bad ones before any work."""
        if self._is_precomputed:
            kernel = ConstantKernel(1.0, "fixed")  # no parameters to give a prior to
        priors = read_priors(self.priors, kernel, bounds)
        if self.priors and not CRITERIA[self.criterion].is_density:
            densities = sorted(name for name, c in CRITERIA.items() if c.is_density)
            raise ValueError(
                f"priors need a criterion that is a density ({', '.join(densities)}), got {self.criterion!r}."
            )
        return priors

    @property
    def _plan(self):
        exact = self.criterion != "evidence" or self.inference == "integrate" or self._is_correlated
        exact = exact or has_variance_priors(self.priors)
        return Plan(self.method, self.rank, self.selection, exact, self.indefinite)

    def _task(self, data):
        """Return what is learned and tuned; bad parameters are refused before any work."""
        kernel, bounds, given = self._starting_point(data.X, data.weight)
        if self._is_correlated:
            check_correlatable(self.criterion, self.inference, has_variance_priors(self.priors), bounds)
            if data.has_holes:
                check_entries(data, self._plan)
        theta_prior, variance_prior = self._read_priors(kernel, bounds)
        if self.inference == "integrate":
            check_integrable(self.criterion, variance_prior, bounds)
        self._plan.check(len(data))
        return Task(
            data,
            kernel,
            CRITERIA[self.criterion],
            bounds,
            variance_prior,
            theta_prior,
            given,
            self._plan,
            self._is_correlated,
            Progress(type(self).__name__, self.verbose),
        )

    def _fit_data(self, data, y_ndim, mean, decomposition=None):
        """Fit, with a decomposition of the same kernel and rows if there is one already."""
        with threads_for(len(data)):
            return self._adopt(*self._solve(self._task(data), y_ndim, mean, decomposition))

    def _decomposition_needs(self, n):
        return self._plan.route(n) if self._keeps_kernel else None

    @property
    def _keeps_kernel(self):
        """Whether there is nothing to learn about the kernel."""
        if self._is_precomputed or self.optimizer is None:
            return True
        return self.kernel is not None and split_kernel(self.kernel).core.n_dims == 0

    @property
    def _is_fitted(self):
        return hasattr(self, "_fitted")

    def _prior_process(self, X):
        """Return the process before any data, at inputs like X; "precomputed" has none."""
        if self._is_precomputed:
            check_is_fitted(self, "_fitted")
        return PriorProcess.of(self.kernel)

    def _validated(self, X):
        """Return new inputs, checked against those of fit."""
        return validate_data(self, X, reset=False, **self._input_rules)

    def _prior(self, X, K_test_diag):
        """Return k(x, x) of new inputs."""
        if not self._is_precomputed:
            return make_gram(self.kernel_).diagonal(X)
        if K_test_diag is None or np.shape(K_test_diag) != (X.shape[0],):
            got = "nothing" if K_test_diag is None else f"shape {np.shape(K_test_diag)}"
            raise ValueError(
                "Spreads with kernel='precomputed' need K_test_diag, the "
                f"{X.shape[0]} values k(x, x) of the new points; got {got}."
            )
        return np.asarray(K_test_diag, dtype=np.float64)

    def _joint_prior(self, X):
        """Return the kernel among new inputs."""
        if self._is_precomputed:
            raise ValueError(
                "Joint predictions (return_cov, sample_y) need the kernel among the new points, which "
                "kernel='precomputed' does not know. Use predict with return_std=True and K_test_diag."
            )
        check_memory(X.shape[0], self._fitted.data.n_outputs)
        return make_gram(self.kernel_).square(X)

    def _training_diagonal(self):
        return np.diag(self.X_train_) if self._is_precomputed else None

    def _predict_training_rows(self, rows):
        diagonal = self._training_diagonal()
        diagonal = diagonal if diagonal is None else diagonal[rows]
        mean, std = self.predict(self.X_train_[rows], return_std=True, K_test_diag=diagonal)
        return as_columns(mean), as_columns(std)

    def _adopt(self, fitted, kernel, n_decompositions):
        """Take over a fitted model: all attributes at once."""
        solution, ndim = fitted.solution, fitted.y_ndim
        attributes = {
            "_fitted": fitted,
            "kernel_": kernel if self._is_precomputed else copied(kernel),
            "noise_variance_": per_output(solution.noise_var, ndim),
            "signal_variance_": per_output(solution.signal_var, ndim),
            "log_marginal_likelihood_value_": solution.log_evidence.sum(),
            "alpha_": like_targets(solution.dual, ndim),
            "beta_": like_targets(solution.beta, ndim) if len(solution.beta) else None,
            "mean_names_": fitted.mean_functions.names,
            "variance_posterior_": fitted.posteriors,
            "kernel_posterior_": getattr(fitted, "kernel_posterior", None),
            "tuning_": solution.tuning,
            **covariance_attributes(solution),
            "evidence_bounds_": tuple(float(bound.sum()) for bound in fitted.evidence_bounds),
            "rank_": fitted.decomposition.rank,
            "spectrum_": fitted.decomposition.spectrum,
            "indefinite_": fitted.decomposition.spectrum.repair,
            "X_train_": fitted.data.X,
            "y_train_": like_targets(fitted.data.Y, ndim),
            "n_decompositions_": n_decompositions,
        }
        vars(self).update(attributes)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        tags.requires_fit = self._is_precomputed  # others predict from the prior before
        return tags
