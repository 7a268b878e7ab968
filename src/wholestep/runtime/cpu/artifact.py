"""Artifacts: machine code and its memory layout, which the compiler passes to the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from wholestep.collectives import failed
from wholestep.dims import Size, substitute
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type, array_type
from wholestep.runtime.cpu.collective_calls import take_raised
from wholestep.runtime.error_sites import ErrorSite
from wholestep.runtime.memory.aligned import aligned_empty

SlotKind = Literal["arena", "constant", "input", "output", "file", "sizes"]


@dataclass(frozen=True, slots=True)
class TableSlot:
    """One entry of the table of base pointers."""

    kind: SlotKind
    dtype: np.dtype[Any]
    shape: tuple[Any, ...]
    nbytes: Any

    @property
    def type(self) -> Type:
        """The slot as an array."""
        return array_type(self.shape, self.dtype)


def raised_error(site: ErrorSite, value: int, axis: int, size: int) -> Exception:
    """The error of a site; of a collective that has failed in this thread, an interruption passes as it is."""
    if site.kind != "collective":
        return site.error(value, axis, size)
    cause = take_raised()
    if cause is not None and not isinstance(cause, Exception):
        raise cause
    return failed(site.text(value, axis, size), cause, site.where)


@dataclass(frozen=True, slots=True)
class Artifact:
    """Compiled code and its memory layout.

    `inputs` and `outputs` name the slot of each input and output of the graph, and no two outputs have the same; one
    that replaces a resident input may have the input's slot, and points to the same memory in any case. The arena,
    the constants and the outputs of an instance begin at multiples of 64 bytes; inputs, resident arrays and the outputs
    of a plain call are only aligned to their elements.
    """

    objects: tuple[bytes, ...]
    entry: str
    slots: tuple[TableSlot, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[NDArray, ...] = ()
    constant_offsets: tuple[int, ...] = ()
    """The offset of each constant in the one slot of the kind "constant"."""
    symbols: tuple[str, ...] = ()
    """The external functions of the code: names for `resolve_symbol`, by which they are also linked."""
    sizes: tuple[Size, ...] = ()
    """The table of sizes: numbers, or expressions that `at_sizes` puts numbers for."""
    sites: tuple[ErrorSite, ...] = ()
    resident: tuple[tuple[int, int], ...] = ()
    undone: bool = False
    """True if the code may fail after it has written resident memory, so that an instance must restore it."""
    parallel: bool = False
    """True if the code calls `ws_parallel`."""
    streamed: bool = False
    """True if the code queues prefetch requests for the parts of files that it will read."""
    microseconds: float = 1e9
    """The predicted time of a run, which determines the way in which it is called."""

    def places(self, kind: SlotKind) -> tuple[int, ...]:
        """The numbers of the slots of a kind, in order."""
        return tuple(place for place, slot in enumerate(self.slots) if slot.kind == kind)

    def pool_of_constants(self, place: int) -> NDArray:
        """The constants at the offsets that the code expects, as read-only bytes."""
        blob = aligned_empty((self.slots[place].nbytes,), np.uint8)
        for at, array in zip(self.constant_offsets, self.constants, strict=True):
            if array.nbytes:
                blob[at : at + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        blob.flags.writeable = False
        return blob

    def pooled(self, pools: Mapping[int, NDArray]) -> Artifact:
        """The artifact with constants that are views of their pool, so that they are in memory once."""
        if not self.constants:
            return self
        (blob,) = pools.values()
        lying = [
            blob[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
            for at, array in zip(self.constant_offsets, self.constants, strict=True)
        ]
        return replace(self, constants=tuple(lying))

    def at_sizes(self, sizes: Mapping[str, int]) -> Artifact:
        """The artifact with numbers for its symbolic sizes."""

        def slot(s: TableSlot) -> TableSlot:
            shape = tuple([substitute(n, sizes) for n in s.shape])
            return replace(s, shape=shape, nbytes=substitute(s.nbytes, sizes))

        numbers = tuple([substitute(n, sizes) for n in self.sizes])
        return replace(self, slots=tuple([slot(s) for s in self.slots]), sizes=numbers)
