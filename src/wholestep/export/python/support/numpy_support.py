"""Functions of NumPy arrays that printed sources use: loops, orders, windows, and writes that copy."""

import ml_dtypes
import numpy as np

from wholestep.export.python.support.checkpoint_file import checkpoint_header, read_checkpoint, write_checkpoint
from wholestep.export.python.support.host_support import comparable


def counted_along(shape, axis, dtype):
    """0, 1, 2, … along an axis."""
    line = np.arange(shape[axis]).astype(dtype)
    return np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def scan_rows(f, fixed, carry, xs, length, reverse, kinds):
    """A loop that hands a carry on and stacks the other results, whose shapes and dtypes are known."""
    ys = [np.empty(shape, dtype) for shape, dtype in kinds]
    for i in reversed(range(length)) if reverse else range(length):
        out = f(*fixed, *carry, *[x[i] for x in xs])
        carry = out[: len(carry)]
        for y, row in zip(ys, out[len(carry) :]):
            y[i] = row
    return (*carry, *ys)


def write_slices(x, u, at):
    """A copy with other values at slices."""
    x = np.array(x)
    x[at] = u
    return x


def pad_between(x, before, after, interior):
    """Zeros before, after and between elements."""
    spans = [max((n - 1) * (i + 1) + 1, 0) for n, i in zip(x.shape, interior)]
    out = np.zeros([b + n + a for b, n, a in zip(before, spans, after)], x.dtype)
    out[tuple(slice(b, b + n, i + 1) for b, n, i in zip(before, spans, interior))] = x
    return out


def windows(x, size, stride, dilation):
    """Sliding windows over the last axes, as views."""
    spans = tuple((m - 1) * d + 1 for m, d in zip(size, dilation))
    seen = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(x.ndim - len(size), x.ndim)))
    return seen[(..., *[slice(None, None, s) for s in (*stride, *dilation)])]


def write_at(x, u, indices, order):
    """A copy with other values at indices of its first axes in this order; the last of equal ones stays."""
    out = np.array(x)
    out.transpose(order)[tuple(np.asarray(i, order="C") for i in indices)] = np.asarray(u, order="C")
    return out


def join_at(join, x, u, indices, order):
    """A copy with values joined to it at indices of its first axes in this order; halves are joined in float32."""
    half = x.dtype.kind == "V" or x.dtype == np.float16
    out = np.array(x, np.float32 if half else x.dtype)
    rows = np.asarray(u, out.dtype).reshape(indices[0].size, *u.shape[indices[0].ndim :])
    join.at(out.transpose(order), tuple(i.reshape(-1) for i in indices), rows)
    return out.astype(x.dtype)


def sort_rows(x, axis):
    """Sorted values, and where each came from; equal ones stay in order."""
    order = np.argsort(comparable(x), axis=axis, kind="stable")
    return np.take_along_axis(x, order, axis), order


def largest(x, axis, k):
    """The k largest, the first of equal ones first, and where they came from."""
    backwards = np.flip(comparable(x), axis)
    order = x.shape[axis] - 1 - np.flip(np.argsort(backwards, axis=axis, kind="stable"), axis)
    order = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order


def running(x, axis, upward):
    """The largest, or smallest, so far, and where it was first; NaN stays."""
    values = (np.maximum if upward else np.minimum).accumulate(x, axis)
    moved, seen = np.moveaxis(x, axis, 0), np.moveaxis(values, axis, 0)
    order = np.zeros(seen.shape, np.int64)
    for k in range(1, len(seen)):
        new = (moved[k] > seen[k - 1] if upward else moved[k] < seen[k - 1]) | (moved[k] != moved[k])
        order[k] = np.where(new, k, order[k - 1])
    return values, np.moveaxis(order, 0, axis)


def complex_pair(pair, dtype):
    """Eigenvalues and eigenvectors as complex numbers, also where they are real."""
    return tuple(x.astype(dtype) for x in pair)


def load(path):
    """The state in a checkpoint: arrays by path."""
    header, _, _ = checkpoint_header(path)
    found = read_checkpoint(path)
    return {name: x.view(ml_dtypes.bfloat16) if header[name]["dtype"] == "BF16" else x for name, x in found.items()}


def save(path, state, like):
    """Write a state for `step.load` to take back; `like` is the checkpoint that it began with."""
    write_checkpoint(path, state, like)
