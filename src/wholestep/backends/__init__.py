"""Backends: the reference interpreter of graphs, and code generation for the CPU."""
