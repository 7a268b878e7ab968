"""`wholestep audit headers`: parsing any damaged header of a file ends in one error."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.train.checkpoint.safetensors_header import LENGTH, TAGS, Damage, decoded, encoded
from wholestep.train.checkpoint.write import checksum
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.hostile.mutations import (
    Rng,
    cut,
    flipped,
    longer,
    moved,
    odd_text,
    other_facts,
    other_header,
    other_length,
    other_offsets,
    overwritten,
    twice,
)
from wholestep_tools.audit.record import record

CLAIM = "Whatever the header of a file holds, parsing ends in one error, or gives the tensors that it says"
SECONDS = 1.0
"""The most seconds of the processor, which other programs add nothing to."""
SHARES = {
    flipped: 8,
    cut: 3,
    longer: 1,
    overwritten: 5,
    moved: 3,
    other_header: 2,
    other_offsets: 2,
    other_facts: 1,
    twice: 1,
    odd_text: 1,
}
"""The frequency of each kind of damage: the cheap ones more often."""


def whole() -> list[tuple[bytes, int]]:
    """Headers that are right, with the bytes of their tensors: ours, one from elsewhere, and an empty one."""
    arrays = {"params.w": np.arange(6.0).reshape(2, 3), "b": np.ones((0, 2), np.float16), "n": np.int64(3)}
    given = [(name, np.asarray(x), checksum(np.asarray(x))) for name, x in arrays.items()]
    own = encoded(given, json.dumps({"format": 1, "note": "a few words", "list": [1, 2.5, None]}))
    table = {"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    table["\u00e9\n"] = {"dtype": "BOOL", "shape": [], "data_offsets": [16, 17]}
    text = json.dumps(table).encode()
    foreign = len(text).to_bytes(LENGTH, "little") + text
    return [(own, sum(x.nbytes for _, x, _ in given)), (foreign, 17), ((2).to_bytes(LENGTH, "little") + b"{}", 0)]


def problem(text: bytes, room: int) -> tuple[bool, str]:
    """Test whether a header is accepted, with the fault of the parser; empty where there is none."""
    before = time.process_time()
    try:
        found = decoded(text, room)
    except Damage:
        late = time.process_time() - before > SECONDS
        return False, "it took more than a second" if late else ""
    except BaseException as error:
        return False, f"{type(error).__name__}: {error}"[:200]
    try:
        known = json.loads(text)
    except (ValueError, RecursionError) as error:
        return True, f"it is no JSON: {error}"[:200]
    tensors = {name: entry for name, entry in known.items() if name != "__metadata__"}
    same = {block.name: told(block) for block in found.blocks} == {n: tuple(e.items()) for n, e in tensors.items()}
    same = same or {b.name: dict(told(b)) for b in found.blocks} == tensors
    return True, "" if same and found.metadata == known.get(
        "__metadata__", {}
    ) else "it was read otherwise than it says"


def told(block: Any) -> tuple[tuple[str, Any], ...]:
    """A tensor as a header says it."""
    tag = next(tag for tag, short in TAGS.items() if short == dtypes.short(block.type.dtype))
    return ("dtype", tag), ("shape", list(block.type.shape)), ("data_offsets", [block.start, block.stop])


def damaged(count: int, rng: Rng) -> Iterator[tuple[str, bytes, int]]:
    """So many headers, each with how it was damaged and the room that its file has for tensors."""
    bases, kinds = whole(), list(SHARES)
    shares = np.array(list(SHARES.values())) / sum(SHARES.values())
    which, how = rng.integers(0, len(bases), count), rng.choice(len(kinds), count, p=shares)
    for i in range(count):
        data, room = bases[which[i] if kinds[how[i]] not in (other_offsets, twice) else which[i] % 2]
        found = kinds[how[i]](data, rng)
        if rng.random() < 0.05:
            found, room = other_length(found, rng) if len(found) >= LENGTH else found, int(rng.integers(0, 64))
        yield kinds[how[i]].__name__.replace("_", " "), found[LENGTH:], room


def audit(count: int, seed: int) -> dict[str, Any]:
    """Parse so many damaged headers; the record of it."""
    seen, accepted = Seen(), 0
    for text, room in whole():
        fine = problem(text[LENGTH:], room)
        seen.right(fine == (True, ""), f"a whole header: {fine}")
    for i, (what, data, room) in enumerate(damaged(count, np.random.default_rng(seed))):
        taken, wrong = problem(data, room)
        accepted += taken
        seen.count(f"damage: {what}")
        if wrong:
            seen.failures.append(f"header {i}, {what}: {wrong}")
    checks = {"headers": count, "of them refused": count - accepted, **dict(sorted(seen.checks.items()))}
    return record("headers", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "headers",
    audit,
    5_000_000,
    "parse headers of checkpoints that are damaged or hostile",
    """\
Right headers of safetensors files, one of them with this library's checksums, are damaged by chance and by
knowledge of their layout: bits, cuts, stretches, fields, offsets, names that come twice, facts with checksums made
right again, text that is deep or long. The parser must end in its one error within a second; or it accepts, and
then Python's own JSON parser must find the same names, types, places and metadata in the header.""",
)
