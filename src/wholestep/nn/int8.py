"""Dense layers whose weights are held in int8, with a scale for each output, and dequantized a block at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np

from wholestep import containers, numpy as wnp, tree
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.checkpoint import checkpoint
from wholestep.frontend.control import scan
from wholestep.ir.graph import NDArray
from wholestep.nn.annotations import FROZEN, FROZEN_UNDECAYED, frozen
from wholestep.nn.linears import Linear
from wholestep.nn.module import Module, copy_of
from wholestep.nn.traversal import ModelWalk
from wholestep.nn.windows import type_text

M = TypeVar("M", bound=Module)

LARGEST = 127
"""The largest absolute value of an int8 weight; -128 is not used, so that the range is symmetric."""
BLOCK = 1 << 17
"""The number of weight elements that are dequantized at a time: half a megabyte in float32."""


class Int8Linear(Module):
    """A `Linear` whose weight is int8[out, in] times a float32 scale for each output, both frozen.

    The weights are those of `layer`. The scale is the largest absolute weight of the output over 127, and weights are
    rounded to the nearest multiple of it. A call dequantizes blocks of outputs one after the other, forward and
    backward, so a dequantized copy of the whole weight never exists. The bias is unchanged. `dense()` is a `Linear` of
    the rounded weights, of the class of the given one where that is made like a `Linear`.

    Shapes: x [..., in]; [..., out] of the dtype of x, at least float32.
    Raises: ParameterError for a layer that is no `Linear`, and for weights that are infinite or nan; DtypeError for
    complex ones.
    Source: Dettmers et al., "LLM.int8(): 8-bit matrix multiplication for transformers at scale", 2022 (absmax).

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Linear(3, 2, key=0)
    >>> small = ws.nn.Int8Linear(layer)
    >>> small.weight.dtype, bool(np.allclose(small(np.ones(3)), layer(np.ones(3)), atol=0.01))
    (dtype('int8'), True)
    """

    def __init__(self, layer: Linear) -> None:
        if layer.weight.dtype.kind == "c":
            raise DtypeError(f"Int8Linear: the weight is {type_text(layer.weight)}", hint="give a real one")
        weight = np.asarray(layer.weight).astype(np.float32).T
        if not np.isfinite(weight).all():
            raise ParameterError("Int8Linear: the weight has elements that are infinite or nan")
        largest = np.abs(weight).max(axis=1)
        scale = np.where(largest == 0, np.float32(1), largest / np.float32(LARGEST)).astype(np.float32)
        self.weight: Any = frozen(np.ascontiguousarray(np.rint(weight / scale[:, None]).astype(np.int8)))
        self.scale: Any = frozen(scale)
        held = layer.bias is not None and layer._marks.get("bias") in (FROZEN, FROZEN_UNDECAYED)
        self.bias: Any = frozen(layer.bias) if held else layer.bias
        # Subclasses of Linear, such as GPT-2's, differ in the layout of files: `dense` returns the same class.
        self.of = type(layer) if type(layer).__init__ is Linear.__init__ else Linear

    def __call__(self, x: Any) -> NDArray:
        x = wnp.asarray(x)
        if x.ndim < 1 or x.shape[-1] != self.weight.shape[1]:
            raise ShapeError(
                f"Int8Linear: x is {type_text(x)} and the weight {type_text(self.weight)}",
                hint="the weight is [out, in], and the last axis of x is in",
            )
        made = by_blocks(x, self.weight) * self.scale
        return made if self.bias is None else made + self.bias

    def dense(self) -> Linear:
        """A `Linear` of the rounded weights, in float32."""
        outputs, inputs = self.weight.shape
        made = self.of(inputs, outputs, key=0, bias=self.bias is not None)
        made.weight, made.bias = (self.weight * self.scale[:, None]).T.copy(), self.bias
        return made


def by_blocks(x: Any, weight: Any) -> Any:
    """x @ weight.T, computed in blocks of outputs whose weights have at most `BLOCK` elements."""
    outputs, inputs = weight.shape
    rows = max(1, BLOCK // inputs)
    count = outputs // rows
    if count < 2:
        return widened_product(x, weight)

    def block(carry: Any, part: Any) -> Any:
        return carry, widened_product(x, part)

    whole = weight[: count * rows].reshape(count, rows, inputs)
    _, parts = scan(checkpoint(block), (), whole)
    made = wnp.moveaxis(parts, 0, -2).reshape(*x.shape[:-1], count * rows)
    if count * rows == outputs:
        return made
    return wnp.concatenate([made, widened_product(x, weight[count * rows :])], axis=-1)


def widened_product(x: Any, weight: Any) -> Any:
    """x @ weight.T of integers as numbers of float32."""
    return x @ weight.astype(np.float32).T


@overload
def to_int8(model: Linear) -> Int8Linear: ...
@overload
def to_int8(model: M) -> M: ...
def to_int8(model: Module) -> Module:
    """A copy of a model in which every `Linear` is an `Int8Linear`; put `LoRA` around some of them to train on.

    `nn.save` and `nn.load` write and read it as they do any model: `nn.load` takes a model of the same structure.

    Shapes: a module of arrays of any shapes; the same, with int8 arrays.
    Raises: ParameterError for a model without a `Linear` and for a weight that something else is tied to, and as
    `Int8Linear` does.
    Source: as `Int8Linear`.

    >>> import wholestep as ws
    >>> model = ws.nn.to_int8(ws.nn.MLP([3, 8, 2], key=0))
    >>> sorted({str(x.dtype) for x in ws.nn.buffers(model).values()})
    ['float32', 'int8']
    """
    if isinstance(model, Linear):
        return Int8Linear(model)
    copied = copy_of(model)
    walk = ModelWalk(copied)
    dense = [(path, module) for path, module in walk.modules if isinstance(module, Linear)]
    if not dense:
        raise ParameterError(f"to_int8: the {type(model).__name__} has no nn.Linear")
    refuse_second_names(walk, [module.weight for _, module in dense])
    new = {id(module): Int8Linear(module) for _, module in dense}
    for _, module in walk.modules:
        for name, value in list(vars(module).items()):
            if not isinstance(module, Linear):
                module.__dict__[name] = with_narrow_layers(value, new)
    return copied


def refuse_second_names(walk: ModelWalk, weights: Sequence[Any]) -> None:
    """Raise ParameterError if a weight to be rounded is tied to a second name, which would keep the old one."""
    names = {id(p.value): list(p.aliases) for p in walk.places}
    for path, module in walk.modules:
        for field in module._ties:
            names.setdefault(id(getattr(module, field)), []).append(tree.access(path, tree.Path(field)))
    for weight in weights:
        if len(names[id(weight)]) > 1:
            raise ParameterError(
                f"to_int8: {' and '.join(names[id(weight)])} are one weight",
                hint="untie them, or put Int8Linear in the place of single layers",
            )


def with_narrow_layers(value: Any, new: dict[int, Int8Linear]) -> Any:
    """A field with its layers replaced by those that `new` has for their ids, inside of containers too."""
    if id(value) in new:
        return new[id(value)]
    level = None if value is None or isinstance(value, np.ndarray | Module) else containers.one_level(value)
    if level is None:
        return value
    return containers.rebuild(type(value), level.metadata, [with_narrow_layers(child, new) for child in level.children])
