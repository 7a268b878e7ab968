"""WebAssembly without a linker: an object of LLVM becomes a module that can be instantiated.

An object is a module already: its code calls its own functions by number, and its data lies from address 0 on. The
sections for a linker are dropped, and a section of exports is added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from wholestep.errors import UnsupportedError

MAGIC = b"\0asm\1\0\0\0"
CUSTOM, IMPORT, EXPORT, DATA = 0, 2, 7, 11
ORDER = {kind: place for place, kind in enumerate((1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11))}
"""The place of each kind of section in a module."""
FUNCTION = 0
UNDEFINED, NAMED = 0x10, 0x40
"""Flags of a symbol: undefined in this object, and named in the table although undefined."""
SYMBOL_TABLE = 8
I32_CONST = 0x41


class WasmModule(NamedTuple):
    """A module, and the bytes of memory from 0 on that its data takes."""

    code: bytes
    data_bytes: int


class Section(NamedTuple):
    """A section of a module, by the number of its kind."""

    kind: int
    content: bytes


class ByteReader:
    """Numbers and names in the binary format, from left to right."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    @property
    def more(self) -> bool:
        """True until all is read."""
        return self.at < len(self.data)

    def number(self) -> int:
        """An unsigned number in LEB128."""
        found = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    def take(self, count: int) -> bytes:
        """So many bytes."""
        self.at += count
        return self.data[self.at - count : self.at]

    def name(self) -> str:
        """A name."""
        return self.take(self.number()).decode()


def leb128(n: int) -> bytes:
    """A number in LEB128.

    >>> leb128(300).hex()
    'ac02'
    """
    found = bytearray()
    while n > 0x7F:
        found.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*found, n])


def wasm_module(data: bytes, exports: Collection[str]) -> WasmModule:
    """An object as a module that exports these functions; raises UnsupportedError for one that calls a library."""
    found = list(sections(data))
    missing = [name for s in found if s.kind == IMPORT for name in imported_functions(s.content)]
    if missing:
        raise UnsupportedError(f"export to wasm: there is no {', '.join(missing)} to call")
    numbers = dict(pair for s in found if s.kind == CUSTOM for pair in function_symbols(s.content))
    table = [leb128(len(name)) + name.encode() + b"\0" + leb128(numbers[name]) for name in exports]
    kept = [s for s in found if s.kind != CUSTOM]
    kept.append(Section(EXPORT, leb128(len(table)) + b"".join(table)))
    kept.sort(key=lambda s: ORDER[s.kind])
    code = MAGIC + b"".join([bytes([s.kind]) + leb128(len(s.content)) + s.content for s in kept])
    return WasmModule(code, max([data_end(s.content) for s in found if s.kind == DATA], default=0))


def sections(data: bytes) -> Iterator[Section]:
    """The sections of a module."""
    reader = ByteReader(data)
    assert reader.take(len(MAGIC)) == MAGIC
    while reader.more:
        kind = reader.take(1)[0]
        yield Section(kind, reader.take(reader.number()))


def imported_functions(content: bytes) -> Iterator[str]:
    """The functions that a section of imports asks for."""
    reader = ByteReader(content)
    for _ in range(reader.number()):
        _, name, kind = reader.name(), reader.name(), reader.take(1)[0]
        if kind == FUNCTION:
            reader.number()
            yield name
            continue
        if kind == 3:  # a global: its type, and whether it changes
            reader.take(2)
            continue
        if kind == 1:  # a table: the type of its elements, then its limits, as a memory has them
            reader.take(1)
        flags = reader.number()
        reader.number()
        if flags & 1:
            reader.number()


def function_symbols(content: bytes) -> Iterator[tuple[str, int]]:
    """The name and number of each function, where a custom section is that for the linker."""
    reader = ByteReader(content)
    if reader.name() != "linking":
        return
    reader.number()
    while reader.more:
        kind = reader.take(1)[0]
        part = ByteReader(reader.take(reader.number()))
        if kind == SYMBOL_TABLE:
            for _ in range(part.number()):
                yield from symbol(part)


def symbol(part: ByteReader) -> Iterator[tuple[str, int]]:
    """One entry of the table of symbols, yielded where it is a function with a name."""
    kind, flags = part.take(1)[0], part.number()
    named = not flags & UNDEFINED or flags & NAMED
    if kind == 1:  # data: where it lies, if it does
        part.name()
        for _ in range(0 if flags & UNDEFINED else 3):
            part.number()
        return
    number = part.number()
    if kind != 3 and named:  # a section has no name
        name = part.name()
        if kind == FUNCTION:
            yield name, number


def data_end(content: bytes) -> int:
    """The end of the memory that a section of data fills."""
    reader, end = ByteReader(content), 0
    for _ in range(reader.number()):
        assert reader.number() == 0 and reader.take(1)[0] == I32_CONST
        start = reader.number()
        reader.take(1)
        length = reader.number()
        reader.take(length)
        end = max(end, start + length)
    return end
