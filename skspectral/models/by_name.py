"""What estimators share whose kernel is given by a name, a callable, a scikit-learn kernel or as a matrix."""

from numbers import Real

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions

from ..kernels.gram import HISTOGRAM_NAMES, PAIRWISE_NAMES, make_gram

__all__ = ["ByKernelName"]


class ByKernelName:
    """Parameters `kernel`, `gamma`, `degree`, `coef0` and `kernel_params`, as of SpectralKernelRidge."""

    _parameter_constraints: dict = {
        "kernel": [StrOptions(set(PAIRWISE_NAMES) | {"precomputed"}), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
    }

    @property
    def _is_precomputed(self):
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def _input_rules(self):
        if self._is_precomputed:
            return {"dtype": [np.float64, np.float32]}
        return {
            "dtype": np.float64,
            "accept_sparse": ("csr", "csc") if self._takes_sparse else False,
            "accept_large_sparse": self.kernel != "laplacian",  # its sparse loop has 32-bit indices
        }

    @property
    def _takes_sparse(self):
        return not (self._is_precomputed or self._is_of_histograms or isinstance(self.kernel, Kernel))

    @property
    def _is_of_histograms(self):
        return isinstance(self.kernel, str) and self.kernel in HISTOGRAM_NAMES

    @property
    def _gram(self):
        return self._gram_of(self.gamma)

    def _gram_of(self, gamma):
        params = {"gamma": gamma, "degree": self.degree, "coef0": self.coef0}
        return make_gram(self.kernel, (self.kernel_params or {}) if callable(self.kernel) else params)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.input_tags.pairwise = self._is_precomputed
        tags.input_tags.positive_only = self._is_of_histograms
        return tags
