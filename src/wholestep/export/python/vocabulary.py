"""Vocabularies of array libraries: for each operation its spelling as a Python expression, and where that holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, Protocol

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim, names
from wholestep.export.convolutions import ConvolvedProduct
from wholestep.export.core import Rule
from wholestep.export.rules.table import RULES
from wholestep.ir.graph import Graph, NDArray, Node, Value
from wholestep.ir.sizes import size_places
from wholestep.ir.types import Type
from wholestep.primitives.contraction import parts
from wholestep.primitives.creation import cast
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import REGISTRY, number_of
from wholestep.primitives.functions import External

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "equal": "==", "not_equal": "!=", "less": "<"}
INFIX |= {"less_equal": "<=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
"""The operations that every library spells between their operands."""


class Role(Enum):
    """The role of a function of dictionaries in a file: it decides on the donation of arguments and on gradients."""

    STEP = "returns the state that it was given, changed"
    BESIDE = "reads the state of a step"
    ALONE = "has no state, and may be differentiated"


class PrintedNames(Protocol):
    """The part of a printer that a spelling may ask."""

    def constant(self, value: NDArray) -> str:
        """An array that the program holds, as an expression."""

    def function(self, graph: Graph) -> str:
        """The name of a function that computes a graph and returns a tuple."""


class Call:
    """One operation to be spelled: the expressions of its operands, its parameters and its types.

    `in_step` is True if the printed function is neither differentiated nor batched.
    """

    def __init__(
        self, names: PrintedNames, target: PythonTarget, node: Node, operands: Sequence[str], in_step: bool = False
    ) -> None:
        self.names, self.target, self.in_step = names, target, in_step
        self.a, self.inputs = tuple(operands), node.inputs
        known = [number_of(v) for v in node.inputs]
        self.numbers = tuple([None if x is None else literal(x) for x in known])
        """The operands that are one number everywhere, as Python writes it; None for the others."""
        self.p = {name: in_plain_numbers(value) for name, value in node.params.items()}
        self.types = node.types
        self.out: Type = node.outputs[0].type if node.outputs else node.types[0]
        self.outs = tuple([v.type for v in node.outputs])

    @property
    def dtype(self) -> str:
        """The dtype of the first result in the library's words."""
        return self.target.dtype(self.out.dtype)

    def function(self, name: str) -> str:
        """The name of a function that computes the graph in a parameter."""
        return self.names.function(self.p[name])


def in_plain_numbers(value: Any) -> Any:
    """A parameter whose numbers print as Python's."""
    if isinstance(value, tuple):
        return tuple([in_plain_numbers(item) for item in value])
    return value.item() if isinstance(value, np.generic) else value


class Pattern(Protocol):
    """Several operations of a graph that a library has one spelling for."""

    @property
    def operands(self) -> tuple[Value, ...]:
        """The arrays that it reads."""

    @property
    def inner(self) -> frozenset[Node]:
        """The operations that the update replaces; no others may read their results."""


class Update(Pattern, Protocol):
    """Operations of a step that replace a part of its state, and that a library has one spelling for."""

    @property
    def columns(self) -> tuple[tuple[Value, ...], ...]:
        """The arrays that it reads, grouped by kind."""

    @property
    def numbers(self) -> tuple[Value | None, ...]:
        """The numbers that it reads; None for a missing one."""

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The arrays that it computes, which are outputs of the step and have no other users."""


Resident = Sequence[tuple[int, int]]
"""Pairs of an input of the state and the output that replaces it."""
Spelling = str | Callable[[Call], str]
"""An expression for an operation: text with {0}, {1} for operands and {name} for parameters, or a function."""


def expression_of(word: Spelling, c: Call) -> str:
    """The expression of an operation."""
    return word.format(*c.a, **c.p) if isinstance(word, str) else word(c)


PRINTED = frozenset(("full", "broadcast"))
"""Operations that the printer itself writes, at their uses."""


def anywhere(node: Node) -> bool:
    """True: a spelling that holds for all parameters and dtypes."""
    return True


def any_convolution(c: ConvolvedProduct) -> bool:
    """True: a spelling that holds for all convolutions."""
    return True


@dataclass(frozen=True)
class PythonTarget:
    """An array library as a target: its words, and the text around them."""

    name: str
    words: Mapping[str, Spelling]
    imports: tuple[str, ...]
    dtype: Callable[[np.dtype[Any]], str]
    broadcast: Callable[[str, Sequence[int], str], str]
    """(expression, shape, dtype) -> the same repeated to a shape."""
    number: Callable[[str, str], str]
    """(literal, dtype) -> an array without axes."""
    support: str
    """The file in `support/` with the functions that its words use."""
    numbers_in: frozenset[str]
    """Operations that take Python numbers beside an array."""
    title: str
    """The library as a file calls it."""
    decorated: Callable[[str, Role], str]
    """(text of a function of dictionaries, its role) -> the text with the library's decorators."""
    widened_by_numbers: str = ""
    """The kind of dtypes that are widened where a Python number is beside them, so that numbers are arrays there."""
    of_constants: str = ""
    """The first line of functions that hold arrays."""
    setup: str = ""
    """Lines after the imports."""
    outlined: frozenset[str] = frozenset()
    """Operations whose rules are long, and so are printed as functions."""
    frees: bool = False
    """True if each line is executed eagerly, so that an array is deleted after the last line that reads it."""
    in_place: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By operation, the spelling that overwrites each operand, used by a step for its own arrays."""
    convolved: Callable[[Call, ConvolvedProduct], str] | None = None
    """The spelling of a product with windows as a convolution of (source, other operand)."""
    has_convolution: Callable[[ConvolvedProduct], bool] = any_convolution
    """False for a convolution that the spelling does not hold for."""
    patterns: tuple[tuple[Callable[[Graph], Mapping[Node, Pattern]], str], ...] = ()
    """Searches for operations with one spelling, by the last of them, and that spelling.

    It is text with {0}, {operands}, {pattern.axes} and {in_step}: True if the function is neither differentiated nor
    batched; and with {over}: True where its result may be written over its first operand.
    """
    step_patterns: tuple[tuple[Callable[[Graph], Mapping[Node, Pattern]], str], ...] = ()
    """The patterns for steps alone, since a library's derivatives of them differ where elements are equal."""
    updates: tuple[tuple[Callable[[Graph, Resident], Sequence[Update]], str], ...] = ()
    """Searches for updates in the memory of the state, and the functions of the support that make them."""
    fused: Callable[[Graph], Graph] | None = None
    """The rewrite of a step to functions that the library has as one operation, with their derivatives."""
    adds_bias: bool = False
    """True where a convolution adds a third operand to its channels."""
    channels_last: bool = False
    """True if convolutions, and the operations between them, are fastest with the channels of images last."""
    holds: Callable[[Node], bool] = anywhere
    """False for an operation whose word does not take its dtypes or parameters."""
    rules: Mapping[str, Rule] = field(default_factory=lambda: RULES)

    @property
    def convolves(self) -> bool:
        """True if the library has convolutions."""
        return self.convolved is not None

    def has(self, node: Node) -> bool:
        """True if there is a word for an operation with these parameters and dtypes."""
        return node.op.name in PRINTED or (node.op.name in self.words and self.holds(node))

    def outlines(self, node: Node) -> bool:
        """True if the rule of an operation is printed as a function, which reads symbolic sizes from its arguments."""
        sizes = {name for v in node.outputs for n in v.shape for name in names(n)}
        return node.op.name in self.outlined and sizes <= size_places(node.types).keys()

    def rule(self, node: Node) -> Rule | None:
        """The rule for an operation that there is no word for; a half precision is computed in float32."""
        plain = node.op.kind in ("elementwise", "order") and node.op.name != "cast"
        if plain and any([is_half(t.dtype) for t in node.types]):
            return partial(in_float32, node.op)
        return self.rules.get(node.op.name)


def is_half(dtype: np.dtype[Any]) -> bool:
    """True for float16 and bfloat16."""
    return dtypes.is_float(dtype) and dtype.itemsize == 2


def in_float32(op: Any, *operands: Value, **params: Any) -> Sequence[Value]:
    """An operation on half precisions, computed in float32."""
    wide = [cast(x, dtype=np.dtype(np.float32)) if is_half(x.dtype) else x for x in operands]
    half = next(x.dtype for x in operands if is_half(x.dtype))
    found: Any = op(*wide, **params)
    return [cast(y, dtype=half) if dtypes.is_float(y.dtype) else y for y in (found if op.multiple else (found,))]


def special_symbols() -> dict[str, tuple[str, int]]:
    """The functions of scipy.special, and how many operands they have: every primitive that one of them defines."""
    found = {}
    for name, primitive in REGISTRY.items():
        if isinstance(primitive, Elementwise):
            symbol = SYMBOLS.get(name, primitive.reference if isinstance(primitive, External) else "")
            if symbol:
                found[name] = (str(getattr(symbol, "__name__", symbol)), primitive.arity)
    return found


SYMBOLS = {n: n for n in "erf erfc erfcx erfi dawsn expit log_expit ndtr log_ndtr zeta".split()}
"""Primitives with scalar code of their own whose values scipy.special defines."""


def host_words() -> dict[str, Spelling]:
    """Operations that run in SciPy and NumPy on the host, for libraries that have no word for them."""
    return {
        **{name: on_host(f"scipy.special.{symbol}", n) for name, (symbol, n) in special_symbols().items()},
        "sqrtm": lambda c: host_call(c, "matrix_roots"),
        "solve_sylvester": lambda c: host_call(c, "sylvester_solutions"),
        "schur": lambda c: host_call(c, "schur_forms"),
        "partition": lambda c: host_call(c, f"functools.partial(around_places, axis={c.p['axis']}, kth={c.p['kth']})"),
    }


def unless_complex(word: str, otherwise: Spelling) -> Spelling:
    """A word for real numbers, and another one for complex ones."""

    def spelling(c: Call) -> str:
        return expression_of(otherwise if c.types[0].dtype.kind == "c" else word, c)

    return spelling


def on_host(function: str, arity: int) -> Spelling:
    """An elementwise function that runs on the host."""
    return f"on_host({function}, None, {', '.join([f'{{{i}}}' for i in range(arity)])})"


def host_call(c: Call, function: str) -> str:
    """A call of a function that runs on the host, whose results have the types of the operation."""
    kinds = listed([f"({t.shape}, {c.target.dtype(t.dtype)})" for t in c.outs])
    return f"on_host({function}, {kinds}, {', '.join(c.a)})"


def divides_by_zero(c: Call) -> bool:
    """True where the second operand may be 0."""
    return c.numbers[1] in (None, "0", "False")


def as_matrix_product(c: Call, turned: str) -> str | None:
    """A contraction of two matrices of floats by `@`, with `turned` behind a transposed one; None for any other."""
    a, b, out = parts(c.p["spec"])
    (x, y), (i, k) = c.a, tuple(out) if len(out) == 2 else (" ", " ")
    if i in b and k in a:
        x, y, a, b = y, x, b, a
    plain = len(a) == len(b) == 2 and i in a and k in b and i not in b and k not in a and c.out.dtype.kind == "f"
    if not plain or {*a, *b} - {i, k} != {*a} & {*b}:
        return None
    return f"{x}{'' if a[0] == i else turned} @ {y}{'' if b[1] == k else turned}"


def literal(value: Any) -> str:
    """A number, or a symbolic size, as Python writes it; only of these and of strings do printed sources consist.

    >>> literal(0.5), literal(2 * Dim("B"))
    ('0.5', '(2*B)')
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, complex) and not (np.isfinite(value.real) and np.isfinite(value.imag)):
        return f"complex({literal(value.real)}, {literal(value.imag)})"
    text = repr(value)
    return f"({text})" if isinstance(value, Dim) and not text.isidentifier() else text


def listed(items: Sequence[str]) -> str:
    """Expressions as a tuple.

    >>> listed(["a"]), listed(["a", "b"]), listed([])
    ('(a,)', '(a, b)', '()')
    """
    return f"({', '.join(items)}{',' * (len(items) == 1)})"


def over_rows(c: Call, *more: str) -> str:
    """A loop over rows, as a call of the support's function; some libraries give it more than the others."""
    n, k = c.p["sizes"]
    parts = [listed(c.a[:n]), listed(c.a[n : n + k]), listed(c.a[n + k :])]
    rest = (str(c.p["length"]), str(c.p["reverse"]), *more)
    return f"scan_rows({', '.join([c.function('graph'), *parts, *rest])})"


def over_typed_rows(c: Call) -> str:
    """A loop over rows that is told the shape and dtype of each result's rows."""
    kinds = [f"({t.shape}, {c.target.dtype(t.dtype)})" for t in c.outs[c.p["sizes"][1] :]]
    return over_rows(c, listed(kinds))


def while_it_holds(c: Call) -> str:
    """A loop while a predicate holds, as a call of the support's function."""
    p, b = c.p["constants"]
    parts = [listed(c.a[:p]), listed(c.a[p : p + b]), listed(c.a[p + b :])]
    return f"loop_while({c.function('predicate')}, {c.function('body')}, {', '.join(parts)})"


def thin_shape(shape: Sequence[int], axes: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """A shape of ones but for the axes that have sizes, which broadcasts to `shape`."""
    found = [1] * len(shape)
    for axis, size in zip(axes, sizes, strict=True):
        found[axis] = size
    return tuple(found)


def front_order(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """The order of axes that puts some of them first."""
    return (*axes, *[i for i in range(ndim) if i not in axes])


def orders_to_front(c: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order that puts the indexed axes of an operand first, and the one that puts them back; () where they are."""
    order = front_order(c.p["axes"], c.types[0].ndim)
    return ((), ()) if order == tuple(range(len(order))) else (order, tuple(np.argsort(order).tolist()))


def chosen_branch(c: Call) -> str:
    """One of several functions, which the host chooses."""
    branches = listed([c.names.function(g) for g in c.p["branches"]])
    return f"choose_branch({branches}, {c.a[0]})({', '.join(c.a[1:])})"


def joined_thin_shapes(shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape that shapes which are alike but for ones broadcast to.

    >>> joined_thin_shapes([(), (3, 1), (1, 4)])
    (3, 4)
    """
    ndim = max(map(len, shapes), default=0)
    rows = [(1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes]
    return tuple([next((n for n in sizes if n != 1), 1) for sizes in zip(*rows, strict=True)])
