"""JAX with numbers of 64 bits, which exported files turn on, and only for these tests."""

from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture
def jax() -> Iterator[ModuleType]:
    module = pytest.importorskip("jax", reason="JAX is an outside oracle; not installed")
    before = module.config.jax_enable_x64
    module.config.update("jax_enable_x64", True)
    yield module
    module.config.update("jax_enable_x64", before)
