"""The time after which a test counts a process or thread as hung: so long that a loaded machine is no failure."""

HANG = 900.0
"""Seconds."""
