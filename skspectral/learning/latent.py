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
from .step_factors import contract_factor

__all__ = ["LatentLearned", "LatentObjective", "approximate_evidence", "learn_latent"]

# Decrease of -2 log evidence that is not worth another step: on all rows, where they are many, from values of
# single precision, on few rows on the way, and on many.
_TOLERANCE, _TOLERANCE_OF_MANY, _TOLERANCE_OF_SINGLE = 1e-7, 3e-4, 1e-3
_COARSE_TOLERANCE, _ROUGH_TOLERANCE = 1e-2, 0.1
# What may be left of it where a step brought what was promised.
_ENOUGH = 2e-3
_MANY, _FEWEST_OF_HALF = 500, 400
# Fewest rows of a level: of classes these, so many for each variable, and so many for each class; of other
# likelihoods, whose own parameters are learned too. Each level has this fraction of the next one's rows.
_COARSEST_OF_CLASSES, _EACH_VARIABLE, _EACH_CLASS, _COARSEST, _FRACTION = 40, 15, 10, 150, 0.25
# Distance of a variable from its start, in log units, at which it has no effect that could be seen, and to
# which it is brought back for more rows, from many and from few: more rows may see an effect of an input that
# few rows do not.
_OUT_OF_SIGHT, _IN_SIGHT, _IN_SIGHT_OF_FEW = np.log([20.0, 20.0, 3.0])
_FEW, _FLATTEST = 150, 1e-3


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
    start : LatentFit, default=None
        Of a similar problem on the same rows, from whose mode the first evaluation starts.
    """

    def __init__(self, task, start=None):
        self.task, self.last, self.n_calls = task, start, 0
        self._at = None

    def __call__(self, variables):
        """Return the `LatentEvaluation` at the outer variables; the last one is kept, where descents meet."""
        if self._at is None or not np.array_equal(self._at[0], variables):
            self._at = variables.copy(), *self._evaluated(variables)
        return self._at[1]

    def fit(self, variables):
        """Return the approximate posterior at the outer variables."""
        self(variables)
        return self.task.fit(self.task.point(variables)) if self._at[2] is None else self._at[2]

    def _evaluated(self, variables):
        self.n_calls += 1
        point = self.task.point(variables)
        kernel = None if self.task.is_precomputed else self._kernel_at(point)
        try:
            fit = self.task.fit(point, self.last, None if kernel is None else kernel.square)
        except IndefiniteKernelError:
            return LatentEvaluation.undefined(variables), None
        if not np.isfinite(fit.approximation.log_evidence):
            return LatentEvaluation.undefined(variables), None
        self.last = fit
        penalty, slope = self._priors(point)
        contract_square = None if kernel is None else kernel.contract
        gradient = partial(_gradient_with, self.task, fit, contract_square, slope)
        return LatentEvaluation(penalty - 2.0 * fit.approximation.log_evidence, gradient), fit

    def _kernel_at(self, point):
        """Return the kernel on the rows at a point, of single precision where that is enough."""
        limit = self.task.largest_trace(point, self.last) if self.task.may_be_single else -np.inf
        return _KernelOnRows(self, len(self.task), limit)

    @cached_property
    def kernel(self):
        """The kernel attached to the rows."""
        return attach(self.task.kernel, self.task.data.X)

    @cached_property
    def kernel_in_single(self):
        """The same in single precision."""
        return attach(self.task.kernel, self.task.data.X, np.float32)

    def _priors(self, point):
        """Return -2 log of the priors and its derivatives by the outer variables."""
        task, penalty = self.task, 0.0
        first, slope = int(task.learns_signal), np.zeros_like(task.start)
        if task.theta_prior is not None:
            penalty, by_theta = task.theta_prior(point.theta)
            slope[first : first + len(point.theta)] += by_theta
        if task.signal_prior is not None and first:
            behind, here, ahead = task.signal_prior.penalty(
                1.0, point.signal_var * task.unit**2 * np.exp(_DIFFERENCE)
            )
            penalty, slope[0] = penalty + here, (ahead - behind) / (_DIFFERENCE[2] - _DIFFERENCE[0])
        return penalty, slope


def _gradient_with(task, fit, contract_square, slope):
    with task.threads(fit.approximation.observations):
        return slope - 2.0 * gradient(task, fit, contract_square)


class LatentEvaluation:
    """A `LatentObjective` at one point.

    Parameters
    ----------
    value : float
        What is minimised; infinite where it is not defined.
    make_gradient : callable
        Makes its derivatives by the outer variables: most of the cost, and only where they are asked for.
    """

    def __init__(self, value, make_gradient):
        self.value, self._make_gradient = value, make_gradient

    @cached_property
    def gradient(self):
        """Derivatives by the outer variables, (p,)."""
        gradient = self._make_gradient()
        self._make_gradient = None  # with all the matrices that it holds
        return gradient

    @classmethod
    def undefined(cls, variables):
        """Return the evaluation at a point where the kernel is indefinite."""
        return cls(np.inf, partial(np.zeros_like, variables))


class _KernelOnRows:
    """The matrix of a kernel on n rows at one theta, and contractions there.

    Of single precision where its trace is no larger than a limit.
    """

    def __init__(self, objective, n, limit):
        self._objective, self._n, self._limit = objective, n, limit

    def square(self, theta):
        """Return a fresh K at theta."""
        if self._limit > 0:
            self._values = self._objective.kernel_in_single.at(theta)
            if self._values.K.trace(self._n) <= self._limit:
                return self._values.K.matrix(self._n).astype(np.float32, copy=False)
        self._values = self._objective.kernel.at(theta)
        return self._values.K.matrix(self._n)

    def contract(self, G):
        """Return sum_ij G_ij dK_ij/dtheta at the theta that `square` was called with.

        G is symmetric; its upper triangle is used.
        """
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
        return contract_square(sensitivity.upper)
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
    found, task = None, replace(task, is_rough=True)
    for rows in _levels(task):
        level = task if len(rows) == len(task) else task.subset(rows)
        if not level.has_all_classes:
            continue
        if len(rows) == len(task) // 2 and found is not None:
            found = found.before_half(task)
            if found.vain is None:
                continue
        found = _found(level, rows, found, start, report)
    return _settled(task, found, report)


@dataclass(frozen=True)
class _Found:
    """What a level found.

    Attributes
    ----------
    rows : ndarray of int
        Its rows.
    ends : list of Descent
        The best ends.
    explorer : Explorer
        How they were found.
    n_before : int
        Evaluations on fewer rows.
    vain : Point or None
        Where a factor of small rank does not stand for K of all rows, if that is known.
    is_seen : bool
        Whether the curvature comes from differences of gradients.
    """

    rows: np.ndarray
    ends: list
    explorer: Explorer
    n_before: int
    vain: object = None
    is_seen: bool = False

    @property
    def fit(self):
        return self.explorer.objective.last

    @property
    def n_evaluations(self):
        return self.n_before + self.explorer.objective.n_calls

    def before_half(self, task):
        """Return what half of all rows are to be told, where steps on them cost far less than those on all.

        That is so where the matrix itself is factorised: the fewer steps on all rows, the better.
        """
        point = task.point(self.ends[0].x)
        if not task.is_of_matrix(point):
            return self
        with threads_for(len(self.rows)):
            best = self.explorer.see_curvature(self.ends[0])
        is_seen = best is not self.ends[0]
        return replace(self, ends=[best, *self.ends[1:]], vain=point, is_seen=is_seen)


def _found(level, rows, coarser, start, report):
    """Return what a level finds: by exploring, or from the ends of a coarser level."""
    begin = None if coarser is None else level.start_from_fewer(coarser.fit, coarser.rows, rows, coarser.vain)
    explorer = Explorer(LatentObjective(level, begin), *level.bounds.T, _at_level(report, len(rows)))
    with threads_for(len(rows)):
        if coarser is None:
            return _Found(rows, explorer.explore([start], _COARSE_TOLERANCE), explorer, 0)
        growth = len(rows) / len(coarser.rows)
        places = [_in_sight(end.x, start, _sight(coarser), level) for end in coarser.ends]
        starts = [
            (x, _curvature_at(explorer.objective, x, end, growth))
            for x, end in zip(places, coarser.ends, strict=True)
        ]
        tolerance = _COARSE_TOLERANCE if len(rows) < _FEWEST_OF_HALF else _ROUGH_TOLERANCE
        ends = explorer.compare(starts, tolerance)
    return _Found(rows, ends, explorer, coarser.n_evaluations, coarser.vain, coarser.is_seen)


def _settled(task, found, report):
    """Return what is learned where a descent on all rows ended, after the last steps of full precision."""
    objective = LatentObjective(replace(task, is_rough=False), found.fit)
    explorer = Explorer(objective, *task.bounds.T, _at_level(report, len(task)))
    with threads_for(len(task)):
        enough = _ENOUGH if found.is_seen else None
        end = explorer.go_on(found.ends[0], tolerance=_tolerance(found), enough=enough)
        return _ended(objective, end.x, found.n_evaluations)


def _sight(coarser):
    return _IN_SIGHT_OF_FEW if len(coarser.rows) < _FEW else _IN_SIGHT


def _curvature_at(objective, x, end, growth):
    """Return the curvature of a coarser level's end, for a start with variables brought back from there.

    These have a curvature of their own: what depends on a length that is too large falls like its -2nd power.
    """
    back, curvature = x != end.x, end.curvature * growth
    if back.any():
        curvature[back, :] = curvature[:, back] = 0.0
        curvature[back, back] = np.maximum(2.0 * np.abs(objective(x).gradient[back]), _FLATTEST)
    return curvature


def _in_sight(x, start, sight, task):
    """Return x with variables brought back that have no effect where they are: a large variance has one."""
    way = x - start
    gone = np.abs(way) > _OUT_OF_SIGHT
    first = int(task.learns_signal)
    is_of_kernel = np.zeros(len(x), dtype=bool)
    is_of_kernel[first : len(x) - len(task.likelihood.names)] = True
    return np.where(gone & (is_of_kernel | (way < 0)), start + np.sign(way) * sight, x)


def _tolerance(found):
    """Return a decrease that is not worth a step from the end of all rows, whose value may be rough."""
    if len(found.rows) < _MANY:
        return _TOLERANCE
    is_single = found.fit is not None and found.fit.approximation.prior.is_single
    return _TOLERANCE_OF_SINGLE if is_single else _TOLERANCE_OF_MANY


def _levels(task):
    """Return row indices of each level, nested; all rows alone where the kernel has nothing to learn."""
    sizes = [len(task)]
    if task.is_precomputed or not task.kernel.n_dims:
        return [np.arange(len(task))]
    if len(task) // 2 >= _FEWEST_OF_HALF and task.n_classes is not None:
        sizes += [len(task) // 2, len(task) // 4]
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

    x, _ = optimizer(obj_func, start, bounds=task.bounds)
    return _ended(objective, np.asarray(x, dtype=np.float64))


def _ended(objective, x, n_before=0):
    value, fit = objective(x).value, objective.fit(x)
    return LatentLearned(x, value, fit, n_before + objective.n_calls)


def _at_level(report, n_rows):
    return None if report is None else partial(report, n_rows)
