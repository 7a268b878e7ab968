"""The wire format of Protocol Buffers for the messages of a schema: read strictly, in bounded memory, and written."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from wholestep.export.onnx.schema import BY_NAME, BY_NUMBER, DEFAULTS, Field

MOST_MESSAGES = 8_000_000
"""A file of more messages than this is refused: a model of a million nodes has fewer."""
DEEPEST = 64
"""The maximum depth of nested messages."""
VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
PACKED = {"int": VARINT, "float": FIXED32, "double": FIXED64}


class WireError(Exception):
    """A fault of the bytes; the caller adds the name of the file."""


class Proto:
    """A message: its fields are attributes, with the default of the schema where they are not given.

    >>> Proto("Node", op_type="Add", input=["x", "y"]).op_type
    'Add'
    """

    __slots__ = ("fields", "kind")

    def __init__(self, kind: str, **fields: Any) -> None:
        self.kind = kind
        self.fields = fields

    def __getattr__(self, name: str) -> Any:
        if name in Proto.__slots__ or name not in DEFAULTS[self.kind]:
            raise AttributeError(f"a message {self.kind} has no field {name}")
        found = self.fields.get(name)
        return DEFAULTS[self.kind][name] if found is None else found

    def has(self, name: str) -> bool:
        """True if the field was given."""
        return name in self.fields

    def encoded(self) -> bytes:
        """The bytes of the message, its fields in the order of their numbers."""
        table = BY_NAME[self.kind]
        given = sorted((table[name], value) for name, value in self.fields.items() if value is not None)
        return b"".join(part for field, value in given for part in encode_field(field, value))


class WireReader:
    """A reader of messages that limits their number and the depth of their nesting."""

    def __init__(self) -> None:
        self.left = MOST_MESSAGES

    def message(self, kind: str, data: memoryview, depth: int = 0) -> Proto:
        """The message of a kind that the bytes are."""
        self.left -= 1
        if self.left < 0:
            raise WireError(f"it holds more than {MOST_MESSAGES:,} messages")
        if depth > DEEPEST:
            raise WireError(f"its messages lie more than {DEEPEST} deep")
        known, made = BY_NUMBER[kind], Proto(kind)
        for number, wire, value in wire_fields(data):
            field = known.get(number)
            if field is None:
                continue
            item = self.item(field, wire, value, depth)
            if field.repeated:
                made.fields.setdefault(field.name, []).append(item)
            else:
                made.fields[field.name] = item
        for name, items in made.fields.items():
            if BY_NAME[kind][name].kind in PACKED and BY_NAME[kind][name].repeated:
                made.fields[name] = one_array(field_dtype(BY_NAME[kind][name]), items)
        return made

    def item(self, field: Field, wire: int, value: Any, depth: int) -> Any:
        """One value of a field; of packed numbers an array."""
        if field.kind in PACKED:
            expected = PACKED[field.kind]
            if field.repeated and wire == DELIMITED:
                return unpacked(field.kind, value)
            if wire != expected:
                raise WireError(f"field {field.name} has wire type {wire}")
            return number_from_bits(field.kind, value)
        if wire != DELIMITED:
            raise WireError(f"field {field.name} has wire type {wire}")
        if field.kind == "text":
            try:
                return str(value, "utf-8")
            except UnicodeDecodeError:
                raise WireError(f"field {field.name} is not UTF-8") from None
        return value if field.kind == "bytes" else self.message(field.kind, value, depth + 1)


def wire_fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Each field in some bytes: its number, its wire type, and an integer or the bytes that it holds."""
    at, end = 0, len(data)
    while at < end:
        key, at = varint_at(data, at)
        number, wire = key >> 3, key & 7
        if not number:
            raise WireError("a field has number 0")
        if wire == VARINT:
            value: Any
            value, at = varint_at(data, at)
        elif wire == DELIMITED:
            length, at = varint_at(data, at)
            if length > end - at:
                raise WireError(f"a field of {length:,} bytes begins {end - at:,} bytes before its end")
            value, at = data[at : at + length], at + length
        elif wire in (FIXED32, FIXED64):
            length = 4 if wire == FIXED32 else 8
            if length > end - at:
                raise WireError("it ends within a number")
            value, at = data[at : at + length], at + length
        else:
            raise WireError(f"a field has wire type {wire}")
        yield number, wire, value


def varint_at(data: memoryview, at: int) -> tuple[int, int]:
    """An unsigned integer of up to 64 bits, seven in a byte, and the place after it."""
    value = shift = 0
    while shift < 70:
        if at >= len(data):
            raise WireError("it ends within a number")
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value & (1 << 64) - 1, at
        shift += 7
    raise WireError("an integer has more than ten bytes")


def number_from_bits(kind: str, value: Any) -> Any:
    """A signed integer or a floating number from its bits."""
    if kind == "int":
        return value - (1 << 64) if value >> 63 else value
    return struct.unpack("<f" if kind == "float" else "<d", value)[0]


def unpacked(kind: str, data: memoryview) -> Any:
    """The numbers of a packed field as an array, of integers int64."""
    if kind == "int":
        return varints(np.frombuffer(data, np.uint8))
    dtype = np.dtype("<f4" if kind == "float" else "<f8")
    if len(data) % dtype.itemsize:
        raise WireError("packed numbers end within one")
    return np.frombuffer(data, dtype)


def field_dtype(field: Field) -> Any:
    """The dtype of a repeated number."""
    return np.dtype({"int": "i8", "float": "f4", "double": "f8"}[field.kind])


def one_array(dtype: Any, items: list[Any]) -> Any:
    """One array of the items of a repeated field: packed arrays, or single numbers."""
    if len(items) == 1 and isinstance(items[0], np.ndarray):
        return items[0]
    if any(isinstance(item, np.ndarray) for item in items):
        return np.concatenate([np.atleast_1d(np.asarray(item, dtype)) for item in items])
    return np.array(items, dtype)


def varints(raw: Any) -> Any:
    """All integers that some bytes hold, one after the other, as int64."""
    stops = np.flatnonzero(raw < 128) + 1
    if raw.size and (not stops.size or stops[-1] != raw.size):
        raise WireError("packed integers end within one")
    starts = np.concatenate([np.zeros(min(stops.size, 1), np.int64), stops[:-1]])
    lengths = stops - starts
    if lengths.size and lengths.max() > 10:
        raise WireError("an integer has more than ten bytes")
    made = np.zeros(starts.size, np.uint64)
    for k in range(int(lengths.max(initial=0))):
        more = lengths > k
        made[more] |= (raw[starts[more] + k] & np.uint8(127)).astype(np.uint64) << np.uint64(7 * k)
    return made.view(np.int64)


def varint(value: int) -> bytes:
    """An integer as it is written, a negative one as its 64 bits."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def encode_field(field: Field, value: Any) -> Iterable[bytes]:
    """The bytes of a field, key included; numbers of a repeated one together."""
    if field.repeated and field.kind in PACKED:
        body = b"".join(encode_number(field.kind, item)[1] for item in value)
        return (varint(field.number << 3 | DELIMITED), varint(len(body)), body) if len(value) else ()
    items = value if field.repeated else [value]
    return [part for item in items for part in encode_item(field, item)]


def encode_item(field: Field, value: Any) -> Iterable[bytes]:
    """One value of a field, key included."""
    if field.kind in PACKED:
        wire, body = encode_number(field.kind, value)
        return (varint(field.number << 3 | wire), body)
    if field.kind == "text":
        body = value.encode()
    else:
        body = value if field.kind == "bytes" else value.encoded()
    return (varint(field.number << 3 | DELIMITED), varint(len(body)), body)


def encode_number(kind: str, value: Any) -> tuple[int, bytes]:
    """The wire type and the bytes of a number."""
    if kind == "int":
        return VARINT, varint(int(value))
    return (FIXED32, struct.pack("<f", value)) if kind == "float" else (FIXED64, struct.pack("<d", value))
