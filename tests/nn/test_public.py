"""Public names are reached through their package, whichever module was imported first."""

import importlib
from pathlib import Path

import pytest

import wholestep

PACKAGES = ["nn", "optim"]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_has_the_name_of_something_else(package: str) -> None:
    """The import of such a module would replace the public object of that name in its package."""
    found = importlib.import_module(f"wholestep.{package}")
    files = {file.stem for file in Path(str(found.__file__)).parent.glob("*.py")}
    others = {name for name in found.__all__ if not hasattr(getattr(found, name), "__path__")}
    clashes = {
        name for name in files & others if getattr(getattr(found, name), "__name__", "") != f"{found.__name__}.{name}"
    }
    assert not clashes


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package: str) -> None:
    found = getattr(wholestep, package)
    assert set(found.__all__) <= set(dir(found))
    assert all(getattr(found, name) is not None for name in found.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = found.nothing
