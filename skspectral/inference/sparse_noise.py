"""What is known of the noise, and what a function would do to the evidence then.

See `sparse` for the letters.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

__all__ = ["KnownNoise", "Outlook", "ProfiledNoise", "Prospect", "TooLittleNoise"]

# Smallest y'C^-1 y relative to y'y: below it is rounding, and the data count as free of noise.
_NOISE_FREE = 1e-12


@dataclass(frozen=True)
class Outlook:
    """What each function would do, the others as they are.

    Attributes
    ----------
    d : ndarray of shape (k,)
        Its best prior variance.
    gain : ndarray of shape (k,)
        How much lower -2 log evidence would be there.
    relevance : ndarray of shape (k,)
        Above 1 where the function belongs to the model.
    worth : ndarray of shape (k,) or float
        How much higher -2 log evidence would be without it.
    """

    d: np.ndarray
    gain: np.ndarray
    relevance: np.ndarray
    worth: np.ndarray | float


class Prospect(NamedTuple):
    """What one function would do that is not active: as `Outlook`, in plain numbers, which take less time."""

    d: float
    gain: float
    relevance: float


@dataclass(frozen=True)
class ProfiledNoise:
    """The noise variance is the best one, y'C^-1 y/n, whatever the prior variances are."""

    n: int

    def value(self, active):
        """Return n log(y'C^-1 y/n) + log|C|: -2 log evidence up to a constant."""
        return self.n * math.log(self._rest(active) / self.n) + active.log_det

    def outlook(self, active, s, q, rest, d):
        """Return what functions would do that have s, q and rest without them, and d now; None for 0."""
        floor = self._floor(active)
        rest = np.maximum(rest, floor)
        share = np.minimum(_explained(s, q), rest - 0.5 * floor) / rest
        u = np.maximum((self.n * share - 1.0) / (1.0 - share), 0.0)
        worth = 0.0 if d is None else self._drop(d * s, share)
        return Outlook(u / _divisor(s), self._drop(u, share) - worth, self.n * share, worth)

    def prospect(self, active, s, q):
        """Return what a function would do that has s and q and is not active."""
        floor, rest = self._floor(active), self._rest(active)
        share = min(q * q / s, rest - 0.5 * floor) / rest if s > 0 else 0.0
        u = max((self.n * share - 1.0) / (1.0 - share), 0.0)
        gain = (self.n - 1) * math.log1p(u) - self.n * math.log1p((1.0 - share) * u)
        return Prospect(u / s if u else 0.0, gain, self.n * share)

    def belong(self, members):
        """Return which active functions belong to the model, without a division.

        With u their undetermined shares and p = d Q^2 this is n p > (1 - u)(u rest + p).
        """
        share, power = members.undetermined, members.pull**2
        return (self.n * power > (1.0 - share) * (share * self._rest(members) + power)) & (share < 1.0)

    def _drop(self, u, share):
        return (self.n - 1) * np.log1p(u) - self.n * np.log1p((1.0 - share) * u)

    def slope(self, active):
        """Return the factor of Q^2 in d value/dd = S - factor Q^2."""
        return self.n / self._rest(active)

    def bend(self, active):
        """Return the factor of -Q_i^2 Q_j^2 in the second derivatives."""
        return self.n / self._rest(active) ** 2

    def variance(self, active):
        """Return the noise variance."""
        return self._rest(active) / self.n

    def _floor(self, active):
        return max(_NOISE_FREE * active.yy, 1e-100)  # 0 targets are no reason to divide by 0

    def _rest(self, active):
        return max(active.rest, self._floor(active))


@dataclass(frozen=True)
class KnownNoise:
    """The noise variance is given."""

    v: float = 1.0

    def value(self, active):
        """Return y'C^-1 y/v + log|C|: -2 log evidence up to a constant."""
        return active.rest / self.v + active.log_det

    def outlook(self, active, s, q, rest, d):
        """Return what functions would do that have s and q without them, and d now; None for 0."""
        e = _explained(s, q) / self.v
        u = np.maximum(e - 1.0, 0.0)
        worth = 0.0 if d is None else _drop_known(d * s, e)
        return Outlook(u / _divisor(s), _drop_known(u, e) - worth, e, worth)

    def prospect(self, active, s, q):
        """Return what a function would do that has s and q and is not active."""
        return _prospect_known(s, q * q / (s * self.v) if s > 0 else 0.0)

    def belong(self, members):
        """Return which active functions belong to the model: those with d Q^2 > v (1 - u) u."""
        share = members.undetermined
        return (members.pull**2 > self.v * (1.0 - share) * share) & (share < 1.0)

    def slope(self, active):
        """Return the factor of Q^2 in d value/dd = S - factor Q^2."""
        return 1.0 / self.v

    def bend(self, active):
        """Return the factor of -Q_i^2 Q_j^2 in the second derivatives: none."""
        return 0.0

    def variance(self, active):
        """Return the noise variance."""
        return self.v


@dataclass(frozen=True)
class TooLittleNoise:
    """The noise variance is a share of the best one: functions look more relevant than they are."""

    n: int
    share: float

    def value(self, active):
        """Return what a noise variance at its best would make of -2 log evidence."""
        return self._best.value(active)

    @cached_property
    def _best(self):
        return ProfiledNoise(self.n)

    def prospect(self, active, s, q):
        """Return what a function would do that has s and q and is not active."""
        e = q * q / (s * self.share * self._best.variance(active)) if s > 0 else 0.0
        return _prospect_known(s, e)


def _explained(s, q):
    """Return q^2/s, 0 where s is 0."""
    return np.where(s > 0, q * q, 0.0) / _divisor(s)


def _divisor(s):
    """Return an s that can be divided by."""
    return np.where(s > 0, s, 1.0)


def _prospect_known(s, e):
    u = max(e - 1.0, 0.0)
    return Prospect(u / s if u else 0.0, e * u / (1.0 + u) - math.log1p(u), e)


def _drop_known(u, e):
    return e * u / (1.0 + u) - np.log1p(u)
