"""From what is learned and tuned to a fitted process."""

from dataclasses import replace

from ..decomposition.certificate import warn_of_bracket
from ..decomposition.decompose import decompose, decompose_on_landmarks
from ..inference.averaging import integrate_variances
from ..inference.solution import warn_of_unknown_spread, warn_of_vanished_noise
from ..kernels.gram import make_gram
from ..kernels.parameters import n_dims_of
from ..learning.descent import lbfgs
from ..learning.levels import learn_from_starts
from ..learning.patterns import by_patterns
from .bounds import warn_at_bounds
from .ensemble import average_kernels
from .fitted import Fitted
from .fitted_entries import correlate_entries
from .parts import fit_parts

__all__ = ["ProcessFitting"]


class ProcessFitting:
    """How a process with the parameters of `SpectralGPRegressor` learns its kernel and tunes variances."""

    def _solve(self, task, y_ndim, mean, decomposition=None):
        """Return the fitted model, the learned kernel, and how many matrices it took."""
        learned = self._learn(task) if self._learns(task) else None
        kernel = task.kernel if learned is None else task.kernel_at(learned.theta)
        known = learned if learned is not None and learned.is_of(task) else None
        by_entries = task.correlated and task.data.has_holes
        if task.data.has_holes:
            decomposition = None
        elif learned is not None and task.learns_by_bound and known is None:
            landmarks = learned.decomposition.feature_map.landmarks
            decomposition = decompose_on_landmarks(replace(task, kernel=kernel).problem(), landmarks)
        task = replace(task, kernel=kernel, correlated=task.correlated and not by_entries)
        fitted = fit_parts(
            task.data,
            y_ndim,
            lambda data, _: self._fitted_model(replace(task, data=data), known, decomposition, y_ndim, mean),
        )
        n_matrices = 0 if learned is None else learned.n_decompositions
        n_matrices += len(fitted.parts) if known is None else 0
        if by_entries:
            fitted = correlate_entries(fitted, make_gram(kernel).square(task.data.X))
            n_matrices += fitted.solution.result.n_evaluations
        if learned is not None and self.inference == "integrate" and not task.learns_by_bound:
            fitted, n_more = average_kernels(task, self._learner(task), fitted)
            n_matrices += n_more
        return fitted, kernel, n_matrices

    def _fitted_model(self, task, known, decomposition, y_ndim, mean):
        """Return the model of outputs that were observed in the same rows."""
        problem = task.problem()
        if known is not None:
            decomposition, solution = known.decomposition, known.solution
        else:
            decomposition = decompose(problem, task.plan) if decomposition is None else decomposition
            solution = problem.solution(decomposition)
        warn_of_vanished_noise(solution, task.criterion)
        warn_of_unknown_spread(solution)
        warn_at_bounds(task.kernel, solution, task.bounds, are_ours=self.kernel is None)
        averaged = integrate_variances(solution, task.bounds) if self.inference == "integrate" else None
        solution = solution if averaged is None else averaged.mean_solution()
        fitted = Fitted(problem.gram, task.data, task.bounds, decomposition, solution, y_ndim, mean, averaged)
        warn_of_bracket(task.plan, len(task), decomposition.rank, *fitted.evidence_bounds)
        return fitted

    def _learns(self, task):
        """Return whether there are parameters to learn, and a signal that depends on them."""
        has_parameters = not self._is_precomputed and n_dims_of(task.kernel) > 0
        return self.optimizer is not None and has_parameters and task.bounds.signal[1] > 0

    def _learner(self, task):
        """Return what learning sees: present rows, outputs that vary, rows not chosen by their targets."""
        task = replace(task, data=task.data.of_present_rows(), plan=task.plan.for_learning())
        return by_patterns(task).of_varying_outputs()

    def _learn(self, task):
        """Return the best of all starts, None where no output varies and there is nothing to learn."""
        self._check_learnable(task)
        task = self._learner(task)
        if task is None:
            return None
        return learn_from_starts(
            task,
            optimizer={"default": None, "fmin_l_bfgs_b": lbfgs}.get(self.optimizer, self.optimizer),
            n_restarts=self.n_restarts_optimizer,
            random_state=self.random_state,
            report=task.report.step if self.verbose else None,
        )

    def _check_learnable(self, task):
        """Refuse what learning from factors alone, or averaging over what is learned, cannot do."""
        if self.inference == "integrate" and task.data.has_holes:
            raise ValueError(
                "inference='integrate' averages over learned kernel parameters of outputs that share their "
                "rows, but y has missing entries (NaN). Use optimizer=None, which averages over the "
                "variances alone, or inference='maximize'."
            )
        if task.plan.forces_factors and not task.is_by_evidence:
            other = "priors of the variances" if task.variance_prior else f"criterion={self.criterion!r}"
            raise ValueError(
                "method='low_rank' learns kernel parameters by the evidence alone; with "
                f"{other} it would need the kernel matrix. Use optimizer=None, or method='auto' or 'exact'."
            )
