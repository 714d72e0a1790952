"""Learning continuous kernel parameters: the outer loop around the O(n) inner one.

The objective is the sum over outputs of the criterion, minimised over both variances (Algorithm 1 of
Schirru et al. with the inner loop exact), plus -2 log of the priors. By the envelope theorem its gradient is

    d/dtheta = tr(G dK/dtheta),   G = dF/dK at the tuned variances,

one symmetric matrix whatever the number of outputs, contracted without the tensor of derivatives.

Two ways to evaluate it:

* `SpectralObjective`: a spectrum at every step, all outputs and criteria, variances tuned globally;
* `ResolventObjective`: for the evidence of a single output, x = log noise_ratio joins the outer
  variables, and each step is one Cholesky factorisation at one g.

`learn` walks from a quarter of a quarter of the rows to all of them: every level starts where the
coarser one ended, with its curvature, so that the full matrix is factorised only a few times. Each level
ends with a spectrum, whose global search over g has the last word: where it finds a better g than the
descent did, the descent goes on from there.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from .criteria import Criterion, profile
from .criteria.form import Terms
from .descent import minimize_in_box
from .exceptions import IndefiniteKernelError
from .kernel_algebra import contract, evaluate
from .solution import VarianceBounds, VariancePrior, solve
from .spectrum import Resolvent, Rows, Spectrum

__all__ = ["Learned", "Task", "learn", "learn_with", "profiled_evidence"]

# Fewest rows of a level; each level has this fraction of the next one's rows.
_COARSEST = 150
_FRACTION = 0.25
# Decrease of -2 log density that is not worth another step, on all rows and on the way there.
_TOLERANCE, _COARSE_TOLERANCE = 1e-7, 1e-3
# Gain of the global search over g that sends the descent on its way again, and how often.
_WORTH_ANOTHER, _MAX_ROUNDS = 1e-3, 4
# Noise ratios, relative to the mean variance of K, between which a descent in x has a slope to follow.
_SLOPED = (1e-5, 1e3)


@dataclass(frozen=True)
class Task:
    """What is learned from: rows, targets, kernel and criterion.

    Attributes
    ----------
    X : ndarray
        Inputs, all rows present.
    Y : ndarray of shape (n, m)
        Targets.
    weight : ndarray of shape (n,) or None
        Positive weights.
    basis : ndarray of shape (n, q) or None
        Mean functions.
    kernel : Kernel
        Core kernel whose theta is learned.
    criterion : Criterion
        What is minimised.
    bounds : VarianceBounds
        Of both variances.
    variance_prior : VariancePrior or None
        Priors of the variances.
    theta_prior : callable or None
        theta -> (-2 log density, gradient).
    ratio_start : float or None
        A noise ratio to start from as well.
    """

    X: np.ndarray
    Y: np.ndarray
    weight: np.ndarray | None
    basis: np.ndarray | None
    kernel: Kernel
    criterion: Criterion
    bounds: VarianceBounds = field(default_factory=VarianceBounds)
    variance_prior: VariancePrior | None = None
    theta_prior: object = None
    ratio_start: float | None = None

    def subset(self, keep):
        """Return the task of some of the rows."""
        return replace(
            self,
            X=self.X[keep],
            Y=self.Y[keep],
            weight=None if self.weight is None else self.weight[keep],
            basis=None if self.basis is None else self.basis[keep],
        )

    def spectrum(self, theta):
        """Return the decomposition at theta."""
        K = evaluate(self.kernel.clone_with_theta(theta), self.X)
        return Spectrum.from_gram(K, self.basis, self.weight, overwrite_K=True)

    def solve(self, theta):
        """Return the spectral solution at theta."""
        return solve(
            self.spectrum(theta).rotate(self.Y), self.criterion, self.bounds, prior=self.variance_prior
        )


@dataclass(frozen=True)
class Learned:
    """Result of `learn`: `theta`, the minimised `value`, its `spectrum`, and the number of factorisations."""

    theta: np.ndarray
    value: float
    spectrum: Spectrum
    n_decompositions: int


class SpectralObjective:
    """F(theta) = sum_m min over variances of f_m, with its gradient, from one spectrum per call.

    Attributes
    ----------
    n_calls : int
        Evaluations so far.
    variances : tuple of ndarray
        Noise and signal variances of the last evaluation.
    """

    def __init__(self, task):
        self.task, self.n_calls, self.variances = task, 0, None

    def starts(self, theta):
        """Return the points in the outer variables from which to descend: theta itself."""
        return [theta]

    def at(self, theta, solution):
        """Return the outer variables of a solution."""
        return theta

    def theta(self, variables):
        """Return theta of the outer variables."""
        return variables

    def box(self, bounds):
        """Return lower and upper limits of the outer variables."""
        return bounds[:, 0], bounds[:, 1]

    def __call__(self, theta):
        """Return the value and its gradient."""
        self.n_calls += 1
        task = self.task
        try:
            solution = task.solve(theta)
        except IndefiniteKernelError:
            return np.inf, np.zeros_like(theta)
        self.variances = solution.noise_var, solution.signal_var
        value, G = solution.objective_and_sensitivity(task.criterion)
        gradient = contract(task.kernel.clone_with_theta(theta), G, task.X)
        return _with_prior(task, theta, value, gradient)


class ResolventObjective:
    """F(theta, x) of one output's evidence, minimised over the signal variance, from one Cholesky per call.

    Attributes
    ----------
    n_calls, variances
        As in `SpectralObjective`.
    """

    def __init__(self, task):
        self.task, self.n_calls, self.variances = task, 0, None
        self.rows = Rows.make(len(task.X), task.basis, task.weight)
        self.Z, self.scale, _ = self.rows.standardise(task.Y)
        self.limits = None if task.bounds.is_free else task.bounds.box(self.scale)
        some = task.X[: min(len(task.X), 100)]
        self.mean_variance = float(np.trace(evaluate(task.kernel, some))) / len(some)

    def starts(self, theta):
        """Return (theta, x) with x tuned globally at theta, and with the user's x where there is one."""
        self.n_calls += 1
        points = [self.at(theta, self.task.solve(theta))]
        if self.task.ratio_start is not None:
            points.append(np.append(theta, np.log(self.task.ratio_start)))
        return points

    def at(self, theta, solution):
        """Return (theta, x) of a solution, with x moved to where there is a slope."""
        low, high = np.array(_SLOPED) * self.mean_variance
        return np.append(theta, np.log(np.clip(solution.noise_ratio[0], low, high)))

    def theta(self, variables):
        """Return theta of (theta, x)."""
        return variables[:-1]

    def box(self, bounds):
        """Return lower and upper limits of (theta, x); x may not sink into the rounding of K."""
        size = len(self.task.X) * self.mean_variance  # a bound on the largest eigenvalue, roughly
        smallest, largest = len(self.task.X) * np.finfo(np.float64).eps * size, 1e6 * size
        x_low, x_high = np.log(np.clip([smallest, largest], *self.task.bounds.noise_ratio))
        return np.append(bounds[:, 0], x_low), np.append(bounds[:, 1], x_high)

    def __call__(self, variables):
        """Return the value and its gradient by (theta, x)."""
        self.n_calls += 1
        task, theta, x = self.task, variables[:-1], variables[-1]
        kernel, g = task.kernel.clone_with_theta(theta), np.exp(x)
        try:
            resolvent = Resolvent.from_gram(evaluate(kernel, task.X), self.rows, g)
        except IndefiniteKernelError:
            return np.inf, np.zeros_like(variables)
        A, A1, H, H1, dual = resolvent.evidence_terms(self.Z[:, 0])
        terms = Terms(self.rows.n_free, *(np.full((1, 1), value) for value in (A, A1, 0.0, H, H1, 0.0)))
        found = profile(terms, np.full((1, 1), x), self.limits)
        b = found.noise_var[0]
        self.variances = b * self.scale**2, b * self.scale**2 / g
        G = resolvent.inverse
        G -= np.outer(dual * (g / b), dual)
        if task.weight is not None:
            G *= self.rows.sqrt_weight
            G *= self.rows.sqrt_weight.T
        value, gradient = _with_prior(task, theta, found.f[0, 0], contract(kernel, G, task.X))
        return value, np.append(gradient, found.f1[0, 0])


def learn(task, theta, bounds, *, report=None):
    """Minimise the task's objective over theta from one starting point, coarse to fine.

    Parameters
    ----------
    task : Task
        What is learned.
    theta : ndarray of shape (p,)
        Start, in log units.
    bounds : ndarray of shape (p, 2)
        Box, in log units.
    report : callable, default=None
        report(n_rows, step, theta, value, variances) after every step.
    """
    starts, curvature, n_calls = None, None, 0
    for rows in _levels(len(task.X)):
        level = task if len(rows) == len(task.X) else task.subset(rows)
        objective = _objective(level)
        if starts is None:
            starts = objective.starts(theta)
        descent, solution = _descend(objective, starts, bounds, curvature, level is task, report)
        starts, curvature = [descent.x], descent.curvature / _FRACTION
        n_calls += objective.n_calls
    return Learned(objective.theta(descent.x), descent.value, solution.spectrum, n_calls)


def _descend(objective, starts, bounds, curvature, is_last, report):
    """Return the best descent from all starts, and the spectral solution where it ended."""
    lower, upper = objective.box(bounds)
    settings = {
        "tolerance": _TOLERANCE if is_last else _COARSE_TOLERANCE,
        "report": None if report is None else _at_level(report, objective),
    }
    ends = [minimize_in_box(objective, s, lower, upper, curvature=curvature, **settings) for s in starts]
    best = min(ends, key=lambda end: end.value)
    for _ in range(_MAX_ROUNDS):
        theta = objective.theta(best.x)
        solution, value = _globally(objective, theta)
        if value >= best.value - _WORTH_ANOTHER:
            break
        again = objective.at(theta, solution)
        best = minimize_in_box(objective, again, lower, upper, curvature=best.curvature, **settings)
    return best, solution


def _globally(objective, theta):
    """Return the solution of all variances at theta and the value of the objective there."""
    task = objective.task
    objective.n_calls += 1
    solution = task.solve(theta)
    value = solution.objective(task.criterion)
    return solution, value + (0.0 if task.theta_prior is None else task.theta_prior(theta)[0])


def learn_with(optimizer, task, theta, bounds):
    """Minimise by a callable with scikit-learn's signature, which sees half of F, a -log density."""
    objective = SpectralObjective(task)

    def obj_func(theta, eval_gradient=True):
        value, gradient = objective(np.asarray(theta, dtype=np.float64))
        return (0.5 * value, 0.5 * gradient) if eval_gradient else 0.5 * value

    theta, value = optimizer(obj_func, theta, bounds=bounds)
    theta = np.asarray(theta, dtype=np.float64)
    return Learned(theta, 2.0 * float(value), task.spectrum(theta), objective.n_calls + 1)


def _at_level(report, objective):
    def report_step(step, variables, value):
        report(len(objective.task.X), step, objective.theta(variables), value, objective.variances)

    return report_step


def profiled_evidence(task, theta):
    """Return the log evidence, maximised over the variances and summed over outputs, and its gradient."""
    solution = task.solve(theta)
    _, G = solution.objective_and_sensitivity(task.criterion)
    gradient = contract(task.kernel.clone_with_theta(theta), G, task.X)
    return float(solution.log_evidence.sum()), -0.5 * gradient


def _objective(task):
    single = task.Y.shape[1] == 1 and task.criterion.name == "evidence" and task.variance_prior is None
    if single and Rows.make(len(task.X), task.basis, task.weight).standardise(task.Y)[0].any():
        return ResolventObjective(task)
    return SpectralObjective(task)


def _levels(n):
    """Return row indices of each level, nested, from the coarsest to all rows."""
    order = np.random.default_rng(0).permutation(n)  # fixed: the same input gives the same output
    sizes = [n]
    while _FRACTION * sizes[-1] >= _COARSEST:
        sizes.append(int(_FRACTION * sizes[-1]))
    return [np.sort(order[:size]) for size in reversed(sizes)]


def _with_prior(task, theta, value, gradient):
    if task.theta_prior is None:
        return value, gradient
    penalty, slope = task.theta_prior(theta)
    return value + penalty, gradient + slope
