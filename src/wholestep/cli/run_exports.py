"""Runs of exported files on this machine, where possible: the losses of a few calls on a batch, and the final state."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import ExportError
from wholestep.export.coreml.evaluator import MilPackage
from wholestep.export.native.header import one_line
from wholestep.export.native.names import prefix_of
from wholestep.export.python.support import checkpoint_file
from wholestep.export.targets import IN_BROWSERS
from wholestep.ir.graph import NDArray
from wholestep.train.checkpoint.read import open_checkpoint
from wholestep.train.handover.to_torch import tensor
from wholestep.train.step.export import STATE_SUFFIX

Given = Mapping[str, NDArray]
Runner = Callable[[Path, Given, int, Path], list[float]]
"""A function (the file, the arrays of a batch by path, calls, a file for the final state) -> the loss of each call,
which begins at the state beside the file."""
SECONDS = 300
"""The time limit of a compiler or a program, in seconds."""


class NotRun(Exception):
    """The error with the reason why a file was not run."""


def imported(name: str) -> Any:
    """Import a package that runs files; raises NotRun where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotRun(f"{name} runs such a file, and cannot be imported: {error}") from None


def state_beside(path: Path) -> dict[str, NDArray]:
    """The arrays of the state that was written beside a file, by their paths."""
    with open_checkpoint(path.with_suffix(STATE_SUFFIX)) as contents:
        return {name: contents.array(name) for name in contents.types}


def mean_of_losses(x: Any) -> float:
    """The mean of the losses of a call."""
    return float(np.mean(np.asarray(x, np.float64)))


# Python, ONNX, Core ML and LiteRT.


def python_losses(path: Path, given: Given, calls: int, after: Path) -> list[float]:
    """Losses of the step in a source file."""
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise NotRun(f"what it imports is not here: {error}") from None
    state, found = module.load(path.with_suffix(STATE_SUFFIX)), []
    array = partial(tensor, module.torch) if hasattr(module, "torch") else np.asarray
    batch = {name: array(x) for name, x in given.items()}
    for _ in range(calls):
        state, results = module.step(state, batch)
        found.append(mean_of_losses(results["loss"]))
    module.save(after, state, like=path.with_suffix(STATE_SUFFIX))
    return found


def onnx_losses(path: Path, given: Given, calls: int, after: Path) -> list[float]:
    """Losses of a model in ONNX Runtime on the processor."""
    session = imported("onnxruntime").InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    pairs = json.loads(session.get_modelmeta().custom_metadata_map["wholestep.state"])
    state = state_beside(path)
    values = {name: with_parts(x) for name, x in {**state, **given}.items()}
    if any([x.dtype.name == "bfloat16" for x in values.values()]):
        raise NotRun("ONNX Runtime takes no arrays of bfloat16")
    names, found = [o.name for o in session.get_outputs()], []
    for _ in range(calls):
        known = {i.name: in_shape(values[i.name], i.shape) for i in session.get_inputs()}
        results = dict(zip(names, session.run(None, known), strict=True))
        values |= {path: results[out] for path, out in pairs.items()}
        found.append(mean_of_losses(results["loss"]))
    write_state(after, values, state, path.with_suffix(STATE_SUFFIX))
    return found


def in_shape(x: NDArray, shape: Sequence[Any]) -> NDArray:
    """An array in the shape that a session takes; a named size is that of the array."""
    if all([isinstance(n, int) for n in shape]):
        return x.reshape(shape)
    return x.reshape([n if isinstance(n, int) else own for n, own in zip(shape, x.shape, strict=True)])


def with_parts(x: NDArray) -> NDArray:
    """An array; a complex one as real and imaginary parts along a last axis."""
    return np.stack([x.real, x.imag], axis=-1) if x.dtype.kind == "c" else x


def write_state(after: Path, values: Given, state: Given, like: Path) -> None:
    """Write the new arrays of a state as a checkpoint like another one."""
    write: Any = checkpoint_file.write_checkpoint
    write(after, {name: of_parts(values[name], x) for name, x in state.items()}, like)


def of_parts(x: NDArray, like: NDArray) -> NDArray:
    """An array in the shape and dtype of `like`; a complex one is made from its parts along a last axis."""
    whole = np.ascontiguousarray(x).view(like.dtype) if like.dtype.kind == "c" else x
    return whole.astype(like.dtype).reshape(like.shape)


def coreml_losses(path: Path, given: Given, calls: int, after: Path) -> list[float]:
    """Losses of a package, whose operations NumPy evaluates, since Core ML runs only on machines of Apple."""
    state = state_beside(path)
    package, values, found = MilPackage.at(path), {**state, **given}, []
    loss = next(name for name in package.outputs if package.paths[name] == "loss")
    for _ in range(calls):
        results = package(values)
        values |= {path: results[out] for path, out in package.state.items()}
        found.append(mean_of_losses(results[loss]))
    write_state(after, values, state, path.with_suffix(STATE_SUFFIX))
    return found


def litert_losses(path: Path, given: Given, calls: int, after: Path) -> list[float]:
    """Losses of a model in the interpreter that comes with TensorFlow."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = imported("tensorflow").lite.Interpreter(model_path=str(path)).get_signature_runner("step")
    state = state_beside(path)
    values, found = {**state, **given}, []
    for _ in range(calls):
        results = run(**signature_arrays(run, values))
        values |= {name: x for name, x in results.items() if name in state}
        found.append(mean_of_losses(results["loss"]))
    write_state(after, values, state, path.with_suffix(STATE_SUFFIX))
    return found


def signature_arrays(run: Any, values: Given) -> dict[str, NDArray]:
    """The arguments of a signature by name, in its dtypes."""
    return {name: with_parts(values[name]).astype(kind["dtype"]) for name, kind in run.get_input_details().items()}


# Programs without Python.

ACCESSOR = re.compile(r"^static inline (\w+) \*(\w+)\(\w+ \*m\) .*/\* (.*) \*/$", re.MULTILINE)
DRIVER = """\
#include "@HEADER@"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char memory[@UPPER@_BYTES];

static unsigned char *bytes_of(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) exit(3);
    *n = (size_t)ftell(f);
    unsigned char *data = malloc(*n + 1);
    rewind(f);
    if (!data || fread(data, 1, *n, f) != *n) exit(3);
    fclose(f);
    return data;
}

int main(int count, char **words) {
    size_t n;
    if (count != 5) return 2;
    @PREFIX@ *m = @PREFIX@_init(memory);
    unsigned char *file = bytes_of(words[1], &n);
    if (@PREFIX@_load(m, file, n)) return puts("the state beside the file was refused"), 1;
    file = bytes_of(words[2], &n);
@BATCH@
    for (int i = 0; i < atoi(words[3]); i++) {
        int code = @PREFIX@_step(m);
        if (code) return puts(@PREFIX@_failure(code)), 1;
        double sum = 0;
        for (int k = 0; k < @COUNT@; k++) sum += @NUMBER@(@LOSS@(m)[k]);
        printf("%.17g\\n", sum / @COUNT@);
    }
    file = malloc(@UPPER@_STATE_BYTES);
    if (!file || !@PREFIX@_save(m, file, @UPPER@_STATE_BYTES)) return puts("the state cannot be saved"), 1;
    FILE *f = fopen(words[4], "wb");
    if (!f || fwrite(file, 1, @UPPER@_STATE_BYTES, f) != @UPPER@_STATE_BYTES || fclose(f)) return 3;
    return 0;
}
"""


def c_driver(path: Path, given: Given) -> str:
    """A C program that reads a state and a batch from files, and prints the loss of each call."""
    header, prefix = path.with_suffix(".h"), prefix_of(path.stem)
    known = {remark: (kind, name) for kind, name, remark in ACCESSOR.findall(header.read_text(encoding="utf-8"))}

    def accessor(array: str) -> tuple[str, str, str]:
        return next((k, name, t) for t, (k, name) in known.items() if t.startswith(one_line(f"{array}: ")))

    lines, at = [], 0
    for array, x in given.items():
        lines.append(f"    memcpy({accessor(array)[1]}(m), file + {at}, {x.nbytes});")
        at += x.nbytes
    kind, loss, remark = accessor("loss")
    number = f"{prefix}_from_{remark.split()[1].partition('[')[0]}" if kind == "uint16_t" else "(double)"
    count = math.prod([int(n) for n in re.findall(r"\d+", remark.partition("[")[2])])
    words = {"HEADER": header.name, "UPPER": prefix.upper(), "PREFIX": prefix, "BATCH": "\n".join(lines)}
    words |= {"COUNT": str(count), "LOSS": loss, "NUMBER": number}
    return re.sub(r"@(\w+)@", lambda found: words[found[1]], DRIVER)


def native_losses(path: Path, given: Given, calls: int, after: Path, more: Sequence[str] = ()) -> list[float]:
    """Losses of C source or of an object, in a program compiled by the system's compiler, with further options."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NotRun("there is no C compiler here: cc, gcc or clang")
    with tempfile.TemporaryDirectory() as folder:
        main, program, batch = (Path(folder, name) for name in ("main.c", "program", "batch.bin"))
        main.write_text(c_driver(path, given), encoding="utf-8")
        batch.write_bytes(b"".join([np.ascontiguousarray(x).tobytes() for x in given.values()]))
        state_code = path.with_name(f"{prefix_of(path.stem)}_state.c")
        parts = [main, path.resolve(), *([state_code.resolve()] if path.suffix == ".o" else [])]
        options = ["-std=c99", "-O1", *more, f"-I{path.resolve().parent}"]
        finished([compiler, *options, *map(str, parts), "-o", str(program), "-lm"], "the C compiler refuses it")
        return numbers_said([str(program), str(path.with_suffix(STATE_SUFFIX)), str(batch), str(calls), str(after)])


def finished(words: list[str], failed: str) -> str:
    """The output of a program; raises ExportError where it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise ExportError(f"export: {failed}: it takes more than {SECONDS} seconds") from None
    if done.returncode:
        raise ExportError(f"export: {failed}: {(done.stderr or done.stdout).strip()[:500] or done.returncode}")
    return done.stdout


def numbers_said(words: list[str]) -> list[float]:
    """The numbers that a program prints, one a line."""
    return [float(line) for line in finished(words, "the file fails when it is run").split()]


NODE_SCRIPT = """
import { readFile, writeFile } from "node:fs/promises";
const [place, code, state, batch, sizes, calls, after] = process.argv.slice(2);
const { instantiate, numbers } = await import(place);
const model = await instantiate(await readFile(code));
await model.load(await readFile(state));
const data = await readFile(batch);
let at = 0;
for (const [path, size] of JSON.parse(sizes)) {
  const array = model.arrays[path];
  new Uint8Array(array.buffer, array.byteOffset, size).set(data.subarray(at, at + size));
  at += size;
}
for (let i = 0; i < Number(calls); i++) {
  model.step();
  const { loss: bits } = model.arrays, { loss: format } = model.formats;
  const loss = Array.from(format ? numbers(bits, format) : bits);
  console.log(loss.reduce((a, b) => a + b) / loss.length);
}
await writeFile(after, new Uint8Array(await model.save()));
"""


def wasm_losses(path: Path, given: Given, calls: int, after: Path) -> list[float]:
    """Losses of a module of WebAssembly in node."""
    node = shutil.which("node")
    if node is None:
        raise NotRun("there is no node here, which runs WebAssembly outside of a browser")
    with tempfile.TemporaryDirectory() as folder:
        script, batch = Path(folder, "run.mjs"), Path(folder, "batch.bin")
        script.write_text(NODE_SCRIPT, encoding="utf-8")
        batch.write_bytes(b"".join([np.ascontiguousarray(x).tobytes() for x in given.values()]))
        sizes = json.dumps([(name, x.nbytes) for name, x in given.items()])
        files = [path.with_suffix(".mjs").resolve().as_uri(), path, path.with_suffix(STATE_SUFFIX), batch]
        return numbers_said([node, str(script), *map(str, files), sizes, str(calls), str(after)])


def browser_alone(path: Path, given: Given, calls: int, after: Path) -> list[float]:
    """Raise NotRun, since no browser is started."""
    raise NotRun("such a file runs in a browser that has WebGPU, and none is started here")


RUNNERS: dict[str, Runner] = {
    **dict.fromkeys(("jax", "numpy", "tensorflow", "torch"), python_losses),
    "onnx": onnx_losses,
    "coreml": coreml_losses,
    "litert": litert_losses,
    "c": native_losses,
    "object": native_losses,
    "wasm": wasm_losses,
    **dict.fromkeys(IN_BROWSERS, browser_alone),
}
"""The function that runs the file of each target."""
REMARKS = {"coreml": ", as NumPy evaluates the operations of the file: Core ML itself was not run"}
"""Remarks on runs in which another program took the place of the target."""
