"""The driver of OpenCL devices, by pyopencl: one context and one queue, whose commands run in their order."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from wholestep.errors import DeviceError, MissingExtraError
from wholestep.ir.graph import NDArray
from wholestep.runtime.gpu.driver import KernelShape, LockedDriver, MemoryPlace, copied_through

OPTIONS = ("-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt", "-w")
CHOICE = "PYOPENCL_CTX"
"""The environment variable by which pyopencl chooses a device."""
TRIAL = "__kernel void trial(__global int *x, long offset) { x[offset] = 0; }"
"""A trial kernel, which compiles if the compiler supports the processor: PoCL's may be older than the processor."""


class OpenCLDriver(LockedDriver):
    """A device and its queue."""

    api = "OpenCL"

    def __init__(self, device: Any) -> None:
        import pyopencl

        super().__init__()
        self.cl, self.device = pyopencl, device
        self.context = pyopencl.Context([device])
        self.queue = pyopencl.CommandQueue(self.context)

    def identity(self) -> Mapping[str, Any]:
        device = self.device
        return {"name": device.name, "version": device.version, "driver": device.driver_version}

    @property
    def has_doubles(self) -> bool:
        """True for a device that computes with float64."""
        return "cl_khr_fp64" in self.device.extensions

    def allocate(self, nbytes: int) -> Any:
        with self.lock:
            return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, max(nbytes, 1))

    def write(self, place: MemoryPlace, data: NDArray) -> None:
        if data.size:
            with self.lock:
                self.cl.enqueue_copy(self.queue, place.handle, data, dst_offset=place.offset)

    def read(self, place: MemoryPlace, data: NDArray) -> None:
        if data.size:
            with self.lock:
                self.cl.enqueue_copy(self.queue, data, place.handle, src_offset=place.offset)

    def gather(self, places: Sequence[MemoryPlace], arrays: Sequence[NDArray]) -> None:
        for place, data in zip(places, arrays, strict=True):
            self.read(place, data)

    def copy(self, target: MemoryPlace, source: MemoryPlace, nbytes: int) -> None:
        if not nbytes or target == source or copied_through(self, target, source, nbytes):
            return
        with self.lock:
            (to, at), (source_handle, start) = target, source
            self.cl.enqueue_copy(self.queue, to, source_handle, byte_count=nbytes, src_offset=start, dst_offset=at)

    def build(self, code: bytes, kernels: Sequence[KernelShape]) -> Sequence[Any]:
        with self.lock:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", self.cl.CompilerWarning)  # some compilers say that all went well
                    program = self.cl.Program(self.context, code.decode()).build(list(OPTIONS))
            except self.cl.RuntimeError as error:
                raise DeviceError(f"compile: {self.device.name} does not take the kernels: {error}") from error
            made = []
            for shape in kernels:
                kernel = self.cl.Kernel(program, shape.name)
                count = kernel.num_args // 2
                kernel.set_scalar_arg_dtypes([None, np.int64] * count)
                made.append((kernel, (shape.groups * shape.threads,), (shape.threads,)))
            return made

    def clock(self) -> OpenCLClock:
        return OpenCLClock(self)

    def launch(self, kernel: Any, places: Sequence[MemoryPlace]) -> None:
        function, items, group = kernel
        if items == (0,):
            return
        with self.lock:
            function(self.queue, items, group, *[part for place in places for part in place])


class OpenCLClock:
    """Markers in the queue, which from then on is one that keeps times."""

    def __init__(self, driver: OpenCLDriver) -> None:
        self.driver, cl = driver, driver.cl
        self.marks: list[Any] = []
        with driver.lock:
            driver.queue.finish()
            driver.queue = cl.CommandQueue(driver.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
            self.first = cl.enqueue_marker(driver.queue)

    def restart(self) -> None:
        self.marks.clear()
        with self.driver.lock:
            self.first = self.driver.cl.enqueue_marker(self.driver.queue)

    def stamp(self) -> None:
        with self.driver.lock:
            self.marks.append(self.driver.cl.enqueue_marker(self.driver.queue))

    def read(self) -> list[float]:
        with self.driver.lock:
            self.driver.queue.finish()
            begin = self.first.profile.end
            times = [float(mark.profile.end - begin) for mark in self.marks]
        self.marks.clear()
        return times


@cache
def opencl_driver() -> OpenCLDriver:
    """The driver of the device that PYOPENCL_CTX names, else of the first that compiles, graphics cards before others.

    Raises MissingExtraError where pyopencl is not installed, DeviceError where no device compiles kernels.
    """
    try:
        import pyopencl
    except ImportError as error:
        raise MissingExtraError(
            f"device 'opencl': {error}", hint="pip install 'wholestep[opencl]', which brings a device on the CPU"
        ) from None
    try:
        if os.environ.get(CHOICE):
            devices = pyopencl.create_some_context(interactive=False).devices[:1]
        else:
            devices = [device for platform in pyopencl.get_platforms() for device in platform.get_devices()]
    except pyopencl.Error as error:
        raise no_device(str(error)) from None
    why = "no platform has one"
    for device in sorted(devices, key=lambda d: not d.type & pyopencl.device_type.GPU):
        driver = OpenCLDriver(device)
        try:
            driver.build(TRIAL.encode(), [KernelShape("trial", 1, 1)])
        except DeviceError as error:
            lines = str(error.__cause__).splitlines()
            why = f"{device.name}: {next((line for line in lines if 'error:' in line), lines[0])}"
        else:
            return driver
    raise no_device(why)


def no_device(why: str) -> DeviceError:
    """The error of a machine without an OpenCL device."""
    return DeviceError(
        f"device 'opencl': no device was found that runs kernels: {why}",
        hint="install the driver of your card, or `pip install 'wholestep[opencl]'` for a device on the CPU; "
        "a PoCL that is older than the processor cannot compile for it, a newer one comes with the system's packages",
    )
