"""The ES module beside a WebAssembly program: its arrays by their paths, its functions, and a step's state file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from wholestep import dtypes
from wholestep.export.native.block import ALIGNMENT, MemoryBlock, PlacedArray
from wholestep.export.native.state_code import StateFile, failure_text, filled_in

HERE = Path(__file__).parent
TEXT = HERE / "module.mjs"
STEP, FUNCTION = HERE / "step_model.js", HERE / "function_model.js"
"""The classes of a step and of a function."""
STATE_FILE = HERE / "state_file.js"
"""The script that reads and writes files of states, here and in pages."""
STACK_BYTES = 1 << 18
HALVES = HERE / "halves.js"
"""The script that makes numbers of the bits of half precision, and back, for modules that have such arrays."""
ArrayRow = tuple[str, str, list[int], int, int]
"""(path, kind, shape, place, number of elements) of an array."""
KINDS = {"bool": "Uint8Array", "f16": "float16", "bf16": "bfloat16", "f32": "Float32Array"} | {
    "f64": "Float64Array",
    "i64": "BigInt64Array",
    "u64": "BigUint64Array",
    **{f"{sign}{bits}": f"{'Uint' if sign == 'u' else 'Int'}{bits}Array" for sign in "iu" for bits in (8, 16, 32)},
}
"""The typed array of each dtype, or the format of the bits that a Uint16Array has."""


def step_module(prefix: str, title: str, block: MemoryBlock, file: StateFile, data_bytes: int) -> str:
    """The module for a step with `data_bytes` bytes of constant data, with its functions and its state file."""
    texts = {"STATE": [a.offset for a in file.arrays], "HEAD": file.json_text}
    own = STATE_FILE.read_text(encoding="utf-8") + filled_in(STEP, {"NAME": prefix, **as_json(texts)})
    return es_module(prefix, title, block, list(arrays(block)), data_bytes, own)


def function_module(prefix: str, title: str, block: MemoryBlock, data_bytes: int) -> str:
    """The module for a function without state, with `data_bytes` bytes of constant data."""
    (f,) = block.functions
    rows = [row(a.path, a) for a in (*f.inputs, *f.outputs)]
    texts = {"INPUTS": [a.path for a in f.inputs], "OUTPUTS": [a.path for a in f.outputs]}
    own = filled_in(FUNCTION, {"NAME": prefix, **as_json(texts)})
    return es_module(prefix, title, block, rows, data_bytes, own)


def as_json(texts: Mapping[str, Any]) -> dict[str, str]:
    """Values as JavaScript reads them."""
    return {name: json.dumps(value) for name, value in texts.items()}


def es_module(prefix: str, title: str, block: MemoryBlock, rows: Sequence[ArrayRow], data_bytes: int, own: str) -> str:
    """A module whose memory holds `data_bytes` bytes of constant data, the stack, and the block.

    `own` is the script that has the class `Model`.
    """
    stack = -(-data_bytes // ALIGNMENT) * ALIGNMENT + STACK_BYTES
    failures = {f.program.name: list(map(failure_text, f.program.plan.sites)) for f in block.functions}
    texts: dict[str, Any] = {
        "ARRAYS": rows,
        "FUNCTIONS": failures,
        "KEPT": block.kept or (0, 0, 0),
        "MEMORY": [stack, stack, stack + block.nbytes],
    }
    halves = any([kind in ("float16", "bfloat16") for _, kind, *_ in rows])
    plain = {
        "NAME": prefix,
        "TITLE": ascii(title)[1:-1],
        "OWN": own,
        "HALVES": HALVES.read_text(encoding="utf-8") if halves else "",
    }
    return filled_in(TEXT, {**as_json(texts), **plain})


def arrays(block: MemoryBlock) -> Iterator[ArrayRow]:
    """The rows of every array of a step; other functions' paths begin with their names."""
    step, *others = block.functions
    own = [(a.path, a) for a in (*step.inputs, *step.outputs, *block.state)]
    own += [(f"{f.program.name}.{a.path}", a) for f in others for a in (*f.inputs, *f.outputs)]
    yield from [row(path, a) for path, a in own]


def row(path: str, array: PlacedArray) -> ArrayRow:
    """The row of an array."""
    return path, KINDS[dtypes.short(array.stored)], list(array.type.shape), array.offset, elements(array)


def elements(array: PlacedArray) -> int:
    """The number of elements in memory, two for a complex number."""
    return int(array.type.nbytes) // array.stored.itemsize
