"""`wholestep audit exportfiles`: reading any damaged file of an exported program ends in one refusal.

A C program, compiled with the sanitizers of addresses and of undefined behaviour, and a module in node read damaged
files of their state; the evaluator of Core ML reads damaged packages.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import tempfile
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import wholestep as ws
from wholestep.errors import ExportError, WholestepError
from wholestep.export.coreml.evaluator import MilPackage
from wholestep.export.coreml.files import MODEL, WEIGHTS
from wholestep.train.step.export import state_values
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.hostile.mutations import MUTATIONS, Rng, cut, flipped, longer, moved, overwritten
from wholestep_tools.audit.record import record
from wholestep_tools.drawn.c_library import COMPILER

CLAIM = "Whatever a file of an exported program holds, reading it ends in one refusal, and the state is as it was"
CHECKED = ("-std=c99", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
RAW = (flipped, cut, longer, overwritten, moved)
MEMORY, MOST_ELEMENTS, MOST_OPERATIONS = 1 << 28, 1 << 22, 100_000
SECONDS = 300

DRIVER = """\
#include "model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char memory[MODEL_BYTES], before[MODEL_STATE_BYTES], after[MODEL_STATE_BYTES];

int main(int count, char **words) {
    FILE *f = count == 2 ? fopen(words[1], "rb") : 0;
    uint64_t n;
    if (!f) return 2;
    model *m = model_init(memory);
    while (fread(&n, 8, 1, f) == 1) {
        unsigned char *file = malloc(n ? n : 1);
        if (!file || fread(file, 1, n, f) != n) return 3;
        model_save(m, before, sizeof before);
        int code = model_load(m, file, n);
        model_save(m, after, sizeof after);
        printf("%d %d\\n", code, memcmp(before, after, sizeof before) != 0);
        free(file);
    }
    return 0;
}
"""
SCRIPT = """
import { readFile } from "node:fs/promises";
import { instantiate } from "./model.mjs";
const here = (name) => new URL(name, import.meta.url);
const model = await instantiate(await readFile(here("model.wasm")));
const data = await readFile(here("bundle.bin"));
for (let at = 0; at < data.length; ) {
  const n = Number(data.readBigUInt64LE(at));
  const file = data.subarray(at + 8, at + 8 + n);
  at += 8 + n;
  const before = Buffer.from(await model.save());
  const code = await model.load(file).then(() => 0, (error) => (error instanceof Error ? 1 : 9));
  console.log(code, before.equals(Buffer.from(await model.save())) ? 0 : 1);
}
"""


def small_step() -> Any:
    """A step that has trained once."""
    rng = np.random.default_rng(0)
    p = {"w": rng.normal(size=(3, 4)).astype("f4"), "v": rng.normal(size=(4, 1)).astype("f4")}
    batch = {"x": rng.normal(size=(5, 3)).astype("f4"), "y": rng.normal(size=(5, 1)).astype("f4")}
    step = ws.compile(lambda p, b: np.mean((np.tanh(b["x"] @ p["w"]) @ p["v"] - b["y"]) ** 2), p,
                      optimizer=ws.optim.adam(0.1), batch=batch)  # fmt: skip
    step(batch)
    return step, batch


def bundled(files: list[bytes]) -> bytes:
    """Files one behind the other, each behind its size."""
    return b"".join([len(data).to_bytes(8, "little") + data for data in files])


def fates(folder: Path, words: list[str]) -> list[tuple[int, int]]:
    """(code, whether the state is another one) for each file of a bundle; a program that dies gives fewer."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, cwd=folder)
    found = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    return [*found, *([(done.returncode or -1, 1)] if done.returncode else [])]  # type: ignore[list-item]


def damaged_states(whole: bytes, count: int, rng: Rng) -> Iterator[tuple[str, bytes]]:
    """So many files of a state, each damaged in one way, with the name of the way."""
    ways = [name for name in MUTATIONS if name != "headers of megabytes"]
    shares = np.array([MUTATIONS[name][1] for name in ways])
    for name in rng.choice(ways, count, p=shares / shares.sum()):
        yield str(name), MUTATIONS[str(name)][0](whole, rng)


def check_states(what: str, run: Callable[[list[bytes]], list[tuple[int, int]]], step: Any, whole: bytes,
                 count: int, rng: Rng, seen: Seen) -> None:  # fmt: skip
    """Damaged files of a state, read by a program: those that it takes, `step.load` takes too."""
    files = [whole, *[data for _, data in damaged_states(whole, count, rng)]]
    found = run(files)
    seen.right(len(found) == len(files), f"{what} ends at file {len(found)}: {files[len(found) - 1][:60].hex()}")
    for i, (data, (code, other)) in enumerate(zip(files, found, strict=False)):
        if i == 0:
            seen.right(code == 0, f"{what} refuses a whole file: {code}")
            continue
        seen.count("damaged files")
        seen.count(f"of them {'taken' if code == 0 else 'refused'} by {what}")
        seen.right(0 <= code <= 2, f"{what} gives {code} for {data[:60].hex()}")
        seen.right(code == 0 or not other, f"{what} refuses {data[:60].hex()} and has another state")
        same = code != 0 or not other or is_taken(step, data)
        seen.right(same, f"{what} takes another state from {data[:200].hex()}, which step.load refuses")


def is_taken(step: Any, data: bytes) -> bool:
    """True if `step.load` takes a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "state.safetensors")
        file.write_bytes(data)
        try:
            step.load(file)
        except WholestepError:
            return False
    return True


def in_c(folder: Path, step: Any) -> Callable[[list[bytes]], list[tuple[int, int]]]:
    """The program of C, which reads a bundle."""
    step.export(folder / "model.c")
    (folder / "main.c").write_text(DRIVER, encoding="utf-8")
    assert COMPILER is not None
    parts = [COMPILER, *CHECKED, "main.c", "model.c", "-o", "program", "-lm"]
    subprocess.run(parts, check=True, cwd=folder, timeout=SECONDS, capture_output=True)

    def run(files: list[bytes]) -> list[tuple[int, int]]:
        (folder / "bundle.bin").write_bytes(bundled(files))
        return fates(folder, ["./program", "bundle.bin"])

    return run


def in_node(folder: Path, step: Any) -> Callable[[list[bytes]], list[tuple[int, int]]]:
    """The module in node, which reads a bundle."""
    step.export(folder / "model.wasm")
    (folder / "run.mjs").write_text(SCRIPT, encoding="utf-8")
    node = shutil.which("node")
    assert node is not None

    def run(files: list[bytes]) -> list[tuple[int, int]]:
        (folder / "bundle.bin").write_bytes(bundled(files))
        return fates(folder, [node, "run.mjs"])

    return run


def packages(folder: Path, step: Any, batch: Any) -> Iterator[tuple[dict[str, bytes], dict[str, Any]]]:
    """Intact packages with their inputs: a step, a step whose state is inside the package, and a loop."""
    values = {**state_values(step._engine), **{f"batch.{name}": x for name, x in batch.items()}}
    table = np.random.default_rng(1).normal(size=(16, 4)).astype("f4")

    def loop(x: Any, at: Any) -> Any:
        return ws.scan(lambda s, row: (s + row, np.tile(s * row, 3)), x, table[at])

    for name, options in (("plain", {}), ("held", {"model_state": True})):
        files = step.export(folder / f"{name}.mlpackage", narrow=True, **options)[:-1]
        yield contents(folder / f"{name}.mlpackage", files), values
    given = {"x": np.zeros(4, np.float32), "at": np.arange(6, dtype=np.int32)}
    yield contents(folder / "loop.mlpackage", ws.to_file(loop, folder / "loop.mlpackage", *given.values())), given


def contents(folder: Path, files: Iterable[Path]) -> dict[str, bytes]:
    """Files by their paths in a folder."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def check_packages(folder: Path, step: Any, batch: Any, count: int, rng: Rng, seen: Seen) -> None:
    """Damaged packages, read and run by the evaluator."""
    known = list(packages(folder, step, batch))
    for whole, values in known:
        seen.right(package_fate(whole, values) == ("ran", ""), "a whole package is refused")
    tracemalloc.start()
    for _ in range(count):
        whole, values = known[int(rng.integers(len(known)))]
        way = RAW[int(rng.integers(len(RAW)))] if rng.random() < 0.3 else other_field
        name = WEIGHTS if way is not other_field and WEIGHTS in whole and rng.random() < 0.3 else MODEL
        damaged = {**whole, name: way(whole[name], rng)}
        fate, wrong = package_fate(damaged, values)
        seen.count("damaged files")
        seen.count(f"of them {fate} by the evaluator of packages")
        seen.right(not wrong, f"{wrong}: {name} of {len(damaged[name])} bytes")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    seen.right(peak < MEMORY, f"packages took {peak:,} bytes")


def other_field(data: bytes, rng: Rng) -> bytes:
    """A specification in which one field is another number or text, is left out, or comes twice."""
    spec = importlib.import_module("coremltools.proto.Model_pb2").Model()
    spec.ParseFromString(data)
    change_field(spec.mlProgram if rng.random() < 0.8 else spec, rng)
    return bytes(spec.SerializeToString())


def change_field(message: Any, rng: Rng) -> None:
    """Somewhere in a message one field is changed."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = fields[int(rng.integers(len(fields)))]
    if hasattr(value, "items"):  # a table, of which one value is changed or goes
        key = sorted(value)[int(rng.integers(len(value)))]
        if hasattr(value[key], "ListFields") and rng.random() < 0.8:
            change_field(value[key], rng)
        else:
            del value[key]
    elif hasattr(value, "append") or hasattr(value, "add"):
        at = int(rng.integers(len(value)))
        if hasattr(value[at], "ListFields") and rng.random() < 0.8:
            change_field(value[at], rng)
        elif rng.random() < 0.5:
            del value[at]
        elif not hasattr(value[at], "ListFields"):
            value[at] = other_scalar(value[at], rng)
    elif hasattr(value, "ListFields"):
        change_field(value, rng)
    else:
        setattr(message, field.name, other_scalar(value, rng))


def other_scalar(value: Any, rng: Rng) -> Any:
    """Another value of the kind of one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return int(rng.choice([0, 1, 2, 3, 7, 10, 1 << 20, (1 << 31) - 1]))
    if isinstance(value, str):
        return str(rng.choice(["", "x", "t1", "params_w", "add", "fill", "while_loop", "tile", "cond", "const"]))
    return bytes(rng.bytes(4)) if isinstance(value, bytes) else float(rng.normal())


def package_fate(files: Mapping[str, bytes], values: Mapping[str, Any]) -> tuple[str, str]:
    """The outcome for a package, "refused", "failed" or "ran", and the fault of the evaluator, if any."""
    try:
        package = MilPackage(files)
        package.most, package.left = MOST_ELEMENTS, MOST_OPERATIONS
        package(values)
    except ExportError:
        return "refused", ""
    except BaseException as error:
        return "failed", f"{type(error).__name__}: {error}"[:200]
    return "ran", ""


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many damaged files: two fifths for C, one for node, and two for the evaluator of packages."""
    importlib.import_module("coremltools")
    seen, rng = Seen(), np.random.default_rng(seed)
    step, batch = small_step()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = in_c(folder, step)
        whole = (folder / "model.safetensors").read_bytes()
        check_states("C", run, step, whole, 2 * count // 5, rng, seen)
        check_states("node", in_node(folder, step), step, whole, count // 5, rng, seen)
        check_packages(folder, step, batch, count - 2 * count // 5 - count // 5, rng, seen)
    return record("exportfiles", CLAIM, dict(sorted(seen.checks.items())), seen.failures, seed=seed)


AUDIT = Audit(
    "exportfiles",
    audit,
    2_000,
    "damaged files of exported programs, each refused",
    """\
The state of a step is damaged as checkpoints are, by chance and with knowledge of its layout, checksums made right
again among them, and given to the step as a program of C, compiled with the checks of addresses and of undefined
behaviour, and as a module of WebAssembly in node; a file that they refuse leaves the state as it was, and one that
they take has the same state, or is one that `step.load` takes. Packages for Core ML with turned bits, cuts, noise and
moved stretches, and with fields of their messages that are other ones or are left out, are read and evaluated: they
give a result or one error of this library, in bounded memory and time.""",
)
