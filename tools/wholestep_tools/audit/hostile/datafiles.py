"""Damaged and hostile data files: the loader reads the arrays that NumPy reads, or refuses with its own errors."""

from __future__ import annotations

import io
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.train.data.loader import Loader
from wholestep_tools.audit.hostile.mutations import ODD, Rng, another_kind, cut, flipped, longer, moved, overwritten

DOCUMENTED = (DtypeError, ShapeError, ParameterError, TreeError)
"""The errors of a loader for a file that it does not read."""
SECONDS = 1.0
"""The most seconds of the processor, which other programs add nothing to."""

HEADERS = (
    "{{{{",
    "(" * 3000,
    "[" * 9000,
    "-" * 9000 + "1",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)} + __import__('os').system('true')",
    "__import__('os').system('true')",
    "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': [('a', '<f8'), ('b', '<i4')], 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 4), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -3), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904, 4611686018427387904), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (400000000000,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (3), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (3L, 4L), }",
    "{'descr': '<f8', 'fortran_order': 1, 'shape': (3,), }",
    "{'descr': '<f7', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '|S999999999', 'fortran_order': False, 'shape': (3,), }",
    "{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3,), }",
    '{"shape": (3, 4), "fortran_order": True, "descr": "<f4"}',
    "{'descr': '\\d', 'fortran_order': False, 'shape': (3,), }",
    "{'shape': (" + "1, " * 65 + "), 'fortran_order': False, 'descr': '<f8'}",
)
"""Headers that nobody writes who means well."""

FIELDS = (
    "",
    '"',
    "\0",
    "1e999",
    "1_0",
    "nan",
    "inf",
    "x" * 200_000,
    "9" * 5000,
    "9223372036854775808",
    "-9223372036854775809",
    "\u0663",
    "\x1b[2J",
    "\u202e1",
    "1;2",
    "1\t2",
    "\r",
    "\n",
    "=1+1",
)
"""Texts in tables in the place of a number."""


def npy(x: Any, version: tuple[int, int] | None = None) -> bytes:
    """An array as a .npy file."""
    with io.BytesIO() as file:
        np.lib.format.write_array(file, x, version)
        return file.getvalue()


def npz(members: Mapping[str, bytes], method: int) -> bytes:
    """Members as an archive."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return file.getvalue()


@cache
def bases() -> dict[str, tuple[str, bytes]]:
    """Intact files by kind: the suffix and the content of each."""
    x = np.arange(12.0).reshape(4, 3)
    parts = {"x.npy": npy(x), "y.npy": npy(np.arange(4)), "e.npy": npy(np.zeros((4, 0), np.float32))}
    text = "a,b,weight\n1,2.5,nan\n2,-1e3,0\n3,4,5\n"
    return {
        "npy": (".npy", npy(x)),
        "npy by columns": (".npy", npy(np.asfortranarray(x).astype(np.int16), (2, 0))),
        "npz": (".npz", npz(parts, zipfile.ZIP_STORED)),
        "npz, compressed": (".npz", npz(parts, zipfile.ZIP_DEFLATED)),
        "csv": (".csv", text.encode()),
        "csv in UTF-16": (".csv", text.encode("utf-16")),
    }


def with_header(text: str, data: bytes) -> bytes:
    """A .npy file whose header is this text."""
    return b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text.encode() + data


def other_header(rng: Rng) -> bytes:
    """A .npy file with a hostile header, or one with another value in it."""
    data = rng.bytes(int(rng.integers(0, 100)))
    if rng.random() < 0.5:
        return with_header(HEADERS[int(rng.integers(len(HEADERS)))], data)
    found: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": (3, 4)}
    name = str(rng.choice(list(found)))
    odd = ODD[int(rng.integers(len(ODD)))]
    found[name] = (odd, 2) if name == "shape" and rng.random() < 0.7 else odd
    return with_header(ascii(found), data)


def hostile_npy(data: bytes, rng: Rng) -> bytes:
    return other_header(rng)


def hostile_member(data: bytes, rng: Rng) -> bytes:
    """An archive that is whole, of a member that is not."""
    method = int(rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
    inner = other_header(rng) if rng.random() < 0.7 else flipped(npy(np.arange(9.0)), rng)
    return npz({"x.npy": inner, "y.npy": npy(np.arange(3))}, method)


def other_entry(data: bytes, rng: Rng) -> bytes:
    """An archive whose directory says something else of a member: method, flags, sizes, place."""
    out, mark = bytearray(data), b"PK\x01\x02" if rng.random() < 0.7 else b"PK\x03\x04"
    places = [i for i in range(len(data)) if data.startswith(mark, i)]
    at = places[int(rng.integers(len(places)))]
    field = int(rng.choice([6, 8, 10, 16, 20, 24, 28, 30, 42] if mark == b"PK\x01\x02" else [4, 6, 8, 14, 18, 22, 26]))
    new = int(rng.choice([0, 1, 8, 12, 14, 99, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, int(rng.integers(1 << 16))]))
    size = 2 if field in (4, 6, 8, 10, 26, 28, 30) else 4
    out[at + field : at + field + size] = (new & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(out)


def other_field(data: bytes, rng: Rng) -> bytes:
    """A table with a field that should not be there, in one of the ways in which text is written."""
    encoding = str(rng.choice(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252"]))
    rows = [["a", "b"], *[[str(i), str(i / 2)] for i in range(5)]]
    rows[int(rng.integers(6))][int(rng.integers(2))] = FIELDS[int(rng.integers(len(FIELDS)))]
    return "\n".join(map(",".join, rows)).encode(encoding, "replace")


Mutation = Callable[[bytes, Rng], bytes]
GENERAL: tuple[Mutation, ...] = (flipped, cut, longer, overwritten, moved, another_kind)
SPECIAL: Mapping[str, tuple[Mutation, ...]] = {
    ".npy": (hostile_npy,),
    ".npz": (hostile_member, other_entry),
    ".csv": (other_field,),
}


def drawn(rng: Rng) -> tuple[str, str, bytes]:
    """A damaged file: its kind, the ending of its name, and its bytes."""
    kind = str(rng.choice(list(bases())))
    suffix, data = bases()[kind]
    ways = SPECIAL[suffix] if rng.random() < 0.5 else GENERAL
    return kind, suffix, ways[int(rng.integers(len(ways)))](data, rng)


def judged(path: Path, limits: AbstractContextManager[None]) -> tuple[bool, str]:
    """Test whether a file was read, with the fault of the loader; empty where there is none."""
    before = time.process_time()
    try:
        with limits:
            loader = Loader(path, 2, shuffle=False)
            list(loader)
    except DOCUMENTED as error:
        return False, "" if path.name in str(error) else f"it is not named: {error}"[:200]
    except BaseException as error:
        return False, f"{type(error).__name__}: {error}"[:200]
    if time.process_time() - before > SECONDS:
        return True, "it took more than a second"
    return True, "" if path.suffix == ".csv" or as_numpy(path, loader.source) else "it was read otherwise than by NumPy"


def as_numpy(path: Path, source: Any) -> bool:
    """Test whether NumPy reads the same in a file, if it reads it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
            found = [data] if isinstance(data, np.ndarray) else list(data.values())
    except Exception:  # of any kind: a file that NumPy refuses cannot be read differently
        return True
    theirs = {x.tobytes() for x in found if isinstance(x, np.ndarray)}
    return {x.tobytes() for x in source.arrays} <= theirs


def audit(count: int, rng: Rng, limits: Callable[[], AbstractContextManager[None]]) -> tuple[dict[str, int], list[str]]:
    """Damage and read so many data files; the number of each kind, and the failures."""
    tried, failures = Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            kind, suffix, data = drawn(rng)
            path = Path(folder) / f"damaged{suffix}"
            path.unlink(missing_ok=True)
            path.write_bytes(data)
            read, wrong = judged(path, limits())
            tried[f"data files, {kind}"] += 1
            tried["data files that were refused"] += not read
            failures += [f"data file {i}, {kind}: {wrong}"] if wrong else []
    return dict(sorted(tried.items())), failures
