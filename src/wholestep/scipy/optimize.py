"""scipy.optimize: minima by BFGS, a loop of the program, differentiated as roots of the slope; roots, and fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import scipy.optimize

from wholestep.errors import DtypeError, ShapeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.control import while_loop
from wholestep.frontend.dispatch import REPLACED, WAYS_OUT
from wholestep.frontend.gradients import value_and_grad
from wholestep.frontend.implicit import implicit_root
from wholestep.frontend.promotion import inexact_array, lift
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import as_array, scope
from wholestep.frontend.transposition import hoisted
from wholestep.scipy.line_search import LinePlace, Slope, wolfe_step
from wholestep.scipy.outside import fallback, np, ratio
from wholestep.scipy.residuals import (
    OptimizeResult as OptimizeResult,
    curve_fit as curve_fit,
    least_squares as least_squares,
    root as root,
)
from wholestep.scipy.roots import (
    RootResults as RootResults,
    bisect as bisect,
    brentq as brentq,
    fixed_point as fixed_point,
    newton as newton,
    root_scalar as root_scalar,
)

outside: Any = scipy.optimize


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


class OptimizeResults(NamedTuple):
    """A minimum, and how it was found."""

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    hess_inv: Any
    nfev: Any
    njev: Any
    nit: Any


GOING, FOUND, TOO_MANY, NO_STEP, NOT_FINITE = -1, 0, 1, 2, 3
"""The status of a search, by SciPy's numbers."""


class Search(NamedTuple):
    """The options of BFGS."""

    gtol: Any = 1e-5
    norm: Any = np.inf
    maxiter: int | None = None
    line_search_maxiter: int = 20
    c1: float = 1e-4
    c2: float = 0.9

    def status(self, value: Any, slope: Any) -> Any:
        """The status at a point from where the search may go on."""
        finite = np.isfinite(value) & np.all(np.isfinite(slope))
        small = np.linalg.norm(slope, self.norm) <= self.gtol
        return np.where(finite, np.where(small, FOUND, GOING), NOT_FINITE)

    def minimum(self, slope_at: Slope, x: Any) -> tuple[Any, Any]:
        """The point of a minimum; and status, inverse Hessian, counts of evaluations and of steps."""
        most = 200 * x.shape[0] if self.maxiter is None else self.maxiter
        one, none = lift(np.eye(int(x.shape[0]), dtype=x.dtype)), lift(np.int64(0))

        def ended(status: Any, k: Any, stuck: Any) -> Any:
            """The status after k steps, of which the last may have been none."""
            return np.where(status != GOING, status, np.where(stuck, NO_STEP, np.where(k >= most, TOO_MANY, GOING)))

        def going(carry: Any) -> Any:
            return carry[-1] == GOING

        def body(carry: Any) -> Any:
            x, value, slope, inverse, count, k, _ = carry
            toward = -(inverse @ slope)
            toward = np.where(toward @ slope < 0, toward, -slope)
            first = np.where(k == 0, np.minimum(1, ratio(1, np.linalg.norm(slope))), 1).astype(x.dtype)
            found, tried = wolfe_step(
                slope_at, x, LinePlace(0 * first, value, slope @ toward, slope), toward, first, self
            )
            moved = found.at * toward
            inverse = updated(inverse, moved, found.gradient - slope, one)
            status = ended(self.status(found.value, found.gradient), k + 1, found.at == 0)
            return x + moved, found.value, found.gradient, inverse, count + tried, k + 1, status

        value, slope = slope_at(x)
        status = ended(self.status(value, slope), none, False)
        x, _, _, inverse, count, k, status = while_loop(going, body, (x, value, slope, one, none + 1, none, status))
        return x, (status, inverse, count, k)


def updated(inverse: Any, moved: Any, bent: Any, one: Any) -> Any:
    """The inverse Hessian after a step: Nocedal and Wright, "Numerical optimization", (6.17)."""
    along = moved @ bent
    rho = ratio(1, np.maximum(along, 0))
    left = one - rho * np.outer(moved, bent)
    return np.where(along > 0, left @ inverse @ left.T + rho * np.outer(moved, moved), inverse)


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    jac: Any = None,
    *,
    tol: Any = None,
    options: Mapping[str, Any] | None = None,
    **others: Any,
) -> OptimizeResults:
    """A minimum of `fun(x, *args)` near x0, by BFGS with a line search for the strong Wolfe conditions.

    The derivative of fun is traced; or `jac` is a function for it, or True where fun returns a pair of value and
    derivative. The search ends where the `norm` of the derivative, the largest number of it, is at most `gtol`, 1e-5 or
    `tol`; other options are `maxiter`, 200 steps for each unknown, `line_search_maxiter`, 20 evaluations, and the
    conditions' `c1` and `c2`. `status` is 0 at convergence, 1 after `maxiter` steps, 2 where a line search found
    nothing lower, and 3 where a number was not finite.

    x has the derivative, of every order and in both modes, of the root of fun's derivative in all values that fun
    reads: a solution with the Hessian, a matrix. It is as close to that of the minimum as the search came. x0,
    `hess_inv` and the counts have none.

    Shapes: x0 real floats [n], integers as float64; fun gives a scalar; x, jac [n], hess_inv [n, n].
    Raises: UnsupportedError for other methods and options, ShapeError or DtypeError for an x0 that is no such vector,
    numpy.linalg.LinAlgError where the Hessian is singular and a derivative is asked for.
    Source: Nocedal and Wright, "Numerical optimization", 2006, algorithm 6.1.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.optimize import minimize
    >>> lowest = lambda a: minimize(lambda x: np.sum(x**4 / 4 - a * x), np.ones(2), tol=1e-9).x
    >>> a = np.array([8.0, 27.0])
    >>> np.round(lowest(a), 6).tolist(), np.round(ws.grad(lambda a: lowest(a).sum())(a), 6).tolist()
    ([2.0, 3.0], [0.083333, 0.037037])
    """
    search = search_of(method, tol, options, others)
    with scope("minimize") as work:
        start = inexact_array(x0)
        if start.ndim != 1:
            raise ShapeError(f"minimize: x0 is {start.type}, and the unknowns are a vector", hint="np.ravel(x0)")
        if start.dtype.kind == "c":
            raise DtypeError(f"minimize: x0 is {start.type}, not real floats", hint="take real and imaginary parts")
        whole, closed = hoisted(pair_of(fun, jac, args), "minimize", start)
        x, (status, inverse, count, k) = implicit_root(
            "minimize: the derivative",
            lambda x, *read: whole(x, *read)[1],
            start,
            tuple(closed),
            lambda x, read: search.minimum(lambda x: whole(x, *read), x),
        )
        value, slope = whole(x, *closed)
        success, code, evaluations, steps = [Array(v.value, True) for v in (status == FOUND, status, count, k)]
        found = OptimizeResults(x, success, code, value, slope, inverse, evaluations, evaluations, steps)
        made: OptimizeResults = work.leave(found)
        return made


def search_of(method: Any, tol: Any, options: Any, others: Mapping[str, Any]) -> Search:
    """The options of a call; raises UnsupportedError for those of other methods."""
    if method is not None and (not isinstance(method, str) or method.lower() != "bfgs"):
        raise UnsupportedError(f"minimize: the method {method!r} is not covered", hint="'BFGS' is")
    for name, value in others.items():
        if value is not None and (not isinstance(value, tuple | list) or value):
            raise UnsupportedError(
                f"minimize: {name}= is not covered", hint="BFGS takes a function without constraints"
            )
    given = {} if tol is None else {"gtol": tol}
    given.update(options or {})
    for name in [*given]:
        if name not in Search._fields:
            raise UnsupportedError(
                f"minimize: the option {name!r} is not covered", hint=f"these are: {', '.join(Search._fields)}"
            )
    return Search(**given)


def pair_of(fun: Callable[..., Any], jac: Any, args: Any) -> Callable[[Any], tuple[Any, Any]]:
    """The function of x that gives the value of fun and its derivative."""
    rest = args if isinstance(args, tuple) else (args,)

    def pair(x: Any) -> tuple[Any, Any]:
        if jac is True:
            value, slope = ordinary(fun)(x, *rest)
        elif callable(jac):
            value, slope = ordinary(fun)(x, *rest), ordinary(jac)(x, *rest)
        else:
            value, slope = value_and_grad(lambda x: ordinary(fun)(x, *rest))(x)
        value, slope = as_array(value, "minimize"), as_array(slope, "minimize")
        if value.shape or slope.shape != x.shape:
            raise ShapeError(f"minimize: fun gives {value.type} and its derivative is {slope.type} for {x.type}")
        return Array(value.value, True).astype(x.dtype), slope.astype(x.dtype)

    return pair


REPLACED[outside.minimize] = minimize

BY_ROOT = "scipy.optimize.root(f, x0).x is the same root"
BY_BRACKET = "scipy.optimize.brentq(f, a, b) is the same root"
BY_MINIMUM = "scipy.optimize.minimize(f, x0).x is the same minimum where f is smooth"
WAYS_OUT.update(
    {
        outside.fsolve: BY_ROOT,
        **dict.fromkeys((outside.brenth, outside.ridder, outside.toms748), BY_BRACKET),
        **dict.fromkeys((outside.fmin, outside.fmin_bfgs, outside.fmin_cg, outside.fmin_l_bfgs_b), BY_MINIMUM),
        outside.minimize_scalar: "scipy.optimize.minimize(lambda x: f(x[0]), [x0]).x[0] is a minimum near x0",
        outside.leastsq: "scipy.optimize.least_squares(f, x0).x is the same solution",
        outside.linear_sum_assignment: "match the costs that step.attach(f) gives, and put the pairs into the batch",
        outside.lsq_linear: "np.linalg.lstsq(A, b)[0] is the same solution where no bound is reached",
        **dict.fromkeys((outside.approx_fprime, outside.check_grad), "ws.grad(f)(x), and ws.gradcheck(f, x)"),
    }
)
