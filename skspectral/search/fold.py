"""A split and the candidates that share a decomposition there: their predictions, and the scores of these."""

import time
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.model_selection._validation import _score
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples

from ..support.exceptions import IndefiniteKernelError
from ..support.pipelines import last_step, with_last_step
from .scoring import looks_at_predictions_alone, scores_at_once

__all__ = ["Fold", "Work", "at_last_step", "with_settings"]


@dataclass(frozen=True)
class Work:
    """What scikit-learn asks for: an estimator, all rows, and other arguments by name; and all splits."""

    estimator: object
    X: object
    y: object
    splits: list
    task: dict

    def of_split(self, split):
        """Return the same about another split."""
        train, test = self.splits[split]
        return replace(self, task=self.task | {"train": train, "test": test})

    @property
    def n_train(self):
        """How many rows are trained on, be they given by indices or by a mask."""
        train = np.asarray(self.task["train"])
        return int(train.sum()) if train.dtype == bool else len(train)

    def template(self, parameters, family):
        """Return an estimator with these parameters, and the settings of the first of a family."""
        estimator = clone(self.estimator).set_params(**clone(parameters, safe=False))
        return with_settings(estimator, next(iter(family.values())))

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


class Fold:
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
            estimator = with_settings(estimator, model)
            estimator.predict = _known(prediction)
            scores.append(self.work.score(estimator, X, y, rows))
        return scores

    def _predictions(self):
        """Return predictions for the test rows and, where asked for, the training rows; None if unknown."""
        inputs = [self.X_test, self.X_train] if self.work.task["return_train_score"] else [self.X_test]
        alphas = [model.alpha for model in self.family.values()]
        try:
            X, y, params = at_last_step(self.template, "fit", self.X_train, self.y_train, self.fit_params)
            inputs = [at_last_step(self.template, "predict", X_new)[0] for X_new in inputs]
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
        estimator = with_settings(self.template, model)
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


def with_settings(estimator, model):
    """Set the parameters after the decomposition in an estimator's last step, and return the whole."""
    vars(last_step(estimator)).update(_settings(model))
    return estimator


def _known(prediction):
    def predict(X):  # scorers look at the name
        return prediction

    return predict


def at_last_step(estimator, method, X, y=None, params=None):
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
