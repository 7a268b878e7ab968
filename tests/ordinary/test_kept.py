"""The disk cache of rewritten code: entries belong to the current source text, and damaged ones are ignored."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.ordinary import cases

import wholestep as ws
from wholestep import config
from wholestep.frontend.source import kept_codes, rewriting

FOLDER = kept_codes.FOLDER_NAME


@pytest.fixture
def anew(tmp_path: Any, monkeypatch: Any) -> Any:
    """A function that resets the caches as in a new process, with a folder for compiled code."""
    monkeypatch.setenv("WHOLESTEP_CACHE", str(tmp_path))
    config.reread()
    monkeypatch.setattr("wholestep.runtime.cache.code_cache._STARTED", float("inf"))

    def begin() -> Path:
        kept_codes.write_all()
        kept_codes._files.clear()
        rewriting._rewritten.clear()
        return tmp_path / FOLDER

    kept_codes._files.clear()
    rewriting._rewritten.clear()
    yield begin
    kept_codes._files.clear()
    rewriting._rewritten.clear()
    monkeypatch.undo()
    config.reread()


def none(*args: Any) -> None:
    return None


def test_a_later_process_reads_no_text(anew: Any, monkeypatch: Any) -> None:
    functions = (cases.simple, cases.inherited, cases.inner_functions, cases.two_lambdas()[1])
    expected = [ws.value_and_grad(f)(2.0) for f in functions]
    anew()
    monkeypatch.setattr(rewriting, "definition", none)
    assert [ws.value_and_grad(f)(2.0) for f in functions] == expected
    with pytest.raises(TypeError):  # a function that was not used before has no copy
        ws.grad(cases.decorated)(1.0)


def test_a_function_that_only_makes_another_is_rewritten_with_the_one_around_it(anew: Any) -> None:
    assert ws.grad(cases.made_within)(1.0) == 2.0


def test_what_is_not_rewritten_is_kept_too(anew: Any, monkeypatch: Any) -> None:
    assert ws.grad(lambda x: x)(3.0) == 1.0
    (found,) = kept_codes._files.values()
    assert list(found.used.values()) == [b""]


def test_a_damaged_entry_is_made_again(anew: Any) -> None:
    assert ws.grad(cases.simple)(1.0) == 2.0
    (entry,) = anew().glob("*.code")
    whole = entry.read_bytes()
    for at in range(0, len(whole), 97):
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert ws.grad(cases.simple)(1.0) == 2.0
        anew()
        assert entry.read_bytes() == whole


def test_an_edited_function_has_a_copy_of_its_own(tmp_path: Any) -> None:
    file = tmp_path / "edited.py"
    text = "import numpy as np\nimport wholestep as ws\nprint(ws.grad(lambda x: np.array([x, {}]).sum())(1.0))\n"
    for factor in ("2 * x", "3 * x", "2 * x"):
        file.write_text(text.format(factor))
        done = subprocess.run(
            [sys.executable, str(file)],
            env={**os.environ, "WHOLESTEP_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert float(done.stdout) == 1.0 + float(factor[0])
    assert len(list((tmp_path / "cache" / FOLDER).iterdir())) == 1
