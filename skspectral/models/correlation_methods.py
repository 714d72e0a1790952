"""What a fitted process tells of correlations between its outputs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..linalg.output_basis import conditional
from ..support.shapes import like_targets
from ..support.types import FloatArray, Objects
from .fitted import Fitted

__all__ = ["CorrelationMethods", "OutputCorrelations", "covariance_attributes"]


@dataclass(frozen=True)
class OutputCorrelations:
    """Correlations between m outputs, with standard errors.

    Attributes
    ----------
    signal, noise : ndarray of shape (m, m)
        Correlations of the signals and of the noise; NaN where an output has none of it.
    signal_se, noise_se : ndarray of shape (m, m)
        Their standard errors, 0 on the diagonal; infinite where the data do not determine them.

    Notes
    -----
    With r = V_jk / root(V_jj V_kk), the derivative dr/r = dV_jk/V_jk - dV_jj/(2 V_jj) - dV_kk/(2 V_kk) and
    the inverse of the information matrix of all entries of both covariances. The information is that observed
    at the maximum of the evidence, half of the second derivatives of -2 log evidence. Kernel parameters count
    as known, and so does the rank of the signal covariance where it is not full. For targets with
    holes in most of the table the expected part of the information is an average over draws from the model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral import SpectralGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = np.linspace(0, 10, 80)[:, None]
    >>> noise = rng.multivariate_normal([0, 0], [[0.1, -0.08], [-0.08, 0.1]], 80)
    >>> Y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0] + 0.3)]) + noise
    >>> gp = SpectralGPRegressor(RBF(1.5), outputs="correlated", optimizer=None).fit(X, Y)
    >>> correlations = gp.output_correlations()
    >>> bool(abs(correlations.noise[0, 1] + 0.8) < 2 * correlations.noise_se[0, 1])
    True
    """

    signal: np.ndarray
    signal_se: np.ndarray
    noise: np.ndarray
    noise_se: np.ndarray


class CorrelationMethods:
    """Methods of a process whose outputs may be correlated."""

    _fitted: Fitted

    if TYPE_CHECKING:

        def _validated(self, X): ...
        def _prior(self, X, K_test_diag): ...
        def _predict_training_rows(self, rows): ...
        def _training_diagonal(self): ...

    def output_correlations(self) -> OutputCorrelations:
        """Return the correlations between outputs, of signals and of noise, with standard errors.

        Returns
        -------
        OutputCorrelations
        """
        solution = self._correlated("output_correlations").solution
        parts = []
        for part, V in enumerate((solution.basis.signal_covariance, solution.basis.noise_covariance)):
            correlation, derivatives = _correlations(V)
            se = np.zeros_like(V)
            J, K = np.triu_indices(len(V), 1)
            se[J, K] = se[K, J] = solution.information.standard_errors(derivatives, part)
            parts += [correlation, np.where(np.isnan(correlation), np.nan, se)]
        return OutputCorrelations(*parts)

    def predict_output_cov(
        self, X: Objects, include_noise: bool = True, K_test_diag: ArrayLike | None = None
    ) -> FloatArray:
        """Predict the covariance between outputs at each new input, for ``outputs="correlated"``.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs, or K(X_new, X_train) for ``kernel="precomputed"``.
        include_noise : bool, default=True
            Whether it is of new observations (weight 1) or of the latent functions.
        K_test_diag : array-like of shape (n_new,), default=None
            For ``kernel="precomputed"``: k(x, x) of every new point.

        Returns
        -------
        ndarray of shape (n_new, n_outputs, n_outputs)
            The squares of the standard deviations of `predict` on its diagonals.
        """
        fitted = self._correlated("predict_output_cov")
        X = self._validated(X)
        return fitted.output_covariance(X, self._prior(X, K_test_diag), include_noise)

    def _predict_given(self, X, y_observed, return_cov, include_noise, K_test_diag):
        """Return means and standard deviations given some outputs of the new rows."""
        fitted = self._correlated("predict with y_observed")
        if return_cov:
            raise ValueError("y_observed conditions row by row; use return_std instead of return_cov.")
        mean, prior = fitted.mean(X), self._prior(X, K_test_diag)
        observed = np.asarray(y_observed, dtype=np.float64)
        if observed.shape != mean.shape:
            raise ValueError(
                f"y_observed has shape {observed.shape}, expected {mean.shape}: a row for each new input, "
                "with NaN where an output is not known."
            )
        total = fitted.output_covariance(X, prior, True)
        wanted = total if include_noise else fitted.output_covariance(X, prior, False)
        mean, std = conditional(mean, total, wanted, observed)
        known = ~np.isnan(observed) & bool(include_noise)
        return np.where(known, observed, mean), np.where(known, 0.0, std)

    def predict_missing(self, return_std: bool = False) -> FloatArray | Any:
        """Return the y of `fit` with its holes (NaN) filled by their predictions.

        Predictions are of the missing observations themselves, given all that was observed. With
        ``outputs="correlated"`` what was observed in the same row tells of their noise too, which it does not
        in `predict` at the same input.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to return standard deviations too, 0 for what was observed.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Only with `return_std`.
        """
        check_is_fitted(self, "_fitted")
        fitted = self._fitted
        mean, std = fitted.data.Y.copy(), np.zeros_like(fitted.data.Y)
        holes = ~fitted.data.observed
        if holes.any():
            rows = np.ones(len(holes), dtype=bool)
            found = self._missing_entries() or self._predict_training_rows(rows)
            mean[holes], std[holes] = (part[holes] for part in found)
        mean, std = (like_targets(part, fitted.y_ndim) for part in (mean, std))
        return (mean, std) if return_std else mean

    def _missing_entries(self):
        """Return mean and standard deviation of missing entries of correlated outputs, None of others."""
        if not hasattr(self._fitted, "missing"):
            return None
        X = self._fitted.data.X
        mean, variance = self._fitted.missing(self._prior(X, self._training_diagonal()))
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def _check_independent(self):
        """Refuse to convert what predicts an output from all of them."""
        if covariance_attributes(self._fitted.solution)["signal_covariance_"] is not None:
            raise ValueError(
                "outputs='correlated' predicts an output from all of them, which no GaussianProcessRegressor "
                "does. Fit with outputs='independent' to convert."
            )

    def _correlated(self, what):
        """Return the fitted model; refuse one whose outputs are independent."""
        check_is_fitted(self, "_fitted")
        if covariance_attributes(self._fitted.solution)["signal_covariance_"] is None:
            raise ValueError(
                f"{what} needs covariances between outputs, but this model was fitted with "
                "outputs='independent'. Fit with outputs='correlated'."
            )
        return self._fitted


def covariance_attributes(solution):
    """Return the fitted attributes about covariances: None each for independent outputs."""
    basis = getattr(solution, "basis", None)
    return {
        "signal_covariance_": None if basis is None else basis.signal_covariance,
        "noise_covariance_": None if basis is None else basis.noise_covariance,
        "covariance_tuning_": getattr(solution, "result", None),
    }


def _correlations(V):
    """Return the correlations of a covariance, and the derivatives of those above the diagonal by it."""
    root = np.sqrt(np.diag(V))
    with np.errstate(divide="ignore", invalid="ignore"):
        R = np.clip(V / np.outer(root, root), -1.0, 1.0)
        J, K = np.triu_indices(len(V), 1)
        D, each = np.zeros((len(J), len(V), len(V))), np.arange(len(J))
        D[each, J, K] = D[each, K, J] = 0.5 / (root[J] * root[K])
        D[each, J, J], D[each, K, K] = -0.5 * R[J, K] / V[J, J], -0.5 * R[J, K] / V[K, K]
    np.fill_diagonal(R, np.where(root > 0, 1.0, np.nan))
    return R, np.nan_to_num(D, posinf=0.0, neginf=0.0)
