"""Search over kernels and their parameters in the pattern of GridSearchCV, one decomposition per kernel."""

import copy
import numbers
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import BaseCrossValidator, ParameterGrid, ParameterSampler, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _num_samples

from ..support.atomic import all_or_nothing
from ..support.types import Objects, RandomState, SparseOrDense
from .criterion import check_comparable, criterion_score, tuned_values
from .evaluation import Evaluation

__all__ = ["KernelSearchCV"]


class KernelSearchCV(BaseSearchCV):
    """Choose kernels and their parameters as GridSearchCV does, without repeating decompositions.

    With ``cv=None`` there are no folds: candidates are ranked by the estimator's own criterion (the
    evidence by default) on all rows, at one decomposition for each kernel candidate. With folds the
    results are those of :class:`sklearn.model_selection.GridSearchCV`, and candidates that differ only in
    ``alpha``, ``criterion`` or ``alpha_per_target`` share the decomposition of their kernel and split, also
    when the estimator is the last step of a Pipeline.

    Parameters
    ----------
    estimator : estimator
        A SpectralKernelRidge or SpectralGPRegressor, or a Pipeline that ends with one.
    param_grid : dict or list of dict
        Lists of values (or, with `n_iter`, distributions) by parameter name, ``step__parameter`` for a
        Pipeline.
    cv : int, splitter, iterable or None, default=None
        None ranks by the criterion on all rows, which must then be the same for all candidates; anything
        else is as in GridSearchCV. Evidences of candidates that differ in `fit_intercept` or `basis` are
        compared with flat priors of density 1 / (range of y) for the coefficients of their means.
    scoring : str, callable, list, tuple or dict, default=None
        As in GridSearchCV; only with folds.
    refit : bool, str or callable, default=True
        As in GridSearchCV.
    n_jobs : int, default=None
        Threads that evaluate candidates. Each of them has all threads of BLAS, so that results do not depend
        on their number. Several gain where Python waits for other work (a scorer that reads a file, say):
        scipy lets no other thread of Python run while LAPACK decomposes a matrix.
    verbose : int, default=0
        As in GridSearchCV.
    error_score : "raise" or number, default=nan
        As in GridSearchCV.
    return_train_score : bool, default=False
        As in GridSearchCV; only with folds.
    n_iter : int, default=None
        Draw so many candidates from `param_grid` as RandomizedSearchCV does, instead of all.
    random_state : int, RandomState instance or None, default=None
        Source of these draws.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        As in GridSearchCV. With ``cv=None`` the score is the criterion summed over outputs, and there are
        also "alpha", "noise_variance", "signal_variance" and "log_evidence" of every candidate (objects,
        since there may be several outputs; nan where a fit failed).
    best_estimator_, best_score_, best_params_, best_index_, n_splits_, refit_time_, multimetric_
        As in GridSearchCV.
    scorer_ : callable or dict of callable
        What `score` uses, as in GridSearchCV; with ``cv=None`` the estimator's own `score`.
    n_features_in_, feature_names_in_
        Those of `best_estimator_`.

    See Also
    --------
    SpectralKernelRidge, SpectralGPRegressor : The estimators it is made for.
    sklearn.model_selection.GridSearchCV, sklearn.model_selection.RandomizedSearchCV : Its patterns.

    Notes
    -----
    All candidates of a kernel and a split are one task, and only their scores are kept. With given alphas,
    and scorers that look at predictions (the default, scikit-learn's names, `make_scorer`), its cost is a
    third of a decomposition, because no eigenvectors are made. Where no step of a Pipeline learns from the
    rows, and every split trains on all rows that it does not test, one decomposition of all n rows may serve
    all splits: with M the inverse of K + alpha I outside the mean space, a block I that is left out has the
    residuals M_II^-1 (M y)_I exactly. That is done where 5.5 n^3, and b^2 n + b^3 for each alpha and block
    of b rows, are less than 2 (n - b)^3 for each block (many folds, few alphas), and K + alpha I is
    conditioned below 1e7.

    `cv_results_` shares the time of a task equally among its candidates. Steps before the last one of a
    Pipeline are fitted once for each kernel and split.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from skspectral import KernelSearchCV, SpectralKernelRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = KernelSearchCV(SpectralKernelRidge(), {"gamma": np.logspace(-2, 2, 5)}).fit(X, y)
    >>> float(search.best_params_["gamma"])
    1.0
    """

    _parameter_constraints: dict = {
        **BaseSearchCV._parameter_constraints,
        "param_grid": [dict, list],
        "n_iter": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }
    _parameter_constraints.pop("pre_dispatch")
    pre_dispatch = "2*n_jobs"  # read by BaseSearchCV.fit

    def __init__(
        self,
        estimator: BaseEstimator,
        param_grid: dict[str, Any] | list[dict[str, Any]],
        *,
        cv: int | BaseCrossValidator | Iterable[Any] | None = None,
        scoring: str | Callable[..., Any] | Iterable[str] | Mapping[str, Any] | None = None,
        refit: bool | str | Callable[..., int] = True,
        n_jobs: int | None = None,
        verbose: int = 0,
        error_score: float | Literal["raise"] = np.nan,
        return_train_score: bool = False,
        n_iter: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.error_score = error_score
        self.return_train_score = return_train_score
        self.n_iter = n_iter
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: SparseOrDense | Objects, y: ArrayLike | None = None, **params: Any) -> Self:
        """Evaluate all candidates and refit the best.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_samples)
            Training rows, or a kernel matrix where the estimator's kernel is "precomputed".
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        **params : dict
            Passed on as in GridSearchCV: ``sample_weight`` to the estimator, ``groups`` to the splitter.

        Returns
        -------
        self : KernelSearchCV
            The fitted search.
        """
        self._validate_params()  # BaseSearchCV.fit does it too, after what is needed here
        if y is None and get_tags(self).target_tags.required:
            raise ValueError("KernelSearchCV requires y to be passed, but the target y is None.")
        # BaseSearchCV reads the attribute cv, and takes None for five folds
        cv, self.cv = self.cv, self._splitter(y)
        try:
            # Threads, not processes: they share results.
            with parallel_config(backend="threading"):
                super().fit(X, y, **params)
        finally:
            self.cv = cv
        if cv is None:
            # candidates were ranked by the criterion, but `score` is about the rows it is given
            self.scorer_ = check_scoring(self.estimator)
        return self

    def _splitter(self, y):
        if self.cv is None:
            return _AllRows()
        return check_cv(self.cv, y, classifier=is_classifier(self.estimator))

    @property
    def _has_folds(self):
        return not (self.cv is None or isinstance(self.cv, _AllRows))

    def _varies(self, *names):
        """Return whether candidates may differ in one of these parameters of the last step."""
        grids = [self.param_grid] if isinstance(self.param_grid, dict) else self.param_grid
        keys = [key for grid in grids if isinstance(grid, dict) for key in grid]
        return any(str(key).rpartition("__")[2] in names for key in keys)

    def _candidates(self):
        if self.n_iter is not None:
            return list(ParameterSampler(self.param_grid, self.n_iter, random_state=self.random_state))
        for grid in [self.param_grid] if isinstance(self.param_grid, dict) else self.param_grid:
            if not isinstance(grid, dict):
                raise TypeError(f"Parameter grid is not a dict ({grid!r})")
            drawn = [name for name, values in grid.items() if hasattr(values, "rvs")]
            if drawn:
                raise ValueError(
                    f"The values of {', '.join(drawn)} are a distribution: pass n_iter, the number of "
                    "candidates to draw, or a list of values."
                )
        return list(ParameterGrid(self.param_grid))

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        """Evaluate candidates, those of a kernel and a split together."""
        candidates = self._candidates()
        evaluation = Evaluation(self.estimator, candidates)
        if not self._has_folds:
            check_comparable(evaluation.models)
        is_called_back = bool(getattr(self, "_skl_callbacks", None))
        run = partial(evaluation.run, evaluate_candidates, candidates, self.cv)
        if not is_called_back:
            run(is_watched=self.verbose > 1)
            return
        context = callback_ctx.subcontext(
            task_name="search", max_subtasks=len(candidates) * self.n_splits_, sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=self)
        run(is_watched=True, callback_ctx=context)
        context.call_on_fit_task_end(estimator=self)

    def _format_results(self, candidate_params, n_splits, out, more_results=None):
        if not self._has_folds:
            more_results = {**(more_results or {}), **tuned_values(out)}
        return super()._format_results(candidate_params, n_splits, out, more_results)

    def _get_scorers(self):
        if self._has_folds:
            return super()._get_scorers()
        if self.scoring is not None:
            raise ValueError(
                f"scoring={self.scoring!r} needs folds, but cv=None ranks candidates by the estimator's own "
                "criterion on all rows. Pass cv=5 or another splitter, or leave scoring=None."
            )
        if self.return_train_score:
            raise ValueError("return_train_score=True needs folds: pass cv=5 or another splitter.")
        return partial(criterion_score, constants_vary=self._varies("fit_intercept", "basis")), "score"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags = copy.deepcopy(get_tags(self.estimator).target_tags)  # several outputs are welcome
        return tags


class _AllRows:
    """A single split that trains and tests on everything."""

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1

    def split(self, X, y=None, groups=None):
        rows = np.arange(_num_samples(X))
        yield rows, rows
