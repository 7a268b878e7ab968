"""Tensors of a model file as arrays: declared sizes are checked against the bytes before they are used."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import ModelError, UnsupportedError
from wholestep.export.onnx.protobuf import Proto
from wholestep.export.onnx.schema import ELEMENTS, EXTERNAL, OTHER_ELEMENTS
from wholestep.ir.graph import NDArray
from wholestep.words import printable

TYPED = {
    **dict.fromkeys((1, 14), "float_data"),
    **dict.fromkeys((2, 3, 4, 5, 6, 9, 10, 16), "int32_data"),
    7: "int64_data",
    **dict.fromkeys((11, 15), "double_data"),
    **dict.fromkeys((12, 13), "uint64_data"),
}
"""The field in which the elements of each type lie, where they are not raw."""
LARGEST_RANK = 64


def shown(name: Any) -> str:
    """A name out of a file, short and harmless in a message."""
    return printable(repr(name if len(name) <= 80 else name[:77] + "..."))


def element_dtype(number: int, what: str) -> np.dtype[Any]:
    """The dtype of an element type; raises UnsupportedError for those that are not covered."""
    if number in ELEMENTS:
        return dtypes.check(ELEMENTS[number])
    if number in OTHER_ELEMENTS:
        raise UnsupportedError(
            f"from_onnx: {what} is of {OTHER_ELEMENTS[number]}, which is not covered",
            hint="cast it in the model before it is exported; numbers of 16 bits and more are covered, and int8",
        )
    raise ModelError(f"from_onnx: {what} has element type {number}, which ONNX does not have")


def sizes_of(tensor: Proto, what: str) -> tuple[int, ...]:
    """The shape of a tensor."""
    sizes = tuple([int(n) for n in tensor.dims])
    if len(sizes) > LARGEST_RANK or any(n < 0 for n in sizes):
        raise ModelError(f"from_onnx: {what} has {len(sizes)} axes of sizes {printable(str(sizes[:8]))}")
    return sizes


def array_of(tensor: Proto, folder: Path | None = None) -> NDArray:
    """A tensor as an array that cannot be written; raises ModelError where its sizes and its bytes do not agree."""
    what = f"tensor {shown(tensor.name)}"
    dtype, sizes = element_dtype(tensor.data_type, what), sizes_of(tensor, what)
    count = math.prod(sizes)
    if tensor.data_location == EXTERNAL:
        found = from_bytes(external(tensor, folder, count * dtype.itemsize, what), dtype)
    elif tensor.has("raw_data"):
        if len(tensor.raw_data) != count * dtype.itemsize:
            raise ModelError(
                f"from_onnx: {what} of {dtype.name}{list(sizes)} needs {count * dtype.itemsize:,} bytes, "
                f"and the file has {len(tensor.raw_data):,}"
            )
        found = from_bytes(tensor.raw_data, dtype)
    else:
        found = typed(tensor, dtype, count, what)
    made = found.reshape(sizes)
    made.flags.writeable = False
    return made


def from_bytes(data: Any, dtype: np.dtype[Any]) -> NDArray:
    """Numbers from their bytes, the lowest first; every byte but 0 is true."""
    if dtypes.is_bool(dtype):
        return np.frombuffer(data, np.uint8).astype(bool)
    if dtype.name == "bfloat16":
        return np.frombuffer(data, "<u2").astype(np.uint16, copy=False).view(dtype)
    return np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False)


def typed(tensor: Proto, dtype: np.dtype[Any], count: int, what: str) -> NDArray:
    """The elements in the field of their type; half precision as bits, complex ones as pairs."""
    data = np.asarray(getattr(tensor, TYPED[tensor.data_type]))
    pairs = 1 + dtypes.is_complex(dtype)
    if data.size != count * pairs:
        raise ModelError(f"from_onnx: {what} has {data.size:,} elements, not {count * pairs:,}")
    if pairs == 2:
        return data.astype(np.float32 if dtype == np.complex64 else np.float64).view(dtype)
    if dtype.itemsize == 2 and dtypes.is_float(dtype):
        return data.astype(np.uint16).view(dtype)
    return data.astype(dtype)


def external(tensor: Proto, folder: Path | None, size: int, what: str) -> bytes:
    """Exactly the bytes of a tensor that lie in a plain file of the model's own folder."""
    facts = {entry.key: entry.value for entry in tensor.external_data}
    if folder is None:
        raise ModelError(
            f"from_onnx: {what} lies in another file, and a model given as bytes has no folder",
            hint="give the path of the .onnx file, with its data beside it",
        )
    place, home = facts.get("location", ""), folder.resolve()
    if not place or "\0" in place or Path(place).is_absolute() or os.path.splitdrive(place)[0]:
        raise ModelError(f"from_onnx: {what} lies at {shown(place)}, which is no place beside the model")
    try:
        path = (home / place).resolve()
        if not path.is_relative_to(home) or not stat.S_ISREG(path.stat().st_mode):
            raise ModelError(f"from_onnx: {what} lies at {shown(place)}, outside of the model's folder or in no file")
        start, length = int(facts.get("offset", "0") or "0"), int(facts.get("length", "") or size)
        if length != size or start < 0 or start + size > path.stat().st_size:
            raise ModelError(f"from_onnx: {what} needs {size:,} bytes from {start:,}, which {shown(place)} has not")
        with path.open("rb") as file:
            file.seek(start)
            found = file.read(size)
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"from_onnx: {what}: {shown(place)} cannot be read ({type(error).__name__})") from None
    if len(found) != size:
        raise ModelError(f"from_onnx: {what}: {shown(place)} ended after {len(found):,} of {size:,} bytes")
    return bytes(found)
