"""from_onnx: a model file as a function of parameters and inputs, which differentiates and compiles like any other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from wholestep import dtypes, numpy as wnp, tree
from wholestep.errors import DtypeError, ModelError, ParameterError, ShapeError, TreeError
from wholestep.export.onnx.protobuf import Proto, WireError, WireReader
from wholestep.export.onnx.schema import ELEMENTS
from wholestep.frontend.array import Array
from wholestep.frontend.tracing import type_of
from wholestep.interop.onnx.execute import ModelRun
from wholestep.interop.onnx.graph import OnnxBody, graph_of
from wholestep.interop.onnx.operators.node import OnnxNode
from wholestep.interop.onnx.operators.sequences import TensorSequence
from wholestep.interop.onnx.tensors import shown
from wholestep.ir.graph import NDArray
from wholestep.words import first_few, type_in_words

KNOWN_INPUTS: Mapping[str, tuple[int, ...]] = {
    "Resize": (1, 2),
    "Upsample": (1,),
    "Dropout": (1,),
    "Range": (0, 1, 2),
    "OneHot": (1,),
    "NonMaxSuppression": (3, 4),
    "MelWeightMatrix": (3, 4),
    "Clip": (1, 2),
    "QuantizeLinear": (1,),
    "DequantizeLinear": (1,),
    "QLinearConv": (1, 4, 6),
    "QLinearMatMul": (1, 4, 6),
    "RotaryEmbedding": (1, 2),
    "STFT": (2,),
}
"""Inputs of operators that are not weights: known shapes and numbers, bounds, scales of quantization, and tables."""
STATISTICS: Mapping[str, tuple[int, ...]] = {"BatchNormalization": (3, 4)}
"""Inputs that follow the data instead of a gradient."""
MOST_BYTES = 1 << 40


class OnnxFunction:
    """A model as a function: `f(params, *inputs)`, in training `f(params, buffers, *inputs, key=...)`.

    `inputs` and `outputs` are the names that the model gives them, in order; inputs may be given by name.
    """

    def __init__(
        self, graph: Proto, body: OnnxBody, constants: Mapping[str, NDArray], learned: Sequence[str], training: bool
    ) -> None:
        self.name = graph.name
        self.inputs = body.inputs
        self.outputs = body.outputs
        self.training = training
        self._types = {value.name: value.type for value in graph.input}
        self._constants = constants
        self._learned = tuple(learned)
        self._body = OnnxBody(body.inputs, body.outputs, {}, body.nodes)

    def __repr__(self) -> str:
        return f"<ONNX model {self.name!r}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def __call__(self, params: Mapping[str, Any], *inputs: Any, key: Any = None, **named: Any) -> Any:
        buffers: Mapping[str, Any] = {}
        if self.training:
            if not inputs or not isinstance(inputs[0], Mapping):
                raise ParameterError("from_onnx: a model in training is called as f(params, buffers, *inputs, key=...)")
            buffers, *inputs = inputs  # type: ignore[assignment]
        absent = [name for name in self._learned if name not in params and name not in buffers]
        if absent:
            raise TreeError(f"from_onnx: there is no {shown(absent[0])} among the parameters and buffers of the call")
        values = {**self._constants, **params, **buffers, **self._given(inputs, named)}
        run = ModelRun(self.training, key, buffers=dict(buffers))
        made = run.of(self._body, values)
        result = made[0] if len(made) == 1 else made
        return (result, {**buffers, **run.moved}) if self.training else result

    def _given(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name, of the types that the model says."""
        found = dict(zip(self.inputs, inputs, strict=False))
        unknown = [name for name in named if name not in self.inputs or name in found]
        found.update(named)
        missing = [name for name in self.inputs if name not in found]
        if len(inputs) > len(self.inputs) or unknown or missing:
            raise ParameterError(
                f"from_onnx: the model takes the inputs {', '.join(self.inputs) or 'none'}, "
                f"and the call gives {len(inputs)}{' and ' + ', '.join(named) if named else ''}",
                hint="inputs may be given in order or by name",
            )
        return {name: checked_input(name, x, self._types.get(name)) for name, x in found.items()}


def checked_input(name: str, x: Any, kind: Proto | None) -> Any:
    """An input as an array; raises DtypeError or ShapeError if it differs from the type that the model declares."""
    if x is None or kind is None:
        return x
    if kind.tensor_type is None:
        several = isinstance(x, list | tuple)
        return TensorSequence([item if item is None else wnp.asarray(item) for item in x]) if several else x
    x = x if isinstance(x, Array | np.ndarray | np.generic) else wnp.asarray(x)
    said, dtype = kind.tensor_type, ELEMENTS.get(kind.tensor_type.elem_type)
    if dtype is not None and x.dtype.name != dtype:
        raise DtypeError(
            f"from_onnx: the input {name!r} is {type_of(x)}, and the model takes {dtype}", hint=f'x.astype("{dtype}")'
        )
    sizes = None if said.shape is None else [d.fields.get("dim_value") for d in said.shape.dim]
    if sizes is not None and (
        len(sizes) != x.ndim or any(n not in (None, m) for n, m in zip(sizes, x.shape, strict=True))
    ):
        shown = ", ".join(
            [d.dim_param or "?" if n is None else str(n) for d, n in zip(said.shape.dim, sizes, strict=True)]
        )
        raise ShapeError(f"from_onnx: the input {name!r} is {type_of(x)}, and the model takes [{shown}]")
    return x


@overload
def from_onnx(
    model: str | os.PathLike[str] | bytes, *, trainable: str | Sequence[str] | Callable[[str], bool] | None = ...
) -> tuple[OnnxFunction, dict[str, NDArray]]: ...
@overload
def from_onnx(
    model: str | os.PathLike[str] | bytes,
    *,
    training: Literal[True],
    trainable: str | Sequence[str] | Callable[[str], bool] | None = ...,
) -> tuple[OnnxFunction, dict[str, NDArray], dict[str, NDArray]]: ...
def from_onnx(
    model: str | os.PathLike[str] | bytes,
    *,
    training: bool = False,
    trainable: str | Sequence[str] | Callable[[str], bool] | None = None,
) -> tuple[Any, ...]:
    """A function and its parameters from an ONNX model: `f, params = ws.from_onnx("net.onnx")`.

    `f(params, *inputs)` gives the model's output, or a tuple of them. It is made of the operations of this library, so
    that it is differentiated, mapped, compiled and trained like one that was written here. `params` is a dictionary of
    initializers by their names: those of floating numbers and at least one axis that a node reads as a weight. The
    others are constants: integers, numbers without axes, statistics of batch norms, bounds, scales of quantized
    numbers, and values that must be known while the program is being traced. `trainable` chooses them instead: patterns
    of names, or a function of the name.

    With `training=True` it is `f, params, buffers`, and `f(params, buffers, *inputs, key=...)` gives outputs and new
    buffers: batch norms take the statistics of the batch and move the running ones, which are the buffers, and dropout
    is on and draws from the key.

    Opsets 13 to 28 are read (7 to 12 without a guarantee), with standard operators and the model's own functions.
    Nothing in the file is run or believed: tensors in other files must lie in the model's own folder with the declared
    size, and graphs are bounded in number and depth.

    Shapes: inputs and outputs as the model says; parameters any floating arrays.
    Raises: ModelError for a file that is damaged or does not fit together, UnsupportedError that lists all operators
    that are not covered, ParameterError for patterns that match nothing, ValueDependentError for a shape that depends
    on data.

    >>> import wholestep as ws
    >>> from wholestep.export.onnx.protobuf import Proto
    >>> kind = Proto("Type", tensor_type=Proto("TensorType", elem_type=1))
    >>> node = Proto("Node", op_type="Mul", input=["x", "w"], output=["y"])
    >>> weight = Proto("Tensor", name="w", data_type=1, dims=[2], float_data=[2.0, 3.0])
    >>> graph = Proto("Graph", node=[node], initializer=[weight], input=[Proto("ValueInfo", name="x", type=kind)],
    ...               output=[Proto("ValueInfo", name="y", type=kind)])
    >>> file = Proto("Model", graph=graph, opset_import=[Proto("OperatorSet", version=21)]).encoded()
    >>> f, params = ws.from_onnx(file)
    >>> f(params, params["w"]).tolist()
    [4.0, 9.0]
    """
    data, folder = contents(model)
    proto = parsed_model(data)
    body, _ = graph_of(proto, folder)
    uses = dict[str, set[str]]()
    for name, role in roles(body, {name: name for name in body.constants}):
        uses.setdefault(name, set()).add(role)
    statistics = {name for name, found in uses.items() if "statistics" in found}
    chosen = chooser(trainable, [name for name in uses if dtypes.is_float(body.constants[name].dtype)])
    params: dict[str, NDArray] = {}
    buffers: dict[str, NDArray] = {}
    for name, value in body.constants.items():
        if training and name in statistics:
            buffers[name] = value.copy()
        elif name in uses and is_weight(name, value, uses[name], chosen):
            params[name] = value.copy()
    constants = {name: x for name, x in body.constants.items() if name not in params and name not in buffers}
    f = OnnxFunction(proto.graph, body, constants, [*params, *buffers], training)
    return (f, params, buffers) if training else (f, params)


def contents(model: Any) -> tuple[bytes, Path | None]:
    """The bytes of a model, and the folder that its file lies in."""
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model), None
    try:
        path = Path(model)
        if path.is_dir():
            raise ModelError(f"from_onnx: {path} is a folder")
        return path.read_bytes(), path.parent
    except TypeError:
        raise ParameterError(f"from_onnx: {type_in_words(model)} is neither a path nor the bytes of a model") from None
    except OSError as error:
        raise ModelError(f"from_onnx: {model}: it cannot be read: {error.strerror or error}") from None


def parsed_model(data: bytes) -> Proto:
    """The message that a file holds."""
    try:
        return WireReader().message("Model", memoryview(data))
    except WireError as error:
        raise ModelError(
            f"from_onnx: the file is damaged, or no ONNX model: {error}", hint="onnx.save writes a whole one"
        ) from None


def roles(body: OnnxBody, outer: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each use of an initializer, by its own name and kind, also under the names of nested graphs and functions."""
    for node, function in body.nodes:
        if function is not None:
            inner = {own: outer[name] for own, name in zip(function.inputs, node.inputs, strict=False) if name in outer}
            yield from roles(function, inner)
            continue
        for place, name in enumerate(node.inputs):
            if name in outer:
                yield outer[name], role_of(node, place)
        for value in node.attributes.values():
            if isinstance(value, OnnxBody):
                yield from roles(value, {k: v for k, v in outer.items() if k not in (*value.inputs, *value.constants)})
    for name in body.outputs:
        if name in outer:
            yield outer[name], "weight"


def role_of(node: OnnxNode, place: int) -> str:
    """The kind of use that an operator makes of an input."""
    if place in STATISTICS.get(node.op, ()):
        return "statistics"
    return "known" if place in KNOWN_INPUTS.get(node.op, ()) else "weight"


def is_weight(name: str, value: NDArray, uses: set[str], chosen: Callable[[str], bool] | None) -> bool:
    """True for an initializer that trains."""
    if not dtypes.is_float(value.dtype):
        return False
    return chosen(name) if chosen is not None else uses == {"weight"} and value.ndim > 0


def chooser(trainable: Any, names: Sequence[str]) -> Callable[[str], bool] | None:
    """The choice of parameters by name, from patterns or a function; raises ParameterError where no name matches."""
    if trainable is None or callable(trainable):
        return trainable  # type: ignore[no-any-return]
    patterns = [trainable] if isinstance(trainable, str) else list(trainable)
    matched = [name for name in names if any(tree.matches(pattern, name) for pattern in patterns)]
    if patterns and not matched:
        raise ParameterError(
            f"from_onnx: no floating initializer matches {first_few(list(map(repr, patterns)), 8)}",
            hint=f"the model has {first_few(list(map(shown, names)), 8) or 'none'}",
        )
    return lambda name: name in matched
