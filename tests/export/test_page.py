"""Pages as files: their refusals, names of users that never become code, and the program of a page as text."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.export.page.files import page_text

Array = np.ndarray[Any, Any]


def trained(name: str = "w", dtype: type = np.float32) -> tuple[Any, dict[str, Array]]:
    """A small step with Adam, and its batch."""
    batch: dict[str, Array] = {"x": np.ones((8, 3), dtype), "y": np.zeros(8, dtype)}
    params: dict[str, Array] = {name: np.full(3, 0.5, dtype)}

    def loss(params: Any, batch: Any) -> Any:
        return np.mean((np.tanh(batch["x"] @ params[name]) - batch["y"]) ** 2)

    return ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch), batch


def program_of(page: Path) -> dict[str, Any]:
    """The program in a page."""
    text = page.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(
        re.findall(r'<script id="program"[^>]*>(.*?)</script>', text, flags=re.DOTALL)[0]
    )
    return found


def listing(program: dict[str, Any]) -> str:
    """The program of a page's step as text: its dispatches, the scalars that the host computes, and all addresses."""
    step = program["step"]
    lines = [f"heap {program['bytes']}, state {program['state']}, loss {program['loss']}, finite {program['finite']}"]
    lines += [f"input {x['address']}: {x['nbytes']} bytes" for x in step["inputs"]]
    lines += [f"x{i} = given {kind} at {address}, {path}" for i, (path, kind, address) in enumerate(program["given"])]
    lines += [f"h{i} = {operation}" for i, operation in enumerate(re.split("[;|]", step["code"]))]
    lines += [f"heap[{address}] = h{n}" for address, n in step["values"]]
    lines += [f"after the step x{i} = h{n}" for i, n in step["following"]]
    for entry in step["entries"]:
        kernel = f" in {program['kernels'][entry[1]]} groups and work items" if entry[0] == "launch" else ""
        lines.append(f"{entry[0]} {entry[1:]}{kernel}")
    return "\n".join([*lines, *step["sites"]]) + "\n"


def picked(params: Any, batch: Any) -> Any:
    """Rows of a table by labels, which may be out of range."""
    return np.mean(params["table"][batch["label"]] ** 2)


def test_the_program_of_a_page_as_text(tmp_path: Path, golden: Any) -> None:
    """A rate that falls in float64 is computed by the host, and momentum by the card; labels are checked first."""
    batch = {"label": np.zeros(8, np.int32)}
    optimizer = ws.optim.sgd(ws.optim.inverse_sqrt(1e-2, 4), momentum=0.9)
    step = ws.compile(picked, {"table": np.ones((5, 4), "f")}, optimizer=optimizer, batch=batch)
    (page,) = step.export(tmp_path / "train.html", data=batch)
    text = listing(program_of(page))
    golden(re.sub(r" at \S*test_page\.py:\d+", " at test_page.py:LINE", text))


def test_a_page_is_one_file_with_its_state(tmp_path: Path) -> None:
    step, batch = trained("</script><b>")
    (page,) = step.export(tmp_path / "train.html", data=batch)
    text = page.read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["train.html"]
    assert text.count("</script>") == 3, "names are data, and end no script"
    program = program_of(page)
    step.save(tmp_path / "state.safetensors")
    assert (tmp_path / "state.safetensors").read_bytes().endswith(base64.b64decode(program["start"]))
    script = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)[0]
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in text


def test_what_a_page_cannot_do_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    step, _ = trained()
    with pytest.raises(ParameterError, match="trains on data of its own"):
        step.export(tmp_path / "a.html")
    with pytest.raises(ParameterError, match="holds no data"):
        step.export(tmp_path / "a.py", to="numpy", shuffle=True)
    wide, doubles = trained(dtype=np.float64)
    with pytest.raises(UnsupportedError, match="float64"):
        wide.export(tmp_path / "a.html", data=doubles)
    assert not [*tmp_path.iterdir()]


def test_noise_is_drawn_in_a_page(tmp_path: Path) -> None:
    """Functions of scipy.special are computed by their formulas in a page, as on cards."""

    def loss(params: Any, x: Any, *, key: Any) -> Any:
        return np.mean((params["w"] * x + ws.random.normal(key, x.shape, np.float32)) ** 2)

    x = np.ones((8, 3), np.float32)
    step = ws.compile(loss, {"w": np.ones(3, np.float32)}, optimizer=ws.optim.sgd(1e-2), batch=x)
    (page,) = step.export(tmp_path / "train.html", data=x)
    assert program_of(page)["kernels"]


def test_the_page_itself_is_small() -> None:
    plain = {"functions": {}, "step": {"outputs": [], "code": ""}}
    assert len(gzip.compress(page_text("a step", plain).encode(), 9)) < 12_500
    functions = {"functions": {"predict": {"code": ""}}, "step": {"outputs": [], "code": ""}}
    assert len(gzip.compress(page_text("a step", functions).encode(), 9)) < 16_000


def test_a_module_has_the_functions_that_its_kernels_call_and_no_others(tmp_path: Path) -> None:
    step, batch = trained()
    (page,) = step.export(tmp_path / "train.html", data=batch)
    text = program_of(page)["wgsl"]
    defined = set(re.findall(r"^fn (\w+)", text, re.M))
    called = set(re.findall(r"(?<!^fn )\b(\w+)\(", re.sub(r"^fn \w+", "", text, flags=re.M)))
    assert {name for name in defined if not re.fullmatch(r"k\d+|control|gather", name)} <= called
    assert not {name for name in called if re.match(r"(ws|load|store|atomic)_", name)} - defined
