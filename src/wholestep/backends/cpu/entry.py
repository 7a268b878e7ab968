"""A plan as one LLVM function: kernels called in order, with their pointers laid out for them, and control flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from wholestep.backends.cpu.caller import SIZES, Caller
from wholestep.backends.cpu.routines import routine_text
from wholestep.backends.cpu.sizes import Sizes, SizeTable
from wholestep.backends.cpu.support import CONTEXT, DECLARATIONS
from wholestep.dims import Dim, Size
from wholestep.kernel.lang import sizes_of
from wholestep.lower.plan import FIRST, Branch, Call, Check, Launch, Plan, Ref, Repeat, Step, While, every_step

ENTRY = "ws_entry"
LONG = 64
"""Up to how many steps follow each other in one function."""


SHARED = """
define internal void @NAME(ptr %context, ptr %function, ptr %args, i64 %n, i64 %several) {
entry:
  %alone = icmp eq i64 %several, 0
  br i1 %alone, label %one, label %all
one:
  call void %function(ptr %args, i64 0, i64 %n)
  ret void
all:
  call void @ws_parallel(ptr %context, ptr %function, ptr %args, i64 %n)
  ret void
}
"""
"""Runs a kernel over so many steps, which are shared out among threads or not."""


class Printer(Caller):
    """Writes the body of the entry function. `names` maps a kernel to its function."""

    spare = 1
    """How many pointers a kernel's function may be given beside those of its buffers: that of the table of sizes."""

    def __init__(self, plan: Plan, names: Mapping[int, str], sizes: SizeTable) -> None:
        super().__init__(plan, sizes)
        self.names = names
        self.trips: dict[int, str] = {}
        self.inside = 0
        self.parts: list[str] = []

    def pointer(self, ref: Ref) -> str:
        """The address of a place."""
        base = f"%slot{ref.slot}"
        for loop, stride in ref.moves:
            by = self.let(f"mul i64 {self.trips[loop]}, {self.number(stride)}")
            base = self.let(f"getelementptr i8, ptr {base}, i64 {by}")
        if not (ref.offset or self.plan.looped):
            return base
        return self.let(f"getelementptr i8, ptr {base}, i64 {self.number(ref.offset)}")

    def steps(self, steps: Sequence[Step]) -> None:
        """Steps one after another; a long list becomes functions of its own, since LLVM's time grows faster than
        the length of one."""
        if len(steps) <= LONG:
            for step in steps:
                self.step(step)
            return
        for start in range(0, len(steps), LONG):
            self.part(steps[start : start + LONG])

    def step(self, step: Step) -> None:
        """One step."""
        HANDLERS[type(step)](self, step)

    def part(self, steps: Sequence[Step]) -> None:
        """Some steps as a function, and the call of it."""
        name = f"part{len(self.parts)}"
        outside = self.lines, self.block, self.trips, self.sizes
        self.parts.append("")
        self.lines, self.block = [], "entry"
        self.sizes = Sizes(self.sizes.known, SIZES)
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
        """Room for the arguments of kernels, and the base pointers that the steps need."""
        inside = list(every_step(tuple(steps)))
        width = max([len(step.refs) for step in inside if isinstance(step, Launch)], default=1)
        self.lines.append(f"  %args = alloca [{max(width, 1) + self.spare} x ptr], align 64")
        for slot in sorted({ref.slot for step in inside for ref in refs_of(step)}):
            at = self.let(f"getelementptr i8, ptr %table, i64 {8 * slot}")
            self.lines.append(f"  %slot{slot} = load ptr, ptr {at}")

    def heads(self) -> list[str]:
        """What a function that uses sizes begins with: the table of sizes follows the slots."""
        if not (self.sizes.lines or self.plan.looped):
            return []
        at = 8 * (len(self.plan.slots) + FIRST)
        table = [f"  {SIZES}.at = getelementptr i8, ptr %table, i64 {at}", f"  {SIZES} = load ptr, ptr {SIZES}.at"]
        return [*table, *self.sizes.lines]

    def launch(self, step: Launch) -> None:
        for i, ref in enumerate(step.refs):
            at = self.let(f"getelementptr i8, ptr %args, i64 {8 * i}")
            self.do(f"store ptr {self.pointer(ref)}, ptr {at}")
        name, count = self.function(step), points(step)
        if sizes_of(step.kernel):
            self.sizes.name(next(iter(sizes_of(step.kernel))))
            at = self.let(f"getelementptr i8, ptr %args, i64 {8 * len(step.refs)}")
            self.do(f"store ptr {SIZES}, ptr {at}")
        steps, shared = self.number(count), step.parallel and count != 1
        if self.plan.looped and not self.inside:
            how = self.routine("shared", lambda name: SHARED.replace("NAME", name))
            given = f"ptr %context, ptr @{name}, ptr %args, i64 {steps}, i64 {self.number(int(shared))}"
            self.do(f"call void @{how}({given})")
        elif shared:
            self.do(f"call void @ws_parallel(ptr %context, ptr @{name}, ptr %args, i64 {steps})")
        else:
            self.do(f"call void @{name}(ptr %args, i64 0, i64 {steps})")

    def function(self, step: Launch) -> str:
        """What is called to run a kernel."""
        return self.names[id(step.kernel)]

    def call(self, step: Call) -> None:
        pointers = [self.pointer(ref) for ref in step.refs]
        routine_text(self, step, pointers)

    def check(self, step: Check) -> None:
        place = self.pointer(step.ref)
        found = self.let(f"load i64, ptr {place}")
        bad = self.let(f"icmp ne i64 {found}, {step.fine}")
        value = self.let(f"load i64, ptr {self.let(f'getelementptr i8, ptr {place}, i64 8')}")
        self.fail_if(bad, step.site, found, value, self.plan.sites[step.site - 1])

    def repeat(self, step: Repeat) -> None:
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
        self.do(f"{following} = add i64 {trip}, 1")
        self.lines[at] = f"  {trip} = phi i64 [ 0, %{before} ], [ {following}, %{self.block} ]"
        more = self.let(f"icmp slt i64 {following}, {self.number(step.trips)}")
        if step.outermost:
            more = self.stoppable(following, more)
        self.do(f"br i1 {more}, label %{head}, label %{done}")
        self.enter(done)

    def stoppable(self, trips: str, more: str) -> str:
        """Count the trips, and go on only where nobody asked to stop."""
        self.do(f"store i64 {trips}, ptr {self.word('trips')}")
        stop = self.let(f"load atomic i64, ptr {self.word('stop')} monotonic, align 8")
        return self.let(f"and i1 {more}, {self.let(f'icmp eq i64 {stop}, 0')}")

    def word(self, name: str) -> str:
        return self.let(f"getelementptr i8, ptr %context, i64 {CONTEXT[name]}")

    def loop_while(self, step: While) -> None:
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

    def branch(self, step: Branch) -> None:
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


HANDLERS: dict[type[Step], Callable[[Printer, Any], None]] = {
    Launch: Printer.launch,
    Call: Printer.call,
    Check: Printer.check,
    Repeat: Printer.repeat,
    While: Printer.loop_while,
    Branch: Printer.branch,
}
"""How each kind of step is printed."""


class Entry(NamedTuple):
    """The entry function and its routines, the declarations that they need, and what they call outside the program."""

    text: str
    declared: frozenset[str]
    symbols: frozenset[str]


def points(step: Launch) -> Size:
    """How many steps the loop has that a kernel may be shared out along."""
    outer = step.kernel.outer
    if outer is not None and isinstance(outer.size, Dim):
        found: Size = (outer.size + outer.block - 1) // outer.block
        return found
    return outer.steps if outer is not None else 1


def entry_text(printer: Printer) -> Entry:
    """The entry function of a plan."""
    plan = printer.plan
    printer.frame(plan.steps)
    printer.steps(plan.steps)
    printer.do("ret i32 0")
    head = f"define i32 @{ENTRY}(ptr %table, ptr %context) nounwind {{\nentry:"
    declared = frozenset({*DECLARATIONS.strip().splitlines(), *printer.declared})
    routines = [text for _, text in printer.routines.values()]
    return Entry(
        "\n".join([*routines, *printer.parts, head, *printer.heads(), *printer.lines, "}"]) + "\n",
        declared,
        frozenset(printer.symbols),
    )


def refs_of(step: Step) -> tuple[Ref, ...]:
    """The places that a step names itself."""
    if isinstance(step, Launch | Call):
        return step.refs
    return (step.ref,) if isinstance(step, Check | While | Branch) else ()
