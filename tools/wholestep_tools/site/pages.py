"""The pages that are generated with the site: the reference, the examples, and what lies beside docs/."""

from __future__ import annotations

import ast
from pathlib import Path

from wholestep_tools.site import reference
from wholestep_tools.site.links import OUTSIDE


def generated(root: Path) -> dict[str, str]:
    """The text of each generated page by its path in the site."""
    written = {page: (root / source).read_text(encoding="utf-8") for source, page in OUTSIDE.items()}
    for file in sorted((root / "examples").rglob("*.py")):
        written[file.relative_to(root).with_suffix(".md").as_posix()] = example(file)
    return {**written, **reference.pages()}


def example(file: Path) -> str:
    """An example as a page: what its first sentence says, and its text."""
    text = file.read_text(encoding="utf-8")
    said = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    return f"# {file.stem.replace('_', ' ')}\n\n{said}\n\n```python\n{text}```\n"
