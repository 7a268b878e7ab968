"""Every public name exists once and says in a sentence what it is; so does every file."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import wholestep

ROOT = Path(__file__).parent.parent
FILES = sorted(path for folder in ("src", "tools") for path in (ROOT / folder).rglob("*.py"))
NAMES = list(getattr(wholestep, "__all__", []))


@cache
def parsed(file: Path) -> ast.Module:
    """The syntax tree of a file, which several tests look at."""
    return ast.parse(file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_exists_and_is_documented(name: str) -> None:
    found = getattr(wholestep, name)
    if not isinstance(found, str):
        first = (inspect.getdoc(found) or "").split("\n")[0]
        assert first.endswith("."), f"wholestep.{name}: its docstring begins {first!r}"


def test_a_public_thing_has_one_name() -> None:
    assert len(set(NAMES)) == len(NAMES)
    things = {name: id(getattr(wholestep, name)) for name in NAMES if callable(getattr(wholestep, name))}
    assert len(set(things.values())) == len(things)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_opens_with_its_idea(file: Path) -> None:
    first = (ast.get_docstring(parsed(file)) or "").split("\n\n")[0]
    assert first.rstrip().endswith((".", ":")), f"the file begins {first!r}"


LIBRARY = ROOT / "src" / "wholestep"
MIRRORS = ("numpy/", "scipy/", "random/", "tree.py", "nn/init.py", "export/python/support/", "interop/")
"""Modules whose function names come from NumPy, SciPy, other libraries or users, with their meaning there."""
MATHEMATICS = "kernel/maths/"
"""The kernel code of mathematical functions; the real and the complex code of one have its name."""
FEW = 40
"""The most function names with two meanings, such as transforms of graphs and of functions."""


def defining_files(kind: type[ast.ClassDef | ast.FunctionDef]) -> dict[str, set[str]]:
    """The files of the library that define each class or function of a name at their top level."""
    found: dict[str, set[str]] = {}
    for file in sorted(LIBRARY.rglob("*.py")):
        for node in parsed(file).body:
            if isinstance(node, kind) and not node.name.startswith("__"):
                found.setdefault(node.name, set()).add(file.relative_to(LIBRARY).as_posix())
    return found


def test_a_class_name_has_one_meaning() -> None:
    assert {name: files for name, files in defining_files(ast.ClassDef).items() if len(files) > 1} == {}


def test_few_function_names_have_two_meanings() -> None:
    several = {}
    for name, files in defining_files(ast.FunctionDef).items():
        meanings = {MATHEMATICS if f.startswith(MATHEMATICS) else f for f in files if not f.startswith(MIRRORS)}
        if len(meanings) > 1:
            several[name] = meanings
    assert len(several) <= FEW, several


QUESTIONS = {"What", "Where", "Who", "Whoever", "How", "Which", "Whether", "When", "Why"}
"""The words that open a clause and name nothing."""


def described(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a module, of its classes and functions, and of constants and attributes."""
    for node in ast.walk(tree):
        body = node.body if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else []
        for line in body:
            if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
                yield str(line.value.value)


def first_words(file: Path) -> list[str]:
    """The first word of each docstring of a file."""
    return [(text.split() or [""])[0].rstrip(",:") for text in described(parsed(file))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_docstring_opens_with_a_noun_or_a_verb(file: Path) -> None:
    assert not QUESTIONS.intersection(first_words(file))


def test_so_does_that_of_a_test_or_an_example() -> None:
    files = [path for folder in ("tests", "examples") for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 400
    assert [str(file) for file in files if QUESTIONS.intersection(first_words(file))] == []
