"""The examples in docstrings run as they are printed."""

import doctest
import importlib
import pkgutil

import pytest

import wholestep

SLOW = ("wholestep.scipy", "wholestep.cli", "wholestep.train", "wholestep.__main__")
"""Packages with imports that only their users need: their own tests run their examples."""

MODULES = sorted(
    name for _, name, _ in pkgutil.walk_packages(wholestep.__path__, "wholestep.") if not name.startswith(SLOW)
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not failed


def test_every_public_name_has_an_example():
    plain = {"Dim", "ShapeDtype", "WholestepError", "errors", "mesh", "numpy", "random", "scipy", "testing", "tree"}
    missing = [n for n in wholestep.__all__ if n not in plain and ">>>" not in (getattr(wholestep, n).__doc__ or "")]
    assert not missing
