"""Wholestep: the whole training step, one program, written in ordinary NumPy."""

import importlib
from typing import Any

from wholestep import errors, numpy, random
from wholestep.dims import Dim
from wholestep.errors import WholestepError
from wholestep.frontend.batching import pmean, psum, vmap
from wholestep.frontend.check import gradcheck
from wholestep.frontend.control import cond, fori_loop, scan, while_loop
from wholestep.frontend.custom import capture, checkpoint, composite, custom_jvp, custom_vjp, stop_gradient
from wholestep.frontend.derivatives import grad, jvp, linearize, trace_gradients, value_and_grad, vjp
from wholestep.frontend.frontier import frontier_grad
from wholestep.frontend.inspect import ShapeDtype, eval_shape, trace
from wholestep.frontend.jacobians import elementwise_grad, hessian, hvp, jacfwd, jacobian, jacrev
from wholestep.frontend.jit import jit

__version__ = "0.1.0"

__all__ = [
    "Dim",
    "ShapeDtype",
    "WholestepError",
    "capture",
    "checkpoint",
    "composite",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "elementwise_grad",
    "errors",
    "eval_shape",
    "fori_loop",
    "frontier_grad",
    "grad",
    "gradcheck",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "numpy",
    "pmean",
    "psum",
    "random",
    "scan",
    "scipy",
    "stop_gradient",
    "testing",
    "trace",
    "trace_gradients",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

LAZY = ("scipy", "testing")
"""Packages of ours that cost more than a blink to import; they come when they are asked for."""


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return importlib.import_module(f"wholestep.{name}")
    raise AttributeError(f"module 'wholestep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
