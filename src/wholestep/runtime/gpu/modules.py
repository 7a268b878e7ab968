"""Modules of CUDA in parts: each is compiled by a thread of its own, and the card loads all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

HEAD = '\nextern "C" __global__ '
"""The beginning of a kernel in the text of a module, after the functions that kernels use."""
NAME = re.compile(r"\w+(?=\()")
EACH = 4
"""The least kernels of a part: its compilation includes the functions that kernels use, which take 30 ms."""


class CompiledPart(NamedTuple):
    """The machine code of some kernels of a module, and their names."""

    names: tuple[str, ...]
    code: bytes


def split_module(text: str, most: int) -> list[str]:
    """The text of a module as at most `most` texts of about equal length, each with the functions before its kernels.

    >>> split_module("f" + HEAD + "a()" + HEAD + "b()", 2)[0] == "f" + HEAD + "a()" + HEAD + "b()"
    True
    """
    functions, *kernels = text.split(HEAD)
    count = min(most, len(kernels) // EACH)
    if count < 2:
        return [text]
    parts: list[list[int]] = [[] for _ in range(count)]
    lengths = [0] * count
    for i in sorted(range(len(kernels)), key=lambda i: (-len(kernels[i]), i)):
        least = lengths.index(min(lengths))
        parts[least].append(i)
        lengths[least] += len(kernels[i])
    return [HEAD.join([functions, *[kernels[i] for i in sorted(part)]]) for part in parts]


def kernel_names(text: str) -> tuple[str, ...]:
    """The names of the kernels in the text of a module.

    >>> kernel_names("f" + HEAD + "void __launch_bounds__(64)\\nk0(float *b0) {}")
    ('k0',)
    """
    return tuple([NAME.search(kernel.partition("\n")[2]).group() for kernel in text.split(HEAD)[1:]])  # type: ignore[union-attr]


def pack_parts(parts: Sequence[CompiledPart]) -> bytes:
    """Parts as bytes: a line of JSON with the names and code size of each, and their code."""
    head = json.dumps([[part.names, len(part.code)] for part in parts])
    return b"".join([head.encode(), b"\n", *[part.code for part in parts]])


def unpack_parts(packed: bytes) -> list[CompiledPart]:
    """The parts that were packed as bytes.

    >>> unpack_parts(pack_parts([CompiledPart(("a", "b"), b"1\\n2"), CompiledPart(("c",), b"3")]))[1]
    CompiledPart(names=('c',), code=b'3')
    """
    head, _, rest = packed.partition(b"\n")
    found, at = [], 0
    for names, size in json.loads(head):
        found.append(CompiledPart(tuple(names), rest[at : at + size]))
        at += size
    return found
