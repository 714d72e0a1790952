"""Kernel ridge and Gaussian process regression from one decomposition of the kernel matrix."""

from importlib.metadata import version

from .datasets import load_motorcycle
from .displays import (
    CalibrationDisplay,
    EvidenceDisplay,
    EvidenceSurfaceDisplay,
    KernelSearchDisplay,
    PredictionBandDisplay,
    SpectrumDisplay,
)
from .inference.averaging import VariancePosterior
from .inference.tuning import TuningResult
from .inference.uncertainty import VarianceUncertainty
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
from .models.gaussian_process import SpectralGPRegressor
from .models.kernel_ridge import SpectralKernelRidge
from .search import KernelSearchCV
from .streaming import FeatureStatistics, StreamingSpectralRegressor
from .support.exceptions import (
    DegenerateCriterionWarning,
    IndefiniteKernelError,
    KernelBoundWarning,
    LowRankWarning,
    RankDeficientBasisWarning,
    RepeatedObservationsWarning,
)

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
