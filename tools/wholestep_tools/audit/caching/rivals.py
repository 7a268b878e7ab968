"""`wholestep audit rivals`: processes that share a cold cache, and are killed at any instant, leave it sound."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from wholestep.errors import CommandError
from wholestep_tools.audit.campaign import Audit
from wholestep_tools.audit.record import record

CLAIM = "Processes that fill one cache at once, some of them killed, read right entries, and leave no other file"
CHILDREN = 32

SCRIPT = """
import json, os, random, signal, sys, time
from pathlib import Path
from wholestep.runtime.cache.private_folder import CacheEntry, PrivateFolder
place, rounds, count, seed = Path(sys.argv[1]), *map(int, sys.argv[2:])
draw, failures, killed = random.Random(seed), [], 0

def rival(name, entry):
    try:
        for _ in range(8):
            found = PrivateFolder(place).get(name)
            if found is not None and found != entry:
                os._exit(1)
            PrivateFolder(place).put(name, entry)
        os._exit(0)
    except BaseException:
        os._exit(2)

for number in range(rounds):
    name = f"{draw.getrandbits(256):064x}"
    entry = CacheEntry((draw.randbytes(256) * 2000,), {"a": number})
    children = [os.fork() or rival(name, entry) for _ in range(count)]
    ended = set(draw.sample(children, 3 * count // 8))
    for child in ended:
        time.sleep(draw.random() * 0.01)
        os.kill(child, signal.SIGKILL)
    for child in children:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code and not (child in ended and code == -signal.SIGKILL):
            failures.append(f"round {number}: a process ended with {code}")
    killed += len(ended)
    PrivateFolder(place).put(name, entry)
    if PrivateFolder(place).get(name) != entry:
        failures.append(f"round {number}: the entry is another one")
    PrivateFolder(place).tidy(older=-1)
    left = [file.name for file in place.iterdir()]
    if left != [name + ".code"]:
        failures.append(f"round {number}: there is {sorted(left)[:3]}")
    (place / (name + ".code")).unlink(missing_ok=True)
print(json.dumps({"failures": failures, "killed": killed}))
"""


def rivals(folder: Path, rounds: int, children: int, seed: int) -> dict[str, Any]:
    """The outcome of so many rounds of so many processes, in a process of its own, which forks."""
    command = [sys.executable, "-c", SCRIPT, str(folder / "cache"), str(rounds), str(children), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failures": [f"the process ended with {done.returncode}: {done.stderr[-500:]}"], "killed": 0}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many rounds; the record of it. Raises CommandError where nothing can fork."""
    if sys.platform == "win32":
        raise CommandError("audit rivals forks processes", hint="run it on a system that can")
    with tempfile.TemporaryDirectory() as place:
        found = rivals(Path(place), count, CHILDREN, seed)
    checks = {"rounds": count, "processes": count * CHILDREN, "of them killed": found["killed"]}
    return record("rivals", CLAIM, checks, found["failures"], seed=seed)


AUDIT = Audit(
    "rivals",
    audit,
    500,
    "let processes fill one cache at once, and kill some",
    """\
In each round 32 processes read and write the same entry of half a megabyte, which was not there before, eight
times each; twelve of them get SIGKILL at random instants. Whoever reads must see the whole entry or none.
Afterwards the entry must be right, and what killed processes left must be gone once the folder is tidied.""",
)
