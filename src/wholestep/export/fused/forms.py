"""Formulas of norms and activations as steps write them, with the derivatives that libraries state beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

from wholestep.ir.graph import Value
from wholestep.primitives.functions import erf, exp, expit, sqrt, tanh
from wholestep.primitives.movement import broadcast
from wholestep.primitives.reduction import spread_back, sum_

Function = Callable[[Value], Value]
"""A function of each number of an array."""


class Form(NamedTuple):
    """A function of each number, as it may be written, and its slope where that is stated beside it."""

    label: str
    write: Function
    slope: Function | None = None
    result_slope: Function | None = None
    """The slope as a function of the result, which is then all that the derivative reads."""


class NormForm(NamedTuple):
    """A norm with a gain and a bias, a gain alone, or neither."""

    parts: int

    def write(self, axes: tuple[int, ...], along: int, x: Value, *rest: Value) -> Value:
        """Mean 0 and variance 1 over axes, then the gain and bias that there are along another one; eps is last."""
        *parts, eps = rest
        return with_gain_and_bias(standardized(x, axes, eps).unit, along, parts)

    def pullback(self, axes: tuple[int, ...], along: int, eps: float, x: Value, *rest: Value) -> Sequence[Value]:
        """The gradients by Ioffe and Szegedy, "Batch normalization" (2015), section 3, by two sums."""
        *parts, g = rest
        _, deviation, unit = standardized(x, axes, eps)
        scale = (parts[0] if parts else 1) / deviation
        gain_gradient, bias_gradient = sum_(g * unit, axes=axes), sum_(g, axes=axes)
        ends = [spread_back(mean_over(v, axes), x.shape, axes) for v in (g, g * unit)]
        gx = spread_back(scale, x.shape, axes) * (g - ends[0] - unit * ends[1])
        return [gx, gain_gradient, bias_gradient][: 1 + self.parts]


def with_gain_and_bias(y: Value, along: int, parts: Sequence[Value]) -> Value:
    """An array times the gain, plus the bias that there are along an axis."""
    for part, apply in zip(parts, (Value.__mul__, Value.__add__), strict=False):
        y = apply(y, broadcast(part, shape=y.shape, axes=(along,)))
    return y


def mean_over(x: Value, axes: tuple[int, ...]) -> Value:
    """The mean over axes."""
    found: Value = sum_(x, axes=axes) / math.prod([x.shape[i] for i in axes])
    return found


class Standardized(NamedTuple):
    """The mean and the deviation of an array over axes, and the array with mean 0 and variance 1."""

    mean: Value
    deviation: Value
    unit: Value


def standardized(x: Value, axes: tuple[int, ...], eps: Any) -> Standardized:
    """An array with mean 0 and variance 1 over axes; eps is added to the variance."""
    mean = mean_over(x, axes)
    centred = x - spread_back(mean, x.shape, axes)
    deviation: Value = sqrt(mean_over(centred * centred, axes) + eps)
    return Standardized(mean, deviation, centred / spread_back(deviation, x.shape, axes))


def gelu_form(share: Function, outer: int) -> Function:
    """One of the orders in which x times half of 1 + a function of x is written."""

    def gelu(x: Value) -> Value:
        up = 1 + share(x)
        return (0.5 * x * up, x * (0.5 * up), 0.5 * (x * up))[outer]

    return gelu


TANH_SHARES: tuple[Function, ...] = (
    lambda x: tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)),
    lambda x: tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))),
)
ERF_SHARES: tuple[Function, ...] = (lambda x: erf(x * 0.5**0.5), lambda x: erf(x / math.sqrt(2)))


def gelu_slope(x: Value) -> Value:
    """The slope of GELU by the normal distribution and its density."""
    share: Value = 0.5 * (1 + erf(x * 0.5**0.5))
    density: Value = (2 * math.pi) ** -0.5 * exp(-0.5 * x * x)
    return share + x * density


def gelu_tanh_slope(x: Value) -> Value:
    """The slope of GELU by tanh from its share alone."""
    share: Value = 0.5 * (1 + TANH_SHARES[0](x))
    found: Value = share + (8 / math.pi) ** 0.5 * share * (1 - share) * (x + 3 * 0.044715 * x * x * x)
    return found


def silu_slope(x: Value) -> Value:
    """The slope of x times its sigmoid."""
    share: Value = expit(x)
    return share * (1 + x * (1 - share))


def attention_label(causal: bool, masked: bool) -> str:
    """The label of a kind of attention."""
    return f"{'masked_' * masked}{'causal_' * causal}attention"


GELUS = [Form("gelu", gelu_form(*form), gelu_slope) for form in product(ERF_SHARES, range(3))]
GELUS += [Form("gelu_tanh", gelu_form(*form), gelu_tanh_slope) for form in product(TANH_SHARES, range(3))]
FORMS: dict[str, tuple[Form, ...]] = {
    "mul": (*GELUS, Form("silu", lambda x: x * expit(x), silu_slope)),
    "div": (Form("silu", lambda x: x / (1 + exp(-x))),),
    "expit": (Form("sigmoid", expit, result_slope=lambda y: y * (1 - y)),),
    "tanh": (Form("tanh", tanh, result_slope=lambda y: 1 - y * y),),
}
"""The forms of activations by their last operations."""
NORM_FORMS = {"add": (NormForm(2),), "mul": (NormForm(1),), "div": (NormForm(0),)}
"""The forms of norms by their last operations."""
ATTENTIONS = tuple(
    [(attention_label(causal, masked), causal, masked) for causal in (False, True) for masked in (False, True)]
)
"""The kinds of attention: (label, whether queries see keys up to their own, whether there is another mask)."""
