"""Low-rank adaptation: a dense layer that stays as it is, and a product of two thin matrices that is trained."""

from __future__ import annotations

from typing import Any

from wholestep.ir.graph import NDArray
from wholestep.nn import init
from wholestep.nn.annotations import frozen
from wholestep.nn.int8 import Int8Linear
from wholestep.nn.linears import Linear, sized
from wholestep.nn.module import Module


class LoRA(Module):
    """A frozen `Linear` or `Int8Linear`, plus alpha / rank times x @ down @ up, which are trained.

    `up` begins at 0, so that the layer begins as the given one; `down` is drawn by `key`. `alpha` is `rank` if not
    given. `merged()` is a dense layer of the sum, of the class of the given one. The tensors of `nn.to_torch` have the
    names of the package peft.

    Shapes: x [..., in]; [..., out]. `down` is [in, rank] and `up` [rank, out], of the dtype of the layer.
    Raises: ParameterError for a layer that is neither, and for a rank that is no positive integer.
    Source: Hu et al., "LoRA: low-rank adaptation of large language models", 2022.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Linear(3, 2, key=0)
    >>> adapted = ws.nn.LoRA(layer, 1, key=1)
    >>> sorted(ws.nn.named_parameters(adapted)), bool((adapted(np.ones(3)) == layer(np.ones(3))).all())
    (['down', 'up'], True)
    """

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "layer": "base_layer",
        "down": "lora_A.default.weight",
        "up": "lora_B.default.weight",
    }
    torch_turned = ("down", "up")

    _draws = True
    _drawn_first = ("layer",)

    def __init__(self, layer: Linear | Int8Linear, rank: int, *, key: Any = None, alpha: float | None = None) -> None:
        sized("LoRA", rank=rank)
        narrow = isinstance(layer, Int8Linear)
        inputs, outputs = layer.weight.shape[::-1] if narrow else layer.weight.shape
        dtype = layer.scale.dtype if narrow else layer.weight.dtype
        self.layer = frozen(layer)
        self.down = init.kaiming_uniform(key, (inputs, rank), a=5**0.5, dtype=dtype)
        self.up = init.zeros((rank, outputs), dtype)
        self.scale = 1.0 if alpha is None else alpha / rank

    def __call__(self, x: Any) -> NDArray:
        return self.layer(x) + self.scale * (x @ self.down @ self.up)

    def merged(self) -> Linear:
        """One dense layer of the same results."""
        layer = self.layer.dense() if isinstance(self.layer, Int8Linear) else self.layer
        made: Linear = frozen(layer)  # a copy of the layer's own class, which knows how its weight lies in files
        sums = {"weight": layer.weight + self.scale * (self.down @ self.up), "bias": layer.bias}
        for name, value in sums.items():
            delattr(made, name)  # drops its mark as frozen, too
            setattr(made, name, value)
        return made
