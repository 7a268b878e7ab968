"""Conversion of weights between PyTorch's models and this library's, by the names and layouts of each layer class."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from wholestep.contents import native
from wholestep.errors import CheckpointError, ParameterError
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.nn.initialization import filled_model
from wholestep.nn.parameters import join, split
from wholestep.nn.theirs import Theirs, theirs
from wholestep.nn.traversal import ArrayPlace
from wholestep.train.checkpoint.matching import Rename, castable, mismatch, rename_tensor
from wholestep.train.checkpoint.read import open_checkpoint
from wholestep.train.checkpoint.safetensors_header import Damage
from wholestep.train.checkpoint.steps import Where
from wholestep.words import type_in_words

T = TypeVar("T")

COUNTERS = "num_batches_tracked"
"""The field in which a batch norm of PyTorch counts batches; this library's has none."""
HINTS: Mapping[str, str] = {
    "from_torch": "rename= says what is called otherwise, strict=False takes what there is; nn.to_torch has the names",
    "load_folder": "the tensors are not those of the model in config.json; nn.from_torch fills a model of your own",
}
"""The ways out where names are missing or left over."""


@overload
def from_torch(
    model: Callable[[], T],
    weights: Where | Mapping[str, Any] | Any,
    *,
    strict: bool = ...,
    rename: Rename | None = ...,
    cast: bool = ...,
) -> T: ...
@overload
def from_torch(
    model: T,
    weights: Where | Mapping[str, Any] | Any,
    *,
    strict: bool = ...,
    rename: Rename | None = ...,
    cast: bool = ...,
) -> T: ...
def from_torch(
    model: Any,
    weights: Where | Mapping[str, Any] | Any,
    *,
    strict: bool = True,
    rename: Rename | None = None,
    cast: bool = False,
) -> Any:
    """A copy of a model with the weights of PyTorch's model of the same layers.

    `weights` is a state dict of tensors or arrays, a module that has one, or a path to a .safetensors file. Tensors
    have the names that PyTorch gives them where fields and containers are called alike: matrices of `Linear`, of cells
    and of attention are transposed, `gain` is their `weight`, `qkv` their `in_proj`, `mean` and `var` running
    statistics; tensors of equal layers are put together for a `Stack`. `rename`, a mapping or a function, gives other
    names first, or None for a tensor to be left out. With `strict=False`, arrays without a tensor keep their values and
    tensors without an array are ignored. `cast=True` converts dtypes. `model` is a module, a tree of arrays and
    modules, or a function that makes one, and stays as it is.

    Shapes: tensors of the shapes of the model, transposed where PyTorch has them so; dtypes the model's, or with `cast`
    any.
    Raises: CheckpointError that lists missing, misshapen and unexpected tensors, and for a file that is damaged;
    ParameterError for weights of another kind.

    >>> import numpy as np, wholestep as ws
    >>> weights = {"0.weight": np.ones((2, 3), np.float32), "0.bias": np.zeros(2, np.float32),
    ...            "1.weight": np.ones(2, np.float32), "1.bias": np.zeros(2, np.float32)}
    >>> model = ws.nn.Sequential(ws.nn.Linear(3, 2, key=0), ws.nn.LayerNorm(2))
    >>> ws.nn.from_torch(model, weights).layers[0].weight.shape
    (3, 2)
    """

    def fill(drawn: Any) -> Any:
        return fill_model(drawn, list(theirs(drawn)), tensors_of(weights, rename), strict=strict, cast=cast)

    return filled_model("from_torch", model, fill)


def fill_model(
    model: T,
    entries: list[tuple[ArrayPlace, list[Theirs]]],
    given: Mapping[str, NDArray],
    *,
    strict: bool = True,
    cast: bool = False,
    operation: str = "from_torch",
) -> T:
    """A copy of a model with tensors in the places of its arrays, which `entries` name."""
    wanted = {name for _, places in entries for entry in places for name in entry.names}
    new: dict[str, NDArray] = {}
    missing, wrong = list[str](), list[str]()
    for place, places in entries:
        entry = next((e for e in places if set(e.names) <= given.keys()), None)
        if entry is None:
            missing += [name for name in places[0].names if name not in given]
            continue
        x = convert_entry(entry, given)
        if can_replace(x, place.value, cast):
            new[place.path] = x.astype(place.value.dtype, copy=False)
        else:
            wrong.append(f"{entry.names[0]} becomes {type_of(x)}, and {place.path} is {type_of(place.value)}")
    unexpected = [name for name in given if name not in wanted]
    check_weights(missing, wrong, unexpected, operation, strict=strict, some=bool(new))
    return join(model, *[{path: new.get(path, x) for path, x in part.items()} for part in split(model)])


def to_torch(model: Any) -> dict[str, NDArray]:
    """Copies of a model's arrays under PyTorch's names and in its layout, as `from_torch` reads them.

    `{name: torch.from_numpy(x) for name, x in nn.to_torch(model).items()}` is a state dict.

    Shapes: a dictionary of arrays, of the dtypes of the model.
    Raises: as `buffers` does.

    >>> import numpy as np, wholestep as ws
    >>> {name: x.shape for name, x in ws.nn.to_torch(ws.nn.Sequential(ws.nn.Linear(3, 2, key=0))).items()}
    {'0.weight': (2, 3), '0.bias': (2,)}
    """
    found: dict[str, NDArray] = {}
    for place, places in theirs(model):
        for entry in places:
            ours = np.asarray(place.value, native(place.value.dtype))
            for name, x in zip(entry.names, entry.tensors(ours), strict=True):
                found[name] = np.concatenate([found[name], x]) if entry.rows is not None and name in found else x
    return found


def tensors_of(weights: Any, rename: Rename | None) -> dict[str, NDArray]:
    """Weights by name as arrays, the counters of batch norms left out."""
    if isinstance(weights, str | os.PathLike):
        found = file_tensors(Path(weights))
    else:
        state = getattr(weights, "state_dict", None)
        found = state() if callable(state) else weights
    if not isinstance(found, Mapping):
        raise ParameterError(
            f"from_torch: weights are {type_in_words(weights)}",
            hint="give a state dict, a module that has one, or the path of a .safetensors file",
        )
    named = [(rename_tensor(str(name), rename), x) for name, x in found.items()]
    return {name: to_array(name, x) for name, x in named if name is not None and name.rpartition(".")[2] != COUNTERS}


def file_tensors(path: Path) -> dict[str, NDArray]:
    """The tensors of a safetensors file."""
    if path.suffix in (".pt", ".pth", ".bin", ".ckpt"):
        raise CheckpointError(
            f"from_torch: {path} is a pickle, which can run anything",
            hint="safetensors.torch.save_file(model.state_dict(), path) writes what is only data",
        )
    try:
        with open_checkpoint(path) as contents:
            return {name: contents.array(name) for name in contents.types}
    except Damage as damage:
        raise CheckpointError(f"from_torch: {path}: {damage}") from None


def to_array(name: str, x: Any) -> NDArray:
    """A tensor as an array; one of bfloat16, which NumPy does not take, in float32."""
    for way in ("detach", "cpu"):
        x = getattr(x, way, lambda x=x: x)()
    try:
        array = np.asarray(x)
    except TypeError:
        if not hasattr(x, "float"):
            raise
        array = np.asarray(x.float())
    if array.dtype.kind not in "biufcV":
        raise ParameterError(f"from_torch: {name} is {type_in_words(x)}, which holds no numbers")
    return array.astype(native(array.dtype), copy=False)


def convert_entry(entry: Theirs, given: Mapping[str, NDArray]) -> NDArray:
    """The array of the model made from its tensors; the first tensor, where several differ in shape."""
    tensors = [given[name] for name in entry.names]
    whole = entry.rows is None and entry.pieces == 1
    same = {x.shape for x in tensors} == {tensors[0].shape} and (whole or tensors[0].ndim > 0)
    return entry.ours(tensors) if same else tensors[0]


def can_replace(x: NDArray, own: NDArray, cast: bool) -> bool:
    """True if an array can stand in the place of another one."""
    return x.shape == own.shape and (x.dtype == own.dtype or (cast and castable(x.dtype, own.dtype)))


def check_weights(
    missing: list[str], wrong: list[str], unexpected: list[str], operation: str, *, strict: bool, some: bool
) -> None:
    """Raise CheckpointError where names or types of weights do not match the model."""
    if not wrong and some and not (strict and (missing or unexpected)):
        return
    raise CheckpointError(
        f"{operation}: {mismatch(missing, unexpected, wrong)}",
        hint="cast=True converts dtypes; another shape is another architecture" if wrong else HINTS[operation],
    )
