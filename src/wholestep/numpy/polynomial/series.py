"""numpy.polynomial's series in orthogonal polynomials: their values, and objects with traced coefficients."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy.polynomial as outside

from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.promotion import WEAK, lift
from wholestep.frontend.source.fresh import live
from wholestep.numpy.movement import reshape, traced_array
from wholestep.numpy.outside import np
from wholestep.numpy.polynomial.linear import LINEAR, refuse_traced_options
from wholestep.numpy.polynomial.polynomial import polyval


class Recurrence(NamedTuple):
    """P[k + 1] = slope(k, x) P[k] - back(k) P[k - 1], from P[0] = 1 and P[1] = slope(0, x)."""

    slope: Callable[[int, Any], Any]
    back: Callable[[int], float]


def series_value(rule: Recurrence, x: Any, c: Any, tensor: bool = True) -> Any:
    """The sum of c[k] P[k](x), by Clenshaw's algorithm; differentiable in the points and the coefficients."""
    at, series = x if type(x) in WEAK else lift(x), traced_array(c)
    series = series.astype(np.float64) if series.dtype.kind in "biu" else series
    series = reshape(series, (1,)) if series.ndim == 0 else series
    if tensor:
        series = reshape(series, (*series.shape, *[1] * np.ndim(at)))
    last: Any = at * 0
    made = last
    for k in reversed(range(1, series.shape[0])):
        made, last = series[k] + rule.slope(k, at) * made - rule.back(k + 1) * last, made
    return series[0] + rule.slope(0, at) * made - rule.back(1) * last


def evaluation(function: Any, rule: Recurrence) -> Callable[..., Any]:
    """The implementation of one of NumPy's functions for the values of a series."""

    def implementation(x: Any, c: Any, tensor: bool = True) -> Any:
        return series_value(rule, x, c, tensor)

    implementation.__name__ = implementation.__qualname__ = function.__name__
    implementation.__doc__ = f"numpy.polynomial's {function.__name__}, by Clenshaw's algorithm."
    return covers(function)(implementation)


VALUES: dict[type, Callable[..., Any]] = {
    outside.Polynomial: polyval,
    outside.Chebyshev: evaluation(outside.chebyshev.chebval, Recurrence(lambda k, x: 2 * x if k else x, lambda k: 1)),
    outside.Legendre: evaluation(
        outside.legendre.legval, Recurrence(lambda k, x: (2 * k + 1) / (k + 1) * x, lambda k: k / (k + 1))
    ),
    outside.Hermite: evaluation(outside.hermite.hermval, Recurrence(lambda k, x: 2 * x, lambda k: 2 * k)),
    outside.HermiteE: evaluation(outside.hermite_e.hermeval, Recurrence(lambda k, x: x, lambda k: k)),
    outside.Laguerre: evaluation(
        outside.laguerre.lagval, Recurrence(lambda k, x: (2 * k + 1 - x) / (k + 1), lambda k: k / (k + 1))
    ),
}
"""NumPy's class of a series -> the function of its values."""


def refused(operation: str) -> Any:
    """A method that raises UnsupportedError under the name of an operation."""

    def method(self: TracedSeries, *others: Any) -> Any:
        return self.__getattr__(operation)

    return method


class TracedSeries:
    """A series of one of NumPy's classes with traced coefficients: its values, derivatives, integrals and degree."""

    def __init__(self, kind: type, coef: Any, domain: Any, window: Any) -> None:
        plain: Any = kind([0.0], domain, window)
        self.kind, self.coef = kind, traced_array(coef)
        if self.coef.ndim != 1 or self.coef.shape[0] == 0:
            raise ShapeError(f"{kind.__name__}: coefficients are one or more in a vector, not {self.coef.type}")
        self.domain, self.window = plain.domain, plain.window

    def __call__(self, arg: Any) -> Any:
        offset, scale = outside.polyutils.mapparms(self.domain, self.window)
        return VALUES[self.kind](offset + scale * lift(arg), self.coef)

    def degree(self) -> int:
        """The number of coefficients without the first."""
        return len(self.coef) - 1

    def deriv(self, m: int = 1) -> TracedSeries:
        """The derivative of order m."""
        _, scale = outside.polyutils.mapparms(self.domain, self.window)
        return TracedSeries(self.kind, LINEAR[self.kind][0](self.coef, m, scale), self.domain, self.window)

    def integ(self, m: int = 1, k: Any = (), lbnd: Any = None) -> TracedSeries:
        """The integral of order m, from lbnd on, with constants k."""
        offset, scale = outside.polyutils.mapparms(self.domain, self.window)
        start = 0 if lbnd is None else offset + scale * lbnd
        made = LINEAR[self.kind][1](self.coef, m, k, start, 1.0 / scale)
        return TracedSeries(self.kind, made, self.domain, self.window)

    def __getattr__(self, name: str) -> Any:
        raise UnsupportedError(
            f"{self.kind.__name__}.{name}: not covered for traced coefficients",
            hint="the object has values, deriv, integ, coef, domain, window and degree(): compute with coefficients",
        )

    __add__ = __radd__ = refused("+")
    __sub__ = __rsub__ = __neg__ = refused("-")
    __mul__ = __rmul__ = refused("*")
    __truediv__ = refused("/")
    __pow__ = refused("**")


def answered(series: Any) -> Callable[[Any], Any]:
    """The call of one of NumPy's objects, at traced points too."""
    of_traced = operator.attrgetter("coef", "domain", "window")
    return lambda arg: TracedSeries(type(series), *of_traced(series))(arg) if is_traced(arg) else series(live(arg))


def fit_method(kind: Any) -> Callable[..., Any]:
    """The method `fit` of one of NumPy's classes, for traced values."""

    def fit(
        x: Any,
        y: Any,
        deg: Any,
        domain: Any = None,
        rcond: Any = None,
        full: bool = False,
        w: Any = None,
        window: Any = None,
    ) -> TracedSeries:
        x, domain, w = live(x), live(domain), live(w)
        refuse_traced_options(kind.fit, x=x, domain=domain, window=window)
        like = kind.fit(x, np.zeros(np.shape(x)), 0, domain, window=window)
        offset, scale = outside.polyutils.mapparms(like.domain, like.window)
        coef = LINEAR[kind][2](offset + scale * np.asarray(x), live(y), deg, rcond, full, w)
        return TracedSeries(kind, coef, like.domain, like.window)

    return fit


def constructor(kind: type) -> Callable[..., Any]:
    """The constructor of one of NumPy's classes, for traced coefficients too; its `fit` is an attribute of it."""

    def made(coef: Any, domain: Any = None, window: Any = None, symbol: str = "x") -> Any:
        coef = live(coef)
        return TracedSeries(kind, coef, domain, window) if is_traced(coef) else kind(coef, domain, window, symbol)

    made.fit = fit_method(kind)  # type: ignore[attr-defined]  # as the class has it
    return made
