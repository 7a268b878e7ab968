"""Programs of a step for batches of other shapes than the compiled one: one for each shape, in an LRU cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from wholestep.errors import DtypeError, ShapeError, show
from wholestep.frontend.recompilation import Sizes
from wholestep.train.program import step_loops
from wholestep.train.program.engine import Engine
from wholestep.train.program.resident_program import ResidentProgram
from wholestep.train.state.batch_signature import BatchSignature, matches_pattern
from wholestep.train.state.result import Result

MAX_SHAPES = 16
"""The most programs in the cache."""

RECOMPILATION_HINT = (
    'one program does for all sizes with batch=ws.ShapeDtype((ws.Dim("B"), ...), dtype), and a few with rows padded '
    "to a few lengths (wholestep.train.data.sources.padded)"
)
"""The way out for batches of many sizes."""


class ProgramsByShape:
    """The LRU cache of programs for batches of other shapes than the one that the step was compiled for."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.own = tuple([leaf.type.shape for leaf in engine.signature.leaves])
        self.made: OrderedDict[Any, tuple[BatchSignature, ResidentProgram]] = OrderedDict()
        self.sizes = Sizes("step", RECOMPILATION_HINT)
        self.sizes.made([(leaf.path, leaf.type.shape) for leaf in engine.signature.leaves])

    def step(self, batch: Any, strict: bool = False) -> Result:
        """Call the step on a batch that native code cannot read as it is; with K steps a call, of any number of steps.

        With `strict` another shape than the compiled one is a ShapeError.
        """
        engine, own = self.engine, self.engine.signature
        if not strict:
            for key, (feed, bound) in self.made.items():
                arrays = feed.glance(batch)
                if arrays is not None:
                    self.made.move_to_end(key)
                    return engine.step(bound, arrays)
        leaves = own.ordered(batch)
        key = tuple([getattr(x, "shape", ()) for x in leaves])
        if key == self.own:
            return engine.step(engine.main, own.match_leaves(leaves))
        other = [i for i, leaf in enumerate(own.leaves) if not matches_pattern(key[i], leaf.type.shape)]
        if not other:  # only symbolic sizes differ
            return engine.step(engine.main, own.match_leaves(leaves))
        if strict:
            leaf, found = own.leaves[other[0]], own.resized(leaves).leaves[other[0]]
            raise ShapeError(
                f"step: {leaf.path} is {found.type}, and it was compiled for {leaf.type}",
                hint="the step is strict; one that is not compiles once for each shape of a batch",
            )
        if key not in self.made:
            self.made[key] = self.program(leaves)
            if len(self.made) > MAX_SHAPES:
                self.made.popitem(last=False)
        self.made.move_to_end(key)
        feed, bound = self.made[key]
        return engine.step(bound, feed.match_leaves(leaves))

    def program(self, leaves: Sequence[Any]) -> tuple[BatchSignature, ResidentProgram]:
        """A program for batches with leaves like these."""
        engine, own = self.engine, self.engine.signature
        feed, whole = own.resized(leaves), engine.one
        check_dtypes_and_ranks(own, feed)
        if engine.count > 1:
            counts = {leaf.type.shape[0] for leaf in feed.leaves}
            if len(counts) > 1 or 0 in counts:
                raise ShapeError(f"step: the first axis counts steps, and is another one in each array: {feed}")
            whole = step_loops.stacked_call(engine.one, counts.pop(), engine.step_function)
        check_no_new_broadcast(own, feed)
        try:
            made = engine.stepping(whole, feed, f"step of {engine.step_function.name} on {feed}")
        except ShapeError as error:
            given, wanted = next(
                pair for pair in leaf_pairs(feed, own) if not matches_pattern(pair[0].type.shape, pair[1].type.shape)
            )
            raise ShapeError(
                f"step: {given.path} is {given.type}, and it was compiled for {wanted.type}; "
                f"the loss does not take this shape: {str(error).splitlines()[0]}",
                hint=f"that is at {show(error.where)}",
            ) from error
        self.sizes.made([(leaf.path, leaf.type.shape) for leaf in feed.leaves])
        return feed, made


def leaf_pairs(feed: BatchSignature, own: BatchSignature) -> list[Any]:
    """The leaves of a batch, each with the one that the step was compiled for."""
    return list(zip(feed.leaves, own.leaves, strict=True))


def check_dtypes_and_ranks(own: BatchSignature, feed: BatchSignature) -> None:
    """Raise where a batch differs in more than its sizes."""
    for given, wanted in leaf_pairs(feed, own):
        if given.type.dtype != wanted.type.dtype or given.type.ndim != wanted.type.ndim:
            wrong = DtypeError if given.type.dtype != wanted.type.dtype else ShapeError
            raise wrong(
                f"step: {given.path} is {given.type}, and it was compiled for {wanted.type}",
                hint="sizes may differ from batch to batch; dtypes and the number of axes may not",
            )


def check_no_new_broadcast(own: BatchSignature, feed: BatchSignature) -> None:
    """Raise ShapeError where an axis has size 1 and another one does not, and both had equal sizes at compilation.

    NumPy would broadcast a single row of y, say, along the rows of x without an error, and the loss would be wrong.
    """
    alike: dict[Any, Any] = {}
    for given, wanted in leaf_pairs(feed, own):
        for axis, (n, size) in enumerate(zip(given.type.shape, wanted.type.shape, strict=True)):
            first = alike.setdefault((axis, size), given)
            m = first.type.shape[axis]
            if m != n and 1 in (m, n) and size != 1:
                raise ShapeError(
                    f"step: axis {axis} of {first.path} is {m} and that of {given.path} is {n}: {feed}",
                    hint=f"both were {size} when the step was compiled, and 1 would be broadcast in silence",
                )
