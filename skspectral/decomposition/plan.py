"""Exact, or a factor, and of which rank: decided here and nowhere else.

The rule of "auto", from cost and memory alone, so that the same rows take the same route on every machine
that has the memory:

1. below `SMALLEST_N` rows the matrix itself, which is as fast as anything;
2. a factor that is certified to give the log evidence, where one of small rank exists;
3. the matrix itself up to `LARGEST_AFFORDABLE` rows, where a step of learning, O(n^3), takes a minute on two
   cores, if about 3.5 matrices fit in memory;
4. else a factor. Steps of learning have the largest rank at which one of them, about 5 n r^2 flops, takes ten
   seconds on two cores. The factor of the end, which is made once, has twice that rank, or less where four
   arrays n x r would take more than half of the memory. `LowRankWarning` tells its rank, and how far the log
   evidence can be off.

Where the likelihood couples the rows (noise that changes), a step on the matrix takes 25 n^3 flops and ten
matrices, one on a factor about 20 n r^3; the same rule then has other numbers.
"""

from dataclasses import dataclass, replace
from enum import Enum

from ..support.memory import check_fits, physical_memory

__all__ = ["LARGEST_AFFORDABLE", "LARGEST_DENSE", "SMALLEST_N", "Plan", "Route"]

# LAPACK's workspace 1 + 6n + 2n^2 must be counted in 32 bits.
LARGEST_DENSE = 32_000
# Rows up to which "auto" decomposes the matrix itself.
LARGEST_AFFORDABLE = 12_000
# Flops of a step of learning on a factor: what ten seconds on two cores hold, and for each entry of n r^2.
_AFFORDABLE_FLOPS, _FLOPS_OF_FACTOR = 3e11, 5.0
# The same where the likelihood couples the rows, and its n r^3.
LARGEST_COUPLED, _FLOPS_OF_COUPLED = 5_000, 20.0
# Rank of an affordable factor in units of the rank during learning.
_LAST_RANK = 2
# Arrays of the size of K, of K where rows are coupled, and of a factor, that live at once.
_MATRICES, _COUPLED_MATRICES, _FACTORS = 3.5, 10.0, 4.0
# Fewest rows at which "auto" looks for a factor: below, the dense route is as fast.
SMALLEST_N = 1000


class Route(Enum):
    """What stands for the kernel matrix."""

    EXACT = "the matrix itself"
    OF_RANK = "a factor of given rank"
    GREEDY = "a factor of rows that explain the targets"
    CERTIFIED = "the smallest factor that is certified to give the evidence"
    CERTIFIED_OR_EXACT = "such a factor where it is small, else the matrix itself"
    AFFORDABLE = "the largest factor that is affordable, because the matrix itself is not"


@dataclass(frozen=True)
class Plan:
    """How a kernel matrix is decomposed.

    Attributes
    ----------
    method : {"auto", "exact", "low_rank"}
        "exact" forms K. "low_rank" never does: the factor has the given rank, or else the smallest one at
        which the log evidence is certified. "auto" follows the rule of this module's docstring.
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
    couples_rows : bool
        Whether the likelihood couples the rows, which makes steps dearer.
    keeps_rows : bool
        Whether landmarks must be rows in steps of learning, because other landmarks are chosen in the end.
    """

    method: str = "auto"
    rank: int | None = None
    selection: str = "pivots"
    must_be_exact: bool = False
    indefinite: str = "refuse"
    couples_rows: bool = False
    keeps_rows: bool = False

    @property
    def may_move(self):
        """Whether learning may move landmarks: those of a factor of given rank, which has them in the end."""
        return self.rank is not None and not self.keeps_rows

    @property
    def may_repair(self):
        """Whether an indefinite kernel matrix is repaired instead of refused."""
        return self.indefinite != "refuse"

    def check(self, n):
        """Refuse a rank that n rows cannot have, and what LAPACK or the memory cannot hold."""
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
        if self.route(n) is Route.EXACT:
            advice = "Use method='low_rank' or 'auto', or fewer rows."
            needed = _bytes_of_matrices(n, self._n_matrices)
            check_fits(needed, f"The decomposition of a kernel matrix of {n} rows", advice)
        elif self.rank is not None:
            what = f"A factor of {n} rows and rank {self.rank}"
            check_fits(_bytes_of_factors(n, self.rank), what, "Use a smaller rank, or fewer rows.")

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
        is_dear = n > self._largest_affordable and not self.must_be_exact
        if is_dear or not _fits_in_memory(n, self._n_matrices):
            return Route.AFFORDABLE
        return Route.EXACT if self.must_be_exact or n < SMALLEST_N else Route.CERTIFIED_OR_EXACT

    def looks_at_targets(self, n):
        """Return whether the decomposition depends on the targets: on how exact it must be for them."""
        return self.route(n) not in (Route.EXACT, Route.OF_RANK)

    def factor_rank(self, n):
        """Return the largest rank that a factor of n rows may have."""
        return min(n, self.rank or (self._affordable_rank(n) if self.route(n) is Route.AFFORDABLE else n))

    def learning_rank(self, n):
        """Return the largest rank that a factor of n rows may have in steps of learning."""
        last = self.factor_rank(n)
        return max(1, last // self._last_rank) if self.route(n) is Route.AFFORDABLE else last

    def has_given_rank(self, n):
        """Return whether a factor of n rows has a rank that no certificate has asked for.

        Then learning and tuning maximise what such a factor is certain of, the lower bound of the evidence.
        """
        return self.route(n) in (Route.OF_RANK, Route.AFFORDABLE)

    def flops_of_step(self, n):
        """Return about how many flops a step of learning on n rows takes, at most."""
        if self.has_given_rank(n):
            return _FLOPS_OF_FACTOR * n * self.learning_rank(n) ** 2
        return float(n) ** 3

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
        """Return the plan for some of the rows: their matrix where a factor would be about as large."""
        if self.rank is None:
            return self
        if self.selection == "pivots" and 2 * self.rank >= n:
            return replace(self, method="exact", rank=None)
        return replace(self, rank=min(self.rank, n))

    def for_learning(self):
        """Return the plan of learning: rows chosen by the kernel alone, no indefinite matrices."""
        keeps_rows = self.keeps_rows or self.selection == "greedy"
        return replace(self, selection="pivots", indefinite="refuse", keeps_rows=keeps_rows)

    @property
    def _largest_affordable(self):
        return LARGEST_COUPLED if self.couples_rows else LARGEST_AFFORDABLE

    @property
    def _last_rank(self):
        return 1 if self.couples_rows else _LAST_RANK

    @property
    def _n_matrices(self):
        return _COUPLED_MATRICES if self.couples_rows else _MATRICES

    def _affordable_rank(self, n):
        """Return the largest rank at which learning on n rows is affordable, in time and in memory."""
        by_memory = 0.5 * physical_memory() / _bytes_of_factors(n, 1)
        return max(1, int(min(self._last_rank * self._rank_of_ten_seconds(n), by_memory)))

    def _rank_of_ten_seconds(self, n):
        if self.couples_rows:
            return (_AFFORDABLE_FLOPS / (_FLOPS_OF_COUPLED * n)) ** (1.0 / 3.0)
        return (_AFFORDABLE_FLOPS / (_FLOPS_OF_FACTOR * n)) ** 0.5


def _fits_in_memory(n, n_matrices):
    """Return whether a dense decomposition of n rows fits in memory and in LAPACK's 32-bit sizes."""
    return n <= LARGEST_DENSE and _bytes_of_matrices(n, n_matrices) < physical_memory()


def _bytes_of_matrices(n, n_matrices):
    return 8.0 * n_matrices * n**2


def _bytes_of_factors(n, rank):
    return 8.0 * _FACTORS * n * rank
