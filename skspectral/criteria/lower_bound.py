"""The lower bound of the evidence that a factor of the kernel matrix is certain of."""

from dataclasses import replace
from functools import partial

import numpy as np

from .evidence import evidence_sensitivity, evidence_terms
from .form import Criterion

__all__ = ["certain_evidence"]


def certain_evidence(tau):
    """Return the criterion whose density is the largest that K = Phi Phi' + E, E >= 0, tr E = tau, must have.

    It is the evidence of Phi Phi' with H(exact) <= H + n log(1 + tau/(n g)) for H (see
    `decomposition.certificate`). Maximising it weighs what the factor explains against what it misses, which
    the evidence of Phi Phi' alone takes for noise.
    """
    terms = partial(_terms, tau=float(tau))
    return Criterion("evidence", terms, evidence_sensitivity, is_density=True)


def _terms(rotated, x, tau):
    terms = evidence_terms(rotated, x)
    n = terms.n
    with np.errstate(over="ignore"):
        missed = tau / max(n, 1) * np.exp(-x)
    share = 1.0 - 1.0 / (1.0 + missed)
    return replace(
        terms,
        H=terms.H + n * np.log1p(missed),
        H1=terms.H1 - n * share,
        H2=terms.H2 + n * share * (1.0 - share),
    )
