"""Likelihoods: log p(y|f) of a target given its latent value, with derivatives and predictions.

Notation
--------
y is a target, f its latent value, and all functions are elementwise in arrays of both. Primes are derivatives
by f, W = -(log p)'' is the curvature, e = log of a likelihood's own parameter:

======================  ==========================================================================
log_density             log p(y|f), normalised in y
derivatives             (log p)', (log p)'', (log p)'''
parameter_derivatives   by e: log p, (log p)', (log p)''
step_curvature          a curvature that is never negative, for steps towards the mode
predictive_*            mean, variance, distribution function, quantiles, log density of y when
                        f ~ N(mean, var) is all that is known
======================  ==========================================================================

The seven
---------
===========  =================  ==================================  ===========  ===================
likelihood   targets            p(y|f), r = (y - f)/scale           log-concave  own parameters
===========  =================  ==================================  ===========  ===================
gaussian     real numbers       exp(-r^2/2)                         yes          noise_var = scale^2
student_t    real numbers       (1 + r^2/dof)^(-(dof+1)/2)          no           scale, dof
laplace      real numbers       exp(-|r|), tip rounded              yes          scale
huber        real numbers       exp(-Huber's loss of r)             yes          scale
poisson      counts             exp(y f - exp(f))/y!                yes
bernoulli    0, 1               1/(1 + exp(-+f)), or probit         yes
categorical  0, ..., C - 1      softmax(f)_y, f of C entries        yes
===========  =================  ==================================  ===========  ===================

Parameters are learned as logarithms (`theta`) within `bounds`; bounds of "fixed" keep a parameter. A scale
that is not given is chosen from the targets by `starting`. Sample weights are powers of the likelihood: who
calls multiplies log p and all its derivatives. One's own likelihood is a subclass of `Likelihood`, whose
docstring has an example.
"""

from .bernoulli import Bernoulli
from .categorical import Categorical, SoftmaxDerivatives
from .gaussian import Gaussian
from .huber import Huber
from .laplace import Laplace
from .poisson import Poisson
from .protocol import Derivatives, Likelihood, ParameterDerivatives
from .student_t import StudentT

__all__ = [
    "Bernoulli",
    "Categorical",
    "Derivatives",
    "Gaussian",
    "Huber",
    "Laplace",
    "Likelihood",
    "ParameterDerivatives",
    "Poisson",
    "SoftmaxDerivatives",
    "StudentT",
    "make_likelihood",
]

# What users call them; models take the names from here.
BY_NAME: dict[str, type[Likelihood]] = {
    "bernoulli": Bernoulli,
    "categorical": Categorical,
    "gaussian": Gaussian,
    "huber": Huber,
    "laplace": Laplace,
    "poisson": Poisson,
    "student_t": StudentT,
}


def make_likelihood(likelihood):
    """Return the likelihood of a name with its default parameters, or the given instance itself.

    Parameters
    ----------
    likelihood : str or Likelihood
        "gaussian", "student_t", "laplace", "huber", "poisson", "bernoulli", "categorical", or an instance.

    Examples
    --------
    >>> from skspectral.likelihoods import make_likelihood
    >>> make_likelihood("bernoulli")
    Bernoulli(link='logistic')
    """
    if isinstance(likelihood, Likelihood):
        return likelihood
    if not isinstance(likelihood, str) or likelihood not in BY_NAME:
        raise ValueError(
            f"likelihood must be one of {sorted(BY_NAME)} or an instance of Likelihood, got {likelihood!r}."
        )
    return BY_NAME[likelihood]()
