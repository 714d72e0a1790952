"""Gaussian process regression with its variances tuned from one decomposition."""

import warnings
from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, _fit_context, clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from .criteria import CRITERIA
from .exceptions import KernelBoundWarning
from .gram import make_gram
from .kernel_parts import parameter_names, split_kernel
from .learning import Task, learn, learn_with, profiled_evidence
from .priors import read_priors
from .sharing import decomposition
from .solution import VarianceBounds, solve
from .spectrum import Spectrum
from .validation import as_columns, check_weights, per_target

__all__ = ["SpectralGPRegressor"]


class SpectralGPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression: variances tuned exactly for every output, kernel parameters learned.

    The model is y = beta + f + e with f ~ N(0, signal_variance * K) and e ~ N(0, noise_variance / w).
    The kernel matrix is factorised once and both variances follow at O(n) per trial value, by a
    global search, for any number of outputs.

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
    optimizer : "default", callable or None, default="default"
        How the kernel's free parameters are learned. "default" descends along the analytic gradient of
        the profiled criterion, from few rows to all of them. A callable has scikit-learn's signature,
        ``optimizer(obj_func, initial_theta, bounds) -> (theta, value)``. None keeps the parameters; the
        variances are tuned all the same.
    n_restarts_optimizer : int, default=0
        Further starts, drawn log-uniformly within the bounds; the best end is kept.
    priors : dict, default=None
        Frozen :mod:`scipy.stats` distributions by parameter name, "noise_variance" and "signal_variance"
        included ("length_scale" stands for every parameter of that name): the criterion times their
        densities is maximised (MAP2).
    copy_X_train : bool, default=True
        Whether a copy of X is kept for predictions, or X itself.
    verbose : int, default=0
        1 prints a line for every outer step: rows, log criterion, parameters.
    random_state : int, RandomState instance or None, default=None
        Source of the restarts; nothing else is random.

    Attributes
    ----------
    kernel_ : Kernel or "precomputed"
        The learned kernel, of unit variance and without noise.
    noise_variance_, signal_variance_ : float or ndarray of shape (n_targets,)
        The tuned variances.
    log_marginal_likelihood_value_ : float
        Log (restricted) evidence, summed over outputs.
    alpha_ : ndarray of shape (n_samples,) or (n_samples, n_targets)
        Weights of `kernel_` in the predictive mean.
    beta_ : ndarray of shape (1,) or (1, n_targets), or None
        Coefficients of the mean; None with ``fit_intercept=False``.
    tuning_ : tuple of TuningResult
        Status, value and number of evaluations for each output.
    spectrum_ : Spectrum
        The decomposition.
    X_train_ : array-like of shape (n_samples, n_features)
        Training inputs.
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
        "optimizer": [StrOptions({"default"}), callable, None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "priors": [dict, None],
        "copy_X_train": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel=None,
        *,
        criterion="evidence",
        fit_intercept=True,
        optimizer="default",
        n_restarts_optimizer=0,
        priors=None,
        copy_X_train=True,
        verbose=0,
        random_state=None,
    ):
        self.kernel = kernel
        self.criterion = criterion
        self.fit_intercept = fit_intercept
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.priors = priors
        self.copy_X_train = copy_X_train
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Decompose the kernel matrix and tune the variances.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or list of object
            Training inputs, or the kernel matrix for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            A row of weight w >= 1 is w observations, so integer weights equal repeated rows; a row of
            weight w < 1 is one observation of noise variance noise_variance_ / w; 0 leaves a row out.
            Divide by the maximum where weights are meant as relative precisions.

        Returns
        -------
        self : SpectralGPRegressor
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **self._input_rules)
        weight = check_weights(sample_weight, X)
        start, self._bounds, ratio_start = self._starting_point(X, weight)
        theta_prior, self._variance_prior = self._read_priors(start)
        self._y_ndim = y.ndim
        self.X_train_ = np.copy(X) if self.copy_X_train else X
        Y = as_columns(y)
        criterion = CRITERIA[self.criterion]
        self.kernel_, self.n_decompositions_, spectrum = start, 0, None
        if self._learns(start):
            spectrum = self._learn(self._task(start, Y, weight, criterion, theta_prior, ratio_start))
        if spectrum is None or len(spectrum.U) < len(Y):  # rows of weight 0 are not learned from
            spectrum = self._decompose(self.kernel_, weight)
            self.n_decompositions_ += 1
        self.spectrum_ = spectrum
        return self._adopt(solve(spectrum.rotate(Y), criterion, self._bounds, prior=self._variance_prior))

    def predict(self, X, return_std=False, return_cov=False, include_noise=True, K_test_diag=None):
        """Predict the mean and, on request, the standard deviation or covariance.

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

        Returns
        -------
        mean : ndarray of shape (n_new,) or (n_new, n_targets)
        std : ndarray of shape (n_new,) or (n_new, n_targets)
            Only with `return_std`.
        cov : ndarray of shape (n_new, n_new) or (n_new, n_new, n_targets)
            Only with `return_cov`.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        X = validate_data(self, X, reset=False, **self._input_rules)
        gram = make_gram(self.kernel_)
        K_cross = gram.cross(X, self.X_train_)
        basis = np.ones((len(K_cross), 1)) if self.fit_intercept else None
        mean = K_cross @ self._solution.range_dual
        if self.fit_intercept:
            mean += basis @ self._solution.beta
        if not (return_std or return_cov):
            return _squeeze_single(mean)
        prior = self._prior(gram, X, return_cov, K_test_diag)
        variance = self._solution.predictive_variance(*self.spectrum_.project(K_cross, prior, basis))
        if include_noise:
            variance += self._solution.noise_var * (np.eye(len(mean))[..., None] if return_cov else 1.0)
        spread = variance if return_cov else np.sqrt(variance)
        return _squeeze_single(mean), _squeeze_single(spread)

    def sample_y(self, X, n_samples=1, random_state=0, include_noise=True):
        """Draw samples from the predictive distribution at X.

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
        ndarray of shape (n_new, n_samples) or (n_new, n_targets, n_samples)
        """
        rng = check_random_state(random_state)
        mean, cov = self.predict(X, return_cov=True, include_noise=include_noise)
        if mean.ndim == 1:
            return rng.multivariate_normal(mean, cov, n_samples, check_valid="ignore").T
        draws = [
            rng.multivariate_normal(mean[:, j], cov[..., j], n_samples, check_valid="ignore").T
            for j in range(mean.shape[1])
        ]
        return np.stack(draws, axis=1)

    def log_marginal_likelihood(self, theta=None, eval_gradient=False):
        """Return the log (restricted) evidence, maximised over the variances, summed over outputs.

        Parameters
        ----------
        theta : array-like of shape (n_kernel_params,), default=None
            Logarithms of the free parameters of `kernel_`, as in scikit-learn; None means the fitted ones.
        eval_gradient : bool, default=False
            Whether to return the gradient by theta too. It is that of the maximised value: the variances
            move along with theta.

        Returns
        -------
        value : float
        gradient : ndarray of shape (n_kernel_params,)
            Only with `eval_gradient`.
        """
        check_is_fitted(self)
        if theta is None:
            if eval_gradient:
                raise ValueError("The gradient needs a theta: pass theta=model.kernel_.theta.")
            return self.log_marginal_likelihood_value_
        if self._is_precomputed:
            raise ValueError("kernel='precomputed' has no parameters theta; call without arguments.")
        theta = np.asarray(theta, dtype=np.float64)
        weight = self.spectrum_.rows.sqrt_weight[:, 0] ** 2
        Y = self._solution.rotated.targets()
        value, gradient = profiled_evidence(self._task(self.kernel_, Y, weight, CRITERIA["evidence"]), theta)
        return (value, gradient) if eval_gradient else value

    def loo_predict(self, return_std=False):
        """Predict every training row from all the others, exactly and without refitting.

        Kernel and variances stay as they are. The standard deviation is that of the row's own noisy
        observation. A row of weight 0, which the fit never saw, gets its ordinary prediction.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
        std : ndarray of shape (n_samples,) or (n_samples, n_targets)
            Only with `return_std`.
        """
        check_is_fitted(self)
        mean, variance, absent = self._solution.leave_one_out()
        if absent.any():
            mean_absent, std_absent = self._predict_training_rows(absent)
            mean[absent], variance[absent] = mean_absent, std_absent**2
        if not return_std:
            return _squeeze_single(mean)
        return _squeeze_single(mean), _squeeze_single(np.sqrt(variance))

    def to_sklearn(self, output=0):
        """Return a fitted GaussianProcessRegressor that makes the same predictions for one output.

        Its kernel is ``ConstantKernel(signal_variance) * kernel_ + WhiteKernel(noise_variance)``. Means
        agree exactly; so do standard deviations with ``fit_intercept=False``. With an intercept,
        scikit-learn's model takes the constant as known, so its standard deviations leave out the
        uncertainty of the mean.

        Parameters
        ----------
        output : int, default=0
            Which output.

        Returns
        -------
        sklearn.gaussian_process.GaussianProcessRegressor
        """
        check_is_fitted(self)
        if self._is_precomputed:
            raise ValueError(
                "GaussianProcessRegressor has no precomputed kernels. Fit with a kernel object to convert."
            )
        m = self._solution.rotated.n_outputs
        if not -m <= output < m:
            raise ValueError(f"output={output} does not exist: the model has {m} output(s).")
        tiny = np.finfo(np.float64).tiny
        noise_var = max(self._solution.noise_var[output], tiny)
        signal_var = max(self._solution.signal_var[output], tiny)
        offset = self._solution.beta[0, output] if self.fit_intercept else 0.0
        weight = self.spectrum_.rows.sqrt_weight[:, 0] ** 2
        present = weight > 0
        gpr = GaussianProcessRegressor(
            ConstantKernel(signal_var) * self.kernel_ + WhiteKernel(noise_var),
            # WhiteKernel gives every row noise_var; the rest of noise_var / w stands here
            alpha=noise_var * (1.0 / weight[present] - 1.0),
            optimizer=None,
        )
        y = self._solution.rotated.targets()[present, output]
        gpr.fit(self.X_train_[present], y - offset)
        gpr._y_train_mean = np.full(1, offset)
        return gpr

    @property
    def _is_precomputed(self):
        return isinstance(self.kernel, str)

    @property
    def _input_rules(self):
        if self._is_precomputed:
            return {"dtype": [np.float64, np.float32]}
        vectors = self.kernel is None or self.kernel.requires_vector_input
        return {"dtype": np.float64} if vectors else {"dtype": None, "ensure_2d": False}

    def _starting_point(self, X, weight):
        """Return the core kernel, the bounds of both variances, and their ratio where both are given."""
        if self._is_precomputed:
            return self.kernel, VarianceBounds(), None
        if self.kernel is None:
            return _default_kernel(X, weight), VarianceBounds(), None
        parts = split_kernel(clone(self.kernel))
        given = parts.noise_start is not None and parts.signal_start is not None
        ratio = parts.noise_start / parts.signal_start if given else None
        return parts.core, VarianceBounds(parts.noise_bounds, parts.signal_bounds), ratio

    def _read_priors(self, kernel):
        """Return the priors of theta and of the variances, refusing bad ones before any work."""
        if self._is_precomputed:
            kernel = ConstantKernel(1.0, "fixed")  # no parameters to give a prior to
        theta_prior, variance_prior = read_priors(self.priors, kernel, self._bounds)
        if self.priors and not CRITERIA[self.criterion].is_density:
            densities = sorted(name for name, c in CRITERIA.items() if c.is_density)
            raise ValueError(
                f"priors need a criterion that is a density ({', '.join(densities)}), got {self.criterion!r}."
            )
        return theta_prior, variance_prior

    def _learns(self, kernel):
        return self.optimizer is not None and not self._is_precomputed and kernel.n_dims > 0

    def _task(self, kernel, Y, weight, criterion, theta_prior=None, ratio_start=None):
        """Return what is learned from: the rows of positive weight."""
        present = np.ones(len(Y), dtype=bool) if weight is None else weight > 0
        return Task(
            X=self.X_train_[present],
            Y=Y[present],
            weight=None if weight is None else weight[present],
            basis=np.ones((present.sum(), 1)) if self.fit_intercept else None,
            kernel=kernel,
            criterion=criterion,
            bounds=self._bounds,
            variance_prior=self._variance_prior,
            theta_prior=theta_prior,
            ratio_start=ratio_start,
        )

    def _learn(self, task):
        """Set `kernel_` to the best of all starts, count the factorisations and return the last spectrum."""
        bounds = task.kernel.bounds
        starts = [task.kernel.theta]
        if self.n_restarts_optimizer:
            if not np.isfinite(bounds).all():
                raise ValueError(
                    "n_restarts_optimizer > 0 draws starts within the bounds, which must be finite; got "
                    f"{dict(zip(parameter_names(task.kernel), np.exp(bounds).tolist(), strict=True))}."
                )
            rng = check_random_state(self.random_state)
            starts += [rng.uniform(*bounds.T) for _ in range(self.n_restarts_optimizer)]
        if callable(self.optimizer):
            ends = [learn_with(self.optimizer, task, theta, bounds) for theta in starts]
        else:
            report = self._print_step if self.verbose else None
            ends = [learn(task, theta, bounds, report=report) for theta in starts]
        best = min(ends, key=lambda end: end.value)
        self.kernel_ = task.kernel.clone_with_theta(best.theta)
        self.n_decompositions_ += sum(end.n_decompositions for end in ends)
        _warn_at_bounds(self.kernel_)
        return best.spectrum

    @staticmethod
    def _print_step(n_rows, step, theta, value, variances):
        parameters, noise, signal = (
            " ".join(f"{v:.4g}" for v in values) for values in (np.exp(theta), *variances)
        )
        print(
            f"[SpectralGPRegressor] rows {n_rows}, step {step}: objective {value:.8g}, "
            f"parameters {parameters}, noise {noise}, signal {signal}"
        )

    def _decompose(self, kernel, weight):
        X = self.X_train_

        def make():
            basis = np.ones((len(X), 1)) if self.fit_intercept else None
            return Spectrum.from_gram(make_gram(kernel).square(X), basis, weight, overwrite_K=True)

        return decomposition(make, kernel, X, weight, self.fit_intercept)

    def _prior(self, gram, X, joint, K_test_diag):
        """Return the kernel among new points: its diagonal, or all of it for joint results."""
        if not self._is_precomputed:
            return gram.square(X) if joint else gram.diagonal(X)
        if joint:
            raise ValueError(
                "return_cov needs the kernel among the new points, which kernel='precomputed' does not "
                "know. Use return_std=True with K_test_diag."
            )
        if K_test_diag is None or np.shape(K_test_diag) != (X.shape[0],):
            got = "nothing" if K_test_diag is None else f"shape {np.shape(K_test_diag)}"
            raise ValueError(
                f"return_std with kernel='precomputed' needs K_test_diag, the {X.shape[0]} values k(x, x) of "
                f"the new points; got {got}."
            )
        return np.asarray(K_test_diag, dtype=np.float64)

    def _predict_training_rows(self, rows):
        X = self.X_train_[rows]
        diagonal = np.diag(self.X_train_)[rows] if self._is_precomputed else None
        mean, std = self.predict(X, return_std=True, K_test_diag=diagonal)
        return as_columns(mean), as_columns(std)

    def _adopt(self, solution):
        """Take over a solution as the fitted state."""
        self._solution = solution
        one = self._y_ndim == 1
        self.noise_variance_ = per_target(solution.noise_var, self._y_ndim)
        self.signal_variance_ = per_target(solution.signal_var, self._y_ndim)
        self.log_marginal_likelihood_value_ = float(solution.log_evidence.sum())
        self.alpha_ = solution.dual[:, 0] if one else solution.dual
        self.beta_ = (solution.beta[:, 0] if one else solution.beta) if self.fit_intercept else None
        self.tuning_ = solution.tuning
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._is_precomputed
        return tags


def _default_kernel(X, weight):
    """Return an RBF of length sqrt(sum of the inputs' variances), which is sqrt(p) for standardised X."""
    centred = X - np.average(X, axis=0, weights=weight)
    length = float(np.sqrt(np.average(centred**2, axis=0, weights=weight).sum())) or 1.0
    return RBF(length, (1e-3 * length, 1e3 * length))


def _warn_at_bounds(kernel):
    """Warn once, naming every parameter that ended at a bound."""
    rows = zip(parameter_names(kernel), kernel.theta, kernel.bounds, strict=True)
    stuck = [
        f"{name} = {np.exp(value):.4g} ({'lower' if abs(value - low) < abs(value - high) else 'upper'} bound)"
        for name, value, (low, high) in rows
        if min(abs(value - low), abs(value - high)) < 1e-6
    ]
    if stuck:
        warnings.warn(
            f"Learned kernel parameters ended at a bound: {', '.join(stuck)}. Widen the bounds, or fix the "
            "parameter if the bound is meant.",
            KernelBoundWarning,
            stacklevel=4,
        )


def _squeeze_single(values):
    """Drop the axis of a single output, as scikit-learn's GaussianProcessRegressor does."""
    return values[..., 0] if values.shape[-1] == 1 else values
