"""Random keys of models: a seed or a key becomes one, and composites give each of their parts one of its own."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from wholestep import random
from wholestep.errors import ParameterError


def as_key(key: Any) -> Any:
    """A key from a seed or a key."""
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
