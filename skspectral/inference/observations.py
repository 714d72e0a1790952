"""Targets under a likelihood, as approximations see them: a function of latent values with derivatives.

Latent values are always (n, m): one column for one latent function, one for each class of the softmax. Sample
weights are powers of the likelihood, so they multiply log p and all of its derivatives.
"""

import numpy as np

from ..linalg.softmax_curved import AlikeClasses, contrasts, softmax_curved

__all__ = ["ClassObservations", "LogisticBound", "Observations", "TiltedObservations", "observe"]


def observe(likelihood, y, weight=None, n_classes=None):
    """Return the observations of targets y (n,) with positive weights (n,).

    `n_classes` tells of classes that have no row here.
    """
    weight = np.ones(len(y)) if weight is None else weight
    if likelihood.is_joint:
        return ClassObservations(likelihood, y, weight, n_classes or int(y.max()) + 1)
    return Observations(likelihood, y, weight)


class Observations:
    """Targets of one latent function.

    Parameters
    ----------
    likelihood : Likelihood
        p(y|f).
    y, weight : ndarray of shape (n,)
        Targets and powers of their likelihood, positive.
    offset : ndarray of shape (m,), default=0
        Is added to the latent values: constants that are given.

    Attributes
    ----------
    H : ndarray of shape (m, q)
        Directions in which a constant of the latent functions matters.
    """

    H = np.ones((1, 1))
    # Largest curvature of the logistic likelihood, by which its log is bounded from below.
    largest_curvature = 0.25

    def __init__(self, likelihood, y, weight, offset=0.0):
        self.likelihood, self.y, self.weight, self.offset = likelihood, y, weight, offset
        self._last = (None, None)

    def __len__(self):
        return len(self.y)

    def given(self, constants):
        """Return the same targets where constants (m,) of the latent functions are known."""
        return Observations(self.likelihood, self.y, self.weight, constants)

    def under(self, likelihood):
        """Return the same targets under another likelihood of one latent function."""
        return Observations(likelihood, self.y, self.weight, self.offset)

    def shifted(self, F):
        """Return latent values (n,) as the likelihood takes them."""
        return (F + self.offset)[:, 0]

    def starting_constants(self):
        """Return constant latent values (m,) that describe the targets."""
        return np.reshape(self.likelihood.starting_latent(self.y), 1)

    def largest_step_curvature(self, F):
        """Return the largest curvature of a row, which tells how exact K must be."""
        return float((self.weight * self.likelihood.step_curvature(self.y, self.shifted(F))).max())

    def log_density(self, F):
        """Return sum_i w_i log p(y_i|f_i)."""
        return float(self.weight @ self.likelihood.log_density(self.y, self.shifted(F)))

    def first(self, F):
        """Return the derivatives by F, (n, m)."""
        return (self.weight * self._derivatives(F).first)[:, None]

    def curved(self, prior, F):
        """Return R at the curvature of -log p."""
        return prior.curved(self.weight * self._derivatives(F).curvature)

    def step_curved(self, prior, F):
        """Return R at a curvature that is nowhere negative."""
        return prior.curved(self.weight * self.likelihood.step_curvature(self.y, self.shifted(F)))

    def lumped_curved(self, prior, F, is_near):
        """Return None: there is no cheaper stand-in for a curvature that does not couple rows."""
        return None

    def bounded_curved(self, prior):
        """Return R at the largest curvature there is."""
        return AlikeClasses(prior.curved(self.largest_curvature * self.weight), 1)

    def curvature_times(self, F, V):
        """Return W V, (n, m)."""
        return (self.weight * self._derivatives(F).curvature)[:, None] * V

    def third_contracted(self, F, V):
        """Return the third derivatives contracted with covariances V (n,) or (n, 1, 1): (n, m)."""
        return (self.weight * self._derivatives(F).third * V.reshape(-1))[:, None]

    def parameter_slopes(self, F):
        """Return derivatives by the likelihood's theta of log p, first and second derivative, (p, n) each."""
        slopes = self.likelihood.parameter_derivatives(self.y, self.shifted(F))
        return tuple(self.weight * part for part in (slopes.value, slopes.first, slopes.second))

    def _derivatives(self, F):
        """Return the derivatives at F; those at the last F are kept, as long as it is the same object."""
        if self._last[0] is not F:
            self._last = F, self.likelihood.derivatives(self.y, self.shifted(F))
        return self._last[1]


class TiltedObservations(Observations):
    """Targets whose log density is larger by t'F, t (n, 1)."""

    def __init__(self, observations, t):
        super().__init__(observations.likelihood, observations.y, observations.weight, observations.offset)
        self.t = t

    def log_density(self, F):
        """Return sum_i w_i log p(y_i|f_i) + t'F."""
        return super().log_density(F) + float(np.vdot(self.t, F))

    def first(self, F):
        """Return the derivatives by F, (n, 1)."""
        return super().first(F) + self.t


class ClassObservations(Observations):
    """Class numbers 0, ..., C - 1 under the softmax of C latent functions; parameters as `Observations`."""

    largest_curvature = 0.5

    def __init__(self, likelihood, y, weight, n_classes, offset=0.0):
        super().__init__(likelihood, y, weight, offset)
        self.n_classes, self.H = n_classes, contrasts(n_classes)

    def given(self, constants):
        """Return the same targets where constants (C,) of the latent functions are known."""
        return ClassObservations(self.likelihood, self.y, self.weight, self.n_classes, constants)

    def shifted(self, F):
        """Return latent values (n, C) as the likelihood takes them."""
        return F + self.offset

    def starting_constants(self):
        """Return the logs of the class shares, (C,)."""
        present = self.likelihood.starting_latent(self.y)
        absent = np.full(self.n_classes - len(present), present.min())
        return np.concatenate([present, absent])

    def largest_step_curvature(self, F):
        """Return the largest curvature of a row, 1/2 of its weight."""
        return self.largest_curvature * float(self.weight.max())

    def log_density(self, F):
        """Return sum_i w_i log p(y_i|f_i)."""
        return float(self.weight @ self.likelihood.log_density(self.y, self.shifted(F)))

    def first(self, F):
        """Return the derivatives by F, (n, C)."""
        return self.weight[:, None] * self._derivatives(F).first

    def curved(self, prior, F):
        """Return R at the curvature of -log p."""
        return softmax_curved(prior, self._derivatives(F).probabilities, self.weight)

    step_curved = curved

    def bounded_curved(self, prior):
        """Return R at the largest curvature there is, (I - 11'/C)/2."""
        return AlikeClasses(prior.curved(self.largest_curvature * self.weight), self.n_classes)

    def curvature_times(self, F, V):
        """Return W V, (n, C)."""
        return self.weight[:, None] * self._derivatives(F).curvature_times(V)

    def third_contracted(self, F, V):
        """Return the third derivatives contracted with covariances V (n, C, C): (n, C)."""
        return self.weight[:, None] * self._derivatives(F).third_contracted(V)

    def parameter_slopes(self, F):
        """Return no derivatives: the softmax has no parameters."""
        return tuple(np.empty((0, len(self))) for _ in range(3))


class LogisticBound(Observations):
    """Two classes under the quadratic lower bound of the logistic curve that touches it at -+xi.

    log p(y|f) >= log sigma(xi) - xi/2 + (y - 1/2) f - W (f^2 - xi^2)/2,   W = tanh(xi/2)/(2 xi).

    Parameters
    ----------
    of : Observations
        Classes under the logistic likelihood.
    xi : ndarray of shape (n,)
        Positive points of contact.
    """

    def __init__(self, of, xi):
        super().__init__(of.likelihood, of.y, of.weight, of.offset)
        self.xi, self.W = xi, 0.5 * np.tanh(0.5 * xi) / xi

    def log_density(self, F):
        """Return the bound, summed with weights."""
        f, xi = self.shifted(F), self.xi
        at_contact = -np.logaddexp(0.0, -xi) - 0.5 * xi
        return float(self.weight @ (at_contact + (self.y - 0.5) * f - 0.5 * self.W * (f - xi) * (f + xi)))

    def first(self, F):
        """Return the derivatives by F, (n, 1)."""
        return (self.weight * (self.y - 0.5 - self.W * self.shifted(F)))[:, None]

    def curved(self, prior, F):
        """Return R at the curvature of the bound."""
        return prior.curved(self.weight * self.W)

    step_curved = curved
