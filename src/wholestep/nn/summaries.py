"""summary: a table of a model's parts and arrays, with their sizes and the arithmetic of a call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wholestep import tree
from wholestep.dims import Dim, Size, greatest, spelled_out, substitute
from wholestep.errors import DtypeError, ParameterError
from wholestep.frontend.array import Array
from wholestep.frontend.inspect import eval_shape
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import current
from wholestep.ir.graph import Node, subgraphs
from wholestep.ir.sizes import type_at
from wholestep.ir.types import Type
from wholestep.nn.traversal import PARAMETER, ArrayPlace, ModelWalk, holder, lies_in_part
from wholestep.primitives.structure import Cond
from wholestep.report.table_format import align_columns, table_html
from wholestep.words import Shown, printable, type_in_words

HEAD = ("path", "what", "shape", "numbers", "bytes", "flops")
TO_THE_LEFT = (True, True, True, False, False, False)


Calls: TypeAlias = "dict[str, tuple[tuple[Type, ...], Size]]"
"""The result types and the arithmetic of the calls of each part, by path."""


class SummaryRow(NamedTuple):
    """A part of the model, with all that is in it, or one array."""

    path: str
    what: str
    types: tuple[Type, ...]
    numbers: int
    nbytes: int
    flops: Size | None

    @property
    def shape(self) -> str:
        """The type that a call returned, or that of the array."""
        return ", ".join(map(str, self.types))

    def at(self, sizes: Mapping[str, int]) -> SummaryRow:
        """The same with numbers for symbolic sizes."""
        flops = None if self.flops is None else substitute(self.flops, sizes)
        return self._replace(types=tuple([type_at(t, sizes) for t in self.types]), flops=flops)


@dataclass(frozen=True, repr=False)
class Summary(Shown):
    """A table of a model: `rows`, and in `totals` how many elements and bytes are trained, frozen, and buffers.

    Printed and in a REPL it is text, and in a notebook a table.

    Shapes: no arrays; numbers of elements, bytes, and floating-point operations.
    Raises: nothing of its own.

    >>> import wholestep as ws
    >>> ws.nn.summary(ws.nn.Linear(3, 2, key=0)).totals["parameter"]
    (8, 32)
    """

    rows: tuple[SummaryRow, ...]
    totals: dict[str, tuple[int, int]]

    @property
    def parameters(self) -> int:
        """The number of trained numbers."""
        return self.totals[PARAMETER][0]

    @property
    def flops(self) -> Size | None:
        """The arithmetic of one call, None where no inputs were given."""
        return self.rows[0].flops

    def at(self, **sizes: int) -> Summary:
        """The summary with numbers for symbolic sizes; sizes that are not given stay symbolic.

        Raises ValueError for a size below 1.

        >>> import wholestep as ws
        >>> table = ws.nn.summary(ws.nn.Linear(784, 256, key=0), (ws.Dim("B"), 784))
        >>> table.flops, table.at(B=32).flops
        (401664*B, 12853248)
        """
        return Summary(tuple([row.at(sizes) for row in self.rows]), self.totals)

    def __str__(self) -> str:
        return "\n".join([*align_columns([HEAD, *self.cells()], TO_THE_LEFT), *self.footer()])

    def _repr_html_(self) -> str:
        return f"{table_html(HEAD, self.cells())}<p>{'<br>'.join(self.footer())}</p>"

    def cells(self) -> list[tuple[str, ...]]:
        """The rows as text; a column of flops only where there are any."""
        rows = []
        for row in self.rows:
            flops = "" if row.flops is None else spelled_out(row.flops)
            rows.append((row.path, row.what, row.shape, f"{row.numbers:,}", f"{row.nbytes:,}", flops))
        return [tuple(map(printable, row)) for row in rows]

    def footer(self) -> Iterator[str]:
        """The totals, a line for each kind there is."""
        names = {PARAMETER: "trained", "frozen": "frozen", "buffer": "buffers"}
        for kind, (count, nbytes) in self.totals.items():
            if count or kind == PARAMETER:
                yield f"{names[kind]}: {count:,} numbers, {nbytes:,} bytes"


def summary(model: Any, *inputs: Any, **named: Any) -> Summary:
    """A table of a model: the path, the shape, the number of elements and the bytes of each part and array.

    With `inputs`, and `named` ones, arrays, `ShapeDtype`s or shapes (of the dtype of the first parameter), the model is
    traced in evaluation mode, without computing anything: each part that was called then has the shape of its result
    and its arithmetic, loops multiplied out. The counts of a part include the parts in it; a shared array counts once.
    Sizes may be symbolic: shapes and arithmetic are then expressions of them.

    Shapes: inputs of any shapes and dtypes; counts of numbers, bytes, and floating-point operations (`flops`).
    Raises: ParameterError for inputs to a model that cannot be called, SymbolicError for an operation whose arithmetic
    is no expression of the sizes, and the exceptions of the model.

    >>> import numpy as np, wholestep as ws
    >>> class Linear(ws.nn.Module):
    ...     def __init__(self, n_in, n_out):
    ...         self.weight, self.bias = np.ones((n_in, n_out)), np.zeros(n_out)
    ...     def __call__(self, x):
    ...         return x @ self.weight + self.bias
    >>> print(ws.nn.summary(Linear(3, 2), (8, 3)))
    path    what       shape      numbers  bytes  flops
            Linear     f64[8, 2]        8     64    112
    weight  parameter  f64[3, 2]        6     48
    bias    parameter  f64[2]           2     16
    trained: 8 numbers, 64 bytes
    """
    walk = ModelWalk(model)
    if not walk.modules and not any(isinstance(x, np.ndarray | Array) for x in tree.leaves(model)):
        raise DtypeError(
            f"summary: {type_in_words(model)} has no parts and no arrays", hint="give a module, or a tree of arrays"
        )
    calls = trace_calls(model, walk, inputs, named) if inputs or named else {}
    arrays = list(walk.places)
    rows = list(rows_in_order(model, walk, arrays, calls))
    totals = {kind: total_size(p for p in arrays if p.kind == kind) for kind in (PARAMETER, "frozen", "buffer")}
    return Summary(tuple(rows), totals)


def rows_in_order(model: Any, walk: ModelWalk, arrays: Sequence[ArrayPlace], calls: Calls) -> Iterator[SummaryRow]:
    """The rows of parts and arrays in order: a part, its own arrays, then the parts in it."""
    parts = {path: module._title() for path, module in walk.modules}
    for path in parts if "" in parts else ["", *parts]:
        count, nbytes = total_size(p for p in arrays if lies_in_part(p.path, path))
        types, flops = calls.get(path, ((), None))
        yield SummaryRow(path, parts.get(path) or type(model).__name__, types, count, nbytes, flops)
        own = [p for p in arrays if holder(p.path, parts) == path]
        for place in own:
            yield SummaryRow(place.path, place.kind, (type_of(place.value),), *total_size([place]), None)


def trace_calls(model: Any, walk: ModelWalk, inputs: Sequence[Any], named: dict[str, Any]) -> Calls:
    """The types of the result and the arithmetic of each part that a forward pass calls, by path."""
    calls: Calls = {}

    def note(path: str, out: Any, nodes: Sequence[Node]) -> None:
        types = tuple([type_of(x) for x in tree.leaves(out) if isinstance(x, np.ndarray | np.generic | Array)])
        calls[path] = (types, calls.get(path, ((), 0))[1] + count_arithmetic(nodes))

    def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
        return watched_call(model.eval(), note, args, kwargs)

    eval_shape(forward, model, *described_inputs("nn.summary", model, walk, inputs), **named)
    return calls


def described_inputs(name: str, model: Any, walk: ModelWalk, inputs: Sequence[Any]) -> list[Any]:
    """Inputs of a call, shapes with the dtype of the first parameter; raises ParameterError without a `__call__`."""
    if not callable(model):
        raise ParameterError(f"{name}: {type_in_words(model)} cannot be called", hint="leave out the inputs")
    dtype = walk.parameters[0].value.dtype if walk.parameters else np.dtype(np.float64)
    return [ShapeDtype(x, dtype) if is_shape(x) else x for x in inputs]


Note: TypeAlias = Callable[[str, Any, Sequence[Node]], None]
"""A callback (path of a part, result of its call, operations that the call traced) -> None."""

WATCHED: ContextVar[tuple[dict[int, str], Note | None]] = ContextVar("watched")
"""The paths of the modules whose calls are watched, by id, and the callback for each call."""


def watched_call(model: Any, note: Note, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a call of a model that the caller owns; its parts stay watched. Inner calls end first."""
    parts = ModelWalk(model).modules
    for _, module in parts:
        cls: Any = type(module)
        object.__setattr__(module, "__class__", observed(cls))
    token = WATCHED.set(({id(module): path for path, module in parts}, note))
    try:
        return model(*args, **kwargs)
    finally:
        WATCHED.reset(token)


@functools.cache
def observed(cls: type[Any]) -> type[Any]:
    """A class of modules whose calls are noted."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        builder = current()
        start = 0 if builder is None else len(builder.nodes)
        out = cls.__call__(self, *args, **kwargs)
        paths, note = WATCHED.get(({}, None))
        path = paths.get(id(self))
        if path is not None and note is not None and builder is not None:
            note(path, out, builder.nodes[start:])
        return out

    names = {"__call__": call, "__module__": cls.__module__, "__doc__": cls.__doc__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (cls,), names)


def count_arithmetic(nodes: Iterable[Node]) -> Size:
    """The arithmetic of a program; a loop counts as often as it runs, of branches the longest counts."""
    found: Size = sum(work(node) for node in nodes)
    return found


def work(node: Node) -> Size:
    """The arithmetic of one operation, with that of the programs inside it."""
    if not node.op.nested:
        own: Size = node.op.flops(node) if node.inputs else 0
        return own
    inner = [count_arithmetic(graph.nodes) for graph in subgraphs(node)]
    times: Size = node.params.get("length", 1)
    none: Size = 0
    return times * (functools.reduce(greatest, inner, none) if isinstance(node.op, Cond) else sum(inner))


def is_shape(x: Any) -> bool:
    """Test whether an input is given by its shape."""
    return isinstance(x, tuple) and bool(x) and all(isinstance(n, int | np.integer | Dim) for n in x)


def total_size(places: Iterable[ArrayPlace]) -> tuple[int, int]:
    """The number of elements and of bytes of these arrays."""
    held = [place.value for place in places]
    return sum(int(x.size) for x in held), sum(int(x.size) * x.dtype.itemsize for x in held)
