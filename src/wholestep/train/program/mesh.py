"""Data parallelism: the loss and gradients of a step averaged over the processes of a mesh's axis."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import numpy as wnp, random, tree
from wholestep.collectives import communicator_of, enter_axis
from wholestep.contents import pieces
from wholestep.errors import CommunicationError, DtypeError, ParameterError
from wholestep.frontend.array import Array
from wholestep.frontend.batching import axis_index, psum
from wholestep.ir.graph import NDArray


class MeshAxis(NamedTuple):
    """An axis of a mesh: its name, and the number of its processes."""

    name: str
    size: int

    def key(self, key: Any) -> Any:
        """The random key of this process, as each micro-batch has one of its own."""
        return random.fold_in(key, axis_index(self.name))

    def mean(self, arrays: Sequence[Any]) -> list[Any]:
        """The means of arrays over the processes, those of one dtype sent together."""
        found: dict[int, Any] = {}
        groups: dict[Any, list[int]] = {}
        for i, x in enumerate(arrays):
            groups.setdefault(x.dtype, []).append(i)
        for members in groups.values():
            flat = wnp.concatenate([arrays[i].reshape(-1) for i in members])
            total, at = psum(flat, self.name) / self.size, 0
            for i in members:
                found[i] = total[at : at + arrays[i].size].reshape(arrays[i].shape).astype(arrays[i].dtype)
                at += arrays[i].size
        return [found[i] for i in range(len(arrays))]

    def average(self, value: Any, grads: Any, buffers: Any) -> tuple[Any, Any, Any]:
        """The mean loss, gradients and floating buffers; other buffers stay those of each process."""
        kept = [x for x in tree.leaves(buffers) if is_averaged(x)]
        mean = iter(self.mean([value, *tree.leaves(grads), *kept]))
        value = next(mean)
        grads = tree.map(lambda g: next(mean), grads)
        return value, grads, tree.map(lambda x: next(mean) if is_averaged(x) else x, buffers)


def is_averaged(x: Any) -> bool:
    """True for a buffer of real or complex numbers."""
    return isinstance(x, Array) and x.dtype.kind in "fcV"


def mesh_axis(mesh: Any) -> MeshAxis | None:
    """The axis of `mesh={"data": communicator}`, entered under its name; None without a mesh."""
    if mesh is None:
        return None
    if not isinstance(mesh, Mapping) or not all(isinstance(name, str) for name in mesh):
        raise DtypeError(
            f"compile: mesh is {mesh!r:.60}, not a mapping from the name of an axis to a communicator",
            hint='mesh={"data": ws.mesh.mpi()}',
        )
    if len(mesh) != 1:
        raise ParameterError(
            f"compile: mesh has {len(mesh)} axes; this version averages over one", hint='mesh={"data": communicator}'
        )
    ((name, communicator),) = mesh.items()
    if not name.isidentifier():
        raise ParameterError(f"compile: the mesh's axis {name!r} is not a name")
    missing = [word for word in ("rank", "size", "all_gather", "all_to_all") if not hasattr(communicator, word)]
    if missing:
        raise DtypeError(
            f"compile: the communicator of mesh axis {name!r} is a {type(communicator).__name__} without {missing[0]}",
            hint="ws.mesh.mpi() and ws.mesh.torch() make one; ws.mesh.Communicator says what one has",
        )
    enter_axis(name, communicator)
    return MeshAxis(name, int(communicator.size))


def check_alike(axis: MeshAxis, facts: Mapping[str, bytes]) -> None:
    """Raise CommunicationError, on every rank, where facts such as the program differ between the processes."""
    communicator = communicator_of(axis.name)
    own = np.frombuffer(b"".join(facts.values()), np.uint8).copy()
    rows = np.empty((axis.size, own.size), np.uint8)
    communicator.all_gather(own, rows)
    cells = rows.reshape(axis.size, len(facts), -1)
    for number, what in enumerate(facts):
        other = [rank for rank in range(axis.size) if (cells[rank, number] != cells[0, number]).any()]
        if other:
            raise CommunicationError(
                f"compile: rank {other[0]} of mesh axis {axis.name!r} has another {what} than rank 0",
                hint="every process compiles the same step on the same parameters and on batches of one shape: "
                "make parameters from one seed, and give each rank as many rows",
            )


def digest(parts: Sequence[NDArray]) -> bytes:
    """The digest of arrays."""
    found = hashlib.sha256()
    for x in parts:
        found.update(f"{x.dtype} {x.shape}".encode())
        for piece in pieces(np.ascontiguousarray(x)):
            found.update(piece)
    return found.digest()
