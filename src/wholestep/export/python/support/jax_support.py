"""Functions of JAX arrays that printed sources use: loops, orders, operations with NumPy's semantics."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from wholestep.export.python.support.checkpoint_file import checkpoint_header, read_checkpoint, write_checkpoint


def scan_rows(f, fixed, carry, xs, length, reverse):
    """A loop that hands a carry on and stacks the other results."""
    k = len(carry)

    def body(carry, rows):
        out = f(*fixed, *carry, *(rows or ()))
        return out[:k], out[k:]

    carry, ys = lax.scan(body, carry, xs or None, length, reverse)
    return (*carry, *ys)


def loop_while(test, body, for_test, for_body, carry):
    """A loop while a predicate of its carry holds."""
    return lax.while_loop(lambda c: test(*for_test, *c)[0], lambda c: body(*for_body, *c), carry)


def windows(x, size, stride, dilation):
    """Sliding windows over the last axes, read one axis after the other."""
    lead = x.ndim - len(size)
    for i, (m, s, d) in enumerate(zip(size, stride, dilation)):
        places = np.arange(0, x.shape[lead + i] - (m - 1) * d, s)
        x = jnp.moveaxis(jnp.take(x, places[:, None] + d * np.arange(m), lead + i), lead + i + 1, -1)
    return x


def slice_by_slice(f, x, axes):
    """A reduction over axes of few elements, by a function of pairs of slices."""
    for done, axis in enumerate(sorted(axes)):
        parts = [lax.index_in_dim(x, i, axis - done, keepdims=False) for i in range(x.shape[axis - done])]
        x = functools.reduce(f, parts)
    return x


def all_finite(*xs):
    """True where all elements of arrays are finite; small ones are tested as one array."""
    small = [x.reshape(-1) for x in xs if x.size <= 1024]
    tested = [*[x for x in xs if x.size > 1024], *([jnp.concatenate(small)] if small else [])]
    return functools.reduce(jnp.logical_and, [jnp.all(jnp.isfinite(x)) for x in tested])


def sort_rows(x, axis):
    """Sorted values, and where each came from; equal ones stay in order."""
    order = jnp.argsort(x, axis=axis, stable=True)
    return jnp.take_along_axis(x, order, axis), order.astype(int)


def largest(x, axis, k):
    """The k largest, the first of equal ones first, and where they came from."""
    order = x.shape[axis] - 1 - jnp.flip(jnp.argsort(jnp.flip(x, axis), axis=axis, stable=True), axis)
    order = jnp.take(order, jnp.arange(k), axis)
    return jnp.take_along_axis(x, order, axis), order.astype(int)


def running(x, axis, upward):
    """The largest, or smallest, so far, and where it was first; NaN stays."""
    places = lax.broadcasted_iota(int, x.shape, axis)

    def later(a, b):
        take = (b[0] > a[0] if upward else b[0] < a[0]) | (b[0] != b[0])
        return jnp.where(take, b[0], a[0]), jnp.where(take, b[1], a[1])

    return lax.associative_scan(later, (x, places), axis=axis)


def eliminated(x):
    """Elimination with pivots: both triangles in one matrix, the exchanges counted from 0, and the order of rows."""
    packed, pivots, order = lax.linalg.lu(x)
    return packed, pivots.astype(jnp.int32), order.astype(int)


def on_host(f, kinds, *xs):
    """Arrays of these shapes and dtypes from a function of NumPy arrays; without kinds, one elementwise like xs."""
    like = [(jnp.broadcast_shapes(*[x.shape for x in xs]), xs[0].dtype)] if kinds is None else kinds
    results = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in like)

    def call(*arrays):
        found = f(*map(np.asarray, arrays))
        found = found if isinstance(found, tuple) else (found,)
        return tuple(np.asarray(y, kind.dtype) for y, kind in zip(found, results))

    found = jax.pure_callback(call, results, *xs, vmap_method="broadcast_all" if kinds is None else "sequential")
    return found[0] if len(results) == 1 else found


def load(path):
    """The state in a checkpoint: JAX arrays by path."""
    header, _, _ = checkpoint_header(path)
    found = read_checkpoint(path)
    halves = [name for name in found if header[name]["dtype"] == "BF16"]
    found |= {name: found[name].view(jnp.bfloat16) for name in halves}
    return {name: jnp.asarray(x) for name, x in found.items()}


def save(path, state, like):
    """Write a state for `step.load` to take back; `like` is the checkpoint that it began with."""
    write_checkpoint(path, {name: np.asarray(x) for name, x in state.items()}, like)
