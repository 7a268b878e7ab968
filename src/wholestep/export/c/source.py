"""The C file of a model: the functions that its kernels call, the programs, and the code of memory and state file."""

from __future__ import annotations

import re
from pathlib import Path

from wholestep.export.c.program import CProgramWriter
from wholestep.export.c.vectors import used_declarations
from wholestep.export.native.block import MemoryBlock
from wholestep.export.native.header import one_line
from wholestep.kernel import c_scalars as scalars

HERE = Path(__file__).parent
OPENING = """\
/* {title}: C99, which needs no library but that of C (-lm). Compile it with -O3, for the processor that will run it. */
"""


def c_source(prefix: str, title: str, block: MemoryBlock) -> str:
    """The programs of a block as C."""
    written: dict[str, str] = {}
    parts: list[str] = []
    sorts: set[tuple[str, int]] = set()
    for f in block.functions:
        writer = CProgramWriter(prefix, f.program, written)
        parts += writer.text()
        sorts |= writer.sorts
    support = (HERE / "support.c").read_text(encoding="utf-8")
    vectors = used_declarations("\n".join(parts))
    functions = [vectors] if vectors else []
    functions += used_functions("\n".join([vectors, *parts]))
    functions += [(HERE / f"{name}.c").read_text("utf-8").replace("@BITS@", str(bits)) for name, bits in sorted(sorts)]
    return "\n".join([OPENING.format(title=one_line(title)) + support, *functions, "", "\n\n".join(parts), ""])


def used_functions(text: str) -> list[str]:
    """The functions that a text calls, and those that they call."""
    names = set(re.findall(r"\bws_\w+", text))
    for name, more in scalars.NEEDS.items():
        names |= set(more) if name in names else set()
    return [line for name, line in scalars.INLINE.items() if name in names]
