"""The order of launches: the host's computations come first, and small kernels are adjacent, to be joined.

host a, small b, large c, host d, small e    -->    host a, host d, large c, (b, e)      where nothing waits for another
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from wholestep.backends.gpu.access_rows import Columns, columns_are_apart, touched_columns
from wholestep.backends.gpu.beside_kernels import KernelsBeside, buffers_of, flat_kernel, group_size, kernels_of
from wholestep.backends.gpu.byte_copies import WORD
from wholestep.backends.gpu.host_scalars import HostStep
from wholestep.backends.gpu.join_kernels import KERNELS, LAUNCH, SmallKernel, joined_kernel, small_kernel
from wholestep.backends.gpu.join_rows import PlacedKernel, joined_rows
from wholestep.backends.gpu.language import MOST_SHARED
from wholestep.backends.gpu.share_loops import THREADS
from wholestep.kernel.lang import Kernel, walk
from wholestep.lower.program.steps import Launch, MemRef, RoutineCall

BESIDE = 8
"""The most kernels beside each other in one launch, equal ones counted once."""
HOST_ELEMENT = 8
"""The bytes of a scalar that the host computes for the card."""


class CardPart(NamedTuple):
    """A launch of the card, of a kernel or of several beside each other; `steps` are those of the plan that it runs."""

    kernel: Kernel | KernelsBeside
    refs: tuple[MemRef, ...]
    steps: tuple[Launch | RoutineCall, ...] = ()

    def alone(self) -> Iterator[PlacedKernel]:
        """The kernels, each with its own places."""
        at = 0
        for kernel in kernels_of(self.kernel):
            yield PlacedKernel(kernel, self.refs[at : at + len(kernel.buffers)])
            at += len(kernel.buffers)


LaunchPart = HostStep | CardPart


def card_part(kernel: Kernel, refs: Sequence[MemRef], steps: tuple[Launch | RoutineCall, ...] = ()) -> CardPart:
    """The launch of a kernel at these places, without the buffers that the kernel does not access."""
    used = {b for s in walk(kernel.body) for b in buffers_of(s)}
    if used.issuperset(kernel.buffers):
        return CardPart(kernel, tuple(refs), steps)
    kept = [(b, ref) for b, ref in zip(kernel.buffers, refs, strict=True) if b in used]
    return CardPart(replace(kernel, buffers=tuple([b for b, _ in kept])), tuple([ref for _, ref in kept]), steps)


def together(kernel: Kernel | KernelsBeside, parts: Sequence[CardPart]) -> CardPart:
    """The launch of a kernel that replaces these parts, with the buffers of all of them."""
    refs, steps = [ref for p in parts for ref in p.refs], [step for p in parts for step in p.steps]
    return CardPart(kernel, tuple(refs), tuple(steps))


class Access(NamedTuple):
    """A range of bytes that a part reads or writes."""

    ref: MemRef
    nbytes: int
    written: bool = True
    columns: Columns = MappingProxyType({})


def shared_bytes(kernel: Kernel | KernelsBeside) -> int:
    """The bytes of scratch memory of a workgroup."""
    return sum([b.size * b.dtype.itemsize for b in kernel.scratch])


def accesses(part: LaunchPart) -> list[Access]:
    """All that a part reads and writes."""
    if isinstance(part, CardPart):
        pairs = zip(part.refs, part.kernel.buffers, strict=True)
        columns = touched_columns(part.kernel) if isinstance(part.kernel, Kernel) else {}
        return [Access(ref, b.size * b.dtype.itemsize, b.written, columns.get(b, {})) for ref, b in pairs]
    loads = [Access(ref, HOST_ELEMENT, False) for ref, _ in part.loads]
    return loads + [Access(ref, HOST_ELEMENT, True) for ref, _ in part.stores]


def conflict(first: Sequence[Access], second: Sequence[Access], trips: Mapping[int, int]) -> bool:
    """Test whether two parts may access the same bytes, at least one of them writing."""
    return any((a.written or b.written) and may_overlap(a, b, trips) for a in first for b in second)


def may_overlap(a: Access, b: Access, trips: Mapping[int, int] = MappingProxyType({})) -> bool:
    """Test whether two accesses may overlap in the same trip of the loops around, or in any two trips where their
    addresses move differently with the loops, which have these trip counts as far as they are known."""
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
    """The range of the bytes that an access touches over all trips of the loops around: its first byte and its end."""
    ways = [int(stride) * (trips[loop] - 1) for loop, stride in access.ref.moves]
    begin = int(access.ref.offset)
    return begin + sum([min(way, 0) for way in ways]), begin + sum([max(way, 0) for way in ways]) + access.nbytes


class LaunchOrder:
    """Parts under reordering; each stays after the earlier parts that it conflicts with."""

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
        """The length of the longest chain of dependent parts after each part."""
        for j in reversed(range(len(parts))):
            for i in self.after[j]:
                self.chains[i] = max(self.chains[i], self.chains[j] + 1)

    def ordered(self, rows: bool = False, patient: bool = False) -> list[LaunchPart]:
        """The parts in order: small ones joined, and large ones without pending predecessors beside each other. With
        `rows`, a part that reads another one row by row is joined with it; with `patient`, workgroups come late."""
        out: list[LaunchPart] = []
        self.left, self.patient = list(range(len(self.given))), patient
        self.parts, self.small, self.flat = [*self.given], [*self.own_small], [*self.own_flat]
        while self.left:
            found = self.taken(lambda i: isinstance(self.parts[i], HostStep))
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
        """The large parts without pending predecessors, and the small ones that may be beside them, of one kind: that
        of the part with the longest chain of dependent parts. The other kinds come later, with more parts of them."""
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
        """The parts for one launch, without workgroups that can move to a later one where the longest chain starts from
        a kernel of independent points: threads with barriers slow all kernels beside them."""
        most = max([self.chains[i] for i in chosen])
        now = [i for i in chosen if not self.kind(i)[1] or self.chains[i] == most]
        return now if any(self.is_large(i) for i in now) else [*chosen]

    def apart(self) -> list[int]:
        """The small parts without pending predecessors, where running all of them in turn takes longer than one more
        launch."""
        free = self.free()
        trips = [small.trips for i in free if (small := self.small[i]) is not None]
        return free if sum(trips) - max(trips, default=0) > LAUNCH else []

    def join_rows(self, ready: Sequence[int]) -> None:
        """Let the workgroups of these parts also run each part that waits for one of them alone and reads it row by
        row."""
        done = dict(zip(ready, ready, strict=True))
        for j in [*self.left]:
            waits = {done.get(i, i) for i in self.after[j] if i in done or i in self.left}
            if len(waits) == 1 and (i := waits.pop()) in done and self.follow(i, j, [k for k in done if done[k] == i]):
                self.left.remove(j)
                done[j] = i

    def follow(self, i: int, j: int, own: Sequence[int]) -> bool:
        """Let the workgroups of a part, which runs `own` parts, also run another part, where they can."""
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
        """Test whether a part and others conflict in arrays that overlap without being the same array."""
        pairs = [(a, b) for i in own for a in self.touched[i] for b in self.touched[j] if a.written or b.written]
        return any(a[:2] != b[:2] and may_overlap(a, b, self.trips) for a, b in pairs)

    def free(self) -> list[int]:
        """The parts without pending predecessors."""
        held = set(self.left)
        return [i for i in self.left if self.after[i].isdisjoint(held)]

    def kind(self, i: int) -> tuple[bool, int]:
        """The key of parts that may share a launch: whether they write narrow elements, where such parts are apart, and
        the size of their workgroups, 0 for any size."""
        part = self.card(i)
        assert isinstance(part.kernel, Kernel)
        return self.is_narrow(part), group_size(part.kernel)

    def card(self, i: int) -> CardPart:
        """A part that is a launch of the card."""
        part = self.parts[i]
        assert isinstance(part, CardPart)
        return part

    def is_narrow(self, part: CardPart) -> bool:
        """Test whether a part writes narrow elements, where such parts are kept apart: in WGSL, a launch that writes
        elements smaller than a word makes all of its accesses atomic."""
        return self.narrow_apart and any(b.written and b.dtype.itemsize < WORD for b in part.kernel.buffers)

    def is_large(self, i: int) -> bool:
        """Test whether a part is no small kernel."""
        return isinstance(self.parts[i], CardPart) and self.small[i] is None

    def is_small(self, i: int) -> bool:
        """Test whether a part is a small kernel."""
        return self.small[i] is not None

    def is_free(self, i: int) -> bool:
        """Test whether a part is a small kernel, and no pending large part is the same elementwise kernel."""
        return self.is_small(i) and not (
            self.flat[i] and self.flat[i] in {self.flat[j] for j in self.left if self.is_large(j)}
        )

    def beside(self, found: Sequence[int]) -> list[LaunchPart]:
        """The launches of independent parts, equal kernels next to each other."""
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
        """Test whether parts are within the limits of one launch."""
        parts = list(map(self.card, pack))
        kernels = tuple([kernel for p in parts for kernel in kernels_of(p.kernel)])
        texts = len({self.flat[i] or i for i in pack})
        held = shared_bytes(KernelsBeside(kernels))
        return texts <= BESIDE and held <= self.shared and sum([len(p.refs) for p in parts]) <= self.buffers

    def launch(self, pack: Sequence[int]) -> LaunchPart:
        """The launch of parts."""
        parts = list(map(self.card, pack))
        if len(parts) == 1:
            return parts[0]
        kernels = tuple([kernel for p in parts for kernel in kernels_of(p.kernel)])
        return together(KernelsBeside(kernels), parts)

    def taken(self, wanted: Callable[[int], bool]) -> list[int]:
        """Remove the wanted parts, in their order, that do not depend on a pending part of another kind, and return
        them."""
        held = set(self.left)
        found: list[int] = []
        for i in self.left:
            if wanted(i) and self.after[i].isdisjoint(held):
                found.append(i)
                held.remove(i)
        self.left = [i for i in self.left if i in held]
        return found

    def needed(self, found: Sequence[int]) -> list[int]:
        """The small parts that a large part waits for, where it waits for small parts alone: the others may then be
        beside it. All of the small parts where there is no such large part."""
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
        """The launch of as many small kernels as fit; the remaining ones come later."""
        chosen: list[int] = []
        for i in found:
            if chosen and (len(chosen) == KERNELS or sum(len(self.card(j).refs) for j in (*chosen, i)) > self.buffers):
                break
            chosen.append(i)
        self.left = sorted([*self.left, *found[len(chosen) :]])
        parts = list(map(self.card, chosen))
        if len(parts) == 1:
            return parts[0]
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
    """The parts of consecutive launches in an equivalent order with few launches. A launch of several kernels has at
    most this number of buffers and bytes of shared memory; `trips` are the trip counts of the loops around. With
    `narrow_apart`, kernels that write narrow elements share launches with each other alone; with `rows`, a kernel that
    reads the result of another one row by row may run on its workgroups.
    """
    order = LaunchOrder(parts, buffers, trips, shared, narrow_apart)
    # Of ways with as few launches the first one, whose text is the shortest.
    ways = [(False, False), (False, True), (True, True), (True, False)] if rows else [(False, False)]
    return min([order.ordered(*way) for way in ways], key=len)
