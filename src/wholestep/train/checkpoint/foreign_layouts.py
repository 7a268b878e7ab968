"""Conversion of weights from the names and layouts of other libraries to those of `wholestep.nn`."""

from __future__ import annotations

import re

import numpy as np

from wholestep.errors import CheckpointError
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray


def torch_linear(weight: NDArray) -> NDArray:
    """The weight of a linear or recurrent layer of PyTorch, (out, in), transposed to (in, out) for `x @ w`.

    Convolutions, transposed ones too, embeddings and norms have the same layout in both. Raises CheckpointError for
    an array that is no matrix.

    >>> import numpy as np
    >>> torch_linear(np.ones((2, 3))).shape
    (3, 2)
    """
    if np.ndim(weight) != 2:
        raise CheckpointError(f"torch_linear: the weight of a linear layer is a matrix, and this is {type_of(weight)}")
    return np.ascontiguousarray(weight.T)


def torch_name(name: str) -> str | None:
    """This library's name of a tensor of PyTorch, to be given as `rename`: `layers.0.weight` is `layers[0].weight`.

    Running statistics of batch norms are `mean` and `var`, and their counters are left out; the layers of a recurrent
    network are its cells. Other names that differ, such as the `gain` of a norm, need a function of your own.

    >>> torch_name("layers.0.norm.running_mean"), torch_name("rnn.weight_ih_l0")
    ('layers[0].norm.mean', 'rnn.cells[0].weight_ih')
    """
    *above, last = name.split(".")
    if last == "num_batches_tracked":
        return None
    last = {"running_mean": "mean", "running_var": "var"}.get(last, last)
    if cell := re.fullmatch(r"((?:weight|bias)_[ih]h)_l([0-9]+)(_reverse)?", last):
        last = f"{'backward_' if cell[3] else ''}cells.{cell[2]}.{cell[1]}"
    return re.sub(r"(^|\.)([0-9]+)(?=\.|$)", r"[\2]", ".".join([*above, last]))
