"""Block launches: equal blocks share one kernel, which each block launches at its offsets in the nest's buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from wholestep.ir.graph import Node
from wholestep.kernel.lang import Axis, Buffer, Kernel
from wholestep.lower.blocking.block_kernels import SCRATCH, BlockKernel
from wholestep.lower.blocking.block_sizes import AxisPart, BlockSizes
from wholestep.lower.blocking.contraction_nest import ContractionNest
from wholestep.lower.program.steps import ForLoop, Launch, MemRef, Step, map_nested

Places = Sequence[tuple[Axis, AxisPart]]
"""The part of each axis that a block is made of."""


@dataclass(frozen=True)
class BlockedContraction:
    """The steps that replace a kernel: their slots are the kernel's buffers, then scratch areas of `scratch` bytes."""

    steps: tuple[Step, ...]
    scratch: tuple[int, ...]

    def placed(self, refs: Sequence[MemRef], nodes: tuple[Node, ...]) -> tuple[Step, ...]:
        """The steps over memory: `refs` are the places of the buffers and scratch areas, `nodes` the operations of the
        graph that the launches compute."""

        def place(ref: MemRef) -> MemRef:
            found = refs[ref.slot].shifted(ref.offset)
            return found._replace(moves=(*found.moves, *ref.moves))

        def launch(s: Launch) -> Launch:
            return replace(s, refs=tuple(map(place, s.refs)), nodes=nodes)

        def put(steps: tuple[Step, ...]) -> tuple[Step, ...]:
            return tuple([launch(s) if isinstance(s, Launch) else map_nested(s, put) for s in steps])

        return put(self.steps)


class BlockLaunches:
    """The steps of one contraction, over a nest, in blocks of certain sizes."""

    def __init__(
        self,
        nest: ContractionNest,
        sizes: BlockSizes,
        new_loop: Callable[[], int],
        worth_sharing: Callable[[Kernel], bool],
    ) -> None:
        self.nest, self.sizes, self.new_loop, self.worth_sharing = nest, sizes, new_loop, worth_sharing
        self.made: dict[tuple[object, ...], BlockKernel] = {}
        self.batch = [(axis, AxisPart(0, 1, axis.extent)) for axis in nest.batch]
        self.loops: dict[tuple[Axis, AxisPart], int] = {place: new_loop() for place in self.batch}
        self.room = dict.fromkeys(SCRATCH, 0)

    def made_of(self, steps: Sequence[Step]) -> BlockedContraction:
        """These steps for each point of the batch, with the scratch memory of their kernels."""
        for place in reversed(self.batch):
            steps = [ForLoop(self.loops[place], place[1].trips, tuple(steps), indivisible=True)]
        size = self.nest.dtype.itemsize
        return BlockedContraction(tuple(steps), tuple([self.room[name] * size for name in SCRATCH]))

    def each(self, axis: Axis, part: AxisPart, steps: Callable[[], list[Step]]) -> list[Step]:
        """The steps for a part of an axis, in a loop if the part repeats."""
        if part.trips == 1:
            return steps()
        number = self.loops[(axis, part)] = self.new_loop()
        return [ForLoop(number, part.trips, tuple(steps()), indivisible=True)]

    def launched(self, key: tuple[object, ...], write: Callable[[], BlockKernel], places: Places) -> Launch:
        """The launch of a kernel over one block; it is written for the first block with its key."""
        if key not in self.made:
            made = self.made[key] = write()
            for (role, old), buffer in zip(made.operands, made.kernel.buffers, strict=True):
                if old is None:
                    self.room[role] = max(self.room[role], buffer.size)
        found = self.made[key]
        refs = tuple([self.ref((*self.batch, *places), *operand) for operand in found.operands])
        return Launch(found.kernel, refs, self.worth_sharing(found.kernel))

    def ref(self, places: Places, role: str, buffer: Buffer | None) -> MemRef:
        """The place of a buffer in a block."""
        nest = self.nest
        if buffer is None:
            return MemRef(len(nest.kernel.buffers) + SCRATCH.index(role))
        found = MemRef(nest.kernel.buffers.index(buffer))
        for axis, part in places:
            if not part.start and part.trips == 1:
                continue
            stride = nest.stride(role, buffer, axis) * buffer.dtype.itemsize
            found = found.shifted(stride * part.start)
            if stride and part.trips > 1:
                found = found.moved(self.loops[axis, part], stride * part.extent)
        return found
