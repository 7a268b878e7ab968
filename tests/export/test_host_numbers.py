"""Host numbers of pages: JavaScript computes every scalar operation, in every dtype, with the interpreter's bits."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wholestep import dtypes
from wholestep.backends.gpu.host_scalars import word_of_number
from wholestep.export.page.files import TRAINING, source_text
from wholestep.kernel.ops import OPS
from wholestep.random.keys import BITS, FOLD, SPLIT
from wholestep.train.program.step_loops import row_order

Array = np.ndarray[Any, Any]
KINDS = {"b": ["bool"], "i": ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"], "f": ["f32", "f64"], "w": ["u32"]}
DRAWN = 60
"""The samples of each operation and dtype."""
RUN = """
const done = JSON.parse(require("fs").readFileSync(0)).map(([op, kind, kinds, columns]) => columns[0].map((_, k) => {
  const code = kinds.map((from, i) => ["const", from, [], columns[i][k]]);
  const x = computed([...code, [op, kind, kinds.map((_, i) => i), "0"]], [], []).at(-1);
  if (kind === "bool") return String(Number(x));
  if (Number.isNaN(x)) return "nan";
  DV.setBigUint64(0, 0n, true);
  write(DV, kind, 0, x);
  return String(DV.getBigUint64(0, true));
}));
console.log(JSON.stringify(done));
"""


def drawn_numbers(short: str, n: int, rng: np.random.Generator) -> Array:
    """Numbers of every size, and those where words, signs and roundings end."""
    dtype = dtypes.from_short(short)
    if short == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype.kind == "f":
        reach = 60 if short == "f64" else 30
        edges = [0.0, -0.0, 1.0, 0.5, -2.5, 3.5, np.inf, -np.inf, np.nan, *(2.0 ** np.array([-reach, 24, 53, reach]))]
        made = rng.normal(size=n) * 2.0 ** rng.integers(-reach, reach, n)
    else:
        info = np.iinfo(dtype)
        edges = [info.min, info.max, info.max - 1, info.min + 1, 0, 1, 2, 7, info.bits - 1, info.bits]
        made = rng.integers(info.min, info.max, n, dtype, endpoint=True) >> rng.integers(0, info.bits, n).astype(dtype)
    chosen = rng.random(n) < 0.3
    found = np.where(chosen, np.array(edges, dtype)[rng.integers(0, len(edges), n)], np.array(made, dtype))
    return found.astype(dtype)


def drawn_operations(n: int, rng: np.random.Generator) -> Iterator[tuple[str, str, list[Array], Array]]:
    """(operation, dtype of the result, operands, result by the interpreter)."""
    for name, op in OPS.items():
        for short in [x for kind in op.takes for x in KINDS[kind]]:
            xs = [drawn_numbers(short, n, rng) for _ in range(op.arity)]
            if name == "select":
                xs[0] = drawn_numbers("bool", n, rng)
            if name == "fma":
                xs[2][::2] = -(xs[0] * xs[1])[::2]  # what is left is what the product's rounding left out
            gives = "bool" if op.gives else short
            yield name, gives, xs, np.asarray(op.meaning(*xs), dtypes.from_short(gives))
    every = [x for kind in "bif" for x in KINDS[kind]]
    for source in every:
        for target in every:
            x, dtype = drawn_numbers(source, n, rng), dtypes.from_short(target)
            if x.dtype.kind == "f" and dtype.kind in "iu":  # what lies outside is of no stated value
                info = np.iinfo(dtype)
                x = np.where((x > float(info.min)) & (x < float(info.max)), x, x.dtype.type(0))
            yield "convert", target, [x], x.astype(dtype)
            if "bool" not in (source, target) and x.dtype.itemsize == dtype.itemsize:
                yield "bits", target, [x], x.view(dtype)


def words(x: Array) -> list[str]:
    """Numbers by their bits."""
    return ["nan" if x.dtype.kind == "f" and np.isnan(y) else str(word_of_number(y, x.dtype)) for y in x]


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no Node here: JavaScript is not run")


def said_by_node(script: str, file: Path, given: Any) -> Any:
    """What a script prints as JSON, of what it reads as JSON."""
    file.write_text(script, encoding="utf-8")
    done = subprocess.run(["node", str(file)], input=json.dumps(given), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@needs_node
def test_rows_are_in_the_order_of_the_step(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    firsts = [0, 1, 2**32 - 1, 2**32, 2**33 + 5, *map(int, rng.integers(0, 2**62, 5))]
    keys = rng.integers(0, 2**32, (len(firsts), 2), dtype=np.uint32)
    counts = [1, 2, 3, 45, 1000, *rng.integers(2, 100, 5).tolist()]
    given = [[n, [SPLIT, FOLD, BITS], key.tolist(), str(i)] for n, key, i in zip(counts, keys, firsts, strict=True)]
    run = """
    const given = JSON.parse(require("fs").readFileSync(0));
    console.log(JSON.stringify(given.map(([n, streams, key, first]) => rowOrder(n, streams, key, BigInt(first)))));
    """
    for (n, _, key, first), found in zip(
        given,
        said_by_node("".join([source_text(part.file) for part in TRAINING]) + run, tmp_path / "r.js", given),
        strict=True,
    ):
        assert found == np.asarray(row_order(np.array(key, np.uint32), np.int64(first), n)).tolist()


@needs_node
def test_host_numbers_have_the_bits_of_the_interpreter(tmp_path: Path) -> None:
    """Among them are shifts and bits of 64-bit integers, which JavaScript's own `<<` and `|` cut to 32 bits."""
    with np.errstate(all="ignore"):
        cases = list(drawn_operations(DRAWN, np.random.default_rng(0)))
    given = []
    for name, gives, xs, _ in cases:
        columns = [[str(word_of_number(y, x.dtype)) for y in x] for x in xs]
        given.append([name, gives, [dtypes.short(x.dtype) for x in xs], columns])
    done = said_by_node(source_text("host_numbers.js") + RUN, tmp_path / "run.js", given)
    for (name, gives, xs, wanted), found in zip(cases, done, strict=True):
        for k, (a, b) in enumerate(zip(found, words(wanted), strict=True)):
            assert a == b, f"{name} of {[x[k] for x in xs]} in {xs[0].dtype} as {gives}: {a} and not {b}"
