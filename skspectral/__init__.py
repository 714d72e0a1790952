"""Kernel ridge and Gaussian process regression from one decomposition of the kernel matrix.

Notation
--------
The model is y = F beta + f + e with f ~ N(0, signal_var K) and e_i ~ N(0, noise_var / w_i). Docstrings and
code use these letters:

==============  ================  ==============================================================
K (n x n)       `K`               kernel matrix of unit signal variance, no noise on its diagonal
w               `weight`          relative precisions of the rows; 0 means that a row is absent
F (n x q)       `basis`           unpenalised mean functions; an intercept is a column of ones
s, U            `s`, `U`          eigenvalues and orthonormal eigenvectors of K outside span(F)
y~ = U'y        `y_tilde`         rotated targets, one column for each output
g = exp(x)      `noise_ratio`     noise_var / signal_var, the penalty of the ridge
Phi (n x r)     `Phi`             a factor, K = Phi Phi' + E, with tau = tr E
==============  ================  ==============================================================

Weights reduce to the case without: K, y and F stand for W^1/2 K W^1/2, W^1/2 y and W^1/2 F, and 1/2 sum log w
is added to log densities. Mean functions reduce to the case without: with A an orthonormal basis of the
complement of span(F), A'KA = V diag(s) V' and U = A V. Then

    -2 log evidence = (n - q) log 2 pi + sum log d_i + sum y~_i^2 / d_i,    d = signal_var s + noise_var,

which is the textbook's restricted likelihood (REML) plus the constant 1/2 log|F'WF|, and

    dual coefficients   alpha = U y~/(s + g),    F'alpha = 0
    prediction          k*'alpha + f*'beta,      F beta = y - K alpha - g alpha
    variance            signal_var [k~** - sum (U'k~)^2/(s + g)]    (+ noise_var for an observation)

with h = f*'(F'F)^-1 F', k~ = k* - K h' and k~** = k** - 2 h k* + h K h' + g h h'. How criteria tune g is told
in `skspectral.criteria`, what a factor is worth in `skspectral.decomposition.certificate`. Modules lie on
floors, and import only from floors below: support, kernels, linalg, likelihoods, criteria, inference,
decomposition, learning, models, and on top of them streaming, search, metrics and displays.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers; at run time the table below
    from .datasets import load_motorcycle
    from .displays import (
        AdditivePartsDisplay,
        CalibrationDisplay,
        CorrelationDisplay,
        EvidenceDisplay,
        EvidenceSurfaceDisplay,
        KernelSearchDisplay,
        PredictionBandDisplay,
        SpectrumDisplay,
    )
    from .inference.averaging import VariancePosterior
    from .inference.covariances import CovarianceResult
    from .inference.mean_summary import MeanSummary
    from .inference.tuning import TuningResult
    from .inference.uncertainty import VarianceUncertainty
    from .learning.design import KernelPosterior
    from .linalg.indefinite import Repair
    from .linalg.spectrum import Spectrum
    from .metrics import (
        interval_coverage,
        interval_coverage_scorer,
        make_predictive_scorer,
        mean_crps,
        mean_interval_width,
        mean_log_loss,
        mean_standardized_log_loss,
        neg_mean_crps,
        neg_mean_interval_width,
        neg_mean_log_loss,
        neg_mean_standardized_log_loss,
    )
    from .models.classifier import SpectralGPClassifier
    from .models.correlation_methods import OutputCorrelations
    from .models.gaussian_process import SpectralGPRegressor
    from .models.generalized import GeneralizedGPRegressor
    from .models.heteroscedastic import HeteroscedasticGPRegressor
    from .models.kernel_ridge import SpectralKernelRidge
    from .models.laplacian import LaplacianProcessRegressor
    from .models.relevance import RelevanceVectorRegressor
    from .models.relevance_classifier import RelevanceVectorClassifier
    from .search import KernelSearchCV
    from .streaming import FeatureStatistics, StreamingSpectralRegressor
    from .support.exceptions import (
        DegenerateCriterionWarning,
        IndefiniteKernelError,
        IndefiniteKernelWarning,
        KernelBoundWarning,
        LowRankWarning,
        NoiseResolutionWarning,
        RankDeficientBasisWarning,
        UndeterminedVarianceWarning,
    )

    __version__: str

__all__ = [
    "AdditivePartsDisplay",
    "CalibrationDisplay",
    "CorrelationDisplay",
    "CovarianceResult",
    "DegenerateCriterionWarning",
    "EvidenceDisplay",
    "EvidenceSurfaceDisplay",
    "FeatureStatistics",
    "GeneralizedGPRegressor",
    "HeteroscedasticGPRegressor",
    "IndefiniteKernelError",
    "IndefiniteKernelWarning",
    "KernelBoundWarning",
    "KernelPosterior",
    "KernelSearchCV",
    "KernelSearchDisplay",
    "LaplacianProcessRegressor",
    "LowRankWarning",
    "MeanSummary",
    "NoiseResolutionWarning",
    "OutputCorrelations",
    "PredictionBandDisplay",
    "RankDeficientBasisWarning",
    "RelevanceVectorClassifier",
    "RelevanceVectorRegressor",
    "Repair",
    "SpectralGPClassifier",
    "SpectralGPRegressor",
    "SpectralKernelRidge",
    "Spectrum",
    "SpectrumDisplay",
    "StreamingSpectralRegressor",
    "TuningResult",
    "UndeterminedVarianceWarning",
    "VariancePosterior",
    "VarianceUncertainty",
    "__version__",
    "interval_coverage",
    "interval_coverage_scorer",
    "load_motorcycle",
    "make_predictive_scorer",
    "mean_crps",
    "mean_interval_width",
    "mean_log_loss",
    "mean_standardized_log_loss",
    "neg_mean_crps",
    "neg_mean_interval_width",
    "neg_mean_log_loss",
    "neg_mean_standardized_log_loss",
]

# Names are imported when they are first asked for (PEP 562): all classes of the package take a quarter of the
# time that numpy, scipy and scikit-learn take to be imported, and few programs need half of them.
_HOMES = {
    "datasets": ["load_motorcycle"],
    "displays": [
        "AdditivePartsDisplay",
        "CalibrationDisplay",
        "CorrelationDisplay",
        "EvidenceDisplay",
        "EvidenceSurfaceDisplay",
        "KernelSearchDisplay",
        "PredictionBandDisplay",
        "SpectrumDisplay",
    ],
    "inference.averaging": ["VariancePosterior"],
    "inference.covariances": ["CovarianceResult"],
    "inference.mean_summary": ["MeanSummary"],
    "inference.tuning": ["TuningResult"],
    "inference.uncertainty": ["VarianceUncertainty"],
    "learning.design": ["KernelPosterior"],
    "linalg.indefinite": ["Repair"],
    "linalg.spectrum": ["Spectrum"],
    "metrics": [
        "interval_coverage",
        "interval_coverage_scorer",
        "make_predictive_scorer",
        "mean_crps",
        "mean_interval_width",
        "mean_log_loss",
        "mean_standardized_log_loss",
        "neg_mean_crps",
        "neg_mean_interval_width",
        "neg_mean_log_loss",
        "neg_mean_standardized_log_loss",
    ],
    "models.classifier": ["SpectralGPClassifier"],
    "models.correlation_methods": ["OutputCorrelations"],
    "models.gaussian_process": ["SpectralGPRegressor"],
    "models.generalized": ["GeneralizedGPRegressor"],
    "models.heteroscedastic": ["HeteroscedasticGPRegressor"],
    "models.kernel_ridge": ["SpectralKernelRidge"],
    "models.laplacian": ["LaplacianProcessRegressor"],
    "models.relevance": ["RelevanceVectorRegressor"],
    "models.relevance_classifier": ["RelevanceVectorClassifier"],
    "search": ["KernelSearchCV"],
    "streaming": ["FeatureStatistics", "StreamingSpectralRegressor"],
    "support.exceptions": [
        "DegenerateCriterionWarning",
        "IndefiniteKernelError",
        "IndefiniteKernelWarning",
        "KernelBoundWarning",
        "LowRankWarning",
        "NoiseResolutionWarning",
        "RankDeficientBasisWarning",
        "UndeterminedVarianceWarning",
    ],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_FLOORS = (
    "criteria",
    "datasets",
    "decomposition",
    "displays",
    "inference",
    "kernels",
    "learning",
    "likelihoods",
    "linalg",
    "metrics",
    "models",
    "search",
    "streaming",
    "support",
)


def _found(name):
    """Return what a name of the package stands for: a public object, a floor or the version."""
    if name in _HOME_OF:
        return getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
    if name in _FLOORS:
        return import_module(f".{name}", __name__)
    if name == "__version__":
        from importlib.metadata import version  # which imports parsers of mail

        return version(__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__, *_FLOORS})


if not TYPE_CHECKING:  # a checker that sees it would take any name for an existing one

    def __getattr__(name):
        value = globals()[name] = _found(name)
        return value
