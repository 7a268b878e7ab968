"""Native programs: a step that runs without Python, from its plans: its block of memory, its header, its state file."""
