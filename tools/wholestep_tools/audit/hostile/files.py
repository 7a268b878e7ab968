"""`wholestep audit files`: reading any file, however damaged, ends in one error, soon, in little memory."""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import CheckpointError
from wholestep.train.checkpoint.write import MANIFEST
from wholestep.train.data.loader import Loader
from wholestep.train.step.step import Step
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.hostile import datafiles
from wholestep_tools.audit.hostile.mutations import MANIFEST_MUTATIONS, MUTATIONS, Mutation
from wholestep_tools.audit.record import record
from wholestep_tools.audit.resumption.faults import tiny
from wholestep_tools.audit.trainings.jobs import sha256

try:
    import resource
except ImportError:  # on Windows
    resource = None  # type: ignore[assignment]

STATUS = Path("/proc/self/statm")
LIMITED = resource is not None and STATUS.exists()
"""True where the memory of this process can be bounded."""
CLAIM = (
    "Whatever a file holds, loading it ends in one error, within a second, in bounded memory, with the state as it was"
)
SECONDS = 1.0
"""The most seconds of the processor, which other programs add nothing to."""
MEMORY = 96 << 20
"""Bytes that loading may add to the process."""
MANIFESTS = 0.2
"""The part of the files that are manifests."""
OWN = 0.7
"""The part of the others that this library has written."""
DATA = 4
"""For so many checkpoints one file of data."""


class Target:
    """A step, and the files that are damaged: one of ours, one from elsewhere, and a manifest with its parts."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import save

        self.step: Step = tiny()
        self.step(np.ones(3))
        self.saved = sha256(self.step.state)
        self.file, parts = folder / "state.safetensors", folder / "parts"
        self.loader = Loader(np.ones((8, 3)), 2)
        self.loader.restore({**self.loader.state(), "position": 1})
        self.step.save(self.file, loader=self.loader, metadata={"note": "a few words", "list": [1, 2.5, None]})
        self.step.save(parts, loader=self.loader, max_shard_bytes=60)
        (parts / "link.safetensors").symlink_to(self.file)
        os.link(self.file, parts / "hard.safetensors")
        if hasattr(os, "mkfifo"):
            os.mkfifo(parts / "pipe.safetensors")
        self.own, self.manifest = self.file.read_bytes(), parts / MANIFEST
        self.manifest_text = self.manifest.read_bytes()
        self.foreign = save({"w": np.arange(3.0), "b": np.ones((2, 0), np.float16)}, {"format": "pt"})
        self.step(np.ones(3))
        self.state = self.step.state
        self.before = sha256(self.state)
        self.refused = 0
        self.place = self.loader.state()

    def drawn(self, rng: np.random.Generator) -> tuple[str, Path, bytes]:
        """A damage and its file, with the bytes that are then in it."""
        if rng.random() < MANIFESTS:
            name, mutation = chosen(MANIFEST_MUTATIONS, rng)
            return f"manifest, {name}", self.manifest, mutation(self.manifest_text, rng)
        kind, data = ("own", self.own) if rng.random() < OWN else ("foreign", self.foreign)
        name, mutation = chosen(MUTATIONS, rng)
        return f"{kind}, {name}", self.file, mutation(data, rng)

    def restore(self) -> None:
        """Restore the manifest of the checkpoint in parts."""
        self.manifest.unlink()
        self.manifest.write_bytes(self.manifest_text)

    def judged(self, what: str, path: Path, data: bytes, slow: bool = False) -> str:
        """The fault in how a file is read; empty where it is as it should be."""
        path.unlink()  # some file systems take long to empty a file, and none to make one
        path.write_bytes(data)
        before = time.process_time()
        try:
            with bounded(MEMORY):
                foreign = what.startswith("foreign")
                self.step.load(path, strict=not foreign, loader=None if foreign else self.loader)
            accepted = True
        except CheckpointError:
            accepted = False
            self.refused += 1
        except BaseException as error:
            return f"{type(error).__name__}: {error}"[:200]
        if (seconds := time.process_time() - before) > SECONDS:
            # Twice in a row, or the machine was busy with something else.
            return f"it took {seconds:.1f} s" if slow else self.judged(what, path, data, True)
        found, place = sha256(self.step.state), self.loader.state()
        self.loader.restore(self.place)
        if not accepted:
            same = found == self.before and place == self.place
            return "" if same else "it was refused, and the state is another one"
        state = self.step.state
        self.step.load_state(self.state)
        if what.startswith("foreign"):
            return "" if read_elsewhere(data, state["params"]["w"]) else "it was read otherwise than by safetensors"
        return "" if found == self.saved else "it was accepted, and is not what was saved"


def chosen(mutations: Mapping[str, tuple[Mutation, float]], rng: np.random.Generator) -> tuple[str, Mutation]:
    """A way to damage a file, by its share."""
    shares = np.array([share for _, share in mutations.values()])
    name = list(mutations)[int(rng.choice(len(mutations), p=shares / shares.sum()))]
    return name, mutations[name][0]


def read_elsewhere(data: bytes, weight: Any) -> bool:
    """Test whether the safetensors library reads the same weight in a file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = load(data).get("w")
    except SafetensorError:
        return False
    return found is not None and found.dtype == weight.dtype and found.tobytes() == weight.tobytes()


@contextmanager
def bounded(memory: int) -> Iterator[None]:
    """Limit this process to only so much more memory than it has, where the system can do that."""
    if not LIMITED:
        yield
        return
    held = int(STATUS.read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + memory, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def audit(count: int, seed: int) -> dict[str, Any]:
    """Damage and read; the record of it."""
    rng, tried, failures = np.random.default_rng(seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory() as place:
        target = Target(Path(place))
        failures += [f"{what} is not read" for what in whole(target)]
        target.refused = 0
        for i in range(count):
            what, path, data = target.drawn(rng)
            wrong = target.judged(what, path, data)
            tried[what] += 1
            failures += [f"file {i}, {what}: {wrong}"] if wrong else []
            if path == target.manifest:
                target.restore()
    numbers, more = datafiles.audit(max(1, count // DATA), rng, lambda: bounded(MEMORY))
    limits = {"seconds": SECONDS, "bytes": MEMORY if LIMITED else None}
    checks = {"files": count, "of them refused": target.refused, **dict(sorted(tried.items())), **numbers}
    return record("files", CLAIM, checks, failures + more, seed=seed, limits=limits)


def whole(target: Target) -> Iterator[str]:
    """Files that nobody has damaged and that are not read: there should be none."""
    for what, path, data in (("own", target.file, target.own), ("manifest", target.manifest, target.manifest_text)):
        if target.judged(what, path, data) or target.before == target.saved:
            yield what
            continue
        target.step.load(path)
        if sha256(target.step.state) != target.saved:
            yield what
        target.step.load_state(target.state)


AUDIT = Audit(
    "files",
    audit,
    20_000,
    "read files that are damaged, hostile or of other kinds",
    """\
Files are damaged by chance and by knowledge of the layout, with checksums made right again, and other kinds of
files are put in their place. Loading must end in CheckpointError with the state as it was, or give exactly what
was saved; where a file of another library still loads, the safetensors library must read the same numbers. For
every four checkpoints a loader is given a damaged or hostile `.npy`, `.npz` or `.csv` file: it must read what
NumPy reads, or refuse it with an error of the library that names the file.""",
)
