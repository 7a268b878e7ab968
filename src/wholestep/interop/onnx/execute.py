"""A model run node by node on arrays, plain or traced; an error names the node, its operator and its opset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wholestep import random
from wholestep.errors import ModelError, UnsupportedError, ValueDependentError, WholestepError
from wholestep.interop.onnx.graph import OnnxBody, label_of
from wholestep.interop.onnx.operators.node import OnnxNode
from wholestep.interop.onnx.operators.running import no_key
from wholestep.interop.onnx.operators.tables import PLAIN, WITH_RUN

FAULTS = (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError, MemoryError, AssertionError)
"""The errors of a handler whose arguments its operator does not take."""


@dataclass(slots=True, eq=False)
class ModelRun:
    """One call of a model: the values around the graph that runs, whether it is in training, and its key."""

    training: bool = False
    key: Any = None
    moved: dict[str, Any] = field(default_factory=dict)
    around: Mapping[str, Any] = field(default_factory=dict)
    drawn: int = 0
    buffers: Mapping[str, Any] = field(default_factory=dict)
    read: list[Any] = field(default_factory=list)

    def of(self, body: OnnxBody, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs of a graph, given values by name."""
        before, names = (self.around, self.read), {**self.around, **body.constants, **values}
        self.around, self.read = names, [*self.read]
        try:
            for node, function in body.nodes:
                given = [names[name] if name else None for name in node.inputs]
                while given and given[-1] is None:
                    given.pop()
                made = self.step(node, function, given)
                for name, value in zip(node.outputs, made, strict=False):
                    if name:
                        names[name] = value
        finally:
            self.around, self.read = before
        return tuple([self.found(names, name) for name in body.outputs])

    def found(self, names: Mapping[str, Any], name: str) -> Any:
        """An output; raises ModelError for an output that its node did not return."""
        if name not in names:
            raise ModelError(f"from_onnx: the output {name!r} is not given by its node")
        return names[name]

    def step(self, node: OnnxNode, function: OnnxBody | None, given: list[Any]) -> tuple[Any, ...]:
        """The outputs of a node; raises ModelError that names the node if its handler fails."""
        try:
            if function is not None:
                return self.call(function, given)
            with np.errstate(all="ignore"):
                plain = PLAIN.get(node.op)
                made = plain(node, *given) if plain else WITH_RUN[node.op](self, node, *given)
        except (ValueDependentError, UnsupportedError) as error:
            raise type(error)(named(node, error), where=getattr(error, "where", None)) from error
        except FAULTS as error:
            if str(error).startswith("from_onnx"):
                raise
            raise ModelError(named(node, error)) from error
        return made if type(made) is tuple else (made,)

    def call(self, function: OnnxBody, given: list[Any]) -> tuple[Any, ...]:
        """A function of the model, which sees its inputs alone."""
        before, self.around = self.around, {}
        try:
            rest = [None] * (len(function.inputs) - len(given))
            return self.of(function, dict(zip(function.inputs, [*given, *rest], strict=True)))
        finally:
            self.around = before

    def inside(self, body: OnnxBody, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The outputs of a nested graph, which may read values of the graphs around it."""
        if len(values) != len(body.inputs):
            raise ModelError(f"a graph inside reads {len(body.inputs)} values and is given {len(values)}")
        return self.of(body, dict(zip(body.inputs, values, strict=True)))

    def draw_key(self, what: str) -> Any:
        """A fresh key; raises ParameterError where the call has none."""
        if self.key is None:
            raise no_key(what)
        self.drawn += 1
        return random.fold_in(self.key, self.drawn)

    def move(self, old: Any, new: Any) -> None:
        """Record a buffer's new value; the old value identifies the buffer, which nodes may read under other names."""
        name = next((name for name, x in self.buffers.items() if x is old), None)
        if name is None:
            raise ModelError("its statistics are computed, and in training they must be initializers")
        self.moved[name] = new


def named(node: OnnxNode, error: BaseException) -> str:
    """The message of an error, with the node in front of it."""
    text = str(error).split("\n  at ")[0] if isinstance(error, WholestepError) else f"{type(error).__name__}: {error}"
    text = text.removeprefix("from_onnx: ")
    return text if text.startswith("node ") else f"from_onnx: {label_of(node)}: {text}"
