"""Relevance vector regression: few kernel functions, each with a prior variance of its own."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from ..inference.candidates import expand, on_one_thread
from ..inference.sparse_noise import ProfiledNoise
from ..kernels.gammas import GAMMA_NAMES, matrices
from ..kernels.gram import PrecomputedGram
from ..linalg.dictionary import Dictionary
from ..support.atomic import all_or_nothing
from ..support.exceptions import warn_user
from ..support.progress import Progress
from ..support.shapes import as_columns, like_targets, per_output
from ..support.types import SparseOrDense
from ..support.validation import with_checked_parameters
from .expansion import Spread
from .sparse_expansion import SparseRegression, assemble

__all__ = ["RelevanceVectorRegressor"]

# Rows by which gamma is chosen, at most.
_ROWS_FOR_GAMMA = 1000


class RelevanceVectorRegressor(MultiOutputMixin, RegressorMixin, SparseRegression):
    """Relevance vector machine: a regression by few kernel functions, with error bars.

    f(x) = b + sum_i theta_i k(x, x_i) with theta_i ~ N(0, v_i), a prior variance v_i for each training row.
    The evidence is maximised over all v_i and the noise variance. Most v_i are then 0, and predictions need
    the functions of the other rows only, the relevance vectors.

    Parameters
    ----------
    kernel : str, callable or sklearn kernel, default="rbf"
        A name known to :func:`sklearn.metrics.pairwise.pairwise_kernels`, "precomputed", a callable of two
        rows, or a kernel of :mod:`sklearn.gaussian_process.kernels`. It need not be positive definite, nor a
        precomputed matrix symmetric: column j holds the function of row j.
    gamma : float, "auto" or None, default=None
        Parameter of the rbf, laplacian, polynomial, exponential chi2 and sigmoid kernels. None means the
        kernel's default (1 / n_features for most). "auto", for "rbf" and "laplacian", is the best of ten
        values around the inverse median distance (of up to 1000 rows): that of the largest log evidence less
        the number of functions.
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1
        Zero coefficient of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Additional keyword arguments of a callable kernel.
    fit_intercept : bool, default=True
        Whether to include the constant function. It has no prior, so that a shift of y shifts predictions.
    tol : float, default=1e-6
        A function stays out of the model where q^2/(s noise variance) - 1, which should not be positive, is
        no larger.
    max_iter : int, default=10000
        Limit of the number of steps for each output.
    verbose : int, default=0
        1 prints a line after every look at all candidate functions, which are looked at repeatedly where
        there are more than 1500.

    Attributes
    ----------
    relevance_ : ndarray of shape (n_relevance,)
        Training rows whose functions some output uses.
    relevance_vectors_ : {ndarray, sparse matrix} of shape (n_relevance, n_features)
        These rows.
    dual_coef_ : ndarray of shape (n_relevance,) or (n_relevance, n_outputs)
        Posterior means of theta; 0 where an output does not use a function.
    prior_variance_ : ndarray of shape (n_relevance,) or (n_relevance, n_outputs)
        Prior variances v; 0 where an output does not use a function.
    intercept_ : float or ndarray of shape (n_outputs,)
        The constant b; 0 with ``fit_intercept=False``.
    noise_variance_ : float or ndarray of shape (n_outputs,)
        Variance of the noise of a row of weight 1.
    signal_variance_ : float or ndarray of shape (n_outputs,)
        Prior variance of f (without its mean), on average over the training rows.
    log_marginal_likelihood_value_ : float or ndarray of shape (n_outputs,)
        Log evidence. With an intercept it is the restricted one, see :class:`SpectralKernelRidge`.
    gamma_ : float or None
        The gamma used.
    n_iter_ : int
        Largest number of steps of an output.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string column names.

    See Also
    --------
    LaplacianProcessRegressor : Few functions by a penalty on the sum of |theta|.
    SpectralGPRegressor : A prior over functions: all rows count, and error bars grow far from the data.

    Notes
    -----
    The evidence has many local maxima. They are approached from models with too many functions by Newton
    steps in all log v_i, the noise variance at its best throughout; then functions are added to the end once
    more, and the better end is taken. Beyond 20,000 rows the candidates are the functions of 20,000 rows that
    look random (they are chosen by the content of the rows, so that results are reproducible). Memory is
    O(n_samples) times a few times the number of relevance vectors; the kernel matrix is never formed where it
    is large.

    Far from the data all functions of a local kernel vanish, and with them the standard deviation of f: where
    least is known, the model is most certain. ``predict(..., include_prior=True)`` is the remedy, after
    Rasmussen and Quinonero-Candela (2005), "Healing the relevance vector machine through augmentation".

    References
    ----------
    Tipping (2001), "Sparse Bayesian learning and the relevance vector machine". Tipping and Faul (2003),
    "Fast marginal likelihood maximisation for sparse Bayesian models". Smola and Schoelkopf (2003), "Bayesian
    kernel methods", section 6.

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral import RelevanceVectorRegressor
    >>> X = np.linspace(-10, 10, 100)[:, None]
    >>> y = np.sinc(X[:, 0] / np.pi) + 0.1 * np.random.default_rng(0).normal(size=100)
    >>> model = RelevanceVectorRegressor(gamma=0.1).fit(X, y)
    >>> len(model.relevance_) < 10
    True
    >>> bool(0.08 < np.sqrt(model.noise_variance_) < 0.12)
    True
    """

    _parameter_constraints: dict = {
        **SparseRegression._parameter_constraints,
        "gamma": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        kernel: str | Callable[..., float] | Kernel = "rbf",
        *,
        gamma: float | Literal["auto"] | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    @with_checked_parameters
    @all_or_nothing
    def fit(self, X: SparseOrDense, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Find the functions, their prior variances and the noise of the largest evidence.

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
        self : RelevanceVectorRegressor
            The fitted estimator.
        """
        if isinstance(self.gamma, str) and not (isinstance(self.kernel, str) and self.kernel in GAMMA_NAMES):
            raise ValueError(
                f"gamma='auto' is known for the kernels {sorted(GAMMA_NAMES)}, got kernel={self.kernel!r}. "
                "Pass a number, or None for the kernel's default."
            )
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, **self._input_rules)
        data, kept = self._data(X, as_columns(y), sample_weight)
        with on_one_thread(len(data)):
            gamma = self._best_gamma(data) if isinstance(self.gamma, str) else self.gamma
            dictionary = self._dictionary(data, self._gram_of(gamma))
            expansions, scale = self._expand(dictionary, data)
            _warn_unless_converged(expansions)
            return self._adopt(dictionary, data, kept, expansions, scale, gamma, y.ndim)

    def _expand(self, dictionary, data):
        """Return the expansion of each output, and the scales of the targets."""
        Z, scale, _ = data.standardised
        noise, speak = (
            ProfiledNoise(max(data.rows.n_free, 1)),
            Progress(type(self).__name__, self.verbose).line,
        )
        return expand(dictionary, Z, noise, tol=self.tol, max_iter=self.max_iter, report=speak), scale

    def _best_gamma(self, data):
        """Return the gamma of the largest evidence, summed over outputs, on some of the rows.

        Each function has a prior variance that is fitted, and counts as Akaike's criterion counts parameters.
        Without that, functions so narrow that each is of one row alone have the largest evidence of all on
        data that say little: a model of all rows, without noise, that predicts the mean of all others.
        """
        order = data.shuffled(self._gram_of(None))[:_ROWS_FOR_GAMMA]
        some = data.subset(np.sort(order))
        values = {}
        for gamma, K in matrices(self.kernel, some.X):
            dictionary = Dictionary(PrecomputedGram(), K, some.rows, np.arange(len(some)))
            expansions, _ = self._expand(dictionary, some)
            values[gamma] = sum(e.fit.value + 2.0 * len(e.functions) for e in expansions)
        return min(values, key=values.get)

    def _adopt(self, dictionary, data, kept, expansions, scale, gamma, ndim):
        """Take over a fitted model: all attributes at once."""
        noise_var = scale**2 * [e.fit.noise_var if e.active.values.yy else 0.0 for e in expansions]
        priors = [s**2 * e.prior_variance for s, e in zip(scale, expansions, strict=True)]
        weight = float(np.sum(data.rows.sqrt_weight**2))
        # the mean square of a function over the rows is its squared length over their weight
        signal_var = np.array([p @ e.lengths**2 / weight for p, e in zip(priors, expansions, strict=True)])

        def spread(j, functions):
            e = expansions[j]
            root, v = e.covariance_root, noise_var[j]
            return Spread(functions, root, v, v, signal_var[j], e.active, e.lengths)

        functions = [e.functions for e in expansions]
        coefficients = [s * e.coefficients for s, e in zip(scale, expansions, strict=True)]
        fitted, used = assemble(dictionary, data, functions, coefficients, spread, ndim)
        variances = np.zeros_like(fitted.coefficients)
        for j, prior in enumerate(priors):
            variances[fitted.spreads[j].functions, j] = prior
        log_evidence = self._log_evidence(data, expansions, scale)
        vars(self).update(
            _fitted=fitted,
            _columns=kept,
            relevance_=kept[used],
            relevance_vectors_=data.X[used],
            dual_coef_=like_targets(fitted.coefficients, ndim),
            prior_variance_=like_targets(variances, ndim),
            intercept_=per_output(fitted.intercept, ndim),
            noise_variance_=per_output(noise_var, ndim),
            signal_variance_=per_output(signal_var, ndim),
            log_marginal_likelihood_value_=per_output(log_evidence, ndim),
            gamma_=gamma,
            n_iter_=max(1, *(e.fit.n_steps for e in expansions)),
        )
        return self

    def _log_evidence(self, data, expansions, scale):
        """Return the log evidence of each output, infinite for a target that is its mean exactly."""
        n = data.rows.n_free
        value = np.array([e.fit.value if e.active.values.yy else -np.inf for e in expansions])
        constant = n * (1.0 + np.log(2.0 * np.pi)) + 2.0 * n * np.log(scale)
        return -0.5 * (value + constant) + data.rows.counts.half_log_weight


def _warn_unless_converged(expansions):
    if not all(e.fit.converged for e in expansions):
        warn_user(
            f"The evidence is not at its maximum after {max(e.fit.n_steps for e in expansions)} steps. "
            "Increase max_iter or tol.",
            ConvergenceWarning,
        )
