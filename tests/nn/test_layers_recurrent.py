"""Recurrent layers against PyTorch, with its equations, its order of gates and its states."""

import numpy as np
import pytest
from tests.nn.beside_torch import agree, close, torch

import wholestep as ws
from wholestep import nn, tree
from wholestep.errors import DtypeError, ParameterError, ShapeError

RNG = np.random.default_rng(6)
KINDS = {"RNN": (nn.RNN, torch.nn.RNN), "GRU": (nn.GRU, torch.nn.GRU), "LSTM": (nn.LSTM, torch.nn.LSTM)}


def pair(kind, layers=1, bidirectional=False, bias=True, **options):
    """A layer of ours with the parameters of one of torch's, float64, and that one."""
    ours, theirs = KINDS[kind]
    shared = {"bidirectional": bidirectional, "bias": bias}
    there = theirs(
        3,
        4,
        layers,
        batch_first=True,
        dtype=torch.float64,
        **shared,
        **{{"activation": "nonlinearity"}.get(k, k): v for k, v in options.items()},
    )
    here = ours(3, 4, layers, key=0, dtype="float64", **shared, **options)
    for i in range(layers):
        for cells, suffix in [(here.cells, ""), (here.backward_cells, "_reverse")][: 1 + bidirectional]:
            for name in ("ih", "hh"):
                setattr(cells[i], f"weight_{name}", getattr(there, f"weight_{name}_l{i}{suffix}").detach().numpy().T)
                if bias:
                    setattr(cells[i], f"bias_{name}", getattr(there, f"bias_{name}_l{i}{suffix}").detach().numpy())
    return here, there


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [{}, {"layers": 2, "bidirectional": True}, {"layers": 3, "bias": False}],
    ids=["one", "both ways", "deep"],
)
def test_outputs_states_and_gradients_are_those_of_torch(kind, options):
    here, there = pair(kind, **options)
    count = options.get("layers", 1) * (1 + options.get("bidirectional", False))
    x, states = RNG.normal(size=(2, 5, 3)), RNG.normal(size=(2, count, 2, 4))
    agree(here, there, x)
    if kind == "LSTM":
        agree(lambda x, *s: here(x, s), lambda x, *s: there(x, s), x, *states)
    else:
        agree(here, there, x, states[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"layers": 2, "bidirectional": True}], ids=["one", "both ways"])
def test_lengths_are_packed_sequences(kind, options):
    here, there = pair(kind, **options)
    lengths = np.array([3, 5, 1])
    pack, pad = torch.nn.utils.rnn.pack_padded_sequence, torch.nn.utils.rnn.pad_packed_sequence

    def packed(x):
        ys, state = there(pack(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False))
        return pad(ys, batch_first=True)[0], state

    x = RNG.normal(size=(3, 5, 3))
    agree(lambda x: here(x, lengths=lengths), packed, x)
    given = ws.jit(lambda x, n: here(x, lengths=n))
    close(tree.leaves(given(x, lengths)), tree.leaves(here(x, lengths=lengths)), 1e-12)
    close(tree.leaves(given(x, np.array([5, 5, 9]))), tree.leaves(here(x)), 1e-12)


def test_padding_reaches_no_result_and_no_derivative():
    here, x = nn.GRU(3, 4, key=0, dtype="float64", bidirectional=True), RNG.normal(size=(2, 5, 3))
    x[0, 2:] = np.nan
    value, slope = ws.value_and_grad(lambda m, x: np.sum(m(x, lengths=np.array([2, 5]))[0]), argnums=(0, 1))(here, x)
    assert np.isfinite(value) and all(np.isfinite(g).all() for g in nn.named_parameters(slope[0]).values())
    assert (slope[1][0, 2:] == 0).all() and (slope[1][0, :2] != 0).all()


def test_a_sequence_of_length_zero_keeps_its_first_state():
    here, begin = nn.GRU(3, 4, key=0, dtype="float64"), RNG.normal(size=(1, 2, 4))
    ys, end = here(RNG.normal(size=(2, 5, 3)), begin, lengths=np.array([0, 5]))
    assert (ys[0] == 0).all() and (end[0, 0] == begin[0, 0]).all() and (end[0, 1] != begin[0, 1]).all()


def test_the_other_activation():
    agree(*pair("RNN", activation="relu"), RNG.normal(size=(2, 5, 3)))


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_get_torchs_gradients_compiled(kind):
    here, there = pair(kind, bidirectional=True)
    x = RNG.normal(size=(2, 5, 3))

    def loss(model, x):
        return np.sum(np.sin(model(x)[0]))

    torch.sin(there(torch.tensor(x))[0]).sum().backward()
    names = [f"{w}_{p}_l0" for w in ("weight", "bias") for p in ("ih", "hh")]
    wanted = {}
    for cells, suffix in (("cells", ""), ("backward_cells", "_reverse")):
        for name in names:
            g = getattr(there, name + suffix).grad.numpy()
            wanted[f"{cells}[0].{name[:-3]}"] = g.T if g.ndim == 2 else g
    found = nn.named_parameters(ws.jit(ws.grad(loss))(here, x))
    close([found[name] for name in wanted], wanted.values(), 1e-10)
    assert set(found) == set(wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_is_one_step_of_the_layer(kind):
    here, there = pair(kind)
    x = RNG.normal(size=(2, 1, 3))
    begin = (np.zeros((2, 4)),) * 2 if kind == "LSTM" else np.zeros((2, 4))
    made = here.cells[0](x[:, 0], begin)
    close([made[0] if kind == "LSTM" else made], [there(torch.tensor(x))[0][:, 0].detach().numpy()], 1e-12)


def test_parts_of_a_sequence_carry_the_state():
    here = nn.LSTM(3, 4, 2, key=0, dtype="float64")
    x = RNG.normal(size=(2, 6, 3))
    whole, end = here(x)
    first, state = here(x[:, :2])
    second, state = here(x[:, 2:], state)
    close([np.concatenate([first, second], 1), *state], [whole, *end], 1e-12)


def test_the_loop_stays_a_loop():
    here = nn.GRU(3, 4, key=0)
    short, long = (str(ws.jit(lambda x: here(x)[0]).lower(np.ones((1, n, 3), np.float32))) for n in (5, 500))
    assert len(short.splitlines()) == len(long.splitlines()) and "scan" in long


def test_dropout_acts_between_layers():
    here = nn.GRU(3, 4, 2, key=0, dropout=0.5)
    x = np.ones((1, 3, 3), np.float32)
    with pytest.raises(ParameterError, match="dropout: no key to draw from"):
        here(x)
    assert (here(x, key=1)[0] == here(x, key=1)[0]).all() and (here(x, key=1)[0] != here(x, key=2)[0]).any()
    assert here.eval()(x)[0].dtype == np.float32


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.RNN(3, 4, key=0)(np.ones((5, 3))), ShapeError, r"RNN: x is f64\[5, 3\]; it must be \[batch, time"),
        (lambda: nn.RNN(3, 4, key=0)(np.ones((1, 5, 2))), ShapeError, "linear: x is"),
        (lambda: nn.GRU(3, 4, key=0)(np.ones((1, 5, 3)), np.ones((2, 1, 4))), ShapeError, r"1 arrays \[1, 1, 4\]"),
        (lambda: nn.LSTM(3, 4, key=0)(np.ones((1, 5, 3)), np.ones((1, 1, 4))), ShapeError, r"2 arrays \[1, 1, 4\]"),
        (
            lambda: nn.RNN(3, 4, key=0)(np.ones((2, 5, 3)), lengths=np.array([5])),
            ShapeError,
            r"RNN: lengths are i64\[1\]; they must be \[2\]",
        ),
        (
            lambda: nn.GRU(3, 4, key=0)(np.ones((1, 5, 3)), lengths=np.ones(1)),
            DtypeError,
            "GRU: lengths are of dtype f",
        ),
        (
            lambda: nn.GRU(3, 4, key=0)(np.ones((2, 5, 3)), lengths=np.array([6, 2])),
            ParameterError,
            r"GRU: lengths are \[6, 2\], and x has 5 times",
        ),
        (lambda: nn.RNN(3, 4, 0, key=0), ParameterError, "layers is 0"),
        (lambda: nn.RNN(3, 4, key=0, activation="sin"), ParameterError, "activation is 'sin'"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
