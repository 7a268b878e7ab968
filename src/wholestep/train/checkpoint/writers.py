"""Tags of unfinished files, by which a later save sees that their writer is gone."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from pathlib import Path

BOOT, SPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
ENDED = ("Z", "X")
"""The states of a process that has ended, and of which nobody has asked how."""
TAG = r"(?P<place>[0-9a-f]{12})(?P<pid>[0-9a-f]{8})(?P<start>[0-9a-f]{12})[0-9a-f]{8}"
"""The machine and its process numbers, the number of the process, the time it began, and a few random digits."""


def tag() -> str:
    """A tag of this process that no other file has.

    >>> gone(tag()), len(tag()), tag() == tag()
    (False, 40, False)
    """
    pid = os.getpid()
    return f"{machine_identity()}{pid & 0xFFFFFFFF:08x}{process_state(pid)[1]:012x}{os.urandom(4).hex()}"


def gone(text: str) -> bool:
    """True if the process of a tag has ended; False wherever that cannot be known, as of another machine.

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
    """The machine since it was started, and the numbers of processes that are seen from here."""
    try:
        known = [BOOT.read_text(encoding="ascii"), os.readlink(SPACE)]
    except OSError:
        known = []
    return hashlib.sha256("\n".join([socket.gethostname(), *known]).encode()).hexdigest()[:12]


def process_state(pid: int) -> tuple[str, int]:
    """The state of a process, and when it began, in the system's ticks; "" and 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[19]) & (1 << 48) - 1
    except (OSError, ValueError, IndexError):
        return "", 0
