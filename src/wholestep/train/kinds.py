"""Batches of other shapes than the one that a step was compiled for: a program for each kind, made at its first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from wholestep import tree
from wholestep.errors import DtypeError, ShapeError
from wholestep.train import loops
from wholestep.train.bound import Bound
from wholestep.train.engine import Engine
from wholestep.train.feed import Feed
from wholestep.train.result import Result
from wholestep.train.watch import check

KEPT = 16
"""How many programs are kept, those used last."""


class Kinds:
    """The kinds of batches that a step has met besides its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.own = tuple([leaf.type.shape for leaf in engine.feed.leaves])
        self.made: OrderedDict[Any, tuple[Feed, Bound]] = OrderedDict()

    def step(self, batch: Any) -> Result:
        """One call on a batch of any shapes; with K steps a call, as many steps as its first axis says."""
        try:
            return self.engine.step(batch)
        except ShapeError:
            key = tuple([getattr(x, "shape", ()) for x in tree.leaves(batch)])
            if key == self.own:
                raise
        return self.other(key, batch)

    def other(self, key: tuple[Any, ...], batch: Any) -> Result:
        """One call on a batch of shapes that are not those of the step."""
        engine = self.engine
        if key not in self.made:
            self.made[key] = self.program(batch)
            if len(self.made) > KEPT:
                self.made.popitem(last=False)
        self.made.move_to_end(key)
        feed, bound = self.made[key]
        arrays = feed.arrays(batch)
        if engine.watches:
            check(engine.watches, "step")
        return bound.run(engine.head + arrays)

    def program(self, batch: Any) -> tuple[Feed, Bound]:
        """A program for batches like this one."""
        engine, feed = self.engine, Feed(batch, "batch", "step")
        for own, leaf in zip(engine.feed.leaves, feed.leaves, strict=True):
            if leaf.type.dtype != own.type.dtype or leaf.type.ndim != own.type.ndim:
                wrong = DtypeError if leaf.type.dtype != own.type.dtype else ShapeError
                raise wrong(
                    f"step: {leaf.path} is {leaf.type}, and it was compiled for {own.type}",
                    hint="sizes may differ from batch to batch; dtypes and the number of axes may not",
                )
        whole = engine.one
        if engine.count > 1:
            counts = {leaf.type.shape[0] for leaf in feed.leaves}
            if len(counts) > 1 or 0 in counts:
                raise ShapeError(f"step: the first axis counts steps, and is another one in each array: {feed}")
            whole = loops.whole(engine.one, counts.pop(), engine.recipe.unroll)
        return feed, engine.bound(whole, feed, f"step of {engine.recipe.name} on {feed}")
