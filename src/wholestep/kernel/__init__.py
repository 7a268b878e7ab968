"""The kernel language: what a backend prints. One loop nest, scalar values, affine loads and stores."""

from wholestep.kernel import text

__all__ = ["text"]
