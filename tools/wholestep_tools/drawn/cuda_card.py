"""A card of NVIDIA's without one: the calls of its driver, recorded and checked, on kernels that g++ compiles."""

from __future__ import annotations

import ctypes
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.target import CUDA
from wholestep.compiler.backends import BACKENDS
from wholestep.errors import DeviceError, MissingExtraError
from wholestep.runtime.gpu.backend import CardBackend
from wholestep.runtime.gpu.cuda import CudaDriver
from wholestep.runtime.gpu.driver import MemoryPlace
from wholestep.runtime.gpu.nvrtc import MachineCode
from wholestep_tools.drawn.cuda_cpp import KernelFunction, loaded

GUARD = 64
"""Bytes before and behind an allocation that nobody may write."""
SUCCESS = SimpleNamespace(value=0, name="CUDA_SUCCESS")


class CardCalls:
    """The calls of the CUDA driver, with the signatures of its bindings: each is checked and recorded.

    The work of a stream is deferred until a call waits for the stream, and then reads the current contents of pinned
    host memory.
    """

    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor"
    )

    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared")

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")

    def __init__(self, backward: bool = False) -> None:
        self.backward, self.graphs = backward, 0
        self.log: list[tuple[Any, ...]] = []
        self.failing: dict[str, str] = {}
        self.blocks: dict[int, Any] = {}
        self.context: Any = None
        self.captured: list[Callable[[], None]] | None = None
        self.waiting: list[Callable[[], None]] = []
        self.pinned: dict[int, Any] = {}

    def __getattr__(self, call: str) -> Any:
        answer = getattr(type(self), f"on_{call}", None)
        if answer is None:
            raise AttributeError(call)

        def recorded(*args: Any) -> tuple[Any, ...]:
            self.log.append((call, *args))
            if call in self.failing:
                return (SimpleNamespace(value=2, name=self.failing[call]),)
            given = answer(self, *args)
            return (SUCCESS,) if given is None else (SUCCESS, given)

        return recorded

    def names(self) -> list[str]:
        """The calls that were made, without those that every one begins with."""
        return [name for name, *_ in self.log if name != "cuCtxSetCurrent"]

    def on_cuInit(self, flags: int) -> None:
        assert flags == 0

    def on_cuDeviceGetCount(self) -> int:
        return 2

    def on_cuDeviceGet(self, number: int) -> Any:
        return ("card", number)

    def on_cuDeviceGetName(self, length: int, device: Any) -> bytes:
        return b"a processor in the place of a card\0\0"[:length]

    def on_cuDeviceGetAttribute(self, attribute: str, device: Any) -> int:
        return {"major": 9, "minor": 0}[attribute]

    def on_cuDevicePrimaryCtxRetain(self, device: Any) -> Any:
        return ("context", device)

    def on_cuCtxSetCurrent(self, context: Any) -> None:
        assert context[0] == "context"
        self.context = context

    def on_cuStreamCreate(self, flags: int) -> Any:
        assert self.context and flags == 1
        return "stream"

    def on_cuStreamSynchronize(self, stream: Any) -> None:
        assert self.captured is None
        self.ordered(stream)
        waiting, self.waiting = self.waiting, []
        for work in waiting:
            work()

    def ordered(self, stream: Any) -> None:
        """Check that a call is of the card's stream, in a context."""
        assert self.context and stream == "stream"

    def on_cuMemAlloc(self, nbytes: int) -> int:
        assert self.context and nbytes > 0 and self.captured is None
        held = np.full(nbytes + 2 * GUARD + 256, 0xA5, np.uint8)
        address = -(-(held.ctypes.data + GUARD) // 256) * 256
        self.blocks[address] = (nbytes, held)
        return address

    def on_cuMemHostAlloc(self, nbytes: int, flags: int) -> int:
        assert self.context and nbytes > 0 and flags == 0 and self.captured is None
        held = np.full(nbytes, 0xA5, np.uint8)
        self.pinned[held.ctypes.data] = held
        return int(held.ctypes.data)

    def on_cuMemFreeHost(self, address: int) -> None:
        assert self.context and self.captured is None and not self.waiting
        del self.pinned[address]

    def is_pinned(self, address: int, nbytes: int) -> bool:
        """Test whether bytes of the host lie in pinned memory."""
        return any(at <= address and address + nbytes <= at + held.size for at, held in self.pinned.items())

    def on_cuMemFree(self, address: int) -> None:
        assert self.context and self.captured is None and not self.waiting
        self.check_guards(address)
        del self.blocks[address]

    def check_guards(self, address: int) -> None:
        """Check that nobody wrote beside an allocation."""
        nbytes, held = self.blocks[address]
        begin = address - held.ctypes.data
        beside = np.concatenate([held[:begin], held[begin + nbytes :]])
        assert (beside == 0xA5).all(), f"bytes beside an allocation of {nbytes} were written"

    def check_place(self, address: int, nbytes: int) -> None:
        """Check that bytes lie in one allocation."""
        starts = sorted(self.blocks)
        i = bisect_right(starts, address) - 1
        assert i >= 0, f"{address:#x} is before all allocations"
        size = self.blocks[starts[i]][0]
        assert address + nbytes <= starts[i] + size, f"{nbytes} bytes at {address - starts[i]} of {size}"

    def on_cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        self.ordered(stream)
        self.check_place(target, nbytes)
        kept = None if self.is_pinned(source, nbytes) else ctypes.string_at(source, nbytes)
        self.later(lambda: ctypes.memmove(target, source if kept is None else kept, nbytes))

    def on_cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        self.ordered(stream)
        self.check_place(source, nbytes)
        self.later(lambda: ctypes.memmove(target, source, nbytes))
        if not self.is_pinned(target, nbytes):
            self.on_cuStreamSynchronize(stream)

    def on_cuEventCreate(self, flags: int) -> list[float]:
        assert self.context and flags == 0
        return []

    def on_cuEventRecord(self, event: list[float], stream: Any) -> None:
        self.ordered(stream)
        assert self.captured is None
        self.later(lambda: event.__setitem__(slice(None), [time.perf_counter()]))

    def on_cuEventElapsedTime(self, first: list[float], second: list[float]) -> float:
        assert first and second, "an event that was not recorded has no time"
        return 1e3 * (second[0] - first[0])

    def on_cuEventDestroy(self, event: list[float]) -> None:
        assert self.context
        event.clear()

    def later(self, work: Callable[[], Any]) -> None:
        """Append work to the captured graph, or to the stream's queue until a call waits for it."""
        (self.waiting if self.captured is None else self.captured).append(work)

    def on_cuStreamBeginCapture(self, stream: Any, mode: str) -> None:
        self.ordered(stream)
        assert mode == "relaxed" and self.captured is None
        self.captured = []

    def on_cuStreamEndCapture(self, stream: Any) -> Any:
        assert self.captured is not None
        made, self.captured = self.captured, None
        return ("graph", made)

    def on_cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        assert graph[0] == "graph" and flags == 0
        self.graphs += 1
        return ("executable", tuple(graph[1]))

    def on_cuGraphDestroy(self, graph: Any) -> None:
        graph[1].clear()

    def on_cuGraphExecDestroy(self, executable: Any) -> None:
        assert executable[0] == "executable"
        self.graphs -= 1

    def on_cuGraphLaunch(self, executable: Any, stream: Any) -> None:
        self.ordered(stream)
        assert executable[0] == "executable" and self.captured is None
        self.waiting += executable[1]

    def on_cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        self.ordered(stream)
        self.check_place(target, nbytes)
        self.check_place(source, nbytes)
        assert abs(target - source) >= nbytes, "the card does not copy between places that overlap"
        self.later(lambda: self.copied(target, source, nbytes))

    def copied(self, target: int, source: int, nbytes: int) -> None:
        """Copy between allocations that are still there."""
        self.check_place(target, nbytes)
        self.check_place(source, nbytes)
        ctypes.memmove(target, source, nbytes)

    def on_cuModuleLoadData(self, code: bytes) -> dict[str, KernelFunction]:
        assert self.context
        return loaded(code.decode())

    def on_cuModuleUnload(self, module: dict[str, KernelFunction]) -> None:
        assert self.context and self.captured is None

    def on_cuModuleGetFunction(self, module: dict[str, KernelFunction], name: bytes) -> KernelFunction:
        return module[name.decode()]

    def on_cuFuncSetAttribute(self, function: KernelFunction, attribute: str, nbytes: int) -> None:
        assert attribute == "shared" and 48 << 10 < nbytes <= 227 << 10
        function.shared = nbytes

    def on_cuLaunchKernel(self, function: KernelFunction, *args: Any) -> None:
        x, y, z, threads, wide, high, shared, stream, given, extra = args
        self.ordered(stream)
        assert 0 < x < 1 << 31 and (y, z, wide, high, extra) == (1, 1, 1, 1, 0)
        assert shared == function.shared
        assert threads == function.threads
        count = len(function.parameters)
        values = [ctypes.c_uint64.from_address(at).value for at in (ctypes.c_uint64 * count).from_address(given)]
        self.later(lambda: self.launched(function, values, x, threads))

    def launched(self, function: KernelFunction, values: Sequence[int], groups: int, threads: int) -> None:
        """Run a kernel on places in allocations that are still there."""
        count = len(values)
        for address in values:
            self.check_place(address, 0)
        assert function.run((ctypes.c_uint64 * count)(*values), groups, threads, int(self.backward)), (
            f"{function.name}: a barrier that only some threads reach"
        )


class TextCompiler:
    """The compiler of a card whose code is text."""

    version: tuple[int, ...] = (0, 0)

    def compile(self, text: str, architecture: int) -> MachineCode:
        assert architecture == 90
        return MachineCode(text.encode(), "")


class CheckedDriver(CudaDriver):
    """The driver, which looks at the number of arguments of each launch."""

    def launch(self, kernel: Any, places: Sequence[MemoryPlace]) -> None:
        assert len(places) == len(kernel[0].parameters), kernel[0].name
        super().launch(kernel, places)


def card_without_one(backward: bool = False) -> CardBackend:
    """A backend for a card that this machine does not have; groups and threads run from the last one if `backward`."""
    return CardBackend(CUDA, Cuda(), CheckedDriver(CardCalls(backward), TextCompiler(), 0))


@contextmanager
def offered(backward: bool = False) -> Iterator[CudaDriver]:
    """Have `device="cuda"` be a card without one, where this machine has none; the driver of the device."""
    kept = BACKENDS["cuda"]
    try:
        found = kept()
    except (DeviceError, MissingExtraError):
        found = card_without_one(backward)
    assert isinstance(found, CardBackend) and isinstance(found.driver, CudaDriver)
    BACKENDS["cuda"] = lambda: found
    try:
        yield found.driver
    finally:
        BACKENDS["cuda"] = kept
