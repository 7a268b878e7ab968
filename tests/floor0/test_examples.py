"""The examples in the docstrings of the lowest floor run and print what they say."""

import doctest

import pytest

from wholestep import config, dims, dtypes, tree


@pytest.mark.parametrize("module", [config, dims, dtypes, tree], ids=lambda module: module.__name__)
def test_examples_run(module):
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
