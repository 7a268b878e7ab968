"""Turns: every peer in a process of its own, one at work, all others waiting at a pipe."""

from __future__ import annotations

import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from wholestep_tools.bench import machine
from wholestep_tools.bench.instruction_sets import limits
from wholestep_tools.bench.peers import PEERS
from wholestep_tools.bench.real.catalog import REAL
from wholestep_tools.bench.spec import WORKLOADS

T = TypeVar("T")

PATIENCE = 600
"""Seconds after which an answer is no longer waited for."""
TOUCHED = 2 << 30
"""Bytes of memory that are touched before a peer begins with a model of real size, which takes about as many."""
AT_MOST, AT_LEAST = 5000, 3
"""Calls in a turn."""
WORKER = "wholestep_tools.bench.worker"
THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "WHOLESTEP")


class Options(NamedTuple):
    """Options of a measurement: rounds, the seconds of a turn, threads, the longest wait for a quiet machine, and the
    instruction set that all libraries are held to, a name of `instruction_sets.LIMITS`."""

    rounds: int = 5
    budget: float = 1.5
    threads: int = 2
    quiet: float = 2.0
    isa: str = ""


class Row(NamedTuple):
    """The result of one peer on one workload; times in seconds for one step. `failed` says why there are none."""

    peer: str
    at_once: int
    version: str = ""
    least: float = 0.0
    median: float = 0.0
    back_to_back: float = 0.0
    cold: float = 0.0
    warm: float | None = None
    peak_mb: float = 0.0
    numbers: tuple[tuple[float, ...], ...] = ()
    others: float = 0.0
    failed: str = ""

    @property
    def label(self) -> str:
        """The peer, and how many steps it takes in a call where that is not one."""
        return f"{self.peer}, {self.at_once} a call" if self.at_once > 1 else self.peer


class WorkerError(Exception):
    """A worker said why it failed, died, or did not answer."""


def environment(folder: Path, threads: int, device: str = "cpu", isa: str = "") -> dict[str, str]:
    """The same threads and instruction set for everybody, caches that begin empty, and no accelerator unless a device
    is one."""
    chosen = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
    return {
        **os.environ,
        **chosen,
        **limits(isa),
        **{f"{name}_NUM_THREADS": str(threads) for name in THREADS},
        "WHOLESTEP_THREADS": str(threads),
        "WHOLESTEP_CACHE": str(folder / "wholestep"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "CUDA_CACHE_PATH": str(folder / "driver"),
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # else JAX takes three quarters of a card that others use too
        "XDG_CACHE_HOME": str(folder),
        "NPROC": str(threads),  # XLA's word for it
    }


class Process:
    """A worker: asked with a line, answering with a line."""

    def __init__(
        self,
        peer: str,
        name: str,
        count: int,
        folder: Path,
        threads: int,
        module: str = WORKER,
        device: str = "",
        isa: str = "",
    ) -> None:
        command = [sys.executable, "-m", module, peer, name, str(count), *([device] if device else [])]
        self.says = folder / f"{peer}-{count}.txt"
        with self.says.open("w") as says:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=says,
                text=True,
                env=environment(folder, threads, device or "cpu", isa),
                start_new_session=True,  # Ctrl-C is for the one who waits, who then ends the workers
            )

    def answer(self) -> dict[str, Any]:
        """The next answer; raises WorkerError where there is none."""
        pipe = self.process.stdout
        assert pipe is not None
        ready, _, _ = select.select([pipe], [], [], PATIENCE)
        line = pipe.readline() if ready else ""
        if not line:
            last = self.says.read_text(errors="replace").strip().splitlines()[-1:]
            raise WorkerError(f"no answer in {PATIENCE} s" if not ready else " ".join(["died:", *last]))
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise WorkerError(found["error"])
        return found

    def ask(self, command: str, n: int = 0) -> dict[str, Any]:
        """Have a command obeyed; raises WorkerError."""
        pipe = self.process.stdin
        assert pipe is not None
        try:
            print(command, n, file=pipe, flush=True)
        except BrokenPipeError:
            pass  # its last message is in the answer
        return self.answer()

    def end(self) -> None:
        """End the worker at once."""
        self.process.kill()
        self.process.communicate()


def compiling(begun: dict[str, Any]) -> float:
    """Seconds of a worker's first calls beyond those of as many calls right afterwards."""
    first, later = [begun["first_s"], *begun["settling_s"]], begun["call_s"]
    return max(0.0, float(sum(first) - len(first) * later))


class Contestant:
    """One peer at one workload, from its start to its row."""

    def __init__(self, peer: str, name: str, at_once: int, folder: Path, options: Options) -> None:
        self.peer, self.at_once, self.name, self.options = peer, at_once, name, options
        self.folder = folder / f"{peer}-{at_once}"
        self.folder.mkdir()
        self.seconds: list[float] = []
        self.flowing: list[float] = []
        self.warm: dict[str, Any] = {}
        self.others, self.failed = 0.0, ""
        self.process = self.start()

    def start(self) -> Process:
        """A process for this peer; the second one finds the caches that the first one filled."""
        options = self.options
        if self.name in REAL:
            machine.touch_memory(TOUCHED)
        return Process(self.peer, self.name, self.at_once, self.folder, options.threads, isa=options.isa)

    def build(self) -> None:
        """Compile, twice for Wholestep: with an empty cache, then with the cache that the first process filled."""
        self.begun = self.process.answer()
        if self.peer == "wholestep":
            again = self.start()
            try:
                self.warm = again.answer()
            finally:
                again.end()

    def turn(self) -> None:
        """As many calls as fit the budget: most of them waited for one by one, the others only at the end."""
        options, call = self.options, max(min(self.seconds, default=self.begun["call_s"]), 1e-6)
        fair = 3 * WORKLOADS[self.name].most // (4 * options.rounds * self.at_once)
        n = max(AT_LEAST, min(AT_MOST, fair, int(0.7 * options.budget / call)))
        self.others = max(self.others, machine.wait_until_quiet(options.quiet))
        self.seconds += self.process.ask("timed", n)["seconds"]
        n = max(AT_LEAST, n // 3)
        self.flowing.append(self.process.ask("back_to_back", n)["seconds"])

    def finish(self) -> None:
        """Ask for the final report."""
        self.ended = self.process.ask("end")

    def row(self) -> Row:
        """The last message of the process."""
        if self.failed:
            return Row(self.peer, self.at_once, failed=self.failed)
        steps = self.at_once
        return Row(
            self.peer,
            steps,
            self.begun["version"],
            min(self.seconds) / steps,
            statistics.median(self.seconds) / steps,
            min(self.flowing) / steps,
            compiling(self.begun),
            compiling(self.warm) if self.warm else None,
            self.ended["peak_mb"],
            tuple(tuple(numbers) for numbers in self.begun["numbers"] + self.ended["numbers"]),
            self.others,
        )

    def attempt(self, deed: Callable[[Contestant], None]) -> None:
        """Do something unless this peer has failed already; where it fails, note why."""
        if not self.failed:
            try:
                deed(self)
            except WorkerError as error:
                self.failed = str(error)
                self.process.end()


def in_turns(there: Sequence[T], rounds: int, turn: Callable[[T], object]) -> None:
    """Let all take so many turns, each round in another order."""
    for k in range(rounds):
        first = k % len(there)
        for contestant in (*there[first:], *there[:first]):
            turn(contestant)


def run(name: str, peers: list[str], options: Options) -> list[Row]:
    """Measure a workload: start the peers one after another, then let them take turns."""
    folder = Path(tempfile.mkdtemp(prefix="wholestep-bench-"))
    there: list[Contestant] = []
    try:
        for peer in peers:
            for at_once in dict.fromkeys((1, PEERS[peer].at_once.get(name, 1))):
                there.append(Contestant(peer, name, at_once, folder, options))
                there[-1].attempt(Contestant.build)
        in_turns(there, options.rounds, lambda contestant: contestant.attempt(Contestant.turn))
        for contestant in there:
            contestant.attempt(Contestant.finish)
        return [contestant.row() for contestant in there]
    finally:
        for contestant in there:
            contestant.process.end()
        shutil.rmtree(folder, ignore_errors=True)
