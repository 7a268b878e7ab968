"""Audits of processes: memory, threads, forks and many calls."""
