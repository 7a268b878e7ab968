"""A plan as C: a function for each kernel that is not equal to another, and one that calls them in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.errors import PlanError
from wholestep.export.c.block_writer import BlockedKernelWriter
from wholestep.kernel import c_scalars as scalars
from wholestep.kernel.text import canonical_text
from wholestep.lower.program.placed import PlacedProgram
from wholestep.lower.program.program import FIRST_INPUT
from wholestep.lower.program.steps import (
    COPY_ROUTINES,
    ForLoop,
    Launch,
    MemRef,
    RoutineCall,
    StatusCheck,
    Step,
    Switch,
    WhileLoop,
)


class CProgramWriter:
    """The text of one program; functions that are there already are not written again."""

    def __init__(self, prefix: str, program: PlacedProgram, written: dict[str, str]) -> None:
        self.prefix, self.program, self.written = prefix, program, written
        self.kernels: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        self.trips: dict[int, str] = {}
        self.sorts: set[tuple[str, int]] = set()
        self.labels = {kernel: self.function(kernel) for kernel in program.plan.kernels()}

    def function(self, kernel: Any) -> str:
        """The name of the function of a kernel."""
        key = canonical_text(kernel)
        if key not in self.written:
            self.written[key] = name = f"ws_kernel{len(self.written)}"
            self.kernels.append(BlockedKernelWriter(kernel).text(name))
        return self.written[key]

    def put(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + line)

    def inside(self, head: str, steps: Sequence[Step], end: str = "}") -> None:
        """Steps in a block."""
        self.put(f"{head} {{")
        self.depth += 1
        self.steps(steps)
        self.depth -= 1
        if end:
            self.put(end)

    def pointer(self, ref: MemRef) -> str:
        """The address of a place."""
        parts = []
        if ref.slot == 1:
            parts.append(f"(unsigned char *)(uintptr_t)ws_constants_{self.program.name}")
            at = int(ref.offset)
        else:
            parts.append("m")
            base = self.program.arena if ref.slot == 0 else self.program.offsets[ref.slot - FIRST_INPUT]
            at = base + int(ref.offset)
        if at:
            parts.append(str(at))
        parts += [f"{self.trips[loop]} * {int(stride)}" for loop, stride in ref.moves]
        return " + ".join(parts)

    def steps(self, steps: Sequence[Step]) -> None:
        """Steps one after the other."""
        for step in steps:
            HANDLERS[type(step)](self, step)

    def launch(self, step: Launch) -> None:
        given = ", ".join(map(self.pointer, step.refs))
        self.put(f"{self.labels[step.kernel]}((void *[]){{{given}}});")

    def call(self, step: RoutineCall) -> None:
        places = [self.pointer(ref) for ref in step.refs]
        if step.routine in COPY_ROUTINES:
            self.put(f"memmove({places[0]}, {places[1]}, {int(step.params[0])});")
        elif step.routine in ("argsort", "sort"):
            bits, n, rows, _, *floats = step.params
            self.sorts.add((step.routine, bits))
            given = ", ".join([*[f"(void *)({place})" for place in places], *[str(int(k)) for k in (n, rows, *floats)]])
            self.put(f"ws_{step.routine}_u{bits}({given});")
        else:
            raise PlanError(f"export to c: the routine {step.routine} is none of C's")

    def check(self, step: StatusCheck) -> None:
        place = self.pointer(step.ref)
        fine = scalars.c_number(step.fine, np.dtype(np.int64))
        self.put(f"if (*(const int64_t *)(void *)({place}) != {fine}) return {step.site};")

    def repeat(self, step: ForLoop) -> None:
        name, trips = f"trip{step.loop}", int(step.trips)
        self.trips[step.loop] = name
        head = f"for (int64_t {name} = {trips - 1}; {name} >= 0; {name}--)" if step.reverse else ""
        self.inside(head or f"for (int64_t {name} = 0; {name} < {trips}; {name}++)", step.body)

    def loop_while(self, step: WhileLoop) -> None:
        self.inside("for (;;)", step.test, end="")
        self.depth += 1
        self.put(f"if (!m[{self.pointer(step.ref).removeprefix('m').removeprefix(' + ') or '0'}]) break;")
        self.steps(step.body)
        self.depth -= 1
        self.put("}")

    def branch(self, step: Switch) -> None:
        place = f"*(const int64_t *)(void *)({self.pointer(step.ref)})"
        last = len(step.cases) - 1
        for i, case in enumerate(step.cases):
            words = [*["else"] * (i > 0), *[f"if ({place} <= {i})"] * (i < last)]
            self.inside(" ".join(words) or "if (1)", case)

    def text(self) -> Iterator[str]:
        """The constants, the kernels, and the function that calls them."""
        self.steps(self.program.plan.steps)
        name = f"ws_constants_{self.program.name}"
        if any(name in line for line in self.lines):
            yield constant_table(name, self.program.constant_bytes())
        yield from self.kernels
        head = f"int32_t {self.prefix}_run_{self.program.name}(void *block) {{"
        flush = [
            "    const ws_mode mode = ws_enter();",
            f"    const int32_t site = ws_steps_{self.program.name}(block);",
        ]
        yield "\n".join(
            [
                f"static int32_t ws_steps_{self.program.name}(unsigned char *m) {{",
                "    (void)m;",
                *self.lines,
                "    return 0;",
                "}",
            ]
        )
        yield "\n".join([head, *flush, "    ws_leave(mode);", "    return site;", "}"])


HANDLERS: dict[type[Step], Callable[[CProgramWriter, Any], None]] = {
    Launch: CProgramWriter.launch,
    RoutineCall: CProgramWriter.call,
    StatusCheck: CProgramWriter.check,
    ForLoop: CProgramWriter.repeat,
    WhileLoop: CProgramWriter.loop_while,
    Switch: CProgramWriter.branch,
}


def constant_table(name: str, data: bytes) -> str:
    """Bytes as an array of words of 64 bits, which are aligned as every number is."""
    words = np.frombuffer(data + b"\0" * (-len(data) % 8), "<u8")
    rows = [
        ", ".join([f"0x{w:x}u" if w < 1 << 32 else f"UINT64_C(0x{w:x})" for w in words[i : i + 6]])
        for i in range(0, len(words), 6)
    ]
    return "\n".join([f"static const uint64_t {name}[{len(words)}] = {{", *[f"    {row}," for row in rows], "};"])
