"""Models in the folders in which others publish them: `config.json`, and tensors beside it by PyTorch's names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import CheckpointError
from wholestep.ir.graph import NDArray
from wholestep.nn.int8 import Int8Linear
from wholestep.nn.low_rank import LoRA
from wholestep.nn.models.bert import BERT, DistilBERT
from wholestep.nn.models.gpt2 import GPT2
from wholestep.nn.models.llama import Llama
from wholestep.nn.models.mixer import MLPMixer
from wholestep.nn.models.resnet import ResNet
from wholestep.nn.models.vit import ViT
from wholestep.nn.models.whisper import WhisperEncoder
from wholestep.nn.module import Module
from wholestep.nn.theirs import theirs
from wholestep.nn.traversal import ModelWalk
from wholestep.train.checkpoint.filesystem import DISK, put_file
from wholestep.train.checkpoint.read import open_checkpoint
from wholestep.train.checkpoint.safetensors_header import Damage
from wholestep.train.checkpoint.steps import Where
from wholestep.train.checkpoint.torch_models import from_torch

CONFIG, TENSORS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
LARGEST_CONFIG = 1 << 20
FAMILIES: Mapping[str, Any] = {
    "gpt2": GPT2,
    "llama": Llama,
    "bert": BERT,
    "distilbert": DistilBERT,
    "whisper": WhisperEncoder,
    "mixer": MLPMixer,
    "resnet": ResNet,
    "vit": ViT,
}
"""The class of each `model_type`, and of the first word, without digits at its end, of an `architecture` of timm."""
ARCHITECTURES = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "bert": "BertModel",
    "distilbert": "DistilBertModel",
    "whisper": "WhisperEncoder",
}
"""The names of Hugging Face's library for those that it has."""
ROOTS: Mapping[Any, tuple[str, ...]] = {
    GPT2: ("transformer.",),
    Llama: ("model.",),
    BERT: ("bert.",),
    DistilBERT: ("distilbert.",),
    WhisperEncoder: ("model.encoder.", "encoder."),
    MLPMixer: (),
    ResNet: (),
    ViT: (),
}
"""The part of a larger model that a folder may hold the whole of, or alone."""
HEADS: Mapping[Any, tuple[str, ...]] = {
    BERT: ("cls.", "classifier.", "qa_outputs."),
    DistilBERT: ("vocab_", "pre_classifier.", "classifier.", "qa_"),
    WhisperEncoder: ("model.decoder.", "decoder.", "proj_out.", "projector.", "classifier.", "layer_weights"),
    MLPMixer: (),
    ResNet: (),
    ViT: (),
}
"""Tensors of heads and decoders that stand on an encoder, which a folder may have too."""
MASKS = (".attn.bias", ".attn.masked_bias", ".position_ids", ".rotary_emb.inv_freq")
"""Constants that old files hold beside the parameters."""


def load_folder(folder: Where, *, cast: bool = False) -> Module:
    """The model in a folder with `config.json` and safetensors, as Hugging Face's `save_pretrained` writes it.

    The folder is one on this machine: `huggingface_hub.snapshot_download(name, local_dir=folder)` brings one. GPT-2,
    Llama, BERT, DistilBERT and Whisper are read, and timm's MLP-Mixers, ResNets and vision transformers, in one file
    or several. Of a BERT with a head the encoder is read, and so of a whole Whisper. `cast=True` makes float32 of
    tensors in half precision. The model is in training mode; `.eval()` is without dropout.

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
    kind = str(config.get("model_type", word))
    if kind not in FAMILIES:
        raise CheckpointError(
            f"load_folder: {home / CONFIG} is of a model of type {kind!r}",
            hint=f"{', '.join(FAMILIES)} are read; nn.from_torch fills a model of your own",
        )
    family = FAMILIES[kind]
    try:
        model = family.from_config(config, key=0)
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"load_folder: {home / CONFIG} does not say what the model needs: {error}") from None
    read: Module = from_torch(model, rooted(family, read_tensors(home)), cast=cast)
    return read


def save_folder(model: Any, folder: Where) -> None:
    """Write a model to a folder that `load_folder` and Hugging Face's `from_pretrained` read, with its configuration.

    `model` is one of the eight that `load_folder` knows; of a step it is `step.model`. The folder is made if it is not
    there. Each of the two files is replaced in one instant.

    Shapes: arrays of any shapes and dtypes; nothing is returned.
    Raises: CheckpointError for another model, for one with layers of `LoRA` or `Int8Linear`, and where the folder
    cannot be written.

    >>> import os, tempfile, wholestep as ws
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ws.nn.models.save_folder(ws.nn.models.BERT(50, 16, 8, 2, 1, key=0), folder)
    ...     sorted(os.listdir(folder))
    ['config.json', 'model.safetensors']
    """
    kind = next((kind for kind, family in FAMILIES.items() if type(model) is family), None)
    if kind is None:
        raise CheckpointError(
            f"save_folder: a {type(model).__name__} has no published configuration",
            hint=f"{', '.join(family.__name__ for family in FAMILIES.values())} have; nn.save writes any model",
        )
    refuse_other_layers(model)
    home, arrays = Path(folder), dict[str, NDArray]()
    for place, (first, *_) in theirs(model):
        names = [renamed(type(model), name, back=False) for name in first.names]
        arrays.update(zip(names, first.tensors(np.asarray(place.value)), strict=True))
    about = model.config()
    if kind in ARCHITECTURES:
        about = {"model_type": kind, "architectures": [ARCHITECTURES[kind]], "dtype": "float32", **about}
    try:
        home.mkdir(parents=True, exist_ok=True)
        put_file(DISK, home / TENSORS, tensor_pieces(arrays))
        put_file(DISK, home / CONFIG, [json.dumps(about, indent=2).encode()])
    except OSError as error:
        raise CheckpointError(f"save_folder: {home} cannot be written: {error.strerror or error}") from error


def refuse_other_layers(model: Any) -> None:
    """Raise CheckpointError for layers that hold their weights in a form that no published model has."""
    for path, layer in ModelWalk(model).modules:
        if isinstance(layer, LoRA | Int8Linear):
            raise CheckpointError(
                f"save_folder: {path} is a {type(layer).__name__}, whose tensors no published model has",
                hint=f"put {'merged()' if isinstance(layer, LoRA) else 'dense()'} of it in its place; "
                "nn.save writes any model",
            )


def read_config(path: Path) -> dict[str, Any]:
    """A configuration."""
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


def rooted(family: Any, given: dict[str, NDArray]) -> dict[str, NDArray]:
    """Tensors under the names that the family has: with its root or without, heads and constants left out."""
    roots = ROOTS[family]
    given = {name: x for name, x in given.items() if not name.endswith(MASKS)}
    if family in HEADS:
        given = {name: x for name, x in given.items() if not name.startswith(HEADS[family])}
        return {renamed(family, without_root(name, roots), back=True): x for name, x in given.items()}
    whole = any(name.startswith(roots) for name in given)
    return given if whole else {roots[0] + name: x for name, x in given.items()}


def without_root(name: str, roots: tuple[str, ...]) -> str:
    """The name of a tensor in the model alone, where a folder holds a larger one."""
    return next((name.removeprefix(root) for root in roots if name.startswith(root)), name)


def renamed(family: Any, name: str, *, back: bool) -> str:
    """A tensor's name in a folder, or `back` the name that the model has for it, where the two differ."""
    for pair in getattr(family, "published_names", ()):
        old, new = reversed(pair) if back else pair
        if old.startswith("."):
            name = name.replace(old, new)
        elif name.startswith(old):
            name = new + name.removeprefix(old)
    return name


def tensor_pieces(arrays: Mapping[str, NDArray]) -> Iterator[Any]:
    """A safetensors file of tensors, as Hugging Face's library wants it: it says that PyTorch's layouts are meant."""
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
        yield x.tobytes()
