"""Functions of PyTorch that are called with a traced array: errors that name our function in their place."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from wholestep.boundary.answers import our_name
from wholestep.errors import UnsupportedError


class ForeignCalls:
    """The hook by which PyTorch passes on a call with an argument that is no tensor."""

    __slots__ = ()

    @classmethod
    def __torch_function__(cls, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        name = str(getattr(f, "__name__", f)).strip("_")
        ours = our_name("ws.nn", name) or (f"np.{name}" if hasattr(np, name) else "")
        raise UnsupportedError(
            f"torch: {name} is called with a traced array, and PyTorch computes with tensors of its own",
            hint=f"use {ours or 'NumPy and ws.nn'} on arrays, and x.detach().numpy() of tensors outside; "
            "ws.from_torch_export reads a module as a function",
        )
