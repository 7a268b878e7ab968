"""cond, switch, scan, while_loop and fori_loop: control flow that stays in the program instead of being unrolled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from wholestep import dtypes, tree
from wholestep.dims import Dim
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.frontend.array import Array
from wholestep.frontend.printing import Printed, take_prints, without_said
from wholestep.frontend.promotion import cast_to, lift, promoting_kind
from wholestep.frontend.pure import pure
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.structures import first_difference
from wholestep.frontend.tracing import Arguments, Traced, as_array, scope, trace_flat, type_of
from wholestep.ir.analysis import reordered
from wholestep.ir.build import build, inline
from wholestep.ir.graph import Graph, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.loops import scan as scan_primitive
from wholestep.primitives.structure import cond as cond_primitive, while_loop as while_primitive
from wholestep.words import with_article

T = TypeVar("T")
Y = TypeVar("Y")

_NUMBER = np.dtype(np.int32)
"""The dtype of the number of a branch."""


def cond(pred: Any, true_fn: Callable[..., T], false_fn: Callable[..., T], *operands: Any) -> T:
    """`true_fn(*operands)` where pred holds, `false_fn(*operands)` elsewhere; only one of them runs.

    Where the value of `pred` is known, the branch is simply called. Both branches return one structure, its shapes and
    dtypes; a Python number gives way to the dtype of the other.

    Shapes: `pred` a scalar, boolean or a number; operands trees of any arrays; the result as the branches return it.
    Raises: ShapeError for a pred that is no scalar, TreeError or DtypeError where the branches differ.

    >>> import wholestep as ws
    >>> ws.jit(lambda x: ws.cond(x > 0, lambda x: x, lambda x: -2 * x, x))(-3.0)
    np.float64(6.0)
    """
    given = type_of(pred)
    if given.shape:
        raise ShapeError(f"cond: the predicate is {given}, not a scalar", hint="use np.where for a choice by element")
    known = pred if not isinstance(pred, Array) else pred.value.data
    if known is not None:
        return ordinary(true_fn if bool(known) else false_fn)(*operands)
    number = cast_to(cast_to(pred.value, np.dtype(bool)), _NUMBER)
    return branched("cond", number, {"false": false_fn, "true": true_fn}, operands)


def switch(index: Any, branches: Sequence[Callable[..., T]], *operands: Any) -> T:
    """`branches[index](*operands)`; only that branch runs.

    An index below 0 means the first branch, and one beyond the last branch the last. Where its value is known, the
    branch is simply called. All branches return one structure, its shapes and dtypes; a Python number gives way to the
    dtype of the others.

    Shapes: `index` an integer scalar; operands trees of any arrays; the result as the branches return it.
    Raises: ShapeError or DtypeError for an index that is no integer scalar, ParameterError where there is no branch,
    TreeError or DtypeError where the branches differ.

    >>> import wholestep as ws
    >>> waves = [lambda x: x, lambda x: x * x, lambda x: -x]
    >>> ws.jit(lambda i, x: ws.switch(i, waves, x))(1, 3.0)
    np.float64(9.0)
    """
    given = type_of(index)
    if given.shape:
        raise ShapeError(f"switch: the index is {given}, not a scalar", hint="use np.choose for a choice by element")
    if not dtypes.is_integer(given.dtype):
        raise DtypeError(f"switch: the index is {given}, not an integer", hint="ws.cond takes a condition")
    functions = tuple(branches)
    if not functions:
        raise ParameterError("switch: there is no branch")
    last = len(functions) - 1
    known = index if not isinstance(index, Array) else index.value.data
    if known is not None or not last:
        return ordinary(functions[min(max(int(known or 0), 0), last)])(*operands)
    number = cast_to(np.minimum(np.maximum(index, 0), last).value, _NUMBER)
    return branched("switch", number, {f"branch {i}": f for i, f in enumerate(functions)}, operands)


def branched(name: str, number: Value, functions: Mapping[str, Callable[..., Any]], operands: Sequence[Any]) -> Any:
    """The result of the function of this number, of which only that one runs."""
    with scope(name) as work:
        given = Arguments(tuple(operands), booleans=True)
        branches = [
            given.traced(lambda xs, f=f: ordinary(f)(*xs), reason=name, name=branch) for branch, f in functions.items()
        ]
        graphs, captured = with_same_captures(with_same_types(name, branches), len(given.arrays))
        outs = cond_primitive(number, *given.values, *captured, branches=tuple(graphs))
        weak = [all(each) for each in zip(*[b.weak for b in branches], strict=True)]
        made = [Array(v, s, w) for v, s, w in zip(outs, branches[0].scalars, weak, strict=True)]
        return work.leave(tree.unflatten(branches[0].structure, made))


def with_same_types(name: str, branches: Sequence[Traced]) -> list[Traced]:
    """Branches that give the same structure and types: a Python number gives way to the arrays of the others."""
    last = branches[-1]
    for other in branches[:-1]:
        if other.structure != last.structure:
            raise TreeError(f"{name}: the branches return {last.structure} and {other.structure}")
    made = [[Array(v, s, w) for v, s, w in zip(b.graph.outputs, b.scalars, b.weak, strict=True)] for b in branches]
    common = [dtype_of_results(name, results) for results in zip(*made, strict=True)]
    return [b._replace(graph=with_results_of(b.graph, common)) for b in branches]


def dtype_of_results(name: str, results: Sequence[Array]) -> np.dtype[Any]:
    """The dtype that the results of all branches have, of which Python numbers give way to others."""
    told = " and ".join(dict.fromkeys([str(a.type) for a in reversed(results)]))
    if len({a.shape for a in results}) > 1:
        hint = "a program has one shape for both results: np.pad or np.broadcast_to makes them equal"
        raise ShapeError(f"{name}: the branches return {told}", hint=hint)
    deciding = [a for a in results if not a._weak] or results
    dtype = deciding[0].dtype
    fits = dtypes.promoted_dtype(*[promoting_kind(a) for a in results]) == dtype
    if not fits or any([a.dtype != dtype for a in deciding]):
        raise DtypeError(f"{name}: the branches return {told}", hint="cast one of them with .astype")
    return dtype


def with_results_of(graph: Graph, common: Sequence[np.dtype[Any]]) -> Graph:
    """A graph that gives results of these dtypes."""
    if all([t.dtype == dtype for t, dtype in zip(graph.out_types, common, strict=True)]):
        return graph

    def cast_results(*values: Value) -> list[Value]:
        return [cast_to(v, dtype) for v, dtype in zip(inline(graph, values), common, strict=True)]

    return build(cast_results, graph.in_types, name=graph.name, named=True)[0]


def with_same_captures(branches: Sequence[Traced], n: int) -> tuple[list[Graph], list[Value]]:
    """Graphs over (operands, everything that any of them captured)."""
    captured = list(dict.fromkeys([v for b in branches for v in b.captured]))
    return [widened(b.graph, n, [captured.index(v) for v in b.captured], captured) for b in branches], captured


def widened(graph: Graph, n: int, places: Sequence[int], captured: Sequence[Value]) -> Graph:
    """A graph whose captured inputs are those at `places`, as one over all of `captured`."""
    own = dict(zip(places, graph.inputs[n:], strict=True))
    rest = [own.get(i) or Value(v.type, None, None) for i, v in enumerate(captured)]
    return Graph((*graph.inputs[:n], *rest), graph.nodes, graph.outputs, graph.name)


def scan(
    f: Callable[[T, Any], tuple[T, Y]], init: T, xs: Any = None, length: int | None = None, *, reverse: bool = False
) -> tuple[T, Y]:
    """Apply `carry, y = f(carry, x)` along the first axis of xs: `carry, ys = ws.scan(f, init, xs)`.

    The loop stays a loop in the program and in its derivatives, for any length. `xs` is a tree of arrays, or None with
    `length`; ys are stacked, or None where there are none; `reverse` runs from the last x to the first. A Python number
    that the carry begins with takes the dtype of the arrays that the step adds to it, as in a loop of Python.

    Shapes: `xs` and ys trees of arrays [length, ...]; the carry any tree, with the same shapes and dtypes at each step.
    Raises: ShapeError where lengths differ, TreeError or DtypeError where the carry changes.

    >>> import numpy as np, wholestep as ws
    >>> ws.scan(lambda c, x: (c + x, c), 0.0, np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([0., 1., 3.]))
    """
    return run_scan("scan", f, init, xs, length, reverse)


def run_scan(what: str, f: Callable[..., Any], init: Any, xs: Any, length: int | None, reverse: bool) -> Any:
    """The results of a scan, under the name of the loop that the user wrote."""
    with scope(what) as work:
        rows = Arguments((xs,), booleans=True, weak=False)
        count = steps(rows.arrays, length)
        begin = Arguments((init,), booleans=True)
        types = [array_type(a.shape[1:], a.dtype) for a in rows.arrays]
        k = len(begin.arrays)

        def step(*items: Array) -> Any:
            carry, y = pair_of(ordinary(f)(begin.around(items[:k])[0], rows.around(items[k:])[0]))
            check_carry(what, carry, begin)
            said = take_prints()
            return carry, Printed((y, said)) if said else y

        traced, start = settled(step, begin.arrays, types, what)
        ys = len(traced.graph.outputs) - k
        captured = len(traced.captured)
        order = [*range(k + len(types), k + len(types) + captured), *range(k + len(types))]
        graph = reordered(traced.graph, order, range(k + ys))
        outs = scan_primitive(
            *traced.captured,
            *[a.value for a in start],
            *rows.values,
            graph=graph,
            sizes=(captured, k),
            length=count,
            reverse=reverse,
        )
        carry, stacked = tree.unflatten(
            traced.structure, [Array(v, s) for v, s in zip(outs, flags(traced, k), strict=True)]
        )
        return work.leave((carry, without_said(stacked, loop=True, reverse=reverse)))


def flags(traced: Traced, k: int) -> list[bool]:
    """A flag for each result, true for NumPy scalars: carries may be, stacked results are not."""
    return [s and i < k for i, s in enumerate(traced.scalars)]


def pair_of(out: Any) -> Any:
    if not isinstance(out, tuple) or len(out) != 2:
        raise TreeError(
            "scan: the function returns (carry, y)", hint="return (carry, None) where there is nothing to stack"
        )
    return out


def check_carry(what: str, carry: Any, begin: Arguments) -> None:
    """Raise TreeError where the structure of the carry is not the one that it began with."""
    if tree.structure((carry,)) != begin.structure:
        found = first_difference(tree.unflatten(begin.structure, begin.leaves)[0], carry, "carry")
        raise TreeError(f"{what}: the step changes the structure of the carry: {found}", hint=found and found.hint)


def steps(rows: Sequence[Array], length: int | None) -> Any:
    """The number of steps: the common first size of xs, or `length`."""
    for a in rows:
        if a.ndim == 0:
            raise ShapeError(f"scan: xs holds {with_article(a.type)}, which has no axis to run along")
    sizes = [a.shape[0] for a in rows] + ([] if length is None else [length])
    if not sizes:
        raise ShapeError("scan: no xs and no length", hint="give length=, the number of steps")
    if any(s != sizes[0] for s in sizes):
        raise ShapeError(f"scan: lengths differ: {', '.join(map(str, sizes))}")
    return sizes[0]


def settled(step: Any, start: list[Array], types: Sequence[Type], what: str) -> tuple[Traced, list[Array]]:
    """The step traced with a carry whose types it keeps; an initial scalar takes the type of its successor.

    A Python number promotes as one in the step, as long as the step makes nothing else of it.
    """
    k = len(start)
    while True:
        scalars = [a._scalar for a in start] + [t.ndim == 0 for t in types]
        weak = [a._weak for a in start] + [False] * len(types)
        with pure(step, "round of the loop"):
            traced = trace_flat(step, [*[a.type for a in start], *types], scalars, reason=what, name="step", weak=weak)
        after = list(zip(start, traced.graph.out_types[:k], traced.weak[:k], strict=True))
        changed = [(a, t) for a, t, number in after if a.type is not t or (a._weak and not number)]
        if not changed:
            return traced, start
        for a, t in changed:
            if not a._scalar or t.shape or dtypes.promoted_dtype(promoting_kind(a), t.dtype) != t.dtype:
                raise DtypeError(
                    f"{what}: the carry begins as {a.type} and the step turns it into {t}",
                    hint="begin with the type that the step returns, or cast what it returns",
                )
        start = [Array(cast_to(a.value, t.dtype), a._scalar, a._weak and number) for a, t, number in after]


def while_loop(cond_fun: Callable[[T], Any], body_fun: Callable[[T], T], init: T) -> T:
    """`while cond_fun(x): x = body_fun(x)`, as part of the program.

    It has a forward-mode derivative; reverse mode needs a fixed number of steps: use scan or fori_loop.

    Shapes: `init` a tree of any arrays, whose shapes and dtypes `body_fun` keeps; `cond_fun` gives a scalar.
    Raises: as `scan` does, and ShapeError for a condition that is no scalar.

    >>> import wholestep as ws
    >>> ws.while_loop(lambda x: x < 10, lambda x: x * 2, 1)
    np.int64(16)
    """
    with scope("while_loop") as work:
        begin = Arguments((init,), booleans=True)

        def body(*items: Array) -> Any:
            out = ordinary(body_fun)(begin.around(items)[0])
            check_carry("while_loop", out, begin)
            return out

        traced, start = settled(body, begin.arrays, [], "while_loop")
        k = len(start)
        test = trace_flat(
            lambda *items: scalar_bool(ordinary(cond_fun)(begin.around(items)[0])),
            [a.type for a in start],
            [a._scalar for a in start],
            reason="while_loop",
            name="predicate",
            weak=[a._weak for a in start],
        )
        parts = [(test, 1), (traced, k)]
        graphs = [reordered(t.graph, [*range(k, k + len(t.captured)), *range(k)], range(n)) for t, n in parts]
        outs = while_primitive(
            *test.captured,
            *traced.captured,
            *[a.value for a in start],
            predicate=graphs[0],
            body=graphs[1],
            constants=(len(test.captured), len(traced.captured)),
        )
        return work.leave(
            tree.unflatten(traced.structure, [Array(v, s) for v, s in zip(outs, traced.scalars, strict=True)])
        )


def scalar_bool(x: Any) -> Any:
    """A loop's test as one boolean."""
    a = as_array(x, "while_loop")
    if a.shape:
        raise ShapeError(f"while_loop: the test is {a.type}, not a scalar", hint="combine it with .any() or .all()")
    return Array(cast_to(a.value, np.dtype(bool)), True)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, T], T], init: T) -> T:
    """`for i in range(lower, upper): x = body_fun(i, x)`, as part of the program.

    With bounds that are plain integers or symbolic sizes it differentiates both ways; with traced ones it is a
    while_loop. i promotes weakly, like the numbers that range gives.

    Shapes: bounds integer scalars; `init` a tree of any arrays, of which `body_fun` keeps structure, shapes and dtypes.
    Raises: as `scan` does, and DtypeError for bounds that are no integers.

    >>> import wholestep as ws
    >>> ws.fori_loop(0, 5, lambda i, x: x + i, 0)
    np.int64(10)
    """

    def indexed_body(i: Any, x: Any) -> Any:
        return ordinary(body_fun)(Array(i.value, True, True), x)  # a number of Python's, as range gives

    if isinstance(lower, Dim) or isinstance(upper, Dim):

        def counted(state: Any, _: Any) -> Any:
            return (state[0] + 1, indexed_body(state[0], state[1])), None

        return run_scan("fori_loop", counted, (lift(lower), init), None, upper - lower, False)[0][1]
    for bound in (lower, upper):
        if not dtypes.is_integer(type_of(bound).dtype):
            raise DtypeError(f"fori_loop: a bound is {type_of(bound)}, not an integer")
    if not isinstance(lower, Array) and not isinstance(upper, Array):
        numbers = np.arange(int(lower), int(upper))
        return run_scan("fori_loop", lambda x, i: (indexed_body(i, x), None), init, numbers, None, False)[0]

    def body(state: Any) -> Any:
        i, x = state
        return i + 1, indexed_body(i, x)

    start = lower.astype(np.int64) if isinstance(lower, Array) else np.int64(lower)
    return while_loop(lambda state: state[0] < upper, body, (start, init))[1]
