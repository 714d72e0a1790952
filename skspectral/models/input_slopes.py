"""Derivatives of predictions by the inputs."""

import numpy as np

from ..inference.variance_form import VarianceForm
from ..kernels.slopes import contract_inputs, diagonal_slope
from .fitted import by_output

__all__ = ["InputSlopes", "mean_slope", "std_slope"]


class InputSlopes:
    """Derivatives of the means and standard deviations of a fitted model at new inputs.

    Parameters
    ----------
    fitted : Fitted
        The model, of a kernel object on vectors.
    X : ndarray of shape (n_new, p)
        New inputs.
    """

    def __init__(self, fitted, X):
        self.fitted, self.X = fitted, X
        self.kernel, feature_map = fitted.gram.kernel, fitted.decomposition.feature_map
        self.points = fitted.data.X if feature_map is None else feature_map.landmarks
        self.cross, self.basis = fitted.cross(X)
        self.basis_slope = fitted.mean_functions.gradient(X)

    def of_mean(self):
        """Return d mean / dx, (n_new, p, m)."""
        coefficients, beta = self.fitted.coefficients, self.fitted.solution.beta
        slopes = [
            self._by_inputs(np.tile(c, (len(self.X), 1)), None if self.basis is None else b)
            for c, b in zip(coefficients.T, beta.T, strict=True)
        ]
        return np.stack(slopes, axis=-1)

    def of_variance(self):
        """Return d variance / dx, (n_new, p, m)."""
        solution = self.fitted.solution
        each = [self._of_variance(j) for j in range(len(solution.in_basis.noise_var))]
        whole = np.array(each).reshape(len(each), *self.X.shape)
        return solution.variance_of_outputs(np.moveaxis(whole, 0, -1))

    def _of_variance(self, j):
        fitted, projection = self.fitted, self.fitted.decomposition.projection
        form = VarianceForm.of(fitted.solution.in_basis, fitted.averaged, j)
        prior = fitted.gram.diagonal(self.X)
        cross, prior, _ = projection.project(self.cross, prior, self.basis)
        by_prior, by_cross, by_leverage = form.slopes(cross, prior)
        by_kernel, by_basis = projection.pull_back(self.cross, self.basis, by_prior, by_cross, by_leverage)
        slope = by_prior[:, None] * diagonal_slope(self.kernel, self.X)
        return slope + self._by_inputs(by_kernel, by_basis)

    def _by_inputs(self, by_kernel, by_basis):
        """Return derivatives by inputs, given those by kernel values and by mean functions."""
        slope = contract_inputs(self.kernel, by_kernel, self.X, self.points)
        if by_basis is None:
            return slope
        return slope + (self.basis_slope * np.atleast_2d(by_basis)[:, None]).sum(axis=2)


def mean_slope(fitted, X):
    """Return derivatives of the means by the inputs, (n_new, p, m)."""
    return by_output(fitted, lambda part: _mean_slope(part, X))


def _mean_slope(fitted, X):
    return sum(p * _in_blocks(model, X, "of_mean") for p, model in fitted.members)


def std_slope(fitted, X, include_noise):
    """Return derivatives of the standard deviations, (n_new, p, m); 0 where these are 0 or infinite.

    The variance of a mixture is the mean of the variances and of squared deviations of the means.
    """
    return by_output(fitted, lambda part: _std_slope(part, X, include_noise))


def _std_slope(fitted, X, include_noise):
    mean, std = fitted.mean_and_spread(X, fitted.prior(X, joint=False), include_noise)
    usable = (std > 0) & np.isfinite(std)
    slope = 0.0
    with np.errstate(invalid="ignore"):  # of infinite variances
        for p, model in fitted.members:
            of_gap = 2.0 * (model.mean(X) - mean)[:, None] * _in_blocks(model, X, "of_mean")
            slope = slope + p * (_in_blocks(model, X, "of_variance") + of_gap)
    return np.where(usable[:, None], slope / (2.0 * np.where(usable, std, 1.0)[:, None]), 0.0)


def _in_blocks(model, X, what):
    return np.concatenate([getattr(InputSlopes(model, X[rows]), what)() for rows in model.blocks(X)])
