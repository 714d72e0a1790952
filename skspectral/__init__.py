"""Kernel ridge and Gaussian process regression from one decomposition of the kernel matrix."""

from importlib.metadata import version

from .exceptions import (
    DegenerateCriterionWarning,
    IndefiniteKernelError,
    KernelBoundWarning,
    RankDeficientBasisWarning,
)
from .gaussian_process import SpectralGPRegressor
from .kernel_ridge import SpectralKernelRidge
from .search import KernelSearchCV
from .spectrum import Spectrum
from .tuning import TuningResult

__version__ = version("skspectral")

__all__ = [
    "DegenerateCriterionWarning",
    "IndefiniteKernelError",
    "KernelBoundWarning",
    "KernelSearchCV",
    "RankDeficientBasisWarning",
    "SpectralGPRegressor",
    "SpectralKernelRidge",
    "Spectrum",
    "TuningResult",
    "__version__",
]
