"""Convolutions over time that read nothing of the future, whole or chunk by chunk with an explicit state."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ShapeError
from wholestep.nn.convolution import conv1d, conv2d, with_bias
from wholestep.nn.transposed import conv_transpose1d
from wholestep.nn.windows import Ints, Padding, Pairs, Slide, around, per_axis, rank_is, shown


def causal_conv1d(x: Any, w: Any, b: Any = None, *, stride: int = 1, dilation: int = 1, groups: int = 1) -> Any:
    """`conv1d` with all its padding before, so that place t reads nothing after t: [n, c, time] -> [n, o, time].

    Raises as `conv1d` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.causal_conv1d(np.array([[[1.0, 2.0, 4.0]]]), np.array([[[1.0, 1.0]]])).tolist()
    [[[1.0, 3.0, 6.0]]]
    """
    past = reach("causal_conv1d", wnp.asarray(w), 1, dilation)
    return conv1d(x, w, b, stride=stride, padding=[(past, 0)], dilation=dilation, groups=groups)


def streaming_conv1d_init(batch: int, w: Any, *, dilation: int = 1, groups: int = 1) -> Any:
    """The state of `streaming_conv1d` before the first chunk: zeros for the past that a kernel reaches back to."""
    w = wnp.asarray(w)
    return np.zeros((batch, w.shape[1] * groups, reach("streaming_conv1d", w, 1, dilation)), w.dtype)


def streaming_conv1d(
    x: Any, w: Any, b: Any = None, *, state: Any, stride: int = 1, dilation: int = 1, groups: int = 1
) -> tuple[Any, Any]:
    """`causal_conv1d` of one chunk [n, c, time]: returns the result and the state for the next chunk.

    Results of the chunks, joined, are that of the whole; with a stride, it divides the length of every chunk. Raises
    ShapeError for a chunk it does not divide or a state of another shape, and what `conv1d` raises.

    >>> import numpy as np, wholestep as ws
    >>> w = np.array([[[1.0, 1.0]]])
    >>> y, state = ws.nn.streaming_conv1d(np.array([[[1.0, 2.0]]]), w, state=ws.nn.streaming_conv1d_init(1, w))
    >>> y, state = ws.nn.streaming_conv1d(np.array([[[4.0]]]), w, state=state)
    >>> y.tolist(), state.tolist()
    ([[[6.0]]], [[[4.0]]])
    """
    name, x, w = "streaming_conv1d", wnp.asarray(x), wnp.asarray(w)
    rank_is(name, x, 3, "[n, channels, time]")
    seen, kept = joined(name, x, state, reach(name, w, 1, dilation), stride)
    return conv1d(seen, w, b, stride=stride, dilation=dilation, groups=groups), kept


def streaming_conv2d_init(batch: int, w: Any, width: int, *, dilation: Ints = 1, groups: int = 1) -> Any:
    """The state of `streaming_conv2d` before the first chunk, for rows of `width` elements."""
    w = wnp.asarray(w)
    return np.zeros((batch, w.shape[1] * groups, reach("streaming_conv2d", w, 2, dilation), width), w.dtype)


def streaming_conv2d(
    x: Any,
    w: Any,
    b: Any = None,
    *,
    state: Any,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> tuple[Any, Any]:
    """A convolution of one chunk of rows [n, c, time, width], causal in time: the result, and the next state.

    `padding` is that of the last axis: an integer, a pair in a list, "same" or "valid". As `streaming_conv1d` in all
    else; the whole has as many zero rows before it as the state holds.

    >>> import numpy as np, wholestep as ws
    >>> w = np.ones((1, 1, 2, 3))
    >>> state = ws.nn.streaming_conv2d_init(1, w, 3)
    >>> y, state = ws.nn.streaming_conv2d(np.ones((1, 1, 1, 3)), w, state=state, padding=1)
    >>> y.tolist()
    [[[[2.0, 3.0, 2.0]]]]
    """
    name, x, w = "streaming_conv2d", wnp.asarray(x), wnp.asarray(w)
    rank_is(name, x, 4, "[n, channels, time, width]")
    steps, apart = per_axis(name, "stride", stride, 2), per_axis(name, "dilation", dilation, 2)
    seen, kept = joined(name, x, state, reach(name, w, 2, apart), steps[0])
    row = Slide(w.shape[3:], steps[1:], apart[1:], ((0, 0),))
    pairs: Pairs = ((0, 0), *around(name, padding, x.shape[3:], row))
    return conv2d(seen, w, b, stride=steps, padding=pairs, dilation=apart, groups=groups), kept


def streaming_conv_transpose1d_init(batch: int, w: Any, *, stride: int = 1, dilation: int = 1, groups: int = 1) -> Any:
    """The state of `streaming_conv_transpose1d` before the first chunk: nothing is left over."""
    w = wnp.asarray(w)
    left = max(reach("streaming_conv_transpose1d", w, 1, dilation) + 1 - stride, 0)
    return np.zeros((batch, w.shape[1] * groups, left), w.dtype)


def streaming_conv_transpose1d(
    x: Any, w: Any, b: Any = None, *, state: Any, stride: int = 1, dilation: int = 1, groups: int = 1
) -> tuple[Any, Any]:
    """`conv_transpose1d` of one chunk [n, c, time]: time * stride results, and what the next chunk is added to.

    Results of the chunks, joined, are the first (whole time) * stride of `conv_transpose1d` of the whole. Raises
    ShapeError for a state of another shape, and what `conv_transpose1d` raises.

    >>> import numpy as np, wholestep as ws
    >>> w = np.array([[[1.0, 10.0]]])
    >>> state = ws.nn.streaming_conv_transpose1d_init(1, w)
    >>> y, state = ws.nn.streaming_conv_transpose1d(np.array([[[1.0, 2.0]]]), w, state=state)
    >>> y.tolist(), state.tolist()
    ([[[1.0, 12.0]]], [[[20.0]]])
    """
    name, x, w, held = "streaming_conv_transpose1d", wnp.asarray(x), wnp.asarray(w), wnp.asarray(state)
    whole = conv_transpose1d(x, w, stride=stride, dilation=dilation, groups=groups)
    left = max(reach(name, w, 1, dilation) + 1 - stride, 0)
    if held.shape != (*whole.shape[:2], left):
        raise ShapeError(f"{name}: the state is {shown(held)}; it must be [{x.shape[0]}, {whole.shape[1]}, {left}]")
    done = x.shape[2] * stride
    total = wnp.pad(whole, ((0, 0), (0, 0), (0, done + left - whole.shape[2])))
    total = total + wnp.pad(held, ((0, 0), (0, 0), (0, done)))
    return with_bias(name, total[:, :, :done], b, 1), total[:, :, done:]


def reach(name: str, w: Any, n: int, dilation: Ints) -> int:
    """How far back in time a kernel reaches."""
    if w.ndim != n + 2:
        raise ShapeError(f"{name}: the kernel is {shown(w)}; it must have {n + 2} axes")
    return int((w.shape[2] - 1) * per_axis(name, "dilation", dilation, n)[0])


def joined(name: str, x: Any, state: Any, past: int, stride: int) -> tuple[Any, Any]:
    """The past and a chunk, and the past of the next chunk, along axis 2."""
    held = wnp.asarray(state)
    wanted = (*x.shape[:2], past, *x.shape[3:])
    if held.shape != wanted:
        raise ShapeError(f"{name}: the state is {shown(held)} and the chunk {shown(x)}; the state must be {wanted}")
    if x.shape[2] % stride:
        raise ShapeError(f"{name}: a stride of {stride} does not divide a chunk of {x.shape[2]}")
    seen = wnp.concatenate([held, x], axis=2)
    return seen, seen[:, :, seen.shape[2] - past :]
