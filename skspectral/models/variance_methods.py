"""What a fitted estimator tells of its variances, the same for ridge and process."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..criteria import CRITERIA
from ..criteria.evidence import neg_two_log_evidence
from ..inference.tuned import criterion_curve
from ..inference.uncertainty import VarianceUncertainty, variance_uncertainty
from ..support.shapes import like_targets
from ..support.types import Criterion, FloatArray
from .fitted import Fitted, as_objects, by_output

__all__ = ["VarianceMethods"]


class VarianceMethods:
    """Methods of estimators with a `criterion` and, once fitted, a `Fitted` as `_fitted`."""

    criterion: Criterion
    _fitted: Fitted

    def criterion_curve(self, alphas: ArrayLike) -> FloatArray:
        """Evaluate the criterion along alpha, the ratio of noise to signal variance, without refitting.

        Bounds and priors of the variances have no part in it.

        Parameters
        ----------
        alphas : array-like of shape (n_alphas,)
            Positive ratios; infinity is the limit of no signal.

        Returns
        -------
        ndarray of shape (n_alphas,) or (n_alphas, n_outputs)
            Values of `criterion`, greater is better.
        """
        check_is_fitted(self, "_fitted")
        alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
        if not (alphas > 0).all():
            raise ValueError(f"alphas must be positive, the smallest is {alphas.min():.6g}.")
        criterion = CRITERIA[self.criterion]
        values = by_output(
            self._fitted, lambda part: criterion_curve(part.solution.rotated, criterion, alphas)
        )
        return like_targets(values, self._fitted.y_ndim)

    def log_evidence_at(self, noise_variance: ArrayLike, signal_variance: ArrayLike) -> FloatArray:
        """Return the log (restricted) evidence at other variances, O(n) for each pair.

        Parameters
        ----------
        noise_variance, signal_variance : float or array-like
            Positive variances in the units of y squared, broadcast against each other.

        Returns
        -------
        ndarray
            Of the shape of both, with a last axis for the outputs where y had one.

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
        check_is_fitted(self, "_fitted")
        noise, signal = np.broadcast_arrays(
            np.asarray(noise_variance, dtype=np.float64), np.asarray(signal_variance, dtype=np.float64)
        )
        for name, values in (("noise_variance", noise), ("signal_variance", signal)):
            bad = values[~(np.isfinite(values) & (values > 0))]
            if len(bad):
                raise ValueError(f"{name} must be positive and finite, got {bad[0]:.6g}.")
        ndim, trial = self._fitted.y_ndim, (noise.ravel(), signal.ravel())
        values = by_output(
            self._fitted, lambda part: -0.5 * neg_two_log_evidence(part.solution.rotated, *trial)
        )
        return like_targets(values, ndim).reshape(noise.shape + (() if ndim == 1 else (-1,)))

    def variance_uncertainty(self, coverage: float = 0.95) -> tuple[VarianceUncertainty, ...]:
        """Return how well the data determine the variances, and with them their ratio, of every output.

        Standard errors and correlation of their logarithms, and profile-likelihood intervals of noise
        variance, signal variance and ratio, by the (restricted) evidence of each output alone, within the
        bounds that the kernel sets. Kernel parameters count as known; `criterion`, priors, a given alpha and
        ``alpha_per_target=False`` have no part in it.

        Parameters
        ----------
        coverage : float, default=0.95
            Nominal coverage of the intervals, strictly between 0 and 1.

        Returns
        -------
        tuple of VarianceUncertainty
            One for each output, as in `tuning_`.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from skspectral import SpectralKernelRidge
        >>> X, y = load_diabetes(return_X_y=True)
        >>> ridge = SpectralKernelRidge(gamma=1.0).fit(X, y)
        >>> uncertainty = ridge.variance_uncertainty()[0]
        >>> low, high = uncertainty.ratio_interval
        >>> bool(low < ridge.alpha_ < high)
        True
        """
        check_is_fitted(self, "_fitted")
        found = by_output(
            self._fitted,
            lambda part: as_objects(variance_uncertainty(part.solution.rotated, part.bounds, coverage)),
        )
        return tuple(found)
