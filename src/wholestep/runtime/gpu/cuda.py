"""The driver of NVIDIA cards, by the bindings of CUDA: a card's primary context, and one stream in order."""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Protocol

import numpy as np

from wholestep import config
from wholestep.errors import DeviceError
from wholestep.ir.graph import NDArray
from wholestep.runtime.gpu.driver import KernelShape, LockedDriver, MemoryPlace, copied_through
from wholestep.runtime.gpu.modules import CompiledPart, kernel_names, pack_parts, split_module, unpack_parts
from wholestep.runtime.gpu.nvrtc import OPTIONS, MachineCode, cuda_compiler, missing_extra
from wholestep.runtime.gpu.transfers import SideBySide

FULL = "CUDA_ERROR_OUT_OF_MEMORY"
NON_BLOCKING = 1
"""The flag of a stream that does not wait for the default stream, which all libraries share."""
PAGE = 1 << 12
"""The most bytes that are read through pinned memory, such as flags and losses."""
GRAPHS = 256
"""The most graphs that an instance of a program keeps."""
FIRST_MATRICES = 80
"""The first compute capability with matrix units for bfloat16."""
MATRICES = re.compile(r"^ +ws_(multiply|copy)\(", re.MULTILINE)
"""The lines of kernels that only such cards have instructions for."""
MAJOR, MINOR = "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"


class Compiler(Protocol):
    """A compiler of the text of modules."""

    version: tuple[int, ...]

    def compile(self, text: str, architecture: int) -> MachineCode:
        """A module as machine code for a compute capability, 90 for 9.0."""


class CardHandle:
    """A handle of an allocation, a module or a graph of the card, which is released with its last reference."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, handle: Any) -> None:
        self.handle = handle


class CudaDriver(LockedDriver):
    """A card, reached by the calls of the CUDA driver; each returns a tuple whose first element is its status."""

    api, cards = "CUDA", "cards"
    has_doubles = True

    def __init__(self, calls: Any, compiler: Compiler, number: int) -> None:
        super().__init__()
        self.calls, self.compiler, self.number = calls, compiler, number
        self.name = f"the card {number}"
        self.process = os.getpid()
        self.unfreed: list[tuple[str, Any]] | None = None
        """The deferred calls that release unreferenced handles, while launches are captured; None at other times."""
        self.ask("cuInit", 0)
        (count,) = self.ask("cuDeviceGetCount")
        if number >= count:
            raise DeviceError(
                f"device 'cuda:{number}': the driver has {count} card{'s' * (count != 1)}",
                hint=f"cards are numbered from 0: 'cuda:0' to 'cuda:{count - 1}'" if count else NO_CARD_HINT,
            )
        (device,) = self.ask("cuDeviceGet", number)
        (name,) = self.ask("cuDeviceGetName", 128, device)
        self.name = name.split(b"\0")[0].decode(errors="replace")
        major, minor = [
            self.ask("cuDeviceGetAttribute", getattr(calls.CUdevice_attribute, attribute), device)[0]
            for attribute in (MAJOR, MINOR)
        ]
        self.architecture = 10 * major + minor
        (self.context,) = self.ask("cuDevicePrimaryCtxRetain", device)
        with self.entered():
            (self.stream,) = self.ask("cuStreamCreate", NON_BLOCKING)
        self.page = PinnedMemory(self, PAGE)
        """Pinned memory for small reads: a copy to any other memory goes through the driver's own."""

    def ask(self, call: str, *args: Any) -> Sequence[Any]:
        """The results of a call without its status; raises DeviceError where that is an error."""
        answer: Sequence[Any] = getattr(self.calls, call)(*args)
        status = answer[0]
        if status.value:
            raise self.failed(call, status)
        return answer[1:]

    def failed(self, call: str, status: Any) -> DeviceError:
        """The error of a call."""
        if status.name == FULL:
            return DeviceError(
                f"device 'cuda': {self.name} has no memory for this: {call}: {status.name}; what it holds is kept",
                hint="use smaller batches or memory_budget=, or device='cpu'",
            )
        return DeviceError(
            f"device 'cuda': {self.name} does not answer: {call}: {status.name}; what it held, the state of steps "
            "too, may be lost",
            hint="the process has to be started again, and a checkpoint loaded; `wholestep doctor` says what is there",
        )

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Hold the lock, with the card's context current in this thread: another library may have set its own."""
        with self.lock:
            self.ask("cuCtxSetCurrent", self.context)
            yield

    def identity(self) -> Mapping[str, Any]:
        return {"architecture": self.architecture, "compiler": list(self.compiler.version), "options": list(OPTIONS)}

    # -- memory ------------------------------------------------------------------------------------------------------

    def owned(self, handle: Any, call: str) -> CardHandle:
        """A handle that this call releases with its last reference."""
        made = CardHandle(handle)
        weakref.finalize(made, self.release, call, handle).atexit = False
        return made

    def allocate(self, nbytes: int) -> CardHandle:
        with self.entered():
            try:
                (address,) = self.ask("cuMemAlloc", max(nbytes, 1))
            except DeviceError as error:
                raise DeviceError(f"{nbytes:,} bytes: {error}") from error
            return self.owned(int(address), "cuMemFree")

    def release(self, call: str, what: Any) -> None:
        """Release a handle after all earlier commands have ended."""
        if os.getpid() != self.process:
            return
        # A card that has failed refuses the release; the call before has raised its error.
        with suppress(DeviceError), self.entered():
            if self.unfreed is None:
                self.ask("cuStreamSynchronize", self.stream)
                self.ask(call, what)
            else:
                self.unfreed.append((call, what))

    def write(self, place: MemoryPlace, data: NDArray) -> None:
        if data.size:
            with self.entered():
                kept = np.ascontiguousarray(data)
                self.ask("cuMemcpyHtoDAsync", address_of(place), kept.ctypes.data, kept.size, self.stream)
                self.ask("cuStreamSynchronize", self.stream)

    def read(self, place: MemoryPlace, data: NDArray) -> None:
        self.gather([place], [data])

    def gather(self, places: Sequence[MemoryPlace], arrays: Sequence[NDArray]) -> None:
        with self.entered():
            layout = SideBySide.of([data.size for data in arrays])
            small = layout.nbytes <= PAGE
            targets = layout.parts(self.page.room) if small else arrays
            for place, data in zip(places, targets, strict=True):
                if data.size:
                    self.ask("cuMemcpyDtoHAsync", data.ctypes.data, address_of(place), data.size, self.stream)
            self.ask("cuStreamSynchronize", self.stream)
            if small:
                for data, read in zip(arrays, targets, strict=True):
                    data[:] = read

    def staging(self, nbytes: int) -> PinnedMemory:
        return PinnedMemory(self, nbytes)

    def copy(self, target: MemoryPlace, source: MemoryPlace, nbytes: int) -> None:
        if not nbytes or target == source or copied_through(self, target, source, nbytes):
            return
        with self.entered():
            self.ask("cuMemcpyDtoDAsync", address_of(target), address_of(source), nbytes, self.stream)

    # -- kernels -----------------------------------------------------------------------------------------------------

    def compile(self, text: str) -> bytes:
        if self.architecture < FIRST_MATRICES and MATRICES.search(text):
            raise DeviceError(
                f"device 'cuda': {self.name}, of compute capability {self.architecture / 10}, has no matrix units for "
                "bfloat16, by which products of a step with precision='bfloat16' are computed",
                hint="use precision=None or 'float16' there, or a card of compute capability 8.0 or newer",
            )
        texts = split_module(text, config.threads() or os.cpu_count() or 1)
        with ThreadPoolExecutor(len(texts)) as pool:
            codes = pool.map(lambda part: self.compiler.compile(part, self.architecture).cubin, texts)
            return pack_parts([CompiledPart(kernel_names(part), code) for part, code in zip(texts, codes, strict=True)])

    def build(self, code: bytes, kernels: Sequence[KernelShape]) -> Sequence[Any]:
        with self.entered():
            modules: dict[str, CardHandle] = {}
            for part in unpack_parts(code):
                module = self.owned(self.ask("cuModuleLoadData", part.code)[0], "cuModuleUnload")
                modules |= dict.fromkeys(part.names, module)
            return [(self.function(modules[shape.name], shape), *shape[1:], modules[shape.name]) for shape in kernels]

    def function(self, module: CardHandle, shape: KernelShape) -> Any:
        """A kernel of a module that is loaded."""
        (found,) = self.ask("cuModuleGetFunction", module.handle, shape.name.encode())
        if shape.shared:
            most = self.calls.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.ask("cuFuncSetAttribute", found, most, shape.shared)
        return found

    def repeat(self, kept: dict[Any, Any], key: Any, places: Sequence[MemoryPlace], work: Callable[[], None]) -> None:
        """Run `work`, from the second call with a key on as a graph; keys beyond the first `GRAPHS` have no graph."""
        key = key, tuple(map(address_of, places))
        with self.entered():
            if key not in kept:
                work()
                if len(kept) < GRAPHS:
                    kept[key] = None
                return
            if kept[key] is None:
                kept[key] = self.captured(work)
            self.ask("cuGraphLaunch", kept[key].handle, self.stream)

    def captured(self, work: Callable[[], None]) -> CardHandle:
        """The launches and copies of `work`, which do not run, as a graph."""
        self.unfreed = []
        mode = self.calls.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        try:
            self.ask("cuStreamBeginCapture", self.stream, mode)
            try:
                work()
            finally:
                (graph,) = self.ask("cuStreamEndCapture", self.stream)
            (executable,) = self.ask("cuGraphInstantiate", graph, 0)
            self.ask("cuGraphDestroy", graph)
        finally:
            unfreed, self.unfreed = self.unfreed, None
            for call, what in unfreed:
                self.release(call, what)
        return self.owned(executable, "cuGraphExecDestroy")

    def clock(self) -> CudaClock:
        return CudaClock(self)

    def launch(self, kernel: Any, places: Sequence[MemoryPlace]) -> None:
        function, groups, threads, shared, _ = kernel
        if not groups:
            return
        values = np.array([address_of(place) for place in places], np.uint64)
        pointers = np.arange(len(places), dtype=np.uint64) * values.itemsize + values.ctypes.data
        with self.entered():
            self.ask(
                "cuLaunchKernel", function, groups, 1, 1, threads, 1, 1, shared, self.stream, pointers.ctypes.data, 0
            )


class PinnedMemory:
    """Pinned memory of the host, which a card reads without waiting for the host."""

    def __init__(self, driver: CudaDriver, nbytes: int) -> None:
        self.driver = driver
        with driver.entered():
            self.held = driver.owned(int(driver.ask("cuMemHostAlloc", nbytes, 0)[0]), "cuMemFreeHost")
        self.room: NDArray = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(self.held.handle))

    def send(self, place: MemoryPlace, begin: int, end: int) -> None:
        to, source = address_of(place) + begin, self.held.handle + begin
        with self.driver.entered():
            self.driver.ask("cuMemcpyHtoDAsync", to, source, end - begin, self.driver.stream)

    def wait(self) -> None:
        with self.driver.entered():
            self.driver.ask("cuStreamSynchronize", self.driver.stream)


class CudaClock:
    """Events of the card's stream, which are reused once they have been read."""

    def __init__(self, driver: CudaDriver) -> None:
        self.driver = driver
        self.made: list[CardHandle] = []
        self.count = 0
        self.first = self.event()

    def event(self) -> CardHandle:
        """An event."""
        with self.driver.entered():
            return self.driver.owned(self.driver.ask("cuEventCreate", 0)[0], "cuEventDestroy")

    def record(self, event: CardHandle) -> None:
        """Record the time at which the card reaches this position of the stream."""
        with self.driver.entered():
            self.driver.ask("cuEventRecord", event.handle, self.driver.stream)

    def restart(self) -> None:
        self.count = 0
        self.record(self.first)

    def stamp(self) -> None:
        if self.count == len(self.made):
            self.made.append(self.event())
        self.record(self.made[self.count])
        self.count += 1

    def read(self) -> list[float]:
        ask, count, self.count = self.driver.ask, self.count, 0
        with self.driver.entered():
            ask("cuStreamSynchronize", self.driver.stream)
            return [1e6 * ask("cuEventElapsedTime", self.first.handle, x.handle)[0] for x in self.made[:count]]


def address_of(place: MemoryPlace) -> int:
    """The address of a place on the card."""
    return int(place.handle.handle) + place.offset


NO_CARD_HINT = "install the driver of the card; `wholestep doctor` says what was found"


@cache
def cuda_driver(number: int = 0) -> CudaDriver:
    """The driver of the NVIDIA card of a number.

    Raises MissingExtraError where the bindings or NVRTC are not installed, DeviceError where there is no such card.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise missing_extra(error) from None
    compiler = cuda_compiler()
    try:
        return CudaDriver(driver, compiler, number)
    except DeviceError:
        raise
    except RuntimeError as error:  # the bindings look for the driver's library at the first call
        why = str(error).partition("\n")[0]
        raise DeviceError(f"device 'cuda': no card was found: {why}", hint=NO_CARD_HINT) from None
