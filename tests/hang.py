"""How long a test waits before what it started counts as hung: so long that a loaded machine is no failure."""

HANG = 900.0
"""Seconds."""
