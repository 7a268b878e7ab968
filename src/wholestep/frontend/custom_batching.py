"""Functions with a batching rule of the user's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from wholestep import tree
from wholestep.errors import DtypeError, ShapeError, TreeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.stated_rules import body_graph, by_position, name_of
from wholestep.frontend.tracing import Arguments, Traced, as_array
from wholestep.ir.build import current
from wholestep.ir.graph import Value
from wholestep.ir.types import array_type
from wholestep.primitives.stated_batching import custom_vmap as custom_vmap_primitive

P = ParamSpec("P")
R = TypeVar("R")
Rule = TypeVar("Rule", bound=Callable[..., Any])


class StatedBatch:
    """The rule of a custom_vmap at one call."""

    def __init__(self, call: Arguments, traced: Traced, name: str, rule: Callable[..., Any]) -> None:
        self.call, self.traced, self.name, self.rule = call, traced, name, rule
        self.n = len(call.arrays)

    def batch(self, batching: Any, xs: Sequence[Value], on: Sequence[bool]) -> tuple[list[Value], list[bool]]:
        """The results of the rule for arguments of which some carry the batch on axis 0; raises where they misfit."""
        if any(on[self.n :]):
            raise UnsupportedError(
                f"{self.name}: the function closes over a traced array that varies with the batch, "
                "and its rule is not given it",
                hint="pass the array as an argument; ws.closure_convert makes one of it",
            )
        arrays = [
            Array(v, a._scalar and not o, a._weak and not o) for v, a, o in zip(xs, self.call.arrays, on, strict=False)
        ]
        args, in_batched = self.call.around(arrays)[0], self.flags(on)
        given = ordinary(self.rule)(batching.n, list(in_batched), *args)
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise TreeError(f"{self.name}: the rule for vmap returns (out, out_batched), as a pair")
        out, out_batched = given
        leaves, structure = tree.flatten(out)
        if structure != self.traced.structure:
            raise TreeError(
                f"{self.name}: the rule for vmap returns {structure}, and the function {self.traced.structure}"
            )
        marks = self.marks(out_batched, out)
        types = self.traced.graph.out_types
        return [self.fitting(*each, batching.n) for each in zip(leaves, types, marks, strict=True)], marks

    def flags(self, on: Sequence[bool]) -> Any:
        """The tree of the arguments with True where they carry the batch."""
        rest = iter(on)
        marks = [next(rest) if o else False for o in self.call.on]
        return tree.unflatten(self.call.structure, marks)[0]

    def marks(self, out_batched: Any, out: Any) -> list[bool]:
        """Marks of the leaves of the result that carry the batch, as the rule says by a tree or the root of one."""
        try:
            found = tree.prefix(out_batched, out)
        except ValueError as error:
            raise TreeError(f"{self.name}: out_batched does not fit the result: {error}") from None
        if not all(isinstance(mark, bool) for mark in found):
            raise TreeError(f"{self.name}: out_batched is {out_batched!r:.60}, and says True or False of each result")
        return list(found)

    def fitting(self, leaf: Any, t: Any, on: bool, n: Any) -> Value:
        """A leaf that the rule has returned, as a value of the type that it must have."""
        a, wanted = as_array(leaf, self.name), array_type((n, *t.shape) if on else t.shape, t.dtype)
        if a.shape != wanted.shape:
            carried = "that carries the batch" if on else "without the batch"
            raise ShapeError(f"{self.name}: the rule for vmap gives {a.type} for a result {wanted} {carried}")
        if a.dtype != wanted.dtype:
            raise DtypeError(f"{self.name}: the rule for vmap gives {a.type} for a result {wanted}")
        return a.value


class custom_vmap(Generic[P, R]):
    """A function whose batched version the user states, in place of the one that `vmap` derives.

    `rule(axis_size, in_batched, *args)` gets the arguments, the batch on axis 0 of those that `in_batched`, a list of
    trees like the arguments, marks True; it returns `(out, out_batched)`, and means the same as the function does for
    each element. Derivatives are those of the function, and under `vmap` those of the rule, in every order and in both
    modes. Works under every transform.

    Shapes: those of f; results of the rule have the axis of the batch in front where `out_batched` marks them True.
    Raises: UnsupportedError where `vmap` meets it before `def_vmap`, or where f closes over an array of the batch;
    TreeError, ShapeError or DtypeError for a rule whose results do not fit.

    >>> import numpy as np, wholestep as ws
    >>> @ws.custom_vmap
    ... def product(a, x):
    ...     return a @ x
    >>> @product.def_vmap
    ... def _(axis_size, in_batched, a, x):
    ...     return (x @ a.T if in_batched == [False, True] else np.einsum("...ij,...j->...i", a, x)), True
    >>> ws.vmap(product, in_axes=(None, 0))(np.diag([1.0, 2.0]), np.ones((3, 2))).tolist()
    [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    """

    def __init__(self, f: Callable[P, R]) -> None:
        functools.update_wrapper(self, f)
        self.f: Callable[..., Any] = f
        self.rule: Callable[..., Any] | None = None

    def def_vmap(self, rule: Rule) -> Rule:
        """State the rule, which is returned."""
        self.rule = rule
        return rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if current() is None:
            return self.f(*args, **kwargs)
        name = name_of(self.f)
        call = Arguments((by_position(self.f, args, kwargs, name), {}))
        traced = body_graph(call, ordinary(self.f), name)
        rule = StatedBatch(call, traced, name, self.rule or self._unstated)
        outs = custom_vmap_primitive(*call.values, *traced.captured, graph=traced.graph, rule=rule)
        return traced.arrays(outs)

    def _unstated(self, *_: Any) -> Any:
        """The rule before there is one, which raises UnsupportedError."""
        raise UnsupportedError(f"{name_of(self.f)}: custom_vmap without a rule", hint="call def_vmap(rule) first")
