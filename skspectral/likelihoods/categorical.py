"""Several classes: one latent value for each class, turned into probabilities by the softmax."""

from dataclasses import dataclass

import numpy as np

from .protocol import Likelihood
from .softmax import average_of_correlated, log_average_of_independent, log_softmax, one_minus

__all__ = ["Categorical", "SoftmaxDerivatives"]


@dataclass(frozen=True)
class SoftmaxDerivatives:
    """Derivatives of log p(y|f) by the latent values of the classes.

    Attributes
    ----------
    first : ndarray of shape (n, C)
        Y - P, Y the indicators of the classes that came.
    probabilities : ndarray of shape (n, C)
        P, the softmax of f. It gives the other derivatives: with the row p of P, the curvature is
        W = diag(p) - p p'.
    """

    first: np.ndarray
    probabilities: np.ndarray

    def curvature(self):
        """Return W = diag(p) - p p' of each row, shape (n, C, C)."""
        P = self.probabilities
        W = -P[:, :, None] * P[:, None, :]
        classes = np.arange(P.shape[1])
        W[:, classes, classes] = P * one_minus(P)
        return W

    def curvature_times(self, V):
        """Return W v for each row v of V, shape (n, C)."""
        P = self.probabilities
        return P * (V - (P * V).sum(axis=1, keepdims=True))

    def third_contracted(self, S):
        """Return sum_jk S_jk d^3 log p / (df_c df_j df_k) for each row and class c.

        Parameters
        ----------
        S : ndarray of shape (n, C, C) or (n, C)
            A symmetric matrix for each row, such as the posterior covariance of its latent values, or only
            the diagonal of a diagonal one.

        Returns
        -------
        ndarray of shape (n, C)

        Notes
        -----
        -p_c [(S_cc - 2 (S p)_c) - sum_j p_j (S_jj - 2 (S p)_j)], so it costs no more than S p.
        """
        P = self.probabilities
        diagonal = S if S.ndim == 2 else np.einsum("ncc->nc", S)
        product = S * P if S.ndim == 2 else np.einsum("njk,nk->nj", S, P)
        return -self.curvature_times(diagonal - 2.0 * product)


@dataclass(frozen=True)
class Categorical(Likelihood):
    """Classes 0, 1, ..., C - 1 with probabilities softmax(f), f of shape (n, C).

    Notes
    -----
    log p(y|f) = f_y - log sum_c exp(f_c). A number added to all f of a row changes nothing, nor does a common
    random one: independent latent values of variance v have the same classes as the covariance
    v (I - 11'/C).

    Examples
    --------
    >>> import numpy as np
    >>> from skspectral.likelihoods import Categorical
    >>> Categorical().probabilities(np.array([[2.0, 0.0, 0.0]]), np.array([[4.0, 4.0, 4.0]])).round(4)
    array([[0.5865, 0.2068, 0.2068]])
    """

    is_discrete = True
    is_joint = True

    def log_density(self, y, f):
        """Return the log probability of the class that came, shape (n,)."""
        return np.take_along_axis(log_softmax(f), _codes(y), axis=1)[:, 0]

    def derivatives(self, y, f):
        """Return the derivatives of log p as `SoftmaxDerivatives`."""
        log_p, codes = log_softmax(f), _codes(y)
        P = np.exp(log_p)
        first = -P
        # 1 - p of the class that came, from log p: p itself may round to 1
        own = -np.expm1(np.take_along_axis(log_p, codes, axis=1))
        np.put_along_axis(first, codes, own, axis=1)
        return SoftmaxDerivatives(first, P)

    def step_curvature(self, y, f):
        """Return W = diag(p) - p p', shape (n, C, C): it is never negative."""
        return self.derivatives(y, f).curvature()

    def check_targets(self, y):
        """Return y as integers; refuse what is not a class number 0, 1, 2, ..."""
        y = np.asarray(y)
        if np.any(strange := (y < 0) | (y != np.floor(y))):
            raise ValueError(
                f"The categorical likelihood needs class numbers 0, 1, 2, ...; got {y[strange].flat[0]:.6g}. "
                "Encode labels first, for instance with sklearn.preprocessing.LabelEncoder."
            )
        return y.astype(np.intp)

    def starting_latent(self, y):
        """Return centred logs of the class shares, counting half a row more of each class, shape (C,)."""
        log_share = np.log(np.bincount(np.asarray(y, dtype=np.intp)) + 0.5)
        return log_share - log_share.mean()

    def conditional_mean(self, f):
        """Return the class probabilities: the mean of the indicators."""
        return np.exp(log_softmax(f))

    def conditional_variance(self, f):
        """Return p (1 - p) of each indicator."""
        P = self.conditional_mean(f)
        return P * one_minus(P)

    def cdf(self, y, f):
        """Refuse: classes have no order."""
        raise NotImplementedError("Classes have no order, so there is no distribution function of y.")

    def sample(self, f, rng):
        """Return a class for each row: where f + Gumbel noise is largest."""
        return np.argmax(f + rng.gumbel(size=np.shape(f)), axis=1)

    def probabilities(self, mean, var):
        """Return the class probabilities for independent normal latent values, shape (n, C).

        Parameters
        ----------
        mean : ndarray of shape (n, C)
            Means of the latent values.
        var : ndarray of shape (n, C) or (n, 1)
            Their variances; a common component may be left out, since it changes nothing.

        Notes
        -----
        The class is where f_c + (Gumbel noise) is largest, which is one integral for any number of classes;
        to about seven digits.
        """
        return np.exp(_log_average(mean, var))

    def probabilities_of_correlated(self, mean, root):
        """Return the class probabilities for latent values mean + root z, z standard normal, shape (n, C).

        Parameters
        ----------
        mean : ndarray of shape (n, C)
            Means of the latent values.
        root : ndarray of shape (n, C, r)
            Any root of their covariances: covariance = root root'.

        Notes
        -----
        The average over 2048 Sobol points and their mirror images, the same for every row, so results are
        reproducible and smooth in `mean` and `root`. Errors are below 1e-3, mostly below 1e-4; use
        `probabilities` where the latent values are independent.
        """
        return average_of_correlated(np.asarray(mean, np.float64), np.asarray(root, np.float64))

    def predictive_mean(self, mean, var):
        """Return the class probabilities for independent normal latent values."""
        return self.probabilities(mean, var)

    def predictive_variance(self, mean, var):
        """Return p (1 - p) of the averaged probabilities."""
        P = self.probabilities(mean, var)
        return P * one_minus(P)

    def predictive_log_density(self, y, mean, var):
        """Return the log of the averaged probability of the class that came, shape (n,)."""
        return np.take_along_axis(_log_average(mean, var), _codes(y), axis=1)[:, 0]

    def predictive_cdf(self, y, mean, var):
        """Refuse: classes have no order."""
        return self.cdf(y, mean)

    def predictive_quantile(self, level, mean, var):
        """Refuse: classes have no order."""
        return self.cdf(level, mean)


def _log_average(mean, var):
    return log_average_of_independent(*np.broadcast_arrays(np.asarray(mean, np.float64), np.sqrt(var)))


def _codes(y):
    return np.asarray(y, dtype=np.intp)[:, None]
