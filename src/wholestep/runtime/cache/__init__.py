"""The code cache on disk, and the machine's measured rates."""
