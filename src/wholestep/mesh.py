"""Meshes: communicators over the processes that train together, made of MPI's or of PyTorch's."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.boundary.public import boundary
from wholestep.collectives import Communicator, Link, NDArray, Traffic
from wholestep.errors import DtypeError, MissingExtraError, ParameterError, ShapeError

__all__ = ["Communicator", "Link", "Traffic", "mpi", "rows", "torch"]


class MPICommunicator:
    """The processes of an MPI communicator."""

    def __init__(self, comm: Any, beside: bool) -> None:
        self.comm, self.beside = comm, beside
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MPICommunicator) and bool(self.comm == other.comm)

    def __hash__(self) -> int:
        return hash((MPICommunicator, self.rank, self.size))

    def end_together(self) -> None:
        """Let an error that ends this process end all of them: the others would wait for it without an end."""
        if self in ENDED_TOGETHER:
            return
        ENDED_TOGETHER.add(self)
        before = sys.excepthook

        def show_and_end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            before(kind, error, trace)
            sys.stderr.flush()
            # Launchers forward a process's output with a delay, and drop the pending part at an abort.
            time.sleep(SECONDS_TO_BE_READ)
            self.comm.Abort(1)

        sys.excepthook = show_and_end

    def all_gather(self, send: NDArray, receive: NDArray) -> None:
        self.comm.Allgather(send, receive)

    def all_to_all(self, send: NDArray, receive: NDArray) -> None:
        self.comm.Alltoall(send, receive)


SECONDS_TO_BE_READ = 0.3
ENDED_TOGETHER: set[MPICommunicator] = set()
"""The communicators whose processes end together, each entered once."""


class TorchCommunicator:
    """The processes of a group of torch.distributed."""

    def __init__(self, torch: Any, group: Any) -> None:
        self.torch, self.group = torch, group
        self.rank = int(torch.distributed.get_rank(group))
        self.size = int(torch.distributed.get_world_size(group))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TorchCommunicator) and self.group is other.group

    def __hash__(self) -> int:
        return hash((TorchCommunicator, self.rank, self.size))

    def all_gather(self, send: NDArray, receive: NDArray) -> None:
        self.exchange([send] * self.size, receive)

    def all_to_all(self, send: NDArray, receive: NDArray) -> None:
        self.exchange(list(send), receive)

    def exchange(self, send: Sequence[NDArray], receive: NDArray) -> None:
        """Send each rank its row, and receive a row of each."""
        receive[self.rank] = send[self.rank]
        others = [(self.rank + away) % self.size for away in range(1, self.size)]
        # A sender waits to be told that its receiver is ready, which in gloo must not come behind the receiver's data.
        waiting = [self.begin("irecv", receive[rank], rank) for rank in reversed(others)]
        waiting += [self.begin("isend", send[rank], rank) for rank in others]
        for request in waiting:
            request.wait()

    def begin(self, word: str, row: NDArray, rank: int) -> Any:
        """Begin to send or receive bytes; `rank` is that in the group."""
        distributed = self.torch.distributed
        place = rank if self.group is None else distributed.get_global_rank(self.group, rank)
        return getattr(distributed, word)(self.torch.from_numpy(row), place, self.group)


def needed(module: str, who: str, hint: str) -> Any:
    """A module of an optional package; raises MissingExtraError where it cannot be imported."""
    try:
        return importlib.import_module(module)
    except (ImportError, RuntimeError) as error:  # mpi4py raises the latter where there is no MPI library
        raise MissingExtraError(f"{who}: {error}", hint=hint) from error


@boundary
def mpi(comm: Any = None) -> Communicator:
    """A communicator over the processes of an MPI communicator, `MPI.COMM_WORLD` unless another one is given.

    Programs are started with `mpiexec -n 4 python train.py`. An error that ends one process ends all of them, after its
    message: `sys.excepthook` is extended by that.

    Raises: MissingExtraError where mpi4py, or the MPI library that it calls, is not installed.

    >>> import wholestep as ws
    >>> ws.mesh.mpi  # doctest: +ELLIPSIS
    <function mpi at ...>
    """
    library = needed("mpi4py.MPI", "mesh.mpi", "pip install 'wholestep[mpi]'")
    beside = library.Query_thread() >= library.THREAD_SERIALIZED  # or else the main thread alone may call MPI
    found = MPICommunicator(library.COMM_WORLD if comm is None else comm, beside)
    if found.size > 1:
        found.end_together()
    return found


@boundary
def torch(group: Any = None) -> Communicator:
    """A communicator over the processes of a group of torch.distributed, all of them unless a group is given.

    Programs are started with `torchrun --nproc-per-node 4 train.py`, and call `init_process_group("gloo")` first.

    Raises: MissingExtraError where torch is not installed, ParameterError where no process group was initialized.

    >>> import wholestep as ws
    >>> ws.mesh.torch  # doctest: +ELLIPSIS
    <function torch at ...>
    """
    torch = needed("torch", "mesh.torch", "pip install torch")
    if not torch.distributed.is_initialized():
        raise ParameterError(
            "mesh.torch: torch.distributed has no process group",
            hint='call torch.distributed.init_process_group("gloo") first, and start the program with torchrun',
        )
    return TorchCommunicator(torch, group)


@boundary
def rows(data: Any, communicator: Communicator) -> Any:
    """The rows of each array of a tree that are a rank's own: an equal part of the first axis, in the order of ranks.

    Shapes: arrays of [n, ...] with n a multiple of the number of processes give arrays of [n / size, ...].
    Raises: ShapeError where the first axis cannot be cut into equal parts, DtypeError for leaves that are no arrays.

    >>> import numpy as np, wholestep as ws
    >>> class Second:
    ...     rank, size = 1, 2
    >>> ws.mesh.rows({"x": np.arange(6)}, Second())["x"].tolist()
    [3, 4, 5]
    """

    def own(path: str, x: Any) -> Any:
        if not isinstance(x, np.ndarray) or x.ndim == 0:
            raise DtypeError(f"mesh.rows: {path} is {x!r:.40}, not an array with rows")
        if x.shape[0] % communicator.size:
            raise ShapeError(
                f"mesh.rows: {path} has {x.shape[0]} rows, which {communicator.size} processes cannot share equally",
                hint="leave some rows out, or pad them",
            )
        part = x.shape[0] // communicator.size
        return x[communicator.rank * part : (communicator.rank + 1) * part]

    found = [own(path, x) for path, x in zip(tree.paths(data, "data"), tree.leaves(data), strict=True)]
    return tree.unflatten(tree.structure(data), found)
