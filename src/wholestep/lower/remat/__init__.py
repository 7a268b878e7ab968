"""Rematerialization: fit a program into a memory budget by recomputing values or spilling them to a file."""
