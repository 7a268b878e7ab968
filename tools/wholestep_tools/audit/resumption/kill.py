"""`wholestep audit kill`: a process is killed while it saves; its last complete save is readable, and training goes
on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import CheckpointError
from wholestep.train.checkpoint.filesystem import previous
from wholestep.train.checkpoint.write import MANIFEST, parts_of
from wholestep.train.step.step import Step
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.record import record
from wholestep_tools.audit.resumption.faults import faults
from wholestep_tools.audit.trainings.jobs import EPOCHS, WIDE, perceptron, sha256

CLAIM = "A process killed at any instant loses nothing beyond the last save that ended, and every file can be read"
AIMED = 0.9
"""The part of the kills that are aimed into a save."""
MOST = 500_000
"""Bytes of a part, where the checkpoint is in parts."""
FRESH = 50
"""Kills after which the process that bears the victims is itself a fresh one."""


class Bearer:
    """The process whose children are killed."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "wholestep_tools.audit.resumption.victim"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def order(self, path: Path, most: int | None) -> Iterator[dict[str, Any]]:
        """The messages of a child from its birth to its end."""
        assert self.process.stdout is not None
        self.tell({"path": str(path), "most": most})
        for line in self.process.stdout:
            said = json.loads(line)
            yield said
            if "ended" in said:
                self.tell({})
            if "status" in said:
                return
        raise RuntimeError("the process that bears the victims has ended")

    def tell(self, what: dict[str, Any]) -> None:
        """One line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        """Let it end."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Campaign:
    """The record of one training: the hash at each step, and the last step that was saved."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        job = perceptron(WIDE)
        self.step: Step = job.step(1)
        self.end = EPOCHS * job.steps
        self.hashes: dict[int, str] = {}
        self.failures: list[str] = []
        self.seen: Counter[str] = Counter()
        self.recent = deque([0.005], 20)  # seconds that saves took

    def kill(self, bearer: Bearer, path: Path, most: int | None, saved: int) -> int:
        """One child, to its death; the last step that it or one before it has saved."""
        aimed, before = self.rng.random() < AIMED, debris(path)
        wait = self.rng.random() * (min(self.recent) if aimed else 10 * max(self.recent))
        left, child, begun, saving = int(self.rng.integers(1, 5)), 0, saved, False
        for said in bearer.order(path, most):
            child = said.get("child", child)
            if "saved" in said:
                saved, saving = said["saved"], False
                self.recent.append(said["seconds"])
            if "begun" in said:
                begun, saving, left = said["begun"], True, left - 1
                if self.hashes.setdefault(begun, said["sha256"]) != said["sha256"]:
                    self.failures.append(f"step {begun} has another state after a kill than without one")
                if left == 0:
                    time.sleep(wait)
                    os.kill(child, signal.SIGKILL)
            if said.get("status", signal.SIGKILL) not in (0, signal.SIGKILL):
                self.failures.append(f"a child ended with status {said['status']}")
        self.seen["came during a save"] += saving
        self.seen["left something half written"] += bool(debris(path) - before)
        self.judge(path, saved, begun)
        return saved

    def judge(self, path: Path, saved: int, begun: int) -> None:
        """Test whether the file holds a saved state that is not older than the last one."""
        try:
            self.step.load(path)
        except CheckpointError as error:
            if saved:
                self.failures.append(f"step {saved} was saved and cannot be read: {error}")
            self.seen["came before the first save had ended"] += not saved
            return
        state = self.step.state
        number = int(state["counters"]["step"])
        self.seen["came when the new file was in place and not yet announced"] += number == begun > saved
        if number < saved or sha256(state) != self.hashes.get(number):
            self.failures.append(f"step {saved} was saved, and step {number} is there, or something else")

    def tidy(self, path: Path, most: int | None) -> None:
        """Test whether the next save removes the debris of killed ones."""
        self.step.save(path, max_shard_bytes=most)
        if left := debris(path):
            self.failures.append(f"{len(left)} files that killed saves left are still there after the next one")


def debris(path: Path) -> set[Path]:
    """The files that lie about and that no checkpoint holds."""
    held = parts_of(path / MANIFEST) | parts_of(previous(path / MANIFEST))
    parts = {part for part in path.glob("part-*") if part.name not in held}
    return parts | {*path.glob(".*.tmp"), *path.parent.glob(".*.tmp")}


def audit(count: int, seed: int) -> dict[str, Any]:
    """Kill and try faults; the record of it."""
    campaign = Campaign(seed)
    with tempfile.TemporaryDirectory() as place:
        bearer, saved, kills = Bearer(), 0, 0
        for training in range(count):
            path, most = Path(place) / str(training), MOST if training % 2 else None
            saved = 0
            while kills < count and saved < campaign.end:
                if kills % FRESH == FRESH - 1:
                    bearer.close()
                    bearer = Bearer()
                saved = campaign.kill(bearer, path, most, saved)
                kills += 1
            campaign.tidy(path, most)
            if kills == count:
                break
        bearer.close()
    tried, wrong = faults()
    checks = {"kills": count, **{f"kills that {what}": n for what, n in campaign.seen.items()}, **tried}
    return record("kill", CLAIM, checks, campaign.failures + wrong, seed=seed)


AUDIT = Audit(
    "kill",
    audit,
    300,
    "kill training, mostly while it saves, and try every fault of the file system",
    """\
A process that trains and saves after each step gets SIGKILL, nine times in ten aimed into a save, and the next one
goes on from its file. Every file is then read, compared with the state that was announced before it was saved, and
must be no older than the last save that was announced as done. Beside that, each call that a save makes of the
file system fails in turn: by an error, EINTR, a signal handler that raises, a full disk, a short write, the end of
the process, or a power cut that takes what was not synced; then one state or the other must be there, whole.""",
)
