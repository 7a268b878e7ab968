"""Lowering: compile a graph into a program of kernels and routine calls with every buffer assigned."""

from wholestep.lower.kernels import op_rules  # the rules of elements enter themselves

__all__ = ["op_rules"]
