"""Transforms from graphs to graphs of another function: forward derivative, reverse derivative, batching."""
