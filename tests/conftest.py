"""The parts common to all tests: the golden fixture, `assert text == golden`, against a file that a person can read."""

import difflib
import gc
import importlib
import os
import re
import signal
import sys
import unittest.mock
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import numpy as np
import pytest

# Tests compile all their programs, and leave the user's cache folder alone.
os.environ.setdefault("WHOLESTEP_CACHE", "off")

# Processes that the tests start find the tools of the checkout, installed or not.
TOOLS = Path(__file__).parents[1] / "tools"
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(TOOLS))))

# Without bytecode beside the sources each process that the tests start compiles all of them: two thirds of the time
# of a short one.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# An optimization that fails is an error here, and not left out.
os.environ.setdefault("WHOLESTEP_STRICT", "1")

# Started in the background, a process ignores Ctrl-C; the tests that press it need it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The tests make graphs by the thousand: with Python's own thresholds garbage collection is a tenth of their time.
gc.set_threshold(20_000, 20, 20)

# A slow machine is no failure.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

FILES = Path(__file__).parent / "golden" / "files"


class Golden:
    """The text that a test printed when it was last looked at."""

    def __init__(self, path: Path, update: bool) -> None:
        self.path, self.update = path, update

    def __call__(self, text: object) -> None:
        assert text == self

    def __eq__(self, text: object) -> bool:
        printed = str(text).rstrip("\n") + "\n"
        if self.update:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(printed, encoding="utf-8", newline="\n")
        return printed == self.text

    __hash__ = None

    @property
    def text(self) -> str | None:
        return self.path.read_text(encoding="utf-8") if self.path.exists() else None

    def difference(self, text: object) -> list[str]:
        if self.text is None:
            return [f"there is no {self.path.name}; write it with --update-golden and read it", *str(text).splitlines()]
        lines = (self.text.splitlines(), str(text).rstrip("\n").splitlines())
        return [f"differs from {self.path.name}", *difflib.unified_diff(*lines, "golden", "printed", lineterm="")]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Split traffic with files into pieces of a few hundred bytes, and turn the compilation cache off."""
    config = importlib.import_module("wholestep.config")
    monkeypatch.setattr("wholestep.backends.cpu.target.split_launches.PIECE_BYTES", 512)
    monkeypatch.setattr("wholestep.backends.cpu.target.row_streaming.EVICTED_BYTES", 64)
    monkeypatch.setenv("WHOLESTEP_CACHE", "off")
    config.reread()
    yield
    config.reread()


@pytest.fixture(scope="session", autouse=True)
def kept_objects() -> Iterator[Any]:
    """Reuse the object that LLVM compiled from a module in an earlier test."""
    kept = importlib.import_module("tests.kept_objects").KeptObjects()
    with unittest.mock.patch("wholestep.backends.cpu.object_compiler.object_code", kept):
        yield kept


@pytest.fixture
def quick_modules(kept_objects: Any) -> Iterator[None]:
    """Compile most modules without LLVM's optimization, for tests of programs whose machine code is not in question."""
    with kept_objects.quickly():
        yield


@cache
def generators_of(module: ModuleType) -> list[np.random.Generator]:
    """The random generators of a module of tests and of those whose functions it uses."""
    found = {id(x): x for x in vars(module).values() if isinstance(x, np.random.Generator)}
    homes = {getattr(x, "__module__", None) for x in vars(module).values() if callable(x)}
    for name in sorted(x for x in homes if isinstance(x, str) and x.startswith("tests.") and x != module.__name__):
        found |= {id(x): x for x in vars(sys.modules[name]).values() if isinstance(x, np.random.Generator)}
    return list(found.values())


@pytest.fixture(autouse=True)
def numbers_of_the_test(request: pytest.FixtureRequest) -> None:
    """Seed the random numbers of a test by its name, so that they do not depend on earlier tests in the process."""
    for i, generator in enumerate(generators_of(request.module) if request.module else ()):
        fresh = type(generator.bit_generator)(zlib.crc32(f"{request.node.nodeid} {i}".encode()))
        generator.bit_generator.state = fresh.state


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what is printed now")


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    if op != "==" or isinstance(left, Golden) == isinstance(right, Golden):
        return None
    golden, text = (left, right) if isinstance(left, Golden) else (right, left)
    return golden.difference(text)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    name = re.sub(r"[^\w.=-]+", "_", request.node.name).strip("_")
    return Golden(FILES / request.path.stem / f"{name}.txt", request.config.getoption("--update-golden"))
