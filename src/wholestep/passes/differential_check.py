"""Differential testing of passes under WHOLESTEP_CHECK=1: both graphs run on random inputs and are compared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError, GraphError
from wholestep.ir.graph import OPS, Graph, NDArray, Value
from wholestep.ir.sizes import all_names, graph_at, type_at
from wholestep.ir.types import Type
from wholestep.ir.verify import verify
from wholestep.primitives.samples import draw

MAX_ELEMENTS = 2**22
"""The most elements, over all values, of a program that is run."""
ROUNDINGS = 1024
"""The rounding errors, of the largest element, that an inexact pass may move a result, beside the effect of rounding
errors in the inputs."""


PROGRAM_ERRORS = (IndexError, np.linalg.LinAlgError, DtypeError)
"""The exceptions that a valid program may raise at run time."""


def check_rewrite(name: str, before: Graph, after: Graph, exact: bool) -> None:
    """Raise GraphError, with both graphs, where a pass changed the results of a program."""
    internal = sorted({node.op.name for part in after.family() for node in part.nodes if node.op.name not in OPS})
    if not internal:
        verify(after)
    why = f"only kernels know {', '.join(internal)}" if internal else reason_to_skip(before)
    if why:
        print(f"# {name} is not checked by running: {why}", file=sys.stderr)
        return
    for sizes in trial_sizes(before):
        problem = find_difference(graph_at(before, sizes), graph_at(after, sizes), exact)
        if problem:
            raise GraphError(f"pass {name}: {problem}\n# before\n{before}\n# after\n{after}")


def trial_sizes(graph: Graph) -> list[dict[str, int]]:
    """Numbers for the symbolic sizes of a program, for each of which both programs must agree; one empty choice without
    such sizes."""
    found = sorted(all_names(graph))
    return [{name: n + i for i, name in enumerate(found)} for n in (1, 6)] if found else [{}]


def evaluate_row_major(graph: Graph, arrays: Sequence[Any]) -> list[Any]:
    """The outputs of a graph with every operand in C order: NumPy rounds a sum by the strides of its operand, which no
    pass promises to keep."""
    known: dict[Value, Any] = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.nodes:
        op = node.op
        args = [np.asarray(known[v] if op.thin else np.broadcast_to(known[v], v.shape), order="C") for v in node.inputs]
        out = op.ref(*args, run=evaluate_row_major, **node.params) if op.nested else op.ref(*args, **node.params)
        known.update(zip(node.outputs, out if op.multiple else (out,), strict=True))
    return [np.broadcast_to(known[v], v.shape) for v in graph.outputs]


def reason_to_skip(graph: Graph) -> str:
    """The reason why a program cannot be run here; empty where it can."""
    if any(node.op.collective for node in graph.nodes):
        return "it sums over the axis of a surrounding vmap"
    types = [*graph.in_types, *[v.type for node in graph.nodes for v in node.outputs]]
    sizes = trial_sizes(graph)[-1]
    total = sum([type_at(t, sizes).size for t in types])
    return f"it has {total} elements, more than {MAX_ELEMENTS}" if total > MAX_ELEMENTS else ""


def find_difference(before: Graph, after: Graph, exact: bool) -> str:
    """A description of the difference between two programs' results on the same inputs; empty where they agree."""
    rng = np.random.default_rng(0)
    args = [draw_input(rng, t) for t in before.in_types]
    try:
        with np.errstate(all="ignore"):
            expected = evaluate_row_major(before, args)
    except PROGRAM_ERRORS as error:
        return find_lost_error(after, args, error)
    with np.errstate(all="ignore"):
        found = evaluate_row_major(after, args)
        near = expected if exact else evaluate_row_major(before, [perturb(rng, x) for x in args])
    for i, (x, y, z) in enumerate(zip(expected, found, near, strict=True)):
        if not (same_numbers(x, y) if exact else within_rounding(x, y, z, largest_epsilon(before))):
            return f"output {i} changed from\n{x}\nto\n{y}"
    return ""


def find_lost_error(after: Graph, args: Sequence[NDArray], error: Exception) -> str:
    """A description of an error that only the first program raises; empty where the second raises too."""
    try:
        with np.errstate(all="ignore"):
            evaluate_row_major(after, args)
    except PROGRAM_ERRORS:
        return ""
    return f"this error is gone: {error}"


def draw_input(rng: np.random.Generator, t: Type) -> NDArray:
    """A random input; its integers are small, so that many are valid indices."""
    return draw(rng, t.shape, t.dtype, 0.0 if dtypes.is_integer(t.dtype) else -2.0, 2.0)


def perturb(rng: np.random.Generator, x: NDArray) -> NDArray:
    """An input with every element moved by a rounding error."""
    if not dtypes.is_inexact(x.dtype):
        return x
    made = x * (1 + float(dtypes.limits(x.dtype).eps) * rng.choice([-1.0, 1.0], x.shape))
    return np.asarray(made).astype(x.dtype)


def same_numbers(x: Any, y: Any) -> bool:
    """Test whether arrays are equal to the bit, every NaN alike."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if not dtypes.is_inexact(x.dtype):
        return bool((x == y).all())
    return all(_same_reals(a, b) for a, b in ((x.real, y.real), (x.imag, y.imag)))


def _same_reals(x: NDArray, y: NDArray) -> bool:
    lost = np.isnan(x)
    return bool(((np.isnan(y) & lost) | (~lost & (x == y) & (np.signbit(x) == np.signbit(y)))).all())


def largest_epsilon(graph: Graph) -> float:
    """The largest rounding error of the sums and products of a program, those of half precision left out."""
    types = [t for part in graph.family() for t in part.types()]
    return max([float(dtypes.limits(t.dtype).eps) for t in types if t.inexact and t.dtype.itemsize > 2], default=0.0)


def within_rounding(x: Any, y: Any, near: Any, coarse: float = 0.0) -> bool:
    """Test whether results agree to rounding, by their size and by the effect of rounding the inputs."""
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
    size = np.abs(a[known]).max() * max(float(dtypes.limits(x.dtype).eps), coarse)
    moved = np.abs(a - c)[known & np.isfinite(c)].max(initial=0.0)
    return bool(np.abs(a - b)[known].max() <= ROUNDINGS * (size + moved))
