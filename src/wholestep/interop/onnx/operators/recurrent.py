"""Recurrent layers of ONNX: a cell for each operator, and one loop over time for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import ModelError
from wholestep.frontend.control import scan
from wholestep.interop.onnx.operators.activations import TABLE as ACTIVATIONS
from wholestep.interop.onnx.operators.elementwise import TABLE as FUNCTIONS
from wholestep.interop.onnx.operators.node import Handler, OnnxNode

PARAMETERS: Mapping[str, tuple[float | None, float | None]] = {
    "leakyrelu": (0.01, None),
    "thresholdedrelu": (1.0, None),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, None),
}
"""Activations with an alpha and a beta, and the default values of these."""
NAMED = {name.lower(): f for table in (ACTIVATIONS, FUNCTIONS) for name, f in table.items()}


def activation(name: str, alpha: float | None, beta: float | None) -> Callable[[Any], Any]:
    """An activation by its name."""
    short = name.lower()
    if short == "affine":
        return lambda x: (1.0 if alpha is None else alpha) * x + (0.0 if beta is None else beta)
    if short == "scaledtanh":
        return lambda x: (1.0 if alpha is None else alpha) * wnp.tanh((1.0 if beta is None else beta) * x)
    if short not in ("relu", "tanh", "sigmoid", "softsign", "softplus", *PARAMETERS):
        raise ModelError(f"an activation is {name!r}")
    usual = PARAMETERS.get(short, (None, None))
    given = {"alpha": usual[0] if alpha is None else alpha, "beta": usual[1] if beta is None else beta}
    node = OnnxNode(name, 22, "", {key: value for key, value in given.items() if value is not None})
    return lambda x: NAMED[short](node, x)


def activations(node: OnnxNode, usual: list[str], ways: int) -> list[list[Callable[[Any], Any]]]:
    """The activations of each direction; alphas and betas go to those that take them, in order."""
    names = [str(name) for name in node.get("activations", usual * ways)]
    if len(names) != len(usual) * ways:
        raise ModelError(f"{len(names)} activations, where there are {len(usual) * ways}")
    alphas, betas = list(node.get("activation_alpha", [])), list(node.get("activation_beta", []))
    made = []
    for name in names:
        takes_alpha = name.lower() in (*PARAMETERS, "affine", "scaledtanh")
        takes_beta = name.lower() in ("affine", "scaledtanh", "hardsigmoid")
        alpha = float(alphas.pop(0)) if takes_alpha and alphas else None
        made.append(activation(name, alpha, float(betas.pop(0)) if takes_beta and betas else None))
    return [made[i * len(usual) : (i + 1) * len(usual)] for i in range(ways)]


def clipper(node: OnnxNode) -> Callable[[Any], Any]:
    """The bound on the arguments of activations."""
    bound = node.get("clip")
    return (lambda x: x) if bound is None else lambda x: wnp.clip(x, -float(bound), float(bound))


Step = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]
Cell = Callable[[OnnxNode, list[Callable[[Any], Any]], Any, Any, Any], Step]


def rnn_cell(node: OnnxNode, f: list[Callable[[Any], Any]], r: Any, b: Any, p: Any) -> Step:
    """h' = f(x + h r + b)."""
    clip = clipper(node)
    return lambda x, state: (f[0](clip(x + state[0] @ r.T + b)),)


def gru_cell(node: OnnxNode, f: list[Callable[[Any], Any]], r: Any, b: Any, p: Any) -> Step:
    """Gates z, r and h; the reset gate lies before the product, or after it with `linear_before_reset`."""
    clip, after = clipper(node), node.get("linear_before_reset", 0)
    rz, rr, rh = wnp.split(r, 3)
    bz, br, bh = wnp.split(b, 3)

    def step(x: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        (h,), (xz, xr, xh) = state, wnp.split(x, 3, axis=-1)
        z, reset = f[0](clip(xz + h @ rz.T + bz)), f[0](clip(xr + h @ rr.T + br))
        inner = reset * (h @ rh.T + bh) if after else (reset * h) @ rh.T + bh
        return ((1 - z) * f[1](clip(xh + inner)) + z * h,)

    return step


def lstm_cell(node: OnnxNode, f: list[Callable[[Any], Any]], r: Any, b: Any, p: Any) -> Step:
    """Gates i, o, f and c, with peepholes on the first three."""
    clip, coupled = clipper(node), node.get("input_forget", 0)
    pi, po, pf = wnp.split(p, 3) if p is not None else (0.0, 0.0, 0.0)

    def step(x: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        h, c = state
        xi, xo, xf, xc = wnp.split(x + h @ r.T + b, 4, axis=-1)
        i = f[0](clip(xi + pi * c))
        forget = 1 - i if coupled else f[0](clip(xf + pf * c))
        c = forget * c + i * f[1](clip(xc))
        return f[0](clip(xo + po * c)) * f[2](c), c

    return step


def recurrent(cell: Cell, gates: int, states: int, usual: list[str]) -> Handler:
    """A recurrent layer: outputs over time, and the last states."""

    def layer(
        node: OnnxNode, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, c: Any = None,
        p: Any = None,
    ) -> Any:  # fmt: skip
        direction, swapped = node.get("direction", "forward"), node.get("layout", 0)
        if direction not in ("forward", "reverse", "bidirectional"):
            raise ModelError(f"the direction is {direction!r}")
        ways, width = 1 + (direction == "bidirectional"), r.shape[-1]
        fs = activations(node, usual, ways)
        if swapped:
            x, h, c = (None if v is None else wnp.swapaxes(v, 0, 1) for v in (x, h, c))
        begin = [wnp.zeros((ways, x.shape[1], width), x.dtype) if given is None else given for given in (h, c)[:states]]
        outputs, ends = [], []
        for way in range(ways):
            bias = wnp.zeros(2 * gates * width, x.dtype) if b is None else b[way]
            step = cell(node, fs[way], r[way], bias[gates * width :], None if p is None else p[way])
            backwards = way == 1 or direction == "reverse"
            from_x = x @ w[way].T + bias[: gates * width]
            ys, end = through_time(step, from_x, tuple([s[way] for s in begin]), lengths, backwards)
            outputs.append(ys)
            ends.append(end)
        y = wnp.stack(outputs, axis=1)
        last = [wnp.stack([end[k] for end in ends]) for k in range(states)]
        if swapped:
            y, last = wnp.transpose(y, (2, 0, 1, 3)), [wnp.swapaxes(v, 0, 1) for v in last]
        return (y, *last)

    return layer


def through_time(step: Step, x: Any, begin: tuple[Any, ...], lengths: Any, backwards: bool) -> Any:
    """All outputs and the last state; a sequence that has ended keeps its state, and its output is 0."""
    if lengths is None:

        def advance(state: Any, now: Any) -> Any:
            state = step(now, state)
            return state, state[0]

        end, ys = scan(advance, begin, x, reverse=backwards)
        return ys, end
    inside = np.arange(x.shape[0])[:, None, None] < lengths.reshape(1, -1, 1)

    def masked(state: Any, now: Any) -> Any:
        v, live = now
        new = step(v, state)
        kept = tuple([wnp.where(live, a, b) for a, b in zip(new, state, strict=True)])
        return kept, wnp.where(live, new[0], 0)

    end, ys = scan(masked, begin, (x, inside), reverse=backwards)
    return ys, end


TABLE: Mapping[str, Handler] = {
    "RNN": recurrent(rnn_cell, 1, 1, ["Tanh"]),
    "GRU": recurrent(gru_cell, 3, 1, ["Sigmoid", "Tanh"]),
    "LSTM": recurrent(lstm_cell, 4, 2, ["Sigmoid", "Tanh", "Tanh"]),
}
