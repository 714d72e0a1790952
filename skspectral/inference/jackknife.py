"""Intervals from leave-one-out models, whose coverage does not rest on the model (jackknife+).

Barber, Candes, Ramdas and Tibshirani (2021), "Predictive inference with the jackknife+", Annals of Statistics
49:486-507: with mu_-i the model without row i and R_i = |y_i - mu_-i(x_i)|, the interval at x from the
k-th smallest mu_-i(x) - R_i to the k-th largest mu_-i(x) + R_i, k = floor((1 - coverage)(n + 1)), covers a
new observation with a probability of at least 1 - 2 (1 - coverage) if rows are exchangeable, whatever the
model.
"""

import numpy as np

__all__ = ["JackknifePlus"]

# Products such as (1 - 0.9) * 100 that fall short of a whole number by rounding.
_ROUNDING = 1e-9


class JackknifePlus:
    """Intervals of m outputs from all leave-one-out models, none of which is fitted.

    Predictions are linear in the targets, mu(x) = c(x)'y with c = h' + M k~, M the resolvent outside the mean
    space and h = f*'(F'F)^-1 F'. A model without row i is the model of all rows in which y_i is replaced by
    its leave-one-out prediction, y_i - (My)_i / M_ii, so that

        mu_-i(x) = mu(x) - c_i(x) (My)_i / M_ii.

    With weights all of it is in the units of W^1/2 y: residuals are those of observations of weight 1.
    Correlated outputs are sums of independent ones, and so are their models without row i.

    Parameters
    ----------
    solution : Solution
        Its variances are held.
    coverage : float
        Nominal coverage.
    """

    def __init__(self, solution, coverage):
        self.solution, self.mixing, self.rotated = solution.in_basis, solution.mixing, solution.rotated
        self.present = solution.spectrum.rows.present
        self.residual = self.solution.weighted_loo_residuals()[0][self.present]
        self._rank = int(np.floor((1.0 - coverage) * (self.present.sum() + 1) + _ROUNDING))

    @property
    def n_arrays(self):
        """How many outputs' models are held at once."""
        return 1 if self.mixing is None else max(self.mixing.shape[1], 1)

    def interval(self, cross, basis):
        """Return lower and upper ends (n_new, m), infinite where there are too few rows for the coverage.

        Parameters
        ----------
        cross : ndarray of shape (r, n_new)
            U'k~ of new points, see `Spectrum.project`.
        basis : ndarray of shape (n_new, functions) or None
            Their mean functions.
        """
        z = None if basis is None else basis @ self.solution.spectrum.rows.R_inv
        ends = [self._ends(*of_output) for of_output in self._left_out(cross, z)]
        middle = 0.0 if z is None else z @ self.rotated.basis_part
        return tuple(np.column_stack(end) + middle for end in zip(*ends, strict=True))

    def _left_out(self, cross, z):
        """Yield mu_-i(x) less the mean functions, (n_new, rows), and R_i of each output."""
        models = (self._models(j, cross, z) for j in range(self.residual.shape[1]))
        if self.mixing is None:
            return zip(models, np.abs(self.residual.T), strict=True)
        together = np.array(list(models)).reshape(self.mixing.shape[1], cross.shape[1], len(self.residual))
        mixed = (np.tensordot(row, together, 1) for row in self.mixing)
        return zip(mixed, np.abs(self.mixing @ self.residual.T), strict=True)

    def _models(self, j, cross, z):
        """Return the same of one output of the basis: kernel part of mu less c_i (My)_i / M_ii."""
        solution, rotated, spectrum = self.solution, self.solution.rotated, self.solution.spectrum
        shrunk = cross / (spectrum.s + solution.noise_ratio[j])[:, None]
        mean, c = shrunk.T @ (rotated.y_tilde[:, j] * rotated.scale[j]), (spectrum.U @ shrunk).T
        if z is not None:
            c = c + z @ spectrum.rows.Q.T
        return mean[:, None] - c[:, self.present] * self.residual[:, j]

    def _ends(self, each, width):
        if not self._rank:
            return np.full(len(each), -np.inf), np.full(len(each), np.inf)
        k = self._rank - 1
        lower = np.partition(each - width, k, axis=1)[:, k]
        return lower, -np.partition(-each - width, k, axis=1)[:, k]
