"""A fitted model averaged over its kernel parameters: a mixture of fitted models."""

from dataclasses import dataclass, replace

import numpy as np

from ..decomposition.decompose import decompose
from ..inference.averaging import integrate_variances, pooled
from ..inference.student_mixture import StudentMixture
from ..kernels.gram import make_gram
from ..kernels.parts import parameter_names
from ..learning.design import KernelPosterior, explore
from ..support.exceptions import IndefiniteKernelError
from .fitted import Fitted

__all__ = ["Ensemble", "average_kernels"]


@dataclass(frozen=True)
class Ensemble(Fitted):
    """A model that predicts by the mixture of several; its own fields are those of the most likely kernel.

    Attributes
    ----------
    models : tuple of Fitted
        Averaged over their variances, each at kernel parameters of its own.
    probability : ndarray of shape (k,)
        Of each of them.
    kernel_posterior : KernelPosterior
        Their parameters.
    """

    models: tuple = ()
    probability: np.ndarray | None = None
    kernel_posterior: KernelPosterior | None = None

    @property
    def members(self):
        """Pairs of probability and model."""
        return tuple(zip(self.probability, self.models, strict=True))

    @property
    def posteriors(self):
        """The `VariancePosterior` of every output, of all models together."""
        each = zip(*(model.averaged.posteriors for model in self.models), strict=True)
        return tuple(pooled(posteriors, self.probability) for posteriors in each)

    def mean(self, X):
        """Return means (n_new, m)."""
        return sum(p * model.mean(X) for p, model in self.members)

    def mean_and_spread(self, X, prior, include_noise):
        """Return means and standard deviations (n_new, m), or joint covariances (n_new, n_new, m)."""
        joint = np.ndim(prior) == 2
        parts = [
            model.mean_and_spread(X, model.prior(X, joint=joint), include_noise) for model in self.models
        ]
        means = np.stack([mean for mean, _ in parts])
        mean = np.tensordot(self.probability, means, 1)
        gap = means - mean
        spreads = np.stack([spread if joint else spread**2 for _, spread in parts])
        between = gap[:, :, None] * gap[:, None] if joint else gap**2
        variance = np.tensordot(self.probability, spreads + between, 1)
        return mean, variance if joint else np.sqrt(variance)

    def interval(self, X, prior, coverage, include_noise):
        """Return the ends of intervals with equal tails, (n_new, m) both."""
        tails, ends = (0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage)), []
        limits = np.where(self.solution.is_undetermined, np.inf, 0.0)
        for rows in self.blocks(X):
            mixtures = self._mixtures(X[rows], include_noise)
            ends.append([np.column_stack([mix.quantile(tail) for mix in mixtures]) for tail in tails])
        lower, upper = (np.concatenate(end) for end in zip(*ends, strict=True))
        return lower - limits, upper + limits

    def sample(self, X, prior, n_samples, rng, include_noise):
        """Return draws from the joint distribution, (n_new, m, n_samples)."""
        counts = rng.multinomial(n_samples, self.probability / self.probability.sum())
        draws = [
            model.sample(X, model.prior(X, joint=True), count, rng, include_noise)
            for count, model in zip(counts, self.models, strict=True)
            if count
        ]
        draws = np.concatenate(draws, axis=2)
        return draws[:, :, rng.permutation(n_samples)]

    def beta_covariance(self):
        """Return the covariance of beta in the mixture, (functions, functions, m)."""
        betas = np.stack([model.solution.beta for model in self.models])
        gap = betas - np.tensordot(self.probability, betas, 1)
        within = np.stack([model.beta_covariance() for model in self.models])
        return np.tensordot(self.probability, within + gap[:, :, None] * gap[:, None], 1)

    def _mixtures(self, X, include_noise):
        """Return the predictive `StudentMixture` of every output."""
        each = [model.mixtures(X, include_noise) for model in self.models]
        return [StudentMixture.joined(mixtures, self.probability) for mixtures in zip(*each, strict=True)]

    @property
    def _n_nodes(self):
        return sum(model._n_nodes for model in self.models)


def average_kernels(task, learner, fitted):
    """Return the `Ensemble` around a fitted model, and how many matrices were factorised for it.

    Parameters
    ----------
    task : Task
        The rows and the plan of the fit, its kernel the learned one.
    learner : Task
        What was learned: present rows, outputs that vary.
    fitted : Fitted
        At the learned parameters, averaged over its variances.
    """
    theta, found = task.kernel.theta, {}

    def log_density(point):
        is_known = np.array_equal(point, theta)
        both = (fitted.decomposition, fitted.averaged) if is_known else _at(task, point)
        found[point.tobytes()] = both
        return -np.inf if both is None else both[1].log_evidence.sum() + task.log_prior(point)

    def model(point):
        return _model_at(task, point, fitted, *found[point.tobytes()])

    points, weight = explore(learner, theta, log_density)
    models = tuple(fitted if np.array_equal(point, theta) else model(point) for point in points)
    posterior = KernelPosterior(tuple(parameter_names(task.kernel)), np.exp(points), weight)
    ensemble = Ensemble(**_fields_of(fitted), models=models, probability=weight, kernel_posterior=posterior)
    return ensemble, 2 * len(theta) + len(found) - 1


def _fields_of(fitted):
    """Return the fields of a fitted model by name."""
    return {name: getattr(fitted, name) for name in Fitted.__dataclass_fields__}


def _at(task, theta):
    """Return decomposition and `AveragedSolution` at theta; None where the kernel has none there."""
    problem = task.problem(theta)
    try:
        decomposition = decompose(problem, task.plan)
    except IndefiniteKernelError:
        return None
    return decomposition, integrate_variances(problem.solution(decomposition), task.bounds)


def _model_at(task, theta, fitted, decomposition, averaged):
    """Return the fitted model at other kernel parameters."""
    return replace(
        fitted,
        gram=make_gram(task.kernel_at(theta)),
        decomposition=decomposition,
        solution=averaged.mean_solution(),
        averaged=averaged,
    )
