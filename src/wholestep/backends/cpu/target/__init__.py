"""The CPU as a target of lowering: its schedule, its library calls, its caches and values in files."""
