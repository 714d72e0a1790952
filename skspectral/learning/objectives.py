"""What kernel learning minimises, as functions of the kernel's parameters.

The objective is the sum over outputs of the criterion, minimised over both variances (Algorithm 1 of
Schirru et al. with the inner loop exact), plus -2 log of the priors. By the envelope theorem its gradient is

    d/dtheta = tr(G dK/dtheta),   G = dF/dK at the tuned variances,

one symmetric matrix whatever the number of outputs, contracted without the tensor of derivatives.

Two ways to evaluate it:

* `SpectralObjective`: a spectrum at every step, all outputs and criteria, variances tuned globally;
* `ResolventObjective`: for the evidence of a single output, x = log noise_ratio joins the outer
  variables, and each step is one Cholesky factorisation at one g.

Either of them replaces K by a low-rank factor wherever that is exact to tolerance (`factors`): smooth kernels
have few eigenvalues that rise above the noise, and O(n r^2) is then all there is to a step.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..criteria import Criterion, profile, value_at
from ..criteria.form import Terms
from ..decomposition.decompose import SMALLEST_N, Decomposition, Problem, decompose
from ..inference.solution import solve, tune
from ..inference.variances import VarianceBounds, VariancePrior
from ..kernels.algebra import contract, evaluate
from ..kernels.gram import KernelGram
from ..kernels.parts import has_white_noise
from ..linalg.factor_terms import FactorTerms
from ..linalg.factors import pivoted_cholesky
from ..linalg.resolvent import Resolvent
from ..linalg.rows import Rows
from ..linalg.spectrum import Spectrum
from ..support.exceptions import IndefiniteKernelError
from ..support.threads import threads_for

__all__ = ["ResolventObjective", "SpectralObjective", "Task", "make_objective", "profiled_evidence"]

# Gain of the global search over g that sends the descent on its way again, for each output more where steps
# used factors, whose values are that much off.
_WORTH_ANOTHER, _WORTH_ANOTHER_WITH_FACTORS = 1e-3, 0.1
# Factors stand in for K where the trace of what they miss is this share of the noise ratio (so that the
# evidence is off by about that much), at a rank of at most a share of n that depends on the alternative.
_TAU_SHARE = 1e-2
_LARGEST_SHARE_OF_CHOLESKY, _LARGEST_SHARE_OF_SPECTRUM = 0.3, 0.6
# A factor that missed its trace by no more than this may reach it at the next step.
_NEARLY = 30.0
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
    method, rank
        How K is decomposed, see `low_rank.decompose`. Only "exact" keeps steps from using factors of K that
        are exact to tolerance.
    must_be_exact : bool
        Whether "auto" may not approximate K in the end, see `low_rank.must_be_exact`.
    report : callable or None
        Is told of the progress of decompositions, see `progress.Progress`.
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
    method: str = "auto"
    rank: int | None = None
    must_be_exact: bool = False
    report: object = None

    def subset(self, keep):
        """Return the task of some of the rows."""
        return replace(
            self,
            X=self.X[keep],
            Y=self.Y[keep],
            weight=None if self.weight is None else self.weight[keep],
            basis=None if self.basis is None else self.basis[keep],
            rank=None if self.rank is None else min(self.rank, len(keep)),
        )

    def of_varying_outputs(self):
        """Return the task without outputs that are no more than mean functions, None if all are."""
        rows = Rows.make(len(self.X), self.basis, self.weight)
        varies = rows.standardise(self.Y)[0].any(axis=0)
        return replace(self, Y=self.Y[:, varies]) if varies.any() else None

    @property
    def is_single(self):
        """Whether it is about the evidence of one output, for which there is a `ResolventObjective`."""
        return self.Y.shape[1] == 1 and self.criterion.name == "evidence" and self.variance_prior is None

    def decompose(self, theta):
        """Return the `Decomposition` at theta."""
        gram = KernelGram(self.kernel.clone_with_theta(theta))
        problem = Problem(gram, self.X, self.Y, self.basis, self.weight, self.bounds, self.report)
        return decompose(problem, self.method, self.rank, must_be_exact=self.must_be_exact)

    def dense(self, theta):
        """Return the `Decomposition` of the kernel matrix itself at theta."""
        K = evaluate(self.kernel.clone_with_theta(theta), self.X)
        return Decomposition(Spectrum.from_gram(K, self.basis, self.weight, overwrite_K=True))

    def solve(self, theta):
        """Return the solution at theta, and its decomposition."""
        found = self.decompose(theta)
        return self.tuned(found), found

    def tuned(self, found):
        """Return the solution of a decomposition."""
        rotated = found.spectrum.rotate(self.Y)
        return solve(rotated, self.criterion, self.bounds, prior=self.variance_prior)


class SpectralObjective:
    """F(theta) = sum_m min over variances of f_m, with its gradient, from one spectrum per call.

    Parameters
    ----------
    task : Task
        What is learned.
    noise_ratio : float, default=None
        What is known of the smallest noise ratio: how exact a factor of K must be.

    Attributes
    ----------
    n_calls : int
        Evaluations so far.
    variances : tuple of ndarray
        Noise and signal variances of the last evaluation.
    """

    def __init__(self, task, noise_ratio=None):
        self.task, self.n_calls, self.variances = task, 0, None
        self.route, self._smallest_g = _FactorRoute(task, _LARGEST_SHARE_OF_SPECTRUM), noise_ratio

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
        kernel = task.kernel.clone_with_theta(theta)
        try:
            if self._smallest_g is None and self.route.open and self.route.by_force:
                # nothing is known yet of the noise, which says how exact a factor must be
                self.n_calls += 1
                self._smallest_g = task.solve(theta)[0].noise_ratio.min()
            factor = self.route.factor(kernel, self._smallest_g)
            if factor is not None:
                with threads_for(len(task.X), factor.rank):
                    return self._from_factor(kernel, theta, factor)
            solution = task.tuned(task.dense(theta))
        except IndefiniteKernelError:
            return np.inf, np.zeros_like(theta)
        self._smallest_g = solution.noise_ratio.min()
        self.variances = solution.noise_var, solution.signal_var
        value, G = solution.objective_and_sensitivity(task.criterion)
        return _with_prior(task, theta, value, contract(kernel, G, task.X))

    def _from_factor(self, kernel, theta, factor):
        """Return the value and its gradient from a factor of K."""
        rows, Z, scale = self.route.targets
        terms = FactorTerms(factor, rows, Z)
        rotated = terms.rotated(scale)
        x, noise_var, _, _ = tune(rotated, self.task.criterion, self.task.bounds)
        g, b = np.exp(x), noise_var / scale**2
        self.variances, self._smallest_g = (noise_var, noise_var / g), g.min()
        value = value_at(self.task.criterion(rotated, x[None]), b[None]).sum()
        B_inv, residual = terms.several(rotated, g)
        gradient = _contract_factor(
            kernel, terms.sensitivity(B_inv, residual, 1.0 / (g * b)), self.task.X, factor
        )
        return _with_prior(self.task, theta, float(value), gradient)


class ResolventObjective:
    """F(theta, x) of one output's evidence, minimised over the signal variance, from one Cholesky per call.

    Attributes
    ----------
    n_calls, variances
        As in `SpectralObjective`.
    """

    def __init__(self, task):
        self.task, self.n_calls, self.variances = task, 0, None
        self.route = _FactorRoute(task, _LARGEST_SHARE_OF_CHOLESKY)
        self.rows, self.Z, self.scale = self.route.targets
        self.limits = None if task.bounds.is_free else task.bounds.box(self.scale)
        self.mean_variance = float(task.kernel.diag(task.X).mean()) or 1.0

    def starts(self, theta):
        """Return (theta, x) with x tuned globally at theta, and with the user's x where there is one."""
        self.n_calls += 1
        points = [self.at(theta, self.task.solve(theta)[0])]
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
            factor = self.route.factor(kernel, g)
            found, gradient = (
                self._from_resolvent(kernel, x, g)
                if factor is None
                else self._from_factor(kernel, x, g, factor)
            )
        except IndefiniteKernelError:
            return np.inf, np.zeros_like(variables)
        b = found.noise_var[0] * self.scale**2
        self.variances = b, b / g
        value, gradient = _with_prior(task, theta, found.f[0, 0], gradient)
        return value, np.append(gradient, found.f1[0, 0])

    def _from_resolvent(self, kernel, x, g):
        """Return the profile at (theta, x) and the gradient by theta, from a Cholesky of K + gI."""
        resolvent = Resolvent.from_gram(evaluate(kernel, self.task.X), self.rows, g)
        *terms, dual = resolvent.evidence_terms(self.Z[:, 0])
        found = self._profile(x, *terms)
        G = resolvent.inverse
        G -= np.outer(dual * (g / found.noise_var[0]), dual)
        if self.task.weight is not None:
            G *= self.rows.sqrt_weight
            G *= self.rows.sqrt_weight.T
        return found, contract(kernel, G, self.task.X)

    def _from_factor(self, kernel, x, g, factor):
        """Return the same from a factor of K."""
        with threads_for(len(self.task.X), factor.rank):
            terms = FactorTerms(factor, self.rows, self.Z)
            *values, B_inv, residual = terms.at(g)
            found = self._profile(x, *values)
            G = terms.sensitivity(B_inv, residual, 1.0 / (g * found.noise_var[0]))
            return found, _contract_factor(kernel, G, self.task.X, factor)

    def _profile(self, x, A, A1, H, H1):
        terms = Terms(self.rows.n_free, *(np.full((1, 1), value) for value in (A, A1, 0.0, H, H1, 0.0)))
        return profile(terms, np.full((1, 1), x), self.limits)


class _FactorRoute:
    """Factors of K for outer steps while their rank is small enough to pay; gives up once it is not.

    `rank` is that of the last one, None where K itself was used.
    """

    def __init__(self, task, largest_share):
        self.task, self.largest_share, self.rank = task, largest_share, None
        self.rows = Rows.make(len(task.X), task.basis, task.weight)
        self.targets = self.rows, *self.rows.standardise(task.Y)[:2]
        whole = task.criterion.name == "evidence" and task.variance_prior is None
        self.by_force = task.method == "low_rank"
        pays = self.by_force or (task.method == "auto" and len(task.X) >= SMALLEST_N)
        self.open = pays and whole
        self.worth_another = _WORTH_ANOTHER

    def factor(self, kernel, g):
        """Return a factor exact enough at noise ratio g, or None."""
        self.rank = None
        if not self.open or g is None:
            return None
        task, n, tau = self.task, len(self.task.X), _TAU_SHARE * g
        largest = min(task.rank or n, n) if self.by_force else max(1, int(self.largest_share * n))
        try:
            factor = pivoted_cholesky(KernelGram(kernel), task.X, tau=tau, rank=largest, weight=task.weight)
        except IndefiniteKernelError:
            if self.by_force:
                raise
            self.open = False  # K may still be definite outside the mean space
            return None
        self.open = self.by_force or factor.tau <= _NEARLY * tau
        if not self.by_force and factor.tau > tau:
            return None
        self.worth_another, self.rank = _WORTH_ANOTHER_WITH_FACTORS * task.Y.shape[1], factor.rank
        return factor


def _contract_factor(kernel, sensitivity, X, factor):
    """Return dF/dtheta from the derivatives by K(X, Z) and K(Z, Z)."""
    to_landmarks, among = sensitivity
    Z = factor.landmarks
    slope = contract(kernel, to_landmarks, X, Z) + contract(kernel, among, Z)
    if has_white_noise(kernel):  # columns of K(X, X) have it where rows are landmarks, K(X, Z) does not
        at_landmarks = np.diag(to_landmarks[factor.pivots, np.arange(factor.rank)])
        slope += contract(kernel, at_landmarks, Z) - contract(kernel, at_landmarks, Z, Z)
    return slope


def make_objective(task, is_single, noise_ratio):
    """Return the objective of a task, the same kind for all of its levels; see `SpectralObjective`."""
    return ResolventObjective(task) if is_single else SpectralObjective(task, noise_ratio)


def profiled_evidence(task, theta, eval_gradient):
    """Return the log evidence, maximised over the variances and summed over outputs, and its gradient.

    From the kernel matrix itself, or from a factor where the task's method is "low_rank".
    """
    by_factor = task.method == "low_rank"
    solution = task.tuned(task.decompose(theta) if by_factor else task.dense(theta))
    value = float(solution.log_evidence.sum())
    if not eval_gradient:
        return value
    if by_factor:
        varying, noise_ratio = task.of_varying_outputs(), solution.noise_ratio.min()
        slope = np.zeros_like(theta) if varying is None else SpectralObjective(varying, noise_ratio)(theta)[1]
        return value, -0.5 * slope
    _, G = solution.objective_and_sensitivity(task.criterion)
    return value, -0.5 * contract(task.kernel.clone_with_theta(theta), G, task.X)


def _with_prior(task, theta, value, gradient):
    if task.theta_prior is None:
        return value, gradient
    penalty, slope = task.theta_prior(theta)
    return value + penalty, gradient + slope
