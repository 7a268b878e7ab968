"""JAX: a function or a step as a pure function of JAX arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from wholestep.errors import MissingExtraError
from wholestep.export.narrow import NARROW_JAX
from wholestep.export.python.jax import JAX
from wholestep.train.handover.subjects import Check, is_held, subject_of, with_narrow_numbers


def to_jax(f: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    """A function, model or step as a pure function of JAX arrays, under which `jax.jit`, `grad` and `vmap` work.

    A function `f` takes and returns trees as it does here, for arguments of the shapes and dtypes of the examples. A
    model is called in evaluation mode, with its current parameters. A step becomes `step(state, batch)`, which returns
    the state after it, of the structure of `step.state`, and a dictionary of the loss and the step's other outputs;
    its hyper-parameters are fixed at their current values, and `step.load_state` takes the state back.

    Shapes: those of the examples, which are arrays or `ShapeDtype`s.
    Raises: UnsupportedError for operations that JAX has no words for, and for numbers of 64 bits where JAX has them
    turned off, except for places in arrays, which have 32 bits then; MissingExtraError where JAX is not installed.

    >>> import numpy as np, wholestep as ws
    >>> x = np.float32(0.5)
    >>> f = ws.to_jax(lambda x: np.sin(x) * x, x)
    >>> import jax
    >>> round(float(jax.jit(jax.grad(f))(x)), 4)
    0.9182
    """
    jax = installed("jax")
    wide = jax.config.jax_enable_x64
    if not wide:
        f, examples = with_narrow_numbers(f, examples)
    subject = subject_of(f, examples, "to_jax")
    if not wide:
        subject.check_narrow(NARROW_JAX)
    return subject.function(JAX, Check(jax.numpy.dtype, partial(array_of_jax, jax)))


def array_of_jax(jax: Any, x: Any, dtype: np.dtype[Any]) -> Any:
    """A plain array, or a Python number that an input of this dtype holds, as an array of JAX; others as they are."""
    if isinstance(x, np.ndarray):
        return jax.numpy.asarray(x)
    if is_held(x, dtype):
        return jax.numpy.asarray(x, dtype)
    return jax.numpy.asarray(x) if isinstance(x, int | float | complex) else x


def installed(package: str) -> Any:
    """An optional package; raises MissingExtraError where it is not there."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingExtraError(f"{package} is not installed", hint=f"pip install {package}") from None
