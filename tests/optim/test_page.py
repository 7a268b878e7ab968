"""The page on optimizers names every public function."""

from pathlib import Path

from wholestep import optim

PAGE = (Path(__file__).parent.parent.parent / "docs" / "optim.md").read_text(encoding="utf-8")


def test_the_page_names_every_public_function():
    for name in optim.__all__:
        assert name[0].isupper() or f"`{name}" in PAGE or f"optim.{name}(" in PAGE, name
