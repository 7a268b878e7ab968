"""Vectors of work items: an item of a kernel without loops does some points that lie beside each other, by vectors.

y[i] = x[i] + 1 for i in 4096  -->  for an item of 1024: x4 = x[4*i ... 4*i + 3]; y[4*i ... 4*i + 3] = x4 + 1
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from wholestep import dtypes
from wholestep.kernel.lang import Axis, Buffer, Index, Kernel, Loop, Store, Var, walk
from wholestep.kernel.workgroups import Workgroup, find_workgroup

VECTOR_BYTES = 16
"""The bytes that are loaded, stored or copied at once."""
WORDS = {"f32": "float4", "i32": "int4", "u32": "uint4"}
"""The types of vectors of four words."""
HALVES = ("bf16", "f16")
PARTS = "xyzw"
MANY = 1 << 20
"""Fewer points than this keep a card busy better as items of their own."""


def items_of_run(kernel: Kernel, aligned: Collection[Buffer]) -> int:
    """The points that a work item does: as many as a vector has elements, 1 where there are none to read or write."""
    group = find_workgroup(kernel)
    if group.threads or not group.grid or any(not isinstance(s, Var | Store) for s in group.body):
        return 1
    last = group.grid[-1]
    stored_before = any(isinstance(s, Store) for s in walk(kernel.body) if s not in group.body)
    if group.points < MANY or last.symbolic or stored_before:
        return 1
    touched = [(s.buffer, s.index) for s in group.body if isinstance(s, Store)]
    touched += [(s.attr[0], s.attr[1]) for s in group.body if isinstance(s, Var) and s.op == "load" and not s.args]
    for run in (8, 4):
        sizes = {b.dtype.itemsize for b, index in touched if is_run(b, index, last, run, aligned)}
        if last.extent % run == 0 and sizes and min(sizes) * run == VECTOR_BYTES:
            return run
    return 1


def is_run(buffer: Buffer, index: Index, axis: Axis, run: int, aligned: Collection[Buffer]) -> bool:
    """Test whether a run of steps of an axis is whole vectors of a buffer."""
    if buffer not in aligned or dtypes.short(buffer.dtype) not in (*WORDS, *HALVES) or index.coefficient(axis) != 1:
        return False
    others = [index.const, *[c for key, c in index.terms.items() if key is not axis]]
    return all(c % run == 0 for c in others) and buffer.dtype.itemsize * run % VECTOR_BYTES == 0


class PointWriter(Protocol):
    """The writer of the statements of a point of a kernel's grid."""

    workgroup: Workgroup
    used: set[Var]
    aligned: set[Buffer]
    names: dict[Any, str]

    def put(self, line: str) -> None:
        """Write a line."""

    def fresh(self, letter: str) -> str:
        """A new name."""

    def index(self, index: Index) -> str:
        """An index."""

    def value(self, v: Var) -> None:
        """Write a value."""

    def store(self, s: Store) -> None:
        """Write a store."""


class VectorItems:
    """The statements of a work item that does a run of points."""

    def __init__(self, writer: PointWriter, run: int) -> None:
        self.w, self.run = writer, run
        self.axis = writer.workgroup.grid[-1]
        self.vectors: dict[Var, list[str]] = {}
        """The names of the vectors of loads."""

    def write(self, loop: Loop) -> None:
        """The statements of the innermost loop of the grid at all points of the run: loads and values, then stores."""
        w, first = self.w, self.w.names[self.axis]
        values: list[dict[Var, str]] = []
        for e in range(self.run):
            w.names[self.axis] = f"({first} + {e})"
            for s in loop.body:
                if isinstance(s, Var):
                    self.value(s, e, first)
            used = [x for s in loop.body if isinstance(s, Store) for x in s.reads()]
            values.append({x: w.names[x] for x in used})
        for s in loop.body:
            if isinstance(s, Store):
                self.store(s, values, first)

    def value(self, v: Var, e: int, first: str) -> None:
        """A value at one of the points."""
        w = self.w
        if v.op != "load" or v.args or v not in w.used or not self.is_run(*v.attr):
            w.value(v)
            return
        buffer, index = v.attr
        if v not in self.vectors:
            self.vectors[v] = self.loaded(buffer, self.text(index, first))
        names = self.vectors[v]
        if buffer.dtype.itemsize == 4:
            w.names[v] = f"{names[e // 4]}.{PARTS[e % 4]}"
        else:
            w.names[v] = f"(uint16_t)({names[0]}.{PARTS[e // 2]} >> {16 * (e % 2)})"

    def is_run(self, buffer: Buffer, index: Index) -> bool:
        """Test whether the points are whole vectors of a buffer."""
        return is_run(buffer, index, self.axis, self.run, self.w.aligned)

    def text(self, index: Index, first: str) -> str:
        """An index at the first point."""
        self.w.names[self.axis] = first
        return self.w.index(index)

    def loaded(self, buffer: Buffer, index: str) -> list[str]:
        """The vectors of a buffer from an index on, by name."""
        kind, out = WORDS.get(dtypes.short(buffer.dtype), "uint4"), list[str]()
        for k in range(self.run * buffer.dtype.itemsize // VECTOR_BYTES):
            out.append(self.w.fresh("w"))
            self.w.put(f"const {kind} {out[-1]} = *(const {kind} *)&{self.w.names[buffer]}[{index} + {4 * k}];")
        return out

    def store(self, s: Store, values: list[dict[Var, str]], first: str) -> None:
        """Stores of one statement at all points."""
        w, buffer = self.w, self.w.names[s.buffer]
        stored = [names[s.value] for names in values]
        if s.guard is None and self.is_run(s.buffer, s.index):
            at, kind = self.text(s.index, first), WORDS.get(dtypes.short(s.buffer.dtype), "uint4")
            if s.buffer.dtype.itemsize == 2:
                stored = [f"ws_pair({x}, {y})" for x, y in zip(stored[::2], stored[1::2], strict=True)]
            for k in range(0, len(stored), 4):
                w.put(f"*({kind} *)&{buffer}[{at} + {k}] = make_{kind}({', '.join(stored[k : k + 4])});")
            return
        for e, names in enumerate(values):
            w.names |= names
            w.names[self.axis] = f"({first} + {e})"
            w.store(s)
