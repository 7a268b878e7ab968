"""Audits of numbers: programs, gradients and refusals against what judges them."""
