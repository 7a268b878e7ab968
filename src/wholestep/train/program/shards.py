"""Sharded optimizer state: each process of a mesh updates its own part of every parameter and keeps only its state.

Gradients are summed so that a process gets its part of them (reduce-scatter), and the updated parts are gathered into
whole parameters: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wholestep import numpy as wnp, tree
from wholestep.collectives import gather_over_ranks, part_of_sum
from wholestep.errors import CommunicationError, ParameterError, UnsupportedError, Where, WholestepError
from wholestep.frontend.batching import all_gather, axis_index, psum, psum_scatter
from wholestep.frontend.inspect import eval_shape, trace
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.optim.chaining import norms_over
from wholestep.optim.hyper import label
from wholestep.optim.protocol import call_update
from wholestep.train.program.elementwise_proof import NotElementwise, Spread, prove_elementwise, same_program
from wholestep.train.program.mesh import MeshAxis, buckets_of

SHARDED = ("optimizer", None)
PROBE = 100_003
"""The length of the first part in the proof; the other parts have the next greater lengths, so that all differ."""


@dataclass(frozen=True)
class Shards:
    """The layout of an optimizer's state of which each process has a part.

    A parameter of n elements is taken in row-major order, in equal parts of ⌈n / N⌉, the last of which end in zeros.
    """

    axis: MeshAxis
    owners: tuple[int | None, ...]
    """The number of the parameter whose layout each array of the optimizer's state has; None for a whole array."""

    def part(self, elements: int) -> int:
        """The number of elements of each process's part of an array of so many elements."""
        return part_of_sum(elements, self.axis.size)

    def begun(self, optimizer: Any, params: Any) -> Any:
        """The initial state of the optimizer in this process."""
        return optimizer.init(tree.map(lambda x: self.cut(np.asarray(x, type_of(x).dtype)), params))

    def cut(self, x: NDArray) -> NDArray:
        """This process's part of an array."""
        part = self.part(x.size)
        own, piece = np.zeros(part, x.dtype), x.reshape(-1)[self.axis.rank * part :][:part]
        own[: piece.size] = piece
        return own

    def rows(self, x: Any) -> Any:
        """A traced array padded with zeros and reshaped to a row for each process."""
        flat, part = x.reshape(-1), self.part(x.size)
        missing = self.axis.size * part - flat.size
        padded = wnp.concatenate([flat, wnp.zeros(missing, flat.dtype)]) if missing else flat
        return padded.reshape(self.axis.size, part)

    def own_parts(self, params: Any) -> Any:
        """This process's parts of traced parameters."""
        rank = axis_index(self.axis.name)
        return tree.map(lambda p: self.rows(p)[rank], params)

    def mean_parts(self, grads: Any) -> Any:
        """This process's parts of the means of gradients over the processes, sent bucket by bucket."""
        leaves, found = tree.leaves(grads), {}
        for members in buckets_of(leaves):
            wide = wnp.concatenate([self.rows(leaves[i]) for i in members], axis=1)
            parts = psum_scatter(wide, self.axis.name) / self.axis.size
            sizes = [self.part(leaves[i].size) for i in members]
            for i, piece in zip(members, pieces_of(parts, sizes), strict=True):
                found[i] = piece.astype(leaves[i].dtype)
        return tree.unflatten(tree.structure(grads), [found[i] for i in range(len(leaves))])

    def gathered(self, parts: Any, like: Any) -> Any:
        """The whole arrays, gathered from the parts of all processes, in the shapes of the arrays of `like`."""
        leaves, shapes, found = tree.leaves(parts), [x.shape for x in tree.leaves(like)], {}
        for members in buckets_of(leaves):
            rows = all_gather(wnp.concatenate([leaves[i] for i in members]), self.axis.name)
            for i, piece in zip(members, pieces_of(rows, [leaves[i].size for i in members]), strict=True):
                found[i] = uncut(piece, shapes[i])
        return tree.unflatten(tree.structure(like), [found[i] for i in range(len(leaves))])

    def everywhere(self, flag: Any) -> Any:
        """True where the flag is true in every process."""
        return psum(wnp.where(flag, 0, 1).astype(np.int32), self.axis.name) == 0

    def whole_state(self, state: Any, params: Any) -> Any:
        """The whole optimizer state in host arrays; all processes call this together."""
        shapes = [x.shape for x in tree.leaves(params)]

        def whole(x: NDArray, owner: int | None) -> NDArray:
            return x if owner is None else uncut(self.exchanged(x), shapes[owner])

        return tree.unflatten(tree.structure(state), list(map(whole, tree.leaves(state), self.owners)))

    def exchanged(self, x: NDArray) -> NDArray:
        """The parts of an array of all processes, gathered."""
        try:
            return gather_over_ranks(self.axis.name, x)
        except Exception as error:
            raise CommunicationError(
                f"step: the processes over {self.axis.name!r} cannot gather the optimizer's state: {error}",
                hint="every process calls what needs all of it: step.save, step.flush, step.averaged",
            ) from error

    def own_state(self, state: Any) -> Any:
        """This process's part of a whole state of the optimizer."""
        pairs = zip(tree.leaves(state), self.owners, strict=True)
        return tree.unflatten(tree.structure(state), [x if i is None else self.cut(np.asarray(x)) for x, i in pairs])

    def norms(self) -> AbstractContextManager[None]:
        """A context in which norms of gradients are computed over the parts of all processes."""
        return norms_over(self.axis.name)

    def whole_shapes(self, state: Any, params: Any) -> dict[str, Any]:
        """The whole shapes of the sharded arrays of the state, by path."""
        shapes = [np.shape(x) for x in tree.leaves(params)]
        paths = tree.paths(state, "optimizer")
        return {path: shapes[i] for path, i in zip(paths, self.owners, strict=True) if i is not None}


def pieces_of(x: Any, sizes: Sequence[int]) -> Iterator[Any]:
    """Pieces of these sizes along the last axis."""
    at = 0
    for n in sizes:
        yield x[..., at : at + n]
        at += n


def uncut(rows: Any, shape: tuple[int, ...]) -> Any:
    """The whole array from the rows of all processes, without the padding."""
    return rows.reshape(-1)[: int(np.prod(shape, dtype=np.int64))].reshape(shape)


def shards_of(shard: Any, axis: MeshAxis | None, optimizer: Any, params: Any, refused: Mapping[str, bool]) -> Any:
    """The shards of `shard="optimizer"`; None for `shard=None` and for a single process.

    `refused` are options that sharding does not support, True where they are in use.
    """
    if shard not in SHARDED:
        raise ParameterError(
            f"compile: shard is {shard!r}; it is one of {', '.join(map(repr, SHARDED))}",
            hint="parameters and gradients are whole in every process",
        )
    if shard is None:
        return None
    if axis is None or optimizer is None:
        raise ParameterError(
            f"compile: shard='optimizer' without {'mesh' if axis is None else 'optimizer'}=",
            hint='it is for mesh={"data": ws.mesh.mpi()} and an optimizer that keeps a state',
        )
    for option, used in refused.items():
        if used:
            raise UnsupportedError(
                f"compile: shard='optimizer' does not go with {option}", hint="leave one of them out"
            )
    return None if axis.size == 1 else Shards(axis, checked_owners(axis, optimizer, params))


def with_new_owners(step_function: Any, params: Any) -> Any:
    """The definition of a step with the owners recomputed for its new optimizer or parameters."""
    old = step_function.shards
    if old is None:
        return step_function
    owners = checked_owners(old.axis, step_function.optimizer, params)
    return replace(step_function, shards=Shards(old.axis, owners))


def checked_owners(axis: MeshAxis, optimizer: Any, params: Any) -> tuple[int | None, ...]:
    """The parameter of each array of the optimizer's state; raises UnsupportedError for an update not elementwise."""
    structure = tree.structure(params)
    types = [type_of(x) for x in tree.leaves(params)]
    # A parameter without axes is taken as an array of one element, so that sums over it appear in the graph.
    whole = tree.unflatten(structure, [ShapeDtype(t.shape or (1,), t.dtype) for t in types])
    parts = tree.unflatten(structure, [ShapeDtype((PROBE + i,), t.dtype) for i, t in enumerate(types)])
    try:
        states = [eval_shape(optimizer.init, given) for given in (whole, parts)]
        owners = state_owners(tree.leaves(whole), *map(tree.leaves, states))
        kinds = [Spread.EACH if i is not None else Spread.UNIFORM for i in owners]
        each = [Spread.EACH] * len(types)
        graphs = []
        for state, given in zip(states, (whole, parts), strict=True):
            graph = traced_update(axis, optimizer, given, state)
            prove_elementwise(graph, [*each, *kinds, *each, Spread.UNIFORM], [*each, *kinds])
            graphs.append(graph)
        if not same_program(*graphs):
            raise not_elementwise(optimizer, "its update depends on the shapes of the parameters")
    except NotElementwise as found:
        raise not_elementwise(optimizer, str(found), found.node.where) from None
    except UnsupportedError:
        raise
    except WholestepError as error:
        raise not_elementwise(optimizer, str(error).split("\n", 1)[0]) from error
    return tuple(owners)


def traced_update(axis: MeshAxis, optimizer: Any, params: Any, state: Any) -> Any:
    """The graph of an update of parameters of these shapes."""

    def update(grads: Any, state: Any, params: Any, loss: Any) -> Any:
        with norms_over(axis.name):
            return call_update(optimizer, grads, state, params, {"loss": loss})

    return trace(update)(params, state, params, ShapeDtype((), np.dtype(np.float32)))


def state_owners(whole: Sequence[Any], states: Sequence[Any], parts: Sequence[Any]) -> list[int | None]:
    """The owner of each array of the state, found by its lengths for whole parameters and for parts."""
    found: list[int | None] = []
    for own, part in zip(states, parts, strict=True):
        lengths = [n for n in part.shape if PROBE <= n < PROBE + len(whole)]
        owner = lengths[0] - PROBE if lengths else None
        like = own.shape == part.shape if owner is None else own.shape == whole[owner].shape
        if not like or (owner is not None and len(part.shape) > 1):
            raise WholestepError(f"its state has an array {own}, like no parameter")
        found.append(owner)
    return found


def not_elementwise(optimizer: Any, why: str, where: Where = None) -> UnsupportedError:
    """The error for an optimizer whose update of a part depends on other elements of the parameter."""
    return UnsupportedError(
        f"compile: shard='optimizer' with {label(optimizer)}, which is not elementwise: {why}",
        where=where,
        hint="take one that treats each element by itself, such as ws.optim.adamw, with clip_by_global_norm or not; "
        "or leave shard= out",
    )
