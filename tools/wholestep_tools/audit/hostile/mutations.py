"""Ways to damage a checkpoint file: by chance, and with knowledge of how it is laid out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wholestep.train.checkpoint.safetensors_header import BLANK, BLOCKS, MARK, SEAL, stamp
from wholestep.train.checkpoint.write import signed

Rng = np.random.Generator
Mutation = Callable[[bytes, Rng], bytes]

SIZES = (0, 1, 7, 8, 2**24, 2**24 + 1, 2**31 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
BEYOND = "1e999"
"""In the place of this string stands that number, which no float is."""
ODD: tuple[Any, ...] = (
    BEYOND,
    2**70,
    *SIZES,
    -1,
    0.5,
    1e300,
    None,
    True,
    "",
    "F32",
    "F8_E4M3",
    "C128",
    "__metadata__",
    "\ud800",
    "..",
    "/etc/passwd",
    "\0",
    [],
    {},
    [-1],
    [0, 2**62],
    [2**32, 2**32],
    [10**30],
    [1] * 65,
    [[1]],
    ["1"],
    {"a": 1},
)
"""The values that a field may be turned into."""


def flipped(data: bytes, rng: Rng) -> bytes:
    """A few bits turned over."""
    out = bytearray(data)
    for at in rng.integers(0, 8 * len(out), rng.integers(1, 9)):
        out[at // 8] ^= 1 << (at % 8)
    return bytes(out)


def cut(data: bytes, rng: Rng) -> bytes:
    """The beginning."""
    return data[: rng.integers(0, len(data))]


def longer(data: bytes, rng: Rng) -> bytes:
    """Something behind the end."""
    return data + rng.bytes(int(rng.integers(1, 64)))


def overwritten(data: bytes, rng: Rng) -> bytes:
    """A stretch of noise."""
    at, n = int(rng.integers(0, len(data))), int(rng.integers(1, 64))
    return data[:at] + rng.bytes(n) + data[at + n :]


def moved(data: bytes, rng: Rng) -> bytes:
    """A stretch left out, or put in twice."""
    a, b = sorted(map(int, rng.integers(0, len(data), 2)))
    return data[:a] + data[b:] if rng.random() < 0.5 else data[:b] + data[a:]


def other_length(data: bytes, rng: Rng) -> bytes:
    """Another size of the header."""
    sizes = (*SIZES, len(data), len(data) - 8, len(data) - 7)
    return int(rng.choice(np.array(sizes, dtype=object))).to_bytes(8, "little") + data[8:]


def other_header(data: bytes, rng: Rng) -> bytes:
    """A field of the header turned into something else; half of the time with checksums made right again."""
    table = head(data)
    changed(table, rng)
    return rebuilt(data, table, rng.random() < 0.5)


def other_offsets(data: bytes, rng: Rng) -> bytes:
    """Tensors that overlap, leave holes, or lie outside, with right checksums."""
    table = head(data)
    names = [name for name in table if name != "__metadata__"]
    for name in rng.choice(names, 2):
        offsets = table[str(name)]["data_offsets"]
        table[str(name)]["data_offsets"] = [max(0, n + int(rng.integers(-9, 10))) for n in offsets]
    return rebuilt(data, table, True)


def other_facts(data: bytes, rng: Rng) -> bytes:
    """Facts turned into something else, with right checksums."""
    table = head(data)
    known = json.loads(table["__metadata__"].get(MARK, "{}"))
    changed(known, rng)
    table["__metadata__"][MARK] = with_beyond(json.dumps(known))
    return rebuilt(data, table, True)


def other_values(data: bytes, rng: Rng) -> bytes:
    """Other bytes in the tensors, with their checksums as they were."""
    start = 8 + int.from_bytes(data[:8], "little")
    return data[:start] + flipped(data[start:], rng)


def twice(data: bytes, rng: Rng) -> bytes:
    """A name that comes twice."""
    text = data[8 : 8 + int.from_bytes(data[:8], "little")].rstrip()
    name = rng.choice([name for name in head(data) if name != "__metadata__"])
    entry = json.dumps(head(data)[str(name)])
    return with_text(data, text[:-1] + f",{json.dumps(str(name))}:{entry}}}".encode())


def odd_text(data: bytes, rng: Rng) -> bytes:
    """Text that is no JSON, or JSON that nobody expects, as deep or as long as it likes."""
    n = int(rng.integers(1, 2000))
    texts = [b"[" * n, b'{"a":' * n, b"{" + b'"a":[],' * n, b'{"\xff\xfe":1}', b'{"a":"' + b"\\" * n, b"nan", b'"' * n]
    texts += [b'{"__metadata__":{' + b",".join([b'"%d":""' % i for i in range(n)]) + b"}}", b" " * n, b"{}" * n, b"{}"]
    return with_text(data, texts[int(rng.integers(len(texts)))])


def huge(data: bytes, rng: Rng) -> bytes:
    """A header of megabytes."""
    n = int(rng.choice([1 << 20, 9 << 20, 17 << 20]))
    fill = [
        b" " * n,
        b'{"' + b"a" * n,
        b'{"a":{"dtype":"F32","shape":[' + b"0," * (n // 2),
        b'{"__metadata__":{"":""' + b',"":""' * (n // 6),
    ]
    return with_text(data, fill[int(rng.integers(len(fill)))])


FOREIGN = (
    b"",
    b"PK\x03\x04" + bytes(60),
    b"\x80\x04\x95" + bytes(30),
    b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'}",
    b"\x89HDF\r\n\x1a\n",
    b"\x7fELF\x02\x01\x01",
    b"\x1f\x8b\x08\x00",
    b"GGUF\x03\x00\x00\x00",
    b"\x89PNG\r\n\x1a\n",
    b'{"format": 1}',
    b"epoch,loss\n1,2\n",
    b"\x80\x02cos\nsystem\n(S'true'\ntR.",
)
"""The first bytes of other kinds of files."""


def another_kind(data: bytes, rng: Rng) -> bytes:
    """A file of another kind."""
    return FOREIGN[int(rng.integers(len(FOREIGN)))] + rng.bytes(int(rng.integers(0, 40)))


MUTATIONS: Mapping[str, tuple[Mutation, float]] = {
    "bits flipped": (flipped, 3),
    "cut short": (cut, 2),
    "longer": (longer, 1),
    "overwritten": (overwritten, 2),
    "stretches moved": (moved, 1),
    "header lengths": (other_length, 1),
    "header fields": (other_header, 4),
    "offsets": (other_offsets, 2),
    "facts": (other_facts, 2),
    "tensors": (other_values, 2),
    "names twice": (twice, 1),
    "odd text": (odd_text, 1),
    "other kinds": (another_kind, 1),
    "headers of megabytes": (huge, 0.01),
}
"""Each with its share."""


def changed(node: Any, rng: Rng) -> None:
    """Somewhere in nested dictionaries and lists one item is turned into something else, left out or renamed."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    if not keys:
        return
    key = keys[int(rng.integers(len(keys)))]
    if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.7:
        changed(node[key], rng)
    elif rng.random() < 0.2:
        del node[key]
    elif isinstance(node, dict) and rng.random() < 0.2:
        node[str(ODD[int(rng.integers(len(ODD)))])] = node.pop(key)
    else:
        node[key] = ODD[int(rng.integers(len(ODD)))]


def head(data: bytes) -> dict[str, Any]:
    """The header of a whole file."""
    found: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return {"__metadata__": {}, **found}


def with_text(data: bytes, text: bytes) -> bytes:
    """A file with another header."""
    return len(text).to_bytes(8, "little") + text + data[8 + int.from_bytes(data[:8], "little") :]


def rebuilt(data: bytes, table: dict[str, Any], sealed: bool) -> bytes:
    """A file with another header, perhaps with a right seal."""
    metadata = table.get("__metadata__")
    if not sealed or not isinstance(metadata, dict) or not {MARK, BLOCKS, SEAL} <= metadata.keys():
        return with_text(data, json.dumps(table, separators=(",", ":")).encode())
    metadata[SEAL] = BLANK
    text = json.dumps(table, separators=(",", ":")).encode()
    return with_text(data, text.replace(stamp(BLANK), stamp(hashlib.sha256(text).hexdigest()), 1))


NAMES = (
    "../state.safetensors",
    "/etc/passwd",
    "..\\state.safetensors",
    "a/b.safetensors",
    "link.safetensors",
    "hard.safetensors",
    "",
    "\0.safetensors",
    ".hidden.safetensors",
    "CON",
    "C:\\a.safetensors",
    "manifest.json",
    "pipe.safetensors",
    "x" * 300 + ".safetensors",
)
"""Names that a manifest might have for its parts."""


def other_manifest(data: bytes, rng: Rng) -> bytes:
    """A manifest that says something else, mostly with a right checksum."""
    table = json.loads(data)
    digest = table.pop(SEAL)
    if rng.random() < 0.3:
        old, new = str(rng.choice(list(table["parts"]))), NAMES[int(rng.integers(len(NAMES)))]
        table["parts"][new] = table["parts"].pop(old)
        table["weight_map"] = {name: new if part == old else part for name, part in table["weight_map"].items()}
    else:
        changed(table, rng)
    text = signed(table) if rng.random() < 0.7 else json.dumps({**table, SEAL: digest}).encode()
    return with_beyond(text.decode()).encode()


def with_beyond(text: str) -> str:
    """JSON with a number in the place of the string that stands for it."""
    return text.replace(json.dumps(BEYOND), BEYOND)


MANIFEST_MUTATIONS: Mapping[str, tuple[Mutation, float]] = {
    "bits flipped": (flipped, 2),
    "cut short": (cut, 1),
    "overwritten": (overwritten, 1),
    "manifests": (other_manifest, 4),
    "other kinds": (another_kind, 1),
}
