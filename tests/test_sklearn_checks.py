"""scikit-learn's own estimator checks, with one declared exception.

A weight is a relative precision, so that tuned variances do not take it for a repetition: a row repeated
exactly says that repeated measurements agree exactly, and noise is then found to vanish. With a given alpha
the checks of weights against repetitions hold.

"precomputed" is not among them: the checks truncate a kernel matrix to integers, which makes it
indefinite, and refusing that is a promise of ours (tests/test_bad_inputs.py).
"""

import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from skspectral import SpectralGPRegressor, SpectralKernelRidge, StreamingSpectralRegressor

DEFAULTS = [SpectralKernelRidge(), SpectralGPRegressor(), StreamingSpectralRegressor()]
RIDGES = [
    SpectralKernelRidge(alpha=0.5),
    SpectralKernelRidge(kernel="linear"),
    SpectralKernelRidge(kernel="laplacian", criterion="gcv"),
    SpectralKernelRidge(kernel="polynomial", criterion="loo"),
    SpectralKernelRidge(kernel="cosine", criterion="loo_lpd", fit_intercept=False),
    SpectralKernelRidge(kernel=RBF(2.0), alpha_per_target=False),
    SpectralKernelRidge(method="low_rank"),
    SpectralKernelRidge(selection="greedy"),
    SpectralKernelRidge(kernel="sigmoid", indefinite="flip"),
]
PROCESSES = [
    SpectralGPRegressor(ConstantKernel() * Matern(nu=1.5) + WhiteKernel(), criterion="loo", optimizer=None),
    SpectralGPRegressor(inference="integrate"),
    SpectralGPRegressor(RBF() + DotProduct(), criterion="gcv", fit_intercept=False, optimizer=None),
    SpectralGPRegressor(method="low_rank", selection="greedy", optimizer=None),
    SpectralGPRegressor(RBF(), basis="linear", optimizer=None),
    SpectralGPRegressor(indefinite="clip"),
]
STREAMS = [
    StreamingSpectralRegressor(ConstantKernel() * Matern(nu=1.5) + WhiteKernel()),
    StreamingSpectralRegressor(RBF() + DotProduct(), landmarks=10, criterion="gcv", fit_intercept=False),
    StreamingSpectralRegressor(selection="greedy"),
]


WEIGHTS_ARE_PRECISIONS = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "tuned variances take a weight for a precision, not for a repetition",
)


def expected_failures(estimator):
    return {} if isinstance(getattr(estimator, "alpha", None), float) else WEIGHTS_ARE_PRECISIONS


# The checks' tiny data sets deserve this warning; it is tested on its own.
pytestmark = pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")


@parametrize_with_checks(DEFAULTS, expected_failed_checks=expected_failures)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(RIDGES + PROCESSES + STREAMS, expected_failed_checks=expected_failures)
def test_estimator_checks_of_other_settings(estimator, check):
    check(estimator)
