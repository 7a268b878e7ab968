"""Dispatch lists: placed programs as flat lists of dispatches on one heap, recorded once and submitted without a host.

for trip in 2: k3(s5[64*trip]); check s0[0]; switch s0[8]: case 1: k4(s6)
-->
dispatch k3(4096); dispatch k3(4160); check 8192; choose 8200: [], [2, 3); dispatch k4(4224)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.backends.gpu.beside_kernels import KernelsBeside, launch_text
from wholestep.backends.gpu.byte_copies import WORD, byte_copy
from wholestep.backends.gpu.host_scalars import ScalarOperation
from wholestep.backends.gpu.kernel_writer import KernelCode, write_kernel
from wholestep.backends.gpu.known_scalars import CASE, GIVEN, KnownCode, KnownKernel, Place
from wholestep.backends.gpu.launch_order import CardPart, card_part, order_launches
from wholestep.backends.gpu.limits import DOUBLE_HINT, check_program, device_refusal, launch_refusal
from wholestep.backends.gpu.target import WEBGPU
from wholestep.backends.gpu.wgsl import WGSL
from wholestep.errors import KernelError, UnsupportedError
from wholestep.kernel.lang import Buffer, Kernel
from wholestep.lower.program.placed import PlacedProgram
from wholestep.lower.program.steps import (
    ForLoop,
    Launch,
    MemRef,
    RoutineCall,
    StatusCheck,
    Step,
    Switch,
    WhileLoop,
    walk_steps,
)

ALIGNMENT = 256
KNOWN_BYTES = 8
"""The bytes of a known scalar in the heap."""
MOST = 1 << 15
"""The most dispatches of a program, whose loops are unrolled."""
WINDOW = 256
"""The most launches that are ordered together: each is compared with all before it."""
FIELDS = 2
"""The words of a dispatch before its addresses: the number of workgroups, and a zero that is opaque to compilers."""
I64 = np.dtype(np.int64)


class GivenScalar(NamedTuple):
    """A scalar that is known when a step begins: an array of the state or a hyper-parameter, and its place."""

    path: str
    dtype: str
    address: int


class RecordedProgram(NamedTuple):
    """A program as its dispatches, and the scalars that a host computes for it.

    An entry is ["launch", kernel, addresses], ["check", site, address, fine] or ["choose", number, address, cases],
    whose cases are ranges of launches.
    """

    name: str
    entries: tuple[tuple[Any, ...], ...]
    code: tuple[ScalarOperation, ...]
    values: tuple[tuple[int, int], ...]
    """(address, number) of each scalar that kernels are given."""
    following: tuple[tuple[int, int], ...]
    """(given, number) of each scalar of the state after the step."""
    steers: bool
    """True if a switch decides on scalars that are known."""


class DispatchRecorder:
    """The module that some programs share, and the heap behind the block that they lie in."""

    def __init__(self, nbytes: int, given: Sequence[GivenScalar]) -> None:
        self.top = nbytes
        self.given = list(given)
        self.codes: dict[str, tuple[int, KernelCode]] = {}
        self.numbers: dict[Kernel | KernelsBeside, int] = {}
        self.filled: list[tuple[int, bytes]] = []
        """(address, bytes) of the constants."""

    def take(self, nbytes: int) -> int:
        """Allocate `nbytes` bytes at the end of the heap; returns their address."""
        at = -(-self.top // ALIGNMENT) * ALIGNMENT
        self.top = at + nbytes
        return at

    def record(self, program: PlacedProgram) -> RecordedProgram:
        """The dispatches of a program; raises UnsupportedError for a program that no dispatch list can express."""
        check_program(program.plan, WEBGPU, False)
        constants = program.constant_bytes()
        at = self.take(len(constants))
        if constants:
            self.filled.append((at, constants))
        bases = (program.arena, at, *program.offsets)
        start = self.take(0)
        while True:
            self.top = start
            walk = ProgramWalk(self, program, bases)
            found, lost = walk.recorded()
            if not lost:
                return found
            self.given = [x for x in self.given if x not in lost]

    def number(self, kernel: Kernel | KernelsBeside) -> int:
        """The number of a kernel in the module."""
        if kernel not in self.numbers:
            key = launch_text(kernel)
            if key not in self.codes:
                number = len(self.codes)
                self.codes[key] = number, write_kernel(kernel, f"k{number}", WGSL())
            self.numbers[kernel] = self.codes[key][0]
        return self.numbers[kernel]

    def copying(self, target: int, source: int, nbytes: int) -> list[tuple[Kernel, tuple[int, ...]]]:
        """The launches of a copy, through a temporary buffer where source and target overlap."""
        if target == source or not nbytes:
            return []
        kernel = byte_copy(nbytes, nbytes % WORD == 0)
        if abs(target - source) >= nbytes:
            return [(kernel, (source, target))]
        between = self.take(nbytes)
        return [(kernel, (source, between)), (kernel, (between, target))]

    def module(self) -> tuple[str, list[int]]:
        """The text of the module, and the workgroups of each kernel."""
        codes = [code for _, code in self.codes.values()]
        return WGSL().module([code.text for code in codes]), [code.groups for code in codes]


class ProgramWalk:
    """One program on its way to a list, with the scalars that are known so far."""

    def __init__(self, recorder: DispatchRecorder, program: PlacedProgram, bases: Sequence[int]) -> None:
        self.recorder, self.program, self.bases = recorder, program, bases
        self.code = KnownCode()
        self.known: dict[Place, int] = {}
        for i, x in enumerate(recorder.given):
            dtype = dtypes.from_short(x.dtype)
            self.known[x.address, dtype] = self.code.put(GIVEN, dtype, extra=i)
        self.entries: list[tuple[Any, ...]] = []
        self.values: dict[int, int] = {}
        """The address of each value that kernels are given."""
        self.counts: dict[int, int] = {}
        self.waiting: list[CardPart] = []
        """The pending launches, which are reordered before they are recorded."""
        self.launches = self.switches = 0

    def recorded(self) -> tuple[RecordedProgram, list[GivenScalar]]:
        """The program, and the scalars that were assumed to be known and are overwritten by the card."""
        self.steps(self.program.plan.steps)
        self.flush()
        given = self.recorder.given
        after = [self.known.get((x.address, dtypes.from_short(x.dtype))) for x in given]
        changed = {i: n for i, n in enumerate(after) if n is not None and n != i}
        code, renumbered = self.code.used_by([*self.values, *changed.values()])
        read = {operation.extra for operation in code if operation.op == GIVEN}
        lost = [x for i, x in enumerate(given) if after[i] is None and i in read]
        kept = {i: n for i, n in changed.items() if i in read or given[i].dtype == "f64"}
        code, renumbered = self.code.used_by([*self.values, *kept.values()])
        found = RecordedProgram(
            self.program.name,
            tuple(self.entries),
            tuple(code),
            tuple([(address, renumbered[n]) for n, address in self.values.items()]),
            tuple([(i, renumbered[n]) for i, n in kept.items()]),
            any(operation.op == CASE for operation in code),
        )
        return found, lost

    def address(self, ref: MemRef) -> int:
        """The address of a place in the trips that the loops around it are in."""
        moved = sum([self.counts[loop] * int(stride) for loop, stride in ref.moves])
        return self.bases[ref.slot] + int(ref.offset) + moved

    def steps(self, steps: Sequence[Step]) -> None:
        """Record steps in their order."""
        for step in steps:
            match step:
                case Launch():
                    self.launch(step)
                case RoutineCall():
                    target, source = map(self.address, step.refs)
                    self.copy(target, source, int(step.params[0]))
                case StatusCheck():
                    self.flush()
                    self.entries.append(("check", step.site, self.address(step.ref), step.fine))
                case ForLoop():
                    for trip in range(int(step.trips)):
                        self.counts[step.loop] = int(step.trips) - 1 - trip if step.reverse else trip
                        self.steps(step.body)
                case WhileLoop():
                    raise self.refusal(step)
                case Switch():
                    self.switch(step)

    def launch(self, step: Launch) -> None:
        """Record a launch, with the scalars that the host computes for it."""
        addresses = tuple(map(self.address, step.refs))
        kernel = KnownKernel(step.kernel, addresses, self.known, self.code)
        try:
            card, added = kernel.split()
        except KernelError as error:
            raise launch_refusal(WEBGPU, step, (), f"computes with {error}", DOUBLE_HINT) from None
        stored = kernel.stored()
        if card is not None:
            places = map(self.place_of, addresses, step.kernel.buffers)
            self.append(card, (*places, *[self.value(n) for _, n in added]))
        for address, b in zip(addresses, step.kernel.buffers, strict=True):
            if b.written:
                self.forget(address, b.size * b.dtype.itemsize)
        self.known |= stored

    def place_of(self, address: int, b: Buffer) -> int:
        """The address at which a launch finds a buffer: a scalar that the host has computed lies where the host puts
        it, so that the launch need not wait for the one that stores it."""
        number = None if b.written or b.size != 1 else self.known.get((address, b.dtype))
        return self.value(number) if number is not None and self.code.is_computed_ahead(number) else address

    def append(self, kernel: Kernel, addresses: tuple[int, ...]) -> None:
        """Append a launch to the pending ones."""
        self.waiting.append(card_part(kernel, [MemRef(0, address) for address in addresses]))
        if len(self.waiting) == WINDOW:
            self.flush()

    def flush(self) -> None:
        """Record the pending launches, in an order with few launches."""
        parts, self.waiting = self.waiting, []
        for part in order_launches(parts, WGSL.most_buffers, rows=WGSL.joins_rows):
            assert isinstance(part, CardPart)
            self.launches += 1
            if self.launches > MOST:
                raise UnsupportedError(
                    f"export: {self.program.name} takes more than {MOST:,} dispatches, since its loops are unrolled",
                    hint="fewer trips, or a target that has loops, such as wasm",
                )
            addresses = tuple([int(ref.offset) for ref in part.refs])
            self.entries.append(("launch", self.recorder.number(part.kernel), addresses))

    def value(self, number: int) -> int:
        """The address at which kernels find a value of the host."""
        if number not in self.values:
            if not self.values:
                self.recorder.take(0)
            self.values[number] = self.recorder.top
            self.recorder.top += KNOWN_BYTES
        return self.values[number]

    def forget(self, address: int, nbytes: int) -> None:
        """Remove the known scalars that overlap these bytes."""
        for place in [*self.known]:
            if place[0] < address + nbytes and address < place[0] + place[1].itemsize:
                del self.known[place]

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Record a copy."""
        moved = {(target + at - source, t): n for (at, t), n in self.known.items() if 0 <= at - source < nbytes}
        made = self.recorder.copying(target, source, nbytes)
        for launch in made:
            self.append(*launch)
        if made:
            self.forget(target, nbytes)
            self.known |= moved

    def switch(self, step: Switch) -> None:
        """Record all cases, of which the device runs one; scalars that are known in each case stay known."""
        self.flush()
        number, at = self.switches, len(self.entries)
        self.switches += 1
        address = self.address(step.ref)
        self.entries.append(())
        before, ranges, known = dict(self.known), [], []
        for case in step.cases:
            self.known, first = dict(before), self.launches
            self.steps(case)
            self.flush()
            ranges.append((first, self.launches))
            known.append(self.known)
        self.entries[at] = ("choose", number, address, tuple(ranges))
        self.known = dict(self.merged(number, known))

    def merged(self, number: int, known: Sequence[Mapping[Place, int]]) -> Iterator[tuple[Place, int]]:
        """The scalars that are known after a switch."""
        taken = self.code.put(CASE, I64, extra=number)
        for place, last in known[-1].items():
            numbers = [case[place] for case in known if place in case]
            if len(numbers) < len(known):
                continue
            found = last
            for i, n in enumerate(numbers[:-1]):
                if n != last:
                    same = self.code.put("eq", np.dtype(bool), (taken, self.code.put("const", I64, extra=i)))
                    found = self.code.put("select", place[1], (same, n, found))
            yield place, found

    def refusal(self, step: WhileLoop) -> UnsupportedError:
        """The error of a loop whose end only the device knows."""
        nodes = [node for s in walk_steps(step.test) if isinstance(s, Launch) for node in s.nodes]
        where = next((node.where for node in nodes if node.where is not None), None)
        hint = "write it with ws.scan over a number of steps, or use device='webgpu' in Python"
        return device_refusal(WEBGPU, "while_loop", "ends when the card says so, which a list cannot", hint, where)
