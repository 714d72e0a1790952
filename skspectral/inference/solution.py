"""From rotated targets to tuned variances and coefficients: what both estimators share.

`tune` chooses the variances of every output by a criterion, `solve` turns them into a `Solution`.
Nothing here forms or factorises a matrix.
"""

from dataclasses import dataclass

import numpy as np

from ..criteria import CRITERIA, UNDETERMINED, profile, value_at
from ..linalg.spectrum import Rotated, Spectrum
from ..support.exceptions import DegenerateCriterionWarning, RepeatedObservationsWarning, warn_user
from .tuning import TuningResult, minimize_each
from .variances import VarianceBounds, VariancePrior

__all__ = ["Solution", "criterion_curve", "solve", "solve_fixed", "tune", "warn_of_vanished_noise"]

# The search covers [n eps, 1e6] relative to the spectrum: below, the ridge drowns in the rounding of
# K; above, the fit differs from the pure-noise limit by less than a millionth.
_LARGEST_RATIO = 1e6
# Differences of -2 log density per row that are rounding.
_TIE = 1e-12


@dataclass(frozen=True)
class Solution:
    """A fitted model for m outputs, in the units of y.

    Attributes
    ----------
    rotated : Rotated
        The targets in the eigenbasis.
    noise_ratio, noise_var, signal_var : ndarray of shape (m,)
        The variances and their ratio.
    range_dual : ndarray of shape (n, m)
        Dual coefficients on the range of K: predictions are K(X*, X) range_dual + F* beta.
    beta : ndarray of shape (functions, m)
        Coefficients of the mean functions.
    tuning : tuple of TuningResult
        How the variances came about.
    prior : VariancePrior or None
        What they were penalised by.
    """

    rotated: Rotated
    noise_ratio: np.ndarray
    noise_var: np.ndarray
    signal_var: np.ndarray
    range_dual: np.ndarray
    beta: np.ndarray
    tuning: tuple
    prior: VariancePrior | None = None

    @property
    def spectrum(self) -> Spectrum:
        """The decomposition behind it."""
        return self.rotated.spectrum

    @property
    def dual(self):
        """All of the dual coefficients (K + gI)^-1 (y - F beta), (n, m)."""
        return self.range_dual + self.spectrum.null_dual(self.rotated, self.noise_ratio)

    @property
    def log_evidence(self):
        """Log (restricted) evidence of the reported variances, (m,)."""
        return _value_at_variances(self.rotated, CRITERIA["evidence"], self.noise_ratio, self.noise_var)

    @property
    def effective_dof(self):
        """Effective degrees of freedom sum s/(s+g) + q, (m,)."""
        s = self.spectrum.s[:, None]
        return (s / (s + self.noise_ratio)).sum(axis=0) + self.spectrum.rows.n_mean

    def dual_variance(self):
        """Return diag Cov[c | y] on the numerical range of K (Prop. 2.4 of Schirru et al.), (n, m).

        Cov[c | y] = U diag(q) U' with q_i = noise_var signal_var / ((signal_var s_i + noise_var) s_i);
        directions with s_i = 0, where q_i is infinite, are left out. O(n^2 m).
        """
        s = self.spectrum.s
        s = s[s > 0][:, None]
        q = np.divide(
            self.noise_var,
            (s + self.noise_ratio) * s,
            out=np.zeros((len(s), len(self.noise_var))),
            where=np.isfinite(self.noise_ratio) & (self.noise_ratio > 0),
        )
        in_range = self.spectrum.U_squared[:, len(self.spectrum.s) - len(s) :]
        return self.spectrum.rows.sqrt_weight**2 * (in_range @ q)

    def objective(self, criterion):
        """Return what tuning minimised: the sum of f over outputs that vary, and -2 log of the priors."""
        return self._varying_part(criterion)[0]

    def objective_and_sensitivity(self, criterion):
        """Return the objective and its derivative by the kernel matrix, (n, n).

        The derivative is that of the profiled criterion: the variances are optimal (or at a bound), so
        how they move with K does not matter. Only the noise-free end of the search moves with K, being
        relative to its largest eigenvalue. Outputs without variation have no part in it.
        """
        value, varying, rotated, terms, b = self._varying_part(criterion)
        if not len(varying):
            n = len(self.spectrum.U)
            return value, np.zeros((n, n))
        x = np.log(self.noise_ratio[varying])
        G = criterion.sensitivity(rotated, x, b)
        at_end = np.array([self.tuning[j].status == "noise_free" for j in varying])
        if at_end.any():
            slope = profile(terms, x[None]).f1[0, at_end].sum()
            G += slope * self.spectrum.resolution_sensitivity()
        root = self.spectrum.rows.sqrt_weight
        if not (root == 1.0).all():
            G *= root
            G *= root.T
        return value, G

    def _varying_part(self, criterion):
        """Return the objective, the outputs that vary, their targets, terms and b."""
        varying = np.flatnonzero(self.rotated.varies)
        if not len(varying):
            return 0.0, varying, None, None, None
        rotated = self.rotated.select(varying)
        terms = criterion(rotated, np.log(self.noise_ratio[varying])[None])
        b = self.noise_var[varying] / rotated.scale**2 if criterion.is_density else terms.A[0]
        value = float(value_at(terms, b[None]).sum())
        if self.prior is not None:
            value += float(self.prior.penalty(self.noise_var[varying], self.signal_var[varying]).sum())
        return value, varying, rotated, terms, b

    def leave_one_out(self):
        """Return the exact leave-one-out mean and variance of every row, (n, m) each, and who is absent.

        With R = U diag(v) U' + null projector, the residual is (R y)_i / R_ii and the predictive
        variance of row i, of weight w_i, is noise_var / (R_ii w_i), noise included. Absent rows hold 0.
        """
        spectrum, rotated = self.spectrum, self.rotated
        v = 1.0 / (1.0 + spectrum.s[:, None] / self.noise_ratio)
        Ry = (spectrum.U @ (v * rotated.y_tilde) + rotated.null_residual) * rotated.scale
        R_diag = spectrum.U_squared @ v + spectrum.null_leverage
        w = spectrum.rows.sqrt_weight
        absent = ~spectrum.rows.present
        if (spectrum.freedom[~absent] <= UNDETERMINED).any():
            raise ValueError(
                f"Leave-one-out is not defined: {(~absent).sum()} row(s) of positive weight determine "
                f"{spectrum.rows.n_mean} mean coefficient(s), and nothing is left without one of them. "
                "Fit at least two rows, or use fit_intercept=False."
            )
        present = ~absent[:, None]
        zeros = np.zeros_like(Ry)
        residual = np.divide(Ry, R_diag * w, out=zeros.copy(), where=present)
        variance = np.divide(self.noise_var, R_diag * w**2, out=zeros, where=present)
        return rotated.targets() - residual, variance, absent

    def predictive_variance(self, cross, prior, leverage):
        """Return signal_var [prior - cross' diag(1/(s+g)) cross] + noise_var leverage, non-negative.

        The arguments are those of `Spectrum.project`. Shape (n_new, m), or (n_new, n_new, m) for
        joint arguments, of the latent function, noise not included.
        """
        weight = 1.0 / (self.spectrum.s[:, None] + self.noise_ratio)
        if np.ndim(prior) == 2:
            explained = np.stack([cross.T @ (w[:, None] * cross) for w in weight.T], axis=-1)
            latent = prior[..., None] - explained
            diagonal = np.einsum("iim->im", latent)
            np.maximum(diagonal, 0.0, out=diagonal)
            return self.signal_var * latent + self.noise_var * leverage[..., None]
        explained = (cross**2).T @ weight
        latent = self.signal_var * np.maximum(prior[:, None] - explained, 0.0)
        return latent + self.noise_var * leverage[:, None]


def solve(rotated, criterion, bounds=None, *, shared=False, prior=None):
    """Tune the variances of every output by a criterion and return the `Solution`.

    Parameters
    ----------
    rotated : Rotated
        Targets in the eigenbasis.
    criterion : Criterion
        What is minimised.
    bounds : VarianceBounds, default=None
        Bounds on both variances.
    shared : bool, default=False
        Whether all outputs share one noise ratio, minimising the sum of their criteria.
    prior : VariancePrior, default=None
        Priors of the variances; the criterion must be a density.
    """
    bounds = bounds or VarianceBounds()
    m, varying = rotated.n_outputs, np.flatnonzero(rotated.varies)
    x, noise_var = np.full(m, np.inf), np.zeros(m)
    status, n_evaluations = np.full(m, "pure_noise", dtype=object), np.zeros(m, dtype=int)
    if len(varying) < m:
        x[:], noise_var[:] = _constant_output(rotated.spectrum, bounds)
    if len(varying):
        part = rotated if len(varying) == m else rotated.select(varying)
        found = tune(part, criterion, bounds, shared, prior)
        x[varying], noise_var[varying], status[varying], n_evaluations[varying] = found
    signal_var = noise_var / np.exp(x)
    status[_active(noise_var, bounds.noise) | _active(signal_var, bounds.signal)] = "bound"
    if bounds.is_fixed:
        status[:] = "fixed"
    return _assemble(rotated, criterion, np.exp(x), noise_var, status, n_evaluations, prior)


def warn_of_vanished_noise(solution, criterion):
    """Warn where the tuned noise vanished for a reason that is not in the data."""
    if not any(result.status == "noise_free" for result in solution.tuning):
        return
    if criterion.is_unbounded:
        warn_user(
            f"criterion='{criterion.name}' has no minimum here: it falls without limit as the noise "
            "vanishes, whatever the data, and was stopped at the smallest noise that rounding "
            "resolves. Use criterion='evidence'.",
            DegenerateCriterionWarning,
        )
    if solution.rotated.rows.n_repeats:
        warn_user(
            "Weights above 1 count a row as that many observations. Their perfect agreement says that there "
            "is no noise, and the model interpolates. If the weights are relative precisions, divide them "
            "by their maximum.",
            RepeatedObservationsWarning,
        )


def solve_fixed(rotated, criterion, noise_ratio):
    """Return the `Solution` at given noise ratios (m,), with the variances that the evidence prefers."""
    g = np.broadcast_to(np.asarray(noise_ratio, dtype=np.float64), (rotated.n_outputs,))
    noise_var = _evidence_noise(rotated, np.log(g))
    status = np.full(rotated.n_outputs, "fixed", dtype=object)
    return _assemble(rotated, criterion, g, noise_var, status, np.ones(rotated.n_outputs, dtype=int))


def criterion_curve(rotated, criterion, noise_ratios):
    """Return the criterion's public value at each noise ratio, (k, m)."""
    terms = criterion(rotated, np.log(noise_ratios)[:, None])
    return _public_value(rotated, criterion, terms, terms.A / max(terms.n, 1))


def tune(rotated, criterion, bounds, shared=False, prior=None):
    """Return x, noise_var (units of y), status and evaluations, (m,) each, of outputs that all vary."""
    box = None if bounds.is_free else bounds.box(rotated.scale)
    x_min, x_max, is_limit = search_range(rotated.spectrum, bounds)
    objective = _objective(rotated, criterion, box, prior)
    found = minimize_each(
        _summed(objective, rotated.n_outputs) if shared else objective,
        1 if shared else rotated.n_outputs,
        x_min,
        x_max,
        upper=np.inf if is_limit[1] else x_max,
        tie=_TIE * rotated.rows.n_observations,
    )
    names = {
        "interior": "interior",
        "lower": "noise_free" if is_limit[0] else "bound",
        "upper": "pure_noise" if is_limit[1] else "bound",
    }
    m = rotated.n_outputs
    x, n_evaluations = np.broadcast_to(found.x, m), np.broadcast_to(found.n_evaluations, m)
    status = np.broadcast_to(np.array([names[p] for p in found.place], dtype=object), m)
    if criterion.is_density:
        noise_var = _profile(rotated, criterion, x[None], box, prior).noise_var[0] * rotated.scale**2
    else:
        noise_var = _evidence_noise(rotated, x)
    lower, upper, _, _ = bounds.box(np.ones(m)).noise_limits(x)
    return x, np.clip(noise_var, lower, upper), status, n_evaluations


def _objective(rotated, criterion, box, prior):
    def objective(x, outputs):
        whole = len(outputs) == rotated.n_outputs and np.array_equal(outputs, np.arange(len(outputs)))
        part = rotated if whole else rotated.select(outputs)
        limits = box if box is None or whole else box.select(outputs)
        found = _profile(part, criterion, x, limits, prior)
        return found.f, found.f1, found.f2

    return objective


def _profile(rotated, criterion, x, box, prior):
    terms = criterion(rotated, x)
    if prior is not None:
        return prior.profile(terms, x, rotated.scale, box)
    return profile(terms, x, box if criterion.is_density else None)


def _summed(objective_each, n_outputs):
    """Return the objective of a single function, the sum over all outputs of another."""
    everyone = np.arange(n_outputs)

    def objective(x, _):
        each = objective_each(x.reshape(-1, 1), everyone)
        return tuple(values.sum(axis=1).reshape(x.shape) for values in each)

    return objective


def search_range(spectrum, bounds):
    """Return x_min, x_max and whether each end is the limit itself rather than a bound given by the user."""
    smallest, largest = numerical_ratio_range(spectrum)
    low, high = bounds.noise_ratio
    x_min, x_max = np.log(np.clip([smallest, largest], low, high))
    return x_min, x_max, (low < smallest, np.isinf(high))


def numerical_ratio_range(spectrum):
    """Return the smallest and largest noise ratio that the spectrum resolves."""
    eps = np.finfo(np.float64).eps
    smallest = max(spectrum.resolution, spectrum.rows.n_observations * eps * spectrum.scale)
    return smallest, _LARGEST_RATIO * spectrum.scale


def _evidence_noise(rotated, x):
    """Return the noise variance that the evidence prefers at x (m,), in the units of y squared."""
    terms = CRITERIA["evidence"](rotated, x[None])
    return terms.A[0] / max(terms.n, 1) * rotated.scale**2


def _constant_output(spectrum, bounds):
    """Return x and noise_var of an output without variation: the smallest variances allowed."""
    noise_min, signal_min = bounds.noise[0], bounds.signal[0]
    if signal_min == 0:
        return np.inf, noise_min
    noise_min = max(noise_min, numerical_ratio_range(spectrum)[0] * signal_min)
    return np.log(noise_min / signal_min), noise_min


def _active(value, interval):
    """Return where a value sits on an end of an interval that leaves it a choice."""
    low, high = interval
    slack = 1e-12
    at_end = (value <= low * (1 + slack)) & (low > 0) | (value >= high * (1 - slack))
    return at_end & (low < high)


def _assemble(rotated, criterion, noise_ratio, noise_var, status, n_evaluations, prior=None):
    dual = rotated.spectrum.dual(rotated, noise_ratio)
    values = _value_at_variances(rotated, criterion, noise_ratio, noise_var)
    tuning = tuple(
        TuningResult(str(st), float(g), float(value), int(count))
        for st, g, value, count in zip(status, noise_ratio, values, n_evaluations, strict=True)
    )
    return Solution(
        rotated=rotated,
        noise_ratio=noise_ratio,
        noise_var=noise_var,
        signal_var=noise_var / noise_ratio,
        range_dual=dual,
        beta=rotated.spectrum.mean_coefficients(rotated, dual),
        tuning=tuning,
        prior=prior,
    )


def _value_at_variances(rotated, criterion, noise_ratio, noise_var):
    """Return the criterion's public value of each output's own variances, (m,)."""
    terms = criterion(rotated, np.log(noise_ratio)[None])
    return _public_value(rotated, criterion, terms, noise_var / rotated.scale**2)[0]


def _public_value(rotated, criterion, terms, b):
    f = value_at(terms, b if criterion.is_density else terms.A)
    return criterion.score(rotated, terms.n, f)
