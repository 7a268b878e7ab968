"""Lowering: a graph becomes a plan, kernels in an order with every buffer's place in memory."""

from wholestep.lower import elements  # the rules of elements enter themselves

__all__ = ["elements"]
