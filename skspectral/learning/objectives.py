"""What kernel learning minimises, as functions of the kernel's parameters.

The objective is the sum over outputs of the criterion, minimised over both variances (Algorithm 1 of
Schirru et al. with the inner loop exact), plus -2 log of the priors. By the envelope theorem its gradient is

    d/dtheta = tr(G dK/dtheta),   G = dF/dK at the tuned variances,

one symmetric matrix whatever the number of outputs, contracted without the tensor of derivatives.

Two ways to evaluate it:

* `SpectralObjective`: a spectrum at every step, all outputs and criteria, variances tuned globally;
* `ResolventObjective`: for the evidence of a single output, x = log noise_ratio joins the outer
  variables, and each step is one Cholesky factorisation at one g.

Either of them replaces K by a low-rank factor wherever that is exact to tolerance (`StepFactors`): smooth
kernels have few eigenvalues that rise above the noise, and O(n r^2) is then all there is to a step.
"""

from copy import copy
from functools import partial
from math import isfinite

import numpy as np

from ..criteria import profile_at_one
from ..inference.variances import finite_ratio, resolvable_ratios
from ..kernels.algebra import contract
from ..kernels.attached import attach
from ..kernels.derivative_products import derivative_products
from ..kernels.pairs import Pairs
from ..linalg.factor_terms import FactorTerms
from ..linalg.resolvent import OFF_BY_OF_SINGLE, Resolvent
from ..support.exceptions import IndefiniteKernelError
from ..support.threads import threads_for
from .evaluation import Evaluation
from .step_factors import StepFactors, contract_factor

__all__ = ["ROUGHLY", "ResolventObjective", "SpectralObjective", "make_objective", "profiled_evidence"]

# By how much a value may be off for each output where a factor stood for K.
_OFF_BY_OF_FACTORS = 0.1
# Shares of n up to which the rank of a factor pays, beside a Cholesky factorisation and a spectrum of K.
_LARGEST_SHARE_OF_CHOLESKY, _LARGEST_SHARE_OF_SPECTRUM = 0.3, 0.6
# How much larger the rounding of a factor's Gram matrix is than that of its eigenvalues.
_GRAM_ROUNDING = 100.0
# How many eps of the largest eigenvalue a Cholesky factorisation, and its slope, need to be of use.
_CHOLESKY_ROUNDING, _EPS = 100.0, np.finfo(np.float64).eps
# Noise ratios, relative to the mean variance of K, between which a descent in x has a slope to follow.
_SLOPED = (1e-5, 1e3)
# By how much single precision may be off in steps from afar, and the rows from which it pays.
ROUGHLY, _MANY = 0.5, 300
# Mean variances of K, with weights, of which all entries are numbers in single precision.
_MODERATE = (1e-10, 1e10)
# Distance of x below which two starts are one.
_SAME_START = 1.0


class SpectralObjective:
    """F(theta) = sum_m min over variances of f_m, with its gradient, from one spectrum per call.

    Parameters
    ----------
    task : Task
        What is learned.
    noise_ratio : float, default=None
        What is known of the smallest noise ratio: how exact a factor of K must be.

    Attributes
    ----------
    n_calls : int
        Factorisations so far.
    """

    def __init__(self, task, noise_ratio=None):
        self.task, self.n_calls = task, 0
        self._factors, self._smallest_g = StepFactors(task, _LARGEST_SHARE_OF_SPECTRUM), noise_ratio

    def starts(self, theta):
        """Return the points in the outer variables from which to descend: theta itself."""
        return [theta]

    def at(self, theta, solution):
        """Return the outer variables of a solution."""
        return theta

    def with_ratio(self, theta, noise_ratio):
        """Return the outer variables at a noise ratio, which is none of them."""
        return theta

    def theta(self, variables):
        """Return theta of the outer variables."""
        return variables

    def box(self, bounds):
        """Return lower and upper limits of the outer variables."""
        return bounds[:, 0], bounds[:, 1]

    def __call__(self, theta):
        """Return the `Evaluation` at theta."""
        self.n_calls += 1
        kernel = self.task.kernel_at(theta)
        try:
            if self._smallest_g is None and self._factors.by_force:
                # nothing is known yet of the noise, which says how exact a factor must be
                self.n_calls += 1
                self._smallest_g = self.task.solve(theta)[1].in_basis.noise_ratio.min()
            factor = self._factors.at(theta, self._smallest_g)
            if factor is not None:
                with threads_for(len(self.task), factor.rank):
                    return self._from_factor(kernel, theta, factor)
            return self._from_matrix(kernel, theta)
        except IndefiniteKernelError:
            return Evaluation.undefined(theta)

    def _from_matrix(self, kernel, theta):
        solution = self.task.solve_matrix(theta)
        self._smallest_g = solution.in_basis.noise_ratio.min()
        value, G = solution.objective_and_sensitivity(self.task.criterion)
        slope = contract(kernel, G, self.task.data.X)
        return Evaluation(*self.task.with_prior(theta, value, slope), _variances(solution))

    def _from_factor(self, kernel, theta, factor):
        task, targets = self.task, self._factors
        terms = FactorTerms(factor, targets.rows, targets.Z)
        tuned = task.tune(terms, targets.scale)
        alone = tuned.in_basis
        g, b = alone.noise_ratio, alone.noise_var / alone.rotated.scale**2
        self._smallest_g = g.min()
        terms = terms.with_targets(tuned.targets_in_basis(targets.Z))
        B_inv, residual = terms.several(g)
        G = terms.sensitivity(B_inv, residual, 1.0 / g / b)
        slope = contract_factor(kernel, G, task.data.X, factor)
        value, slope = task.with_prior(theta, tuned.objective(task.criterion), slope)
        off_by = _OFF_BY_OF_FACTORS * task.data.n_outputs
        return Evaluation(value, slope, _variances(tuned), factor.rank, off_by)


class ResolventObjective:
    """F(theta, x) of one output's evidence, minimised over the signal variance, from one Cholesky per call.

    Parameters
    ----------
    task : Task
        What is learned; its `is_single` holds.

    Attributes
    ----------
    n_calls : int
        Factorisations so far.
    """

    def __init__(self, task):
        self.task, self.n_calls = task, 0
        self._factors = StepFactors(task, _LARGEST_SHARE_OF_CHOLESKY)
        self._kernel, self._kernel_in_single = attach(task.kernel, task.data.X), None
        bounds = task.bounds
        self._is_noise_free = bounds.allow_no_noise(len(task), self._factors.scale)
        limits = bounds.of_signal if self._is_noise_free else bounds
        self._limits = None if limits.is_free else limits.box(self._factors.scale)
        self._is_face, self._n_free = False, self._factors.rows.n_free
        weight = 1.0 if task.data.weight is None else task.data.weight
        self._mean_variance = float(np.mean(weight * task.kernel.diag(task.data.X))) or 1.0

    def starts(self, theta):
        """Return (theta, x) with x tuned globally at theta, and with the user's x where there is one."""
        self.n_calls += 1
        points = [self._sloped(theta, self.task.rough_ratio(theta)[0])]
        ratio = self.task.given_ratio
        if ratio is None or abs(np.log(ratio) - points[0][-1]) < _SAME_START:
            return points
        return [*points, self.with_ratio(theta, ratio)]

    def with_ratio(self, theta, noise_ratio):
        """Return (theta, x) at a noise ratio."""
        return np.append(theta, np.log(noise_ratio))

    def at(self, theta, solution):
        """Return (theta, x) of a solution, with x moved to where there is a slope."""
        return self._sloped(theta, solution.noise_ratio[0])

    def _sloped(self, theta, noise_ratio):
        with np.errstate(divide="ignore"):
            return np.append(theta, np.clip(np.log(noise_ratio), *self.sloped))

    @property
    def sloped(self):
        """Values of x between which a descent has a slope to follow."""
        return np.log(_SLOPED) + np.log(self._mean_variance)

    def theta(self, variables):
        """Return theta of (theta, x)."""
        return variables[:-1]

    def box(self, bounds):
        """Return lower and upper limits of (theta, x); x may not sink into the rounding of K."""
        n = len(self.task)
        bound = n * self._mean_variance  # on the eigenvalues
        smallest, largest = resolvable_ratios(bound, min(n, _CHOLESKY_ROUNDING) * _EPS * bound)
        if self._factors.by_force:
            smallest *= _GRAM_ROUNDING
        low, high = self.task.bounds.noise_ratio
        high = smallest if self._is_noise_free else max(high, smallest)
        x_low, x_high = np.log(np.clip([smallest, largest], min(low, high), high))
        return np.append(bounds[:, 0], x_low), np.append(bounds[:, 1], x_high)

    def with_curvature(self, variables):
        """Return the `Evaluation` at (theta, x), with its curvature where K itself is factorised.

        That is the average information (Gilmour et al. 1995), the mean of the second derivatives and of
        what is expected of them, in which all traces of products of matrices cancel: with V = K + gI,
        d = V^-1 z and s2 = z'd/n the signal variance,

            d' V_t V^-1 V_u d / s2 - (d' V_t d)(d' V_u d) / (n s2^2) .

        Where a bound holds a variance, the second term is missing, and on a bound of the noise variance
        the derivative of s2 V by x is g I - V instead of g I.
        """
        return self(variables, is_first=True)

    def on_face(self, name):
        """Return the objective with one variance held at a bound, or with none held, whatever the bounds.

        That is smooth, and nowhere below this objective, unless other bounds would hold.
        """
        face = copy(self)
        face._limits, face._is_face, face.n_calls = self._limits.face(name), True, 0
        return face

    def roughly(self):
        """Return this objective in single precision wherever that is off by `ROUGHLY` at most.

        Half of the time of many rows. None for few, for several parameters, whose contractions take as long
        as before, for kernels whose values are made in double precision, and for weights of extreme size.
        """
        task = self.task
        pays = len(task) >= _MANY and task.kernel.n_dims == 1
        is_moderate = _MODERATE[0] < self._mean_variance < _MODERATE[1]
        if not (pays and is_moderate and _has_single_precision(task.kernel, task.data.X)):
            return None
        rough = copy(self)
        rough._kernel_in_single, rough.n_calls = attach(task.kernel, task.data.X, np.float32), 0
        return rough

    def _is_rough_at(self, g):
        """Return whether single precision will do at noise ratio g."""
        is_rough = self._kernel_in_single is not None
        return is_rough and OFF_BY_OF_SINGLE * len(self.task) * self._mean_variance / g <= ROUGHLY

    def __call__(self, variables, is_first=False):
        """Return the `Evaluation` at (theta, x)."""
        self.n_calls += 1
        theta, x = variables[:-1], variables[-1]
        g = float(np.exp(x))
        try:
            factor = self._factors.at(theta, g)
            if factor is None:
                (f, _, b, face), slopes, more = self._from_resolvent(theta, g, is_first)
            else:
                (f, _, b, face), slopes, more = self._from_factor(theta, g, factor)
        except IndefiniteKernelError:
            return Evaluation.undefined(variables)
        if not isfinite(f):
            return Evaluation.undefined(variables)
        value, by_prior = self.task.with_prior(theta, f, 0.0)
        variances = partial(_variances_of_one, b, g, self._factors.scale)
        face = None if self._is_face else face  # a face has no edges
        return Evaluation(value, partial(_gradient, slopes, by_prior), variances, face=face, **more)

    def _from_resolvent(self, theta, g, is_first):
        """Return the profile at g from a Cholesky of K + gI, and what makes the slopes by theta and x.

        Beside these the curvature, if it is the first of several steps.
        """
        is_rough, rows = self._is_rough_at(g), self._factors.rows
        values = (self._kernel_in_single if is_rough else self._kernel).at(theta)
        resolvent = Resolvent.from_gram(values.K.matrix(len(rows)), rows, g)
        A, H, dual = resolvent.evidence(self._factors.Z[:, 0])
        profile = self._profile(g, A, 0.0, H, 0.0)  # but for its slope
        is_wanted = is_first and profile[2]
        curvature = self._average_information(theta, values, resolvent, dual, profile) if is_wanted else None
        slopes = partial(self._slopes, [resolvent], values, profile[2], A, H, dual)
        more = {"curvature": curvature} | ({"off_by": ROUGHLY} if is_rough else {})
        return profile, slopes, more

    def _slopes(self, held, values, b, A, H, dual):
        """Return the slopes by theta and x; the resolvent is taken from where it is held."""
        inverse = held.pop().inverse()
        g, rows = inverse.noise_ratio, self._factors.rows
        A1, H1 = inverse.evidence_slopes(A, dual)
        G = rows.unweighted_sensitivity(inverse.sensitivity(dual, g / (b or np.inf)))
        weights = Pairs.of_triangle(G)
        del inverse, G  # one matrix less in memory where the contraction makes another
        return values.contract(weights), self._profile(g, A, A1, H, H1)[1]

    @np.errstate(over="ignore", invalid="ignore")
    def _average_information(self, theta, values, resolvent, dual, profile):
        """Return the curvature by (theta, x), see `with_curvature`; None where a kernel has no rule.

        None, too, where it is beyond all numbers, because a bound holds the signal variance far too low.
        """
        rows, g = self._factors.rows, resolvent.noise_ratio
        b, face = profile[2:]
        signal_var = b / g
        products = self._derivative_products(theta, values, rows.sqrt_weight[:, 0] * dual)
        if products is None:
            return None
        products *= rows.sqrt_weight
        by_x = g * dual - self._factors.Z[:, 0] if face in ("noise_min", "noise_max") else g * dual
        changes = np.column_stack([products - rows.Q @ (rows.Q.T @ products), by_x])
        information = changes.T @ resolvent.apply(changes) / signal_var
        if face is None:
            by_variables = dual @ changes / signal_var
            information -= np.outer(by_variables, by_variables) / max(rows.n_free, 1)
        return information if np.isfinite(information).all() else None

    def _derivative_products(self, theta, values, v):
        """Return (dK/dtheta_t) v, (n, p), from values that know it or from the kernel; None without rule."""
        own = getattr(values, "derivative_products", None)
        products = None if own is None else own(v)
        if products is None:
            products = derivative_products(self.task.kernel_at(theta), self.task.data.X, v)
        return products

    def _from_factor(self, theta, g, factor):
        """Return the same from a factor of K, with its rank."""
        with threads_for(len(self.task), factor.rank):
            terms = FactorTerms(factor, self._factors.rows, self._factors.Z)
            *values, B_inv, residual = terms.at(g)
        profile = self._profile(g, *values)
        scale = np.array([1.0 / (g * (profile[2] or np.inf))])

        def slopes():
            with threads_for(len(self.task), factor.rank):
                G = terms.sensitivity(B_inv, residual, scale)
                return contract_factor(self.task.kernel_at(theta), G, self.task.data.X, factor), profile[1]

        return profile, slopes, {"rank": factor.rank, "off_by": _OFF_BY_OF_FACTORS}

    def _profile(self, g, A, A1, H, H1):
        return profile_at_one(self._n_free, A, A1, H, H1, g, self._limits)


def _has_single_precision(kernel, X):
    """Return whether a kernel attached to distances of single precision has values of it."""
    return np.asarray(attach(kernel, X[:3], np.float32).at(kernel.theta).K.off).dtype == np.float32


def _gradient(slopes, by_prior):
    by_theta, by_x = slopes()
    gradient = np.empty(len(by_theta) + 1)
    gradient[:-1], gradient[-1] = by_theta + by_prior, by_x
    return gradient


def _variances_of_one(b, g, scale):
    """Return noise and signal variance at noise ratio g, from the standardised noise variance b."""
    noise_var = b * scale**2
    return noise_var, finite_ratio(noise_var, g)


def _variances(tuned):
    return tuned.noise_var, tuned.signal_var


def make_objective(task, is_single, noise_ratio):
    """Return the objective of a task, the same kind for all of its levels; see `SpectralObjective`."""
    return ResolventObjective(task) if is_single else SpectralObjective(task, noise_ratio)


def profiled_evidence(task, theta, eval_gradient):
    """Return the log evidence, maximised over the variances and summed over outputs, and its gradient.

    From the kernel matrix itself, or from a factor where the task's plan has no other way. The gradient of a
    factor has half of the digits, that of one as large as the matrix is taken from the matrix.
    """
    if task.plan.forces_factors:
        decomposition, solution = task.solve(theta, by_bound=False)
        gradient = _gradient_of_factor if decomposition.spectrum.n_null else _gradient_of_matrix
    else:
        solution, gradient = task.solve_matrix(theta), _gradient_of_matrix
    value = solution.log_evidence.sum()
    return (value, gradient(task, theta, solution)) if eval_gradient else value


def _gradient_of_factor(task, theta, solution):
    varying, noise_ratio = task.of_varying_outputs(), solution.in_basis.noise_ratio.min()
    if varying is None:
        return np.zeros_like(theta)
    return -0.5 * SpectralObjective(varying, noise_ratio)(theta).gradient


def _gradient_of_matrix(task, theta, solution):
    solution = task.solve_matrix(theta) if task.plan.forces_factors else solution
    _, G = solution.objective_and_sensitivity(task.criterion)
    return -0.5 * contract(task.kernel_at(theta), G, task.data.X)
