"""Programs as files of other systems: operations that a system lacks are rewritten in its own, and then printed."""
