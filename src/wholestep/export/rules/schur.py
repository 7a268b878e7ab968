"""The complex Schur form a = z t z^H by the QR algorithm, for targets that have no LAPACK.

Francis, "The QR transformation" (1961), with Wilkinson's shifts: sweeps of plane rotations over Hessenberg matrices, of
all matrices of a stack at a time, until the elements below the diagonals are 0 to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wholestep.export.rules.jacobi import for_each_matrix
from wholestep.export.rules.matrices import (
    INTEGER,
    for_each_place,
    is_place,
    picked_number,
    places_of,
    products_of_all,
    read_column,
    repeated_number,
)
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Value
from wholestep.ir.types import Shape, array_type
from wholestep.lower.legalize.matrix_functions import modulus
from wholestep.primitives.arithmetic import maximum
from wholestep.primitives.creation import like
from wholestep.primitives.family import conj, ones, zeros
from wholestep.primitives.functions import hypot, sqrt
from wholestep.primitives.indexing import gather, scatter
from wholestep.primitives.logic import equal, less, select
from wholestep.primitives.matrices import (
    along_columns,
    along_rows,
    as_dtype,
    column,
    diagonal,
    eye,
    keep_where,
    mh,
    mm,
    real_part,
    row,
    triangle,
)
from wholestep.primitives.movement import reshape
from wholestep.primitives.reduction import any_, max_, sum_

ROUNDING = 2.0**-52
"""The share of its neighbours on the diagonal at which an element below counts as 0."""
SWEEPS = 30
"""The sweeps for each row after which LAPACK gives up, too."""
STUCK = 10
"""The sweeps without a new 0 after which another shift is tried."""


def safely_divided(x: Value, y: Value) -> Value:
    """x / y, and 0 for a y of 0."""
    nothing = equal(y, zeros(y.type))
    return keep_where(x / as_dtype(select(nothing, ones(y.type), y), x.dtype), ~nothing)


def phase_of(x: Value, size: Value) -> Value:
    """x / |x|, and 1 for 0."""
    nothing = equal(size, zeros(size.type))
    found: Value = select(nothing, ones(x.type), safely_divided(x, size))
    return found


def hessenberg(a: Value) -> tuple[Value, Value]:
    """h and z of a = z h z^H, where h is 0 below the diagonal beside the main one, by Householder's reflections."""
    n, depth = a.shape[-1], a.ndim - 2

    def step(h: Value, z: Value, k: Value) -> Sequence[Value]:
        here = read_column(h, k)
        places = places_of(here)
        here = keep_where(here, less(repeated_number(k, places), places))
        first = is_place(places, k + 1)
        top, length = picked_number(here, first), sqrt(real_part(sum_(here * conj(here), axes=(depth,))))
        size = modulus(top)
        v = here + keep_where(along_columns(phase_of(top, size) * as_dtype(length, a.dtype), here.shape), first)
        factor = as_dtype(safely_divided(ones(length.type), length * (length + size)), a.dtype)
        weight = along_columns(factor, v.shape)
        line = reshape(v, shape=(*v.shape, 1))
        h = h - products_of_all(v, reshape(mm(mh(line), h), shape=v.shape) * weight, h.shape)
        h, z = (x - products_of_all(reshape(mm(x, line), shape=v.shape), conj(v) * weight, x.shape) for x in (h, z))
        return [h, z]

    h, z = for_each_place(step, (), (a, eye(a.type)), max(n - 2, 0), False)
    return triangle_and_one(h), z


def triangle_and_one(h: Value) -> Value:
    """The upper triangle, and the diagonal below it."""
    return keep_where(h, row(h.shape) <= column(h.shape) + 1)


def on_subdiagonal(shape: Shape) -> Value:
    """A mask of the diagonal below the main one."""
    return row(shape).equals(column(shape) + 1)


def deflated(t: Value) -> tuple[Value, Value, Value]:
    """Hessenberg matrices with 0 for negligible subdiagonals, and the rows between which each is not triangular yet.

    The rows are the first and last of the last such block, and equal if there is none.
    """
    size, at = modulus(diagonal(t)), on_subdiagonal(t.shape)
    before = sum_(keep_where(along_rows(size, t.shape), at), axes=(t.ndim - 1,))
    below = modulus(sum_(keep_where(t, at), axes=(t.ndim - 1,)))
    kept = below > (size + before) * ROUNDING
    places, last_axis = places_of(kept), (kept.ndim - 1,)
    none = zeros(places.type)
    high = max_(select(kept, places, none), axes=last_axis)
    low = max_(select(~kept & (places <= along_columns(high, places.shape)), places, none), axes=last_axis)
    return keep_where(t, ~at | along_columns(kept, t.shape)), low, high


def wilkinson_shift(t: Value, high: Value, stuck: Value) -> Value:
    """The eigenvalue of the last two rows and columns of a block that is next to its last element.

    After sweeps without progress, the last element plus 3/4 of the size of the element to its left.
    """
    last = for_each_matrix(high, t.shape)
    i, j = row(t.shape), column(t.shape)

    def element(up: int, left: int) -> Value:
        found: Value = sum_(
            keep_where(t, (i + up).equals(last) & (j + left).equals(last)), axes=(t.ndim - 2, t.ndim - 1)
        )
        return found

    a, b, c, d = element(1, 1), element(1, 0), element(0, 1), element(0, 0)
    half, product = (a - d) / 2, b * c
    root: Value = OPS["sqrt"](half * half + product)
    far = half + select(real_part(half * conj(root)) < 0, -root, root)
    found: Value = select(
        stuck.equals(STUCK), d + as_dtype(modulus(c) * 0.75, d.dtype), d - safely_divided(product, far)
    )
    return found


def turned_pair(x: Value, y: Value, c: Value, s: Value) -> tuple[Value, Value]:
    """x and y of each matrix, turned by a rotation."""
    c, s = along_columns(c, x.shape), along_columns(s, x.shape)
    return c * x + s * y, c * y - conj(s) * x


def rotated_lines(shift: Value, low: Value, high: Value, t: Value, z: Value, k: Value) -> Sequence[Value]:
    """One rotation of rows k and k + 1, and of columns of both factors, of matrices whose block has them."""
    down, across = t.ndim - 2, t.ndim - 1
    mine, after = repeated_number(k, low), k + 1
    starts = mine.equals(low)
    chosen = select(
        along_columns(starts, t.shape[:-1]), line_at(t, k, across), line_at(t, maximum(k - 1, zeros(k.type)), across)
    )
    f, g = line_at(chosen, k, down) - keep_where(shift, starts), line_at(chosen, after, down)
    size, length = modulus(f), hypot(modulus(f), modulus(g))
    active = (low <= mine) & (mine < high) & (length > 0)
    c = as_dtype(select(active, safely_divided(size, length), ones(size.type)), t.dtype)
    s = keep_where(phase_of(f, size) * conj(safely_divided(g, length)), active)
    x, y = turned_pair(line_at(t, k, down), line_at(t, after, down), c, s)
    t = with_line(with_line(t, x, k, down), y, after, down)
    found = []
    for m in (t, z):
        x, y = turned_pair(line_at(m, k, across), line_at(m, after, across), c, conj(s))
        found.append(with_line(with_line(m, x, k, across), y, after, across))
    return found


def line_at(x: Value, k: Value, axis: int) -> Value:
    """The elements at place k along one axis."""
    found: Value = gather(x, k, axes=(axis,))
    return found


def with_line(x: Value, line: Value, k: Value, axis: int) -> Value:
    """x with other elements at place k along one axis."""
    found: Value = scatter(x, line, k, axes=(axis,))
    return found


def complex_schur_form(a: Value) -> tuple[Value, Value]:
    """t, an upper triangle, and the unitary z of complex matrices."""
    n = a.shape[-1]
    if n < 2 or a.type.size == 0:
        return a, eye(a.type)

    def sweep(count: Value, t: Value, z: Value, low: Value, high: Value, stuck: Value) -> Sequence[Value]:
        shift = wilkinson_shift(t, high, stuck)
        t, z = for_each_place(rotated_lines, (shift, low, high), (t, z), n - 1, False)
        t, first, last = deflated(triangle_and_one(t))
        same = first.equals(low) & last.equals(high) & ~stuck.equals(STUCK)
        return count + 1, t, z, first, last, keep_where(stuck + 1, same)

    def going(count: Value, *state: Value) -> Sequence[Value]:
        high = state[3]
        unfinished = any_(high > 0, axes=tuple(range(high.ndim)))
        return (unfinished & (count < SWEEPS * max(n, 10)),)

    h, z = hessenberg(a)
    t, low, high = deflated(h)
    start = (zeros(array_type((), INTEGER)), t, z, low, high, zeros(high.type))
    graphs = [build(f, [v.type for v in start], name=name)[0] for f, name in ((going, "going"), (sweep, "sweep"))]
    found: Any = OPS["while_loop"](*start, predicate=graphs[0], body=graphs[1], constants=(0, 0))
    unfinished = for_each_matrix(found[4] > 0, a.shape)
    t = select(unfinished, like(a, math.nan), found[1])
    return triangle(t, lower=False), found[2]
