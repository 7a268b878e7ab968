"""The meaning of each primitive in JAX, written apart from our reference, so that it is not its own judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
from jax import lax

from wholestep.ir.graph import Graph, NDArray

jax.config.update("jax_enable_x64", True)

_SAME_NAME = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh "
    "arctanh arctan2 hypot logaddexp logaddexp2 maximum minimum abs floor ceil trunc rint sign copysign floor_divide "
    "remainder fmod equal not_equal less less_equal isfinite isnan signbit"
).split()
_SPECIAL = "erf erfc erfinv expit logit gammaln digamma gamma ndtr log_ndtr ndtri i0 i1 i0e i1e zeta".split()


def update_slice(x: Any, u: Any, *, start: Any, step: Any) -> Any:
    place = tuple(slice(a, a + (n - 1) * s + 1 if n else a, s) for a, n, s in zip(start, u.shape, step, strict=True))
    return x.at[place].set(u)


def pad(x: Any, *, before: Any, after: Any, interior: Any) -> Any:
    return lax.pad(x, np.asarray(0, x.dtype), list(zip(before, after, interior, strict=True)))


def positions(n: int, size: int, stride: int, dilation: int) -> NDArray:
    """The positions that each window reads along an axis."""
    first = np.arange(0, n - (size - 1) * dilation, stride)
    return np.asarray(first[:, None] + dilation * np.arange(size)[None, :])


def window(x: Any, *, size: Any, stride: Any, dilation: Any) -> Any:
    (m,), (s,), (d,) = size, stride, dilation
    return x[..., positions(x.shape[-1], m, s, d)]


def unwindow(y: Any, *, sizes: Any, stride: Any, dilation: Any) -> Any:
    (n,), (s,), (d,) = sizes, stride, dilation
    where = positions(n, y.shape[-1], s, d)
    return jnp.zeros((*y.shape[:-2], n), y.dtype).at[..., where].add(y)


def indexed(x: Any, indices: Sequence[Any], axes: Sequence[int]) -> tuple[Any, list[int], Any]:
    """x with the indexed axes first, their order, and the index."""
    order = [*axes, *[i for i in range(x.ndim) if i not in axes]]
    return jnp.transpose(x, order), order, tuple(indices)


def gather(x: Any, *indices: Any, axes: Any) -> Any:
    front, _, at = indexed(x, indices, axes)
    return front[at]


def scatter_add(x: Any, u: Any, *indices: Any, axes: Any) -> Any:
    front, order, at = indexed(x, indices, axes)
    return jnp.transpose(front.at[at].add(u), tuple(np.argsort(order).tolist()))


def scatter(x: Any, u: Any, *indices: Any, axes: Any) -> Any:
    """One write after the other, so that the last one stays."""
    front, order, at = indexed(x, indices, axes)
    for k in np.ndindex(*np.shape(indices[0])):
        front = front.at[tuple(int(np.asarray(i)[k]) for i in at)].set(u[k])
    return jnp.transpose(front, tuple(np.argsort(order).tolist()))


def running(function: Any) -> Callable[..., Any]:
    def run(x: Any, *, axis: int, reverse: bool) -> Any:
        return jnp.flip(function(jnp.flip(x, axis), axis=axis), axis) if reverse else function(x, axis=axis)

    return run


def first_seen(function: Any) -> Callable[..., Any]:
    """A running extremum; candidates are far apart, so any equal place is the place."""

    def run(x: Any, *, axis: int) -> Any:
        return function(x, axis=axis), None

    return run


def sort(x: Any, *, axis: int) -> Any:
    order = jnp.argsort(x, axis=axis, stable=True)
    return jnp.take_along_axis(x, order, axis), order


def top_k(x: Any, *, axis: int, k: int) -> Any:
    values, order = lax.top_k(jnp.moveaxis(x, axis, -1), k)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(order, -1, axis)


def partition(x: Any, *, axis: int, kth: Any) -> Any:
    """In NumPy's order, which JAX does not have; the values are read by JAX."""
    kind = jax.ShapeDtypeStruct(x.shape, np.int64)
    order = jax.pure_callback(lambda v: np.argpartition(v, kth, axis), kind, lax.stop_gradient(x))
    return jnp.take_along_axis(x, order, axis), order


def broadcast(x: Any, *, shape: Any, axes: Any) -> Any:
    return lax.broadcast_in_dim(x, shape, axes)


MEANING: dict[str, Callable[..., Any]] = {
    **{name: getattr(jnp, name) for name in _SAME_NAME},
    **{name: getattr(special, name) for name in _SPECIAL if hasattr(special, name)},
    "add": jnp.add,
    "sub": jnp.subtract,
    "neg": jnp.negative,
    "mul": jnp.multiply,
    "div": jnp.divide,
    "pow": jnp.power,
    "log_expit": jax.nn.log_sigmoid,
    "select": jnp.where,
    "constant": lambda *, value: value,
    "full": lambda *, value, shape, dtype: jnp.full(shape, value, dtype),
    "iota": lambda *, shape, axis, dtype: lax.broadcasted_iota(dtype, shape, axis),
    "cast": lambda x, *, dtype: x.astype(dtype),
    "capture": lambda x, *, label: x,
    "broadcast": broadcast,
    "reshape": lambda x, *, shape: jnp.reshape(x, shape),
    "permute": lambda x, *, axes: jnp.transpose(x, axes),
    "flip": lambda x, *, axes: jnp.flip(x, axes),
    "slice": lambda x, *, start, stop, step: lax.slice(x, start, stop, step),
    "pad": pad,
    "concat": lambda *xs, axis: jnp.concatenate(xs, axis),
    "update_slice": update_slice,
    "contract": lambda x, y, *, spec: jnp.einsum(spec, x, y, precision="highest"),
    "window": window,
    "unwindow": unwindow,
    "sum": lambda x, *, axes: jnp.sum(x, axes),
    "prod": lambda x, *, axes: jnp.prod(x, axes),
    "max": lambda x, *, axes: jnp.max(x, axes),
    "min": lambda x, *, axes: jnp.min(x, axes),
    "argmax": lambda x, *, axis: jnp.argmax(x, axis),
    "argmin": lambda x, *, axis: jnp.argmin(x, axis),
    "cumsum": running(jnp.cumsum),
    "cumprod": running(jnp.cumprod),
    "cummax": first_seen(lambda x, axis: lax.cummax(x, axis)),
    "cummin": first_seen(lambda x, axis: lax.cummin(x, axis)),
    "sort": sort,
    "top_k": top_k,
    "partition": partition,
    "gather": gather,
    "scatter": scatter,
    "scatter_add": scatter_add,
}


def meaning(graph: Graph) -> Callable[..., Any]:
    """A program as a function of JAX arrays, primitive by primitive."""

    def function(*args: Any) -> Any:
        env: dict[Any, Any] = dict(zip(graph.inputs, args, strict=True))
        for node in graph.nodes:
            out = MEANING[node.op.name](*[env[v] for v in node.inputs], **node.params)
            env.update(zip(node.outputs, out if node.op.multiple else [out], strict=True))
        return env[graph.outputs[0]]

    return function
