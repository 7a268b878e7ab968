"""The order of launches: what the host computes comes first, and small kernels come together to be joined.

host a, small b, large c, host d, small e    -->    host a, host d, large c, (b, e)      where nothing waits for another
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wholestep import dtypes
from wholestep.backends.gpu.host_scalars import Element, HostScalars
from wholestep.backends.gpu.join_kernels import KERNELS, SmallKernel, joined_kernel, small_kernel
from wholestep.kernel.lang import DType, Kernel
from wholestep.lower.program.steps import MemRef

HOST_ELEMENT = 8
"""The bytes of a scalar that the host computes for the card."""


class HostPart(NamedTuple):
    """Scalar code of the host, on elements of buffers at these places and of these dtypes."""

    scalars: HostScalars
    refs: tuple[MemRef, ...]
    types: tuple[DType, ...]

    def place(self, at: Element) -> MemRef:
        """The place of an element."""
        return self.refs[at.buffer].shifted(at.place * self.types[at.buffer].itemsize)

    def loads(self) -> list[tuple[MemRef, str]]:
        """The elements that are loaded, and their dtypes."""
        return [(self.place(at), dtypes.short(self.types[at.buffer])) for at in self.scalars.loads]

    def stores(self) -> list[MemRef]:
        """The elements that are stored."""
        return [self.place(at) for at, _ in self.scalars.stores]


class CardPart(NamedTuple):
    """A launch of the card."""

    kernel: Kernel
    refs: tuple[MemRef, ...]


LaunchPart = HostPart | CardPart


class Access(NamedTuple):
    """Bytes that a part reads or writes."""

    ref: MemRef
    nbytes: int
    written: bool


def accesses(part: LaunchPart) -> list[Access]:
    """All that a part reads and writes."""
    if isinstance(part, CardPart):
        pairs = zip(part.refs, part.kernel.buffers, strict=True)
        return [Access(ref, b.size * b.dtype.itemsize, b.written) for ref, b in pairs]
    loads = [Access(ref, HOST_ELEMENT, False) for ref, _ in part.loads()]
    return loads + [Access(ref, HOST_ELEMENT, True) for ref in part.stores()]


def conflict(first: Sequence[Access], second: Sequence[Access]) -> bool:
    """Test whether two parts may touch one place, one of them writing."""
    return any((a.written or b.written) and may_overlap(a, b) for a in first for b in second)


def may_overlap(a: Access, b: Access) -> bool:
    """Test whether bytes may be the same ones; places that move with loops otherwise are not told apart."""
    if a.ref.slot != b.ref.slot:
        return False
    if a.ref.moves != b.ref.moves:
        return True
    low, high = int(a.ref.offset), int(b.ref.offset)
    return low < high + b.nbytes and high < low + a.nbytes


class LaunchOrder:
    """Parts that are put in order; each comes after those before it that it may not pass."""

    def __init__(self, parts: Sequence[LaunchPart], buffers: int) -> None:
        self.parts, self.buffers = parts, buffers
        kernels = dict.fromkeys([p.kernel for p in parts if isinstance(p, CardPart)])
        found = {kernel: small_kernel(kernel) for kernel in kernels}
        self.small = [found[p.kernel] if isinstance(p, CardPart) else None for p in parts]
        touched = [accesses(p) for p in parts]
        self.after = [{i for i in range(j) if conflict(touched[i], touched[j])} for j in range(len(parts))]
        self.left = list(range(len(parts)))

    def ordered(self) -> list[LaunchPart]:
        """The parts, the small ones joined."""
        out: list[LaunchPart] = []
        while self.left:
            found = self.taken(lambda i: isinstance(self.parts[i], HostPart)) or self.taken(self.is_large)
            if found:
                out += [self.parts[i] for i in found]
            else:
                out.append(self.joined(self.taken(self.is_small)))
        return out

    def is_large(self, i: int) -> bool:
        """Test whether a part is a launch by itself."""
        return isinstance(self.parts[i], CardPart) and self.small[i] is None

    def is_small(self, i: int) -> bool:
        """Test whether a part is a small kernel."""
        return self.small[i] is not None

    def taken(self, wanted: Callable[[int], bool]) -> list[int]:
        """Take out the parts of a kind, in their order, that no other kind holds up."""
        held = set(self.left)
        found: list[int] = []
        for i in self.left:
            if wanted(i) and self.after[i].isdisjoint(held):
                found.append(i)
                held.remove(i)
        self.left = [i for i in self.left if i in held]
        return found

    def joined(self, found: Sequence[int]) -> CardPart:
        """The launch of small kernels, so many as fit; those that are left over come later."""
        chosen: list[int] = []
        for i in found:
            if chosen and (len(chosen) == KERNELS or sum(len(self.parts[j].refs) for j in (*chosen, i)) > self.buffers):
                break
            chosen.append(i)
        self.left = sorted([*self.left, *found[len(chosen) :]])
        parts = [self.parts[i] for i in chosen]
        if len(parts) == 1:
            (alone,) = parts
            assert isinstance(alone, CardPart)
            return alone
        kernels: list[SmallKernel] = [small for i in chosen if (small := self.small[i]) is not None]
        return CardPart(joined_kernel(kernels), tuple([ref for p in parts for ref in p.refs]))


def order_launches(parts: Sequence[LaunchPart], buffers: int) -> list[LaunchPart]:
    """The parts of consecutive launches in an order with few of them, which means the same; none has more buffers than
    this, beside those that have by themselves."""
    return LaunchOrder(parts, buffers).ordered()
