"""Checkpoints: the state of a step in safetensors files, written atomically and read as untrusted input."""

from wholestep.train.checkpoint.foreign_layouts import torch_linear, torch_name
from wholestep.train.checkpoint.matching import Convert, Rename
from wholestep.train.checkpoint.steps import Loaded, Wanted, Where, load_step, parts_named, save_step

__all__ = [
    "Convert",
    "Loaded",
    "Rename",
    "Wanted",
    "Where",
    "load_step",
    "parts_named",
    "save_step",
    "torch_linear",
    "torch_name",
]
