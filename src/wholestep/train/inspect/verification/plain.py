"""The check of the user's own function on plain NumPy arrays, without the tracer and its primitives."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from wholestep import random, tree
from wholestep.compiler.double_precision import double_dtype
from wholestep.compiler.rounding_bound import EPS, allowance, error, exact_values, jittered, values
from wholestep.ir.graph import NDArray
from wholestep.nn.keys import takes_key
from wholestep.train.inspect.verification.operations import LOOKS
from wholestep.train.inspect.verification.subject import Subject
from wholestep.train.program.microbatches import count_parts, count_rows
from wholestep.train.state.precision import WORKING, convert_floats

SURE = 2.0**20
"""Units in the last place of float64 by which NumPy in float64 and the reference may differ, since they add in
different orders."""


class PlainRun(NamedTuple):
    """The outcome of running the function itself in NumPy: in words, with a fault and an unchecked part, or neither."""

    said: str
    wrong: str = ""
    unchecked: str = ""


def plain_loss(subject: Subject, compiled: NDArray, seed: int) -> PlainRun:
    """Compare the loss that NumPy itself computes with that of the traced program: in float64, else in its own dtypes.

    A function that names a dtype, or draws random numbers, which are float32, does not compute in float64 even for
    float64 arguments.
    """
    try:
        double, own = numpy_loss(subject, double=True), numpy_loss(subject, double=False)
    except Exception as failed:  # any exception of the user's function, which may need to be traced
        said = f"it raised {type(failed).__name__}: {str(failed).partition(chr(10))[0]}"
        return PlainRun("not run", unchecked=f"the function on plain NumPy arrays: {said}")
    (exact,) = exact_values(subject.forward, subject.args)
    apart, unit = error(double, exact), EPS["f64"] * max(abs(float(exact)), 1.0)
    if apart <= SURE * unit:
        return PlainRun(f"{float(double):.17g} in float64, {apart / unit:.3g} ulp from the reference")
    (reference,) = values(subject.forward, subject.args)
    if error(own, exact) <= widened_bound(subject, reference, exact, error(own, exact), seed):
        return PlainRun(f"{float(own):.9g} in its own dtypes, within the bound; in float64 {float(double):.17g}")
    wrong = f"NumPy gives {float(own):.9g}, and {float(double):.17g} in float64; the traced program gives "
    wrong += f"{float(reference):.9g}, {float(exact):.17g} in float64, and {float(compiled):.9g} compiled"
    return PlainRun("it differs", wrong=wrong)


def widened_bound(subject: Subject, reference: NDArray, exact: NDArray, apart: float, seed: int) -> float:
    """The bound of the loss, widened where needed by runs that round the other way."""
    rng, allowed = np.random.default_rng(seed), allowance(reference, exact)
    for _ in range(LOOKS):
        if apart <= allowed:
            break
        allowed = max(allowed, allowance(jittered(rng, subject.forward, subject.args)[0], exact))
    return allowed


def numpy_loss(subject: Subject, double: bool) -> NDArray:
    """The loss by the user's own function, of copied arrays, as the mean over micro-batches."""
    function, states = subject.engine.step_function, dict(subject.engine.state.tree)
    own = tree.unflatten(tree.structure(states), subject.state)
    batch = tree.unflatten(subject.first.structure, subject.args[len(subject.args) - len(subject.first.leaves) :])
    params, buffers = [tree.map(lambda x: array_for(x, double), own[name]) for name in ("params", "buffers")]
    batch = tree.map(lambda x: array_for(x, double), batch)
    if function.precision in WORKING and not double:
        batch = convert_floats(batch, function.precision)
    losses = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for key, rows in keys_and_rows(batch, own["counters"]["key"], function.microbatch):
            keys = {"key": random.fold_in(key, own["counters"]["step"])} if takes_key(function.loss) else {}
            loss, buffers = loss_and_buffers(function, params, buffers, rows, keys)
            losses.append(np.asarray(loss))
    return np.asarray(np.mean(losses, dtype=losses[0].dtype))


def keys_and_rows(batch: Any, key: Any, most: int | None) -> list[tuple[Any, Any]]:
    """The micro-batches of a batch, each with its own key, or the whole batch with the step's key."""
    rows = 1 if most is None else count_rows(batch)
    count = 1 if most is None else count_parts(rows, most)
    if count == 1:
        return [(key, batch)]
    size = rows // count
    cuts = [slice(i * size, (i + 1) * size) for i in range(count)]
    return [
        (random.fold_in(key, i), tree.map(lambda x, cut=cut: x[cut] if x.ndim else x, batch))
        for i, cut in enumerate(cuts)
    ]


def array_for(x: Any, double: bool) -> NDArray:
    """A copy of an array, in float64 if `double`."""
    found = np.array(x)
    return found.astype(double_dtype(found.dtype)) if double else found


def loss_and_buffers(function: Any, params: Any, buffers: Any, batch: Any, keys: Any) -> tuple[Any, Any]:
    """The loss and the new buffers among the results of the function."""
    if function.model is not None:
        out, new = function.model.loss(function.loss)(params, buffers, batch, **keys)
        return out[0] if function.has_aux else out, new
    out = function.loss(params, *((buffers, batch) if function.with_buffers else (batch,)), **keys)
    if function.with_buffers:
        return out[0], out[1]
    return out[0] if function.has_aux else out, buffers
