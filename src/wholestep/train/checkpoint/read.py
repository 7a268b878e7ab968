"""Reading of checkpoints: headers are validated before anything is allocated, tensors by their checksums."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type, array_type
from wholestep.runtime.memory import mapped_arrays
from wholestep.train.checkpoint import metadata, safetensors_header
from wholestep.train.checkpoint.metadata import FORMAT
from wholestep.train.checkpoint.safetensors_header import SEAL, Block, Damage, Header, safe_name
from wholestep.train.checkpoint.write import MANIFEST, MOST_PARTS, fingerprint, signed

FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
LARGEST_MANIFEST = 16 << 20
PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}\.safetensors")
"""The names that a manifest may give its parts: no path to another folder, no hidden file."""
STEP = 1 << 24
"""The most bytes of one call to read."""
HERE = np.empty(0, np.uint8)
"""An array in ordinary memory."""


class File:
    """A plain file, open for reading, and its size; `alone` refuses a file with a second hard link."""

    def __init__(self, path: Path, flags: int, stack: ExitStack, alone: bool = False) -> None:
        self.number = os.open(path, FLAGS | flags)
        stack.callback(os.close, self.number)
        info = os.fstat(self.number)
        if not stat.S_ISREG(info.st_mode):
            raise Damage("it is not a plain file")
        if alone and info.st_nlink > 1:
            raise Damage(f"its part {safe_name(path.name)} is a hard link: a copy of the folder has parts of its own")
        self.size = info.st_size

    def bytes(self, at: int, count: int) -> bytearray:
        """Read so many bytes from a position; the caller checks them against the size."""
        data = bytearray(count)
        self.into(at, memoryview(data))
        return data

    def into(self, at: int, target: memoryview) -> None:
        """Fill memory with the bytes from a position."""
        os.lseek(self.number, at, os.SEEK_SET)
        while target:
            got = os.read(self.number, min(len(target), STEP))
            if not got:
                raise Damage("it has become shorter while it was read")
            target[: len(got)] = got
            target = target[len(got) :]


OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive, as torch.save and np.savez write it",
    b"\x89HDF\r\n": "an HDF5 file, as Keras writes it",
    b"\x93NUMPY": "an array of np.save",
}
"""The first bytes of files that are given in place of safetensors files."""


class TensorFile:
    """A safetensors file with its header; the name is that of a part of a checkpoint, or empty."""

    def __init__(self, file: File, name: str = "") -> None:
        self.file, self.name = file, name
        room = file.size - safetensors_header.LENGTH
        if room < 0:
            raise Damage(f"it has {file.size} bytes, and no header")
        length = int.from_bytes(file.bytes(0, safetensors_header.LENGTH), "little")
        first = bytes(file.bytes(0, safetensors_header.LENGTH))
        for magic, kind in OTHER_FORMATS.items():
            if first.startswith(magic):
                raise Damage(
                    f"it is {kind}, not a safetensors file; safetensors.torch.save_file({{...}}, path) writes one"
                )
        if length > room:
            raise Damage(f"its header would take {length:,} bytes, and {room:,} are left of the file")
        if length > safetensors_header.LARGEST:
            raise Damage(f"its header takes {length:,} bytes, more than {safetensors_header.LARGEST:,}")
        self.begin = safetensors_header.LENGTH + length
        self.header: Header = safetensors_header.decoded(
            bytes(file.bytes(safetensors_header.LENGTH, length)), room - length
        )
        self.digests = dict(zip([b.name for b in self.header.blocks], self.header.digests, strict=False))

    def array(self, block: Block, beside: NDArray) -> NDArray:
        """Read a tensor and verify its checksum, into the kind of memory in which another array lies."""
        x = mapped_arrays.empty_in_same_memory(beside, block.type.shape, block.type.dtype)
        at, found = self.begin + block.start, hashlib.sha256()
        for piece in mapped_arrays.byte_chunks(x):
            self.file.into(at, piece)
            found.update(piece)
            at += len(piece)
        if not self.intact(block, found.hexdigest()):
            raise Damage(f"{safe_name(block.name)} is damaged: its checksum is another one")
        if block.type.dtype == np.bool_ and x.view(np.uint8).max(initial=0) > 1:
            raise Damage(f"{safe_name(block.name)} holds booleans that are neither true nor false")
        return x

    def intact(self, block: Block, digest: str) -> bool:
        """True if a digest is that of the tensor as written, or the file holds no digests."""
        return not self.header.ours or self.digests[block.name] == digest


class Contents:
    """An open checkpoint: the type of each tensor, facts, and the tensors, which are read on request."""

    def __init__(self, parts: Iterable[TensorFile], about: dict[str, Any] | None) -> None:
        self.facts = about
        self.blocks: dict[str, tuple[TensorFile, Block]] = {}
        for part in parts:
            for block in part.header.blocks:
                if block.name in self.blocks:
                    raise Damage(f"two of its parts hold {safe_name(block.name)}")
                self.blocks[block.name] = (part, block)
        held = {name: block.type for name, (_, block) in self.blocks.items()}
        if about is not None and metadata.typed_field(about, "fingerprint", str) != fingerprint(held):
            raise Damage("its tensors are not those that were saved together")
        paired = metadata.typed_field(about, "complex", list) if about is not None else []
        self.types = {name: complex_dtype(name, own) if name in paired else own for name, own in held.items()}

    def array(self, name: str, beside: NDArray = HERE) -> NDArray:
        """Read a tensor into the kind of memory in which another array lies."""
        part, block = self.blocks[name]
        try:
            x, wanted = part.array(block, beside), self.types[name]
        except Damage as error:
            raise Damage(f"its part {part.name}: {error}" if part.name else str(error)) from error
        return x if block.type is wanted else x.view(wanted.dtype).reshape(wanted.shape)


def complex_dtype(name: str, held: Type) -> Type:
    """The type of a complex tensor, which the file holds as real and imaginary parts."""
    if held.shape[-1:] != (2,) or held.dtype not in (np.float32, np.float64):
        raise Damage(f"{safe_name(name)} is {held}, which holds no complex numbers")
    return array_type(held.shape[:-1], dtypes.complex_of(held.dtype))


@contextmanager
def open_checkpoint(path: Path) -> Iterator[Contents]:
    """Open a checkpoint: a file, a folder with a manifest, or a manifest; raises Damage for an invalid one."""
    with ExitStack() as stack:
        try:
            if path.is_dir():
                path = path / MANIFEST
            yield understood(path, stack)
        except OSError as error:
            raise Damage(f"it cannot be read: {error.strerror or error}") from error


def understood(path: Path, stack: ExitStack) -> Contents:
    """The contents of a file; an error that Python raises while parsing them becomes Damage."""
    try:
        return (several if path.suffix == ".json" else single)(path, stack)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise Damage(f"it makes no sense: {error}") from error


def single(path: Path, stack: ExitStack) -> Contents:
    """A checkpoint in one file."""
    part = TensorFile(File(path, 0, stack))
    if not part.header.ours:
        return Contents([part], None)
    about = check_metadata(metadata.decode_metadata(part.header.metadata[safetensors_header.MARK]))
    if "part" in about:
        raise Damage("it is one part of a checkpoint; load the folder that it is in")
    return Contents([part], about)


def several(path: Path, stack: ExitStack) -> Contents:
    """A checkpoint in parts, by its manifest; a manifest of another library only maps tensors to parts."""
    file = File(path, 0, stack)
    if file.size > LARGEST_MANIFEST:
        raise Damage(f"its manifest takes {file.size:,} bytes, more than {LARGEST_MANIFEST:,}")
    raw = bytes(file.bytes(0, file.size))
    manifest = metadata.decode_metadata(raw, LARGEST_MANIFEST)
    about = None
    if {"facts", "parts", SEAL} & manifest.keys():
        if signed({name: value for name, value in manifest.items() if name != SEAL}) != raw:
            raise Damage("its manifest is damaged: the checksum is another one")
        about = check_metadata(metadata.typed_field(manifest, "facts", dict))
    where = metadata.typed_field(manifest, "weight_map", dict)
    seals = (
        metadata.typed_field(manifest, "parts", dict) if about is not None else dict.fromkeys(map(str, where.values()))
    )
    if about is not None and not all(isinstance(seal, str) for seal in seals.values()):
        raise Damage("its manifest does not say which checksum each part has")
    if len(seals) > MOST_PARTS:
        raise Damage(f"its manifest names {len(seals)} parts, more than {MOST_PARTS}")
    parts = {name: part_named(path.parent, name, seal, stack) for name, seal in seals.items()}
    if where != {block.name: name for name, part in parts.items() for block in part.header.blocks}:
        raise Damage("its parts do not hold what the manifest says")
    return Contents(parts.values(), about)


def part_named(folder: Path, name: str, seal: str | None, stack: ExitStack) -> TensorFile:
    """A part that a manifest names, which lies beside it and is no link to another place."""
    if not PLAIN.fullmatch(name):
        raise Damage(f"its manifest names {safe_name(name)}, which is no plain file name")
    try:
        part = TensorFile(File(folder / name, getattr(os, "O_NOFOLLOW", 0), stack, alone=True), name)
    except OSError as error:
        raise Damage(f"its part {name} cannot be read: {error.strerror or error}") from error
    except Damage as error:
        raise Damage(f"its part {name}: {error}") from error
    if seal is not None and part.header.sha256 != seal:
        raise Damage(f"its part {name} is another one than the manifest says")
    return part


def check_metadata(about: dict[str, Any]) -> dict[str, Any]:
    """The facts themselves; raises Damage for those of another format version."""
    if metadata.typed_field(about, "format", int) != FORMAT:
        version = safe_name(str(about.get("version", "unknown")))
        raise Damage(f"version {version} wrote it in layout {about['format']}, and this one reads layout {FORMAT}")
    return about
