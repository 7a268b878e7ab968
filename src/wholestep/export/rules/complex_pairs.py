"""Complex numbers as pairs of real arrays, in graph words: for targets that have no arrays of complex numbers.

y = mul(x, z)
-->
y = make_complex(real(x) * real(z) - imag(x) * imag(z), real(x) * imag(z) + imag(x) * real(z))

A part of `make_complex` is its operand (`export.core`), so nothing complex is left between two operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.export.core import Rule
from wholestep.export.rules.elementwise import is_complex_value
from wholestep.ir.build import build, inline
from wholestep.ir.graph import OPS, Graph, NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.arithmetic import abs as absolute, imag, make_complex, real
from wholestep.primitives.creation import cast, constant, full
from wholestep.primitives.family import zeros
from wholestep.primitives.logic import equal, less_equal, not_equal, select
from wholestep.primitives.movement import concat, reshape, slice_along


def has_complex(node: Node) -> bool:
    """True if an operand or a result of an operation is complex."""
    return any([dtypes.is_complex(v.dtype) for v in (*node.inputs, *node.outputs)])


# Values, types and graphs in parts.


def real_and_imaginary(xs: Iterable[Value]) -> list[Value]:
    """The values, and for complex ones both parts."""
    return [y for x in xs for y in ((real(x), imag(x)) if is_complex_value(x) else (x,))]


def part_types(types: Iterable[Type]) -> list[Type]:
    """The types of `real_and_imaginary` values of these types."""
    found = []
    for t in types:
        found += [array_type(t.shape, dtypes.real_of(t.dtype))] * 2 if dtypes.is_complex(t.dtype) else [t]
    return found


def joined_parts(types: Iterable[Type], parts: Iterable[Value]) -> list[Value]:
    """Values of these types from their parts."""
    left = iter(parts)
    return [make_complex(next(left), next(left)) if dtypes.is_complex(t.dtype) else next(left) for t in types]


def in_parts(graph: Graph) -> Graph:
    """The graph whose complex inputs and outputs are two real ones each."""
    if not any([dtypes.is_complex(t.dtype) for t in (*graph.in_types, *graph.out_types)]):
        return graph

    def write(*xs: Value) -> list[Value]:
        return real_and_imaginary(inline(graph, joined_parts(graph.in_types, xs)))

    return build(write, part_types(graph.in_types), name=graph.name)[0]


def with_last_axis(graph: Graph) -> Graph:
    """The graph whose complex inputs and outputs have their parts along a last axis, as a checkpoint has them."""
    if not any([dtypes.is_complex(t.dtype) for t in (*graph.in_types, *graph.out_types)]):
        return graph

    def part(x: Value, k: int) -> Value:
        found: Value = reshape(slice_along(x, x.ndim - 1, k, k + 1), shape=x.shape[:-1])
        return found

    def paired(z: Value) -> Value:
        parts = [reshape(part, shape=(*z.shape, 1)) for part in (real(z), imag(z))]
        found: Value = concat(*parts, axis=z.ndim)
        return found

    def write(*xs: Value) -> list[Value]:
        known = [
            make_complex(part(x, 0), part(x, 1)) if dtypes.is_complex(t.dtype) else x
            for x, t in zip(xs, graph.in_types, strict=True)
        ]
        return [paired(y) if is_complex_value(y) else y for y in inline(graph, known)]

    types = [
        array_type((*t.shape, 2), dtypes.real_of(t.dtype)) if dtypes.is_complex(t.dtype) else t for t in graph.in_types
    ]
    return build(write, types, name=graph.name)[0]


def count_of_parts(types: Sequence[Type]) -> int:
    """The number of real arrays that values of these types are."""
    return len(part_types(types))


# Rules.


def both_parts(name: str) -> Rule:
    """An operation that is linear over the reals, of the real parts and of the imaginary ones."""

    def rule(*xs: Value, **params: Any) -> Value:
        found = [OPS[name](*[part(x) if is_complex_value(x) else x for x in xs], **params) for part in (real, imag)]
        made: Value = make_complex(*found)
        return made

    return rule


def product_of_parts(name: str) -> Rule:
    """An operation that is linear in each of two operands."""

    def rule(x: Value, y: Value, **params: Any) -> Value:
        def part(f: Callable[[Value], Value], g: Callable[[Value], Value]) -> Value:
            found: Value = OPS[name](f(x), g(y), **params)
            return found

        made: Value = make_complex(part(real, real) - part(imag, imag), part(real, imag) + part(imag, real))
        return made

    return rule


def divided_parts(x: Value, y: Value) -> Value:
    """x / y by Smith's method, as NumPy does it: the larger part of y is divided by."""
    wide = less_equal(absolute(imag(y)), absolute(real(y)))
    large, little = select(wide, real(y), imag(y)), select(wide, imag(y), real(y))
    ratio = little / large
    scale = 1 / (large + little * ratio)
    a, b = select(wide, real(x), imag(x)), select(wide, imag(x), real(x))
    turned = (b - a * ratio) * scale
    nothing = equal(large, zeros(large.type))
    by_zero = absolute(real(y))
    found: Value = make_complex(
        select(nothing, real(x) / by_zero, (a + b * ratio) * scale),
        select(nothing, imag(x) / by_zero, select(wide, turned, -turned)),
    )
    return found


def same_parts(x: Value, y: Value) -> Value:
    """Equality of both parts."""
    found: Value = equal(real(x), real(y)) & equal(imag(x), imag(y))
    return found


def cast_parts(x: Value, *, dtype: Any) -> Value:
    """A cast from or to a complex dtype; of a complex number it is true that a part is not 0."""
    if dtypes.is_bool(dtype):
        found: Value = not_equal(real(x), zeros(real(x).type)) | not_equal(imag(x), zeros(imag(x).type))
        return found
    kind = dtypes.real_of(dtype)
    if is_complex_value(x):
        made: Value = make_complex(cast(real(x), dtype=kind), cast(imag(x), dtype=kind))
        return made
    size = cast(x, dtype=kind)
    of_real: Value = make_complex(size, zeros(size.type))
    return of_real


def full_parts(*, value: Any, shape: Sequence[Any], dtype: Any) -> Value:
    """Operation `full`, of both parts of the number."""
    kind = dtypes.real_of(dtype)
    parts = (value, 0) if isinstance(value, Dim) else (complex(value).real, complex(value).imag)
    found: Value = make_complex(*[full(value=part, shape=tuple(shape), dtype=kind) for part in parts])
    return found


def constant_parts(*, value: NDArray) -> Value:
    """Operation `constant`, as two of them."""
    found: Value = make_complex(*[constant(value=np.ascontiguousarray(x)) for x in (value.real, value.imag)])
    return found


def branched_parts(index: Value, *xs: Value, branches: Sequence[Graph]) -> Sequence[Value]:
    """Operation `cond` over graphs in parts."""
    found: Any = OPS["cond"](index, *real_and_imaginary(xs), branches=tuple([in_parts(g) for g in branches]))
    return joined_parts(branches[0].out_types, found)


def scanned_parts(*xs: Value, graph: Graph, sizes: tuple[int, int], length: Any, reverse: bool) -> Sequence[Value]:
    """Operation `scan` over a graph in parts."""
    c, k = sizes
    fixed, carry = (count_of_parts([v.type for v in part]) for part in (xs[:c], xs[c : c + k]))
    found: Any = OPS["scan"](
        *real_and_imaginary(xs), graph=in_parts(graph), sizes=(fixed, carry), length=length, reverse=reverse
    )
    return joined_parts(graph.out_types, found)


def looped_parts(*xs: Value, predicate: Graph, body: Graph, constants: tuple[int, int]) -> Sequence[Value]:
    """Operation `while_loop` over graphs in parts."""
    p, b = constants
    counts = tuple([count_of_parts([v.type for v in part]) for part in (xs[:p], xs[p : p + b])])
    graphs = {"predicate": in_parts(predicate), "body": in_parts(body)}
    found: Any = OPS["while_loop"](*real_and_imaginary(xs), **graphs, constants=counts)
    return joined_parts(body.out_types, found)


LINEAR = """add sub neg select broadcast reshape permute flip slice pad concat update_slice window unwindow sum cumsum
    gather scatter scatter_add""".split()
"""Operations that do the same with both parts."""

COMPLEX_RULES: Mapping[str, Rule] = {
    **{name: both_parts(name) for name in LINEAR},
    "mul": product_of_parts("mul"),
    "contract": product_of_parts("contract"),
    "div": divided_parts,
    "equal": same_parts,
    "cast": cast_parts,
    "full": full_parts,
    "constant": constant_parts,
    "cond": branched_parts,
    "scan": scanned_parts,
    "while_loop": looped_parts,
}
"""Rules of operations on complex numbers; those of comparisons, orders and transforms are beside the real ones."""
