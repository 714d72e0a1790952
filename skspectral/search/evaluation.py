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
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from types import FunctionType

import joblib
import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.model_selection._validation import _fit_and_score, _score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples

from ..models.kernel_ridge import SpectralKernelRidge
from ..models.siblings import HasSiblings
from ..support.exceptions import IndefiniteKernelError
from ..support.pipelines import earlier_steps, last_step, step_prefix, with_last_step
from .scoring import looks_at_predictions_alone, scores_at_once

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
            result = kernel.result(index, split, _Work(estimator, X, y, splits.made, task))
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


@dataclass(frozen=True)
class _Work:
    """What scikit-learn asks for: an estimator, all rows, and other arguments by name; and all splits."""

    estimator: object
    X: object
    y: object
    splits: list
    task: dict

    @property
    def n_train(self):
        """How many rows are trained on, be they given by indices or by a mask."""
        train = np.asarray(self.task["train"])
        return int(train.sum()) if train.dtype == bool else len(train)

    def template(self, parameters, family):
        """Return an estimator with these parameters, and the settings of the first of a family."""
        estimator = clone(self.estimator).set_params(**clone(parameters, safe=False))
        return _with_settings(estimator, next(iter(family.values())))

    def params(self, name, rows=None):
        """Return what is passed to fit or to scorers, of some rows."""
        return _check_method_params(self.X, params=self.task[name] or {}, indices=rows)

    def score(self, estimator, X, y, rows):
        """Return the scores of a fitted estimator, as scikit-learn makes them."""
        scorer, error_score = self.task["scorer"], self.task["error_score"]
        return _score(estimator, X, y, scorer, self.params("score_params", rows), error_score)

    def scores_at_once(self, y, rows, predictions):
        """Return the scores of many predictions, or None where they are made one after the other."""
        try:
            return scores_at_once(self.task["scorer"], y, predictions, self.params("score_params", rows))
        except Exception:  # one after the other, scikit-learn treats them as it must
            return None

    @property
    def scores_predictions(self):
        """Whether scorers look at predictions of the test rows, and at nothing else of an estimator."""
        return looks_at_predictions_alone(self.task["scorer"], last_step(self.estimator))


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
        fold = _Fold(self.parameters, family, work)
        if not (work.scores_predictions and _have_given_alphas(family)):
            return fold.by_siblings() if len(family) > 1 else {}
        with self._lock:
            held_out = self._held_out[tuple(family)]
        held_out = held_out.get(lambda: _held_out(self.parameters, family, work))
        return fold.by_predictions([held_out[split]]) if split in held_out else fold.by_predictions()


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
        X, y, params = _at_last_step(template, "fit", work.X, work.y, work.params("fit_params"))
        alphas = [model.alpha for model in family.values()]
        means = last_step(template)._predict_held_out(X, y, alphas, tests, **params)
    except Exception:  # fits on the training rows tell what is wrong
        means = None
    return dict(enumerate(means or []))


def _learns(step):
    return step not in (None, "passthrough") and get_tags(step).requires_fit


def _is_complement(train, test, n):
    return len(train) + len(test) == n and len(np.union1d(train, test)) == n and len(test) > 0


class _Fold:
    """A family of candidates, which share a decomposition, on one split."""

    def __init__(self, parameters, family, work):
        self.start = time.time()
        self.family, self.work = family, work
        self.template = work.template(parameters, family)
        X, y, self.train, self.test = work.X, work.y, work.task["train"], work.task["test"]
        self.X_train, self.y_train = _safe_split(self.template, X, y, self.train)
        self.X_test, self.y_test = _safe_split(self.template, X, y, self.test, self.train)
        self.fit_params = work.params("fit_params", self.train)

    def by_predictions(self, predictions=None):
        """Return results by index from predictions of all candidates at once."""
        predictions = predictions or self._predictions()
        if predictions is None:
            return self.by_siblings()
        fit_time, start = (time.time() - self.start) / len(self.family), time.time()
        scores = {"test_scores": self._scores(self.X_test, self.y_test, self.test, predictions[0])}
        times = {"fit_time": fit_time, "score_time": (time.time() - start) / len(self.family)}
        if self.work.task["return_train_score"]:
            scores["train_scores"] = self._scores(self.X_train, self.y_train, self.train, predictions[1])
        return {
            index: self._result({name: values[i] for name, values in scores.items()}, times)
            for i, index in enumerate(self.family)
        }

    def _scores(self, X, y, rows, predictions):
        """Return the scores of all candidates from their predictions."""
        scores = self.work.scores_at_once(y, rows, predictions)
        if scores is not None:
            return scores
        estimator, scores = self.template, []
        estimator.score = partial(RegressorMixin.score, estimator)  # of a Pipeline, without its steps
        for model, prediction in zip(self.family.values(), predictions, strict=True):
            estimator = _with_settings(estimator, model)
            estimator.predict = _known(prediction)
            scores.append(self.work.score(estimator, X, y, rows))
        return scores

    def _predictions(self):
        """Return predictions for the test rows and, where asked for, the training rows; None if unknown."""
        inputs = [self.X_test, self.X_train] if self.work.task["return_train_score"] else [self.X_test]
        alphas = [model.alpha for model in self.family.values()]
        try:
            X, y, params = _at_last_step(self.template, "fit", self.X_train, self.y_train, self.fit_params)
            inputs = [_at_last_step(self.template, "predict", X_new)[0] for X_new in inputs]
            return last_step(self.template)._predict_each(X, y, alphas, inputs, **params)
        except IndefiniteKernelError:
            raise
        except Exception:  # fits tell what is wrong
            return None

    def by_siblings(self):
        """Return results by index from one fit, and copies that share its decomposition."""
        results, fitted = {}, None
        for index, model in self.family.items():
            try:
                self.start = time.time()
                fitted = self._fitted(model) if fitted is None else fitted._sibling(_settings(model))
            except IndefiniteKernelError:
                raise
            except Exception:  # scikit-learn's own way tells what is wrong with this one
                continue
            estimator = with_last_step(self.template, fitted)
            results[index] = self._scored(estimator, time.time() - self.start)
        return results

    def _fitted(self, model):
        estimator = _with_settings(self.template, model)
        return last_step(estimator.fit(self.X_train, self.y_train, **self.fit_params))

    def _scored(self, estimator, fit_time):
        """Return the result of a fitted estimator."""
        start = time.time()
        scores = {"test_scores": self.work.score(estimator, self.X_test, self.y_test, self.test)}
        times = {"fit_time": fit_time, "score_time": time.time() - start}
        if self.work.task["return_train_score"]:
            scores["train_scores"] = self.work.score(estimator, self.X_train, self.y_train, self.train)
        return self._result(scores, times)

    def _result(self, scores, times):
        """Return what scikit-learn's `_fit_and_score` returns."""
        return {"fit_error": None, **scores, **times, "n_test_samples": _num_samples(self.X_test)}


def _settings(model):
    """Return the parameters of a model that come after its decomposition."""
    return {name: getattr(model, name) for name in model._after_decomposition}


def _with_settings(estimator, model):
    """Set the parameters after the decomposition in an estimator's last step, and return the whole."""
    vars(last_step(estimator)).update(_settings(model))
    return estimator


def _known(prediction):
    def predict(X):  # scorers look at the name
        return prediction

    return predict


def _at_last_step(estimator, method, X, y=None, params=None):
    """Return what the last step of an estimator gets to see in fit or predict; it does nothing with it."""
    seen, model = [], last_step(estimator)

    def see(X, y=None, **params):
        seen.append((X, y, params))

    model.__sklearn_is_fitted__ = _yes  # a Pipeline asks before it predicts
    setattr(model, method, see)
    try:
        getattr(estimator, method)(X, *([] if y is None else [y]), **(params or {}))
    finally:
        delattr(model, method)
        del model.__sklearn_is_fitted__
    return seen[0]


def _yes():
    return True
