"""The comparison of workloads: the peers that are measured, the table and the verdict, and the record beside others."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any, TextIO

from wholestep.errors import CommandError
from wholestep_tools.bench import instruction_sets, machine, spec, table
from wholestep_tools.bench.peers import PEERS, USUAL
from wholestep_tools.bench.real.catalog import REAL
from wholestep_tools.bench.runner import Options, Row, run


def installed(peer: str) -> bool:
    """Test whether the module that a peer needs is installed."""
    return importlib.util.find_spec(PEERS[peer].needs) is not None


def chosen(names: str | None) -> list[str]:
    """The peers to measure: those named, separated by commas, or the usual ones that are installed.

    Raises CommandError for a peer that is unknown or not installed.

    >>> chosen("wholestep")
    ['wholestep']
    """
    if names is None:
        return [peer for peer in USUAL if installed(peer)]
    asked = list(dict.fromkeys(name.strip() for name in names.split(",")))
    for peer in asked:
        if peer not in PEERS:
            raise CommandError(f"there is no peer {peer!r}", hint=f"choose from {', '.join(PEERS)}")
        if not installed(peer):
            raise CommandError(f"{PEERS[peer].needs} is not installed", hint=f"install it, or leave {peer} out")
    return asked


def recorded(file: Path, kind: str) -> dict[str, Any]:
    """The workloads in a file, each with its machine and rows; none where there is no file.

    Raises CommandError for a file that is something else.
    """
    if not file.exists():
        return {}
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["bench"] == kind:
            return dict(record["workloads"])
    except (ValueError, KeyError, TypeError):
        pass
    raise CommandError(f"{file} is no record of bench {kind}", hint="choose another file with --json")


def bench(peers: str | None, workloads: str, options: Options, file: Path | None, stream: TextIO) -> int:
    """Measure and print; 0 where all peers ran and their numbers agree, else 1.

    Raises CommandError for peers or workloads that there are not, and for a file that cannot be written.
    """
    contestants, names = chosen(peers), spec.named(workloads)
    if file is not None and not file.parent.is_dir():
        raise CommandError(f"there is no folder {file.parent}", hint="choose another file with --json")
    kind = "models" if REAL.keys() & set(names) else "workloads"
    record = {} if file is None else recorded(file, kind)
    machine.wait_until_quiet(options.quiet)
    measured = machine.measured_within(instruction_sets.limits(options.isa), options.threads)
    print(measured, file=stream, flush=True)
    found: dict[str, list[Row]] = {}
    wrong: list[str] = []
    for name in names:
        found[name] = run(name, [peer for peer in contestants if peer not in spec.WORKLOADS[name].without], options)
        wrong += table.complaints(name, found[name])
        print(f"\n{table.table(name, found[name])}", file=stream, flush=True)
        if file is not None:
            record[name] = {"machine": measured._asdict(), "rows": [row._asdict() for row in found[name]]}
            ordered = {each: record[each] for each in spec.WORKLOADS if each in record}
            file.write_text(json.dumps({"bench": kind, "workloads": ordered}, indent=1) + "\n", encoding="utf-8")
    if overview := table.summary(found):
        print(f"\n{overview}", file=stream)
    most = max(spec.WORKLOADS[name].tolerance for name in names)
    verdict = f"all numbers agree to {most:g}" if len(contestants) > 1 else "one peer, nothing to compare"
    print("\n" + "\n".join(wrong or [verdict]), file=stream)
    return 1 if wrong else 0
