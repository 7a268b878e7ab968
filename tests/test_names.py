"""Every public name exists once and says in a sentence what it is; so does every file."""

import ast
import inspect
from pathlib import Path

import pytest

import wholestep

SOURCE = Path(__file__).parent.parent / "src"
FILES = sorted(SOURCE.rglob("*.py"))
NAMES = list(getattr(wholestep, "__all__", []))


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


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_file_opens_with_its_idea(file: Path) -> None:
    first = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    assert first.rstrip().endswith((".", ":")), f"the file begins {first!r}"
