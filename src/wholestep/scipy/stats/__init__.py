"""scipy.stats: distributions whose densities, probabilities and moments differentiate, and numbers of samples."""

# ruff: noqa: I001
# fmt: off
import scipy.stats

from wholestep.frontend.dispatch import REPLACED
from wholestep.scipy.stats.continuous import (
    beta as beta, cauchy as cauchy, chi2 as chi2, expon as expon, gamma as gamma, laplace as laplace,
    logistic as logistic, lognorm as lognorm, norm as norm, t as t, uniform as uniform,
)
from wholestep.scipy.stats.density import gaussian_kde as gaussian_kde
from wholestep.scipy.stats.descriptive import (
    entropy as entropy, gmean as gmean, hmean as hmean, iqr as iqr, kurtosis as kurtosis, moment as moment, sem as sem,
    skew as skew, variation as variation, zscore as zscore,
)
from wholestep.scipy.stats.discrete import (
    bernoulli as bernoulli, betabinom as betabinom, binom as binom, geom as geom, nbinom as nbinom, poisson as poisson,
)
from wholestep.scipy.stats.extremes import (
    gumbel_l as gumbel_l, gumbel_r as gumbel_r, halfnorm as halfnorm, pareto as pareto, rayleigh as rayleigh,
    weibull_max as weibull_max, weibull_min as weibull_min,
)
from wholestep.scipy.stats.multivariate import (
    Multivariate, dirichlet as dirichlet, multinomial as multinomial, multivariate_normal as multivariate_normal,
)
from wholestep.scipy.stats.ranks import mode as mode, pearsonr as pearsonr, rankdata as rankdata, spearmanr as spearmanr
from wholestep.scipy.stats.shaped import (
    f as f, gennorm as gennorm, halfcauchy as halfcauchy, invgamma as invgamma, skewnorm as skewnorm,
    truncnorm as truncnorm, vonmises as vonmises, wrapcauchy as wrapcauchy,
)
from wholestep.scipy.stats.family import Family
from wholestep.scipy.stats.frozen import FAMILIES
# fmt: on

FAMILIES.update({name: found for name, found in globals().items() if isinstance(found, Family)})

REPLACED.update(
    {getattr(scipy.stats, name): found for name, found in globals().items() if isinstance(found, Family | Multivariate)}
)
globals().update(__all__=[name for name in scipy.stats.__all__ if name in globals()])
