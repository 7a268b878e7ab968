"""Loops that matrix units take: folds of a warp over bfloat16 in shared memory, and copies of vectors to it.

for k in 32: for rows m, columns n of a thread: fold s[m, n] = fma(f32(x[40*m + k]), f32(w[136*k + n]))
-->
for 16 terms at a time: fragments of x, fragments of w, and `mma.m16n8k16` for each pair
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from wholestep.backends.gpu.language import THREAD
from wholestep.backends.gpu.vector_items import VECTOR_BYTES
from wholestep.kernel.lang import Axis, Buffer, Fold, Index, Loop, Store, Var

TERMS = 16
"""The terms of a fragment."""
ROWS, COLUMNS = 8, 4
"""The threads of a warp, as rows and columns of a fragment."""
LANES = 5
"""The number of axes, of two threads each, of the threads of a warp; the axes of its columns are the last ones."""


class Fragment(NamedTuple):
    """Two or four matrices of 8 by 8 in shared memory: their origin, the stride between rows of memory, and True in
    `along_terms` if they are contiguous along the terms.
    """

    buffer: Buffer
    origin: Index
    stride: int
    along_terms: bool


class MatrixLoop(NamedTuple):
    """A loop of folds as fragments: 16 rows each, 16 columns each, and the folds of each pair of them, [row half,
    column]."""

    axis: Axis
    rows: tuple[Fragment, ...]
    columns: tuple[Fragment, ...]
    folds: tuple[tuple[tuple[Fold, ...], ...], ...]


def find_matrix_loop(loop: Loop, threads: Sequence[Axis]) -> MatrixLoop | None:
    """The loop as fragments; None where it is another loop."""
    axis = loop.axis
    if len(threads) < LANES or any(a.extent != 2 for a in threads[-LANES:]):
        return None
    if axis.tile != axis.extent or axis.extent % TERMS or not loop.folds:
        return None
    if loop.carries or loop.ordered or loop.guard is not None:
        return None
    if any(f.op != "fma" or not all(map(is_staged, f.values)) for f in loop.folds):
        return None
    row, column = threads[-LANES : 3 - LANES], threads[3 - LANES :]
    rows, columns = [list(dict.fromkeys([f.values[i] for f in loop.folds])) for i in (0, 1)]
    first = fragments(rows, axis, row, [0, 8], 1)
    second = fragments(columns, axis, column, [0, 1, 8, 9], 2)
    if first is None or second is None or len(loop.folds) != len(rows) * len(columns):
        return None
    found = {f.values: f for f in loop.folds}
    folds = [
        [tuple([found[x, y] for x in rows[m : m + 2] for y in columns[n : n + 4]]) for n in range(0, len(columns), 4)]
        for m in range(0, len(rows), 2)
    ]
    return MatrixLoop(axis, first, second, tuple(map(tuple, folds)))


def is_staged(v: Var) -> bool:
    """Test whether a value is a bfloat16 number in shared memory, as float32."""
    if v.op != "convert" or v.args[0].op != "load" or v.args[0].args:
        return False
    buffer: Buffer = v.args[0].attr[0]
    return buffer.space == "shared" and buffer.dtype.name == "bfloat16" and v.dtype.name == "float32"


def fragments(
    values: Sequence[Var], term: Axis, lanes: Sequence[Axis], apart: Sequence[int], each: int
) -> tuple[Fragment, ...] | None:
    """The rows or columns of a thread as fragments with rows or columns `apart` in each; None where they have other
    distances."""
    if len(values) % len(apart):
        return None
    out: list[Fragment] = []
    for begin in range(0, len(values), len(apart)):
        indices: list[Index] = [v.args[0].attr[1] for v in values[begin : begin + len(apart)]]
        buffer: Buffer = values[begin].args[0].attr[0]
        steps = [indices[0].coefficient(axis) for axis in lanes]
        step = steps[-1] // each
        along = indices[0].coefficient(term) == 1
        if steps != [each * step << i for i in reversed(range(len(lanes)))] or not (along or step == 1):
            return None
        if any(i != indices[0] + n * step for i, n in zip(indices, apart, strict=True)):
            return None
        kept = {key: c for key, c in indices[0].terms.items() if key not in (*lanes, term)}
        stride = step if along else indices[0].coefficient(term)
        out.append(Fragment(buffer, Index(indices[0].const, kept), stride, along))
    return tuple(out)


class VectorCopy(NamedTuple):
    """A copy of a vector from global to shared memory; it writes zeros where its guard, if any, does not hold."""

    target: Buffer
    to: Index
    source: Buffer
    place: Index
    guard: Var | None


def find_vector_copy(loop: Loop) -> VectorCopy | None:
    """The copy of one vector that a loop is; None where it is another loop."""
    axis = loop.axis
    if axis.lanes != axis.extent or axis.lanes == 1 or len(loop.body) != 2 or loop.folds:
        return None
    value, store = loop.body
    if not (isinstance(value, Var) and value.op == "load" and isinstance(store, Store)):
        return None
    buffer, index = value.attr
    shared = store.buffer.space == "shared" and buffer.space == "global"
    if store.value is not value or store.guard is not None or not shared:
        return None
    if axis.lanes * buffer.dtype.itemsize != VECTOR_BYTES or index.coefficient(axis) != 1:
        return None
    if store.index.coefficient(axis) != 1:
        return None
    to, place = [Index(i.const, {k: c for k, c in i.terms.items() if k is not axis}) for i in (store.index, index)]
    return VectorCopy(store.buffer, to, buffer, place, value.args[0] if value.args else None)


def is_store_pair(s: Store, following: Store) -> bool:
    """Test whether two stores write elements next to each other, the first of which is the first of a pair of them."""
    if s.guard is not None or following.guard is not None:
        return False
    even = s.index.const % 2 == 0 and all(c % 2 == 0 for c in s.index.terms.values())
    numbers = s.buffer.dtype.name in ("bfloat16", "float32") and s.buffer.space == "global"
    return numbers and even and following.buffer is s.buffer and following.index == s.index + 1


def lane_place(fragment: Fragment, rows: bool) -> str:
    """The offset of the memory row that a thread of a warp addresses, for the four matrices of a fragment.

    The matrices of rows are ordered rows first, those of columns terms first; in memory that is not contiguous along
    the terms, both are transposed.
    """
    low, high = f"{THREAD} % 16", f"{THREAD} / 16 % 2 * 8"
    if rows != fragment.along_terms:
        low, high = f"({THREAD} % 8 + {THREAD} / 16 % 2 * 8)", f"{THREAD} / 8 % 2 * 8"
    return f"{low} * {fragment.stride} + {high}"


def matrix_lines(loop: MatrixLoop, names: Callable[[object], str], index: Callable[[Index], str]) -> Iterator[str]:
    """The statements of a loop: fragments of 16 terms, and their products, accumulated in the variables of the sums."""
    for begin in range(0, loop.axis.extent, TERMS):
        yield "{"
        for letter, found in (("x", loop.rows), ("y", loop.columns)):
            for number, fragment in enumerate(found):
                step = begin if fragment.along_terms else begin * fragment.stride
                place = f"{index(fragment.origin + step)} + {lane_place(fragment, letter == 'x')}"
                load = "ws_matrices" if fragment.along_terms else "ws_turned_matrices"
                yield f"    uint32_t {letter}{number}[4]; {load}({letter}{number}, &{names(fragment.buffer)}[{place}]);"
        for i, row in enumerate(loop.folds):
            for j, folds in enumerate(row):
                sums = [names(f.result) for f in folds]
                for half in (0, 1):
                    four = ", ".join([sums[4 * r + 2 * half + c] for r in (0, 1) for c in (0, 1)])
                    yield f"    ws_multiply({four}, x{i}, y{j}[{2 * half}], y{j}[{2 * half + 1}]);"
        yield "}"
