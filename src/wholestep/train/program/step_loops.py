"""Many steps as one program: K batches in a row, or an epoch over rows that are drawn by the step's own counter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep import numpy as wnp, random, tree
from wholestep.frontend.checkpoint import checkpoint
from wholestep.frontend.control import scan
from wholestep.frontend.gradients import value_and_grad
from wholestep.frontend.jit import jit
from wholestep.train.program.mesh import MeshAxis
from wholestep.train.program.step_function import PRINTED, StepFunction

TracedStepCall = Callable[[Any, Any, Any], Any]
"""(state, hyper, batch) -> (state, loss, finite, aux, captures), traced."""


def call_function(one: jit[..., Any], count: int, function: StepFunction) -> jit[..., Any]:
    """The program of one call: a step, or a loop of them, which may be differentiated."""
    return one if count == 1 and function.unroll == "stop" else stacked_call(one, count, function)


def stacked_call(one: jit[..., Any], count: int, function: StepFunction) -> jit[..., Any]:
    """The program of a call on `count` batches stacked along a first axis, which may be a single one."""
    through = function.unroll == "through"
    return one.alike(differentiate_steps(one, count, function.mesh) if through else loop_steps(one, count))


def differentiate_steps(step: TracedStepCall, count: int, mesh: MeshAxis | None) -> TracedStepCall:
    """The results of `loop_steps`, and the gradient of the mean loss with respect to hyper, through all the steps.

    Each process of a mesh computes the gradient of its own rows; the result is the mean over the processes.
    """

    def steps(state: Any, hyper: Any, batches: Any) -> Any:
        def mean(hyper: Any) -> Any:
            last, seen = scan_steps(checkpoint(step), state, hyper, batches, count, lambda batch: batch)
            return wnp.mean(seen[0]), (last, seen)

        (_, (last, seen)), found = value_and_grad(mean, has_aux=True)(hyper)
        if mesh is not None:
            found = tree.unflatten(tree.structure(found), mesh.mean(tree.leaves(found)))
        return (last, *seen, found)

    return steps


def loop_steps(step: TracedStepCall, count: int) -> TracedStepCall:
    """`count` steps over batches stacked along a first axis."""

    def steps(state: Any, hyper: Any, batches: Any) -> Any:
        last, seen = scan_steps(step, state, hyper, batches, count, lambda batch: batch)
        return (last, *seen)

    return steps


def loop_epoch(step: TracedStepCall, rows: int, size: int, shuffle: bool) -> TracedStepCall:
    """Steps over all full batches of `size` of `rows` rows of data, in the order of `epoch_order`."""
    count = rows // size

    def steps(state: Any, hyper: Any, data: Any) -> Any:
        if shuffle:
            drawn = epoch_order(state["counters"], rows, 0)[: count * size].reshape(count, size)
            return without_extras(scan_steps(step, state, hyper, drawn, count, lambda i: drawn_rows(data, i, rows)))
        stacked = tree.map(lambda x: x[: count * size].reshape(count, size, *x.shape[1:]), data)
        return without_extras(scan_steps(step, state, hyper, stacked, count, lambda batch: batch))

    return steps


def last_partial_batch(step: TracedStepCall, rows: int, size: int, shuffle: bool) -> TracedStepCall:
    """The step on the remaining rows after `loop_epoch`, which are fewer than a batch."""
    count = rows // size

    def rest(state: Any, hyper: Any, data: Any) -> Any:
        if not shuffle:
            last, *seen = step(state, hyper, tree.map(lambda x: x[count * size :], data))
            return without_extras((last, seen))
        drawn = epoch_order(state["counters"], rows, count)[count * size :]
        last, *seen = step(state, hyper, drawn_rows(data, drawn, rows))
        return without_extras((last, seen))

    return rest


def epoch_order(counters: Any, rows: int, since: int) -> Any:
    """The order of the rows of the epoch that began `since` steps ago."""
    return row_order(counters["key"], counters["step"] - since, rows)


def row_order(key: Any, start: Any, rows: int) -> Any:
    """The order of an epoch's rows: a function of the key and of the number of the step that began it."""
    return random.permutation(random.fold_in(random.split(key)[0], start), rows)


def drawn_rows(data: Any, drawn: Any, rows: int) -> Any:
    """The rows of these numbers, each of which is below `rows`.

    The minimum changes no number; it proves the bound to the compiler. A bounds check could leave the loop between two
    steps, so that the state would have to be copied, and could not lie in files.
    """
    within = wnp.minimum(drawn.astype("uint64"), rows - 1)
    return tree.map(lambda x: x[within], data)


def scan_steps(
    step: TracedStepCall, state: Any, hyper: Any, xs: Any, count: int, batch_of: Callable[[Any], Any]
) -> Any:
    """(state, stacked other results of the steps): a loop with a step for each of xs."""

    def body(state: Any, x: Any) -> Any:
        new, *seen = step(state, hyper, batch_of(x))
        return new, tuple(seen)

    return scan(body, state, xs, count)


def without_extras(out: Any) -> Any:
    """The state, losses, flags and printed values of the steps' results; an epoch keeps no aux and no captures."""
    last, (losses, flags, _, captures) = out
    return last, losses, flags, None, {name: said for name, said in captures.items() if name == PRINTED}
