"""What a fitted estimator tells of its variances, the same for ridge and process."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..criteria import CRITERIA
from ..criteria.evidence import neg_two_log_evidence
from ..inference.solution import criterion_curve
from ..inference.uncertainty import variance_uncertainty

__all__ = ["VarianceMethods"]


class VarianceMethods:
    """Methods of estimators with a `criterion` and, once fitted, `_solution`, `_bounds` and `_y_ndim`."""

    def criterion_curve(self, alphas):
        """Evaluate the criterion along alpha, the ratio of noise to signal variance, without refitting.

        Bounds and priors of the variances have no part in it.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)
            Positive ratios; infinity is the limit of no signal.

        Returns
        -------
        ndarray of shape (n_alphas,) or (n_alphas, n_targets)
            Values of `criterion`, greater is better.
        """
        check_is_fitted(self)
        alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
        if not (alphas > 0).all():
            raise ValueError(f"alphas must be positive, the smallest is {alphas.min():.6g}.")
        return self._shaped(criterion_curve(self._solution.rotated, CRITERIA[self.criterion], alphas))

    def log_evidence_at(self, noise_variance, signal_variance):
        """Return the log (restricted) evidence at other variances, O(n) for each pair.

        Parameters
        ----------
        noise_variance, signal_variance : float or array-like
            Positive variances in the units of y squared, broadcast against each other.

        Returns
        -------
        ndarray
            Of the shape of both, with a last axis for the targets where y had one.

        Examples
        --------
        >>> import numpy as np
        >>> from skspectral import SpectralKernelRidge, load_motorcycle
        >>> ridge = SpectralKernelRidge(gamma=0.02).fit(*load_motorcycle(return_X_y=True))
        >>> best = ridge.log_evidence_at(ridge.noise_variance_, ridge.signal_variance_)
        >>> bool(np.isclose(best, ridge.log_evidence_))
        True
        >>> bool(ridge.log_evidence_at([100.0, 900.0], ridge.signal_variance_).max() < best)
        True
        """
        check_is_fitted(self)
        noise, signal = np.broadcast_arrays(
            np.asarray(noise_variance, dtype=np.float64), np.asarray(signal_variance, dtype=np.float64)
        )
        for name, values in (("noise_variance", noise), ("signal_variance", signal)):
            bad = values[~(np.isfinite(values) & (values > 0))]
            if len(bad):
                raise ValueError(f"{name} must be positive and finite, got {bad[0]:.6g}.")
        values = -0.5 * neg_two_log_evidence(self._solution.rotated, noise.ravel(), signal.ravel())
        return self._shaped(values).reshape(noise.shape + (() if self._y_ndim == 1 else (-1,)))

    def variance_uncertainty(self, coverage=0.95):
        """Return how well the data determine the variances, and with them their ratio, of every target.

        Standard errors and correlation of their logarithms, and profile-likelihood intervals of noise
        variance, signal variance and ratio, by the (restricted) evidence of each target alone, within the
        bounds that the kernel sets. Kernel parameters count as known; `criterion`, priors, a given alpha and
        ``alpha_per_target=False`` have no part in it.

        Parameters
        ----------
        coverage : float, default=0.95
            Nominal coverage of the intervals, strictly between 0 and 1.

        Returns
        -------
        tuple of VarianceUncertainty
            One for each target, as in `tuning_`.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skspectral import SpectralKernelRidge
        >>> X, y = load_diabetes(return_X_y=True)
        >>> ridge = SpectralKernelRidge(gamma=1.0).fit(X, y)
        >>> found = ridge.variance_uncertainty()[0]
        >>> low, high = found.ratio_interval
        >>> low < ridge.alpha_ < high
        True
        """
        check_is_fitted(self)
        return variance_uncertainty(self._solution.rotated, self._bounds, coverage)

    def _shaped(self, columns):
        """Return (k, m) as the user's y had it."""
        return columns[:, 0] if self._y_ndim == 1 else columns
