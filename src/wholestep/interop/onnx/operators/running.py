"""Operators of ONNX that need to know of the run: branches and loops, random numbers, and layers in training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from wholestep import dtypes, numpy as wnp, random
from wholestep.errors import DerivativeError, ModelError, ParameterError, ValueDependentError
from wholestep.frontend.control import cond, scan, while_loop
from wholestep.frontend.custom import custom_jvp
from wholestep.frontend.dispatch import is_traced
from wholestep.interop.bits import reinterpreted
from wholestep.interop.onnx.operators.node import (
    Handler,
    OnnxNode,
    axis_within,
    integer,
    is_known,
    known,
    number,
    within_limits,
)
from wholestep.interop.onnx.operators.normalization import batch_norm, batch_normed
from wholestep.interop.onnx.operators.sequences import TensorSequence

LONGEST = 1 << 16
"""The maximum number of iterations of a loop of known length that is unrolled."""


class Run(Protocol):
    """One call of a model, as handlers see it."""

    training: bool
    read: list[Any]
    """The traced floats whose bits were read so far, in the graph that runs and in those around it."""

    def inside(self, body: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The outputs of a nested graph, which may read values of the graphs around it."""

    def draw_key(self, what: str) -> Any:
        """A fresh key; raises ParameterError where the call has none."""

    def move(self, old: Any, new: Any) -> None:
        """A buffer's new value, found by the old one."""


def bit_cast(run: Run, node: OnnxNode, x: Any) -> Any:
    """The same bits read in another dtype of the same size; floats made of the bits of others have no derivative."""
    node.need("to")
    dtype = node.dtype("to", np.float32)
    if dtype.itemsize != x.dtype.itemsize:
        raise ModelError(f"bits of {x.dtype.name} read as {dtype.name}")
    made = reinterpreted(x, dtype)
    if dtypes.is_float(x.dtype) and is_traced(x):
        run.read.append(x)
    return made_of_bits(made, *run.read) if run.read and dtypes.is_float(dtype) else made


@custom_jvp
def made_of_bits(made: Any, *read: Any) -> Any:
    """A float that may be made of the bits of others."""
    return made


@made_of_bits.defjvp
def refuse_bits(primals: Any, tangents: Any) -> Any:
    """Raise DerivativeError, as the derivative that passes by the bits is not known."""
    raise DerivativeError(
        "from_onnx: BitCast makes floats of the bits of others, through which no derivative passes",
        hint="differentiate the function that the model was made of; its exporter wrote a part of it by bits",
    )


def branch(run: Run, node: OnnxNode, condition: Any) -> Any:
    """One of two graphs: chosen now where the condition is known, else a branch of the program."""
    yes, no = node.need("then_branch"), node.need("else_branch")
    if is_known(condition):
        return run.inside(yes if bool(known(condition, "the condition").reshape(())) else no, ())
    return cond(condition.reshape(()), lambda: run.inside(yes, ()), lambda: run.inside(no, ()))


def scanned(run: Run, node: OnnxNode, *xs: Any) -> Any:
    """A graph along axes of inputs, with states carried; its outputs are stacked."""
    if node.opset < 9:
        raise ModelError("Scan of opset 8 has a batch axis of its own, which is not covered")
    body, count = node.need("body"), node.need("num_scan_inputs")
    states, rows = xs[: len(xs) - count], xs[len(xs) - count :]
    outputs = len(body.outputs) - len(states)
    axes = node.each("scan_input_axes", 0, count)
    ways = node.each("scan_input_directions", 0, count)
    out_axes = node.each("scan_output_axes", 0, outputs)
    out_ways = node.each("scan_output_directions", 0, outputs)
    turned = [wnp.moveaxis(x, axis, 0) for x, axis in zip(rows, axes, strict=True)]
    turned = [wnp.flip(x, 0) if way else x for x, way in zip(turned, ways, strict=True)]

    def step(carry: Any, now: Any) -> Any:
        made = run.inside(body, (*carry, *now))
        return tuple(made[: len(states)]), tuple(made[len(states) :])

    end, ys = scan(step, tuple(states), tuple(turned))
    ys = [wnp.flip(y, 0) if way else y for y, way in zip(ys, out_ways, strict=True)]
    return (*end, *[wnp.moveaxis(y, 0, axis_within(axis, y.ndim)) for y, axis in zip(ys, out_axes, strict=True)])


def loop(run: Run, node: OnnxNode, count: Any = None, condition: Any = None, *states: Any) -> Any:
    """A graph again and again: unrolled while condition and count are known, else a loop of the program."""
    body = node.need("body")
    stacked: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - len(states))]
    limit = None if count is None else integer(count, "the number of rounds") if is_known(count) else -1
    live: Any = np.array(True) if condition is None else condition
    if limit == -1 or not is_known(live):
        return unknown_loop(run, body, count, live, states, bool(stacked))
    done = 0
    while bool(known(live, "the condition").reshape(())) and (limit is None or done < limit):
        if done >= LONGEST:
            raise ModelError(f"a loop of more than {LONGEST:,} rounds")
        live, *made = run.inside(body, (np.array(done, np.int64), live, *states))
        done += 1
        states = tuple(made[: len(states)])
        for rows, value in zip(stacked, made[len(states) :], strict=True):
            rows.append(value)
        if not is_known(live):
            if stacked:
                raise ValueDependentError("the number of rounds depends on data, and so would the shape of an output")
            rest = None if limit is None else np.array(limit - done, np.int64)
            return unknown_loop(run, body, rest, live, states, False, done)
    empty = [np.zeros(0, np.float32)] if not done else []
    return (*states, *[wnp.stack(rows) if rows else empty[0] for rows in stacked])


def unknown_loop(
    run: Run, body: Any, count: Any, live: Any, states: tuple[Any, ...], stacks: bool, start: int = 0
) -> Any:
    """A loop whose number of rounds is found by the program."""
    if stacks:
        raise ValueDependentError(
            "the number of rounds depends on data, and so would the shape of an output",
            hint="close over the inputs that the number of rounds depends on",
        )
    first = wnp.asarray(live).reshape(()).astype(bool)
    limit = np.array(np.iinfo(np.int64).max) if count is None else count.reshape(()).astype(np.int64)

    def test(state: Any) -> Any:
        return state[1] & (state[0] < limit)

    def once(state: Any) -> Any:
        done, on, values = state
        on, *made = run.inside(body, (done + start, on, *values))
        return done + 1, wnp.asarray(on).reshape(()).astype(bool), tuple(made)

    return while_loop(test, once, (np.array(0, np.int64), first, states))[2]


def sequence_map(run: Run, node: OnnxNode, xs: Any, *more: Any) -> Any:
    """A graph for each array of a sequence."""
    body = node.need("body")
    columns = [xs, *more]
    rows = [
        run.inside(body, tuple([c[i] if isinstance(c, TensorSequence) else c for c in columns])) for i in range(len(xs))
    ]
    return tuple([TensorSequence([row[k] for row in rows]) for k in range(len(body.outputs))])


def dropout(run: Run, node: OnnxNode, x: Any, ratio: Any = None, training: Any = None) -> Any:
    """Elements that are 0 at random, in training; a further output says which are kept."""
    share = node.get("ratio", 0.5) if ratio is None else number(ratio, "the ratio")
    asked = training is not None and bool(known(training, "the mode").reshape(()))
    if share == 0 or not (run.training or asked):
        return (x, np.ones(x.shape, bool))[: node.count]
    kept = random.uniform(run.draw_key("Dropout"), x.shape, np.float32) >= np.float32(share)
    made = wnp.where(kept, x * (1 / (1 - share)) if share < 1 else 0, 0).astype(x.dtype)
    return (made, kept)[: node.count]


def batch_normalization(run: Run, node: OnnxNode, x: Any, gain: Any, bias: Any, mean: Any, var: Any) -> Any:
    """Channels normalized by running statistics, or in training by the batch's, which update the running ones."""
    if not run.training:
        return batch_norm(node, x, gain, bias, mean, var)
    made, average, variance = batch_normed(node, x, gain, bias)
    keep, count = node.get("momentum", 0.9), x.size // x.shape[1]
    moved = [
        (old * keep + new * (1 - keep)).astype(old.dtype)
        for old, new in ((mean, average), (var, variance * (count / max(count - 1, 1))))
    ]
    for old, new in zip((mean, var), moved, strict=True):
        run.move(old, new)
    return (made, *moved)[: node.count]


def drawn(uniform: bool, like: bool) -> Any:
    """Random numbers, uniform or normal, of a shape or of that of an array."""

    def draw(run: Run, node: OnnxNode, x: Any = None) -> Any:
        sizes = x.shape if like else within_limits(node.ints("shape") or [])
        dtype = node.dtype("dtype", x.dtype if like else np.float32)
        if not dtypes.is_float(dtype):
            raise ModelError(f"random numbers of {dtype.name}")
        key = run.draw_key(node.op)
        if uniform:
            low, high = node.get("low", 0.0), node.get("high", 1.0)
            return (random.uniform(key, sizes, np.float32) * (high - low) + low).astype(dtype)
        return (random.normal(key, sizes, np.float32) * node.get("scale", 1.0) + node.get("mean", 0.0)).astype(dtype)

    return draw


def bernoulli(run: Run, node: OnnxNode, x: Any) -> Any:
    """1 with the probability that an element is, else 0."""
    made = random.uniform(run.draw_key(node.op), x.shape, np.float32) < x
    return made.astype(node.dtype("dtype", x.dtype))


def multinomial(run: Run, node: OnnxNode, x: Any) -> Any:
    """Classes drawn by their log-probabilities."""
    count = within_limits([node.get("sample_size", 1)])[0]
    noise = random.gumbel(run.draw_key(node.op), (x.shape[0], count, x.shape[1]), np.float32)
    return wnp.argmax(noise + wnp.expand_dims(x, 1), axis=-1).astype(node.dtype("dtype", np.int32))


def no_key(what: str) -> ParameterError:
    """The error of a call that draws without a key."""
    return ParameterError(
        f"from_onnx: {what} draws random numbers, and the call has no key",
        hint="pass key=ws.random.key(seed), or the step's own: def loss(params, batch, *, key)",
    )


TABLE: Mapping[str, Handler] = {
    "BitCast": bit_cast,
    "If": branch,
    "Loop": loop,
    "Scan": scanned,
    "SequenceMap": sequence_map,
    "Dropout": dropout,
    "BatchNormalization": batch_normalization,
    "RandomUniform": drawn(True, False),
    "RandomNormal": drawn(False, False),
    "RandomUniformLike": drawn(True, True),
    "RandomNormalLike": drawn(False, True),
    "Bernoulli": bernoulli,
    "Multinomial": multinomial,
}
