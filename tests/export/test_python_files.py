"""Exported Python files: they train as the step does, and their trained state is loaded back."""

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.special

import wholestep as ws
from wholestep import tree
from wholestep.errors import ArgumentError, ParameterError, UnsupportedError
from wholestep_tools.audit.trainings.small_steps import OPTIMIZERS, STEPS, dense


def imported(path: Path) -> ModuleType:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def predict(p: Any, batch: Any) -> Any:
    return {"scores": batch["x"] @ p["w"]}


def library(target: str) -> Any:
    """The function that makes an array of a target's library; skips where that is not installed."""
    module = pytest.importorskip(target, reason=f"{target} is an outside oracle; not installed")
    return module.tensor if target == "torch" else np.asarray


def check_trains_alike(target: str, step: Any, batch: Any, folder: Path, count: int = 20) -> None:
    """Train here and in the exported file from one state, load the state of the file, and go on here."""
    array = library(target)
    step(batch)
    files = step.export(folder / "step.py", to=target)
    assert [file.name for file in files] == ["step.py", "step.safetensors"]
    module = imported(files[0])
    given = {path: array(x) for path, x in zip(tree.paths(batch, "batch"), tree.leaves(batch), strict=True)}
    state = module.load(files[1])
    for _ in range(count):
        ours = step(batch).loss
        state, results = module.step(state, given)
        assert float(results["loss"]) == pytest.approx(float(ours), rel=1e-5) and bool(results["finite"])
    want = step.state
    module.save(files[1], state, like=files[1])
    step.load(files[1])
    assert step.steps == count + 1
    for path, x, y in zip(tree.paths(want), tree.leaves(step.state), tree.leaves(want), strict=True):
        if np.asarray(y).dtype.kind == "f":
            np.testing.assert_allclose(x, y, rtol=1e-3, atol=2e-5, err_msg=path)
        else:
            np.testing.assert_array_equal(x, y, err_msg=path)
    assert np.isfinite(float(step(batch).loss))


CASES = [(target, name) for target in ("numpy", "torch", "tensorflow") for name in STEPS] + [("jax", "line")]


@pytest.mark.parametrize(("target", "name"), CASES)
def test_a_file_trains_as_the_step_and_is_loaded_back(target: str, name: str, tmp_path: Path, request: Any) -> None:
    if target == "jax":
        request.getfixturevalue("jax")
    check_trains_alike(target, *STEPS[name](), tmp_path)


@pytest.mark.parametrize("target", ["numpy", "torch", "tensorflow", "jax"])
def test_a_file_has_the_functions_that_it_uses_and_no_others(target: str, tmp_path: Path) -> None:
    source = STEPS["line"]()[0].export(tmp_path / "step.py", to=target)[0].read_text()
    nodes = list(ast.walk(ast.parse(source)))
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert made - read == {"load", "save", "step"}


@pytest.mark.parametrize("target", ["numpy", "torch", "tensorflow"])
def test_a_file_takes_any_number_of_rows(target: str, tmp_path: Path) -> None:
    array, rng = library(target), np.random.default_rng(0)

    def loss(p: Any, batch: Any) -> Any:
        h = np.tanh(batch["x"] @ p["w"])
        noise = ws.random.normal(ws.random.key(0), h.shape)  # from a key, which has no axis of this size
        return ws.nn.cross_entropy(h + 0.1 * noise, batch["y"])

    rows = ws.Dim("np")  # a name that the file has itself
    types = {"x": ws.ShapeDtype((rows, 4), "float32"), "y": ws.ShapeDtype((rows,), "int64")}
    p = {"w": rng.normal(size=(4, 3)).astype(np.float32)}
    step = ws.compile(loss, p, optimizer=ws.optim.adam(0.1), batch=types)
    files = step.export(tmp_path / "step.py", to=target)
    module = imported(files[0])
    state = module.load(files[1])
    for count in (3, 1, 8):
        batch = {"x": rng.normal(size=(count, 4)).astype(np.float32), "y": rng.integers(0, 3, count)}
        state, results = module.step(state, {f"batch.{name}": array(x) for name, x in batch.items()})
        assert float(results["loss"]) == pytest.approx(float(step(batch).loss), rel=1e-5)


def test_a_norm_over_any_number_of_rows_is_written_for_torch(tmp_path: Path) -> None:
    model = ws.nn.Sequential(ws.nn.BatchNorm(4), key=0)
    rows = ws.ShapeDtype((ws.Dim("B"), 4), "float32")
    step = ws.compile(lambda m, x: np.mean(m(x) ** 2), model, optimizer=ws.optim.sgd(0.1), batch=rows)
    assert "n0 = x9.shape[0]" in step.export(tmp_path / "step.py", to="torch")[0].read_text()


def test_a_size_that_no_axis_has_is_refused(tmp_path: Path) -> None:
    step = ws.compile(
        lambda p, x: np.sum(p * np.mean(x)),
        np.ones(3),
        optimizer=ws.optim.sgd(0.1),
        batch=ws.ShapeDtype((2 * ws.Dim("B"),), "float64"),
    )
    with pytest.raises(UnsupportedError, match=r"no axis of the inputs of .* has one of its sizes"):
        step.export(tmp_path / "step.py", to="numpy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_is_in_the_file(name: str, tmp_path: Path) -> None:
    check_trains_alike("numpy", *dense(OPTIMIZERS[name]()), tmp_path)


def test_a_file_of_torch_is_compiled_whole(tmp_path: Path, monkeypatch: Any) -> None:
    """A device context, or a device given by name, would break the graph."""
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    rng = np.random.default_rng(0)
    held, batch = rng.normal(size=(3, 4)), {"x": rng.normal(size=(5, 3))}
    loss = lambda p, batch: np.mean(np.tanh(batch["x"] @ held * p) ** 2)  # noqa: E731
    step = ws.compile(loss, np.ones(4), optimizer=ws.optim.adam(0.1), batch=batch)
    files = step.export(tmp_path / "whole.py", to="torch")
    module = imported(files[0])
    given = {f"batch.{name}": torch.tensor(x) for name, x in batch.items()}
    monkeypatch.setitem(sys.modules, module.__name__, module)  # as an import leaves it
    run = torch.compile(module.step, fullgraph=True, backend="eager")
    _, results = run(module.load(files[1]), given)
    assert float(results["loss"]) == pytest.approx(float(step(batch).loss), rel=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_rows_that_torch_compile_adds_up_are_added_in_memory(tmp_path: Path, monkeypatch: Any) -> None:
    """TorchInductor added to an array of strides 0 as if it were contiguous: an error, or wrong numbers."""
    rng = np.random.default_rng(0)
    rows, batch = rng.normal(size=(50, 32)).astype("f"), rng.integers(0, 50, (4, 16))
    step = ws.compile(lambda p, i: np.mean(np.tanh(p[i]) ** 2), rows, optimizer=ws.optim.sgd(1.0), batch=batch)
    files = step.export(tmp_path / "rows.py", to="torch")
    (scatter,) = [x for x in files[0].read_text(encoding="utf-8").splitlines() if ".index_put" in x]
    assert ".clone(memory_format=torch.contiguous_format).index_put_(" in scatter
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    module = imported(files[0])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    state, _ = torch.compile(module.step, fullgraph=True)(module.load(files[1]), {"batch": torch.tensor(batch)})
    step(batch)
    np.testing.assert_allclose(state["params"], step.params, rtol=1e-5)


def guarded(rate: float) -> tuple[Any, Any]:
    """A step whose second call overflows at a large rate, and is then skipped."""
    batch = np.array([1e3, 2.0], np.float32)
    loss = lambda p, x: np.mean((p["w"] * x) ** 4)  # noqa: E731
    p = {"w": np.array([1.0, 2.0], np.float32)}
    return ws.compile(loss, p, optimizer=ws.optim.adam(rate), batch=batch), batch


@pytest.mark.parametrize("rate", [1e-3, 1e9])
def test_an_update_in_jax_is_a_choice_and_no_branch(rate: float, tmp_path: Path, jax: Any) -> None:
    """A branch would make XLA copy the whole state."""
    step, batch = guarded(rate)
    files = step.export(tmp_path / "step.py", to="jax")
    assert "lax.switch" not in files[0].read_text(encoding="utf-8")
    module = imported(files[0])
    state = module.load(files[1])
    skipped = 0
    for _ in range(4):
        ours = step(batch)
        state, results = module.step(state, {"batch": batch})
        assert bool(results["finite"]) == bool(ours.finite)
        skipped += not ours.finite
        np.testing.assert_allclose(state["params.w"], step.params["w"], rtol=1e-6)
    assert (skipped > 0) == (rate > 1)


@pytest.mark.parametrize("target", ["numpy", "torch", "tensorflow"])
def test_functions_on_the_state_are_in_the_file(target: str, tmp_path: Path) -> None:
    array = library(target)
    step, batch = dense()
    files = step.export(tmp_path / "step.py", to=target, attach={"predict": predict})
    module = imported(files[0])
    given = {f"batch.{name}": array(x) for name, x in batch.items()}
    scores = module.predict(module.load(files[1]), given)["output.scores"]
    np.testing.assert_allclose(scores, step.attach(predict)(batch)["scores"], rtol=1e-4, atol=1e-5)


def test_a_state_whose_complex_parts_lie_apart_is_saved(tmp_path: Path) -> None:
    """ONNX and LiteRT hand such states back."""
    w, x = np.arange(4) * (1 + 2j), np.ones((3, 4))
    step = ws.compile(lambda w, x: np.mean(np.abs(x @ w) ** 2), w, optimizer=ws.optim.sgd(1e-2, momentum=0.9), batch=x)
    step(x)
    files = step.export(tmp_path / "step.py", to="numpy")
    module = imported(files[0])
    state = {
        path: np.stack([a.real, a.imag], -1) if np.iscomplexobj(a) else a for path, a in module.load(files[1]).items()
    }
    module.save(tmp_path / "after.safetensors", state, like=files[1])
    before = step.params
    step.reset()
    step.load(tmp_path / "after.safetensors")
    np.testing.assert_array_equal(step.params, before)


@pytest.mark.parametrize("target", ["numpy", "jax", "torch", "tensorflow"])
def test_a_function_without_state_is_a_file(target: str, tmp_path: Path) -> None:
    pytest.importorskip(target, reason=f"{target} is an outside oracle; not installed")

    def weighted(p: Any, x: Any) -> Any:
        sizes = np.mean(x) - x / x.size + x * (x.shape[0] + 1) + (2 * x.shape[0] - x) * x.size
        return {"sum": np.sum(np.tanh(x @ p["w"])), "rows": scipy.special.expit(x), "sizes": sizes}

    p, x = {"w": np.linspace(-1, 1, 6).reshape(3, 2)}, np.linspace(-2, 2, 12).reshape(4, 3)
    (path,) = ws.to_file(
        weighted, tmp_path / "weighted.py", p, ws.ShapeDtype((ws.Dim("rows"), 3), "float64"), to=target
    )
    module, array = imported(path), library(target)
    assert not hasattr(module, "load")
    found = module.weighted({"p.w": array(p["w"]), "x": array(x)})
    want = weighted(p, x)
    assert sorted(found) == ["output.rows", "output.sizes", "output.sum"]
    for name, wanted in want.items():
        np.testing.assert_allclose(found[f"output.{name}"], wanted, rtol=1e-13, err_msg=name)


def test_a_function_in_a_file_of_torch_is_differentiated(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is an outside oracle; not installed")
    (path,) = ws.to_file(lambda x: np.sum(np.sin(x) * x), tmp_path / "f.py", np.ones(3), to="torch")
    x = torch.linspace(0, 1, 3, dtype=torch.float64, requires_grad=True)
    imported(path).program({"x": x})["output"].backward()
    wanted = torch.cos(x) * x + torch.sin(x)
    np.testing.assert_allclose(x.grad.numpy(), wanted.detach().numpy(), rtol=1e-14)


def test_numbers_beside_truth_values_are_truth_values_in_a_file(tmp_path: Path) -> None:
    def truths(x: Any) -> Any:
        return np.logical_xor(x, 2), np.logical_and(x, 0.5)

    x = np.array([True, False])
    (file,) = ws.to_file(truths, tmp_path / "truths.py", x, to="numpy")
    found = imported(file).truths({"x": x})
    for got, want in zip(found.values(), truths(x), strict=True):
        assert got.dtype == bool
        np.testing.assert_array_equal(got, want)


def test_a_name_that_the_file_uses_itself_is_refused_or_replaced(tmp_path: Path) -> None:
    step, _ = dense()
    for name in ("zip", "load", "step", "np", "lambda"):
        with pytest.raises(UnsupportedError, match=rf"(?s)named {name} would hide.*another name"):
            step.export(tmp_path / "step.py", to="numpy", attach={name: predict})

    def load(x: Any) -> Any:
        return x * 2.0

    (path,) = ws.to_file(load, tmp_path / "f.py", np.ones(3), to="numpy")
    np.testing.assert_array_equal(imported(path).program({"x": np.arange(3.0)})["output"], [0.0, 2.0, 4.0])


def test_an_export_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    step, _ = dense()
    with pytest.raises(ParameterError, match="there is no target 'cobol'"):
        step.export(tmp_path / "a", to="cobol")
    with pytest.raises(ParameterError, match="may be for jax"):
        step.export(tmp_path / "a.py")


def test_everything_that_is_missing_is_named_at_once_with_its_line(tmp_path: Path) -> None:
    def odd(p: Any, x: Any) -> Any:
        return np.sum(scipy.special.gammainc(p * x, 1.0)) + np.sum(scipy.special.gammainc(p, x))

    step = ws.compile(odd, np.ones(4), optimizer=ws.optim.sgd(0.1), batch=np.arange(4.0))
    with pytest.raises(
        UnsupportedError, match=r"(?s)1 operation has no words there.*gammainc_order\(f64\[4\], .* at .*"
    ):
        step.export(tmp_path / "a.py", to="jax")
    assert not list(tmp_path.iterdir())


def test_a_file_refuses_arrays_unlike_those_it_was_written_for(tmp_path: Path) -> None:
    x = np.ones((4, 3))
    ws.to_file(lambda x: np.mean(x), tmp_path / "fixed.py", x, to="numpy")
    fixed = imported(tmp_path / "fixed.py").program
    assert fixed({"x": x})["output"] == 1
    with pytest.raises(ValueError, match=r"x has the shape \(8, 3\), and the program was written for \(4, 3\)"):
        fixed({"x": np.ones((8, 3))})
    with pytest.raises(ValueError, match="x has the dtype int64, and the program was written for float64"):
        fixed({"x": np.ones((4, 3), np.int64)})
    rows = ws.Dim("B")
    examples = [ws.ShapeDtype((rows, 3), "float64"), ws.ShapeDtype((rows,), "float64")]
    ws.to_file(lambda x, y: np.mean(x.sum(1) * y), tmp_path / "free.py", *examples, to="numpy")
    free = imported(tmp_path / "free.py").program
    assert free({"x": np.ones((8, 3)), "y": np.ones(8)})["output"] == 3
    with pytest.raises(ValueError, match=r"y has the shape \(1,\)"):
        free({"x": np.ones((8, 3)), "y": np.ones(1)})


def test_functions_of_the_state_alone_are_called_without_a_batch(tmp_path: Path) -> None:
    step, _ = dense()
    double = step.attach(lambda p: p["w"] * 2)
    files = step.export(tmp_path / "step.py", to="numpy", attach={"double": double, "half": lambda p: p["w"] / 2})
    module = imported(files[0])
    state = module.load(files[1])
    for name, factor in (("double", 2), ("half", 0.5)):
        np.testing.assert_array_equal(
            getattr(module, name)(state, {})["output"], state["params.w"] * np.float32(factor)
        )


def test_what_is_no_function_beside_a_step_or_no_file_of_it_is_refused(tmp_path: Path) -> None:
    step, _ = dense()
    for attach, said in ((predict, "functions have names there"), ({"predict": 3}, "an int under predict")):
        with pytest.raises(ParameterError, match=said):
            step.export(tmp_path / "step.py", to="numpy", attach=attach)
    with pytest.raises(ParameterError, match=r"step.safetensors is where the state goes"):
        step.export(tmp_path / "step.safetensors", to="numpy")
    with pytest.raises(ArgumentError, match=r"to_file: 0 examples for predict\(p: .*, batch: .*missing"):
        ws.to_file(predict, tmp_path / "predict.c")
