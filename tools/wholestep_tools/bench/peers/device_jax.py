"""The workloads in JAX on a device: a jitted step, and `lax.scan` of it over K batches in one jit, all donated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from wholestep.runtime.delegates.libraries import library_named
from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.peers import timed_calls
from wholestep_tools.bench.peers.jax import VERSION, Training, job as single_job

__all__ = ["VERSION", "job"]


class OnDevice:
    """A training by three functions, each with a state of its own."""

    def __init__(self, name: str, params: Arrays, batch: Arrays, device: str, k: int) -> None:
        self.device = library_named(f"jax:{device}").device
        jax.config.update("jax_default_device", self.device)
        jax.config.update("jax_default_matmul_precision", "highest")  # float32, and not TF32, as here
        self.single = single_job(name, params, batch, 1)
        assert isinstance(self.single, Training)
        self.step = self.single.step
        self.state = {f: jax.tree.map(jnp.copy, self.single.state) for f in (self.resident, self.fed)}
        self.batches = {key: np.stack([np.asarray(x)] * k) for key, x in batch.items()}
        self.on_device: Any = None
        self.run = jax.jit(lambda state, xs: lax.scan(self.step, state, xs), donate_argnums=0)

    def one(self) -> float:
        return float(self.single.call())

    def steps(self, f: Callable[..., Any], batches: Any) -> float:
        """The last loss of K steps on a state."""
        self.state[f], losses = self.run(self.state[f], batches)
        return float(np.asarray(losses)[-1])

    def resident(self, n: int) -> tuple[list[float], float]:
        if self.on_device is None:
            self.on_device = jax.tree.map(jnp.array, self.batches)
        return timed_calls(lambda: self.steps(self.resident, self.on_device), n)

    def fed(self, n: int) -> tuple[list[float], float]:
        return timed_calls(lambda: self.steps(self.fed, self.batches), n)

    def about(self) -> dict[str, Any]:
        counted = self.device.memory_stats() or {}  # a CPU counts none
        return {"device_bytes": counted.get("peak_bytes_in_use", 0)}


def job(name: str, params: Arrays, batch: Arrays, device: str, k: int) -> OnDevice:
    """The workload, ready to be trained."""
    return OnDevice(name, params, batch, device, k)
