"""How far a factor's evidence can be from that of the exact kernel matrix.

With K = Phi Phi' + E, tr E = tau, and everything computed from Phi alone, the log evidence of the exact
model at given variances lies between two numbers that cost O(r) (`evidence_bounds`). One pass over K, without
forming it, brings them closer together (`missed_energy`).
"""

import numpy as np

from ..criteria import CRITERIA, value_at
from ..criteria.form import Terms
from ..inference.tuned import standardised
from ..kernels.gram import product
from ..support.exceptions import IndefiniteKernelError, LowRankWarning, warn_user
from .plan import Route

__all__ = ["CERTIFIED_WIDTH", "bracket_width", "evidence_bounds", "missed_energy", "warn_of_bracket"]

# Width of the bracket of each output's log evidence at which a factor counts as exact.
CERTIFIED_WIDTH = 1e-2
# Random directions in which what a factor misses is looked at.
_PROBES = 4


def evidence_bounds(solution, tau, missed=None):
    """Return lower and upper bounds (m,) on the log evidence of the exact kernel matrix.

    At the solution's variances, with n directions, noise ratio g and the factor's A(g), H(g):

        A(exact)  between  max(g/(g+tau) A(g+tau), A(g) - g w'Ew)  and  A(g)
        H(exact)  between  H(g)  and  H(g) + n log(1 + tau/(n g)).

    The first lower bound on A needs only tau, O(r); it takes all of E to lie along y. The second is the
    quadratic one behind the gap of Smola & Schoelkopf (eq. 84) at w = (K~+gI)^-1 y, with w'Ew = `missed`
    from one pass over K (see `missed_energy`).
    """
    evidence, rotated, g = CRITERIA["evidence"], solution.rotated, solution.noise_ratio
    n, b = rotated.n_free, standardised(solution.noise_var, rotated)[None]
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


def bracket_width(lower, upper):
    """Return the widest bracket of any output; infinite bounds that agree have width 0."""
    return np.subtract(upper, lower, out=np.zeros_like(upper), where=upper > lower).max()


def warn_of_bracket(plan, n, rank, lower, upper):
    """Warn where a plan had to be content with a factor of n rows that is not certified."""
    width = bracket_width(lower, upper)
    if plan.route(n) is not Route.AFFORDABLE or width <= CERTIFIED_WIDTH:
        return
    warn_user(
        f"The kernel matrix of {n} rows costs too much time or memory; a factor of rank {rank} stands in. "
        f"The log evidence of the exact model lies between evidence_bounds_, which are {width:.3g} apart. "
        f"Set rank above {rank} to bring them closer together, or method='exact' to pay for the matrix.",
        LowRankWarning,
    )


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

    VKV = V * product(problem.gram, problem.data.X, V, report)
    energy = VKV.sum(axis=0) - ((factor.Phi.T @ V) ** 2).sum(axis=0)
    _check_probes(energy[m:] / (z**2).sum(axis=0), factor.tau, problem, root[:, 0])
    rounding = n * np.finfo(np.float64).eps * np.abs(VKV[:, :m]).sum(axis=0)
    return np.maximum(energy[:m], 0.0) + rounding


def _check_probes(quotients, tau, problem, root):
    """Refuse Rayleigh quotients that no positive semi-definite matrix of trace tau has.

    They are those of the weighted matrix, whose diagonal is w_i k(x_i, x_i), `root` being the roots of w.
    """
    gram, X = problem.gram, problem.data.X
    tolerance = np.sqrt(gram.precision(X)) * np.abs(root**2 * gram.diagonal(X)).max(initial=0.0)
    smallest = np.minimum(quotients, tau - quotients).min()
    if smallest < -tolerance:
        raise IndefiniteKernelError(smallest, tolerance)


def _score(rotated, n, A, H, b):
    zero = np.zeros_like(A)
    return CRITERIA["evidence"].score(rotated, n, value_at(Terms(n, A, zero, zero, H, zero, zero), b))
