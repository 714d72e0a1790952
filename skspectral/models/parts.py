"""A fitted model of outputs that were not all observed in the same rows: a model for each pattern of rows."""

from dataclasses import dataclass, replace

import numpy as np

from ..decomposition.data import Data
from .fitted import as_objects, by_output

__all__ = ["FittedParts", "fit_parts", "part_of"]


@dataclass(frozen=True)
class FittedParts:
    """Models of outputs that share their rows, put together output by output; methods as those of `Fitted`.

    Attributes
    ----------
    data : Data
        All rows; NaN where an output was not observed.
    parts : tuple of (ndarray, Fitted)
        Outputs and the model that they share. Rows where they were not observed have weight 0 in it.
    y_ndim : int
        Dimensions of the user's y.
    """

    data: Data
    parts: tuple
    y_ndim: int

    averaged = None  # the parts know

    @property
    def decomposition(self):
        """That of the first output's rows."""
        return part_of(self, 0)[0].decomposition

    @property
    def bounds(self):
        """Bounds of both variances."""
        return self.parts[0][1].bounds

    @property
    def gram(self):
        """The kernel."""
        return self.parts[0][1].gram

    @property
    def mean_functions(self):
        """The functions of the mean, the same for all outputs."""
        return self.parts[0][1].mean_functions

    @property
    def solution(self):
        """Variances and coefficients of all outputs."""
        return SolutionOfParts(self)

    @property
    def posteriors(self):
        """Posteriors of the variances of each output, None where these are maximised."""
        if self.parts[0][1].averaged is None:
            return None
        return tuple(by_output(self, lambda part: as_objects(part.posteriors)))

    @property
    def evidence_bounds(self):
        """Lower and upper bounds (m,) on the log evidence of the exact kernel matrices."""
        return tuple(by_output(self, lambda part, i=i: part.evidence_bounds[i]) for i in (0, 1))

    def solved_again(self, solve):
        """Return the model with the solution solve(part, outputs) of each of its parts."""
        parts = tuple((outputs, replace(part, solution=solve(part, outputs))) for outputs, part in self.parts)
        return replace(self, parts=parts)

    def mean(self, X):
        """Return means (n_new, m)."""
        return by_output(self, lambda part: part.mean(X))

    def mean_and_spread(self, X, prior, include_noise):
        """Return means and standard deviations (n_new, m), or joint covariances (n_new, n_new, m)."""
        return self._pairs(lambda part: part.mean_and_spread(X, prior, include_noise))

    def interval(self, X, prior, coverage, include_noise):
        """Return the ends of intervals with equal tails, (n_new, m) both."""
        return self._pairs(lambda part: part.interval(X, prior, coverage, include_noise))

    def prior(self, X, *, joint):
        """Return the kernel among new inputs, or its diagonal."""
        return self.parts[0][1].prior(X, joint=joint)

    def jackknife_interval(self, X, coverage):
        """Return the ends of jackknife+ intervals, (n_new, m) both."""
        return self._pairs(lambda part: part.jackknife_interval(X, coverage))

    def mean_summaries(self):
        """Return the `MeanSummary` of every output."""
        return tuple(by_output(self, lambda part: as_objects(part.mean_summaries())))

    def sample(self, X, prior, n_samples, rng, include_noise):
        """Return draws from the joint distribution, (n_new, m, n_samples)."""
        return by_output(self, lambda part: part.sample(X, prior, n_samples, rng, include_noise), axis=1)

    def leave_one_out(self):
        """Return mean and variance of every row from all the others, and which entries the fit never saw."""
        found = {id(part): part.leave_one_out() for _, part in self.parts}
        return tuple(by_output(self, lambda part, i=i: found[id(part)][i]) for i in range(3))

    def _pairs(self, pair_of):
        found = {id(part): pair_of(part) for _, part in self.parts}
        return tuple(by_output(self, lambda part, i=i: found[id(part)][i]) for i in range(2))


class SolutionOfParts:
    """Variances and coefficients of all outputs of a `FittedParts`, named as in `Solution`.

    Parameters
    ----------
    fitted : FittedParts
        The model.
    """

    _per_output = frozenset(
        {"noise_ratio", "noise_var", "signal_var", "log_evidence", "effective_dof", "dual", "beta"}
    )

    def __init__(self, fitted):
        self._whole = fitted

    def __getattr__(self, name):
        if name not in self._per_output:
            raise AttributeError(name)
        return by_output(self._whole, lambda part: getattr(part.solution, name))

    @property
    def tuning(self):
        """How the variances of each output came about."""
        return tuple(by_output(self._whole, lambda part: as_objects(part.solution.tuning)))

    def dual_variance(self):
        """Return diag Cov[c | y] of each output, (n, m); 0 where it was not observed."""
        return by_output(self._whole, lambda part: part.solution.dual_variance())


def fit_parts(data, y_ndim, fit):
    """Return the model fit(rows, outputs) of all outputs, or one for each pattern of rows.

    Parameters
    ----------
    data : Data
        All rows.
    y_ndim : int
        Dimensions of the user's y.
    fit : callable
        Data and outputs, an array of their indices -> Fitted.
    """
    if not data.has_holes:
        return fit(data, np.arange(data.n_outputs))
    parts = [(outputs, fit(rows, outputs)) for outputs, rows in data.by_pattern()]
    found = np.concatenate([outputs for outputs, _ in parts])
    if len(found) < data.n_outputs:
        never = sorted(set(range(data.n_outputs)) - set(found.tolist()))
        raise ValueError(
            f"y has no observation of output(s) {never} in a row of positive weight. Leave these columns "
            "out, or give such a row a weight."
        )
    return FittedParts(data, tuple(parts), y_ndim)


def part_of(fitted, output):
    """Return the model of an output, and which of its outputs that is."""
    for outputs, part in fitted.parts:
        place = np.flatnonzero(outputs == output)
        if len(place):
            return part, int(place[0])
    raise IndexError(output)
