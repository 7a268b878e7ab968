"""A model in a file by itself: its parameters, buffers and frozen arrays, without a loss, an optimizer or a step."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from wholestep import tree
from wholestep.errors import CheckpointError, ParameterError
from wholestep.ir.graph import NDArray
from wholestep.nn.initialization import filled_model
from wholestep.nn.parameters import join, split
from wholestep.train.checkpoint import write
from wholestep.train.checkpoint.filesystem import DISK
from wholestep.train.checkpoint.matching import PLACES, Convert, Rename, root_of
from wholestep.train.checkpoint.read import open_checkpoint
from wholestep.train.checkpoint.safetensors_header import Damage
from wholestep.train.checkpoint.steps import Wanted, Where, first_whole, shard_bytes, version
from wholestep.words import type_in_words

T = TypeVar("T")


def save(model: Any, path: Where, *, metadata: Any = None, max_shard_bytes: int | None = None) -> None:
    """Write a model to a safetensors file, which `nn.load` reads and so does `step.load` with `only=`.

    `path` is that of the file, and `model` a module, or a tree of arrays and modules; of a step it is `step.model`, or
    `step.params`. The file holds parameters, buffers and frozen arrays under their paths, and `metadata`, which JSON
    must be able to hold. It is replaced in one instant, and the previous file is kept beside it, as by `step.save`,
    which has more on this and on `max_shard_bytes`.

    Shapes: arrays of any shapes and dtypes; nothing is returned.
    Raises: CheckpointError where the file cannot be written, and TreeError or DtypeError for an argument that is no
    model.

    >>> import os, tempfile, numpy as np, wholestep as ws
    >>> model = ws.nn.Linear(3, 2, key=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "linear.safetensors")
    ...     ws.nn.save(model, file)
    ...     again = ws.nn.load(ws.nn.Linear(3, 2, key=1), file)
    >>> bool(np.all(again.weight == model.weight))
    True
    """
    about = {"version": version(), "metadata": metadata}
    write.write_checkpoint(Path(path), named_arrays(model), about, shard_bytes(max_shard_bytes), DISK)


@overload
def load(
    model: Callable[[], T],
    path: Where,
    *,
    strict: bool = ...,
    rename: Rename | None = ...,
    convert: Convert | None = ...,
    cast: bool = ...,
    fallback: bool = ...,
) -> T: ...
@overload
def load(model: Where) -> dict[str, NDArray]: ...
@overload
def load(
    model: T,
    path: Where,
    *,
    strict: bool = ...,
    rename: Rename | None = ...,
    convert: Convert | None = ...,
    cast: bool = ...,
    fallback: bool = ...,
) -> T: ...
def load(
    model: Any,
    path: Where | None = None,
    *,
    strict: bool = True,
    rename: Rename | None = None,
    convert: Convert | None = None,
    cast: bool = False,
    fallback: bool = False,
) -> Any:
    """A copy of a model with the arrays of a file: of one that `nn.save` or `step.save` wrote, or of another library.

    `model` is a module, a tree of arrays and modules, or a function without arguments that makes one; it stays as it
    is. Of a step's checkpoint parameters and buffers are read. Names, shapes and dtypes must be those of the model;
    `rename`, `convert`, `cast`, `strict` and `fallback` are those of `step.load`. `nn.load(path)`, without a model,
    gives the arrays as a dictionary by path.

    Shapes: arrays of the shapes and dtypes of the model, or of those in the file without a model.
    Raises: CheckpointError for a file that is damaged or of another model, ParameterError where `model` is none.

    >>> import os, tempfile, numpy as np, wholestep as ws
    >>> step = ws.compile(lambda model, x: np.mean(model(x) ** 2), ws.nn.Linear(3, 2, key=0),
    ...                   optimizer=ws.optim.sgd(0.1), batch=np.ones((4, 3), np.float32))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "step.safetensors")
    ...     step.save(file)
    ...     model = ws.nn.load(lambda: ws.nn.Linear(3, 2, key=1), file)
    ...     arrays = ws.nn.load(file)
    >>> bool(np.all(model.weight == step.model.weight)), sorted(arrays)
    (True, ['bias', 'weight'])
    """
    if path is None:
        return model_arrays(model)
    wanted = Wanted(strict, rename, PLACES, dict(convert or {}), cast)
    return filled_model("nn.load", model, lambda drawn: read_model(drawn, path, wanted, fallback))


def read_model(model: Any, path: Where, wanted: Wanted, fallback: bool) -> Any:
    """A copy of a model with the arrays of a file."""
    own = named_arrays(model)
    if not own:
        raise ParameterError(
            f"nn.load: {type_in_words(model)} holds no arrays", hint="nn.load(model, path): the model comes first"
        )
    _, new, _ = first_whole(Path(path), fallback, own, wanted)
    found = [
        {key: new.get(in_file(name, key), x) for key, x in part.items()}
        for name, part in zip(PLACES, split(model), strict=True)
    ]
    return join(model, *found)


def named_arrays(model: Any) -> dict[str, NDArray]:
    """The arrays of a model under their names in a file."""
    parts = zip(PLACES, split(model), strict=True)
    return {in_file(name, key): x for name, part in parts for key, x in part.items()}


def in_file(part: str, path: str) -> str:
    """The name of a model's array in a file, as in a step's checkpoint; the path of a lone array is empty."""
    return tree.access(part, path) if path else part


def model_arrays(path: Any) -> dict[str, NDArray]:
    """The arrays of a file by path; of one that this library wrote, those of the model."""
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(
            f"nn.load: {type_in_words(path)} is given and no file", hint="nn.load(model, path), or nn.load(path)"
        )
    try:
        with open_checkpoint(Path(path)) as contents:
            if contents.facts is None:
                return {name: contents.array(name) for name in contents.types}
            held = [name for name in contents.types if root_of(name) in PLACES]
            return {name[len(root_of(name)) :].removeprefix("."): contents.array(name) for name in held}
    except Damage as damage:
        raise CheckpointError(f"load: {path}: {damage}") from None
