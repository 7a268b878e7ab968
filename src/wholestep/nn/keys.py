"""Random keys of models: a seed or a key as a key, and keys for the parts of composites."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from wholestep import random
from wholestep.errors import ParameterError

drawn_as_zeros: ContextVar[bool] = ContextVar("drawn_as_zeros", default=False)
"""True in a context whose initial values are zeros, because they are replaced later."""


@contextmanager
def drawing_nothing() -> Iterator[None]:
    """A scope, of one thread, in which `nn.init` gives zeros and draws no numbers."""
    before = drawn_as_zeros.set(True)
    try:
        yield
    finally:
        drawn_as_zeros.reset(before)


def as_key(key: Any) -> Any:
    """A key from a seed or a key; raises ParameterError for None."""
    if key is None:
        raise ParameterError(
            "nn: parameters are drawn, and there is no key",
            hint="a class that takes no key has to pass one on: super().__init__(..., key=key)",
        )
    return random.key(int(key)) if isinstance(key, int | np.integer) else key


def keys_from(key: Any, count: int) -> Iterator[Any]:
    """Several keys, made from a seed or a key."""
    return iter(list(random.split(as_key(key), count)))


def key_needed(name: str, key: Any) -> Any:
    """A key from a seed or a key; raises ParameterError for None."""
    if key is None:
        raise ParameterError(
            f"{name}: no key to draw from",
            hint="pass key=ws.random.key(seed), or the step's own: def loss(model, batch, *, key); "
            "a Sequential hands it to layers whose call has it by keyword alone: (self, x, *, key=None); "
            "model.eval() needs none",
        )
    return as_key(key)


def takes_key(f: Any) -> bool:
    """Test whether a call takes a keyword-only `key`."""
    try:
        found = inspect.signature(f).parameters.get("key")
    except (TypeError, ValueError):
        return False
    return found is not None and found.kind is inspect.Parameter.KEYWORD_ONLY
