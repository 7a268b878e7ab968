"""Backends by the names of their devices: the one place where the compiler meets a processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from wholestep.backends.gpu.dispatch_list import DispatchRecorder, GivenScalar
from wholestep.backends.gpu.target import PAGE
from wholestep.lower.target import Target
from wholestep.runtime.backend import Backend
from wholestep.runtime.cpu.backend import exporting_backend, host_backend
from wholestep.runtime.gpu.backend import SPECIAL_FUNCTIONS, cuda_backend, opencl_backend, webgpu_backend

BACKENDS: dict[str, Callable[[], Backend]] = {
    "cpu": host_backend,
    "opencl": opencl_backend,
    "webgpu": webgpu_backend,
    "cuda": cuda_backend,
}
"""The devices that code is made for."""
NUMBERED: dict[str, Callable[[int], Backend]] = {"cuda": cuda_backend}
"""The devices of which a machine may have several, named `cuda:1`."""

DEFAULT_DEVICE = "cpu"
"""The device of a program that names none."""


def backend_maker(device: str) -> Callable[[], Backend] | None:
    """The maker of the backend of a device, None where code is not made for it.

    >>> backend_maker("cpu") is host_backend
    True
    >>> backend_maker("jax")
    """
    kind, _, number = device.partition(":")
    if kind in NUMBERED and number.isdecimal():
        return partial(NUMBERED[kind], int(number))
    return BACKENDS.get(device)


def default_backend() -> Backend:
    """The backend of a program that names no device."""
    return BACKENDS[DEFAULT_DEVICE]()


def processor_backend(name: str) -> Backend:
    """The backend of a processor that objects are exported for; raises UnsupportedError for an unknown one."""
    return exporting_backend(name)


def page_target() -> Target:
    """The target that pages are lowered for, with the functions that no card has a library for."""
    return replace(PAGE, functions=SPECIAL_FUNCTIONS)


def page_recorder(nbytes: int, given: Sequence[tuple[str, str, int]]) -> DispatchRecorder:
    """A recorder of programs in a block of so many bytes; `given` are (path, dtype, address) of scalars."""
    return DispatchRecorder(nbytes, [GivenScalar(*x) for x in given])
