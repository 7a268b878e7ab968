"""A device with memory of its own: resident buffers of a step are uploaded once, and every bit is the CPU's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.compiler import backends
from wholestep.ir.graph import NDArray
from wholestep.lower.compilation_unit import CompilationUnit
from wholestep.runtime.backend import AllocateBytes, LoadedCode
from wholestep.runtime.cache.private_folder import CacheEntry
from wholestep.runtime.cpu.backend import CpuBackend
from wholestep.runtime.executable import BoundExecutable, Executable, UnfitArguments
from wholestep.runtime.memory import mapped_arrays
from wholestep.runtime.memory.buffer import HOST, DeviceMemory
from wholestep.runtime.memory.mapped_arrays import FileInputs


class DistantBuffer:
    """A handle on memory that the host cannot address: it has a shape and a dtype, and is no array."""

    __slots__ = ("_contents", "dtype", "nbytes", "shape")

    def __init__(self, contents: NDArray) -> None:
        self._contents = contents
        self.shape, self.dtype, self.nbytes = contents.shape, contents.dtype, contents.nbytes

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray:
        raise AssertionError("a buffer of a device is used as a host array")


class DistantMemory:
    """Memory behind handles; `moved` counts the transfers."""

    def __init__(self) -> None:
        self.moved: Counter[str] = Counter()

    def allocate(self, shape: Sequence[int], dtype: Any) -> DistantBuffer:
        return DistantBuffer(HOST.allocate(shape, dtype))

    def upload(self, array: NDArray) -> DistantBuffer:
        self.moved["up"] += 1
        return DistantBuffer(HOST.upload(array))

    place = upload

    def download(self, buffer: DistantBuffer) -> NDArray:
        self.moved["down"] += 1
        return HOST.download(contents(buffer))

    read = download

    def view(self, buffer: DistantBuffer, rows: int | slice) -> DistantBuffer:
        return DistantBuffer(HOST.view(contents(buffer), rows))

    def copy(self, target: DistantBuffer, source: DistantBuffer | NDArray) -> None:
        self.moved["up"] += isinstance(source, np.ndarray)
        HOST.copy(contents(target), source if isinstance(source, np.ndarray) else contents(source))


def contents(buffer: DistantBuffer) -> NDArray:
    assert isinstance(buffer, DistantBuffer), "a host array is used as a buffer of a device"
    return buffer._contents


def launched(arrays: Sequence[Any]) -> list[NDArray]:
    """The operands of a launch as arrays: some are on the device, and others in files or in a batch."""
    return [contents(x) if isinstance(x, DistantBuffer) else x for x in arrays]


class DistantBackend(CpuBackend):
    """A backend with memory of its own and the code of the CPU."""

    def __init__(self, memory: DeviceMemory[DistantBuffer]) -> None:
        super().__init__(host_target())
        self.memory = memory

    def load(self, unit: CompilationUnit, entry: CacheEntry) -> DistantCode:  # type: ignore[override]
        return DistantCode(super().load(unit, entry))


class DistantCode(LoadedCode):
    def __init__(self, own: LoadedCode) -> None:
        self.own, self.nbytes, self.arena = own, own.nbytes, own.arena

    def executable(self, streams: FileInputs) -> Executable:
        return DistantProgram(self.own.executable(streams))

    def at_sizes(self, sizes: Mapping[str, int], arena: AllocateBytes | None) -> Executable:
        return DistantProgram(self.own.at_sizes(sizes, arena))


class DistantProgram(Executable):
    """A program of the CPU whose operands are handles."""

    def __init__(self, program: Executable) -> None:
        self.program, self.graph, self.resident = program, program.graph, program.resident

    def __call__(self, arrays: Sequence[Any]) -> list[NDArray]:
        return self.program(launched(arrays))

    def instance(self, state: Sequence[Any]) -> BoundExecutable:
        return DistantInstance(self.program.instance(launched(state)), state)


class DistantInstance(BoundExecutable):
    def __init__(self, own: BoundExecutable, state: Sequence[Any]) -> None:
        self.own, self.state = own, state

    def __call__(self, arrays: Sequence[Any], strict: bool = False) -> Sequence[NDArray]:
        if strict:
            raise UnfitArguments
        return self.own(launched(arrays))

    def stop(self) -> None:
        self.own.stop()

    @property
    def trips(self) -> int:
        return self.own.trips


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> DistantMemory:
    made = DistantMemory()
    checked: DeviceMemory[DistantBuffer] = made
    backend = DistantBackend(checked)
    monkeypatch.setitem(backends.BACKENDS, "distant", lambda: backend)
    return made


LAYERS, WIDTH, ROWS = 3, 6, 20
RNG = np.random.default_rng(0)
PARAMS = {
    "layers": [{"w": RNG.normal(size=(WIDTH, WIDTH)) / 3, "b": np.zeros(WIDTH)} for _ in range(LAYERS)],
    "scale": np.array(1.5),
}
DATA = {"x": RNG.normal(size=(ROWS, WIDTH)), "y": RNG.normal(size=ROWS)}
BATCH = {name: x[:4] for name, x in DATA.items()}


def predicted(params: Any, x: Any) -> Any:
    for layer in params["layers"]:
        x = np.tanh(x @ layer["w"] + layer["b"])
    return params["scale"] * x.sum(axis=1)


def loss(params: Any, batch: Any) -> Any:
    return np.mean((predicted(params, batch["x"]) - batch["y"]) ** 2)


def made(device: str, **options: Any) -> Any:
    optimizer = ws.optim.ema(ws.optim.adam(1e-2), 0.9)
    return ws.compile(loss, PARAMS, optimizer=optimizer, batch=BATCH, device=device, key=1, **options)


def state_of(step: Any) -> list[bytes]:
    return [x.tobytes() for x in ws.tree.leaves(step.state)]


def steps() -> tuple[Any, Any]:
    """The same step on the CPU and on the device."""
    return made("cpu"), made("distant")


def test_steps_on_the_device_have_the_bits_of_the_cpu(memory: DistantMemory) -> None:
    here, there = steps()
    memory.moved.clear()
    for _ in range(3):
        assert here(BATCH).loss == there(BATCH).loss
    assert memory.moved["up"] == 0, "the state stays on the device"
    assert state_of(here) == state_of(there)


def test_resident_data_is_uploaded_once_for_all_epochs(memory: DistantMemory) -> None:
    here, there = steps()
    there(BATCH), here(BATCH)
    memory.moved.clear()
    results = [step.run(DATA, epochs=3, batch_size=4) for step in (here, there)]
    assert memory.moved["up"] == len(DATA)
    assert results[0].losses.tobytes() == results[1].losses.tobytes() and state_of(here) == state_of(there)


def test_an_attached_function_reads_parameters_on_the_device(memory: DistantMemory) -> None:
    here, there = steps()
    attached = [step.attach(lambda params, batch: predicted(params, batch["x"])) for step in (here, there)]
    for _ in range(2):
        here(BATCH), there(BATCH)
        memory.moved.clear()
        assert attached[0](DATA).tobytes() == attached[1](DATA).tobytes()
        assert not memory.moved.total(), "nothing but the batch goes there"


def test_an_optimizer_that_begins_row_by_row_keeps_the_rest_on_the_device(
    memory: DistantMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_arrays, "CHUNK_BYTES", 2 * 8 * WIDTH)
    plain = made("cpu")
    there = made("distant", stream="layers*w", folder=tmp_path)
    kinds = [mapped_arrays.is_file_backed(x) for x in there._engine.state.arrays]
    assert kinds.count(True) == 4 * LAYERS, "a weight, both of its moments and its mean"
    assert all(isinstance(x, np.ndarray) == filed for x, filed in zip(there._engine.state.arrays, kinds, strict=True))
    for _ in range(2):
        assert plain(BATCH).loss == there(BATCH).loss
    there.save(tmp_path / "a.safetensors")
    there(BATCH)
    there.load(tmp_path / "a.safetensors")
    assert state_of(plain) == state_of(there)


@pytest.mark.parametrize("saver", [0, 1])
def test_checkpoints_go_from_one_device_to_the_other(memory: DistantMemory, saver: int, tmp_path: Path) -> None:
    both = steps()
    for _ in range(2):
        both[saver](BATCH)
    both[saver].save(tmp_path / "a.safetensors")
    memory.moved.clear()
    both[1 - saver].load(tmp_path / "a.safetensors")
    if saver == 0:
        parts = len(ws.tree.leaves(both[1].state))
        assert memory.moved["up"] == parts
    assert state_of(both[0]) == state_of(both[1])
    assert both[0](BATCH).loss == both[1](BATCH).loss
    memory.moved.clear()
    both[1].load(tmp_path / "a.safetensors", only="params")
    assert memory.moved == {"up": len(ws.tree.leaves(PARAMS))}, "what stays is not moved"
