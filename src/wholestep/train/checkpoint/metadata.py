"""The metadata of a checkpoint: JSON that is read as untrusted input."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from wholestep.errors import CheckpointError
from wholestep.train.checkpoint.safetensors_header import Damage

LARGEST = 1 << 20
"""Facts of more bytes than this are refused."""
FORMAT = 1
"""The version of the file format; a reader refuses any other."""


def encode_metadata(facts: dict[str, Any], what: str) -> str:
    """Facts as JSON text; raises CheckpointError for values that JSON cannot hold and for a text that is too long."""
    try:
        text = json.dumps(facts, allow_nan=False, sort_keys=True, separators=(",", ":"))
        same = json.loads(text) == facts
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{what}: metadata or data position is no JSON: {error}") from None
    if not same:
        raise CheckpointError(
            f"{what}: metadata or data position does not come back from JSON as it was",
            hint="use dictionaries with strings for keys, lists, strings, numbers, booleans and None",
        )
    if len(text) > LARGEST:
        raise CheckpointError(f"{what}: metadata and data position take {len(text):,} bytes, more than {LARGEST:,}")
    return text


def decode_metadata(text: str | bytes, largest: int = LARGEST) -> dict[str, Any]:
    """The dictionary of a JSON text; raises Damage for other contents and for more than `largest` bytes."""
    if len(text) > largest:
        raise Damage(f"its facts take more than {largest:,} bytes")
    try:
        found = json.loads(text, object_pairs_hook=once, parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError):
        raise Damage("its facts are no JSON") from None
    if not isinstance(found, dict):
        raise Damage("its facts are no JSON object")
    return found


def once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The dictionary of a JSON object; raises ValueError for a name that occurs twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(name)
        found[name] = value
    return found


def refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def finite(text: str) -> float:
    """The float of a JSON number; raises ValueError for one that overflows, such as 1e999."""
    value = float(text)
    return value if math.isfinite(value) else refuse(text)


def typed_field(facts: dict[str, Any], name: str, *kinds: type) -> Any:
    """The value of a fact; raises Damage where it is missing or of none of these types."""
    value = facts.get(name)
    if type(value) not in kinds:
        raise Damage(f"its facts say nothing of {name}, or something else than they should")
    return value
