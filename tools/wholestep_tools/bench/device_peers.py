"""`wholestep bench device --peers`: training steps on a device beside those of JAX and compiled PyTorch there.

Each peer is a process of its own. They import and compile at the same time, and are timed in turns.
"""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from wholestep.compiler.devices import backend_named
from wholestep.errors import CommandError
from wholestep.runtime.gpu.backend import CardBackend
from wholestep.runtime.gpu.cuda import CudaDriver
from wholestep_tools.bench import machine
from wholestep_tools.bench.device import LOSSES, WITHIN, check_request
from wholestep_tools.bench.peers import PEERS
from wholestep_tools.bench.peers.wholestep import trained
from wholestep_tools.bench.runner import Process, WorkerError, in_turns
from wholestep_tools.bench.spec import WORKLOADS
from wholestep_tools.bench.table import best_ratio, columns, difference, duration

CALLS = {"one": 20, "resident": 3, "fed": 3}
"""The calls of a turn by kind: a step, K steps on batches of the device, K steps on batches of the host."""
MODULE = "wholestep_tools.bench.device_worker"
OURS = "wholestep"


class PeerRow(NamedTuple):
    """The result of one peer on one workload; seconds of a step unless something else is said.

    `difference` is the greatest relative difference of its losses to our CPU's. `failed` says why there are no times.
    """

    peer: str
    version: str = ""
    difference: float = math.inf
    imported: float = 0.0
    """Seconds from the start of its process until the library is imported; ours is imported in all of them."""
    first: float = 0.0
    """Seconds of trace, compilation and first step, with empty caches."""
    one: float = 0.0
    resident: float = 0.0
    fed: float = 0.0
    device_bytes: int = 0
    remark: str = ""
    failed: str = ""


class DeviceContestant:
    """One peer at one workload on a device, from its start to its row."""

    def __init__(self, peer: str, name: str, device: str, folder: Path) -> None:
        self.peer, self.failed = peer, ""
        self.seconds: dict[str, list[float]] = {way: [] for way in CALLS}
        folder.mkdir()
        self.started_at = time.time()
        self.process = Process(peer, name, LOSSES, folder, machine.processors(), MODULE, device)

    def ask(self, command: str, n: int = 0) -> dict[str, Any]:
        """An answer, the first message by no command; nothing where the peer has failed."""
        if self.failed:
            return {}
        try:
            return self.process.ask(command, n) if command else self.process.answer()
        except WorkerError as error:
            self.failed = str(error)
            self.process.end()
            return {}

    def turn(self) -> None:
        """Some calls of each kind."""
        for way, n in CALLS.items():
            if found := self.ask(way, n):
                self.seconds[way].append(found["seconds"])

    def row(self, begun: Mapping[str, Any], expected: Sequence[float]) -> PeerRow:
        """The last message of the process."""
        ended = self.ask("end")
        if self.failed:
            return PeerRow(self.peer, failed=self.failed)
        pairs = [*zip(begun["losses"], expected, strict=True), *[(loss, expected[-1]) for loss in begun["lasts"]]]
        one, resident, fed = (statistics.median(self.seconds[way]) for way in CALLS)
        return PeerRow(
            self.peer,
            begun["version"],
            max(difference(x, y) for x, y in pairs),
            begun["imported_at"] - self.started_at,
            begun["first_s"],
            one,
            resident / LOSSES,
            fed / LOSSES,
            ended["device_bytes"],
            ended.get("remark", ""),
        )


def losses_of_cpu(name: str) -> list[float]:
    """The losses that the others are compared with."""
    training = trained(name, *WORKLOADS[name].data(), 1, "cpu")
    return [training.numbers(training.call())[0][0] for _ in range(LOSSES)]


def measured(name: str, device: str, peers: Sequence[str], rounds: int) -> list[PeerRow]:
    """A workload by all peers: they compile at the same time, then take turns."""
    folder = Path(tempfile.mkdtemp(prefix="wholestep-bench-"))
    there: list[DeviceContestant] = []
    try:
        for peer in (OURS, *peers):
            there.append(DeviceContestant(peer, name, device, folder / peer))
        expected = losses_of_cpu(name)
        begun = [contestant.ask("") for contestant in there]
        in_turns(there, rounds, DeviceContestant.turn)
        return [contestant.row(made, expected) for contestant, made in zip(there, begun, strict=True)]
    finally:
        for contestant in there:
            contestant.process.end()
        shutil.rmtree(folder, ignore_errors=True)


def chosen(names: str, device: str) -> list[str]:
    """The peers of these names, separated by commas; raises CommandError for one that cannot run on a device here.

    >>> chosen("", "cuda")
    []
    """
    known = [peer for peer, about in PEERS.items() if about.on_devices and peer != OURS]
    asked = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    for peer in asked:
        if peer not in known:
            raise CommandError(f"there is no peer {peer!r} for devices", hint=f"choose from {', '.join(known)}")
        if importlib.util.find_spec(PEERS[peer].needs) is None:
            raise CommandError(f"{PEERS[peer].needs} is not installed", hint=f"install it, or leave {peer} out")
    if asked and device.partition(":")[0] not in ("cuda", "cpu"):
        raise CommandError(f"JAX and PyTorch know no device {device!r}", hint="leave --peers out, or take 'cuda'")
    return asked


def times_faster(rows: Sequence[PeerRow], way: str) -> float:
    """The least time of the others beside ours, of steps taken in a way; nan where one of them is missing."""
    seconds = {row.peer: float(getattr(row, way)) for row in rows if not row.failed}
    return best_ratio(seconds) if OURS in seconds else math.nan


def table(name: str, rows: Sequence[PeerRow]) -> str:
    """One workload: a line for each peer, and how many times faster we are."""
    header = ["", "difference", "import", "first step", "1 a call", f"{LOSSES} a call", "fed by the host", "device MB"]
    lines = [
        [
            row.peer,
            f"{row.difference:.1e}",
            *[duration(x) for x in (row.imported, row.first, row.one, row.resident, row.fed)],
            f"{row.device_bytes / 2**20:.0f}" if row.device_bytes else "",
        ]
        for row in rows
        if not row.failed
    ]
    ratios = [times_faster(rows, way) for way in ("first", *CALLS)]
    lines.append(["times faster", "", "", *["" if math.isnan(x) else f"{x:.2f}" for x in ratios], ""])
    text = [f"{name}  {WORKLOADS[name].title}", *columns(header, lines)]
    text += [f"  {row.peer} {row.remark}" for row in rows if row.remark]
    return "\n".join(text)


WAYS = {"one": "1 a call", "resident": f"{LOSSES} a call", "fed": f"{LOSSES} a call, fed by the host"}
"""The ways in which steps are taken, in words."""


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """A table of numbers, whose first column has names."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---", *["--:"] * (len(head) - 1)], *lines)]


def cells(by: Mapping[str, PeerRow], peers: Sequence[str], field: str, unit: float, digits: str) -> list[str]:
    """A field of each peer in a unit; nothing where a peer has failed."""
    return [format(float(getattr(by[peer], field)) / unit, digits) if peer in by else "" for peer in peers]


def page_table(file: Path) -> list[str]:
    """The tables of a record, for the documentation; none where there is no record."""
    if not file.exists():
        return []
    record = json.loads(file.read_text(encoding="utf-8"))
    found = {name: [PeerRow(**row) for row in rows] for name, rows in record["workloads"].items()}
    peers = list(dict.fromkeys(row.peer for rows in found.values() for row in rows))
    versions = dict.fromkeys(row.version for rows in found.values() for row in rows if row.version)
    begun, steps = [], []
    for name, rows in found.items():
        by = {row.peer: row for row in rows if not row.failed}
        part = f"{by[OURS].difference:.1e}" if OURS in by else ""
        begun.append([name, part, *cells(by, peers, "first", 1.0, ".1f")])
        for way, words in WAYS.items():
            ratio = times_faster(rows, way)
            told = "" if math.isnan(ratio) else f"{ratio:.2f}"
            steps.append([f"{name}, {words}", *cells(by, peers, way, 1e-6, ".4g"), told])
    on = f"On {record['card']}, driver {record['driver'] or 'of unknown version'}, {record['day']}"
    return [
        f"{on}: {', '.join(versions)}, float32 without TF32. The greatest relative difference of our "
        f"{record['steps']} losses to the CPU's, and seconds from nothing to the first loss:",
        *["", *markdown(["", "losses part by", *peers], begun), ""],
        "Microseconds of a step, the median, and the least of the others beside ours:",
        *["", *markdown(["", *peers, "times faster"], steps)],
    ]


def complaints(name: str, rows: Sequence[PeerRow]) -> list[str]:
    """The complaints about a workload's rows: peers that failed, and losses that part from the CPU's."""
    found = [f"{name}: {row.peer} failed: {row.failed}" for row in rows if row.failed]
    for row in rows:
        most = WITHIN if row.peer == OURS else WORKLOADS[name].tolerance
        if not row.failed and not row.difference <= most:
            found.append(f"{name}: {row.peer}'s losses part from the CPU's by {row.difference:.1e}, more than {most:g}")
    return found


def card_of(device: str) -> dict[str, str]:
    """The name of a card of NVIDIA's and the version of its driver; the processor's name where the device is that."""
    backend = backend_named(device)
    if not isinstance(backend, CardBackend) or not isinstance(backend.driver, CudaDriver):
        return {"card": machine.processor(), "driver": ""}
    command = ["nvidia-smi", f"--id={backend.driver.number}", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        said = ""  # some machines have the driver alone
    return {"card": backend.driver.name, "driver": said}


def bench(
    device: str, names: Sequence[str], peers: Sequence[str], rounds: int, file: Path | None, stream: TextIO
) -> int:
    """Measure and print; 0 where all peers ran and their losses are the CPU's, else 1.

    Raises as `device.bench` does.
    """
    check_request(device, file)
    about = {"bench": "device", "device": device, **card_of(device), "day": time.strftime("%Y-%m-%d")}
    print(f"{about['card']} {about['driver']}, float32 without TF32, {machine.processor()}", file=stream, flush=True)
    found: dict[str, list[PeerRow]] = {}
    for name in names:
        found[name] = measured(name, device, peers, rounds)
        print(f"\n{table(name, found[name])}", file=stream, flush=True)
        if file is not None:
            rows = {each: [row._asdict() for row in made] for each, made in found.items()}
            record = {**about, "processor": machine.processor(), "steps": LOSSES, "workloads": rows}
            file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    wrong = [line for name, rows in found.items() for line in complaints(name, rows)]
    print("\n" + "\n".join(wrong or ["all losses agree"]), file=stream)
    return 1 if wrong else 0
