"""The methods of a step that save its state to files and load it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from wholestep.boundary.public import bounded
from wholestep.train import checkpoint
from wholestep.train.program.engine import Engine


@bounded
class SavedState(ABC):
    """A state that can be written to files and read from them."""

    __slots__ = ()

    _engine: Engine
    _lock: AbstractContextManager[Any]

    @abstractmethod
    def _write(self, parts: dict[str, Any], hyper: Mapping[str, Any] | None = None) -> None:
        """Set parts of the state and hyper-parameters, or raise and set nothing."""

    def save(
        self, path: checkpoint.Where, *, loader: Any = None, metadata: Any = None, max_shard_bytes: int | None = None
    ) -> None:
        """Write all of the state to a safetensors file: a step that loads it goes on with the same bits.

        It lies at `path` and holds parameters, buffers, the optimizer's state, counters and key, hyper-parameters, the
        progress of an interrupted epoch of `run`, the position of `loader` in its data, and `metadata`, which JSON must
        be able to hold. With `max_shard_bytes` it is a folder of files of up to that size (a larger array has one of
        its own) and a manifest.

        The file is replaced in one instant, and only once the new one is safe from a power cut; the previous file is
        kept beside it, as `NAME.previous.safetensors`. Where processes have parts of the optimizer's state
        (`shard="optimizer"`) all processes call this, and each writes the whole state; in `fit` rank 0 alone writes.

        Shapes: arrays of any shapes and dtypes; nothing is returned.
        Raises: CheckpointError where the file cannot be written.

        >>> import numpy as np, os, tempfile, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = os.path.join(folder, "line.safetensors")
        ...     step.save(file, metadata={"note": "before the first step"})
        ...     _ = step(np.ones(2))
        ...     loaded = step.load(file)
        >>> float(step.params), loaded.metadata["note"]
        (0.0, 'before the first step')
        """
        with self._lock:
            checkpoint.save_step(self._engine, path, loader, metadata, max_shard_bytes)

    def load(
        self,
        path: checkpoint.Where,
        *,
        strict: bool = True,
        rename: checkpoint.Rename | None = None,
        only: Sequence[str] | None = None,
        convert: checkpoint.Convert | None = None,
        cast: bool = False,
        loader: Any = None,
        fallback: bool = False,
    ) -> checkpoint.Loaded:
        """Load a checkpoint that `save` has written, or the weights in a safetensors file of another library.

        The file, or folder of files, lies at `path`; names, shapes and dtypes must be those of the step. `rename` maps
        a tensor's name in the file to its name in the state (a table, or a function that may return None to leave the
        tensor out), and `only` lists the parts to read of params, buffers, optimizer, counters and hyper;
        `strict=False` loads the names that match, and the result lists the others. `convert` is a table from names in
        the file, in which `*` matches any characters, to functions of the array, such as `checkpoint.torch_linear`;
        `cast=True` converts dtypes. In a file of another library a name is that of a parameter or a buffer. `loader` is
        set to the saved position. With `fallback` the checkpoint before the newest is loaded where the newest is
        damaged or missing, and the result has the fault of the newest.

        Nothing in a file is executed, and it takes no more memory than it has bytes.

        Shapes: arrays of the shapes and dtypes of the step, or with `cast` of any dtypes.
        Raises: CheckpointError for a file that is damaged, hostile, of an unknown format or of another model; the state
        is then as it was.

        >>> import numpy as np, os, tempfile, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     step.save(os.path.join(folder, "a.safetensors"))
        ...     step.load(os.path.join(folder, "a.safetensors")).metadata is None
        True
        """
        parts = checkpoint.parts_named(only)
        wanted = checkpoint.Wanted(strict, rename, parts, dict(convert or {}), cast)
        with self._lock:
            return checkpoint.load_step(self._engine, path, wanted, loader, fallback, self._write)
