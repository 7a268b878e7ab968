"""Lists of dispatches: they leave the same heap as the launches of the program, one after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import parse_kernel

from wholestep.backends.gpu.beside_kernels import KernelsBeside
from wholestep.backends.gpu.dispatch_list import DispatchRecorder, GivenScalar, RecordedProgram
from wholestep.backends.gpu.known_scalars import CASE, GIVEN
from wholestep.ir.graph import NDArray
from wholestep.kernel.lang import Kernel
from wholestep.kernel.ops import OPS
from wholestep.lower.program.steps import Launch, MemRef

COUNTED = """
kernel counted(n: i64[1], mut s: i64[1]):
    v0 = n[0]
    v1 = i64(1)
    v2 = v0 + v1
    s[0] = v2
"""
TAKEN = """
kernel taken(x: i64[1], mut s: i64[1]):
    v0 = x[0]
    s[0] = v0
"""
N, S, X, Y, Z, BYTES = 0, 256, 512, 768, 1024, 1280
"""The places in the heap of a counter, a scalar, a number that only the card knows, and two results."""


def launched(text: str, *addresses: int) -> Launch:
    """The launch of a kernel at these places."""
    return Launch(parse_kernel(text), tuple([MemRef(0, address) for address in addresses]))


def recorded(*steps: Launch) -> tuple[DispatchRecorder, RecordedProgram]:
    """The program of some launches; the host knows the counter ahead."""
    program: Any = SimpleNamespace(
        name="f", plan=SimpleNamespace(steps=steps, names=()), arena=0, offsets=(0,), constant_bytes=lambda: b""
    )
    recorder = DispatchRecorder(BYTES, [GivenScalar("counters.n", "i64", N)])
    return recorder, recorder.record(program)


def launch(kernel: Kernel, addresses: Any, heap: NDArray) -> None:
    """Run a kernel on its places in the heap."""
    places = zip(kernel.buffers, addresses, strict=True)
    run_kernel(kernel, [heap[at : at + b.size * b.dtype.itemsize].view(b.dtype) for b, at in places])


def run_recorded(recorder: DispatchRecorder, program: RecordedProgram, heap: NDArray) -> None:
    """Put the host's numbers where they belong, and run the dispatches."""
    numbers: list[Any] = []
    for op, dtype, args, extra in program.code:
        assert dtype == "i64" and op != CASE
        given = np.int64(extra) if op == "const" else heap[N : N + 8].view(np.int64)[0]
        numbers.append(given if op in ("const", GIVEN) else OPS[op].meaning(*[numbers[i] for i in args]))
    for address, n in program.values:
        heap[address : address + 8].view(np.int64)[0] = numbers[n]
    kernels = {number: kernel for kernel, number in recorder.numbers.items()}
    for kind, number, addresses in program.entries:
        assert kind == "launch"
        found, at = kernels[number], 0
        for kernel in found.kernels if isinstance(found, KernelsBeside) else (found,):
            launch(kernel, addresses[at : at + len(kernel.buffers)], heap)
            at += len(kernel.buffers)


def test_what_a_launch_writes_lies_where_the_program_has_it() -> None:
    """A scalar that the host computes ahead is read where the host puts it; a launch that writes another one there
    writes to the program's own place, and later launches read that."""
    steps = [launched(COUNTED, N, S), launched(TAKEN, S, Y), launched(TAKEN, X, S), launched(TAKEN, S, Z)]
    recorder, program = recorded(*steps)
    assert program.values, "the host computes the first scalar"
    heaps = [np.zeros(recorder.top + 64, np.uint8) for _ in range(2)]
    for heap in heaps:
        heap[N : N + 8].view(np.int64)[0], heap[X : X + 8].view(np.int64)[0] = 41, 7
    run_recorded(recorder, program, heaps[0])
    for step in steps:
        launch(step.kernel, [int(ref.offset) for ref in step.refs], heaps[1])
    assert np.array_equal(heaps[0][:BYTES], heaps[1][:BYTES])
    assert [int(heaps[0][at : at + 8].view(np.int64)[0]) for at in (S, Y, Z)] == [7, 42, 7]
