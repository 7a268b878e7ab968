"""Batches of any data, drawn by key and epoch, read ahead, and resumed at the batch where they stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.boundary.counts import whole_number
from wholestep.boundary.declared import callable_argument
from wholestep.boundary.public import bounded
from wholestep.collectives import Communicator
from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.ir.graph import NDArray
from wholestep.nn.keys import takes_key
from wholestep.train.data.prefetch import read_ahead
from wholestep.train.data.sampling import Buckets, Drawn, Plan, RandomWords, Rows, Sampler, Weighted, shuffle_buffered
from wholestep.train.data.sources import Arrays, Collate, Source, Stream, source_of, stack_items
from wholestep.train.program.mesh import MeshAxis, mesh_axis
from wholestep.train.step.held_state import base_key
from wholestep.tree import Tree
from wholestep.words import printable

Spans = Generator[tuple[Any, int], None, None]
"""Pairs of an item of the loader, which is a batch or a stack of batches, and the number of batches in it."""

SMALL = 1 << 16
"""The bytes of a batch below which gathering its rows takes less time than passing it between threads."""


RANK_BITS = 48
"""The bits of a batch's number in the number of its random stream; the rank of the process is in the bits above."""


@bounded
class Loader:
    """Batches of rows: `for batch in loader` gives the batches of one epoch, and each such loop is another epoch.

    `data` is a tree of arrays with rows along their first axis (a `np.memmap` among them; tensors, series and data
    frames, which are dictionaries of columns), the path of a .npy, .npz or .csv file, an object with `__len__` and
    `__getitem__` (a list of samples, a data set of torch or Hugging Face), an iterable, or a function that makes an
    iterator. Items of the last three are made into batches by `collate`, which stacks them. With `batch_size=None`
    each item is a batch. The last batch of an epoch may have fewer rows; `drop_last` leaves such a batch out.

    Rows come in an order that is a function of `key`, a seed or a key, and of the number of the epoch, the same on
    every machine; `shuffle=False` keeps them in order. `weights`, one for each row, draw as many rows with replacement,
    and `buckets`, bounds for the `length` of a row (a function of it, or an array), put rows of about one length
    together. `sampler` is a `Weighted`, or a function of a NumPy generator that gives the epoch's row numbers. Items
    of an iterator come in its order, or shuffled in a buffer of `buffer` items.

    `transform(batch)` changes each batch; where it has a keyword-only parameter `key` it is given a key of the batch's
    own. With `steps_per_call=K` batches come K at a time, stacked. `prefetch` is the number of batches made ahead in a
    thread, and 0 for no thread; the default is 2, but 0 for small batches of arrays in memory, which take less time
    than the thread would.

    With `mesh={"data": communicator}` a batch is that of all processes of the axis together: all draw the same order of
    rows, and each gets an equal part of the batch, in the order of ranks.

    `state()` is the position of the loop, as a dictionary of plain values, and `restore` goes to such a position: the
    loader then gives the batches that would have followed it. After a loop that is left before its end, the next loop
    begins where that one began, unless `hold()` is called in between.

    Shapes: arrays [rows, ...] of any dtype; batches [batch_size, ...] of the same, with K steps a call
    [K, batch_size, ...].
    Raises: ShapeError, DtypeError or TreeError for data that does not go together, ParameterError for such options.

    >>> import numpy as np, wholestep as ws
    >>> loader = ws.Loader({"x": np.arange(5.0)}, 2, shuffle=False)
    >>> [batch["x"].tolist() for batch in loader], loader.epoch, len(loader)
    ([[0.0, 1.0], [2.0, 3.0], [4.0]], 1, 3)
    """

    def __init__(
        self,
        data: Any,
        batch_size: int | None,
        *,
        shuffle: bool | None = None,
        drop_last: bool = False,
        key: Any = 0,
        sampler: Weighted | Callable[[np.random.Generator], Any] | None = None,
        weights: Any = None,
        buckets: Sequence[int] | None = None,
        length: Any = None,
        buffer: int | None = None,
        collate: Collate | None = None,
        transform: Callable[..., Any] | None = None,
        prefetch: int | None = None,
        steps_per_call: int = 1,
        mesh: Mapping[str, Communicator] | None = None,
    ) -> None:
        self.one_each = batch_size is None
        self.batch_size = 1 if batch_size is None else whole_number("batch_size", batch_size, "loader")
        self.steps_per_call = whole_number("steps_per_call", steps_per_call, "loader")
        self.drop_last = bool(drop_last)
        self.transform = None if transform is None else callable_argument("loader", "transform", transform)
        self.draws_keys = transform is not None and takes_key(transform)
        if self.one_each and collate is not None:
            raise ParameterError("loader: batch_size=None takes each item for a batch, and collate= makes batches")
        self.source = source_of(data, None if collate is None else callable_argument("loader", "collate", collate))
        self.mesh = self.shared_by(mesh)
        self.prefetch = self.ahead_of(prefetch)
        self.seed = seed_of(key)
        self.buffer = None if buffer is None else whole_number("buffer", buffer, "loader")
        self.sampler = self.drawn_by(shuffle, sampler, weights, buckets, length)
        self._epoch = self._position = 0
        self._start = (0, 0)
        self._known: tuple[Any, Plan] | None = None

    def shared_by(self, mesh: Mapping[str, Communicator] | None) -> MeshAxis | None:
        """The axis of the processes that share each batch."""
        axis = mesh_axis(mesh, "loader")
        if axis is None:
            return None
        if self.one_each or isinstance(self.source, Stream):
            raise ParameterError(
                "loader: mesh= shares out rows by their numbers, and these items are batches, or come as they do",
                hint="leave mesh= out, and give each process items of its own",
            )
        if self.batch_size % axis.size:
            raise ParameterError(
                f"loader: {axis.size} processes cannot share batches of {self.batch_size} rows equally",
                hint="batch_size counts the rows of all processes together: give a multiple of their number",
            )
        return axis

    def ahead_of(self, prefetch: Any) -> int:
        """The number of items that are made ahead."""
        if prefetch is not None:
            return 0 if prefetch == 0 else whole_number("prefetch", prefetch, "loader")
        source = self.source
        if not isinstance(source, Arrays) or source.mapped or self.transform is not None:
            return 2
        return 0 if source.row_bytes * self.batch_size * self.steps_per_call < SMALL else 2

    def drawn_by(self, shuffle: bool | None, sampler: Any, weights: Any, buckets: Any, length: Any) -> Sampler | None:
        """The sampler of the rows; None for an iterable."""
        given = [
            name for name, x in (("sampler", sampler), ("weights", weights), ("buckets", buckets)) if x is not None
        ]
        if (length is None) != (buckets is None):
            raise ParameterError("loader: buckets= and length= go together")
        if isinstance(self.source, Stream):
            self.check_stream(shuffle, given)
            return None
        if self.buffer is not None:
            raise ParameterError("loader: buffer= shuffles items that come one after the other; these can be asked for")
        count = len(self.source)
        if not count:
            raise ShapeError(f"loader: {getattr(self.source, 'name', 'the data')} has no rows")
        if len(given) > 1:
            raise ParameterError(f"loader: {' and '.join(given)} each draw the rows", hint="give one of them")
        found = self.chosen(count, shuffle is None or bool(shuffle), sampler, weights, buckets, length)
        for name, own in (("weights", "weights"), ("lengths", "lengths")):
            x = getattr(found, own, None)
            if x is not None and len(x) != count:
                raise ShapeError(f"loader: there are {len(x)} {name} and {count} rows")
        return found

    def chosen(self, count: int, shuffle: bool, sampler: Any, weights: Any, buckets: Any, length: Any) -> Sampler:
        """The sampler that the options choose."""
        if buckets is not None:
            source: Source = self.source  # type: ignore[assignment]
            lengths = [length(source.item(i)) for i in range(count)] if callable(length) else length
            return Buckets(lengths, buckets, shuffle)
        if weights is not None:
            return Weighted(weights)
        if isinstance(sampler, Weighted):
            return sampler
        return (
            Rows(count, shuffle) if sampler is None else Drawn(callable_argument("loader", "sampler", sampler), count)
        )

    def check_stream(self, shuffle: bool | None, given: list[str]) -> None:
        """Raise ParameterError for options that do not apply to an iterable."""
        if given:
            raise ParameterError(f"loader: {given[0]}= asks for rows by number, and these come one after the other")
        if shuffle and self.buffer is None:
            raise ParameterError(
                "loader: items that come one after the other cannot be shuffled as a whole",
                hint="buffer=1000 shuffles them in a buffer, shuffle=False leaves them in order",
            )
        if shuffle is False and self.buffer is not None:
            raise ParameterError("loader: buffer= is there to shuffle, and shuffle is False")

    @property
    def epoch(self) -> int:
        """The number of the epoch, 0 for the first."""
        return self._epoch

    @property
    def position(self) -> int:
        """The number of batches of this epoch that were given out; a stack for K steps a call counts as K."""
        return self._position

    def __len__(self) -> int:
        """The number of items of an epoch, which are batches or stacks of K; raises TypeError where it is unknown."""
        if isinstance(self.source, Stream):
            raise TypeError("loader: nobody knows how many items an iterable has")
        plan = self.plan(self._epoch)
        return len(plan) if self.steps_per_call == 1 else sum(1 for _ in self.spans(plan, 0))

    @property
    def steps(self) -> int | None:
        """The number of all batches of this epoch; None for an iterable."""
        return None if isinstance(self.source, Stream) else len(self.plan(self._epoch))

    @property
    def example(self) -> Tree:
        """The first item of this epoch, to compile a step for; the loop still begins with it.

        Raises UnsupportedError for an iterator that can be read only once.
        """
        if isinstance(self.source, Stream) and self.source.once:
            raise UnsupportedError(
                "loader: to look at the first item of an iterator is to take it away",
                hint="give a function that makes the iterator, or compile for ShapeDtypes",
            )
        for batch, _ in self.items(self._start[0], 0):
            return batch
        raise ShapeError(f"loader: {self.source} in batches of {self.batch_size} give no batch")

    def __iter__(self) -> Generator[Any, None, None]:
        """The items of this epoch, or the remaining ones after `restore` or `hold`."""
        epoch, start = self._start
        self._epoch, self._position = epoch, start
        with closing(self.read(epoch, start)) as spans:
            for batch, steps in spans:
                self._position += steps
                yield batch
        self._start = self._epoch, self._position = epoch + 1, 0

    def hold(self, back: int = 0) -> None:
        """Let the next loop begin at this loop's position, or `back` batches before it.

        Raises ParameterError where this loop has not given out as many batches.
        """
        if not 0 <= back <= self._position:
            raise ParameterError(f"loader: hold: back is {back}, and this loop has given out {self._position} batches")
        self._position -= back
        if self._position and self._position == self.steps:
            self._epoch, self._position = self._epoch + 1, 0
        self._start = self._epoch, self._position

    def read(self, epoch: int, start: int) -> Spans:
        """The items of an epoch from batch `start` on, read ahead with `prefetch`."""
        if self.prefetch:
            return read_ahead(lambda at: self.items(epoch, at), self.prefetch, start)
        return self.items(epoch, start)

    def items(self, epoch: int, start: int) -> Spans:
        """The items of an epoch from batch `start` on, each made on request."""
        if isinstance(self.source, Stream):
            return self.streamed(epoch, start)
        return self.planned(self.source, epoch, start)

    def planned(self, source: Source, epoch: int, start: int) -> Spans:
        """The items of a source whose rows have numbers."""
        plan = self.plan(epoch)
        whole = isinstance(source, Arrays) and self.transform is None and not self.one_each
        for first, last in self.spans(plan, start):
            if whole and self.steps_per_call > 1:
                shape = (last - first, plan.size(first))
                rows = source.rows(plan.rows(first, last))
                yield tree.map(lambda x, shape=shape: x.reshape(*shape, *x.shape[1:]), rows), last - first
                continue
            batches = [self.finished(self.made(source, plan.rows(i)), epoch, i) for i in range(first, last)]
            yield self.joined(batches), last - first

    def made(self, source: Source, which: NDArray) -> Tree:
        return source.item(int(which[0])) if self.one_each else source.rows(which)

    def streamed(self, epoch: int, start: int) -> Spans:
        """The items of an iterable; those before `start` are read and dropped."""
        source: Any = self.source
        items = (
            source.begin()
            if self.buffer is None
            else shuffle_buffered(source.begin(), self.buffer, RandomWords(self.seed, epoch))
        )
        read = iter(lambda: list(islice(items, self.batch_size)), [])
        stack: list[Any] = []
        for i, group in enumerate(read):
            ragged = len(group) < self.batch_size
            if ragged and self.drop_last:
                break
            if i < start:
                continue
            if stack and (ragged or len(stack) == self.steps_per_call):
                yield self.joined(stack), len(stack)
                stack = []
            stack.append(self.finished(group[0] if self.one_each else source.collate(group), epoch, i))
        if stack:
            yield self.joined(stack), len(stack)

    def spans(self, plan: Plan, start: int) -> Iterator[tuple[int, int]]:
        """The ranges of batches that are stacked, up to K of one size, as (first, last + 1)."""
        first = start
        while first < len(plan):
            last = first + 1
            while last - first < self.steps_per_call and last < len(plan) and plan.size(last) == plan.size(first):
                last += 1
            yield first, last
            first = last

    def plan(self, epoch: int) -> Plan:
        """The batches of an epoch, drawn once and cached."""
        known, sampler = self._known, self.sampler
        if known is not None and known[0] == (self.seed, epoch):
            return known[1]
        assert sampler is not None
        plan = sampler.plan(RandomWords(self.seed, epoch), self.batch_size, self.drop_last)
        if not len(plan):
            raise ShapeError(
                f"loader: {self.source} give no batch of {self.batch_size}",
                hint="drop_last=True leaves them all out; say drop_last=False, or a smaller batch_size"
                if self.drop_last
                else "there is nothing in the data; look at what was given",
            )
        if self.mesh is not None:
            plan = plan.shared(self.mesh.rank, self.mesh.size)
        self._known = (self.seed, epoch), plan
        return plan

    def finished(self, batch: Any, epoch: int, i: int) -> Tree:
        """A batch after the user's transform."""
        if self.transform is None:
            return batch
        number = i + 1 + (0 if self.mesh is None else self.mesh.rank << RANK_BITS)
        named = {"key": RandomWords(self.seed, epoch, number).key()} if self.draws_keys else {}
        made = self.transform(batch, **named)
        if made is None:
            raise ParameterError("loader: transform returned None", hint="return the batch, also one changed in place")
        return made

    def joined(self, batches: list[Any]) -> Tree:
        """An item of the loader: the batch, or the stack of batches."""
        return batches[0] if self.steps_per_call == 1 else stack_items(batches)

    def state(self) -> dict[str, Any]:
        """The position of the loop, as integers and strings, from which `restore` continues with the next batch.

        >>> import numpy as np, wholestep as ws
        >>> loader = ws.Loader(np.arange(6), 2)
        >>> _ = next(iter(loader))
        >>> loader.state()["position"]
        1
        """
        at = {"epoch": self._epoch, "position": self._position}
        if self._position and self._position == self.steps:
            at = {"epoch": self._epoch + 1, "position": 0}
        return {**at, "key": self.seed, "data": str(self.source), "order": self.order()}

    def order(self) -> str:
        """A description of the options, other than key and data, on which the batches depend."""
        drawn = self.sampler
        how = str(drawn) if drawn is not None else f"in a buffer of {self.buffer}" if self.buffer else "in order"
        last = "dropped" if self.drop_last else "kept"
        return f"{how}; items are batches" if self.one_each else f"{how}; batches of {self.batch_size}, the last {last}"

    def restore(self, state: dict[str, Any]) -> None:
        """Go to the position of another loader over the same data; the key becomes that of the state.

        Raises ParameterError for a state of other data or another order of it, and for an argument that is no state.
        """
        where = ("epoch", "position", "key")
        if not isinstance(state, dict) or set(state) != {*where, "data", "order"}:
            raise ParameterError("loader: restore takes a dictionary as state() gives it")
        if not all(type(state[name]) is int and 0 <= state[name] < 1 << 64 for name in where):
            raise ParameterError(
                f"loader: restore: not a place: {json.dumps({name: str(state[name]) for name in where})}"
            )
        if state["position"] >= 1 << 63 or state["epoch"] >= 1 << 63:
            raise ParameterError("loader: restore: not a place: no loop comes so far")
        for name, own in (("data", str(self.source)), ("order", self.order())):
            if state[name] != own:
                raise ParameterError(f"loader: restore: the state is for {name} {state[name]!r}, and this is {own!r}")
        if isinstance(self.source, Stream) and self.source.once and state["epoch"]:
            raise ParameterError("loader: restore: an iterator that can be read once has no second epoch")
        self.seed = state["key"]
        self._epoch, self._position = self._start = state["epoch"], state["position"]

    def __repr__(self) -> str:
        return printable(f"<loader of {self.source}; {self.order()}; epoch {self._epoch}, batch {self._position}>")


def seed_of(key: Any) -> int:
    """A seed or a key as one number."""
    low, high = [int(word) for word in base_key("loader", key)]
    return low | high << 32
