"""Backends by the names of their devices: the one place where the compiler meets a processor."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.runtime.backend import Backend
from wholestep.runtime.cpu.backend import exporting_backend, host_backend
from wholestep.runtime.gpu.backend import opencl_backend, webgpu_backend

BACKENDS: dict[str, Callable[[], Backend]] = {
    "cpu": host_backend,
    "opencl": opencl_backend,
    "webgpu": webgpu_backend,
}
"""The devices that code is made for."""

DEFAULT_DEVICE = "cpu"
"""The device of a program that names none."""


def default_backend() -> Backend:
    """The backend of a program that names no device."""
    return BACKENDS[DEFAULT_DEVICE]()


def processor_backend(name: str) -> Backend:
    """The backend of a processor that objects are exported for; raises UnsupportedError for an unknown one."""
    return exporting_backend(name)
