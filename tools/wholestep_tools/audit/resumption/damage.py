"""`wholestep audit damage`: each flipped bit and each cut in a checkpoint is noticed, and the state stays as it was."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import CheckpointError
from wholestep.train.checkpoint.write import MANIFEST
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.audit.resumption.faults import tiny
from wholestep_tools.audit.trainings.jobs import sha256

CLAIM = "A checkpoint in which one bit is another, or whose end is missing, is refused by an error that names the file"


def damaged(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """One bit flipped, a byte set, or the end cut off."""
    at, kind = int(rng.integers(len(data))), int(rng.integers(4))
    if kind == 0:
        return "cuts", data[:at]
    if kind == 1:
        return "zeroed stretches", data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :]
    return "bits", data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]


def refused(step: Any, path: Path, names: str, before: str) -> str:
    """The fault in how a damaged file is treated."""
    try:
        step.load(path)
        return "it was read"
    except CheckpointError as error:
        if names not in str(error):
            return f"the error does not name it: {error}"[:200]
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:200]
    return "" if sha256(step.state) == before else "the state has changed"


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many damages; the record of it."""
    seen, rng = Seen(), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as place:
        folder, step = Path(place).resolve(), tiny()
        step(np.ones(3))
        single, parts = folder / "state.safetensors", folder / "parts"
        step.save(single)
        step.save(parts, max_shard_bytes=60)
        targets = [(single, single), *[(path, parts) for path in sorted(parts.iterdir())]]
        whole = {path: path.read_bytes() for path, _ in targets}
        step(np.ones(3))
        before = sha256(step.state)
        for i in range(count):
            path, loaded = targets[0] if rng.random() < 0.5 else targets[int(rng.integers(len(targets)))]
            kind, data = damaged(whole[path], rng)
            if data == whole[path]:
                continue
            path.write_bytes(data)
            names = path.name if path.name != MANIFEST else parts.name
            wrong = refused(step, loaded, names, before)
            path.write_bytes(whole[path])
            seen.count(f"damages: {kind}")
            seen.right(not wrong, f"damage {i}, {kind} of {path.name}: {wrong}")
        step.load(parts)
        seen.right(sha256(step.state) != before, "the whole files were not read")
    checks = {"damages": sum(seen.checks.values()), **dict(sorted(seen.checks.items()))}
    return record("damage", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "damage",
    audit,
    100_000,
    "flip bits of checkpoints and cut them",
    """\
Checkpoints in one file and in parts, with manifest, have one bit flipped, up to 512 bytes zeroed, or their end cut
off, in a random place of a random file. Loading must end in CheckpointError that names the file, and leave the
state as it was: no byte of a checkpoint is there that no checksum covers.""",
)
