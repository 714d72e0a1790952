"""scikit-learn's own estimator checks of the models of latent functions, without exception.

Weights are powers of the likelihood here: the checks of weights against repetitions hold.
"""

import pytest
from sklearn.gaussian_process.kernels import Matern
from sklearn.utils.estimator_checks import parametrize_with_checks

from skspectral import GeneralizedGPRegressor, SpectralGPClassifier

LATENT = [
    SpectralGPClassifier(),
    SpectralGPClassifier(Matern(nu=1.5), approximation="bound", fit_intercept=False, method="low_rank"),
    SpectralGPClassifier(approximation="variational", optimizer=None),
    GeneralizedGPRegressor(),
    GeneralizedGPRegressor("huber", optimizer=None, fit_intercept=False),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skspectral.KernelBoundWarning")
@parametrize_with_checks(LATENT)
def test_estimator_checks(estimator, check):
    check(estimator)
