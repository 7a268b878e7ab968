"""Tags in the names of unfinished files, by which a later save detects that the writing process has ended."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from pathlib import Path

BOOT, SPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
ENDED = ("Z", "X")
"""The states of a process that has ended and was not waited for yet."""
TAG = r"(?P<place>[0-9a-f]{12})(?P<pid>[0-9a-f]{8})(?P<start>[0-9a-f]{12})[0-9a-f]{8}"
"""The machine and its process namespace, the process ID, the start time of the process, and a few random digits."""


def tag() -> str:
    """A unique tag of this process.

    >>> gone(tag()), len(tag()), tag() == tag()
    (False, 40, False)
    """
    pid = os.getpid()
    return f"{machine_identity()}{pid & 0xFFFFFFFF:08x}{process_state(pid)[1]:012x}{os.urandom(4).hex()}"


def gone(text: str) -> bool:
    """True if the process of a tag has ended; False where that is unknown, as for another machine.

    >>> gone("0123456789abcdef")
    False
    """
    found = re.fullmatch(TAG, text)
    if (
        found is None or found["place"] != machine_identity() or os.name == "nt"
    ):  # there a signal, even 0, ends a process
        return False
    pid, start = int(found["pid"], 16), int(found["start"], 16)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    state, now = process_state(pid)
    return state in ENDED or (0 not in (now, start) and now != start)


def machine_identity() -> str:
    """A digest of the host name, the machine's boot and the process namespace."""
    try:
        known = [BOOT.read_text(encoding="utf-8"), os.readlink(SPACE)]
    except OSError:
        known = []
    return hashlib.sha256("\n".join([socket.gethostname(), *known]).encode()).hexdigest()[:12]


def process_state(pid: int) -> tuple[str, int]:
    """The state of a process, and its start time in the system's ticks; "" and 0 where they are unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[19]) & (1 << 48) - 1
    except (OSError, ValueError, IndexError):
        return "", 0
