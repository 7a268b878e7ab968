"""Roots of functions of one number, and fixed points: by loops, with derivatives by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import scipy.optimize

from wholestep import dtypes
from wholestep.errors import DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.array import Array, data_of
from wholestep.frontend.control import while_loop
from wholestep.frontend.derivatives import jvp
from wholestep.frontend.dispatch import REPLACED
from wholestep.frontend.implicit import implicit_root
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import inexact_array, lift
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import scope
from wholestep.frontend.transposition import hoisted
from wholestep.scipy.brackets import Bracketing
from wholestep.scipy.outside import np

outside: Any = scipy.optimize


class RootResults(NamedTuple):
    """A root of a function of one number, and how it was found."""

    root: Any
    iterations: Any
    function_calls: Any
    converged: Any


def function_of(name: str, f: Callable[..., Any], args: Any) -> Callable[[Any], Any]:
    """The user's function of an unknown, whose value is of the unknown's type."""
    rest = args if isinstance(args, tuple) else (args,)

    def value(x: Any) -> Any:
        made = lift(ordinary(f)(x, *rest))
        if made.shape != x.shape:
            raise ShapeError(f"{name}: the function gives {made.type} for {x.type}")
        return Array(made.value, x.ndim == 0).astype(x.dtype)

    return value


def real_number(name: str, what: str, x: Any) -> Any:
    """An operand that is one real number, as a float without a derivative."""
    made = inexact_array(x)
    if made.ndim or made.dtype.kind == "c":
        raise (DtypeError if made.dtype.kind == "c" else ShapeError)(
            f"{name}: {what} is {made.type}, not a real number"
        )
    return stop_gradient(Array(made.value, True))


def in_bracket(search: Bracketing, f: Callable[..., Any], a: Any, b: Any, args: Any) -> RootResults:
    """The root of f between two numbers, and how it was found."""
    name = search.name
    with scope(name) as work:
        low, high = real_number(name, "a", a), real_number(name, "b", b)
        dtype = dtypes.promoted_dtype(low.dtype, high.dtype)
        low, high = low.astype(dtype), high.astype(dtype)
        whole, closed = hoisted(function_of(name, f, args), name, low)
        same = np.sign(whole(low, *closed)) * np.sign(whole(high, *closed)) > 0
        known = data_of(same.value)
        if known is not None and np.any(known):
            raise ParameterError(f"{name}: f(a) and f(b) must have different signs")
        root, (iterations, calls, converged) = implicit_root(
            f"{name}: f", whole, low, (*closed,), lambda _, read: search.found(lambda x: whole(x, *read), low, high)
        )
        made: RootResults = work.leave(
            RootResults(*[Array(x.value, True) for x in (root, iterations, calls, converged)])
        )
        return made


_RTOL = 8.881784197001252e-16


def brentq(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    xtol: Any = 2e-12,
    rtol: Any = _RTOL,
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """The root of `f(x, *args)` between a and b, where it has different signs, by Brent's method.

    The root has the derivative, of every order and in both modes, of the implicit function theorem in all values
    that f reads, if f's derivative at the root is not 0. a and b have none. Where f has one sign at both, the result
    is a ParameterError if the values are known, and nan in a compiled program; it is nan also where `maxiter` steps do
    not suffice. With `full_output` the result is a pair of the root and a `RootResults`.

    Shapes: a, b real numbers; f gives one for one.
    Raises: ParameterError as above, ShapeError or DtypeError where a, b or the values of f are no real numbers.
    Source: Brent, "Algorithms for minimization without derivatives", 1973, chapter 4.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.optimize import brentq
    >>> angle = lambda c: brentq(lambda x: np.cos(x) - c * x, 0.0, 2.0)
    >>> round(float(angle(1.0)), 6), round(float(ws.grad(angle)(1.0)), 6)
    (0.739085, -0.441614)
    """
    found = in_bracket(Bracketing("brentq", xtol, rtol, maxiter), f, a, b, args)
    return (found.root, found) if full_output else found.root


def bisect(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    xtol: Any = 2e-12,
    rtol: Any = _RTOL,
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """The root of `f(x, *args)` between a and b, by halving: all else as `brentq`.

    >>> from wholestep.scipy.optimize import bisect
    >>> round(float(bisect(lambda x: x**3 - 2.0, 0.0, 2.0)), 6)
    1.259921
    """
    found = in_bracket(Bracketing("bisect", xtol, rtol, maxiter, True), f, a, b, args)
    return (found.root, found) if full_output else found.root


def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Any = None,
    args: Any = (),
    tol: Any = 1.48e-8,
    maxiter: int = 50,
    fprime2: Any = None,
    x1: Any = None,
    rtol: Any = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """The root of `func(x, *args)` near x0 by Newton's method: of each element by itself, where x0 is an array.

    The derivative of func is traced, or `fprime(x, *args)`; it ends where a step is at most `tol` plus `rtol` times x,
    and gives nan where `maxiter` steps do not do. The root is differentiated as that of `brentq`.

    Shapes: x0 real floats of any shape, integers as float64; func keeps it, each element by itself.
    Raises: UnsupportedError for fprime2, x1 and, with an array, for full_output; ShapeError or DtypeError.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.optimize import newton
    >>> root = lambda a: newton(lambda x: x**2 - a, np.ones(2))
    >>> root(np.array([4.0, 9.0])).tolist()
    [2.0, 3.0]
    """
    for option, value in (("fprime2", fprime2), ("x1", x1)):
        if value is not None:
            raise UnsupportedError(f"newton: {option}= is not covered", hint="without it the derivative is traced")
    with scope("newton") as work:
        start = inexact_array(x0)
        if start.dtype.kind == "c":
            raise DtypeError(f"newton: x0 is {start.type}, not real floats")
        if full_output and start.ndim:
            raise UnsupportedError("newton: full_output= is not covered for arrays")
        start = stop_gradient(start)
        both = with_slope(function_of("newton", func, args), fprime and function_of("newton", fprime, args))
        whole, closed = hoisted(both, "newton", start)
        root, (count, converged) = implicit_root(
            "newton: func",
            lambda x, *read: whole(x, *read)[0],
            start,
            tuple(closed),
            lambda x, read: newton_steps(lambda x: whole(x, *read), x, (tol, rtol, maxiter)),
        )
        root = Array(root.value, start.ndim == 0)
        told = RootResults(root, *[Array(x.value, True) for x in (count, 2 * count, converged)])
        return work.leave((root, told) if full_output else root)


def with_slope(f: Callable[[Any], Any], slope: Any) -> Callable[[Any], tuple[Any, Any]]:
    """The function that gives a value and the derivative of each element in itself, a given one or a traced one."""
    if slope is not None:
        return lambda x: (f(x), slope(x))
    return lambda x: jvp(f, (x,), (np.ones_like(x),))


def newton_steps(both: Callable[[Any], Any], x: Any, options: tuple[Any, Any, int]) -> tuple[Any, Any]:
    """The point at which Newton's method converges, else nan; the number of steps, and the convergence."""
    tol, rtol, most = options

    def going(carry: Any) -> Any:
        _, step, count = carry
        return np.any(~(np.abs(step) <= 0)) & (count < most)

    def body(carry: Any) -> Any:
        x, _, count = carry
        value, slope = both(x)
        made = np.where(value == 0, x, x - value / slope).astype(x.dtype)
        small = np.abs(made - x) <= tol + rtol * np.abs(made)
        return made, np.where(small, 0, made - x).astype(x.dtype), count + 1

    found, step, count = while_loop(going, body, (x, np.ones_like(x), lift(np.int64(0))))
    converged = step == 0
    return np.where(converged, found, np.nan).astype(x.dtype), (count, np.all(converged))


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: Any = None,
    rtol: Any = None,
    maxiter: int | None = None,
    options: Any = None,
) -> RootResults:
    """The root of `f(x, *args)` in a bracket by "brentq" or "bisect", or near x0 by "newton".

    Without a method it is brentq where there is a bracket, and newton elsewhere. They say how the root is
    differentiated, and where it is nan.

    Raises: UnsupportedError for other methods and options, ParameterError without a bracket or an x0.

    >>> from wholestep.scipy.optimize import root_scalar
    >>> found = root_scalar(lambda x: x**3 - 8.0, bracket=(0.0, 5.0))
    >>> round(float(found.root), 9), bool(found.converged)
    (2.0, True)
    """
    chosen = method.lower() if isinstance(method, str) else "newton" if bracket is None else "brentq"
    if chosen not in ("brentq", "bisect", "newton") or options:
        what = f"the method {method!r}" if not options else "options="
        raise UnsupportedError(f"root_scalar: {what} is not covered", hint="'brentq', 'bisect' and 'newton' are")
    limits: dict[str, Any] = {name: x for name, x in (("rtol", rtol), ("maxiter", maxiter)) if x is not None}
    if chosen == "newton":
        if x0 is None:
            raise ParameterError("root_scalar: newton takes an x0")
        given = None if fprime is True or fprime is False else fprime
        if fprime is True:
            raise UnsupportedError(
                "root_scalar: fprime=True is not covered", hint="without it the derivative is traced"
            )
        limits |= {} if xtol is None else {"tol": xtol}
        found = newton(f, x0, given, args, fprime2=fprime2, x1=x1, full_output=True, **limits)
    else:
        if bracket is None or len(bracket) != 2:
            raise ParameterError(f"root_scalar: {chosen} takes a bracket of two numbers")
        limits |= {} if xtol is None else {"xtol": xtol}
        low, high = bracket
        found = (brentq if chosen == "brentq" else bisect)(f, low, high, args, full_output=True, **limits)
    made: RootResults = found[1]
    return made


def fixed_point(
    func: Callable[..., Any], x0: Any, args: Any = (), xtol: Any = 1e-8, maxiter: int = 500, method: str = "del2"
) -> Any:
    """x with `func(x, *args) = x`, by iteration from x0, which "del2" speeds up by Aitken's rule for each element.

    It ends where no element changes by more than `xtol` times itself, and gives nan after `maxiter` steps. x has the
    derivative, of every order and in both modes, of the implicit function theorem in all values that func reads.

    Shapes: x0 real floats of any shape, integers as float64; func keeps it.
    Raises: ParameterError for another method, ShapeError or DtypeError for values that do not fit.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.optimize import fixed_point
    >>> round(float(ws.grad(lambda a: fixed_point(lambda x: np.cos(a * x), 0.5))(1.0)), 6)
    -0.297474
    """
    if method not in ("del2", "iteration"):
        raise ParameterError(f"fixed_point: the method is {method!r}; it is 'del2' or 'iteration'")
    with scope("fixed_point") as work:
        start = inexact_array(x0)
        if start.dtype.kind == "c":
            raise DtypeError(f"fixed_point: x0 is {start.type}, not real floats")
        start = stop_gradient(Array(start.value, start.ndim == 0))
        whole, closed = hoisted(function_of("fixed_point", func, args), "fixed_point", start)
        found, _ = implicit_root(
            "fixed_point: func",
            lambda x, *read: x - whole(x, *read),
            start,
            tuple(closed),
            lambda x, read: (iterated(lambda x: whole(x, *read), x, (xtol, maxiter, method == "del2")), None),
        )
        return work.leave(Array(found.value, start.ndim == 0))


def iterated(f: Callable[[Any], Any], x: Any, options: tuple[Any, int, bool]) -> Any:
    """The place where iteration of f ends, nan where it does not."""
    xtol, most, faster = options

    def going(carry: Any) -> Any:
        return ~carry[1] & (carry[2] < most)

    def body(carry: Any) -> Any:
        x, _, count = carry
        made = f(x)
        if faster:
            after = f(made)
            bend = after - 2 * made + x
            straight = bend == 0
            made = np.where(straight, after, x - (made - x) ** 2 / np.where(straight, 1, bend))
        change = np.where(x == 0, made, (made - x) / np.where(x == 0, 1, x))
        return made.astype(x.dtype), np.all(np.abs(change) < xtol), count + 1

    found, done, _ = while_loop(going, body, (x, lift(np.bool_(False)), lift(np.int64(0))))
    return np.where(done, found, np.nan).astype(x.dtype)


for solver in (brentq, bisect, newton, root_scalar, fixed_point):
    REPLACED[getattr(outside, solver.__name__)] = solver
