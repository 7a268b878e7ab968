"""The deep GPT in JAX, one jitted function for the whole step, as it is and with `jax.checkpoint` around each layer."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from wholestep.cli.bench.deep import HEADS, RATE
from wholestep.cli.bench.peers.jax import VERSION, adam, block, gpt
from wholestep.cli.bench.spec import Arrays

__all__ = ["VERSION", "job", "warm"]

plain = partial(block, heads=HEADS)
LAYERS = {"plain": plain, "checkpoint": jax.checkpoint(plain, static_argnums=(1, 3, 4))}


class Training:
    """Forward, backward and Adam."""

    def __init__(self, mode: str, layers: int, params: Arrays, batch: Arrays) -> None:
        p = jax.tree.map(jnp.array, params)
        zeros = jax.tree.map(jnp.zeros_like, p)
        self.state = (p, zeros, jax.tree.map(jnp.zeros_like, p), jnp.zeros((), jnp.float32))
        self.batch = jax.tree.map(jnp.array, batch)
        self.run = adam(partial(gpt, layers=layers, layer=LAYERS[mode]), RATE)

    def call(self) -> Any:
        self.state, value = self.run(self.state, self.batch)
        return value

    def wait(self, value: Any) -> None:
        jax.block_until_ready((value, self.state[3]))

    def numbers(self, value: Any) -> list[list[float]]:
        return [[float(value)]]


def job(mode: str, layers: int, params: Arrays, batch: Arrays) -> Training:
    """The model, ready to be called."""
    return Training(mode, layers, params, batch)


def warm() -> None:
    """Do a little of everything, so that what the library takes for itself is there."""
    x = jnp.ones((64, 64))
    jax.block_until_ready(jax.jit(jax.grad(lambda x: jnp.tanh(x @ x).sum()))(x))
