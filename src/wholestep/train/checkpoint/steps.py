"""The state of a step as a checkpoint, and back."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.boundary.counts import checked_count
from wholestep.errors import CheckpointError, ParameterError, WholestepError
from wholestep.ir.graph import NDArray
from wholestep.train.checkpoint import filesystem, write
from wholestep.train.checkpoint.filesystem import DISK, Disk
from wholestep.train.checkpoint.matching import (
    PLACES,
    Convert,
    Rename,
    check_complete,
    convert_tensor,
    matched,
    root_of,
)
from wholestep.train.checkpoint.read import Contents, open_checkpoint
from wholestep.train.checkpoint.safetensors_header import Damage
from wholestep.train.program.engine import Engine, UnfinishedEpoch
from wholestep.train.state.state import STATE_PARTS

HYPER = "hyper"
ALL = (*STATE_PARTS, HYPER)
"""The parts of a checkpoint: those of the state, and the hyper-parameters."""

Where = str | os.PathLike[str]


@dataclass(frozen=True)
class Loaded:
    """The report of `step.load`: names, facts, and the fault of the newest checkpoint if an older one was loaded."""

    path: Path
    """The file, or the manifest, that was read."""
    names: tuple[str, ...]
    """The arrays of the state that were loaded."""
    missing: tuple[str, ...] = ()
    """Arrays of the state that the file does not have, which keep their values; empty unless `strict=False`."""
    unexpected: tuple[str, ...] = ()
    """Tensors of the file that belong to no array of the state; empty unless `strict=False`."""
    metadata: Any = None
    """The metadata that `step.save` was given."""
    data: Any = None
    """The state of the loader."""
    version: str | None = None
    """The version of this library that wrote the file; None for a file by another library."""
    optimizer: str | None = None
    """The optimizer, its schedule included, in words."""
    damage: str | None = None
    """The fault of the newest checkpoint where the one before it was loaded instead."""


@dataclass(frozen=True)
class Wanted:
    """Options for the reading of a file."""

    strict: bool = True
    rename: Rename | None = None
    parts: tuple[str, ...] = ALL
    convert: Convert = field(default_factory=dict)
    cast: bool = False


def state_buffers(engine: Engine, parts: Collection[str] = ALL) -> dict[str, Any]:
    """The buffers of the state and the arrays of hyper-parameters by their paths, of these parts, as they lie in the
    step; raises CheckpointError for names that clash."""
    whole = {**engine.state.tree, HYPER: engine.hyper}
    found: dict[str, Any] = {}
    for name in ALL:
        if name in parts:
            for path, x in zip(tree.paths(whole[name], name), tree.leaves(whole[name]), strict=True):
                if path in found:
                    raise CheckpointError(f"checkpoint: two arrays of the state have the path {path}")
                found[path] = x
    return found


Found = tuple[Loaded, dict[str, NDArray], UnfinishedEpoch | None]
"""The report on a file, new content for arrays of the state, and the interrupted epoch."""


def parts_named(only: Any) -> tuple[str, ...]:
    """The parts to be read; raises CheckpointError for an unknown part."""
    parts = ALL if only is None else (only,) if isinstance(only, str) else tuple(only)
    unknown = [name for name in parts if name not in ALL]
    if unknown or not parts:
        raise CheckpointError(
            f"load: {', '.join(map(repr, unknown)) or 'nothing'} cannot be loaded", hint=f"there are {', '.join(ALL)}"
        )
    return parts


def save_step(engine: Engine, path: Where, loader: Any, metadata: Any, most: int | None, to: Disk = DISK) -> None:
    """Write all of a step's state; see `Step.save`."""
    about = {
        **step_facts(engine),
        "epoch": None if engine.unfinished is None else engine.unfinished._asdict(),
        "data": None if loader is None else loader.state(),
        "metadata": metadata,
    }
    write.write_checkpoint(Path(path), saved_arrays(engine), about, shard_bytes(most), to)


def saved_arrays(engine: Engine) -> dict[str, NDArray]:
    """The arrays of a checkpoint by their paths, possibly the state's own; all processes of a mesh call this."""
    read, optimizer = engine.state.host_array, engine.whole_optimizer()
    whole = dict(zip(tree.paths(optimizer, "optimizer"), tree.leaves(optimizer), strict=True))
    return {
        path: x if root_of(path) == HYPER else whole[path] if path in whole else read(x)
        for path, x in state_buffers(engine).items()
    }


def step_facts(engine: Engine) -> dict[str, Any]:
    """The facts in a checkpoint about the step that wrote it, without its position in the data."""
    return {
        "version": version(),
        "loss": engine.step_function.name,
        "optimizer": describe_optimizer(engine.step_function.optimizer),
        "epoch": None,
        "data": None,
        "metadata": None,
    }


def shard_bytes(most: Any) -> int | None:
    """The most bytes of a file, or None; raises DtypeError for another type and ParameterError below 1."""
    return None if most is None else checked_count("max_shard_bytes", most, "save")


@cache
def version() -> str:
    """The version of this library."""
    metadata = importlib.import_module("importlib.metadata")  # takes longer than all of this package
    try:
        return str(metadata.version("wholestep"))
    except metadata.PackageNotFoundError:
        return "unknown"


def describe_optimizer(optimizer: Any) -> str:
    """An optimizer in words that are the same in every process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(optimizer))[:10_000]


def load_step(
    engine: Engine, path: Where, wanted: Wanted, loader: Any, fallback: bool, put: Callable[..., None]
) -> Loaded:
    """Read a checkpoint into a step; see `Step.load`. `put(parts, hyper)` writes the state, whole or not at all."""
    own, shards = state_buffers(engine, wanted.parts), engine.step_function.shards
    sharded = {path: shape for path, shape in engine.sharded_shapes().items() if path in own}
    own |= {path: np.broadcast_to(np.zeros((), own[path].dtype), shape) for path, shape in sharded.items()}
    found, new, epoch = first_whole(Path(path), fallback, own, wanted)
    if loader is not None:
        if found.data is None:
            raise CheckpointError(f"load: {found.path} holds no position in the data", hint="save it with loader=")
        place_loader(loader, found)
    if shards is not None:
        new |= {path: shards.cut(new[path]) for path in sharded if path in new}
    parts = {name: fill_part(engine, name, new) for name in dict.fromkeys(map(root_of, new)) if name != HYPER}
    try:
        put(parts, {name: float(new[path]) for path, name in hyper_paths(engine) if path in new})
    except ParameterError as error:
        raise CheckpointError(f"load: {found.path}: {str(error).split(chr(10), 1)[0]}") from None
    if "counters" in parts:
        engine.unfinished = epoch
    return found


def place_loader(loader: Any, found: Loaded) -> None:
    """Set a loader to the saved position; raises CheckpointError where the position does not fit."""
    try:
        loader.restore(found.data)
    except WholestepError as error:
        reason = str(error).split("\n", 1)[0]
        raise CheckpointError(f"load: {found.path}: its position in the data: {reason}") from None


def first_whole(path: Path, fallback: bool, own: dict[str, Any], wanted: Wanted) -> Found:
    """Read the newest checkpoint or, with `fallback` where it is damaged, the one before it."""
    newest = path / write.MANIFEST if path.is_dir() else path
    reasons: list[str] = []
    for place in (newest, filesystem.previous(newest))[: 1 + fallback]:
        try:
            with open_checkpoint(place) as contents:
                found, new, epoch = read_arrays(contents, own, wanted)
            return replace(found, path=place, damage="; ".join(reasons) or None), new, epoch
        except Damage as damage:
            reasons.append(f"{place}: {damage}")
    there = not fallback and filesystem.previous(newest).exists()
    raise CheckpointError(
        f"load: {'; '.join(reasons)}", hint="fallback=True loads the one before it" if there else None
    )


def hyper_paths(engine: Engine) -> Iterator[tuple[str, str]]:
    """(path, name) of each hyper-parameter."""
    return zip(tree.paths(engine.hyper, HYPER), sorted(engine.hyper), strict=True)


def fill_part(engine: Engine, name: str, new: dict[str, NDArray]) -> Any:
    """A part of the state with the loaded arrays in their places, and the other arrays as they are."""
    part, read = engine.state.tree[name], engine.state.host_array
    paths, leaves = tree.paths(part, name), tree.leaves(part)
    return tree.unflatten(
        tree.structure(part), [new[p] if p in new else read(x) for p, x in zip(paths, leaves, strict=True)]
    )


def read_arrays(contents: Contents, own: dict[str, Any], wanted: Wanted) -> Found:
    """Read these arrays from a file; raises CheckpointError for tensors that do not fit, Damage for a damaged file."""
    about, ours = contents.facts or {}, contents.facts is not None
    if not ours:
        own = {path: x for path, x in own.items() if root_of(path) in PLACES}
    names = matched(contents.types, own, wanted.parts, wanted.rename, ours)
    check_complete(names, wanted.strict)
    order = [(path, names.pairs[path]) for path in own if path in names.pairs]  # parameters first, in errors too
    new = {path: convert_tensor(contents, n, path, own[path], wanted.convert, wanted.cast) for path, n in order}
    found = Loaded(
        path=Path(),
        names=tuple(new),
        missing=names.missing,
        unexpected=names.unexpected,
        metadata=about.get("metadata"),
        data=about.get("data"),
        version=str(about.get("version")) if ours else None,
        optimizer=str(about.get("optimizer")) if ours else None,
    )
    return found, new, epoch_of(about)


def epoch_of(about: dict[str, Any]) -> UnfinishedEpoch | None:
    """The interrupted epoch in the facts of a file, or None; raises Damage for invalid numbers."""
    given = about.get("epoch")
    if given is None:
        return None
    numbers = (
        isinstance(given, dict) and {*given} == {*UnfinishedEpoch._fields} and {*map(type, given.values())} <= {int}
    )
    if not numbers or not all(0 <= n < 1 << 63 for n in given.values()):
        raise Damage("its facts say nothing sensible of the epoch that was cut short")
    return UnfinishedEpoch(**given)
