"""The pages in examples/pages: each learns, is written as one file, and trains in a browser as its step does here."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wholestep import tree
from wholestep_tools.browser import CHROMIUM, MISSING, Open

FOLDER = Path(__file__).parents[2] / "examples" / "pages"
FILES = sorted(FOLDER.glob("*.py"))
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def test_there_are_twelve_and_the_list_has_them() -> None:
    listed = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert len(FILES) == 12 and all(f"`examples/pages/{file.name}`" in listed for file in FILES)


@each_file
def test_it_learns_and_becomes_a_page(file: Path, tmp_path: Path) -> None:
    made = runpy.run_path(str(file))
    losses = made["step"].run(made["data"], epochs=6).losses
    assert np.isfinite(losses).all() and np.mean(losses[-8:]) < 0.9 * np.mean(losses[:8])
    (page,) = made["step"].export(tmp_path / "train.html", data=made["data"], attach=made["attach"])
    assert page.stat().st_size < 12_000_000 and len(file.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@each_file
def test_it_trains_in_a_browser_as_here(file: Path, opened: Open) -> None:
    """The losses of three steps are those of Python, and a function on the state gives finite numbers."""
    made: dict[str, Any] = runpy.run_path(str(file))
    step, data = made["step"], made["data"]
    tab = opened(step, data, shuffle=False, attach=made["attach"])
    tab.evaluate("tell('run', 3)")
    tab.wait("losses.length === 3 || one('status').className === 'bad'")
    size = len(tree.leaves(made["batch"])[0])
    batches = [tree.map(lambda x, i=i: x[size * i : size * (i + 1)], data) for i in range(3)]
    np.testing.assert_allclose(tab.evaluate("losses"), [step(batch).loss for batch in batches], rtol=1e-5)
    name, panel = next(iter(made["attach"])), "Object.values(panels)[0]"
    tab.evaluate(
        f"for (const x of {panel}.inputs) {panel}.take(x, () => Array(Math.max(1, x.shape.reduce((n, m) => n * m, 1)))"
        ".fill(1))"
    )
    tab.wait(f"document.querySelector('#function-{name} .results').childElementCount && !{panel}.asked")
    shown = tab.evaluate(f"document.querySelector('#function-{name} .results').textContent")
    assert "NaN" not in shown and "Infinity" not in shown
