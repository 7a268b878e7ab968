"""Measures the errors of the compiled scalar functions and writes docs/accuracy.md: a campaign of minutes to hours.

python -m tests.kernel.ulp [names] [--stride 1]

float32: every input, or every n-th, of functions of one operand, and 2**25 pairs for those of two, against float64.
float64: a sample against ball arithmetic, then a search uphill in the error from the worst points that were found.
The record is tests/kernel/ulp.json; a run for some names leaves the entries of the others.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.backends.native_kernels import Native
from tests.kernel.accuracy import F32, F64, FUNCTIONS, HARD, errors, exactly, nearly, primitive, sample
from tests.kernel.elementwise import written

RECORD = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
CHUNK = 1 << 15
"""The number of inputs at a time, so that all arrays stay in the cache."""
SEED = 1
Array = np.ndarray[Any, Any]


class Compiled:
    """A function as machine code, run on arrays in chunks; subnormal numbers are not flushed."""

    def __init__(self, name: str, dtype: np.dtype[Any]) -> None:
        self.dtype, self.arity = dtype, primitive(name).arity
        lanes = 64 // dtype.itemsize
        self.native = Native([written(primitive(name).code, [dtype] * self.arity, dtype, CHUNK, lanes=lanes)])

    def __call__(self, *operands: Array) -> Array:
        found = np.empty(len(operands[0]), self.dtype)
        if len(found) == CHUNK:
            self.native.run(0, [*operands, found])
            return found
        for start in range(0, len(found), CHUNK):
            given = [np.zeros(CHUNK, self.dtype) for _ in operands]
            for whole, x in zip(given, operands, strict=True):
                whole[: len(x[start : start + CHUNK])] = x[start : start + CHUNK]
            out = np.empty(CHUNK, self.dtype)
            self.native.run(0, [*given, out])
            found[start : start + CHUNK] = out[: len(found) - start]
        return found


class Worst:
    """The largest error so far, and its operands; errors of at most half a unit are not recorded."""

    def __init__(self) -> None:
        self.error, self.at, self.inputs = 0.5, list[float](), 0

    def see(self, found: Array, operands: list[Array], judged: int | None = None) -> None:
        self.inputs += len(found) if judged is None else judged
        i = int(np.argmax(found)) if len(found) else -1
        if i >= 0 and found[i] > self.error:
            self.error, self.at = float(found[i]), [float(x[i]) for x in operands]

    def entry(self, seconds: float) -> dict[str, Any]:
        at = [x.hex() for x in self.at]
        return {"ulp": round(self.error, 3), "at": at, "inputs": self.inputs, "seconds": round(seconds)}


def suspicious(found: Array, exact: Array, limit: float) -> Array:
    """The indices where an error in float32 may be above a limit of at least 0.5: a fast test that misses none."""
    with np.errstate(all="ignore"):
        rounded = (found.view(np.uint32) == exact.astype(F32).view(np.uint32)) | (found != found) & (exact != exact)
        some = np.flatnonzero(~rounded)
        x, y = found[some].astype(np.float64), exact[some]
        step = (np.abs(y).view(np.int64) & 0x7FF0000000000000).view(np.float64)
        small = np.abs(x - y) <= np.maximum(step, 2.0**-126) * (max(limit, 0.5) * 2.0**-23)
        return some[~(small & (x != 0))]


def float32(name: str, stride: int) -> Worst:
    """All inputs, or every n-th of them; pairs at random."""
    function, worst = Compiled(name, F32), Worst()
    if name in HARD:
        with np.errstate(over="ignore"):
            given = [np.array(x).astype(F32) for x in zip(*HARD[name], strict=True)]
        worst.see(errors(function(*given), nearly(name, given)), given, 0)
    if primitive(name).arity == 1:
        words = np.arange(0, CHUNK * stride, stride, dtype=np.uint32)
        for start in range(0, 1 << 32, CHUNK * stride):
            given = [(words + np.uint32(start)).view(F32)]
            found, exact = function(*given), nearly(name, given)
            some = suspicious(found, exact, worst.error)
            worst.see(errors(found[some], exact[some]) if some.size else some, [x[some] for x in given], len(found))
    else:
        rng = np.random.default_rng(SEED)
        for _ in range(max(1024 // stride, 1)):
            given = [rng.permutation(sample(rng, F32, FUNCTIONS[name].interval, CHUNK)) for _ in range(2)]
            worst.see(errors(function(*given), nearly(name, given)), given)
    return worst


def float64(name: str, count: int) -> Worst:
    """A sample, and a search from its worst points: single bits flipped, and small steps."""
    function, worst, rng = Compiled(name, F64), Worst(), np.random.default_rng(SEED)

    def judged(given: list[Array]) -> Array:
        high, low = exactly(name, given)
        found = np.where(np.isnan(high), -1.0, errors(function(*given), high, low))
        worst.see(found, given)
        return np.asarray(found)

    points = [rng.permutation(sample(rng, F64, FUNCTIONS[name].interval, count)) for _ in range(primitive(name).arity)]
    if name in HARD:
        points = [np.append(x, hard) for x, hard in zip(points, zip(*HARD[name], strict=True), strict=True)]
    best = judged(points)
    for _ in range(40):
        top = np.argsort(best)[-64:]
        points, best = [x[top] for x in points], best[top]
        moved = [moves(rng, np.tile(x, 8)) for x in points]
        points = [np.concatenate([x, y]) for x, y in zip(points, moved, strict=True)]
        best = np.concatenate([best, judged(moved)])
    return worst


def moves(rng: np.random.Generator, x: Array) -> Array:
    """Numbers near others, at every distance."""
    words = x.view(np.int64) ^ (rng.integers(0, 1 << 52, len(x)) >> rng.integers(0, 52, len(x)))
    return np.where(rng.integers(0, 4, len(x)) > 0, words.view(np.float64), x)


def machine() -> dict[str, str]:
    """The commit, the machine and the date of a measurement."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {"commit": commit.stdout.strip(), "machine": platform.machine(), "date": time.strftime("%Y-%m-%d")}


def page(record: dict[str, Any]) -> str:
    """The table of the documentation."""
    lines = [
        "# Accuracy",
        "",
        "Every backend computes the functions of this table by the same formulas, written once in the kernel language",
        "(`wholestep.kernel.maths`); without float64 (WebGPU) large angles are reduced by integers, within the same",
        "bounds. The figures are the largest errors found in code for the CPU, in units in the last",
        "place of the exact result (a correctly rounded result errs by 0.5 at most). They are measured:",
        "",
        "- float32, one operand: all 4,294,967,296 inputs where the column says *all*, against float64.",
        "- float32, two operands: random pairs of every exponent and of common sizes.",
        "- float64: a sample of every exponent and of the interesting intervals against ball arithmetic that certifies",
        "  80 bits or more, and a search uphill in the error from the worst points found.",
        "  It may miss the worst point of all. Points where large errors were met before are tried in every case.",
        "",
        "`make ulp` measures again and writes this page and its record, `tests/kernel/ulp.json`.",
        "",
        "| function | float32 | at | inputs | float64 | at |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in FUNCTIONS:
        if name in record:
            f, d = record[name]["float32"], record[name]["float64"]
            inputs = "all" if f["inputs"] == 1 << 32 else f"{f['inputs']:,}"
            lines.append(
                f"| {name} | {f['ulp']:.3f} | {shown(f['at'])} | {inputs} | {d['ulp']:.3f} | {shown(d['at'])} |"
            )
    return "\n".join([*lines, "", (Path(__file__).with_name("accuracy_notes.md")).read_text(encoding="utf-8")])


def shown(at: list[str]) -> str:
    """A point in few digits."""
    return ", ".join(f"{float.fromhex(x):.7g}" for x in at)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(FUNCTIONS))
    parser.add_argument("--stride", type=int, default=1, help="of the float32 inputs, take every n-th")
    parser.add_argument("--points", type=int, default=200_000, help="how many float64 inputs to sample")
    given = parser.parse_args()
    for name in given.names:
        record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
        entry: dict[str, Any] = machine()
        start = time.perf_counter()
        entry["float32"] = float32(name, given.stride).entry(time.perf_counter() - start)
        start = time.perf_counter()
        entry["float64"] = float64(name, given.points).entry(time.perf_counter() - start)
        record[name] = entry
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(record), encoding="utf-8")
        shown_entries = [f"{d} {entry[d]['ulp']:.3f} at {shown(entry[d]['at'])}" for d in ("float32", "float64")]
        print(f"{name:10} {'  '.join(shown_entries)}  {entry['float32']['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
