"""The header of a safetensors file, parsed strictly and checked against the size of the file."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from wholestep import dtypes
from wholestep.errors import CheckpointError
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type, array_type

LENGTH = 8
"""The number of bytes at the beginning of a file that hold the header's size."""
LARGEST = 16 << 20
"""The most bytes of a header, which is enough for a hundred thousand tensors."""
MOST_ENTRIES = 4096
"""The most entries of metadata."""
ALIGNMENT = 8

TAGS: Mapping[str, str] = {short.upper(): short for short in dtypes.SUPPORTED if short != "c128"}
"""This library's dtype for each dtype name of the format that it supports; the format has none for complex128."""

MARK, BLOCKS, SEAL = "wholestep", "wholestep.blocks", "wholestep.sha256"
"""Metadata keys of this library's files: facts, the SHA-256 of each tensor in the order of the file, the header's."""
BLANK = "0" * 64
DIGESTS = re.compile(r"(?:[0-9a-f]{64})*")


class Damage(Exception):
    """A fault in the contents of a file; the code that opened the file adds its name."""


class Block(NamedTuple):
    """A tensor in a file: its name and type, and where its bytes lie after the header."""

    name: str
    type: Type
    start: int
    stop: int


class Header(NamedTuple):
    """The header of a file: its tensors, in the order of their bytes, and its metadata."""

    blocks: tuple[Block, ...]
    metadata: dict[str, str]
    sha256: str
    """The seal of a file by this library, which covers the digests of the tensors too; empty for other files."""

    @property
    def ours(self) -> bool:
        """True if this library wrote the file, with a checksum for everything in it."""
        return bool(self.sha256)

    @property
    def digests(self) -> list[str]:
        """The SHA-256 of each tensor, in the order of the blocks; empty for a file by another library."""
        text = self.metadata.get(BLOCKS, "")
        return [text[i : i + 64] for i in range(0, len(text), 64)]


def safe_name(name: str) -> str:
    """A name from a file, escaped and shortened for a message.

    >>> safe_name("a" * 90)[-6:], safe_name("new\\nline")
    ('aaa...', "'new\\\\nline'")
    """
    return name if name.isprintable() and len(name) <= 80 and name else f"{ascii(name)[:80]}{'...' * (len(name) > 80)}"


def encoded(arrays: Iterable[tuple[str, NDArray, str]], facts: str) -> bytes:
    """The header, its length included, for (name, array, SHA-256) in the order of the file."""
    table: dict[str, Any] = {}
    start, digests = 0, []
    for name, x, digest in arrays:
        tag, stop = dtypes.short(x.dtype).upper(), start + x.nbytes
        table[name] = {"dtype": tag, "shape": list(x.shape), "data_offsets": [start, stop]}
        digests.append(digest)
        start = stop
    table = {"__metadata__": {MARK: facts, BLOCKS: "".join(digests), SEAL: BLANK}, **table}
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    if len(text) > LARGEST:
        raise CheckpointError(f"save: the names and facts take {len(text):,} bytes, more than {LARGEST:,} in one file")
    digest = hashlib.sha256(text).hexdigest()
    return len(text).to_bytes(LENGTH, "little") + text.replace(stamp(BLANK), stamp(digest), 1)


def stamp(digest: str) -> bytes:
    """The text of the seal in a header; no name or value equals it, since quotes in these are escaped."""
    return f'"{SEAL}":"{digest}"'.encode()


def decoded(text: bytes, room: int) -> Header:
    """Parse the header of a file with `room` bytes of data; raises Damage for an invalid header."""
    reader = HeaderParser(text)
    metadata: dict[str, str] = {}
    found: dict[str, Block] = {}
    for name in reader.members():
        if name == "__metadata__":
            for key in reader.members():
                if key in metadata or len(metadata) == MOST_ENTRIES:
                    raise Damage(f"its metadata holds {safe_name(key)} twice, or too many entries")
                metadata[key] = reader.string()
        elif name in found:
            raise Damage(f"it holds {safe_name(name)} twice")
        else:
            found[name] = reader.block(name)
    reader.end()
    blocks = sorted(found.values(), key=lambda block: (block.start, block.stop))
    at = 0
    for block in blocks:
        if block.start != at:
            raise Damage(f"the bytes of {safe_name(block.name)} begin at {block.start}, not at {at}")
        at = block.stop
    if at != room:
        raise Damage(f"its tensors take {at} bytes, and it has {room}")
    return Header(tuple(blocks), metadata, sealed(text, metadata, len(blocks)))


def sealed(text: bytes, metadata: Mapping[str, str], count: int) -> str:
    """The verified seal of a header by this library, empty for another library's; raises Damage for a wrong one."""
    if not {MARK, BLOCKS, SEAL} & metadata.keys():
        return ""
    digest, blocks = metadata.get(SEAL, ""), metadata.get(BLOCKS, "")
    whole = MARK in metadata and len(digest) == 64 and len(blocks) == 64 * count and DIGESTS.fullmatch(digest + blocks)
    if not whole or text.count(stamp(digest)) != 1:
        raise Damage("its checksums are not complete")
    if hashlib.sha256(text.replace(stamp(digest), stamp(BLANK))).hexdigest() != digest:
        raise Damage("its header is damaged: the checksum is another one")
    return digest


SPACE = rb"[ \t\n\r]*+"
STRING = re.compile(SPACE + rb'"((?:[^"\\\x00-\x1f]|\\.)*+)"')
SIGNS = {sign: re.compile(SPACE + re.escape(sign.encode())) for sign in "{}:,"}
NUMBER = SPACE + rb"(?:0|[1-9][0-9]{0,18})" + SPACE
NUMBERS = re.compile(SPACE + rb"\[(" + SPACE + rb"|" + NUMBER + rb"(?:," + NUMBER + rb"){0,63})\]")
END = re.compile(SPACE + rb"\Z")


class HeaderParser:
    """A parser of the JSON in headers: objects of strings and lists of numbers, at the nesting that headers have."""

    def __init__(self, text: bytes) -> None:
        self.text, self.at = text, 0

    def take(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """The next token if it matches, else None."""
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def need(self, pattern: re.Pattern[bytes], what: str) -> re.Match[bytes]:
        """The next token; raises Damage where it does not match."""
        match = self.take(pattern)
        if match is None:
            raise Damage(f"its header is no safetensors header: no {what} at byte {self.at}")
        return match

    def members(self) -> Iterator[str]:
        """The names in an object; the caller reads the value of each name before it asks for the next."""
        self.need(SIGNS["{"], "{")
        if self.take(SIGNS["}"]):
            return
        while True:
            name = self.string()
            self.need(SIGNS[":"], "colon")
            yield name
            if not self.take(SIGNS[","]):
                break
        self.need(SIGNS["}"], "}")

    def string(self) -> str:
        """A string."""
        inner = self.need(STRING, "string").group(1)
        try:
            text = inner.decode()
            found = str(json.loads(f'"{text}"')) if "\\" in text else text
            found.encode()  # half a surrogate pair is no text
        except ValueError:
            raise Damage(f"its header holds text that is no UTF-8, before byte {self.at}") from None
        return found

    def numbers(self) -> tuple[int, ...]:
        """A list of numbers, none of them negative."""
        inner = self.need(NUMBERS, "list of numbers").group(1)
        return tuple([int(item) for item in inner.split(b",")]) if inner.strip() else ()

    def block(self, name: str) -> Block:
        """The entry of a tensor."""
        fields: dict[str, Any] = {}
        for key in self.members():
            if key in fields or key not in ("dtype", "shape", "data_offsets"):
                raise Damage(f"the entry of {safe_name(name)} holds {safe_name(key)}, which it should not, or twice")
            fields[key] = self.string() if key == "dtype" else self.numbers()
        if len(fields) != 3 or len(fields["data_offsets"]) != 2:
            raise Damage(f"the entry of {safe_name(name)} is not complete")
        return checked_block(name, fields["dtype"], fields["shape"], *fields["data_offsets"])

    def end(self) -> None:
        """Raise Damage where the text does not end here."""
        self.need(END, "end")


def checked_block(name: str, tag: str, shape: tuple[int, ...], start: int, stop: int) -> Block:
    """A tensor's block; raises Damage for an unknown dtype or a number of bytes that disagrees with the type."""
    if tag not in TAGS:
        raise Damage(f"{safe_name(name)} is of dtype {safe_name(tag)}, which is not covered")
    dtype = dtypes.from_short(TAGS[tag])
    size = dtype.itemsize
    if math.prod([n or 1 for n in shape]) * size >= 1 << 63:
        raise Damage(f"{safe_name(name)} has a shape that no array can have")
    if stop - start != math.prod(shape) * size:
        raise Damage(f"{safe_name(name)} takes {math.prod(shape) * size} bytes, and its entry gives it {stop - start}")
    return Block(name, array_type(shape, dtype), start, stop)
