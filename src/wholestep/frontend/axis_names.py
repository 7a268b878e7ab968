"""Axis names: the sizes of the named axes of the vmaps that are being traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from wholestep.collectives import communicator_of

_sizes: ContextVar[tuple[tuple[str, Any], ...]] = ContextVar("sizes of the axes of vmap", default=())


@contextmanager
def named_axis(name: str | None, n: Any) -> Iterator[None]:
    """The context in which the function of a vmap is traced, with the name and size of its axis."""
    before = _sizes.set(_sizes.get() if name is None else (*_sizes.get(), (name, n)))
    try:
        yield
    finally:
        _sizes.reset(before)


def surrounding_axes() -> tuple[tuple[str, Any], ...]:
    """The name and the size of each axis around, from the outermost on."""
    return _sizes.get()


def axis_size(name: str, who: str) -> Any:
    """The size of the axis of the innermost vmap with this name, or of a mesh's; UnsupportedError where none has it."""
    for known, n in reversed(_sizes.get()):
        if known == name:
            return n
    return int(communicator_of(name, who).size)
