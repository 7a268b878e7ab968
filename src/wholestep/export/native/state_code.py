"""The C code of a native program's memory and state file: a template filled with a program's tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import isqrt
from pathlib import Path

import numpy as np

from wholestep.errors import show
from wholestep.export.native.block import MemoryBlock, PlacedArray
from wholestep.lower.program.program import FailureSite

TEXT = Path(__file__).with_name("state_file.c")
FAILURE = Path(__file__).with_name("failure.c")
"""The function that says a failure in words."""
TABLES_OF_SEAL = b'"wholestep.sha256":"'
DIGESTS = b'"wholestep.blocks":"'
LENGTH_BYTES = 8
"""The bytes of a head's length, which stands before it."""
PLAIN_STEP = "    return (int)@NAME@_run_step(m);"
KEEPING_STEP = """\
    unsigned char *p = (unsigned char *)m;
    memcpy(p + {kept}, p + {start}, {size});
    int site = (int)@NAME@_run_step(m);
    if (site) memcpy(p + {start}, p + {kept}, {size});
    return site;"""


class StateFile:
    """The file of a state: its first bytes, digests in them zeros, and its arrays in the order of their bytes."""

    def __init__(self, head: bytes, arrays: Sequence[PlacedArray]) -> None:
        self.head, self.arrays = head, arrays
        self.data = sum(int(a.type.nbytes) for a in arrays)

    @property
    def json_text(self) -> str:
        """The head without its length and without the places of the arrays in the file, which follow from their types.

        No name and no fact looks like one of these, since quotes in them are escaped.
        """
        return re.sub(r',"data_offsets":\[\d+,\d+\]', "", self.head[LENGTH_BYTES:].decode())

    @property
    def nbytes(self) -> int:
        """The bytes of a file."""
        return len(self.head) + self.data

    def places(self) -> dict[str, int]:
        """The numbers in the code: the positions of digests, seal, and the table of arrays in the head."""
        seal = self.head.index(TABLES_OF_SEAL) + len(TABLES_OF_SEAL)
        return {
            "ARRAYS": len(self.arrays),
            "HEAD": len(self.head),
            "DATA": self.data,
            "DIGESTS": self.head.index(DIGESTS) + len(DIGESTS),
            "SEAL": seal,
            "TABLE": seal + 64 + len('"},'),
            "TABLE_END": len(self.head.rstrip(b" ")),
        }

    def table(self) -> Iterable[tuple[int, int, int, int]]:
        """For each array its place in memory and in the file's data, its bytes, and 1 where they are booleans."""
        start = 0
        for a in self.arrays:
            nbytes = int(a.type.nbytes)
            yield a.offset, start, nbytes, int(a.type.dtype == np.bool_)
            start += nbytes


def state_code(prefix: str, block: MemoryBlock, file: StateFile) -> str:
    """The C file beside the code of the programs."""
    step = PLAIN_STEP
    if block.kept is not None:
        step = KEEPING_STEP.format(kept=block.kept[0], start=block.kept[1], size=block.kept[2])
    texts = {
        "ROUNDS": "\n".join(comma_lines([f"0x{k:08x}u" for k in round_constants()])),
        "STATE": "\n".join([f"    {{{', '.join(map(str, row))}}}," for row in file.table()]),
        "HEADER": "\n".join(comma_lines(list(map(str, file.head)))),
        "STEP": step.replace("@NAME@", prefix),
        "BLOCK": str(block.nbytes),
        "OTHERS": "".join(other_functions(prefix, block)),
        **program_texts(prefix, block),
        **{name: str(n) for name, n in file.places().items()},
    }
    return filled_in(TEXT, texts)


def program_texts(prefix: str, block: MemoryBlock) -> dict[str, str]:
    """The texts that fill a C file of any program: its names, the functions that run it, and its failures."""
    sites = [site for f in block.functions for site in f.program.plan.sites]
    said = [f"        {c_string(text)}," for text in ["nothing failed", *map(failure_text, sites)]]
    texts = {
        "FAILURES": "\n".join(said),
        "RUNS": "\n".join([f"int32_t {prefix}_run_{f.program.name}(void *block);" for f in block.functions]),
        "NAME": prefix,
        "UPPER": prefix.upper(),
    }
    return {**texts, "FAILURE": filled_in(FAILURE, texts).rstrip()}


def other_functions(prefix: str, block: MemoryBlock) -> Iterable[str]:
    """The functions beside the step; the numbers of their failure sites follow those of the programs before."""
    count = 0
    for f, after in pairwise(block.functions):
        count += len(f.program.plan.sites)
        name = after.program.name
        run = f"    int site = (int){prefix}_run_{name}(m);\n    return site ? site + {count} : 0;"
        yield f"\nint {prefix}_{name}({prefix} *m) {{\n{run}\n}}\n"


def comma_lines(words: Sequence[str], most: int = 112) -> Iterable[str]:
    """Words in lines, a comma behind each."""
    line = "   "
    for word in words:
        if len(line) + len(word) + 2 > most:
            yield line
            line = "   "
        line += f" {word},"
    yield line


def failure_text(site: FailureSite) -> str:
    """A place that may fail, in words."""
    what = "indexing: an index is out of bounds" if site.kind == "index" else str(site.facts[0])
    line = show(site.where)
    return f"{what} at {line}" if line else what


def filled_in(file: Path, texts: Mapping[str, str]) -> str:
    """A template file with `texts` in the place of the names between two @ signs."""
    return re.sub("@([A-Z_]+)@", lambda found: texts[found[1]], file.read_text(encoding="utf-8"))


def c_string(text: str) -> str:
    """A C string of ASCII characters; other bytes, quotes, backslashes and question marks are octal escapes."""
    plain = [chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode()]
    return f'"{"".join(plain)}"'


@cache
def round_constants() -> tuple[int, ...]:
    """The first 32 bits of the fractions of the cube roots of the first 64 primes, which SHA-256 adds."""
    primes = [n for n in range(2, 312) if all(n % d for d in range(2, isqrt(n) + 1))]
    return tuple([integer_cube_root(p << 96) & 0xFFFFFFFF for p in primes[:64]])


def integer_cube_root(n: int) -> int:
    """The largest integer whose cube is not above n."""
    low, high = 0, 1 << (n.bit_length() // 3 + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= n else (low, middle - 1)
    return low
