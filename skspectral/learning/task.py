"""What kernel learning is about."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..criteria import Criterion
from ..decomposition.data import Data
from ..decomposition.decompose import Problem, decompose, decompose_matrix
from ..decomposition.plan import Plan, Route
from ..inference.correlated import tune_correlated
from ..inference.tuned import look_for_ratio, tune
from ..inference.variances import VarianceBounds, VariancePrior
from ..kernels.gram import make_gram
from ..kernels.parameters import with_theta
from ..kernels.parts import has_white_noise, split_kernel

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """Rows, a kernel whose theta is learned, and the criterion that both theta and the variances minimise.

    Attributes
    ----------
    data : Data
        Rows, all of them present.
    kernel : Kernel or "precomputed"
        Core kernel whose theta is learned.
    criterion : Criterion
        What is minimised.
    bounds : VarianceBounds
        Bounds of both variances.
    variance_prior : VariancePrior or None
        Priors of the variances.
    theta_prior : callable or None
        theta -> (-2 log density, gradient).
    given : Kernel or None
        The kernel as the user wrote it, with its constant and its noise: a start too.
    plan : Plan
        How kernel matrices are decomposed. Only "exact" keeps steps from using factors of K that are exact to
        tolerance.
    correlated : bool
        Whether outputs have covariances between them.
    report : callable or None
        Is told of the progress of decompositions, see `support.progress`.
    """

    data: Data
    kernel: Kernel | str
    criterion: Criterion
    bounds: VarianceBounds = field(default_factory=VarianceBounds)
    variance_prior: VariancePrior | None = None
    theta_prior: object = None
    given: Kernel | None = None
    plan: Plan = field(default_factory=Plan)
    correlated: bool = False
    report: object = None

    def __len__(self):
        return len(self.data)

    @property
    def n_matrices(self):
        """How many kernel matrices stand behind a solution."""
        return 1

    def drawn(self, n_rows):
        """Return indices of so many rows, drawn by their content; those of fewer rows are among them."""
        return np.sort(self.data.shuffled(make_gram(self.kernel))[:n_rows])

    def subset(self, keep):
        """Return the task of some of the rows."""
        return replace(self, data=self.data.subset(keep), plan=self.plan.for_rows(len(keep)))

    def of_varying_outputs(self):
        """Return the task without outputs that are no more than mean functions, None if all are."""
        data = self.data.of_varying_outputs()
        if data is self.data:
            return self
        return None if data is None else replace(self, data=data)

    @property
    def is_by_evidence(self):
        """Whether theta and the variances maximise the evidence alone, which factors can stand in for."""
        return self.criterion.name == "evidence" and self.variance_prior is None

    @cached_property
    def is_single(self):
        """Whether it is about the evidence of one output, for which there is a `ResolventObjective`.

        That descends in the noise ratio too. Where bounds hold both variances at once, it has an edge there
        instead of a slope.
        """
        return self.is_by_evidence and self.data.n_outputs == 1 and not self._hold_both_variances()

    def _hold_both_variances(self):
        """Return whether targets are smaller, or larger, than both variances together may be."""
        if self.bounds.is_free or self.bounds.is_fixed:
            return False
        scale, variance = self.data.standardised[1], self.kernel.diag(self.data.X).mean()
        return self.bounds.hold_both(float(scale[0]), float(variance))

    @property
    def learns_by_bound(self):
        """Whether theta and the variances maximise the lower bound that a factor is certain of."""
        return self.is_by_evidence and not self.correlated and self.plan.has_given_rank(len(self))

    @property
    def learns_on_landmarks(self):
        """Whether steps of learning use nothing but factors, of landmarks that stay during a descent.

        White noise inside of a kernel is no function of other inputs, and only rows themselves span it.
        """
        certified = self.plan.forces_factors and not has_white_noise(self.kernel)
        return self.learns_by_bound or (self.is_by_evidence and certified and not self.correlated)

    @cached_property
    def given_parts(self):
        """The parts of the given kernel, None without one."""
        return None if self.given is None else split_kernel(self.given)

    @property
    def given_ratio(self):
        """The noise ratio of the given kernel, None where it has not both variances."""
        parts = self.given_parts
        if parts is None or not (parts.noise_start and parts.signal_start):
            return None
        return parts.noise_start / parts.signal_start

    def kernel_at(self, theta):
        """Return the kernel with other parameters."""
        return with_theta(self.kernel, theta)

    def problem(self, theta=None):
        """Return what is decomposed and solved at theta, or at the kernel's own parameters."""
        gram = make_gram(self.kernel if theta is None else self.kernel_at(theta))
        return Problem(
            gram,
            self.data,
            self.criterion,
            self.bounds,
            self.variance_prior,
            correlated=self.correlated,
            by_bound=self.learns_by_bound,
            report=self.report,
        )

    def tune(self, terms, scale):
        """Return tuned variances or covariances from a factor's terms and the scale of the targets."""
        rotated = terms.rotated(scale)
        if self.correlated:
            return tune_correlated(rotated, terms.null_root())
        return tune(rotated, self.criterion, self.bounds)

    def solve(self, theta, *, without_factor=False, by_bound=None):
        """Return the decomposition at theta by the plan's route, and its solution.

        `without_factor` says that the steps of learning found no factor small enough: the plan need not look.
        `by_bound`, if given, says whether the variances maximise a lower bound, whatever the plan.
        """
        problem = self.problem(theta)
        problem = problem if by_bound is None else replace(problem, by_bound=by_bound)
        if without_factor and self.plan.route(len(self)) is Route.CERTIFIED_OR_EXACT:
            decomposition = decompose_matrix(problem.gram, self.data)
        else:
            decomposition = decompose(problem, self.plan)
        return decomposition, problem.solution(decomposition)

    def rough_ratio(self, theta):
        """Return about the noise ratios (m,) that `solve` finds at theta, for outputs that all vary."""
        decomposition = decompose(self.problem(theta), self.plan)
        if decomposition.certified is not None:
            return decomposition.certified.solution.noise_ratio
        return look_for_ratio(decomposition.spectrum.rotate(self.data.Y), self.criterion, self.bounds)

    def solve_matrix(self, theta):
        """Return the solution at theta from the kernel matrix itself."""
        problem = self.problem(theta)
        return problem.solution(decompose_matrix(problem.gram, self.data))

    def with_prior(self, theta, value, gradient):
        """Return a value and its gradient by theta with those of -2 log prior added."""
        if self.theta_prior is None:
            return value, gradient
        penalty, slope = self.theta_prior(theta)
        return value + penalty, gradient + slope

    def log_prior(self, theta):
        """Return the log prior density of theta, log parameters: flat where no prior says otherwise."""
        return 0.0 if self.theta_prior is None else self.theta_prior.log_density(theta)

    def objective(self, theta, solution):
        """Return what is minimised, at the variances of a solution."""
        return self.with_prior(theta, solution.objective(self.criterion), np.zeros_like(theta))[0]
