"""Steps in 1 to 8 processes over links of a known rate, beside their prediction: network namespaces of Linux."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from wholestep.errors import CommandError
from wholestep_tools.bench import machine
from wholestep_tools.bench.table import columns

PROCESSES = (1, 2, 3, 4, 6, 8)
RATE = 20e6
"""Bytes a second that each process may send: little enough that processes wait for messages, not for processors."""
BURST = 32_768
"""Bytes that a link passes at once; with more of them, links that are busy both ways lose part of their rate."""
INTERFACE = "eth0"


class Row(NamedTuple):
    """A number of processes: predicted and measured seconds of a step, predicted and counted bytes that one sends."""

    processes: int
    predicted: float
    measured: float
    predicted_bytes: int
    bytes: int
    latency: float

    @property
    def ratio(self) -> float:
        """The measured time beside the predicted one."""
        return self.measured / self.predicted


def ip(*words: str) -> None:
    """Run `ip`; raises CommandError where it may not or cannot."""
    try:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise CommandError("bench links: there is no ip", hint="it is for Linux with iproute2") from None
    except subprocess.CalledProcessError as error:
        raise CommandError(
            f"bench links: ip {' '.join(words)}: {error.stderr.strip()}", hint="network namespaces take root"
        ) from None


@contextmanager
def network(size: int, rate: float) -> Iterator[list[str]]:
    """Network namespaces with an address each, on one bridge, that send at most so many bytes a second."""
    bridge = f"ws{os.getpid()}"
    spaces = [f"{bridge}-{i}" for i in range(size)]
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("link", "set", bridge, "up")
        for i, space in enumerate(spaces):
            end = f"{bridge}v{i}"
            ip("netns", "add", space)
            ip("link", "add", end, "type", "veth", "peer", "name", INTERFACE, "netns", space)
            ip("link", "set", end, "master", bridge, "up")
            inside = ["netns", "exec", space]
            ip(*inside, "ip", "address", "add", f"{address(i)}/24", "dev", INTERFACE)
            for device in ("lo", INTERFACE):
                ip(*inside, "ip", "link", "set", device, "up")
            bits = f"{8 * rate:.0f}bit"
            shape = ("root", "tbf", "rate", bits, "burst", str(BURST), "latency", "400ms")
            ip(*inside, "tc", "qdisc", "add", "dev", INTERFACE, *shape)
        yield spaces
    finally:
        # Links first: those that go with their namespace do so some time later, and keep their names until then.
        for device in (*[f"{bridge}v{i}" for i in range(size)], bridge):
            with suppress(CommandError):
                ip("link", "delete", device)
        for space in spaces:
            with suppress(CommandError):
                ip("netns", "delete", space)


def address(rank: int) -> str:
    """The address of a process."""
    return f"10.77.0.{rank + 1}"


def measure(size: int, rate: float) -> Row:
    """Train in so many processes."""
    with network(size, rate) as spaces:
        running = [begin(space, rank, size, rate) for rank, space in enumerate(spaces)]
        said = [process.communicate() for process in running]
    for process, (_, errors) in zip(running, said, strict=True):
        if process.returncode:
            raise CommandError(f"bench links: a process ended with {process.returncode}: {errors[-1000:]}")
    found: dict[str, Any] = json.loads(said[0][0].splitlines()[-1])
    return Row(size, **found)


def begin(space: str, rank: int, size: int, rate: float) -> subprocess.Popen[str]:
    """Start a process in a network namespace."""
    worker = [sys.executable, "-m", "wholestep_tools.bench.links_worker", str(rate)]
    place = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": address(0), "MASTER_PORT": "29400"}
    environment = {**os.environ, **place, "GLOO_SOCKET_IFNAME": INTERFACE, "WHOLESTEP_THREADS": "1"}
    order = ["ip", "netns", "exec", space, *worker]
    return subprocess.Popen(order, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def cells_of(row: Row) -> list[str]:
    """The cells of a row."""
    times = [f"{1e3 * x:,.1f}" for x in (row.predicted, row.measured)]
    return [str(row.processes), f"{row.predicted_bytes:,}", f"{row.bytes:,}", *times, f"{row.ratio:.2f}"]


HEAD = ("processes", "bytes predicted", "bytes sent", "ms predicted", "ms measured", "measured / predicted")


def page_table(record: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    """The table of a record, for the documentation."""
    latency = statistics.median([row.latency for row in rows if row.processes > 1])
    lines = [
        f"Measured on {record['processor']} with {record['processors']} cores: links of {record['rate'] / 1e6:.0f} MB/s"
        f", {1e6 * latency:.0f} us a message.",
        "",
        f"| {' | '.join(HEAD)} |",
        f"|{' ---: |' * len(HEAD)}",
    ]
    return [*lines, *[f"| {' | '.join(cells_of(row))} |" for row in rows]]


def table_of(file: Path) -> list[str]:
    """The table of the record in a file."""
    record = json.loads(file.read_text(encoding="utf-8"))
    return page_table(record, [Row(**row) for row in record["rows"]])


def bench(file: Path | None, stream: TextIO) -> int:
    """Measure and print; 0.

    Raises CommandError for a file that cannot be written, and where there are no network namespaces to be had.
    """
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    rows = [measure(size, RATE) for size in PROCESSES]
    print("\n".join(columns(list(HEAD), [cells_of(row) for row in rows])), file=stream)
    if file is not None:
        about = {"bench": "links", "processor": machine.processor_and_code(), "processors": machine.processors()}
        text = json.dumps({**about, "rate": RATE, "rows": [row._asdict() for row in rows]}, indent=1)
        file.write_text(text + "\n", encoding="utf-8")
    return 0
