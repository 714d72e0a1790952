"""The geometry of new points: where a model sees them, from the values of some functions there."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

__all__ = ["Projection"]


@dataclass(frozen=True)
class Projection:
    """From values v of functions at new points to what the rows of a model know of them.

    The functions span the kernel with the rows: k* = A v. They may be that kernel itself, features of a
    factor, or the kernel with its landmarks.

    Attributes
    ----------
    vectors : ndarray of shape (r, functions), or what multiplies from the left like one
        U'A, U the eigenvectors of the kernel matrix outside of the mean space.
    means : ndarray of shape (q, functions)
        Q'A, Q the orthonormal mean functions.
    of_means : ndarray of shape (functions, q)
        Values with A of_means = KQ.
    R_inv : ndarray of shape (mean functions, q)
        F R_inv = Q.

    Notes
    -----
    With z = R^-T f*, f* the mean functions at a new point, and h = z'Q',

        cross    = U'(k* - K h')            = vectors (v - of_means z),
        prior    = k** - 2 h k* + h K h'    = k** - 2 z'means v + z'means of_means z,
        leverage = h h'                     = z'z.

    What the functions miss of k** stays in: far from the data the prior variance is restored.
    """

    vectors: np.ndarray
    means: np.ndarray
    of_means: np.ndarray
    R_inv: np.ndarray

    @classmethod
    def of_features(cls, loadings, QPhi, R_inv):
        """Return that from features of a factor K = Phi Phi', given U'Phi and Q'Phi."""
        return cls(loadings, QPhi, QPhi.T, R_inv)

    def on_landmarks(self, L):
        """Return that from the kernel with landmarks, k* = L phi, where this one is from features phi.

        One product for each new point instead of two. L^-1 multiplies the rounding of kernel values as it
        does where features are made of them.
        """

        def solved(rows):
            return solve_triangular(L, rows.T, lower=True, trans=1, check_finite=False).T

        return Projection(solved(self.vectors), solved(self.means), L @ self.of_means, self.R_inv)

    def project(self, values, prior, basis=None):
        """Return rotated cross-covariances, prior variances and mean leverage of new points.

        Parameters
        ----------
        values : ndarray of shape (n_new, functions)
            Values of the functions at the new points.
        prior : ndarray of shape (n_new,) or (n_new, n_new)
            Kernel variance of the new points, or their kernel matrix for joint results.
        basis : ndarray of shape (n_new, mean functions), default=None
            Mean functions at the new points; required with a mean space.

        Returns
        -------
        cross : ndarray of shape (r, n_new)
        prior, leverage : ndarray of the shape of `prior`
        """
        v = values.T
        if not len(self.means):
            return self.vectors @ v, prior, np.zeros_like(prior)
        z = self.R_inv.T @ basis.T
        hk, Kh = self.means @ v, self.of_means @ z
        hKh = self.means @ Kh
        if np.ndim(prior) == 2:
            prior, leverage = prior - z.T @ hk - hk.T @ z + z.T @ hKh, z.T @ z
        else:
            prior = prior - 2.0 * (z * hk).sum(axis=0) + (z * hKh).sum(axis=0)
            leverage = (z * z).sum(axis=0)
        return self.vectors @ (v - Kh), prior, leverage

    def project_outside_mean(self, values):
        """Return `cross` of a part of the model's function that mean functions are no part of."""
        return self.vectors @ values.T

    def pull_back(self, values, basis, by_prior, by_cross, by_leverage):
        """Return derivatives by values (n_new, functions) and by basis, None without mean functions.

        Of a function of what `project` returns, given its derivatives by prior and leverage (n_new,) and by
        cross (r, n_new).
        """
        by_values = self.vectors.T @ by_cross
        if basis is None:
            return by_values.T, None
        z = self.R_inv.T @ basis.T
        by_z = 2.0 * by_prior * (self.means @ (self.of_means @ z - values.T))
        by_z += 2.0 * by_leverage * z - self.of_means.T @ by_values
        by_values -= 2.0 * by_prior * (self.means.T @ z)
        return by_values.T, (self.R_inv @ by_z).T
