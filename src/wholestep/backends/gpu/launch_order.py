"""The order of launches: what the host computes comes first, and small kernels come together to be joined.

host a, small b, large c, host d, small e    -->    host a, host d, large c, (b, e)      where nothing waits for another
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from wholestep import dtypes
from wholestep.backends.gpu.access_rows import Columns, columns_are_apart, touched_columns
from wholestep.backends.gpu.beside_kernels import KernelsBeside, buffers_of, flat_kernel, group_size, kernels_of
from wholestep.backends.gpu.host_scalars import Element, HostScalars
from wholestep.backends.gpu.join_kernels import KERNELS, LAUNCH, SmallKernel, joined_kernel, small_kernel
from wholestep.backends.gpu.join_rows import PlacedKernel, joined_rows
from wholestep.backends.gpu.language import MOST_SHARED
from wholestep.backends.gpu.share_loops import THREADS
from wholestep.kernel.lang import DType, Kernel, walk
from wholestep.lower.program.steps import Launch, MemRef, RoutineCall

BESIDE = 8
"""The kernels beside each other in one launch at most, equal ones counted once."""
WORD = 4
"""Elements of fewer bytes are written by atomic operations in WGSL, as all that their launch reads and writes is."""
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
    """A launch of the card, of a kernel or of several beside each other; `steps` are those of the plan that it does."""

    kernel: Kernel | KernelsBeside
    refs: tuple[MemRef, ...]
    steps: tuple[Launch | RoutineCall, ...] = ()

    def alone(self) -> Iterator[PlacedKernel]:
        """The kernels, each with its own places."""
        at = 0
        for kernel in kernels_of(self.kernel):
            yield PlacedKernel(kernel, self.refs[at : at + len(kernel.buffers)])
            at += len(kernel.buffers)


LaunchPart = HostPart | CardPart


def card_part(kernel: Kernel, refs: Sequence[MemRef], steps: tuple[Launch | RoutineCall, ...] = ()) -> CardPart:
    """The launch of a kernel at these places, without the buffers that the kernel leaves alone."""
    used = {b for s in walk(kernel.body) for b in buffers_of(s)}
    if used.issuperset(kernel.buffers):
        return CardPart(kernel, tuple(refs), steps)
    kept = [(b, ref) for b, ref in zip(kernel.buffers, refs, strict=True) if b in used]
    return CardPart(replace(kernel, buffers=tuple([b for b, _ in kept])), tuple([ref for _, ref in kept]), steps)


def together(kernel: Kernel | KernelsBeside, parts: Sequence[LaunchPart]) -> CardPart:
    """The launch of a kernel that does what these parts do."""
    refs = tuple([ref for p in parts for ref in p.refs])
    return CardPart(kernel, refs, tuple([step for p in parts if isinstance(p, CardPart) for step in p.steps]))


class Access(NamedTuple):
    """Bytes that a part reads or writes."""

    ref: MemRef
    nbytes: int
    written: bool
    columns: Columns = MappingProxyType({})


def shared_bytes(kernel: Kernel | KernelsBeside) -> int:
    """The bytes of memory of its own that a workgroup has."""
    return sum([b.size * b.dtype.itemsize for b in kernel.scratch])


def accesses(part: LaunchPart) -> list[Access]:
    """All that a part reads and writes."""
    if isinstance(part, CardPart):
        pairs = zip(part.refs, part.kernel.buffers, strict=True)
        columns = touched_columns(part.kernel) if isinstance(part.kernel, Kernel) else {}
        return [Access(ref, b.size * b.dtype.itemsize, b.written, columns.get(b, {})) for ref, b in pairs]
    loads = [Access(ref, HOST_ELEMENT, False) for ref, _ in part.loads()]
    return loads + [Access(ref, HOST_ELEMENT, True) for ref in part.stores()]


def conflict(first: Sequence[Access], second: Sequence[Access], trips: Mapping[int, int]) -> bool:
    """Test whether two parts may touch one place, one of them writing."""
    return any((a.written or b.written) and may_overlap(a, b, trips) for a in first for b in second)


def may_overlap(a: Access, b: Access, trips: Mapping[int, int]) -> bool:
    """Test whether bytes may be the same ones; where places move with loops otherwise, in whatever trips."""
    if a.ref.slot != b.ref.slot:
        return False
    if a.ref.moves == b.ref.moves:
        low, high = int(a.ref.offset), int(b.ref.offset)
        meet = low < high + b.nbytes and high < low + a.nbytes
        return meet and not columns_are_apart(a.columns, low, b.columns, high)
    if any(loop not in trips for x in (a, b) for loop, _ in x.ref.moves):
        return True
    (low, low_end), (high, high_end) = touched_bytes(a, trips), touched_bytes(b, trips)
    return low < high_end and high < low_end


def touched_bytes(access: Access, trips: Mapping[int, int]) -> tuple[int, int]:
    """The bytes that are touched in all trips of the loops around, from and to before."""
    ways = [int(stride) * (trips[loop] - 1) for loop, stride in access.ref.moves]
    begin = int(access.ref.offset)
    return begin + sum([min(way, 0) for way in ways]), begin + sum([max(way, 0) for way in ways]) + access.nbytes


class LaunchOrder:
    """Parts that are put in order; each comes after those before it that it may not pass."""

    def __init__(
        self, parts: Sequence[LaunchPart], buffers: int, trips: Mapping[int, int], shared: int, narrow_apart: bool
    ) -> None:
        self.buffers, self.shared, self.narrow_apart = buffers, shared, narrow_apart
        self.given, self.trips = parts, trips
        kernels = dict.fromkeys([kernel for p in parts if isinstance(p, CardPart) for kernel in kernels_of(p.kernel)])
        small = {kernel: small_kernel(kernel) for kernel in kernels}
        flat = {kernel: found.text for kernel in kernels if (found := flat_kernel(kernel)) is not None}
        own = [kernels_of(p.kernel)[0] if isinstance(p, CardPart) else None for p in parts]
        self.own_small = [None if kernel is None else small[kernel] for kernel in own]
        self.own_flat = [None if kernel is None else flat.get(kernel) for kernel in own]
        self.touched = touched = [accesses(p) for p in parts]
        self.after = [{i for i in range(j) if conflict(touched[i], touched[j], trips)} for j in range(len(parts))]
        self.chains = [0] * len(parts)
        """The length of the longest chain of parts that wait for each, one after the other."""
        for j in reversed(range(len(parts))):
            for i in self.after[j]:
                self.chains[i] = max(self.chains[i], self.chains[j] + 1)

    def ordered(self, rows: bool = False, patient: bool = False) -> list[LaunchPart]:
        """The parts, small ones joined, and large ones that wait for nothing beside each other. What reads another part
        `rows` by rows is joined with it, and `patient` workgroups come late."""
        out: list[LaunchPart] = []
        self.left, self.patient = list(range(len(self.given))), patient
        self.parts, self.small, self.flat = [*self.given], [*self.own_small], [*self.own_flat]
        while self.left:
            found = self.taken(lambda i: isinstance(self.parts[i], HostPart))
            if found:
                out += [self.parts[i] for i in found]
            elif ready := self.ready() or self.apart():
                self.left = [i for i in self.left if i not in ready]
                if rows and {size for _, size in map(self.kind, ready)} <= {0, THREADS}:
                    self.join_rows(ready)
                out += self.beside(ready)
            else:
                out.append(self.joined(self.needed(self.taken(self.is_free) or self.taken(self.is_small))))
        return out

    def ready(self) -> list[int]:
        """The large parts that wait for nothing, and the small ones that may be beside them: those of the kind of which
        one has the longest chain of others after it. The rest come when there are more of them."""
        free = self.free()
        kinds: dict[tuple[bool, int], int] = {}
        for i in free:
            if self.is_large(i):
                kinds[self.kind(i)] = max(kinds.get(self.kind(i), 0), self.chains[i])
        if not kinds:
            return []
        narrow, size = max(kinds, key=kinds.__getitem__)
        if not size:  # any will do: that of the next ones
            size = max([kind for kind in kinds if kind[0] == narrow], key=lambda kind: (kind[1] > 0, kinds[kind]))[1]
        chosen = [i for i in free if self.kind(i) in ((narrow, size), (narrow, 0))]
        return self.without_patient(chosen) if self.patient else chosen

    def without_patient(self, chosen: Sequence[int]) -> list[int]:
        """Those of some parts that are to be one launch, without the workgroups that can wait for a later one, where
        the longest chain waits for points: threads that wait for each other make all that is beside them slower."""
        most = max([self.chains[i] for i in chosen])
        now = [i for i in chosen if not self.kind(i)[1] or self.chains[i] == most]
        return now if any(self.is_large(i) for i in now) else [*chosen]

    def apart(self) -> list[int]:
        """The small parts that wait for nothing, where all of them in turn take longer than a launch more."""
        free = self.free()
        trips = [small.trips for i in free if (small := self.small[i]) is not None]
        return free if sum(trips) - max(trips, default=0) > LAUNCH else []

    def join_rows(self, ready: Sequence[int]) -> None:
        """Let the workgroups of these parts also do what waits for one of them alone and reads it row by row."""
        done = dict(zip(ready, ready, strict=True))
        for j in [*self.left]:
            waits = {done.get(i, i) for i in self.after[j] if i in done or i in self.left}
            if len(waits) == 1 and (i := waits.pop()) in done and self.follow(i, j, [k for k in done if done[k] == i]):
                self.left.remove(j)
                done[j] = i

    def follow(self, i: int, j: int, own: Sequence[int]) -> bool:
        """Let the workgroups of a part, which does `own` parts, also do another part, where they can."""
        first, then = self.parts[i], self.parts[j]
        if not isinstance(first, CardPart) or not isinstance(then, CardPart) or self.meets_in_part(j, own):
            return False
        kernels = [alone for k in (*own, j) if isinstance(p := self.given[k], CardPart) for alone in p.alone()]
        made = joined_rows(kernels)
        if made is None or len(made.refs) > self.buffers or shared_bytes(made.kernel) > self.shared:
            return False
        both = CardPart(*made, (*first.steps, *then.steps))
        if self.is_narrow(both) != self.is_narrow(first):
            return False
        self.parts[i], self.small[i], self.flat[i] = both, None, None
        return True

    def meets_in_part(self, j: int, own: Sequence[int]) -> bool:
        """Test whether a part touches bytes that one of some others writes, or the other way round, other than as the
        same array."""
        pairs = [(a, b) for i in own for a in self.touched[i] for b in self.touched[j] if a.written or b.written]
        return any(a[:2] != b[:2] and may_overlap(a, b, self.trips) for a, b in pairs)

    def free(self) -> list[int]:
        """The parts that wait for nothing."""
        held = set(self.left)
        return [i for i in self.left if self.after[i].isdisjoint(held)]

    def kind(self, i: int) -> tuple[bool, int]:
        """The same for launches that may be one, those of narrow elements or of none where these are apart, and of
        workgroups of one size, 0 for those of any size."""
        part = self.parts[i]
        assert isinstance(part, CardPart) and isinstance(part.kernel, Kernel)
        return self.is_narrow(part), group_size(part.kernel)

    def is_narrow(self, part: CardPart) -> bool:
        """Test whether a part writes narrow elements, where such parts are to be apart."""
        return self.narrow_apart and any(b.written and b.dtype.itemsize < WORD for b in part.kernel.buffers)

    def is_large(self, i: int) -> bool:
        """Test whether a part is no small kernel."""
        return isinstance(self.parts[i], CardPart) and self.small[i] is None

    def is_small(self, i: int) -> bool:
        """Test whether a part is a small kernel."""
        return self.small[i] is not None

    def is_free(self, i: int) -> bool:
        """Test whether a part is a small kernel, and no large one that is left does the same to other arrays."""
        return self.is_small(i) and not (
            self.flat[i] and self.flat[i] in {self.flat[j] for j in self.left if self.is_large(j)}
        )

    def beside(self, found: Sequence[int]) -> list[LaunchPart]:
        """The launches of parts that have nothing to do with each other, equal ones next to each other."""
        packs: dict[tuple[bool, int], list[list[int]]] = {}
        sizes = {narrow: size for narrow, size in sorted([self.kind(i) for i in found])}
        for i in sorted(
            found, key=lambda i: (min([j for j in found if self.flat[j] == self.flat[i]]) if self.flat[i] else i, i)
        ):
            narrow, size = self.kind(i)
            own = packs.setdefault((narrow, size or sizes[narrow]), [])
            if not own or not self.fits([*own[-1], i]):
                own.append([])
            own[-1].append(i)
        return [self.launch(pack) for own in packs.values() for pack in own]

    def fits(self, pack: Sequence[int]) -> bool:
        """Test whether parts are not too many for one launch."""
        parts = [self.parts[i] for i in pack]
        kernels = tuple([kernel for p in parts if isinstance(p, CardPart) for kernel in kernels_of(p.kernel)])
        texts = len({self.flat[i] or i for i in pack})
        held = shared_bytes(KernelsBeside(kernels))
        return texts <= BESIDE and held <= self.shared and sum([len(p.refs) for p in parts]) <= self.buffers

    def launch(self, pack: Sequence[int]) -> LaunchPart:
        """The launch of parts."""
        parts = [p for i in pack if isinstance(p := self.parts[i], CardPart)]
        if len(parts) == 1:
            return parts[0]
        kernels = tuple([kernel for p in parts for kernel in kernels_of(p.kernel)])
        return together(KernelsBeside(kernels), parts)

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

    def needed(self, found: Sequence[int]) -> list[int]:
        """Those of some small parts that a large one waits for, with nothing else: the others may be beside it then.
        All of them where no large one waits for these alone."""
        held, waiting = set(self.left), set[int]()
        for i in self.left:
            if self.is_large(i) and self.after[i].isdisjoint(held):
                waiting |= self.after[i]
        for i in reversed(found):
            if i in waiting:
                waiting |= self.after[i]
        chosen = [i for i in found if i in waiting] or list(found)
        self.left = sorted([*self.left, *set(found).difference(chosen)])
        return chosen

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
        return together(joined_kernel(kernels), parts)


def order_launches(
    parts: Sequence[LaunchPart],
    buffers: int,
    trips: Mapping[int, int] = MappingProxyType({}),
    shared: int = MOST_SHARED,
    narrow_apart: bool = True,
    rows: bool = False,
) -> list[LaunchPart]:
    """The parts of consecutive launches in an order with few of them, which means the same; none has more buffers than
    this, nor more bytes of shared memory, beside those that have by themselves. `trips` are those of the loops around.
    Kernels that write narrow elements are beside each other alone where they are to be apart, and kernels that read
    what another one writes `rows` by rows are done by its workgroups where that is asked for.
    """
    order = LaunchOrder(parts, buffers, trips, shared, narrow_apart)
    # Of ways with as few launches the first one, whose text is the shortest.
    ways = [(False, False), (False, True), (True, True), (True, False)] if rows else [(False, False)]
    return min([order.ordered(*way) for way in ways], key=len)
