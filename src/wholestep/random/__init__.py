"""`ws.random`: random numbers from explicit keys; a key gives the same random bits in every transform and backend.

    key = ws.random.key(0)
    noise, rest = ws.random.split(key)
    x = ws.random.normal(noise, (3, 4))

A function of this module changes nothing: a key used twice gives the same numbers twice. Numbers that are computed from
the random bits by a logarithm or a power may differ in their last digits between eager and compiled code. Names and the
order of arguments are those of `jax.random`; floating results are float32, as layers are, unless a dtype is given.

A parameter outside of its range raises ParameterError where it is known. In a compiled program a floating number that
is drawn by it is NaN, and so is its derivative; the functions that draw integers or booleans say what they give then.
"""

# ruff: noqa: I001
# fmt: off
from __future__ import annotations

from typing import Any

from wholestep.boundary.answers import unknown
from wholestep.boundary.public import boundary, published
from wholestep.random.circular import vonmises as vonmises
from wholestep.random.continuous import (
    cauchy as cauchy, exponential as exponential, gumbel as gumbel, laplace as laplace, logistic as logistic,
    normal as normal, truncated_normal as truncated_normal, uniform as uniform,
)
from wholestep.random.discrete import (
    bernoulli as bernoulli, categorical as categorical, choice as choice, permutation as permutation,
    rademacher as rademacher, randint as randint,
)
from wholestep.random.counts import binomial as binomial, geometric as geometric, poisson as poisson
from wholestep.random.derived import (
    ball as ball, double_sided_maxwell as double_sided_maxwell, f as f, generalized_normal as generalized_normal,
    multinomial as multinomial, orthogonal as orthogonal, wald as wald,
)
from wholestep.random.keys import bits as bits, fold_in as fold_in, key as key, split as split
from wholestep.random.parametric import (
    lognormal as lognormal, maxwell as maxwell, multivariate_normal as multivariate_normal, pareto as pareto,
    rayleigh as rayleigh, triangular as triangular, weibull_min as weibull_min,
)
from wholestep.random.rejection import (
    beta as beta, chisquare as chisquare, dirichlet as dirichlet, gamma as gamma, loggamma as loggamma, t as t,
)
# fmt: on


def __getattr__(name: str) -> Any:
    raise unknown("ws.random", name)


def __dir__() -> list[str]:
    return NAMES


NAMES = sorted(name for name, x in globals().items() if str(getattr(x, "__module__", "")).startswith(f"{__name__}."))
globals().update(__all__=NAMES, __getattr__=boundary(__getattr__))
globals().update({name: published(globals()[name]) for name in NAMES})
