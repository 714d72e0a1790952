"""From rotated targets to tuned variances, with no more than eigenvalues and energies.

`tune` chooses the variances of every output by a criterion. Nothing here knows eigenvectors, so that it
serves sums over rows as well as the rows themselves.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..criteria import CRITERIA, profile, value_at
from ..criteria.evidence import evidence_complexity
from ..criteria.form import Terms
from ..linalg.rotated import FAR_FROM_ROUNDING, Rotated
from ..support.pickling import WithoutCache
from .tuning import TuningResult, look_at_each, minimize_each
from .variances import (
    LARGEST,
    LARGEST_VARIANCE,
    VarianceBounds,
    VariancePrior,
    finite_ratio,
    resolvable_ratios,
)

__all__ = [
    "Tuned",
    "at_noise_ratio",
    "criterion_curve",
    "look_for_ratio",
    "ratio_range",
    "search_range",
    "standardised",
    "tune",
]

# Differences of -2 log density per row that are rounding.
_TIE = 1e-12
# Slope of a criterion in log noise_ratio that is no wish for less noise.
_FLAT = 1e-2
# Largest noise variance of interest, relative to the mean square of the targets.
_ROOM = 1e3
# Ratios of variances beyond it are not told apart.
_LARGEST_RATIO = 1e300
# Steps of a search over log noise_ratio. Criteria are made of shares s/(s + g), which take four units to
# rise: of 59,000 random ones a step of 1 missed no minimum, and one of 1.5 three. A prior has any shape.
_STEP, _STEP_WITH_PRIOR = 0.75, 0.25
# Cells that bound the evidence from below, and how far off log A may be where it is known roughly.
_SHORT_CELL, _OFF_ROUGHLY = 0.1, 1.0 / 64.0
# So far from all eigenvalues the shares are powers of g, to 2 %.
_TAIL = 4.0


@dataclass(frozen=True)
class Tuned(WithoutCache):
    """The variances of m outputs, in the units of y, and what follows from them without eigenvectors.

    Attributes
    ----------
    rotated : Rotated
        The targets in the eigenbasis.
    noise_ratio, noise_var, signal_var : ndarray of shape (m,)
        The variances and their ratio.
    tuning : tuple of TuningResult
        How the variances came about.
    prior : VariancePrior or None
        What they were penalised by.
    known_terms : Terms or None
        Those of the evidence at these noise ratios, where tuning has made them.
    """

    rotated: Rotated
    noise_ratio: np.ndarray
    noise_var: np.ndarray
    signal_var: np.ndarray
    tuning: tuple
    prior: VariancePrior | None
    known_terms: Terms | None = field(default=None, kw_only=True)

    @property
    def s(self):
        """Eigenvalues, (r,)."""
        return self.rotated.s[:-1]

    @property
    def in_basis(self):
        """The same model in the basis in which its outputs are independent: this one."""
        return self

    def joined(self, log_densities):
        """Return log densities of the outputs, given those in the basis: the same."""
        return log_densities

    @property
    def mixing(self):
        """What outputs of that basis are multiplied by, (m, k): None, as they are the outputs."""
        return None

    def variance_of_outputs(self, variance):
        """Return variances of the outputs (..., m), given those in the basis: the same."""
        return variance

    def targets_in_basis(self, Z):
        """Return standardised targets (n, m) in that basis, standardised by its scale."""
        return Z

    @property
    def is_undetermined(self):
        """Of which outputs the data say nothing about the variances, (m,)."""
        return np.array([result.status == "undetermined" for result in self.tuning])

    def honest(self, variance):
        """Return predictive variances (..., m), infinite where nothing is known of them.

        Of joint variances (n_new, n_new, m) only the diagonal.
        """
        if self.is_undetermined.any():
            variance = np.array(variance)
            alone = np.einsum("iim->im", variance) if variance.ndim == 3 else variance
            alone[..., self.is_undetermined] = np.inf
        return variance

    @property
    def log_evidence(self):
        """Log (restricted) evidence of the reported variances, (m,)."""
        b = standardised(self.noise_var, self.rotated)
        return _public_value(self.rotated, CRITERIA["evidence"], self._evidence_terms, b)[0]

    @cached_property
    def _evidence_terms(self):
        if self.known_terms is not None:
            return self.known_terms
        return CRITERIA["evidence"](self.rotated, np.log(self.noise_ratio)[None])

    @property
    def effective_dof(self):
        """Effective degrees of freedom sum s/(s+g) + q, (m,)."""
        s = self.s[:, None]
        return (s / (s + self.noise_ratio)).sum(axis=0) + self.rotated.counts.n_mean

    def objective(self, criterion):
        """Return what tuning minimised: the sum of f over outputs that vary, and -2 log of the priors."""
        return self._varying_part(criterion)[0]

    def _varying_part(self, criterion):
        """Return the objective, the outputs that vary, their targets, terms and b."""
        varying = np.flatnonzero(self.rotated.varies)
        if not len(varying):
            return 0.0, varying, None, None, None
        if len(varying) == self.rotated.n_outputs and criterion is CRITERIA["evidence"]:
            rotated, terms = self.rotated, self._evidence_terms
        else:
            rotated = self.rotated.select(varying)
            terms = criterion(rotated, np.log(self.noise_ratio[varying])[None])
        b = standardised(self.noise_var[varying], rotated) if criterion.is_density else terms.A[0]
        value = float(value_at(terms, b[None]).sum())
        if self.prior is not None:
            value += float(self.prior.penalty(self.noise_var[varying], self.signal_var[varying]).sum())
        return value, varying, rotated, terms, b

    def predictive_variance(self, cross, prior, leverage):
        """Return signal_var [prior - cross' diag(1/(s+g)) cross] + noise_var leverage, non-negative.

        The arguments are those of `Spectrum.project`. Shape (n_new, m), or (n_new, n_new, m) for
        joint arguments, of the latent function, noise not included.
        """
        weight = 1.0 / (self.s[:, None] + self.noise_ratio)
        if np.ndim(prior) == 2:
            explained = np.stack([cross.T @ (w[:, None] * cross) for w in weight.T], axis=-1)
            latent = prior[..., None] - explained
            diagonal = np.einsum("iim->im", latent)
            np.maximum(diagonal, 0.0, out=diagonal)
            return self.signal_var * latent + self.noise_var * leverage[..., None]
        explained = _squares_times(cross, weight)
        with np.errstate(over="ignore"):
            latent = self.signal_var * np.maximum(prior[:, None] - explained, 0.0)
            variance = latent + self.noise_var * leverage[:, None]
        return np.minimum(variance, LARGEST_VARIANCE)


def tune(rotated, criterion, bounds=None, *, shared=False, prior=None):
    """Tune the variances of every output by a criterion.

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

    Returns
    -------
    Tuned
    """
    bounds = bounds or VarianceBounds()
    m, varying = rotated.n_outputs, np.flatnonzero(rotated.varies)
    x, noise_var = np.full(m, np.inf), np.zeros(m)
    status, n_evaluations = np.full(m, "pure_noise", dtype=object), np.zeros(m, dtype=int)
    is_part, terms = len(varying) < m, None
    if is_part:
        x[:], noise_var[:], status[:] = _constant_output(rotated, bounds, prior)
    if len(varying):
        part = rotated.select(varying) if is_part else rotated
        *tuned, terms = _tune_varying(part, criterion, bounds, shared, prior)
        x[varying], noise_var[varying], status[varying], n_evaluations[varying] = tuned
    signal_var = finite_ratio(noise_var, np.exp(x))
    is_held = _active(noise_var, bounds.noise) | _active(signal_var, bounds.signal)
    status[is_held & (status != "undetermined")] = "bound"
    if bounds.is_fixed:
        status[:] = "fixed"
    terms = criterion(rotated, x[None]) if is_part or terms is None else terms
    return _with_results(rotated, criterion, terms, np.exp(x), noise_var, status, n_evaluations, prior)


def look_for_ratio(rotated, criterion, bounds):
    """Return about the noise ratios (m,) that `tune` finds, for outputs that all vary."""
    if _lacks_a_part(rotated, bounds):
        return tune(rotated, criterion, bounds).noise_ratio
    x_min, x_max, is_limit = search_range(rotated, bounds)
    objective = _objective(rotated, criterion, _box(rotated, bounds), None)
    upper = np.inf if is_limit[1] else x_max
    settings = {"upper": upper, "features": _features(rotated, None)}
    known_from = rotated.coordinates.reliable_from
    if np.exp(x_min) < known_from < np.exp(x_max):
        ratios = np.exp(look_at_each(objective, rotated.n_outputs, np.log(known_from), x_max, **settings))
        if (ratios > known_from).all():
            return ratios
    return np.exp(look_at_each(objective, rotated.n_outputs, x_min, x_max, **settings))


def _lacks_a_part(rotated, bounds):
    """Return whether bounds leave no signal, or no noise."""
    return bounds.allow_no_noise(rotated.counts.n_rows, rotated.scale) or bounds.signal[1] == 0


def _box(rotated, bounds):
    return None if bounds.is_free else bounds.box(rotated.scale)


def at_noise_ratio(rotated, criterion, noise_ratio):
    """Return the `Tuned` at given noise ratios (m,), with the variances that the evidence prefers."""
    g = np.broadcast_to(np.asarray(noise_ratio, dtype=np.float64), (rotated.n_outputs,))
    noise_var = _evidence_noise(rotated, np.log(g))
    status = np.full(rotated.n_outputs, "fixed", dtype=object)
    terms = criterion(rotated, np.log(g)[None])
    n_evaluations = np.ones(rotated.n_outputs, dtype=int)
    return _with_results(rotated, criterion, terms, g, noise_var, status, n_evaluations)


def standardised(noise_var, rotated):
    """Return noise variances of the units of y (m,) for targets of mean square 1."""
    with np.errstate(over="ignore"):  # in two steps: the square of a scale may be 0
        return np.minimum(noise_var / rotated.scale / rotated.scale, LARGEST)


def criterion_curve(rotated, criterion, noise_ratios):
    """Return the criterion's public value at each noise ratio, (k, m)."""
    terms = criterion(rotated, np.log(noise_ratios)[:, None])
    return _public_value(rotated, criterion, terms, terms.A / max(terms.n, 1))


def search_range(rotated, bounds):
    """Return x_min, x_max and whether each end is the limit itself rather than a bound given by the user."""
    smallest, largest = ratio_range(rotated)
    if bounds.signal[0] > 0:  # a small signal variance must leave room for noise that explains the targets
        with np.errstate(over="ignore"):
            room = _ROOM * rotated.scale.max() ** 2 / bounds.signal[0]
        largest = max(largest, min(room, _LARGEST_RATIO))
    low, high = bounds.noise_ratio
    x_min, x_max = np.log(np.clip([smallest, largest], low, max(high, smallest)))
    return x_min, x_max, (low < smallest, np.isinf(high) and bounds.signal[0] == 0)


def _features(rotated, prior):
    """Return the ends of the log noise ratios where a criterion may have several minima.

    Beyond all eigenvalues A and H are constants and one power of g. With b = A/n clipped to bounds that move
    with g in one way, n log b + A/b falls until b = A/n is allowed, and then rises. A prior may have any
    shape.
    """
    if prior is not None:
        return -np.inf, np.inf
    s = rotated.s[rotated.s > 0]
    ends = np.log((s.min(initial=rotated.largest), rotated.largest))
    return ends[0] - _TAIL, ends[1] + _TAIL


def ratio_range(rotated):
    """Return the smallest and largest noise ratio that make a difference to the targets."""
    return resolvable_ratios(rotated.largest, rotated.resolution)


def _tune_varying(rotated, criterion, bounds, shared, prior):
    """Return x, noise_var (units of y), status and evaluations, (m,) each, of outputs that all vary.

    And the terms of the criterion there, None where they are not known.
    """
    if _lacks_a_part(rotated, bounds):
        return _tune_without_a_part(rotated, criterion, bounds, prior)
    box = _box(rotated, bounds)
    x_min, x_max, is_limit = search_range(rotated, bounds)
    upper = np.inf if is_limit[1] else x_max

    def search(rotated, x_min):
        objective = _objective(rotated, criterion, box, prior)
        return minimize_each(
            _summed(objective, rotated.n_outputs) if shared else objective,
            1 if shared else rotated.n_outputs,
            x_min,
            x_max,
            upper=upper,
            tie=_TIE * rotated.counts.n_rows,
            step=_STEP if prior is None else _STEP_WITH_PRIOR,
            features=_features(rotated, prior),
        )

    is_evidence = prior is None and criterion is CRITERIA["evidence"]
    minima = _above_rounding(search, rotated, x_min, x_max) if is_evidence else None
    minima = search(rotated, x_min) if minima is None else minima
    minima = minima.repeated(rotated.n_outputs) if shared else minima
    x, status = minima.x, _status(minima.place, is_limit)
    noise_var, terms = _noise_at(rotated, criterion, x, box, prior)
    status[_is_rounding(rotated, x, status, noise_var)] = "noise_free"
    ends_falling = (status == "noise_free") & (minima.first_slope > _FLAT)
    if not criterion.is_unbounded and ends_falling.any():
        status[ends_falling & rotated.shows_noise] = "resolution"
    return x, np.clip(noise_var, *bounds.noise_limits(x)), status, minima.n_evaluations, terms


def _above_rounding(search, rotated, x_min, x_max):
    """Return minima of the evidence that are known without more work, None if others may be lower.

    Below x, H is known everywhere, and A for g = exp(x) bounds it for rho g, by the convexity of
    rho/(1 - (1 - rho) v) in v: with a = A'/A, it is A rho/(a + rho (1 - a)) at least. H falls with x and A
    rises, so that ends of short cells bound f. A box of variances makes it larger.
    """
    known_from = rotated.coordinates.reliable_from
    if not 0 < known_from < np.inf:
        return None
    rough = replace(rotated, coordinates=rotated.coordinates.roughly())
    x = np.log(rough.coordinates.reliable_from)
    if not x_min < x < x_max:
        return None
    terms, n = CRITERIA["evidence"](rough, np.array([[x]])), rotated.n_free
    below = np.linspace(x_min, x, int(np.ceil((x - x_min) / _SHORT_CELL)) + 1)[:, None]
    rho, a = np.exp(below - x), terms.A1 / terms.A
    least_A, H = terms.A * rho / (a + rho * (1.0 - a)), evidence_complexity(rotated, below)
    least = (n * np.log(least_A[:-1] / n) + H[1:]).min(axis=0) - n * _OFF_ROUGHLY
    minima = search(rough, x)
    least = least if len(minima.f) == len(least) else least.sum()
    return minima if np.all((minima.f < least) & (minima.x > np.log(known_from))) else None


def _tune_without_a_part(rotated, criterion, bounds, prior):
    """Return the same where a given variance is 0: no signal, or no noise but jitter for rounding."""
    m = rotated.n_outputs
    if bounds.signal[1] == 0:
        x = np.full(m, np.inf)
    else:
        x, bounds = np.full(m, np.log(ratio_range(rotated)[0])), bounds.of_signal
    noise_var, terms = _noise_at(rotated, criterion, x, bounds.box(rotated.scale), prior)
    return x, noise_var, np.full(m, "fixed", dtype=object), np.ones(m, dtype=int), terms


def _status(places, is_limit):
    """Return the status of minima at places "interior", "lower" and "upper" of the searched range."""
    names = {
        "interior": "interior",
        "lower": "noise_free" if is_limit[0] else "bound",
        "upper": "pure_noise" if is_limit[1] else "bound",
    }
    return np.array([names[place] for place in places], dtype=object)


def _is_rounding(rotated, x, status, noise_var):
    """Return where the noise of a minimum is no more than what rounding leaves outside the kernel."""
    is_near = (status == "interior") & (np.exp(x) < FAR_FROM_ROUNDING * rotated.resolution)
    if not is_near.any():
        return is_near
    smallest = rotated.all_rounding / max(rotated.n_free, 1) * rotated.scale**2
    return is_near & ~rotated.shows_noise & (noise_var <= 2.0 * smallest)


def _objective(rotated, criterion, box, prior):
    everyone = np.arange(rotated.n_outputs)

    def objective(x, outputs):
        whole = len(outputs) == rotated.n_outputs and (outputs == everyone).all()
        part = rotated if whole else rotated.select(outputs)
        limits = box if box is None or whole else box.select(outputs)
        at_x = _profile(part, criterion, x, limits, prior)
        return at_x.f, at_x.f1, at_x.f2

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


def _noise_at(rotated, criterion, x, box, prior):
    """Return the noise variance that belongs to x (m,), in the units of y squared, and the terms there.

    None in their place where it takes none of the criterion's own.
    """
    if not criterion.is_density:
        return _evidence_noise(rotated, x), None
    if prior is not None:
        return _profile(rotated, criterion, x[None], box, prior).noise_var[0] * rotated.scale**2, None
    terms = criterion(rotated, x[None])
    b = terms.A[0] / terms.n
    return (b if box is None else box.clipped(b, x)) * rotated.scale**2, terms


def _evidence_noise(rotated, x):
    """Return the noise variance that the evidence prefers at x (m,), in the units of y squared."""
    terms = CRITERIA["evidence"](rotated, x[None])
    return terms.A[0] / max(terms.n, 1) * rotated.scale**2


def _constant_output(rotated, bounds, prior):
    """Return x, noise_var and status of an output without variation.

    Its variances are the medians of their priors; the largest allowed where there are no more rows than mean
    functions, because then all are as likely; else the smallest allowed. Without any of these the data say
    nothing of their size.
    """
    lowest, highest = zip(bounds.noise, bounds.signal, strict=True)
    noise, signal = highest if rotated.n_free == 0 else lowest
    status = "pure_noise"
    if prior is not None:
        noise, signal = prior.medians(bounds, (noise, signal))
        status = "fixed"
    if noise == signal == 0 or not np.isfinite([noise, signal]).all():
        (noise, signal), status = lowest, "undetermined"
    if signal == 0:
        return np.inf, noise, status
    noise = max(noise, ratio_range(rotated)[0] * signal)
    return np.log(noise / signal), noise, status


def _active(value, interval):
    """Return where a value sits on an end of an interval that leaves it a choice."""
    low, high = interval
    slack = 1e-12
    at_end = (value <= low * (1 + slack)) & (low > 0) | (value >= high * (1 - slack))
    return at_end & (low < high)


def _with_results(rotated, criterion, terms, noise_ratio, noise_var, status, n_evaluations, prior=None):
    values = _public_value(rotated, criterion, terms, standardised(noise_var, rotated))[0]
    tuning = tuple(
        TuningResult(str(st), float(g), float(value), int(count))
        for st, g, value, count in zip(status, noise_ratio, values, n_evaluations, strict=True)
    )
    signal_var = finite_ratio(noise_var, noise_ratio)
    known = terms if criterion is CRITERIA["evidence"] else None
    return Tuned(rotated, noise_ratio, noise_var, signal_var, tuning, prior, known_terms=known)


def _squares_times(cross, weight):
    """Return (cross^2)'weight, squares of (r, n_new) entries that may be beyond all numbers themselves."""
    size = np.abs(cross).max(initial=0.0)
    if size < 1e140:
        return (cross**2).T @ weight
    return ((cross / size) ** 2).T @ (weight * size) * size


def _public_value(rotated, criterion, terms, b):
    f = value_at(terms, b if criterion.is_density else terms.A)
    return criterion.score(rotated, terms.n, f)
