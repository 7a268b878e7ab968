"""`wholestep bench models`: every model of real size, made small, has the same loss and gradients in all libraries."""

import importlib
import json

import numpy as np
import pytest

import wholestep as ws
from wholestep.cli import main
from wholestep_tools.bench import spec, workloads
from wholestep_tools.bench.peers.on_wholestep import WholestepOperations
from wholestep_tools.bench.real.catalog import REAL, Real
from wholestep_tools.bench.real.convolutional import MobileNet, ResNet18, UNet, WaveNet
from wholestep_tools.bench.real.others import GaussianProcess, LogisticRegression, RecurrentLanguageModel, WideLayers
from wholestep_tools.bench.real.tables import Clicks
from wholestep_tools.bench.real.transformers import LanguageModel, LongBlock, VisionTransformer
from wholestep_tools.bench.runner import Row

SMALL = [
    LanguageModel(12, 3, 2, 11, 6, 2),
    LanguageModel(12, 3, 1, 11, 6, 2, tied=True),
    VisionTransformer(1, 12, 3, 1, 5),
    LongBlock(10, 8, 2),
    ResNet18(16, 2, 3),
    ResNet18(64, 4, 3),
    MobileNet(16, 2, 3, ((32, 40, 1), (40, 512, 2))),
    UNet(8, 1, 2),
    WaveNet(16, 2, 3, 2),
    WideLayers(8, 2, 3),
    RecurrentLanguageModel(8, 4, 2, 11),
    LogisticRegression(50, 5),
    GaussianProcess(20, 2),
    Clicks(30, 3, 2, 7, 5),
]
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options under which XLA compiles in a fraction of the time."""


def drawn(model):
    """Parameters and batch of a model."""
    rng = np.random.default_rng(3)
    return model.parameters(rng), model.batch(rng)


def ours(model):
    """Loss and gradients in Wholestep."""
    on = WholestepOperations()
    params, batch = drawn(model)
    return ws.value_and_grad(lambda p: model.loss(on, p, batch))(params)


def in_jax(model):
    """Loss and gradients in JAX, the gradients of kernels in the axes of the others."""
    jax = pytest.importorskip("jax")
    on = importlib.import_module("wholestep_tools.bench.peers.on_jax").JaxOperations()
    with jax.enable_x64(isinstance(model, GaussianProcess)):
        params, batch = on.prepared(*drawn(model))
        compiled = jax.jit(jax.value_and_grad(lambda p: model.loss(on, p, batch))).lower(params)
        loss, gradient = compiled.compile(compiler_options=FAST)(params)
        found = {name: np.asarray(g) for name, g in gradient.items()}
    return loss, {name: g.transpose(3, 2, 0, 1) if g.ndim == 4 else g for name, g in found.items()}


def in_torch(model):
    """Loss and gradients in PyTorch."""
    pytest.importorskip("torch")
    on = importlib.import_module("wholestep_tools.bench.peers.on_torch").TorchOperations()
    params, batch = on.prepared(*drawn(model))
    loss = model.loss(on, {name: p.requires_grad_() for name, p in params.items()}, batch)
    loss.backward()
    return loss.detach(), {name: p.grad.numpy() for name, p in params.items()}


@pytest.mark.parametrize("theirs", [in_jax, in_torch])
@pytest.mark.parametrize("model", SMALL, ids=lambda model: type(model).__name__)
def test_every_library_computes_the_same(model, theirs):
    loss, gradient = ours(model)
    other, theirs = theirs(model)
    np.testing.assert_allclose(float(loss), float(other), rtol=1e-5)
    assert gradient.keys() == theirs.keys()
    scale = max(float(np.abs(g).max()) for g in theirs.values())
    for name, g in gradient.items():
        np.testing.assert_allclose(g, theirs[name], rtol=1e-3, atol=1e-5 * scale, err_msg=name)


def test_only_the_rows_that_are_read_are_updated():
    model = Clicks(30, 3, 2, 7, 5)
    params, batch = drawn(model)
    made = ws.compile(
        lambda p, b: model.loss(WholestepOperations(), p, b),
        params,
        optimizer=ws.optim.adam(1e-2, lazy=list(model.names)),
        batch=batch,
    )
    made(batch)
    for i, name in enumerate(model.names):
        moved = np.flatnonzero((made.params[name] != params[name]).any(axis=1))
        np.testing.assert_array_equal(moved, np.unique(batch["x"][:, i]))


def test_each_kind_of_model_is_tried_small():
    assert {type(real.model) for real in REAL.values()} == {type(model) for model in SMALL}


@pytest.mark.parametrize("trained", [True, False])
def test_a_whole_run(tmp_path, capsys, monkeypatch, trained):
    name = "mlp-4096" if trained else "one-mlp"
    found = Row("wholestep", 1, "Wholestep 9", 0.5, 0.6, 0.5, 1.0, 0.2, 100.0, ((1.0,), (0.5,)), 0.0)
    monkeypatch.setattr(workloads, "run", lambda name, peers, options: [found])
    file = tmp_path / "found.json"
    options = ["--peers", "wholestep", "--workloads", name, "--rounds", "1", "--json", str(file)]
    assert main(["bench", "models", *options]) == 0
    text = capsys.readouterr().out
    assert f"{name}  {REAL[name].title}: {spec.STEP if trained else 'forward'}" in text
    assert list(json.loads(file.read_text())["workloads"]) == [name]
    assert main(["bench", "models", *[{name: "gp-1000"}.get(option, option) for option in options]]) == 0
    kept = json.loads(file.read_text())["workloads"]
    assert sorted(kept) == sorted([name, "gp-1000"]) and kept[name]["rows"][0]["least"] == 0.5


@pytest.mark.parametrize("text", ["[]", "{", '{"bench": "workloads", "workloads": {}}'])
def test_a_file_of_something_else_is_not_written_over(tmp_path, capsys, text):
    file = tmp_path / "found.json"
    file.write_text(text)
    assert main(["bench", "models", "--peers", "wholestep", "--workloads", "gp-1000", "--json", str(file)]) == 1
    assert "no record of bench models" in capsys.readouterr().err
    assert file.read_text() == text


def test_a_model_run_forward_is_its_own_function():
    model = WideLayers(8, 2, 3)
    params, batch = drawn(model)
    on = WholestepOperations()
    (found,) = Real("", model, trained=False).answer(on)(params, batch)
    np.testing.assert_array_equal(found, model.forward(on, params, batch["x"]))
