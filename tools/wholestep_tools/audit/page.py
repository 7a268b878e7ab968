"""The page on reliability: each target, its test, the number of trials, and the number of failures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wholestep_tools.audit import AUDITS
from wholestep_tools.audit.promises import ROOMS, Promise

HEAD = """\
# Reliability

The tables list the promises of this project. For each they have the planned size of its test, the size of the test
that was made, the number of failures, and the command. The command writes a record in `docs/records`, from which the
figures come; the same command with the same count and seed repeats them. Where a record is missing or smaller than
planned, the table has the reason. A smaller test of each promise runs with the tests. Below the tables each command
has a section. This page is written by `python docs/generate.py`.
"""
Record = Mapping[str, Any]


def page(folder: Path) -> str:
    """The page that the records in a folder make."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    found["functions"] = functions(folder.parents[1] / "tests" / "kernel" / "ulp.json")
    lines = [HEAD]
    for room, promises in ROOMS.items():
        lines += [f"## {room}", "", "| promised | aimed at | made | failures | command |", "|---|---|---|---:|---|"]
        lines += [row(promise, found.get(promise.audit)) for promise in promises]
        lines.append("")
    return "\n".join([*lines, *[line for name in AUDITS if name in found for line in section(found[name])]])


def row(promise: Promise, about: Record | None) -> str:
    """The row of a promise and its record."""
    if about is None:
        return f"| {promise.what} | {promise.stated} | none: {promise.remark} | | |"
    made = ", ".join([f"{about['checks'][what]:,} {what}" for what in promise.counts])
    made += f", on {about['card']}" if "card" in about else ""
    made += f"; {promise.remark}" if promise.remark else ""
    return f"| {promise.what} | {promise.stated} | {made} | {about['failures']} | `{command(about)}` |"


def functions(file: Path) -> Record:
    """The record of scalar functions, which has a page of its own, as that of an audit."""
    known = json.loads(file.read_text(encoding="utf-8"))
    single, double = ([entry[kind] for entry in known.values()] for kind in ("float32", "float64"))
    checks = {
        "functions": len(known),
        "of them on all inputs": sum(entry["inputs"] == 1 << 32 for entry in single),
        "points of float64": sum(entry["inputs"] for entry in double),
    }
    beyond = sum(entry["ulp"] > WITHIN for entry in single)
    return {"audit": "functions", "command": "make ulp", "checks": checks, "failures": beyond}


WITHIN = 2.0
"""Units in the last place that a function of float32 may be off."""


def command(about: Record) -> str:
    """The command that writes a record."""
    if "command" in about:
        return str(about["command"])
    count = f" --count {about['count']}" if "count" in about else ""
    return f"wholestep audit {about['audit']}{count} --seed {about['seed']}"


def section(about: Record) -> list[str]:
    """One audit: how it was done, each number, and where."""
    lines = [f"### wholestep audit {about['audit']}", "", f"{about['claim']}.", "", AUDITS[about["audit"]].how, ""]
    lines += ["| what | how many |", "|---|---:|"]
    lines += [f"| {what} | {n:,} |" for what, n in {**about["checks"], "failures": about["failures"]}.items()]
    if about["examples"]:
        lines += ["", "Failures: " + "; ".join([first_line(example) for example in about["examples"]])]
    if "limits" in about:
        limits = about["limits"]
        lines += [
            "",
            f"Each file had {limits['seconds']:g} s and {limits['bytes']:,} bytes beyond what the process had.",
        ]
    if "measured" in about:
        lines += ["", *table(about["measured"])]
    if "survivors" in about:
        lines += ["", *[f"- not noticed: {line}" for line in about["survivors"]]]
    where = ", ".join([f"{name.replace('_', ' ')} {value}" for name, value in about["environment"].items()])
    where += f", card: {about['card']}" if "card" in about else ""
    return [*lines, "", f"Seed {about['seed']}; {where}.", ""]


def first_line(text: str) -> str:
    """The beginning of a failure."""
    return text.partition("\n")[0][:120].replace("|", "\\|")


def table(measured: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The table of measurements, a row for each kind."""
    names = list(next(iter(measured.values())))
    lines = [f"| | {' | '.join(names)} |", f"|---{'|---:' * len(names)}|"]
    for kind, numbers in measured.items():
        cells = [f"{x:,}" if isinstance(x, int) else f"{x:.3g}" if x < 1e-2 else f"{x:.3f}" for x in numbers.values()]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines
