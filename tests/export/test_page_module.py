"""ES modules of a step: their use by a program in JavaScript, against the step in Python."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ParameterError
from wholestep_tools.browser import CHROMIUM, MISSING, Chromium, Tab, served

Array = np.ndarray[Any, Any]
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
Import = Callable[..., Tab]


def loss(params: Any, batch: Any) -> Any:
    found = ws.capture("found", np.tanh(batch["x"] @ params["w"]))
    return np.mean((found - params["table"][batch["label"]]) ** 2)


def scores(params: Any, x: Any) -> Any:
    return x @ params["w"]


def made() -> tuple[Any, dict[str, Array]]:
    """A step, and rows for it."""
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(20, 3)).astype("f"), "label": (np.arange(20) % 5).astype(np.int64)}
    params = {"w": np.full(3, 0.5, "f"), "table": np.linspace(-1, 1, 5, dtype="f")}
    batch = {k: v[:8] for k, v in data.items()}
    return ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch, captures="found"), data


def exported(step: Any, path: Path, **options: Any) -> tuple[Path, ...]:
    """The files of a step with a function beside it."""
    attached = step.attach(scores, batch=ws.ShapeDtype((2, 3), np.float32))
    files: tuple[Path, ...] = step.export(path, attach={"scores": attached}, **options)
    return files


@pytest.fixture
def imported(browser: Chromium, tmp_path: Path) -> Iterator[Import]:
    """Import a module in a page, where its training is `model`."""
    tabs: list[Tab] = []
    with served(tmp_path) as address:

        def open_module(step: Any, **options: Any) -> Tab:
            exported(step, tmp_path / "train.mjs", **options)
            script = 'import { create } from "./train.mjs"; create().then((x) => { globalThis.model = x; });'
            (tmp_path / "page.html").write_text(f'<script type="module">{script}</script>')
            tabs.append(browser.tab(f"{address}/page.html"))
            tabs[-1].wait("globalThis.model !== undefined")
            return tabs[-1]

        yield open_module
        for tab in tabs:
            tab.close()


def batch_text(batch: dict[str, Array]) -> str:
    """A batch as an expression."""
    kinds = {"float32": ("Float32Array", ""), "int64": ("BigInt64Array", "n")}
    parts = []
    for name, x in batch.items():
        kind, suffix = kinds[x.dtype.name]
        parts.append(f'"batch.{name}": {kind}.of({", ".join([f"{y}{suffix}" for y in x.ravel().tolist()])})')
    return "{" + ", ".join(parts) + "}"


BYTES = "let text = ''; for (const b of file) text += String.fromCharCode(b); return btoa(text);"


def saved(tab: Tab, path: Path) -> Path:
    """The state that the module gives, as a file."""
    path.write_bytes(base64.b64decode(tab.evaluate(f"model.save().then((file) => {{ {BYTES} }})")))
    return path


@needs_browser
def test_a_module_trains_on_batches_as_the_step_does(imported: Import, tmp_path: Path) -> None:
    step, data = made()
    tab = imported(step)
    for i in range(4):
        batch = {k: v[4 * i : 4 * i + 8] for k, v in data.items()}
        said = f"model.step({batch_text(batch)}).then((x) => [x.loss, x.finite, ...x.captures['captures.found']])"
        found, wanted = tab.evaluate(said), step(batch)
        assert found[1] is True
        np.testing.assert_allclose(found[0], wanted.loss, rtol=1e-5)
        np.testing.assert_allclose(found[2:], wanted.captures["found"], rtol=1e-5, atol=1e-6)
    params = {k: np.array(v) for k, v in step.params.items()}
    assert step.load(saved(tab, tmp_path / "a.safetensors")).missing == () and step.steps == 4
    np.testing.assert_allclose(step.params["w"], params["w"], rtol=1e-5)
    x = np.arange(6, dtype="f").reshape(2, 3)
    call = f"model.call('scores', {{batch: Float32Array.of({', '.join(map(str, x.ravel()))})}})"
    np.testing.assert_allclose(tab.evaluate(call + ".then((x) => [...x.output])"), x @ step.params["w"], rtol=1e-5)


@needs_browser
def test_a_module_runs_over_what_it_is_given(imported: Import, tmp_path: Path) -> None:
    step, data = made()
    tab = imported(step)
    assert "There is no data" in tab.evaluate(
        "(() => { try { model.run(1) } catch (error) { return error.message } })()"
    )
    tab.evaluate(f"model.give({batch_text(data)})")
    found = tab.evaluate("Promise.all([model.run(3), model.run(2)]).then((x) => x.flatMap((y) => y.losses))")
    np.testing.assert_allclose(found, step.run(data, epochs=3, drop_last=True).losses[:5], rtol=1e-5)
    tab.evaluate("model.reset()")
    assert tab.evaluate("model.run(5).then((x) => x.losses)") == found
    step.save(tmp_path / "python.safetensors")
    tab.evaluate("fetch('python.safetensors').then((x) => x.arrayBuffer()).then((x) => model.load(x))")
    wanted = step.run(data, drop_last=True).losses
    np.testing.assert_allclose(tab.evaluate("model.run(2).then((x) => x.losses)"), wanted, rtol=1e-5)


@needs_browser
def test_data_may_lie_in_the_module_and_hyper_parameters_change(imported: Import) -> None:
    step, data = made()
    tab = imported(step, data=data, shuffle=False)
    tab.evaluate("model.run(2)")
    tab.evaluate("model.set({ lr: 0.05 })")
    found = tab.evaluate("model.run(4).then((x) => x.losses)")
    step.run(data, drop_last=True, shuffle=False)
    step.set(lr=0.05)
    np.testing.assert_allclose(found, step.run(data, epochs=2, drop_last=True, shuffle=False).losses, rtol=1e-5)


@needs_browser
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("model.step({})", "batch.label: BigInt64Array of 8 is wanted, not undefined."),
        ("model.step({'batch.label': new BigInt64Array(8), 'batch.x': new Float64Array(24)})", "batch.x: Float32Array"),
        ("model.step({'batch.label': new BigInt64Array(8), 'batch.x': new Float32Array(23)})", "not one of 23"),
        ("model.step({'batch.label': new BigInt64Array(8), 'batch.x': new Float32Array(24), z: 1})", "no input z"),
        (
            "model.step({'batch.label': new BigInt64Array(8).fill(9n), 'batch.x': new Float32Array(24)})",
            "index 9 is out",
        ),
        ("model.give({'batch.label': new BigInt64Array(9), 'batch.x': new Float32Array(24)})", "not 9 and 8"),
        ("model.give({'batch.label': new BigInt64Array(7), 'batch.x': new Float32Array(21)})", "at least 8"),
        ("model.call('other', {})", "no function other; there is scores"),
        ("model.set({ rate: 1 })", "no hyper-parameter rate; there is b1, b2, eps, lr"),
        ("model.set({ lr: '1' })", "is a number"),
        ("model.load(new Uint8Array(100))", "no checkpoint of this step"),
    ],
)
def test_what_a_module_refuses(imported: Import, call: str, said: str) -> None:
    step, data = made()
    tab = imported(step, data=data, shuffle=False)
    assert said in tab.evaluate(f"{call}.then(() => '', (error) => error.message)")
    wanted = step.run(data, drop_last=True, shuffle=False).losses
    np.testing.assert_allclose(tab.evaluate("model.run(2).then((x) => x.losses)"), wanted, rtol=1e-5)


@needs_browser
def test_the_types_name_what_the_module_has(imported: Import, tmp_path: Path) -> None:
    tab = imported(made()[0])
    text = (tmp_path / "train.d.mts").read_text()
    methods = re.findall(r"^  (\w+)[<(]", text.partition("class Training {")[2], re.M)
    assert set(methods) == {"step", "run", "give", "call", "set", "reset", "save", "load", "destroy"}
    assert all(tab.evaluate(f"{json.dumps(methods)}.map((name) => typeof model[name] === 'function')"))
    assert all([field in text for field in ("loss: number", "finite: boolean", "losses: number[]", "failed: string")])


def test_the_types_of_a_module_as_text(tmp_path: Path, golden: Any) -> None:
    files = exported(made()[0], tmp_path / "train.mjs")
    assert [file.name for file in files] == ["train.mjs", "train.d.mts"]
    golden(files[1].read_text())


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here: packages are not installed")
def test_npm_takes_a_package(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no name of a package"):
        made()[0].export(tmp_path / "Own Name", to="npm")
    files = exported(made()[0], tmp_path / "own-step", to="npm")
    assert [file.name for file in files] == ["index.mjs", "index.d.mts", "package.json"]
    (tmp_path / "user").mkdir()
    npm = [str(shutil.which("npm")), "install", "--offline", "--no-audit", "--no-fund", str(tmp_path / "own-step")]
    subprocess.run(npm, cwd=tmp_path / "user", check=True, capture_output=True)
    script = 'import("own-step").then(({ create }) => create()).catch((error) => console.log(error.message))'
    run = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(run, cwd=tmp_path / "user", check=True, capture_output=True, text=True)
    assert "no WebGPU" in done.stdout
