"""A graph of ONNX being written: nodes, constants, and the names of values, of which some only broadcast to theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from wholestep.dims import Dim, Size
from wholestep.export.biased_products import BiasedProduct, biased_convolutions_in
from wholestep.export.convolutions import ConvolvedProduct, convolutions_in, nodes_beside
from wholestep.export.core import PARTS, symbolic_sizes_refused
from wholestep.export.onnx import schema
from wholestep.export.onnx.convolved import onnx_convolves, stored_kernel
from wholestep.export.onnx.protobuf import Proto
from wholestep.export.onnx.sizes import size_computed
from wholestep.export.rules.complex_pairs import has_complex
from wholestep.ir.graph import Graph, NDArray, Node, Value
from wholestep.ir.types import Type

Word = Callable[["OnnxWriter", Node, list[str]], "str | Sequence[str]"]
"""Writes an operation, given the names of its operands; the names of its results."""


class OnnxPattern(Protocol):
    """Several operations of a graph that are written at once, in the place of the last one."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""

    @property
    def inner(self) -> frozenset[Node]:
        """The operations that become unused when the pattern is written."""


Search = tuple[Callable[[Graph], Mapping[Node, Any]], Callable[["OnnxWriter", Node, Any, Sequence[str]], str]]
"""(function that finds the patterns of a kind in a graph, function that writes one in the place of a node)."""

ON_PAIRS = "pairs: "
"""The prefix of an operation's name for its word on complex numbers, whose operands and results are two names each."""


@dataclass(eq=False)
class SharedNames:
    """The fresh names of a model, and its constants, which graphs inside see as well."""

    words: Mapping[str, Word]
    searches: Sequence[Search] = ()
    taken: frozenset[str] = frozenset()
    """Names of inputs and outputs, which are the user's."""
    count: int = 0
    constants: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)
    initializers: list[Proto] = field(default_factory=list)
    sizes: dict[str, str] = field(default_factory=dict)
    """The names of the lists of one integer that hold the symbolic sizes, by symbol."""
    reads_bits: bool = False
    """True once an operator of a later opset is used."""

    def fresh(self) -> str:
        """An unused name."""
        self.count += 1
        name = f"t{self.count}"
        return name if name not in self.taken else self.fresh()


class OnnxWriter:
    """One graph being written; values that broadcast to their type have a thin name until the whole array is needed."""

    def __init__(self, shared: SharedNames, values: Mapping[Value, str] | None = None) -> None:
        self.shared = shared
        self.nodes: list[Proto] = []
        self.whole: dict[Value, str] = dict(values or {})
        self.thin: dict[Value, str] = {}
        self.pairs: dict[Value, tuple[str, ...]] = {}
        """The names of the parts of complex numbers."""
        self.convolutions: dict[Node, ConvolvedProduct] = {}
        self.biased: dict[Node, BiasedProduct] = {}
        """The sums that are convolutions with a bias."""
        self.patterns: dict[Node, tuple[OnnxPattern, Callable[..., str]]] = {}
        """The pattern that is written in the place of a node, and the function that writes it, by node."""

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one result; its name."""
        return self.ops(kind, inputs, 1, **attributes)[0]

    def ops(self, kind: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """A node with several results; their names."""
        made = [self.shared.fresh() for _ in range(count)]
        given = [attribute_of(name, x) for name, x in attributes.items() if x is not None]
        self.shared.reads_bits |= kind == "BitCast"
        self.nodes.append(Proto("Node", op_type=kind, input=list(inputs), output=made, attribute=given))
        return made

    def constant(self, x: Any) -> str:
        """The name of an array that the model holds, each once."""
        x = np.asarray(x)
        key = (x.dtype.name, x.shape, x.tobytes())
        if key not in self.shared.constants:
            name = self.shared.fresh()
            self.shared.constants[key] = name
            self.shared.initializers.append(tensor_proto(name, x))
        return self.shared.constants[key]

    def ints(self, numbers: Iterable[Any]) -> str:
        """The name of a list of integers; symbolic ones are computed."""
        given = list(numbers)
        if not any(isinstance(n, Dim) for n in given):
            return self.constant(np.array(given, np.int64))
        runs = [list(run) for _, run in groupby(given, key=lambda n: n if isinstance(n, Dim) else None)]
        pieces = [self.size(n) for run in runs for n in (run if isinstance(run[0], Dim) else [run])]
        return pieces[0] if len(pieces) == 1 else self.op("Concat", *pieces, axis=0)

    def size(self, n: Size | list[int]) -> str:
        """The name of a list of one size, or of some that are numbers."""
        return size_computed(self, n, self.shared.sizes) if isinstance(n, Dim) else self.ints(np.atleast_1d(n))

    def counted(self, n: Size, dtype: Any = np.int64) -> str:
        """The name of the numbers below a size."""
        if not isinstance(n, Dim):
            return self.constant(np.arange(n).astype(dtype))
        ends = self.constant(np.int64(0)), self.op("Squeeze", self.size(n)), self.constant(np.int64(1))
        made = self.op("Range", *ends)
        return made if dtype == np.int64 else self.cast(made, dtype)

    def cast(self, x: str, to: Any) -> str:
        """The same numbers in another dtype."""
        return self.op("Cast", x, to=schema.ELEMENT_NUMBERS[np.dtype(to).name])

    def reshape(self, x: str, shape: Sequence[Any]) -> str:
        """The same elements in another shape."""
        return self.op("Reshape", x, self.ints(shape), allowzero=1)

    def reshaped(self, x: str, shape: Sequence[Any], wanted: Sequence[Any]) -> str:
        """The elements of an array of a shape in the one that is wanted, which may be its own."""
        return x if list(shape) == list(wanted) else self.reshape(x, wanted)

    def permute(self, x: str, axes: Sequence[int]) -> str:
        """The axes in another order."""
        return x if list(axes) == list(range(len(axes))) else self.op("Transpose", x, perm=list(axes))

    def get(self, v: Value) -> str:
        """The name of a value in its own shape."""
        if v not in self.whole:
            half = v.dtype.name == "bfloat16"  # ONNX Runtime has no kernel for it
            given = self.cast(self.thin[v], np.float32) if half else self.thin[v]
            made = self.op("Expand", given, self.ints(v.shape))
            self.whole[v] = self.cast(made, v.dtype) if half else made
        return self.whole[v]

    def write(self, graph: Graph) -> None:
        """All nodes of a graph whose inputs have names."""
        self.convolutions = convolutions_in(graph, onnx_convolves)
        self.biased = biased_convolutions_in(graph, self.convolutions)
        self.patterns = {n: (each, word) for find, word in self.shared.searches for n, each in find(graph).items()}
        read: dict[Node, tuple[Value, ...]] = {
            node: (c.source, stored_kernel(c)) for node, c in self.convolutions.items()
        }
        read |= {node: (*self.convolutions[each.product].operands, each.bias) for node, each in self.biased.items()}
        read |= {node: each.operands for node, (each, _) in self.patterns.items()}
        joined = [*[each for each, _ in self.patterns.values()], *self.biased.values()]
        for node in nodes_beside(graph, read, frozenset[Node]().union(*[each.inner for each in joined])):
            self.node(node)

    def node(self, node: Node) -> None:
        """One operation by its word; raises UnsupportedError where that needs a size as a number."""
        with symbolic_sizes_refused("onnx", node.op.name, node.where):
            self.write_node(node)

    def write_on_pairs(self, node: Node) -> None:
        """Write an operation on complex numbers: their construction, one of their parts, or a call of a function."""
        out = node.outputs[0]
        if node.op.name == "make_complex":
            self.pairs[out] = tuple([self.get(v) for v in node.inputs])
        elif node.op.name in PARTS:
            self.whole[out] = self.pairs[node.inputs[0]][PARTS.index(node.op.name)]
        else:
            names = [name for v in node.inputs for name in self.pairs[v]]
            self.pairs[out] = tuple(self.shared.words[ON_PAIRS + node.op.name](self, node, names))

    def write_node(self, node: Node) -> None:
        """One operation; elementwise ones take thin values, and of thin values alone give one."""
        if has_complex(node):
            self.write_on_pairs(node)
            return
        if node in self.patterns:
            pattern, made_of = self.patterns[node]
            self.whole[node.outputs[0]] = made_of(self, node, pattern, [self.get(v) for v in pattern.operands])
            return
        word, out = self.shared.words[node.op.name], node.outputs[0] if node.outputs else None
        if node in self.biased:
            assert out is not None
            each = self.biased[node]
            self.whole[out] = str(self.shared.words["contract"](self, each.product, [self.get(each.bias)]))
            return
        if node.op.kind == "elementwise":
            assert out is not None
            names = [self.thin[v] if v in self.thin and v not in self.whole else self.get(v) for v in node.inputs]
            thin = all(v not in self.whole for v in node.inputs)
            (self.thin if thin else self.whole)[out] = str(word(self, node, names))
            return
        if node.op.name in ("full", "broadcast"):
            assert out is not None
            made = word(self, node, [self.get(v) for v in node.inputs])
            self.thin[out] = str(made)
            if not out.ndim:
                self.whole[out] = self.thin.pop(out)
            return
        late = node.op.name == "contract"
        made = word(self, node, [] if late else [self.get(v) for v in node.inputs])
        found = [made] if isinstance(made, str) else list(made)
        self.whole.update(zip(node.outputs, found, strict=True))

    def inside(self, graph: Graph, names: Sequence[str], inputs: Sequence[tuple[str, Type]]) -> Proto:
        """A graph inside, which reads its inputs under names and returns its outputs under fresh ones."""
        inner = OnnxWriter(self.shared, dict(zip(graph.inputs, names, strict=True)))
        inner.write(graph)
        return inner.closed([inner.get(v) for v in graph.outputs], graph.out_types, inputs)

    def closed(self, names: Sequence[str], types: Sequence[Type], inputs: Sequence[tuple[str, Type]]) -> Proto:
        """The graph that was written; outputs from outside it, and repeated ones, are copies under new names."""
        made = {name for node in self.nodes for name in node.output}
        outputs = [
            name if name in made and name not in names[:i] else self.op("Identity", name)
            for i, name in enumerate(names)
        ]
        return Proto(
            "Graph",
            name=self.shared.fresh(),
            node=self.nodes,
            input=[value_info(name, t) for name, t in inputs],
            output=[value_info(name, t) for name, t in zip(outputs, types, strict=True)],
        )


def attribute_of(name: str, x: Any) -> Proto:
    """An attribute of the kind that its value has."""
    if isinstance(x, Proto):
        return Proto("Attribute", name=name, type=schema.GRAPH, g=x)
    if isinstance(x, str):
        return Proto("Attribute", name=name, type=schema.STRING, s=x.encode())
    if isinstance(x, float):
        return Proto("Attribute", name=name, type=schema.FLOAT, f=x)
    if isinstance(x, int | np.integer):
        return Proto("Attribute", name=name, type=schema.INT, i=int(x))
    return Proto("Attribute", name=name, type=schema.INTS, ints=[int(n) for n in x])


def tensor_proto(name: str, x: NDArray) -> Proto:
    """An array as it lies in a file, the lowest byte first."""
    data = x.tobytes() if x.dtype.name == "bfloat16" else x.astype(x.dtype.newbyteorder("<")).tobytes()
    return Proto("Tensor", name=name, dims=list(x.shape), data_type=schema.ELEMENT_NUMBERS[x.dtype.name], raw_data=data)


def value_info(name: str, type: Type) -> Proto:
    """An input or an output with its type."""
    sizes = Proto("Shape", dim=[dimension(n) for n in type.shape])
    kind = Proto("TensorType", elem_type=schema.ELEMENT_NUMBERS[type.dtype.name], shape=sizes)
    return Proto("ValueInfo", name=name, type=Proto("Type", tensor_type=kind))


def dimension(n: Size) -> Proto:
    """A size in the type of an input or output: a number, or the expression that it is."""
    return Proto("Dimension", dim_param=str(n)) if isinstance(n, Dim) else Proto("Dimension", dim_value=int(n))
