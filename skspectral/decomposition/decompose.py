"""Low rank with a certificate: how far a factor's evidence can be from that of the exact kernel matrix.

With K = Phi Phi' + E, tr E = tau, and everything computed from Phi alone, the log evidence of the exact
model at given variances lies between two numbers that cost O(r) (`evidence_bounds`). The factor is good
enough when they meet to tolerance; `certified_factor` finds the rank at which they do.
"""

import os
from dataclasses import dataclass, replace

import numpy as np

from ..criteria import CRITERIA, value_at
from ..criteria.form import Terms
from ..inference.solution import solve, solve_fixed
from ..inference.variances import VarianceBounds
from ..kernels.gram import product
from ..linalg.factors import FeatureMap, pivoted_cholesky
from ..linalg.greedy import greedy_landmarks
from ..linalg.spectrum import Spectrum
from ..support.exceptions import IndefiniteKernelError, LowRankWarning, warn_user
from ..support.threads import threads_for

__all__ = [
    "Decomposition",
    "Problem",
    "certified_factor",
    "check_rank",
    "decompose",
    "depends_on_targets",
    "evidence_bounds",
    "greedy_factor",
    "must_be_exact",
    "takes_factor",
]

# Width of the bracket of each output's log evidence at which a factor counts as exact.
CERTIFIED_WIDTH = 1e-2
# tau relative to the noise ratio that makes the bracket about that narrow.
_TAU_SHARE = 5e-3
# Above this share of n the dense route is cheaper; below this n it is not worth looking.
LARGEST_SHARE, SMALLEST_N = 0.45, 1000
_PILOT, _ROUNDS = 400, 4
# Random directions in which what a factor misses is looked at.
_PROBES = 4
# LAPACK's workspace 1 + 6n + 2n^2 must be counted in 32 bits; ranks used where K does not fit.
_LARGEST_DENSE, _RANK_BEYOND_MEMORY = 32_000, 2000


def evidence_bounds(solution, tau, missed=None):
    """Return lower and upper bounds (m,) on the log evidence of the exact kernel matrix.

    At the solution's variances, with n observations, noise ratio g and the factor's A(g), H(g):

        A(exact)  between  max(g/(g+tau) A(g+tau), A(g) - g w'Ew)  and  A(g)
        H(exact)  between  H(g)  and  H(g) + n log(1 + tau/(n g)).

    The first lower bound on A needs only tau, O(r); it takes all of E to lie along y. The second is the
    quadratic one behind the gap of Smola & Schoelkopf (eq. 84) at w = (K~+gI)^-1 y, with w'Ew = `missed`
    from one pass over K (see `missed_energy`).
    """
    evidence, rotated, g = CRITERIA["evidence"], solution.rotated, solution.noise_ratio
    n, b = rotated.n_free, (solution.noise_var / rotated.scale**2)[None]
    terms = evidence(rotated, np.log(g)[None])
    with np.errstate(invalid="ignore"):
        share = np.where(np.isinf(g), 1.0, g / (g + tau))
        smallest = share * evidence(rotated, np.log(g + tau)[None]).A
        if missed is not None:
            loss = np.where(np.isinf(g), 0.0, g * missed)
            smallest = np.maximum(smallest, terms.A - loss)
    rise = n * np.log1p(tau / (max(n, 1) * g))
    worst = _score(rotated, n, terms.A, terms.H + rise, b)
    best = _score(rotated, n, smallest, terms.H, b)
    return worst[0], best[0]


def missed_energy(solution, problem, factor):
    """Return w'Ew of each standardised output, w its dual coefficients: one pass over K, O(n) memory.

    w'Ew = w'Kw - |Phi'w|^2, made from differences of nearby numbers, so rounding is added to stay a bound.
    The pivots may never have seen what makes a K indefinite; a few random z do on the way, since
    0 <= z'Ez <= tau |z|^2 otherwise.
    """
    w, root = solution.dual / solution.rotated.scale, solution.spectrum.rows.sqrt_weight
    n, m = w.shape
    z = np.random.default_rng(0).normal(size=(n, _PROBES))  # fixed: same input, same output
    V = np.concatenate([w, root * z], axis=1)

    def report(done):
        if problem.report is not None:
            problem.report(n_rows=n, rank=factor.rank, done=done)

    VKV = V * product(problem.gram, problem.X, V, report)
    energy = VKV.sum(axis=0) - ((factor.Phi.T @ V) ** 2).sum(axis=0)
    _check_probes(energy[m:] / (z**2).sum(axis=0), factor.tau, problem)
    rounding = n * np.finfo(np.float64).eps * np.abs(VKV[:, :m]).sum(axis=0)
    return np.maximum(energy[:m], 0.0) + rounding


def _check_probes(quotients, tau, problem):
    """Refuse Rayleigh quotients that no positive semi-definite matrix of trace tau has."""
    eps = np.finfo(np.float32 if problem.X.dtype == np.float32 else np.float64).eps
    tolerance = np.sqrt(eps) * np.abs(problem.gram.diagonal(problem.X)).max(initial=0.0)
    smallest = np.minimum(quotients, tau - quotients).min()
    if smallest < -tolerance:
        raise IndefiniteKernelError(smallest, tolerance)


def _score(rotated, n, A, H, b):
    zero = np.zeros_like(A)
    return CRITERIA["evidence"].score(rotated, n, value_at(Terms(n, A, zero, zero, H, zero, zero), b))


@dataclass(frozen=True)
class Decomposition:
    """A spectrum and, where it came from a factor, how to make features of new inputs.

    Attributes
    ----------
    spectrum : Spectrum
        Of K, or of its low-rank stand-in.
    feature_map : FeatureMap or None
        None for the kernel matrix itself.
    tau : float
        Trace of what the factor misses; 0 for the kernel matrix itself.
    missed : ndarray of shape (n,) or None
        What the factor misses of k(x, x) at the rows.
    evidence_bounds : tuple of ndarray or None
        Bounds on the log evidence of the exact matrix at the given or tuned variances.
    certified_at : tuple of ndarray or None
        These variances: noise ratio and noise variance of every output.
    """

    spectrum: Spectrum
    feature_map: FeatureMap | None = None
    tau: float = 0.0
    missed: np.ndarray | None = None
    evidence_bounds: tuple | None = None
    certified_at: tuple | None = None

    def bounds(self, solution):
        """Return lower and upper bounds (m,) on the exact log evidence at a solution's variances."""
        same = self.evidence_bounds is not None and all(
            np.array_equal(mine, other)
            for mine, other in zip(self.certified_at, _variances(solution), strict=True)
        )
        return self.evidence_bounds if same else evidence_bounds(solution, self.tau)

    @property
    def rank(self):
        """Rank of the factor, or the number of eigenvalues above rounding."""
        if self.feature_map is not None:
            return len(self.feature_map.L)
        return int((self.spectrum.s > 0).sum())


def _variances(solution):
    return solution.noise_ratio, solution.noise_var


@dataclass(frozen=True)
class Problem:
    """What is decomposed: a kernel on rows, with targets that say how exact it must be.

    Attributes
    ----------
    gram, X
        The kernel and its inputs, see `gram`.
    Y : ndarray of shape (n, m)
        Targets.
    basis : ndarray of shape (n, q) or None
        Mean functions.
    weight : ndarray of shape (n,) or None
        Weights of the rows.
    bounds : VarianceBounds
        Of both variances.
    report : callable or None
        Is told of progress, see `progress.Progress`.
    noise_ratio : ndarray of shape (m,) or None
        Noise ratios where they are given; None has them tuned by the evidence.
    """

    gram: object
    X: np.ndarray
    Y: np.ndarray
    basis: np.ndarray | None
    weight: np.ndarray | None
    bounds: VarianceBounds
    report: object = None
    noise_ratio: np.ndarray | None = None

    def solve(self, spectrum):
        """Return the solution of a spectrum of these rows, at the given or the tuned noise ratios."""
        rotated, evidence = spectrum.rotate(self.Y), CRITERIA["evidence"]
        if self.noise_ratio is not None:
            return solve_fixed(rotated, evidence, self.noise_ratio)
        return solve(rotated, evidence, self.bounds)


def decompose(problem, method, rank, *, must_be_exact=False, selection="pivots"):
    """Return the `Decomposition` by the dense or the low-rank route.

    Parameters
    ----------
    problem : Problem
        What is decomposed.
    method : {"auto", "exact", "low_rank"}
        "exact" forms K. "low_rank" never does: the factor has the given rank, or else the smallest one at
        which the log evidence is certified. "auto" takes a certified factor where one is cheaper than K,
        and any factor, with a warning, where K would not fit in memory.
    rank : int or None
        Rank of the factor.
    must_be_exact : bool, default=False
        Whether "auto" may not approximate at all.
    selection : {"pivots", "greedy"}, default="pivots"
        How the rows behind a factor are chosen. "greedy" looks at the targets and stops at its own gap
        (`greedy_landmarks`), at the latest at `rank`; "auto" then means "low_rank".
    """
    n = problem.X.shape[0]
    check_rank(method, rank, n)
    if method != "exact":
        problem.gram.check(problem.X)
    if takes_factor(method, rank, selection):
        if selection == "greedy":
            return _from_factor(problem, greedy_factor(problem, rank or n))
        return _of_rank(problem, rank) if rank else certified_factor(problem, largest=n, by_force=True)
    if method == "auto" and not _fits_in_memory(n):
        rank = min(_RANK_BEYOND_MEMORY, n)
        warn_user(
            f"The kernel matrix of {n} rows does not fit in memory; a factor of rank {rank} stands in. "
            "evidence_bounds_ tells how far the log evidence can be off. Set rank to choose another.",
            LowRankWarning,
        )
        return _of_rank(problem, rank)
    if method == "auto" and n >= SMALLEST_N and not must_be_exact:
        found = _if_definite(certified_factor, problem, largest=int(LARGEST_SHARE * n))
        if found is not None:
            return found
    if n > _LARGEST_DENSE:
        raise ValueError(
            f"method='exact' decomposes a matrix of {n} rows, but LAPACK's workspace is counted in 32 bits, "
            f"which ends at about {_LARGEST_DENSE} rows. Use method='low_rank' or 'auto'."
        )
    K = problem.gram.square(problem.X)
    return Decomposition(Spectrum.from_gram(K, problem.basis, problem.weight, overwrite_K=True))


def _if_definite(route, *args, **kwargs):
    """Return a route's result, or None where K is definite at most outside the mean space."""
    try:
        return route(*args, **kwargs)
    except IndefiniteKernelError:
        return None


def check_rank(method, rank, n):
    """Refuse a rank that n rows cannot have."""
    if rank is not None and method != "exact" and rank > n:
        raise ValueError(f"rank={rank} is larger than the number of rows, {n}. Use rank <= {n} or rank=None.")


def must_be_exact(criterion, *other_uses):
    """Return whether "auto" may not approximate: a factor is certified for the largest evidence only."""
    return criterion != "evidence" or any(other_uses)


def takes_factor(method, rank, selection):
    """Return whether the user wants a factor, whatever the certificate says."""
    return method == "low_rank" or (method == "auto" and (rank is not None or selection == "greedy"))


def depends_on_targets(n, method, rank, *, must_be_exact=False, selection="pivots"):
    """Return whether `decompose` looks at the targets: to choose a factor, or to see how exact it must be."""
    if takes_factor(method, rank, selection):
        return rank is None or selection == "greedy"
    return method == "auto" and n >= SMALLEST_N and not must_be_exact


def _of_rank(problem, rank):
    return _from_factor(problem, _pivoted(problem, rank=rank))


def _pivoted(problem, **until):
    return pivoted_cholesky(problem.gram, problem.X, weight=problem.weight, report=problem.report, **until)


def greedy_factor(problem, rank, random_state=0):
    """Return the `Factor` of at most `rank` rows chosen by how well they explain the targets."""
    Y = problem.Y
    if problem.basis is not None:
        Y = Y - np.average(Y, axis=0, weights=problem.weight)
    size = np.abs(Y).max(axis=0)
    return greedy_landmarks(
        problem.gram,
        problem.X,
        Y / np.where(size > 0, size, 1.0),
        _pilot_noise_ratio(problem),
        max_rank=rank,
        weight=problem.weight,
        random_state=random_state,
        dense_dual=len(Y) <= _LARGEST_DENSE,
        report=problem.report,
    )


def _from_factor(problem, factor):
    spectrum = Spectrum.from_factor(factor.Phi, problem.basis, problem.weight, is_exact=False)
    missed = problem.gram.diagonal(problem.X) - np.einsum("ij,ij->i", factor.Phi, factor.Phi)
    return Decomposition(spectrum, factor.feature_map, factor.tau, np.maximum(missed, 0.0))


def _fits_in_memory(n):
    """Return whether a dense decomposition of n rows fits: three n x n arrays, and LAPACK's 32-bit sizes."""
    if n > _LARGEST_DENSE:
        return False
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else np.inf
    return 3.5 * 8.0 * n**2 < physical


def certified_factor(problem, *, largest, by_force=False):
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
    tau = _TAU_SHARE * _pilot_noise_ratio(problem)
    for _ in range(_ROUNDS):
        factor = _pivoted(problem, tau=tau, rank=largest)
        if factor.tau > tau and not by_force:
            return None
        with threads_for(len(problem.Y), factor.rank):
            found = _from_factor(problem, factor)
            solution = problem.solve(found.spectrum)
            missed = missed_energy(solution, problem, factor)
        lower, upper = evidence_bounds(solution, factor.tau, missed)
        width = np.subtract(upper, lower, out=np.zeros_like(upper), where=upper > lower).max()
        found = replace(found, evidence_bounds=(lower, upper), certified_at=_variances(solution))
        if width <= CERTIFIED_WIDTH or factor.tau > tau:  # the latter where rounding or `largest` ended it
            return found
        # the width is about proportional to tau; a little less than that
        tau = 0.7 * CERTIFIED_WIDTH / width * factor.tau
    return found if by_force else None


def _pilot_noise_ratio(problem):
    """Return the smallest noise ratio that is given or that tuning finds on a subset of the rows.

    No more than the largest eigenvalue there: a signal that a few rows do not show, all may show.
    """
    if problem.noise_ratio is not None:
        return float(problem.noise_ratio.min())
    n = len(problem.Y)
    rows = np.sort(np.random.default_rng(0).permutation(n)[:_PILOT])  # fixed: same input, same output
    basis, weight = (None if part is None else part[rows] for part in (problem.basis, problem.weight))
    if weight is not None and not weight.any():
        weight = None
    with threads_for(len(rows)):
        spectrum = Spectrum.from_gram(problem.gram.block(problem.X, rows), basis, weight, overwrite_K=True)
        solution = solve(spectrum.rotate(problem.Y[rows]), CRITERIA["evidence"], problem.bounds)
    return float(min(solution.noise_ratio.min(), spectrum.scale))
