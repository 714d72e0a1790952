"""Relevance vector classification: few kernel functions for each class."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import Kernel
from sklearn.preprocessing import LabelEncoder
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ..inference.candidates import on_one_thread
from ..inference.observations import observe
from ..inference.sparse_classes import expand_latent, widened_root
from ..likelihoods import Bernoulli
from ..linalg.dictionary import Dictionary
from ..support.atomic import all_or_nothing
from ..support.exceptions import warn_user
from ..support.progress import Progress
from ..support.types import FloatArray, SparseOrDense
from ..support.validation import with_checked_parameters
from .expansion import FittedExpansion, Spread
from .sparse_expansion import SparseExpansion

__all__ = ["RelevanceVectorClassifier"]

# Rows beyond which functions are those of some rows only.
_MOST_CANDIDATES = 1500


class RelevanceVectorClassifier(ClassifierMixin, SparseExpansion):
    """Relevance vector machine for two or more classes.

    For two classes P(second class) = 1/(1 + exp(-f)), f(x) = b + sum_i theta_i k(x, x_i) with
    theta_i ~ N(0, v_i). Laplace's approximate evidence is maximised over the prior variances v_i; most are 0
    then. With more classes there is one such model for each class against the rest, and their probabilities
    are scaled to sum to 1.

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
    fit_intercept : bool, default=True
        Whether latent functions have an unpenalised constant.
    tol : float, default=1e-6
        As of :class:`RelevanceVectorRegressor`.
    max_iter : int, default=100
        Limit of the rounds of working targets.
    verbose : int, default=0
        1 prints a line after every round of working targets of every class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    relevance_ : ndarray of shape (n_relevance,)
        Training rows whose functions some class uses.
    relevance_vectors_ : {ndarray, sparse matrix} of shape (n_relevance, n_features)
        These rows.
    dual_coef_ : ndarray of shape (n_relevance, 1) or (n_relevance, n_classes)
        The theta at the mode; 0 where a class does not use a function.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Constants; 0 with ``fit_intercept=False``.
    log_marginal_likelihood_value_ : float
        Laplace's approximate log evidence, summed over the models of several classes.
    n_iter_ : int
        Largest number of rounds.
    n_features_in_ : int
        Number of features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, if X had string column names.

    See Also
    --------
    SpectralGPClassifier : All rows, and several classes jointly.

    Notes
    -----
    Given the mode, the likelihood looks like that of working targets with known noise variances, on which the
    evidence is maximised as for :class:`RelevanceVectorRegressor`; then the mode is found anew. The way
    the curvature depends on the prior variances is not followed, so that the evidence need not grow in every
    round; the best is kept. Probabilities average over a normal latent value whose variance belongs to the
    largest curvature of the likelihood, as those of :class:`SpectralGPClassifier`. Beyond 1500 rows the
    candidates are the functions of 1500 rows that look random.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skspectral import RelevanceVectorClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RelevanceVectorClassifier().fit(X, y)
    >>> bool(model.score(X, y) > 0.95), len(model.relevance_) < 30
    (True, True)
    """

    _parameter_constraints: dict = {
        **SparseExpansion._parameter_constraints,
        "tol": [Interval(Real, 0, None, closed="neither")],
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
        fit_intercept: bool = True,
        tol: float = 1e-6,
        max_iter: int = 100,
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
        """Find the functions and their prior variances for each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or the kernel matrix (n_samples, n_samples) for ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Powers of the likelihood: a row of weight 2 counts as two rows, a row of weight 0 is absent.

        Returns
        -------
        self : RelevanceVectorClassifier
            The fitted estimator.
        """
        X, y = validate_data(self, X, y, **self._input_rules)
        check_classification_targets(y)
        y = np.asarray(column_or_1d(y, warn=True))
        data, kept = self._data(X, np.zeros((len(y), 1)), sample_weight)
        labels = LabelEncoder().fit(y[kept])
        if len(labels.classes_) < 2:
            raise ValueError(
                f"A classifier needs at least two classes, got one class, {str(labels.classes_[0])!r}, in "
                "rows of positive weight. Pass rows of other classes too."
            )
        with on_one_thread(len(data)):
            return self._fitted_to(data, kept, labels, y[kept])

    def _fitted_to(self, data, kept, labels, y):
        dictionary = self._dictionary(data, self._gram)
        chosen = np.sort(dictionary.centres[:_MOST_CANDIDATES])
        dictionary = Dictionary(dictionary.gram, data.X, data.rows, chosen)
        K = dictionary.raw(np.arange(len(chosen)))
        codes = labels.transform(y)
        positive = [1] if len(labels.classes_) == 2 else range(len(labels.classes_))
        weight = np.ones(len(data)) if data.weight is None else data.weight
        expansions = [self._expand(K, codes == c, weight, labels.classes_[c]) for c in positive]
        if not all(e.converged for e in expansions):
            warn_user(
                f"Relevance vectors have not settled after {self.max_iter} rounds. Increase max_iter.",
                ConvergenceWarning,
            )
        return self._adopt(dictionary, K, weight, kept, expansions, labels.classes_)

    def _expand(self, K, is_positive, weight, label):
        observations = observe(Bernoulli(), is_positive.astype(np.float64), weight)
        speak = Progress(f"{type(self).__name__}, class {label}", self.verbose).line
        return expand_latent(
            K,
            observations,
            has_constant=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            report=speak,
        )

    def _adopt(self, dictionary, K, weight, kept, expansions, classes):
        """Take over a fitted model: all attributes at once."""
        used = np.unique(np.concatenate([e.functions for e in expansions]))
        dual = np.zeros((len(used), len(expansions)))
        for j, e in enumerate(expansions):
            dual[np.searchsorted(used, e.functions), j] = e.coefficients
        centres = dictionary.centres[used]
        vars(self).update(
            _fitted=tuple(self._latent(dictionary, K, weight, e) for e in expansions),
            _columns=kept,
            classes_=classes,
            relevance_=kept[centres],
            relevance_vectors_=dictionary.X[centres],
            dual_coef_=dual,
            intercept_=np.array([e.constant if self.fit_intercept else 0.0 for e in expansions]),
            log_marginal_likelihood_value_=float(sum(e.log_evidence for e in expansions)),
            n_iter_=max(e.n_iter for e in expansions),
        )
        return self

    def _latent(self, dictionary, K, weight, e):
        """Return the latent function of one class as a `FittedExpansion`."""
        K = K[:, e.functions]
        root, rows = widened_root(K, e.prior_variance, weight, self.fit_intercept)
        few = Dictionary(dictionary.gram, dictionary.X, rows, dictionary.centres[e.functions])
        spread = Spread(np.arange(len(e.functions)), root, 0.0, 1.0)
        constant = np.array([e.constant if self.fit_intercept else 0.0])
        constant_var = float(np.sum(rows.R_inv**2))
        return FittedExpansion(
            few, e.coefficients[:, None], constant, rows.levels(K), constant_var, (spread,), 1
        )

    def _inputs(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._input_rules)
        return X[:, self._columns] if self._is_precomputed else X

    def decision_function(self, X: SparseOrDense) -> FloatArray:
        """Return the latent functions at their mode.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            New rows, or K(X_new, X_train) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_new,) for two classes, else (n_new, n_classes)
        """
        X = self._inputs(X)
        F = np.column_stack([latent.mean(X)[:, 0] for latent in self._fitted])
        return F[:, 0] if F.shape[1] == 1 else F

    def predict_proba(self, X: SparseOrDense) -> FloatArray:
        """Return the probabilities of the classes, averaged over the latent functions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            New rows, or K(X_new, X_train) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_new, n_classes)
        """
        X, curve = self._inputs(X), Bernoulli()
        P = [
            curve.probabilities(latent.mean(X)[:, 0], latent.std(X, False, False)[:, 0] ** 2)
            for latent in self._fitted
        ]
        if len(P) == 1:
            return P[0]
        each = np.column_stack([p[:, 1] for p in P])
        return each / each.sum(axis=1, keepdims=True)

    def predict(self, X: SparseOrDense) -> Any:
        """Return the class of the largest probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_new, n_features)
            New rows, or K(X_new, X_train) for ``kernel="precomputed"``.

        Returns
        -------
        ndarray of shape (n_new,)
        """
        F = self.decision_function(X)
        chosen = (F > 0).astype(np.intp) if F.ndim == 1 else np.argmax(F, axis=1)
        return self.classes_[chosen]
