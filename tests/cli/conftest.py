"""The further commands of `wholestep`, as `tools/pyproject.toml` names them, whether the tools are installed or not."""

import tomllib
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from wholestep import cli

PROJECT = tomllib.loads((Path(__file__).parents[2] / "tools" / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    """The entry points of the checkout's tools."""
    named = PROJECT["entry-points"][cli.FURTHER]
    points = EntryPoints(EntryPoint(name, value, cli.FURTHER) for name, value in named.items())
    monkeypatch.setattr(cli, "entry_points", lambda *, group: points.select(group=group))
    return points
