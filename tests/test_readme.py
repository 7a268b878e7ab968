"""The README's programs run as they stand, and its model is the one that ships."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def blocks():
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_python_blocks_run_in_order():
    assert len(blocks()) >= 6
    names = {}
    for source in blocks():
        exec(compile(source, "README.md", "exec"), names)
    assert names["value"] > 0


@pytest.mark.parametrize("page", ["coverage.md", "semantics.md", "language.md", "testing.md"])
def test_linked_pages_exist(page):
    assert f"docs/{page}" in README.read_text(encoding="utf-8")
    assert (README.parent / "docs" / page).exists()
