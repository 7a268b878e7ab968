"""The table of all primitives of JAX that are covered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep.interop.jax.contractions import CONTRACTIONS
from wholestep.interop.jax.control import CONTROL
from wholestep.interop.jax.elementwise import ELEMENTWISE
from wholestep.interop.jax.indexing import INDEXING
from wholestep.interop.jax.keys import KEYS
from wholestep.interop.jax.reductions import REDUCTIONS
from wholestep.interop.jax.structure import STRUCTURE

PRIMITIVES: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **STRUCTURE,
    **INDEXING,
    **REDUCTIONS,
    **CONTRACTIONS,
    **CONTROL,
    **KEYS,
}
