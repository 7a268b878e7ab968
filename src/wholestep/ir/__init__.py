"""The array language: what a program is, how it is built, checked and printed."""

from wholestep.ir import text, verify

__all__ = ["text", "verify"]
