"""Rows that come in chunks or live on many machines: statistics that add up, and a regressor on top.

For features Phi of fixed landmarks, everything that tuning and prediction need are sums over rows. So
chunks may come one after the other (`partial_fit`), or from the blocks of a dask collection (`fit`).

==============  ==========================================================================
statistics      `FeatureStatistics`, the sums, with ``+``; from them eigenvalues and energies
features        `Features`, from inputs to Phi: a kernel and landmarks, chosen from a few rows
model           `State`, what was seen, and `Model`, what follows from it
regressor       `StreamingSpectralRegressor`
blocks          dask collections as blocks, sums over them as a tree
==============  ==========================================================================
"""

from .regressor import StreamingSpectralRegressor
from .statistics import FeatureStatistics

__all__ = ["FeatureStatistics", "StreamingSpectralRegressor"]
