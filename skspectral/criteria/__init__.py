"""Tuning criteria: pure functions of a `Rotated` and of x = log noise_ratio.

Notation
--------
With eigenvalues s_i (multiplicity c_i), squared rotated targets e_i = y~_i^2 and g = exp(x):

======================  ==============================================================
t = s / g               signal to noise in each direction
v = g / (s + g)         = 1/(1+t), what the smoother leaves as residual
u = s / (s + g)         = 1-v, what it keeps; sum u is the effective degrees of freedom
p = g / (2s + g)        = 1/(1+2t), only in the posterior criterion
======================  ==============================================================

All are functions of x with  v' = u v  and  u' = -u v  (a prime is d/dx), and all are finite at
x = inf, where v = 1: the pure-noise limit is an ordinary evaluation.

One form
--------
Every criterion is, up to a constant,

    f(x) = n log A(x) + H(x)

with a residual energy A and a complexity term H:

============  ====  ====================================  ===========================
criterion     n     A                                     H
============  ====  ====================================  ===========================
evidence      n-q   sum e v                               -sum c log v
posterior     n-q   sum e v p                             sum c (log v - log p)
gcv           1     n sum e v^2                           -2 log sum c v
loo           1     mean r_i^2                            0
loo_lpd       n     sum r_i^2 R_ii                        -sum log R_ii
============  ====  ====================================  ===========================

where R = U diag(v) U' + (projector on the null directions) and r_i = (R y)_i / R_ii is the
leave-one-out residual. In the criteria that are densities, A/n is
the noise variance that maximises the density at that x (the other variance is noise_var / g). Each
module supplies A, H and their first two derivatives (`Terms`); `form.profile` turns them into f, f', f''.

Shapes: x is (k, 1) for k values shared by all outputs, or (k, m) for values of each output's own;
results are (k, m).
"""

from .evidence import evidence_sensitivity, evidence_terms
from .form import Box, Criterion, profile, profile_at_one, value_at
from .gcv import gcv_sensitivity, gcv_terms
from .leave_one_out import (
    UNDETERMINED,
    loo_lpd_sensitivity,
    loo_lpd_terms,
    loo_sensitivity,
    loo_terms,
)
from .posterior import posterior_sensitivity, posterior_terms

__all__ = ["CRITERIA", "UNDETERMINED", "Box", "Criterion", "profile", "profile_at_one", "value_at"]

CRITERIA = {
    c.name: c
    for c in (
        Criterion("evidence", evidence_terms, evidence_sensitivity, is_density=True),
        Criterion("posterior", posterior_terms, posterior_sensitivity, is_density=True, is_unbounded=True),
        Criterion("gcv", gcv_terms, gcv_sensitivity, is_density=False),
        Criterion("loo", loo_terms, loo_sensitivity, is_density=False, needs_rows=True),
        Criterion("loo_lpd", loo_lpd_terms, loo_lpd_sensitivity, is_density=True, needs_rows=True),
    )
}
