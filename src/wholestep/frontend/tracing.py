"""Entering and leaving a trace: plain arrays become traced ones on the way in, and plain again on the way out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes, tree
from wholestep.backends import reference
from wholestep.boundary.declared import is_ours
from wholestep.errors import DerivativeError, DtypeError
from wholestep.frontend import chosen, indexing, ufuncs
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import late_types
from wholestep.frontend.einops import register_backend
from wholestep.frontend.memory import in_order_of, may_be_transposed
from wholestep.frontend.promotion import (
    as_numpy,
    checked,
    constant_of,
    is_foreign_array,
    promotes_weakly,
    refuse_subclass,
)
from wholestep.ir.build import GraphBuilder, build, building, current
from wholestep.ir.graph import Graph, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.marks import identity
from wholestep.words import type_in_words

# The operations of a traced array are complete once these modules are imported.
ARRAY_PARTS = (chosen, indexing, ufuncs)

PLAIN = (np.ndarray, np.generic, bool, int, float, complex)
LEAVES = (Array, *PLAIN)
"""Leaves of a tree given to a transform where arrays are expected."""
SLOPED = frozenset(map(np.dtype, "fdFD"))
"""The dtypes of most arrays that are differentiated, in the order of bytes of this machine."""


@dataclass(slots=True, eq=False)
class Scope:
    """A builder to work in: the one that is current, or one of our own with values attached."""

    builder: GraphBuilder
    outermost: bool

    def leave(self, made: Any, like: Any = None) -> Any:
        """A tree of traced results as the caller gets it: plain where the trace ends here."""
        if not self.outermost:
            return made
        return plain(made) if type(made) is Array else tree.map(plain, made)

    def last_walk(self) -> LastWalk:
        """The context of operations that are not differentiated: keep no nodes, and do not report inf and nan."""
        return LastWalk(self.builder if self.outermost else None)


class LastWalk:
    """The context of `Scope.last_walk`, which does nothing without a builder."""

    __slots__ = ("builder", "silence")

    def __init__(self, builder: GraphBuilder | None) -> None:
        self.builder = builder

    def __enter__(self) -> None:
        if self.builder is not None:
            self.builder.recording = False
            self.silence = np.errstate(all="ignore")
            self.silence.__enter__()

    def __exit__(self, *raised: Any) -> None:
        if self.builder is not None:
            self.silence.__exit__(*raised)
            self.builder.recording = True


class scope:
    """Work in the current trace, or in a new one that computes as it goes; a context that gives its `Scope`."""

    __slots__ = ("builder", "inside", "reason", "recording")

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __enter__(self) -> Scope:
        builder = self.builder = current()
        if builder is not None:
            # A rule that is asked in the last walk may itself differentiate, which needs the nodes that the walk drops.
            self.recording, builder.recording = builder.recording, True
            return Scope(builder, False)
        register_backend()
        own = GraphBuilder(reference.evaluate_node, self.reason)
        self.inside = building(own)
        self.inside.__enter__()
        return Scope(own, True)

    def __exit__(self, *raised: Any) -> None:
        if self.builder is not None:
            self.builder.recording = self.recording
        else:
            self.inside.__exit__(*raised)


def check_function(f: Any, what: str) -> None:
    """Raise DerivativeError for a value that is not callable, such as the result of a function."""
    if not callable(f):
        raise DerivativeError(
            f"{what}: it takes a function, and was given {type_in_words(f)}",
            hint=f"give the function itself and its arguments after it: ws.{what}(f)(x)",
        )


def plain(x: Any) -> Any:
    """A traced result as a plain array that shares memory with nothing; scalars as NumPy scalars."""
    if type(x) in late_types:
        return plain(x.__live__())
    if not isinstance(x, Array):
        return x
    return plain_data(x.value, x._scalar)


def plain_data(value: Value, scalar: bool = False) -> Any:
    """The data of a value as an array of the caller's own."""
    shape = value.type.shape
    data = value.data
    if not shape:
        return np.asarray(data)[()] if scalar else np.array(data)
    if data.shape != shape or not data.flags.owndata or not data.flags.writeable or value.node is None:
        return np.array(np.broadcast_to(data, shape), order="C", copy=True)
    return data


def type_of(x: Any) -> Type:
    """The type of an array-like leaf."""
    if isinstance(x, Array):
        return x.type
    if type(x) in late_types:
        return type_of(x.__live__())
    if isinstance(x, np.ndarray | np.generic):
        refuse_subclass(x)
        return array_type(x.shape, checked(x.dtype))
    array = np.asarray(x)
    return array_type(array.shape, checked(array.dtype))


def enter(x: Any) -> Array:
    """A leaf under a fresh name of the current trace, so that it can be differentiated on its own."""
    builder = current()
    assert builder is not None
    if type(x) in late_types:
        return enter(x.__live__())
    if isinstance(x, Array):
        return Array(identity(x.value), x._scalar, x._weak)
    refuse_subclass(x)
    scalar = not isinstance(x, np.ndarray)
    weak = promotes_weakly(x)
    data = np.asarray(x)
    dtype = checked(data.dtype)
    if builder.evaluate is None or builder.parent is not None:
        # Only the outermost eager trace may hold values that no node makes; a program within it becomes a graph.
        return Array(identity(constant_of(x)), scalar, weak)
    if data.dtype != dtype:
        data = data.astype(dtype)
    made = Array(Value(array_type(data.shape, dtype), None, builder, data), scalar, weak)
    return in_order_of(made, [data]) if may_be_transposed(x) else made


def guarded(x: Any) -> Any:
    """An argument that is not differentiated: a copy, so that assignments cannot reach the caller's array."""
    if type(x) in late_types:
        return guarded(x.__live__())
    return x.copy() if type(x) is np.ndarray else x


def parameter_names(f: Any, count: int) -> list[str]:
    """The user's names for the first positional arguments of a call: `x0` and so on where there are none."""
    named: list[str] = []
    try:
        for p in inspect.signature(f).parameters.values():
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                named.append(p.name)
    except (TypeError, ValueError):
        pass
    return [named[i] if i < len(named) else f"x{i}" for i in range(count)]


TORCH = (
    "x.detach().numpy() of a tensor is an array; nn.from_torch fills a model here with a module's weights, and "
    "ws.from_torch_export reads a module as a function"
)
"""The way out where an object of PyTorch is given for an array."""


def is_of_torch(x: Any) -> bool:
    """Test whether a value is an object of PyTorch, such as a tensor or a module, or of a subclass of one."""
    return any([base.__module__.partition(".")[0] == "torch" for base in type(x).__mro__])


def holds_keys(x: Any) -> bool:
    """Test whether a value is an array of JAX's typed keys."""
    return "key<" in str(getattr(x, "dtype", ""))


def entry_hint(x: Any, otherwise: str) -> str:
    """A hint for an object that is no array and no tree: how a dataclass, or PyTorch's, becomes one; or `otherwise`.

    >>> from dataclasses import dataclass
    >>> Layer = dataclass(type("Layer", (), {"__annotations__": {"w": float}, "__module__": "models"}))
    >>> print(entry_hint(Layer(1.0), "give arrays"))
    ws.tree.register(Layer, lambda p: ((p.w,), None, ('w',)), lambda _, xs: Layer(*xs)) makes it a tree
    """
    if is_of_torch(x):
        return TORCH
    if holds_keys(x):
        return "jax.random.key_data(x) is an array, and a function of ws.from_jax takes it for the key"
    if not is_dataclass(x) or is_ours(type(x)):
        return otherwise
    kind, items = type(x).__name__, [item for item in fields(x) if item.init]
    names = tuple([item.name for item in items])
    parts = "".join([f"p.{name}, " for name in names])
    made = f"{kind}(**dict(zip({names}, xs)))" if any([item.kw_only for item in items]) else f"{kind}(*xs)"
    return (
        f"ws.tree.register({kind}, lambda p: (({parts.strip()}), None, {names}), lambda _, xs: {made}) makes it a tree"
    )


def constants_read(leaves: list[Any]) -> list[Any]:
    """Leaves with NumPy arrays in place of arrays of JAX, and of other libraries that never write into theirs.

    Tensors of PyTorch, which it trains in place, stay as they are.
    """
    return [x if isinstance(x, LEAVES) or not is_foreign_array(x) or is_of_torch(x) else as_numpy(x) for x in leaves]


def differentiable(leaves: Sequence[Any], paths: Callable[[], Sequence[str]], what: str) -> None:
    """Raise DtypeError for a leaf that has no derivative, naming its path."""
    for i, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray and leaf.dtype in SLOPED:  # nearly all
            continue
        if not isinstance(leaf, LEAVES):
            raise DtypeError(
                f"{what}: {paths()[i] or 'the argument'} is {type_in_words(leaf)}, not an array",
                hint=entry_hint(leaf, "pass it as another argument (see argnums), or close over it"),
            )
        t = type_of(leaf)
        if not dtypes.is_inexact(t.dtype):
            raise DtypeError(
                f"{what}: {paths()[i] or 'the argument'} is {t}, and integers and booleans have no derivative",
                hint="convert it to float, or keep it out with nn.frozen or argnums",
            )


class Arguments:
    """The arrays in a tree of arguments, by default those that are no Python booleans, and the tree around others."""

    def __init__(self, given: Any, *, booleans: bool = False, weak: bool = True) -> None:
        leaves, self.structure = tree.flatten(given)
        self.leaves = constants_read(leaves)
        self.on = [isinstance(leaf, LEAVES) and (booleans or not isinstance(leaf, bool)) for leaf in self.leaves]
        enter = entered if weak else as_array
        self.arrays = [enter(leaf, "argument") for leaf, o in zip(self.leaves, self.on, strict=True) if o]

    @property
    def values(self) -> list[Value]:
        return [a.value for a in self.arrays]

    @property
    def types(self) -> list[Type]:
        return [a.type for a in self.arrays]

    def around(self, items: Sequence[Any]) -> Any:
        """The tree with these in place of the arrays."""
        rest = iter(items)
        given = [next(rest) if o else leaf for leaf, o in zip(self.leaves, self.on, strict=True)]
        return tree.unflatten(self.structure, given)

    def rebuild(self, values: Sequence[Value]) -> Any:
        """The tree around these values, as scalar and as weak as the arrays are."""
        return self.around([Array(v, a._scalar, a._weak) for v, a in zip(values, self.arrays, strict=True)])

    def traced(self, f: Callable[..., Any], *, reason: str, name: str, attached: bool = False) -> Traced:
        """A function of the tree as a graph; in an eager trace its values may stay `attached`."""
        outer = current() if attached else None
        return trace_flat(
            lambda *xs: f(self.around(xs)),
            self.types,
            [a._scalar for a in self.arrays],
            reason=reason,
            name=name,
            weak=[a._weak for a in self.arrays],
            evaluate=None if outer is None else outer.evaluate,
            data=[a.value.data for a in self.arrays],
        )


class Traced(NamedTuple):
    """A Python function as a graph, with its captured values and the structure of its result.

    `scalars` are the results that are no arrays, and `weak` those of them that are Python numbers.
    """

    graph: Graph
    captured: list[Value]
    structure: Any
    scalars: list[bool]
    weak: list[bool]

    def arrays(self, values: Sequence[Value]) -> Any:
        """The result's tree around these values."""
        return tree.unflatten(self.structure, [Array(v, s) for v, s in zip(values, self.scalars, strict=True)])


def trace_flat(
    f: Callable[..., Any],
    types: Sequence[Type],
    scalars: Sequence[bool],
    *,
    reason: str,
    name: str = "",
    weak: Sequence[bool] = (),
    evaluate: Any = None,
    data: Sequence[Any] = (),
) -> Traced:
    """Trace f, which takes one array for each type; `weak` ones give way as Python numbers do.

    The values are abstract, or with `evaluate` computed as the trace goes, from `data` where there is some.
    """
    found: dict[str, Any] = {}

    def flat(*values: Value) -> list[Value]:
        if evaluate is not None:
            for v, known in zip(values, data, strict=False):
                v.data = known
        out = f(*[Array(v, s, w) for v, s, w in zip(values, scalars, weak or [False] * len(types), strict=True)])
        leaves, found["structure"] = tree.flatten(out)
        arrays = [entered(leaf, reason) for leaf in leaves]
        found["scalars"] = [a._scalar for a in arrays]
        found["weak"] = [a._weak for a in arrays]
        return [a.value for a in arrays]

    graph, captured = build(flat, types, name=name or "graph", evaluate=evaluate, reason=reason, named=True)
    return Traced(graph, captured, found["structure"], found["scalars"], found["weak"])


def as_array(leaf: Any, what: str) -> Array:
    """A leaf of a function's result as a traced array."""
    if isinstance(leaf, Array):
        return leaf
    if type(leaf) in late_types:
        return as_array(leaf.__live__(), what)
    if isinstance(leaf, PLAIN):
        return Array(constant_of(leaf), not isinstance(leaf, np.ndarray))
    raise DtypeError(
        f"{what}: the function returned {type_in_words(leaf)}, not an array", hint="return arrays, or trees of them"
    )


def entered(leaf: Any, what: str) -> Array:
    """An argument as a traced array; a Python number stays as weak as it was."""
    made = as_array(leaf, what)
    return made if isinstance(leaf, Array) else Array(made.value, made._scalar, promotes_weakly(leaf))
