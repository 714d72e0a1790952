"""How much memory there is, and whether something fits."""

import os
from functools import cache

import numpy as np

__all__ = ["check_fits", "check_memory", "physical_memory"]

# Square arrays that live at once while a joint distribution is made, beside one for each output.
_TEMPORARIES = 3


@cache
def physical_memory():
    """Return the bytes of memory of this machine, infinity where that is not known."""
    if not hasattr(os, "sysconf"):
        return np.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(n_new, n_outputs):
    """Refuse a joint distribution of new points that does not fit, before anything is allocated."""
    check_fits(
        8.0 * n_new**2 * (_TEMPORARIES + n_outputs),
        f"The joint distribution of {n_new} new points and {n_outputs} output(s)",
        "Use fewer points at a time, or return_std=True, which needs no joint distribution.",
    )


def check_fits(needed, what, advice):
    """Refuse what takes more bytes than there are, saying how many and what to do instead."""
    available = physical_memory()
    if needed > available:
        raise MemoryError(
            f"{what} takes about {needed / 2**30:.3g} GiB, more than the {available / 2**30:.3g} GiB of this "
            f"machine. {advice}"
        )
