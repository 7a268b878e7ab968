"""Recurrent layers: a cell that turns an input and a state into a state, and loops of cells over time."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from wholestep import dtypes, numpy as wnp, tree
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.frontend.array import Array, data_of
from wholestep.frontend.control import scan
from wholestep.nn import init
from wholestep.nn.activations import relu, sigmoid, tanh
from wholestep.nn.dropouts import dropout as dropped, probability
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import linear, sized
from wholestep.nn.module import Module
from wholestep.nn.windows import type_text
from wholestep.words import type_in_words


class Cell(Module):
    """The common part of cells: weights [in, gates * width] and [width, gates * width], and two biases.

    All are drawn uniformly within width**-0.5, as in PyTorch. `advance` computes one step, given the contribution of x
    to the gates.
    """

    undecayed = ("bias_ih", "bias_hh")
    gates: ClassVar[int]
    states: ClassVar[int] = 1

    torch_turned = ("weight_ih", "weight_hh")

    _draws = True

    def __init__(self, inputs: int, width: int, *, key: Any = None, bias: bool = True, dtype: Any = np.float32) -> None:
        sized(type(self).__name__, inputs=inputs, width=width)
        keys, total, bound = keys_from(key, 4), self.gates * width, width**-0.5
        self.weight_ih = init.symmetric(next(keys), (inputs, total), bound, dtype)
        self.weight_hh = init.symmetric(next(keys), (width, total), bound, dtype)
        self.bias_ih = init.symmetric(next(keys), (total,), bound, dtype) if bias else None
        self.bias_hh = init.symmetric(next(keys), (total,), bound, dtype) if bias else None

    def __call__(self, x: Any, state: Any) -> Any:
        return self.advance(linear(x, self.weight_ih, self.bias_ih), state)

    def advance(self, from_x: Any, state: Any) -> Any:
        """The next state."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """The width of the state."""
        return int(self.weight_hh.shape[0])


class RNNCell(Cell):
    """One step of a plain recurrent network: h' = tanh(x w_ih + b_ih + h w_hh + b_hh), or with relu.

    `activation` is "tanh" or "relu"; `key` and further `options` are those of `GRUCell`.

    Shapes: x floats [batch, inputs] and h [batch, width]; [batch, width].
    Raises: ParameterError for another activation or sizes that are not positive, ShapeError where x or h does not fit.
    Source: Elman, "Finding structure in time", 1990.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.RNNCell(3, 4, key=0)(np.ones((2, 3), np.float32), np.zeros((2, 4), np.float32)).shape
    (2, 4)
    """

    gates = 1

    def __init__(self, inputs: int, width: int, *, key: Any = None, activation: str = "tanh", **options: Any) -> None:
        super().__init__(inputs, width, key=key, **options)
        if activation not in ("tanh", "relu"):
            raise ParameterError(f"{type(self).__name__}: activation is {activation!r}", hint='"tanh" or "relu"')
        self.activation = activation

    def advance(self, from_x: Any, state: Any) -> Any:
        total = from_x + linear(state, self.weight_hh, self.bias_hh)
        return tanh(total) if self.activation == "tanh" else relu(total)


class GRUCell(Cell):
    """One step of a gated recurrent unit, with the reset gate after the product, as in PyTorch.

    Gates lie in the order r, z, n: n = tanh(x w_in + b_in + r * (h w_hn + b_hn)) and h' = (1 - z) * n + z * h. `key` is
    a seed or a key, `bias=False` leaves both biases out, and `dtype` is that of the parameters.

    Shapes: x floats [batch, inputs] and h [batch, width]; [batch, width].
    Raises: ParameterError for sizes that are not positive, ShapeError where x or h does not fit.
    Source: Cho et al., "Learning phrase representations using RNN encoder-decoder for statistical machine translation",
    2014.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.GRUCell(3, 4, key=0)(np.ones((2, 3), np.float32), np.zeros((2, 4), np.float32)).shape
    (2, 4)
    """

    gates = 3

    def advance(self, from_x: Any, state: Any) -> Any:
        from_h = linear(state, self.weight_hh, self.bias_hh)
        (xr, xz, xn), (hr, hz, hn) = wnp.split(from_x, 3, axis=-1), wnp.split(from_h, 3, axis=-1)
        z = sigmoid(xz + hz)
        new = tanh(xn + sigmoid(xr + hr) * hn)
        return (1 - z) * new + z * state


class LSTMCell(Cell):
    """One step of a long short-term memory; the state is (h, c).

    Gates lie in the order i, f, g, o: c' = sigmoid(f) * c + sigmoid(i) * tanh(g) and h' = sigmoid(o) * tanh(c'). Other
    arguments are those of `GRUCell`.

    Shapes: x floats [batch, inputs], h and c [batch, width]; (h, c), both [batch, width].
    Raises: as `GRUCell` does.
    Source: Hochreiter and Schmidhuber, "Long short-term memory", 1997; Gers, Schmidhuber and Cummins, "Learning to
    forget", 2000, for f.

    >>> import numpy as np, wholestep as ws
    >>> h = c = np.zeros((2, 4), np.float32)
    >>> [x.shape for x in ws.nn.LSTMCell(3, 4, key=0)(np.ones((2, 3), np.float32), (h, c))]
    [(2, 4), (2, 4)]
    """

    gates, states = 4, 2

    def advance(self, from_x: Any, state: Any) -> Any:
        if not isinstance(state, list | tuple) or len(state) != 2:
            raise TreeError(f"{type(self).__name__}: the state is {type_in_words(state)}; it must be (h, c)")
        h, c = state
        i, f, g, o = wnp.split(from_x + linear(h, self.weight_hh, self.bias_hh), 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c


class Recurrent(Module):
    """The common part of recurrent layers: a cell for each layer, and a second set that runs backwards."""

    cell: ClassVar[type[Cell]]

    torch_names = {  # noqa: RUF012  # a ClassVar by its annotation in Module
        f"{cells}[*].{array}": f"{array}_l{{}}{end}"
        for cells, end in (("cells", ""), ("backward_cells", "_reverse"))
        for array in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }

    _draws = True

    def __init__(
        self,
        inputs: int,
        width: int,
        layers: int = 1,
        *,
        key: Any = None,
        bidirectional: bool = False,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        name = type(self).__name__
        sized(name, inputs=inputs, width=width, layers=layers)
        ways = 1 + bidirectional
        keys = keys_from(key, ways * layers)
        self.dropout = probability(name, dropout)
        self.cells: list[Cell] = []
        self.backward_cells: list[Cell] = []
        for i in range(layers):
            for cells in (self.cells, self.backward_cells)[:ways]:
                cells.append(self.cell(ways * width if i else inputs, width, key=next(keys), **options))

    def __call__(self, x: Any, state: Any = None, *, lengths: Any = None, key: Any = None) -> tuple[Any, Any]:
        x = wnp.asarray(x)
        if x.ndim != 3:
            raise ShapeError(f"{type(self).__name__}: x is {type_text(x)}; it must be [batch, time, in]")
        inside = None if lengths is None else within_lengths(type(self).__name__, lengths, x)
        if inside is not None:
            # A padding of nan would reach the gradients of weights, as nan times 0.
            x = wnp.where(wnp.swapaxes(inside, 0, 1), x, 0)
        ways = [(self.cells, False), (self.backward_cells, True)][: 1 + bool(self.backward_cells)]
        begins = self.begins(x, state)
        p = self.dropout if self.training else 0.0
        keys = keys_from(key, len(self.cells)) if key is not None else None
        ends = []
        for i in range(len(self.cells)):
            made = [through(cells[i], x, next(begins), backwards, inside) for cells, backwards in ways]
            ends += [end for _, end in made]
            x = wnp.concatenate([ys for ys, _ in made], axis=-1) if len(made) > 1 else made[0][0]
            if i + 1 < len(self.cells):
                x = dropped(x, p, next(keys) if keys is not None else None)
        if self.cell.states == 1:
            return x, wnp.stack(ends)
        return x, tuple([wnp.stack([end[j] for end in ends]) for j in range(self.cell.states)])

    def begins(self, x: Any, state: Any) -> Any:
        """The state each cell begins with, in order."""
        count, states = len(self.cells) + len(self.backward_cells), self.cell.states
        width, name = self.cells[0].width, type(self).__name__
        if state is None:
            dtype = dtypes.promoted_dtype(x.dtype, self.cells[0].weight_ih.dtype)
            given = [wnp.zeros((count, x.shape[0], width), dtype)] * states
        else:
            given = [wnp.asarray(s) for s in (state if states > 1 else [state])]
        if len(given) != states or any(s.shape != (count, x.shape[0], width) for s in given):
            raise ShapeError(
                f"{name}: the state is {', '.join(map(type_text, given))}; it must be {states} arrays "
                f"[{count}, {x.shape[0]}, {width}]"
            )
        return iter([given[0][i] if states == 1 else tuple([s[i] for s in given]) for i in range(count)])


def within_lengths(name: str, lengths: Any, x: Any) -> Any:
    """Booleans [time, batch, 1]: true for the times of x [batch, time, in] that lie within a sequence's length."""
    counts = wnp.asarray(lengths)
    if not dtypes.is_integer(counts.dtype):
        raise DtypeError(f"{name}: lengths are of dtype {counts.dtype}, not integer")
    if counts.shape != x.shape[:1]:
        raise ShapeError(f"{name}: lengths are {type_text(counts)}; they must be [{x.shape[0]}], one for each sequence")
    known = data_of(counts.value) if isinstance(counts, Array) else counts
    if known is not None and isinstance(x.shape[1], int) and ((known < 0) | (known > x.shape[1])).any():
        raise ParameterError(f"{name}: lengths are {known.tolist()}, and x has {x.shape[1]} times")
    return wnp.arange(x.shape[1])[:, None, None] < counts[:, None]


def through(cell: Cell, x: Any, begin: Any, backwards: bool, inside: Any) -> tuple[Any, Any]:
    """A cell along [batch, time, in]: all its outputs [batch, time, width], and the state at the end.

    Where `inside` [time, batch, 1] is given and does not hold, the state stays and the output is 0.
    """
    from_x = wnp.swapaxes(linear(x, cell.weight_ih, cell.bias_ih), 0, 1)

    def step(state: Any, now: Any) -> tuple[Any, Any]:
        state = cell.advance(now, state)
        return state, state[0] if cell.states > 1 else state

    def step_inside(state: Any, now: Any) -> tuple[Any, Any]:
        from_now, counts = now
        new, y = step(state, from_now)
        return tree.map(lambda new, old: wnp.where(counts, new, old), new, state), wnp.where(counts, y, 0)

    if inside is None:
        end, ys = scan(step, begin, from_x, reverse=backwards)
    else:
        end, ys = scan(step_inside, begin, (from_x, inside), reverse=backwards)
    return wnp.swapaxes(ys, 0, 1), end


class RNN(Recurrent):
    """Plain recurrent layers: returns all outputs and the last state.

    `layers` cells of `width` numbers lie on each other; with `bidirectional` each has a second one that runs from the
    end, whose outputs come after its own. `dropout` acts between layers and needs a `key` in training. Where sequences
    of a batch are padded, `lengths` of the call says how long each is: outputs beyond it are 0, the last state is the
    one at its end, and backward cells begin there. `key` and further `options` are those of `RNNCell`.

    Shapes: x floats [batch, time, inputs], lengths integers [batch]; outputs [batch, time, directions * width], the
    state [layers * directions, batch, width], zeros if not given.
    Raises: ShapeError where x, the lengths or the state does not fit, DtypeError for lengths that are not integer,
    ParameterError for sizes that are not positive integers, and in training for a missing key.
    Source: as `RNNCell`.

    >>> import numpy as np, wholestep as ws
    >>> ys, state = ws.nn.RNN(3, 4, key=0)(np.ones((2, 5, 3), np.float32), lengths=np.array([5, 2]))
    >>> ys.shape, state.shape, bool((state[0, 1] == ys[1, 1]).all())
    ((2, 5, 4), (1, 2, 4), True)
    """

    cell = RNNCell


class GRU(Recurrent):
    """Gated recurrent units over time, made of `GRUCell`; arguments are those of `RNN`.

    Further `options` are those of the cell.

    Shapes: as `RNN`.
    Raises: as `RNN` does.
    Source: as `GRUCell`.

    >>> import numpy as np, wholestep as ws
    >>> ys, state = ws.nn.GRU(3, 4, key=0)(np.ones((2, 5, 3), np.float32))
    >>> ys.shape, state.shape
    ((2, 5, 4), (1, 2, 4))
    """

    cell = GRUCell


class LSTM(Recurrent):
    """Long short-term memory over time, made of `LSTMCell`; the state is (h, c), and arguments are those of `RNN`.

    Further `options` are those of the cell.

    Shapes: as `RNN`, with two states.
    Raises: as `RNN` does.
    Source: as `LSTMCell`.

    >>> import numpy as np, wholestep as ws
    >>> ys, (h, c) = ws.nn.LSTM(3, 4, 2, key=0, bidirectional=True)(np.ones((2, 5, 3), np.float32))
    >>> ys.shape, h.shape, c.shape
    ((2, 5, 8), (4, 2, 4), (4, 2, 4))
    """

    cell = LSTMCell
