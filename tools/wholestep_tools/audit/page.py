"""The page on reliability: each claim, how it was checked, how often, and what failed, from the records of audits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HEAD = """\
# Reliability

What this project promises of its files and precisions, how that was checked, how often, and what failed. Each figure
comes from a record in `docs/records`, which the command beside it writes; the same command with the same seed repeats
the campaign. A smaller one of each runs with the tests. This page is written by `python docs/generate.py`.
"""

HOW: Mapping[str, str] = {
    "resume": """\
Training is cut by Ctrl-C within an epoch, or left between two calls, at a random step; its state is saved, and
another process loads it and trains to the end. The SHA-256 of all parameters, moments, counters and keys is compared
with that of training that was never cut. The number of threads and of steps in a call changes from trial to trial,
and from one process to the other. The trainings are a perceptron, the convolutional network of `wholestep train
digits` and the GPT of `wholestep train text`, the two of them made small.""",
    "kill": """\
A process that trains and saves after each step gets SIGKILL, nine times in ten aimed into a save, and the next one
goes on from its file. Every file is then read, compared with the state that was announced before it was saved, and
must be no older than the last save that was announced as done. Beside that, each call that a save makes of the file
system fails in turn: by an error, a full disk, a short write, the end of the process, or a power cut that takes what
was not synced; then one state or the other must be there, whole.""",
    "files": """\
Files are damaged by chance and by knowledge of the layout, with checksums made right again, and other kinds of files
are put in their place. Loading must end in CheckpointError with the state as it was, or give exactly what was saved;
where a file of another library still loads, the safetensors library must read the same numbers. For every four
checkpoints a loader is given a damaged or hostile `.npy`, `.npz` or `.csv` file: it must read what NumPy reads, or
refuse it with an error of the library that names the file.""",
    "bits": """\
Random losses of layers that are drawn one after another, loops and branches among them, with three optimizers, and
random stacks of perceptrons and of attention blocks with five, train for fifty steps: as they are; within a random
share of their arena, or the budget that a refusal names, making values again; and within a smaller one with a file for
some. Stacks also do so in every mode of `keep`, and with their state in mapped files. Each has one step and ten steps a
call, and one, two and four threads. The SHA-256 of all losses, parameters, moments and counters is compared.""",
    "fork": """\
A process is forked while another thread does nothing, is in a call of a step, in `run`, or compiles, at an instant
drawn at random. The step is a plain one, one of symbolic size, one with its state in files, one with scratch in a
file, or one with an attached function. The child runs and compiles other programs, and then uses the step: its losses
must be those of a step that was never shared, or it is refused by a ForkedError; a child that hangs is a failure. The
state of the parent is compared, after each child, with that of a step which took as many steps without any fork.""",
    "precision": """\
The GPT of `wholestep train text`, at its full size, is trained in each precision for the same number of steps, on the
same batches from the same weights, by a schedule of that length. Losses are in bits per character: the mean of the
first and of the last tenth of the steps, and that of files which were held out. float16 has a dynamic loss scale, which
leaves out steps until it fits.""",
    "stream": """\
Random stacks of layers, of two kinds, with five optimizers, up to three threads and up to three steps a call, train in
memory and with their state in mapped files; losses, parameters and moments must have the same bits. Then a process
whose data may take so much (RLIMIT_DATA) trains a stack whose parameters and moments take ten times that, and must
never have had more than the limit resident; one that has its like in memory must fail.""",
}


def page(folder: Path) -> str:
    """The page that the records in a folder make."""
    found = [json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in HOW]
    lines = [HEAD, "| claim | command | checks | failures |", "|---|---|---|---|"]
    for about in found:
        counts = ", ".join([f"{n:,} {what}" for what, n in list(about["checks"].items())[:2]])
        command = f"`wholestep audit {about['audit']} --seed {about['seed']}`"
        lines.append(f"| {about['claim']} | {command} | {counts} | {about['failures']} |")
    return "\n".join([*lines, "", *[line for about in found for line in section(about)]])


def section(about: Mapping[str, Any]) -> list[str]:
    """One audit: how it was done, each number, and where."""
    lines = [f"## wholestep audit {about['audit']}", "", HOW[about["audit"]], ""]
    lines += ["| what | how many |", "|---|---:|"]
    lines += [f"| {what} | {n:,} |" for what, n in {**about["checks"], "failures": about["failures"]}.items()]
    if "limits" in about:
        limits = about["limits"]
        lines += [
            "",
            f"Each file had {limits['seconds']:g} s and {limits['bytes']:,} bytes beyond what the process had.",
        ]
    if "measured" in about:
        lines += ["", *table(about["measured"])]
    where = ", ".join([f"{name.replace('_', ' ')} {value}" for name, value in about["environment"].items()])
    return [*lines, "", f"Seed {about['seed']}; {where}.", ""]


def table(measured: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What was measured, a row for each kind."""
    names = list(next(iter(measured.values())))
    lines = [f"| | {' | '.join(names)} |", f"|---{'|---:' * len(names)}|"]
    for kind, numbers in measured.items():
        cells = [f"{x:,}" if isinstance(x, int) else f"{x:.3f}" for x in numbers.values()]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines
