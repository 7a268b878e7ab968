"""gradcheck: a function's derivatives against differences of its values, in both modes and to second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, tree
from wholestep.errors import DtypeError, GradientError, ParameterError
from wholestep.frontend.array import Array
from wholestep.frontend.derivatives import jvp, vjp
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import constants_read, type_of

STENCIL = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))
"""Fourth-order central differences: error O(h**4)."""


MODES = ("fwd", "rev")


class Point:
    """Arguments as one real vector: floats as they are, complex numbers as two."""

    def __init__(self, args: Sequence[Any]) -> None:
        leaves, self.structure = tree.flatten(tuple(args))
        self.leaves = constants_read(leaves)
        self.on = [isinstance(x, (np.ndarray, np.generic, float, complex)) and type_of(x).inexact for x in self.leaves]
        self.wide = [widen_to_float64(x) for x, o in zip(self.leaves, self.on, strict=True) if o]
        self.paths = [p for p, o in zip(tree.paths(tuple(args), "args"), self.on, strict=True) if o]
        if not self.wide:
            raise DtypeError("gradcheck: no argument is a floating array")

    def around(self, arrays: Sequence[Any]) -> Any:
        """The arguments with these arrays in place of their floating leaves."""
        rest = iter(arrays)
        return tree.unflatten(
            self.structure, [next(rest) if o else x for x, o in zip(self.leaves, self.on, strict=True)]
        )

    def directions(self) -> list[tuple[int, tuple[int, ...], complex]]:
        """Every real direction: which array, which element, 1 or 1j."""
        out: list[tuple[int, tuple[int, ...], complex]] = []
        for i, x in enumerate(self.wide):
            units = (1.0, 1.0j) if np.iscomplexobj(x) else (1.0,)
            out += [(i, index, unit) for index in np.ndindex(x.shape) for unit in units]
        return out


def widen_to_float64(x: Any) -> Any:
    """A floating array in double precision, in which finite differences are accurate."""
    array = np.asarray(x)
    return array.astype(np.complex128 if dtypes.is_complex(array.dtype) else np.float64)


def results(f: Callable[..., Any], args: Any) -> list[Any]:
    """The floating results of f, in double precision."""
    leaves = tree.leaves(f(*args))
    return [widen_to_float64(y) for y in leaves if not isinstance(y, Array) and type_of(y).inexact]


def gradcheck(
    f: Callable[..., Any],
    *args: Any,
    order: int = 2,
    modes: Sequence[str] = MODES,
    analytic: bool = False,
    eps: float = 1e-3,
    rtol: float = 1e-6,
    atol: float = 1e-8,
) -> None:
    """Check the derivatives of f at a point against its values.

    Every element of the Jacobian is checked in float64, in the `modes` "fwd", forward, and "rev", reverse, against
    fourth-order central differences with step `eps`, or against the complex step where `analytic` says that f is
    analytic and takes complex arguments. With `order=2` so are the derivatives of both modes' derivatives. An element
    may be off by `atol` plus `rtol` times its size or that of the largest element, whichever is larger, and by ten
    times that in the second order. The point must be smooth: away from ties and kinks.

    Shapes: trees of arrays of floating dtypes, converted to float64; f returns a tree of arrays.
    Raises: GradientError that names the worst element, DtypeError where no argument is a floating array, and
    ParameterError for another mode or order, and for a step that is not positive.
    Source: Squire and Trapp, "Using complex variables to estimate derivatives of real functions", 1998.

    >>> import numpy as np, wholestep as ws
    >>> ws.gradcheck(lambda x: np.sin(x) * x, np.array([0.3, -1.2]))
    """
    modes = (modes,) if isinstance(modes, str) else modes
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        raise ParameterError(f"gradcheck: modes has {unknown[0]!r}; the modes are {' and '.join(map(repr, MODES))}")
    if order not in (1, 2) or not eps > 0:
        raise ParameterError(f"gradcheck: order is {order!r} and eps {eps!r}; order is 1 or 2, and eps more than 0")
    point = Point(args)

    def own(*arrays: Any) -> Any:
        return ordinary(f)(*point.around(arrays))

    expected = [along(own, point.wide, d, analytic, eps) for d in point.directions()]
    if "fwd" in modes:
        compare(point, forward_columns(own, point), expected, "forward mode", rtol, atol)
    if "rev" in modes:
        compare(point, reverse_columns(own, point), expected, "reverse mode", rtol, atol)
    if order > 1:
        second_order(own, point, modes, eps, rtol, atol)


def along(f: Any, arrays: Sequence[Any], direction: Any, analytic: bool, eps: float) -> Any:
    """The derivative of every result along one direction, by differences."""
    i, index, unit = direction

    def moved(step: complex) -> list[Any]:
        x = (
            arrays[i].astype(np.complex128)
            if isinstance(step, complex) and not np.iscomplexobj(arrays[i])
            else arrays[i].copy()
        )
        x[index] += step
        return results(f, [x if j == i else a for j, a in enumerate(arrays)])

    if analytic and unit == 1.0 and not any(np.iscomplexobj(a) for a in arrays):
        return [np.imag(y) / 1e-30 for y in moved(1e-30j)]
    total: list[Any] = []
    for k, weight in STENCIL:
        ys = [weight / eps * y for y in moved(k * eps * unit if unit != 1.0 else k * eps)]
        total = ys if not total else [a + b for a, b in zip(total, ys, strict=True)]
    return total


def one_hot_tangent(point: Point, direction: Any) -> list[Any]:
    """A tangent that is one in one place."""
    i, index, unit = direction
    out = [np.zeros_like(x) for x in point.wide]
    out[i][index] = unit
    return out


def forward_columns(f: Any, point: Point) -> list[Any]:
    """The derivative along every direction, by jvp."""
    made = []
    for direction in point.directions():
        _, dy = jvp(f, point.wide, one_hot_tangent(point, direction))
        made.append([widen_to_float64(y) for y in tree.leaves(dy) if type_of(y).inexact])
    return made


def reverse_columns(f: Any, point: Point) -> list[Any]:
    """The Jacobian's columns from vjp: one pullback for each element of the results, as a row."""
    out, pullback = vjp(f, *point.wide)
    leaves, structure = tree.flatten(out)
    floats = [i for i, y in enumerate(leaves) if type_of(y).inexact]
    columns = [
        [np.zeros(np.shape(leaves[i]), widen_to_float64(leaves[i]).dtype) for i in floats] for _ in point.directions()
    ]
    for at, i in enumerate(floats):
        units = (1.0, 1.0j) if np.iscomplexobj(leaves[i]) else (1.0,)
        for index in np.ndindex(np.shape(leaves[i])):
            for unit in units:
                cotangent = [np.zeros(np.shape(y), np.asarray(y).dtype) for y in leaves]
                cotangent[i][index] = unit
                gxs = pullback(tree.unflatten(structure, cotangent))
                for column, (j, place, part) in zip(columns, point.directions(), strict=True):
                    column[at][index] += unit * np.real(np.conj(part) * np.asarray(gxs[j])[place])
    return columns


def compare(point: Point, found: Any, expected: Any, what: str, rtol: float, atol: float) -> None:
    """Raise GradientError at the element that is furthest off."""
    worst, place = 0.0, ""
    scale = max([float(np.max(np.abs(y), initial=0.0)) for ys in expected for y in ys], default=0.0)
    for direction, ys, zs in zip(point.directions(), found, expected, strict=True):
        for k, (y, z) in enumerate(zip(ys, zs, strict=True)):
            off = np.abs(y - z) / (atol + rtol * np.maximum(np.abs(z), scale))
            off = np.where(np.isnan(off), np.inf, off)
            if off.size and float(off.max()) > max(worst, 1.0):
                at = np.unravel_index(int(off.argmax()), off.shape)
                worst = float(off.max())
                i, index, _ = direction
                element = list(map(int, at)) if at else ""
                place = (
                    f"d result[{k}]{element} / d {point.paths[i]}{list(index) if index else ''} is"
                    f" {np.asarray(y)[at]:.10g}, differences give {np.asarray(z)[at]:.10g}"
                )
    if place:
        raise GradientError(
            f"gradcheck: {what} disagrees: {place}", hint="is the point smooth, and f free of hidden state?"
        )


def second_order(f: Any, point: Point, modes: Sequence[str], eps: float, rtol: float, atol: float) -> None:
    """Check the derivatives of the derivatives, along fixed random directions."""
    rng = np.random.default_rng(0)
    tangents = [random_like(rng, x) for x in point.wide]

    def tangent(*arrays: Any) -> Any:
        return jvp(f, arrays, tangents)[1]

    def cotangent(*arrays: Any) -> Any:
        out, pullback = vjp(f, *arrays)
        return pullback(tree.map(weight, out))

    def weight(y: Any) -> Any:
        return random_like(np.random.default_rng(1), np.empty(type_of(y).shape, type_of(y).dtype))

    for name, derivative in (("fwd", tangent), ("rev", cotangent)):
        if name in modes:
            gradcheck(derivative, *point.wide, order=1, modes=modes, eps=eps, rtol=rtol * 10, atol=atol * 10)


def random_like(rng: np.random.Generator, x: Any) -> Any:
    """Random numbers in x's shape, complex where x is; zeros for integers."""
    if not dtypes.is_inexact(x.dtype):
        return np.zeros(x.shape, x.dtype)
    real = rng.normal(size=x.shape)
    return (real + 1j * rng.normal(size=x.shape) if np.iscomplexobj(x) else real).astype(x.dtype)
