"""A plan as one LLVM function: kernels called in order, with their pointers laid out for them, and control flow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from wholestep.backends.cpu.host_function import SIZE_TABLE_POINTER, HostFunction
from wholestep.backends.cpu.llvm_builder import FunctionBuilder
from wholestep.backends.cpu.routines import write_routine_call
from wholestep.backends.cpu.size_table import SizeOperands, SizeTable
from wholestep.backends.cpu.support_ir.record_layouts import CONTEXT
from wholestep.backends.cpu.support_ir.support import DECLARATIONS
from wholestep.dims import Dim, Size
from wholestep.kernel.lang import Kernel, sizes_of
from wholestep.lower.program.program import FIRST_INPUT, LoweredProgram
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

ENTRY_SYMBOL = "ws_entry"
MAX_STEPS_IN_FUNCTION = 64
"""The most steps in one function; longer lists are split."""


def shared_text(name: str) -> str:
    """Return `void name(context, function, args, n, several)`: run a kernel over n steps, in parallel or not."""
    given = (("ptr", "context"), ("ptr", "function"), ("ptr", "args"), ("i64", "n"), ("i64", "several"))
    f = FunctionBuilder("void", name, given)
    f.either(
        f.let("icmp eq i64 %several, 0"),
        lambda: f.do("call void %function(ptr %args, i64 0, i64 %n)"),
        lambda: f.do("call void @ws_parallel(ptr %context, ptr %function, ptr %args, i64 %n)"),
    )
    return f.text("ret void")


class KernelFunction(NamedTuple):
    """The function that runs a kernel, and the strides that it is given, in bytes."""

    name: str
    strides: tuple[int, ...] = ()


class EntryFunction(HostFunction):
    """Writes the body of the entry function. `functions` maps a kernel to its function."""

    spare = 0
    """Number of words passed to a kernel besides those that it reads."""

    def __init__(self, plan: LoweredProgram, functions: Mapping[Kernel, KernelFunction], sizes: SizeTable) -> None:
        super().__init__(plan, sizes)
        self.functions = functions
        self.trips: dict[int, str] = {}
        self.inside = 0
        self.parts: list[str] = []
        """The functions of the module that only it calls."""
        self.inner_functions: dict[str, str] = {}

    def inner_function(self, key: str, write: Callable[[str], str]) -> str:
        """Return the name of a function in the module of the entry, which is written at its first use."""
        if key not in self.inner_functions:
            self.inner_functions[key] = f"part{len(self.parts)}"
            self.parts.append(write(self.inner_functions[key]))
        return self.inner_functions[key]

    def pointer(self, ref: MemRef) -> str:
        """Emit the address of a buffer."""
        base = f"%slot{ref.slot}"
        for loop, stride in ref.moves:
            by = self.let(f"mul i64 {self.trips[loop]}, {self.number(stride)}")
            base = self.let(f"getelementptr i8, ptr {base}, i64 {by}")
        if not (ref.offset or self.plan.has_loops):
            return base
        return self.let(f"getelementptr i8, ptr {base}, i64 {self.number(ref.offset)}")

    def steps(self, steps: Sequence[Step]) -> None:
        """Emit steps in order; a long list is split into functions, since LLVM's time is superlinear in their
        length."""
        if len(steps) <= MAX_STEPS_IN_FUNCTION:
            for step in steps:
                self.step(step)
            return
        for start in range(0, len(steps), MAX_STEPS_IN_FUNCTION):
            self.part(steps[start : start + MAX_STEPS_IN_FUNCTION])

    def step(self, step: Step) -> None:
        """Emit one step."""
        HANDLERS[type(step)](self, step)

    def part(self, steps: Sequence[Step]) -> None:
        """Emit some steps as a function of their own, and its call."""
        name = f"part{len(self.parts)}"
        outside = self.lines, self.block, self.trips, self.sizes
        self.parts.append("")
        self.lines, self.block = [], "entry"
        self.sizes = SizeOperands(self.sizes.known, SIZE_TABLE_POINTER)
        self.trips = {loop: f"%outer{loop}" for loop in outside[2]}
        self.frame(steps)
        self.steps(steps)
        self.do("ret i32 0")
        trips = "".join(f", i64 %outer{loop}" for loop in outside[2])
        head = f"define internal i32 @{name}(ptr %table, ptr %context{trips}) noinline nounwind {{"
        self.parts[int(name[4:])] = "\n".join([head, "entry:", *self.heads(), *self.lines, "}", ""])
        self.lines, self.block, self.trips, self.sizes = outside
        given = "".join(f", i64 {trip}" for trip in self.trips.values())
        code = self.let(f"call i32 @{name}(ptr %table, ptr %context{given})")
        left, on = self.label("left"), self.label("on")
        self.do(f"br i1 {self.let(f'icmp ne i32 {code}, 0')}, label %{left}, label %{on}")
        self.enter(left)
        self.do("ret i32 1")
        self.enter(on)

    def frame(self, steps: Sequence[Step]) -> None:
        """Emit the argument array of kernels, and the base pointers that the steps need."""
        inside = list(walk_steps(tuple(steps)))
        width = max([self.words(step) for step in inside if isinstance(step, Launch)], default=1)
        # Eight bytes each, also where a pointer has four.
        self.lines.append(f"  %args = alloca [{width + self.spare} x i64], align 64")
        for slot in sorted({ref.slot for step in inside for ref in refs_of(step)}):
            at = self.let(f"getelementptr i8, ptr %table, i64 {8 * slot}")
            self.lines.append(f"  %slot{slot} = load ptr, ptr {at}")

    def heads(self) -> list[str]:
        """Return the prologue that loads the sizes; their table follows the slots."""
        if not (self.sizes.lines or self.plan.has_loops):
            return []
        at = 8 * (len(self.plan.slots) + FIRST_INPUT)
        table = [
            f"  {SIZE_TABLE_POINTER}.at = getelementptr i8, ptr %table, i64 {at}",
            f"  {SIZE_TABLE_POINTER} = load ptr, ptr {SIZE_TABLE_POINTER}.at",
        ]
        return [*table, *self.sizes.lines]

    def words(self, step: Launch) -> int:
        """Return the number of words that a kernel reads: its buffers, the table of sizes, and its strides."""
        return len(step.refs) + 1 + len(self.functions[step.kernel].strides)

    def launch(self, step: Launch) -> None:
        for i, ref in enumerate(step.refs):
            at = self.let(f"getelementptr i8, ptr %args, i64 {8 * i}")
            self.do(f"store ptr {self.pointer(ref)}, ptr {at}")
        count = parallel_steps(step)
        if sizes_of(step.kernel):
            self.sizes.name(next(iter(sizes_of(step.kernel))))
            at = self.let(f"getelementptr i8, ptr %args, i64 {8 * len(step.refs)}")
            self.do(f"store ptr {SIZE_TABLE_POINTER}, ptr {at}")
        for i, stride in enumerate(self.functions[step.kernel].strides, len(step.refs) + 1):
            at = self.let(f"getelementptr i8, ptr %args, i64 {8 * i}")
            self.do(f"store i64 {self.number(stride)}, ptr {at}")
        self.launch_function(self.function(step), count, step.parallel and count != 1)

    def launch_function(self, name: str, count: Size, shared: bool) -> None:
        """Emit the call of a kernel's function, whose arguments are already stored, over `count` steps."""
        steps = self.number(count)
        if self.plan.has_loops and not self.inside:
            how = self.inner_function("shared", shared_text)
            given = f"ptr %context, ptr @{name}, ptr %args, i64 {steps}, i64 {self.number(int(shared))}"
            self.do(f"call void @{how}({given})")
        elif shared:
            self.do(f"call void @ws_parallel(ptr %context, ptr @{name}, ptr %args, i64 {steps})")
        else:
            self.do(f"call void @{name}(ptr %args, i64 0, i64 {steps})")

    def function(self, step: Launch) -> str:
        """Return the function that runs a kernel."""
        return self.functions[step.kernel].name

    def call(self, step: RoutineCall) -> None:
        pointers = [self.pointer(ref) for ref in step.refs]
        write_routine_call(self, step, pointers)

    def check(self, step: StatusCheck) -> None:
        place = self.pointer(step.ref)
        found = self.let(f"load i64, ptr {place}")
        bad = self.let(f"icmp ne i64 {found}, {step.fine}")
        value = self.let(f"load i64, ptr {self.let(f'getelementptr i8, ptr {place}, i64 8')}")
        self.fail_if(bad, step.site, found, value, self.plan.sites[step.site - 1])

    def repeat(self, step: ForLoop) -> None:
        if step.trips == 0:
            return
        head, done = self.label("loop"), self.label("done")
        before = self.block
        self.do(f"br label %{head}")
        self.enter(head)
        at = len(self.lines)
        trip, following = self.fresh("trip"), self.fresh("next")
        self.lines.append("")
        self.trips[step.loop] = self.let(f"sub i64 {self.number(step.trips - 1)}, {trip}") if step.reverse else trip
        self.inside += not step.outermost
        self.steps(step.body)
        self.inside -= not step.outermost
        del self.trips[step.loop]  # parts after the loop are not given its trip, which a branch around it may skip
        self.do(f"{following} = add i64 {trip}, 1")
        self.lines[at] = f"  {trip} = phi i64 [ 0, %{before} ], [ {following}, %{self.block} ]"
        more = self.let(f"icmp slt i64 {following}, {self.number(step.trips)}")
        if step.outermost:
            more = self.stoppable(following, more)
        self.do(f"br i1 {more}, label %{head}, label %{done}")
        self.enter(done)

    def stoppable(self, trips: str, more: str) -> str:
        """Count the trips, and leave the loop on a request to stop."""
        self.do(f"store i64 {trips}, ptr {self.word('trips')}")
        stop = self.let(f"load atomic i64, ptr {self.word('stop')} monotonic, align 8")
        return self.let(f"and i1 {more}, {self.let(f'icmp eq i64 {stop}, 0')}")

    def word(self, name: str) -> str:
        return self.let(f"getelementptr i8, ptr %context, i64 {CONTEXT[name]}")

    def loop_while(self, step: WhileLoop) -> None:
        head, body, done = self.label("test"), self.label("body"), self.label("done")
        self.do(f"br label %{head}")
        self.enter(head)
        self.steps(step.test)
        wanted = self.let(f"icmp ne i8 {self.let(f'load i8, ptr {self.pointer(step.ref)}')}, 0")
        self.do(f"br i1 {wanted}, label %{body}, label %{done}")
        self.enter(body)
        self.steps(step.body)
        self.do(f"br label %{head}")
        self.enter(done)

    def branch(self, step: Switch) -> None:
        index = self.let(f"load i64, ptr {self.pointer(step.ref)}")
        done = self.label("done")
        for i, case in enumerate(step.cases):
            if i == len(step.cases) - 1:
                self.steps(case)
                break
            here, other = self.label("case"), self.label("other")
            self.do(f"br i1 {self.let(f'icmp sle i64 {index}, {i}')}, label %{here}, label %{other}")
            self.enter(here)
            self.steps(case)
            self.do(f"br label %{done}")
            self.enter(other)
        self.do(f"br label %{done}")
        self.enter(done)


class DirectEntry(EntryFunction):
    """The entry function of a program without threads: kernels are called by name, so that no function is a value."""

    def launch_function(self, name: str, count: Size, shared: bool) -> None:
        self.do(f"call void @{name}(ptr %args, i64 0, i64 {self.number(count)})")


HANDLERS: dict[type[Step], Callable[[EntryFunction, Any], None]] = {
    Launch: EntryFunction.launch,
    RoutineCall: EntryFunction.call,
    StatusCheck: EntryFunction.check,
    ForLoop: EntryFunction.repeat,
    WhileLoop: EntryFunction.loop_while,
    Switch: EntryFunction.branch,
}
"""The emitter of each kind of step."""


class EntryText(NamedTuple):
    """The entry function, its routines, the declarations of the functions that they call, and the external symbols."""

    text: str
    routines: str
    declared: frozenset[str]
    symbols: frozenset[str]


def parallel_steps(step: Launch) -> Size:
    """Return the number of steps of a kernel's parallel loop."""
    outer = step.kernel.outer
    if outer is not None and isinstance(outer.size, Dim):
        found: Size = (outer.size + outer.block - 1) // outer.block
        return found
    return outer.steps if outer is not None else 1


def entry_text(printer: EntryFunction) -> EntryText:
    """Return the entry function of a plan."""
    plan = printer.plan
    printer.frame(plan.steps)
    printer.steps(plan.steps)
    printer.do("ret i32 0")
    head = f"define i32 @{ENTRY_SYMBOL}(ptr %table, ptr %context) nounwind {{\nentry:"
    declared = frozenset({*DECLARATIONS.strip().splitlines(), *printer.declared})
    routines = [text for _, text in printer.routines.values()]
    heads = [*[declaration(text) for text in routines], *printer.parts, head, *printer.heads()]
    return EntryText(
        "\n".join([*heads, *printer.lines, "}"]) + "\n", "\n".join(routines), declared, frozenset(printer.symbols)
    )


def declaration(text: str) -> str:
    """The declaration of the function that a text exports.

    >>> declaration("define void @f(ptr %x, i64 %n) nounwind {")
    'declare void @f(ptr, i64)'
    """
    head = next(line for line in text.splitlines() if line.startswith("define ") and " internal " not in line)
    return re.sub(r" %\w+", "", head.removesuffix(" nounwind {").replace("define", "declare"))


def refs_of(step: Step) -> tuple[MemRef, ...]:
    """The places that a step names itself."""
    if isinstance(step, Launch | RoutineCall):
        return step.refs
    return (step.ref,) if isinstance(step, StatusCheck | WhileLoop | Switch) else ()
