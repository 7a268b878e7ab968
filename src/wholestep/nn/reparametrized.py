"""Layers whose weight is computed from what is trained: normalized rows, and a bounded spectral norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.frontend.marks import stop_gradient
from wholestep.nn import init
from wholestep.nn.annotations import buffer
from wholestep.nn.linears import sized
from wholestep.nn.module import Module, copy_of


class Reparametrized(Module):
    """A copy of a layer that is called with another array in the place of its field `weight`."""

    def hold(self, layer: Module) -> Any:
        """Keep the layer without its weight, which is returned; raises ParameterError for one that has none."""
        name = type(self).__name__
        weight: Any = getattr(layer, "weight", None)
        if not isinstance(layer, Module) or not hasattr(weight, "ndim") or weight.ndim < 2:
            raise ParameterError(
                f"{name}: the layer is a {type(layer).__name__} without a matrix as its weight",
                hint="give an nn.Linear or a convolution",
            )
        self.layer = copy_of(layer)
        self.layer.weight = None
        return np.asarray(weight)

    def call_with(self, weight: Any, args: Any, kwargs: Any) -> Any:
        """The layer's result with this weight."""
        layer: Any = copy_of(self.layer)
        # The copy is this call's own, so what it holds is lost with it.
        vars(layer)["weight"] = weight
        return layer(*args, **kwargs)


class WeightNorm(Reparametrized):
    """A layer with the weight gain * direction / |direction|: the length and the direction of rows are trained apart.

    The norm is over all axes but `axis`, that of the outputs: the last of an `nn.Linear`, the first of a convolution.
    The layer begins as the given one.

    Shapes: as the layer. `direction` has the shape of its weight, and `gain` too, with 1 in the place of other axes.
    Raises: ParameterError for a layer without a weight of two axes or more.
    Source: Salimans and Kingma, "Weight normalization", 2016.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Linear(3, 2, key=0)
    >>> normed, x = ws.nn.WeightNorm(layer), np.ones(3, np.float32)
    >>> sorted(ws.nn.named_parameters(normed)), bool(np.allclose(normed(x), layer(x)))
    (['direction', 'gain', 'layer.bias'], True)
    """

    undecayed = ("gain",)

    def __init__(self, layer: Module, *, axis: int | None = None) -> None:
        weight = self.hold(layer)
        self.axis = (weight.ndim - 1 if weight.ndim == 2 else 0) if axis is None else axis
        self.direction, self.gain = weight.copy(), self.lengths(weight)

    def lengths(self, weight: Any) -> Any:
        """The norms of a weight over all axes but one."""
        others = tuple([i for i in range(weight.ndim) if i != self.axis % weight.ndim])
        return wnp.sqrt(wnp.sum(weight * weight, axis=others, keepdims=True))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_with(self.gain * (self.direction / self.lengths(self.direction)), args, kwargs)


class SpectralNorm(Reparametrized):
    """A layer with its weight divided by an estimate of its largest singular value, by power iteration.

    The weight is read as a matrix of its outputs and all else. In training each call makes `steps` iterations from the
    buffers `left` and `right` and keeps them there; in evaluation they stay. The iteration has no gradient.

    Shapes: as the layer. The buffers are vectors of the two sizes of the matrix.
    Raises: ParameterError for a layer without a weight of two axes or more, and for steps that are no positive integer.
    Source: Miyato et al., "Spectral normalization for generative adversarial networks", 2018.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Linear(3, 2, key=0, bias=False)
    >>> normed = ws.nn.SpectralNorm(layer, key=1, steps=30)
    >>> float(np.linalg.norm(normed(np.eye(3, dtype="f4")), 2).round(4))
    1.0
    """

    def __init__(self, layer: Module, *, key: Any, steps: int = 1, eps: float = 1e-12) -> None:
        sized("SpectralNorm", steps=steps)
        self.weight = self.hold(layer)
        self.steps, self.eps = steps, eps
        rows, columns = self.matrix(self.weight).shape
        drawn = np.asarray(init.normal(key, (rows + columns,), dtype=self.weight.dtype))
        self.left: Any = buffer(self.unit(drawn[:rows]))
        self.right: Any = buffer(self.unit(drawn[rows:]))

    def matrix(self, weight: Any) -> Any:
        """The weight as [outputs, all else]."""
        return weight.T if weight.ndim == 2 else weight.reshape(weight.shape[0], -1)

    def unit(self, v: Any) -> Any:
        """A vector of length 1."""
        return v / wnp.maximum(wnp.linalg.norm(v), wnp.asarray(self.eps).astype(v.dtype))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        matrix, left, right = self.matrix(wnp.asarray(self.weight)), self.left, self.right
        if self.training:
            still = stop_gradient(matrix)
            for _ in range(self.steps):
                left = self.unit(still @ right)
                right = self.unit(left @ still)
            self.left, self.right = left, right
        return self.call_with(self.weight / (left @ matrix @ right), args, kwargs)
