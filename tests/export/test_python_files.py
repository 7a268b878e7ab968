"""Exported Python files: they train as the step does, and what they have trained is loaded back."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ParameterError, UnsupportedError


def imported(path: Path) -> ModuleType:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loss(p: Any, batch: Any, *, key: Any) -> Any:
    h = np.maximum(batch["x"] @ p["w"] + p["b"], 0)
    h = h * (ws.random.uniform(key, h.shape) < 0.8)
    return ws.nn.cross_entropy(h @ p["v"], batch["y"])


def predict(p: Any, batch: Any) -> Any:
    return {"scores": batch["x"] @ p["w"]}


def small_step() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    sizes = {"w": (5, 8), "b": (8,), "v": (8, 3)}
    p = {name: rng.normal(size=shape).astype(np.float32) for name, shape in sizes.items()}
    batch = {"x": rng.normal(size=(16, 5)).astype(np.float32), "y": rng.integers(0, 3, 16)}
    return ws.compile(loss, p, optimizer=ws.optim.adam(1e-2), batch=batch), batch


@pytest.mark.parametrize("target", ["jax", "torch"])
def test_a_file_trains_as_the_step_and_is_loaded_back(target: str, tmp_path: Path) -> None:
    pytest.importorskip(target)
    step, batch = small_step()
    step(batch)
    files = step.export(tmp_path / "step.py", to=target, attach={"predict": predict})
    assert [file.name for file in files] == ["step.py", "step.safetensors"]
    module = imported(files[0])
    array = np.asarray if target == "jax" else importlib.import_module("torch").tensor
    given = {f"batch.{name}": array(x) for name, x in batch.items()}
    state = module.load(files[1])
    for _ in range(5):
        ours = step(batch).loss
        state, results = module.step(state, given)
        assert float(results["loss"]) == pytest.approx(ours, rel=1e-5) and bool(results["finite"])
    scores = np.asarray(module.predict(state, given)["output.scores"])
    np.testing.assert_allclose(scores, step.attach(predict)(batch)["scores"], rtol=1e-4, atol=1e-5)
    want = step.state
    module.save(files[1], state, like=files[1])
    step.load(files[1])
    assert step.steps == 6 and np.array_equal(step.state["counters"]["key"], want["counters"]["key"])
    np.testing.assert_allclose(step.params["w"], want["params"]["w"], rtol=1e-4, atol=1e-6)


def test_an_export_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    step, _ = small_step()
    with pytest.raises(ParameterError, match="there is no target 'cobol'"):
        step.export(tmp_path / "a", to="cobol")
    with pytest.raises(ParameterError, match="may be for jax"):
        step.export(tmp_path / "a.py")


def test_everything_that_is_missing_is_named_at_once_with_its_line(tmp_path: Path) -> None:
    def odd(p: Any, x: Any) -> Any:
        return np.sum(np.partition(p * x, 1)) + np.sum(np.partition(p - x, 2))

    step = ws.compile(odd, np.ones(4), optimizer=ws.optim.sgd(0.1), batch=np.arange(4.0))
    with pytest.raises(UnsupportedError, match=r"(?s)1 operation has no words there.*partition\(f64\[4\]\) at .*p - x"):
        step.export(tmp_path / "a.py", to="jax")
    assert not list(tmp_path.iterdir())
