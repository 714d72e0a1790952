"""What stands for a kernel matrix that is not positive semi-definite."""

from dataclasses import dataclass

import numpy as np

from ..support.types import FloatArray

__all__ = ["ACTIONS", "Repair"]

ACTIONS = ("refuse", "flip", "clip")


@dataclass(frozen=True)
class Repair:
    """Negative eigenvalues replaced: by their moduli ("flip") or by 0 ("clip").

    Attributes
    ----------
    action : {"flip", "clip"}
        What was done.
    eigenvalues : ndarray of shape (r,)
        Those of the given matrix, outside the mean space, in the order of the spectrum.

    Notes
    -----
    With K = U diag(s) U' the matrix that is used is K' = U diag(t) U', t = |s| or max(s, 0). It belongs to
    the kernel

        k'(x, z) = k(x, z) + k(x, X) U diag((t - s)/s^2) U' k(X, z),

    since k'(X, X) = K'. Rows of new points become k'(x, X) = k(x, X) U diag(t/s) U', which for "flip" are
    the signs of s (Smola & Schoelkopf, "Bayesian Kernel Methods", 5.2). With mean functions k(x, X) stands
    for its part k~ outside of them.

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral import SpectralKernelRidge
    >>> K = np.array([[1.0, 2.0], [2.0, 1.0]])  # eigenvalues 3 and -1
    >>> ridge = SpectralKernelRidge(alpha=1.0, kernel="precomputed", fit_intercept=False, indefinite="flip")
    >>> repair = ridge.fit(K, [1.0, 0.0]).indefinite_
    >>> repair.action, repair.n_negative, round(repair.smallest_eigenvalue, 3)
    ('flip', 1, -1.0)
    >>> round(repair.negative_share, 3)
    0.25
    """

    action: str
    eigenvalues: np.ndarray

    @property
    def n_negative(self) -> int:
        """How many eigenvalues were replaced."""
        return int((self.eigenvalues < 0).sum())

    @property
    def smallest_eigenvalue(self) -> float:
        """The most negative one."""
        return float(self.eigenvalues.min())

    @property
    def negative_share(self) -> float:
        """Sum of the moduli of the negative eigenvalues over that of all."""
        size = np.abs(self.eigenvalues)
        return float(size[self.eigenvalues < 0].sum() / size.sum())

    @property
    def repaired(self) -> FloatArray:
        """t: the eigenvalues that are used, (r,)."""
        s = self.eigenvalues
        return np.abs(s) if self.action == "flip" else np.maximum(s, 0.0)

    @property
    def signs(self) -> FloatArray:
        """t/s, and 1 where s is 0, (r, 1): what becomes of the coordinates of rows."""
        return np.where(self.eigenvalues < 0, -1.0 if self.action == "flip" else 0.0, 1.0)[:, None]

    @property
    def added(self) -> FloatArray:
        """(t - s)/s^2, and 0 where s is not negative, (r, 1): what is added to the kernel of new points."""
        s = self.eigenvalues[:, None]
        times = 2.0 if self.action == "flip" else 1.0
        return np.divide(times, -s, out=np.zeros_like(s), where=s < 0)

    def prior(self, cross: FloatArray, prior: FloatArray) -> FloatArray:
        """Return k'~** of points, given their coordinates U'k~ and k~**.

        Parameters
        ----------
        cross : ndarray of shape (r, n_new)
            U'k~.
        prior : ndarray of shape (n_new,) or (n_new, n_new)
            k~**, its diagonal or all of it.

        Returns
        -------
        ndarray of the shape of `prior`
        """
        scaled = np.sqrt(self.added) * cross
        return prior + (scaled.T @ scaled if np.ndim(prior) == 2 else (scaled**2).sum(axis=0))
