"""`wholestep audit ways`: training programs have the same bits in whichever way they are compiled and run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wholestep.backends.cpu.target import schedule
from wholestep.compiler.backends import default_backend
from wholestep.compiler.driver import CompiledProgram, compile_entry, compile_graph
from wholestep.errors import BudgetError
from wholestep.ir.graph import NDArray
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.runtime.cache.private_folder import decode_entry, encode_entry
from wholestep.runtime.cpu import thread_pool
from wholestep_tools.audit.campaign import Audit, Seen, Shares, joined_parts
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.invariance import PATTERNS, outputs, renamed, text_of
from wholestep_tools.drawn.law import compiled
from wholestep_tools.drawn.training import Training, training

CLAIM = "No number of threads, residence, budget, name, or what memory held before changes a bit of a training program"
THREADS = (2, 4, 8, 16)
SHARES = (0.5, 0.8)
SIZE = 30


@contextmanager
def shared() -> Iterator[None]:
    """Every kernel that can be is shared out among threads."""
    before, schedule.SHARED_POINTS = schedule.SHARED_POINTS, 1
    try:
        yield
    finally:
        schedule.SHARED_POINTS = before


def from_disk(made: Training) -> CompiledProgram:
    """The program as a cache would give it back."""
    unit, backend = CompilationUnit(made.graph, tuple(made.resident)), default_backend()
    name = "0" * 64
    entry = decode_entry(name, b"".join(encode_entry(name, compile_entry(unit, backend))))
    assert entry is not None
    return CompiledProgram(unit, backend, backend.load(unit, entry))


def within(made: Training, share: float) -> CompiledProgram | None:
    """The program within a share of its arena; None where there is no such program."""
    try:
        return compile_graph(made.graph, made.resident, MemoryBudget(share=share))
    except BudgetError:
        return None


def again(program: CompiledProgram, made: Training) -> list[NDArray]:
    """The results of a program that another instance of it has been run before and after."""
    outputs(program, made)
    found = outputs(program, made)
    outputs(program, made)
    return found


def ways(made: Training) -> Iterator[tuple[str, Sequence[NDArray]]]:
    """All outputs, in each way; the first is one thread and state that is kept."""
    with thread_pool.threads(1):
        program = compiled(made.graph, made.resident)
        yield "one thread", outputs(program, made)
        for number, pattern in enumerate(PATTERNS):
            yield f"what memory held, {number}", outputs(program, made, pattern)
        yield "another instance", again(program, made)
        yield "no state that is kept", compiled(made.graph)(made.args)
        yield "code from the disk", outputs(from_disk(made), made)
        for share in SHARES:
            if (narrow := within(made, share)) is not None:
                yield f"within {share:.0%}", outputs(narrow, made)
    for count in THREADS:
        with thread_pool.threads(count):
            yield f"{count} threads", outputs(program, made)


def different(xs: Sequence[NDArray], ys: Sequence[NDArray]) -> list[int]:
    """The outputs whose bits are not the same."""
    return [i for i, (x, y) in enumerate(zip(xs, ys, strict=True)) if x.tobytes() != y.tobytes()]


def see(numbers: range, count: int, seed: int) -> Seen:
    """Some programs in all ways."""
    seen = Seen()
    for i in numbers:
        made = training((seed, i), SIZE)
        with shared():
            first: Sequence[NDArray] | None = None
            for way, found in ways(made):
                first = found if first is None else first
                off = different(first, found)
                seen.count(f"ways: {way}")
                seen.right(not off, f"program {i} of seed {seed}, {way}: outputs {off} differ")
            same = text_of(made.graph, made.resident) == text_of(renamed(made.graph), made.resident)
        seen.count("ways: other names and lines, the same LLVM text")
        seen.right(same, f"program {i} of seed {seed}: other names make other code")
    return seen


def told(parts: Sequence[Seen], count: int, seed: int) -> dict[str, Any]:
    """The record of so many programs."""
    seen = joined_parts(parts)
    checks = {"programs": count, "runs": sum(seen.checks.values()), **seen.checks}
    return record("ways", CLAIM, checks, seen.failures, seed=seed)


audit = Shares(see, told)
AUDIT = Audit(
    "ways",
    audit,
    1000,
    "run random training programs in every way, and compare every bit",
    """\
Random training programs of 30 operations are compiled so that each kernel is shared out among threads, however
small. They run on 1, 2, 4, 8 and 16 threads; in memory that was full of signalling NaN or of ones; beside another
instance; with state that is kept and without; from code that went through an entry of the cache; and within half
and four fifths of their arena, where that can be. All outputs must have the same bits. With other names of values,
functions and lines the LLVM text must be the same.""",
    shared=True,
)
