"""The findings of an audit as JSON, from which the page on reliability is written: without dates, to be repeatable."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from wholestep.backends.cpu.cpu_features import host_target
from wholestep.errors import CommandError
from wholestep_tools.bench.machine import processor, processors

SHOWN = 20
"""Failures that a record spells out; it counts all of them."""


def environment() -> dict[str, Any]:
    """The environment that a result may depend on: the processor, its vector width, and the versions."""
    found = host_target()
    return {
        "processor": processor(),
        "processors": processors(),
        "vector_bits": 8 * found.vector_bytes,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("wholestep", "numpy", "llvmlite")},
    }


def record(audit: str, claim: str, checks: Mapping[str, int], failures: list[str], **more: Any) -> dict[str, Any]:
    """The record of one audit: its claim, the number of checks of each kind, the failures, and the environment."""
    return {
        "audit": audit,
        "claim": claim,
        "checks": dict(checks),
        "failures": len(failures),
        "examples": failures[:SHOWN],
        **more,
        "environment": environment(),
    }


def check_file(file: Path | None) -> None:
    """Raise CommandError, before any work is done, where a record could not be written."""
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --record")


def told(found: dict[str, Any], file: Path | None, stream: TextIO) -> int:
    """Print a record, keep it, and give the exit code: 0 where nothing failed, else 1."""
    print(found["claim"], file=stream)
    for what, n in {**found["checks"], "failures": found["failures"]}.items():
        print(f"{n:>10,}  {what}", file=stream)
    for what, x in found.get("figures", {}).items():
        print(f"{x:>10,.1f}  {what}", file=stream)
    for failure in found["examples"]:
        print(f"  {failure}", file=stream)
    if file is not None:
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if found["failures"] else 0
