"""A program of MIL being written: arrays of up to five axes, constants each once, and values that only broadcast.

An array of more axes lies flat, since Core ML has none; its words work on views with fewer axes.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep.errors import UnsupportedError
from wholestep.export.converters import converter_module
from wholestep.export.core import PARTS
from wholestep.export.rules.complex_pairs import has_complex
from wholestep.ir.graph import Graph, Node, Value

MOST_AXES = 5
"""The axes that an array of Core ML may have."""
INT32 = np.dtype(np.int32)
HELD = {"float32": "fp32", "float16": "fp16", "bool": "bool"} | dict.fromkeys(
    ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), "int32"
)
"""The types of MIL in which arrays of a dtype are held: uint32 as its bits, int64 in the range of int32."""
Var = Any
"""A value of MIL."""
Word = Callable[["MilWriter", Node, list[Var]], "Var | Sequence[Var]"]
"""Writes an operation, given its operands; its results."""


@contextmanager
def quiet() -> Iterator[None]:
    """A context in which coremltools logs only errors and draws no progress bars."""
    log = logging.getLogger("coremltools")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        log.setLevel(before)


def mil_module(name: str) -> Any:
    """A module of coremltools; raises UnsupportedError where that is not installed."""
    with quiet():
        return converter_module(f"coremltools{name}", "coreml", "a package is written by coremltools", "coreml")


def held_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape in which an array is held: its own, or one axis of all elements."""
    return tuple(shape) if len(shape) <= MOST_AXES else (int(np.prod(shape)),)


def mil_array(x: Any) -> Any:
    """A constant as MIL holds it; raises UnsupportedError for integers beyond 32 bits."""
    x = np.asarray(x)
    if x.dtype.kind not in "iu":
        return x
    if x.dtype == np.uint32:
        return x.view(INT32)
    found = x.astype(INT32)
    if not np.array_equal(found, x):
        raise UnsupportedError(
            "export to coreml: a constant holds integers beyond 32 bits, which Core ML has not",
            hint="keep such numbers out of the program, or pass them as floats",
        )
    return found


@dataclass(eq=False)
class MilNames:
    """The fresh names of a program."""

    taken: frozenset[str]
    count: int = 0

    def fresh(self) -> str:
        """An unused name."""
        self.count += 1
        name = f"t{self.count}"
        return name if name not in self.taken else self.fresh()


class MilWriter:
    """One block being written; values that broadcast to their type stay thin until the whole array is needed."""

    def __init__(self, words: Mapping[str, Word], names: MilNames, values: Mapping[Value, Var] | None = None) -> None:
        self.words, self.names = words, names
        self.mb = mil_module(".converters.mil").Builder
        self.whole: dict[Value, Var] = dict(values or {})
        self.thin: dict[Value, Var] = {}
        self.pairs: dict[Value, tuple[Var, ...]] = {}
        """The parts of complex numbers."""
        self.constants: dict[tuple[str, tuple[int, ...], bytes], Var] = {}

    def inner(self, values: Mapping[Value, Var]) -> MilWriter:
        """A writer of a block inside this one."""
        return MilWriter(self.words, self.names, values)

    def op(self, kind: str, **operands: Any) -> Var:
        """An operation of MIL."""
        return getattr(self.mb, kind)(name=self.names.fresh(), **operands)

    def constant(self, x: Any) -> Var:
        """An array or a number that the program holds, each once in a block."""
        x = mil_array(x)
        key = (x.dtype.name, x.shape, x.tobytes())
        if key not in self.constants:
            self.constants[key] = self.op("const", val=x if x.shape else x[()])
        return self.constants[key]

    def number(self, x: float, dtype: Any) -> Var:
        """A number in the type that arrays of a dtype are held in."""
        return self.constant(mil_array(np.asarray(x, dtype)))

    def filled(self, shape: Sequence[int], x: float, dtype: Any) -> Var:
        """An array of one number."""
        if not shape:
            return self.number(x, dtype)
        return self.op("fill", shape=np.array(shape, np.int32), value=mil_array(np.asarray(x, dtype))[()])

    def cast(self, x: Var, dtype: Any) -> Var:
        """The same numbers as MIL converts them."""
        return self.op("cast", x=x, dtype=HELD[np.dtype(dtype).name])

    def view(self, x: Var, shape: Iterable[int]) -> Var:
        """The same elements in another shape."""
        wanted = tuple(shape)
        if tuple(x.shape) == wanted:
            return x
        if not wanted:
            return self.op("squeeze", x=self.view(x, (1,)), axes=[0])
        if not x.shape:
            return self.op("expand_dims", x=x, axes=list(range(len(wanted))))
        return self.op("reshape", x=x, shape=np.array(wanted, np.int32))

    def held(self, x: Var, shape: Sequence[int]) -> Var:
        """x in the shape in which an array of `shape` is held."""
        return self.view(x, held_shape(shape))

    def tiled(self, x: Var, shape: Sequence[int]) -> Var:
        """A thin array repeated to a shape."""
        reps = [n // m for n, m in zip(shape, x.shape, strict=True)]
        return x if all(r == 1 for r in reps) else self.op("tile", x=x, reps=np.array(reps, np.int32))

    def get(self, v: Value) -> Var:
        """A value in the shape in which it is held."""
        if v not in self.whole:
            self.whole[v] = self.tiled(self.thin[v], v.shape)
        return self.whole[v]

    def write(self, graph: Graph) -> list[Var]:
        """All nodes of a graph whose inputs are known; its outputs."""
        for node in graph.nodes:
            self.node(node)
        return [self.get(v) for v in graph.outputs]

    def returned(self, graph: Graph) -> list[Var]:
        """The outputs of a block inside, each a value of its own."""
        return [self.op("identity", x=x) for x in self.write(graph)]

    def node(self, node: Node) -> None:
        """One operation; elementwise ones take thin values, and of thin values alone give one."""
        if has_complex(node):
            self.on_pairs(node)
            return
        elementwise = node.op.kind == "elementwise"
        given = [self.thin[v] if elementwise and v in self.thin and v not in self.whole else self.get(v)
                 for v in node.inputs]  # fmt: skip
        made = self.words[node.op.name](self, node, given)
        results: list[Var] = list(made) if isinstance(made, list | tuple) else [made]
        for v, x in zip(node.outputs, results, strict=True):
            lies = tuple(x.shape) == held_shape(v.shape)
            (self.whole if lies else self.thin)[v] = x

    def on_pairs(self, node: Node) -> None:
        """An operation that makes complex numbers of parts, or takes a part."""
        out = node.outputs[0]
        if node.op.name == "make_complex":
            self.pairs[out] = tuple([self.get(v) for v in node.inputs])
        else:
            self.whole[out] = self.pairs[node.inputs[0]][PARTS.index(node.op.name)]


def fits_mil(dtype: Any) -> bool:
    """True for dtypes that MIL has, or holds in int32."""
    return np.dtype(dtype).name in HELD
