"""Systems of equations and fits: residuals made small by Levenberg and Marquardt's method, differentiated as roots."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import scipy.optimize

from wholestep import dtypes
from wholestep.errors import DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.control import while_loop
from wholestep.frontend.derivatives import vjp
from wholestep.frontend.dispatch import REPLACED
from wholestep.frontend.implicit import implicit_root
from wholestep.frontend.jacobians import jacfwd
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import inexact_array, lift
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import scope
from wholestep.frontend.transposition import hoisted
from wholestep.scipy.linalg import solve_triangular
from wholestep.scipy.outside import np

outside: Any = scipy.optimize
NEAR_ROOT = 1e-6
"""The length of Newton's step, against 1 plus that of x, up to which a place counts as a root."""


class OptimizeResult(NamedTuple):
    """A solution x, the residuals `fun` and their Jacobian `jac` there, and how it was found."""

    x: Any
    success: Any
    status: Any
    fun: Any
    jac: Any
    cost: Any
    nfev: Any


class Descent(NamedTuple):
    """The tolerances of Levenberg and Marquardt's method, and how many evaluations it may take."""

    ftol: float = 1e-8
    xtol: float = 1e-8
    gtol: float = 1e-8
    max_nfev: int | None = None

    def found(self, f: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        """The place where a sum of squares is least; and SciPy's status, 0 where evaluations run out, and their number.

        Source: More, "The Levenberg-Marquardt algorithm: implementation and theory", 1978; the damping is that of
        Nielsen, "Damping parameter in Marquardt's method", 1999.
        """
        most = 100 * int(x.size) + 100 if self.max_nfev is None else self.max_nfev
        slopes = jacfwd(f)

        def state(x: Any, r: Any, scale: Any) -> tuple[Any, Any, Any]:
            jacobian = slopes(x)
            size = np.sqrt(np.sum(jacobian * jacobian, axis=0))
            return r, jacobian, np.maximum(scale, size)

        def going(carry: Any) -> Any:
            return (carry[-2] < 0) & (carry[-1] < most)

        def body(carry: Any) -> Any:
            x, r, jacobian, scale, damping, growth, _, count = carry
            width = np.where(scale == 0, 1, scale)
            step = damped_step(jacobian, r, np.sqrt(damping) * width)
            after = x + step
            tried = f(after)
            cost, new_cost = np.sum(r * r) / 2, np.sum(tried * tried) / 2
            linear = r + jacobian @ step
            foreseen = cost - np.sum(linear * linear) / 2
            gained = cost - new_cost
            share = np.where(np.isfinite(new_cost), gained / np.where(foreseen > 0, foreseen, 1), -1)
            good = (share > 1e-4) | ((gained >= 0) & (new_cost <= cost * dtypes.limits(x.dtype).eps))
            slow = np.abs(gained) < self.ftol * cost
            near = np.linalg.norm(step) < self.xtol * (self.xtol + np.linalg.norm(x))
            x = np.where(good, after, x)
            made = [np.where(good, a, b) for a, b in zip(state(x, tried, scale), (r, jacobian, scale), strict=True)]
            flat = np.max(np.abs(made[0] @ made[1])) < self.gtol
            status = np.where(flat, 1, np.where(slow & (share > 0.25), 2, np.where(near, 3, -1)))
            better = np.maximum(1 / 3, 1 - (2 * np.minimum(share, 1) - 1) ** 3)
            damping = np.where(good, damping * better, damping * growth)
            growth = np.where(good, 2.0, 2 * growth)
            new = (x, *made, damping, growth, status, count + 1)
            return tuple([a.astype(b.dtype) for a, b in zip(new, carry, strict=True)])

        r, jacobian, scale = state(x, f(x), 0)
        flat = np.max(np.abs(r @ jacobian)) < self.gtol
        one = np.ones((), x.dtype)
        start = (x, r, jacobian, scale, one * 1e-3, one * 2.0, np.where(flat, 1, -1), np.array(1))
        found = while_loop(going, body, tuple([lift(v) for v in start]))
        return found[0], (np.maximum(found[-2], 0), found[-1])


def damped_step(jacobian: Any, r: Any, damping: Any) -> Any:
    """The step that makes residuals and itself, in units of the damping, least together: by a QR factorization."""
    whole = np.concatenate([jacobian, np.diag(damping)])
    q, upper = np.linalg.qr(whole)
    right = -(r @ q[: int(r.shape[0])])
    return solve_triangular(upper, right)


def residuals_of(name: str, fun: Callable[..., Any], args: Any, kwargs: Any) -> Callable[[Any], Any]:
    """The user's function as one that gives a vector of the unknowns' dtype."""
    rest = args if isinstance(args, tuple) else (args,)

    def value(x: Any) -> Any:
        made = lift(ordinary(fun)(x, *rest, **kwargs))
        if made.ndim > 1 or made.dtype.kind == "c":
            raise ShapeError(f"{name}: the function gives {made.type}, and not a vector of real numbers")
        return np.atleast_1d(Array(made.value, False)).astype(x.dtype)

    return value


def unknowns(name: str, x0: Any) -> Any:
    """A vector in double precision to start from, as SciPy's solvers do, without a derivative."""
    start = np.atleast_1d(inexact_array(x0))
    if start.ndim != 1:
        raise ShapeError(f"{name}: x0 is {start.type}, and the unknowns are a vector", hint="np.ravel(x0)")
    if start.dtype.kind == "c":
        raise DtypeError(f"{name}: x0 is {start.type}, not real floats", hint="take real and imaginary parts")
    return stop_gradient(start).astype(np.float64, copy=False)


def refuse_options(name: str, given: dict[str, Any], usual: dict[str, Any]) -> None:
    """Raise UnsupportedError for an option that is not left as it usually is."""
    for option, value in given.items():
        if option not in usual:
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")
        if not any(value is x or (isinstance(value, str) and value == x) for x in (None, *usual[option])):
            said = f"{option}={value!r}" if isinstance(value, str) else f"{option}="
            raise UnsupportedError(f"{name}: {said} is not covered", hint=OTHERWISE.get(option, "leave it out"))


OTHERWISE = {
    "jac": "leave it out: the derivative is traced",
    "loss": "let the residuals be np.sqrt(rho(r * r)), where rho is the loss",
}
"""The hints for options that are not covered."""


def solution(x: Any, success: Any, status: Any, r: Any, jacobian: Any, count: Any) -> OptimizeResult:
    """The result of a search, its numbers as scalars."""
    success, status, count = [Array(v.value, True) for v in (success, status, count)]
    return OptimizeResult(x, success, status, r, jacobian, np.sum(r * r) / 2, count)


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: Any = None,
    callback: Any = None,
    options: Any = None,
) -> OptimizeResult:
    """x with `fun(x, *args) = 0` near x0, by Levenberg and Marquardt's method with the traced Jacobian.

    Both "hybr" and "lm" select this method. It ends where a step is shorter than `xtol`, 1.49e-8 or `tol`, times x, or
    after `maxfev` evaluations; these are the options. `success` says whether Newton's step from there is short too: x
    may be a place where the residuals are least and not 0. x has the derivative, of every order and in both modes, of
    the implicit function theorem in all values that fun reads; x0 has none.

    Shapes: x0 real numbers [n], as float64; fun gives [n].
    Raises: UnsupportedError for other methods and options, ShapeError or DtypeError for an x0 or a result of fun that
    does not fit, numpy.linalg.LinAlgError for a singular Jacobian where a derivative is asked for.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.optimize import root
    >>> place = lambda a: root(lambda x: np.array([x[0] * x[1] - a, x[0] - x[1]]), np.ones(2)).x[0]
    >>> round(float(place(9.0)), 6), round(float(ws.grad(place)(9.0)), 6)
    (3.0, 0.166667)
    """
    if method not in ("hybr", "lm"):
        raise UnsupportedError(f"root: the method {method!r} is not covered", hint="'hybr' and 'lm' are")
    refuse_options("root", {"jac": jac, "callback": callback}, {"jac": (False,), "callback": ()})
    known = {"xtol": "xtol", "maxfev": "max_nfev", "maxiter": "max_nfev"}
    for option in options or {}:
        if option not in known:
            raise UnsupportedError(f"root: the option {option!r} is not covered", hint="these are: xtol, maxfev")
    given = {"xtol": 1.49012e-8 if tol is None else tol, **{known[k]: v for k, v in (options or {}).items()}}
    search = Descent(ftol=0.0, gtol=0.0, **given)
    with scope("root") as work:
        start = unknowns("root", x0)
        whole, closed = hoisted(residuals_of("root", fun, args, {}), "root", start)
        if whole(start, *closed).shape != start.shape:
            raise ShapeError(f"root: the function gives {whole(start, *closed).type} for {start.type}")
        x, (_, count) = implicit_root(
            "root: fun", whole, start, tuple(closed), lambda x, read: search.found(lambda x: whole(x, *read), x)
        )
        r, jacobian = whole(x, *closed), jacfwd(lambda x: whole(x, *closed))(x)
        step = stop_gradient(damped_step(jacobian, r, np.full(int(x.shape[0]), dtypes.limits(x.dtype).tiny, x.dtype)))
        success = np.linalg.norm(step) <= NEAR_ROOT * (1 + np.linalg.norm(x))
        status = np.where(success, 1, 5)
        made: OptimizeResult = work.leave(solution(x, success, status, r, jacobian, count))
        return made


def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "2-point",
    bounds: Any = None,
    method: str = "trf",
    ftol: Any = 1e-8,
    xtol: Any = 1e-8,
    gtol: Any = 1e-8,
    max_nfev: int | None = None,
    args: Any = (),
    kwargs: Any = None,
    **others: Any,
) -> OptimizeResult:
    """x where half of the sum of squares of `fun(x, *args, **kwargs)` is least, by Levenberg and Marquardt's method.

    "trf", "dogbox" and "lm" all select this method, without bounds; the Jacobian is traced, and difference schemes in
    `jac` are ignored. It ends as SciPy's: `status` is 1 where the slope is at most `gtol`, 2 where the cost falls by
    less than `ftol` times itself, 3 where a step is shorter than `xtol` times x, 0 after `max_nfev` evaluations. x has
    the derivative, of every order and in both modes, of a place where the slope is 0, as accurate as the search came
    close to it; x0 has none.

    Shapes: x0 real floats [n], integers as float64; fun gives [m], jac is [m, n].
    Raises: UnsupportedError for bounds, other losses and options, ShapeError or DtypeError for values that do not fit.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.optimize import least_squares
    >>> t = np.linspace(0.0, 1.0, 5)
    >>> rate = lambda y: least_squares(lambda p: np.exp(-p[0] * t) - y, np.ones(1), xtol=1e-12).x[0]
    >>> round(float(rate(np.exp(-2.0 * t))), 6), ws.grad(rate)(np.exp(-2.0 * t)).shape
    (2.0, (5,))
    """
    if method not in ("trf", "dogbox", "lm"):
        raise UnsupportedError(f"least_squares: the method {method!r} is not covered", hint="'trf' and 'lm' are")
    if bounds is not None and np.any(np.isfinite(np.concatenate([np.ravel(bound) for bound in bounds]))):
        raise UnsupportedError(
            "least_squares: bounds= is not covered", hint="let the unknowns be functions of free ones"
        )
    usual = {"loss": ("linear",), "x_scale": ("jac", 1.0), "verbose": (0,), "f_scale": (1.0,), "diff_step": ()}
    usual |= {"tr_solver": (), "tr_options": (), "jac_sparsity": (), "callback": (), "workers": ()}
    refuse_options("least_squares", {"jac": jac, **others}, {"jac": ("2-point", "3-point", "cs"), **usual})
    ftol, xtol, gtol = [0.0 if tol is None else tol for tol in (ftol, xtol, gtol)]
    search = Descent(ftol, xtol, gtol, max_nfev)
    with scope("least_squares") as work:
        start = unknowns("least_squares", x0)
        whole, closed = hoisted(residuals_of("least_squares", fun, args, kwargs or {}), "least_squares", start)

        def slope(x: Any, *read: Any) -> Any:
            r, pull = vjp(lambda x: whole(x, *read), x)
            return pull(r)[0]

        x, (status, count) = implicit_root(
            "least_squares: the slope",
            slope,
            start,
            tuple(closed),
            lambda x, read: search.found(lambda x: whole(x, *read), x),
        )
        r, jacobian = whole(x, *closed), jacfwd(lambda x: whole(x, *closed))(x)
        made: OptimizeResult = work.leave(solution(x, status > 0, status, r, jacobian, count))
        return made


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Any = None,
    method: str | None = None,
    jac: Any = None,
    *,
    full_output: bool = False,
    nan_policy: str | None = None,
    **others: Any,
) -> tuple[Any, Any]:
    """The parameters of the least-squares fit of `f(xdata, *parameters)` to ydata, and their covariance.

    p0 is ones where it is not given. `sigma` are the deviations of ydata, or their covariance; without `absolute_sigma`
    they are relative, and scaled by the residuals. Differentiable in ydata, xdata, sigma and all values that f reads.

    Shapes: ydata [m], sigma [m] or [m, m]; parameters [n] and covariance [n, n].
    Raises: as `least_squares`, UnsupportedError for `full_output` and `nan_policy`, and ParameterError where f does not
    say how many parameters it takes.

    >>> import numpy as np
    >>> from wholestep.scipy.optimize import curve_fit
    >>> t = np.linspace(0.0, 1.0, 6)
    >>> parameters, spread = curve_fit(lambda t, a, b: a * t + b, t, 2.0 * t - 1.0)
    >>> np.round(parameters, 6).tolist(), spread.shape
    ([2.0, -1.0], (2, 2))
    """
    usual: dict[str, Any] = {"jac": (), "full_output": (False,), "nan_policy": ("raise",)}
    refuse_options("curve_fit", {"jac": jac, "full_output": full_output, "nan_policy": nan_policy}, usual)
    if p0 is None:
        names = [p for p in inspect.signature(f).parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD]
        if len(names) < 2:
            raise ParameterError("curve_fit: the function does not say how many parameters it takes", hint="give p0=")
        p0 = np.ones(len(names) - 1)
    with scope("curve_fit") as work:
        y = inexact_array(ydata)
        places = xdata if isinstance(xdata, list | tuple) is False else lift(xdata)

        def residuals(p: Any) -> Any:
            off = lift(ordinary(f)(places, *[p[i] for i in range(int(p.shape[0]))])) - y
            if sigma is None:
                return off
            spread = inexact_array(sigma)
            if spread.ndim < 2:
                return off / spread
            return solve_triangular(np.linalg.cholesky(spread), off, lower=True)

        found = least_squares(residuals, p0, bounds=bounds, method=method or "lm", **others)
        covariance = np.linalg.inv(found.jac.T @ found.jac)
        if not absolute_sigma:
            covariance = covariance * (2 * found.cost / max(int(y.size) - int(found.x.shape[0]), 1))
        return work.leave((found.x, covariance))  # type: ignore[no-any-return]


for solver in (root, least_squares, curve_fit):
    REPLACED[getattr(outside, solver.__name__)] = solver
