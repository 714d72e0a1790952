"""One case: fine, refused with a reason, or failed; within a time limit."""

import dis
import re
import signal
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning

import skspectral

from .checks import check
from .data import draw_sample
from .models import NEEDS_POSITIVE, draw_model

__all__ = ["Verdict", "draw", "judge"]

_NAMED = tuple(
    kind
    for kind in (getattr(skspectral, name) for name in skspectral.__all__)
    if isinstance(kind, type) and issubclass(kind, Warning)
)


# Time of the clock that a case may take, over its time in this process.
_PATIENCE = 60.0


@dataclass(frozen=True)
class Verdict:
    """What became of a case: "fine", "refused" or "failed", and by which words."""

    kind: str
    words: str = ""
    trace: str = ""


class TooLong(Exception):
    """A case took longer than it may."""


def draw(seed, number):
    """Return the estimator and the sample of a case."""
    rng = np.random.default_rng([seed, number])
    model = draw_model(rng)
    positive = getattr(model, "kernel", None) in NEEDS_POSITIVE
    return model, draw_sample(rng, positive=positive)


def judge(model, sample, rng, seconds):
    """Return the `Verdict` on a case."""
    try:
        with _within(seconds), warnings.catch_warnings():
            _only_named_warnings()
            check(model, sample, rng)
    except Exception as error:
        trace = "".join(traceback.format_exception(error))
        if _is_refusal(error):
            return Verdict("refused", _without_numbers(str(error)), trace)
        return Verdict("failed", f"{type(error).__name__}: {str(error).splitlines()[0][:200]}", trace)
    return Verdict("fine")


def _only_named_warnings():
    """Make every warning an error that is not announced by the package."""
    warnings.simplefilter("error")
    for kind in (*_NAMED, ConvergenceWarning, UndefinedMetricWarning):  # the last: R^2 of folds of one row
        warnings.simplefilter("ignore", kind)
    warnings.filterwarnings("ignore", "One or more of the test scores are non-finite")  # R^2 again


@contextmanager
def _within(seconds):
    stopped = False

    def stop(*_):
        nonlocal stopped
        if not stopped:  # once: the second timer would fall into what cleans up after the first
            stopped = True
            raise TooLong(f"longer than {seconds} s")

    # seconds of this process, so that a busy machine fails nobody; and of the clock, for one that waits
    timers = ((signal.SIGPROF, signal.ITIMER_PROF, 1.0), (signal.SIGALRM, signal.ITIMER_REAL, _PATIENCE))
    before = [signal.signal(number, stop) for number, _, _ in timers]
    for _, timer, factor in timers:
        signal.setitimer(timer, factor * seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def _is_refusal(error):
    """Return whether an error was raised on purpose: a ValueError by a raise of ours or scikit-learn's."""
    if not isinstance(error, ValueError) or isinstance(error, np.linalg.LinAlgError):
        return False
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = frame.f_globals.get("__name__", "").partition(".")[0]
    return module in ("skspectral", "sklearn") and _is_raise(frame)


def _is_raise(frame):
    return frame.f_code.co_code[frame.f_lasti] == dis.opmap["RAISE_VARARGS"]


def _without_numbers(message):
    return re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", "#", message.splitlines()[0])[:160]
