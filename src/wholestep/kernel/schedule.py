"""Schedule: vector lanes, register tiles and threads of a kernel's axes, independent of the kernel's meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from wholestep.kernel.lang import Axis, Barrier, Buffer, Index, Kernel, Loop, Statement, Store, Var


class AxisSchedule(NamedTuple):
    """Lanes of one vector along an axis, the number of vectors (of elements, where lanes is 1) in a tile, whether
    its steps are threads of a workgroup, and the prefetch distance of its vectors in steps.
    """

    lanes: int = 1
    tile: int = 1
    thread: bool = False
    ahead: int = 0


@dataclass(frozen=True)
class KernelSchedule:
    """The schedule of each axis of a kernel that is more than a scalar loop. A target makes it; it is never changed."""

    axes: Mapping[Axis, AxisSchedule] = field(default_factory=lambda: MappingProxyType({}))

    def __getitem__(self, axis: Axis) -> AxisSchedule:
        return self.axes.get(axis, AxisSchedule())

    def with_axis(self, axis: Axis, **words: Any) -> KernelSchedule:
        """The schedule with other `lanes`, another `tile`, or as a `thread` axis or none, along an axis."""
        return KernelSchedule(MappingProxyType({**self.axes, axis: self[axis]._replace(**words)}))

    def apply(self, kernel: Kernel) -> Kernel:
        """The kernel with axes of these lanes and tiles; the kernel given stays as it is."""
        axes = {a: Axis(a.name, a.size, extent=a.extent, **s._asdict()) for a, s in self.axes.items()}
        return replace_parts(kernel, axes) if axes else kernel


def replace_parts(
    kernel: Kernel,
    axes: Mapping[Axis, Axis],
    buffers: Mapping[Buffer, Buffer] = MappingProxyType({}),
    origins: Mapping[Buffer, int] = MappingProxyType({}),
) -> Kernel:
    """The kernel with other axes and buffers in the place of these; `origins` are the elements at which those begin."""
    given, own = [tuple([buffers.get(b, b) for b in held]) for held in (kernel.buffers, kernel.scratch)]
    return Kernel(kernel.name, given, PartReplacement(axes, buffers, origins).body(kernel.body), own)


class PartReplacement:
    """A copy of a kernel's statements; values that name none of the replaced parts are shared with the original."""

    def __init__(
        self,
        axes: Mapping[Axis, Axis],
        buffers: Mapping[Buffer, Buffer],
        origins: Mapping[Buffer, int] = MappingProxyType({}),
    ) -> None:
        self.new: dict[Any, Any] = {**axes, **buffers}
        self.origins = origins

    def of(self, part: Any) -> Any:
        """The new axis, buffer or value."""
        return self.new.get(part, part)

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """Copy a list of statements."""
        return tuple([self.statement(s) for s in body])

    def statement(self, s: Statement) -> Statement:
        """Copy a statement."""
        if isinstance(s, Var):
            made = self.var(s)
            if made is not s:
                self.new[s] = made
            return made
        if isinstance(s, Store):
            return Store(self.of(s.buffer), self.offset(s.buffer, s.index), self.of(s.value), self.of(s.guard))
        if isinstance(s, Barrier):
            return s
        body = self.body(s.body)
        folds = [f._replace(init=self.of(f.init), values=tuple(map(self.of, f.values))) for f in s.folds]
        carries = [c._replace(init=self.of(c.init), next=self.of(c.next)) for c in s.carries]
        return Loop(self.of(s.axis), body, tuple(folds), tuple(carries), s.ordered, self.of(s.guard))

    def var(self, s: Var) -> Var:
        """Copy a value; the value itself where nothing in it is replaced."""
        args, attr = tuple(map(self.of, s.args)), s.attr
        if s.op == "load":
            attr = self.of(attr[0]), self.offset(*attr)
        elif s.op == "index":
            attr = self.index(attr)
        elif s.op == "across":
            attr = attr[0], self.of(attr[1])
        same = args == s.args and (attr is s.attr or (s.op in ("load", "across") and attr == s.attr))
        return s if same else Var(s.op, args, s.dtype, attr)

    def offset(self, buffer: Buffer, index: Index) -> Index:
        """Copy the index of an access to a buffer, relative to the origin of the new buffer."""
        origin, found = self.origins.get(buffer, 0), self.index(index)
        return found + -origin if origin else found

    def index(self, index: Index) -> Index:
        """Copy an index; the index itself where nothing in it is replaced."""
        if self.new.keys().isdisjoint(index.terms):
            return index
        return Index(index.const, {self.of(k): c for k, c in index.terms.items()})
