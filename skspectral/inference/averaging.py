"""Predictions averaged over the variances instead of at their maximum.

With a prior density 1/signal_var and a flat prior of x = log noise_ratio on the range that the spectrum
resolves, signal_var integrates out in closed form. What remains is one variable for each output,

    log p(x | y) = const - 1/2 sum log(s + g) - (n - q)/2 log sum y~^2/(s + g),    g = exp(x),

which is -(n log A + H)/2 of the evidence (see `criteria`). The posterior is held by the nodes and weights of
a quadrature; given a node, a prediction is Student-t with n - q degrees of freedom.

Bounds of the variances are part of the prior. Given x, A/b is chi-squared with n - q degrees of freedom, b
being the noise variance; with bounds it is that distribution cut off, and what is left of its probability
multiplies p(x | y). Nodes are then pairs of x and of quantiles of b, and predictions are normal given a node.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammainc, gammaincc, gammaincinv

from ..criteria import CRITERIA
from ..criteria.form import Box
from ..linalg.rotated import Rotated
from ..support.exceptions import UndeterminedVarianceWarning, warn_user
from ..support.intervals import check_coverage
from .solution import Solution
from .student_mixture import StudentMixture, inflate
from .tuned import ratio_range, search_range
from .variances import LARGEST_VARIANCE, finite_ratio

__all__ = [
    "AveragedSolution",
    "VariancePosterior",
    "check_integrable",
    "integrate_variances",
    "pooled",
]

# Functions of x have features of width 1 or more beside the posterior itself, which panels adapt to; beyond
# all eigenvalues nothing changes but what the bounds leave of the distribution of the noise.
_PANEL_WIDTH, _FLAT_PANEL_WIDTH = 2.0, 32.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_PANEL_TOLERANCE = 1e-10
_MAX_HALVINGS = 40
# Rounding of the density must not be taken for structure: no more nodes than this.
_MAX_NODES = 4096
# Quantiles of the noise variance at each x, where bounds cut off its distribution.
_SCALE_NODES, _SCALE_WEIGHTS = np.polynomial.legendre.leggauss(15)
# A log density so far below the largest is no mass in double precision.
_NO_MASS = 45.0
_NEGLIGIBLE_WEIGHT = 1e-10
# Bisections of a log variance, how far beyond all nodes they begin, and degrees of freedom that stand for
# infinitely many.
_BISECTIONS, _FAR, _MANY = 80, 40.0, 1e9


@dataclass(frozen=True)
class VariancePosterior:
    """Posterior of the variances of one output: quadrature over the noise ratio, the scale in closed form.

    Given node k, noise variance and signal variance are `noise_variance[k]` and `signal_variance[k]` times
    nu / chi2(nu), nu being `degrees_of_freedom`: a scaled inverse chi-squared distribution of both, whose
    ratio is `noise_ratio[k]`. Expectations are sums over the nodes, weighted by `weight`. Where the kernel
    sets bounds for the variances, nodes hold the variances themselves, and nu is infinite.

    Attributes
    ----------
    noise_ratio : ndarray of shape (k,)
        Nodes, noise variance over signal variance, ascending.
    weight : ndarray of shape (k,)
        Posterior probability of each node; the sum is 1.
    noise_variance, signal_variance : ndarray of shape (k,)
        Scales of the variances at each node.
    degrees_of_freedom : int or inf
        nu = n - q, rows less mean functions.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skspectral import SpectralGPRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + np.random.default_rng(0).normal(0, 0.3, 60)
    >>> gp = SpectralGPRegressor(RBF(1.5), optimizer=None, inference="integrate").fit(X, y)
    >>> posterior = gp.variance_posterior_[0]
    >>> posterior.degrees_of_freedom
    59
    >>> round(float(posterior.weight @ np.sqrt(posterior.noise_variance)), 1)
    0.3
    """

    noise_ratio: np.ndarray
    weight: np.ndarray
    noise_variance: np.ndarray
    signal_variance: np.ndarray
    degrees_of_freedom: int

    def noise_interval(self, coverage: float = 0.95) -> tuple:
        """Return lower and upper quantiles of the noise variance that leave out equal tails.

        Parameters
        ----------
        coverage : float, default=0.95
            Probability of the interval.

        Returns
        -------
        tuple of two floats
        """
        return self._interval(self.noise_variance, coverage)

    def signal_interval(self, coverage: float = 0.95) -> tuple:
        """Return lower and upper quantiles of the signal variance that leave out equal tails.

        Parameters
        ----------
        coverage : float, default=0.95
            Probability of the interval.

        Returns
        -------
        tuple of two floats
        """
        return self._interval(self.signal_variance, coverage)

    def _interval(self, scale, coverage):
        tail = 0.5 * (1.0 - check_coverage(coverage))
        return self._quantile(scale, tail), self._quantile(scale, 1.0 - tail)

    def _quantile(self, scale, probability):
        """Return where sum w P(scale nu/chi2(nu) <= v) reaches a probability, by bisection of log v."""
        scale, nu = np.maximum(scale, np.finfo(np.float64).tiny), min(self.degrees_of_freedom, _MANY)
        low, high = np.log(scale.min()) - _FAR, np.log(scale.max()) + _FAR
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            reached = gammaincc(0.5 * nu, 0.5 * nu * np.exp(np.log(scale) - middle)) @ self.weight
            low, high = (middle, high) if reached < probability else (low, middle)
        return float(np.exp(0.5 * (low + high)))

    @property
    def inflation(self) -> float:
        """nu/(nu - 2), the variance of Student-t in units of its scale; infinite for nu <= 2."""
        return float(inflate(np.ones(1), self.degrees_of_freedom)[0])


@dataclass(frozen=True)
class AveragedSolution:
    """A solution with the posterior of its variances: predictions are mixtures over the nodes.

    New points come as `geometry`, the result of `Spectrum.project`, and `basis`, their mean functions
    (n_new, functions) or None.

    Attributes
    ----------
    solution : Solution
        At the maximum of the evidence.
    nodes : _Nodes or None
        Of the quadrature; None where no output varies.

    Notes
    -----
    The posteriors are made when they are first asked for: of most kernels that an average over kernels looks
    at, only the evidence matters.
    """

    solution: Solution
    nodes: "_Nodes | None"

    @cached_property
    def log_evidence(self):
        """Log of the density that was averaged, integrated over the variances, (m,).

        It has a constant that does not depend on the kernel; 0 for outputs without variation.
        """
        value, varies = np.zeros(self.solution.rotated.n_outputs), self.solution.rotated.varies
        if self.nodes is not None:
            value[varies] = np.logaddexp.reduce(self.nodes.log_weight, axis=0)
        return value

    @cached_property
    def posteriors(self):
        """The `VariancePosterior` of each output."""
        column = np.cumsum(self.solution.rotated.varies) - 1
        return tuple(
            self.nodes.posterior(column[j]) if varies else _single_node(self.solution, j)
            for j, varies in enumerate(self.solution.rotated.varies)
        )

    def mean_solution(self):
        """Return the solution whose coefficients predict the mean of the mixture, its variances unchanged.

        The prediction is linear in 1/(s+g), so that the average over nodes is sum w/(s+g).
        """
        rotated, spectrum = self.solution.rotated, self.solution.spectrum
        shrink = np.column_stack(
            [(1.0 / (spectrum.s[:, None] + p.noise_ratio)) @ p.weight for p in self.posteriors]
        )
        dual = spectrum.expand(rotated, rotated.y_tilde * shrink)
        return replace(self.solution, range_dual=dual, beta=spectrum.mean_coefficients(rotated, dual))

    def mixtures(self, geometry, basis, include_noise):
        """Return the predictive `StudentMixture` of every output."""
        return [
            StudentMixture(
                self._locations(j, geometry[0], basis),
                np.sqrt(self._scale_squared(p, geometry, include_noise)),
                p.weight,
                p.degrees_of_freedom,
            )
            for j, p in enumerate(self.posteriors)
        ]

    def std(self, geometry, basis, include_noise):
        """Return the standard deviation of every mixture, (n_new, m)."""
        mixtures = self.mixtures(geometry, basis, include_noise)
        return np.sqrt(self.solution.honest(np.column_stack([mixture.variance for mixture in mixtures])))

    def interval(self, geometry, basis, coverage, include_noise):
        """Return lower and upper quantiles of every mixture that leave out equal tails, (n_new, m) each."""
        mixtures = self.mixtures(geometry, basis, include_noise)
        tails = (0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage))
        ends = (np.column_stack([mixture.quantile(tail) for mixture in mixtures]) for tail in tails)
        signs, open_ended = (-1.0, 1.0), self.solution.is_undetermined
        return tuple(np.where(open_ended, sign * np.inf, end) for sign, end in zip(signs, ends, strict=True))

    def covariance(self, geometry, basis, include_noise):
        """Return the joint covariance of every mixture, (n_new, n_new, m).

        sum w [C nu/(nu-2) + (m - mean)(m - mean)'], C being the squared scale matrix of a node.
        """
        columns = []
        for j, p in enumerate(self.posteriors):
            within = sum(
                w * C for w, C in zip(p.weight, self._joint(p, geometry, include_noise), strict=True)
            )
            location = self._locations(j, geometry[0], basis)
            gap = location - (location @ p.weight)[:, None]
            columns.append(inflate(within, p.degrees_of_freedom) + (gap * p.weight) @ gap.T)
        return self.solution.honest(np.stack(columns, axis=-1))

    def sample(self, geometry, basis, include_noise, n_samples, rng):
        """Draw joint samples: a node by its weight, then a multivariate Student-t; (n_new, m, n_samples)."""
        outputs = []
        for j, p in enumerate(self.posteriors):
            counts = rng.multinomial(n_samples, p.weight / p.weight.sum())
            location, nu = self._locations(j, geometry[0], basis), p.degrees_of_freedom
            draws = []
            for k in np.flatnonzero(counts):
                C = next(self._joint(_node(p, k), geometry, include_noise))
                normal = rng.multivariate_normal(np.zeros(len(C)), C, counts[k], check_valid="ignore")
                spread = 1.0 if np.isinf(nu) else np.sqrt(nu / rng.chisquare(nu, (counts[k], 1)))
                draws.append(location[:, k] + normal * spread)
            outputs.append(rng.permutation(np.concatenate(draws)).T)
        return np.stack(outputs, axis=1)

    def _locations(self, output, cross, basis):
        """Return the mean at each node, f*'(F'F)^-1 F'y + (U'k~)'(y~/(s+g)), (n_new, K)."""
        rotated, s = self.solution.rotated, self.solution.spectrum.s[:, None]
        y_tilde = rotated.y_tilde[:, [output]] * rotated.scale[output]
        location = cross.T @ (y_tilde / (s + self.posteriors[output].noise_ratio))
        if basis is not None:
            location += basis @ (rotated.rows.R_inv @ rotated.basis_part[:, [output]])
        return location

    def _scale_squared(self, p, geometry, include_noise):
        """Return the squared scales at each node, (n_new, K)."""
        return self._at_nodes(p).predictive_variance(*geometry) + include_noise * p.noise_variance

    def _joint(self, p, geometry, include_noise):
        """Yield the squared scale matrix of each node, (n_new, n_new)."""
        identity = np.eye(len(geometry[1])) * include_noise
        for k in range(len(p.weight)):
            C = self._at_nodes(_node(p, k)).predictive_variance(*geometry)[..., 0]
            yield C + p.noise_variance[k] * identity

    def _at_nodes(self, p):
        """Return the solution with the nodes in the place of outputs, which the variance does not mind."""
        return replace(
            self.solution,
            noise_ratio=p.noise_ratio,
            noise_var=p.noise_variance,
            signal_var=p.signal_variance,
        )


def check_integrable(criterion, variance_prior, bounds):
    """Refuse what averaging over the variances cannot be combined with, before any work."""
    if criterion != "evidence":
        raise ValueError(
            "inference='integrate' averages over the evidence and needs criterion='evidence', got "
            f"{criterion!r}. Use that criterion or inference='maximize'."
        )
    if variance_prior is not None:
        raise ValueError(
            "inference='integrate' has priors of the variances of its own and cannot be combined with "
            "others. Use priors of kernel parameters alone, or inference='maximize'."
        )
    for name, (low, high) in (("noise", bounds.noise), ("signal", bounds.signal)):
        if low == high:
            raise ValueError(
                f"inference='integrate' averages over both variances, but the kernel fixes the {name} "
                f"variance at {low:.6g}. Free it or use inference='maximize'."
            )


def integrate_variances(solution, bounds):
    """Return the `AveragedSolution` of a solution that maximises the evidence.

    Parameters
    ----------
    solution : Solution
        Its targets are used, and its variances where an output does not vary.
    bounds : VarianceBounds
        Limit the range of the noise ratio.

    Notes
    -----
    The quadrature starts from panels of width 2 over the range of x and halves those whose eight-point
    Gauss rule disagrees with that of its halves, for any output: O(n) per node, all outputs at once.
    """
    rotated = solution.rotated
    varying = np.flatnonzero(rotated.varies)
    if not len(varying):
        return AveragedSolution(solution, None)
    if bounds.is_free:
        _warn_of_few_rows(rotated.n_free)
    part = rotated.select(varying)
    box = None if bounds.is_free else bounds.box(part.scale)
    edges = _edges(*search_range(rotated, bounds)[:2], np.log(ratio_range(rotated)[1]))
    x, log_weight = _quadrature(lambda x: _log_density(part, x, box), edges, 0.5 * rotated.n_free)
    return AveragedSolution(solution, _Nodes(part, box, x, log_weight))


@dataclass(frozen=True)
class _Nodes:
    """Nodes x (k,) of the quadrature, and the logs of weight times density, (k, m), of outputs that vary."""

    rotated: Rotated
    box: Box | None
    x: np.ndarray
    log_weight: np.ndarray

    def posterior(self, column):
        """Return the `VariancePosterior` of one output."""
        box = None if self.box is None else self.box.select([column])
        return _posterior(self.rotated.select([column]), box, self.x, self.log_weight[:, column])


def pooled(posteriors, probability):
    """Return the `VariancePosterior` of one output from those of several models with probabilities."""
    weight = np.concatenate([p * one.weight for p, one in zip(probability, posteriors, strict=True)])
    ratio, noise, signal = (
        np.concatenate([getattr(one, name) for one in posteriors])
        for name in ("noise_ratio", "noise_variance", "signal_variance")
    )
    order = np.argsort(ratio, kind="stable")
    dof = posteriors[0].degrees_of_freedom
    return VariancePosterior(ratio[order], weight[order], noise[order], signal[order], dof)


def _warn_of_few_rows(degrees_of_freedom):
    if degrees_of_freedom <= 2:
        warn_user(
            f"{degrees_of_freedom} row(s) more than mean functions leave a distribution of that many degrees "
            "of freedom, whose standard deviation is infinite; the intervals of predict_interval are finite. "
            "Give more rows, or bound the variances by ConstantKernel and WhiteKernel.",
            UndeterminedVarianceWarning,
        )


def _log_density(rotated, x, box):
    """Return the log posterior density at x (k,), up to a constant, (k, m); see the module's docstring."""
    terms = CRITERIA["evidence"](rotated, x[:, None])
    density = -0.5 * (terms.n * np.log(terms.A) + terms.H)
    if box is None:
        return density
    low, high = _probabilities(terms, x, box)
    with np.errstate(divide="ignore"):
        return density + np.log(np.maximum(high - low, np.finfo(np.float64).tiny))


def _probabilities(terms, x, box):
    """Return P(b > upper bound) and P(b > lower bound) at x (k,), (k, m) each: A/(2b) is Gamma(n/2)."""
    lower, upper = box.noise_limits(x[:, None])[:2]
    with np.errstate(divide="ignore", over="ignore"):
        return tuple(gammainc(0.5 * terms.n, 0.5 * terms.A / b) for b in (upper, lower))


def _posterior(rotated, box, x, log_weight):
    """Return the posterior of one output from all nodes, less those of negligible weight."""
    weight = np.exp(log_weight - log_weight.max())
    kept = weight > _NEGLIGIBLE_WEIGHT * weight.sum()
    x, weight = x[kept], weight[kept] / weight[kept].sum()
    terms, unit = CRITERIA["evidence"](rotated, x[:, None]), rotated.scale[0] ** 2
    if box is None:
        noise = terms.A[:, 0] / terms.n * unit
        return VariancePosterior(np.exp(x), weight, noise, finite_ratio(noise, np.exp(x)), terms.n)
    low, high = (p[:, 0] for p in _probabilities(terms, x, box))
    p = 0.5 * (high + low) + 0.5 * (high - low) * _SCALE_NODES[:, None]
    with np.errstate(divide="ignore", over="ignore"):  # beyond all numbers, and so beyond the bounds
        b = 0.5 * terms.A[:, 0] / gammaincinv(0.5 * terms.n, p)
        b = np.clip(b, *(limit[:, 0] for limit in box.noise_limits(x[:, None])[:2])).ravel()
        noise = np.minimum(b * unit, LARGEST_VARIANCE)
    g = np.tile(np.exp(x), len(_SCALE_NODES))
    weight = np.outer(0.5 * _SCALE_WEIGHTS, weight).ravel()
    return VariancePosterior(g, weight, noise, finite_ratio(noise, g), np.inf)


def _single_node(solution, j):
    """Return the posterior of an output without variation: all weight on what the solution has."""
    ratio, noise, signal = (
        np.array([values[j]]) for values in (solution.noise_ratio, solution.noise_var, solution.signal_var)
    )
    return VariancePosterior(ratio, np.ones(1), noise, signal, np.inf)


def _node(p, k):
    at = slice(k, k + 1)
    return replace(
        p,
        noise_ratio=p.noise_ratio[at],
        weight=p.weight[at],
        noise_variance=p.noise_variance[at],
        signal_variance=p.signal_variance[at],
    )


def _edges(x_min, x_max, x_flat):
    """Return the ends of the first panels, ascending; beyond x_flat they are wide."""
    x_flat = np.clip(x_flat, x_min, x_max)
    n_panels = int(np.ceil((x_flat - x_min) / _PANEL_WIDTH))
    n_flat = int(np.ceil((x_max - x_flat) / _FLAT_PANEL_WIDTH))
    return np.append(
        np.linspace(x_min, x_flat, n_panels, endpoint=False), np.linspace(x_flat, x_max, n_flat + 1)
    )


def _quadrature(log_density, edges, steepest):
    """Return nodes x (k,), ascending, and the logs of weight times density at each, (k, m).

    `steepest` bounds the derivative of the log density: for the evidence (n - q)/2, since A'/A lies in
    [0, 1] and H' in [-(n - q), 0].
    """
    if len(edges) == 1:  # bounds that leave a single ratio
        return edges, log_density(edges)
    panels = _Panels.make(log_density, edges[:-1], edges[1:])
    done = panels.select(slice(0))
    for _ in range(_MAX_HALVINGS):
        panels = panels.select(~panels.are_negligible(_peak(done, panels), steepest))
        left, right = panels.halves(log_density)
        peak = _peak(done, left, right)
        fine = left.area(peak) + right.area(peak)
        total = fine.sum(axis=0) + done.area(peak).sum(axis=0)
        rough = (np.abs(fine - panels.area(peak)) > _PANEL_TOLERANCE * total).any(axis=1)
        done = done.joined(panels.select(~rough))
        panels = left.select(rough).joined(right.select(rough))
        if not rough.any() or done.x.size + panels.x.size > _MAX_NODES:
            break
    done = done.joined(panels)
    order = np.argsort(done.x, axis=None)
    return done.x.ravel()[order], done.log_mass.reshape(len(order), -1)[order]


def _peak(*many):
    """Return the largest log mass of any node of any panel, (m,)."""
    return np.max([panels.log_mass.max(axis=(0, 1), initial=-np.inf) for panels in many], axis=0)


@dataclass(frozen=True)
class _Panels:
    """Intervals [a, b] (p,) with Gauss nodes x (p, 8) and the log of weight times density there (p, 8, m)."""

    a: np.ndarray
    b: np.ndarray
    x: np.ndarray
    log_mass: np.ndarray

    @classmethod
    def make(cls, log_density, a, b):
        half = 0.5 * (b - a)[:, None]
        x = 0.5 * (a + b)[:, None] + half * _NODES
        log_weight = np.log(half * _WEIGHTS)
        values = log_density(x.ravel())
        return cls(a, b, x, values.reshape(*x.shape, -1) + log_weight[..., None])

    def halves(self, log_density):
        """Return the left and the right halves."""
        middle = 0.5 * (self.a + self.b)
        return self.make(log_density, self.a, middle), self.make(log_density, middle, self.b)

    def are_negligible(self, peak, steepest):
        """Return for which panels no output can have any mass between the nodes, (p,)."""
        widest_gap = 0.5 * np.diff(_NODES).max() * 0.5 * (self.b - self.a)
        highest = self.log_mass.max(axis=1) + (steepest * widest_gap)[:, None]
        return (highest < peak - _NO_MASS).all(axis=1)

    def area(self, peak):
        """Return the integral over each panel relative to exp(peak), (p, m)."""
        return np.exp(self.log_mass - peak).sum(axis=1)

    def select(self, which):
        return _Panels(self.a[which], self.b[which], self.x[which], self.log_mass[which])

    def joined(self, other):
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("a", "b", "x", "log_mass"))
        return _Panels(*(np.concatenate(pair) for pair in pairs))
