"""Causal convolutions over time, of a whole signal or chunk by chunk with an explicit state."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.convolution import check_kernel_axes, conv1d, conv2d, with_bias
from wholestep.nn.transposed import conv_transpose1d
from wholestep.nn.windows import Ints, Padding, Pairs, Slide, padding_pairs, per_axis, rank_is, type_text


def causal_conv1d(x: Any, w: Any, b: Any = None, *, stride: int = 1, dilation: int = 1, groups: int = 1) -> NDArray:
    """`conv1d` with all its padding before, so that place t reads nothing after t.

    `stride`, `dilation` and `groups` are those of `conv1d`.

    Shapes: x [n, c, time], w [o, c / groups, i] and b [o]; [n, o, time], every stride-th with a stride.
    Raises: as `conv1d` does.
    Source: van den Oord et al., "WaveNet: a generative model for raw audio", 2016.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.causal_conv1d(np.array([[[1.0, 2.0, 4.0]]]), np.array([[[1.0, 1.0]]])).tolist()
    [[[1.0, 3.0, 6.0]]]
    """
    past = kernel_reach("causal_conv1d", wnp.asarray(w), 1, dilation)
    return conv1d(x, w, b, stride=stride, padding=[(past, 0)], dilation=dilation, groups=groups)


def streaming_conv1d_init(batch: int, w: Any, *, dilation: int = 1, groups: int = 1) -> NDArray:
    """The state of `streaming_conv1d` before the first chunk: zeros for the past that a kernel reaches back to.

    Shapes: w [o, c / groups, i]; the state, zeros [batch, c, dilation * (i - 1)] of the dtype of w.
    Raises: ShapeError for a kernel with another number of axes, ParameterError for a dilation below 1.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.streaming_conv1d_init(2, np.ones((4, 3, 5)), dilation=2).shape
    (2, 3, 8)
    """
    w = wnp.asarray(w)
    past = kernel_reach("streaming_conv1d", w, 1, dilation)
    return np.zeros((batch, w.shape[1] * groups, past), w.dtype)


def streaming_conv1d(
    x: Any, w: Any, b: Any = None, *, state: Any, stride: int = 1, dilation: int = 1, groups: int = 1
) -> tuple[NDArray, NDArray]:
    """`causal_conv1d` of one chunk: returns the result and the state for the next chunk.

    Results of the chunks, joined, are that of the whole; with a stride, it divides the length of every chunk.

    Shapes: x [n, c, time], w [o, c / groups, i], b [o], the state [n, c, dilation * (i - 1)]; [n, o, time / stride] and
    a state.
    Raises: ShapeError for a chunk that the stride does not divide or a state of another shape, and as `conv1d` does.

    >>> import numpy as np, wholestep as ws
    >>> w = np.array([[[1.0, 1.0]]])
    >>> y, state = ws.nn.streaming_conv1d(np.array([[[1.0, 2.0]]]), w, state=ws.nn.streaming_conv1d_init(1, w))
    >>> y, state = ws.nn.streaming_conv1d(np.array([[[4.0]]]), w, state=state)
    >>> y.tolist(), state.tolist()
    ([[[6.0]]], [[[4.0]]])
    """
    name, x, w = "streaming_conv1d", wnp.asarray(x), wnp.asarray(w)
    rank_is(name, x, 3, "[n, channels, time]")
    seen, kept = join_past(name, x, state, kernel_reach(name, w, 1, dilation), stride)
    return conv1d(seen, w, b, stride=stride, dilation=dilation, groups=groups), kept


def streaming_conv2d_init(batch: int, w: Any, width: int, *, dilation: Ints = 1, groups: int = 1) -> NDArray:
    """The state of `streaming_conv2d` before the first chunk, for rows of `width` elements.

    Shapes: w [o, c / groups, i, j]; the state, zeros [batch, c, dilation * (i - 1), width] of the dtype of w.
    Raises: as `streaming_conv1d_init` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.streaming_conv2d_init(2, np.ones((4, 3, 5, 5)), 7).shape
    (2, 3, 4, 7)
    """
    w = wnp.asarray(w)
    past = kernel_reach("streaming_conv2d", w, 2, dilation)
    return np.zeros((batch, w.shape[1] * groups, past, width), w.dtype)


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
) -> tuple[NDArray, NDArray]:
    """A convolution of one chunk of rows, causal in time: the result, and the next state.

    `padding` is that of the last axis: an integer, a pair in a list, "same" or "valid".

    The whole has as many zero rows before it as the state holds.

    Shapes: x [n, c, time, width], w [o, c / groups, i, j], b [o], the state [n, c, dilation * (i - 1), width];
    [n, o, time / stride, ...] and a state.
    Raises: as `streaming_conv1d` does.

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
    seen, kept = join_past(name, x, state, kernel_reach(name, w, 2, apart), steps[0])
    row = Slide(w.shape[3:], steps[1:], apart[1:], ((0, 0),))
    pairs: Pairs = ((0, 0), *padding_pairs(name, padding, x.shape[3:], row))
    return conv2d(seen, w, b, stride=steps, padding=pairs, dilation=apart, groups=groups), kept


def streaming_conv_transpose1d_init(
    batch: int, w: Any, *, stride: int = 1, dilation: int = 1, groups: int = 1
) -> NDArray:
    """The state of `streaming_conv_transpose1d` before the first chunk: nothing is left over.

    Shapes: w [c, o / groups, i]; the state, zeros [batch, o, dilation * (i - 1) + 1 - stride] of the dtype of w.
    Raises: as `streaming_conv1d_init` does.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.streaming_conv_transpose1d_init(2, np.ones((4, 3, 5)), stride=2).shape
    (2, 3, 3)
    """
    w = wnp.asarray(w)
    left = max(kernel_reach("streaming_conv_transpose1d", w, 1, dilation) + 1 - stride, 0)
    return np.zeros((batch, w.shape[1] * groups, left), w.dtype)


def streaming_conv_transpose1d(
    x: Any, w: Any, b: Any = None, *, state: Any, stride: int = 1, dilation: int = 1, groups: int = 1
) -> tuple[NDArray, NDArray]:
    """`conv_transpose1d` of one chunk: time * stride results, and the overlap that the next chunk is added to.

    Results of the chunks, joined, are the first (whole time) * stride of `conv_transpose1d` of the whole.

    Shapes: x [n, c, time], w [c, o / groups, i], b [o], the state [n, o, dilation * (i - 1) + 1 - stride];
    [n, o, time * stride] and a state.
    Raises: ShapeError for a state of another shape, and as `conv_transpose1d` does.

    >>> import numpy as np, wholestep as ws
    >>> w = np.array([[[1.0, 10.0]]])
    >>> state = ws.nn.streaming_conv_transpose1d_init(1, w)
    >>> y, state = ws.nn.streaming_conv_transpose1d(np.array([[[1.0, 2.0]]]), w, state=state)
    >>> y.tolist(), state.tolist()
    ([[[1.0, 12.0]]], [[[20.0]]])
    """
    name, x, w, held = "streaming_conv_transpose1d", wnp.asarray(x), wnp.asarray(w), wnp.asarray(state)
    whole = conv_transpose1d(x, w, stride=stride, dilation=dilation, groups=groups)
    left = max(kernel_reach(name, w, 1, dilation) + 1 - stride, 0)
    if held.shape != (*whole.shape[:2], left):
        raise ShapeError(f"{name}: the state is {type_text(held)}; it must be [{x.shape[0]}, {whole.shape[1]}, {left}]")
    done = x.shape[2] * stride
    total = wnp.pad(whole, ((0, 0), (0, 0), (0, done + left - whole.shape[2])))
    total = total + wnp.pad(held, ((0, 0), (0, 0), (0, done)))
    return with_bias(name, total[:, :, :done], b, 1), total[:, :, done:]


def kernel_reach(name: str, w: Any, n: int, dilation: Ints) -> int:
    """The number of past elements that a kernel reads."""
    check_kernel_axes(name, w, n)
    return int((w.shape[2] - 1) * per_axis(name, "dilation", dilation, n)[0])


def join_past(name: str, x: Any, state: Any, past: int, stride: int) -> tuple[Any, Any]:
    """The past and a chunk, and the past of the next chunk, along axis 2."""
    held = wnp.asarray(state)
    wanted = (*x.shape[:2], past, *x.shape[3:])
    if held.shape != wanted:
        raise ShapeError(
            f"{name}: the state is {type_text(held)} and the chunk {type_text(x)}; the state must be {wanted}"
        )
    if x.shape[2] % stride:
        raise ShapeError(f"{name}: a stride of {stride} does not divide a chunk of {x.shape[2]}")
    seen = wnp.concatenate([held, x], axis=2)
    return seen, seen[:, :, seen.shape[2] - past :]
