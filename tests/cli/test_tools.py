"""The tools of developers are a distribution of their own, whose commands `wholestep` finds where it is installed."""

import re
import tomllib
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from wholestep import cli

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_wheel_holds_no_tools():
    assert PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/wholestep"]}
    installed = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert not [path for path in installed if set(re.split(r"[/.]", path)) & {"audit", "bench", "wholestep_tools"}]
    for path in sorted(installed):
        assert "wholestep_tools" not in (ROOT / "src" / path).read_text(encoding="utf-8"), path


def test_every_tool_is_an_entry_point(tools):
    assert {point.name for point in tools} == set(cli.TOOLS)
    assert all(callable(point.load()) for point in tools)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["audit", "kill", "--seed", "0"], "audit kill"),
        (["bench", "--rounds", "3"], "bench"),
        (["depth"], "depth"),
    ],
)
def test_a_command_that_is_not_installed_says_how_to_install_it(command, said, monkeypatch, capsys):
    monkeypatch.setattr(cli, "entry_points", lambda *, group: EntryPoints(()))
    assert cli.main(command) == 1
    assert capsys.readouterr().err == (
        f"wholestep: `wholestep {said}` is a tool of those who develop Wholestep, and not installed; "
        "hint: run `pip install -e tools` in a checkout of Wholestep's source\n"
    )


def test_help_lists_what_is_installed(monkeypatch, capsys):
    assert cli.main(["--help"]) == 0
    assert re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE) == [
        "train",
        "new",
        "doctor",
        "export",
        "audit",
        "bench",
        "depth",
    ]
    monkeypatch.setattr(cli, "entry_points", lambda *, group: EntryPoints(()))
    assert cli.main(["--help"]) == 0
    assert re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE) == [
        "train",
        "new",
        "doctor",
        "export",
        "audit",
    ]
