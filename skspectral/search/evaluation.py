"""Scores of candidates that share a kernel: one task for each kernel and split.

`KernelSearchCV` has scikit-learn run its search, and this room answer for scikit-learn's `_fit_and_score`.
The first question about a kernel and a split is answered for all candidates of that kernel, and only their
results are kept. There are three ways, the cheapest first:

* Given alphas, and scorers that look at predictions alone: one tridiagonal form of the training rows gives
  the predictions of all alphas together. Where no step learns from the rows, one decomposition of all rows
  may serve all splits instead, by the exact residuals of blocks that are left out, if that costs less.
* Candidates that differ only in what comes after the decomposition: one fit, and fitted copies that share it.
* Everything else, and whatever goes wrong on the way: scikit-learn's own `_fit_and_score`.
"""

import copy
import threading
from collections import defaultdict
from functools import partial
from types import FunctionType

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.model_selection._validation import _fit_and_score
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from ..models.kernel_ridge import SpectralKernelRidge
from ..models.siblings import HasSiblings
from ..support.exceptions import IndefiniteKernelError
from ..support.pipelines import earlier_steps, last_step, step_prefix
from .fold import Fold, Work, at_last_step

__all__ = ["Evaluation"]


class Evaluation:
    """Answers for `_fit_and_score`, kernel by kernel and split by split.

    Parameters
    ----------
    estimator : estimator
        What is searched.
    candidates : list of dict
        Parameters by name; those that do not exist are refused.

    Attributes
    ----------
    models : list of estimator
        The last step of every candidate, not fitted.
    """

    def __init__(self, estimator, candidates):
        self.models, self._kernel_of = [], {}
        kernels, after = {}, _names_after_decomposition(estimator)
        for index, candidate in enumerate(candidates):
            settings = {after[name]: value for name, value in candidate.items() if name in after}
            others = {name: value for name, value in candidate.items() if name not in after}
            key = frozenset((name, _content(value)) for name, value in others.items())
            if key not in kernels:
                kernels[key] = _Kernel(others, _last_step_of(estimator, others))
            model = kernels[key].with_settings(settings)
            self.models.append(_last_step_of(estimator, candidate) if model is None else model)
            if model is not None:
                kernels[key].add(index, model)
                self._kernel_of[index] = kernels[key]

    def run(self, evaluate_candidates, candidates, cv, is_watched, **options):
        """Call scikit-learn's `evaluate_candidates` with these answers in the place of `_fit_and_score`.

        `is_watched` says whether something is printed, or callbacks told, about single fits.
        """
        names, splits = evaluate_candidates.__globals__, _Splits(cv)
        if "_fit_and_score" not in names:  # then it is made in a way that is not known here
            return evaluate_candidates(candidates, **options)
        changed = FunctionType(
            evaluate_candidates.__code__,
            names | {"_fit_and_score": partial(self._answer, splits, is_watched), "clone": _itself},
            evaluate_candidates.__name__,
            evaluate_candidates.__defaults__,
            evaluate_candidates.__closure__,
        )
        return changed(candidates, cv=splits, **options)

    def _answer(self, splits, is_watched, estimator, X, y, *, candidate_progress, split_progress, **task):
        index, split = candidate_progress[0], split_progress[0]
        kernel, result = self._kernel_of.get(index), None
        if kernel is not None:
            result = kernel.result(index, split, Work(estimator, X, y, splits.made, task))
        if isinstance(result, dict) and not is_watched:
            return result
        task |= {"candidate_progress": candidate_progress, "split_progress": split_progress}
        return _retold(result, clone(estimator), X, y, task)


class _Splits:
    """A splitter that remembers the splits it made."""

    def __init__(self, cv):
        self.cv, self.made = cv, []

    def split(self, X, y=None, **params):
        self.made = list(self.cv.split(X, y, **params))
        return iter(self.made)


def _itself(estimator):
    """Return an estimator, in the place of its clone: most answers do not touch it, the others make one."""
    return estimator


def _names_after_decomposition(estimator):
    """Return parameters of an estimator that come after the decomposition: names in the last step by name."""
    names = getattr(last_step(estimator), "_after_decomposition", ())
    return {step_prefix(estimator) + name: name for name in names}


def _last_step_of(estimator, candidate):
    return last_step(clone(estimator).set_params(**clone(candidate, safe=False)))


def _content(value):
    """Return a string that is equal for equal content, or for the same object where that cannot be told."""
    try:
        return joblib.hash(value)
    except Exception:  # a local function cannot be pickled, and any object may object
        return f"object {id(value)}"


def _retold(result, estimator, X, y, task):
    """Return a result by way of scikit-learn's `_fit_and_score`, which prints and tells callbacks.

    A result that is known is not computed again, an exception raised where a fit would raise it, and None
    leaves all to scikit-learn.
    """
    if result is None:
        return _fit_and_score(estimator, X, y, **task)
    if isinstance(result, Exception):
        estimator.fit = partial(_raise, result)
        return _fit_and_score(estimator, X, y, **task)
    estimator.fit = _do_nothing
    scores = iter([result["test_scores"], result.get("train_scores")])
    task |= {"scorer": lambda *args, **kwargs: next(scores)}
    return _fit_and_score(estimator, X, y, **task) | result


def _raise(error, *args, **kwargs):
    raise error.with_traceback(None)


def _do_nothing(*args, **kwargs):
    pass


class _Once:
    """A value made by whoever asks first, while others wait."""

    def __init__(self):
        self._lock, self._value = threading.Lock(), None

    def get(self, make):
        with self._lock:
            if self._value is None:
                self._value = make()
        return self._value


class _Kernel:
    """The candidates of one kernel.

    Parameters
    ----------
    parameters : dict
        What they have in common: all but the settings that come after the decomposition.
    model : estimator
        The last step with these parameters, not fitted.
    """

    def __init__(self, parameters, model):
        self.parameters, self.model, self.models = parameters, model, {}
        self._folds, self._held_out = defaultdict(_Once), defaultdict(_Once)
        self._lock = threading.Lock()

    def with_settings(self, settings):
        """Return the last step of a candidate with these settings; None if it is none that shares."""
        if not (isinstance(self.model, HasSiblings) and set(settings) <= self.model._after_decomposition):
            return None
        model = copy.copy(self.model)
        vars(model).update(settings)
        return model

    def add(self, index, model):
        """Take up a candidate; one with bad parameters is left to scikit-learn."""
        try:
            model._validate_params()
        except ValueError:
            return
        self.models[index] = model

    def result(self, index, split, work):
        """Return the result of a candidate on a split: a dict, an exception, or None where there is none."""
        with self._lock:
            fold = self._folds[split]
        return fold.get(lambda: self._results(split, work)).get(index)

    def _results(self, split, work):
        """Return results by index of the candidates that have any."""
        results, n = {}, work.n_train
        for family in self._families(n):
            try:
                results |= self._results_of(family, split, work)
            except IndefiniteKernelError as error:
                results |= dict.fromkeys(family, error.with_traceback(None))  # which holds the matrix
        return results

    def _families(self, n):
        """Return families of candidates that share a decomposition of n rows, models by index."""
        families = {}
        for index, model in self.models.items():
            needs = model._decomposition_needs(n)
            if needs is not None:
                families.setdefault(needs, {})[index] = model
        return families.values()

    def _results_of(self, family, split, work):
        fold = Fold(self.parameters, family, work)
        if not (work.scores_predictions and _have_given_alphas(family)):
            return fold.by_siblings() if len(family) > 1 else {}
        with self._lock:
            held_out = self._held_out[tuple(family)]
        held_out = held_out.get(lambda: _held_out(self.parameters, family, work))
        if split in held_out:
            return fold.by_predictions([held_out[split]])
        return fold.by_predictions()


def _have_given_alphas(family):
    return all(isinstance(m, SpectralKernelRidge) and not m._is_auto for m in family.values())


def _held_out(parameters, family, work):
    """Return predictions of all candidates for the test rows by split, from one decomposition of all rows.

    Empty where that is not possible, or not worth it.
    """
    template, tests = work.template(parameters, family), [test for _, test in work.splits]
    possible = (
        not work.task["return_train_score"]
        and all(np.ndim(model.alpha) == 0 for model in family.values())
        and not any(_learns(step) for step in earlier_steps(template))
        and all(_is_complement(train, test, _num_samples(work.X)) for train, test in work.splits)
    )
    if not possible:
        return {}
    try:
        X, y, params = at_last_step(template, "fit", work.X, work.y, work.params("fit_params"))
        alphas = [model.alpha for model in family.values()]
        means = last_step(template)._predict_held_out(X, y, alphas, tests, **params)
    except Exception:  # fits on the training rows tell what is wrong
        means = None
    return dict(enumerate(means or []))


def _learns(step):
    return step not in (None, "passthrough") and get_tags(step).requires_fit


def _is_complement(train, test, n):
    return len(train) + len(test) == n and len(np.union1d(train, test)) == n and len(test) > 0
