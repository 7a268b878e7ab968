"""The state that a step owns: resident buffers, read as copies and written only through their types."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import dtypes, tree
from wholestep.errors import DtypeError, ParameterError
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.tracing import PLAIN, entry_hint, type_of
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type
from wholestep.runtime.memory import mapped_arrays
from wholestep.runtime.memory.aligned import aligned_zeros
from wholestep.runtime.memory.buffer import HOST, DeviceMemory, FileMemory, memory_for
from wholestep.runtime.memory.mapped_arrays import FileInputs
from wholestep.train.state.batch_signature import BatchSignature
from wholestep.train.state.beginning import GivenArray, given_array
from wholestep.train.state.loss_scaling import Scaling
from wholestep.train.state.offloaded_state import OffloadedState
from wholestep.train.state.state_arrays import holds_zeros, is_unshared
from wholestep.words import type_in_words

STATE_PARTS = ("params", "buffers", "optimizer", "counters")
RESET_PARTS = ("params", "buffers", "counters")
"""The parts whose initial values are kept for `reset`; the optimizer makes its initial state anew."""

MAX_STEPS = 2**62
"""The largest step counter of a loaded state; no number of real steps from there on reaches 2**63, where it wraps."""


def uploaded(memory: DeviceMemory[Any], path: str, leaf: Any) -> Any:
    """An array of the state in the memory of a device; an error of the device names it."""
    kind = type_of(leaf)
    with memory_for(path, kind):
        return memory.upload(np.asarray(leaf, kind.dtype))


class State:
    """A dictionary of params, buffers, optimizer and counters, in device memory that programs write in place."""

    def __init__(
        self,
        parts: dict[str, Any],
        stream: OffloadedState | None = None,
        folder: Path | None = None,
        memory: DeviceMemory[Any] = HOST,
    ) -> None:
        streamed = frozenset() if stream is None else stream.paths(parts)
        structure, leaves, paths = tree.structure(parts), tree.leaves(parts), tree.paths(parts)
        files = FileMemory(folder)
        owned = [
            leaves[i]
            if memory is HOST and path.startswith("optimizer") and path not in streamed and is_unshared(leaves, i)
            else uploaded(files if path in streamed else memory, path, leaves[i])
            for i, path in enumerate(paths)
        ]
        self.folder, self.memory, self.count = folder, memory, len(owned)
        self.tree: dict[str, Any] = {}
        self.lay_out(structure, owned)
        self.given = {
            path: given_array(path, leaves[i])
            for i, path in enumerate(paths)
            if not path.startswith("optimizer") and path not in streamed
        }
        """The records of large arrays, by path, instead of copies."""
        self.initial: dict[str, Any] | None = None
        """The initial parameters, buffers and counters, copied before the first change; None until then."""
        if streamed:
            self.keep()  # so that a lack of space on the disk is found at once
        types = tree.map(lambda buffer: ShapeDtype(buffer.shape, buffer.dtype), self.tree)
        self.signatures = {name: BatchSignature(types[name], name, "state") for name in STATE_PARTS}
        self.stacks: dict[tuple[int, ...], Any] | None = None
        """Arrays of isomorphic layers stacked into one, by their places in `arrays`; None until they are stacked."""

    def keep(self) -> None:
        """Copy the initial state once; every method that changes the state calls this first."""
        if self.initial is None:
            self.initial = {name: self.first(name) for name in RESET_PARTS}

    def first(self, name: str) -> Any:
        """A part of the state before any change: copies, and the records of large arrays."""
        structure, held = self.held[name]
        paths = tree.paths(self.tree[name], name)
        pairs = zip(paths, held, strict=True)
        return tree.unflatten(structure, [self.given.get(path) or memory.download(x) for path, (memory, x) in pairs])

    def beginning(self) -> dict[str, Any]:
        """The initial parts of the state; raises ParameterError where the caller has changed one of its arrays."""
        self.keep()
        found: dict[str, Any] = tree.map(lambda x: x.unchanged() if isinstance(x, GivenArray) else x, self.initial)
        return found

    @property
    def arrays(self) -> list[Any]:
        """The resident buffers, in the order in which a program takes them."""
        return tree.leaves(self.tree)

    def may_stack(self, places: tuple[int, ...]) -> bool:
        """True where a program may take these arrays as one array; the first program decides on the stacks."""
        return max(places) < self.count if self.stacks is None else places in self.stacks

    def stack(self, groups: Sequence[tuple[int, ...]]) -> None:
        """Make the arrays of each group rows of one array; only the first call has an effect."""
        if self.stacks is not None:
            return
        arrays, paths, self.stacks = self.arrays, tree.paths(self.tree), {}
        for places in groups:
            row = arrays[places[0]]
            shape = (len(places), *row.shape)
            blank = self.memory is HOST and all([holds_zeros(arrays[p]) for p in places])
            with memory_for(f"the layers of {paths[places[0]]} as one array", ShapeDtype(shape, row.dtype)):
                stacked = aligned_zeros(shape, row.dtype) if blank else self.memory.allocate(shape, row.dtype)
            self.stacks[places] = stacked
            for k, p in enumerate(places):
                view = self.memory.view(stacked, k)
                if not blank:
                    self.memory.copy(view, arrays[p])
                arrays[p] = view
        self.lay_out(tree.structure(self.tree), arrays)

    def lay_out(self, structure: tree.TreeDef, buffers: Sequence[Any]) -> None:
        """Make these the resident buffers, and flatten each part once, since copies of parts are frequent."""
        self.tree = tree.unflatten(structure, buffers)
        self.held: dict[str, tuple[tree.TreeDef, list[tuple[DeviceMemory[Any], Any]]]] = {}
        for name, part in self.tree.items():
            leaves, own = tree.flatten(part)
            self.held[name] = own, [(self.memory_of(x), x) for x in leaves]

    def stacked_arrays(self, groups: Sequence[tuple[int, ...]]) -> list[Any]:
        """The arrays as a program with these groups takes them, each stack at the place of its first array."""
        stacks = {places[0]: (self.stacks or {})[places] for places in groups}
        later = {p for places in groups for p in places[1:]}
        return [stacks.get(p, array) for p, array in enumerate(self.arrays) if p not in later]

    def memory_of(self, buffer: Any) -> DeviceMemory[Any]:
        """The memory in which a buffer lies; files belong to the host's memory on every device."""
        return HOST if mapped_arrays.is_file_backed(buffer) else self.memory

    def host_array(self, buffer: Any) -> NDArray:
        """The contents of a buffer as a host array, possibly the buffer itself."""
        return self.memory_of(buffer).read(buffer)

    def copy(self, name: str) -> Any:
        """A part of the state as it is now, in arrays of the caller's own."""
        structure, held = self.held[name]
        return tree.unflatten(structure, [memory.download(x) for memory, x in held])

    def read(self, name: str) -> Any:
        """A part of the state in host arrays, which may be the buffers that programs write."""
        return tree.map(self.host_array, self.tree[name])

    def counter(self, name: str) -> NDArray:
        """A counter, the key or the loss scale as a host array, possibly the buffer itself."""
        return self.host_array(self.tree["counters"][name])

    def abstract(self) -> dict[str, Any]:
        """The whole state as placeholders, which take no memory, for tracing."""
        return {name: signature.abstract() for name, signature in self.signatures.items()}

    def whole(self) -> dict[str, Any]:
        """The whole state, in arrays of the caller's own."""
        return {name: self.copy(name) for name in STATE_PARTS}

    def write(self, parts: dict[str, Any]) -> None:
        """Write these parts; where one does not fit, raise as BatchSignature does, and change nothing."""
        self.keep()
        for buffer, new in self.checked(parts):
            self.memory_of(buffer).copy(buffer, new)

    def checked(self, parts: dict[str, Any]) -> list[tuple[Any, NDArray]]:
        """(resident buffer, new content) for each leaf of these parts."""
        pairs: list[tuple[Any, NDArray]] = []
        for name, given in parts.items():
            pairs += zip(tree.leaves(self.tree[name]), self.signatures[name].checked(given), strict=True)
        if "counters" in parts and not 0 <= int(parts["counters"]["step"]) <= MAX_STEPS:
            raise ParameterError(
                f"state: counters['step'] is {parts['counters']['step']}; it must be from 0 to 2**62",
                hint="a step counter wraps at 2**63, and every step from there on would be skipped",
            )
        return pairs

    def streams(self, given: Any) -> FileInputs:
        """The leaves of a tree of resident arrays that lie in files."""
        on = [i for i, x in enumerate(tree.leaves(given)) if mapped_arrays.is_file_backed(x)]
        return FileInputs(tuple(on), self.folder)

    @property
    def initial_bytes(self) -> int:
        """The bytes of the copies in memory of the initial state."""
        places = zip(self.paths, self.arrays, strict=True)
        others = [path for path, x in places if mapped_arrays.is_file_backed(x) or self.given.get(path)]
        return initial_bytes(self.abstract(), others)

    @property
    def paths(self) -> list[str]:
        """The user's spelling of each array, in the order of `arrays`."""
        return tree.paths(self.tree)

    def types(self) -> list[tuple[str, Type]]:
        """Path and type of each array of the parameters and buffers."""
        return [(leaf.path, leaf.type) for name in ("params", "buffers") for leaf in self.signatures[name].leaves]

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in self.arrays)


def initial_bytes(parts: dict[str, Any], others: Collection[str] = ()) -> int:
    """The bytes of the copies in memory of an initial state, for `reset`; arrays at the paths `others` have no copy."""
    own = {name: parts[name] for name in RESET_PARTS}
    arrays = dict(zip(tree.paths(own), tree.leaves(own), strict=True))
    return sum(int(type_of(x).nbytes) for path, x in arrays.items() if path not in others)


def new_counters(key: Any, scaling: Scaling | None) -> dict[str, Any]:
    """The initial counters: steps taken, steps skipped, the key, and the loss scale where there is one."""
    nothing = np.zeros((), np.int64)
    return {"step": nothing, "skipped": nothing, "key": key, **(scaling.init() if scaling is not None else {})}


def check_params(params: Any, root: str) -> None:
    """Raise DtypeError for a leaf that has no gradient or is no array, naming its path."""
    for i, x in enumerate(tree.leaves(params)):
        if not isinstance(x, PLAIN):
            raise DtypeError(
                f"compile: {tree.paths(params, root)[i] or root} is {type_in_words(x)}, not an array",
                hint=entry_hint(x, "parameters are a model, or a tree of arrays: ws.compile(loss, model, ...)"),
            )
        if root == "params" and not dtypes.is_inexact(type_of(x).dtype):
            raise DtypeError(
                f"compile: {tree.paths(params, root)[i] or root} is {type_of(x)}, "
                "and integers and booleans have no derivative",
                hint="convert it to float, or keep it out with nn.frozen or buffers=",
            )
