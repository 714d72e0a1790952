"""What is inside Pipelines and searches."""

from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

__all__ = ["earlier_steps", "last_step", "step_prefix", "unwrap", "with_last_step"]


def last_step(estimator):
    """Return the last step of (nested) Pipelines, or the estimator itself."""
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator


def with_last_step(estimator, model):
    """Put a model in the place of the last step of (nested) Pipelines, and return the whole."""
    if not isinstance(estimator, Pipeline):
        return model
    innermost = estimator
    while isinstance(innermost.steps[-1][1], Pipeline):
        innermost = innermost.steps[-1][1]
    innermost.steps[-1] = (innermost.steps[-1][0], model)
    return estimator


def earlier_steps(estimator):
    """Return all steps of (nested) Pipelines but the last."""
    steps = []
    while isinstance(estimator, Pipeline):
        steps += [step for _, step in estimator.steps[:-1]]
        estimator = estimator.steps[-1][1]
    return steps


def step_prefix(estimator):
    """Return what stands before the names of the last step's parameters: "step__", or nothing."""
    prefix = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    return prefix


def unwrap(estimator, X=None):
    """Return the fitted model inside searches and Pipelines, and its inputs with their steps applied."""
    while isinstance(estimator, Pipeline | BaseSearchCV):
        if isinstance(estimator, BaseSearchCV):
            check_is_fitted(estimator, "best_estimator_")
            estimator = estimator.best_estimator_
            continue
        if X is not None and len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
        estimator = estimator.steps[-1][1]
    check_is_fitted(estimator)
    return estimator, X
