"""Lines that tell the user of a long fit how far it is."""

import time

import numpy as np

__all__ = ["Progress"]

# Seconds between lines, unless all of them are wanted.
_INTERVAL = 1.0


class Progress:
    """Prints what a fit has done so far: a line a second, or every line with ``verbose > 1``.

    Parameters
    ----------
    name : str
        Who is speaking.
    verbose : int
        0 prints nothing.
    """

    def __init__(self, name, verbose):
        self.name, self.verbose = name, verbose
        self.last = time.monotonic()

    def __call__(self, *, n_rows, rank, done=None, left=None, gap=None):
        """Tell the rank reached, rows seen of a pass over all of them, and how far it is from the end.

        Parameters
        ----------
        n_rows : int
            All rows.
        rank : int
            Basis functions so far.
        done : int, default=None
            Rows done; None means all.
        left : float, default=None
            Share of the kernel's trace that the basis functions miss.
        gap : float, default=None
            Relative distance to the optimum of the greedy choice.
        """
        now = time.monotonic()
        if not self.verbose or (self.verbose == 1 and now - self.last < _INTERVAL):
            return
        self.last = now
        facts = [f"rows {n_rows}" if done is None else f"rows {done} of {n_rows}", f"rank {rank}"]
        if left is not None:
            facts.append(f"{left:.2g} of the trace left")
        if gap is not None:
            facts.append(f"gap {gap:.2g}")
        self.line(", ".join(facts))

    def step(self, n_rows, step, theta, evaluation):
        """Tell of an outer step of learning: an evaluation of its objective at theta.

        Parameters
        ----------
        n_rows, step : int
            Rows of the level and number of the step.
        theta : ndarray
            Logarithms of the kernel's parameters.
        evaluation : Evaluation
            Objective, variances and rank there.
        """
        parameters, noise, signal = (
            " ".join(f"{v:.4g}" for v in values) for values in (np.exp(theta), *evaluation.variances)
        )
        rank = "" if evaluation.rank is None else f", rank {evaluation.rank}"
        self.line(
            f"rows {n_rows}{rank}, step {step}: objective {evaluation.value:.8g}, parameters {parameters}, "
            f"noise {noise}, signal {signal}"
        )

    def line(self, text):
        """Print a line of its own, unless nothing is wanted."""
        if self.verbose:
            print(f"[{self.name}] {text}", flush=True)
