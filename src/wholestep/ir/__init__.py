"""The array language: graphs, and their construction, verification and printing."""

from wholestep.ir import text, verify

__all__ = ["text", "verify"]
