"""Learning kernel, signal variance and likelihood by an approximate evidence, from few rows to all."""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from sklearn.utils import check_random_state

from ..kernels.algebra import contract
from ..kernels.attached import Pairs, attach
from ..kernels.gram import make_gram
from ..support.exceptions import IndefiniteKernelError
from ..support.threads import threads_for
from .exploration import Explorer
from .latent_task import LatentFit
from .objectives import Evaluation
from .step_factors import contract_factor

__all__ = ["LatentLearned", "LatentObjective", "approximate_evidence", "learn_latent"]

# Decrease of -2 log evidence that is not worth another step: on all rows, where they are many, on the way.
_TOLERANCE, _TOLERANCE_OF_MANY, _COARSE_TOLERANCE = 1e-7, 1e-4, 1e-2
_MANY = 500
# Fewest rows of a level: of classes these, so many for each variable, and so many for each class; of other
# likelihoods, whose own parameters are learned too. Each level has this fraction of the next one's rows.
_COARSEST_OF_CLASSES, _EACH_VARIABLE, _EACH_CLASS, _COARSEST, _FRACTION = 40, 15, 10, 150, 0.25
# Distance of a variable from its start, in log units, at which it has no effect that could be seen, and to
# which it is brought back for more rows, from many and from few: more rows may see an effect of an input that
# few rows do not.
_OUT_OF_SIGHT, _IN_SIGHT, _IN_SIGHT_OF_FEW = np.log([20.0, 20.0, 3.0])
_FEW = 150


@dataclass(frozen=True)
class LatentLearned:
    """Result of `learn_latent`.

    Attributes
    ----------
    variables : ndarray
        Outer variables at the end.
    value : float
        -2 (log evidence + log prior) there.
    fit : LatentFit
        The approximate posterior there.
    n_evaluations : int
        How often the evidence was evaluated, on subsets of the rows too.
    """

    variables: np.ndarray
    value: float
    fit: LatentFit
    n_evaluations: int


class LatentObjective:
    """-2 log evidence, and -2 log of the priors, as a function of the outer variables.

    Every evaluation starts from the mode of the one before.

    Parameters
    ----------
    task : LatentTask
        What is learned.
    """

    def __init__(self, task):
        self.task, self.last, self.n_calls = task, None, 0
        self._at = None
        self._rows = None if task.is_precomputed else _KernelOnRows(task)

    def __call__(self, variables):
        """Return the `Evaluation` at the outer variables; the last one is kept, where descents meet."""
        if self._at is None or not np.array_equal(self._at[0], variables):
            self._at = variables.copy(), self._evaluated(variables)
        return self._at[1]

    def _evaluated(self, variables):
        self.n_calls += 1
        try:
            fit = self.fit(variables)
        except IndefiniteKernelError:
            return Evaluation.undefined(variables)
        if not np.isfinite(fit.approximation.log_evidence):
            return Evaluation.undefined(variables)
        self.last = fit
        contract_square = None if self._rows is None else self._rows.contract
        with self.task.threads(fit.approximation.observations):
            slope = gradient(self.task, fit, contract_square)
        return self._with_priors(fit, -2.0 * fit.approximation.log_evidence, -2.0 * slope)

    def fit(self, variables):
        """Return the approximate posterior at the outer variables."""
        square = None if self._rows is None else self._rows.square
        return self.task.fit(self.task.point(variables), self.last, square)

    def _with_priors(self, fit, value, slope):
        task, point = self.task, fit.point
        first = int(task.learns_signal)
        if task.theta_prior is not None:
            penalty, by_theta = task.theta_prior(point.theta)
            value += penalty
            slope[first : first + len(point.theta)] += by_theta
        if task.signal_prior is not None and first:
            behind, here, ahead = task.signal_prior.penalty(
                1.0, point.signal_var * task.unit**2 * np.exp(_DIFFERENCE)
            )
            value, slope[0] = value + here, slope[0] + (ahead - behind) / (_DIFFERENCE[2] - _DIFFERENCE[0])
        return Evaluation(value, slope)


class _KernelOnRows:
    """The matrix of a kernel on the rows of a task at one theta after another, and contractions there."""

    def __init__(self, task):
        self._task, self._values = task, None

    @cached_property
    def _kernel(self):
        return attach(self._task.kernel, self._task.data.X)

    def square(self, theta):
        """Return a fresh K at theta."""
        self._values = self._kernel.at(theta)
        return self._values.K.matrix(len(self._task))

    def contract(self, G):
        """Return sum_ij G_ij dK_ij/dtheta, G symmetric, at the theta that `square` was last called with."""
        return self._values.contract(Pairs.of_triangle(G))


# Logs at which a prior is looked at for its slope.
_DIFFERENCE = np.array([-1e-6, 0.0, 1e-6])


def approximate_evidence(task, theta, eval_gradient):
    """Return the approximate log evidence at logs in the user's units and, on request, its gradient."""
    fit = task.fit(task.point(theta - task.log_units))
    value = fit.approximation.log_evidence - task.log_unit
    return (value, gradient(task, fit)) if eval_gradient else value


def gradient(task, fit, contract_square=None):
    """Return the derivatives of the log evidence by the outer variables.

    `contract_square`, if given, contracts weights of the kernel matrix in the place of the kernel itself.
    """
    sensitivity = fit.approximation.sensitivity()
    by_signal = [sensitivity.by_log_scale] if task.learns_signal else []
    return np.concatenate(
        [
            by_signal,
            _by_theta(task, fit, sensitivity, contract_square),
            fit.approximation.likelihood_gradient(),
        ]
    )


def _by_theta(task, fit, sensitivity, contract_square):
    if not len(fit.point.theta):
        return np.empty(0)
    if fit.factor is None and contract_square is not None:
        return contract_square(sensitivity.weights)
    kernel = task.kernel_at(fit.point.theta)
    if fit.factor is None:
        return contract(kernel, sensitivity.weights, task.data.X)
    return contract_factor(kernel, sensitivity.weights, task.data.X, fit.factor)


def learn_latent(task, *, optimizer=None, n_restarts=0, random_state=None, report=None):
    """Return the best `LatentLearned` from the starting values and from drawn ones.

    Parameters
    ----------
    task : LatentTask
        What is learned.
    optimizer : callable, default=None
        Takes the place of the descent; of scikit-learn's signature.
    n_restarts : int, default=0
        Further starts, drawn uniformly within the bounds.
    random_state : int, RandomState instance or None, default=None
        Draws them.
    report : callable, default=None
        report(n_rows, step, variables, evaluation) after every step.
    """
    starts, bounds = [task.start], task.bounds
    if n_restarts:
        if not np.isfinite(bounds).all():
            raise ValueError(
                "n_restarts_optimizer > 0 draws starts within the bounds, which must be finite; got "
                f"{np.exp(bounds).tolist()}."
            )
        rng = check_random_state(random_state)
        starts += [rng.uniform(*bounds.T) for _ in range(n_restarts)]
    if optimizer is None:
        ends = [_descend(task, start, report) for start in starts]
    else:
        ends = [_optimise(task, start, optimizer) for start in starts]
    best = min(ends, key=lambda end: end.value)
    return replace(best, n_evaluations=sum(end.n_evaluations for end in ends))


def _descend(task, start, report):
    """Return where exploring few rows leads, settled on all of them."""
    ends, n_before, n_evaluations = None, None, 0
    for rows in _levels(task):
        level = task if len(rows) == len(task) else task.subset(rows)
        if not level.has_all_classes:
            continue
        objective = LatentObjective(level)
        explorer = Explorer(objective, *task.bounds.T, _at_level(report, len(rows)))
        with threads_for(len(rows)):
            ends = _found(explorer, ends, start, len(rows), n_before)
            if level is task:
                end = explorer.go_on(ends[0], tolerance=_tolerance(task))
        n_before, n_evaluations = len(rows), n_evaluations + objective.n_calls
    return _ended(objective, end.x, end.value, n_evaluations)


def _found(explorer, coarser, start, n_rows, n_before):
    """Return the best ends of a level: by exploring, or from those of a coarser level."""
    if coarser is None:
        return explorer.explore([start], _COARSE_TOLERANCE)
    task, sight = explorer.objective.task, _IN_SIGHT_OF_FEW if n_before < _FEW else _IN_SIGHT
    starts = [(_in_sight(end.x, start, sight, task), end.curvature * (n_rows / n_before)) for end in coarser]
    return explorer.compare(starts, _COARSE_TOLERANCE)


def _in_sight(x, start, sight, task):
    """Return x with variables brought back that have no effect where they are: a large variance has one."""
    way = x - start
    gone = np.abs(way) > _OUT_OF_SIGHT
    first = int(task.learns_signal)
    is_of_kernel = np.zeros(len(x), dtype=bool)
    is_of_kernel[first : len(x) - len(task.likelihood.names)] = True
    return np.where(gone & (is_of_kernel | (way < 0)), start + np.sign(way) * sight, x)


def _tolerance(task):
    return _TOLERANCE if len(task) < _MANY else _TOLERANCE_OF_MANY


def _levels(task):
    """Return row indices of each level, nested; all rows alone where the kernel has nothing to learn."""
    sizes = [len(task)]
    if task.is_precomputed or not task.kernel.n_dims:
        return [np.arange(len(task))]
    while _FRACTION * sizes[-1] >= _coarsest(task):
        sizes.append(int(_FRACTION * sizes[-1]))
    order = task.data.shuffled(make_gram(task.kernel))
    return [np.sort(order[:size]) for size in reversed(sizes)]


def _coarsest(task):
    if task.n_classes is None:
        return _COARSEST
    return max(_COARSEST_OF_CLASSES, _EACH_VARIABLE * len(task.start), _EACH_CLASS * task.n_classes)


def _optimise(task, start, optimizer):
    """Return where an optimizer of scikit-learn's signature ends, which sees a -log density."""
    objective = LatentObjective(task)

    def obj_func(variables, eval_gradient=True):
        at = objective(np.asarray(variables, dtype=np.float64))
        return (0.5 * at.value, 0.5 * at.gradient) if eval_gradient else 0.5 * at.value

    x, value = optimizer(obj_func, start, bounds=task.bounds)
    return _ended(objective, np.asarray(x, dtype=np.float64), 2.0 * float(value), objective.n_calls)


def _ended(objective, x, value, n_evaluations):
    return LatentLearned(x, value, objective.fit(x), n_evaluations)


def _at_level(report, n_rows):
    return None if report is None else partial(report, n_rows)
