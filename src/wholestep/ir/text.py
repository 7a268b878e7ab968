"""A graph as Python text, and back.

    def loss(x: f32[2, 3], w: f32[3, 4]):
        contract_1: f32[2, 4] = contract(x, w, spec='ij,jk->ik')
        sum_1: f32 = sum(contract_1, axes=(0, 1))
        return sum_1

Nested graphs print as functions before the one that uses them. Arrays of more than a few elements, and the rules that
users state, print as names (`array_0`, `rule_0`) and are handed to `parse` beside the text.
"""

from __future__ import annotations

import ast
import keyword
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim, parse_dim
from wholestep.errors import GraphError
from wholestep.ir.graph import OPS, PRINTER, Graph, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.ir.verify import verify

SMALL = 16
"""Arrays of up to this many elements are written out."""


class Printer:
    """Names for values, nested graphs and everything that text cannot hold."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.names: dict[int, str] = {}
        self.objects: dict[str, Any] = {}
        self.taken = {*dtypes.SUPPORTED, "array", "inf", "nan"}

    def top(self, graph: Graph) -> None:
        self.graph(graph, self.claim(_identifier(graph.name)))

    def claim(self, base: str) -> str:
        """This name, numbered if it is taken; names that have been claimed once are found free when read back."""
        name, k = base, 0
        while name in self.taken:
            k += 1
            name = f"{base}_{k}"
        self.taken.add(name)
        return name

    def graph(self, graph: Graph, name: str) -> None:
        used: dict[str, int] = {}
        names: dict[Value, str] = {}
        taken: set[str] = set()
        for i, v in enumerate(graph.inputs):
            given = graph.input_names[i] if i < len(graph.input_names) else f"x{i}"
            clean = given if given.isidentifier() and not keyword.iskeyword(given) else f"x{i}"
            names[v] = clean if clean not in taken else f"x{i}_"
            taken.add(names[v])
        head = ", ".join(f"{names[v]}: {v.type}" for v in graph.inputs)
        lines = []
        for node in graph.nodes:
            for v in node.outputs:
                names[v] = _new_name(node.op.name, used, taken)
            lines.append("    " + self.line(node, names))
        result = ", ".join(names[v] for v in graph.outputs)
        self.functions.append(
            "\n".join([f"def {name}({head}):", *lines, f"    return {result}" if result else "    return ()"])
        )

    def line(self, node: Node, names: dict[Value, str]) -> str:
        params = [f"{key}={self.param(value)}" for key, value in node.params.items()]
        call = f"{node.op.name}({', '.join([*[names[v] for v in node.inputs], *params])})"
        if node.op.multiple:
            targets = ", ".join(names[v] for v in node.outputs)
            types = ", ".join(str(v.type) for v in node.outputs)
            comma = "," if len(node.outputs) == 1 else ""
            return f"{targets}{comma} = {call}  # {types}" if targets else f"() = {call}"
        return f"{names[node.outputs[0]]}: {node.outputs[0].type} = {call}"

    def param(self, value: Any) -> str:
        if isinstance(value, Graph):
            return self.nested(value)
        if isinstance(value, np.dtype):
            return dtypes.short(value)
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, np.generic):
            return f"array({_items(np.asarray(value))}, {dtypes.short(value.dtype)})"
        if isinstance(value, tuple):
            inner = [self.param(item) for item in value]
            return f"({inner[0]},)" if len(inner) == 1 else f"({', '.join(inner)})"
        if value is None or isinstance(value, bool | int | float | complex | str | Dim):
            return repr(value)
        return self.named(value, "rule")

    def array(self, value: np.ndarray[Any, Any]) -> str:
        if value.size <= SMALL and value.size > 0:
            return f"array({_items(value)}, {dtypes.short(value.dtype)})"
        return self.named(value, "array")

    def named(self, value: Any, kind: str) -> str:
        name = self.names.get(id(value))
        if name is None:
            name = self.names[id(value)] = self.claim(f"{kind}_{len(self.objects)}")
            self.objects[name] = value
        return name

    def nested(self, graph: Graph) -> str:
        name = self.names.get(id(graph))
        if name is None:
            name = self.names[id(graph)] = self.claim(_identifier(graph.name))
            self.graph(graph, name)
        return name


def _identifier(name: str) -> str:
    return name if name.isidentifier() and not keyword.iskeyword(name) else "graph"


def _items(value: np.ndarray[Any, Any]) -> str:
    wide = value.astype(np.float64) if value.dtype.kind == "V" else value
    return repr(wide.tolist())


def _new_name(op: str, used: dict[str, int], taken: set[str]) -> str:
    while True:
        used[op] = used.get(op, 0) + 1
        name = f"{op}_{used[op]}"
        if name not in taken:
            taken.add(name)
            return name


def text(graph: Graph) -> str:
    """The graph as Python source that `parse` reads back."""
    return text_and_objects(graph)[0]


def text_and_objects(graph: Graph) -> tuple[str, dict[str, Any]]:
    """The text, and the arrays and rules that it names."""
    printer = Printer()
    printer.top(graph)
    return "\n\n".join(printer.functions) + "\n", printer.objects


PRINTER.append(text)


class Parser:
    """Reads the text back through the primitives' own type rules; nothing in it is executed."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self.objects = objects
        self.graphs: dict[str, Graph] = {}

    def function(self, tree: ast.FunctionDef) -> Graph:
        env: dict[str, Value] = {}
        inputs = []
        given, names = tree.args, tuple(arg.arg for arg in tree.args.args)
        if (
            given.posonlyargs
            or given.vararg
            or given.kwonlyargs
            or given.kwarg
            or given.defaults
            or tree.decorator_list
        ):
            raise GraphError(f"parse: the head of {tree.name!r} holds more than inputs and their types")
        if len(set(names)) < len(names):
            raise GraphError(f"parse: two inputs of {tree.name!r} have one name")
        for arg in given.args:
            value = Value(self.type(arg.annotation), None, None)
            env[arg.arg] = value
            inputs.append(value)
        nodes: list[Node] = []
        outputs: tuple[Value, ...] = ()
        for statement in tree.body:
            if isinstance(statement, ast.Return) and statement is tree.body[-1]:
                outputs = self.returned(statement, env)
            else:
                nodes.append(self.statement(statement, env))
        return Graph(tuple(inputs), tuple(nodes), outputs, tree.name, names)

    def returned(self, statement: ast.Return, env: dict[str, Value]) -> tuple[Value, ...]:
        value = statement.value
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        return tuple([self.value(item, env) for item in items])

    def value(self, item: Any, env: dict[str, Value]) -> Value:
        if not isinstance(item, ast.Name) or item.id not in env:
            raise GraphError(f"parse: {ast.unparse(item)!r} is not a value of this graph")
        return env[item.id]

    def statement(self, statement: ast.stmt, env: dict[str, Value]) -> Node:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            targets, call = [statement.target.id], statement.value
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
            several = statement.targets[0].elts
            targets = [t.id for t in several if isinstance(t, ast.Name)]
            if len(statement.targets) > 1 or len(set(targets)) < len(several):
                raise GraphError(f"parse: {ast.unparse(statement)!r} names its values otherwise than once")
            call = statement.value
        else:
            raise GraphError(f"parse: expected an assignment, found {ast.unparse(statement)!r}")
        if taken := env.keys() & set(targets):
            raise GraphError(f"parse: {min(taken)!r} is assigned twice")
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in OPS:
            raise GraphError(f"parse: {ast.unparse(statement)!r} calls no primitive of the language")
        op = OPS[call.func.id]
        inputs = tuple([self.value(a, env) for a in call.args])
        if any(k.arg is None for k in call.keywords):
            raise GraphError(f"parse: {ast.unparse(statement)!r} does not name its parameters")
        params = {str(k.arg): self.param(k.value) for k in call.keywords}
        types = op.type(*[v.type for v in inputs], **params)
        node = Node(op, inputs, params, None)
        node.outputs = tuple([Value(t, node, None) for t in (types if op.multiple else (types,))])
        if len(targets) != len(node.outputs):
            raise GraphError(f"parse: {op.name} gives {len(node.outputs)} values, the text names {len(targets)}")
        if isinstance(statement, ast.AnnAssign) and self.type(statement.annotation) is not node.outputs[0].type:
            raise GraphError(
                f"parse: {op.name} gives {node.outputs[0].type}, the text says {ast.unparse(statement.annotation)}"
            )
        env.update(zip(targets, node.outputs, strict=True))
        return node

    def type(self, tree: ast.expr | None) -> Type:
        if isinstance(tree, ast.Name):
            return array_type((), dtypes.from_short(tree.id))
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
            sizes = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
            return array_type(tuple([self.size(s) for s in sizes]), dtypes.from_short(tree.value.id))
        raise GraphError(f"parse: {'nothing' if tree is None else ast.unparse(tree)!r} is not a type")

    def size(self, tree: ast.expr) -> Any:
        try:
            return parse_dim(tree)
        except ValueError as error:
            raise GraphError(f"parse: {error}") from None

    def param(self, tree: ast.expr) -> Any:
        if isinstance(tree, ast.Tuple):
            return tuple([self.param(item) for item in tree.elts])
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "array":
            return np.asarray(_literal(tree.args[0]), self.param(tree.args[1]))
        if isinstance(tree, ast.Name):
            return self.name(tree.id)
        try:
            return _literal(tree)
        except ValueError:
            return self.size(tree)

    def name(self, name: str) -> Any:
        if name in self.graphs:
            return self.graphs[name]
        if name in self.objects:
            return self.objects[name]
        if name in ("inf", "nan"):
            return float(name)
        if name in dtypes.SUPPORTED:
            return dtypes.from_short(name)
        if name[:1].isupper():
            return Dim(name)
        raise GraphError(f"parse: {name!r} is neither a graph, a dtype nor an array given beside the text")


def _literal(tree: ast.expr) -> Any:
    """A number, string, None or nested list of numbers; inf and nan are numbers too."""
    if isinstance(tree, ast.Name) and tree.id in ("inf", "nan"):
        return float(tree.id)
    if isinstance(tree, ast.List):
        return [_literal(item) for item in tree.elts]
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_literal(tree.operand)
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Add | ast.Sub):
        left, right = _literal(tree.left), _literal(tree.right)
        return left + right if isinstance(tree.op, ast.Add) else left - right
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float | complex | str | None):
        return tree.value
    raise ValueError(ast.unparse(tree))


def parse(source: str, objects: dict[str, Any] | None = None) -> Graph:
    """The graph that this text describes; raises GraphError where it describes none. Nothing is executed."""
    try:
        graph = _parsed(source, Parser(objects or {}))
        verify(graph)
    except GraphError:
        raise
    except SENSELESS as error:
        raise GraphError(f"parse: not a graph: {error}") from None
    return graph


SENSELESS = (SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""The errors of Python and of the type rules, which expect parameters of right kinds, for text that makes no sense."""


def _parsed(source: str, parser: Parser) -> Graph:
    try:
        module = ast.parse(source)
    except MemoryError:  # so Python says that brackets are too deep
        raise GraphError("parse: not a graph: its brackets are too deep") from None
    graph = None
    for statement in module.body:
        if not isinstance(statement, ast.FunctionDef):
            raise GraphError(f"parse: expected a function, found {ast.unparse(statement)!r}")
        graph = parser.graphs[statement.name] = parser.function(statement)
    if graph is None:
        raise GraphError("parse: the text holds no graph")
    return graph
