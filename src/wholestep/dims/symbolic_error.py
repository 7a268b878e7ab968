"""The error for a number that is asked of a size that has none yet, and the ways out."""

from __future__ import annotations

NUMBER = "float(x.shape[0]) is a number that the program computes with, or divide an array by the size, or use //"
CHOICE = "float(x.shape[0]) > 8 in np.where or ws.cond chooses when the program runs; or compile for numbers"
PLAIN = "ws.scan goes along an axis, ws.fori_loop(0, x.shape[0], ...) counts; or compile for numbers"


class SymbolicError(TypeError, ValueError):
    """A symbolic size where a plain number is required."""

    told = False
    """The message names the user's line, and the function that asked."""

    def __init__(self, message: str, hint: str = "write it without that size, or compile for numbers") -> None:
        super().__init__(message)
        self.hint = hint
