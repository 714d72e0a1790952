"""Exact, or a factor, and of which rank: decided here and nowhere else."""

from dataclasses import dataclass, replace
from enum import Enum

from ..support.memory import physical_memory

__all__ = ["LARGEST_DENSE", "SMALLEST_N", "Plan", "Route"]

# LAPACK's workspace 1 + 6n + 2n^2 must be counted in 32 bits.
LARGEST_DENSE = 32_000
# Rank used where the matrix does not fit in memory.
_RANK_BEYOND_MEMORY = 2000
# Fewest rows at which "auto" looks for a factor: below, the dense route is as fast.
SMALLEST_N = 1000


class Route(Enum):
    """What stands for the kernel matrix."""

    EXACT = "the matrix itself"
    OF_RANK = "a factor of given rank"
    GREEDY = "a factor of rows that explain the targets"
    CERTIFIED = "the smallest factor that is certified to give the evidence"
    CERTIFIED_OR_EXACT = "such a factor where it is small, else the matrix itself"
    BEYOND_MEMORY = "a factor, because the matrix does not fit in memory"


@dataclass(frozen=True)
class Plan:
    """How a kernel matrix is decomposed.

    Attributes
    ----------
    method : {"auto", "exact", "low_rank"}
        "exact" forms K. "low_rank" never does: the factor has the given rank, or else the smallest one at
        which the log evidence is certified. "auto" takes a certified factor where one is cheaper than K,
        and any factor, with a warning, where K would not fit in memory.
    rank : int or None
        Rank of the factor.
    selection : {"pivots", "greedy"}
        How the rows behind a factor are chosen. "greedy" looks at the targets and stops at its own gap
        (`linalg.greedy`), at the latest at `rank`; "auto" then means "low_rank".
    must_be_exact : bool
        Whether "auto" may not approximate: a factor is certified for the largest evidence only, not for
        other criteria, given noise ratios, priors or averages.
    indefinite : {"refuse", "flip", "clip"}
        What becomes of negative eigenvalues. Factors do not see them, so that the last two need the matrix.
    """

    method: str = "auto"
    rank: int | None = None
    selection: str = "pivots"
    must_be_exact: bool = False
    indefinite: str = "refuse"

    @property
    def may_repair(self):
        """Whether an indefinite kernel matrix is repaired instead of refused."""
        return self.indefinite != "refuse"

    def check(self, n):
        """Refuse a rank that n rows cannot have, and a matrix that LAPACK cannot decompose."""
        if self.rank is not None and self.method != "exact" and self.rank > n:
            raise ValueError(
                f"rank={self.rank} is larger than the number of rows, {n}. Use rank <= {n} or rank=None."
            )
        if self.may_repair and (self.method == "low_rank" or self.rank or self.selection == "greedy"):
            raise ValueError(
                f"indefinite={self.indefinite!r} replaces eigenvalues of the kernel matrix, which factors do "
                "not show. Use method='auto' or 'exact' with rank=None and selection='pivots', or "
                "indefinite='refuse'."
            )
        if (self.method == "exact" or self.may_repair) and n > LARGEST_DENSE:
            raise ValueError(
                f"method='exact' decomposes a matrix of {n} rows, but LAPACK's workspace is counted in 32 "
                f"bits, which ends at about {LARGEST_DENSE} rows. Use method='low_rank' or 'auto'."
            )

    def route(self, n):
        """Return what stands for a kernel matrix of n rows."""
        if self.method == "exact" or self.may_repair:
            return Route.EXACT
        if self.selection == "greedy":
            return Route.GREEDY
        if self.rank is not None:
            return Route.OF_RANK
        if self.method == "low_rank":
            return Route.CERTIFIED
        if not _fits_in_memory(n):
            return Route.BEYOND_MEMORY
        return Route.EXACT if self.must_be_exact or n < SMALLEST_N else Route.CERTIFIED_OR_EXACT

    def looks_at_targets(self, n):
        """Return whether the decomposition depends on the targets: on how exact it must be for them."""
        return self.route(n) in (Route.GREEDY, Route.CERTIFIED, Route.CERTIFIED_OR_EXACT)

    def factor_rank(self, n):
        """Return the largest rank that a factor of n rows may have."""
        return min(n, self.rank or (_RANK_BEYOND_MEMORY if self.route(n) is Route.BEYOND_MEMORY else n))

    def takes_exact_features(self, n_features):
        """Return whether K = Phi Phi' with so many exact features needs no other factor."""
        if self.method == "exact":
            return True
        return self.selection != "greedy" and (self.rank is None or self.rank >= n_features)

    @property
    def forces_factors(self):
        """Whether no step of learning may form the kernel matrix."""
        return self.method == "low_rank"

    def may_use_factors(self, n):
        """Return whether steps of learning on n rows use factors where these are exact to tolerance."""
        return self.forces_factors or (self.method == "auto" and n >= SMALLEST_N)

    def for_rows(self, n):
        """Return the plan for some of the rows."""
        return self if self.rank is None else replace(self, rank=min(self.rank, n))

    def for_learning(self):
        """Return the plan of learning: rows chosen by the kernel alone, no indefinite matrices."""
        return replace(self, selection="pivots", indefinite="refuse")


def _fits_in_memory(n):
    """Return whether a dense decomposition of n rows fits: three n x n arrays, and LAPACK's 32-bit sizes."""
    if n > LARGEST_DENSE:
        return False
    return 3.5 * 8.0 * n**2 < physical_memory()
