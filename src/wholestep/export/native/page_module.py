"""The ES module beside a WebAssembly program: its arrays by their paths, its steps, its state file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wholestep import dtypes
from wholestep.export.native.block import ALIGNMENT, MemoryBlock, PlacedArray
from wholestep.export.native.state_code import StateFile, failure_text, filled_in

TEXT = Path(__file__).with_name("module.mjs")
STATE_FILE = Path(__file__).with_name("state_file.js")
"""The script that reads and writes files of states, here and in pages."""
STACK_BYTES = 1 << 18
HALVES = Path(__file__).with_name("halves.js")
"""The script that makes numbers of the bits of half precision, and back, for modules that have such arrays."""
KINDS = {"bool": "Uint8Array", "f16": "float16", "bf16": "bfloat16", "f32": "Float32Array"} | {
    "f64": "Float64Array",
    "i64": "BigInt64Array",
    "u64": "BigUint64Array",
    **{f"{sign}{bits}": f"{'Uint' if sign == 'u' else 'Int'}{bits}Array" for sign in "iu" for bits in (8, 16, 32)},
}
"""The typed array of each dtype, or the format of the bits that a Uint16Array has."""


def es_module(prefix: str, title: str, block: MemoryBlock, file: StateFile, data_bytes: int) -> str:
    """The module for a program whose own data takes so many bytes: its stack follows, and then the block."""
    stack = -(-data_bytes // ALIGNMENT) * ALIGNMENT + STACK_BYTES
    failures = {f.program.name: list(map(failure_text, f.program.plan.sites)) for f in block.functions}
    texts: dict[str, Any] = {
        "ARRAYS": list(arrays(block)),
        "STATE": [a.offset for a in file.arrays],
        "FUNCTIONS": failures,
        "HEAD": file.json_text,
        "KEPT": block.kept or (0, 0, 0),
        "MEMORY": [stack, stack, stack + block.nbytes],
    }
    halves = any([kind in ("float16", "bfloat16") for _, kind, *_ in texts["ARRAYS"]])
    plain = {
        "NAME": prefix,
        "TITLE": ascii(title)[1:-1],
        "STATE_FILE": STATE_FILE.read_text(encoding="utf-8"),
        "HALVES": HALVES.read_text(encoding="utf-8") if halves else "",
    }
    return filled_in(TEXT, {**{name: json.dumps(value) for name, value in texts.items()}, **plain})


def arrays(block: MemoryBlock) -> Iterator[tuple[str, str, list[int], int, int]]:
    """(path, kind, shape, place, number of elements) of every array; other functions' paths begin with their names."""
    step, *others = block.functions
    own = [(a.path, a) for a in (*step.inputs, *step.outputs, *block.state)]
    own += [(f"{f.program.name}.{a.path}", a) for f in others for a in (*f.inputs, *f.outputs)]
    for path, a in own:
        yield path, KINDS[dtypes.short(a.stored)], list(a.type.shape), a.offset, elements(a)


def elements(array: PlacedArray) -> int:
    """The number of elements in memory, two for a complex number."""
    return int(array.type.nbytes) // array.stored.itemsize
