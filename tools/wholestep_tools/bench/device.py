"""`wholestep bench device`: steps of the workloads on a device beside the CPU: their losses, launches and times."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from wholestep.compiler.devices import check_device
from wholestep.errors import CommandError
from wholestep.report.table_format import tables_as_text
from wholestep_tools.bench.machine import processor
from wholestep_tools.bench.peers.wholestep import Training, trained
from wholestep_tools.bench.spec import WORKLOADS

STEPS = ("W1", "W2", "W3", "W4", "digits", "text")
"""The workloads that train."""
LOSSES = 20
"""The losses of a workload that are compared."""
WITHIN = 1e-6
"""The greatest relative difference of a loss to the CPU's."""


class DeviceRow(NamedTuple):
    """A workload on a device: the greatest relative difference of its losses to the CPU's, and seconds."""

    workload: str
    difference: float
    first: float
    """From nothing to the first loss: trace, compilation, first step."""
    step: float
    """The median step."""
    host: float
    """The median step of the CPU."""


def timed_loss(step: Training) -> tuple[float, float]:
    """The loss of one step, and the seconds until it was read."""
    before = time.perf_counter()
    loss = step.numbers(step.call())[0][0]
    return loss, time.perf_counter() - before


def measured(name: str, device: str, rounds: int) -> DeviceRow:
    """A workload on a device beside the CPU, in turns of a step."""
    params, batch = WORKLOADS[name].data()
    made: list[Training] = []
    firsts: list[tuple[float, float]] = []
    for place in (device, "cpu"):
        before = time.perf_counter()
        made.append(trained(name, params, batch, 1, place))
        loss, _ = timed_loss(made[-1])
        firsts.append((loss, time.perf_counter() - before))
    there, here = [[loss] for loss, _ in firsts]
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(max(LOSSES - 1, rounds)):
        for step, losses, times in zip(made, (there, here), seconds, strict=True):
            loss, spent = timed_loss(step)
            losses.append(loss)
            times.append(spent)
    pairs = list(zip(there, here, strict=True))[:LOSSES]
    difference = max(abs(x - y) / abs(y) for x, y in pairs)
    return DeviceRow(name, difference, firsts[0][1], *map(statistics.median, seconds))


def table_line(row: DeviceRow) -> str:
    """A row for people."""
    times = f"{1e3 * row.step:>9.3g} ms {1e3 * row.host:>9.3g} ms"
    return f"{row.workload:<8} {row.difference:>10.1e} {row.first:>8.2f} s {times}"


def slowest_launches(name: str, device: str) -> str:
    """The launches of a step of a workload that take longest, by the clock of the device, as a table."""
    params, batch = WORKLOADS[name].data()
    profile = trained(name, params, batch, 1, device).step.profile(batch, calls=10)
    return tables_as_text(profile.title(), profile.tables()[:1])


def check_request(device: str, file: Path | None) -> None:
    """Raise, before any work is done, where a device is not there or a record could not be written."""
    check_device(device)
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")


def bench(
    device: str,
    names: Sequence[str],
    rounds: int,
    file: Path | None,
    stream: TextIO,
    measure: Callable[[str, str, int], DeviceRow] = measured,
) -> int:
    """Measure and print; 0 where all losses are the CPU's to 1e-6, else 1.

    Raises ParameterError for a device that there is not, DeviceError where this machine has none.
    """
    check_request(device, file)
    print(f"{device} beside {processor()}", file=stream)
    print(f"{'':<8} {'difference':>10} {'first':>10} {'step':>12} {'CPU':>12}", file=stream, flush=True)
    rows = []
    for name in names:
        rows.append(measure(name, device, rounds))
        print(table_line(rows[-1]), file=stream, flush=True)
    found: dict[str, Any] = {"bench": "device", "device": device, "processor": processor()}
    found |= {"day": time.strftime("%Y-%m-%d"), "rows": [row._asdict() for row in rows]}
    if file is not None:
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    far = [row.workload for row in rows if not row.difference <= WITHIN]
    print(f"losses part from the CPU's: {', '.join(far)}" if far else f"all losses agree to {WITHIN:g}", file=stream)
    return 1 if far else 0
