"""Array libraries that run programs: their devices, the transfers of arrays to and from them, and their compilers."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, ClassVar

import numpy as np

from wholestep.errors import DeviceError, MissingExtraError
from wholestep.ir.graph import NDArray

Compiled = Callable[..., Sequence[Any]]
"""Runs a program on arrays of a library."""


class ArrayLibrary(ABC):
    """A library on one of its devices; `place` names that as the library does, and is empty for its own choice."""

    name: ClassVar[str]
    extra: ClassVar[str]
    """The argument of `pip install`."""
    matrix_errors: tuple[type[Exception], ...] = ()
    """The library's own errors for matrices on which a routine fails."""

    def __init__(self, place: str) -> None:
        self.place = place
        try:
            self.module = importlib.import_module(self.name)
        except ImportError:
            raise MissingExtraError(
                f"compile: the device {self.device_name!r} needs {self.name}, which is not installed",
                hint=f"pip install {self.extra}",
            ) from None
        self.device = self.find_device()

    @property
    def device_name(self) -> str:
        """The name that `device=` takes."""
        return f"{self.name}:{self.place}" if self.place else self.name

    @abstractmethod
    def find_device(self) -> Any:
        """The library's object for its device; raises DeviceError where it has no such device."""

    def unknown(self, known: Sequence[str]) -> DeviceError:
        """The error for a place that the library does not have."""
        places = ", ".join([repr(f"{self.name}:{place}") for place in known])
        return DeviceError(f"compile: {self.name} has no device {self.place!r} here", hint=f"it has {places}")

    def scope(self) -> AbstractContextManager[Any]:
        """The context in which the library's arrays are made and programs run."""
        return nullcontext()

    @abstractmethod
    def upload(self, array: NDArray) -> Any:
        """An array of the library's own with the contents of a host array."""

    @abstractmethod
    def download(self, value: Any) -> NDArray:
        """A new host array with the contents of the library's array."""

    @abstractmethod
    def duplicate(self, value: Any) -> Any:
        """A copy in memory of its own."""

    @abstractmethod
    def with_rows(self, value: Any, rows: int | slice, new: Any) -> Any:
        """The array with other rows."""

    @abstractmethod
    def compile(self, function: Compiled, consumed: tuple[int, ...]) -> Compiled:
        """The function compiled by the library; the caller does not reuse the arguments at `consumed` (donation)."""


def kind_and_number(place: str, kind: str = "cpu") -> tuple[str, int]:
    """A kind of device and its number: "gpu:1" is ("gpu", 1), and "1" is number 1 of a kind.

    >>> kind_and_number("gpu:1"), kind_and_number("1"), kind_and_number("gpu")
    (('gpu', 1), ('cpu', 1), ('gpu', 0))
    """
    before, colon, after = place.partition(":")
    if before.isdigit() and not colon:
        return kind, int(before)
    return before or kind, int(after) if after.isdigit() else 0 if not colon else -1


class JaxLibrary(ArrayLibrary):
    """JAX: programs that XLA compiles, with 64-bit numbers independent of JAX's configuration."""

    name = "jax"
    extra = "'jax>=0.9'"

    def find_device(self) -> Any:
        jax = self.module
        if not self.place:
            return jax.devices()[0]
        platform, number = kind_and_number(self.place, jax.devices()[0].platform)
        try:
            return jax.devices(platform)[number if number >= 0 else len(jax.devices(platform))]
        except (RuntimeError, IndexError):
            known = [f"{d.platform}:{d.id}" for d in (*jax.devices(), *jax.devices("cpu"))]
            raise self.unknown(list(dict.fromkeys(known))) from None

    def scope(self) -> AbstractContextManager[Any]:
        found: AbstractContextManager[Any] = self.module.enable_x64(True)
        return found

    def upload(self, array: NDArray) -> Any:
        return self.module.device_put(np.array(array), self.device)

    def download(self, value: Any) -> NDArray:
        return np.array(value)

    def duplicate(self, value: Any) -> Any:
        return value.copy()

    def with_rows(self, value: Any, rows: int | slice, new: Any) -> Any:
        return value.at[rows].set(new)

    def compile(self, function: Compiled, consumed: tuple[int, ...]) -> Compiled:
        jax, device = self.module, self.device
        run = jax.jit(function, donate_argnums=consumed)

        def call(*values: Any) -> Sequence[Any]:
            with jax.default_device(device):
                found: Sequence[Any] = run(*values)
            return found

        return call


class TorchLibrary(ArrayLibrary):
    """PyTorch: programs whose operations run one after another."""

    name = "torch"
    extra = "'wholestep[oracle]'"

    def find_device(self) -> Any:
        torch = self.module
        try:
            device = torch.device(self.place) if self.place else torch.get_default_device()
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError):
            device = None
        # PyTorch takes any number for its one processor.
        if device is None or (device.type == "cpu" and device.index):
            raise self.unknown(["cpu", *[f"cuda:{i}" for i in range(torch.cuda.device_count())]])
        self.matrix_errors = (torch.linalg.LinAlgError,)
        return device

    def scope(self) -> AbstractContextManager[Any]:
        found: AbstractContextManager[Any] = self.module.no_grad()
        return found

    def upload(self, array: NDArray) -> Any:
        torch = self.module
        if array.dtype.name == "bfloat16":
            return torch.tensor(array.view(np.int16), device=self.device).view(torch.bfloat16)
        return torch.tensor(array, device=self.device)

    def download(self, value: Any) -> NDArray:
        value = value.detach().cpu()
        if value.dtype == self.module.bfloat16:
            bits = value.contiguous().view(self.module.int16).numpy()
            return np.array(bits).view(np.dtype("bfloat16"))
        return np.array(value.numpy())

    def duplicate(self, value: Any) -> Any:
        return value.clone()

    def with_rows(self, value: Any, rows: int | slice, new: Any) -> Any:
        made = value.clone()
        made[rows] = new
        return made

    def compile(self, function: Compiled, consumed: tuple[int, ...]) -> Compiled:
        if self.device.type == "cpu":
            return function
        device = self.device

        def call(*values: Any) -> Sequence[Any]:
            with device:
                return function(*values)

        return call


class TensorflowLibrary(ArrayLibrary):
    """TensorFlow: programs as a `tf.function`."""

    name = "tensorflow"
    extra = "'wholestep[tensorflow]'"

    def find_device(self) -> Any:
        devices = self.module.config.list_logical_devices()
        kinds = [d.device_type.lower() for d in devices]
        kind, number = kind_and_number(self.place, "gpu" if "gpu" in kinds else "cpu")
        found = [d for d, own in zip(devices, kinds, strict=True) if own == kind]
        if not 0 <= number < len(found):
            raise self.unknown([f"{own}:{kinds[:i].count(own)}" for i, own in enumerate(kinds)])
        self.matrix_errors = (self.module.errors.InvalidArgumentError,)
        return found[number].name

    def scope(self) -> AbstractContextManager[Any]:
        found: AbstractContextManager[Any] = self.module.device(self.device)
        return found

    def upload(self, array: NDArray) -> Any:
        return self.module.identity(self.module.constant(np.array(array)))

    def download(self, value: Any) -> NDArray:
        return np.array(value.numpy())

    def duplicate(self, value: Any) -> Any:
        return self.module.identity(value)

    def with_rows(self, value: Any, rows: int | slice, new: Any) -> Any:
        begin, end = (rows, rows + 1) if isinstance(rows, int) else rows.indices(value.shape[0])[:2]
        middle = new[None] if isinstance(rows, int) else new
        return self.module.concat([value[:begin], middle, value[end:]], 0)

    def compile(self, function: Compiled, consumed: tuple[int, ...]) -> Compiled:
        found: Compiled = self.module.function(function, autograph=False)
        return found


LIBRARIES: dict[str, type[ArrayLibrary]] = {
    library.name: library for library in (JaxLibrary, TorchLibrary, TensorflowLibrary)
}
"""The libraries that are devices, by name."""


def is_delegate(device: str) -> bool:
    """True for the name of a library, alone or with one of its devices: "jax", "torch:cuda:0".

    >>> is_delegate("jax:cpu:0"), is_delegate("cpu")
    (True, False)
    """
    return device.partition(":")[0] in LIBRARIES


@cache
def library_named(device: str) -> ArrayLibrary:
    """The library and device that a name stands for; raises MissingExtraError or DeviceError if one is missing."""
    name, _, place = device.partition(":")
    return LIBRARIES[name](place)
