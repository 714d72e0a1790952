"""Kernel ridge and Gaussian process regression from one decomposition of the kernel matrix."""

from importlib.metadata import version

from .averaging import VariancePosterior
from .datasets import load_motorcycle
from .displays import (
    CalibrationDisplay,
    EvidenceDisplay,
    EvidenceSurfaceDisplay,
    KernelSearchDisplay,
    PredictionBandDisplay,
    SpectrumDisplay,
)
from .exceptions import (
    DegenerateCriterionWarning,
    IndefiniteKernelError,
    KernelBoundWarning,
    LowRankWarning,
    RankDeficientBasisWarning,
    RepeatedObservationsWarning,
)
from .gaussian_process import SpectralGPRegressor
from .kernel_ridge import SpectralKernelRidge
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
from .search import KernelSearchCV
from .spectrum import Spectrum
from .streaming import FeatureStatistics, StreamingSpectralRegressor
from .tuning import TuningResult
from .uncertainty import VarianceUncertainty

__version__ = version("skspectral")

__all__ = [
    "CalibrationDisplay",
    "DegenerateCriterionWarning",
    "EvidenceDisplay",
    "EvidenceSurfaceDisplay",
    "FeatureStatistics",
    "IndefiniteKernelError",
    "KernelBoundWarning",
    "KernelSearchCV",
    "KernelSearchDisplay",
    "LowRankWarning",
    "PredictionBandDisplay",
    "RankDeficientBasisWarning",
    "RepeatedObservationsWarning",
    "SpectralGPRegressor",
    "SpectralKernelRidge",
    "Spectrum",
    "SpectrumDisplay",
    "StreamingSpectralRegressor",
    "TuningResult",
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
