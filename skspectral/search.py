"""Search over kernels and their parameters in the pattern of GridSearchCV, one decomposition per kernel."""

import numbers

import joblib
import numpy as np
from joblib import parallel_config
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import Interval
from threadpoolctl import threadpool_limits

from .sharing import shared_decompositions

__all__ = ["KernelSearchCV"]

# Parameters of the last step that come after the decomposition: candidates that differ only in them
# share it.
_AFTER_DECOMPOSITION = frozenset({"alpha", "criterion", "alpha_per_target"})
_TUNED = ("alpha", "noise_variance", "signal_variance", "log_evidence")


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
        Values (or, with `n_iter`, distributions) by parameter name.
    cv : int, splitter, iterable or None, default=None
        None ranks by the criterion on all rows; anything else is as in GridSearchCV.
    scoring : str, callable, list, tuple or dict, default=None
        As in GridSearchCV; only with folds.
    refit : bool, str or callable, default=True
        As in GridSearchCV.
    n_jobs : int, default=None
        Threads that evaluate candidates; the BLAS threads are divided among them.
    verbose : int, default=0
        As in GridSearchCV.
    error_score : "raise" or number, default=nan
        As in GridSearchCV.
    return_train_score : bool, default=False
        As in GridSearchCV.
    n_iter : int, default=None
        Draw so many candidates from `param_grid` as RandomizedSearchCV does, instead of all.
    random_state : int, RandomState instance or None, default=None
        Source of these draws.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        As in GridSearchCV. With ``cv=None`` it also has "alpha", "noise_variance", "signal_variance" and
        "log_evidence" of every candidate (objects, since there may be several targets).
    best_estimator_, best_score_, best_params_, best_index_, scorer_, n_splits_, refit_time_, multimetric_
        As in GridSearchCV.

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
        estimator,
        param_grid,
        *,
        cv=None,
        scoring=None,
        refit=True,
        n_jobs=None,
        verbose=0,
        error_score=np.nan,
        return_train_score=False,
        n_iter=None,
        random_state=None,
    ):
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

    def fit(self, X, y=None, **params):
        """Evaluate all candidates and refit the best.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, n_samples)
            Training rows, or a kernel matrix where the estimator's kernel is "precomputed".
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        **params : dict
            Passed on as in GridSearchCV: ``sample_weight`` to the estimator, ``groups`` to the splitter.

        Returns
        -------
        self : KernelSearchCV
            The fitted search.
        """
        n_jobs = joblib.effective_n_jobs(self.n_jobs)
        blas_threads = max(1, joblib.cpu_count() // n_jobs) if n_jobs > 1 else None
        # Threads, not processes: they share decompositions, and LAPACK leaves them free to run.
        with parallel_config(backend="threading"), threadpool_limits(blas_threads, user_api="blas"):
            self._in_flight = n_jobs
            with shared_decompositions(self._cache_size()):
                return super().fit(X, y, **params)

    def _cache_size(self):
        """Return how many decompositions to keep: one for each split of a kernel, and those under way."""
        n_splits = self.cv if isinstance(self.cv, numbers.Integral) else getattr(self.cv, "n_splits", 10)
        return (1 if self.cv is None else n_splits) + self._in_flight

    def _candidates(self):
        if self.n_iter is None:
            return list(ParameterGrid(self.param_grid))
        return list(ParameterSampler(self.param_grid, self.n_iter, random_state=self.random_state))

    def _run_search(self, evaluate_candidates, *, callback_ctx=None):
        """Evaluate candidates kernel by kernel; `_format_results` restores their order."""
        candidates = self._candidates()
        self._check_one_criterion(candidates)
        groups = {}
        for index, candidate in enumerate(candidates):
            groups.setdefault(self._kernel_key(candidate), []).append(index)
        self._order = [index for group in groups.values() for index in group]
        ordered = [candidates[index] for index in self._order]
        if callback_ctx is None:
            evaluate_candidates(ordered)
            return
        context = callback_ctx.subcontext(
            task_name="search", max_subtasks=len(ordered) * self.n_splits_, sequential_subtasks=False
        ).call_on_fit_task_begin(estimator=self)
        evaluate_candidates(ordered, callback_ctx=context)
        context.call_on_fit_task_end(estimator=self)

    def _kernel_key(self, candidate):
        """Return what determines a candidate's decomposition."""
        prefix = f"{self.estimator.steps[-1][0]}__" if isinstance(self.estimator, Pipeline) else ""
        after = {prefix + name for name in _AFTER_DECOMPOSITION}
        return repr(sorted((name, repr(value)) for name, value in candidate.items() if name not in after))

    def _format_results(self, candidate_params, n_splits, out, more_results=None):
        place = np.argsort(self._order)
        candidate_params = [candidate_params[i] for i in place]
        out = [out[i * n_splits + k] for i in place for k in range(n_splits)]
        if self.cv is None:
            more_results = {**(more_results or {}), **_tuned_values(out)}
        return super()._format_results(candidate_params, n_splits, out, more_results)

    def _get_scorers(self):
        if self.cv is not None:
            return super()._get_scorers()
        if self.scoring is not None:
            raise ValueError(
                f"scoring={self.scoring!r} needs folds, but cv=None ranks candidates by the estimator's own "
                "criterion on all rows. Pass cv=5 or another splitter, or leave scoring=None."
            )
        if self.return_train_score:
            raise ValueError("return_train_score=True needs folds: pass cv=5 or another splitter.")
        return _criterion_scorer, "score"

    def _check_input_parameters(self, X, y, split_params):
        super()._check_input_parameters(X, y, split_params)
        if self.cv is None:
            # BaseSearchCV turns cv=None into five folds just before this hook
            self._checked_cv_orig = _AllRows()

    def _check_one_criterion(self, candidates):
        if self.cv is not None:
            return
        names = {name for c in candidates for name in c if name.rpartition("__")[2] == "criterion"}
        values = {repr(c.get(name)) for c in candidates for name in names}
        if len(values) > 1:
            raise ValueError(
                f"Candidates with different criteria ({', '.join(sorted(values))}) cannot be ranked by them. "
                "Pass cv=5 or another splitter to compare criteria by their predictions."
            )


class _AllRows:
    """A single split that trains and tests on everything."""

    def get_n_splits(self, X=None, y=None, groups=None):
        return 1

    def split(self, X, y=None, groups=None):
        rows = np.arange(X.shape[0] if hasattr(X, "shape") else len(X))
        yield rows, rows


class _CriterionValue(float):
    """A score that remembers the tuned values it came with."""


def _criterion_scorer(estimator, X, y=None):
    """Return the criterion of a fitted estimator, summed over targets."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if not hasattr(last, "tuning_"):
        raise TypeError(
            f"cv=None ranks by the criterion of a spectral estimator, and {type(last).__name__} has none. "
            "Use SpectralKernelRidge or SpectralGPRegressor, or pass cv=5."
        )
    value = _CriterionValue(sum(result.value for result in last.tuning_))
    noise, signal = np.asarray(last.noise_variance_), np.asarray(last.signal_variance_)
    ratio = [result.noise_ratio for result in last.tuning_]
    alpha = np.asarray(ratio if noise.ndim else ratio[0])
    evidence = getattr(last, "log_evidence_", getattr(last, "log_marginal_likelihood_value_", np.nan))
    value.tuned = dict(zip(_TUNED, (alpha, noise, signal, np.asarray(evidence)), strict=True))
    return value


def _tuned_values(out):
    """Return the tuned values of every candidate, NaN where its fit failed."""
    columns = {}
    for name in _TUNED:
        column = np.empty(len(out), dtype=object)
        for i, result in enumerate(out):
            tuned = getattr(result["test_scores"], "tuned", {})
            value = tuned.get(name, np.nan)
            column[i] = float(value) if np.ndim(value) == 0 else value
        columns[name] = column
    return columns
