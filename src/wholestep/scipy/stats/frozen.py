"""SciPy's distributions with plain parameters, made outside of a trace, whose methods are given traced arrays."""

from __future__ import annotations

from typing import Any

import scipy.stats

from wholestep.frontend.dispatch import EVALUATED, unsupported
from wholestep.scipy.stats.family import Family, FrozenDistribution
from wholestep.scipy.stats.multivariate import dirichlet, multinomial, multivariate_normal


def of_numbers(frozen: Any) -> FrozenDistribution:
    """A distribution of numbers; raises UnsupportedError for one that is not covered, or not SciPy's own."""
    name = str(frozen.dist.name)
    family = FAMILIES.get(name)
    if family is None or type(family.outside) is not type(frozen.dist):
        raise unsupported(f"scipy.stats.{name}")
    return FrozenDistribution(family, frozen.args, frozen.kwds)


def of_normal_vectors(frozen: Any) -> FrozenDistribution:
    """A normal distribution of vectors."""
    options = {"allow_singular": True} if frozen.allow_singular else {}
    return FrozenDistribution(multivariate_normal, (frozen.mean, frozen.cov_object.covariance), options)


FAMILIES: dict[str, Family] = {}
"""The distributions of numbers by SciPy's names; entered by the package."""

EVALUATED.update(
    {
        type(scipy.stats.norm()): of_numbers,
        type(scipy.stats.poisson(1)): of_numbers,
        type(scipy.stats.multivariate_normal([0.0])): of_normal_vectors,
        type(scipy.stats.dirichlet([1.0, 1.0])): lambda frozen: FrozenDistribution(dirichlet, (frozen.alpha,), {}),
        type(scipy.stats.multinomial(1, [1.0])): lambda frozen: FrozenDistribution(
            multinomial, (frozen.n, frozen.p), {}
        ),
    }
)
