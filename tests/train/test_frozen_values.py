"""Values that a traced function changes and reads: its program has one value of them, which is a warning."""

import warnings

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import FrozenValueWarning

X = np.ones((4, 3))
calls = 0


class Counting:
    def __init__(self):
        self.calls = 0

    def loss(self, p, b):
        self.calls += 1
        return np.mean((b @ p) ** 2) / self.calls


def of_a_global(p, b):
    global calls
    calls += 1
    return np.mean((b @ p) ** 2) / calls


def of_a_closure(value, change):
    def loss(p, b):
        nonlocal value
        value = change(value)
        return np.mean((b @ p) ** 2) * np.sum(value)

    return loss


def of_an_item():
    kept = {"calls": 0}

    def loss(p, b):
        kept["calls"] += 1
        return np.mean((b @ p) ** 2) / kept["calls"]

    return loss


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (Counting().loss, r"self\.calls was 0 and became 1"),
        (of_a_global, "calls was 0 and became 1"),
        (of_an_item(), r"kept\['calls'\] was 0 and became 1"),
        (of_a_closure(1, lambda n: n + 1), "value was 1 and became 2"),
        (of_a_closure(np.ones(3), lambda a: a / 2), "value was bound to another array"),
    ],
)
def test_values_that_a_loss_changes_and_reads(loss, said):
    with pytest.warns(FrozenValueWarning, match=said + r"(.|\n)*test_frozen_values.py"):
        ws.compile(loss, np.ones(3), optimizer=ws.optim.sgd(0.1), batch=X)


def test_a_count_in_the_body_of_a_loop():
    i = 0

    def body(carry, x):
        nonlocal i
        i += 1
        return carry + i * x, carry

    with pytest.warns(FrozenValueWarning, match="every round of the loop"):
        ws.scan(body, 0.0, np.ones(4))


def test_a_count_of_traces_is_read_by_nobody():
    traces = 0

    def f(x):
        nonlocal traces
        traces += 1
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ws.jit(f)(np.ones(3))
        assert ws.grad(of_a_closure(1, lambda n: n + 1))(np.ones(3), X).tolist() == [12.0, 12.0, 12.0]
    assert traces == 1
