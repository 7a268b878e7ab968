"""All operators of ONNX that are covered: operators of their inputs alone, and operators that also read the run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wholestep.interop.onnx.operators import (
    activations,
    attention,
    elementwise,
    indexing,
    normalization,
    quantized,
    recurrent,
    reductions,
    resampling,
    running,
    sequences,
    shapes,
    spectral,
    windows,
)
from wholestep.interop.onnx.operators.node import Handler

FAMILIES: Mapping[str, Mapping[str, Handler]] = MappingProxyType(
    {
        "elementwise": elementwise.TABLE,
        "activations": activations.TABLE,
        "shapes": shapes.TABLE,
        "indexing": indexing.TABLE,
        "reductions and products": reductions.TABLE,
        "windows": windows.TABLE,
        "normalizations and losses": normalization.TABLE,
        "recurrent": recurrent.TABLE,
        "attention": attention.TABLE,
        "quantized": quantized.TABLE,
        "resampling": resampling.TABLE,
        "spectral": spectral.TABLE,
        "sequences": sequences.TABLE,
        "control flow, random numbers, training": running.TABLE,
    }
)
"""The operators by their family."""
PLAIN: Mapping[str, Handler] = {
    op: handler for table in FAMILIES.values() if table is not running.TABLE for op, handler in table.items()
}
"""Handlers that are called with the node and its inputs."""
WITH_RUN = running.TABLE
"""Handlers that are called with the run, the node and its inputs."""
COVERED = frozenset(PLAIN) | frozenset(WITH_RUN)
OLDEST, NEWEST = 7, 28
"""The oldest and newest opset that are read; opsets from 13 on are tested."""
