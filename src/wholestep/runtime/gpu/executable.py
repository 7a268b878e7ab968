"""Executables of a card: the host runs a program's steps, launches its kernels, and reads flags where needed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from wholestep import dtypes, forks
from wholestep.backends.gpu.host_scalars import HostStep, compute_scalars
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type, array_type
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.program.steps import ForLoop, MemRef, RoutineCall, StatusCheck, Switch, WhileLoop
from wholestep.runtime.backend import AllocateBytes, LoadedCode
from wholestep.runtime.error_sites import largest_text
from wholestep.runtime.executable import BoundExecutable, Executable, UnfitArguments, check_count, fitting_array
from wholestep.runtime.gpu.card_program import CardProgram
from wholestep.runtime.gpu.card_steps import CardStep, DeviceSteps, NumberedLaunch, flat_loop
from wholestep.runtime.gpu.conditions import NUMBER, STOP_WORDS
from wholestep.runtime.gpu.driver import Driver, MemoryPlace
from wholestep.runtime.gpu.memory import CardArray, CardMemory, raw_bytes
from wholestep.runtime.gpu.transfers import BatchTransfers, SideBySide
from wholestep.runtime.memory.buffer import memory_for
from wholestep.runtime.memory.mapped_arrays import FileInputs

RECORDED = 1024
"""The launches of a loop's trips that are recorded together: a call can be stopped between such groups."""


NOWHERE = MemoryPlace(None, 0)
"""The place of an input before the first call."""
OWN_CLASSES = (np.ndarray, CardArray)
"""The array classes that need no further checks of their type."""
SMALL = 4096
"""The most bytes of all results of a program that share one block."""


class CardCode(LoadedCode):
    """The kernels of a program on a card, and its constants."""

    def __init__(self, unit: CompilationUnit, program: CardProgram, driver: Driver) -> None:
        self.graph, self.resident, self.program, self.driver = unit.graph, unit.resident, program, driver
        self.kernels = driver.build(program.code, program.kernels) if program.kernels else ()
        self.constants = CardMemory(driver).upload(program.constants).place
        self.nbytes, self.arena = len(program.code), program.arena

    def executable(self, streams: FileInputs) -> CardExecutable:
        return CardExecutable(self)

    def at_sizes(self, sizes: Mapping[str, int], arena: AllocateBytes | None) -> Executable:
        raise UnsupportedError("compile: programs for cards are made for numbers")


class CardExecutable(Executable):
    """A program that is loaded on a card."""

    def __init__(self, code: CardCode) -> None:
        self.code, self.graph, self.resident = code, code.graph, code.resident
        self.memory = CardMemory(code.driver)

    def __call__(self, arrays: Sequence[Any]) -> list[NDArray]:
        program = self.code.program
        check_count(arrays, len(program.inputs))
        state = []
        for i, _ in self.resident:
            wanted = program.input_type(i)
            held = self.memory.allocate(wanted.shape, wanted.dtype)
            self.memory.copy(held, fitting_array(arrays[i], wanted, self.input_name(i), CardArray))
            state.append(held)
        bound = CardInstance(self, state)
        fresh = iter(bound([arrays[i] for i in bound.given]))
        replaced = {o: held for (_, o), held in zip(self.resident, state, strict=True)}
        return [
            self.memory.download(replaced[o]) if o in replaced else next(fresh) for o in range(len(program.outputs))
        ]

    def instance(self, state: Sequence[Any]) -> CardInstance:
        return CardInstance(self, state)


class CardInstance(BoundExecutable):
    """A program bound to its resident arrays; calls from several threads wait for each other."""

    def __init__(self, program: CardExecutable, state: Sequence[Any]) -> None:
        self.program, self.code, self.memory = program, program.code, program.memory
        plan = self.code.program
        self.state = tuple(state)
        self.given, self.fresh = program.fresh_inputs(), program.fresh_outputs()
        arena = self.allocated(0, array_type((plan.arena,), np.dtype(np.uint8)))
        self.places: list[MemoryPlace] = [arena.place, self.code.constants]
        held: dict[int, CardArray] = {}
        for (i, _), array in zip(program.resident, self.state, strict=True):
            held[plan.inputs[i]] = fitting_array(array, plan.input_type(i), program.input_name(i), CardArray)
        self.moving = {plan.inputs[i] for i in self.given}
        self.kinds = [plan.input_type(i) for i in self.given]
        self.place_results(held)
        for slot, kind in enumerate(plan.types, len(self.places)):
            if slot not in held and slot not in self.moving:
                held[slot] = self.allocated(slot, kind)
            self.places.append(held[slot].place if slot in held else NOWHERE)
        self.held = held
        self.transfers = BatchTransfers(self.code.driver)
        self.recordings: dict[Any, Any] = {}
        self.kept = [self.memory.allocate(x.shape, x.dtype) for x in self.state] if plan.undone else []
        """The state as it was before a call, for one that fails."""
        self.stopped = np.zeros(STOP_WORDS if plan.stop else 0, np.int64)
        """The card's note of the check that has failed."""
        if plan.stop is not None:
            self.code.driver.write(self.place(plan.stop), raw_bytes(self.stopped))
        self.counts: dict[int, int] = {}
        self.made = 0
        self.stopping = False
        self.lock: Any = threading.RLock()
        forks.heir(self)

    def place_results(self, held: dict[int, CardArray]) -> None:
        """Allocate memory for results, in one block if they are small together, so that one copy reads them."""
        plan = self.code.program
        slots = [plan.outputs[o] for o in self.fresh]
        kinds = [plan.slot_type(slot) for slot in slots]
        layout = SideBySide.of([kind.nbytes for kind in kinds])
        shared = len({*slots}) < len(slots) or not {*slots}.isdisjoint({*held, *self.moving})
        if shared or layout.nbytes > SMALL:
            self.results = [np.empty(kind.shape, kind.dtype) for kind in kinds]
            self.landing = [(MemRef(slot, 0), raw_bytes(x)) for slot, x in zip(slots, self.results, strict=True)]
            return
        with memory_for("results", f"{layout.nbytes} bytes"):
            block = self.memory.allocate((layout.nbytes,), np.uint8)
        room = np.empty(layout.nbytes, np.uint8)
        places = [MemoryPlace(block.place.handle, begin) for begin in layout.begins]
        for slot, kind, place in zip(slots, kinds, places, strict=True):
            held[slot] = CardArray(self.code.driver, place, kind.shape, kind.dtype)
        self.results = [x.view(k.dtype).reshape(k.shape) for x, k in zip(layout.parts(room), kinds, strict=True)]
        self.landing = [(MemRef(slots[0], 0), room)] if slots else []

    def _forked(self) -> None:
        """In a forked child: the memory is the parent's."""
        self.lock = forks.Torn("call: this process was forked, and the card is the parent's", "compile it in the child")

    def __call__(self, arrays: Sequence[Any], strict: bool = False) -> Sequence[NDArray]:
        plan = self.code.program
        if strict and not self.fits(arrays):
            raise UnfitArguments
        check_count(arrays, len(self.given))
        with self.lock:
            self.take(arrays)
            self.counts, self.made, self.stopping = {}, 0, False
            if self.kept:
                self.code.driver.repeat(self.recordings, "kept", [], partial(self.copied, self.kept, self.state))
            try:
                self.run(plan.steps)
                self.fetch()
            except BaseException:
                if self.kept:
                    self.copied(self.state, self.kept)
                raise
        return self.results

    def copied(self, targets: Sequence[CardArray], sources: Sequence[CardArray]) -> None:
        """Copy the state to its saved copy, or back."""
        for target, source in zip(targets, sources, strict=True):
            self.memory.copy(target, source)

    def fetch(self) -> None:
        """Read the results, and raise the error of a check that has failed."""
        plan = self.code.program
        places, arrays = [self.place(ref) for ref, _ in self.landing], [data for _, data in self.landing]
        if plan.stop is not None:
            places, arrays = [*places, self.place(plan.stop)], [*arrays, raw_bytes(self.stopped)]
        self.transfers.fetch(places, arrays)
        if plan.stop is not None and self.stopped.any():
            site, *numbers = map(int, self.stopped)
            self.stopped[:] = 0
            self.code.driver.write(self.place(plan.stop), raw_bytes(self.stopped))
            raise self.error(site, numbers)

    def error(self, site: int, numbers: Sequence[int]) -> Exception:
        """The error of a site whose status has these numbers."""
        program = self.code.program
        known = program.numbers[site - 1]
        return program.sites[site - 1].error(numbers[bool(known)], *(known or (0, 0)))

    def fits(self, arrays: Sequence[Any]) -> bool:
        """Test whether arrays are of the classes, dtypes and shapes that the program takes."""
        return len(arrays) == len(self.kinds) and all(
            type(x) in OWN_CLASSES and x.dtype == kind.dtype and x.shape == kind.shape
            for x, kind in zip(arrays, self.kinds, strict=True)
        )

    def take(self, arrays: Sequence[Any]) -> None:
        """Set the places of the arguments: arrays of the card stay in place, others are copied to the card."""
        plan, host = self.code.program, dict[int, NDArray]()
        for i, x in zip(self.given, arrays, strict=True):
            slot = plan.inputs[i]
            array = fitting_array(x, plan.slot_type(slot), self.program.input_name(i), CardArray)
            if isinstance(array, CardArray):
                self.places[slot] = array.place
            else:
                host[slot] = raw_bytes(np.ascontiguousarray(array))
        if host:
            self.send(host)

    def send(self, host: Mapping[int, NDArray]) -> None:
        """Copy arrays of the host, u8[n] each by its slot, to places of their own."""
        plan, transfers = self.code.program, self.transfers
        sizes = tuple([data.size for data in host.values()])
        if sizes != transfers.layout.sizes:
            largest = max([i for i in self.given if plan.inputs[i] in host], key=lambda i: host[plan.inputs[i]].size)
            with memory_for(self.program.input_name(largest), plan.input_type(largest)):
                transfers.lay_out(sizes)
        for slot, place in zip(host, transfers.places, strict=True):
            self.places[slot] = place
        transfers.send(list(host.values()))

    def allocated(self, slot: int, kind: Type) -> CardArray:
        """Memory for a slot, 0 for the arena; an error names the input or result, or the largest value of the arena."""
        inputs, outputs = self.code.program.inputs, self.code.program.outputs
        what = f"result {outputs.index(slot)}" if slot in outputs else "intermediate values"
        what = self.program.input_name(inputs.index(slot)) if slot in inputs else what
        if slot == 0 and self.code.program.largest:
            what += f" (the largest is {largest_text(self.program.graph, self.code.program.largest)})"
        with memory_for(what, kind):
            return self.memory.allocate(kind.shape, kind.dtype)

    def stop(self) -> None:
        self.stopping = True

    @property
    def trips(self) -> int:
        return self.made

    # -- steps -------------------------------------------------------------------------------------------------------

    def place(self, ref: MemRef) -> MemoryPlace:
        """The address of a place in the current trips of the loops around."""
        handle, start = self.places[ref.slot]
        return MemoryPlace(handle, start + ref.offset + sum(self.counts[loop] * stride for loop, stride in ref.moves))

    def number(self, ref: MemRef, dtype: Any) -> int:
        """Read a number in the card's memory, after all earlier commands."""
        found = np.empty(1, dtype)
        self.code.driver.read(self.place(ref), raw_bytes(found))
        return int(found[0])

    def run(self, steps: Sequence[CardStep]) -> None:
        """Go through steps in their order."""
        for step in steps:
            match step:
                case NumberedLaunch():
                    self.launch(step)
                case DeviceSteps():
                    self.repeat_steps(step)
                case HostStep():
                    self.compute(step)
                case RoutineCall():
                    self.copy(step)
                case StatusCheck():
                    self.check(step)
                case ForLoop():
                    self.repeat(step)
                case WhileLoop():
                    self.run(step.test)  # type: ignore[arg-type]
                    while self.number(step.ref, np.bool_):
                        self.run((*step.body, *step.test))  # type: ignore[arg-type]
                case Switch():
                    case = self.number(step.ref, np.int64)
                    self.run(step.cases[min(max(case, 0), len(step.cases) - 1)])  # type: ignore[arg-type]

    def launch(self, step: NumberedLaunch) -> None:
        """Launch a kernel."""
        self.code.driver.launch(self.code.kernels[step.kernel], [self.place(ref) for ref in step.refs])

    def copy(self, step: RoutineCall) -> None:
        """Copy from one place to another."""
        target, source = map(self.place, step.refs)
        self.code.driver.copy(target, source, step.params[0])

    def repeat_steps(self, step: DeviceSteps) -> None:
        """Run steps that the card does by itself."""
        key = step, tuple([self.counts[loop] for loop in step.loops])
        places = [self.places[slot] for slot in step.slots if slot in self.moving]
        self.code.driver.repeat(self.recordings, key, places, partial(self.run, step.steps))

    def compute(self, step: HostStep) -> None:
        """Compute scalars for the card."""
        driver = self.code.driver
        given = [np.empty(1, dtypes.from_short(short)) for _, short in step.loads]
        driver.gather([self.place(ref) for ref, _ in step.loads], [raw_bytes(x) for x in given])
        for (ref, _), made in zip(step.stores, compute_scalars(step, given), strict=True):
            driver.write(self.place(ref), raw_bytes(made))

    def repeat(self, step: ForLoop) -> None:
        """Run a counted loop; an outermost one ends on a request to stop, between trips or between the groups of trips
        that the card runs without the host."""
        trips = int(step.trips)
        together = max(1, RECORDED * trips // count_launches(step)) if step.outermost and is_of_card(step) else 1
        for begin in range(0, trips, together):
            if step.outermost and self.stopping:
                return
            end = min(begin + together, trips)
            if together > 1:
                self.repeat_trips(step, begin, end)
            else:
                self.run_trips(step, begin, end)
            self.made += step.outermost * (end - begin)

    def run_trips(self, step: ForLoop, begin: int, end: int) -> None:
        """Go through some trips of a loop."""
        for trip in range(begin, end):
            self.counts[step.loop] = int(step.trips) - 1 - trip if step.reverse else trip
            self.run(step.body)  # type: ignore[arg-type]

    def repeat_trips(self, step: ForLoop, begin: int, end: int) -> None:
        """Run trips that the card does by itself."""
        inside = [together for together in step.body if isinstance(together, DeviceSteps)]
        around = sorted({loop for together in inside for loop in together.loops} - {step.loop})
        slots = sorted({slot for together in inside for slot in together.slots} & self.moving)
        work = partial(self.run_trips, flat_loop(step), begin, end)
        key = step, begin, tuple([self.counts[loop] for loop in around])
        self.code.driver.repeat(self.recordings, key, [self.places[slot] for slot in slots], work)

    def check(self, step: StatusCheck) -> None:
        """Raise the error of a site unless its status is fine."""
        found = np.zeros(2, np.int64)
        driver, place = self.code.driver, self.place(step.ref)
        driver.read(place, raw_bytes(found[:1]))
        if found[0] == step.fine:
            return
        if self.code.program.numbers[step.site - 1]:
            driver.read(MemoryPlace(place.handle, place.offset + NUMBER), raw_bytes(found[1:]))
        raise self.error(step.site, found.tolist())


def is_of_card(step: ForLoop) -> bool:
    """Test whether the card does a loop's trips by itself."""
    return all(isinstance(inside, DeviceSteps) for inside in step.body)


def count_launches(step: CardStep) -> int:
    """The launches and copies of a step that needs no host, those of a loop once for each trip."""
    if isinstance(step, ForLoop):
        return int(step.trips) * sum(map(count_launches, step.body))  # type: ignore[arg-type]
    return sum(map(count_launches, step.steps)) if isinstance(step, DeviceSteps) else 1
