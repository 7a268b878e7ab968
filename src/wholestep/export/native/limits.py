"""Limits of native programs: operations that only this process can run are refused before a file is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wholestep.errors import UnsupportedError, Where, show
from wholestep.export.native.block import NativeFunction
from wholestep.kernel.lang import Var, walk
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch, RoutineCall, walk_steps

LIBRARIES = {
    "special": "write it without derivatives of gammainc and gammaincc with respect to their first operand: "
    "the other special functions are formulas there",
}
"""The way out for calls of each library."""


def check_native(functions: Sequence[NativeFunction], target: str) -> None:
    """Raise UnsupportedError, with all that stands in the way, for programs that need a library or files."""
    found: dict[str, Where] = {}
    for f in functions:
        check_sizes(target, f.name, f.plan.names)
        if f.plan.file or any(slot.kind == "file" for slot in f.plan.slots):
            raise UnsupportedError(
                f"export to {target}: {f.name} keeps values in files", hint="compile it without stream= and spilling"
            )
        for symbol, where in library_calls(f.plan):
            found.setdefault(symbol, where)
    if found:
        lines = [f"  {symbol}{f'  at {show(where)}' if where is not None else ''}" for symbol, where in found.items()]
        count = f"{len(found)} library function{'s' * (len(found) > 1)}"
        hints = dict.fromkeys([LIBRARIES.get(symbol.partition(".")[0], "") for symbol in found])
        raise UnsupportedError(
            "\n".join([f"export to {target}: a native program has no {count}", *lines]),
            hint="; ".join(filter(None, hints)),
        )


def check_sizes(target: str, what: str, names: Sequence[str], way: str = "compile it with a batch") -> None:
    """Raise UnsupportedError for a program of symbolic sizes."""
    if names:
        raise UnsupportedError(
            f"export to {target}: {what} has symbolic sizes: {', '.join(names)}",
            hint=f"{way} whose sizes are numbers",
        )


def library_calls(plan: LoweredProgram) -> Iterator[tuple[str, Where]]:
    """The functions of libraries that a program calls, each with a line that asks for it."""
    for step in walk_steps(plan.steps):
        if isinstance(step, Launch):
            for s in walk(step.kernel.body):
                if isinstance(s, Var) and s.op == "call":
                    yield str(s.attr), next((node.where for node in step.nodes if node.where is not None), None)
        elif isinstance(step, RoutineCall) and step.routine.partition(".")[0] not in ("copy", "argsort", "sort"):
            yield step.routine, step.where
