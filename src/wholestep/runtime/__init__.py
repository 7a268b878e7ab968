"""Runtime: programs made ready to run, with the memory that they keep."""
