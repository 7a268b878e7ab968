"""Data parallelism: the loss and gradients of a step averaged over the processes of a mesh's axis."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import numpy as wnp, random, tree
from wholestep.collectives import communicator_of, enter_axis, gather_bytes
from wholestep.contents import pieces
from wholestep.errors import CommunicationError, DtypeError, ParameterError
from wholestep.frontend.array import Array
from wholestep.frontend.batching import axis_index, psum
from wholestep.frontend.custom import custom_vjp
from wholestep.ir.build import current
from wholestep.ir.graph import NDArray
from wholestep.words import type_in_words

BUCKET_BYTES = 1 << 20
"""The bytes of gradients after which a message is sent: a millisecond at 1 GB/s, much longer than the latency of a few
messages."""


class MeshAxis(NamedTuple):
    """An axis of a mesh: its name, and the number of its processes."""

    name: str
    size: int

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return int(communicator_of(self.name).rank)

    def key(self, key: Any) -> Any:
        """The random key of this process, as each micro-batch has one of its own; that of one process is the step's."""
        return key if self.size == 1 else random.fold_in(key, axis_index(self.name))

    def mean(self, arrays: Sequence[Any]) -> list[Any]:
        """The means of arrays over the processes, sent bucket by bucket."""
        found: dict[int, Any] = {}
        for members in buckets_of(arrays):
            flat = wnp.concatenate([arrays[i].reshape(-1) for i in members])
            total, at = psum(flat, self.name) / self.size, 0
            for i in members:
                found[i] = total[at : at + arrays[i].size].reshape(arrays[i].shape).astype(arrays[i].dtype)
                at += arrays[i].size
        return [found[i] for i in range(len(arrays))]

    def replicated(self, params: Any) -> Any:
        """The same params, whose cotangents are averaged over the processes, since each has a part of one loss."""
        if not tree.leaves(params):
            return params

        @custom_vjp
        def own(arrays: list[Any]) -> list[Any]:
            return arrays

        own.defvjp(lambda arrays: (arrays, None), lambda _, cotangents: (self.mean(cotangents),))
        return tree.unflatten(tree.structure(params), own(tree.leaves(params)))

    def average(self, value: Any, grads: Any, buffers: Any) -> tuple[Any, Any, Any]:
        """The mean loss, gradients and floating buffers; other buffers are those of rank 0."""
        kept = [x for x in tree.leaves(buffers) if is_averaged(x)]
        mean = iter(self.mean([*tree.leaves(grads), value, *kept]))
        grads = tree.map(lambda g: next(mean), grads)
        value = next(mean)
        return value, grads, tree.map(lambda x: next(mean) if is_averaged(x) else self.of_first(x), buffers)

    def of_first(self, x: Any) -> Any:
        """The integers or truth values of rank 0."""
        x = wnp.asarray(x)
        numbers = x.astype(np.uint8) if x.dtype == bool else x
        kept = wnp.where(axis_index(self.name) == 0, numbers, wnp.zeros((), numbers.dtype))
        return psum(kept, self.name).astype(x.dtype)


def buckets_of(arrays: Sequence[Any]) -> list[list[int]]:
    """The numbers of the arrays of each message: arrays of one dtype in the order in which the graph computes them, up
    to the first with which a message has `BUCKET_BYTES`.
    """
    builder = current()
    made = {} if builder is None else {node: place for place, node in enumerate(builder.nodes)}
    places = [made.get(x.value.node, -1) for x in arrays]
    complete: list[list[int]] = []
    filling: dict[Any, list[int]] = {}
    filled = Counter[Any]()
    for i in sorted(range(len(arrays)), key=places.__getitem__):
        x = arrays[i]
        filling.setdefault(x.dtype, []).append(i)
        filled[x.dtype] += x.nbytes
        if filled[x.dtype] >= BUCKET_BYTES:
            complete.append(filling.pop(x.dtype))
            del filled[x.dtype]
    return [*complete, *filling.values()]


def is_averaged(x: Any) -> bool:
    """True for a buffer of real or complex numbers."""
    return isinstance(x, Array) and x.dtype.kind in "fcV"


def mesh_axis(mesh: Any, who: str = "compile") -> MeshAxis | None:
    """The axis of `mesh={"data": communicator}`, entered under its name; None without a mesh."""
    if mesh is None:
        return None
    if not isinstance(mesh, Mapping) or not all(isinstance(name, str) for name in mesh):
        raise DtypeError(
            f"{who}: mesh is {mesh!r:.60}, not a mapping from the name of an axis to a communicator",
            hint='mesh={"data": ws.mesh.mpi()}',
        )
    if len(mesh) != 1:
        raise ParameterError(
            f"{who}: mesh has {len(mesh)} axes; this version averages over one", hint='mesh={"data": communicator}'
        )
    ((name, communicator),) = mesh.items()
    if not name.isidentifier():
        raise ParameterError(f"{who}: the mesh's axis {name!r} is not a name")
    missing = [word for word in ("rank", "size", "all_gather", "all_to_all") if not hasattr(communicator, word)]
    if missing:
        raise DtypeError(
            f"{who}: the communicator of mesh axis {name!r} is {type_in_words(communicator)} without {missing[0]}",
            hint="ws.mesh.mpi() and ws.mesh.torch() make one; ws.mesh.Communicator says what one has",
        )
    enter_axis(name, communicator)
    return MeshAxis(name, int(communicator.size))


def check_alike(axis: MeshAxis, what: str, fact: bytes) -> None:
    """Raise CommunicationError, on every rank, where the processes of an axis have different facts of equal length."""
    rows = gather_bytes(axis.name, fact, "mesh")
    other = np.flatnonzero((rows != rows[0]).any(axis=1))
    if other.size:
        raise CommunicationError(
            f"mesh: rank {other[0]} of axis {axis.name!r} has another {what} than rank 0", hint=ALIKE[what]
        )


ALIKE = {
    "program": "every process compiles the same loss and optimizer for batches of one shape: give each as many rows",
    "state": "every process begins with equal parameters, made from one seed or read from one file that all of them "
    "can read, and calls the step as often",
}
"""The hint of the error for each fact that differs between processes."""


def digest(parts: Sequence[NDArray]) -> bytes:
    """The digest of arrays."""
    found = hashlib.sha256()
    for x in parts:
        found.update(f"{x.dtype} {x.shape}".encode())
        for piece in pieces(np.ascontiguousarray(x)):
            found.update(piece)
    return found.digest()
