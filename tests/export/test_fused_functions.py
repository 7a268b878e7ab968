"""Functions that a step writes out as one operation of PyTorch: where they are found, and how the step trains."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.test_python_files import imported
from tests.export.test_steps_in_place import check_trains, exported

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.export.core import export_core
from wholestep.export.fused.fused_functions import fused_functions
from wholestep.export.python.torch import TORCH

RNG = np.random.default_rng(5)
SEEN = np.tril(np.ones((6, 6), bool))
PARAMS = {"w": RNG.normal(size=(12, 36)) / 3, "u": RNG.normal(size=(12, 12)), "gain": 1 + RNG.random(12)}
PARAMS |= {"bias": RNG.normal(size=12), "gain2": 1 + RNG.random(12), "bias2": RNG.normal(size=12)}
X = RNG.normal(size=(2, 6, 12))


def normed(x: Any, p: Any, more: str = "", eps: float = 1e-5) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
    return centred / deviation * p[f"gain{more}"] + p[f"bias{more}"]


def gelu(x: Any, factor: float = 0.044715) -> Any:
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + factor * x * x * x)))


def attention(p: Any, x: Any, seen: Any = SEEN) -> Any:
    q, k, v = (x @ p["w"]).reshape(2, 6, 3, 3, 4).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) * 0.4
    scores = scores if seen is None else np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (weights / weights.sum(axis=-1, keepdims=True)) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(2, 6, 12)


def twice_normed(p: Any, x: Any) -> Any:
    """Two norms of one array that is used besides, so that their gradients are added up among others."""
    h = np.tanh(x @ p["u"])
    return h * normed(h, p) + np.sin(normed(h, p, "2", 1e-3)) + h


def block(p: Any, x: Any) -> Any:
    h = x @ p["u"]
    h = h + attention(p, normed(h, p))
    return h + gelu(normed(h, p, "2") @ p["u"])


LAYER_NORM = {"layer_norm": 1, "layer_norm_gradients": 1}
GELU = {"gelu_tanh": 1, "gelu_tanh_gradients": 1}
CAUSAL = {"causal_attention": 1, "causal_attention_gradients": 1}
FOUND: dict[str, tuple[Any, dict[str, int]]] = {
    "layer norm": (lambda p, x: normed(x @ p["u"], p), LAYER_NORM),
    "a layer norm of eight, whose mean is a product": (
        lambda p, x: normed((x @ p["u"])[..., :8], {key: p[key][:8] for key in ("gain", "bias")}),
        LAYER_NORM,
    ),
    "the layer norm of nn": (lambda p, x: nn.layer_norm(x @ p["u"], p["gain"], p["bias"]), LAYER_NORM),
    "a norm and a residual": (lambda p, x: np.sin(x @ p["u"]) * normed(x @ p["u"], p), LAYER_NORM),
    "two norms": (twice_normed, {name: 2 for name in LAYER_NORM}),
    "gelu": (lambda p, x: gelu(x @ p["u"]), GELU),
    "gelu, factors outside": (
        lambda p, x: (h := x @ p["u"]) * (0.5 * (1 + np.tanh((2 / np.pi) ** 0.5 * (h + 0.044715 * (h * h * h))))),
        GELU,
    ),
    "gelu and a residual": (lambda p, x: x @ p["u"] + gelu(x @ p["u"]), GELU),
    "causal attention": (attention, CAUSAL),
    "attention": (lambda p, x: attention(p, x, None), {"attention": 1, "attention_gradients": 1}),
    "a block": (block, {name: 2 for name in LAYER_NORM} | GELU | CAUSAL),
    "norm along another axis": (lambda p, x: normed((x @ p["u"]).swapaxes(0, 1), p).swapaxes(0, 1), LAYER_NORM),
    "another mask": (lambda p, x: attention(p, x, SEEN | np.eye(6, k=1, dtype=bool)), {}),
    "another factor": (lambda p, x: gelu(x @ p["u"], 0.04), {}),
    "no gradient of the gain": (lambda p, x: normed(x @ p["u"], PARAMS), {}),
    "another norm": (lambda p, x: (h := x @ p["u"]) / np.sqrt((h * h).mean(-1, keepdims=True) + 1) * p["gain"], {}),
    "half precision": (lambda p, x: gelu((x @ p["u"]).astype(np.float16)).astype(x.dtype), {}),
}


def loss_of(f: Any) -> Any:
    return lambda p, x: np.mean((f(p, x) - 0.3) ** 2)


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found_means_the_same(name: str) -> None:
    f, wanted = FOUND[name]
    graph = ws.trace(ws.value_and_grad(loss_of(f)))(PARAMS, X)
    made = fused_functions(export_core(graph, TORCH))
    labels = [node.params["label"] for node in made.nodes if node.op.name == "composite"]
    assert {label: labels.count(label) for label in labels} == wanted
    arrays = [*[PARAMS[key] for key in sorted(PARAMS)], X]
    for x, y in zip(interpret(made, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [name for name, (_, wanted) in FOUND.items() if wanted])
def test_steps_call_the_functions_of_pytorch(name: str, dtype: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    f, wanted = FOUND[name]
    params = {key: x.astype(dtype) for key, x in PARAMS.items()}
    options: Any = {"allow_unused": True}
    step, module, text = exported(loss_of(f), params, ws.optim.adam(1e-3), X.astype(dtype), tmp_path, **options)
    words = {"layer_norm": "native_layer_norm", "gelu_tanh": "gelu", "attention": "mixed_values"}
    words |= {"causal_attention": "mixed_values"}
    words |= {f"{label}_gradients": f"{word}_backward" for label, word in words.items()}
    words |= {"attention_gradients": "attention_gradients", "causal_attention_gradients": "attention_gradients"}
    for label, count in wanted.items():
        assert len(re.findall(rf"\b{words[label]}\(", text)) == count
    check_trains(step, module, [X.astype(dtype)] * 4, tmp_path)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_by_formula_is_that_of_the_library(causal: bool, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    step = ws.compile(loss_of(attention), PARAMS, optimizer=ws.optim.adam(1e-3), batch=X, allow_unused=True)
    module = imported(step.export(tmp_path / "step.py", to="torch")[0])
    q, k, v, g = torch.tensor(RNG.normal(size=(4, 2, 3, 6, 4)))
    out, lse = module.mixed_values(q, k, v, 0.3, causal)
    for x, y in zip(module.mixed_by_formula(q, k, v, 0.3, causal), (out, lse), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    given = (q, k, v, out, lse, g, 0.3, causal)
    wanted = module.attention_gradients(*given)
    for x, y in zip(module.attention_gradients_by_formula(*given), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
