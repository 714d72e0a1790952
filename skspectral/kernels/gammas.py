"""Kernels of one parameter gamma, for many values of it from the same distances or products."""

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances

__all__ = ["GAMMA_NAMES", "gamma_grid", "matrices"]

# Names whose matrix is exp(-gamma distance), with the distance.
_DISTANCES = {
    "rbf": lambda X: euclidean_distances(X, squared=True),
    "laplacian": manhattan_distances,
}
GAMMA_NAMES = frozenset(_DISTANCES)
# gamma times the median distance between rows.
_GRID = 2.0 ** np.arange(-3, 7)


def gamma_grid(distances):
    """Return values of gamma from those that hardly tell rows apart to those that tell all of them apart."""
    positive = distances[distances > 0]
    return _GRID / (np.median(positive) if len(positive) else 1.0)


def matrices(name, X):
    """Yield (gamma, K(X, X)) over a grid of gamma; distances are computed once."""
    distances = _DISTANCES[name](X)
    for gamma in gamma_grid(distances):
        yield float(gamma), np.exp(-gamma * distances)
