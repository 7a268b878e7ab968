"""The report of a benchmark: a table for each workload, a summary, and whether all peers computed the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wholestep_tools.bench.machine import QUIET
from wholestep_tools.bench.runner import Row
from wholestep_tools.bench.spec import WORKLOADS, Workload


def difference(a: float, b: float) -> float:
    """The distance of two numbers, relative to the larger one; infinite where one is not a number.

    >>> difference(1.0, 1.5), difference(0.0, 0.0), difference(float("nan"), 1.0)
    (0.3333333333333333, 0.0, inf)
    """
    if a == b:
        return 0.0
    found = abs(a - b) / max(abs(a), abs(b))
    return found if found < float("inf") else float("inf")


def apart(one: Row, other: Row) -> float:
    """The distance of two rows' numbers; infinite where they are not as many."""
    if [len(numbers) for numbers in one.numbers] != [len(numbers) for numbers in other.numbers]:
        return float("inf")
    pairs = [zip(a, b, strict=True) for a, b in zip(one.numbers, other.numbers, strict=True)]
    return max((difference(a, b) for pair in pairs for a, b in pair), default=0.0)


def complaints(name: str, rows: Sequence[Row]) -> list[str]:
    """The complaints about a workload's rows: peers that failed, and pairs whose numbers differ."""
    found = [f"{name}: {row.label} failed: {row.failed}" for row in rows if row.failed]
    done, most = [row for row in rows if not row.failed], WORKLOADS[name].tolerance
    for i, one in enumerate(done):
        for other in done[i + 1 :]:
            if (far := apart(one, other)) > most:
                found.append(f"{name}: {one.label} and {other.label} differ by {far:.1e}, more than {most:g}")
    return found


def duration(seconds: float) -> str:
    """Seconds in the unit that suits them, to three digits.

    >>> duration(2.41e-6), duration(0.0356), duration(1.5)
    ('2.41 us', '35.6 ms', '1.50 s')
    """
    for unit, size in (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        if seconds < 999.5 * size or unit == "s":
            value = seconds / size
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    raise AssertionError("the last unit takes everything")


def best_ratio(seconds: Mapping[str, float]) -> float:
    """The least time of the others beside ours: above 1 ours is faster; nan where there is no other.

    >>> best_ratio({"wholestep": 2.0, "jax": 3.0, "torch": 5.0})
    1.5
    """
    others = [s for name, s in seconds.items() if name != "wholestep"]
    return min(others, default=float("nan")) / seconds["wholestep"]


def columns(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of equal columns, the first one to the left, all others to the right."""
    widths = [max(len(line[i]) for line in (header, *lines)) for i in range(len(header))]
    return [
        "  " + "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(both)).rstrip()
        for both in (list(zip(line, widths, strict=True)) for line in (header, *lines))
    ]


def compared(row: Row, workload: Workload) -> list[str]:
    """The losses that a row is judged by."""
    found = [f"{numbers[0]:.6f}" for numbers in row.numbers]
    return [*found, "", ""][:2] if workload.checked > 1 else []


def table(name: str, rows: Sequence[Row]) -> str:
    """One workload: the quickest peer first."""
    workload = WORKLOADS[name]
    done = sorted((row for row in rows if not row.failed), key=lambda row: row.least)
    header = ["", "least", "median", "back to back", "x best", "compile", "cached", "peak MB"]
    if workload.checked > 1:
        header += ["loss 1", f"loss {workload.checked}"]
    lines = [
        [
            row.label,
            duration(row.least),
            duration(row.median),
            duration(row.back_to_back),
            f"{row.least / done[0].least:.2f}",
            duration(row.cold),
            "" if row.warm is None else duration(row.warm),
            f"{row.peak_mb:.0f}",
            *compared(row, workload),
        ]
        for row in done
    ]
    text = [f"{name}  {workload.title}: {workload.does}", *(columns(header, lines) if lines else [])]
    text += [f"  {row.label}: failed: {row.failed}" for row in rows if row.failed]
    if (busy := max((row.others for row in done), default=0.0)) > QUIET:
        text.append(f"  other programs used up to {busy:.1f} processors meanwhile: read the ratios with care")
    return "\n".join(text)


def versus(name: str, rows: Sequence[Row]) -> list[str] | None:
    """A workload's line of the summary: Wholestep beside the quickest other peer; None where one of them is missing."""
    done = [row for row in rows if not row.failed]
    ours = min((row for row in done if row.peer == "wholestep"), key=lambda row: row.least, default=None)
    best = min((row for row in done if row.peer != "wholestep"), key=lambda row: row.least, default=None)
    if ours is None or best is None:
        return None
    return [
        f"{name}, {ours.at_once} a call" if ours.at_once > 1 else name,
        duration(ours.least),
        duration(best.least),
        best.peer,
        f"{best.least / ours.least:.2f}",
        f"{duration(ours.cold)} / {duration(best.cold)}",
        f"{ours.peak_mb:.0f} / {best.peak_mb:.0f}",
    ]


def summary(found: Mapping[str, Sequence[Row]]) -> str:
    """One line for each workload, and a second one where Wholestep also ran many steps in a call."""
    lines = []
    for name, rows in found.items():
        for at_once in sorted({row.at_once for row in rows}):
            chosen = [row for row in rows if row.peer != "wholestep" or row.at_once == at_once]
            if (line := versus(name, chosen)) is not None:
                lines.append(line)
    header = ["", "wholestep", "best other", "which", "times faster", "compile, ours / other", "peak MB, ours / other"]
    return "\n".join(["Summary", *columns(header, lines)]) if lines else ""
