"""The workloads in compiled PyTorch: forward, backward and update in one `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.peers.torch import LOSSES, ON, VERSION, chain, mlp, of_each, tensors
from wholestep_tools.bench.real.catalog import REAL
from wholestep_tools.bench.spec import B1, B2, EPS, WORKLOADS, digest

__all__ = ["VERSION", "job"]


def value_and_gradients(p: Any, batch: Any) -> Any:
    """W5's value and gradients."""
    gradients, value = torch.func.grad_and_value(chain)(p, batch)
    return value, *gradients.values()


def second(p: Any, batch: Any) -> Any:
    """W7 by forward over reverse."""
    along = {name: batch[f"v_{name}"] for name in p}
    return torch.func.jvp(lambda q: torch.func.grad(mlp)(q, batch), (p,), (along,))[1]


def adam(loss: Any, rate: float) -> Any:
    """One training step that writes the state in place."""

    def step(p: Any, m: Any, v: Any, t: Any, batch: Any) -> Any:
        g, value = torch.func.grad_and_value(loss)(p, batch)
        t.add_(1)
        a, s = rate / (1 - B1**t), torch.rsqrt(1 - B2**t)
        for name in p:
            m[name].mul_(B1).add_((1 - B1) * g[name])
            v[name].mul_(B2).add_((1 - B2) * g[name] * g[name])
            p[name].sub_(a * m[name] / (v[name].sqrt() * s + EPS))
        return value

    return step


class Compiled:
    """Any workload: with a state that the step writes where it is trained, else with none."""

    def __init__(
        self, name: str, params: Arrays, batch: Arrays, device: str | torch.device = "cpu", mode: str | None = None
    ) -> None:
        p, given = ({key: x.to(device) for key, x in tensors(name, arrays).items()} for arrays in (params, batch))
        if name in LOSSES:
            f = adam(LOSSES[name], WORKLOADS[name].rate)
            m, v = ({key: torch.zeros_like(tensor) for key, tensor in p.items()} for _ in range(2))
            self.given: tuple[Any, ...] = (p, m, v, torch.zeros((), device=device), given)
        else:
            f, self.given = FUNCTIONS[name], (p, given)
        self.run = torch.compile(f, fullgraph=True, dynamic=False, mode=mode)

    def call(self) -> Any:
        with torch.no_grad():
            return self.run(*self.given)

    def wait(self, result: Any) -> None:
        """Compiled PyTorch on a CPU is done when it returns."""

    def numbers(self, result: Any) -> list[list[float]]:
        if isinstance(result, torch.Tensor):
            return [[float(result)]]
        leaves = result.values() if isinstance(result, dict) else result
        return [digest(leaf.numpy() for leaf in leaves)]


FUNCTIONS: dict[str, Callable[..., Any]] = {"W5": value_and_gradients, "W6": of_each, "W7": second}
FUNCTIONS |= {name: real.answer(ON) for name, real in REAL.items() if not real.trained}


def job(name: str, params: Arrays, batch: Arrays, at_once: int) -> Compiled:
    """The workload, ready to be called."""
    return Compiled(name, params, batch)
