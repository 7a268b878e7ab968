"""The operations, bytes and memory of a step with symbolic sizes are expressions, which agree with the sized step."""

import itertools

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.dims import Dim, SymbolicError, substitute
from wholestep.errors import ParameterError

B = Dim("B")
SIZES = (2, 7, 64, 65, 200)


def drawn(rng):
    """A model of a few layers, the shape of its input without the rows, and that of its targets."""
    widths = [int(n) for n in rng.integers(1, 20, rng.integers(2, 5))]
    parts = []
    for i, (m, n) in enumerate(itertools.pairwise(widths)):
        parts.append(nn.Linear(m, n, key=i))
        parts.append([nn.relu, np.tanh, nn.gelu, nn.LayerNorm(n), nn.BatchNorm(n), nn.softmax][rng.integers(6)])
    return nn.Sequential(*parts), (widths[0],), (widths[-1],)


def convolution(rng):
    model = nn.Sequential(nn.Conv2d(1, 3, 3, key=0), nn.relu, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 4, key=1))
    return model, (1, 8, 8), (4,)


def transformer(rng):
    return nn.Stack(lambda key: nn.TransformerBlock(8, 2, key=key), 3, key=0), (5, 8), (5, 8)


def squares(model, batch):
    return np.mean((model(batch["x"]) - batch["y"]) ** 2)


MAKERS = {f"drawn {i}": drawn for i in range(8)} | {"convolution": convolution, "transformer": transformer}
OPTIMIZERS = (ws.optim.adam(1e-3), ws.optim.sgd(0.1, momentum=0.9), None)


def case(name):
    rng = np.random.default_rng(list(MAKERS).index(name))
    model, row, target = MAKERS[name](rng)
    optimizer = OPTIMIZERS[rng.integers(len(OPTIMIZERS))]

    def batch(n):
        return {"x": ws.ShapeDtype((n, *row), "float32"), "y": ws.ShapeDtype((n, *target), "float32")}

    return model, optimizer, batch, row


@pytest.mark.parametrize("name", MAKERS)
def test_what_a_step_takes_is_an_expression(name):
    model, optimizer, batch, row = case(name)
    known = ws.estimate(squares, model, optimizer=optimizer, batch=batch(B))
    cost, table = known.cost(), nn.summary(model, (B, *row))
    assert "for B = 128" in str(cost) and "*B" in str(cost) and "*B" in str(table) and "B, " in str(table)
    # A normalization divides by sizes; where these are numbers, its rows are split into other kernels.
    same = "Norm" not in repr(model)
    for n in SIZES:
        sized = ws.estimate(squares, model, optimizer=optimizer, batch=batch(n))
        at, wanted, found = cost.at(B=n), sized.cost(), known.at(B=n)
        assert (found.state, found.inputs, found.outputs) == (sized.state, sized.inputs, sized.outputs)
        assert at.contraction == substitute(cost.contraction, {"B": n}) == wanted.contraction
        assert (at.flops, at.bytes) == (substitute(cost.flops, {"B": n}), substitute(cost.bytes, {"B": n}))
        if same:
            assert at.flops == wanted.flops
        assert table.at(B=n) == nn.summary(model, (n, *row))
        assert at.flops == sum(k.flops for k in at.kernels) == sum(x.flops for x in at.lines)


def test_a_compiled_step_says_what_the_estimate_says():
    model, optimizer, batch, _ = case("drawn 0")
    step = ws.compile(squares, model, optimizer=optimizer, batch=batch(B))
    known = ws.estimate(squares, model, optimizer=optimizer, batch=batch(B)).cost()
    assert (step.cost().flops, step.cost().bytes) == (known.flops, known.bytes)
    assert step.cost().at(B=50).microseconds > step.cost().at(B=2).microseconds
    for wrong, match in (({}, "are B, not none"), ({"C": 3}, "are B, not C"), ({"B": 0}, "B is 0")):
        with pytest.raises(ParameterError, match=match):
            step.cost().at(**wrong)
    sized = ws.compile(squares, model, batch=batch(3))
    with pytest.raises(ParameterError, match="has no symbolic sizes"):
        sized.cost().at(B=3)


def test_several_names_and_what_is_looked_up():
    T = Dim("T")
    table = np.ones((50, 3), np.float32)

    def loss(table, batch):
        return np.mean(table[batch["x"]].sum(axis=1)) + np.mean(batch["t"] ** 2)

    def batch(b, t):
        return {"x": ws.ShapeDtype((b, 4), "int64"), "t": ws.ShapeDtype((t, 5), "float32")}

    cost = ws.estimate(loss, table, batch=batch(B, T)).cost()
    assert "min(" in str(cost.bytes) and "T" in str(cost.flops)
    for b, t in ((2, 9), (30, 3)):
        wanted = ws.estimate(loss, table, batch=batch(b, t)).cost()
        at = cost.at(B=b, T=t)
        assert (at.flops, at.bytes) == (wanted.flops, wanted.bytes)


def test_shapes_are_expressions():
    shape = ws.eval_shape(lambda x: np.concatenate([x, x]).reshape(-1), ws.ShapeDtype((B, 3)))
    assert str(shape) == "f64[6*B]" and shape.at(B=4) == ws.ShapeDtype((24,))


class Choosing(nn.Module):
    """Two branches, the longer of which depends on the rows."""

    def __init__(self):
        self.w = np.ones((3, 3))

    def __call__(self, x):
        rows, columns = (lambda x: np.sum(np.sin(x))), (lambda x: np.sum(self.w @ self.w @ self.w))
        return ws.cond(x[0, 0] > 0, rows, columns, x)


def test_of_branches_the_longest_counts_whatever_the_rows():
    table = nn.summary(Choosing(), (B, 3))
    assert "min(" in str(table.flops)
    for n in (1, 5, 100):
        assert table.at(B=n).flops == nn.summary(Choosing(), (n, 3)).flops


class Spectrum(nn.Module):
    def __call__(self, x):
        return np.fft.rfft(x, axis=0)


def test_what_is_no_expression_is_named():
    assert nn.summary(Spectrum(), ws.ShapeDtype((8, B))).at(B=4) == nn.summary(Spectrum(), ws.ShapeDtype((8, 4)))
    with pytest.raises(SymbolicError, match=r"rfft: 5 n log2\(n\) operations for n of B are no polynomial"):
        nn.summary(Spectrum(), ws.ShapeDtype((B, 8)))
