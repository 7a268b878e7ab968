"""Writing of checkpoints: one safetensors file, or a folder of several and a manifest that is written last."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.contents import native
from wholestep.errors import CheckpointError
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type
from wholestep.runtime.memory import mapped_arrays
from wholestep.train.checkpoint import filesystem, metadata, safetensors_header, writers
from wholestep.train.checkpoint.filesystem import Disk

MANIFEST = "manifest.json"
MOST_PARTS = 512
PART = "part-{tag}-{i}-of-{n}.safetensors"
PART_NAME = re.compile(r"part-([0-9a-f]{16}|[0-9a-f]{40})-[0-9]{1,3}-of-[0-9]{1,3}\.safetensors")
"""The names of parts, with the tag of the writing process; tags of earlier versions do not identify the process."""


class Item(NamedTuple):
    """A tensor as it is written: its name, its array and its checksum."""

    name: str
    array: NDArray
    sha256: str


def checksummed_tensors(arrays: Mapping[str, NDArray]) -> list[Item]:
    """Tensors with their checksums, those of wide dtypes first, so that each begins at a multiple of its own size."""
    real = {name: in_the_format(x) for name, x in arrays.items()}
    order = sorted(real, key=lambda name: (-real[name].dtype.itemsize, name))
    return [Item(name, real[name], checksum(real[name])) for name in order]


def in_the_format(x: NDArray) -> NDArray:
    """An array in native byte order; a complex one has its real and imaginary parts along a last axis."""
    x = x.astype(native(x.dtype), copy=False)
    if not dtypes.is_complex(x.dtype):
        return x
    return np.stack([x.real, x.imag], -1)


def checksum(x: NDArray) -> str:
    """The SHA-256 of an array in row-major layout."""
    found = hashlib.sha256()
    for piece in mapped_arrays.byte_chunks(x):
        found.update(piece)
    return found.hexdigest()


def fingerprint(types: Mapping[str, Type]) -> str:
    """A fingerprint of the names, shapes and dtypes of all tensors, as they are written."""
    lines = [f"{name} {own}" for name, own in sorted(types.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def complete_facts(arrays: Mapping[str, NDArray], found: Sequence[Item], about: dict[str, Any]) -> dict[str, Any]:
    """Facts about a step, and about the format, the complex arrays and the types of its tensors."""
    paired = sorted(n for n, x in arrays.items() if x.dtype.kind == "c")
    types = fingerprint({item.name: type_of(item.array) for item in found})
    return {"format": metadata.FORMAT, **about, "complex": paired, "fingerprint": types}


def file_pieces(part: Sequence[Item], about: str) -> Iterator[Any]:
    """The pieces of a file, whose header is parsed back as a check before the first piece."""
    head = safetensors_header.encoded(part, about)
    safetensors_header.decoded(head[safetensors_header.LENGTH :], sum(item.array.nbytes for item in part))
    yield head
    for item in part:
        yield from mapped_arrays.byte_chunks(item.array)


def write_checkpoint(
    path: Path, arrays: Mapping[str, NDArray], about: dict[str, Any], most: int | None, to: Disk
) -> None:
    """Write a checkpoint: one file, or with `most` a folder of parts of up to so many bytes each.

    Raises CheckpointError where that is not possible; the last checkpoint is kept.
    """
    found = checksummed_tensors(arrays)
    about = complete_facts(arrays, found, about)
    text = metadata.encode_metadata(about, "save")
    with reported(path):
        filesystem.make_folder(path.parent)
        if most is None:
            refuse_folder(path)
            filesystem.replace_file(to, path, file_pieces(found, text))
        else:
            save_parts(path, found, about, most, to)


def try_place(path: Path, to: Disk) -> None:
    """Raise CheckpointError where no file can be written to a path: an empty one is written beside it, and removed."""
    with reported(path):
        filesystem.make_folder(path.parent)
        refuse_folder(path)
        filesystem.remove_file(to, filesystem.written_beside(to, path, ()))


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Raise CheckpointError in the place of an error of the file system."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise CheckpointError(f"save: {path} could not be written: {reason}; the last one saved is kept") from error


def refuse_folder(path: Path) -> None:
    """Raise CheckpointError for a file that is to take the place of a folder."""
    if path.is_dir():
        raise CheckpointError(f"save: {path} is a folder", hint="give a file, or max_shard_bytes=")


def save_parts(folder: Path, found: Sequence[Item], about: dict[str, Any], most: int, to: Disk) -> None:
    """Write parts under names of their own, then the manifest, in one instant; remove the parts of the third newest."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"save: {folder} is a file", hint="a checkpoint in parts is a folder")
    folder.mkdir(exist_ok=True)
    parts, tag, manifest = shared_out(found, most), writers.tag(), folder / MANIFEST
    named = {PART.format(tag=tag, i=i, n=len(parts)): part for i, part in enumerate(parts, 1)}
    before = parts_of(filesystem.previous(manifest))
    sweep_parts(folder, {*parts_of(manifest), *before}, to)
    try:
        seals = {name: save_part(folder / name, part, to) for name, part in named.items()}
        where = {item.name: name for name, part in named.items() for item in part}
        to.sync_folder(folder)  # a manifest never names a part that a power cut could lose
        filesystem.swap(to, manifest, [signed({"facts": about, "parts": seals, "weight_map": where})])
    except BaseException:
        for name in named:
            filesystem.remove_file(to, folder / name)
        raise
    to.sync_folder(folder)
    remove_parts(folder, {*named, *parts_of(filesystem.previous(manifest))}, before, to)


def save_part(path: Path, part: Sequence[Item], to: Disk) -> str:
    """Write one part and return its seal."""
    head, *rest = file_pieces(part, metadata.encode_metadata({"format": metadata.FORMAT, "part": path.name}, "save"))
    filesystem.write_new(to, path, [head, *rest])
    return safetensors_header.decoded(head[safetensors_header.LENGTH :], sum(item.array.nbytes for item in part)).sha256


def shared_out(found: Sequence[Item], most: int) -> list[list[Item]]:
    """Tensors in groups of up to `most` bytes, a larger one in a group of its own."""
    parts: list[list[Item]] = [[]]
    for item in found:
        if parts[-1] and sum(x.array.nbytes for x in parts[-1]) + item.array.nbytes > most:
            parts.append([])
        parts[-1].append(item)
    if len(parts) > MOST_PARTS:
        raise CheckpointError(f"save: parts of {most:,} bytes would be {len(parts)}, more than {MOST_PARTS}")
    return parts


def signed(manifest: dict[str, Any]) -> bytes:
    """The text of a manifest, with its checksum in the last line."""
    text = json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{text[:-2]},\n "{safetensors_header.SEAL}": "{digest}"\n}}\n'.encode()


def parts_of(manifest: Path) -> set[str]:
    """The parts that a manifest by this library names; empty where it cannot be read."""
    try:
        found = json.loads(manifest.read_bytes())["parts"]
        return {name for name in found if is_part_name(name)}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()


def is_part_name(name: Any) -> bool:
    """True for a name that `write_checkpoint` gives a part; no other file is ever removed."""
    return isinstance(name, str) and PART_NAME.fullmatch(name) is not None


def sweep_parts(folder: Path, kept: set[str], to: Disk) -> None:
    """Remove parts that no manifest names, of processes that ended while they saved; none where a manifest is damaged.

    A damaged manifest names no parts, and the parts that it named may still be needed.
    """
    manifest = folder / MANIFEST
    if any(path.exists() and not parts_of(path) for path in (manifest, filesystem.previous(manifest))):
        return
    for path in folder.glob("part-*.safetensors"):
        found = PART_NAME.fullmatch(path.name)
        if found is not None and path.name not in kept and writers.gone(found[1]):
            filesystem.remove_file(to, path)


def remove_parts(folder: Path, kept: set[str], before: set[str], to: Disk) -> None:
    """Remove the parts of the checkpoint that is no longer kept, and stale parts of interrupted saves."""
    for path in folder.glob("part-*.safetensors"):
        if is_part_name(path.name) and path.name not in kept and (path.name in before or filesystem.stale(path)):
            filesystem.remove_file(to, path)
