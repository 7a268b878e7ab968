"""Models in the folders in which others publish them: `config.json`, and tensors beside it by PyTorch's names."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wholestep import dtypes
from wholestep.contents import pieces
from wholestep.errors import CheckpointError
from wholestep.ir.graph import NDArray
from wholestep.nn.int8 import Int8Linear
from wholestep.nn.keys import drawing_nothing
from wholestep.nn.low_rank import LoRA
from wholestep.nn.models.bert import BERT, DistilBERT
from wholestep.nn.models.gpt2 import GPT2
from wholestep.nn.models.llama import Llama
from wholestep.nn.models.mixer import MLPMixer
from wholestep.nn.models.resnet import ResNet
from wholestep.nn.models.vit import ViT
from wholestep.nn.models.whisper import WhisperEncoder
from wholestep.nn.module import Module
from wholestep.nn.theirs import Theirs, theirs
from wholestep.nn.traversal import ArrayPlace, ModelWalk
from wholestep.train.checkpoint.filesystem import DISK, make_folder, put_file
from wholestep.train.checkpoint.read import open_checkpoint
from wholestep.train.checkpoint.safetensors_header import Damage
from wholestep.train.checkpoint.steps import Where
from wholestep.train.checkpoint.torch_models import COUNTERS, fill_model, tensors_of
from wholestep.words import type_in_words

CONFIG, TENSORS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
LARGEST_CONFIG = 1 << 20
Pairs: TypeAlias = Sequence[tuple[str, str | list[str]]]


class Published(NamedTuple):
    """A family of folders: this library's class, that of transformers, and the prefixes of its tensor names.

    `roots` are prefixes of the names of a model inside a larger one; a folder may hold either of the two. With
    `others`, which are prefixes of the names of heads and decoders, only the inner model is read and written.
    """

    model: Any
    architecture: str = ""
    roots: tuple[str, ...] = ()
    others: tuple[str, ...] | None = None

    @property
    def layout(self) -> str:
        """The library whose layout the folder has."""
        return "transformers" if self.architecture else "timm"


DECODERS = ("model.decoder.", "decoder.", "proj_out.", "projector.", "classifier.", "layer_weights")
FAMILIES: Mapping[str, Published] = {
    "gpt2": Published(GPT2, "GPT2LMHeadModel", ("transformer.",)),
    "llama": Published(Llama, "LlamaForCausalLM", ("model.",)),
    "bert": Published(BERT, "BertModel", ("bert.",), ("cls.", "classifier.", "qa_outputs.")),
    "distilbert": Published(
        DistilBERT, "DistilBertModel", ("distilbert.",), ("vocab_", "pre_classifier.", "classifier.", "qa_")
    ),
    "whisper": Published(WhisperEncoder, "WhisperEncoder", ("model.encoder.", "encoder."), DECODERS),
    "resnet": Published(ResNet, "ResNetForImageClassification", ("resnet.",)),
    "vit": Published(ViT, "ViTForImageClassification", ("vit.",)),
    "timm's mixer": Published(MLPMixer),
    "timm's resnet": Published(ResNet),
    "timm's vit": Published(ViT),
}
"""The families by the `model_type` of transformers, or the first word, without trailing digits, of timm's
`architecture`."""
MASKS = (".attn.bias", ".attn.masked_bias", ".position_ids", ".rotary_emb.inv_freq")
"""Endings of the names of constants that old files hold beside the parameters."""


def load_folder(folder: Where, *, cast: bool = False) -> Module:
    """The model in a folder with `config.json` and safetensors, as Hugging Face's `save_pretrained` writes it.

    The folder is one on this machine: `huggingface_hub.snapshot_download(name, local_dir=folder)` brings one. GPT-2,
    Llama, BERT, DistilBERT, Whisper, ResNets and vision transformers are read in the layout of transformers, and
    MLP-Mixers, ResNets and vision transformers in that of timm, in one file or several. Of a BERT with a head the
    encoder is read, and so of a whole Whisper; a call of a `ViTModel` or a `ResNetModel`, which have no head, returns
    their `pooler_output`. `cast=True` makes float32 of tensors in half precision. The model is in training mode;
    `.eval()` is without dropout.

    Shapes: a module of float32 arrays.
    Raises: CheckpointError for a folder that is damaged, incomplete, or of another kind of model; ModelError for a
    configuration with parts that are not built here.

    >>> import tempfile, wholestep as ws
    >>> model = ws.nn.models.GPT2(50, 16, 8, 2, 1, key=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ws.nn.models.save_folder(model, folder)
    ...     again = ws.nn.models.load_folder(folder)
    >>> bool((again.tokens.weight == model.tokens.weight).all()), len(again.blocks)
    (True, 1)
    """
    home = Path(folder)
    config = read_config(home / CONFIG)
    word = str(config.get("architecture")).partition("_")[0].rstrip("0123456789")
    kind = str(config.get("model_type", f"timm's {word}"))
    if kind not in FAMILIES:
        raise CheckpointError(
            f"load_folder: {home / CONFIG} is of a model of type {kind!r}",
            hint=f"{', '.join(FAMILIES)} are read; nn.from_torch fills a model of your own",
        )
    try:
        with drawing_nothing():
            model = FAMILIES[kind].model.from_config(config, key=0)
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"load_folder: {home / CONFIG} does not say what the model needs: {error}") from None
    given = tensors_of(rooted(FAMILIES[kind], read_tensors(home)), None)
    for part in getattr(model, "optional_parts", ()):
        names = [
            name for place, (first, *_) in folder_entries(model) if place.path.startswith(part) for name in first.names
        ]
        if given.keys().isdisjoint(names):
            setattr(model, part, None)
    read: Module = fill_model(model, folder_entries(model), given, cast=cast, operation="load_folder")
    return read


def save_folder(model: Any, folder: Where) -> None:
    """Write a model to a folder that `load_folder` and Hugging Face's `from_pretrained` read, with its configuration.

    `model` is one of the eight that `load_folder` knows; of a step it is `step.model`. A model read from a folder is
    written in the same layout, and a `ViT` or `ResNet` in that of the library in its `layout`. The folder is made if it
    is not there. Each of the two files is replaced in one instant. Names of the classes are not written.

    Shapes: arrays of any shapes and dtypes; nothing is returned.
    Raises: CheckpointError for another model, for one with layers of `LoRA` or `Int8Linear`, and where the folder
    cannot be written.

    >>> import os, tempfile, wholestep as ws
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ws.nn.models.save_folder(ws.nn.models.BERT(50, 16, 8, 2, 1, key=0), folder)
    ...     sorted(os.listdir(folder))
    ['config.json', 'model.safetensors']
    """
    kind = folder_kind(model)
    refuse_other_layers(model)
    home, row, about = Path(folder), FAMILIES[kind], model.config()
    headless = getattr(model, "head", row) is None
    architecture = row.architecture.replace("ForImageClassification", "Model") if headless else row.architecture
    arrays = folder_tensors(model, row.roots if headless else ())
    if architecture:
        about = {"model_type": kind, "architectures": [architecture], "dtype": "float32", **about}
    try:
        make_folder(home)
        put_file(DISK, home / TENSORS, tensor_pieces(arrays))
        put_file(DISK, home / CONFIG, [json.dumps(about, indent=2).encode()])
    except OSError as error:
        raise CheckpointError(f"save_folder: {home} cannot be written: {error.strerror or error}") from error


def folder_kind(model: Any) -> str:
    """The kind of folder that a model is written to; raises CheckpointError for a model that has none."""
    for kind, row in FAMILIES.items():
        if type(model) is row.model and own_layout(model) in ("", row.layout):
            return kind
    known = dict.fromkeys(row.model.__name__ for row in FAMILIES.values())
    raise CheckpointError(
        f"save_folder: {type_in_words(model)} has no published configuration",
        hint=f"{', '.join(known)} have; nn.save writes any model",
    )


def folder_tensors(model: Any, roots: tuple[str, ...]) -> dict[str, NDArray]:
    """The tensors of a model under the names of its folders, which leave `roots` out."""
    arrays: dict[str, NDArray] = {}
    for place, (first, *_) in folder_entries(model):
        names = [without_root(name, roots) for name in first.names]
        arrays.update(zip(names, first.tensors(np.asarray(place.value)), strict=True))
    # A batch norm of PyTorch counts its batches; the count is unused where statistics have a momentum.
    counters = [name.replace("running_var", COUNTERS) for name in arrays if name.endswith(".running_var")]
    return arrays | dict.fromkeys(counters, np.zeros((), np.int64))


def refuse_other_layers(model: Any) -> None:
    """Raise CheckpointError for layers that hold their weights in a form that no published model has."""
    for path, layer in ModelWalk(model).modules:
        if isinstance(layer, LoRA | Int8Linear):
            raise CheckpointError(
                f"save_folder: {path} is {type_in_words(layer)}, whose tensors no published model has",
                hint=f"put {'merged()' if isinstance(layer, LoRA) else 'dense()'} of it in its place; "
                "nn.save writes any model",
            )


def read_config(path: Path) -> dict[str, Any]:
    """The configuration in a file, as a dictionary; raises CheckpointError where there is none."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_CONFIG + 1)
        found = json.loads(raw) if len(raw) <= LARGEST_CONFIG else None
    except OSError as error:
        raise CheckpointError(
            f"load_folder: {path} cannot be read: {error.strerror or error}",
            hint="give a folder with config.json and model.safetensors; huggingface_hub.snapshot_download(name, "
            "local_dir=folder) brings one from the hub",
        ) from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"load_folder: {path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise CheckpointError(f"load_folder: {path} is no configuration")
    return found


def read_tensors(home: Path) -> dict[str, NDArray]:
    """The tensors of a folder, in one file or in several."""
    path = home / INDEX if (home / INDEX).exists() else home / TENSORS
    try:
        with open_checkpoint(path) as contents:
            return {name: contents.array(name) for name in contents.types}
    except Damage as damage:
        raise CheckpointError(
            f"load_folder: {path}: {damage}",
            hint="pickles (pytorch_model.bin) are not read; save_pretrained(folder) of transformers writes safetensors",
        ) from None


def rooted(row: Published, given: dict[str, NDArray]) -> dict[str, NDArray]:
    """Tensors renamed as the family names them, with its root or without; other parts and constants are left out."""
    given = {name: x for name, x in given.items() if not name.endswith(MASKS)}
    if row.others is not None:
        return {without_root(name, row.roots): x for name, x in given.items() if not name.startswith(row.others)}
    whole = not row.roots or any(name.startswith(row.roots) for name in given)
    return given if whole else {row.roots[0] + name: x for name, x in given.items()}


def without_root(name: str, roots: tuple[str, ...]) -> str:
    """The name of a tensor without the prefix of a larger model."""
    return next((name.removeprefix(root) for root in roots if name.startswith(root)), name)


def own_layout(model: Any) -> str:
    """The library in whose layout a model is written; "" for a model that has only one layout."""
    return str(getattr(model, "layout", ""))


def folder_entries(model: Any) -> list[tuple[ArrayPlace, list[Theirs]]]:
    """Each array of a model, with the names of its tensors in folders of the model's layout."""
    pairs = getattr(model, "published_names", {}).get(own_layout(model), ())
    return [(place, [named_in_folder(entry, pairs) for entry in entries]) for place, entries in theirs(model)]


def named_in_folder(entry: Theirs, pairs: Pairs) -> Theirs:
    """An array under the tensor names of a folder, by `pairs` of a part of a name and its replacement there.

    A part that begins with a point matches anywhere in a name, other parts match its beginning. A list of replacements
    names the equal pieces into which the tensor is split.
    """
    groups = [names_there(name, pairs) for name in entry.names]
    return entry._replace(names=tuple(itertools.chain(*groups)), pieces=len(groups[0]))


def names_there(name: str, pairs: Pairs) -> list[str]:
    """The names of a tensor in a folder: one, or those of its pieces."""
    names = [name]
    for old, new in pairs:
        if old in names[0] if old.startswith(".") else names[0].startswith(old):
            words = [new] if isinstance(new, str) else new
            names = [name.replace(old, word, 1) for name in names for word in words]
    return names


def tensor_pieces(arrays: Mapping[str, NDArray]) -> Iterator[Any]:
    """The pieces of a safetensors file of tensors, with the metadata by which Hugging Face marks PyTorch's layouts."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    start = 0
    for name, x in arrays.items():
        header[name] = {
            "dtype": dtypes.short(x.dtype).upper(),
            "shape": list(x.shape),
            "data_offsets": [start, start + x.nbytes],
        }
        start += x.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for x in arrays.values():
        yield from pieces(x)
