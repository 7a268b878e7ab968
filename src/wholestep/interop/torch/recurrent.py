"""Recurrent layers of PyTorch as loops over time, one for each layer and direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from wholestep import nn, numpy as wnp, random
from wholestep.frontend.control import scan
from wholestep.interop.handlers import Handlers

RECURRENT = Handlers()


def lstm_step(from_x: Any, from_h: Any, state: Any) -> Any:
    i, f, g, o = wnp.split(from_x + from_h, 4, axis=-1)
    c = nn.sigmoid(f) * state[1] + nn.sigmoid(i) * nn.tanh(g)
    return nn.sigmoid(o) * nn.tanh(c), c


def gru_step(from_x: Any, from_h: Any, state: Any) -> Any:
    (xr, xz, xn), (hr, hz, hn) = wnp.split(from_x, 3, axis=-1), wnp.split(from_h, 3, axis=-1)
    z = nn.sigmoid(xz + hz)
    return ((1 - z) * nn.tanh(xn + nn.sigmoid(xr + hr) * hn) + z * state[0],)


def plain_step(f: Callable[[Any], Any]) -> Callable[..., Any]:
    """A step of the plain cell with an activation."""
    return lambda from_x, from_h, state: (f(from_x + from_h),)


def through(advance: Callable[..., Any], x: Any, begin: Any, weights: Iterator[Any], biases: bool, back: bool) -> Any:
    """One layer in one direction along [time, batch, in]: its outputs and its last state."""
    w_x, w_h = next(weights), next(weights)
    b_x, b_h = (next(weights), next(weights)) if biases else (None, None)
    from_x = affine(x, w_x, b_x)
    projection = next(weights) if begin[0].shape[-1] != w_h.shape[0] // GATES[advance] else None

    def step(state: Any, now: Any) -> tuple[Any, Any]:
        new = advance(now, affine(state[0], w_h, b_h), state)
        if projection is not None:
            new = (affine(new[0], projection, None), *new[1:])
        return new, new[0]

    end, ys = scan(step, tuple(begin), from_x, reverse=back)
    return ys, end


def affine(x: Any, weight: Any, bias: Any) -> Any:
    """x times a transposed matrix, with a bias where there is one."""
    made = x @ wnp.swapaxes(weight, 0, 1)
    return made if bias is None else made + bias


GATES = {lstm_step: 4, gru_step: 3}


def layers(
    advance: Callable[..., Any],
    x: Any,
    states: Sequence[Any],
    weights: Sequence[Any],
    biases: bool,
    count: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    key: Any,
) -> tuple[Any, ...]:
    """All layers, one on the other: the outputs of the last one and the last states of all."""
    batched = x.ndim == 3
    x = x if batched else x[:, None]
    states = states if batched else [s[:, None] for s in states]
    x = wnp.swapaxes(x, 0, 1) if batch_first and batched else x
    ends: list[Any] = []
    own = iter(weights)
    for layer in range(count):
        made = []
        for way in range(1 + bidirectional):
            begin = [s[len(ends)] for s in states]
            ys, end = through(advance, x, begin, own, biases, bool(way))
            made.append(ys)
            ends.append(end)
        x = wnp.concatenate(made, axis=-1) if bidirectional else made[0]
        if train and dropout and layer + 1 < count:
            x = nn.dropout(x, dropout, random.fold_in(key, layer))
    last = [wnp.stack([end[i] for end in ends]) for i in range(len(states))]
    x = wnp.swapaxes(x, 0, 1) if batch_first and batched else x
    return (x, *last) if batched else (x[:, 0], *[s[:, 0] for s in last])


def recurrent_layers(advance: Callable[..., Any], one_state: bool = True) -> Callable[..., Any]:
    """The handler of layers whose state is one array, or several."""

    def run(
        x: Any,
        states: Any,
        weights: Sequence[Any],
        biases: bool,
        count: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
        *,
        key: Any = None,
    ) -> Any:
        given = [states] if one_state else states
        return layers(advance, x, given, weights, biases, count, dropout, train, bidirectional, batch_first, key)

    return run


for name, advance in (("rnn_tanh", plain_step(nn.tanh)), ("rnn_relu", plain_step(nn.relu))):
    GATES[advance] = 1
    RECURRENT[name] = recurrent_layers(advance)
RECURRENT["gru"] = recurrent_layers(gru_step)
RECURRENT["lstm"] = recurrent_layers(lstm_step, one_state=False)
