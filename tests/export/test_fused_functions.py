"""Functions that a step writes out as one operation of PyTorch: where they are found, and how the step trains."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from tests.export.test_python_files import imported
from tests.export.test_steps_in_place import check_trains, exported

import wholestep as ws
from wholestep import nn
from wholestep.backends.reference import interpret
from wholestep.export.channels_last import channels_last
from wholestep.export.core import export_core
from wholestep.export.fused.fused_functions import fused_functions
from wholestep.export.python.torch import TORCH

RNG = np.random.default_rng(5)
SEEN = np.tril(np.ones((6, 6), bool))
PARAMS = {"w": RNG.normal(size=(12, 36)) / 3, "u": RNG.normal(size=(12, 12)), "gain": 1 + RNG.random(12)}
PARAMS |= {"bias": RNG.normal(size=12), "gain2": 1 + RNG.random(12), "bias2": RNG.normal(size=12)}
X = RNG.normal(size=(2, 6, 12))
SPREAD = np.linspace(-0.3, 0.5, 9).reshape(3, 3)


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


def erf(x: Any) -> Any:
    return scipy.special.erf(x)


def attended(p: Any, x: Any, heads: tuple[int, int] = (3, 3), dims: int = 4, **options: Any) -> Any:
    """Attention as `nn` writes it, with as many or fewer heads of keys and values than of queries."""
    h = x @ p["w"]
    q, k, v = [h[..., i * 12 : i * 12 + 4 * n].reshape(2, 6, n, 4) for i, n in enumerate((heads[0], *[heads[1]] * 2))]
    q, k, v = [y.transpose(0, 2, 1, 3) for y in (q, k, v)]
    if dims == 3:
        q, k, v = q[0], k[0], v[0]
    elif dims == 5:
        q, k, v = [np.stack([y, np.sin(y)]) for y in (q, k, v)]
    return nn.scaled_dot_product_attention(q, k, v, **options)


def crossed(p: Any, x: Any, **options: Any) -> Any:
    """Attention of six queries to four keys."""
    q, k, v = (x @ p["w"]).reshape(2, 6, 3, 3, 4).transpose(2, 0, 3, 1, 4)
    return nn.scaled_dot_product_attention(q, k[:, :, :4], v[:, :, :4], **options)


def rotated(p: Any, x: Any) -> Any:
    """Causal attention with rotary positions."""
    q, k, v = (x @ p["w"]).reshape(2, 6, 3, 3, 4).transpose(2, 0, 3, 1, 4)
    angles = np.arange(6.0)[:, None] * np.array([1.0, 0.1])
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)

    def turned(y: Any) -> Any:
        a, b = y[..., :2], y[..., 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    return nn.scaled_dot_product_attention(turned(q), turned(k), v, causal=True)


def grouped(p: Any, x: Any) -> Any:
    """Attention of three heads of queries to one of keys, whose group is an axis."""
    h = x @ p["w"]
    q, k, v = h[..., :24].reshape(2, 6, 2, 3, 4), h[..., 24:28].reshape(2, 6, 1, 4), h[..., 32:].reshape(2, 6, 1, 4)
    k, v = np.concatenate([k, np.sin(k)], 2), np.concatenate([v, np.sin(v)], 2)
    scores = np.einsum("btngd,bsnd->bngts", q, k) / 2
    return np.einsum("bngts,bsnd->btngd", nn.softmax(scores), v)


def images(p: Any, x: Any) -> Any:
    """Two images of 12 channels, as a convolution gives them."""
    return nn.conv2d(x.transpose(0, 2, 1).reshape(2, 12, 2, 3), p["u"][:, :, None, None])


def convolved(p: Any, x: Any) -> Any:
    """Two images of 12 channels whose channels PyTorch's files put last."""
    return nn.conv2d(images(p, x), p["u"][:, :, None, None] * SPREAD.astype(x.dtype), padding=1)


def columns(p: Any, x: Any) -> Any:
    """Two sequences of 12 channels, which come second."""
    return (x @ p["u"]).transpose(0, 2, 1)


def grouped_by_hand(p: Any, x: Any) -> Any:
    """A norm of three groups of channels, each a row."""
    h = columns(p, x)
    rows = h.reshape(2, 3, -1)
    centred = rows - rows.mean(-1, keepdims=True)
    unit = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-3)
    return unit.reshape(h.shape) * p["gain"][:, None] + p["bias"][:, None]


def twice_normed(p: Any, x: Any) -> Any:
    """Two norms of one array with a third reader, so that their gradients are terms of one sum."""
    h = np.tanh(x @ p["u"])
    return h * normed(h, p) + np.sin(normed(h, p, "2", 1e-3)) + h


def block(p: Any, x: Any) -> Any:
    h = x @ p["u"]
    h = h + attention(p, normed(h, p))
    return h + gelu(normed(h, p, "2") @ p["u"])


def looped(body: Any, wrap: Any = lambda f: f, **options: Any) -> Any:
    """A loop that returns its rows plus its last carry; `body` computes each row from a carry."""

    def loop(p: Any, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            made = body(p, h @ p["u"] + row)
            return h / 2 + made, made

        last, rows = ws.scan(wrap(step), x[0], np.concatenate([x, x * 2]), **options)
        return rows + last

    return loop


def attended_norm(p: Any, h: Any) -> Any:
    """A norm and attention of one sequence."""
    h = normed(h, p)
    q, k, v = (h @ p["w"]).reshape(6, 3, 3, 4).transpose(1, 2, 0, 3)
    return h + nn.scaled_dot_product_attention(q, k, v, causal=True).transpose(1, 0, 2).reshape(6, 12)


def mixed(p: Any, h: Any) -> Any:
    """A norm, attention and GELU of one sequence."""
    return gelu(attended_norm(p, h) @ p["u"])


def gated(p: Any, h: Any) -> Any:
    """A gate."""
    return nn.sigmoid(h @ p["u"]) * np.tanh(h)


def twice_looped(p: Any, x: Any) -> Any:
    """A loop in each step of a loop."""
    return looped(lambda p, h: ws.scan(lambda a, row: (gelu(a + row), np.sin(a)), h, x)[0])(p, x)


def chosen(p: Any, x: Any) -> Any:
    """A norm in one of two branches."""
    return ws.cond(x[0, 0, 0] > 9, lambda h: h, lambda h: normed(h, p), x @ p["u"])


MASKS = {
    "all": RNG.random((2, 3, 6, 6)) < 0.6,
    "keys": np.array([[True, True, False, True, False, False], [True] * 6])[:, None, None, :],
    "queries": np.array([True, True, False, True, True, True])[:, None],
    "heads": RNG.random((3, 6, 6)) < 0.6,
}


def one(label: str, **others: int) -> dict[str, int]:
    """A function and its derivative, and other operations."""
    return {label: 1, f"{label}_gradients": 1} | others


TANH = one("tanh")
LAYER_NORM = one("layer_norm")
GROUP_NORM = one("group_norm")
GELU = one("gelu_tanh")
CAUSAL = one("causal_attention")
MASKED = one("masked_attention")
FOUND: dict[str, tuple[Any, dict[str, int]]] = {
    "layer norm": (lambda p, x: normed(x @ p["u"], p), LAYER_NORM),
    "a layer norm of eight, whose mean is a product": (
        lambda p, x: normed((x @ p["u"])[..., :8], {key: p[key][:8] for key in ("gain", "bias")}),
        LAYER_NORM,
    ),
    "the layer norm of nn": (lambda p, x: nn.layer_norm(x @ p["u"], p["gain"], p["bias"]), LAYER_NORM),
    "a norm and a residual": (lambda p, x: np.sin(x @ p["u"]) * normed(x @ p["u"], p), LAYER_NORM),
    "two norms": (twice_normed, {name: 2 for name in LAYER_NORM} | TANH),
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
    "a norm without a bias": (lambda p, x: nn.layer_norm(x @ p["u"], p["gain"]), LAYER_NORM),
    "a norm without a gain": (lambda p, x: nn.layer_norm(x @ p["u"]), LAYER_NORM),
    "a gain that is not trained": (lambda p, x: normed(x @ p["u"], PARAMS), LAYER_NORM),
    "a norm of a batch": (lambda p, x: nn.batch_norm(x[0] @ p["u"], p["gain"], p["bias"]), one("batch_norm")),
    "a norm of a batch as it is written": (
        lambda p, x: (c := (h := x[0] @ p["u"]) - h.mean(0)) / np.sqrt((c * c).mean(0) + 0.1) * p["gain"] + p["bias"],
        one("batch_norm"),
    ),
    "a norm of images": (lambda p, x: nn.batch_norm(images(p, x), p["gain"], p["bias"]), one("batch_norm")),
    "a norm of images without gain": (lambda p, x: nn.batch_norm(images(p, x), eps=1e-3), one("batch_norm")),
    "a norm of groups": (lambda p, x: nn.group_norm(columns(p, x), 3, p["gain"], p["bias"]), GROUP_NORM),
    "a norm of groups as it is written": (grouped_by_hand, GROUP_NORM),
    "a norm of groups of rows": (lambda p, x: nn.group_norm(x[0] @ p["u"], 4, p["gain"], p["bias"]), GROUP_NORM),
    "a norm of groups of images": (lambda p, x: nn.group_norm(convolved(p, x), 3, p["gain"], p["bias"]), GROUP_NORM),
    "a norm of groups of images without a bias": (
        lambda p, x: nn.group_norm(convolved(p, x), 3, p["gain"]),
        GROUP_NORM,
    ),
    "a norm of groups of images without a gain": (lambda p, x: nn.group_norm(convolved(p, x), 3, eps=0.1), GROUP_NORM),
    "a norm of one group of images": (lambda p, x: nn.group_norm(convolved(p, x), 1, p["gain"], p["bias"]), GROUP_NORM),
    "a norm of groups of images that are used besides": (
        lambda p, x: (h := convolved(p, x)) + np.tanh(nn.group_norm(h, 3, p["gain"], p["bias"])),
        GROUP_NORM | TANH,
    ),
    "a norm of each channel": (lambda p, x: nn.instance_norm(columns(p, x), p["gain"], p["bias"]), GROUP_NORM),
    "a norm of each channel of images": (lambda p, x: nn.instance_norm(convolved(p, x), p["gain"], p["bias"]), {}),
    "gelu by erf": (lambda p, x: nn.gelu(x @ p["u"]), one("gelu")),
    "gelu by erf, as it is written": (
        lambda p, x: (h := x @ p["u"]) + 0.5 * h * (1 + erf(h / 2**0.5)),
        one("gelu"),
    ),
    "gelu by erf, factors outside": (lambda p, x: 0.5 * ((h := x @ p["u"]) * (1 + erf(h * 0.5**0.5))), one("gelu")),
    "gelu of nn by tanh": (lambda p, x: nn.gelu(x @ p["u"], "tanh"), GELU),
    "silu": (lambda p, x: nn.silu(x @ p["u"]), one("silu")),
    "silu as it is written": (lambda p, x: (h := x @ p["u"]) * scipy.special.expit(h), one("silu")),
    "silu by exp": (lambda p, x: (h := x @ p["u"]) / (1 + np.exp(-h)), one("silu")),
    "a gate": (lambda p, x: nn.sigmoid(x @ p["u"]) * np.tanh(x @ p["w"][:, :12]), one("sigmoid") | TANH),
    "attention of nn": (lambda p, x: attended(p, x), one("attention")),
    "causal attention of nn": (lambda p, x: attended(p, x, causal=True), CAUSAL),
    **{
        f"{name} under a mask": (lambda p, x, m=m: attended(p, x + 0 * m.sum(), mask=m), MASKED)
        for name, m in MASKS.items()
    },
    "causal attention with a mask": (
        lambda p, x: attended(p, x, mask=MASKS["keys"], causal=True),
        one("masked_causal_attention"),
    ),
    "a mask of numbers": (lambda p, x: attended(p, x, mask=np.log(MASKS["all"] + 0.1).astype(x.dtype)), MASKED),
    "a mask of the batch": (lambda p, x: attended(p, x, mask=(x[:, None, None, :, 0] > 0) | SEEN), MASKED),
    "a mask of the batch that hides all": (lambda p, x: attended(p, x, mask=x[:, None, :, :6] > 0.5), MASKED),
    "numbers of the batch": (lambda p, x: attended(p, x, mask=np.log(np.abs(x[:, None, :, :6]))), MASKED),
    "numbers that are trained": (lambda p, x: attended(p, x, mask=p["u"][:6, :6]), {}),
    "few heads of keys": (lambda p, x: attended(p, x, heads=(3, 1)), one("attention")),
    "few heads of keys, causal": (lambda p, x: attended(p, x, heads=(3, 1), causal=True), CAUSAL),
    "few heads of keys, masked": (lambda p, x: attended(p, x, heads=(3, 1), mask=MASKS["heads"]), MASKED),
    "causal attention by a negative factor": (lambda p, x: attended(p, x, causal=True, scale=-0.4), {}),
    "attention of a sequence": (lambda p, x: attended(p, x, dims=3, causal=True), CAUSAL),
    "attention of batches of batches": (lambda p, x: attended(p, x, dims=5, mask=MASKS["all"]), MASKED),
    "attention with rotary positions": (rotated, CAUSAL),
    "attention of groups": (grouped, one("attention")),
    "few keys": (lambda p, x: crossed(p, x), one("attention")),
    "few keys, causal": (lambda p, x: crossed(p, x, causal=True), CAUSAL),
    "few keys, masked": (lambda p, x: crossed(p, x, mask=MASKS["all"][..., :4]), MASKED),
    "another mask": (lambda p, x: attention(p, x, SEEN | np.eye(6, k=1, dtype=bool)), MASKED),
    "a mask of the batch without a guard": (lambda p, x: attention(p, x, (x[:, None, :, :6] > 0) | SEEN), {}),
    "another factor": (lambda p, x: gelu(x @ p["u"], 0.04), TANH),
    "another norm": (lambda p, x: (h := x @ p["u"]) / np.sqrt((h * h).mean(-1, keepdims=True) + 1) * p["gain"], {}),
    "a norm of all numbers": (lambda p, x: ((h := x @ p["u"]) - h.mean()) / np.sqrt(h.var() + 1), {}),
    "a norm of one row": (lambda p, x: normed(x.reshape(-1, 12)[:1] @ p["u"], p), LAYER_NORM),
    "a loop": (looped(mixed), LAYER_NORM | CAUSAL | GELU),
    "a loop that runs backwards": (looped(mixed, reverse=True), LAYER_NORM | CAUSAL | GELU),
    "gates in a loop": (looped(gated), one("sigmoid") | TANH),
    "norms of groups in a loop": (
        looped(lambda p, h: nn.group_norm(h.reshape(6, 4, 3), 2, p["gain"][:4], p["bias"][:4]).reshape(6, 12)),
        GROUP_NORM,
    ),
    "a loop in a loop": (twice_looped, GELU),
    "a loop that keeps its carries alone": (
        looped(lambda p, h: np.sin(normed(h, p) / 3), ws.checkpoint),
        LAYER_NORM,
    ),
    "a branch": (chosen, LAYER_NORM),
    "half precision": (lambda p, x: gelu((x @ p["u"]).astype(np.float16)).astype(x.dtype), {}),
}


WORDS = {
    "layer_norm": "native_layer_norm",
    "batch_norm": "native_batch_norm",
    "group_norm": "native_group_norm",
    "gelu": "gelu",
    "gelu_tanh": "gelu",
}
WORDS |= {"silu": "silu", "sigmoid": "sigmoid", "tanh": "tanh"}
WORDS |= {f"{label}_gradients": f"{word}_backward" for label, word in WORDS.items()} | {"sigmoid": "expit"}
WORDS |= {"group_norm": "normed_groups", "group_norm_gradients": "normed_groups_gradients"}
for kind in ("", "causal_", "masked_", "masked_causal_"):
    WORDS |= {f"{kind}attention": "mixed_values", f"{kind}attention_gradients": "attention_gradients"}
"""The names of the functions in files for PyTorch."""


def loss_of(f: Any) -> Any:
    return lambda p, x: np.mean((f(p, x) - 0.3) ** 2)


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found_means_the_same(name: str) -> None:
    f, wanted = FOUND[name]
    graph = ws.trace(ws.value_and_grad(loss_of(f)))(PARAMS, X)
    made = fused_functions(channels_last(export_core(graph, TORCH), TORCH.has_convolution))
    labels = [node.params["label"] for each in made.family() for node in each.nodes if node.op.name == "composite"]
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
    step, module, _ = exported(loss_of(f), params, ws.optim.adam(1e-3), X.astype(dtype), tmp_path, **options)
    text = program_text(tmp_path)
    for label, count in wanted.items():
        assert len(re.findall(rf"\b{WORDS[label]}\(", text)) == count
    check_trains(step, module, [X.astype(dtype)] * 4, tmp_path)


def program_text(folder: Path) -> str:
    """The text of a step's file after the functions that all files have."""
    text = (folder / "step.py").read_text(encoding="utf-8")
    return re.split(r"\ndef (?:part1|part2|step_program)\(", text, maxsplit=1)[1]


def test_parts_of_a_batch_call_them_too(tmp_path: Path) -> None:
    f, wanted = FOUND["a block"]
    step, module, _ = exported(loss_of(f), PARAMS, ws.optim.adam(1e-3), np.concatenate([X, X]), tmp_path, microbatch=2)
    text = program_text(tmp_path)
    assert "scan_rows(" in text
    assert {label: len(re.findall(rf"\b{WORDS[label]}\(", text)) for label in wanted} == wanted
    check_trains(step, module, [np.concatenate([X, X])] * 4, tmp_path)


def stacked_bytes(graph: Any) -> int:
    """The bytes of the stacked results of a graph's loops."""
    loops = [node for node in graph.nodes if node.op.name == "scan"]
    return sum(v.type.nbytes for node in loops for v in node.outputs[node.params["sizes"][1] :])


def test_a_loop_hands_its_derivative_no_more_than_that_reads() -> None:
    for body, share in ((gated, 1.0), (lambda p, h: gelu(h), 0.8), (lambda p, h: normed(h, p), 1.2)):
        graph = export_core(ws.trace(ws.value_and_grad(loss_of(looped(body))))(PARAMS, X), TORCH)
        made = fused_functions(graph)
        assert made is not graph and stacked_bytes(made) <= share * stacked_bytes(graph)


def test_a_checkpointed_loop_keeps_as_little_as_before() -> None:
    graph = export_core(ws.trace(ws.value_and_grad(loss_of(looped(mixed, ws.checkpoint))))(PARAMS, X), TORCH)
    assert stacked_bytes(fused_functions(graph)) == stacked_bytes(graph)


def test_derivatives_of_derivatives_of_a_loop_mean_the_same() -> None:
    def twice(p: Any, x: Any) -> Any:
        return np.sum(ws.grad(loss_of(looped(mixed)))(p, x)["u"] ** 2)

    graph = ws.trace(ws.value_and_grad(twice))(PARAMS, X)
    made, arrays = fused_functions(export_core(graph, TORCH)), [*[PARAMS[key] for key in sorted(PARAMS)], X]
    for x, y in zip(interpret(made, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-11)


COMPILED = """two norms|a norm without a gain|a norm of images|a norm of groups of images|gelu by erf
gelu|silu|a gate|attention of nn
causal attention with a mask|a mask of the batch that hides all|few heads of keys, causal
attention with rotary positions|norms of groups in a loop""".replace("\n", "|").split("|")
"""The cases that are compiled together as one step, since a compilation takes long."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_a_compiled_step_calls_them_too(tmp_path: Path, monkeypatch: Any) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")

    def loss(p: Any, x: Any) -> Any:
        return sum(loss_of(FOUND[name][0])(p, x) for name in COMPILED)

    step, module, text = exported(loss, PARAMS, ws.optim.adam(1e-3), X, tmp_path)
    assert "TENSOR_MAKERS[1]" in text, "two arrays are held, which once were one constant for torch.compile"
    monkeypatch.setitem(sys.modules, module.__name__, module)  # as an import leaves it
    module.step = torch.compile(module.step, fullgraph=True, dynamic=False, backend="aot_eager")
    check_trains(step, module, [X] * 20, tmp_path)


@pytest.mark.parametrize("mask", [None, *MASKS])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_by_formula_is_that_of_the_library(
    heads: int, causal: bool, mask: str | None, tmp_path: Path
) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    step = ws.compile(loss_of(attention), PARAMS, optimizer=ws.optim.adam(1e-3), batch=X, allow_unused=True)
    module = imported(step.export(tmp_path / "step.py", to="torch")[0])
    q, k, v, g = torch.tensor(RNG.normal(size=(4, 2, 3, 6, 4)))
    k, v = k[:, :heads], v[:, :heads]
    shown = (
        None if mask is None else torch.tensor(MASKS[mask].reshape((1,) * (4 - MASKS[mask].ndim) + MASKS[mask].shape))
    )
    out, lse = module.mixed_values(q, k, v, shown, 0.3, causal)
    wide = module.for_each_query(k, q), module.for_each_query(v, q)
    for x, y in zip(module.mixed_by_formula(q, *wide, shown, 0.3, causal), (out, lse), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
    wanted = module.attention_gradients(q, k, v, shown, out, lse, g, 0.3, causal)
    found = module.attention_gradients_by_formula(q, *wide, shown, out, lse, g, 0.3, causal)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x.reshape(2, -1, 3 // y.shape[1], 6, 4).sum(2), y, rtol=1e-12, atol=1e-12)
