"""The matching of a file's tensors with the arrays of the state, by name, shape and dtype."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.errors import CheckpointError
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type, array_type
from wholestep.train.checkpoint.read import Contents
from wholestep.train.checkpoint.safetensors_header import safe_name
from wholestep.words import first_few, type_in_words

Rename = Mapping[str, str | None] | Callable[[str], str | None]
"""The path in the state of each tensor name in the file; None leaves the tensor out."""
Convert = Mapping[str, Callable[[NDArray], Any]]
"""The conversion of each tensor in the file, by a pattern of its name in which * matches any characters."""

PLACES = ("params", "buffers")
"""The parts of the state to which a tensor of a file by another library may belong."""
SHOWN = 8


class Matched(NamedTuple):
    """The tensor in the file for each array of the state, arrays without a tensor, and tensors without an array."""

    pairs: dict[str, str]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


def matched(held: Iterable[str], wanted: Collection[str], parts: Collection[str], rename: Any, ours: bool) -> Matched:
    """Match the names in a file with names in the state; tensors of parts that are not loaded are passed over."""
    pairs: dict[str, str] = {}
    unexpected: list[str] = []
    for name in held:
        new = rename_tensor(name, rename)
        if new is None:
            continue
        here = new if ours or new in wanted else at_home(new, wanted)
        if here in pairs:
            raise CheckpointError(
                f"load: {safe_name(pairs[here])} and {safe_name(name)} would both become {safe_name(here)}"
            )
        if here in wanted:
            pairs[here] = name
        elif not ours or root_of(here) in parts:
            unexpected.append(new)
    return Matched(pairs, tuple([name for name in wanted if name not in pairs]), tuple(unexpected))


def rename_tensor(name: str, rename: Any) -> str | None:
    """The name of a tensor after `rename`; None where it is left out."""
    if rename is None:
        return name
    if not callable(rename) and not isinstance(rename, Mapping):
        raise CheckpointError(
            f"load: rename is {type_in_words(rename)}, not a function of names or a dictionary of them",
            hint='rename={"fc.weight": "head.weight"}, or lambda name: name.removeprefix("module.")',
        )
    new = rename(name) if callable(rename) else rename.get(name, name)
    if new is not None and not isinstance(new, str):
        raise CheckpointError(f"load: rename turns {safe_name(name)} into {type_in_words(new)}, not a string or None")
    return new


def at_home(name: str, wanted: Collection[str]) -> str:
    """The path in the state of a name in another library's file; the name itself where there is none."""
    spelled = [f"{place}{name if name.startswith('[') else f'.{name}'}" for place in PLACES]
    return next((path for path in spelled if path in wanted), name)


def root_of(path: str) -> str:
    """The part of the state that a path begins with."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def check_complete(found: Matched, strict: bool) -> None:
    """Raise CheckpointError where no name matches, or, with `strict`, where a name is missing or unexpected."""
    if found.pairs and (not strict or not (found.missing or found.unexpected)):
        return
    what = "the names differ" if found.pairs else "no name is the same"
    hint = "rename= says what is called otherwise, only= loads a part, strict=False what there is"
    if found.pairs and not any(root_of(name) in PLACES for name in (*found.missing, *found.unexpected)):
        hint = 'only=("params", "buffers") loads the model alone, whatever the optimizer was'
    raise CheckpointError(f"load: {what}: {mismatch(found.missing, found.unexpected)}", hint=hint)


def mismatch(missing: Collection[str], unexpected: Collection[str], wrong: Sequence[str] = ()) -> str:
    """The names that are missing or unexpected, and descriptions of those of another type, in a message."""
    parts = {
        "missing ": first_few(list(map(safe_name, missing)), SHOWN),
        "of another type: ": first_few(wrong, SHOWN, "; "),
        "unexpected ": first_few(list(map(safe_name, unexpected)), SHOWN),
    }
    return "; ".join([what + names for what, names in parts.items() if names]) or "there is nothing to load"


def convert_tensor(contents: Contents, name: str, path: str, own: Any, convert: Convert, cast: bool) -> NDArray:
    """A tensor as new content of a buffer of the state; raises CheckpointError where it does not fit."""
    change = next((f for pattern, f in convert.items() if name_matches(name, pattern)), None)
    wanted = array_type(own.shape, own.dtype)
    if change is None:
        check_type(contents.types[name], wanted, path, cast)
        x = contents.array(name, own)
    else:
        x = np.asarray(change(contents.array(name)))
        check_type(type_of(x), wanted, path, cast)
    return x.astype(wanted.dtype, order="C", copy=False)


def name_matches(name: str, pattern: str) -> bool:
    """True if a name matches a pattern, in which * matches any characters.

    >>> name_matches("layers.0.weight", "layers.*.weight"), name_matches("layers[0].bias", "*.weight")
    (True, False)
    """
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def check_type(held: Type, wanted: Type, path: str, cast: bool) -> None:
    """Raise CheckpointError where shapes differ, or dtypes without leave to cast."""
    if held.shape != wanted.shape:
        turned = held.ndim == 2 and held.shape[::-1] == wanted.shape
        raise CheckpointError(
            f"load: {path} is {held} in the file and {wanted} here",
            hint="convert={'NAME': checkpoint.torch_linear} transposes it"
            if turned
            else "is it another architecture? make the model as it was when the file was saved",
        )
    if held.dtype != wanted.dtype and not cast:
        raise CheckpointError(
            f"load: {path} is {held} in the file and {wanted} here",
            hint="cast=True converts it; nothing is cast in silence",
        )
    if held.dtype != wanted.dtype and not castable(held.dtype, wanted.dtype):
        raise CheckpointError(f"load: {path} is {held} in the file, which is no {wanted} even with cast=True")


def castable(held: Any, wanted: Any) -> bool:
    """True if a cast keeps the kind: floats to floats or complex numbers, integers to integers or floats."""
    if dtypes.is_inexact(held):
        return dtypes.is_inexact(wanted) and (dtypes.is_complex(wanted) or not dtypes.is_complex(held))
    return dtypes.is_integer(held) and not dtypes.is_bool(wanted)
