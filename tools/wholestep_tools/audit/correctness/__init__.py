"""Audits of numbers: programs, gradients and refusals against references."""
