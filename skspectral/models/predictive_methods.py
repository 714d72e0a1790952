"""What a fitted process predicts beside means and spreads: intervals, and what it says of its mean."""

from typing import Any, Literal

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..inference.mean_summary import MeanSummary
from ..support.intervals import check_coverage, check_interval_method
from ..support.shapes import without_single_axis
from ..support.types import FloatArray, Objects
from .additive_parts import AdditivePart, additive_parts
from .fitted import Fitted
from .fitted_entries import FittedEntries
from .input_slopes import mean_slope, std_slope

__all__ = ["PredictiveMethods"]


class PredictiveMethods:
    """Methods of a process with, once fitted, a `Fitted` as `_fitted`."""

    _fitted: Fitted
    _validated: Any
    _prior: Any

    def predict_interval(
        self,
        X: Objects,
        coverage: float = 0.95,
        include_noise: bool = True,
        K_test_diag: ArrayLike | None = None,
        method: Literal["model", "jackknife+"] = "model",
    ) -> tuple[FloatArray, FloatArray]:
        """Predict intervals with equal tails, of the model or of its leave-one-out errors.

        With ``inference="integrate"`` the ends are exact quantiles of the predictive mixture of Student-t
        distributions; with "maximize" they are those of the normal distribution.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs, or K(X_new, X_train) for ``kernel="precomputed"``.
        coverage : float, default=0.95
            Probability of each interval, strictly between 0 and 1.
        include_noise : bool, default=True
            Whether the intervals are for new observations (weight 1) or for the latent function.
        K_test_diag : array-like of shape (n_new,), default=None
            For ``kernel="precomputed"`` and ``method="model"``: k(x, x) of every new point.
        method : {"model", "jackknife+"}, default="model"
            "jackknife+" makes intervals of new observations from all leave-one-out models, exactly and
            without refitting, with kernel parameters and variances held. They hold where the model is wrong:
            the probability to cover is at least 1 - 2 (1 - coverage) for exchangeable rows, and usually about
            `coverage`. Fewer than 1 / (1 - coverage) rows make them infinite. The cost is O(n^2) for each
            new point and output.

        Returns
        -------
        lower, upper : ndarray of shape (n_new,) or (n_new, n_outputs)

        Notes
        -----
        Maximised: mean -+ z std, z the (1 + coverage)/2 quantile of N(0, 1). Averaged: the solutions y of
        sum_k w_k T_nu((y - mean_k)/scale_k) = (1 -+ coverage)/2 over the nodes of `variance_posterior_`, T_nu
        the distribution function of Student-t with nu = n - q degrees of freedom and scale_k^2 the predictive
        variance at the variances of node k. "jackknife+": Barber, Candes, Ramdas and Tibshirani (2021),
        "Predictive inference with the jackknife+", with mu_-i(x) = mu(x) - c_i(x) (My)_i / M_ii, where
        mu(x) = c(x)'y and M is the resolvent outside the mean space.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from skspectral import SpectralGPRegressor
        >>> X = np.linspace(0, 6, 12)[:, None]
        >>> y = np.sin(X[:, 0]) + np.random.default_rng(0).normal(0, 0.3, 12)
        >>> widths = []
        >>> for inference in ("maximize", "integrate"):
        ...     gp = SpectralGPRegressor(RBF(1.5), optimizer=None, inference=inference).fit(X, y)
        ...     lower, upper = gp.predict_interval([[3.0]])
        ...     widths.append(float((upper - lower)[0]))
        >>> widths[1] > widths[0]
        True
        """
        check_is_fitted(self, "_fitted")
        check_interval_method(method, ("model", "jackknife+"), include_noise)
        coverage, X = check_coverage(coverage), self._validated(X)
        if method == "jackknife+":
            self._check_has_common_rows("predict_interval with method='jackknife+'")
            ends = self._fitted.jackknife_interval(X, coverage)
            return tuple(without_single_axis(end) for end in ends)
        ends = self._fitted.interval(X, self._prior(X, K_test_diag), coverage, include_noise)
        return tuple(without_single_axis(end) for end in ends)

    def predict_gradient(
        self, X: Objects, return_std: bool = False, include_noise: bool = True
    ) -> FloatArray | Any:
        """Differentiate the predictive mean and, on request, the standard deviation by the inputs.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features)
            New inputs.
        return_std : bool, default=False
            Whether to return the derivatives of the standard deviation too.
        include_noise : bool, default=True
            Whether that is the standard deviation of new observations or of the latent function.

        Returns
        -------
        mean_gradient : ndarray of shape (n_new, n_features) or (n_new, n_features, n_outputs)
        std_gradient : ndarray of the same shape
            Only with `return_std`. Where the standard deviation is 0, or infinite, it holds 0.

        Notes
        -----
        Derivatives of kernels are analytic: those of scikit-learn on vectors, their sums, products and
        powers, and `Columns`, `Normalized`, `Exponential` and `Polynomial` of them. Mean functions are
        differentiated by central differences. A Matern kernel of nu <= 1 has a kink at the training inputs,
        where its derivative is taken as 0. The cost is that of `predict` times the number of outputs.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from skspectral import SpectralGPRegressor
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> y = np.sin(X[:, 0]) + np.random.default_rng(0).normal(0, 0.01, 30)
        >>> gp = SpectralGPRegressor(RBF(1.5), optimizer=None).fit(X, y)
        >>> gp.predict_gradient([[0.5], [2.0]]).round(1)  # the cosine
        array([[ 0.9],
               [-0.4]])
        """
        check_is_fitted(self, "_fitted")
        self._check_has_common_rows("predict_gradient")
        X = self._differentiable(X)
        slope = mean_slope(self._fitted, X)
        if not return_std:
            return without_single_axis(slope)
        parts = slope, std_slope(self._fitted, X, include_noise)
        return tuple(without_single_axis(part) for part in parts)

    def predict_parts(self, X: Objects, centred: bool = False) -> tuple[AdditivePart, ...]:
        """Predict every additive part: the mean functions, and the terms of a kernel that is a sum.

        Parameters
        ----------
        X : array-like of shape (n_new, n_features) or list of object
            New inputs.
        centred : bool, default=False
            Whether parts are taken less their averages over the training rows. What is constant could be
            in any of them, and makes the uncertainty of parts that are not centred large.

        Returns
        -------
        tuple of AdditivePart
            Named tuples (name, mean, std), the mean functions first, if they are more than a constant or
            parts are not centred. Means add up to ``predict(X)``, less its average over the training rows
            where they are centred. Parts are correlated given the data, so that variances do not add up.

        Notes
        -----
        With K = sum_l K_l, part l has the mean k_l*'alpha and the variance
        signal_var [k_l** - k_l*'M k_l*], M the resolvent outside the mean space.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF, ExpSineSquared
        >>> from skspectral import SpectralGPRegressor
        >>> X = np.linspace(0, 10, 80)[:, None]
        >>> y = 0.2 * X[:, 0] ** 2 + np.sin(2 * np.pi * X[:, 0])
        >>> gp = SpectralGPRegressor(RBF(5.0) + ExpSineSquared(1.0, 1.0), optimizer=None).fit(X, y)
        >>> mean, trend, season = gp.predict_parts([[2.25]])
        >>> trend.name
        'RBF(length_scale=5)'
        >>> bool(np.isclose(mean.mean + trend.mean + season.mean, gp.predict([[2.25]]))[0])
        True
        """
        check_is_fitted(self, "_fitted")
        self._check_has_common_rows("predict_parts")
        X = self._validated(X)
        if not hasattr(self._fitted.gram, "kernel"):
            raise ValueError("kernel='precomputed' has no parts. Fit with a kernel object, a sum of kernels.")
        if self._fitted.decomposition.spectrum.repair is not None:
            raise ValueError(
                "The parts of a repaired kernel matrix are not known: eigenvalues of the sum were replaced. "
                "Use positive semi-definite kernels."
            )
        return tuple(
            AdditivePart(name, without_single_axis(mean), without_single_axis(std))
            for name, mean, std in additive_parts(self._fitted, X, centred=centred)
        )

    def _check_has_common_rows(self, what):
        """Refuse correlated outputs on different rows, of which only means, spreads and draws are known."""
        if isinstance(self._fitted, FittedEntries):
            raise ValueError(
                f"{what} is not available for outputs='correlated' with missing targets. Fit with "
                "outputs='independent', or only rows in which every output was observed."
            )

    def _differentiable(self, X):
        """Return new inputs, refusing what is not numbers."""
        X = self._validated(X)
        if not hasattr(self._fitted.gram, "kernel") or X.ndim != 2 or X.dtype.kind != "f":
            raise ValueError(
                "Derivatives by the inputs need a kernel object on vectors of numbers; kernel='precomputed' "
                "and kernels on other things have none."
            )
        return X

    def mean_summary(self) -> tuple[MeanSummary, ...]:
        """Return coefficients of the mean functions with standard errors, t values and a Wald test.

        Returns
        -------
        tuple of MeanSummary
            One for each output, as in `tuning_`; without mean functions they are empty.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.gaussian_process.kernels import RBF
        >>> from skspectral import SpectralGPRegressor
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> y = np.sin(X[:, 0]) + 2.0 * X[:, 0] + np.random.default_rng(0).normal(0, 0.1, 60)
        >>> gp = SpectralGPRegressor(RBF(1.0), optimizer=None, basis="linear").fit(X, y)
        >>> print(gp.mean_summary()[0])  # doctest: +ELLIPSIS
        function        beta  std. error        t        p
        1        ...
        """
        check_is_fitted(self, "_fitted")
        return self._fitted.mean_summaries()
