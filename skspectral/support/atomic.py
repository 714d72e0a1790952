"""A fit that fails or is interrupted leaves the estimator as it was."""

from functools import wraps
from typing import cast

from .types import AnyFunction

__all__ = ["all_or_nothing"]


def all_or_nothing(fit: AnyFunction) -> AnyFunction:
    """Decorate a fit: whatever it raises, an interrupt included, the attributes are those from before."""

    @wraps(fit)
    def whole(self, *args, **kwargs):
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            self.__dict__ = before  # a single assignment, which nothing can interrupt halfway
            raise

    return cast(AnyFunction, whole)
