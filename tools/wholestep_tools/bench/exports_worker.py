"""The process of `wholestep bench exports`: a workload as it is here, exported, and written by hand, in turns."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.backends.cpu.cpu_features import host_levels
from wholestep.errors import ExportError
from wholestep.export.native.names import prefix_of
from wholestep_tools import answering
from wholestep_tools.bench.peers import PEERS
from wholestep_tools.bench.peers.wholestep import Training, trained
from wholestep_tools.bench.runner import in_turns
from wholestep_tools.bench.spec import WORKLOADS
from wholestep_tools.drawn.c_library import COMPILER

Call = Callable[[], float]
"""One step, waited for; its loss."""
LOSSES = 5
"""Steps whose losses are compared."""
LIBRARIES = ("jax", "torch")
"""Those in which a step is written by hand, too."""
SECONDS = 0.02
"""The least time of a turn."""


class ExportedSource:
    """A step as a source of Python, with its own state."""

    def __init__(self, target: str, ours: Training, folder: Path, name: str = "step") -> None:
        path = folder / f"{target}_{name}.py"
        ours.step.export(path, to=target)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        self.module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = self.module  # torch.compile looks functions up in the module that has them
        spec.loader.exec_module(self.module)
        self.state = self.module.load(path.with_suffix(".safetensors"))
        array = self.module.torch.tensor if target == "torch" else self.module.jnp.asarray
        arrays = zip(tree.paths(ours.batch, "batch"), tree.leaves(ours.batch), strict=True)
        self.batch = {name: array(x) for name, x in arrays}
        self.step = self.module.step

    def __call__(self) -> float:
        self.state, results = self.step(self.state, self.batch)
        return float(results["loss"])


def compiled(source: ExportedSource) -> ExportedSource:
    """A step of a source of PyTorch as `torch.compile` makes it."""
    source.step = source.module.torch.compile(source.step, fullgraph=True, dynamic=False)
    return source


class ExportedModel:
    """A step as an ONNX model in ONNX Runtime, on one thread."""

    def __init__(self, ours: Training, folder: Path) -> None:
        runtime = importlib.import_module("onnxruntime")
        model, state = ours.step.export(folder / "step.onnx")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.pairs = json.loads(self.session.get_modelmeta().custom_metadata_map["wholestep.state"])
        values = importlib.import_module("safetensors.numpy").load_file(state)
        values |= dict(zip(tree.paths(ours.batch, "batch"), tree.leaves(ours.batch), strict=True))
        given = runtime.OrtValue.ortvalue_from_numpy
        self.values = {i.name: given(values[i.name].reshape(i.shape)) for i in self.session.get_inputs()}
        self.names = [o.name for o in self.session.get_outputs()]

    def __call__(self) -> float:
        results = dict(zip(self.names, self.session.run_with_ort_values(None, self.values), strict=True))
        self.values |= {path: results[out] for path, out in self.pairs.items()}
        return float(results["loss"].numpy())


class NativeProgram:
    """A step as C source or as an object, in a library that the system's compiler makes."""

    def __init__(self, suffix: str, ours: Training, folder: Path) -> None:
        folder = folder / suffix
        path, *_ = ours.step.export(folder / f"model.{suffix}", processor="host")
        prefix, library = prefix_of(path.stem), folder / "model.so"
        state = path.with_suffix(".safetensors").read_bytes()
        accessors = [f"void *at_{i}({prefix} *m) {{ return {name}(m); }}" for i, name in enumerate(self.given(path))]
        words = ["#include <stdlib.h>", f'#include "{path.with_suffix(".h").name}"', *accessors]
        words += [f"void *made(void) {{ return {prefix}_init(malloc({prefix.upper()}_BYTES)); }}"]
        words += [f"int loaded({prefix} *m, const void *p, size_t n) {{ return {prefix}_load(m, p, n); }}"]
        words += [f"double stepped({prefix} *m) {{ return {prefix}_step(m) ? -1 : (double)*{prefix}_loss(m); }}"]
        (folder / "main.c").write_text("\n".join(words) + "\n", encoding="utf-8")
        parts = [folder / "main.c", path, *([folder / f"{prefix}_state.c"] if suffix == "o" else [])]
        levels = ["-march=native"] if host_levels() else []
        assert COMPILER is not None
        options = [COMPILER, "-std=c99", "-O3", *levels, "-fPIC", "-shared", f"-I{folder}"]
        done = subprocess.run([*options, *map(str, parts), "-o", str(library), "-lm"], capture_output=True, text=True)
        if done.returncode:
            raise ExportError(done.stderr[:2000])
        code = ctypes.CDLL(str(library))
        code.made.restype = ctypes.c_void_p
        self.model = ctypes.c_void_p(code.made())
        if code.loaded(self.model, state, ctypes.c_size_t(len(state))):
            raise ExportError("the state beside the program was refused")
        for i, x in enumerate(tree.leaves(ours.batch)):
            place = getattr(code, f"at_{i}")
            place.restype = ctypes.c_void_p
            ctypes.memmove(place(self.model), np.ascontiguousarray(x).ctypes.data, x.nbytes)
        self.stepped = code.stepped
        code.stepped.restype = ctypes.c_double

    @staticmethod
    def given(path: Path) -> list[str]:
        """The functions of a header that give the arrays of a batch, in their order."""
        text = path.with_suffix(".h").read_text(encoding="utf-8")
        lines = text.split("What a step reads")[1].split("/* What a step")[0].splitlines()
        return [line.split("*")[1].split("(")[0] for line in lines if line.startswith("static inline")]

    def __call__(self) -> float:
        return float(self.stepped(self.model))


def by_hand(peer: str, name: str) -> Call:
    """A step as a user of a library writes it."""
    job = importlib.import_module(PEERS[peer].module).job(name, *WORKLOADS[name].data(), 1)

    def call() -> float:
        result = job.call()
        job.wait(result)
        return float(job.numbers(result)[0][0])

    return call


def contestants(name: str, folder: Path) -> dict[str, Call]:
    """All that take part: our own step, its exports, and the step by hand; those whose library is here."""
    ours = trained(name, *WORKLOADS[name].data(), 1)
    unguarded = trained(name, *WORKLOADS[name].data(), 1, guard=None)

    def own() -> float:
        return float(ours.step(ours.batch).loss)

    found: dict[str, Call] = {"wholestep": own}
    if COMPILER is not None:
        found |= {"C": NativeProgram("c", ours, folder), "object": NativeProgram("o", ours, folder)}
    for library in LIBRARIES:
        if importlib.util.find_spec(library) is not None:
            found[library] = ExportedSource(library, ours, folder)
            if library == "jax":
                found["jax, unguarded"] = ExportedSource(library, unguarded, folder, "unguarded")
            found[f"{library} by hand"] = by_hand(library, name)
            if library == "torch":
                found["torch.compile"] = compiled(ExportedSource(library, ours, folder))
                found["torch.compile, unguarded"] = compiled(ExportedSource(library, unguarded, folder, "unguarded"))
                found["torch.compile by hand"] = by_hand("torch.compile", name)
    if importlib.util.find_spec("onnxruntime") is not None:
        found["onnx"] = ExportedModel(ours, folder)
    return found


def measured(name: str, rounds: int) -> dict[str, dict[str, Any]]:
    """The losses of the first steps of each way, and the seconds of a step in each round."""
    with tempfile.TemporaryDirectory() as folder:
        calls = contestants(name, Path(folder))
        losses = {who: [call() for _ in range(LOSSES)] for who, call in calls.items()}
        counts, seconds = {}, dict[str, list[float]]({who: [] for who in calls})
        for who, call in calls.items():
            before = time.perf_counter()
            call()
            counts[who] = max(1, round(SECONDS / (time.perf_counter() - before)))

        def turn(who: str) -> None:
            call, n = calls[who], counts[who]
            before = time.perf_counter()
            for _ in range(n):
                call()
            seconds[who].append((time.perf_counter() - before) / n)

        in_turns(list(calls), rounds, turn)
    return {who: {"seconds": seconds[who], "losses": losses[who]} for who in calls}


if __name__ == "__main__":
    # XLA sizes its pool by the processors, so it is told beside NPROC to multiply matrices in the thread that calls.
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    answering.serve(
        lambda line: measured(sys.argv[2], int(sys.argv[3])), ["measure"], answering.replies(), lasting=False
    )
