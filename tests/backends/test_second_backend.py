"""A second device: the C backend under a name, through the one object that everything about a device goes through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.c_backend import COMPILER, TARGET, CKernel, CProgram

import wholestep as ws
from wholestep.compiler import backends
from wholestep.errors import UnsupportedError
from wholestep.ir.graph import Graph, NDArray
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.lower.program.program import LoweredProgram
from wholestep.runtime.backend import AllocateBytes, Backend, LoadedCode
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.executable import BoundExecutable, Executable
from wholestep.runtime.memory.mapped_arrays import FileInputs

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")


class CBackend(Backend):
    """Kernels as C functions; a program lives in this process alone, so that its entry is its number."""

    target = TARGET

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs: list[LoweredProgram] = []

    def identity(self) -> Mapping[str, Any]:
        return {"compiler": COMPILER}

    def source(self, plan: LoweredProgram) -> str:
        return "\n".join(CKernel(kernel, f"k{i}").text for i, kernel in enumerate(plan.kernels()))

    def compile(self, unit: CompilationUnit, plan: LoweredProgram) -> CacheEntry:
        self.programs.append(plan)
        return CacheEntry((), {"number": len(self.programs) - 1})

    def load(self, unit: CompilationUnit, entry: CacheEntry) -> LoadedCode:
        number = entry.facts["number"]
        (folder := self.folder / str(number)).mkdir()
        return CCode(unit, self.programs[number], folder)


class CCode(LoadedCode):
    nbytes = arena = 0

    def __init__(self, unit: CompilationUnit, plan: LoweredProgram, folder: Path) -> None:
        self.unit, self.plan, self.folder = unit, plan, folder

    def executable(self, streams: FileInputs) -> Executable:
        return CExecutable(self.unit.graph, self.unit.resident, CProgram(self.plan, self.folder))

    def at_sizes(self, sizes: Mapping[str, int], arena: AllocateBytes | None) -> Executable:
        raise UnsupportedError("compile: C functions are made for numbers")


class CExecutable(Executable):
    def __init__(self, graph: Graph, resident: tuple[tuple[int, int], ...], program: CProgram) -> None:
        self.graph, self.resident, self.program = graph, resident, program

    def __call__(self, arrays: Sequence[Any]) -> list[NDArray]:
        return self.program(arrays)

    def instance(self, state: Sequence[Any]) -> BoundExecutable:
        return CInstance(self, state)


class CInstance(BoundExecutable):
    trips = 0

    def __init__(self, executable: CExecutable, state: Sequence[Any]) -> None:
        self.executable, self.state = executable, state
        self.given = [i for i, _ in executable.resident]
        self.replaced = [o for _, o in executable.resident]

    def __call__(self, arrays: Sequence[Any], strict: bool = False) -> Sequence[NDArray]:
        rest, held = iter(arrays), dict(zip(self.given, self.state, strict=True))
        inputs = [held[i] if i in held else next(rest) for i in range(len(self.executable.graph.inputs))]
        outputs = self.executable(inputs)
        for memory, o in zip(self.state, self.replaced, strict=True):
            memory[...] = outputs[o]
        return [x for o, x in enumerate(outputs) if o not in self.replaced]

    def stop(self) -> None:
        pass


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CBackend]:
    made = CBackend(tmp_path)
    monkeypatch.setenv("WHOLESTEP_CACHE", "off")
    monkeypatch.setitem(backends.BACKENDS, "c", lambda: made)
    yield made
    assert made.programs, "nothing was compiled for the device"


RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.normal(size=(5, 3)).astype("f"), "b": np.zeros(3, "f")}
BATCH = {"x": RNG.normal(size=(8, 5)).astype("f"), "y": RNG.normal(size=(8, 3)).astype("f")}


def loss(params: Any, batch: Any) -> Any:
    return np.mean((np.tanh(batch["x"] @ params["w"] + params["b"]) - batch["y"]) ** 2)


def test_a_step_trains_on_a_second_device(backend: CBackend) -> None:
    options = {"optimizer": ws.optim.adam(1e-2), "batch": BATCH}
    here, there = (ws.compile(loss, PARAMS, device=device, **options) for device in ("cpu", "c"))
    for _ in range(3):
        assert there(BATCH).loss == pytest.approx(float(here(BATCH).loss), rel=1e-5)
    assert there.attach(loss)(BATCH) == pytest.approx(float(here.attach(loss)(BATCH)), rel=1e-5)
    assert "void k0(" in there.source() and "lowered" not in there.explain()
    assert there.memory.code == 0 and there.cost().flops > 0
    with pytest.raises(UnsupportedError, match="profile: the device 'c' has no clock"):
        there.profile(BATCH)


def test_a_function_on_a_second_device_and_one_that_it_has_no_library_for(backend: CBackend) -> None:
    f = ws.jit(lambda x: np.exp(x).sum(axis=0), device="c")
    np.testing.assert_allclose(f(BATCH["x"]), np.exp(BATCH["x"]).sum(axis=0), rtol=1e-5)
    with pytest.raises(UnsupportedError, match=r"cholesky of f64\[7, 7\] is not compiled"):
        ws.jit(np.linalg.cholesky, device="c")(np.eye(7))
