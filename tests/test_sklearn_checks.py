"""scikit-learn's own estimator checks, for settings of which every two meet in some estimator.

Two exceptions are declared, with their reasons, in `expected_failures`: what a weight means where variances
are tuned, and kernel matrices that the checks change into something that is no kernel.
"""

from itertools import combinations, product

import pytest
from sklearn.base import is_classifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from skspectral import (
    LaplacianProcessRegressor,
    RelevanceVectorClassifier,
    RelevanceVectorRegressor,
    SpectralGPRegressor,
    SpectralKernelRidge,
    StreamingSpectralRegressor,
)

CRITERIA = ["evidence", "gcv", "loo", "loo_lpd", "posterior"]
ROUTES = [
    {"method": "auto"},
    {"method": "exact"},
    {"method": "low_rank"},
    {"selection": "greedy"},
]
RIDGES = {
    "kernel": ["rbf", "linear", "chi2", RBF(2.0), "precomputed"],
    "criterion": CRITERIA,
    "route": ROUTES,
    "alpha": ["auto", 0.5],
    "fit_intercept": [True, False],
    "alpha_per_target": [True, False],
}
PROCESSES = {
    "kernel": [None, ConstantKernel() * Matern(nu=1.5) + WhiteKernel(), RBF() + DotProduct(), "precomputed"],
    "criterion": CRITERIA,
    "route": ROUTES,
    "inference": ["maximize", "integrate"],
    "fit_intercept": [True, False],
    "optimizer": [None],
}
STREAMS = {
    "kernel": [None, ConstantKernel() * Matern(nu=1.5) + WhiteKernel(), RBF() + DotProduct()],
    "criterion": ["evidence", "gcv"],
    "landmarks": [40, 300],
    "selection": ["pivots", "greedy"],
    "fit_intercept": [True, False],
}
# Each takes as long as all of the others together.
LEARNING = [
    SpectralGPRegressor(),
    SpectralGPRegressor(inference="integrate"),
    SpectralGPRegressor(method="low_rank", selection="greedy"),
    SpectralGPRegressor(ConstantKernel() * Matern(nu=1.5) + WhiteKernel(), criterion="loo"),
    SpectralGPRegressor(outputs="correlated"),
    SpectralGPRegressor(indefinite="clip"),
]
SPARSE = [
    RelevanceVectorRegressor(),
    RelevanceVectorRegressor("sigmoid", fit_intercept=False),
    RelevanceVectorClassifier(),
    LaplacianProcessRegressor(),
]


def every_two(factors, is_allowed=lambda settings: True):
    """Return few settings in which every two values of different factors meet that may meet.

    Greedily: always the settings in which most of those meet that have not met.
    """
    allowed = []
    for values in product(*(range(len(each)) for each in factors.values())):
        settings = {name: factors[name][i] for name, i in zip(factors, values, strict=True)}
        if is_allowed(settings):
            allowed.append((settings, set(combinations(enumerate(values), 2))))
    to_meet, chosen = set().union(*(pairs for _, pairs in allowed)), []
    while to_meet:
        settings, pairs = max(allowed, key=lambda each: len(each[1] & to_meet))
        chosen.append(settings)
        to_meet -= pairs
    return chosen


def make(kind, settings):
    """Return an estimator; a route stands for several parameters."""
    settings = dict(settings)
    return kind(**settings.pop("route", {}), **settings)


def averages_by_evidence(settings):
    """Variances are averaged with the evidence alone."""
    return settings["inference"] == "maximize" or settings["criterion"] == "evidence"


CHECKED = [make(SpectralKernelRidge, settings) for settings in every_two(RIDGES)]
CHECKED += [make(SpectralGPRegressor, settings) for settings in every_two(PROCESSES, averages_by_evidence)]
CHECKED += [
    SpectralKernelRidge(kernel="sigmoid", indefinite="flip"),
    SpectralGPRegressor(RBF(), basis="linear", optimizer=None),
]
LEARNING += [make(StreamingSpectralRegressor, settings) for settings in every_two(STREAMS)]

WEIGHTS_ARE_PRECISIONS = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "Tuned variances take a weight for a precision, not for a repetition: a row repeated exactly says that "
    "repeated measurements agree exactly, and noise is then found to vanish.",
)
TRUNCATED_KERNEL = {
    "check_estimators_dtypes": "The check truncates a kernel matrix to integers, and an indefinite one is "
    "refused.",
}
CENTRED_KERNEL = {
    "check_positive_only_tag_during_fit": "The check subtracts the mean of a kernel matrix from it: it is "
    "indefinite, and refused, where no intercept makes up for it.",
}


def expected_failures(estimator):
    """Return the checks that an estimator need not pass, with their reasons.

    Where tuning ends at a limit (no noise, or nothing but noise) those of weights pass all the same.
    """
    failures = {} if tunes_no_noise(estimator) else dict(WEIGHTS_ARE_PRECISIONS)
    if isinstance(estimator.kernel, str) and estimator.kernel == "precomputed":
        failures |= (
            TRUNCATED_KERNEL if sees_differences_only(estimator) else TRUNCATED_KERNEL | CENTRED_KERNEL
        )
    return failures


def tunes_no_noise(estimator):
    """Return whether alpha is given, or weights are powers of a likelihood without noise."""
    return isinstance(getattr(estimator, "alpha", None), float) or is_classifier(estimator)


def sees_differences_only(estimator):
    """Return whether a constant that is added to all of a kernel matrix makes no difference."""
    return estimator.fit_intercept and estimator.method != "low_rank" and estimator.selection != "greedy"


# The checks' tiny data sets deserve these warnings; they are tested on their own.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::skspectral.{name}")
    for name in (
        "KernelBoundWarning",
        "DegenerateCriterionWarning",
        "LowRankWarning",
        "RankDeficientBasisWarning",
        "UndeterminedVarianceWarning",
    )
]


@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(LEARNING + SPARSE, expected_failed_checks=expected_failures)
def test_estimator_checks_of_estimators_that_learn_their_kernel(estimator, check):
    check(estimator)


@pytest.mark.parametrize("factors", [RIDGES, PROCESSES, STREAMS], ids=["ridges", "processes", "streams"])
def test_every_two_settings_meet(factors):
    chosen = every_two(factors)
    for (name, values), (other, others) in combinations(factors.items(), 2):
        for value, beside in product(values, others):
            assert any(each[name] is value and each[other] is beside for each in chosen)
    assert len(chosen) < 1.5 * max(len(a) * len(b) for a, b in combinations(factors.values(), 2))
