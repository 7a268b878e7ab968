"""A function of numbers as one of a language of kernels: its operands are parameters, and its value is returned."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.backends.gpu.language import KernelLanguage
from wholestep.backends.gpu.statement_writer import GpuStatementWriter
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import DType, Index, Var


def write_scalar_code(code: Callable[..., Var], arity: int, dtype: DType, language: KernelLanguage) -> list[str]:
    """The statements of a function of scalar code on operands x0, x1, ... of one dtype."""
    b = KernelBuilder("scalar")
    with b:
        given = [b.load(b.buffer(f"x{i}", dtype, 1), Index()) for i in range(arity)]
        found = code(*given)
        b.store(b.buffer("y", dtype, 1, True), Index(), found)
    kernel = b.kernel()
    writer = GpuStatementWriter(kernel, language)
    writer.names |= {x: f"x{i}" for i, x in enumerate(given)}
    computed = [s for s in kernel.body if isinstance(s, Var) and s.op != "load"]
    if found.op == "select":
        # As a branch: Chromium compiles kernels with many calls for processors in a third of the time.
        writer.body([s for s in computed if s is not found])
        guard, chosen, other = [writer.names[x] for x in found.args]
        held = language.declaration("found", dtype, other, constant=False)
        writer.put(f"{held} if ({guard}) {{ found = {chosen}; }} return found;")
    else:
        writer.body(computed)
        writer.put(f"return {writer.names[found]};")
    return writer.text()
