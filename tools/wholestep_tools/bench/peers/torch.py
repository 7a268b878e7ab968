"""The workloads in eager PyTorch: its fused functions, and Adam's update in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from wholestep_tools.bench.draws import Arrays
from wholestep_tools.bench.peers import on_torch
from wholestep_tools.bench.real.catalog import REAL, Real
from wholestep_tools.bench.spec import B1, B2, EPS, HEADS, LAYERS, ROPE, TIME, WIDTH, WORKLOADS, digest

VERSION = f"PyTorch {torch.__version__.partition('+')[0]}"


def mlp(p: Any, batch: Any) -> Any:
    """W1 and W7."""
    h = torch.relu(torch.addmm(p["b0"], batch["x"], p["w0"]))
    h = torch.relu(torch.addmm(p["b1"], h, p["w1"]))
    return F.cross_entropy(torch.addmm(p["b2"], h, p["w2"]), batch["y"])


def mlp_of_one(p: Any, batch: Any) -> Any:
    """W6: one sample, for vmap."""
    h = torch.relu(batch["x"] @ p["w0"] + p["b0"])
    h = torch.relu(h @ p["w1"] + p["b1"])
    return F.cross_entropy(h @ p["w2"] + p["b2"], batch["y"])


def cnn(p: Any, batch: Any) -> Any:
    """W2."""
    h = F.max_pool2d(torch.relu(F.conv2d(batch["x"], p["k0"], p["b0"], padding=1)), 2)
    h = F.max_pool2d(torch.relu(F.conv2d(h, p["k1"], p["b1"], padding=1)), 2)
    return F.cross_entropy(torch.addmm(p["b2"], h.flatten(1), p["w2"]), batch["y"])


def attention(x: Any, qkv: Any, proj: Any, heads: int = HEADS) -> Any:
    """Causal self-attention by the fused kernel."""
    n, time, width = x.shape
    q, k, v = (x @ qkv).view(n, time, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return mixed.transpose(1, 2).reshape(n, time, width) @ proj


def block(p: Any, i: int, x: Any, heads: int = HEADS) -> Any:
    """One layer of W3."""
    d = (x.shape[-1],)
    x = x + attention(F.layer_norm(x, d, p[f"gain_a{i}"], p[f"bias_a{i}"]), p[f"qkv{i}"], p[f"proj{i}"], heads)
    h = F.layer_norm(x, d, p[f"gain_f{i}"], p[f"bias_f{i}"]) @ p[f"up{i}"]
    return x + F.gelu(h, approximate="tanh") @ p[f"down{i}"]


def gpt(p: Any, batch: Any, layers: int = LAYERS, layer: Any = block) -> Any:
    """W3, or a model of more layers."""
    x = F.embedding(batch["x"], p["wte"]) + p["wpe"]
    for i in range(layers):
        x = layer(p, i, x)
    scores = F.layer_norm(x, (x.shape[-1],), p["gain"], p["bias"]) @ p["head"]
    return F.cross_entropy(scores.flatten(0, 1), batch["y"].flatten())


def digits(p: Any, batch: Any) -> Any:
    """The CNN of `wholestep train digits`."""
    h = torch.relu(F.conv2d(batch["x"], p["first.weight"], p["first.bias"], padding=1))
    h = F.max_pool2d(torch.relu(F.conv2d(h, p["second.weight"], p["second.bias"], padding=1)), 2)
    h = torch.relu(torch.addmm(p["hidden.bias"], h.flatten(1), p["hidden.weight"]))
    return F.cross_entropy(torch.addmm(p["last.bias"], h, p["last.weight"]), batch["y"])


HALF = WIDTH // HEADS // 2
ANGLES = np.arange(TIME)[:, None] * ROPE ** -(np.arange(HALF) / HALF)
TURNS = {"cpu": tuple([torch.from_numpy(f(ANGLES).astype(np.float32)) for f in (np.cos, np.sin)])}
"""The cosines and sines of rotary positions, by the kind of device on which they lie."""


def rotated(x: Any) -> Any:
    """Rotary positions of heads [n, heads, time, width]."""
    a, b = x[..., :HALF], x[..., HALF:]
    cos, sin = TURNS[x.device.type]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def looked(x: Any, qkv: Any, out: Any) -> Any:
    """Causal self-attention with rotary positions, by the fused kernel."""
    n, time, width = x.shape
    q, k, v = (x @ qkv).view(n, time, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
    return mixed.transpose(1, 2).reshape(n, time, width) @ out


def text(p: Any, batch: Any) -> Any:
    """The GPT of `wholestep train text`."""
    x = F.embedding(batch["x"], p["embedding.weight"])
    d = (x.shape[-1],)
    for block in [f"blocks[{i}]" for i in range(LAYERS)]:
        h = F.rms_norm(x, d, p[f"{block}.attention_norm.gain"], 1e-5)
        x = x + looked(h, p[f"{block}.attention.qkv.weight"], p[f"{block}.attention.out.weight"])
        h = F.rms_norm(x, d, p[f"{block}.feed_forward_norm.gain"], 1e-5) @ p[f"{block}.feed_forward.up.weight"]
        x = x + F.gelu(h) @ p[f"{block}.feed_forward.down.weight"]
    scores = F.rms_norm(x, d, p["norm.gain"], 1e-5) @ p["head.weight"]
    return F.cross_entropy(scores.flatten(0, 1), batch["y"].flatten())


def tiny(p: Any, batch: Any) -> Any:
    """W4."""
    h = torch.tanh(torch.addmm(p["b0"], batch["x"], p["w0"]))
    h = torch.tanh(torch.addmm(p["b1"], h, p["w1"]))
    return F.mse_loss(torch.addmm(p["b2"], h, p["w2"]), batch["y"])


def chain(p: Any, batch: Any) -> Any:
    """W5."""
    x = p["x"]
    return torch.log1p(torch.exp(-(torch.tanh(x * p["w"] + p["b"]) * torch.sigmoid(x)))).mean()


def second(p: Any, batch: Any) -> Any:
    """W7 by reverse over reverse, which eager PyTorch runs faster than forward over reverse."""
    leaves = list(p.values())
    g = torch.autograd.grad(mlp(p, batch), leaves, create_graph=True)
    return torch.autograd.grad(g, leaves, [batch[f"v_{name}"] for name in p])


def value_and_gradients(p: Any, batch: Any) -> Any:
    """W5's value and gradients."""
    value = chain(p, batch)
    return value.detach(), *torch.autograd.grad(value, list(p.values()))


def of_each(p: Any, batch: Any) -> Any:
    """W6."""
    return torch.func.vmap(torch.func.grad(mlp_of_one), in_dims=(None, 0))(p, batch)


def tensors(name: str, arrays: Arrays) -> dict[str, Any]:
    """A workload's arrays as tensors, its pixels as images."""
    if name == "digits" and "x" in arrays:
        arrays = arrays | {"x": arrays["x"].reshape(-1, 1, 8, 8)}
    return on_torch.tensors(arrays)


class Training:
    """A training: a loss of tensors."""

    def __init__(
        self, loss: Any, rate: float, params: dict[str, Any], batch: dict[str, Any], lazy: Sequence[str] = ()
    ) -> None:
        self.loss, self.params, self.batch = loss, params, batch
        leaves = {name: tensor.requires_grad_() for name, tensor in params.items()}
        tables = [leaves.pop(name) for name in lazy]
        self.optimizers: list[Any] = [torch.optim.Adam(leaves.values(), rate, (B1, B2), EPS, fused=True)]
        if tables:
            self.optimizers.append(torch.optim.SparseAdam(tables, rate, (B1, B2), EPS))

    def call(self) -> Any:
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        value = self.loss(self.params, self.batch)
        value.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        return value.detach()

    def wait(self, value: Any) -> None:
        """Eager PyTorch on a CPU is done when it returns."""

    def numbers(self, value: Any) -> list[list[float]]:
        return [[float(value)]]


class Function:
    """W5 to W7: a function of parameters and batch that keeps nothing."""

    def __init__(self, name: str, params: Arrays, batch: Arrays) -> None:
        self.params, self.batch = tensors(name, params), tensors(name, batch)
        self.run = FUNCTIONS[name]
        if self.run is not of_each:
            for tensor in self.params.values():
                tensor.requires_grad_()

    def call(self) -> Any:
        return self.run(self.params, self.batch)

    def wait(self, value: Any) -> None:
        """Eager PyTorch on a CPU is done when it returns."""

    def numbers(self, value: Any) -> list[list[float]]:
        leaves = value.values() if isinstance(value, dict) else value
        return [digest(leaf.numpy() for leaf in leaves)]


def answered(real: Real) -> Callable[..., Any]:
    """A model that is run forward, without gradients."""
    answer = real.answer(ON)

    def run(p: Any, batch: Any) -> Any:
        with torch.inference_mode():
            return answer(p, batch)

    return run


def narrowed(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A loss under PyTorch's automatic mixed precision in bfloat16."""

    def run(p: Any, batch: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return loss(p, batch)

    return run


ON = on_torch.TorchOperations()
LOSSES: dict[str, Callable[..., Any]] = {"W1": mlp, "W2": cnn, "W3": gpt, "W4": tiny, "digits": digits, "text": text}
LOSSES |= {
    name: narrowed(loss) if real.half else loss
    for name, real in REAL.items()
    if real.trained
    for loss in [partial(real.model.loss, on_torch.TorchOperations(bool(real.lazy)))]
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"W5": value_and_gradients, "W6": of_each, "W7": second}
FUNCTIONS |= {name: answered(real) for name, real in REAL.items() if not real.trained}


def job(name: str, params: Arrays, batch: Arrays, at_once: int) -> Training | Function:
    """The workload, ready to be called."""
    if name not in LOSSES:
        return Function(name, params, batch)
    lazy = REAL[name].lazy if name in REAL else ()
    return Training(LOSSES[name], WORKLOADS[name].rate, tensors(name, params), tensors(name, batch), lazy)
