"""The kernel language, which backends print: one loop nest, scalar values, affine loads and stores."""

from wholestep.kernel import text

__all__ = ["text"]
