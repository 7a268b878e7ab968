"""The deep GPT in JAX, one jitted function for the whole step, as it is and with `jax.checkpoint` around each layer."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from wholestep_tools.bench.deep import HEADS, RATE
from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.peers.jax import VERSION, Training, block, gpt

__all__ = ["VERSION", "job", "warm"]

plain = partial(block, heads=HEADS)
LAYERS = {"plain": plain, "checkpoint": jax.checkpoint(plain, static_argnums=(1, 3, 4))}


def job(mode: str, layers: int, params: Arrays, batch: Arrays) -> Training:
    """The model, ready to be called."""
    return Training(partial(gpt, layers=layers, layer=LAYERS[mode]), RATE, params, batch)


def warm() -> None:
    """Run a small gradient, so that the library's own memory is allocated."""
    x = jnp.ones((64, 64))
    jax.block_until_ready(jax.jit(jax.grad(lambda x: jnp.tanh(x @ x).sum()))(x))
