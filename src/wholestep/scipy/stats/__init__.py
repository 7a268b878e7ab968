"""scipy.stats: distributions whose densities, probabilities and moments differentiate."""

from wholestep.scipy.stats.continuous import (
    beta,
    cauchy,
    chi2,
    expon,
    gamma,
    laplace,
    logistic,
    lognorm,
    norm,
    t,
    uniform,
)
from wholestep.scipy.stats.discrete import bernoulli, binom, poisson
from wholestep.scipy.stats.multivariate import dirichlet, multivariate_normal

__all__ = [
    "bernoulli",
    "beta",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "laplace",
    "logistic",
    "lognorm",
    "multivariate_normal",
    "norm",
    "poisson",
    "t",
    "uniform",
]
