"""Pictures of fitted estimators, in scikit-learn's convention; they need the extra `plot`.

Every display is made by ``from_estimator``, which draws it; it keeps the numbers it shows as attributes and
can be drawn again with ``plot(ax=...)``; ``ax_`` and ``figure_`` hold what was drawn last. Matplotlib is
imported when something is drawn, not before.
"""

from .additive_parts import AdditivePartsDisplay
from .calibration import CalibrationDisplay
from .correlation import CorrelationDisplay
from .evidence import EvidenceDisplay
from .kernel_search import KernelSearchDisplay
from .prediction_band import PredictionBandDisplay
from .spectrum import SpectrumDisplay
from .surface import EvidenceSurfaceDisplay

__all__ = [
    "AdditivePartsDisplay",
    "CalibrationDisplay",
    "CorrelationDisplay",
    "EvidenceDisplay",
    "EvidenceSurfaceDisplay",
    "KernelSearchDisplay",
    "PredictionBandDisplay",
    "SpectrumDisplay",
]
