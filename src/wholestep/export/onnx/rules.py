"""Functions in graph words that ONNX lacks: by exponentials and logarithms, without loss near their zeros."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.export.rules.random_words import like
from wholestep.ir.graph import Value
from wholestep.primitives.arithmetic import abs as absolute, maximum, minimum
from wholestep.primitives.family import ones
from wholestep.primitives.functions import exp, expm1, log, log1p
from wholestep.primitives.logic import equal, isfinite, less, select


def real_only(f: Callable[..., Value]) -> Rule:
    """A rule that does not hold for complex numbers."""

    def rule(*xs: Value) -> Value | None:
        return None if dtypes.is_complex(xs[0].dtype) else f(*xs)

    return rule


def logarithm_of_more(x: Value) -> Value:
    """log(1 + x) as log(u) x / (u - 1), in which the rounding of u = 1 + x cancels."""
    u = 1 + x
    same = equal(u, ones(x.type))
    usual = isfinite(u) & ~same
    safe = select(usual, u, like(x, 2.0))
    found: Value = select(usual, log(safe) * (x / (safe - 1)), select(same, x, log(u)))
    return found


def exponential_less_one(x: Value) -> Value:
    """exp(x) - 1 as (u - 1) x / log(u), in which the rounding of u = exp(x) cancels."""
    u = exp(x)
    same, away = equal(u, ones(x.type)), less(like(x, 0.5), absolute(x))
    safe = select(same | away, like(x, 2.0), u)
    near = (safe - 1) * (x / log(safe))
    found: Value = select(away, u - 1, select(same, x, near))
    return found


def scaled_logarithm(factor: float) -> Rule:
    """A logarithm to another base."""
    return real_only(lambda x: log(x) * factor)


def log_of_sigmoid(x: Value) -> Value:
    """min(x, 0) - log(1 + exp(-|x|))."""
    found: Value = minimum(x, like(x, 0.0)) - log1p(exp(-absolute(x)))
    return found


def logarithm_of_sum(x: Value, y: Value) -> Value:
    """max + log(1 + exp(-|difference|)); of infinities that are the same, those."""
    same = equal(x, y)
    rest = log1p(exp(-absolute(select(same, like(x, 0.0), x - y))))
    found: Value = maximum(x, y) + rest
    return found


def hyperbolic_sine(x: Value) -> Value:
    """(e + e / (e + 1)) / 2 with e = expm1(x)."""
    size = absolute(x)
    e = expm1(minimum(size, like(x, 20.0)))
    near = (e + e / (e + 1)) / 2
    half = exp(size / 2)
    found = select(less(like(x, 20.0), size), half * (half / 2), near)
    return select(less(x, like(x, 0.0)), -found, found)


def hyperbolic_cosine(x: Value) -> Value:
    """(exp(x) + exp(-x)) / 2, in halves that do not overflow before it does."""
    half = exp(absolute(x) / 2)
    found: Value = half * (half / 2) + exp(-absolute(x)) / 2
    return found


ONNX_RULES: Mapping[str, Rule] = {
    "log1p": real_only(logarithm_of_more),
    "expm1": real_only(exponential_less_one),
    "exp2": real_only(lambda x: exp(x * math.log(2))),
    "log2": scaled_logarithm(1 / math.log(2)),
    "log10": scaled_logarithm(1 / math.log(10)),
    "log_expit": real_only(log_of_sigmoid),
    "logaddexp": real_only(logarithm_of_sum),
    "sinh": real_only(hyperbolic_sine),
    "cosh": real_only(hyperbolic_cosine),
}
"""Rules for ONNX."""
