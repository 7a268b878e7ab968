"""Layers whose weight is a function of trained arrays: normalized rows, a bounded spectral norm, orthonormal rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ParameterError
from wholestep.frontend.dispatch import HOOKS
from wholestep.frontend.marks import stop_gradient
from wholestep.ir.graph import NDArray
from wholestep.nn import init
from wholestep.nn.annotations import buffer, frozen
from wholestep.nn.linears import sized
from wholestep.nn.module import Module, copy_of
from wholestep.numpy.working_precision import working_array
from wholestep.words import type_in_words


class Reparametrized(Module):
    """A copy of a layer that is called with another array in the place of its field `weight`."""

    _drawn_first = ("layer",)

    def hold(self, layer: Module) -> Any:
        """Keep the layer without its weight, which is returned; raises ParameterError for one that has none."""
        name = type(self).__name__
        weight: Any = getattr(layer, "weight", None)
        if not isinstance(layer, Module) or not hasattr(weight, "ndim") or weight.ndim < 2:
            raise ParameterError(
                f"{name}: the layer is {type_in_words(layer)} without a matrix as its weight",
                hint="give an nn.Linear or a convolution",
            )
        self.layer = copy_of(layer)
        self.layer.weight = None
        return np.asarray(weight)

    def call_with(self, weight: Any, args: Any, kwargs: Any) -> Any:
        """The layer's result with this weight."""
        layer: Any = copy_of(self.layer)
        # The copy belongs to this call, so the assignment does not outlive it.
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
    buffers `left` and `right` and keeps them there; in evaluation they stay. The iteration has no gradient. They begin
    as `key`, a seed or a key, draws them; lengths below `eps` count as `eps`.

    Shapes: as the layer. The buffers are vectors of the two sizes of the matrix.
    Raises: ParameterError for a layer without a weight of two axes or more, and for steps that are no positive integer.
    Source: Miyato et al., "Spectral normalization for generative adversarial networks", 2018.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Linear(3, 2, key=0, bias=False)
    >>> normed = ws.nn.SpectralNorm(layer, key=1, steps=30)
    >>> float(np.linalg.norm(normed(np.eye(3, dtype="f4")), 2).round(4))
    1.0
    """

    _draws = True

    def __init__(self, layer: Module, *, key: Any = None, steps: int = 1, eps: float = 1e-12) -> None:
        sized("SpectralNorm", steps=steps)
        self.weight = self.hold(layer)
        self.steps, self.eps = steps, eps
        rows, columns = as_outputs(self.weight).shape
        drawn = np.asarray(init.normal(key, (rows + columns,), dtype=self.weight.dtype))
        self.left: Any = buffer(self.unit(drawn[:rows]))
        self.right: Any = buffer(self.unit(drawn[rows:]))

    def unit(self, v: Any) -> Any:
        """A vector of length 1."""
        return v / wnp.maximum(wnp.linalg.norm(v), wnp.asarray(self.eps).astype(v.dtype))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        matrix, left, right = as_outputs(wnp.asarray(self.weight)), self.left, self.right
        if self.training:
            still = stop_gradient(matrix)
            for _ in range(self.steps):
                left = self.unit(still @ right)
                right = self.unit(left @ still)
            self.left, self.right = left, right
        return self.call_with(self.weight / (left @ matrix @ right), args, kwargs)


class Orthogonal(Reparametrized):
    """A layer whose weight stays orthogonal: its rows or its columns, whichever are fewer, are orthonormal.

    The weight is read as a matrix [outputs, all other axes]. It is the frozen `base` times an orthogonal function of
    the trained `raw`. With `map="matrix_exp"` the function is the exponential of a, the lower triangle of `raw` minus
    its transpose; with "cayley" it is (1 - a / 2)^-1 (1 + a / 2); with "householder" a product of reflections, one for
    each column or row, whichever are fewer, which costs least where these are few. The last is the default but for
    square and complex matrices, whose default is the first. The layer begins with the orthogonal factor of the given
    weight. For an `nn.Linear`, `nn.from_torch` reads PyTorch layers parametrized by
    torch.nn.utils.parametrizations.orthogonal, whose `orthogonal_map` must equal `map`.

    Shapes: as the layer. `raw` has the shape of its weight, `base` is [n, n], n the larger size of the matrix.
    Raises: ParameterError for a layer without a weight of two axes or more, for another `map`, and for reflections of
    complex numbers.
    Source: Lezcano-Casado, "Trivializations for gradient-based optimization on manifolds", 2019; the product of
    reflections by Joffrain et al., "Accumulating Householder transformations, revisited", 2006.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Orthogonal(ws.nn.Linear(4, 2, key=0, bias=False))
    >>> made = layer(np.eye(4, dtype=np.float32))
    >>> bool(np.allclose(made.T @ made, np.eye(2), atol=1e-6)), sorted(ws.nn.named_parameters(layer))
    (True, ['raw'])
    """

    undecayed = ("raw",)
    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        "raw": "parametrizations.weight.original",
        "base": "parametrizations.weight.0.base",
        "layer": "",
    }
    torch_turned = ("raw",)

    def __init__(self, layer: Module, *, map: str | None = None) -> None:
        weight = self.hold(layer)
        matrix = as_outputs(weight)
        rows, columns = matrix.shape
        real = matrix.dtype.kind != "c"
        self.map = ("householder" if real and rows != columns else "matrix_exp") if map is None else map
        if self.map not in ORTHOGONAL_MAPS:
            raise ParameterError(f"Orthogonal: map is {map!r}; it is one of {', '.join(ORTHOGONAL_MAPS)}")
        if self.map == "householder" and not real:
            raise ParameterError(
                "Orthogonal: reflections of complex numbers do not give every unitary matrix",
                hint='map="matrix_exp" or map="cayley"',
            )
        wide = np.asarray(working_array(matrix if rows >= columns else matrix.T))
        q, r = np.linalg.qr(wide, mode="complete")
        signs = np.ones(len(q), q.dtype)
        signs[: min(rows, columns)] = np.where(np.diagonal(r).real < 0, -1, 1)
        self.base = frozen((q * signs).astype(weight.dtype))
        # PyTorch's initial value, for which the product of reflections with the signs of the columns is the identity.
        self.raw: Any = in_shape_of(-np.eye(rows, columns, dtype=weight.dtype), weight)

    def orthonormal(self) -> NDArray:
        """The weight as a matrix [outputs, all else] of its dtype."""
        raw = as_outputs(working_array(self.raw))
        tall = raw.shape[0] >= raw.shape[1]
        found = working_array(self.base) @ ORTHOGONAL_MAPS[self.map](raw if tall else raw.T)
        made: NDArray = (found if tall else found.T).astype(self.raw.dtype)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call_with(in_shape_of(self.orthonormal(), self.raw), args, kwargs)


def as_outputs(weight: Any) -> Any:
    """A weight as a matrix [outputs, all else]."""
    return weight.T if weight.ndim == 2 else weight.reshape(weight.shape[0], -1)


def in_shape_of(matrix: Any, like: Any) -> Any:
    """A matrix [outputs, all else] in the shape of a weight."""
    return matrix.T if like.ndim == 2 else matrix.reshape(like.shape)


def skew_matrix(x: Any) -> Any:
    """The lower triangle of a matrix [n, k], minus its conjugate transpose, as a matrix [n, n]."""
    rows, columns = x.shape
    lower = wnp.pad(wnp.tril(x), [(0, 0), (0, rows - columns)])
    return lower - wnp.conj(lower).T


def exponential_map(x: Any) -> Any:
    """The first columns of the exponential of a skew matrix."""
    return wnp.asarray(HOOKS.scipy_part("linalg").expm(skew_matrix(x)))[:, : x.shape[1]]


def cayley_map(x: Any) -> Any:
    """The first columns of (1 - a / 2)^-1 (1 + a / 2) of a skew matrix a."""
    a, one = skew_matrix(x), wnp.eye(x.shape[0], dtype=x.dtype)
    return wnp.linalg.solve(one - a / 2, (one + a / 2)[:, : x.shape[1]])


def reflection_map(x: Any) -> Any:
    """The first columns of a product of reflections, turned round where the diagonal is not positive.

    Reflection i leaves out the direction with 1 at place i and column i of `x` below; with these as the columns of v
    the product is 1 - v t^-1 v^T, where t + t^T = v^T v and t is an upper triangle.
    """
    columns = x.shape[1]
    one = wnp.eye(*x.shape, dtype=x.dtype)
    v = wnp.tril(x, -1) + one
    gram = v.T @ v
    t = wnp.triu(gram, 1) + wnp.diag(wnp.diagonal(gram)) / 2
    product = one - v @ HOOKS.scipy_part("linalg").solve_triangular(t, v[:columns].T)
    return product * wnp.where(wnp.diagonal(x) > 0, 1, -1).astype(x.dtype)


ORTHOGONAL_MAPS = {"matrix_exp": exponential_map, "cayley": cayley_map, "householder": reflection_map}
"""Functions from a matrix [n, k] of any numbers, n at least k, to one with orthonormal columns, by name."""
