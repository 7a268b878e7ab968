"""One covered call, and the checks that it has to pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.backends import reference
from wholestep.frontend.derivatives import jvp, vjp
from wholestep.frontend.tracing import trace_flat
from wholestep.ir.types import array_type

EPS = {np.dtype(np.float16): 2.0**-10, np.dtype(np.float32): 2.0**-23, np.dtype(np.complex64): 2.0**-23}
STEP = 4e-4


class Case:
    """A function of arrays, written in plain NumPy calls, and the arguments to try it on.

    `grad`: whether the derivative is checked, against differences and forward against reverse. `known`: whether the
    call needs the values of its arguments, so that it cannot be traced without them. `rtol`: of the values, in place of
    a few roundings; None checks shape and dtype alone. `drtol`: of the derivative. `only`: the positions of the
    arguments that are traced, all of them by default. `types`: whether array or scalar must agree too.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        *args: Any,
        grad: bool = True,
        rtol: float | None = 0.0,
        drtol: float = 1e-6,
        known: bool = False,
        only: tuple[int, ...] | None = None,
        types: bool = True,
    ) -> None:
        self.f = f
        self.args = args
        self.grad = grad
        self.rtol = rtol
        self.drtol = drtol
        self.known = known
        self.traced = tuple(range(len(args))) if only is None else only
        self.types = types

    def __repr__(self) -> str:
        return ", ".join(f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a)[:20] for a in self.args)

    def call(self, *traced: Any) -> Any:
        """f with the traced arguments in their places."""
        given = list(self.args)
        for i, x in zip(self.traced, traced, strict=True):
            given[i] = x
        with np.errstate(all="ignore"):
            return self.f(*given)

    def plain(self) -> Any:
        """The result of NumPy; arguments are copied, since the call may write into them."""
        copies = [np.array(self.args[i]) if isinstance(self.args[i], np.ndarray) else self.args[i] for i in self.traced]
        return self.call(*copies)

    def numbers(self) -> list[Any]:
        """The traced arguments."""
        return [self.args[i] for i in self.traced]

    def inexact(self) -> list[bool]:
        """For each traced argument: it is inexact, and so has a derivative."""
        return [np.asarray(x).dtype.kind in "fc" for x in self.numbers()]

    def split(self) -> tuple[Callable[..., Any], list[Any]]:
        """The call as a function of its floating-point arguments alone, and these arguments."""
        marks, numbers = self.inexact(), self.numbers()
        point = [x for x, m in zip(numbers, marks, strict=True) if m]

        def g(*floats: Any) -> Any:
            rest = iter(floats)
            return self.call(*[next(rest) if m else x for x, m in zip(numbers, marks, strict=True)])

        return g, point

    def eager(self) -> Any:
        """The value of the call on traced arrays with values attached."""
        g, point = self.split()
        return vjp(g, *point)[0]

    def abstract(self) -> Any:
        """The value of the call traced without values, then run by the reference."""
        arrays = [np.asarray(x) for x in self.numbers()]
        types = [array_type(a.shape, a.dtype) for a in arrays]
        scalars = [not isinstance(x, np.ndarray) for x in self.numbers()]
        traced = trace_flat(self.call, types, scalars, reason="jit")
        outs = reference.interpret(traced.graph, arrays)
        plain = [np.asarray(o)[()] if s else np.array(o) for o, s in zip(outs, traced.scalars, strict=True)]
        return tree.unflatten(traced.structure, plain)


def compare(found: Any, expected: Any, case: Case) -> None:
    """The same structure, dtypes and shapes, and the same numbers but for rounding."""
    left, right = tree.leaves(found), tree.leaves(expected)
    assert len(left) == len(right), f"{len(left)} results, NumPy has {len(right)}"
    for x, y in zip(left, right, strict=True):
        if case.types and isinstance(y, np.ndarray | np.generic):
            kinds = isinstance(x, np.ndarray), isinstance(y, np.ndarray)
            assert kinds[0] == kinds[1], f"{type(x).__name__}, NumPy has {type(y).__name__}"
        a, b = np.asarray(x), np.asarray(y)
        assert a.shape == b.shape, f"shape {a.shape}, NumPy has {b.shape}"
        assert a.dtype == b.dtype, f"dtype {a.dtype}, NumPy has {b.dtype}"
        if case.rtol is None:
            continue
        if a.dtype.kind in "fc":
            tolerance = case.rtol + 64 * EPS.get(a.dtype, 2.0**-52)
            size = float(np.abs(b[np.isfinite(b)]).max(initial=0.0))
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size)
        else:
            np.testing.assert_array_equal(a, b)


def inner(xs: list[Any], ys: list[Any]) -> float:
    """The real part of the inner product <x, y> over all arrays."""
    return math.fsum(
        float(np.sum(np.real(np.conj(np.asarray(x)) * np.asarray(y)))) for x, y in zip(xs, ys, strict=True)
    )


def direction(rng: np.random.Generator, like: Any) -> Any:
    """Random numbers of the shape and kind of an array, none of them small."""
    a = np.asarray(like)

    def part() -> Any:
        return rng.uniform(0.5, 1.0, a.shape) * rng.choice([-1.0, 1.0], a.shape)

    made = np.asarray(part() + 1j * part() if a.dtype.kind == "c" else part(), a.dtype)
    return made if isinstance(like, np.ndarray) else made[()]


def double(x: Any) -> Any:
    """The same numbers in double precision."""
    a = np.asarray(x)
    wide = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) if a.dtype.kind in "fc" else a
    return wide if isinstance(x, np.ndarray) else wide[()]


def check_gradient(case: Case) -> None:
    """Forward and reverse agree with each other, and with differences of plain NumPy."""
    rng = np.random.default_rng(3)
    g, point = case.split()
    if not point:
        return
    point = [double(x) for x in point]
    dxs = [direction(rng, x) for x in point]
    out, pullback = vjp(lambda *xs: tree.leaves(g(*xs)), *point)
    if not any(np.asarray(y).dtype.kind in "fc" for y in out):
        return
    weights = [direction(rng, y) if np.asarray(y).dtype.kind in "fc" else np.zeros(np.shape(y)) for y in out]
    backward = inner(list(pullback(weights)), dxs)
    tangents = jvp(lambda *xs: tree.leaves(g(*xs)), point, dxs)[1]
    forward = inner([t for t, y in zip(tangents, out, strict=True) if np.asarray(y).dtype.kind in "fc"],
                    [w for w, y in zip(weights, out, strict=True) if np.asarray(y).dtype.kind in "fc"])  # fmt: skip

    def at(t: float) -> float:
        moved = [
            np.asarray(x + t * d) if isinstance(x, np.ndarray) else x + t * d for x, d in zip(point, dxs, strict=True)
        ]
        ys = tree.leaves(g(*moved))
        kept = [(y, w) for y, w in zip(ys, weights, strict=True) if np.asarray(y).dtype.kind in "fc"]
        return inner([w for _, w in kept], [y for y, _ in kept])

    numeric = (8 * (at(STEP) - at(-STEP)) - (at(2 * STEP) - at(-2 * STEP))) / (12 * STEP)
    size = max(abs(numeric), math.fsum(float(np.abs(w).sum()) for w in weights) * 1e-2, 1e-3)
    assert abs(forward - backward) <= 1e-9 * size, f"forward {forward}, reverse {backward}, differences {numeric}"
    assert abs(backward - numeric) <= case.drtol * size, f"reverse {backward}, differences {numeric}"
