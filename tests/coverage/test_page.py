"""The page on covered calls has the content of the tables."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def loaded():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    return generate


def test_the_page_is_up_to_date():
    generate = loaded()
    for page, write in generate.PAGES.items():
        assert (DOCS / page).read_text(encoding="utf-8") == write(), "run `make docs`"


def test_readme_counts_the_primitives():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert f"over {len(set(loaded().vocabulary()))} primitives" in readme
