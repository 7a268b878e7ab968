"""scipy.integrate: areas under samples, and an adaptive solver of differential equations with an adjoint.

The solver is Dormand and Prince's pair of orders 5 and 4 (1980); the adjoint is the continuous one, solved backwards
by the same solver, so that derivatives of any order cost no memory along the way.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import scipy.integrate

from wholestep import dtypes, tree
from wholestep.errors import ShapeError, TreeError, UnsupportedError
from wholestep.frontend.control import scan, while_loop
from wholestep.frontend.custom import custom_vjp
from wholestep.frontend.derivatives import vjp
from wholestep.frontend.dispatch import REPLACED, covers
from wholestep.frontend.promotion import inexact_array, lift
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import scope
from wholestep.frontend.transposition import hoisted
from wholestep.scipy.outside import dtype_outside, fallback, np, ratio
from wholestep.scipy.quadrature import fixed_quad as fixed_quad, quad as quad

outside: Any = scipy.integrate

_NODES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)

State = list[Any]
"""The leaves of a state."""


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


class Problem:
    """dy/dt = f(y, t, *args), and how accurately to solve it. y is handled as the list of its leaves."""

    def __init__(self, f: Callable[..., Any], structure: Any, rtol: float, atol: float, most: int) -> None:
        self.f, self.structure = f, structure
        self.rtol, self.atol, self.most = rtol, atol, most

    def slope(self, ys: State, t: Any, args: Any) -> State:
        """The derivatives of the leaves; raises TreeError where f returns another structure than y."""
        out = ordinary(self.f)(tree.unflatten(self.structure, ys), t, *args)
        leaves, found = tree.flatten(out)
        if found != self.structure:
            raise TreeError(f"odeint: y has the structure {self.structure} and its derivative {found}")
        for y, leaf in zip(ys, leaves, strict=True):
            if np.shape(leaf) != y.shape:
                raise ShapeError(f"odeint: y is {y.type} and its derivative has shape {np.shape(leaf)}")
        return [lift(leaf).astype(y.dtype, copy=False) for y, leaf in zip(ys, leaves, strict=True)]

    def size(self, errors: State, before: State, after: State) -> Any:
        """The root mean square of errors, each divided by its tolerance; a step is accepted below 1."""
        total, count = 0.0, 0
        for e, a, b in zip(errors, before, after, strict=True):
            ratio = np.abs(e) / (self.atol + self.rtol * np.maximum(np.abs(a), np.abs(b)))
            total, count = total + np.sum(ratio * ratio), count + a.size
        return np.sqrt(total / max(count, 1))

    def first_step(self, ys: State, slopes: State, t: Any, ahead: Any, args: Any) -> Any:
        """A step to begin with: Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", II.4."""
        speed, place = self.size(slopes, ys, ys), self.size(ys, ys, ys)
        tiny = (place < 1e-5) | (speed < 1e-5)
        step = np.where(tiny, 1e-6, 0.01 * place / np.where(tiny, 1.0, speed))
        moved = self.slope([y + ahead * step * k for y, k in zip(ys, slopes, strict=True)], t + ahead * step, args)
        bend = self.size([m - k for m, k in zip(moved, slopes, strict=True)], ys, ys) / step
        steep = np.maximum(speed, bend)
        flat = steep <= 1e-15
        second = np.where(flat, np.maximum(1e-6, step * 1e-3), (0.01 / np.where(flat, 1.0, steep)) ** 0.2)
        return np.minimum(100 * step, second)

    def attempt(self, ys: State, first: State, t: Any, step: Any, args: Any) -> tuple[State, State, Any]:
        """One step: the state after it, the slopes there, and the norm of the error."""
        slopes = [first]
        made = ys
        for node, weights in zip(_NODES[1:], _STAGES[1:], strict=True):
            made = [
                y + step * functools.reduce(np.add, [w * k[i] for w, k in zip(weights, slopes, strict=True) if w])
                for i, y in enumerate(ys)
            ]
            slopes.append(self.slope(made, t + node * step, args))
        errors = [
            step * functools.reduce(np.add, [w * k[i] for w, k in zip(_ERROR, slopes, strict=True) if w])
            for i in range(len(ys))
        ]
        return made, slopes[-1], self.size(errors, ys, made)

    def advance(self, ys: State, start: Any, stop: Any, args: Any) -> State:
        """The state at `stop`; NaN where the number of steps runs out."""
        ahead = np.where(stop >= start, 1.0, -1.0).astype(start.dtype)
        slopes = self.slope(ys, start, args)
        step = self.first_step(ys, slopes, start, ahead, args).astype(start.dtype)

        def going(carry: Any) -> Any:
            _, _, t, _, count = carry
            return (ahead * (stop - t) > 0) & (count < self.most)

        def body(carry: Any) -> Any:
            ys, slopes, t, step, count = carry
            left = np.abs(stop - t)
            last = step >= left
            size = np.where(last, left, step)
            after, end, error = self.attempt(ys, slopes, t, ahead * size, args)
            good = error <= 1
            nothing = error == 0
            factor = np.where(nothing, 10.0, 0.9 * np.where(nothing, 1.0, error) ** -0.2)
            factor = np.where(np.isnan(factor), 0.2, np.clip(factor, 0.2, np.where(good, 10.0, 1.0)))
            ys = [np.where(good, a, y) for a, y in zip(after, ys, strict=True)]
            slopes = [np.where(good, e, k) for e, k in zip(end, slopes, strict=True)]
            t = np.where(good, np.where(last, stop, t + ahead * size), t)
            return ys, slopes, t, (size * factor).astype(step.dtype), count + 1

        ys, _, t, _, _ = while_loop(going, body, (ys, slopes, start, step, lift(np.int64(0))))
        return [np.where(t == stop, y, np.nan).astype(y.dtype, copy=False) for y in ys]


def solved(problem: Problem, ys: State, ts: Any, args: Any) -> State:
    """The states at all times, stacked; differentiable in the first state, the times and the arguments."""

    def forward(ys: State, ts: Any, args: Any) -> State:
        def segment(carry: Any, stop: Any) -> Any:
            now, start = carry
            after = problem.advance(now, start, stop, args)
            return (after, stop), after

        _, rest = scan(segment, (ys, ts[0]), ts[1:])
        return [np.concatenate([y[None], more]) for y, more in zip(ys, rest, strict=True)]

    def kept(ys: State, ts: Any, args: Any) -> Any:
        made = call(ys, ts, args)
        return made, (made, ts, args)

    call = custom_vjp(forward)
    call.defvjp(kept, functools.partial(solve_adjoint, problem))
    return call(ys, ts, args)


def solve_adjoint(problem: Problem, residuals: Any, cotangents: State) -> Any:
    """Cotangents of the first state, the times and the arguments, by solving for them from the last time back."""
    states, ts, args = residuals
    leaves, structure = tree.flatten(args)
    on = [dtypes.is_inexact(lift(leaf).dtype) for leaf in leaves]
    n = len(states)

    def whole(values: Any) -> Any:
        rest = iter(values)
        return tree.unflatten(structure, [next(rest) if o else leaf for leaf, o in zip(leaves, on, strict=True)])

    def dynamics(state: State, back: Any, *parameters: Any) -> State:
        ys, gys = state[:n], state[n : 2 * n]
        outs, pull = vjp(lambda ys, ps: problem.slope(ys, -back, whole(ps)), ys, list(parameters))
        dys, dps = pull([lift(g) for g in gys])
        return [*[-k for k in outs], *dys, *dps]

    chosen = [lift(leaf) for leaf, o in zip(leaves, on, strict=True) if o]
    # A step of the solver is a product with times, so that sums over steps have at least their precision.
    nothing = [np.zeros(p.shape, np.result_type(p.dtype, ts.dtype)) for p in chosen]

    def segment(carry: Any, x: Any) -> Any:
        gys, gps = carry
        ys, gs, stop, start = x
        gstop = inner_product(gs, problem.slope(ys, stop, args))
        gys = [a + b for a, b in zip(gys, gs, strict=True)]
        begin = [*ys, *gys, *nothing]
        inner = Problem(dynamics, tree.structure(begin), problem.rtol, problem.atol, problem.most)
        ends = [made[1] for made in solved(inner, begin, np.stack([-stop, -start]), tuple(chosen))]
        return (ends[n : 2 * n], [a + b for a, b in zip(gps, ends[2 * n :], strict=True)]), gstop

    rows = ([s[1:] for s in states], [g[1:] for g in cotangents], ts[1:], ts[:-1])
    (carried, gps), gtimes = scan(segment, ([np.zeros_like(g[0]) for g in cotangents], nothing), rows, reverse=True)
    gys = [a + g[0] for a, g in zip(carried, cotangents, strict=True)]
    gfirst = -inner_product(carried, problem.slope([s[0] for s in states], ts[0], args))
    found = iter([g.astype(p.dtype, copy=False) for g, p in zip(gps, chosen, strict=True)])
    return (
        gys,
        np.concatenate([gfirst[None], gtimes]),
        tree.unflatten(structure, [next(found) if o else None for o in on]),
    )


def inner_product(gs: State, ks: State) -> Any:
    """The real inner product of two lists of leaves."""
    return functools.reduce(np.add, [np.sum(np.real(np.conj(g) * k)) for g, k in zip(gs, ks, strict=True)])


def odeint(
    f: Callable[..., Any],
    y0: Any,
    t: Any,
    *parameters: Any,
    args: Any = (),
    rtol: float | None = None,
    atol: float | None = None,
    mxstep: int = 0,
    tfirst: bool = False,
    **options: Any,
) -> Any:
    """The solution of dy/dt = f(y, t, *args) with y(t[0]) = y0, at the times t: a tree like y0, stacked along axis 0.

    The arguments follow the times, as in JAX, or are the tuple `args=`, as in SciPy; with `tfirst` the function is
    f(t, y, *args). The tolerances are 1.4e-8 each, and `mxstep` is 100,000, where they are not given. SciPy's other
    options are refused by an UnsupportedError.

    y0 is an array or a tree of them, args are trees of arrays; the times rise or fall. States have the dtype that NumPy
    gives a sum of y0 and the times. Differentiable in y0, t, args
    and the arrays that f closes over, to any order in reverse mode. Where more than `mxstep` steps are needed from one
    time to the next, the states from there on are NaN.

    >>> import numpy as np, wholestep as ws, wholestep.scipy.integrate as integrate
    >>> decay = lambda y, t, rate: -rate * y
    >>> end = lambda rate: integrate.odeint(decay, 1.0, np.array([0.0, 1.0]), rate)[-1]
    >>> round(float(ws.grad(end)(2.0)), 6)
    -0.135335
    """
    asked = sorted(name for name, value in options.items() if value not in (None, 0, False))
    unknown = sorted(options.keys() - inspect.signature(outside.odeint).parameters.keys())
    if unknown:
        raise TypeError(f"odeint() got an unexpected keyword argument {unknown[0]!r}")
    if asked:
        raise UnsupportedError(f"odeint: the option {asked[0]}= is not covered", hint="rtol, atol and mxstep are")
    given = (*parameters, *(args if isinstance(args, tuple) else (args,)))
    slope = (lambda y, t, *rest: f(t, y, *rest)) if tfirst else f
    with scope("odeint") as work:
        leaves, structure = tree.flatten(y0)
        times = inexact_array(t)
        if times.ndim != 1 or times.shape[0] < 1:
            raise ShapeError(f"odeint: t is a vector of times, not {times.type}")
        relative, absolute = [1.4e-8 if x is None else x for x in (rtol, atol)]
        ys = [inexact_array(y) for y in leaves]
        ys = [y.astype(np.result_type(y.dtype, times.dtype), copy=False) for y in ys]
        times = times.astype(np.result_type(times.dtype, *[dtypes.real_of(y.dtype) for y in ys]), copy=False)
        whole, closed = hoisted(slope, "odeint", tree.unflatten(structure, ys), times[0], *given)
        problem = Problem(whole, structure, relative, absolute, mxstep or 100_000)
        made = solved(problem, ys, times, (*given, *closed))
        return work.leave(tree.unflatten(structure, made))


def odeint_of_scipy(func: Callable[..., Any], y0: Any, t: Any, args: Any = (), **options: Any) -> Any:
    """scipy.integrate.odeint, whose fourth argument is a tuple of anything, and whose lists are arrays of doubles."""
    rest = args if isinstance(args, tuple) else (args,)
    start, times = in_doubles(lift(y0)), in_doubles(lift(t))
    return odeint(lambda *place: lift(ordinary(func)(*place, *rest)), start, times, **options)


def in_doubles(x: Any) -> Any:
    """Real or complex numbers in double precision."""
    return x.astype(np.result_type(x.dtype, np.float64), copy=False)


class OdeResult(NamedTuple):
    """The solution of an initial value problem: times [m], states [n, m], and whether it came to the end."""

    t: Any
    y: Any
    success: Any


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    *,
    args: Any = (),
    rtol: float = 1e-3,
    atol: float = 1e-6,
    **options: Any,
) -> OdeResult:
    """The solution of dy/dt = fun(t, y, *args) with y(t_span[0]) = y0, at the times `t_eval`: that of `odeint`.

    `args` are of any kind. Differentiable in y0, the times, and the arrays in args and those that fun closes over.

    Shapes: y0 [n] real or complex numbers, as doubles, t_eval [m], fun gives [n] or a list of n numbers; y [n, m].
    Raises: UnsupportedError without t_eval, for other methods and for other options; ShapeError for other shapes.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.integrate import solve_ivp
    >>> last = lambda k: solve_ivp(lambda t, y: -k * y, (0, 1), [1.0], t_eval=[1.0], rtol=1e-8, atol=1e-8).y[0, -1]
    >>> round(float(ws.grad(last)(2.0)), 6)
    -0.135335
    """
    if method != "RK45":
        raise UnsupportedError(f"solve_ivp: the method {method!r} is not covered", hint="'RK45' is")
    for name, value in options.items():
        if value is not None and value is not False:
            raise UnsupportedError(f"solve_ivp: the option {name}= is not covered", hint="rtol and atol are")
    if t_eval is None:
        raise UnsupportedError(
            "solve_ivp: without t_eval= values decide how many times there are", hint="t_eval=np.linspace(*t_span, n)"
        )
    with scope("solve_ivp") as work:
        start, times = in_doubles(inexact_array(y0)), inexact_array(t_eval)
        if start.ndim != 1 or times.ndim != 1:
            raise ShapeError(f"solve_ivp: y0 and t_eval are vectors, not {start.type} and {times.type}")
        whole = np.concatenate([lift(t_span)[:1].astype(times.dtype), times])
        rest = () if args is None else args
        slope = lambda t, y: lift(ordinary(fun)(t, y, *rest))  # noqa: E731
        states = odeint(slope, start, whole, tfirst=True, rtol=rtol, atol=atol)
        made: OdeResult = work.leave(OdeResult(times, states[1:].T, np.all(np.isfinite(states))))
        return made


REPLACED.update({outside.odeint: odeint_of_scipy, outside.solve_ivp: solve_ivp})


@covers(outside.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """scipy.integrate.trapezoid."""
    areas, _ = strips(y, x, dx, axis)
    return np.sum(areas, axis=-1)


def strips(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any]:
    """The area between each pair of neighbours, along the last axis, and the widths."""
    rows = np.moveaxis(lift(y), axis, -1)
    if x is None:
        widths = dx
    else:
        places = lift(x)
        widths = np.diff(places if places.ndim == 1 else np.moveaxis(places, axis, -1))
    return widths * (rows[..., 1:] + rows[..., :-1]) / 2.0, widths


@covers(outside.cumulative_trapezoid)
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """scipy.integrate.cumulative_trapezoid."""
    if x is not None:
        check_places("cumulative_trapezoid", x, axis, np.moveaxis(lift(y), axis, -1))
    areas, _ = strips(y, x, dx, axis)
    made = np.cumsum(areas, axis=-1)
    if initial is not None:
        if initial != 0:
            raise ValueError("`initial` must be `None` or `0`.")
        made = np.concatenate([np.zeros((*made.shape[:-1], 1), made.dtype), made], axis=-1)
    return np.moveaxis(made, -1, axis)


@covers(outside.simpson)
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """scipy.integrate.simpson: parabolas, the last strip of an even number of points by Cartwright's correction."""
    rows = np.moveaxis(lift(y), axis, -1)
    n = int(rows.shape[-1])
    if n < 3:
        areas, _ = strips(y, x, dx, axis)
        return np.sum(areas, axis=-1)
    if x is None:
        widths, given = lift(np.ones(n - 1)) * dx, {}
    else:
        check_places("simpson", x, axis, rows)
        widths, given = strips(y, x, dx, axis)[1].astype(np.float64), {"x": lift(x).dtype}
    dtype = dtype_outside(outside.simpson, rows.dtype, length=4 - n % 2, **given)
    last = n if n % 2 else n - 1
    left, middle, right = rows[..., 0 : last - 2 : 2], rows[..., 1 : last - 1 : 2], rows[..., 2:last:2]
    h0, h1 = widths[..., 0 : last - 1 : 2], widths[..., 1 : last - 1 : 2]
    both = h0 + h1
    parabolas = left * (2 - ratio(h1, h0)) + middle * both * ratio(both, h0 * h1) + right * (2 - ratio(h0, h1))
    made = np.sum(both / 6 * parabolas, axis=-1)
    if n % 2 == 0:
        h0, h1 = widths[..., -2], widths[..., -1]
        after = ratio(2 * h1 * h1 + 3 * h0 * h1, 6 * (h0 + h1))
        before = ratio(h1 * h1 + 3 * h0 * h1, 6 * h0)
        far = ratio(h1**3, 6 * h0 * (h0 + h1))
        made = made + after * rows[..., -1] + before * rows[..., -2] - far * rows[..., -3]
    return made.astype(dtype if isinstance(dx, int | float) else np.result_type(dtype, lift(dx).dtype), copy=False)


def check_places(name: str, x: Any, axis: int, rows: Any) -> None:
    """Raise ShapeError for places that are not those of rows: one along the axis for all, or one for each number."""
    shape, n = lift(x).shape, rows.shape[-1]
    if len(shape) not in (1, rows.ndim) or shape[axis if len(shape) > 1 else 0] != n:
        raise ShapeError(f"{name}: x has shape {shape}, which does not fit {n} numbers along the axis")
