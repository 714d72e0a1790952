"""Small regression problems that several test files share."""

from dataclasses import replace

import numpy as np

from skspectral.linalg.coordinates import Coordinates


def smooth(seed=0, n=40, p=2, m=None, noise=0.3):
    """Return X (n, p) and noisy smooth y: one-dimensional for m=None, else (n, m)."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, p))
    outputs = m or 1
    directions = rng.normal(size=(p, outputs))
    Y = 2.0 * np.sin(X @ directions + np.arange(outputs)) + 1.0 + noise * rng.normal(size=(n, outputs))
    return X, Y[:, 0] if m is None else Y


def close(actual, expected, rel=1e-8):
    """Whether arrays agree to `rel` of the largest entry, the sense in which answers are promised."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    return bool(np.abs(actual - expected).max(initial=0.0) <= rel * np.abs(expected).max(initial=0.0))


def with_energy(rotated, energy):
    """Return rotated targets with other squared coordinates (r + 1, m)."""
    y_tilde = np.copysign(np.sqrt(energy[:-1]), rotated.y_tilde)
    return replace(rotated, coordinates=Coordinates(y_tilde, energy[-1]))
