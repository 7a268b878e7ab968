"""Fusion: the groups of operations that become one kernel, and the iteration space of each."""
