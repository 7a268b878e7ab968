"""vmap on Python functions, and the collectives that see its axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from wholestep import tree
from wholestep.boundary.counts import is_integer
from wholestep.boundary.foreign import OWN_CALL
from wholestep.boundary.public import boundary
from wholestep.dims import Dim
from wholestep.errors import AxisError, DtypeError, ParameterError, ShapeError, TreeError
from wholestep.frontend.array import Array
from wholestep.frontend.axis_names import axis_size, named_axis
from wholestep.frontend.printing import Printed, with_said, without_said
from wholestep.frontend.source.entrance import as_asked, ordinary
from wholestep.frontend.tracing import (
    LEAVES,
    as_array,
    check_function,
    constants_read,
    entry_hint,
    parameter_names,
    scope,
    trace_flat,
    type_of,
)
from wholestep.ir.graph import NDArray, Value
from wholestep.ir.types import array_type
from wholestep.primitives.family import expand
from wholestep.primitives.marks import (
    all_gather as all_gather_primitive,
    axis_index as axis_index_primitive,
    psum as psum_primitive,
    psum_scatter as psum_scatter_primitive,
)
from wholestep.primitives.movement import permute
from wholestep.transforms.vmap import Batching
from wholestep.words import type_in_words

T = TypeVar("T")
P = ParamSpec("P")


def moved(v: Value, source: int, target: int) -> Value:
    """A value with one axis moved to another place."""
    if source == target:
        return v
    order = [i for i in range(v.ndim) if i != source]
    order.insert(target, source)
    out: Value = permute(v, axes=tuple(order))
    return out


@overload
def vmap(
    f: Callable[P, T],
    in_axes: Any = ...,
    out_axes: Any = ...,
    axis_name: str | None = ...,
    axis_size: int | None = ...,
    *,
    rewrite: bool = ...,
) -> Callable[P, T]: ...
@overload
def vmap(
    f: Callable[..., Any],
    in_axes: Any = ...,
    out_axes: Any = ...,
    axis_name: str | None = ...,
    axis_size: int | None = ...,
    *,
    rewrite: bool = ...,
) -> Any: ...  # the fallback where a type checker cannot choose, as for some lambdas
def vmap(
    f: Callable[..., T],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: str | None = None,
    axis_size: int | None = None,
    *,
    rewrite: bool = True,
) -> Callable[..., T]:
    """f over a batch: one program for all elements, not a loop.

    `in_axes` says which axis of each argument is the batch: an int, None for an argument shared by all, or a tree of
    them, a prefix of the arguments. `out_axes` places it in the results; None asserts that a result does not vary.
    Inside, `ws.psum(x, axis_name)` and `ws.pmean` combine the elements. Keyword arguments are batched along axis 0.
    `axis_size` is the number of elements, which has to be said where no argument is mapped. With `rewrite=False` the
    user's functions run as they stand (see language.md).

    Shapes: arguments [..., n, ...] with one n, at their axes in `in_axes`; results with n at `out_axes`; dtypes stay.
    Raises: ShapeError where batch sizes differ, or are not `axis_size`; AxisError for an axis that is not there;
    TreeError for a prefix that does not fit, or where there is neither a mapped argument nor an `axis_size`; DtypeError
    or ParameterError for an `axis_size` that is no number of elements.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x, y: x @ y, in_axes=(0, None))(np.eye(2), np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    check_function(f, "vmap")
    check_axes("in_axes", in_axes)
    check_axes("out_axes", out_axes)
    stated = element_count(axis_size)
    f = as_asked(f, rewrite)

    @boundary
    @functools.wraps(f)
    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        leaves = constants_read(leaves)
        axes = argument_axes(in_axes, args, kwargs, leaves)
        n = batch_size(f, leaves, axes, (args, kwargs), stated)
        with scope("vmap") as work:
            on = [axis is not None for axis in axes]
            values = [
                moved(as_array(leaf, "vmap").value, axis, 0) if axis is not None else leaf
                for leaf, axis in zip(leaves, axes, strict=True)
            ]
            mapped = [v for v, o in zip(values, on, strict=True) if o]
            one = of_one_element(f, structure, leaves, on)
            types = [array_type(v.shape[1:], v.dtype) for v in mapped]
            flat, evaluate = [t.ndim == 0 for t in types], work.builder.evaluate
            with named_axis(axis_name, n):
                traced = trace_flat(one, types, flat, reason="vmap", name=_graph_name(f), evaluate=evaluate)
            marks = [True] * len(mapped) + [False] * len(traced.captured)
            outs, out_on = Batching(n, axis_name).inline(traced.graph, [*mapped, *traced.captured], marks)
            shaped = tree.unflatten(traced.structure, outs)
            targets = result_axes(out_axes, shaped)
            placed = [place(v, o, t, n) for v, o, t in zip(outs, out_on, targets, strict=True)]
            return work.leave(without_said(tree.unflatten(traced.structure, placed)))

    return batched


def result_axes(out_axes: Any, results: Any) -> list[Any]:
    """The axis of the batch in every leaf of the results; raises TreeError where `out_axes` has another outline."""
    try:
        return tree.prefix(Printed((out_axes, 0)) if isinstance(results, Printed) else out_axes, results)
    except ValueError as error:
        raise TreeError(f"vmap: out_axes does not fit the results: {error}") from None


def of_one_element(
    f: Callable[..., Any], structure: Any, leaves: Sequence[Any], on: Sequence[bool]
) -> Callable[..., Any]:
    """f as a function of one element's leaves that are mapped; the other leaves are those of all elements."""

    def one(*rows: Array) -> Any:
        rest = iter(rows)
        args, kwargs = tree.unflatten(
            structure, [next(rest) if o else leaf for leaf, o in zip(leaves, on, strict=True)]
        )
        return with_said(ordinary(f))(*args, **kwargs)

    return one


def _graph_name(f: Any) -> str:
    return str(getattr(f, "__name__", "graph"))


def check_axes(name: str, axes: Any) -> None:
    """Raise TreeError for `in_axes` or `out_axes` that holds anything but numbers of axes and None."""
    if not all(axis is None or is_integer(axis) for axis in tree.leaves(axes)):
        raise TreeError(
            f"vmap: {name} is {axes!r:.60}, and says by a number or None which axis of each array is the batch",
            hint=OWN_CALL.format("vmap") if name == "in_axes" else "0 is the first axis, None for one without a batch",
        )


def argument_axes(in_axes: Any, args: Any, kwargs: Any, leaves: Sequence[Any]) -> list[int | None]:
    """The batch axis of every leaf of the arguments, non-negative; None for those without."""
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise TreeError(f"vmap: in_axes has {len(in_axes)} items for {len(args)} positional arguments")
    try:
        found = tree.prefix(in_axes, args)
    except ValueError as error:
        raise TreeError(f"vmap: in_axes does not fit the arguments: {error}") from None
    found += [0] * len(tree.leaves(kwargs))
    out: list[int | None] = []
    for axis, leaf in zip(found, leaves, strict=True):
        if axis is None:
            out.append(None)
            continue
        if not isinstance(leaf, LEAVES):
            raise TreeError(
                f"vmap: {type_in_words(leaf)} has no axis to map over", hint=entry_hint(leaf, "in_axes=None for it")
            )
        ndim = type_of(leaf).ndim
        if not -ndim <= axis < ndim:
            raise AxisError(
                f"vmap: in_axes asks for axis {axis} of {type_of(leaf)}",
                hint="in_axes=None shares an argument by all elements",
            )
        out.append(int(axis) % ndim)
    return out


def element_count(axis_size: Any) -> int | Dim | None:
    """The stated number of elements; raises DtypeError for another type, ParameterError for a negative number."""
    if axis_size is None or isinstance(axis_size, Dim):
        return axis_size
    if not is_integer(axis_size):
        raise DtypeError(f"vmap: axis_size is {axis_size!r:.60}, not an integer")
    if axis_size < 0:
        raise ParameterError(f"vmap: axis_size is {axis_size}, and a batch has no fewer than 0 elements")
    return int(axis_size)


def batch_size(f: Any, leaves: Any, axes: Any, whole: Any, stated: Any) -> Any:
    """The one size that all batch axes have, which is the stated one where there is one."""
    sizes = [type_of(leaf).shape[axis] for leaf, axis in zip(leaves, axes, strict=True) if axis is not None]
    if not sizes and stated is None:
        raise TreeError(
            "vmap: no argument is mapped",
            hint="give at least one an axis in in_axes, or say by axis_size how many elements there are",
        )
    if any(s != sizes[0] for s in sizes):
        args, kwargs = whole
        names = parameter_names(f, len(args))
        paths = [p for arg, name in zip(args, names, strict=True) for p in tree.paths(arg, name)] + tree.paths(kwargs)
        parts = [f"{p}: {type_of(x)} along {a}" for p, x, a in zip(paths, leaves, axes, strict=True) if a is not None]
        raise ShapeError(f"vmap: batch sizes differ: {', '.join(parts)}")
    if stated is not None and sizes and sizes[0] != stated:
        raise ShapeError(f"vmap: axis_size is {stated}, and the arguments have batches of {sizes[0]}")
    return sizes[0] if sizes else stated


def place(v: Value, on: bool, target: int | None, n: Any) -> Array:
    """A result with its batch axis where out_axes wants it."""
    if target is None:
        if on:
            raise TreeError(
                f"vmap: out_axes is None for a result that varies with the batch ({v.type})", hint="give it an axis"
            )
        return Array(v, v.ndim == 0)
    wide = expand(v, n, on)
    if not -wide.ndim <= target < wide.ndim:
        raise AxisError(f"vmap: out_axes asks for axis {target} of {wide.type}")
    return Array(moved(wide, 0, target % wide.ndim))


def psum(x: T, axis_name: str) -> T:
    """The sum of x over the elements of the `vmap` with this `axis_name`; every element gets it.

    Where no vmap has the name, it is that of a mesh's axis (`ws.compile(..., mesh=)`), and the sum is over its
    processes, added in the order of their ranks.

    Shapes: x an array of any shape and numeric dtype; the sum has them too.
    Raises: UnsupportedError where neither has the name, CommunicationError where a process has ended.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x: x / ws.psum(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    with scope("psum") as work:
        made = tree.map(lambda leaf: _psum(leaf, axis_name), x)
        return work.leave(made)


def _psum(leaf: Any, axis_name: str) -> Array:
    a = as_array(leaf, "psum")
    return Array(psum_primitive(a.value, axis_name=axis_name), a._scalar)


def pmean(x: T, axis_name: str) -> T:
    """The mean of x over the elements of the `vmap` with this `axis_name`, or over the processes of a mesh's axis.

    Shapes: as `psum`, with a floating result.
    Raises: as `psum` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x: x - ws.pmean(x, "i"), axis_name="i")(np.array([1.0, 3.0])).tolist()
    [-1.0, 1.0]
    """
    count = psum(np.float64(1.0), axis_name)
    return tree.map(lambda total: (total / count).astype(total.dtype), psum(x, axis_name))


def all_gather(x: T, axis_name: str) -> T:
    """The arrays of all elements of the `vmap` with this `axis_name`, or of all processes of a mesh's axis, in order.

    Its gradient is the sum of the gradients that the elements or processes have for the row of each.

    Shapes: x an array of any shape and dtype; the result has a new first axis, of the size of the named one.
    Raises: as `psum` does, and ShapeError for a program that was traced for another size of the axis.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x: ws.all_gather(x, "i") - x, axis_name="i")(np.array([1.0, 3.0])).tolist()
    [[0.0, 2.0], [-2.0, 0.0]]
    """
    with scope("all_gather") as work:
        size = axis_size(axis_name, "all_gather")
        return work.leave(tree.map(lambda leaf: _all_gather(leaf, axis_name, size), x))


def _all_gather(leaf: Any, axis_name: str, size: Any) -> Array:
    return Array(all_gather_primitive(as_array(leaf, "all_gather").value, axis_name=axis_name, size=size))


def psum_scatter(x: Any, axis_name: str) -> Any:
    """The row of its own number that each process has of a sum over the processes: [size, ...] gives [...]."""
    with scope("psum_scatter") as work:
        size = axis_size(axis_name, "psum_scatter")
        value = as_array(x, "psum_scatter").value
        return work.leave(Array(psum_scatter_primitive(value, axis_name=axis_name, size=size)))


def axis_index(axis_name: str) -> NDArray:
    """The number of an element along the `axis_name` of its `vmap`, or the rank of a process of a mesh's axis.

    Shapes: a scalar of int64.
    Raises: UnsupportedError where neither a vmap nor a mesh has the name.

    >>> import numpy as np, wholestep as ws
    >>> ws.vmap(lambda x: x + ws.axis_index("i"), axis_name="i")(np.array([1, 3])).tolist()
    [1, 4]
    """
    with scope("axis_index") as work:
        return work.leave(Array(axis_index_primitive(axis_name=axis_name), True))
