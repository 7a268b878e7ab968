"""Functions of PyTorch and JAX that are called with a traced array: errors that name our function in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from wholestep.boundary.answers import our_name
from wholestep.errors import UnsupportedError, WholestepError
from wholestep.frontend.dispatch import is_traced, raised_inside

PACKAGES = {
    "torch": (
        "PyTorch computes with tensors of its own",
        "x.detach().numpy() of tensors outside; ws.from_torch_export reads a module as a function",
    ),
    "jax": (
        "JAX computes with arrays of its own",
        "np.asarray(x) of its arrays outside; ws.from_jax reads a function of JAX as one of ours",
    ),
}
"""For each package with arrays of its own, what it does with them, and the ways out."""
ROOTS = {"torch": "torch", "jax": "jax", "jaxlib": "jax"}
"""The packages of PACKAGES, by the modules that they are made of."""


def foreign_call(package: str, f: Any) -> UnsupportedError:
    """The error for a function of a package that is called with a traced array."""
    name = str(getattr(f, "__name__", f)).strip("_")
    ours = our_name("ws.nn", name)
    if hasattr(np, name) and ours != f"ws.nn.{name}":
        ours = f"np.{name}"
    own, ways = PACKAGES[package]
    return UnsupportedError(
        f"{package}: {name} is called with a traced array, and {own}",
        hint=f"use {ours or 'NumPy and ws.nn'} on arrays, and {ways}",
    )


def named_in_foreign_failures(package: str, f: Any) -> Callable[..., Any]:
    """A function of a package with arrays of its own: it may do with traced ones, or the error names it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except TypeError as error:
            if isinstance(error, WholestepError) or not is_traced((args, kwargs)) or not raised_inside(error):
                raise
            raise foreign_call(package, f) from None

    return call


class ForeignCalls:
    """The hook by which PyTorch passes on a call with an argument that is no tensor."""

    __slots__ = ()

    @classmethod
    def __torch_function__(cls, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        raise foreign_call("torch", f)
