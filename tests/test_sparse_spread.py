"""The covariance of a sparse classifier's coefficients, against its dense definition."""

import numpy as np
import pytest
from problems import close

from skspectral.inference.sparse_classes import widened_root


@pytest.mark.parametrize("has_constant", [True, False])
def test_coefficients_vary_as_by_the_largest_curvature(has_constant):
    rng = np.random.default_rng(0)
    K, v, weight = 3.0 * rng.normal(size=(20, 4)), rng.uniform(0.5, 2.0, 4), rng.uniform(0.5, 2.0, 20)
    root, _ = widened_root(K, v, weight, has_constant)
    W = np.diag(0.25 * weight)  # p (1 - p) is at most a quarter
    if has_constant:
        W = W - np.outer(np.diag(W), np.diag(W)) / np.trace(W)
    assert close(root @ root.T, np.linalg.inv(K.T @ W @ K + np.diag(1.0 / v)))
