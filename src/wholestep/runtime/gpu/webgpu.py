"""The driver of WebGPU devices, by wgpu-py: one heap, one bind group, and launches that are submitted for a read."""

from __future__ import annotations

import weakref
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from wholestep.errors import DeviceError, MissingExtraError, UnsupportedError
from wholestep.ir.graph import NDArray
from wholestep.runtime.gpu.driver import DeviceClock, KernelShape, LockedDriver, MemoryPlace
from wholestep.runtime.gpu.transfers import SideBySide

ALIGNMENT = 256
"""Allocations begin at multiples of this many bytes."""
FIRST_HEAP = 1 << 20
"""The bytes of the first heap; a full one is replaced by one of twice the size."""
ROW = 1024
"""The bytes of a launch's row of words."""
ROWS = 1024
"""The most launches of a submit."""
LIMITS = ("max-storage-buffer-binding-size", "max-buffer-size", "max-compute-workgroup-storage-size")
"""The limits that are requested of a device at the values of its adapter."""
GROUPS = 65_535
"""The most workgroups along one dimension of a launch."""


class HeapBlock:
    """A range of bytes of the heap, which is freed with the last reference to the block."""

    __slots__ = ("__weakref__", "begin", "nbytes")

    def __init__(self, begin: int, nbytes: int) -> None:
        self.begin, self.nbytes = begin, nbytes


class FreeList:
    """The free ranges of a heap as (begin, end), sorted by begin."""

    def __init__(self) -> None:
        self.stretches: list[tuple[int, int]] = []

    def take(self, nbytes: int) -> int | None:
        """Take a range of this many bytes; returns its begin, or None where no free range has them."""
        for i, (begin, end) in enumerate(self.stretches):
            if end - begin >= nbytes:
                self.stretches[i : i + 1] = [(begin + nbytes, end)] if end - begin > nbytes else []
                return begin
        return None

    def give(self, begin: int, end: int) -> None:
        """Free a range, and merge it with its free neighbors."""
        insort(self.stretches, (begin, end))
        joined: list[tuple[int, int]] = []
        for low, high in self.stretches:
            if joined and joined[-1][1] == low:
                joined[-1] = (joined[-1][0], high)
            else:
                joined.append((low, high))
        self.stretches = joined


class WebGPUDriver(LockedDriver):
    """A device, its heap, and the launches that are pending."""

    api = "WebGPU"
    has_doubles = False

    def __init__(self, adapter: Any) -> None:
        import wgpu

        super().__init__()
        self.wgpu, self.adapter = wgpu, adapter
        self.device = adapter.request_device_sync(required_limits={name: adapter.limits[name] for name in LIMITS})
        self.limit = min(adapter.limits["max-storage-buffer-binding-size"], adapter.limits["max-buffer-size"])
        compute, kinds = wgpu.ShaderStage.COMPUTE, wgpu.BufferBindingType
        row = {"type": kinds.uniform, "has_dynamic_offset": True, "min_binding_size": ROW}
        self.layout = self.device.create_bind_group_layout(
            entries=[
                {"binding": 0, "visibility": compute, "buffer": row},
                {"binding": 1, "visibility": compute, "buffer": {"type": kinds.storage}},
            ]
        )
        self.pipelines = self.device.create_pipeline_layout(bind_group_layouts=[self.layout])
        usage = wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST
        self.rows = self.device.create_buffer(size=ROW * ROWS, usage=usage)
        self.waiting: list[tuple[Any, tuple[int, int], NDArray]] = []
        self.free, self.size = FreeList(), 0
        self.heap: Any = None
        self.grow(FIRST_HEAP)

    @contextmanager
    def answered(self, what: str, fate: str = "what it holds is kept") -> Iterator[None]:
        """Convert errors of wgpu into DeviceError, whose message names the request and the fate of its memory."""
        try:
            yield
        except DeviceError:
            raise
        except MemoryError as error:
            raise DeviceError(
                f"device 'webgpu': {self.adapter.info['device']} has no memory for {what}: {error}; {fate}",
                hint="use smaller batches or memory_budget=, or device='cpu'",
            ) from error
        except (RuntimeError, self.wgpu.GPUError) as error:
            raise lost_device(self.adapter, error) from error

    def identity(self) -> Mapping[str, Any]:
        info = self.adapter.info
        return {"name": info["device"], "driver": info["description"], "api": info["backend_type"]}

    # -- memory ------------------------------------------------------------------------------------------------------

    def grow(self, nbytes: int) -> None:
        """Replace the heap by one of `nbytes` bytes with the same contents."""
        self.submit()
        with self.answered(f"a heap of {nbytes:,} bytes"):
            self.replace_heap(nbytes)

    def replace_heap(self, nbytes: int) -> None:
        """Move to a heap of this many bytes; the old heap is kept if the allocation fails."""
        usage = self.wgpu.BufferUsage
        made = self.device.create_buffer(size=nbytes, usage=usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)
        old, self.heap = self.heap, made
        if old is not None:
            encoder = self.device.create_command_encoder()
            encoder.copy_buffer_to_buffer(old, 0, self.heap, 0, self.size)
            self.device.queue.submit([encoder.finish()])
        self.free.give(self.size, nbytes)
        self.size = nbytes
        row = {"buffer": self.rows, "offset": 0, "size": ROW}
        whole = {"buffer": self.heap, "offset": 0, "size": nbytes}
        entries = [{"binding": 0, "resource": row}, {"binding": 1, "resource": whole}]
        self.bound = self.device.create_bind_group(layout=self.layout, entries=entries)

    def allocate(self, nbytes: int) -> Any:
        with self.lock:
            taken = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
            begin = self.free.take(taken)
            while begin is None:
                if self.size >= self.limit:
                    raise DeviceError(
                        f"device 'webgpu': {nbytes:,} bytes are not free: the adapter binds {self.limit:,} bytes "
                        f"at a time",
                        hint="use smaller batches or memory_budget=, or device='cpu'",
                    )
                self.grow(min(max(2 * self.size, self.size + taken), self.limit // ALIGNMENT * ALIGNMENT))
                begin = self.free.take(taken)
            block = HeapBlock(begin, nbytes)
            weakref.finalize(block, self.release, begin, begin + taken)
            return block

    def release(self, begin: int, end: int) -> None:
        """Return bytes to the free list; commands that are already pending use them before any later one."""
        with self.lock:
            self.free.give(begin, end)

    def write(self, place: MemoryPlace, data: NDArray) -> None:
        if not data.size:
            return
        with self.lock:
            self.submit()
            at, low, high = words_around(place, data.size)
            if (low, high) != (at, at + data.size):
                whole = self.words(low, high)
                whole[at - low : at - low + data.size] = data
                data = whole
            with self.answered(f"{data.size:,} bytes on their way"):
                self.device.queue.write_buffer(self.heap, low, np.ascontiguousarray(data))

    def read(self, place: MemoryPlace, data: NDArray) -> None:
        if not data.size:
            return
        with self.lock:
            at, low, high = words_around(place, data.size)
            data[:] = self.words(low, high)[at - low : at - low + data.size]

    def gather(self, places: Sequence[MemoryPlace], arrays: Sequence[NDArray]) -> None:
        with self.lock, self.answered("what is read at once"):
            self.submit()
            ranges = [words_around(place, data.size) for place, data in zip(places, arrays, strict=True)]
            layout = SideBySide.of([high - low for _, low, high in ranges])
            between = self.temporary(layout.nbytes)
            encoder = self.device.create_command_encoder()
            for (_, low, high), begin in zip(ranges, layout.begins, strict=True):
                encoder.copy_buffer_to_buffer(self.heap, low, between, begin, high - low)
            self.device.queue.submit([encoder.finish()])
            parts = layout.parts(self.fetched(between, 0, layout.nbytes))
            for (at, low, _), part, data in zip(ranges, parts, arrays, strict=True):
                data[:] = part[at - low : at - low + data.size]

    def temporary(self, nbytes: int) -> Any:
        """A buffer for copies."""
        usage = self.wgpu.BufferUsage
        return self.device.create_buffer(size=max(nbytes, 4), usage=usage.COPY_SRC | usage.COPY_DST)

    def words(self, low: int, high: int) -> NDArray:
        """The bytes of the heap between two multiples of 4, after all earlier commands."""
        self.submit()
        return self.fetched(self.heap, low, high)

    def fetched(self, buffer: Any, low: int, high: int) -> NDArray:
        """The bytes of a buffer between two multiples of 4."""
        with self.answered(f"{high - low:,} bytes that are read"):
            return np.frombuffer(self.device.queue.read_buffer(buffer, low, high - low), np.uint8).copy()

    def copy(self, target: MemoryPlace, source: MemoryPlace, nbytes: int) -> None:
        to, at = heap_offset(target), heap_offset(source)
        if not nbytes or to == at:
            return
        with self.lock:
            self.submit()
            if to % 4 or at % 4 or nbytes % 4:
                held = np.empty(nbytes, np.uint8)
                self.read(source, held)
                self.write(target, held)
                return
            with self.answered(f"{nbytes:,} bytes that are copied"):
                between = self.temporary(nbytes)
                encoder = self.device.create_command_encoder()
                encoder.copy_buffer_to_buffer(self.heap, at, between, 0, nbytes)
                encoder.copy_buffer_to_buffer(between, 0, self.heap, to, nbytes)
                self.device.queue.submit([encoder.finish()])

    # -- kernels -----------------------------------------------------------------------------------------------------

    def build(self, code: bytes, kernels: Sequence[KernelShape]) -> Sequence[Any]:
        with self.lock:
            try:
                module = self.device.create_shader_module(code=code.decode())
                return [
                    (
                        self.device.create_compute_pipeline(
                            layout=self.pipelines, compute={"module": module, "entry_point": shape.name}
                        ),
                        shape.groups,
                    )
                    for shape in kernels
                ]
            except self.wgpu.GPUError as error:
                name = self.adapter.info["device"]
                raise DeviceError(f"compile: {name} does not take the kernels: {error}") from error

    def clock(self) -> DeviceClock:
        raise UnsupportedError(
            "profile: device 'webgpu' has no clock: wgpu-py gives time stamps without the length of a tick",
            hint="device='cuda' and device='opencl' have clocks",
        )

    def launch(self, kernel: Any, places: Sequence[MemoryPlace]) -> None:
        pipeline, groups = kernel
        if not groups:
            return
        row = np.zeros(ROW // 4, np.uint32)
        row[0] = groups
        row[2 : 2 + len(places)] = list(map(heap_offset, places))
        wide = min(groups, GROUPS)
        with self.lock:
            self.waiting.append((pipeline, (wide, -(-groups // wide)), row))
            if len(self.waiting) == ROWS:
                self.submit()

    def submit(self) -> None:
        """Submit the pending launches in order."""
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, []
        with self.answered("the words of launches", "those launches are lost, and the state of their step"):
            self.device.queue.write_buffer(self.rows, 0, np.concatenate([row for _, _, row in waiting]))
            encoder = self.device.create_command_encoder()
            work = encoder.begin_compute_pass()
            for n, (pipeline, (x, y), _) in enumerate(waiting):
                work.set_pipeline(pipeline)
                work.set_bind_group(0, self.bound, [n * ROW])
                work.dispatch_workgroups(x, y, 1)
            work.end()
            self.device.queue.submit([encoder.finish()])


def heap_offset(place: MemoryPlace) -> int:
    """The offset of a place in the heap."""
    return int(place.handle.begin) + place.offset


def words_around(place: MemoryPlace, nbytes: int) -> tuple[int, int, int]:
    """The offset of some bytes in the heap, and the range of the words that hold them."""
    at = heap_offset(place)
    return at, at & ~3, -(-(at + nbytes) // 4) * 4


def lost_device(adapter: Any, error: Exception) -> DeviceError:
    """The error of a device that no longer responds."""
    return DeviceError(
        f"device 'webgpu': {adapter.info['device']} does not answer: {error}; what it held, the state of steps too, is "
        f"lost",
        hint="drivers reset a device that one kernel keeps busy for seconds: use smaller batches; the process has to "
        "be started again, and a checkpoint loaded",
    )


@cache
def webgpu_driver() -> WebGPUDriver:
    """The driver of the adapter that wgpu-py prefers, a graphics card before others.

    Raises MissingExtraError where wgpu is not installed, DeviceError where there is no adapter.
    """
    try:
        import wgpu
    except ImportError as error:
        raise MissingExtraError(f"device 'webgpu': {error}", hint="pip install 'wholestep[webgpu]'") from None
    try:
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    except RuntimeError as error:
        raise DeviceError(
            f"device 'webgpu': no adapter was found: {error}",
            hint="install the Vulkan driver of the card; Mesa's lavapipe is one for the processor: "
            "apt-get install mesa-vulkan-drivers",
        ) from None
    return WebGPUDriver(adapter)
