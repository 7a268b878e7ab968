"""Integrals of functions: adaptive ones, whose intervals a loop of the program halves, or by a rule of fixed nodes.

The intervals are found without a derivative. The sum over them, a rule at nodes that move with the limits, is then an
ordinary program: it differentiates in the limits and in all values that the function reads, in every mode and order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
import scipy.integrate

from wholestep.errors import DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.batching import vmap
from wholestep.frontend.control import while_loop
from wholestep.frontend.dispatch import REPLACED
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import inexact_array, lift
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import scope
from wholestep.frontend.transposition import hoisted
from wholestep.scipy.outside import np

outside: Any = scipy.integrate

NODES = (
    0.9956571630258081,
    0.9739065285171717,
    0.9301574913557082,
    0.8650633666889845,
    0.7808177265864169,
    0.6794095682990244,
    0.5627571346686047,
    0.4333953941292472,
    0.2943928627014602,
    0.1488743389816312,
    0.0,
)
"""The places of Kronrod's rule with 21 points in [0, 1], every second one of Gauss's with 10."""
KRONROD = (
    0.0116946388673719,
    0.0325581623079647,
    0.0547558965743520,
    0.0750396748109199,
    0.0931254545836976,
    0.1093871588022976,
    0.1234919762620659,
    0.1347092173114733,
    0.1427759385770601,
    0.1477391049013385,
    0.1494455540029169,
)
GAUSS = (0.0666713443086881, 0.1494513491505806, 0.2190863625159820, 0.2692667193099964, 0.2955242247147529)


def whole_rule() -> tuple[Any, Any, Any]:
    """Places in [-1, 1], and the weights of both rules there."""
    x, k = numpy.array(NODES), numpy.array(KRONROD)
    g = numpy.zeros(11)
    g[1::2] = GAUSS
    return numpy.concatenate([-x, x[-2::-1]]), numpy.concatenate([k, k[-2::-1]]), numpy.concatenate([g, g[-2::-1]])


class Halving(NamedTuple):
    """The accuracy that an integral is to have, and the number of pieces that it may take."""

    epsabs: Any
    epsrel: Any
    limit: int

    def pieces(self, f: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
        """The starts and widths of pieces of [0, 1], those not needed of width 0, and the sum of their errors."""
        places, weights, few = whole_rule()

        def of_pieces(starts: Any, widths: Any) -> tuple[Any, Any]:
            at = starts[:, None] + widths[:, None] * (places + 1) / 2
            values = f(at) * (widths[:, None] / 2)
            whole = values @ weights
            return whole, np.abs(whole - values @ few)

        def going(carry: Any) -> Any:
            _, _, wholes, errors, count = carry
            allowed = np.maximum(self.epsabs, self.epsrel * np.abs(np.sum(wholes)))
            return (np.sum(errors) > allowed) & (count < self.limit)

        def body(carry: Any) -> Any:
            starts, widths, wholes, errors, count = carry
            worst = np.argmax(errors)
            half = widths[worst] / 2
            pair = np.stack([starts[worst], starts[worst] + half])
            made, off = of_pieces(pair, np.stack([half, half]))
            here, free = (np.arange(self.limit) == i for i in (worst, count))
            columns = ((starts, pair), (widths, (half, half)), (wholes, made), (errors, off))
            changed = [np.where(here, new[0], np.where(free, new[1], old)) for old, new in columns]
            return (*changed, count + 1)

        first = np.arange(self.limit) == 0
        whole, off = of_pieces(np.zeros(1), np.ones(1))
        start = [0.0 * first, 1.0 * first, np.where(first, whole, 0), np.where(first, off, 0), np.int64(1)]
        starts, widths, _, errors, _ = while_loop(going, body, tuple([lift(x) for x in start]))
        return starts, widths, np.sum(errors)


def unit_interval(f: Callable[[Any], Any], a: Any, b: Any) -> Callable[[Any], Any]:
    """f times the slope of a change of its argument that takes [0, 1] to the limits; plain ones may be infinite.

    A half line is a + (1 - u) / u, as in QUADPACK, and the whole line both of its halves from 0.
    """
    infinite = [isinstance(x, float) and math.isinf(x) for x in (a, b)]
    if infinite == [False, False]:
        return lambda u: f(a + (b - a) * u) * (b - a)
    if infinite == [True, True]:
        if a == b:
            return lambda u: 0 * u
        way = 1.0 if b > a else -1.0
        return lambda u: way * (f((1 - u) / u) + f(-(1 - u) / u)) / (u * u)
    finite, end, sign = (a, b, 1.0) if infinite[1] else (b, a, -1.0)
    way = 1.0 if end > 0 else -1.0
    return lambda u: sign * way * f(finite + way * (1 - u) / u) / (u * u)


def limit_of(what: str, x: Any) -> Any:
    """A limit: a plain infinity as it is, anything else a real number in float64."""
    if isinstance(x, float | int | numpy.floating) and math.isinf(x):
        return float(x)
    made = inexact_array(x)
    if made.ndim or made.dtype.kind == "c":
        raise (DtypeError if made.dtype.kind == "c" else ShapeError)(f"quad: {what} is {made.type}, not a real number")
    return Array(made.value, True).astype(np.float64)


OTHERWISE = {
    "full_output": "leave it out",
    "points": "add up the integrals between the points",
    "complex_func": "integrate the real and the imaginary part",
    **dict.fromkeys(("weight", "wvar", "wopts"), "write the weight into the function"),
}
"""The hints for options that are not covered."""


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    full_output: Any = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    **others: Any,
) -> tuple[Any, Any]:
    """The integral of `func(x, *args)` from a to b, and an estimate of its error: by Gauss and Kronrod's rule.

    The piece with the largest error is halved until the sum of errors is at most `epsabs` or `epsrel` times the
    integral, or there are `limit` pieces; it is larger then, and the second result is the only sign of it. An error is
    the distance of the integral by 21 places from that by 10, which is much larger than the error of the first where
    the function is smooth, and may be smaller beside a kink; QUADPACK, which scales it down and extrapolates beside
    singularities, takes fewer places. A plain infinite limit is that of a half line.
    The integral differentiates in a, b, args and all values that func reads, on the pieces found for its value, so that
    derivatives that are less smooth are less accurate. The program evaluates func at `21 * limit` places at once.

    Shapes: a, b real numbers; func gives a real number for one; both results are float64.
    Raises: UnsupportedError for points, weights, complex functions and full output, ShapeError or DtypeError for limits
    and functions that do not fit.
    Source: Piessens et al., "QUADPACK", 1983, for the rule and the halves of lines.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.integrate import quad
    >>> gamma = lambda s: quad(lambda x: x ** (s - 1) * np.exp(-x), 0, np.inf)[0]
    >>> round(float(gamma(3.5)), 8), round(float(ws.grad(gamma)(3.5)), 6)
    (3.32335097, 3.667183)
    """
    for option, value in {"full_output": full_output, **others}.items():
        if option not in (*OTHERWISE, "maxp1", "limlst"):
            raise TypeError(f"quad() got an unexpected keyword argument {option!r}")
        if option in OTHERWISE and not (value is None or (isinstance(value, int) and not value)):
            raise UnsupportedError(f"quad: {option}= is not covered", hint=OTHERWISE[option])
    if limit < 1:
        raise ParameterError(f"quad: limit is {limit}, which must be at least 1")
    with scope("quad") as work:
        low, high = limit_of("a", a), limit_of("b", b)
        rest = args if isinstance(args, tuple) else (args,)

        def value(x: Any) -> Any:
            made = lift(ordinary(func)(x, *rest))
            if made.ndim or made.dtype.kind == "c":
                raise ShapeError(f"quad: the function gives {made.type}, and not a real number")
            return Array(made.value, True).astype(np.float64)

        each, closed = hoisted(value, "quad", Array(lift(np.float64(0.5)).value, True))

        def by_places(low: Any, high: Any, read: Any) -> Callable[[Any], Any]:
            return unit_interval(vmap(vmap(lambda x: each(x, *read))), low, high)

        fixed = [x if isinstance(x, float) else stop_gradient(x) for x in (low, high)]
        still = by_places(fixed[0], fixed[1], stop_gradient(closed))
        starts, widths, error = Halving(epsabs, epsrel, limit).pieces(still)
        starts, widths = stop_gradient(starts), stop_gradient(widths)
        places, weights, _ = whole_rule()
        used = (widths > 0)[:, None]
        at = np.where(used, starts[:, None] + widths[:, None] * (places + 1) / 2, 0.5)
        values = by_places(low, high, closed)(at) * (widths[:, None] / 2)
        whole = np.sum(np.where(used, values, 0) * weights)
        return work.leave((whole, stop_gradient(error)))  # type: ignore[no-any-return]


def fixed_quad(func: Callable[..., Any], a: Any, b: Any, args: Any = (), n: int = 5) -> tuple[Any, None]:
    """The integral of `func(x, *args)` from a to b by Gauss and Legendre's rule with n places, and None.

    func takes all places at once, [n], and may give axes before theirs. Differentiable in a, b, args and all values
    that func reads, as a sum.

    Raises: ParameterError for infinite limits.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.integrate import fixed_quad
    >>> round(float(ws.grad(lambda b: fixed_quad(np.exp, 0.0, b)[0])(1.0)), 8)
    2.71828183
    """
    if any([isinstance(x, float) and math.isinf(x) for x in (a, b)]):
        raise ParameterError("fixed_quad: the limits must be finite")
    with scope("fixed_quad") as work:
        low, high = lift(a), lift(b)
        places, weights = numpy.polynomial.legendre.leggauss(n)
        rest = args if isinstance(args, tuple) else (args,)
        values = lift(ordinary(func)((high - low) * (places + 1) / 2.0 + low, *rest))
        return work.leave((high - low) / 2.0 * np.sum(weights * values, axis=-1)), None


REPLACED.update({outside.quad: quad, outside.fixed_quad: fixed_quad})
