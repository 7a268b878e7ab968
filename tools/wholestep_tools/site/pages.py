"""The pages that are generated with the site: the reference, the examples, and pages of files beside docs/."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wholestep_tools.site import reference
from wholestep_tools.site.gallery import picture_of, title
from wholestep_tools.site.links import OUTSIDE

WIDE = "---\nhide:\n  - navigation\n  - toc\n---\n\n"
"""The head of a page that is not in the navigation and whose code has the room that it leaves."""


def generated(root: Path) -> dict[str, str]:
    """The text of each generated page by its path in the site."""
    written = {page: (root / source).read_text(encoding="utf-8") for source, page in OUTSIDE.items()}
    for file in sorted((root / "examples").rglob("*.py")):
        written[file.relative_to(root).with_suffix(".md").as_posix()] = example(file)
    for file in sorted((root / "examples").rglob("*.ipynb")):
        written[file.relative_to(root).with_suffix(".md").as_posix()] = notebook(file)
    return {**written, **reference.pages()}


def example(file: Path) -> str:
    """An example as a page: the first paragraph of its docstring, its picture where there is one, and its text."""
    text = file.read_text(encoding="utf-8")
    said = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    name, picture = title(file), picture_of(file)
    shown = f"![what {name} has found](../../pictures/gallery/{picture.name})\n\n" if picture.exists() else ""
    return f"{WIDE}# {name}\n\n{said}\n\n{shown}```python\n{text}```\n"


def notebook(file: Path) -> str:
    """A notebook as a page: its prose and its code, with their outputs."""
    kept = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return WIDE + "\n\n".join(part for cell in kept for part in cell_parts(cell)) + "\n"


def cell_parts(cell: dict[str, Any]) -> Iterator[str]:
    """A cell as paragraphs of a page."""
    if cell["cell_type"] == "markdown":
        yield cell["source"]
        return
    yield f"```python\n{cell['source']}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            yield f"![what the cell draws](data:image/png;base64,{data['image/png'].strip()})"
        else:
            yield f"```text\n{output.get('text', data.get('text/plain', '')).rstrip()}\n```"
