"""Pages: what they refuse, that no name of a user becomes code, and host scalars as the interpreter has them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.export.page.files import page_text, source_text
from wholestep.kernel.ops import OPS

Array = np.ndarray[Any, Any]


def trained(name: str = "w", dtype: type = np.float32) -> tuple[Any, dict[str, Array]]:
    """A small step with Adam, and its batch."""
    batch: dict[str, Array] = {"x": np.ones((8, 3), dtype), "y": np.zeros(8, dtype)}
    params: dict[str, Array] = {name: np.full(3, 0.5, dtype)}

    def loss(params: Any, batch: Any) -> Any:
        return np.mean((np.tanh(batch["x"] @ params[name]) - batch["y"]) ** 2)

    return ws.compile(loss, params, optimizer=ws.optim.adam(1e-2), batch=batch), batch


def test_a_page_is_one_file_with_its_state(tmp_path: Path) -> None:
    step, batch = trained("</script><b>")
    (page,) = step.export(tmp_path / "train.html", data=batch)
    text = page.read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["train.html"]
    assert text.count("</script>") == 3, "names are data, and end no script"
    program = json.loads(re.findall(r'<script id="program"[^>]*>(.*?)</script>', text, flags=re.DOTALL)[0])
    (tmp_path / "state.safetensors").write_bytes(base64.b64decode(program["file"]))
    assert step.load(tmp_path / "state.safetensors").missing == ()
    script = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)[0]
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in text


def test_what_a_page_cannot_do_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    step, _ = trained()
    with pytest.raises(ParameterError, match="trains on data of its own"):
        step.export(tmp_path / "a.html")
    wide, doubles = trained(dtype=np.float64)
    with pytest.raises(UnsupportedError, match="float64"):
        wide.export(tmp_path / "a.html", data=doubles)
    assert not [*tmp_path.iterdir()]


def test_the_page_itself_is_small() -> None:
    assert len(gzip.compress(page_text("a step", {}).encode(), 9)) < 10_000


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node here: JavaScript is not run")
def test_host_scalars_have_the_bits_of_the_interpreter(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 3_000
    wide = [rng.normal(size=n) * 2.0 ** rng.integers(-60, 60, n) for _ in range(3)]
    wide[2][::2] = -(wide[0] * wide[1])[::2]
    code = [["given", "f64", [], str(i)] for i in range(3)]
    ops = ["add", "sub", "mul", "div", "fma", "min", "max", "sqrt", "rint", "floor", "abs", "neg"]
    code += [[op, "f64", [*range(OPS[op].arity)], "0"] for op in ops]
    with np.errstate(all="ignore"):
        wanted = np.array([OPS[op].meaning(*wide[: OPS[op].arity]) for op in ops]).T
    run = "\nconst [c, g] = JSON.parse(require('fs').readFileSync(0));"
    run += (
        "\nconsole.log(JSON.stringify(g.map((x) => computed(c, x, []).slice(3).map((v) => { DV.setFloat64(0, v, true);"
    )
    run += " return Number.isNaN(v) ? 'nan' : String(DV.getBigUint64(0, true)); }))));"
    (tmp_path / "run.js").write_text(source_text("runtime.js") + run, encoding="utf-8")
    given = json.dumps([code, np.array(wide).T.tolist()])
    done = subprocess.run(["node", str(tmp_path / "run.js")], input=given, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    bits = [[("nan" if np.isnan(x) else str(x.view(np.uint64))) for x in row] for row in wanted]
    assert found == bits
