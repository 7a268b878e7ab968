"""`ws.random`: random numbers from explicit keys; the same key gives the same bits in every transform and backend.

    key = ws.random.key(0)
    noise, rest = ws.random.split(key)
    x = ws.random.normal(noise, (3, 4))

A function of this module changes nothing: a key used twice gives the same numbers twice. Names and the order of
arguments are those of `jax.random`; floating results are float32, as layers are, unless a dtype is given.
"""

from __future__ import annotations

from typing import Any

from wholestep.boundary.answers import unknown
from wholestep.boundary.public import boundary, published
from wholestep.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    truncated_normal,
    uniform,
)
from wholestep.random.discrete import bernoulli, categorical, choice, permutation, randint
from wholestep.random.keys import bits, fold_in, key, split
from wholestep.random.rejection import beta, chisquare, dirichlet, gamma, poisson, t

__all__ = [
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "gumbel",
    "key",
    "laplace",
    "logistic",
    "normal",
    "permutation",
    "poisson",
    "randint",
    "split",
    "t",
    "truncated_normal",
    "uniform",
]


def __getattr__(name: str) -> Any:
    raise unknown("ws.random", name)


def __dir__() -> list[str]:
    return __all__


globals().update(__getattr__=boundary(__getattr__))
globals().update({name: published(globals()[name]) for name in __all__})
