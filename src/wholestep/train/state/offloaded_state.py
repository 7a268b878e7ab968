"""Offloaded state: the arrays of a step's state that lie in files, initialized a few rows at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.boundary.counts import checked_count
from wholestep.errors import ParameterError, TreeError, UnsupportedError
from wholestep.frontend.inspect import eval_shape
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.ir.types import array_type
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.optim.paths import Choice, chosen_parameters, parameter_paths
from wholestep.runtime.memory import mapped_arrays
from wholestep.runtime.memory.buffer import HOST, FileMemory
from wholestep.train.state.batch_signature import LeafSignature, placeholder
from wholestep.train.state.precision import WORKING


@dataclass(frozen=True)
class OffloadedState:
    """The parameters and buffers that lie in files, by path, and the folder of the files."""

    choice: Choice
    folder: Path

    def paths(self, parts: Mapping[str, Any]) -> frozenset[str]:
        """The paths of all arrays of a state that lie in files: the chosen ones, and their optimizer state.

        Optimizer state belongs to a parameter by the ending of its path and by its shape. Arrays without axes stay in
        memory. Raises ParameterError for a pattern that matches no path.
        """
        own = [
            (name, path, x) for part in ("params", "buffers") for name, path, x in named_leaves(parts.get(part), part)
        ]
        marks = self.marks([name for name, _, _ in own])
        found = {path: x for name, path, x in own if marks[name] and np.ndim(x)}
        longest = sorted(found, key=len, reverse=True)
        kept = [
            path
            for _, path, x in named_leaves(parts.get("optimizer"), "optimizer")
            if any(path.endswith(path_suffix(p)) and type_of(x).shape == type_of(found[p]).shape for p in longest)
        ]
        return frozenset([*found, *kept])

    @property
    def memory(self) -> FileMemory:
        """The memory of the files."""
        return FileMemory(self.folder)

    def marks(self, known: Sequence[str]) -> dict[str, bool]:
        """Map each name to True if it is chosen."""
        each = dict.fromkeys(known, 0)
        return dict(zip(parameter_paths(each), chosen_parameters("compile: stream", self.choice, each), strict=True))

    def on(self, params: Any) -> list[bool]:
        """Flags of the parameters that lie in files."""
        found = self.paths({"params": params})
        return [path in found for path in tree.paths(params, "params")]


def named_leaves(part: Any, root: str) -> list[tuple[str, str, Any]]:
    """Name, path and content of each array of a part of the state."""
    return list(zip(parameter_paths(part), tree.paths(part, root), tree.leaves(part), strict=True))


def path_suffix(path: str) -> str:
    """The rest of a path after the name of its part of the state."""
    return path.removeprefix("params").removeprefix("buffers")


def folder_of(given: Any, choice: Any, budget: MemoryBudget | None) -> Path | None:
    """The folder for files; raises ParameterError for a missing folder, or where no option would use it."""
    if given is None:
        return None
    if choice is None and budget is None:
        raise ParameterError(
            "compile: folder= was given without stream= or memory_budget=",
            hint="stream= says what lies in files, and memory_budget= what must not lie in memory",
        )
    if not isinstance(given, str | os.PathLike) or not Path(given).is_dir():
        raise ParameterError(
            f"compile: files need a folder that is there, and folder is {given!r}",
            hint="give folder=, on a disk with room for what will lie in files",
        )
    return Path(given)


def stream_of(choice: Any, folder: Path | None, precision: str | None) -> OffloadedState | None:
    """The offloaded state of `stream=`; raises ParameterError without a folder, UnsupportedError with a conversion."""
    if choice is None:
        return None
    if folder is None:
        raise ParameterError(
            "compile: stream= needs a folder that is there, and folder is None",
            hint="give folder=, on a disk with room for the state and the gradients",
        )
    if precision in WORKING:
        raise UnsupportedError(
            f"compile: stream= does not turn parameters into {precision}",
            hint=f"give {precision} parameters as they are",
        )
    return OffloadedState(choice, folder)


class LazyLayers:
    """Layers stacked along a first axis, which `compile` makes one at a time."""

    def __init__(self, make: Callable[[int], Any], count: int) -> None:
        self.make, self.count = make, count

    @cached_property
    def first(self) -> Any:
        """Layer 0."""
        return self.make(0)

    def outline(self) -> Any:
        """Placeholders of the arrays of all layers, which take no memory."""

        def wide(x: Any) -> Any:
            own = type_of(x)
            return placeholder(LeafSignature("", array_type((self.count, *own.shape), own.dtype), False))

        return tree.map(wide, self.first)

    def __repr__(self) -> str:
        return f"stacked({getattr(self.make, '__name__', 'make')}, {self.count})"


def stacked(make: Callable[[int], Any], count: int) -> LazyLayers:
    """`count` layers along a first axis, made one at a time: `make(i)` gives the parameters of layer i.

    The result stands for a subtree of the parameters that `ws.compile` is given. Each array becomes one with a further
    first axis, whose row i is the array of `make(i)`; where it is streamed, at most one layer is in memory.

    Shapes: `make(i)` a tree of arrays; each array [...] becomes one [count, ...] of the same dtype.
    Raises: TreeError for a layer of another structure, shape or dtype than layer 0, ParameterError for a count below 1.

    >>> import numpy as np, wholestep as ws
    >>> layers = ws.stacked(lambda i: {"w": np.full(2, float(i))}, 3)
    >>> step = ws.compile(lambda p, x: np.sum(p["w"] * x), layers, batch=np.ones(2))
    >>> step.params["w"].tolist()
    [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """
    return LazyLayers(make, checked_count("count", count, "stacked"))


def make_layers(params: Any, stream: OffloadedState | None) -> Any:
    """A tree with its lazy layers replaced by their arrays."""
    leaves, structure = tree.flatten(params, is_lazy_layers)
    if not any(map(is_lazy_layers, leaves)):
        return params
    parts = [x.outline() if isinstance(x, LazyLayers) else x for x in leaves]
    whole = tree.unflatten(structure, parts)
    marks = iter(stream.on(whole) if stream is not None else [False] * len(tree.leaves(whole)))
    made = []
    for x, part in zip(leaves, parts, strict=True):
        here = [next(marks) for _ in tree.leaves(part)]
        made.append(fill_layers(x, here, stream) if isinstance(x, LazyLayers) else x)
    return tree.unflatten(structure, made)


def outline_layers(params: Any) -> Any:
    """The tree with its lazy layers replaced by placeholders, which take no memory."""
    return tree.map(lambda x: x.outline() if isinstance(x, LazyLayers) else x, params)


def is_lazy_layers(x: Any) -> bool:
    """True for a leaf of lazy layers."""
    return isinstance(x, LazyLayers)


def fill_layers(layers: LazyLayers, on: Sequence[bool], stream: OffloadedState | None) -> Any:
    """The arrays of all layers, filled row by row."""
    rows, structure = tree.flatten(layers.first)
    types = [type_of(x) for x in rows]
    memories = [stream.memory if stream is not None and mark else HOST for mark in on]
    arrays = [m.allocate((layers.count, *t.shape), t.dtype) for m, t in zip(memories, types, strict=True)]
    for i in range(layers.count):
        found, own = tree.flatten(layers.make(i) if i else layers.first)
        if own != structure or [type_of(x) for x in found] != types:
            raise TreeError(f"stacked: layer {i} is another one than layer 0: {own} of {[type_of(x) for x in found]}")
        for memory, array, x in zip(memories, arrays, found, strict=True):
            memory.copy(memory.view(array, i), np.asarray(x))
    return tree.unflatten(structure, arrays)


def init_optimizer_by_rows(init: Callable[[Any], Any], params: Any, stream: OffloadedState) -> Any:
    """The initial optimizer state, made of a few rows of the streamed parameters at a time.

    Raises UnsupportedError for optimizer state that cannot be made row by row.
    """
    leaves, structure = tree.flatten(params)
    on = stream.on(params)
    types = [type_of(x) for x in leaves]
    shapes = tree.unflatten(structure, [placeholder(LeafSignature("", t, False)) for t in types])
    wanted = tree.map(lambda x: placeholder(LeafSignature("", x.type, False)), eval_shape(init, shapes))
    paths = stream.paths({"params": shapes, "optimizer": wanted})
    spots = list(zip(tree.paths(wanted, "optimizer"), map(type_of, tree.leaves(wanted)), strict=True))
    arrays: list[Any] = [None] * len(spots)
    streamed = [x for x, mark in zip(leaves, on, strict=True) if mark]
    step = min([mapped_arrays.rows_per_chunk(x) for x in streamed], default=1)
    for start in range(0, max([len(x) for x in streamed], default=1), step):
        some = [slice_rows(x, start, step) if mark else x for x, mark in zip(leaves, on, strict=True)]
        found = tree.leaves(init(tree.unflatten(structure, some)))
        for k, ((path, t), x) in enumerate(zip(spots, found, strict=True)):
            whole = np.shape(x) == t.shape
            again = arrays[k] is not None
            if np.shape(x)[1:] != t.shape[1:] or (whole and again and not np.array_equal(x, arrays[k], equal_nan=True)):
                raise UnsupportedError(
                    f"compile: the optimizer keeps {path}, {t}, which is not made layer by layer",
                    hint="leave the parameters that it belongs to out of stream=",
                )
            if whole:
                arrays[k] = x
                continue
            memory = stream.memory if path in paths else HOST
            if not again:
                arrays[k] = memory.allocate(t.shape, t.dtype)
            rows = memory.view(arrays[k], slice(start, start + step))
            memory.copy(rows, x[: rows.shape[0]])
        for x in streamed:
            mapped_arrays.release_pages(x[start : start + step])
    return tree.unflatten(tree.structure(wanted), arrays)


def slice_rows(x: NDArray, start: int, count: int) -> NDArray:
    """Rows of an array from `start` on; the last row for an array that ends before."""
    return x[start : start + count] if start < len(x) else x[-1:]
