"""A large constant is in memory as the caller's own, in the graph, and where machine code reads it: no more."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import config, contents
from wholestep.contents import pieces, same_bits, sha256
from wholestep.errors import MutationError

SIZE = 4 << 20


def constant() -> Any:
    return np.random.default_rng(0).random(SIZE).reshape(2048, -1)


def in_jit(c: Any) -> Any:
    return ws.jit(lambda x: np.sum(c * x))


def in_a_step(c: Any) -> Any:
    return ws.compile(
        lambda w, x: np.mean((c[:4] * w - x) ** 2) + np.sum(c), 1.0, optimizer=ws.optim.sgd(0.1), batch=2.0
    )


def in_a_gradient(c: Any) -> Any:
    return ws.jit(ws.grad(lambda x: np.sum(c * x)))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("made", [in_jit, in_a_gradient, in_a_step])
def test_two_copies_are_made_and_no_more(
    made: Callable[[Any], Any], order: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "cache_place", lambda: "off")  # an entry that is found is in memory until it is loaded
    made(constant()[:8])(2.0)  # the modules that a first compilation loads do not count
    c = np.array(constant(), order=order)
    tracemalloc.start()
    try:
        program = made(c)
        program(2.0)
        program(2.0)
        peak = tracemalloc.get_traced_memory()[1] / c.nbytes
    finally:
        tracemalloc.stop()
    assert 0.9 < peak < 2.3, f"{peak:.2f} times the constant"


@pytest.mark.parametrize("count", [3, 1 << 13])
@pytest.mark.parametrize("made", [in_jit, in_a_step])
def test_a_constant_of_the_other_byte_order_is_compared_by_its_numbers(made: Callable[[Any], Any], count: int) -> None:
    c = np.arange(4.0 * count).reshape(4, count).astype(">f8")
    program = made(c)
    program(2.0)
    c[-1, -1] += 1
    with pytest.raises(MutationError):
        [program(2.0) for _ in range(1000)]


def test_a_large_constant_is_compared_by_its_bits() -> None:
    c = np.zeros(1 << 17)
    f = ws.jit(lambda x: np.sum(np.copysign(x, c)))
    assert f(1.0) == c.size
    c[-1] = -0.0
    with pytest.raises(MutationError):
        f(1.0)


@pytest.mark.parametrize("piece", [1, 16, 24, 1 << 18])
def test_pieces_are_the_bytes_in_order(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "PIECE", piece)
    x = np.arange(24.0).reshape(2, 3, 4)
    for view in (x, x.T, x[:, ::2], x[::-1, :, 1], x[0, 0, 0], x[:0]):
        assert b"".join(pieces(view)) == view.tobytes()
        assert same_bits(view, view.copy()) and sha256(view) == sha256(view.copy())
        if view.size:
            other = np.array(view)
            other[(-1,) * other.ndim] += 1
            assert not same_bits(view, other) and sha256(view) != sha256(other)
    assert not same_bits(x, x.reshape(6, 4)) and not same_bits(x, x.astype(np.float32))
