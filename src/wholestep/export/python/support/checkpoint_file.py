"""Checkpoints of Wholestep in plain NumPy: a dictionary of arrays by path, read, and written so that `step.load` takes
it back."""

import base64
import hashlib
import json
import os

import numpy as np

DTYPES = {"BOOL": "?", "F16": "<f2", "F32": "<f4", "F64": "<f8", "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8"}
DTYPES |= {"I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "BF16": "<u2"}


def checkpoint_header(path):
    """The header of a checkpoint, its facts, and where its arrays begin."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    return header, json.loads(header["__metadata__"]["wholestep"]), 8 + size


def read_checkpoint(path):
    """The arrays of a checkpoint by their paths; those of bfloat16 as their bits in uint16."""
    header, facts, begin = checkpoint_header(path)
    with open(path, "rb") as file:
        file.seek(begin)
        data = file.read()
    arrays = {}
    for name, item in header.items():
        if name != "__metadata__":
            start, stop = item["data_offsets"]
            x = np.frombuffer(data[start:stop], DTYPES[item["dtype"]]).reshape(item["shape"]).copy()
            arrays[name] = x[..., 0] + 1j * x[..., 1] if name in facts["complex"] else x
            if name in facts["complex"]:
                arrays[name] = arrays[name].astype("c8" if x.dtype.itemsize == 4 else "c16")
    return arrays


def write_checkpoint(path, arrays, like):
    """Write arrays, of the names and types of another checkpoint, which may be the one that is replaced."""
    header, facts, _ = checkpoint_header(like)
    facts |= {"epoch": None, "data": None}
    names = sorted(header.keys() - {"__metadata__"}, key=lambda name: header[name]["data_offsets"])
    blocks = []
    for name in names:
        x = np.asarray(arrays[name])
        if name in facts["complex"] and x.ndim < len(header[name]["shape"]):  # its parts may already lie apart
            x = np.stack([x.real, x.imag], -1)
        wanted = np.dtype(DTYPES[header[name]["dtype"]])
        x = x.view(wanted) if x.dtype.itemsize == wanted.itemsize and x.dtype.kind == "V" else x
        if list(x.shape) != header[name]["shape"] or x.dtype != wanted:
            raise ValueError(f"{name} is {x.dtype}{list(x.shape)}, not {wanted}{header[name]['shape']}")
        blocks.append(np.ascontiguousarray(x).tobytes())
    digests = "".join([hashlib.sha256(block).hexdigest() for block in blocks])
    facts = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    about = {"wholestep": facts, "wholestep.blocks": digests, "wholestep.sha256": "0" * 64}
    text = json.dumps({"__metadata__": about} | {name: header[name] for name in names}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    seal = '"wholestep.sha256":"%s"'
    digest = hashlib.sha256(text).hexdigest()
    text = text.replace((seal % ("0" * 64)).encode(), (seal % digest).encode(), 1)
    with open(f"{path}.new", "wb") as file:
        file.write(b"".join([len(text).to_bytes(8, "little"), text, *blocks]))
    os.replace(f"{path}.new", path)


def held_array(dtype, shape, text):
    """An array that a program holds, from the text of its bytes."""
    return np.frombuffer(base64.b85decode(text), dtype).reshape(shape)
