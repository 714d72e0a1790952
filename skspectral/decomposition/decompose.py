"""From a kernel and data to a decomposition, by the route of a plan."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..criteria import CRITERIA, Criterion
from ..criteria.lower_bound import certain_evidence
from ..inference.correlated import solve_correlated
from ..inference.solution import Solution, solve, solve_fixed
from ..inference.variances import VarianceBounds, VariancePrior
from ..linalg.factors import Factor, FeatureMap, InputFeatures, missed_trace, pivoted_cholesky
from ..linalg.greedy import greedy_landmarks
from ..linalg.landmark_sums import smooth_feature_map
from ..linalg.spectrum import Spectrum
from ..support.exceptions import IndefiniteKernelError
from ..support.pickling import WithoutCache
from ..support.threads import threads_for
from .certificate import CERTIFIED_WIDTH, bracket_width, evidence_bounds, missed_energy
from .data import Data
from .plan import LARGEST_DENSE, Route

__all__ = [
    "Certified",
    "Decomposition",
    "Problem",
    "decompose",
    "decompose_matrix",
    "decompose_on_landmarks",
    "greedy_factor",
    "pilot_noise_ratio",
]

# A factor's first try misses this share of the noise ratio of the trace, which makes the bracket of the log
# evidence about as narrow as it must be.
_FIRST_TAU_SHARE = 8e-3
# Above this share of n the dense route is cheaper.
_LARGEST_SHARE = 0.45
_PILOT, _ROUNDS = 400, 4


@dataclass(frozen=True)
class Certified:
    """A solution by the evidence, with bounds on the log evidence of the exact matrix at its variances.

    Attributes
    ----------
    solution : Solution
        At the given or the tuned noise ratios.
    lower, upper : ndarray of shape (m,)
        Bounds on the log evidence of the exact kernel matrix.
    """

    solution: Solution
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True)
class Decomposition(WithoutCache):
    """A spectrum and, where it came from a factor, what that knows of new inputs.

    Attributes
    ----------
    spectrum : Spectrum
        Of K, or of its low-rank stand-in.
    feature_map : FeatureMap, InputFeatures or None
        None for the kernel matrix itself.
    tau : float
        Trace of what the factor misses; 0 for the kernel matrix itself.
    missed : ndarray of shape (n,) or None
        What the factor misses of k(x, x) at the rows.
    certified : Certified or None
        The solution at which the factor was certified.
    """

    spectrum: Spectrum
    feature_map: FeatureMap | InputFeatures | None = None
    tau: float = 0.0
    missed: np.ndarray | None = None
    certified: Certified | None = None

    @cached_property
    def projection(self):
        """The geometry of new points, from what `values` returns: a spectrum or a `Projection`."""
        if self.feature_map is None:
            return self.spectrum
        return self.feature_map.projection(self.spectrum.of_features)

    def values(self, gram, X, rows):
        """Return what predictions at X are sums of: kernel values with the rows, or what a factor needs."""
        return gram.cross(X, rows) if self.feature_map is None else self.feature_map.values(gram, X)

    def coefficients(self, dual):
        """Return coefficients of these values, given those of the rows on the range of K, (n, m).

        Values with all rows would multiply the null part of a factor by rounding.
        """
        if self.feature_map is None:
            return dual
        return self.feature_map.coefficients(self.spectrum.primal(dual))

    def bounds(self, solution):
        """Return lower and upper bounds (m,) on the exact log evidence at a solution's variances.

        (1,) for correlated outputs, which have an evidence only together.
        """
        known = self.certified
        if known is not None and _same_variances(known.solution, solution):
            return known.lower, known.upper
        alone = solution.in_basis
        bounds = evidence_bounds(alone, self.tau) if self.tau else 2 * (alone.log_evidence,)
        return tuple(solution.joined(bound) for bound in bounds)

    @property
    def rank(self):
        """Rank of the factor, or the number of eigenvalues above rounding."""
        if isinstance(self.feature_map, FeatureMap):
            return len(self.feature_map.L)
        return int((self.spectrum.s > 0).sum())


def _same_variances(one, other):
    return np.array_equal(one.noise_ratio, other.noise_ratio) and np.array_equal(
        one.noise_var, other.noise_var
    )


@dataclass(frozen=True)
class Problem:
    """What is decomposed and solved: a kernel, rows with targets, and how their variances are chosen.

    Attributes
    ----------
    gram : gram object
        The kernel, see `kernels.gram`.
    data : Data
        The rows.
    criterion : Criterion
        What the variances minimise.
    bounds : VarianceBounds
        Bounds of both variances.
    prior : VariancePrior or None
        Priors of the variances.
    noise_ratio : ndarray of shape (m,) or None
        Noise ratios where they are given; None has them tuned.
    shared : bool
        Whether all outputs share one noise ratio.
    correlated : bool
        Whether outputs have covariances between them.
    by_bound : bool
        Whether the variances maximise what a factor is certain of, the lower bound of the evidence, instead
        of the evidence of the factor.
    report : callable or None
        Is told of progress, see `support.progress`.
    """

    gram: object
    data: Data
    criterion: Criterion = CRITERIA["evidence"]
    bounds: VarianceBounds = field(default_factory=VarianceBounds)
    prior: VariancePrior | None = None
    noise_ratio: np.ndarray | None = None
    shared: bool = False
    correlated: bool = False
    by_bound: bool = False
    report: object = None

    def solution(self, decomposition):
        """Return the solution of a decomposition: the one it was certified with, if that is the same."""
        if decomposition.certified is not None and self._is_by_evidence and not self.correlated:
            return decomposition.certified.solution
        rotated = decomposition.spectrum.rotate(self.data.Y, self.data.standardised)
        if self.correlated:
            return solve_correlated(rotated)
        if self.noise_ratio is not None:
            return solve_fixed(rotated, self.criterion, self.noise_ratio)
        criterion = certain_evidence(decomposition.tau) if self.by_bound else self.criterion
        return solve(rotated, criterion, self.bounds, shared=self.shared, prior=self.prior)

    def by_evidence(self):
        """Return the problem that certificates are about: each output's evidence at given or tuned ratios."""
        alone = {"prior": None, "shared": False, "correlated": False, "by_bound": False}
        return replace(self, criterion=CRITERIA["evidence"], **alone)

    @property
    def _is_by_evidence(self):
        alone = not self.shared or self.data.n_outputs == 1
        return self.criterion.name == "evidence" and self.prior is None and alone


def decompose(problem, plan):
    """Return the `Decomposition` of a problem by the route of a plan.

    A certified one brings the solution along at which it was certified.
    """
    n = len(problem.data)
    plan.check(n)
    Phi = problem.gram.factor(problem.data.X)
    if Phi is not None and plan.takes_exact_features(Phi.shape[1]):
        return _from_exact_features(Phi, problem.data)
    route = plan.route(n)
    if plan.may_repair:
        return decompose_matrix(problem.gram, problem.data, plan.indefinite)
    if route is not Route.EXACT:
        problem.gram.check(problem.data.X)
    return _ROUTES[route](problem, plan.factor_rank(n))


def decompose_matrix(gram, data, indefinite="refuse"):
    """Return the `Decomposition` of the kernel matrix itself, O(n^3)."""
    with threads_for(len(data)):
        K, precision = gram.square(data.X), gram.precision(data.X)
        settings = {"precision": precision, "indefinite": indefinite, "overwrite_K": True}
        return Decomposition(Spectrum.on_rows(K, data.rows, **settings))


def decompose_on_landmarks(problem, landmarks):
    """Return the `Decomposition` of the factor that given inputs span, O(n r^2).

    Where it misses next to nothing it is certified too.
    """
    data, gram = problem.data, problem.gram
    feature_map = smooth_feature_map(gram, landmarks)
    Phi = feature_map(gram, data.X)
    tau = missed_trace(gram, data.X, Phi, data.weight)
    factor = Factor(Phi, landmarks, None, feature_map.L, tau)
    decomposition = _from_factor(problem, factor)
    smallest_g = problem.solution(decomposition).noise_ratio.min()
    if tau > _FIRST_TAU_SHARE * smallest_g or not _can_look_at_all(problem):
        return decomposition
    return replace(decomposition, certified=_certify(problem.by_evidence(), decomposition, factor))


def _exact(problem, _):
    return decompose_matrix(problem.gram, problem.data)


def _of_rank(problem, rank):
    return _from_factor(problem, _pivoted(problem, rank=rank))


def _greedy(problem, rank):
    return _from_factor(problem, greedy_factor(problem, rank))


def _certified(problem, rank):
    return _certified_factor(problem, rank, by_force=True)


def _certified_or_exact(problem, _):
    try:
        certified = _certified_factor(problem, int(_LARGEST_SHARE * len(problem.data)))
    except IndefiniteKernelError:  # K may still be definite outside the mean space
        certified = None
    return _exact(problem, None) if certified is None else certified


def _affordable(problem, rank):
    certified = _certified_factor(problem, rank) if _can_look_at_all(problem) else None
    return _from_factor(problem, _pivoted(problem, rank=rank, drawn=True)) if certified is None else certified


def _can_look_at_all(problem):
    """Return whether there is time for a look at all entries of K, which narrows the bounds."""
    return len(problem.data) <= LARGEST_DENSE


_ROUTES = {
    Route.EXACT: _exact,
    Route.OF_RANK: _of_rank,
    Route.GREEDY: _greedy,
    Route.CERTIFIED: _certified,
    Route.CERTIFIED_OR_EXACT: _certified_or_exact,
    Route.AFFORDABLE: _affordable,
}


def _from_exact_features(Phi, data):
    Phi = Phi.toarray() if hasattr(Phi, "toarray") else Phi
    return Decomposition(Spectrum.from_factor(Phi, data.basis, data.weight), InputFeatures())


def _from_factor(problem, factor):
    data = problem.data
    spectrum = Spectrum.from_factor(factor.Phi, data.basis, data.weight, is_exact=False)
    missed = problem.gram.diagonal(data.X) - np.einsum("ij,ij->i", factor.Phi, factor.Phi)
    return Decomposition(spectrum, factor.feature_map, factor.tau, np.maximum(missed, 0.0))


def _pivoted(problem, **settings):
    data = problem.data
    return pivoted_cholesky(problem.gram, data.X, weight=data.weight, report=problem.report, **settings)


def greedy_factor(problem, rank, random_state=0):
    """Return the `Factor` of at most `rank` rows chosen by how well they explain the targets."""
    data = problem.data
    Y = data.detrended()
    size = np.abs(Y).max(axis=0)
    return greedy_landmarks(
        problem.gram,
        data.X,
        Y / np.where(size > 0, size, 1.0),
        pilot_noise_ratio(problem),
        max_rank=rank,
        weight=data.weight,
        random_state=random_state,
        dense_dual=len(data) <= LARGEST_DENSE,
        report=problem.report,
    )


def _certified_factor(problem, largest, *, by_force=False):
    """Return the `Decomposition` of a factor certified at the tuned noise, or None if its rank is too large.

    The noise ratio, if it is not given, is first estimated on a few rows; tau is set to a small share of it,
    and tightened until the bracket of the log evidence is narrow enough.

    Parameters
    ----------
    problem : Problem
        What is decomposed.
    largest : int
        Rank at which to give up.
    by_force : bool, default=False
        Whether to return what was reached instead of None.
    """
    tau = _FIRST_TAU_SHARE * pilot_noise_ratio(problem)
    for _ in range(_ROUNDS):
        factor = _pivoted(problem, tau=tau, rank=largest, unless_hopeless=not by_force)
        if factor.tau > tau and not by_force:
            return None
        with threads_for(len(problem.data), factor.rank):
            decomposition = _from_factor(problem, factor)
            certified = _certify(problem.by_evidence(), decomposition, factor)
        decomposition = replace(decomposition, certified=certified)
        width = bracket_width(certified.lower, certified.upper)
        if width <= CERTIFIED_WIDTH or factor.tau > tau:  # the latter where rounding or `largest` ended it
            return decomposition
        # the width is about proportional to tau; a little less than that
        tau = 0.7 * CERTIFIED_WIDTH / width * factor.tau
    return decomposition if by_force else None


def _certify(problem, decomposition, factor):
    """Return the solution of a factor and what its evidence says of the exact matrix."""
    solution = problem.solution(decomposition)
    missed = missed_energy(solution, problem, factor)
    return Certified(solution, *evidence_bounds(solution, factor.tau, missed))


def pilot_noise_ratio(problem):
    """Return the smallest noise ratio that is given or that tuning finds on a subset of the rows.

    No more than the largest eigenvalue there: a signal that a few rows do not show, all may show.
    """
    if problem.noise_ratio is not None:
        return float(problem.noise_ratio.min())
    data = problem.data
    chosen = np.sort(data.shuffled(problem.gram)[:_PILOT])
    pilot = data.subset(chosen)
    weight = pilot.weight if pilot.weight is None or pilot.weight.any() else None
    with threads_for(len(chosen)):
        K = problem.gram.block(data.X, chosen)
        precision = problem.gram.precision(data.X)
        spectrum = Spectrum.from_gram(K, pilot.basis, weight, precision=precision, overwrite_K=True)
        solution = solve(spectrum.rotate(pilot.Y), CRITERIA["evidence"], problem.bounds)
    return float(min(solution.noise_ratio.min(), solution.rotated.largest))
