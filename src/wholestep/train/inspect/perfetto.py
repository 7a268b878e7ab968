"""A profile in the Trace Event Format, which Perfetto and Chrome open: threads are tracks, kernels are slices.

The format: N. Duca, D. Sinclair, "Trace Event Format", 2016, "Complete Events" and "Metadata Events".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from wholestep.errors import show
from wholestep.report.cost_table import KernelCost
from wholestep.runtime.backend import ProfileRecord, TimedEvent

PROCESS = 1


def trace_json(name: str, record: ProfileRecord, kernels: Sequence[KernelCost]) -> str:
    """The trace file of one call; `kernels` are the costs of the steps, each summed over all runs of the step."""
    about = {"missing events": record.missing} if record.missing else {}
    return json.dumps(
        {"traceEvents": list(events(name, record, kernels)), "displayTimeUnit": "ns", "otherData": about}, indent=0
    )


def events(name: str, record: ProfileRecord, kernels: Sequence[KernelCost]) -> Iterator[dict[str, Any]]:
    """The names of the tracks, then a slice for each kernel, routine, and share of a kernel."""
    tracks = thread_numbers(record.events)
    yield {"ph": "M", "pid": PROCESS, "tid": 0, "name": "process_name", "args": {"name": f"wholestep {name}"}}
    for number in tracks.values():
        title = "program" if number == 0 else f"thread {number}"
        yield {"ph": "M", "pid": PROCESS, "tid": number, "name": "thread_name", "args": {"name": title}}
    start = min([e.begin for e in record.events], default=0.0)
    for event in record.events:
        kernel = kernels[event.step]
        yield {
            "ph": "X",
            "pid": PROCESS,
            "tid": tracks[event.thread],
            "name": kernel.name,
            "cat": "share" if event.share else "kernel",
            "ts": (event.begin - start) / 1e3,
            "dur": (event.end - event.begin) / 1e3,
            "args": {"step": event.step} if event.share else launch_arguments(event.step, kernel),
        }


def thread_numbers(found: Sequence[TimedEvent]) -> dict[int, int]:
    """The number of each thread: 0 for the one that runs the program, the others in the order of their first event."""
    threads = [e.thread for e in found if not e.share] + [e.thread for e in found]
    return {thread: number for number, thread in enumerate(dict.fromkeys(threads))}


def launch_arguments(step: int, kernel: KernelCost) -> dict[str, Any]:
    """The facts of one run of a kernel."""
    runs = max(kernel.times, 1)
    return {
        "step": step,
        "line": show(kernel.where),
        "flops": kernel.flops // runs,
        "bytes": kernel.bytes // runs,
        "predicted µs": kernel.microseconds / runs,
        "bound": kernel.bound,
    }
