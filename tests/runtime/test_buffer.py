"""Laws of device memory, for every memory of the CPU."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from wholestep.ir.graph import NDArray
from wholestep.runtime.memory.buffer import HOST, DeviceMemory, FileMemory
from wholestep.runtime.memory.mapped_arrays import is_file_backed

ARRAYS = {
    "scalar": np.array(3.0),
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "columns": np.arange(12, dtype=np.int64).reshape(4, 3).T,
    "strided": np.arange(40, dtype=np.uint8)[::4].reshape(5, 2),
    "empty": np.empty((0, 4), np.complex64),
    "bools": np.array([[True], [False]]),
    "bfloat16": np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16),
    "large": np.arange(1 << 17, dtype=np.float64).reshape(128, 1024),
}


@pytest.fixture(params=["host", "file"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> DeviceMemory[NDArray]:
    found: dict[str, DeviceMemory[NDArray]] = {"host": HOST, "file": FileMemory(tmp_path)}
    return found[request.param]


@pytest.mark.parametrize("name", ARRAYS)
def test_download_returns_what_was_uploaded(memory: DeviceMemory[NDArray], name: str) -> None:
    array = ARRAYS[name]
    buffer = memory.upload(array)
    found = memory.download(buffer)
    for got in (buffer, found):
        assert got.dtype == array.dtype and got.shape == array.shape and got.flags.c_contiguous
        assert got.tobytes() == array.tobytes()
    assert not np.shares_memory(buffer, array) and not np.shares_memory(found, buffer)


@pytest.mark.parametrize("name", ARRAYS)
def test_buffers_are_aligned_and_of_the_shape_asked_for(memory: DeviceMemory[NDArray], name: str) -> None:
    array = ARRAYS[name]
    buffer = memory.allocate(array.shape, array.dtype)
    assert (buffer.shape, buffer.dtype) == (array.shape, array.dtype)
    assert buffer.flags.writeable and (not buffer.nbytes or buffer.ctypes.data % 64 == 0)


@pytest.mark.parametrize("name", [name for name, array in ARRAYS.items() if array.ndim and len(array)])
def test_a_view_shares_the_memory_of_its_row(memory: DeviceMemory[NDArray], name: str) -> None:
    array = ARRAYS[name]
    buffer = memory.upload(array)
    row = memory.view(buffer, len(array) - 1)
    assert np.shares_memory(row, buffer) and row.tobytes() == array[-1].tobytes()
    memory.copy(row, array[0])
    found = memory.download(buffer)
    assert found[-1].tobytes() == array[0].tobytes() and found[:-1].tobytes() == array[:-1].tobytes()


def test_a_view_of_rows_shares_their_memory_and_may_be_placed(memory: DeviceMemory[NDArray]) -> None:
    array = ARRAYS["matrix"]
    buffer = memory.allocate((5, 4), array.dtype)
    rows = memory.view(buffer, slice(1, 4))
    assert rows.shape == array.shape and np.shares_memory(rows, buffer)
    memory.copy(rows, array)
    assert memory.read(memory.place(buffer))[1:4].tobytes() == array.tobytes()


def test_copies_go_between_memories(tmp_path: Path) -> None:
    array, file = ARRAYS["large"], FileMemory(tmp_path)
    on_disk, in_memory = file.upload(array), HOST.allocate(array.shape, array.dtype)
    HOST.copy(in_memory, on_disk)
    assert is_file_backed(on_disk) and not is_file_backed(in_memory)
    assert in_memory.tobytes() == array.tobytes()
