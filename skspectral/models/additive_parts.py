"""The additive parts of a fitted model: its mean functions, and every term of a sum of kernels."""

from typing import NamedTuple

import numpy as np

from ..inference.variance_form import VarianceForm
from ..kernels.gram import make_gram
from ..kernels.parts import additive_terms
from .fitted import by_output

__all__ = ["AdditivePart", "additive_parts"]


class AdditivePart(NamedTuple):
    """What one part of a sum contributes to predictions.

    Attributes
    ----------
    name : str
        "mean" for the mean functions, or the kernel.
    mean, std : ndarray of shape (n_new,) or (n_new, n_outputs)
        Posterior mean and standard deviation of the part.
    """

    name: str
    mean: np.ndarray
    std: np.ndarray


def additive_parts(fitted, X, *, centred):
    """Return (name, means, standard deviations) of every part at new inputs, (n_new, m) each.

    Means add up to that of the model, or for centred parts to that less its average over the rows. Parts are
    correlated given the data, so that variances do not add up.

    Parameters
    ----------
    fitted : Fitted
        The model, of a kernel object.
    X : array
        New inputs.
    centred : bool
        Whether parts are taken less their averages over the training rows.

    Notes
    -----
    With K = sum_l K_l the part l has the mean k_l*'alpha and the variance signal_var [k_l** - k_l*'M k_l*],
    M = U diag(1/(s+g)) U' the resolvent outside the mean space. The mean functions have f*'beta and
    f*'Cov(beta) f*. A centred part has the kernel of f_l(x) - mean_i f_l(x_i).
    """
    found = {id(part): _parts_of_mixture(part, X, centred) for _, part in fitted.parts}
    names = [name for name, *_ in found[id(fitted.parts[0][1])]]
    return [
        (name, *(by_output(fitted, lambda part, k=k, i=i: found[id(part)][k][i]) for i in (1, 2)))
        for k, name in enumerate(names)
    ]


def _parts_of_mixture(fitted, X, centred):
    each = [list(_parts_of(model, X, centred)) for _, model in fitted.members]
    weights = [weight for weight, _ in fitted.members]
    return [_mixed(weights, same) for same in zip(*each, strict=True)]


def _parts_of(model, X, centred):
    """Yield name, means and variances of the parts of one model."""
    rows = model.data.X[model.data.present] if centred else None
    basis = model.mean_functions(X)
    if basis is not None and not (centred and model.mean_functions.basis is None):
        basis = basis - model.mean_functions(rows).mean(axis=0) if centred else basis
        with np.errstate(invalid="ignore"):  # of infinite variances
            variance = np.einsum("iq,qrm,ir->im", basis, model.beta_covariance(), basis)
        variance = np.where(np.isnan(variance), np.inf, np.maximum(variance, 0.0))
        yield "mean", basis @ model.solution.beta, variance
    for term in additive_terms(model.gram.kernel):
        yield str(term), *_Term(model, make_gram(term), rows).at(X)


class _Term:
    """One term of a sum of kernels in a model, less its average over `rows` where these are given."""

    def __init__(self, model, gram, rows):
        self.model, self.gram, self.rows = model, gram, rows
        self._middle = None if rows is None else self._cross_mean(rows)
        self._level = None if rows is None else self._kernel_mean(rows).mean()
        solution = model.solution.in_basis
        outputs = range(len(solution.noise_var))
        self._forms = [VarianceForm.of(solution, model.averaged, j) for j in outputs]

    def at(self, X):
        """Return posterior means and variances (n_new, m), a block of inputs at a time."""
        parts = [self._at(X[rows]) for rows in self.model.blocks(X)]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _at(self, X):
        cross, prior = self.model.cross_with(self.gram, X), self.gram.diagonal(X)
        if self.rows is not None:
            cross, prior = cross - self._middle, prior - 2.0 * self._kernel_mean(X) + self._level
        rotated = self.model.decomposition.projection.project_outside_mean(cross)
        variance = np.array([form(rotated, prior) for form in self._forms]).reshape(-1, len(cross))
        solution = self.model.solution
        return self.model.mean_of_part(self.gram, cross), solution.honest(
            solution.variance_of_outputs(variance.T)
        )

    def _cross_mean(self, X):
        sums = (self.model.cross_with(self.gram, X[rows]).sum(axis=0) for rows in self.model.blocks(X))
        return sum(sums) / len(X)

    def _kernel_mean(self, X):
        """Return the mean of the kernel between each input and the rows."""
        return np.concatenate(
            [self.gram.cross(X[block], self.rows).mean(axis=1) for block in self.model.blocks(X)]
        )


def _mixed(weights, parts):
    """Return name, mean and standard deviation of one part in a mixture of models."""
    names, means, variances = zip(*parts, strict=True)
    mean = sum(p * m for p, m in zip(weights, means, strict=True))
    spread = (v + (m - mean) ** 2 for m, v in zip(means, variances, strict=True))
    variance = sum(p * v for p, v in zip(weights, spread, strict=True))
    return names[0], mean, np.sqrt(variance)
