"""What WHOLESTEP_CHECK=1 does after each pass: run the program before and after on drawn numbers, and compare."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError, GraphError
from wholestep.ir.graph import Graph, NDArray, Value
from wholestep.ir.sizes import all_names, graph_at, type_at
from wholestep.ir.types import Type
from wholestep.ir.verify import verify
from wholestep.primitives.family import draw

LARGEST = 2**22
"""Elements over all values of a program beyond which it is not run."""
ROUNDINGS = 1024
"""How many rounding errors, of the largest element, an inexact pass may move a result, or what rounding errors in
the inputs do to it."""


FAILURES = (IndexError, np.linalg.LinAlgError, DtypeError)
"""What a program may raise while it runs."""


def check(name: str, before: Graph, after: Graph, exact: bool) -> None:
    """Raise GraphError, with both graphs, where a pass changed what a program means."""
    verify(after)
    why = reason_to_skip(before)
    if why:
        print(f"# {name} is not checked by running: {why}", file=sys.stderr)
        return
    for sizes in trials(before):
        problem = difference(graph_at(before, sizes), graph_at(after, sizes), exact)
        if problem:
            raise GraphError(f"pass {name}: {problem}\n# before\n{before}\n# after\n{after}")


def trials(graph: Graph) -> list[dict[str, int]]:
    """Numbers for the symbolic sizes of a program, of which it must mean the same; none where there are none."""
    found = sorted(all_names(graph))
    return [{name: n + i for i, name in enumerate(found)} for n in (1, 6)] if found else [{}]


def evaluated(graph: Graph, arrays: Sequence[Any]) -> list[Any]:
    """The outputs of a graph, every operand laid row by row: NumPy rounds a sum by how its terms lie in memory, and
    a pass answers for the numbers alone."""
    known: dict[Value, Any] = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.nodes:
        op = node.op
        args = [np.asarray(known[v] if op.thin else np.broadcast_to(known[v], v.shape), order="C") for v in node.inputs]
        out = op.ref(*args, run=evaluated, **node.params) if op.nested else op.ref(*args, **node.params)
        known.update(zip(node.outputs, out if op.multiple else (out,), strict=True))
    return [np.broadcast_to(known[v], v.shape) for v in graph.outputs]


def reason_to_skip(graph: Graph) -> str:
    """Why a program cannot be run here; empty where it can."""
    if any(node.op.collective for node in graph.nodes):
        return "it sums over the axis of a surrounding vmap"
    types = [*graph.in_types, *[v.type for node in graph.nodes for v in node.outputs]]
    sizes = trials(graph)[-1]
    total = sum([type_at(t, sizes).size for t in types])
    return f"it has {total} elements, more than {LARGEST}" if total > LARGEST else ""


def difference(before: Graph, after: Graph, exact: bool) -> str:
    """How two programs differ on the same inputs; empty where they do not."""
    rng = np.random.default_rng(0)
    args = [drawn(rng, t) for t in before.in_types]
    try:
        with np.errstate(all="ignore"):
            expected = evaluated(before, args)
    except FAILURES as error:
        return raised(after, args, error)
    with np.errstate(all="ignore"):
        found = evaluated(after, args)
        near = expected if exact else evaluated(before, [nudged(rng, x) for x in args])
    for i, (x, y, z) in enumerate(zip(expected, found, near, strict=True)):
        if not (same_numbers(x, y) if exact else close(x, y, z, coarsest(before))):
            return f"output {i} changed from\n{x}\nto\n{y}"
    return ""


def raised(after: Graph, args: Sequence[NDArray], error: Exception) -> str:
    """An index out of range stays one, and so does a matrix that cannot be dealt with."""
    try:
        with np.errstate(all="ignore"):
            evaluated(after, args)
    except FAILURES:
        return ""
    return f"this error is gone: {error}"


def drawn(rng: np.random.Generator, t: Type) -> NDArray:
    """An input: small integers are as likely as not to be good indices."""
    return draw(rng, t.shape, t.dtype, 0.0 if dtypes.is_integer(t.dtype) else -2.0, 2.0)


def nudged(rng: np.random.Generator, x: NDArray) -> NDArray:
    """An input, off by a rounding error everywhere."""
    if not dtypes.is_inexact(x.dtype):
        return x
    made = x * (1 + epsilon(x.dtype) * rng.choice([-1.0, 1.0], x.shape))
    return np.asarray(made).astype(x.dtype)


def epsilon(dtype: Any) -> float:
    """The distance from 1 to the next number of an inexact dtype."""
    return {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}[dtypes.short(dtypes.real_of(dtype))]


def same_numbers(x: Any, y: Any) -> bool:
    """Equal to the bit, a NaN like any other."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if not dtypes.is_inexact(x.dtype):
        return bool((x == y).all())
    return all(_same_reals(a, b) for a, b in ((x.real, y.real), (x.imag, y.imag)))


def _same_reals(x: NDArray, y: NDArray) -> bool:
    lost = np.isnan(x)
    return bool(((np.isnan(y) & lost) | (~lost & (x == y) & (np.signbit(x) == np.signbit(y)))).all())


def coarsest(graph: Graph) -> float:
    """The largest rounding error of the sums and products of a program, those of half precision left out."""
    types = [t for part in graph.family() for t in part.types()]
    return max([epsilon(t.dtype) for t in types if t.inexact and t.dtype.itemsize > 2], default=0.0)


def close(x: Any, y: Any, near: Any, coarse: float = 0.0) -> bool:
    """Within rounding of each other, by the size of the result and by what rounding its inputs does to it."""
    x, y, near = np.asarray(x), np.asarray(y), np.asarray(near)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if not dtypes.is_inexact(x.dtype):
        return bool((x == y).all()) or not bool((x == near).all())
    wide = np.complex128 if dtypes.is_complex(x.dtype) else np.float64
    a, b, c = x.astype(wide), y.astype(wide), near.astype(wide)
    known = np.isfinite(a)
    if not (np.isfinite(b) == known).all() or not known.any():
        return bool((np.isfinite(b) == known).all())
    size = np.abs(a[known]).max() * max(epsilon(x.dtype), coarse)
    moved = np.abs(a - c)[known & np.isfinite(c)].max(initial=0.0)
    return bool(np.abs(a - b)[known].max() <= ROUNDINGS * (size + moved))
